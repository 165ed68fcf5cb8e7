//! Why a trace does not pass as a whole.
//!
//! The first entry that fits a trace counts. A trace that does not pass has
//! an entry, and an entry that no such trace needs fails the tests.

use super::differences::glob;
use super::report::{Status, Table};

const APPROVALS: &str = "A command waits for the decision inside its run, which ends once with the result; the original's call returns at once, its run ends, and a second run reports. That changes all frames of the call and all that follow.";
const UNBUILT: &str = "Some of its methods are not built yet.";

/// Traces, `*` stands for anything, and why they do not pass.
const OPEN: &[(&str, &str)] = &[
    (
        "chat/abort",
        "The original swallows a message that comes while a stopped run winds down; here it is answered, so that all later rows are others. It also stops only by the same spelling of the key.",
    ),
    (
        "chat/agent",
        "The original does not find a run by another spelling of its key; here it is stopped, so that later answers are others. A failing model is told 15 s late there.",
    ),
    ("chat/attachments", "It ends with `artifacts.list`, which is not built yet."),
    (
        "chat/queue",
        "Followups are answered in the order they came and under their own run ids, not under new ones.",
    ),
    (
        "chat/send-variants",
        "It runs a message under a key that names no session, which is refused here, and pairs devices, which is not built yet.",
    ),
    (
        "chat/session-message-shapes",
        "The original begins a failed run anew and stores every failure; here there is one, told at once. The recording leaves out agent events.",
    ),
    (
        "chat/silent",
        "The original asks a second time when an answer is empty, and stores the message twice; that moves all later rows.",
    ),
    ("chat/subagent", "The tool that spawns sub-agents is not built yet."),
    (
        "chat/timeout",
        "A run that is given 1.5 s is stopped two minutes later, as recorded, but a replay ends after 30 s; all that comes before is as recorded.",
    ),
    ("chat/exec-approval*", APPROVALS),
    (
        "chat/tool-error-and-parallel",
        "The original keeps the failure of an unknown tool from the model, which calls it again until it is stopped; here the model reads it and goes on, which moves all later rows. Which of two calls is done first is up to them.",
    ),
    ("handshake/pairing", "Pairing is not built yet."),
    ("devices/*", "Pairing is not built yet."),
    ("http/*", "The HTTP side is not built yet, nor is its replay."),
    ("nodes/*", "Nodes are not built yet."),
    ("config/*", UNBUILT),
    ("cron/*", UNBUILT),
    ("lifecycle/*", UNBUILT),
    ("methods/*", UNBUILT),
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
