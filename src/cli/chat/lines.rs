//! Lines that the user types or pipes in.
//!
//! Owns: stdin, the line editor and its history. Promises: waiting for a line
//! blocks no async work; whoever leaves meanwhile leaves the terminal as it was before.
//! Must not: read ahead of what is asked for.

use std::cell::RefCell;
use std::io::{self, BufRead, ErrorKind, IsTerminal};
use std::path::PathBuf;

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{ColorMode, Config, Context, ExternalPrinter, Helper};
use tokio::sync::{mpsc, oneshot};

/// What the user sees when it is his turn.
const PROMPT: &str = "you> ";
/// How long a terminal is silent when a paste has ended, in tenths of a second; and how much
/// may come before that, in pieces of what a terminal holds.
const SILENCE: u8 = 1;
const PIECES: usize = 1024;

/// What came from stdin.
#[derive(Debug)]
pub enum Line {
    /// A line, without its end.
    Text(String),
    /// Something that is not UTF-8. Of a line that is typed, what stood before it is there
    /// again when the next one is asked for; what has come behind it is not.
    NotText,
    /// Ctrl-C at the prompt, or its signal from elsewhere.
    Interrupted,
    /// Ctrl-D, or the end of the pipe.
    End,
}

/// The end to ask for lines. A thread of its own reads them: a blocked read
/// cannot be cancelled, and must not keep the command from ending.
pub struct Lines {
    requests: mpsc::Sender<oneshot::Sender<io::Result<Line>>>,
    /// How the terminal was before, when a person types them.
    before: Option<Termios>,
}

impl Lines {
    /// Lines of stdin; with an editor when it is a terminal.
    pub fn stdin(history: Option<PathBuf>) -> io::Result<Self> {
        let is_interactive = io::stdin().is_terminal();
        let before = is_interactive.then(|| tcgetattr(io::stdin())).transpose();
        let before = before.map_err(io::Error::from)?;
        let mut source = if is_interactive { Source::editor(history)? } else { Source::Pipe };
        let (requests, mut asked) = mpsc::channel::<oneshot::Sender<io::Result<Line>>>(1);
        std::thread::Builder::new().name("lines".into()).spawn(move || {
            while let Some(reply) = asked.blocking_recv() {
                // Nobody waits any more when the command ends.
                if reply.send(source.read()).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { requests, before })
    }

    /// Whether a person types them.
    pub const fn is_interactive(&self) -> bool {
        self.before.is_some()
    }

    /// Asks for the next line; the answer comes through the receiver.
    pub async fn ask(&self) -> oneshot::Receiver<io::Result<Line>> {
        let (reply, line) = oneshot::channel();
        // A thread that is gone drops the reply, which the receiver shows.
        let _ = self.requests.send(reply).await;
        line
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // The terminal is gone when this fails.
            let _ = tcsetattr(io::stdin(), OptionalActions::Drain, before);
        }
    }
}

type Editor = rustyline::Editor<Draft, DefaultHistory>;

/// What is being typed, before and behind the cursor: an editor that reads something that
/// is not UTF-8 forgets it. What has come behind that in one piece it has read already, and
/// nobody else can.
#[derive(Default)]
struct Draft(RefCell<(String, String)>);

impl Draft {
    fn note(&self, line: &str, cursor: usize) {
        let (before, behind) = line.split_at_checked(cursor).unwrap_or((line, ""));
        *self.0.borrow_mut() = (before.to_owned(), behind.to_owned());
    }
}

impl Hinter for Draft {
    type Hint = String;

    fn hint(&self, line: &str, cursor: usize, _: &Context<'_>) -> Option<String> {
        self.note(line, cursor);
        None
    }
}

impl Highlighter for Draft {
    // Of a cursor that moves the editor tells here alone.
    fn highlight_char(&self, line: &str, cursor: usize, _: CmdKind) -> bool {
        self.note(line, cursor);
        false
    }
}

impl Completer for Draft {
    type Candidate = String;
}

impl Validator for Draft {}

impl Helper for Draft {}

enum Source {
    Editor {
        editor: Box<Editor>,
        /// What the next line begins with, before and behind the cursor.
        draft: (String, String),
        history: Option<PathBuf>,
        /// While there is one, the editor hears of the signal of Ctrl-C in whatever thread
        /// the system delivers it. There is none when what is shown goes to no terminal.
        _listens: Option<Box<dyn ExternalPrinter + Send>>,
    },
    Pipe,
}

impl Source {
    fn editor(history: Option<PathBuf>) -> io::Result<Self> {
        // It tells of the cursor only where it may colour the line. The draft has it colour
        // nothing, so that `NO_COLOR` is kept all the same.
        let config = Config::builder().color_mode(ColorMode::Forced).build();
        let mut editor = Box::new(Editor::with_config(config).map_err(io::Error::other)?);
        editor.set_helper(Some(Draft::default()));
        if let Some(path) = &history {
            // There is none before the first conversation.
            let _ = editor.load_history(path);
        }
        let mut listens: Option<Box<dyn ExternalPrinter + Send>> = None;
        if let Ok(printer) = editor.create_external_printer() {
            listens = Some(Box::new(printer));
        }
        let draft = <(String, String)>::default();
        Ok(Self::Editor { editor, draft, history, _listens: listens })
    }

    fn read(&mut self) -> io::Result<Line> {
        match self {
            Self::Editor { editor, draft, history, .. } => {
                let (before, behind) = std::mem::take(draft);
                match editor.readline_with_initial(PROMPT, (&before, &behind)) {
                    Ok(line) => {
                        remember(editor, history.as_ref(), &line);
                        Ok(Line::Text(line))
                    }
                    Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
                    Err(ReadlineError::Eof) => Ok(Line::End),
                    Err(ReadlineError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
                        *draft = editor.helper().map(|it| it.0.take()).unwrap_or_default();
                        pass_over()?;
                        Ok(Line::NotText)
                    }
                    Err(error) => Err(io::Error::other(error)),
                }
            }
            Self::Pipe => {
                let mut line = Vec::new();
                if io::stdin().lock().read_until(b'\n', &mut line)? == 0 {
                    return Ok(Line::End);
                }
                Ok(String::from_utf8(line).map_or(Line::NotText, Line::Text))
            }
        }
    }
}

/// Takes what has come behind a byte that is no text, which is not for the next line: there the
/// ends of lines of a paste would send it piece by piece.
fn pass_over() -> io::Result<()> {
    let terminal = io::stdin();
    let before = tcgetattr(&terminal)?;
    let mut raw = before.clone();
    raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    raw.special_codes[SpecialCodeIndex::VMIN] = 0;
    raw.special_codes[SpecialCodeIndex::VTIME] = SILENCE;
    tcsetattr(&terminal, OptionalActions::Now, &raw)?;
    let mut space = [0; 4096];
    for _ in 0..PIECES {
        match rustix::io::read(&terminal, &mut space) {
            Ok(1..) => {}
            // Whoever interrupts it waits for no more of it.
            Ok(0) | Err(_) => break,
        }
    }
    Ok(tcsetattr(&terminal, OptionalActions::Now, &before)?)
}

/// A history that cannot be kept is no reason to end a conversation.
fn remember(editor: &mut Editor, history: Option<&PathBuf>, line: &str) {
    let is_new = may_be_kept(line) && editor.add_history_entry(line).unwrap_or(false);
    if let Some(path) = history
        && is_new
    {
        let _ = editor.append_history(path);
    }
}

/// Values of the config may be secrets; a line that begins with space is left out as in a
/// shell.
fn may_be_kept(line: &str) -> bool {
    const CONFIG: &str = "/config";
    let is_config = line.get(..CONFIG.len()).is_some_and(|it| it.eq_ignore_ascii_case(CONFIG));
    !line.is_empty() && !line.starts_with(char::is_whitespace) && !is_config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_the_config_is_not_kept() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("chat_history");
        let mut editor = Editor::with_helper(Draft::default()).unwrap();
        for line in [
            "hi",
            "/config set gateway.auth.token=canary",
            "/Config: set a=canary",
            " /config set a=canary",
            " canary",
            "",
            "bye",
        ] {
            remember(&mut editor, Some(&path), line);
        }
        let kept = std::fs::read_to_string(&path).unwrap();
        assert!(kept.contains("hi\n") && kept.contains("bye\n"), "{kept}");
        assert!(!kept.contains("canary"), "{kept}");
    }
}
