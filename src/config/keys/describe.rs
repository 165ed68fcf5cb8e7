//! What may stand at a place, in words.

use super::{Found, Kind, MAX};

/// What may stand there: `one of local, remote`.
pub fn allowed(kind: &Kind) -> String {
    match kind {
        Kind::Boolean => "true or false".into(),
        Kind::Text => "a text".into(),
        Kind::TextOrFalse => "a text, or false".into(),
        Kind::Secret => "a text, or a reference {source, provider, id}".into(),
        Kind::Integer(least, most) if *most == MAX => format!("an integer from {least} on"),
        Kind::Integer(least, most) => format!("an integer from {least} to {most}"),
        Kind::Number(least, most) if *least > f64::MIN && *most < f64::MAX => {
            format!("a number from {least} to {most}")
        }
        Kind::Number(..) => "a number".into(),
        Kind::Within(inner, ..) => {
            format!("{}; {}", allowed(inner), bounds(kind).unwrap_or_default())
        }
        Kind::Word(words) => format!("one of {}", words.join(", ")),
        Kind::Quantity => "a number, or one with a unit".into(),
        Kind::QuantityOrFalse => "a number, one with a unit, or false".into(),
        Kind::Either(kinds) => kinds.iter().map(allowed).collect::<Vec<_>>().join(", or "),
        Kind::List(kind) => format!("a list; each item {}", allowed(kind)),
        Kind::Map(kind) => format!("an object with names of your own; each {}", allowed(kind)),
        Kind::Object(keys) | Kind::Open(keys, _) => {
            let names: Vec<_> = keys.iter().map(|key| key.name).collect();
            format!("an object with {}", names.join(", "))
        }
        Kind::Any => "anything".into(),
    }
}

/// What a number counts as that is beyond the bounds of its place.
pub(super) fn bounds(kind: &Kind) -> Option<String> {
    let Kind::Within(_, least, most) = kind else { return None };
    let less = format!("less than {least} counts as {least}, ");
    let less = if *least > 0.0 { less } else { String::new() };
    Some(format!("{less}more than {most} counts as {most}"))
}

/// What a place is for, in lines.
pub fn describe(found: &Found) -> String {
    let mut lines = Vec::new();
    if let Some(key) = found.key {
        lines.push(key.help.to_owned());
    }
    lines.push(format!("allowed: {}", allowed(&found.kind)));
    if let Some(key) = found.key {
        for (word, text) in [("default", key.default), ("example", key.example)] {
            if !text.is_empty() {
                lines.push(format!("{word}: {text}"));
            }
        }
    }
    lines.join("\n")
}
