//! What never gets into the log.
//!
//! Owns: the credentials that this process has come to know, and the writer
//! that takes them out of each line. Promises: no line holds one of them, even
//! when a program or server that we quote repeats it; an event is one line,
//! whatever it quotes. Must not: be the only guard; `Secret` hides itself.

use std::borrow::Cow;
use std::io::{self, Write};

use parking_lot::RwLock;
use tracing_subscriber::fmt::MakeWriter;

use crate::support::Secret;

/// Shorter values occur in ordinary words.
const MIN_SECRET: usize = 6;
/// More credentials than any configuration has; each line is searched for all.
const MAX_HIDDEN: usize = 1000;
/// What stands in the place of one.
const MASK: &str = "***";

/// One log per process, and so one list of what is not in it.
static HIDDEN: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// From now on the log does not show it.
pub fn hide(secret: &Secret) {
    let text = secret.expose();
    let bare = text.strip_prefix("Bearer ").unwrap_or(text);
    hide_text(bare);
    // A debug or JSON line has it with escapes.
    let escaped = serde_json::Value::from(bare).to_string();
    hide_text(escaped.trim_matches('"'));
}

fn hide_text(text: &str) {
    if text.len() < MIN_SECRET || HIDDEN.read().iter().any(|known| known == text) {
        return;
    }
    let mut hidden = HIDDEN.write();
    if hidden.len() < MAX_HIDDEN {
        hidden.push(text.to_owned());
        // A secret that contains another one goes first.
        hidden.sort_by_key(|text| std::cmp::Reverse(text.len()));
    }
}

/// `text` without credentials: some servers repeat in an error what they refuse.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    let hidden = HIDDEN.read();
    let found: Vec<_> = hidden.iter().filter(|secret| text.contains(secret.as_str())).collect();
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(found.iter().fold(text.to_owned(), |text, secret| text.replace(*secret, MASK)))
}

/// `line` without what is hidden, and as one line.
fn masked(line: &str, has_colour: bool) -> Cow<'_, str> {
    let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
    let is_broken = |c: char| c.is_control() && !(has_colour && c == '\u{1b}');
    let body = without_secrets(body);
    if matches!(body, Cow::Borrowed(_)) && !body.contains(is_broken) {
        return Cow::Borrowed(line);
    }
    let mut text = body.into_owned();
    if text.contains(is_broken) {
        let escaped = text
            .chars()
            .map(|c| if is_broken(c) { c.escape_default().to_string() } else { c.to_string() });
        text = escaped.collect();
    }
    Cow::Owned(text + end)
}

/// Standard error, without what is hidden.
#[derive(Debug, Clone, Copy)]
pub(super) struct MaskedStderr {
    /// Whether lines have the codes of colours in them.
    pub has_colour: bool,
}

impl<'a> MakeWriter<'a> for MaskedStderr {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        *self
    }
}

impl Write for MaskedStderr {
    /// Each call is one whole event: the subscriber writes them so.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes);
        io::stderr().lock().write_all(masked(&line, self.has_colour).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_secret_however_it_is_written() {
        hide(&Secret::new("Bearer mask-canary-1"));
        hide(&Secret::new("mask-canary-1-longer"));
        hide(&Secret::new("mask\"canary\\2"));
        hide(&Secret::new("short"));
        for (line, shown) in [
            ("key mask-canary-1 refused\n", "key *** refused\n"),
            ("mask-canary-1-longer", "***"),
            ("{\"e\":\"mask\\\"canary\\\\2\"}\n", "{\"e\":\"***\"}\n"),
            ("short words stay\n", "short words stay\n"),
        ] {
            assert_eq!(masked(line, false), shown);
        }
    }

    #[test]
    fn an_event_is_one_line_whatever_it_quotes() {
        assert_eq!(masked("a\nINFO forged\r\u{1b}[2J\n", false), "a\\nINFO forged\\r\\u{1b}[2J\n");
        assert_eq!(masked("\u{1b}[32mINFO\u{1b}[0m ok\n", true), "\u{1b}[32mINFO\u{1b}[0m ok\n");
    }
}
