//! The keys in the pages are the keys that there are.

use clawgate::config::edit::ValuePath;
use clawgate::config::keys::{self, Key, Kind};

use super::{pages, read};

/// Keys of the first column of the tables of `docs/configuration.md`: a key may
/// be written as what is different from the one before it (`.maxCharsCap`, or
/// only its name).
fn written() -> Vec<String> {
    let page = read("docs/configuration.md");
    let sections: Vec<_> = keys::SECTIONS.iter().map(|section| section.key.name).collect();
    let mut found = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cell = line.split('|').nth(1).unwrap_or_default();
        let mut last: Option<String> = None;
        for name in cell.split('`').skip(1).step_by(2) {
            let first = name.split(['.', '[']).next().unwrap_or_default();
            let whole = match (&last, name.strip_prefix('.')) {
                (Some(last), Some(rest)) => beside(last, rest),
                (None, Some(_)) => continue,
                _ if sections.contains(&first) => name.to_owned(),
                (Some(last), None) => beside(last, name),
                (None, None) => continue,
            };
            // What an error says, and members of a model, which have no section.
            if name.contains(' ') || name.starts_with("models[]") {
                continue;
            }
            found.push(whole.clone());
            last = Some(whole);
        }
    }
    assert!(found.len() > 150, "{}", found.len());
    found
}

fn beside(key: &str, name: &str) -> String {
    let above = key.rsplit_once('.').map_or("", |(above, _)| above);
    format!("{above}.{name}")
}

/// A key of a page as the list has it: `agents.list[].x`, `channels.<channel>.x`.
fn is_known(key: &str) -> bool {
    let channels: &[&str] =
        if key.contains("<channel>") { &["telegram", "webhook"] } else { &[""] };
    channels.iter().any(|channel| {
        let path = key.replace("<channel>", channel).replace("[]", "[0]");
        let path = path.trim_end_matches('.');
        path.parse::<ValuePath>().is_ok_and(|path| keys::find(path.steps()).is_some())
    })
}

/// Only a variable, and says so.
const NO_KEYS: [&str; 1] = ["gateway.maxPreauthPerIp"];

#[test]
fn every_key_of_the_page_is_in_the_list() {
    let unknown: Vec<_> = written()
        .into_iter()
        .filter(|key| !NO_KEYS.contains(&key.as_str()) && !is_known(key))
        .collect();
    assert_eq!(unknown, [""; 0], "src/config/keys does not have them");
}

/// Each key stands in a table under its path, or its name stands somewhere on a
/// page beside the table that it belongs to.
#[test]
fn every_key_of_the_list_is_on_a_page() {
    fn collect(path: &str, kind: &Kind, keys: &mut Vec<(String, Key)>) {
        match kind {
            Kind::Object(members) | Kind::Open(members, _) => {
                for key in *members {
                    let path = format!("{path}.{}", key.name);
                    keys.push((path.clone(), *key));
                    collect(&path, &key.kind, keys);
                }
            }
            Kind::Map(kind) => collect(&format!("{path}.*"), kind, keys),
            Kind::List(kind) => collect(&format!("{path}[]"), kind, keys),
            Kind::Either(kinds) => kinds.iter().for_each(|kind| collect(path, kind, keys)),
            _ => {}
        }
    }
    let mut all = Vec::new();
    for section in keys::SECTIONS {
        collect(section.key.name, &section.key.kind, &mut all);
    }
    let written = written();
    let pages: String = pages().into_iter().map(|(_, text)| text).collect();
    let is_named = |name: &str| {
        let pieces = pages.split('`').skip(1).step_by(2);
        pieces.into_iter().any(|code| {
            code.split(['.', ' ', '{', '}', ':', ',', '[', ']', '"', '\n']).any(|it| it == name)
        })
    };
    let missing: Vec<_> = all
        .iter()
        .filter(|(path, key)| !written.contains(path) && !is_named(key.name))
        .map(|(path, _)| path.as_str())
        .collect();
    assert_eq!(missing, [""; 0], "docs/configuration.md does not have them");
    assert!(all.len() > 300, "{}", all.len());
}
