//! The process that becomes the command.
//!
//! Owns: its session, terminal, limits and confinement. Promises: the command
//! starts with exactly the environment of the plan, and not at all when a
//! confinement that was asked for cannot be had. Must not: outlive its keeper.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{Resource, Rlimit, ioctl_tiocsctty, setrlimit, setsid};

use super::super::plan::Plan;
use super::super::sandbox;

/// What a shell returns for a command that it cannot start.
const CANNOT_START: u8 = 126;

/// Prepares this process and becomes the command.
pub fn run() -> ExitCode {
    let error = match become_command() {
        Ok(never) => match never {},
        Err(error) => error,
    };
    eprintln!("clawgate: the command cannot be started: {error}");
    ExitCode::from(CANNOT_START)
}

enum Never {}

fn become_command() -> io::Result<Never> {
    let plan = Plan::read(&mut io::stdin().lock())?;
    setsid()?;
    end_with_parent()?;
    // A core of a large program would fill the workspace.
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    let mut command = Command::new(&plan.program);
    command.arg0(&plan.name).args(&plan.args).env_clear().envs(&plan.env).current_dir(&plan.cwd);
    match &plan.terminal {
        Some(path) => attach(&mut command, path)?,
        None => {
            command.stdin(Stdio::null());
        }
    }
    if let Some(confinement) = &plan.confinement {
        sandbox::confine(confinement).map_err(io::Error::other)?;
    }
    Err(command.exec())
}

/// Gives the command a terminal, which is then that of its session.
fn attach(command: &mut Command, path: &Path) -> io::Result<()> {
    let terminal: File = OpenOptions::new().read(true).write(true).open(path)?;
    ioctl_tiocsctty(&terminal)?;
    command.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal);
    Ok(())
}

/// Has the kernel end this process when its keeper is gone.
#[cfg(target_os = "linux")]
pub(super) fn end_with_parent() -> io::Result<()> {
    use rustix::process::{Signal, set_parent_process_death_signal};

    set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn end_with_parent() -> io::Result<()> {
    Ok(())
}
