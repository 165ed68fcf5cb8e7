//! The process that stays while anything of a command lives.
//!
//! Owns: the command as its child, and what the command left behind. Promises:
//! reports how the command ended; ends everything when told to, or when the
//! gateway is gone, which closes our socket; is gone itself when nothing is
//! left. Must not: pass anything of its own on to the command.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, setsid, wait};

use super::super::plan::{Plan, Report};
use super::terminal::Terminal;
use super::{INPUT, START, tree};

/// How long a command may take to end when it is asked to; then it is killed.
/// Everything has to be dead within two seconds.
const POLITE: Duration = Duration::from_secs(1);
/// How often what does not die is looked for again.
const STEP: Duration = Duration::from_millis(20);
/// How long processes that do not die are shot at. What another user owns, or
/// hangs in the kernel, never dies of it.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// The process id of the command; 0 before it runs.
static COMMAND: AtomicI32 = AtomicI32::new(0);

/// Keeps one command, from the plan on stdin to the end of all it started.
pub fn run() -> ExitCode {
    match keep() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing goes on that nobody keeps.
            tree::signal_all(&[Signal::KILL]);
            eprintln!("clawgate: the command cannot be kept: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The command, for those who cannot look below this process.
#[cfg(not(target_os = "linux"))]
pub fn command() -> Option<Pid> {
    Pid::from_raw(COMMAND.load(Ordering::Acquire))
}

fn keep() -> io::Result<()> {
    // What a terminal sends to the gateway is not meant for commands.
    setsid()?;
    adopt_orphans()?;
    let mut gateway = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut plan = Plan::read(&mut gateway)?;
    let terminal = if plan.has_terminal { Some(Terminal::open()?) } else { None };
    plan.terminal = terminal.as_ref().map(|terminal| terminal.path.clone());
    let main = match start(&plan) {
        Ok(pid) => pid,
        Err(error) => return Report::Failed(error.to_string()).write(&mut gateway),
    };
    note(main);
    // The output ends when nobody of the command holds it any more.
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    let carried = terminal.map(|terminal| terminal.carry(output)).transpose()?;
    let (inputs, reader) = carried.unzip();
    let nowhere = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    // When the gateway is gone, that is an order like another.
    let _ = Report::Started(main.as_raw_nonzero().get().unsigned_abs()).write(&mut gateway);
    let orders = gateway.try_clone()?;
    thread::Builder::new().spawn(move || obey(orders, inputs.as_ref()))?;
    reap(main, gateway);
    if let Some(reader) = reader {
        // What the command wrote last is still on its way.
        let _ = reader.join();
    }
    Ok(())
}

/// Starts the step that becomes the command.
fn start(plan: &Plan) -> io::Result<Pid> {
    let mut starter = Command::new(&plan.launcher)
        .arg0("clawgate")
        .arg(START)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        .spawn()?;
    let sent = match starter.stdin.take() {
        Some(mut stdin) => stdin.write_all(&plan.to_bytes()?),
        None => Err(io::Error::other("the launcher has no input")),
    };
    if let Err(error) = sent {
        // It reads to the end of its plan, so this one has failed.
        let _ = starter.kill();
        let _ = starter.wait();
        return Err(error);
    }
    pid_of(&starter)
}

/// The process id of what was started.
pub(super) fn pid_of(child: &Child) -> io::Result<Pid> {
    i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::other("the command has no process id"))
}

/// From now on this is the command.
pub(super) fn note(main: Pid) {
    COMMAND.store(main.as_raw_nonzero().get(), Ordering::Release);
}

/// Waits for the end of everything; tells when it is that of the command.
fn reap(main: Pid, mut gateway: UnixStream) {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == main => {
                let ended = Report::Ended {
                    code: status.exit_status(),
                    signal: status.terminating_signal(),
                };
                // Nobody listens when the gateway is gone.
                let _ = ended.write(&mut gateway);
            }
            Err(rustix::io::Errno::INTR) | Ok(_) => {}
            // No child is left.
            Err(_) => return,
        }
    }
}

/// Waits for the order to end, which the end of the gateway is as well.
fn obey(mut gateway: UnixStream, inputs: Option<&SyncSender<Vec<u8>>>) {
    while let Ok(Some(input)) = next_input(&mut gateway) {
        if let Some(inputs) = inputs {
            // Full: nobody reads the terminal.
            let _ = inputs.try_send(input);
        }
    }
    end_all();
}

/// Has everything ended that came from the command; this process goes with the last of it.
pub(super) fn end_all() -> ! {
    // What is stopped does not see that it shall end.
    tree::signal_all(&[Signal::TERM, Signal::CONT]);
    // Once nothing is left, this process goes while it sleeps.
    thread::sleep(POLITE);
    kill_all();
    // With the last of them this process ends as well, once that was reported.
    thread::sleep(KILL_LIMIT);
    std::process::exit(1);
}

/// Kills everything that came from the command.
pub(super) fn kill_all() {
    let mut waited = Duration::ZERO;
    while waited < KILL_LIMIT && tree::signal_all(&[Signal::KILL]) {
        thread::sleep(STEP);
        waited += STEP;
    }
}

/// The next input for the terminal; `None` for the order to end.
fn next_input(gateway: &mut UnixStream) -> io::Result<Option<Vec<u8>>> {
    let mut kind = [0];
    gateway.read_exact(&mut kind)?;
    if kind != [INPUT] {
        return Ok(None);
    }
    let mut length = [0; 4];
    gateway.read_exact(&mut length)?;
    let length = u64::from(u32::from_be_bytes(length));
    let mut input = Vec::new();
    gateway.take(length).read_to_end(&mut input)?;
    Ok(Some(input))
}

/// Has every process whose parent ends become a child of this one.
#[cfg(target_os = "linux")]
pub(super) fn adopt_orphans() -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn adopt_orphans() -> io::Result<()> {
    Ok(())
}
