//! The rules. Each takes sources and answers what is wrong with them, so that
//! they can be tried on made-up ones.

use super::source::{Source, Token};

/// Who may use whom: a module may use what is in its own group or in one before.
pub const GROUPS: &[&[&str]] = &[
    &["support", "protocol"],
    &["store", "telemetry", "config"],
    &["auth", "bus", "sessions", "providers"],
    &["agent", "cron", "nodes", "channels", "voice", "push", "wizard"],
    &["registry", "handlers", "commands"],
    &["gateway", "http", "dialects"],
    &["app", "cli"],
];

/// Libraries, and functions of them, that only these modules may name.
const FENCED: &[(&str, &[&str])] = &[
    ("axum", &["gateway", "http", "dialects"]),
    ("hyper", &["gateway"]),
    ("hyper_util", &["gateway"]),
    ("rusqlite", &["store"]),
    ("spawn_blocking", &["support"]),
];

/// Most lines of a file, without its tests.
pub const MAX_FILE: usize = 450;
/// Most lines of a function, from its `fn` to its closing brace.
pub const MAX_FUNCTION: usize = 80;

/// Marks of work that is not done, put together so that this file has none.
const UNFINISHED: [&str; 4] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("unimple", "mented!"),
    concat!("to", "do!"),
];

fn group_of(module: &str) -> Option<usize> {
    GROUPS.iter().position(|group| group.contains(&module))
}

/// A path from the crate root, as far as its first name.
struct Edge<'a> {
    to: &'a str,
    line: usize,
}

/// Uses of modules that are not open to the one that uses them.
pub fn edges(source: &Source) -> Vec<String> {
    let Some(from) = source.top() else { return Vec::new() };
    let place = |line: usize| format!("{}:{line}", source.path);
    let Some(own) = group_of(from) else {
        let why = "is in no group; give it a place in the import rules";
        return vec![format!("{}: module `{from}` {why}", source.path)];
    };
    let mut wrong = Vec::new();
    for Edge { to, line } in from_root(source) {
        match group_of(to) {
            Some(group) if group <= own => {}
            Some(group) => wrong.push(format!(
                "{}: `{from}` must not use `{to}`: `{to}` is in group {} ({}), right of group {} ({}); \
                 move what is needed to the left, or hand it in from the right",
                place(line),
                group + 1,
                GROUPS[group].join(", "),
                own + 1,
                GROUPS[own].join(", "),
            )),
            None => wrong.push(format!(
                "{}: `{from}` uses `crate::{to}`, which is no module of the import rules; \
                 name the module itself, without alias or glob at the crate root",
                place(line)
            )),
        }
    }
    wrong
}

/// Every path that starts at the crate root: `crate::x`, `crate::{x, y}`, and
/// `super::…` that climbs up there.
fn from_root(source: &Source) -> Vec<Edge<'_>> {
    let tokens = &source.tokens;
    let mut found = Vec::new();
    let mut depth = Depth::new(source.module().len());
    for (at, token) in tokens.iter().enumerate() {
        depth.pass(tokens, at);
        match token.text.as_str() {
            "crate" => {
                let next = |n: usize| tokens.get(at + n).map(|token| token.text.as_str());
                if next(1) == Some("::") {
                    first_names(tokens, at + 2, &mut found);
                } else if next(1) == Some("as") {
                    found.push(Edge { to: "crate as …", line: token.line });
                }
            }
            "super" if at == 0 || tokens[at - 1].text != "::" => {
                let (supers, after) = climb(tokens, at);
                if supers >= depth.modules {
                    first_names(tokens, after, &mut found);
                }
            }
            _ => {}
        }
    }
    found
}

/// How many modules deep a token is, counting modules written in the file.
struct Depth {
    modules: usize,
    /// For every open brace, whether it opened a module.
    braces: Vec<bool>,
}

impl Depth {
    const fn new(modules: usize) -> Self {
        Self { modules, braces: Vec::new() }
    }

    fn pass(&mut self, tokens: &[Token], at: usize) {
        match tokens[at].text.as_str() {
            "{" => {
                let is_module = at >= 2 && tokens[at - 2].text == "mod";
                self.modules += usize::from(is_module);
                self.braces.push(is_module);
            }
            "}" => self.modules -= usize::from(self.braces.pop() == Some(true)),
            _ => {}
        }
    }
}

/// How many `super::` there are in a row, and what comes after them.
fn climb(tokens: &[Token], start: usize) -> (usize, usize) {
    let (mut supers, mut at) = (0, start);
    while tokens.get(at).is_some_and(|token| token.text == "super") {
        (supers, at) = (supers + 1, at + 2);
    }
    (supers, at)
}

/// The name at `start`, or each first name of a list in braces.
fn first_names<'a>(tokens: &'a [Token], start: usize, found: &mut Vec<Edge<'a>>) {
    let Some(first) = tokens.get(start) else { return };
    if first.text != "{" {
        found.push(Edge { to: &first.text, line: first.line });
        return;
    }
    let mut depth = 0_usize;
    let mut is_first = true;
    for token in &tokens[start..] {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 1 => is_first = true,
            name if depth == 1 && is_first => {
                found.push(Edge { to: name, line: token.line });
                is_first = false;
            }
            _ => {}
        }
        if depth == 0 {
            return;
        }
    }
}

/// Libraries that are named where they must stay unknown.
pub fn fences(source: &Source) -> Vec<String> {
    let top = source.top().unwrap_or("the crate root");
    let mut wrong = Vec::new();
    for (library, allowed) in FENCED {
        let named = source.tokens.iter().find(|token| token.text == *library);
        if let Some(token) = named.filter(|_| !allowed.contains(&top)) {
            wrong.push(format!(
                "{}:{}: `{top}` names `{library}`; only {} may",
                source.path,
                token.line,
                allowed.join(", ")
            ));
        }
    }
    wrong
}

/// Principals that are made outside of `auth`.
pub fn principals(source: &Source) -> Vec<String> {
    if source.top() == Some("auth") {
        return Vec::new();
    }
    source
        .tokens
        .windows(3)
        .filter(|window| {
            window.iter().map(|token| token.text.as_str()).eq(["Principal", "::", "new"])
        })
        .map(|window| {
            format!(
                "{}:{}: makes a Principal; only `auth` may, after it has checked a credential",
                source.path, window[0].line
            )
        })
        .collect()
}

/// Values that are written with the macro of `serde_json`, which takes a megabyte of the
/// program more than that of `support`.
pub fn macros(source: &Source) -> Vec<String> {
    if source.path == "src/support/object.rs" {
        return Vec::new();
    }
    let tokens = &source.tokens;
    let text = |at: usize| tokens.get(at).map(|token| token.text.as_str());
    let names = (0..tokens.len()).filter(|at| text(*at) == Some("serde_json"));
    let names = names.filter(|at| text(at + 1) == Some("::")).filter(|at| match text(at + 2) {
        Some("{") => {
            let named = tokens[at + 3..].iter().map(|token| token.text.as_str());
            named.take_while(|name| *name != ";").any(|name| name == "json")
        }
        name => name == Some("json"),
    });
    names
        .map(|at| {
            let line = tokens[at].line;
            format!("{}:{line}: names json! of serde_json; use crate::support::json", source.path)
        })
        .collect()
}

/// `main.rs` only hands over to `cli`.
pub fn main_file(source: &Source) -> Vec<String> {
    let names = source.tokens.windows(3).filter(|window| {
        window[0].text == "clawgate" && window[1].text == "::" && window[2].text != "cli"
    });
    names
        .map(|window| {
            let (line, name) = (window[0].line, &window[2].text);
            format!("{}:{line}: main.rs uses `{name}`; it may only use `cli`", source.path)
        })
        .collect()
}

/// Files whose first line does not say what they own.
pub fn header(source: &Source) -> Vec<String> {
    if source.text.starts_with("//!") || source.tokens.iter().all(|token| token.is_test) {
        return Vec::new();
    }
    let why = "does not begin with `//!`: say what it owns, promises, may not do";
    vec![format!("{}: {why}", source.path)]
}

/// Files and functions that are too long to read.
pub fn lengths(source: &Source) -> Vec<String> {
    let mut wrong = Vec::new();
    let lines = source.lines_without_tests();
    if lines > MAX_FILE {
        wrong.push(format!(
            "{}: {lines} lines without tests, {MAX_FILE} are allowed; look for its second noun",
            source.path
        ));
    }
    for (name, line, length) in functions(&source.tokens) {
        if length > MAX_FUNCTION {
            wrong.push(format!(
                "{}:{line}: fn {name} has {length} lines, {MAX_FUNCTION} are allowed",
                source.path
            ));
        }
    }
    wrong
}

/// Name, first line and number of lines of every function that is no test code.
fn functions(tokens: &[Token]) -> Vec<(&str, usize, usize)> {
    let mut found = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        let [keyword, name] = pair else { continue };
        if keyword.text != "fn" || keyword.is_test || !name.is_word() {
            continue;
        }
        let mut depth = 0_usize;
        for token in &tokens[at..] {
            match token.text.as_str() {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth = depth.saturating_sub(1),
                _ => {}
            }
            let ends = depth == 0 && matches!(token.text.as_str(), "}" | ";");
            if ends {
                found.push((name.text.as_str(), keyword.line, token.line + 1 - keyword.line));
                break;
            }
        }
    }
    found
}

/// Marks of work that is not done, in any text file.
pub fn unfinished(path: &str, text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut wrong = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for mark in UNFINISHED {
            let stands_alone = line.match_indices(mark).any(|(at, _)| {
                !line[..at].ends_with(is_part) && !line[at + mark.len()..].starts_with(is_part)
            });
            if stands_alone {
                let line = index + 1;
                wrong.push(format!("{path}:{line}: `{mark}`: finish it or take it out"));
            }
        }
    }
    wrong
}

/// Tests that say by themselves that they prove nothing here, or say something nobody
/// sees and return: a green line hides it.
pub fn given_up(path: &str, text: &str) -> Vec<String> {
    let line_at = |at: usize| text[..at].matches('\n').count() + 1;
    let said = ["NOT RUN", "NOT run", "NOT TESTED", "NOT tested", "NOT counted"];
    let mut places: Vec<usize> =
        said.iter().flat_map(|mark| text.match_indices(mark).map(|(at, _)| at)).collect();
    places.extend(text.match_indices("eprintln!(").map(|(at, _)| at).filter(|at| {
        let behind = text[*at..].split_once(");").map_or("", |(_, behind)| behind);
        behind.trim_start().starts_with("return")
    }));
    let tell = |at: usize| format!("{path}:{}: return `support::not_run(…)` instead", line_at(at));
    places.into_iter().map(tell).collect()
}
