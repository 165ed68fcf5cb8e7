//! Where the values of a JSON5 text stand.
//!
//! Only for texts that the parser has accepted: it skips, it does not judge.

use std::collections::BTreeSet;

use super::Step;

/// A value in the text.
#[derive(Debug)]
pub struct Node {
    /// Its first byte.
    pub start: usize,
    /// Behind its last byte.
    pub end: usize,
    /// What it is.
    pub kind: Kind,
}

/// What a value is.
#[derive(Debug)]
pub enum Kind {
    /// With members.
    Object(Vec<Member>),
    /// With items.
    Array(Vec<Node>),
    /// Anything else.
    Scalar,
}

/// A member of an object.
#[derive(Debug)]
pub struct Member {
    /// Its name.
    pub key: String,
    /// The first byte of its name.
    pub start: usize,
    /// Its value.
    pub value: Node,
}

impl Kind {
    /// For people.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Object(_) => "an object",
            Self::Array(_) => "a list",
            Self::Scalar => "a plain value",
        }
    }
}

impl Node {
    /// The value below; the last one of a key that is there twice.
    pub fn child(&self, step: &Step) -> Option<&Self> {
        match (&self.kind, step) {
            (Kind::Object(members), Step::Key(key)) => {
                members.iter().rev().find(|member| member.key == *key).map(|it| &it.value)
            }
            (Kind::Array(items), Step::Index(index)) => items.get(*index),
            _ => None,
        }
    }

    /// First byte and end of an entry, and the end of the one before.
    pub fn entry(&self, step: &Step) -> Option<(usize, usize, Option<usize>)> {
        match (&self.kind, step) {
            (Kind::Object(members), Step::Key(key)) => {
                let at = members.iter().rposition(|member| member.key == *key)?;
                let member = members.get(at)?;
                let before = at.checked_sub(1).and_then(|at| members.get(at));
                Some((member.start, member.value.end, before.map(|it| it.value.end)))
            }
            (Kind::Array(items), Step::Index(index)) => {
                let item = items.get(*index)?;
                let before = index.checked_sub(1).and_then(|at| items.get(at));
                Some((item.start, item.end, before.map(|it| it.end)))
            }
            _ => None,
        }
    }

    /// Whether an object here or below has a member twice.
    pub fn says_twice(&self) -> bool {
        match &self.kind {
            Kind::Object(members) => {
                let mut keys = BTreeSet::new();
                members.iter().any(|it| !keys.insert(&it.key) || it.value.says_twice())
            }
            Kind::Array(items) => items.iter().any(Self::says_twice),
            Kind::Scalar => false,
        }
    }

    /// Whether a key here or below is written without quotes.
    pub fn has_bare_key(&self, text: &str) -> bool {
        match &self.kind {
            Kind::Object(members) => members.iter().any(|member| {
                let first = text.get(member.start..).and_then(|rest| rest.chars().next());
                !matches!(first, Some('"' | '\'')) || member.value.has_bare_key(text)
            }),
            Kind::Array(items) => items.iter().any(|item| item.has_bare_key(text)),
            Kind::Scalar => false,
        }
    }
}

/// The value of the whole text; `None` when there is none.
pub fn scan(text: &str) -> Option<Node> {
    let mut scanner = Scanner { text, at: 0 };
    scanner.skip_space();
    scanner.value()
}

/// The comma behind a value, if there is one before anything else.
pub fn comma_after(text: &str, end: usize) -> Option<usize> {
    let mut scanner = Scanner { text, at: end };
    scanner.skip_space();
    (scanner.peek() == Some(',')).then_some(scanner.at)
}

/// The end of the line, when only space and comments stand before it; else
/// where we are. A comment that goes on in the next line is not behind us.
pub fn line_rest(text: &str, from: usize) -> usize {
    let mut scanner = Scanner { text, at: from };
    let mut end = from;
    loop {
        while scanner.peek().is_some_and(|c| matches!(c, ' ' | '\t')) {
            scanner.next();
        }
        let rest = scanner.rest();
        if rest.starts_with("//") {
            let length = rest.find(['\n', '\r', '\u{2028}', '\u{2029}']).unwrap_or(rest.len());
            return scanner.at + length;
        }
        let Some(body) = rest.strip_prefix("/*") else { return end };
        match body.split_once("*/") {
            Some((comment, _)) if !comment.contains('\n') => {
                scanner.at += comment.len() + 4;
                end = scanner.at;
            }
            _ => return end,
        }
    }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Passes white space and comments.
    fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            if rest.starts_with("//") {
                let length = rest.find(['\n', '\r', '\u{2028}', '\u{2029}']);
                self.at += length.unwrap_or(rest.len());
            } else if let Some(body) = rest.strip_prefix("/*") {
                self.at += body.find("*/").map_or(rest.len(), |length| length + 4);
            } else if self.peek().is_some_and(is_space) {
                self.next();
            } else {
                return;
            }
        }
    }

    fn value(&mut self) -> Option<Node> {
        let start = self.at;
        let kind = match self.peek()? {
            '{' => Kind::Object(self.members()?),
            '[' => Kind::Array(self.items()?),
            quote @ ('"' | '\'') => {
                self.string(quote)?;
                Kind::Scalar
            }
            _ => {
                self.word();
                Kind::Scalar
            }
        };
        (self.at > start).then_some(Node { start, end: self.at, kind })
    }

    fn members(&mut self) -> Option<Vec<Member>> {
        self.next();
        let mut members = Vec::new();
        loop {
            self.skip_space();
            match self.peek()? {
                '}' => {
                    self.next();
                    return Some(members);
                }
                ',' => {
                    self.next();
                }
                _ => members.push(self.member()?),
            }
        }
    }

    fn member(&mut self) -> Option<Member> {
        let start = self.at;
        match self.peek()? {
            quote @ ('"' | '\'') => self.string(quote)?,
            _ => self.word(),
        }
        let written = self.text.get(start..self.at)?;
        let key = key(written)?;
        self.skip_space();
        if self.next()? != ':' {
            return None;
        }
        self.skip_space();
        Some(Member { key, start, value: self.value()? })
    }

    fn items(&mut self) -> Option<Vec<Node>> {
        self.next();
        let mut items = Vec::new();
        loop {
            self.skip_space();
            match self.peek()? {
                ']' => {
                    self.next();
                    return Some(items);
                }
                ',' => {
                    self.next();
                }
                _ => items.push(self.value()?),
            }
        }
    }

    fn string(&mut self, quote: char) -> Option<()> {
        self.next();
        loop {
            match self.next()? {
                '\\' => {
                    self.next()?;
                }
                c if c == quote => return Some(()),
                _ => {}
            }
        }
    }

    /// A number, a name, `true`, `null`, …
    fn word(&mut self) {
        while let Some(c) = self.peek() {
            let ends = matches!(c, ',' | ':' | '{' | '}' | '[' | ']' | '"' | '\'' | '/');
            if ends || is_space(c) {
                return;
            }
            self.next();
        }
    }
}

const fn is_space(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

/// What a written key means: the parser knows about quotes and escapes.
fn key(written: &str) -> Option<String> {
    let object: serde_json::Map<String, serde_json::Value> =
        json5::from_str(&format!("{{{written}:0}}")).ok()?;
    object.into_iter().next().map(|(key, _)| key)
}
