//! From a path to its key.

use super::{FOREIGN, Key, Kind, SECTIONS};
use crate::config::edit::Step;

/// What the list says of a place.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Its path, with `*` for each free name and each item of a list.
    pub pattern: String,
    /// What may stand there.
    pub kind: Kind,
    /// Its key; `None` for what has a free name, and for items.
    pub key: Option<Key>,
}

impl Found {
    fn below(&self, name: &str, kind: Kind, key: Option<Key>) -> Self {
        Self { pattern: join(&self.pattern, name), kind, key }
    }

    /// The member or item `step` of this.
    pub(super) fn child(&self, step: &Step) -> Option<Self> {
        child(self, &self.kind, step)
    }
}

/// `name` below `path`.
pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// What the list says of the place that `path` leads to; `*` in the path is any
/// name. `None` for a place that the gateway does not know.
pub fn find(path: &[Step]) -> Option<Found> {
    let (first, rest) = path.split_first()?;
    let Step::Key(name) = first else { return None };
    let sections = SECTIONS.iter().map(|section| &section.key);
    let key = sections.chain(FOREIGN).find(|key| key.name == name)?;
    let section = Found { pattern: name.clone(), kind: key.kind, key: Some(*key) };
    rest.iter().try_fold(section, |found, step| found.child(step))
}

fn child(found: &Found, kind: &Kind, step: &Step) -> Option<Found> {
    let named = |keys: &'static [Key]| {
        let Step::Key(name) = step else { return None };
        let key = keys.iter().find(|key| key.name == name)?;
        Some(found.below(name, key.kind, Some(*key)))
    };
    let is_name = matches!(step, Step::Key(_));
    match kind {
        Kind::Object(keys) => named(keys),
        Kind::Open(keys, rest) => {
            named(keys).or_else(|| is_name.then(|| found.below("*", **rest, None)))
        }
        Kind::Map(kind) if is_name => Some(found.below("*", **kind, None)),
        Kind::List(kind) if !is_name || *step == Step::Key("*".into()) => {
            Some(found.below("*", **kind, None))
        }
        Kind::Either(kinds) => kinds.iter().find_map(|kind| child(found, kind, step)),
        // Whatever is below something free is free.
        Kind::Any => Some(found.below("*", Kind::Any, None)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::edit::ValuePath;

    #[test]
    fn a_place_is_found_by_its_names() {
        let at = |path: &str| find(path.parse::<ValuePath>().unwrap().steps());
        for (path, pattern) in [
            ("gateway.port", "gateway.port"),
            ("agents.list[2].model", "agents.list.*.model"),
            ("agents.list[0].model.primary", "agents.list.*.model.primary"),
            ("models.providers[\"a.b\"].apiKey", "models.providers.*.apiKey"),
            ("env.vars.A", "env.vars.*"),
            ("env.A", "env.*"),
            ("meta.lastTouchedAt", "meta.*"),
        ] {
            assert_eq!(at(path).map(|found| found.pattern).as_deref(), Some(pattern), "{path}");
        }
        for path in ["gateway.nope", "gateway.port.x", "browser", "agents.list.main", "env.A.b"] {
            assert_eq!(at(path), None, "{path}");
        }
    }
}
