//! Every key of `openclaw.json` that the gateway understands.
//!
//! Owns: the one list of keys, with the shape, the default and the meaning of
//! each; `config.schema`, the warnings about unknown keys and `clawgate config`
//! are made of it. Promises: nothing is built before somebody asks; what the
//! list refuses the readers refuse as well (`tests/config_keys.rs`). Must not:
//! read a config; that is done by the modules of the sections.

mod agents;
mod beyond;
mod channels;
mod describe;
mod find;
mod gateway;
mod hints;
mod hooks;
mod lookup;
mod models;
mod others;
mod schema;
mod tools;
mod unknown;
mod voice;

pub use beyond::beyond;
pub use describe::{allowed, describe};
pub use find::{Found, find};
pub use hints::hints;
pub use lookup::{Lookup, LookupChild, lookup};
pub use schema::{schema, schema_of};
pub use unknown::unknown;

use super::schema::MAX_INTEGER as MAX;

/// A positive integer.
const COUNT: Kind = Kind::Integer(1, MAX);
/// An integer that may be 0.
const FROM_ZERO: Kind = Kind::Integer(0, MAX);
/// A list of texts.
const TEXTS: Kind = Kind::List(&Kind::Text);

/// What may stand at a place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A text.
    Text,
    /// The same, or `false`.
    TextOrFalse,
    /// A credential: a text, or a reference to one.
    Secret,
    /// An integer with its bounds.
    Integer(u64, u64),
    /// A number with its bounds.
    Number(f64, f64),
    /// The same as the first one; what is beyond these bounds counts as the bound.
    Within(&'static Self, f64, f64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A number with a unit, or a bare one.
    Quantity,
    /// The same, or `false`.
    QuantityOrFalse,
    /// One of these.
    Either(&'static [Self]),
    /// A list of such.
    List(&'static Self),
    /// An object with free names.
    Map(&'static Self),
    /// An object with these members.
    Object(&'static [Key]),
    /// The same, and free names beside them.
    Open(&'static [Key], &'static Self),
    /// Anything.
    Any,
}

/// A key and what it is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What may stand there.
    pub kind: Kind,
    /// What it means.
    pub help: &'static str,
    /// What holds without it, as JSON; empty when that is nothing.
    pub default: &'static str,
    /// What may stand there, as JSON; empty when the kind tells enough.
    pub example: &'static str,
    /// Whether most people can do without it.
    pub is_advanced: bool,
    /// Whether it must be there.
    pub is_required: bool,
}

const fn key(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key { name, kind, help, default: "", example: "", is_advanced: false, is_required: false }
}

impl Key {
    const fn or(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    const fn like(self, example: &'static str) -> Self {
        Self { example, ..self }
    }

    const fn advanced(self) -> Self {
        Self { is_advanced: true, ..self }
    }

    const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    /// Its name for people: `maxConcurrentRuns` is `Max Concurrent Runs`.
    pub fn label(&self) -> String {
        label(self.name)
    }
}

/// A section, and where a form shows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Section {
    /// The key at the top.
    pub key: Key,
    /// Small ones come first; as in the original, for sections that it has.
    pub order: u32,
    /// The group in which a form lists its keys.
    pub tag: &'static str,
}

const fn section(order: u32, tag: &'static str, key: Key) -> Section {
    Section { key, order, tag }
}

/// Every section.
pub const SECTIONS: &[Section] = &[
    section(27, "observability", voice::DIAGNOSTICS),
    section(30, "network", gateway::GATEWAY),
    section(40, "advanced", agents::AGENTS),
    section(50, "tools", tools::TOOLS),
    section(55, "advanced", channels::BINDINGS),
    section(70, "models", models::MODELS),
    section(72, "models", models::AUTH),
    section(74, "security", models::SECRETS),
    section(76, "advanced", others::ENV),
    section(80, "advanced", others::MESSAGES),
    section(85, "advanced", others::COMMANDS),
    section(90, "storage", others::SESSION),
    section(100, "automation", others::CRON),
    section(110, "automation", hooks::HOOKS),
    section(150, "channels", channels::CHANNELS),
    section(155, "voice", voice::TALK),
    section(160, "tools", others::MCP),
    section(200, "tools", others::SKILLS),
    section(900, "observability", voice::LOGGING),
];

/// What only other programs care for: it is kept, and nobody is warned of it.
pub const FOREIGN: &[Key] = &[
    key("$schema", Kind::Text, "Where an editor finds a schema of this file."),
    key("meta", Kind::Map(&Kind::Any), "What OpenClaw notes of its own writes."),
    key("wizard", Kind::Map(&Kind::Any), "What a guided setup notes of itself."),
];

/// Sections that OpenClaw has and that mean nothing here: whoever writes them
/// has not misspelt anything.
const NOT_OFFERED: [&str; 23] = [
    "acp",
    "approvals",
    "audio",
    "broadcast",
    "browser",
    "canvasHost",
    "cli",
    "commitments",
    "crestodian",
    "discovery",
    "identity",
    "media",
    "memory",
    "nodeHost",
    "plugins",
    "proxy",
    "surfaces",
    "transcripts",
    "tts",
    "ui",
    "update",
    "voicewake",
    "web",
];

/// Whether OpenClaw or this gateway has a section of this name.
pub fn is_section(name: &str) -> bool {
    let mut sections = SECTIONS.iter().map(|section| &section.key).chain(FOREIGN);
    sections.any(|key| key.name == name) || NOT_OFFERED.contains(&name) || name == "$include"
}

/// Words that are written in capitals.
const ACRONYMS: [&str; 10] = ["api", "cli", "dm", "id", "ip", "mb", "mcp", "ms", "tls", "ttl"];

fn label(name: &str) -> String {
    let mut words: Vec<String> = vec![String::new()];
    for c in name.chars() {
        if c == '-' || c == '_' {
            words.push(String::new());
        } else if c.is_uppercase() {
            words.push(c.to_lowercase().collect());
        } else if let Some(word) = words.last_mut() {
            word.push(c);
        }
    }
    let capital = |word: &String| {
        if ACRONYMS.contains(&word.as_str()) || word == "url" || word == "ui" {
            return word.to_uppercase();
        }
        let mut rest = word.chars();
        rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
    };
    let shown = words.iter().filter(|word| !word.is_empty()).map(capital);
    shown.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_label() {
        for (name, shown) in [
            ("port", "Port"),
            ("maxConcurrentRuns", "Max Concurrent Runs"),
            ("dmPolicy", "DM Policy"),
            ("baseUrl", "Base URL"),
            ("claude-cli", "Claude CLI"),
            ("windowMs", "Window MS"),
            ("mcp", "MCP"),
        ] {
            assert_eq!(label(name), shown);
        }
    }

    #[test]
    fn every_key_is_described_and_written_once() {
        fn walk(path: &str, keys: &[Key]) {
            for (index, key) in keys.iter().enumerate() {
                let path = format!("{path}.{}", key.name);
                assert!(key.help.ends_with('.') && key.help.len() > 6, "{path}: {}", key.help);
                assert!(keys.iter().skip(index + 1).all(|it| it.name != key.name), "{path} twice");
                for text in [key.default, key.example] {
                    let is_json = text.is_empty()
                        || serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
                    assert!(is_json, "{path}: {text}");
                }
                below(&path, &key.kind);
            }
        }
        fn below(path: &str, kind: &Kind) {
            match kind {
                Kind::Object(keys) | Kind::Open(keys, _) => walk(path, keys),
                Kind::List(kind) | Kind::Map(kind) => below(path, kind),
                Kind::Either(kinds) => kinds.iter().for_each(|kind| below(path, kind)),
                _ => {}
            }
        }
        let keys: Vec<_> = SECTIONS.iter().map(|section| section.key).collect();
        walk("", &keys);
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod reader_tests;
