//! A server that is a program.
//!
//! Owns: its pipes and its end. Promises: it knows of our environment only what
//! every program needs; it ends with all that it started, on Linux also what made a
//! session of its own, when this is dropped or the gateway is gone. Must not: know what
//! is said.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::config::cli_backend::USUAL_PATH;
use crate::config::mcp::McpProgram;
use crate::support::{NOT_STARTED, Program, Secret, Tasks, by_signal, find_program_from};

/// How long it may take to end when its input ends, and then when whoever holds it
/// ends it.
const END_LIMIT: Duration = Duration::from_secs(2);
/// Longest line of what it writes for people that is logged.
const MAX_LINE: u64 = 2000;

/// A process that is ours until this is dropped.
pub struct Process {
    /// Our own program, which holds it.
    child: Child,
    /// As long as its complaints are read, it goes on.
    reading: DropGuard,
    /// Why it could not be started, by whoever holds it.
    not_started: oneshot::Receiver<String>,
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
        let directory = program.cwd.as_deref().unwrap_or(directory);
        if !is_there(&program.command, directory, env) {
            return Err(io::Error::other("there is no such program that can be started"));
        }
        let arguments: Vec<_> = program.args.iter().map(OsString::from).collect();
        let held = Program::hold(program.command.as_ref(), &arguments, Some(directory), env)?;
        let Program { child, stdin, stdout, stderr } = held;
        let (name, wanted) = (name.to_owned(), CancellationToken::new());
        let reading = wanted.clone().drop_guard();
        let (reason, not_started) = oneshot::channel();
        tasks.spawn("mcp stderr", async move {
            let _ = wanted.run_until_cancelled(log(name, stderr, reason)).await;
        });
        Ok((Self { child, reading, not_started }, stdout, stdin))
    }

    /// Waits until it has ended. What it started goes with it.
    pub async fn ended(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => format!("it ended with {}", by_signal(status)),
            Err(error) => format!("it cannot be waited for: {error}"),
        }
    }

    /// Waits until it has ended that never answered. How it did, and why it could not even be
    /// started.
    pub async fn failed(mut self) -> (String, Option<String>) {
        let ended = self.ended().await;
        // Its complaints have ended by now, too.
        (ended, self.not_started.await.ok())
    }

    /// Waits for its end, since its input has ended; then it is told to, then
    /// killed, with what it started.
    pub async fn end(mut self) {
        if tokio::time::timeout(END_LIMIT, self.ended()).await.is_err() {
            let Self { mut child, reading, .. } = self;
            // Nobody reads any more, so whoever holds it ends it.
            drop(reading);
            let _ = tokio::time::timeout(END_LIMIT, child.wait()).await;
        }
    }
}

/// Whether it can be started, by its path or its name in `PATH`.
fn is_there(command: &str, directory: &Path, env: &BTreeMap<String, Secret>) -> bool {
    let path = env.get("PATH").map_or(USUAL_PATH, Secret::expose);
    // It is looked for from where it is started.
    find_program_from(directory, command.as_ref(), path).is_some()
}

/// What it writes for people goes into the log of who wants details. Where it could not be
/// started that is the first line, of whoever holds it.
async fn log(server: String, stderr: ChildStderr, not_started: oneshot::Sender<String>) {
    let mut not_started = Some(not_started);
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut stderr).take(MAX_LINE).read_until(b'\n', &mut line).await;
        if !matches!(read, Ok(1..)) {
            return;
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        tracing::debug!(server, "{text}");
        if let Some((sender, why)) = not_started.take().zip(text.strip_prefix(NOT_STARTED)) {
            // Nobody may wait for it any more.
            let _ = sender.send(why.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_program_is_a_name_in_path_or_a_path_from_where_it_is_started() {
        let dir = tempfile::tempdir().unwrap();
        let tool = dir.path().join("tool");
        std::fs::write(&tool, "").unwrap();
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
        let env = BTreeMap::from([("PATH".to_owned(), Secret::new("/bin"))]);
        for command in ["sh", "/bin/sh", "./tool", tool.to_str().unwrap()] {
            assert!(is_there(command, dir.path(), &env), "{command}");
        }
        for command in ["tool", "./sh", "none", "/none"] {
            assert!(!is_there(command, dir.path(), &env), "{command}");
        }
        assert!(is_there("sh", dir.path(), &BTreeMap::new()));
        std::fs::create_dir(dir.path().join("bin")).unwrap();
        std::fs::rename(&tool, dir.path().join("bin/tool")).unwrap();
        let in_path = |path: &str| {
            let env = BTreeMap::from([("PATH".to_owned(), Secret::new(path))]);
            is_there("tool", dir.path(), &env)
        };
        assert!(in_path("bin") && in_path("/none:./bin") && !in_path(""));
        std::fs::rename(dir.path().join("bin/tool"), &tool).unwrap();
        assert!(in_path("") && in_path("bin:") && !in_path("bin"));
    }
}
