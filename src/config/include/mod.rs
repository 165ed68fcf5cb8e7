//! `$include`: parts of the config that stand in other files.
//!
//! Owns: what a text with `$include` means, as OpenClaw has it: a path or a list
//! of paths, merged in their order, and what stands beside it on top. Promises:
//! only files in the directory of the config file are read, whatever links there
//! are; depth, number and size have bounds. Must not: write anything.

mod keep;

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::load::{not_blank, text_of};
use super::{ConfigError, nesting, parse, parse_value};
use crate::support::open_file;
pub(super) use keep::{Lost, kept};

/// The key.
pub const INCLUDE: &str = "$include";
/// As in the original; deeper ones are a mistake.
const MAX_DEPTH: usize = 10;
/// Files that are read for one config: far more than people write.
const MAX_FILES: usize = 100;
/// Bytes of all of them: a list of the same file must not fill memory.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// What a config means with what it includes.
#[derive(Debug, Clone, PartialEq)]
pub struct Whole {
    /// It.
    pub value: Value,
    /// The files that were read for it, each once; one that was reached by a link also as it
    /// is named, since the link may lead elsewhere later.
    pub files: Vec<PathBuf>,
}

/// `raw`, which stands in the file `path`, with what it includes.
///
/// # Errors
/// The path of the `$include` and what is wrong there, or what is wrong in the
/// file that it names.
pub fn whole(raw: Value, path: &Path) -> Result<Whole, ConfigError> {
    if !includes(&raw) {
        return Ok(Whole { value: raw, files: Vec::new() });
    }
    let home = directory(path);
    let mut reader = Reader {
        root: std::fs::canonicalize(&home).unwrap_or_else(|_| home.clone()),
        chain: Vec::new(),
        files: Vec::new(),
        read: 0,
        room: MAX_BYTES,
    };
    let value = reader.value(raw, &Place { key: String::new(), file: path, directory: &home })?;
    if nesting::is_too_deep(&value) {
        let place = Place { key: String::new(), file: path, directory: &home };
        return Err(place.wrong("is nested too deep with what it includes"));
    }
    Ok(Whole { value, files: reader.files })
}

/// What the text of the file `path` means where it includes files; `None` when it includes
/// none, or when they cannot be read.
pub(super) fn meaning(text: &str, path: &Path) -> Option<Value> {
    let raw = parse(text, path).ok().filter(includes)?;
    Some(whole(raw, path).ok()?.value)
}

/// Whether there is an `$include` anywhere.
pub fn includes(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.contains_key(INCLUDE) || members.values().any(includes),
        Value::Array(items) => items.iter().any(includes),
        _ => false,
    }
}

/// `over` on top of `under`: objects are merged, lists follow each other,
/// anything else gives way.
pub(super) fn merged(under: Value, over: Value) -> Value {
    match (under, over) {
        (Value::Object(mut members), Value::Object(over)) => {
            for (name, value) in over {
                let value = match members.get_mut(&name).map(Value::take) {
                    Some(known) => merged(known, value),
                    None => value,
                };
                members.insert(name, value);
            }
            Value::Object(members)
        }
        (Value::Array(mut items), Value::Array(more)) => {
            items.extend(more);
            Value::Array(items)
        }
        (_, over) => over,
    }
}

fn directory(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or_else(|| Path::new(".")).to_owned()
}

/// Where something stands.
struct Place<'a> {
    key: String,
    file: &'a Path,
    directory: &'a Path,
}

impl Place<'_> {
    fn below(&self, step: &str) -> Self {
        let key = match step {
            step if self.key.is_empty() || step.starts_with('[') => format!("{}{step}", self.key),
            step => format!("{}.{step}", self.key),
        };
        Self { key, ..*self }
    }

    fn wrong(&self, reason: &str) -> ConfigError {
        let key = if self.key.is_empty() { "<root>".into() } else { self.key.clone() };
        ConfigError::Invalid { key, reason: reason.into(), place: self.file.display().to_string() }
    }
}

struct Reader {
    /// The only directory, without links.
    root: PathBuf,
    /// The files that are being read, one in the other.
    chain: Vec<PathBuf>,
    files: Vec<PathBuf>,
    read: usize,
    room: u64,
}

impl Reader {
    fn value(&mut self, raw: Value, at: &Place<'_>) -> Result<Value, ConfigError> {
        match raw {
            Value::Array(items) => {
                let items = items.into_iter().enumerate();
                let items = items.map(|(i, item)| self.value(item, &at.below(&format!("[{i}]"))));
                Ok(Value::Array(items.collect::<Result<_, _>>()?))
            }
            Value::Object(mut members) => {
                let named = members.shift_remove(INCLUDE);
                let members = members
                    .into_iter()
                    .map(|(name, value)| Ok((name.clone(), self.value(value, &at.below(&name))?)));
                let own: Map<_, _> = members.collect::<Result<_, ConfigError>>()?;
                match named {
                    None => Ok(Value::Object(own)),
                    Some(named) => self.object(&named, own, at),
                }
            }
            other => Ok(other),
        }
    }

    fn object(
        &mut self,
        said: &Value,
        own: Map<String, Value>,
        at: &Place<'_>,
    ) -> Result<Value, ConfigError> {
        let place = at.below(INCLUDE);
        let names = match said {
            Value::String(name) => vec![name.as_str()],
            Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if names.is_empty() || said.as_array().is_some_and(|items| items.len() != names.len()) {
            return Err(place.wrong("must be the path of a file, or a list of such"));
        }
        let mut under: Option<Value> = None;
        for name in names {
            let next = self.file(name, &place)?;
            under = Some(match under {
                Some(under) => merged(under, next),
                None => next,
            });
        }
        let under = under.unwrap_or(Value::Null);
        if own.is_empty() {
            return Ok(under);
        }
        if !under.is_object() {
            return Err(place.wrong("must lead to an object when something stands beside it"));
        }
        Ok(merged(under, Value::Object(own)))
    }

    fn file(&mut self, name: &str, at: &Place<'_>) -> Result<Value, ConfigError> {
        let written = at.directory.join(name);
        let found = std::fs::canonicalize(&written);
        let path = found.map_err(|error| at.wrong(&format!("cannot read {name:?}: {error}")))?;
        if !path.starts_with(&self.root) {
            let root = self.root.display();
            return Err(at.wrong(&format!("must stay in {root}, and {name:?} does not")));
        }
        if self.chain.contains(&path) || same_file(at.file, &path) {
            return Err(at.wrong(&format!("{name:?} includes itself")));
        }
        if self.chain.len() >= MAX_DEPTH {
            return Err(at.wrong(&format!("more than {MAX_DEPTH} files include one another")));
        }
        self.read += 1;
        if self.read > MAX_FILES {
            return Err(at.wrong(&format!("more than {MAX_FILES} files are included")));
        }
        let text = self.text(&path, name, at)?;
        let raw = parse_value(&text, &path)?;
        for known in [written, path.clone()] {
            if !self.files.contains(&known) {
                self.files.push(known);
            }
        }
        let home = directory(&path);
        self.chain.push(path.clone());
        // Keys in errors are those of the whole, and the file is named beside.
        let key = at.key.trim_end_matches(INCLUDE).trim_end_matches('.').to_owned();
        let value = self.value(raw, &Place { key, file: &path, directory: &home });
        self.chain.pop();
        value
    }

    fn text(&mut self, path: &Path, name: &str, at: &Place<'_>) -> Result<String, ConfigError> {
        let unreadable =
            |error: std::io::Error| at.wrong(&format!("cannot read {name:?}: {error}"));
        let file = open_file(path).map_err(unreadable)?;
        let mut bytes = Vec::new();
        file.take(self.room + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        let length = bytes.len() as u64;
        self.room = self.room.checked_sub(length).ok_or_else(|| {
            at.wrong(&format!("what is included has more than {MAX_BYTES} bytes"))
        })?;
        // As of the config file itself: what has lost its text says nothing of having none.
        Ok(not_blank(text_of(&bytes, path)?, path)?.to_owned())
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    std::fs::canonicalize(one).is_ok_and(|one| one == other)
}

#[cfg(test)]
mod tests;
