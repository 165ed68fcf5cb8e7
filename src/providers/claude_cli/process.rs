//! The process.
//!
//! Owns: its pipes, its group and its end. Promises: no wait without limit;
//! when this is dropped, the whole group is killed. Must not: know what the
//! lines mean.

use std::ffi::OsString;
use std::io;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures_util::future::{Either, join, select};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::super::error::{ProviderError, ProviderErrorKind};
use super::super::sse::{Framing, SseParser};
use super::stream::kind_of;
use crate::config::cli_backend::CliBackend;
use crate::support::Secret;

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
    group: Group,
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
        let mut child = command
            .args(arguments)
            .env_clear()
            .envs(backend.env.iter().map(|(name, value)| (name, Secret::expose(value))))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let group = Group::of(&child);
        let piped = || failed(io::Error::other("it has no pipes"));
        Ok(Self {
            group,
            stdin: child.stdin.take().ok_or_else(piped)?,
            stdout: child.stdout.take().ok_or_else(piped)?,
            complaints: Complaints {
                from: child.stderr.take().ok_or_else(piped)?,
                said: Vec::new(),
                ended: false,
            },
            child,
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
        let Self { mut group, mut child, stdin, mut stdout, mut complaints, .. } = self;
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

/// It and whatever it has started.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // It may be gone already, which is what we want.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Kills all of it, once: its id may be another's soon.
    fn end(&mut self) {
        self.signal(Signal::KILL);
        self.0 = None;
    }

    const fn is_there(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}
