//! Files that the gateway reads as a whole: who it is, what may run, who was paired elsewhere.
//!
//! Promises: each is read by what the gateway reads it with. Must not: show what is in them.

use super::finding::{Finding, Severity};
use crate::agent::approvals::check_file;
use crate::auth::DeviceIdentity;
use crate::auth::pairing::{PairedFile, paired_rows};
use crate::config::Paths;

/// Those that cannot be used.
pub fn check(paths: &Paths) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = DeviceIdentity::load(&paths.identity_file()) {
        findings.push(Finding::new(
            "gateway.identity",
            Severity::Critical,
            error.to_string(),
            "the gateway does not start with it",
            "take it from a backup, or move it away: with a new one, devices go on with the \
             tokens that they have, and one that has lost its token is to be paired again",
        ));
    }
    if let Err(error) = check_file(paths) {
        findings.push(Finding::new(
            "exec.approvals",
            Severity::Critical,
            error.to_string(),
            "the commands of agents that it is to decide about are refused, and it can be neither \
             shown nor changed",
            "mend it, take it from a backup, or move it away: without it the configuration alone \
             says what may run",
        ));
    }
    let nodes = PairedFile::path(&paths.nodes_dir());
    let unreadable = [
        PairedFile::read(&paths.devices_dir()).err().map(|error| error.to_string()),
        paired_rows(&nodes)
            .err()
            .map(|error| format!("{} cannot be read: {error}", nodes.display())),
    ];
    findings.extend(unreadable.into_iter().flatten().map(|title| {
        Finding::new(
            "devices.paired",
            Severity::Warn,
            title,
            "what OpenClaw has paired is not taken over, and what it has removed stays",
            "mend it, or move it away when all of them are paired here",
        )
    }));
    findings
}
