//! The process.
//!
//! Owns: its pipes, its group and its end. Promises: no wait without limit;
//! when this is dropped, the whole group is killed. Must not: know what the
//! lines mean.

use std::ffi::OsString;
use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use futures_util::future::{Either, join, select};
use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::super::error::{ProviderError, ProviderErrorKind};
use super::super::sse::{Framing, SseParser};
use super::stream::kind_of;
use crate::config::cli_backend::CliBackend;
use crate::support::{ProcessGroup, Program};

/// A line holds a picture at most.
const MAX_LINE: usize = 32 * 1024 * 1024;
/// What it complains about, from the end.
const MAX_COMPLAINT: usize = 4096;
/// How long it may take to end once it is asked to.
const END_LIMIT: Duration = Duration::from_secs(5);
/// How long its last words may take once it has ended.
const LAST_WORDS_LIMIT: Duration = Duration::from_millis(200);

/// A process that is ours until this is dropped.
pub struct Process {
    // Dropped before the child, whose id is free once it is reaped.
    group: ProcessGroup,
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
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
        arguments: Vec<OsString>,
        limit: Duration,
    ) -> Result<Self, ProviderError> {
        let failed = |error: io::Error| {
            let command = &backend.command;
            let text = format!(
                "agents.defaults.cliBackends.claude-cli.command: cannot start {command:?}: {error}"
            );
            ProviderError::new(ProviderErrorKind::Network, text)
        };
        let mut command = Command::new(&backend.command);
        if backend.directory.is_dir() {
            command.current_dir(&backend.directory);
        }
        let started = Program::start(command.args(arguments), &backend.env);
        let Program { group, child, stdin, stdout, stderr } = started.map_err(failed)?;
        Ok(Self {
            group,
            child,
            stdin,
            stdout,
            complaints: Complaints { from: stderr, said: Vec::new(), ended: false },
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
                    0 => {
                        self.lines.finish();
                        let last = self.lines.next_event().map_err(io::Error::other)?;
                        return Ok(last.map(|line| line.data));
                    }
                    _ => self.lines.feed(&chunk),
                },
                written = self.stdin.write(&self.unwritten), if !self.unwritten.is_empty() => {
                    // When it reads no more, what it says is what counts.
                    let written = written.unwrap_or(self.unwritten.len());
                    self.unwritten.drain(..written);
                }
                () = self.complaints.read(), if !self.complaints.ended => {}
                // What it has started may hold its pipes, and goes with it.
                _ = self.child.wait(), if self.group.is_there() => self.group.end(),
            }
        }
    }

    /// Lets it end: it has said everything, but may have a transcript to write.
    pub async fn end(self) {
        self.wait().await;
    }

    /// Why it ended without an answer.
    pub async fn failure(self) -> ProviderError {
        let (status, said) = self.wait().await;
        let how =
            status.map_or_else(|| "did not end".into(), |status| format!("ended with {status}"));
        let said = said.trim();
        let separator = if said.is_empty() { "" } else { ": " };
        let text = format!("claude-cli {how} before its answer was complete{separator}{said}");
        ProviderError::new(kind_of(None, said).unwrap_or(ProviderErrorKind::Cut), text)
    }

    /// Closes its input and waits; then it is interrupted, then killed.
    async fn wait(self) -> (Option<ExitStatus>, String) {
        // What is bound last is dropped first: the group, as in `Self`.
        let Self { mut child, mut group, stdin, mut stdout, mut complaints, .. } = self;
        drop(stdin);
        let mut status = None;
        for signal in [None, Some(Signal::INT)] {
            if let Some(signal) = signal {
                group.signal(signal);
            }
            let ended = listen(&mut child, &mut stdout, &mut complaints);
            if let Ok(ended) = timeout(END_LIMIT, ended).await {
                status = ended.ok();
                break;
            }
        }
        group.end();
        // What it has started no longer holds its pipes.
        let _ = timeout(LAST_WORDS_LIMIT, complaints.read_all()).await;
        (status, String::from_utf8_lossy(&complaints.said).into_owned())
    }
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
    ended: bool,
}

impl Complaints {
    async fn read(&mut self) {
        let read = self.from.read_buf(&mut self.said).await;
        self.ended = !read.is_ok_and(|read| read > 0);
        let excess = self.said.len().saturating_sub(MAX_COMPLAINT);
        self.said.drain(..excess);
    }

    async fn read_all(&mut self) {
        while !self.ended {
            self.read().await;
        }
    }
}
