//! What a form shows beside the schema.

use serde_json::{Map, Value};

use super::find::join;
use super::{FOREIGN, Key, Kind, SECTIONS};
use crate::config::redact::{SLOTS, SlotKind};
use crate::support::json;

/// A hint for each key, by its path with `*` for free names and items: `label`,
/// `help`, `tags`; for sections `group` and `order`; `sensitive`, `advanced`,
/// `placeholder` where they hold.
pub fn hints() -> Map<String, Value> {
    let mut hints = Map::new();
    for key in FOREIGN {
        collect("", key, "advanced", &mut hints);
    }
    for section in SECTIONS {
        collect("", &section.key, section.tag, &mut hints);
        if let Some(hint) = hints.get_mut(section.key.name) {
            hint["group"] = section.key.label().into();
            hint["order"] = section.order.into();
        }
    }
    hints
}

fn collect(path: &str, key: &Key, tag: &str, hints: &mut Map<String, Value>) {
    let path = join(path, key.name);
    let mut hint = json!({"label": key.label(), "help": key.help});
    let mut tags = vec![tag];
    if is_sensitive(&path) {
        hint["sensitive"] = true.into();
        tags.insert(0, "security");
    }
    if key.is_advanced {
        hint["advanced"] = true.into();
        tags.push("advanced");
    }
    tags.dedup();
    if let Some(placeholder) = placeholder(key) {
        hint["placeholder"] = placeholder.into();
    }
    hint["tags"] = json!(tags);
    hints.insert(path.clone(), hint);
    below(&path, &key.kind, tag, hints);
}

fn below(path: &str, kind: &Kind, tag: &str, hints: &mut Map<String, Value>) {
    match kind {
        Kind::Object(keys) => keys.iter().for_each(|key| collect(path, key, tag, hints)),
        Kind::Open(keys, rest) => {
            keys.iter().for_each(|key| collect(path, key, tag, hints));
            free(path, rest, tag, hints);
        }
        Kind::Map(kind) | Kind::List(kind) => free(path, kind, tag, hints),
        Kind::Either(kinds) => kinds.iter().for_each(|kind| below(path, kind, tag, hints)),
        _ => {}
    }
}

/// What has no key of its own only has a hint when it is a secret.
fn free(path: &str, kind: &Kind, tag: &str, hints: &mut Map<String, Value>) {
    let path = join(path, "*");
    if is_sensitive(&path) {
        hints.insert(path.clone(), json!({"sensitive": true, "tags": ["security", tag]}));
    }
    below(&path, kind, tag, hints);
}

/// An address is shown; what is secret in it is hidden in the value itself.
fn is_sensitive(path: &str) -> bool {
    SLOTS
        .iter()
        .any(|slot| matches!(slot.kind, SlotKind::Input | SlotKind::Text) && fits(slot.path, path))
}

/// Whether the path of a key belongs to a slot; `*` in the slot is any name.
fn fits(slot: &str, path: &str) -> bool {
    let (mut names, mut parts) = (path.split('.'), slot.split('.'));
    loop {
        match (parts.next(), names.next()) {
            (None, None) => return true,
            (Some(part), Some(name)) if part == "*" || part == name => {}
            _ => return false,
        }
    }
}

fn placeholder(key: &Key) -> Option<String> {
    let text = if key.example.is_empty() { key.default } else { key.example };
    match serde_json::from_str(text).ok()? {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
