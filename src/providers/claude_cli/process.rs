//! The process.
//!
//! Owns: its pipes and its end. Promises: no wait without limit; when this is dropped,
//! or the gateway is gone, it is ended with whatever it has started. Must not: know what
//! the lines mean.

use std::ffi::OsString;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use futures_util::future::{Either, join, select};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::time::{sleep, timeout};

use super::super::error::{ProviderError, ProviderErrorKind};
use super::super::sse::{Framing, SseParser};
use super::stream::kind_of;
use crate::config::cli_backend::CliBackend;
use crate::support::{CANNOT_START, NOT_STARTED, Program, by_signal};

/// A line holds a picture at most.
const MAX_LINE: usize = 32 * 1024 * 1024;
/// Bytes of what it complains about, from the end.
const MAX_COMPLAINT: usize = 4096;
/// How long it may take to end once it is asked to.
const END_LIMIT: Duration = Duration::from_secs(5);
/// How long its last words may take once it has ended.
const LAST_WORDS_LIMIT: Duration = Duration::from_millis(200);

/// A process that is ours until this is dropped.
pub struct Process {
    /// As it is configured.
    command: PathBuf,
    /// Our own program, which holds it.
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    /// As long as they are read, it goes on.
    complaints: Complaints,
    lines: SseParser,
    limit: Duration,
    /// What it has not read yet.
    unwritten: Vec<u8>,
}

impl Process {
    /// Starts it. It may be silent for `limit`.
    ///
    /// # Errors
    /// When there is no such program.
    pub fn start(
        backend: &CliBackend,
        arguments: &[OsString],
        limit: Duration,
    ) -> Result<Self, ProviderError> {
        let failed = |error: io::Error| cannot_start(&backend.command, &error);
        let none = || io::Error::other("there is no such program that can be started");
        let program = backend.program().ok_or_else(none).map_err(failed)?;
        let directory = Some(&*backend.directory).filter(|it| it.is_dir());
        let held = Program::hold(&program, arguments, directory, &backend.env);
        let Program { child, stdin, stdout, stderr } = held.map_err(failed)?;
        Ok(Self {
            command: backend.command.clone(),
            child,
            stdin,
            stdout,
            complaints: Complaints::new(stderr),
            lines: SseParser::new(Framing::Lines, MAX_LINE),
            limit,
            unwritten: Vec::new(),
        })
    }

    /// Writes a line, while the next one is waited for.
    pub fn say(&mut self, line: &Value) {
        self.unwritten.extend_from_slice(line.to_string().as_bytes());
        self.unwritten.push(b'\n');
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// When none comes in time, or one that is too long.
    pub async fn next(&mut self) -> Result<Option<String>, ProviderError> {
        let limit = self.limit;
        let line = timeout(limit, self.read()).await;
        line.map_err(|_| ProviderError::timed_out(limit))?.map_err(|error| {
            ProviderError::new(ProviderErrorKind::Protocol, format!("claude-cli: {error}"))
        })
    }

    async fn read(&mut self) -> io::Result<Option<String>> {
        let mut chunk = Vec::with_capacity(16 * 1024);
        loop {
            if let Some(line) = self.lines.next_event().map_err(io::Error::other)? {
                return Ok(Some(line.data));
            }
            chunk.clear();
            tokio::select! {
                read = self.stdout.read_buf(&mut chunk) => match read? {
                    0 => return self.last(),
                    _ => self.lines.feed(&chunk),
                },
                written = self.stdin.write(&self.unwritten), if !self.unwritten.is_empty() => {
                    // When it reads no more, what it says is what counts.
                    let written = written.unwrap_or(self.unwritten.len());
                    self.unwritten.drain(..written);
                }
                () = self.complaints.read(), if !self.complaints.ended => {}
                // Has an id until it has ended.
                ended = self.child.wait(), if self.child.id().is_some() => {
                    ended?;
                }
                // What it has started may hold the pipe when whoever held it was killed.
                () = sleep(LAST_WORDS_LIMIT), if self.child.id().is_none() => return self.last(),
            }
        }
    }

    /// What has come of a line whose end never comes.
    fn last(&mut self) -> io::Result<Option<String>> {
        self.lines.finish();
        let last = self.lines.next_event().map_err(io::Error::other)?;
        Ok(last.map(|line| line.data))
    }

    /// Lets it end: it has said everything, but may have a transcript to write.
    pub async fn end(self) {
        self.wait().await;
    }

    /// Why it ended without an answer.
    pub async fn failure(self) -> ProviderError {
        let command = self.command.clone();
        let (status, said) = self.wait().await;
        let said = said.trim();
        let code = status.and_then(|status| status.code());
        if code == Some(CANNOT_START.into())
            && let Some(why) = said.strip_prefix(NOT_STARTED)
        {
            return cannot_start(&command, &why);
        }
        let how = status.map(by_signal);
        let how = how.map_or_else(|| "did not end".into(), |how| format!("ended with {how}"));
        let separator = if said.is_empty() { "" } else { ": " };
        let text = format!("claude-cli {how} before its answer was complete{separator}{said}");
        ProviderError::new(kind_of(None, said).unwrap_or(ProviderErrorKind::Cut), text)
    }

    /// Closes its input and waits; then it is told to end, then killed.
    async fn wait(self) -> (Option<ExitStatus>, String) {
        let Self { mut child, stdin, mut stdout, mut complaints, .. } = self;
        drop(stdin);
        let ended = timeout(END_LIMIT, listen(&mut child, &mut stdout, &mut complaints)).await;
        let status = ended.ok().and_then(Result::ok);
        if status.is_some() {
            // What it has started is gone, and no longer holds its pipes.
            let _ = timeout(LAST_WORDS_LIMIT, complaints.read_all()).await;
        }
        let said = complaints.text();
        drop((stdout, complaints));
        if status.is_none() {
            // Nobody reads any more, so whoever holds it ends it.
            let _ = timeout(END_LIMIT, child.wait()).await;
        }
        (status, said)
    }
}

fn cannot_start(command: &Path, why: &dyn Display) -> ProviderError {
    let command = command.display();
    let text = format!(
        "agents.defaults.cliBackends.claude-cli.command: cannot start \"{command}\": {why}"
    );
    ProviderError::new(ProviderErrorKind::Network, text)
}

/// Waits for its end. What it says meanwhile must not block it.
async fn listen(
    child: &mut Child,
    stdout: &mut ChildStdout,
    complaints: &mut Complaints,
) -> io::Result<ExitStatus> {
    let mut deaf = tokio::io::sink();
    let rest = pin!(join(tokio::io::copy(stdout, &mut deaf), complaints.read_all()));
    match select(pin!(child.wait()), rest).await {
        Either::Left((status, _)) => status,
        Either::Right((_, ended)) => ended.await,
    }
}

/// What it writes for people.
struct Complaints {
    from: ChildStderr,
    /// The end of it.
    said: Vec<u8>,
    is_cut: bool,
    ended: bool,
}

impl Complaints {
    const fn new(from: ChildStderr) -> Self {
        Self { from, said: Vec::new(), is_cut: false, ended: false }
    }

    async fn read(&mut self) {
        let read = self.from.read_buf(&mut self.said).await;
        self.ended = !read.is_ok_and(|read| read > 0);
        let excess = self.said.len().saturating_sub(MAX_COMPLAINT);
        self.is_cut |= excess > 0;
        self.said.drain(..excess);
    }

    async fn read_all(&mut self) {
        while !self.ended {
            self.read().await;
        }
    }

    /// What was said, in whole words: the rest of a secret would not be known for one.
    fn text(&self) -> String {
        let said = self.said.as_slice();
        let mut words = said.splitn(2, u8::is_ascii_whitespace);
        let whole = if self.is_cut { words.nth(1).unwrap_or_default() } else { said };
        String::from_utf8_lossy(whole).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use tokio::process::Command;

    use super::*;

    #[tokio::test]
    async fn a_long_complaint_is_cut_between_words() {
        let rest = MAX_COMPLAINT - 10;
        let script = format!("printf 'cli-secret-token %0{rest}d' 0 >&2; exit 3");
        let mut shell = Command::new("/bin/sh");
        let mut shell = shell.args(["-c", &script]).stderr(Stdio::piped()).spawn().unwrap();
        let mut complaints = Complaints::new(shell.stderr.take().unwrap());
        complaints.read_all().await;
        assert_eq!(complaints.text(), "0".repeat(rest));
    }
}
