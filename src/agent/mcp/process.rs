//! A server that is a program.
//!
//! Owns: its pipes, its group and its end. Promises: it knows of our
//! environment only what every program needs; it ends with all that it
//! started. Must not: know what is said.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::config::mcp::McpProgram;
use crate::support::{ProcessGroup, Program, Secret, Tasks};

/// How long it may take to end when its input ends, and then when it is told to.
const END_LIMIT: Duration = Duration::from_secs(2);
/// Longest line of what it writes for people that is logged.
const MAX_LINE: u64 = 2000;

/// A process that is ours until this is dropped.
pub struct Process {
    // Dropped before the child, whose id is free once it is reaped.
    group: ProcessGroup,
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
        let mut command = Command::new(&program.command);
        command.args(&program.args).current_dir(program.cwd.as_deref().unwrap_or(directory));
        let Program { group, child, stdin, stdout, stderr } = Program::start(&mut command, env)?;
        tasks.spawn("mcp stderr", log(name.to_owned(), stderr));
        Ok((Self { group, child }, stdout, stdin))
    }

    /// Waits until it has ended. What it started goes with it.
    pub async fn ended(&mut self) -> String {
        let ended = self.child.wait().await;
        self.group.end();
        match ended {
            Ok(status) => format!("it ended with {status}"),
            Err(error) => format!("it cannot be waited for: {error}"),
        }
    }

    /// Waits for its end, since its input has ended; then it is told to, then
    /// killed with what it started.
    pub async fn end(mut self) {
        for signal in [None, Some(Signal::TERM)] {
            if let Some(signal) = signal {
                self.group.signal(signal);
            }
            if tokio::time::timeout(END_LIMIT, self.ended()).await.is_ok() {
                break;
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_it_has_started_ends_as_soon_as_it_has_ended() {
        let args = ["-c", "sleep 600 & exit 3"].map(str::to_owned).into();
        let program =
            McpProgram { command: "/bin/sh".into(), args, env: BTreeMap::new(), cwd: None };
        let (env, tasks) = (BTreeMap::new(), Tasks::default());
        let started = Process::start("own", &program, &env, Path::new("/"), &tasks);
        let (mut process, mut stdout, _stdin) = started.unwrap();
        assert_eq!(process.ended().await, "it ended with exit status: 3");
        // Its id may be another's from now on.
        assert!(!process.group.is_there());
        let mut said = Vec::new();
        let end = tokio::time::timeout(Duration::from_secs(30), stdout.read_to_end(&mut said));
        assert_eq!(end.await.unwrap().unwrap(), 0);
    }
}
