//! What a command is, seen by the allowlist and by a person.
//!
//! Owns: putting words, program, risks and entries together. Promises: a
//! command is covered only when each of its words, its program and all that the
//! call adds to it are known to be plain. Must not: decide.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::json;

use super::allowlist::Entry;
use super::permit::Program;
use super::programs::{Risk, risk};
use super::request::ExecRequest;
use super::resolve::Found;
use super::variables::{is_tame, variables_warning};
use super::words::{Parts, has_gap, has_hidden, words};

/// What was found out about a command.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Assessment {
    /// The entry that speaks for it, and how it is started then.
    pub covered: Option<(Entry, Program)>,
    /// The program of its first part.
    pub first: Option<Found>,
    /// Whether an entry for that program would ever speak for it.
    pub can_be_listed: bool,
    /// `commandAnalysis` on the wire.
    pub analysis: Value,
    /// Said to whoever decides, when there is something to watch out for.
    pub warning: Option<String>,
}

impl Assessment {
    /// Looks at a command and at the programs it names. `home` is for patterns
    /// that begin with it; no program in one of `workspaces` is on the list. Touches
    /// the disk.
    pub fn of(
        request: &ExecRequest,
        entries: &[Entry],
        home: Option<&Path>,
        workspaces: &[PathBuf],
    ) -> Self {
        let search = request.env.get("PATH").map(String::as_str);
        let find = |word: &str| Found::find(word, &request.cwd, search);
        let parts = Parts::of(&request.command);
        let first_words = parts.parts.first().and_then(|part| words(part));
        let first = first_words.as_ref().and_then(|words| find(words.first()?));
        let first_risk = first_words.as_deref().and_then(|words| risk_of(first.as_ref(), words));
        // By a terminal whoever writes to it later starts what he likes: `less` does.
        let can_be_listed = first_risk.is_none()
            && !request.has_terminal
            && first.as_ref().is_some_and(|first| !first.is_changeable(workspaces));
        let covered = words(&request.command)
            .filter(|_| request.env_asked.iter().all(|name| is_tame(name)))
            .and_then(|words| covered(&words, first.as_ref(), can_be_listed, entries, home));
        let warnings = warnings(&request.command);
        let analysis = analysis(&parts, &warnings, &find);
        Self { covered, first, can_be_listed, analysis, warning: warning(request, &warnings) }
    }
}

/// The analysis of a command of which only the text is known.
pub fn analysis_of(command: &str) -> Value {
    analysis(&Parts::of(command), &warnings(command), &|_| None)
}

fn analysis(parts: &Parts<'_>, warnings: &[&str], find: &dyn Fn(&str) -> Option<Found>) -> Value {
    let risks = parts.parts.iter().filter_map(|part| risk_in(part, find)).map(Risk::as_str);
    json!({
        "commandCount": parts.parts.len(),
        "nestedCommandCount": parts.nested,
        "riskKinds": risks.collect::<BTreeSet<_>>(),
        "warningLines": warnings,
    })
}

/// What to watch out for in the text of a command.
fn warnings(command: &str) -> Vec<&'static str> {
    let hidden = has_hidden(command).then_some(
        "The command has characters that are not shown or that change the order of others.",
    );
    let gap = has_gap(command).then_some(
        "The command has many blanks in one place; what follows them may be out of sight.",
    );
    hidden.into_iter().chain(gap).collect()
}

/// The same, and what of the call is not in that text.
fn warning(request: &ExecRequest, of_text: &[&str]) -> Option<String> {
    let terminal = request
        .has_terminal
        .then_some("It runs in a terminal: what the agent types there later is not asked about.");
    let asked = request.env_asked.iter();
    let set = asked.filter_map(|name| Some((name.as_str(), request.env.get(name)?.as_str())));
    let lines = of_text.iter().copied().chain(terminal).map(str::to_owned);
    let lines: Vec<_> = lines.chain(variables_warning(set)).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn covered(
    words: &[String],
    found: Option<&Found>,
    can_be_listed: bool,
    entries: &[Entry],
    home: Option<&Path>,
) -> Option<(Entry, Program)> {
    let found = found.filter(|_| can_be_listed)?;
    let (name, args) = words.split_first()?;
    let entry = entries.iter().find(|entry| entry.covers(found, args, home))?;
    let program =
        Program::Direct { path: found.real.clone(), name: name.clone(), args: args.to_vec() };
    Some((entry.clone(), program))
}

fn risk_of(found: Option<&Found>, words: &[String]) -> Option<Risk> {
    let (name, args) = words.split_first()?;
    match found {
        Some(found) => risk(&found.names(), args),
        None => risk(&[name.rsplit('/').next().unwrap_or(name)], args),
    }
}

/// The risk of one part, as far as its words can be read.
fn risk_in(part: &str, find: &dyn Fn(&str) -> Option<Found>) -> Option<Risk> {
    let words = words(part)
        .unwrap_or_else(|| part.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let found = words.first().and_then(|word| find(word));
    risk_of(found.as_ref(), &words)
}
