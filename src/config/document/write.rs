//! Changing the config file for somebody.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{ConfigIssue, hash_of, merge};
use crate::config::edit::{self, EditError, ValuePath};
use crate::config::error::BLANK;
use crate::config::include::{self, Lost};
use crate::config::load::{readable_start, said};
use crate::config::redact::{LostSecret, redacted, restored};
use crate::config::save::{self, SaveError, write_with};
use crate::config::{
    ConfigError, Env, Paths, ReloadMode, check, foreign, keys, nesting, parse, parse_value,
};
use crate::store::atomic::System;

/// Where a gateway listens, and the folder that it watches, which it decides at its start.
const OF_START: [&str; 7] = [
    "/gateway/port",
    "/gateway/bind",
    "/gateway/customBindHost",
    "/gateway/tls",
    "/gateway/dialects/ports",
    "/gateway/dialects/claude/projects",
    "/gateway/dialects/claude/projectsDir",
];
/// Whether a gateway watches its file.
const RELOAD_MODE: &str = "/gateway/reload/mode";

/// What a client wants of the file.
#[derive(Debug, Clone, PartialEq)]
pub enum ConfigWrite {
    /// To be this text.
    Replace(String),
    /// To have these members merged into it; JSON5.
    Merge(String),
    /// To have these sections; the others stay.
    Sections(Map<String, Value>),
    /// To have this at this place.
    Set(ValuePath, Value),
    /// To have nothing at this place.
    Unset(ValuePath),
}

/// Which file the writer has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigBase {
    /// The one with this hash.
    Hash(String),
    /// It does not say, and would have to.
    Missing,
    /// The one that is there, whatever is in it.
    Any,
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
    /// Whether something is different that a gateway that runs uses only after a
    /// restart.
    pub needs_restart: bool,
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

impl From<Lost> for ConfigWriteError {
    fn from(Lost { path, file }: Lost) -> Self {
        let message = format!("comes from {file}, which the config includes; change it there");
        let path = if path.steps().is_empty() { String::new() } else { path.to_string() };
        Self::Invalid(ConfigIssue { path, message })
    }
}

impl From<&ConfigError> for ConfigWriteError {
    fn from(error: &ConfigError) -> Self {
        Self::Invalid(error.into())
    }
}

impl From<EditError> for ConfigWriteError {
    fn from(error: EditError) -> Self {
        Self::Save(error.into())
    }
}

impl From<ConfigIssue> for ConfigWriteError {
    fn from(issue: ConfigIssue) -> Self {
        Self::Invalid(issue)
    }
}

/// Replaces or changes the file, when it is still the one that `base` means and
/// `would_work` says that a gateway would work with the new text. It is asked
/// only where that means something else. Blocks.
///
/// # Errors
/// See [`ConfigWriteError`]; nothing is written then.
pub fn write(
    write: &ConfigWrite,
    base: &ConfigBase,
    env: &Env,
    would_work: impl FnOnce(&str) -> Result<(), ConfigIssue>,
) -> Result<ConfigWritten, ConfigWriteError> {
    put(env, |before, path| plan(before, write, base, path, env), would_work)
}

/// The same with what `work_out` makes of what the file says, with what it includes, while
/// nobody else writes it. Blocks.
///
/// # Errors
/// What `work_out` says, and see [`ConfigWriteError`]; nothing is written then.
pub fn write_by<E: From<ConfigWriteError> + From<SaveError>>(
    env: &Env,
    work_out: impl FnOnce(&Value) -> Result<ConfigWrite, E>,
    would_work: impl FnOnce(&str) -> Result<(), ConfigIssue>,
) -> Result<ConfigWritten, E> {
    let planned = |before: Option<&[u8]>, path: &Path| -> Result<Plan, E> {
        let raw = said(before, path).and_then(|text| parse(text, path));
        let whole = raw.and_then(|raw| include::whole(raw, path));
        let write = work_out(&whole.map_err(|error| refused(&error))?.value)?;
        Ok(plan(before, &write, &ConfigBase::Any, path, env)?)
    };
    put(env, planned, would_work)
}

fn put<E: From<ConfigWriteError> + From<SaveError>>(
    env: &Env,
    work_out: impl FnOnce(Option<&[u8]>, &Path) -> Result<Plan, E>,
    would_work: impl FnOnce(&str) -> Result<(), ConfigIssue>,
) -> Result<ConfigWritten, E> {
    let path = Paths::resolve(env).map_err(|error| refused(&error))?.config_path;
    let mut planned = None;
    let changed = write_with(&System, &path, |before| -> Result<String, E> {
        let plan = work_out(before, &path)?;
        if plan.means_else {
            would_work(&plan.text).map_err(ConfigWriteError::from)?;
        }
        let text = plan.text.clone();
        planned = Some(plan);
        Ok(text)
    })?;
    Ok(written(path, planned, changed))
}

/// What [`write`] would do; nothing is written.
///
/// # Errors
/// As there.
pub fn preview(
    write: &ConfigWrite,
    base: &ConfigBase,
    env: &Env,
    would_work: impl FnOnce(&str) -> Result<(), ConfigIssue>,
) -> Result<ConfigWritten, ConfigWriteError> {
    let path = Paths::resolve(env).map_err(|error| refused(&error))?.config_path;
    let before = save::read(&path)?;
    let plan = plan(before.as_deref(), write, base, &path, env)?;
    if plan.means_else {
        would_work(&plan.text)?;
    }
    let changed = before.as_deref().unwrap_or_default() != plan.text.as_bytes();
    Ok(written(path, Some(plan), changed))
}

fn written(path: PathBuf, plan: Option<Plan>, changed: bool) -> ConfigWritten {
    let (config, needs_restart) =
        plan.map_or((Value::Null, false), |plan| (plan.config, plan.needs_restart));
    ConfigWritten { path, config, changed, needs_restart }
}

/// The next text, and what it means.
struct Plan {
    text: String,
    means_else: bool,
    config: Value,
    needs_restart: bool,
}

fn plan(
    before: Option<&[u8]>,
    write: &ConfigWrite,
    base: &ConfigBase,
    path: &Path,
    env: &Env,
) -> Result<Plan, ConfigWriteError> {
    let bytes = before.unwrap_or_default();
    let text = readable_start(bytes);
    let known = Known::of(text, path);
    match (before, base) {
        (Some(_), ConfigBase::Missing) => return Err(ConfigWriteError::BaseRequired),
        (Some(_), ConfigBase::Hash(base)) if hash_of(bytes, &known.raw, &known.whole) != *base => {
            return Err(ConfigWriteError::Stale);
        }
        _ => {}
    }
    // What is not UTF-8 cannot stay, and what is lost is in no text that is worked out: only
    // another text takes its place.
    if !matches!(write, ConfigWrite::Replace(_)) {
        said(before, path).map_err(|error| refused(&error))?;
    }
    let next = match write {
        ConfigWrite::Replace(raw) => replaced(text, &known, raw, path),
        ConfigWrite::Merge(raw) => patched(text, &known, raw),
        ConfigWrite::Sections(sections) => with_sections(text, &known, sections),
        ConfigWrite::Set(place, value) => set_at(text, &known, place, value),
        ConfigWrite::Unset(place) => unset_at(text, &known, place),
    }
    .map_err(|error| match error {
        ConfigWriteError::Save(SaveError::Edit(error)) => error.in_file(path).into(),
        other => other,
    })?;
    check(&next, env).map_err(|error| refused(&error))?;
    let after = parse(&next, path).and_then(|raw| include::whole(raw, path));
    let after = after.map_err(|error| refused(&error))?.value;
    recognized(&known.whole, &after)?;
    built_in(&known.whole, &after)?;
    let means_else = known.whole != after;
    let needs_restart = means_else && needs_restart(&known.whole, &after);
    Ok(Plan { text: next, means_else, config: redacted(&after), needs_restart })
}

/// Whether a gateway with a config does not use all of another one at once.
fn needs_restart(before: &Value, after: &Value) -> bool {
    let is_unwatched = before.pointer(RELOAD_MODE) == Some(&ReloadMode::Off.as_str().into());
    is_unwatched || OF_START.iter().any(|key| before.pointer(key) != after.pointer(key))
}

/// What nobody knows stays when it is there already, and is not begun.
fn recognized(before: &Value, after: &Value) -> Result<(), ConfigWriteError> {
    let mut names = after.as_object().into_iter().flat_map(Map::keys);
    let begun = names.find(|name| before.get(name).is_none() && !keys::is_section(name));
    begun.map_or(Ok(()), |name| {
        let message = format!("Unrecognized key: {}", Value::String(name.clone()));
        Err(ConfigWriteError::Invalid(ConfigIssue { path: String::new(), message }))
    })
}

/// The same of values that only OpenClaw understands.
fn built_in(before: &Value, after: &Value) -> Result<(), ConfigWriteError> {
    let known = foreign::found(before);
    let found = foreign::found(after);
    let begun = found.iter().find(|value| !known.iter().any(|known| known.is_like(value)));
    begun.map_or(Ok(()), |value| Err(ConfigWriteError::Invalid(value.into())))
}

pub(super) fn refused(error: &ConfigError) -> ConfigWriteError {
    error.into()
}

/// What is in the file now.
pub(super) struct Known<'a> {
    path: &'a Path,
    /// What stands in it; nothing when that cannot be read.
    raw: Value,
    /// The same with what it includes; as it is when that cannot be read.
    pub whole: Value,
}

impl<'a> Known<'a> {
    pub fn of(text: &str, path: &'a Path) -> Self {
        let raw = parse(text, path).unwrap_or_else(|_| Value::Object(Map::new()));
        let whole = include::whole(raw.clone(), path);
        let whole = whole.map_or_else(|_| raw.clone(), |whole| whole.value);
        Self { path, raw, whole }
    }

    /// What the file has to say so that it means `wanted`, with what it includes.
    fn kept(&self, wanted: Value) -> Result<Value, ConfigWriteError> {
        if !include::includes(&self.raw) {
            return Ok(wanted);
        }
        let bare = |only: &Value| Some(include::whole(only.clone(), self.path).ok()?.value);
        Ok(include::kept(wanted, &self.raw, &bare)?)
    }

    /// The text that means `wanted`; where it means the same already it stays.
    pub fn rewritten(&self, text: &str, wanted: Value) -> Result<String, ConfigWriteError> {
        Ok(merge::rewritten(text, &self.raw, &self.kept(wanted)?)?)
    }

    /// The same with the secrets put back that something else stands for in `wanted`.
    fn rewritten_with_secrets(
        &self,
        text: &str,
        mut wanted: Value,
    ) -> Result<String, ConfigWriteError> {
        for (place, secret) in restored(&wanted, &self.whole)? {
            place.put(&mut wanted, secret);
        }
        self.rewritten(text, wanted)
    }
}

/// The text of a client, with its secrets put back. Plain JSON has no comments:
/// then those that are in the file stay.
fn replaced(
    text: &str,
    known: &Known<'_>,
    raw: &str,
    path: &Path,
) -> Result<String, ConfigWriteError> {
    if raw.trim().is_empty() {
        let message = format!("the text {BLANK}");
        return Err(ConfigIssue { path: String::new(), message }.into());
    }
    let mut wanted = parse(raw, path).map_err(|error| syntax(&error))?;
    let is_plain = serde_json::from_str::<serde::de::IgnoredAny>(raw).is_ok();
    if is_plain && parse(text, path).is_ok() {
        return known.rewritten_with_secrets(text, wanted);
    }
    let mut next = raw.to_owned();
    for (place, secret) in restored(&wanted, &known.whole)? {
        next = edit::set(&next, &place, &secret)?;
        place.put(&mut wanted, secret);
    }
    let kept = known.kept(wanted.clone())?;
    Ok(if kept == wanted { next } else { merge::rewritten(&next, &wanted, &kept)? })
}

fn patched(text: &str, known: &Known<'_>, raw: &str) -> Result<String, ConfigWriteError> {
    let patch = parse_value(raw, Path::new("patch")).map_err(|error| syntax(&error))?;
    if !patch.is_object() {
        return Err(ConfigWriteError::NoObject);
    }
    known.rewritten_with_secrets(text, merge::merged(&known.whole, &patch))
}

fn with_sections(
    text: &str,
    known: &Known<'_>,
    sections: &Map<String, Value>,
) -> Result<String, ConfigWriteError> {
    let mut whole = known.whole.as_object().cloned().unwrap_or_default();
    whole.extend(sections.clone());
    known.rewritten_with_secrets(text, Value::Object(whole))
}

fn set_at(
    text: &str,
    known: &Known<'_>,
    place: &ValuePath,
    value: &Value,
) -> Result<String, ConfigWriteError> {
    // Before anything is built that is as deep as the path is long.
    if place.steps().len() > nesting::MAX_DEPTH {
        return Err(EditError::TooDeep(place.to_string()).into());
    }
    let has_includes = include::includes(&known.raw);
    let mut wanted = known.whole.clone();
    if place.set_in(&mut wanted, value.clone()).is_err() {
        if has_includes {
            let no_way = EditError::NoWay { path: place.to_string(), found: "something else" };
            return Err(no_way.into());
        }
        // That says what is in the way.
        return Ok(edit::set(text, place, value)?);
    }
    if has_includes {
        return known.rewritten_with_secrets(text, wanted);
    }
    for (hidden, secret) in restored(&wanted, &known.whole)? {
        hidden.put(&mut wanted, secret);
    }
    Ok(edit::set(text, place, place.find(&wanted).unwrap_or(value))?)
}

fn unset_at(text: &str, known: &Known<'_>, place: &ValuePath) -> Result<String, ConfigWriteError> {
    let mut wanted = known.whole.clone();
    if include::includes(&known.raw) && place.remove_from(&mut wanted) {
        return known.rewritten(text, wanted);
    }
    Ok(edit::remove(text, place)?)
}

fn syntax(error: &ConfigError) -> ConfigWriteError {
    match error {
        ConfigError::Syntax { line, column, reason, .. } => {
            ConfigWriteError::Syntax(format!("{reason} at {line}:{column}"))
        }
        other => refused(other),
    }
}
