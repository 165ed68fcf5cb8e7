//! Where each effective value comes from.
//!
//! Owns: the precedence flag > environment > file > default, and the record of
//! who won. Promises: a secret is never in the record. Must not: know any key.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

use super::Settings;
use crate::support::sort;

/// What is shown for a value that is not there.
const NOT_SET: &str = "not set";

/// Who decided a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A command-line flag.
    Flag(&'static str),
    /// An environment variable.
    Env(&'static str),
    /// The config file.
    File(PathBuf),
    /// Nobody; the built-in value.
    Default,
    /// The gateway made it and keeps it in this file.
    Generated(PathBuf),
}

impl Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Env(name) => write!(f, "environment {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Default => f.write_str("default"),
            Self::Generated(path) => write!(f, "generated, kept in {}", path.display()),
        }
    }
}

/// One line of `clawgate config explain`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// Path of the key in the config file.
    pub key: String,
    /// The effective value; of a secret only whether it is set.
    pub value: String,
    /// Who decided it.
    pub origin: Origin,
}

impl Settings {
    /// Every effective value with its origin.
    pub fn explain(&self) -> Vec<Explained> {
        self.explained.clone()
    }

    /// Who decided the value of `key`.
    pub fn origin_of(&self, key: &str) -> Option<&Origin> {
        self.explained.iter().find(|line| line.key == key).map(|line| &line.origin)
    }
}

/// The candidates for one value; offered from strong to weak, the first wins.
#[derive(Debug, Clone)]
pub(super) struct Choice<T>(Option<(T, Origin)>);

impl<T> Choice<T> {
    pub fn flag(name: &'static str, value: Option<T>) -> Self {
        Self(value.map(|value| (value, Origin::Flag(name))))
    }

    pub fn env(name: &'static str, value: Option<T>) -> Self {
        Self(None).or_env(name, value)
    }

    pub fn file(file: &Path, value: Option<T>) -> Self {
        Self(None).or_file(file, value)
    }

    pub fn or_env(self, name: &'static str, value: Option<T>) -> Self {
        self.or(value, || Origin::Env(name))
    }

    pub fn or_file(self, file: &Path, value: Option<T>) -> Self {
        self.or(value, || Origin::File(file.to_owned()))
    }

    pub fn or(self, value: Option<T>, origin: impl FnOnce() -> Origin) -> Self {
        Self(self.0.or_else(|| value.map(|value| (value, origin()))))
    }

    pub fn is_set(&self) -> bool {
        self.0.is_some()
    }

    pub fn origin(&self) -> Option<&Origin> {
        self.0.as_ref().map(|(_, origin)| origin)
    }
}

/// The record of who won, as the settings are put together.
#[derive(Debug, Default)]
pub(super) struct Ledger(Vec<Explained>);

impl Ledger {
    /// The winner, or `default`.
    pub fn settle<T: Display>(&mut self, key: &str, choice: Choice<T>, default: T) -> T {
        let (value, origin) = choice.0.unwrap_or((default, Origin::Default));
        self.note(key, value.to_string(), origin);
        value
    }

    /// The winner, if there is one.
    pub fn settle_optional<T: Display>(&mut self, key: &str, choice: Choice<T>) -> Option<T> {
        let shown =
            choice.0.as_ref().map_or_else(|| NOT_SET.into(), |(value, _)| value.to_string());
        let (value, origin) = choice.0.map_or((None, Origin::Default), |(v, o)| (Some(v), o));
        self.note(key, shown, origin);
        value
    }

    /// The winner of a list, or `default`; shown with commas.
    pub fn settle_list<T: Display>(
        &mut self,
        key: &str,
        choice: Choice<Vec<T>>,
        default: Vec<T>,
    ) -> Vec<T> {
        let (value, origin) = choice.0.unwrap_or((default, Origin::Default));
        let texts: Vec<_> = value.iter().map(T::to_string).collect();
        let shown = if texts.is_empty() { "none".into() } else { texts.join(", ") };
        self.note(key, shown, origin);
        value
    }

    /// The winner among secrets.
    pub fn settle_secret<T>(&mut self, key: &str, choice: Choice<T>) -> Option<T> {
        let shown = if choice.is_set() { "set" } else { NOT_SET };
        let (value, origin) = choice.0.map_or((None, Origin::Default), |(v, o)| (Some(v), o));
        self.note(key, shown.into(), origin);
        value
    }

    /// Notes a value that was decided elsewhere.
    pub fn note(&mut self, key: &str, value: String, origin: Origin) {
        self.0.push(Explained { key: key.into(), value, origin });
    }

    /// All of it, by key.
    pub fn into_lines(mut self) -> Vec<Explained> {
        sort::by(&mut self.0, |a, b| a.key.cmp(&b.key));
        self.0
    }
}
