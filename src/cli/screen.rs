//! Output of a command.
//!
//! Owns: stdout and stderr. Promises: text from elsewhere cannot steer a
//! terminal, nor one behind a pipe; colours appear on terminals only. Must not:
//! know what it prints.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use crate::support::is_unseen;

const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[31m";
const RESET: &str = "\x1b[0m";

/// One of the two streams.
struct Stream {
    to: Box<dyn Write>,
    is_terminal: bool,
    has_colour: bool,
}

impl Stream {
    fn write(&mut self, text: &str, style: &str) -> io::Result<()> {
        let text = shown(text, self.is_terminal);
        if self.has_colour && !style.is_empty() {
            write!(self.to, "{style}{text}{RESET}")
        } else {
            self.to.write_all(text.as_bytes())
        }
    }

    fn line(&mut self, text: &str, style: &str) -> io::Result<()> {
        self.write(text, style)?;
        self.to.write_all(b"\n")?;
        self.to.flush()
    }
}

/// Where a command prints: results to stdout, everything else to stderr.
pub struct Screen {
    out: Stream,
    err: Stream,
    /// Whether stdout is in the middle of a line.
    is_mid_line: bool,
    /// Whether a `\r` waits for what comes after it: a line that ends as those of Windows do
    /// may come in two pieces.
    holds_return: bool,
}

impl Screen {
    /// The process's own streams.
    pub fn stdio(no_colour: bool) -> Self {
        let (out, err) = (io::stdout(), io::stderr());
        let (out_terminal, err_terminal) = (out.is_terminal(), err.is_terminal());
        let stream = |to: Box<dyn Write>, is_terminal: bool| Stream {
            to,
            is_terminal,
            has_colour: is_terminal && !no_colour,
        };
        Self {
            out: stream(Box::new(out), out_terminal),
            err: stream(Box::new(err), err_terminal),
            is_mid_line: false,
            holds_return: false,
        }
    }

    /// Prints nothing: for what is looked up while something else fills the terminal.
    pub fn silent() -> Self {
        let stream = || Stream { to: Box::new(io::sink()), is_terminal: false, has_colour: false };
        Self { out: stream(), err: stream(), is_mid_line: false, holds_return: false }
    }

    /// Streams that are no terminals, for tests.
    #[cfg(test)]
    pub fn captured(out: impl Write + 'static, err: impl Write + 'static) -> Self {
        let stream = |to| Stream { to, is_terminal: false, has_colour: false };
        let (out, err) = (stream(Box::new(out)), stream(Box::new(err)));
        Self { out, err, is_mid_line: false, holds_return: false }
    }

    /// A piece of running text on stdout, visible at once.
    pub fn text(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let held = if std::mem::take(&mut self.holds_return) { "\r" } else { "" };
        let whole = [held, text].concat();
        let now = whole.strip_suffix('\r');
        self.holds_return = now.is_some();
        self.is_mid_line = !text.ends_with('\n');
        self.out.write(now.unwrap_or(&whole), "")?;
        self.out.to.flush()
    }

    /// Ends the line on stdout that running text has begun.
    pub fn end_line(&mut self) -> io::Result<()> {
        if self.is_mid_line { self.text("\n") } else { Ok(()) }
    }

    /// The same before a line on stderr, which a stdout that is full or gone does not hide.
    fn leave_line(&mut self) {
        let _ = self.end_line();
    }

    /// A line on stdout.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        self.end_line()?;
        self.out.line(text, "")
    }

    /// A line on stdout that is not the matter itself.
    pub fn dim_line(&mut self, text: &str) -> io::Result<()> {
        self.end_line()?;
        self.out.line(text, DIM)
    }

    /// A line on stderr.
    pub fn note(&mut self, text: &str) -> io::Result<()> {
        self.leave_line();
        self.err.line(text, DIM)
    }

    /// An error on stderr.
    pub fn error(&mut self, text: &str) -> io::Result<()> {
        self.leave_line();
        self.err.write("error: ", RED)?;
        self.err.line(text, "")
    }
}

/// The text without characters that steer a terminal or turn around what is read: a model
/// or a gateway must not be able to retitle windows, move the cursor, fill the clipboard or
/// show a row that is none. The marks of direction stay, which languages that are written
/// from the right need: they are letters that are not seen, and turn no other letters around.
pub fn harmless(text: &str) -> Cow<'_, str> {
    without(text, |letter| steers(letter) || turns(letter))
}

/// The same for a terminal, or for a pipe, which may end in one. There nothing is left out,
/// but is spelled out: as JSON has it, which stays the same by that.
pub fn shown(text: &str, is_terminal: bool) -> Cow<'_, str> {
    use std::fmt::Write as _;
    let is_unwanted = |letter| steers(letter) || turns(letter);
    if is_terminal || !text.contains(is_unwanted) {
        return harmless(text);
    }
    let mut spelled = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        // Lines may end as those of Windows do.
        let ends_line = letter == '\r' && letters.peek() == Some(&'\n');
        if is_unwanted(letter) && !ends_line {
            // A string takes all.
            let _ = write!(spelled, "\\u{:04x}", u32::from(letter));
        } else {
            spelled.push(letter);
        }
    }
    Cow::Owned(spelled)
}

/// The text without characters that steer a terminal.
pub fn unsteered(text: &str) -> Cow<'_, str> {
    without(text, steers)
}

fn without(text: &str, is_unwanted: fn(char) -> bool) -> Cow<'_, str> {
    if text.contains(is_unwanted) {
        Cow::Owned(text.replace(is_unwanted, ""))
    } else {
        Cow::Borrowed(text)
    }
}

fn steers(letter: char) -> bool {
    letter.is_control() && !matches!(letter, '\n' | '\t')
}

/// Whether it begins or ends a piece that is shown in another direction, whatever it holds.
const fn turns(letter: char) -> bool {
    matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether it only changes the order in which its neighbours are shown, so that a text
/// reads otherwise than it is.
pub const fn reorders(letter: char) -> bool {
    turns(letter) || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}')
}

/// What others named something, as a part of a line: what would end the line, steer a
/// terminal or turn around what is read is spelled out.
pub fn in_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        let ends = matches!(letter, '\u{2028}' | '\u{2029}');
        if ends || letter.is_control() || reorders(letter) {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    line
}

/// A line as it is, but for characters that a terminal does not show or obeys.
pub fn spelled_out(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for letter in line.chars() {
        match letter {
            '\'' | '"' | '\\' => text.push(letter),
            // Among them are blanks that count as letters.
            letter if is_unseen(letter) => text.extend(letter.escape_default()),
            letter => text.extend(letter.escape_debug()),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::sync::Arc;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Shared {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().clone()).unwrap()
        }
    }

    #[test]
    fn a_line_never_continues_running_text() {
        let (out, err) = (Shared::default(), Shared::default());
        let mut screen = Screen::captured(out.clone(), err.clone());
        screen.text("a").unwrap();
        screen.text("b").unwrap();
        screen.dim_line("tool").unwrap();
        screen.text("c\n").unwrap();
        screen.end_line().unwrap();
        screen.text("d").unwrap();
        screen.error("bad").unwrap();
        assert_eq!(out.text(), "ab\ntool\nc\nd\n");
        assert_eq!(err.text(), "error: bad\n");
    }

    #[test]
    fn a_line_may_end_in_two_pieces() {
        let (out, err) = (Shared::default(), Shared::default());
        let mut screen = Screen::captured(out.clone(), err);
        for piece in ["a\r", "\nb\r", "c\r", "\r", "\n", "d\r"] {
            screen.text(piece).unwrap();
        }
        screen.line("e").unwrap();
        assert_eq!(out.text(), "a\r\nb\\u000dc\\u000d\r\nd\r\ne\n");
    }

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_wrong_is_told_also_where_stdout_takes_nothing() {
        let err = Shared::default();
        let mut screen = Screen::captured(Full, err.clone());
        screen.is_mid_line = true;
        screen.note("a").unwrap();
        screen.error("b").unwrap();
        assert_eq!(err.text(), "a\nerror: b\n");
    }

    #[test]
    fn text_from_elsewhere_cannot_steer_a_terminal() {
        assert_eq!(harmless("a\tb\nü⚙"), "a\tb\nü⚙");
        assert_eq!(harmless("\x1b]0;x\x07\x1b[2Jhi\r\u{9b}1m\x7f"), "]0;x[2Jhi1m");
        assert_eq!(unsteered("a\u{202e}b\x1b"), "a\u{202e}b");
    }

    #[test]
    fn behind_a_pipe_what_steers_a_terminal_is_spelled_out_and_all_else_is_as_it_is() {
        let (out, err) = (Shared::default(), Shared::default());
        let mut screen = Screen::captured(out.clone(), err.clone());
        screen.text("a\tb\r\nשלום\u{200f}\n").unwrap();
        screen.line("\x1b]0;x\x07\u{9b}1m\rhi\u{202e}\x7f").unwrap();
        screen.error("\x1b[2J").unwrap();
        let expected = "a\tb\r\nשלום\u{200f}\n\
            \\u001b]0;x\\u0007\\u009b1m\\u000dhi\\u202e\\u007f\n";
        assert_eq!((out.text(), err.text()), (expected.into(), "error: \\u001b[2J\n".into()));
        let value = crate::support::json!({"a": "\x1b\u{9b}\u{202e}\x7f"});
        let read: serde_json::Value =
            serde_json::from_str(&shown(&value.to_string(), false)).unwrap();
        assert_eq!(read, value);
    }

    #[test]
    fn running_text_keeps_its_marks_of_direction_and_turns_nothing_around() {
        let marked = "שלום\u{200f}, c++\u{200e} \u{61c}\n";
        assert_eq!(harmless(marked), marked);
        let turning: String = ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}').collect();
        assert_eq!(harmless(&format!("a{turning}b")), "ab");
    }

    #[test]
    fn a_name_is_no_more_than_a_part_of_its_line() {
        let sly = "Phone\nab12  admin\t\u{202e}x\u{2028}\x1b[2K";
        assert_eq!(in_line(sly), "Phone\\nab12  admin\\t\\u{202e}x\\u{2028}\\u{1b}[2K");
        assert_eq!(in_line(&in_line(sly)), in_line(sly));
        assert_eq!(in_line("ü 漢 👩‍👩‍👧 ⚙️ \\"), "ü 漢 👩‍👩‍👧 ⚙️ \\");
    }

    #[test]
    fn colours_appear_only_where_they_are_wanted() {
        let out = Shared::default();
        let mut stream = Stream { to: Box::new(out.clone()), is_terminal: true, has_colour: true };
        stream.line("tool", DIM).unwrap();
        stream.has_colour = false;
        stream.line("tool", DIM).unwrap();
        assert_eq!(out.text(), "\x1b[2mtool\x1b[0m\ntool\n");
    }
}
