//! A program that is ours, with all that it starts.
//!
//! Owns: its group or who holds it, and where it is found. Promises: it knows of our environment
//! only what it is given; when its group is dropped, or the stderr of one that is held is read
//! no more, nobody of it is left, on Linux also what has made a session of its own while it was
//! held; no other group is ever meant.
//! Must not: know what is said, or wait.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::Secret;

/// The first argument of our own program where it holds another one, which follows with its
/// arguments.
pub const HOLD: &str = "__hold";
/// What it writes before why the other one cannot be started.
pub const NOT_STARTED: &str = "clawgate: the program cannot be started: ";
/// What a shell returns for a program that it cannot start, and ours too.
pub const CANNOT_START: u8 = 126;

/// The program that runs now, also when a newer one has taken its place on disk.
///
/// # Errors
/// When the system does not say which it is.
pub fn own_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// The program of this name in the directories of `path`, or at this path.
pub fn find_program(name: &Path, path: &str) -> Option<PathBuf> {
    find_program_from(Path::new(""), name, path)
}

/// The same for who starts it in `directory`, from where relative paths lead.
pub fn find_program_from(directory: &Path, name: &Path, path: &str) -> Option<PathBuf> {
    let can_run = |path: &PathBuf| {
        let facts = std::fs::metadata(path);
        facts.is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
    };
    // A path is not looked for anywhere else.
    if name.as_os_str().as_encoded_bytes().contains(&b'/') {
        return Some(directory.join(name)).filter(can_run);
    }
    std::env::split_paths(path).map(|entry| directory.join(entry).join(name)).find(can_run)
}

/// A path as a word of a command that people copy into a shell.
pub fn in_shell(path: &Path) -> String {
    let word = path.display().to_string();
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "/._-+=:@,%".contains(it);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word;
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The end by a signal, which our own program tells of another one as a shell does: by 128
/// and the signal.
pub fn by_signal(status: ExitStatus) -> ExitStatus {
    let code = status.code().filter(|code| (129..=192).contains(code));
    code.map_or(status, |code| ExitStatus::from_raw(code - 128))
}

/// A program that was started.
pub struct Program {
    /// Our own one, which holds it.
    pub child: Child,
    /// What it reads.
    pub stdin: ChildStdin,
    /// What it answers.
    pub stdout: ChildStdout,
    /// What it writes for people.
    pub stderr: ChildStderr,
}

impl Program {
    /// Starts it below our own program, with these variables and no others. All that comes
    /// from it, on Linux also what makes a session of its own, is ended once it has ended, and
    /// once nobody reads `stderr`, be it that we are gone.
    ///
    /// # Errors
    /// When our own program cannot be started. That the other one cannot is told by that.
    pub fn hold(
        program: &Path,
        arguments: &[OsString],
        directory: Option<&Path>,
        env: &BTreeMap<String, Secret>,
    ) -> io::Result<Self> {
        let mut command = Command::new(own_program()?);
        command.arg0("clawgate").arg(HOLD).arg(program).args(arguments);
        if let Some(directory) = directory {
            command.current_dir(directory);
        }
        command.env_clear().envs(env.iter().map(|(name, value)| (name, value.expose())));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let piped = || io::Error::other("it has no pipes");
        let stdin = child.stdin.take().ok_or_else(piped)?;
        let stdout = child.stdout.take().ok_or_else(piped)?;
        let stderr = child.stderr.take().ok_or_else(piped)?;
        Ok(Self { child, stdin, stdout, stderr })
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
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            // It may be gone already, which is what we want.
            let _ = kill_process_group(id, Signal::KILL);
        }
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
        shell.args(["-c", "sleep 600 & sleep 600"]).stdout(Stdio::piped()).process_group(0);
        let mut child = shell.spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        drop(ProcessGroup::of(&child));
        let mut said = Vec::new();
        // Both held it.
        let end = tokio::time::timeout(Duration::from_secs(30), stdout.read_to_end(&mut said));
        assert_eq!(end.await.unwrap().unwrap(), 0);
        assert!(!child.wait().await.unwrap().success());
    }

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        for path in ["/srv/state-1", "/srv/my state", "/it's", "/a$HOME/`id`", "~", "/é\n\\*", ""]
        {
            let line = format!("printf %s {}", in_shell(Path::new(path)));
            let output = std::process::Command::new("/bin/sh").args(["-c", &line]).output();
            assert_eq!(String::from_utf8(output.unwrap().stdout).unwrap(), path, "{line}");
        }
        assert_eq!(in_shell(Path::new("/srv/state-1")), "/srv/state-1");
    }

    #[test]
    fn a_program_is_found_by_its_name_or_path_if_it_can_be_started() {
        let dir = tempfile::tempdir().unwrap();
        let (tool, plain) = (dir.path().join("tool"), dir.path().join("plain"));
        for (file, mode) in [(&tool, 0o755), (&plain, 0o644)] {
            std::fs::write(file, "").unwrap();
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let path = format!("/nowhere:{}", dir.path().display());
        assert_eq!(find_program(Path::new("tool"), &path).as_ref(), Some(&tool));
        assert_eq!(find_program(&tool, "").as_ref(), Some(&tool));
        for name in [Path::new("plain"), plain.as_path(), dir.path(), Path::new("gone")] {
            assert_eq!(find_program(name, &path), None, "{}", name.display());
        }
        // What has a slash leads from where it is started, whatever is in `path`.
        assert_eq!(find_program(Path::new("./tool"), &path), None);
        let from = |name: &str, path: &str| find_program_from(dir.path(), Path::new(name), path);
        assert_eq!(from("./tool", "/nowhere"), Some(dir.path().join("./tool")));
        assert_eq!(from("tool", "."), Some(dir.path().join("./tool")));
        assert_eq!(from("tool", "/nowhere"), None);
    }
}
