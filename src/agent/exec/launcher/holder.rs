//! The process that stays while a program lives that the gateway talks to.
//!
//! Owns: that program as its child, and what it left behind. Promises: with the program ends
//! whatever it has started; when nobody reads its complaints any more, which is how the
//! gateway gives it up or is gone, all of it ends; ends as the program did, which ends with it
//! on Linux. Must not: read or
//! keep open what is said.

use std::env;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, setsid, wait};

use super::starter::end_with_parent;
use super::{HELD, keeper, own_program, tree};
use crate::support::{CANNOT_START, NOT_STARTED};

/// What a shell adds to the signal that has ended a program.
const BY_SIGNAL: i32 = 128;

/// Holds the program that the arguments name, to the end of all it started.
pub fn run() -> ExitCode {
    match hold() {
        Ok(code) => code,
        Err(error) => {
            // Nothing goes on that nobody holds.
            tree::signal_all(&[Signal::KILL]);
            not_started(&error)
        }
    }
}

/// Becomes the program that the arguments name.
pub fn run_held() -> ExitCode {
    not_started(&become_program())
}

fn not_started(error: &io::Error) -> ExitCode {
    // Nobody may be there to be told.
    let _ = writeln!(io::stderr(), "{NOT_STARTED}{error}");
    ExitCode::from(CANNOT_START)
}

/// Comes back only with why it cannot.
fn become_program() -> io::Error {
    let mut words = env::args_os().skip(2);
    let Some(program) = words.next() else { return io::Error::other("it has no name") };
    match end_with_parent() {
        Ok(()) => Command::new(program).args(words).exec(),
        Err(error) => error,
    }
}

fn hold() -> io::Result<ExitCode> {
    // What a terminal sends to the gateway is not meant for the program.
    setsid()?;
    keeper::adopt_orphans()?;
    let main = keeper::pid_of(&start()?)?;
    keeper::note(main);
    // Both end when nobody of the program holds them any more.
    let nowhere = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nowhere)?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    thread::Builder::new().spawn(end_when_deaf)?;
    let ended = ending(main)?;
    keeper::kill_all();
    let by_signal = || Some(BY_SIGNAL + ended.terminating_signal()?);
    let code = ended.exit_status().or_else(by_signal).and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(u8::MAX)))
}

/// Starts it in a group of its own: what it tells its group is not meant for this process.
fn start() -> io::Result<Child> {
    let mut step = Command::new(own_program()?);
    step.arg0("clawgate").arg(HELD).args(env::args_os().skip(2)).process_group(0).spawn()
}

/// Waits for the end of the program.
fn ending(main: Pid) -> io::Result<WaitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == main => return Ok(status),
            // What it left behind has ended.
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Has everything ended when nobody reads what is complained about.
fn end_when_deaf() {
    let stderr = io::stderr();
    let mut wanted = [PollFd::new(&stderr, PollFlags::empty())];
    while poll(&mut wanted, None) == Err(Errno::INTR) {}
    keeper::end_all();
}
