//! What a process was given open beside its three streams.

use std::fs;
use std::os::fd::RawFd;

/// Closes all that whoever started this process has left open to it: what it starts would
/// have it as well, confined or not. Only at the very beginning, when nothing that is open
/// is its own.
pub(super) fn close_inherited() {
    // Where the system does not say what is open, it stays so.
    let Ok(entries) = fs::read_dir("/dev/fd") else { return };
    let open = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<RawFd>().ok());
    // The list itself is closed by then.
    let open: Vec<RawFd> = open.filter(|number| *number > 2).collect();
    for number in open {
        // That of the list was among them.
        let _ = nix::unistd::close(number);
    }
}
