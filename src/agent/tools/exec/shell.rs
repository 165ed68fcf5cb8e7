//! As much of the shell's language as it takes to describe a command.
//!
//! Owns: words, stages and pipelines. Must not: decide anything; what runs is
//! decided on by `agent::approvals`.

use crate::config::is_variable;

/// Words of a command that are looked at.
const MAX_WORDS: usize = 48;

/// What a command is split at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    Stages,
    Pipes,
}

/// The words of a command, without quotes, and without what sets variables
/// before it.
pub fn words(text: &str) -> Vec<String> {
    let mut words = raw_words(text);
    let mut is_env = false;
    let skipped = words.iter().take_while(|word| {
        let is_assignment = word.split_once('=').is_some_and(|(name, _)| is_variable(name));
        let is_option = is_env && word.starts_with('-');
        let is_new_env = !is_env && name_of(word) == "env";
        is_env |= is_new_env;
        is_assignment || is_option || is_new_env
    });
    let skipped = skipped.count();
    words.drain(..skipped);
    words
}

fn raw_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut quote, mut is_escaped) = (None, false);
    for letter in text.chars() {
        match quote {
            _ if is_escaped => {
                word.push(letter);
                is_escaped = false;
            }
            _ if letter == '\\' => is_escaped = true,
            Some(open) if letter == open => quote = None,
            None if matches!(letter, '"' | '\'') => quote = Some(letter),
            None if letter.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                if words.len() >= MAX_WORDS {
                    return words;
                }
            }
            _ => word.push(letter),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// The name of a program, without the path to it.
pub fn name_of(word: &str) -> String {
    word.rsplit('/').next().unwrap_or(word).to_lowercase()
}

/// The value of an option.
pub fn value(words: &[String], names: &[&str]) -> Option<String> {
    words.iter().enumerate().find_map(|(at, word)| {
        let joined = word.split_once('=').filter(|(name, _)| name.starts_with("--"));
        match joined {
            Some((name, value)) if names.contains(&name) => Some(value.to_owned()),
            _ if names.contains(&word.as_str()) => {
                words.get(at + 1).filter(|value| !value.starts_with('-')).cloned()
            }
            _ => None,
        }
    })
}

/// What is no option, and no value of those `with_value`.
pub fn positional(words: &[String], with_value: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        if word == "--" {
            found.extend(rest.cloned());
            break;
        } else if !word.starts_with('-') {
            found.push(word.clone());
        } else if with_value.contains(&word.as_str()) {
            rest.next();
        }
    }
    found
}

/// The stages of a command: what follows each other.
pub fn stages(command: &str) -> Vec<&str> {
    split(command, Cut::Stages)
}

/// The programs of a stage that pass data on.
pub fn pipeline(stage: &str) -> Vec<&str> {
    split(stage, Cut::Pipes)
}

fn split(command: &str, cut: Cut) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut begin, mut quote, mut is_escaped) = (0, None, false);
    let mut letters = command.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        if is_escaped || letter == '\\' {
            is_escaped = !is_escaped;
        } else if quote.is_some() {
            quote = quote.filter(|open| *open != letter);
        } else if matches!(letter, '"' | '\'') {
            quote = Some(letter);
        } else if command.get(at..).is_some_and(|rest| rest.starts_with("<<")) {
            // What follows is text for a program.
            break;
        } else {
            let is_double = letters.peek().is_some_and(|(_, next)| *next == letter);
            let length = match (letter, is_double) {
                (';', _) => 1,
                ('&' | '|', true) => 2,
                ('|', false) if cut == Cut::Pipes => 1,
                _ => continue,
            };
            if length == 2 {
                letters.next();
            }
            parts.push(command.get(begin..at).unwrap_or_default());
            begin = at + length;
        }
    }
    parts.push(command.get(begin..).unwrap_or_default());
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// The command that a shell is asked to run.
pub fn unwrap_shell(command: &str) -> String {
    let words = raw_words(command);
    let is_shell = words
        .first()
        .is_some_and(|word| ["bash", "sh", "zsh", "fish"].contains(&name_of(word).as_str()));
    let flag = words.iter().position(|word| ["-c", "-lc", "-ic"].contains(&word.as_str()));
    let inner = flag.filter(|_| is_shell).and_then(|at| words.get(at + 1..));
    match inner {
        Some(inner) if !inner.is_empty() => inner.join(" "),
        _ => command.to_owned(),
    }
}

/// The stages without changes of directory and settings at the beginning, and
/// where those lead.
pub fn strip_preparation(command: &str) -> (Vec<&str>, Option<String>) {
    let (mut rest, mut directory) = (stages(command), None);
    while rest.len() > 1 {
        let words = rest.first().map(|first| raw_words(first)).unwrap_or_default();
        match words.first().map(String::as_str) {
            Some("cd" | "pushd") => directory = words.get(1).cloned().or(directory),
            Some("set" | "export" | "unset") => {}
            _ => break,
        }
        rest.remove(0);
    }
    (rest, directory)
}
