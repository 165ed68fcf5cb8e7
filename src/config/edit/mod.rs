//! Changing one place of a JSON5 text.
//!
//! Owns: where a value stands in a text, and how a new one is written into its
//! surroundings. Promises: outside of that place not a byte changes, so that
//! comments, order and quotes stay as the user has them; the text that comes
//! out means what was asked for, or there is an error and none. Must not:
//! touch files; see [`save`](super::save).

mod path;
mod render;
mod scan;

use std::path::Path;

use serde_json::Value;

use super::{ConfigError, load, nesting};
pub(super) use path::walk;
pub use path::{PathError, Step, ValuePath};
use render::Style;
use scan::{Kind, Node};

/// Why a text cannot be changed as asked.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// It is not JSON5.
    #[error(transparent)]
    Text(#[from] ConfigError),
    /// On the way there is something without members.
    #[error("{path}: there is no way further down: it is {found}")]
    NoWay {
        /// Where.
        path: String,
        /// What is there.
        found: &'static str,
    },
    /// A list has no such place.
    #[error("{path}: the list has {length} items")]
    NoItem {
        /// The place.
        path: String,
        /// How long the list is.
        length: usize,
    },
    /// What is written could not be read again.
    #[error("{0}: nested too deep")]
    TooDeep(String),
    /// The result would mean something else. Never seen; nothing is written.
    #[error("{0}: this text cannot be edited safely; change it by hand")]
    Unsafe(String),
}

impl EditError {
    /// The same, of the text of this file.
    #[must_use]
    pub fn in_file(self, path: &Path) -> Self {
        match self {
            Self::Text(ConfigError::Syntax { line, column, reason, .. }) => {
                Self::Text(ConfigError::Syntax { path: path.to_owned(), line, column, reason })
            }
            Self::Text(ConfigError::Invalid { key, reason, .. }) => {
                let place = path.display().to_string();
                Self::Text(ConfigError::Invalid { key, reason, place })
            }
            other => other,
        }
    }
}

/// `text` with `value` at `path`; what is missing on the way is made.
///
/// # Errors
/// When the text is no JSON5 object, or the path leads through something that
/// has no members.
pub fn set(text: &str, path: &ValuePath, value: &Value) -> Result<String, EditError> {
    // Before anything is built that is as deep as the path is long.
    if path.steps().len() > nesting::MAX_DEPTH {
        return Err(EditError::TooDeep(path.to_string()));
    }
    let mut expected = parse(text)?;
    let edited = match scan::scan(text) {
        Some(root) => Editor::new(text, &root).set(&root, path, value)?,
        None => fresh(path, value),
    };
    // Only a place in a list that is yet to be made is left to be wrong.
    path.set_in(&mut expected, value.clone())
        .map_err(|()| EditError::NoItem { path: path.to_string(), length: 0 })?;
    if nesting::is_too_deep(&expected) {
        return Err(EditError::TooDeep(path.to_string()));
    }
    verified(edited, &expected, path)
}

/// `text` without what is at `path`; the same text when nothing is there.
///
/// # Errors
/// When the text is no JSON5 object.
pub fn remove(text: &str, path: &ValuePath) -> Result<String, EditError> {
    let mut expected = parse(text)?;
    let Some(root) = scan::scan(text) else { return Ok(text.to_owned()) };
    if !path.remove_from(&mut expected) {
        return Ok(text.to_owned());
    }
    let Some(mut edited) = Editor::new(text, &root).remove(&root, path) else {
        return Ok(text.to_owned());
    };
    // A key that is there twice is removed twice; the next item of a list is
    // another one.
    while matches!(path.steps().last(), Some(Step::Key(_)))
        && let Some(root) = scan::scan(&edited)
        && let Some(without) = Editor::new(&edited, &root).remove(&root, path)
    {
        edited = without;
    }
    verified(edited, &expected, path)
}

/// Whether an object in a text that the parser has accepted has a member twice: only the last
/// one counts.
pub(super) fn says_twice(text: &str) -> bool {
    scan::scan(text).is_some_and(|root| root.says_twice())
}

fn parse(text: &str) -> Result<Value, EditError> {
    Ok(load::parse(text, Path::new("the config file"))?)
}

fn verified(edited: String, expected: &Value, path: &ValuePath) -> Result<String, EditError> {
    match parse(&edited) {
        Ok(value) if value == *expected => Ok(edited),
        _ => Err(EditError::Unsafe(path.to_string())),
    }
}

/// A new document.
fn fresh(path: &ValuePath, value: &Value) -> String {
    let mut whole = Value::Object(serde_json::Map::new());
    // An empty object takes every path that has no index in it.
    let _ = path.set_in(&mut whole, value.clone());
    let style = Style { quoted: true, newline: "\n" };
    format!("{}\n", style.value(&whole, ""))
}

struct Editor<'a> {
    text: &'a str,
    style: Style,
}

impl<'a> Editor<'a> {
    fn new(text: &'a str, root: &Node) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        Self { text, style: Style { quoted: !root.has_bare_key(text), newline } }
    }

    fn set(&self, root: &Node, path: &ValuePath, value: &Value) -> Result<String, EditError> {
        let mut node = root;
        for (depth, step) in path.steps().iter().enumerate() {
            let rest = path.below(depth + 1);
            match (&node.kind, step) {
                (Kind::Object(members), Step::Key(key)) => {
                    let Some(member) = members.iter().rev().find(|it| it.key == *key) else {
                        let made = rest.wrap(value.clone());
                        return Ok(self.add_member(node, key, &made));
                    };
                    node = &member.value;
                }
                (Kind::Array(items), Step::Index(index)) => {
                    if let Some(item) = items.get(*index) {
                        node = item;
                    } else if *index == items.len() {
                        let made = rest.wrap(value.clone());
                        return Ok(self.add_item(node, items, &made));
                    } else {
                        let path = path.above(depth + 1).to_string();
                        return Err(EditError::NoItem { path, length: items.len() });
                    }
                }
                // What is null counts as not there.
                (Kind::Scalar, _) if self.slice(node) == "null" => {
                    let made = path.below(depth).wrap(value.clone());
                    return Ok(self.replace(node, &made));
                }
                (kind, _) => {
                    let path = path.above(depth).to_string();
                    return Err(EditError::NoWay { path, found: kind.name() });
                }
            }
        }
        Ok(self.replace(node, value))
    }

    fn slice(&self, node: &Node) -> &'a str {
        self.text.get(node.start..node.end).unwrap_or_default()
    }

    /// The text with `new` in the place of `start..end`.
    fn splice(&self, start: usize, end: usize, new: &str) -> String {
        let before = self.text.get(..start).unwrap_or_default();
        let after = self.text.get(end..).unwrap_or_default();
        [before, new, after].concat()
    }

    fn replace(&self, node: &Node, value: &Value) -> String {
        let indent = self.indent_at(node.start);
        self.splice(node.start, node.end, &self.style.value(value, indent))
    }

    /// White space at the begin of the line that `offset` is in.
    fn indent_at(&self, offset: usize) -> &'a str {
        let start = self.line_start(offset);
        let line = self.text.get(start..offset).unwrap_or_default();
        let width = line.len() - line.trim_start_matches([' ', '\t']).len();
        line.get(..width).unwrap_or_default()
    }

    fn line_start(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).unwrap_or_default();
        before.rfind('\n').map_or(0, |at| at + 1)
    }

    fn add_member(&self, node: &Node, key: &str, value: &Value) -> String {
        let Kind::Object(members) = &node.kind else { return self.text.to_owned() };
        let quoted = members.last().map_or(self.style.quoted, |member| {
            let first = self.text.get(member.start..).and_then(|text| text.chars().next());
            matches!(first, Some('"' | '\''))
        });
        let style = Style { quoted, ..self.style };
        let last = members.last().map(|member| (member.start, member.value.end));
        self.append(node, last, |indent| {
            format!("{}: {}", style.key(key), style.value(value, indent))
        })
    }

    fn add_item(&self, node: &Node, items: &[Node], value: &Value) -> String {
        let last = items.last().map(|item| (item.start, item.end));
        self.append(node, last, |indent| self.style.value(value, indent))
    }

    /// Adds an entry behind the last one, which reaches from … to.
    fn append(
        &self,
        node: &Node,
        last: Option<(usize, usize)>,
        entry: impl Fn(&str) -> String,
    ) -> String {
        let newline = self.style.newline;
        let close = node.end - 1;
        let Some((start, end)) = last else {
            return self.fill(node, &entry);
        };
        let comma = scan::comma_after(self.text, end);
        let own_line = self.indent_at(start).len() == start - self.line_start(start);
        if !own_line {
            let from = comma.map_or(end, |comma| comma + 1);
            let lead = if comma.is_some() { " " } else { ", " };
            return self.splice(from, from, &format!("{lead}{}", entry(self.indent_at(start))));
        }
        let indent = self.indent_at(start);
        // Behind what else stands in the line: a comment belongs to its entry.
        let behind = scan::line_rest(self.text, comma.map_or(end, |comma| comma + 1)).min(close);
        let tail = if comma.is_some() { "," } else { "" };
        let added = format!("{newline}{indent}{}{tail}", entry(indent));
        let mut text = self.splice(behind, behind, &added);
        if comma.is_none() {
            text.insert(end, ',');
        }
        text
    }

    /// Writes the first entry into empty brackets.
    fn fill(&self, node: &Node, entry: &impl Fn(&str) -> String) -> String {
        let (newline, close) = (self.style.newline, node.end - 1);
        let outer = self.indent_at(node.start);
        let inner = format!("{outer}  ");
        let inside = self.text.get(node.start + 1..close).unwrap_or_default();
        if inside.trim().is_empty() {
            let added = format!("{newline}{inner}{}{newline}{outer}", entry(&inner));
            return self.splice(node.start + 1, close, &added);
        }
        // Only comments: the entry comes behind them.
        let kept = inside.trim_end();
        let from = node.start + 1 + kept.len();
        let added = format!("{newline}{inner}{}{newline}{outer}", entry(&inner));
        self.splice(from, close, &added)
    }

    /// The text without the entry; `None` when there is none.
    fn remove(&self, root: &Node, path: &ValuePath) -> Option<String> {
        let (last, way) = path.steps().split_last()?;
        let mut node = root;
        for step in way {
            node = node.child(step)?;
        }
        let (start, end, earlier) = node.entry(last)?;
        let comma = scan::comma_after(self.text, end);
        let mut until = comma.map_or(end, |comma| comma + 1);
        let mut from = start;
        let line = self.line_start(start);
        let alone = self.text.get(line..start).is_some_and(|lead| lead.trim().is_empty());
        let rest = self.text.get(until..).unwrap_or_default();
        let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r']).len();
        if alone && rest.get(blank..).is_some_and(|rest| rest.starts_with('\n')) {
            (from, until) = (line, until + blank + 1);
        } else if let Some(tail) = rest.strip_prefix(' ').filter(|_| comma.is_some()) {
            until += rest.len() - tail.len();
        }
        let mut text = self.splice(from, until, "");
        // The comma before the last entry would be one too many for JSON.
        if comma.is_none()
            && let Some(before) = earlier.and_then(|end| scan::comma_after(self.text, end))
        {
            text.remove(before);
            let gap = text.get(before..).unwrap_or_default();
            if from != line && gap.starts_with(' ') {
                text.remove(before);
            }
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests;
