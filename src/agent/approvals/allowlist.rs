//! The entries of the allowlist.
//!
//! Owns: when an entry speaks for a program. Promises: an entry that cannot be
//! understood speaks for nothing. Must not: judge programs or read files.

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;
use serde_json::Value;

use super::resolve::{Found, real};

/// One entry, as far as it decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The agent's id or `*`: below whom it stands.
    pub owner: String,
    /// A path, a path with `*`, `**` and `?`, or the bare name of a program
    /// that is found along `PATH`.
    pub pattern: String,
    /// An expression for the arguments, joined by single spaces.
    pub arguments: Option<String>,
}

impl Entry {
    /// Reads one; `None` for what is none.
    pub fn read(owner: &str, value: &Value) -> Option<Self> {
        let pattern = value.get("pattern")?.as_str()?.trim();
        let arguments = match value.get("argPattern") {
            None | Some(Value::Null) => None,
            Some(written) => Some(written.as_str()?.to_owned()),
        };
        (!pattern.is_empty()).then(|| Self {
            owner: owner.to_owned(),
            pattern: pattern.to_owned(),
            arguments,
        })
    }

    /// Whether it speaks for what the other one speaks for, whoever's they are.
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        (&self.pattern, &self.arguments) == (&other.pattern, &other.arguments)
    }

    /// Whether it speaks for this program with these arguments.
    pub fn covers(&self, found: &Found, args: &[String], home: Option<&Path>) -> bool {
        self.covers_program(found, home) && self.covers_arguments(args)
    }

    /// Whether it may speak for a program at this path without links, by whatever name
    /// or link a command says it; `search` is the `PATH` of commands.
    pub fn may_mean(&self, path: &Path, home: Option<&Path>, search: Option<&str>) -> bool {
        let Some(pattern) = self.expanded(home) else { return false };
        if pattern.contains(['*', '?']) {
            // Links may lead from what fits anywhere.
            return true;
        }
        if pattern.contains('/') {
            return real(Path::new(&pattern)) == path;
        }
        path.file_name().is_some_and(|name| *name == *pattern)
            || Found::find(&pattern, Path::new("/"), search).is_some_and(|it| it.real == path)
    }

    /// Its pattern with the home in the place of `~`.
    fn expanded(&self, home: Option<&Path>) -> Option<String> {
        match self.pattern.strip_prefix("~/") {
            Some(rest) => Some(home?.join(rest).to_string_lossy().into_owned()),
            None => Some(self.pattern.clone()),
        }
    }

    fn covers_program(&self, found: &Found, home: Option<&Path>) -> bool {
        let Some(pattern) = self.expanded(home) else { return false };
        if !pattern.contains('/') {
            return !found.word.contains('/') && matches(&pattern, &found.word);
        }
        let as_found = found.path.to_str().is_some_and(|path| matches(&pattern, path));
        // A plain path also speaks for the file that it leads to.
        let is_plain = pattern.starts_with('/') && !pattern.contains(['*', '?']);
        let leads_there = || {
            let target = fs::canonicalize(PathBuf::from(&pattern)).ok();
            is_plain && !found.is_many_in_one() && target.as_ref() == Some(&found.real)
        };
        as_found || leads_there()
    }

    fn covers_arguments(&self, args: &[String]) -> bool {
        let Some(expression) = &self.arguments else { return true };
        // Joined, `a b` would look like two arguments.
        let is_joined_clearly = args.iter().all(|arg| !arg.contains(char::is_whitespace));
        let Ok(expression) = Regex::new(&format!("^(?:{expression})$")) else { return false };
        is_joined_clearly && expression.is_match(&args.join(" "))
    }
}

/// `*` stands for anything within a part of a path, `**` for anything, `?` for
/// one character.
fn matches(pattern: &str, text: &str) -> bool {
    fn go(pattern: &[char], text: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            // Any parts of a path or none: `**/x` is also `x` itself.
            ['*', '*', '/', rest @ ..] => (0..=text.len())
                .filter(|at| *at == 0 || text[at - 1] == '/')
                .any(|at| go(rest, &text[at..])),
            ['*', '*', rest @ ..] => (0..=text.len()).any(|at| go(rest, &text[at..])),
            ['*', rest @ ..] => {
                let within = text.iter().take_while(|letter| **letter != '/').count();
                (0..=within).any(|at| go(rest, &text[at..]))
            }
            ['?', rest @ ..] => {
                text.split_first().is_some_and(|(letter, after)| *letter != '/' && go(rest, after))
            }
            [letter, rest @ ..] => {
                text.split_first().is_some_and(|(first, after)| first == letter && go(rest, after))
            }
        }
    }
    // Each star multiplies the work; more than these are no pattern of a person.
    if pattern.matches('*').count() > MAX_STARS {
        return false;
    }
    let (pattern, text): (Vec<_>, Vec<_>) = (pattern.chars().collect(), text.chars().collect());
    go(&pattern, &text)
}

/// `/a/**/b/*/c` has three.
const MAX_STARS: usize = 8;

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    fn entry(value: &Value) -> Entry {
        Entry::read("main", value).unwrap()
    }

    fn found(word: &str, path: &str) -> Found {
        Found { word: word.into(), path: path.into(), real: path.into() }
    }

    fn covers(pattern: &str, word: &str, path: &str) -> bool {
        entry(&json!({"pattern": pattern})).covers(
            &found(word, path),
            &[],
            Some("/home/u".as_ref()),
        )
    }

    #[test]
    fn patterns_are_paths_wildcards_and_bare_names() {
        for (pattern, path) in [
            ("/usr/bin/rg", "/usr/bin/rg"),
            ("/usr/bin/*", "/usr/bin/rg"),
            ("/opt/**/rg", "/opt/a/b/rg"),
            ("/opt/**/rg", "/opt/rg"),
            ("**/rg", "/usr/bin/rg"),
            ("/opt/**", "/opt/a/rg"),
            ("/usr/bin/r?", "/usr/bin/rg"),
            ("~/bin/rg", "/home/u/bin/rg"),
            ("rg", "/usr/bin/rg"),
            ("*", "/usr/bin/rg"),
        ] {
            assert!(covers(pattern, "rg", path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("/usr/bin/rg", "/usr/bin/rgx"),
            ("/usr/bin/*", "/usr/bin/a/rg"),
            ("/usr/*/rg", "/usr/a/b/rg"),
            ("**/rg", "/usr/bin/xrg"),
            ("/opt/**/rg", "/opt/a/xrg"),
            ("/usr/bin/r?", "/usr/bin/r"),
            ("~/bin/rg", "/root/bin/rg"),
            ("bin/rg", "/usr/bin/rg"),
            ("RG", "/usr/bin/rg"),
        ] {
            assert!(!covers(pattern, "rg", path), "{pattern} {path}");
        }
    }

    #[test]
    fn a_bare_name_is_no_name_for_a_path() {
        assert!(!covers("rg", "./rg", "/work/rg"));
        assert!(!covers("*", "/work/rg", "/work/rg"));
    }

    #[test]
    fn an_expression_must_fit_all_arguments_and_be_understood() {
        let with = |expression: &str, args: &[&str]| {
            let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
            entry(&json!({"pattern": "rg", "argPattern": expression})).covers(
                &found("rg", "/usr/bin/rg"),
                &args,
                None,
            )
        };
        assert!(with("-n \\w+", &["-n", "x"]));
        assert!(with("^$", &[]));
        assert!(!with("-n", &["-n", "x"]));
        assert!(!with("a|b", &["a", "--pre", "b"]));
        assert!(!with("-n .*", &["-n", "x y"]));
        assert!(!with("(?=x)", &["x"]));
        assert!(!with("(", &["("]));
    }

    #[test]
    fn what_is_no_entry_speaks_for_nothing() {
        for value in [
            json!({}),
            json!({"pattern": ""}),
            json!({"pattern": 1}),
            json!("rg"),
            json!({"pattern": "rg", "argPattern": 1}),
        ] {
            assert_eq!(Entry::read("main", &value), None, "{value}");
        }
        assert!(!covers(&"*".repeat(40), "rg", "/usr/bin/rg"));
    }
}
