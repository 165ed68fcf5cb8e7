//! The processes that came from this one.
//!
//! Owns: how they are found and signalled. Promises: a process whose parent has
//! ended is found all the same on Linux, where it becomes a child of ours. Must
//! not: end anything that is not below this process.

use rustix::process::Signal;
#[cfg(target_os = "linux")]
use rustix::process::{Pid, getpid, kill_process};

/// Sends a signal to everything below this process; whether there was anything.
#[cfg(target_os = "linux")]
pub fn signal_all(signals: &[Signal]) -> bool {
    let below = below(getpid());
    for pid in &below {
        for signal in signals {
            // It may be gone by now.
            let _ = kill_process(*pid, *signal);
        }
    }
    // One that is gone may have started another in the meantime.
    !below.is_empty()
}

/// Elsewhere to a command and what is in its process group; whether anybody got it.
#[cfg(not(target_os = "linux"))]
pub fn signal_all(signals: &[Signal]) -> bool {
    let Some(group) = super::keeper::command() else { return false };
    let send = |signal: &Signal| rustix::process::kill_process_group(group, *signal).is_ok();
    signals.iter().fold(false, |is_any, signal| send(signal) || is_any)
}

/// Everything below `root` that has not ended.
#[cfg(target_os = "linux")]
fn below(root: Pid) -> Vec<Pid> {
    let processes: Vec<(i32, i32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect();
    let mut found = vec![root.as_raw_nonzero().get()];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(processes.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.into_iter().skip(1).filter_map(Pid::from_raw).collect()
}

/// The parent of a process that runs.
#[cfg(target_os = "linux")]
fn parent(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, also brackets; the fields follow the last one.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.next()?.parse().ok() }
}
