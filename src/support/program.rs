//! A program that is ours, with all that it starts.
//!
//! Owns: its group. Promises: it knows of our environment only what it is given; when its
//! group is dropped, nobody of it is left; no other group is ever meant. Must not: know what
//! is said, or wait.

use std::collections::BTreeMap;
use std::io;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::Secret;

/// A program that was started.
pub struct Program {
    // Dropped before the child, whose id is free once it is reaped. Who takes this apart and
    // may be dropped then binds the child before it.
    /// All of it.
    pub group: ProcessGroup,
    /// The one that we started.
    pub child: Child,
    /// What it reads.
    pub stdin: ChildStdin,
    /// What it answers.
    pub stdout: ChildStdout,
    /// What it writes for people.
    pub stderr: ChildStderr,
}

impl Program {
    /// Starts it in a group of its own, with these variables and no others.
    ///
    /// # Errors
    /// When there is no such program.
    pub fn start(command: &mut Command, env: &BTreeMap<String, Secret>) -> io::Result<Self> {
        let mut child = command
            .env_clear()
            .envs(env.iter().map(|(name, value)| (name, value.expose())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let group = ProcessGroup::of(&child);
        let piped = || io::Error::other("it has no pipes");
        let stdin = child.stdin.take().ok_or_else(piped)?;
        let stdout = child.stdout.take().ok_or_else(piped)?;
        let stderr = child.stderr.take().ok_or_else(piped)?;
        Ok(Self { group, child, stdin, stdout, stderr })
    }
}

/// A program and whatever it has started: what is still there when this is dropped is killed.
pub struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// That of a program which was started in a group of its own; none once it was waited for.
    pub fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    /// What it has started may stay: the program was waited for, and its id may be another's.
    pub const fn leave(&mut self) {
        self.0 = None;
    }

    /// Tells all of it, until it was ended.
    pub fn signal(&self, signal: Signal) {
        if let Some(id) = self.0 {
            // It may be gone already, which is what we want.
            let _ = kill_process_group(id, signal);
        }
    }

    /// Kills all of it, once. Whoever has waited for the program does it at once: from then
    /// on its id may be another's.
    pub fn end(&mut self) {
        self.signal(Signal::KILL);
        self.0 = None;
    }

    /// Whether it was not ended yet.
    pub const fn is_there(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn what_a_program_has_started_ends_with_its_group() {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "sleep 600 & sleep 600"]);
        let Program { group, mut child, mut stdout, .. } =
            Program::start(&mut shell, &BTreeMap::new()).unwrap();
        drop(group);
        let mut said = Vec::new();
        // Both held it.
        let end = tokio::time::timeout(Duration::from_secs(30), stdout.read_to_end(&mut said));
        assert_eq!(end.await.unwrap().unwrap(), 0);
        assert!(!child.wait().await.unwrap().success());
    }
}
