//! The processes that came from this one.
//!
//! Owns: how they are found and signalled. Promises: a process whose parent has
//! ended is found all the same on Linux, where it becomes a child of ours. Must
//! not: end anything that is not below this process.

use rustix::process::{Pid, Signal, getpid, kill_process};

/// Sends a signal to everything below this process; whether there was anything.
pub fn signal_all(signals: &[Signal]) -> bool {
    let below = below(getpid());
    for pid in &below {
        for signal in signals {
            // It may be gone by now.
            let _ = kill_process(*pid, *signal);
        }
    }
    !below.is_empty()
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

/// Elsewhere a command and what is in its process group.
#[cfg(not(target_os = "linux"))]
fn below(_: Pid) -> Vec<Pid> {
    super::keeper::command().into_iter().filter_map(|pid| Pid::from_raw(-pid)).collect()
}
