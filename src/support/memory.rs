//! How much memory this process has.

/// What the system says of it, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// What is in memory now.
    pub resident: u64,
    /// The most that ever was.
    pub peak: u64,
}

/// What is used; `None` where the system does not say. The file is one that the
/// kernel writes as it is read, so nothing waits for a disk.
pub fn used() -> Option<Used> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
    };
    Some(Used { resident: bytes("VmRSS:")?, peak: bytes("VmHWM:")? })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn a_process_has_some_memory_and_never_more_than_its_peak() {
        let used = super::used().unwrap();
        assert!(used.resident > 100_000 && used.peak >= used.resident, "{used:?}");
    }
}
