//! Which processes there are, as the system says it.

use std::fs;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The variable that every command of this test carries, and all it starts.
pub const TAG: &str = "CLAWGATE_CHAOS_RUN";
/// Who is still there after this is not going to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process, not to be mistaken for a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Living {
    pid: u32,
    parent: u32,
    began: u64,
}

/// Everything that came from a command with this tag: its text may go on after
/// `tag` (`r1-` stands for the whole round).
pub fn tagged(tag: &str) -> Vec<Living> {
    let wanted = format!("{TAG}={tag}").into_bytes();
    let carries = |living: &Living| {
        let all = fs::read(format!("/proc/{}/environ", living.pid)).unwrap_or_default();
        all.split(|byte| *byte == 0).any(|variable| variable.starts_with(&wanted))
    };
    all().into_iter().filter(carries).collect()
}

/// Everything below this process.
pub fn descendants(of: u32) -> Vec<Living> {
    let all = all();
    let mut found: Vec<Living> = Vec::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        for living in all.iter().filter(|living| living.parent == parent) {
            parents.push(living.pid);
            found.push(*living);
        }
    }
    found
}

/// Waits until nothing is left of what `probe` looks for; answers how long
/// that took.
pub async fn none_left(whose: &str, mut probe: impl FnMut() -> Vec<Living>) -> Duration {
    let from = Instant::now();
    loop {
        let left = probe();
        if left.is_empty() {
            return from.elapsed();
        }
        assert!(from.elapsed() < PATIENCE, "{whose} has left {left:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Whether it still runs; one that has ended and waits for its parent does not.
pub fn lives(living: &Living) -> bool {
    read(living.pid).is_some_and(|now| now.began == living.began)
}

fn all() -> Vec<Living> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| read(entry.file_name().to_str()?.parse().ok()?)).collect()
}

fn read(pid: u32) -> Option<Living> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<_> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let parent = fields.get(1)?.parse().ok()?;
    let began = fields.get(19)?.parse().ok()?;
    (!matches!(fields[0], "Z" | "X")).then_some(Living { pid, parent, began })
}
