//! What was hidden comes back.

use serde_json::Value;

use super::super::edit::{Step, ValuePath};
use super::{REDACTED, redacted_at};

/// Something is hidden that there was not before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}: the placeholder {REDACTED} stands for nothing here; write the value itself")]
pub struct LostSecret(pub ValuePath);

/// Each place where `shown` has something in the stead of a secret, with the
/// value that `before` has there. In a list of objects with ids, an item is the
/// one with the same id; another item that moved is the only one that is shown so.
///
/// # Errors
/// For a placeholder where nothing was hidden.
pub fn restored(shown: &Value, before: &Value) -> Result<Vec<(ValuePath, Value)>, LostSecret> {
    let mut found = Vec::new();
    let (mut here, mut there) = (Vec::new(), Vec::new());
    search(&mut here, shown, &mut there, Some(before), before, &mut found)?;
    Ok(found)
}

fn search(
    here: &mut Vec<Step>,
    shown: &Value,
    there: &mut Vec<Step>,
    old: Option<&Value>,
    before: &Value,
    found: &mut Vec<(ValuePath, Value)>,
) -> Result<(), LostSecret> {
    match shown {
        Value::String(text) if text.contains(REDACTED) => {
            let same = old.filter(|old| was_shown_as(before, there, old, shown));
            let old = same.ok_or_else(|| LostSecret(here.clone().into()))?;
            found.push((here.clone().into(), old.clone()));
            Ok(())
        }
        Value::Object(members) => members.iter().try_for_each(|(name, member)| {
            let step = Step::Key(name.clone());
            let next = old.and_then(|old| old.get(name));
            down(here, (step.clone(), member), there, (step, next), before, found)
        }),
        Value::Array(items) => {
            let was = old.map(|old| redacted_at(there, old));
            let was = was.as_ref().and_then(Value::as_array);
            items.iter().enumerate().try_for_each(|(index, item)| {
                let place = was.and_then(|was| same_item(was, items, index));
                let next = place.and_then(|place| old?.get(place));
                let step = Step::Index(place.unwrap_or(index));
                down(here, (Step::Index(index), item), there, (step, next), before, found)
            })
        }
        _ => Ok(()),
    }
}

fn down(
    here: &mut Vec<Step>,
    (step, shown): (Step, &Value),
    there: &mut Vec<Step>,
    (old_step, old): (Step, Option<&Value>),
    before: &Value,
    found: &mut Vec<(ValuePath, Value)>,
) -> Result<(), LostSecret> {
    here.push(step);
    there.push(old_step);
    let outcome = search(here, shown, there, old, before, found);
    here.pop();
    there.pop();
    outcome
}

/// Whether `old`, which stands at `path` of `before`, is shown like this.
fn was_shown_as(before: &Value, path: &[Step], old: &Value, shown: &Value) -> bool {
    if redacted_at(path, old) == *shown {
        return true;
    }
    // The value of a flag in a list of arguments is only told by its list.
    let Some((Step::Index(index), above)) = path.split_last() else { return false };
    let list = ValuePath::from(above.to_vec());
    list.find(before).is_some_and(|list| redacted_at(above, list).get(index) == Some(shown))
}

/// Where the item that is at `index` now was in a list that was shown like this; none
/// when nobody knows.
fn same_item(was: &[Value], items: &[Value], index: usize) -> Option<usize> {
    let item = items.get(index)?;
    let id_of = |item: &Value| {
        let id = item.get("id").and_then(Value::as_str);
        id.filter(|id| !id.contains(REDACTED)).map(str::to_owned)
    };
    if let Some(id) = id_of(item) {
        return was.iter().position(|item| id_of(item).as_ref() == Some(&id));
    }
    if !item.to_string().contains(REDACTED) {
        return Some(index);
    }
    let is_bare = |list: &[Value], at: usize| {
        list.get(at).is_some_and(|it| *it == REDACTED) && flag(list, at).is_none()
    };
    if is_bare(items, index) && items.len() != was.len() {
        // Only their order tells them apart: as many as before are the same ones.
        let old: Vec<_> = (0..was.len()).filter(|at| is_bare(was, *at)).collect();
        let new: Vec<_> = (0..items.len()).filter(|at| is_bare(items, *at)).collect();
        let place = new.iter().position(|at| *at == index)?;
        return old.get(place).copied().filter(|_| old.len() == new.len());
    }
    // One that shows nothing is told by the flag before it.
    let is_like = |at: usize| {
        was.get(at) == Some(item) && (*item != REDACTED || flag(was, at) == flag(items, index))
    };
    if is_like(index) {
        return Some(index);
    }
    let mut alike = (0..was.len()).filter(|at| is_like(*at));
    match (alike.next(), alike.next()) {
        (Some(place), None) => Some(place),
        // Edited where it was; in a list of another length it may have been any.
        _ => (!item.is_string() && items.len() == was.len()).then_some(index),
    }
}

/// The flag before an item of arguments.
fn flag(list: &[Value], at: usize) -> Option<&str> {
    list.get(at.checked_sub(1)?)?.as_str().filter(|text| text.starts_with("--"))
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::super::redacted;
    use super::*;

    fn written_back(mut shown: Value, before: &Value) -> Result<Value, String> {
        let secrets = restored(&shown, before).map_err(|error| error.to_string())?;
        for (path, value) in secrets {
            path.put(&mut shown, value);
        }
        Ok(shown)
    }

    #[test]
    fn what_was_shown_comes_back_as_it_was() {
        let before = json!({
            "gateway": {"auth": {"token": "t", "password": {"source": "env", "id": "PW"}}},
            "mcp": {"servers": {"m": {"args": ["--api-key", "k", "--token=t", "-e", "A_TOKEN=t",
                "--header", "Authorization: Bearer b"], "url": "http://u:p@h"}}},
            "secrets": {"providers": {"x": {"source": "exec", "env": {"VAULT": "k"},
                "args": ["--pin", "1234"]}}},
            "models": {"providers": {"p": {"models": [{"id": "m", "headers": {"X-Team": "x"}}]}}},
            "agents": {"list": [{"id": "a", "sandbox": {"docker": {"env": {"A": "k"}}}}]},
            "channels": {"list": [{"id": "a", "botToken": 5}, {"id": "b", "botToken": "2"}],
                "webhookSecret": ["x", "y"]},
        });
        assert_eq!(written_back(redacted(&before), &before), Ok(before.clone()));
        // Items that changed places keep their own secrets.
        let mut moved = redacted(&before);
        moved["channels"]["list"].as_array_mut().unwrap().reverse();
        let back = written_back(moved, &before).unwrap();
        let list = json!([{"id": "b", "botToken": "2"}, {"id": "a", "botToken": 5}]);
        assert_eq!(back["channels"]["list"], list);
    }

    #[test]
    fn an_argument_that_moved_keeps_its_secret() {
        let with = |args: Value| json!({"mcp": {"servers": {"m": {"args": args}}}});
        let hidden = format!("A_TOKEN={REDACTED}");
        let before = with(json!(["run", "-e", "A_TOKEN=s", "image"]));
        let moved = with(json!(["run", "--rm", "-e", hidden, "image"]));
        let expected = with(json!(["run", "--rm", "-e", "A_TOKEN=s", "image"]));
        assert_eq!(written_back(moved, &before), Ok(expected));
        let before = with(json!(["--api-key", "k", "x"]));
        let moved = with(json!(["x", "--api-key", REDACTED]));
        assert_eq!(written_back(moved, &before), Ok(with(json!(["x", "--api-key", "k"]))));
        // The flag before it says which one is meant.
        let before = with(json!(["--api-key", "k", "--token", "t"]));
        let fewer = with(json!(["--token", REDACTED]));
        assert_eq!(written_back(fewer, &before), Ok(with(json!(["--token", "t"]))));
        // Nobody knows which of two that are shown alike is meant.
        let before = with(json!(["-e", "A_TOKEN=s", "-e", "A_TOKEN=t"]));
        let moved = with(json!(["--rm", "-e", hidden, "-e", hidden]));
        let error = written_back(moved, &before).unwrap_err();
        assert!(error.starts_with("mcp.servers.m.args[2]: "), "{error}");
    }

    #[test]
    fn of_arguments_that_show_nothing_none_takes_the_place_of_another() {
        let with = |args: Value| json!({"secrets": {"providers": {"x": {"source": "exec", "args": args}}}});
        let before = with(json!(["read", "kv/house", "${WHERE}"]));
        for (shown, args) in [
            (json!([REDACTED, "kv/flat", "${WHERE}"]), json!(["read", "kv/flat", "${WHERE}"])),
            (
                json!(["-q", REDACTED, REDACTED, "${WHERE}"]),
                json!(["-q", "read", "kv/house", "${WHERE}"]),
            ),
        ] {
            assert_eq!(written_back(with(shown), &before), Ok(with(args)));
        }
        // One has gone, and nobody knows which.
        let error = written_back(with(json!([REDACTED, "${WHERE}"])), &before).unwrap_err();
        assert!(error.starts_with("secrets.providers.x.args[0]: "), "{error}");
    }

    #[test]
    fn a_secret_stays_with_its_item_and_goes_to_no_other() {
        let mapping = |path: &str, token: &str, text: &str| json!({"match": {"path": path}, "token": token, "messageTemplate": text});
        let with = |mappings: Value| json!({"hooks": {"mappings": mappings}});
        let before = with(json!([mapping("a", "s1", "x"), mapping("b", "s2", "x")]));
        let left = with(json!([mapping("b", REDACTED, "x")]));
        assert_eq!(written_back(left, &before), Ok(with(json!([mapping("b", "s2", "x")]))));
        let edited = with(json!([mapping("a", REDACTED, "x"), mapping("b", REDACTED, "y")]));
        let expected = with(json!([mapping("a", "s1", "x"), mapping("b", "s2", "y")]));
        assert_eq!(written_back(edited, &before), Ok(expected));
        // Edited, and in another place than before: it could be anybody's.
        let error = written_back(with(json!([mapping("b", REDACTED, "y")])), &before).unwrap_err();
        assert!(error.starts_with("hooks.mappings[0].token: "), "{error}");
    }

    #[test]
    fn a_placeholder_without_a_secret_is_refused_with_its_path() {
        let before = json!({"gateway": {"port": 1, "auth": {"token": "t"}}});
        for (shown, path) in [
            (json!({"gateway": {"auth": {"password": REDACTED}}}), "gateway.auth.password"),
            (json!({"gateway": {"port": REDACTED}}), "gateway.port"),
            (json!({"agents": {"list": [{"id": "a", "name": REDACTED}]}}), "agents.list[0].name"),
            (json!({"x": {"token": REDACTED}}), "x.token"),
        ] {
            let error = written_back(shown, &before).unwrap_err();
            assert!(error.starts_with(&format!("{path}: ")), "{error}");
        }
    }

    /// A secret must not wander to a place where somebody else reads it.
    #[test]
    fn no_other_place_gets_a_secret() {
        let before = json!({"gateway": {"auth": {"token": "t"}}, "agents": {"list": ["x"]}});
        let shown = json!({"gateway": {"auth": {"token": REDACTED, "mode": REDACTED}}});
        assert!(written_back(shown, &before).is_err());
    }
}
