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
    let said = node(&mut Vec::new(), None, wanted, Some(raw), bare)?;
    Ok(said.unwrap_or_else(|| Value::Object(Map::new())))
}

/// What a text means, where `bare` says what an object with nothing but `$include` does;
/// `None` when that cannot be told.
pub(super) fn meant(raw: &Value, bare: &dyn Fn(&Value) -> Option<Value>) -> Option<Value> {
    match raw {
        Value::Object(members) => {
            let beside = members.iter().filter(|(name, _)| *name != INCLUDE);
            let own = beside.map(|(name, member)| Some((name.clone(), meant(member, bare)?)));
            let own: Map<_, _> = own.collect::<Option<_>>()?;
            let Some(named) = members.get(INCLUDE) else { return Some(Value::Object(own)) };
            let under = bare(&only(named))?;
            Some(if own.is_empty() { under } else { merged(under, Value::Object(own)) })
        }
        Value::Array(items) => items.iter().map(|item| meant(item, bare)).collect(),
        other => Some(other.clone()),
    }
}

/// What has to be said on top of `under`, which files further out say, to mean `wanted`,
/// where the text says `known` now; `None` when nothing has to be.
fn node(
    path: &mut Vec<Step>,
    under: Option<&Value>,
    wanted: Value,
    known: Option<&Value>,
    bare: &dyn Fn(&Value) -> Option<Value>,
) -> Result<Option<Value>, Lost> {
    let is_it = |known: &&Value| {
        let meaning = meant(known, bare).map(|own| over(under, own));
        !includes(&wanted) && meaning.as_ref() == Some(&wanted)
    };
    if let Some(known) = known.filter(is_it) {
        return Ok(Some(known.clone()));
    }
    let known = known.filter(|known| includes(known));
    Ok(match (wanted, known) {
        // Whoever writes the key himself means it.
        (Value::Object(wanted), Some(Value::Object(known))) if wanted.contains_key(INCLUDE) => {
            Some(members(path, None, wanted, known, bare)?)
        }
        (wanted, Some(Value::Object(known))) if known.contains_key(INCLUDE) => {
            Some(beside(path, under, wanted, known, bare)?)
        }
        (Value::Object(wanted), Some(Value::Object(known))) => {
            Some(members(path, under, wanted, known, bare)?)
        }
        (Value::Array(wanted), Some(Value::Array(known))) => {
            let begun = under.and_then(Value::as_array).filter(|list| wanted.starts_with(list));
            let first = begun.map_or(0, Vec::len);
            let rest = wanted.into_iter().skip(first).collect();
            Some(items(path, first, rest, known, bare)?)
        }
        (wanted, _) => match under {
            None => Some(wanted),
            Some(under) => (*under != wanted).then(|| difference(under, &wanted)),
        },
    })
}

/// A list with the items that it had in the form that they had; which one is meant is told
/// by what it means, not by its place. One that is new stays as it is. `first` is where they
/// begin in the whole list.
fn items(
    path: &mut Vec<Step>,
    first: usize,
    wanted: Vec<Value>,
    known: &[Value],
    bare: &dyn Fn(&Value) -> Option<Value>,
) -> Result<Value, Lost> {
    let meanings: Vec<_> = known.iter().map(|raw| meant(raw, bare)).collect();
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
        path.push(Step::Index(first + index));
        let kept = node(path, None, item, Some(known), bare);
        path.pop();
        kept.map(Option::unwrap_or_default)
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

/// An object with the members that it needs on top of `under`.
fn members(
    path: &mut Vec<Step>,
    under: Option<&Value>,
    wanted: Map<String, Value>,
    known: &Map<String, Value>,
    bare: &dyn Fn(&Value) -> Option<Value>,
) -> Result<Value, Lost> {
    let mut said = Map::new();
    for (name, member) in wanted {
        let under = under.and_then(|under| under.get(&name));
        path.push(Step::Key(name.clone()));
        let member = node(path, under, member, known.get(&name), bare);
        path.pop();
        if let Some(member) = member? {
            said.insert(name, member);
        }
    }
    Ok(Value::Object(said))
}

/// The object with the same `$include`, and beside it what it takes.
fn beside(
    path: &mut Vec<Step>,
    under: Option<&Value>,
    wanted: Value,
    known: &Map<String, Value>,
    bare: &dyn Fn(&Value) -> Option<Value>,
) -> Result<Value, Lost> {
    let named = known.get(INCLUDE).cloned().unwrap_or_default();
    let file = match &named {
        Value::String(name) => name.clone(),
        other => other.to_string(),
    };
    let lost = |path: &[Step]| Lost { path: path.to_vec().into(), file: file.clone() };
    let mut whole = only(&named);
    let Some(own) = bare(&whole) else { return Err(lost(path)) };
    let below = over(under, own);
    let (is_below, meaning) = (wanted == below, meant(&wanted, bare).unwrap_or_default());
    let (Value::Object(wanted), true) = (wanted, below.is_object()) else {
        return if is_below { Ok(whole) } else { Err(lost(path)) };
    };
    let more = members(path, Some(&below), wanted, known, bare)?;
    if let (Value::Object(whole), Value::Object(more)) = (&mut whole, more) {
        whole.extend(more);
    }
    let reached = meant(&whole, bare).map(|own| over(under, own)).unwrap_or_default();
    match first_difference(&mut path.clone(), &reached, &meaning) {
        Some(place) => Err(lost(&place)),
        None => Ok(whole),
    }
}

/// The object that says nothing else.
fn only(named: &Value) -> Value {
    Value::Object(Map::from_iter([(INCLUDE.to_owned(), named.clone())]))
}

/// The same on top of what is below it, if anything is.
fn over(under: Option<&Value>, own: Value) -> Value {
    match under {
        Some(under) => merged(under.clone(), own),
        None => own,
    }
}

/// What has to be on top of `under` to get `wanted`, if anything does.
fn difference(under: &Value, wanted: &Value) -> Value {
    match (under, wanted) {
        // By which somebody means other files.
        (_, Value::Object(others)) if others.contains_key(INCLUDE) => wanted.clone(),
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
