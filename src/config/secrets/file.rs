//! Secrets in a file.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use serde_json::Value;

use super::reference::WHOLE_FILE;
use super::{FileMode, FileProvider, SecretError};
use crate::support::{Secret, blocking};

/// Others may neither read nor write.
const PRIVATE: u32 = 0o077;
/// Others may not write.
const UNCHANGED: u32 = 0o022;

/// What is in the file: its text, or its JSON object.
pub enum Content {
    /// One secret.
    Whole(Secret),
    /// Many.
    Json(Value),
}

impl Content {
    /// The secret with this id.
    pub fn get(&self, id: &str) -> Option<Secret> {
        let secret = match self {
            Self::Whole(secret) => (id == WHOLE_FILE).then(|| secret.clone()),
            Self::Json(value) => value.pointer(id)?.as_str().map(Secret::new),
        };
        secret.filter(|secret| !secret.is_empty())
    }
}

/// Reads the file, when only its owner can.
pub async fn read(provider: FileProvider) -> Result<Content, SecretError> {
    let (path, limit) = (provider.path.clone(), provider.timeout);
    let reading = blocking(move || read_now(&provider));
    match tokio::time::timeout(limit, reading).await {
        Ok(Ok(content)) => content,
        Ok(Err(_)) | Err(_) => Err(SecretError::Slow { what: path, limit }),
    }
}

fn read_now(provider: &FileProvider) -> Result<Content, SecretError> {
    let path = provider.path.as_path();
    let unreadable = |source| SecretError::Unreadable { path: path.to_owned(), source };
    // What is checked is what is read: the open file, not its name.
    let file = open(path).map_err(unreadable)?;
    let facts = file.metadata().map_err(unreadable)?;
    if !provider.allow_insecure_path {
        check(path, &facts, PRIVATE)?;
    } else if !facts.is_file() {
        return Err(SecretError::NoFile(path.to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(provider.max_bytes + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > provider.max_bytes {
        return Err(SecretError::TooLarge { what: path.to_owned(), limit: provider.max_bytes });
    }
    let no_text = || SecretError::NoAnswer { what: path.to_owned(), why: "it is not UTF-8 text" };
    let text = String::from_utf8(bytes).map_err(|_| no_text())?;
    match provider.mode {
        FileMode::SingleValue => Ok(Content::Whole(Secret::new(text))),
        FileMode::Json => serde_json::from_str(&text).map(Content::Json).map_err(|_| {
            SecretError::NoAnswer { what: path.to_owned(), why: "it is not a JSON document" }
        }),
    }
}

/// Opens without waiting, should it be a pipe.
fn open(path: &Path) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)
}

/// Whether nobody but its owner, who is us or root, has the rights of `others`.
fn check(path: &Path, facts: &Metadata, others: u32) -> Result<(), SecretError> {
    if !facts.is_file() {
        return Err(SecretError::NoFile(path.to_owned()));
    }
    let us = rustix::process::getuid().as_raw();
    if facts.uid() != us && facts.uid() != 0 {
        return Err(SecretError::Foreign(path.to_owned()));
    }
    if facts.mode() & others != 0 {
        let mode = facts.mode() & 0o777;
        return Err(SecretError::Open { path: path.to_owned(), mode });
    }
    Ok(())
}

/// Whether a program is ours to trust: a file that others cannot change.
pub fn check_program(path: &Path) -> Result<(), SecretError> {
    let facts = std::fs::metadata(path);
    let facts =
        facts.map_err(|source| SecretError::Unreadable { path: path.to_owned(), source })?;
    check(path, &facts, UNCHANGED)
}
