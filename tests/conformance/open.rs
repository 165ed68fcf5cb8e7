//! Why a trace does not pass as a whole.
//!
//! The first entry that fits a trace counts. A trace that does not pass has
//! an entry, and an entry that no such trace needs fails the tests.

use super::differences::glob;
use super::report::{Status, Table};

/// Traces, `*` stands for anything, and why they do not pass.
const OPEN: &[(&str, &str)] = &[
    (
        "chat/agent",
        "The original does not find a run by another spelling of its key; here it is stopped, so that later answers are others. A failing model is told 15 s late there.",
    ),
    (
        "chat/subagent",
        "It begins with the end of a failing run of another recording. The note of an accepted sub-agent does not name a tool that is not here, and rows in events have no childSessions.",
    ),
    (
        "chat/timeout",
        "A run that is given 1.5 s is stopped after two minutes, as in the original, which looks for such runs once a minute: in the recording it had gone on for 40 s more, and had said four words more.",
    ),
    (
        "config/*",
        "A changed token counts at once and nothing restarts the gateway; the recording goes on with the old token until its restart.",
    ),
    (
        "lifecycle/shutdown",
        "The replay does not end the gateway's process in the middle of a run, as was done for the recording; `tests/scenario/shutdown.rs` does.",
    ),
    (
        "lifecycle/slow-consumer",
        "The recorded client stopped reading until it was cut off; the replay reads all that comes. `tests/scenario/slow_reader.rs` stops reading.",
    ),
    (
        "lifecycle/startup",
        "This gateway is ready when its port is open and refuses nobody before; the rest of it shows sessions of another recording.",
    ),
];

/// Why this trace does not pass.
pub fn reason(trace: &str) -> Option<&'static str> {
    OPEN.iter().find(|(pattern, _)| glob(pattern, trace)).map(|(_, reason)| *reason)
}

/// Traces without a reason, and entries that nothing needs.
pub fn faults(table: &Table) -> Vec<String> {
    let open = || table.iter().filter(|(_, status)| **status != Status::Passed);
    let mut faults: Vec<String> = open()
        .filter(|(name, _)| reason(name).is_none())
        .map(|(name, _)| format!("{name} does not pass and nobody says why"))
        .collect();
    let first = |name: &str| OPEN.iter().position(|(pattern, _)| glob(pattern, name));
    faults.extend(OPEN.iter().enumerate().filter_map(|(index, (pattern, _))| {
        let is_needed = open().any(|(name, _)| first(name) == Some(index));
        (!is_needed).then(|| format!("no trace needs the entry {pattern}"))
    }));
    faults
}
