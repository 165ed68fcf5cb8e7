//! From one config to another, as few places as possible.

use serde_json::Value;

use crate::config::edit::{self, EditError, Step, ValuePath};

/// With more changes than this below one place it is written anew as a whole, and so are more
/// places with more in all: each edit reads the whole text.
const CHANGES_MAX: usize = 200;

/// What is different at one place.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// This is there now.
    Set(ValuePath, Value),
    /// Nothing is there any more.
    Remove(ValuePath),
}

/// `before` with a patch: members of objects are merged, `null` takes away, and
/// of two lists of objects with ids those with the same id are merged.
pub fn merged(before: &Value, patch: &Value) -> Value {
    match (before, patch) {
        (_, Value::Object(members)) => {
            let mut after = before.as_object().cloned().unwrap_or_default();
            for (name, member) in members {
                if member.is_null() {
                    after.shift_remove(name);
                } else {
                    let old = after.get(name).unwrap_or(&Value::Null);
                    let new = merged(old, member);
                    after.insert(name.clone(), new);
                }
            }
            Value::Object(after)
        }
        (Value::Array(old), Value::Array(new)) if have_ids(old) && have_ids(new) => {
            let mut items = old.clone();
            for item in new {
                match items.iter_mut().find(|known| known.get("id") == item.get("id")) {
                    Some(known) => *known = merged(known, item),
                    None => items.push(item.clone()),
                }
            }
            Value::Array(items)
        }
        (_, other) => other.clone(),
    }
}

fn have_ids(items: &[Value]) -> bool {
    !items.is_empty() && items.iter().all(|item| item.get("id").is_some_and(Value::is_string))
}

/// What leads from one to the other, in an order in which it can be done; with more than `most`
/// changes below a place, all that is there is one.
fn changes(before: &Value, after: &Value, most: usize) -> Vec<Change> {
    let mut found = Vec::new();
    compare(&mut Vec::new(), before, after, most, &mut found);
    found
}

fn compare(
    path: &mut Vec<Step>,
    before: &Value,
    after: &Value,
    most: usize,
    found: &mut Vec<Change>,
) {
    if before == after {
        return;
    }
    let known = found.len();
    look_into(path, before, after, most, found);
    if found.len() - known > most && !path.is_empty() {
        found.truncate(known);
        found.push(Change::Set(path.clone().into(), after.clone()));
    }
}

fn look_into(
    path: &mut Vec<Step>,
    before: &Value,
    after: &Value,
    most: usize,
    found: &mut Vec<Change>,
) {
    let at = |step: Step, path: &mut Vec<Step>, change: &mut dyn FnMut(&mut Vec<Step>)| {
        path.push(step);
        change(path);
        path.pop();
    };
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            for name in old.keys().filter(|name| !new.contains_key(*name)) {
                at(Step::Key(name.clone()), path, &mut |path| {
                    found.push(Change::Remove(path.clone().into()));
                });
            }
            for (name, member) in new {
                at(Step::Key(name.clone()), path, &mut |path| match old.get(name) {
                    Some(known) => compare(path, known, member, most, found),
                    None => found.push(Change::Set(path.clone().into(), member.clone())),
                });
            }
        }
        (Value::Array(old), Value::Array(new)) if let Some(kept) = kept_items(old, new) => {
            let is_gone = |index: &usize| !kept.contains(index);
            // From the back, so that those in front of it stay where they are.
            for index in (0..old.len()).rev().filter(is_gone) {
                at(Step::Index(index), path, &mut |path| {
                    found.push(Change::Remove(path.clone().into()));
                });
            }
            for (index, item) in new.iter().enumerate() {
                let known = kept.get(index).and_then(|known| old.get(*known));
                at(Step::Index(index), path, &mut |path| match known {
                    Some(known) => compare(path, known, item, most, found),
                    None => found.push(Change::Set(path.clone().into(), item.clone())),
                });
            }
        }
        _ => found.push(Change::Set(path.clone().into(), after.clone())),
    }
}

/// Which items of a list are still there, where others only go away or come
/// behind them; `None` when it is another list.
fn kept_items(old: &[Value], new: &[Value]) -> Option<Vec<usize>> {
    if old.is_empty() || new.is_empty() {
        return None;
    }
    if old.len() <= new.len() {
        return Some((0..old.len()).collect());
    }
    let mut rest = old.iter().enumerate();
    let mut place = |item: &Value| rest.find(|(_, known)| is_same(known, item));
    new.iter().map(|item| place(item).map(|(index, _)| index)).collect()
}

/// Whether an item is this one, perhaps with other members.
fn is_same(known: &Value, item: &Value) -> bool {
    match (known.get("id"), item.get("id")) {
        (Some(old), Some(new)) => old == new,
        _ => known == item,
    }
}

/// `text` so that it means `after`: outside of what is different it stays as it
/// is, comments included.
///
/// # Errors
/// When the text is no JSON5 object.
pub fn rewritten(text: &str, before: &Value, after: &Value) -> Result<String, EditError> {
    let mut most = CHANGES_MAX;
    let mut found = changes(before, after, most);
    while found.len() > CHANGES_MAX && most > 0 {
        most /= 2;
        found = changes(before, after, most);
    }
    if found.len() > CHANGES_MAX || text.trim().is_empty() {
        return Ok(format!("{after:#}\n"));
    }
    let mut edited = text.to_owned();
    for change in &found {
        edited = match change {
            Change::Set(path, value) => edit::set(&edited, path, value)?,
            Change::Remove(path) => edit::remove(&edited, path)?,
        };
    }
    Ok(edited)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::parse;
    use crate::support::json;

    #[test]
    fn a_patch_merges_members_takes_away_and_finds_items_by_their_ids() {
        let before = json!({
            "a": {"b": 1, "c": 2}, "list": [1, 2],
            "agents": {"list": [{"id": "main", "name": "M"}, {"id": "b", "tools": {"deny": ["x"]}}]},
        });
        let patch = json!({
            "a": {"b": null, "d": {"e": null, "f": 1}}, "list": [3],
            "agents": {"list": [{"id": "b", "tools": {"allow": ["y"]}}, {"id": "c"}]},
        });
        let after = json!({
            "a": {"c": 2, "d": {"f": 1}}, "list": [3],
            "agents": {"list": [{"id": "main", "name": "M"},
                {"id": "b", "tools": {"deny": ["x"], "allow": ["y"]}}, {"id": "c"}]},
        });
        assert_eq!(merged(&before, &patch), after);
        assert_eq!(merged(&json!({"a": 1}), &json!({"a": {"b": 2}})), json!({"a": {"b": 2}}));
    }

    #[test]
    fn a_text_keeps_all_that_is_not_different() {
        let text = "{\n  // who listens\n  gateway: { port: 1, bind: 'lan' }, // open\n  \
                    list: [ 1, /* two */ 2 ],\n  gone: true,\n}\n";
        let before = parse(text, Path::new("f")).unwrap();
        let after =
            json!({"gateway": {"port": 2, "bind": "lan"}, "list": [1, 2, 3], "new": {"a": "b"}});
        let edited = rewritten(text, &before, &after).unwrap();
        assert_eq!(parse(&edited, Path::new("f")).unwrap(), after);
        for kept in ["// who listens", "bind: 'lan'", "// open", "/* two */"] {
            assert!(edited.contains(kept), "{edited}");
        }
        assert_eq!(rewritten(text, &before, &before).unwrap(), text);
        assert_eq!(rewritten("", &json!({}), &json!({"a": 1})).unwrap(), "{\n  \"a\": 1\n}\n");
        let shorter = json!({"gateway": before["gateway"], "list": [2], "gone": true});
        let edited = rewritten(text, &before, &shorter).unwrap();
        assert_eq!(parse(&edited, Path::new("f")).unwrap(), shorter);
        assert!(edited.contains("list: [ /* two */ 2 ],"), "{edited}");
    }

    #[test]
    fn however_much_is_different_what_is_not_keeps_its_comments() {
        let text = "{\n  // who listens\n  gateway: { port: 1 }, // door\n  \
                    models: { list: [ 0 ] }, // many\n  a: {},\n  b: {}, // free\n}\n";
        let before = parse(text, Path::new("f")).unwrap();
        let (numbers, names) = (0..300, (0..150).map(|n| (format!("n{n}"), json!(n))));
        let longer = json!({"list": numbers.collect::<Vec<_>>()});
        let many = Value::Object(names.collect());
        // Below one place, and more in all.
        for (models, others) in [(&longer, &json!({})), (&before["models"], &many)] {
            let after = json!({"gateway": {"port": 1}, "models": models, "a": others, "b": others});
            let edited = rewritten(text, &before, &after).unwrap();
            assert_eq!(parse(&edited, Path::new("f")).unwrap(), after);
            for kept in ["// who listens\n", "{ port: 1 }, // door", "// many", "// free"] {
                assert!(edited.contains(kept), "{kept}: {edited}");
            }
        }
    }

    #[test]
    fn what_stays_in_a_list_keeps_its_comments_when_others_go() {
        let entry =
            |id: &str| format!("    // of {id}\n    {{ id: '{id}', name: 'x' }}, // {id}\n");
        let text = |ids: &[&str]| {
            let entries: String = ids.iter().map(|id| entry(id)).collect();
            format!("{{\n  list: [\n{entries}  ],\n}}\n")
        };
        let before = text(&["a", "b", "c", "d"]);
        let meant = parse(&before, Path::new("f")).unwrap();
        let item = |id: &str, name: &str| json!({"id": id, "name": name});
        for (after, kept) in [
            (json!([item("b", "x"), item("d", "y")]), &["b", "d"][..]),
            (json!([item("a", "y"), item("b", "x"), item("c", "x")]), &["a", "b", "c"]),
            (json!([item("d", "x")]), &["d"]),
        ] {
            let after = json!({"list": after});
            let edited = rewritten(&before, &meant, &after).unwrap();
            assert_eq!(parse(&edited, Path::new("f")).unwrap(), after, "{edited}");
            for id in kept {
                let own = [format!("// of {id}\n"), format!("}}, // {id}\n")];
                assert!(own.iter().all(|own| edited.contains(own.as_str())), "{edited}");
            }
        }
        // Another order is another list.
        let turned = json!({"list": [item("c", "x"), item("b", "x")]});
        let edited = rewritten(&before, &meant, &turned).unwrap();
        assert_eq!(parse(&edited, Path::new("f")).unwrap(), turned);
    }
}
