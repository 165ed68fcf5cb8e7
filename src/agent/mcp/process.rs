//! A server that is a program.
//!
//! Owns: its pipes, its group and its end. Promises: it knows of our
//! environment only what every program needs; it ends with all that it
//! started. Must not: know what is said.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::config::mcp::McpProgram;
use crate::support::{Secret, Tasks};

/// How long it may take to end when its input ends, and then when it is told to.
const END_LIMIT: Duration = Duration::from_secs(2);
/// Longest line of what it writes for people that is logged.
const MAX_LINE: u64 = 2000;

/// A process that is ours until this is dropped.
pub struct Process {
    // Dropped before the child, whose id is free once it is reaped.
    group: Group,
    child: Child,
}

impl Process {
    /// Starts it.
    ///
    /// # Errors
    /// When there is no such program.
    pub fn start(
        name: &str,
        program: &McpProgram,
        env: &BTreeMap<String, Secret>,
        directory: &Path,
        tasks: &Tasks,
    ) -> io::Result<(Self, ChildStdout, ChildStdin)> {
        let mut child = Command::new(&program.command)
            .args(&program.args)
            .env_clear()
            .envs(env.iter().map(|(name, value)| (name, value.expose())))
            .current_dir(program.cwd.as_deref().unwrap_or(directory))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let group = Group(id);
        let piped = || io::Error::other("it has no pipes");
        let stdin = child.stdin.take().ok_or_else(piped)?;
        let stdout = child.stdout.take().ok_or_else(piped)?;
        let stderr = child.stderr.take().ok_or_else(piped)?;
        tasks.spawn("mcp stderr", log(name.to_owned(), stderr));
        Ok((Self { group, child }, stdout, stdin))
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => format!("it ended with {status}"),
            Err(error) => format!("it cannot be waited for: {error}"),
        }
    }

    /// Waits for its end, since its input has ended; then it is told to, then
    /// killed, and what it started in any case.
    pub async fn end(mut self) {
        for signal in [None, Some(Signal::TERM)] {
            if let Some(signal) = signal {
                self.group.signal(signal);
            }
            if tokio::time::timeout(END_LIMIT, self.child.wait()).await.is_ok() {
                break;
            }
        }
    }
}

/// The process and what it started.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(id) = self.0 {
            // An error says that nobody is left.
            let _ = kill_process_group(id, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// What it writes for people goes into the log of who wants details.
async fn log(server: String, stderr: ChildStderr) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut stderr).take(MAX_LINE).read_until(b'\n', &mut line).await;
        if !matches!(read, Ok(1..)) {
            return;
        }
        tracing::debug!(server, "{}", String::from_utf8_lossy(&line).trim_end());
    }
}
