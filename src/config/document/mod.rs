//! The config file as clients see and change it.
//!
//! Owns: reading it with what is wrong with it, and replacing it. Promises: a
//! secret is neither shown nor lost; what a gateway would not start with is not
//! written; a file that is not the one that the client has read, or includes
//! something else by now, is not overwritten; comments stay. Must not: apply anything.

mod change;
mod merge;
mod write;

use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::edit::{ValuePath, says_twice};
use super::foreign::{self, Foreign};
use super::load::{check_with, read, readable_start, with_section};
use super::redact::{redacted, tell_secrets};
use super::{
    ConfigError, Env, Paths, dotenv, fillings, include, keys, parse, substitute, unset,
    vain_origins,
};
use crate::support::hex;

pub use change::{change, meaning};
pub use merge::merged;
pub use write::{
    ConfigBase, ConfigWrite, ConfigWriteError, ConfigWritten, preview, write, write_by,
};

/// Something that is wrong with a config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigIssue {
    /// Path of the key; empty for the whole.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

impl From<&ConfigError> for ConfigIssue {
    fn from(error: &ConfigError) -> Self {
        match error {
            ConfigError::Invalid { key, reason, .. } => {
                let path = if key == "<root>" { String::new() } else { key.clone() };
                Self { path, message: reason.clone() }
            }
            ConfigError::MissingVariable { key, variable, .. } => Self {
                path: key.clone(),
                message: format!("the environment variable {variable} is not set"),
            },
            ConfigError::Unreadable { source, .. } => {
                Self { path: String::new(), message: format!("{error}: {source}") }
            }
            other => Self { path: String::new(), message: other.to_string() },
        }
    }
}

impl From<&Foreign> for ConfigIssue {
    fn from(Foreign { path, message }: &Foreign) -> Self {
        Self { path: path.to_string(), message: message.clone() }
    }
}

/// The file as it is.
#[derive(Debug)]
pub struct ConfigSnapshot {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it is there.
    pub exists: bool,
    /// What stands for what was read: a write that was made from it says it as its base.
    pub hash: String,
    /// Its text, with placeholders for its secrets; `None` when that cannot be shown.
    pub raw: Option<String>,
    /// What stands in it, without secrets.
    pub parsed: Value,
    /// `source` with variables filled in, where that may be shown: see [`shown`].
    pub resolved: Value,
    /// Whether it can be parsed.
    pub is_readable: bool,
    /// `parsed` with what it includes.
    pub source: Value,
    /// Whether that could be read; else `source` is without it.
    pub is_whole: bool,
    /// What is wrong with it.
    pub issues: Vec<ConfigIssue>,
    /// What stands in it and means nothing here.
    pub warnings: Vec<ConfigIssue>,
}

impl ConfigSnapshot {
    /// Reads the file.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn read(env: &Env) -> Result<Self, ConfigError> {
        let paths = Paths::resolve(env)?;
        let (env, wrong) = dotenv::beside(env, &paths);
        let path = paths.config_path.clone();
        let found = read(&path)?;
        let said = found.as_ref().map_or(Ok(""), |found| found.text(&path));
        let bytes: &[u8] = found.as_ref().map_or(&[], |found| found.bytes.as_slice());
        let text = readable_start(bytes);
        let parsed = parse(text, &path);
        let fault = said.as_ref().err().or(parsed.as_ref().err());
        // What is empty has been read all the same.
        let is_readable = fault.is_none_or(|error| matches!(error, ConfigError::Blank { .. }));
        let mut issues: Vec<_> = fault.map(ConfigIssue::from).into_iter().collect();
        let parsed = parsed.unwrap_or_else(|_| Value::Object(Map::new()));
        if issues.is_empty()
            && let Err(error) = check_with(text, paths, &env)
        {
            issues.push((&error).into());
        }
        let whole = include::whole(parsed.clone(), &path);
        let is_whole = whole.is_ok();
        let whole = whole.map_or_else(|_| parsed.clone(), |whole| whole.value);
        let hash = hash_of(bytes, &parsed, &whole);
        let resolved = shown(&whole, &env, &path);
        let mut warnings = warnings(&whole);
        let around = with_section(&whole, &env, &path);
        let unset = around.map(|around| unset::without(&whole, &around).1);
        warnings.extend(unset.iter().flatten().map(ConfigIssue::from));
        warnings.extend(wrong.map(|message| ConfigIssue { path: ".env".into(), message }));
        let shown = redacted(&parsed);
        let source = redacted(&whole);
        let raw = if is_readable { shown_text(text, &parsed, &shown) } else { None };
        Ok(Self {
            path,
            exists: found.is_some(),
            hash,
            raw,
            parsed: shown,
            resolved,
            is_readable,
            source,
            is_whole,
            issues,
            warnings,
        })
    }
}

/// The text of a file, as it may be shown. With a secret in it, it is written anew
/// from what may be shown: so nothing else of it gets out. Then comments would be
/// missing, and be gone once it is written back; such a file is not shown as text, and
/// neither is one with a secret in a comment. What is overruled in it may be one as well.
fn shown_text(text: &str, parsed: &Value, shown: &Value) -> Option<String> {
    if shown == parsed && !tell_secrets(text) && !says_twice(text) {
        return Some(text.to_owned());
    }
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    serde_json::to_string_pretty(shown).ok().map(|text| text + "\n")
}

/// A config, with what it includes, with its variables filled in, without secrets. What a
/// variable holds is one, unless the place is for a number or a word: the name stands there.
pub fn shown(whole: &Value, env: &Env, path: &Path) -> Value {
    let names: Vec<_> = whole.as_object().into_iter().flat_map(Map::keys).collect();
    let names: Vec<_> = names.iter().map(|name| name.as_str()).collect();
    let env = with_section(whole, env, path);
    let filled = env.and_then(|env| substitute::sections(whole, &names, &env, path));
    let Ok(filled) = filled else { return redacted(whole) };
    let mut shown = redacted(&filled);
    fillings::put_back(whole, &mut shown);
    shown
}

/// What stands in a config and means nothing here, or something else: keys, values that are
/// not built in, numbers beyond their bounds, and origins of no page.
pub fn warnings(whole: &Value) -> Vec<ConfigIssue> {
    let foreign = foreign::found(whole);
    let warning = |path: ValuePath| ConfigIssue { path: path.to_string(), message: UNKNOWN.into() };
    let unknown = unknown(whole, &foreign).map(warning);
    let beyond = keys::beyond(whole).into_iter();
    let beyond = beyond.map(|(path, message)| ConfigIssue { path: path.to_string(), message });
    let vain = vain_origins(whole);
    unknown.chain(foreign.iter().map(ConfigIssue::from)).chain(beyond).chain(vain).collect()
}

/// Keys that nobody knows, but for those of which `foreign` says more.
pub fn unknown(whole: &Value, foreign: &[Foreign]) -> impl Iterator<Item = ValuePath> {
    let is_told = |path: &ValuePath| foreign.iter().any(|it| it.path == *path);
    keys::unknown(whole).into_iter().filter(move |path| !is_told(path))
}

const UNKNOWN: &str = "is not known here: it is kept, and has no effect";

/// What stands for a config as it was read: SHA-256 of its bytes, in hex. Where that includes
/// files, `whole`, what it means with them, counts as well: clients are shown it, and what
/// they write is compared with it.
fn hash_of(bytes: &[u8], raw: &Value, whole: &Value) -> String {
    let mut hash = Sha256::new();
    hash.update(bytes);
    if include::includes(raw) {
        hash.update(whole.to_string());
    }
    hex(hash.finalize())
}

#[cfg(test)]
mod tests;
