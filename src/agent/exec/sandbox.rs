//! Confinement of commands by the kernel.
//!
//! Owns: what a confined command may write to. Promises: either everything that
//! was asked for is enforced, or it is an error. Must not: be taken for more
//! than it is: a confined command still reads files and uses the network.

use std::path::{Path, PathBuf};

use crate::config::ExecSandbox;

/// What every program writes to without harm.
const DEVICES: [&str; 9] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/fd",
];

/// Where a command may write in this mode; `None` when it is not confined.
pub(super) fn writable(
    mode: ExecSandbox,
    workspace: &Path,
    temporary: &Path,
) -> Option<Vec<PathBuf>> {
    let devices = DEVICES.iter().map(PathBuf::from);
    match mode {
        ExecSandbox::Off => None,
        ExecSandbox::ReadOnly => Some(devices.collect()),
        ExecSandbox::WorkspaceWrite => {
            let others = [workspace.into(), temporary.into(), "/tmp".into(), "/dev/shm".into()];
            Some(devices.chain(others).collect())
        }
    }
}

/// Confines this process and all that come from it to writing below these
/// places. Those that are not there are left out.
#[cfg(target_os = "linux")]
pub(super) fn confine(writable: &[PathBuf]) -> Result<(), String> {
    use landlock::{RulesetCreatedAttr, RulesetStatus, path_beneath_rules};

    let unavailable =
        |error: &dyn std::fmt::Display| format!("the sandbox is not available: {error}");
    let status = ruleset()
        .map_err(|error| unavailable(&error))?
        .add_rules(path_beneath_rules(writable, rights()))
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(|error| unavailable(&error))?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        _ => Err(unavailable(&"the kernel enforces only a part of it")),
    }
}

/// Everything that changes a file or a directory, as Linux 6.2 knows it: before
/// that, a file could be cut though it could not be written.
#[cfg(target_os = "linux")]
fn rights() -> landlock::BitFlags<landlock::AccessFs> {
    landlock::AccessFs::from_write(landlock::ABI::V3)
}

#[cfg(target_os = "linux")]
fn ruleset() -> Result<landlock::RulesetCreated, landlock::RulesetError> {
    use landlock::{CompatLevel, Compatible, Ruleset, RulesetAttr};

    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(rights())?
        .create()
}

/// Whether commands can be confined here; if not, why.
#[cfg(target_os = "linux")]
pub fn availability() -> Result<(), String> {
    ruleset()
        .map(drop)
        .map_err(|error| format!("this kernel has no landlock as of Linux 6.2 ({error})"))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn confine(_: &[PathBuf]) -> Result<(), String> {
    availability()
}

/// Whether commands can be confined here; if not, why.
#[cfg(not(target_os = "linux"))]
pub fn availability() -> Result<(), String> {
    Err("commands can only be confined on Linux".into())
}
