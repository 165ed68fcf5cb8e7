//! What the user sees.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use super::screen::shown;

/// Writes an answer to stdout. A reader that has gone away is not an error:
/// `clawgate config explain | head -1` is fine.
pub fn say(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// The same of a text with names of files, which can hold what steers a terminal, also one
/// behind a pipe.
pub(super) fn say_of_others(text: &str) -> anyhow::Result<()> {
    say(&shown(text, io::stdout().is_terminal()))
}

/// Writes a remark to stderr, beside the answer.
pub(super) fn note(text: &str) {
    // A failure here has nobody left to be told.
    let mut err = io::stderr().lock();
    let is_terminal = err.is_terminal();
    let _ = writeln!(err, "{}", shown(text, is_terminal));
}

/// Writes an error with its causes to stderr.
pub(super) fn complain(error: &anyhow::Error) -> ExitCode {
    let mut err = io::stderr().lock();
    // A failure here has nobody left to be told.
    let is_terminal = err.is_terminal();
    let mut said = error.to_string();
    let _ = writeln!(err, "error: {}", shown(&said, is_terminal));
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // Many texts have their reason in them, and some libraries say the same on two levels.
        if !said.contains(&cause) {
            let _ = writeln!(err, "  because: {}", shown(&cause, is_terminal));
            said = cause;
        }
    }
    ExitCode::FAILURE
}
