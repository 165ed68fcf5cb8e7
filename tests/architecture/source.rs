//! A Rust source as the rules see it: words and punctuation with their lines,
//! without comments, texts and, where it matters, without test code.
//!
//! Knows just enough of the language for that; it does not parse it.

use std::collections::BTreeSet;

/// A word or one punctuation character (`::` counts as one).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    pub line: usize,
    /// Whether it is inside an item under `#[cfg(test)]`.
    pub is_test: bool,
}

impl Token {
    pub fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

/// One file.
#[derive(Debug)]
pub struct Source {
    /// Relative to the repository, such as `src/bus/hub.rs`.
    pub path: String,
    pub text: String,
    pub tokens: Vec<Token>,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        let mut tokens = tokens(&blank(text));
        mark_tests(&mut tokens);
        Self { path: path.to_owned(), text: text.to_owned(), tokens }
    }

    /// Names of the modules from the crate root to this file: `bus`, `hub`.
    pub fn module(&self) -> Vec<&str> {
        let inner = self.path.strip_prefix("src/").unwrap_or(&self.path);
        let inner = inner.strip_suffix(".rs").unwrap_or(inner);
        let mut names: Vec<&str> = inner.split('/').collect();
        if matches!(names.last(), Some(&("mod" | "lib" | "main"))) || names == ["build"] {
            names.pop();
        }
        names
    }

    /// The module right below the crate root; `None` for `lib.rs`, `main.rs` and
    /// `build.rs`.
    pub fn top(&self) -> Option<&str> {
        self.module().first().copied()
    }

    /// How many lines are not test code.
    pub fn lines_without_tests(&self) -> usize {
        let of_tests: BTreeSet<usize> = test_spans(&self.tokens).into_iter().flatten().collect();
        (1..=self.text.lines().count()).filter(|line| !of_tests.contains(line)).count()
    }

    /// Files that this one declares as modules under `#[cfg(test)]`.
    pub fn test_files(&self) -> Vec<String> {
        let folder = self.path.strip_suffix("/mod.rs").or_else(|| self.path.strip_suffix(".rs"));
        let Some(folder) = folder else { return Vec::new() };
        self.tokens
            .windows(3)
            .filter_map(|window| match window {
                [keyword, name, end]
                    if keyword.is_test && keyword.text == "mod" && end.text == ";" =>
                {
                    Some(format!("{folder}/{}.rs", name.text))
                }
                _ => None,
            })
            .collect()
    }

    /// A file that is test code as a whole.
    pub fn all_tests(mut self) -> Self {
        self.tokens.iter_mut().for_each(|token| token.is_test = true);
        self
    }
}

fn test_spans(tokens: &[Token]) -> Vec<std::ops::RangeInclusive<usize>> {
    tokens
        .chunk_by(|a, b| a.is_test == b.is_test)
        .filter_map(|chunk| {
            let (first, last) = (chunk.first()?, chunk.last()?);
            first.is_test.then_some(first.line..=last.line)
        })
        .collect()
}

/// The text with comments, texts and characters replaced by spaces; lines stay.
fn blank(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = word_length(rest);
        let length = opaque_length(rest);
        if length > 0 {
            let (opaque, after) = rest.split_at(length);
            out.extend(opaque.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = after;
        } else {
            // A whole word at once, so that the `r` of `for"` begins no raw text.
            let (plain, after) = rest.split_at(word.max(first.len_utf8()));
            out.push_str(plain);
            rest = after;
        }
    }
    out
}

fn word_length(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// Bytes of the comment, text or character that `text` begins with; 0 if none.
fn opaque_length(text: &str) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return block_comment(text);
    }
    let prefix = word_length(text);
    let (head, body) = text.split_at(prefix);
    match head {
        "r" | "br" | "cr" if body.starts_with(['"', '#']) => {
            raw_text(body).map_or(0, |length| prefix + length)
        }
        "" | "b" | "c" if body.starts_with('"') => prefix + quoted(body, '"'),
        "" | "b" if body.starts_with('\'') => character(body).map_or(0, |length| prefix + length),
        _ => 0,
    }
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// `#"…"#`; `None` for a raw word such as `r#type`.
fn raw_text(text: &str) -> Option<usize> {
    let hashes = text.len() - text.trim_start_matches('#').len();
    let inner = text.get(hashes..)?.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(inner.find(&end).map_or(text.len(), |at| hashes + 1 + at + end.len()))
}

fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if !escaped && c == quote {
            return at + c.len_utf8();
        }
        escaped = !escaped && c == '\\';
    }
    text.len()
}

/// `'x'` or `'\n'`; `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let mut inner = text.chars().skip(1);
    let (first, second) = (inner.next()?, inner.next()?);
    (first == '\\' || second == '\'').then(|| quoted(text, '\''))
}

fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = match word_length(rest) {
                0 if rest.starts_with("::") => 2,
                0 => first.len_utf8(),
                word => word,
            };
            let (token, after) = rest.split_at(length);
            found.push(Token { text: token.to_owned(), line: index + 1, is_test: false });
            rest = after.trim_start();
        }
    }
    found
}

/// Marks every item that has `#[cfg(test)]`, with its attribute.
fn mark_tests(tokens: &mut [Token]) {
    const ATTRIBUTE: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut at = 0;
    while at + ATTRIBUTE.len() <= tokens.len() {
        let is_here = (at..).zip(ATTRIBUTE).all(|(index, text)| tokens[index].text == text);
        if is_here {
            let end = item_end(tokens, at + ATTRIBUTE.len());
            tokens[at..end].iter_mut().for_each(|token| token.is_test = true);
            at = end;
        } else {
            at += 1;
        }
    }
}

/// Where the item that begins at `start` ends: after its `;` or its braces.
fn item_end(tokens: &[Token], start: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(start) {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                if depth == 0 && token.text == "}" {
                    return index + 1;
                }
            }
            ";" if depth == 0 => return index + 1,
            _ => {}
        }
    }
    tokens.len()
}
