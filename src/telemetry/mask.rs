//! What never gets into the log, nor into what tools answer.
//!
//! Owns: the credentials that this process has come to know, and the writer
//! that takes them out of each line. Promises: no line holds one of them, even
//! when a program or server that we quote repeats it; an event is one line,
//! whatever it quotes. Must not: be the only guard; `Secret` hides itself.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use serde_json::Value;
use tracing_subscriber::fmt::MakeWriter;

use super::line::{TEXT_MAX, bounded};
use crate::support::{Secret, sort};

/// Shorter values occur in ordinary words.
const MIN_SECRET: usize = 6;
/// More credentials than any configuration has; each line is searched for all. Of more
/// that come one after the other, as tokens that are renewed do, the oldest goes …
const MAX_HIDDEN: usize = 1000;
/// … but none of so many that were known first: those of the configuration are told once.
const STAYING: usize = 500;
/// What stands in the place of one.
const MASK: &str = "***";

/// The same where a model reads it, which might write it into a file.
const RESULT_MASK: &str = "[hidden: a secret of the gateway]";
/// What is no word of a language, and so is taken out of results …
const STRONG: usize = 16;
/// … also when it is as short as this, if it has a digit.
const STRONG_WITH_DIGIT: usize = 8;

/// What is hidden.
struct Hidden {
    text: String,
    /// When it was hidden last, as a number that grows.
    last: AtomicU64,
    /// Whether it is among those that were known first.
    stays: bool,
    /// Whether it is taken out of what tools answer, too.
    is_strong: bool,
}

/// One log per process, and so one list of what is not in it.
static HIDDEN: RwLock<Vec<Hidden>> = RwLock::new(Vec::new());

/// How often something was to be hidden.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// From now on the log does not show it; nor do results of tools, unless it may
/// be an ordinary word.
pub fn hide(secret: &Secret) {
    hide_written(secret, |text| {
        let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
        text.len() >= STRONG || (has_digit && text.len() >= STRONG_WITH_DIGIT)
    });
}

/// The same for a variable or a header, which may be a secret or a setting:
/// results of tools show it when it looks like a setting.
pub fn hide_variable(value: &Secret) {
    hide_written(value, |text| {
        let has = |is: fn(&u8) -> bool| text.bytes().any(|byte| is(&byte));
        let is_plain = text.starts_with(['/', '~', '.']) || text.contains("://");
        let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
        text.len() >= STRONG && is_mixed && !is_plain && !has(u8::is_ascii_whitespace)
    });
}

fn hide_written(secret: &Secret, is_strong: fn(&str) -> bool) {
    let text = secret.expose();
    let bare = text.strip_prefix("Bearer ").unwrap_or(text);
    let is_strong = is_strong(bare);
    hide_text(bare, is_strong);
    // A debug or JSON line has it with escapes.
    let escaped = serde_json::Value::from(bare).to_string();
    hide_text(escaped.trim_matches('"'), is_strong);
}

fn hide_text(text: &str, is_strong: bool) {
    if text.len() < MIN_SECRET {
        return;
    }
    let now = COUNT.fetch_add(1, Ordering::Relaxed);
    let is_known = |known: &&Hidden| known.text == text && (known.is_strong || !is_strong);
    if let Some(known) = HIDDEN.read().iter().find(is_known) {
        known.last.store(now, Ordering::Relaxed);
        return;
    }
    add(&mut HIDDEN.write(), text, is_strong, now);
}

fn add(hidden: &mut Vec<Hidden>, text: &str, is_strong: bool, now: u64) {
    let last = AtomicU64::new(now);
    if let Some(known) = hidden.iter_mut().find(|known| known.text == text) {
        known.is_strong |= is_strong;
        known.last = last;
        return;
    }
    if hidden.len() >= MAX_HIDDEN {
        let passing = hidden.iter().enumerate().filter(|(_, hidden)| !hidden.stays);
        let age = |(_, hidden): &(usize, &Hidden)| hidden.last.load(Ordering::Relaxed);
        if let Some((oldest, _)) = passing.min_by_key(age) {
            hidden.remove(oldest);
        }
    }
    let stays = hidden.len() < STAYING;
    hidden.push(Hidden { text: text.to_owned(), last, stays, is_strong });
    // A secret that contains another one goes first.
    sort::by_key(hidden, |hidden| std::cmp::Reverse(hidden.text.len()));
}

/// `text` without credentials: some servers repeat in an error what they refuse.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    without(text, MASK, |_| true)
}

/// What a tool answers, without credentials. What may be an ordinary word stays.
pub fn result_without_secrets(text: &str) -> Cow<'_, str> {
    without(text, RESULT_MASK, |hidden| hidden.is_strong)
}

fn without<'a>(text: &'a str, mask: &str, is_meant: fn(&Hidden) -> bool) -> Cow<'a, str> {
    let hidden = HIDDEN.read();
    let meant = hidden.iter().filter(|hidden| is_meant(hidden));
    let found: Vec<_> = meant.filter(|hidden| text.contains(&hidden.text)).collect();
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(found.iter().fold(text.to_owned(), |text, hidden| text.replace(&hidden.text, mask)))
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

/// A line with texts that are no longer than those of the log file.
fn cut(line: Cow<'_, str>, is_json: bool) -> Cow<'_, str> {
    if line.len() <= TEXT_MAX {
        return line;
    }
    let mut object = is_json.then(|| serde_json::from_str(&line).ok()).flatten();
    let cut = if let Some(object) = &mut object {
        cut_in(object);
        object.to_string()
    } else {
        bounded(line.trim_end_matches('\n'))
    };
    Cow::Owned(cut + "\n")
}

fn cut_in(data: &mut Value) {
    match data {
        Value::String(text) => *text = bounded(text),
        Value::Array(items) => items.iter_mut().for_each(cut_in),
        Value::Object(members) => members.values_mut().for_each(cut_in),
        _ => {}
    }
}

/// Standard error, without what is hidden.
#[derive(Debug, Clone, Copy)]
pub(super) struct MaskedStderr {
    /// Whether lines have the codes of colours in them.
    pub has_colour: bool,
    /// Whether they are objects of JSON.
    pub is_json: bool,
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
        let line = cut(masked(&line, self.has_colour), self.is_json);
        io::stderr().lock().write_all(line.as_bytes())?;
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
    fn of_more_than_there_is_room_for_the_passing_one_that_was_hidden_longest_ago_goes() {
        let mut hidden = Vec::new();
        for now in 0..1000 {
            add(&mut hidden, &format!("secret-{now}"), false, now);
        }
        add(&mut hidden, "secret-500", true, 1000);
        add(&mut hidden, "secret-1000", false, 1001);
        let has = |text: &str| hidden.iter().any(|known| known.text == text);
        assert_eq!(hidden.len(), MAX_HIDDEN);
        assert!(has("secret-0") && has("secret-499"), "those of the configuration");
        assert!(has("secret-500") && has("secret-1000") && !has("secret-501"));
    }

    #[test]
    fn a_result_has_no_secret_and_keeps_what_may_be_a_word_or_a_setting() {
        hide(&Secret::new("result-canary-of-22"));
        hide(&Secret::new("canary"));
        hide(&Secret::new("birdcage"));
        hide_variable(&Secret::new("/usr/lib/canary-1234567890"));
        hide_variable(&Secret::new("productioncanary"));
        hide_variable(&Secret::new("variable-canary-of-24-xx"));
        for (text, shown) in [
            ("KEY=result-canary-of-22;", "KEY=[hidden: a secret of the gateway];"),
            ("variable-canary-of-24-xx", "[hidden: a secret of the gateway]"),
        ] {
            assert_eq!(result_without_secrets(text), shown);
        }
        let words = "a canary in a birdcage, /usr/lib/canary-1234567890, productioncanary";
        assert_eq!(result_without_secrets(words), words);
        assert_eq!(without_secrets("birdcage"), "***");
    }

    #[test]
    fn an_event_is_a_short_line_however_much_it_quotes() {
        let long = "x".repeat(3_000_000);
        let shown = cut(format!("INFO {long}\n").into(), false);
        assert!(shown.len() < TEXT_MAX + 100 && shown.ends_with(" bytes in all)\n"), "{shown}");
        let shown = cut(format!("{{\"fields\":{{\"a\":\"{long}\",\"b\":1}}}}\n").into(), true);
        assert!(shown.len() < TEXT_MAX + 100, "{shown}");
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["fields"]["b"], 1);
        assert_eq!(cut("INFO short\n".into(), false), "INFO short\n");
    }

    #[test]
    fn an_event_is_one_line_whatever_it_quotes() {
        assert_eq!(masked("a\nINFO forged\r\u{1b}[2J\n", false), "a\\nINFO forged\\r\\u{1b}[2J\n");
        assert_eq!(masked("\u{1b}[32mINFO\u{1b}[0m ok\n", true), "\u{1b}[32mINFO\u{1b}[0m ok\n");
    }
}
