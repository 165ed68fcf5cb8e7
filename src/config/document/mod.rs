//! The config file as clients see and change it.
//!
//! Owns: reading it with what is wrong with it, and replacing it. Promises: a
//! secret is neither shown nor lost; what a gateway would not start with is not
//! written; a file that is not the one that the client has read is not
//! overwritten; comments stay. Must not: apply anything.

mod merge;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::edit::{self, EditError};
use super::redact::{LostSecret, redacted, restored};
use super::save::{SaveError, write_with};
use super::{ConfigError, Env, Paths, check, parse, parse_value, substitute};
use crate::store::atomic::System;
use crate::support::hex;

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
            other => Self { path: String::new(), message: other.to_string() },
        }
    }
}

/// The file as it is.
#[derive(Debug)]
pub struct ConfigSnapshot {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it is there.
    pub exists: bool,
    /// SHA-256 of its text, in hex.
    pub hash: String,
    /// Its text; `None` when something in it must not be shown.
    pub raw: Option<String>,
    /// What it means, without secrets.
    pub parsed: Value,
    /// The same with variables filled in.
    pub resolved: Value,
    /// What is wrong with it.
    pub issues: Vec<ConfigIssue>,
}

impl ConfigSnapshot {
    /// Reads the file.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn read(env: &Env) -> Result<Self, ConfigError> {
        let path = Paths::resolve(env)?.config_path;
        let text = match fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(ConfigError::Unreadable { path, source }),
        };
        let exists = text.is_some();
        let text = text.unwrap_or_default();
        let hash = hash_of(&text);
        let parsed = parse(&text, &path);
        let mut issues: Vec<_> = parsed.as_ref().err().map(ConfigIssue::from).into_iter().collect();
        let is_readable = parsed.is_ok();
        let parsed = parsed.unwrap_or_else(|_| Value::Object(Map::new()));
        if is_readable && let Err(error) = check(&text, env) {
            issues.push((&error).into());
        }
        let resolved = shown(&parsed, env, &path);
        let shown = redacted(&parsed);
        let raw = (is_readable && shown == parsed).then_some(text);
        Ok(Self { path, exists, hash, raw, parsed: shown, resolved, issues })
    }
}

/// A config with its variables filled in, without secrets.
pub fn shown(config: &Value, env: &Env, path: &Path) -> Value {
    let names: Vec<_> = config.as_object().into_iter().flat_map(Map::keys).collect();
    let names: Vec<_> = names.iter().map(|name| name.as_str()).collect();
    match substitute::sections(config, &names, env, path) {
        Ok(filled) => redacted(&filled),
        Err(_) => redacted(config),
    }
}

fn hash_of(text: &str) -> String {
    hex(Sha256::digest(text))
}

/// What a client wants of the file.
#[derive(Debug, Clone, PartialEq)]
pub enum ConfigWrite {
    /// To be this text.
    Replace(String),
    /// To have these members merged into it; JSON5.
    Merge(String),
}

/// What was written.
#[derive(Debug)]
pub struct ConfigWritten {
    /// Where.
    pub path: PathBuf,
    /// What the file means now, without secrets.
    pub config: Value,
    /// Whether anything is different.
    pub changed: bool,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum ConfigWriteError {
    /// The client does not say which file it has read.
    #[error("config base hash required; re-run config.get and retry")]
    BaseRequired,
    /// It has read another one.
    #[error("config changed since last load; re-run config.get and retry")]
    Stale,
    /// What was sent is no JSON5.
    #[error("SyntaxError: JSON5: {0}")]
    Syntax(String),
    /// A patch is no object.
    #[error("config.patch raw must be an object")]
    NoObject,
    /// It could not be started with.
    #[error("invalid config: {}: {}", if .0.path.is_empty() { "<root>" } else { &.0.path }, .0.message)]
    Invalid(ConfigIssue),
    /// The file cannot be read or written.
    #[error(transparent)]
    Save(#[from] SaveError),
}

impl From<LostSecret> for ConfigWriteError {
    fn from(lost: LostSecret) -> Self {
        let path = lost.0.to_string();
        let message = lost.to_string();
        let message = message.strip_prefix(&format!("{path}: ")).unwrap_or(&message).to_owned();
        Self::Invalid(ConfigIssue { path, message })
    }
}

impl From<ConfigIssue> for ConfigWriteError {
    fn from(issue: ConfigIssue) -> Self {
        Self::Invalid(issue)
    }
}

impl From<EditError> for ConfigWriteError {
    fn from(error: EditError) -> Self {
        Self::Save(error.into())
    }
}

/// Replaces or changes the file, when it is still the one with the hash `base`
/// and the gateway that runs says that it would work with the new text. Blocks.
///
/// # Errors
/// See [`ConfigWriteError`]; nothing is written then.
pub fn write(
    write: &ConfigWrite,
    base: Option<&str>,
    env: &Env,
    would_work: impl FnOnce(&str) -> Result<(), ConfigIssue>,
) -> Result<ConfigWritten, ConfigWriteError> {
    let path = Paths::resolve(env).map_err(|error| refused(&error))?.config_path;
    let mut config = Value::Null;
    let changed = write_with(&System, &path, |before| -> Result<String, ConfigWriteError> {
        match (before, base) {
            (Some(_), None) => return Err(ConfigWriteError::BaseRequired),
            (Some(text), Some(base)) if hash_of(text) != base => {
                return Err(ConfigWriteError::Stale);
            }
            _ => {}
        }
        let text = before.unwrap_or_default();
        let known = parse(text, &path).unwrap_or_else(|_| Value::Object(Map::new()));
        let next = match write {
            ConfigWrite::Replace(raw) => replaced(text, &known, raw, &path)?,
            ConfigWrite::Merge(raw) => patched(text, &known, raw)?,
        };
        check(&next, env).map_err(|error| refused(&error))?;
        let after = parse(&next, &path).map_err(|error| refused(&error))?;
        if after != known {
            would_work(&next).map_err(ConfigWriteError::Invalid)?;
        }
        config = redacted(&after);
        Ok(next)
    })?;
    Ok(ConfigWritten { path, config, changed })
}

fn refused(error: &ConfigError) -> ConfigWriteError {
    ConfigWriteError::Invalid(error.into())
}

/// The text of a client, with its secrets put back. Plain JSON has no comments:
/// then those that are in the file stay.
fn replaced(text: &str, known: &Value, raw: &str, path: &Path) -> Result<String, ConfigWriteError> {
    let mut wanted = parse(raw, path).map_err(|error| syntax(&error))?;
    let secrets = restored(&wanted, known)?;
    let is_plain = serde_json::from_str::<serde::de::IgnoredAny>(raw).is_ok();
    if is_plain && parse(text, path).is_ok() {
        for (place, secret) in secrets {
            place.put(&mut wanted, secret);
        }
        return Ok(merge::rewritten(text, known, &wanted)?);
    }
    let mut next = raw.to_owned();
    for (place, secret) in secrets {
        next = edit::set(&next, &place, &secret)?;
    }
    Ok(next)
}

fn patched(text: &str, known: &Value, raw: &str) -> Result<String, ConfigWriteError> {
    let patch = parse_value(raw, Path::new("patch")).map_err(|error| syntax(&error))?;
    if !patch.is_object() {
        return Err(ConfigWriteError::NoObject);
    }
    let mut wanted = merge::merged(known, &patch);
    for (place, secret) in restored(&wanted, known)? {
        place.put(&mut wanted, secret);
    }
    Ok(merge::rewritten(text, known, &wanted)?)
}

fn syntax(error: &ConfigError) -> ConfigWriteError {
    match error {
        ConfigError::Syntax { line, column, reason, .. } => {
            ConfigWriteError::Syntax(format!("{reason} at {line}:{column}"))
        }
        other => refused(other),
    }
}

#[cfg(test)]
mod tests;
