//! Writing a config that includes files: what they say stays in them.

use serde_json::{Map, Value};

use super::{INCLUDE, includes, merged};
use crate::config::edit::{Step, ValuePath};

/// Something of a file would have to change that cannot be overruled beside the
/// `$include`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::config) struct Lost {
    /// Where.
    pub path: ValuePath,
    /// The file or files, as the config names them.
    pub file: String,
}

/// What the config file has to say so that it means `wanted`: where `raw`, its
/// text, includes files, that stays, and what is different stands beside it.
/// `bare` says what an object with `$include` means.
///
/// # Errors
/// For what cannot be said beside it: something taken away, or another list.
pub(in crate::config) fn kept(
    wanted: Value,
    raw: &Value,
    bare: &dyn Fn(&Value) -> Option<Value>,
) -> Result<Value, Lost> {
    node(&mut Vec::new(), wanted, raw, bare)
}

fn node(
    path: &mut Vec<Step>,
    wanted: Value,
    raw: &Value,
    bare: &dyn Fn(&Value) -> Option<Value>,
) -> Result<Value, Lost> {
    match (wanted, raw) {
        // Whoever writes the key himself means it.
        (Value::Object(wanted), Value::Object(known)) if wanted.contains_key(INCLUDE) => {
            members(path, wanted, known, bare)
        }
        (wanted, Value::Object(known)) if known.contains_key(INCLUDE) => {
            beside(path, &wanted, known, bare)
        }
        (Value::Object(wanted), Value::Object(known)) => members(path, wanted, known, bare),
        (Value::Array(wanted), Value::Array(known)) if known.iter().any(includes) => {
            items(path, wanted, known, bare)
        }
        (wanted, _) => Ok(wanted),
    }
}

/// A list with the items that it had in the form that they had; which one is meant is told
/// by what it means, not by its place. One that is new stays as it is.
fn items(
    path: &mut Vec<Step>,
    wanted: Vec<Value>,
    known: &[Value],
    bare: &dyn Fn(&Value) -> Option<Value>,
) -> Result<Value, Lost> {
    let meaning = |raw: &Value| if includes(raw) { bare(raw) } else { Some(raw.clone()) };
    let meanings: Vec<_> = known.iter().map(meaning).collect();
    let mut rest: Vec<usize> = (0..known.len()).collect();
    let found = wanted.iter().map(|item| {
        let is_meant = |place: &usize| {
            let (raw, meaning) = (known.get(*place), meanings.get(*place).and_then(Option::as_ref));
            raw.zip(meaning).is_some_and(|(raw, meaning)| is_same(raw, meaning, item))
        };
        let at = rest.iter().position(is_meant)?;
        Some(rest.remove(at))
    });
    // The rest is known only when each has been looked for.
    let found: Vec<Option<usize>> = found.collect();
    // Edited where it was: nothing of it says which one it is but its place.
    let is_nameless = |item: &Value| item.get("id").is_none();
    let is_as_long = wanted.len() == known.len();
    let items = wanted.into_iter().zip(found).enumerate().map(|(index, (item, found))| {
        let is_free = |place: &usize| {
            let meaning = meanings.get(*place).and_then(Option::as_ref);
            is_as_long && rest.contains(place) && meaning.is_some_and(is_nameless)
        };
        let place = found.or_else(|| Some(index).filter(is_free).filter(|_| is_nameless(&item)));
        let Some(known) = place.and_then(|place| known.get(place)) else { return Ok(item) };
        path.push(Step::Index(index));
        let kept = node(path, item, known, bare);
        path.pop();
        kept
    });
    Ok(Value::Array(items.collect::<Result<_, _>>()?))
}

/// Whether an item of a list is that of the file, which means this.
fn is_same(raw: &Value, meaning: &Value, item: &Value) -> bool {
    if item.get(INCLUDE).is_some() {
        return item.get(INCLUDE) == raw.get(INCLUDE);
    }
    match (meaning.get("id"), item.get("id")) {
        (Some(known), Some(wanted)) => known == wanted,
        _ => meaning == item,
    }
}

fn members(
    path: &mut Vec<Step>,
    wanted: Map<String, Value>,
    known: &Map<String, Value>,
    bare: &dyn Fn(&Value) -> Option<Value>,
) -> Result<Value, Lost> {
    let members = wanted.into_iter().map(|(name, member)| {
        let Some(known) = known.get(&name) else { return Ok((name, member)) };
        path.push(Step::Key(name.clone()));
        let kept = node(path, member, known, bare);
        path.pop();
        Ok((name, kept?))
    });
    Ok(Value::Object(members.collect::<Result<_, _>>()?))
}

/// The object with the same `$include`, and beside it what it takes.
fn beside(
    path: &[Step],
    wanted: &Value,
    known: &Map<String, Value>,
    bare: &dyn Fn(&Value) -> Option<Value>,
) -> Result<Value, Lost> {
    let named = known.get(INCLUDE).cloned().unwrap_or_default();
    let only = Value::Object(Map::from_iter([(INCLUDE.to_owned(), named.clone())]));
    let file = match &named {
        Value::String(name) => name.clone(),
        other => other.to_string(),
    };
    let lost = |path: &[Step]| Lost { path: path.to_vec().into(), file: file.clone() };
    let Some(under) = bare(&only) else { return Err(lost(path)) };
    let mut whole = Map::from_iter([(INCLUDE.to_owned(), named)]);
    if *wanted != under {
        let over = difference(&under, wanted);
        let (Value::Object(over), true) = (&over, under.is_object()) else {
            return Err(lost(path));
        };
        let reached = merged(under.clone(), Value::Object(over.clone()));
        if let Some(place) = first_difference(&mut path.to_vec(), &reached, wanted) {
            return Err(lost(&place));
        }
        whole.extend(over.clone());
    }
    Ok(Value::Object(whole))
}

/// What has to be on top of `under` to get `wanted`, if anything does.
fn difference(under: &Value, wanted: &Value) -> Value {
    match (under, wanted) {
        (Value::Object(under), Value::Object(wanted)) => {
            let changed = wanted.iter().filter_map(|(name, value)| match under.get(name) {
                None => Some((name.clone(), value.clone())),
                Some(known) if known == value => None,
                Some(known) => Some((name.clone(), difference(known, value))),
            });
            Value::Object(changed.collect())
        }
        // A list may only become longer: lists follow each other.
        (Value::Array(under), Value::Array(wanted)) if wanted.starts_with(under) => {
            Value::Array(wanted.iter().skip(under.len()).cloned().collect())
        }
        (_, wanted) => wanted.clone(),
    }
}

fn first_difference(path: &mut Vec<Step>, one: &Value, other: &Value) -> Option<Vec<Step>> {
    if one == other {
        return None;
    }
    if let (Value::Object(one), Value::Object(other)) = (one, other) {
        for name in one.keys().chain(other.keys()) {
            let (value, wanted) = (one.get(name), other.get(name));
            if value == wanted {
                continue;
            }
            path.push(Step::Key(name.clone()));
            return match (value, wanted) {
                (Some(value), Some(wanted)) => first_difference(path, value, wanted),
                _ => Some(path.clone()),
            };
        }
    }
    Some(path.clone())
}
