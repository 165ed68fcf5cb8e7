//! Confinement of commands by the kernel.
//!
//! Owns: what a confined command may write to and what it may not read, and that it
//! has no power over other processes. Promises: either everything that was asked for
//! is enforced, or it is an error. Must not: be taken for more than it is: a confined
//! command still reads the files of others and uses the network.

mod sight;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::agent::reach::PrivatePlaces;
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

/// Files in memory, which go with the machine; Linux always has it.
const SHARED_MEMORY: &str = "/dev/shm";

/// What a confined command is held to.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Confinement {
    /// The only places that it may write to.
    pub writable: Vec<PathBuf>,
    /// What it may neither read nor change, wherever it lies.
    pub private: PrivatePlaces,
    /// Where its temporary files go, when it may not make any where they
    /// usually do.
    pub temporary: Option<PathBuf>,
}

impl Confinement {
    /// What holds a command in this mode; `None` when it is not confined.
    /// Blocks.
    pub fn new(
        mode: ExecSandbox,
        workspace: &Path,
        temporary: &Path,
        private: PrivatePlaces,
    ) -> Option<Self> {
        let writable = writable(mode, workspace, temporary)?;
        // Beside the gateway's own, only what is there already may be changed.
        let is_crowded = writable.iter().any(|it| it == temporary)
            && private.folders.iter().any(|it| sight::lies_in(it, temporary));
        let elsewhere = is_crowded.then(|| SHARED_MEMORY.into());
        Some(Self { writable, private, temporary: elsewhere })
    }
}

fn writable(mode: ExecSandbox, workspace: &Path, temporary: &Path) -> Option<Vec<PathBuf>> {
    let devices = DEVICES.iter().map(PathBuf::from);
    match mode {
        ExecSandbox::Off => None,
        ExecSandbox::ReadOnly => Some(devices.collect()),
        ExecSandbox::WorkspaceWrite => {
            let others = [workspace.into(), temporary.into(), "/tmp".into(), SHARED_MEMORY.into()];
            Some(devices.chain(others).collect())
        }
    }
}

/// Confines this process and all that come from it. Places that are not there
/// are left out.
#[cfg(target_os = "linux")]
pub(super) fn confine(to: &Confinement) -> Result<(), String> {
    use landlock::{RulesetCreated, RulesetCreatedAttr, RulesetStatus, path_beneath_rules};

    let unavailable =
        |error: &dyn std::fmt::Display| format!("the sandbox is not available: {error}");
    let readable =
        sight::readable(&to.private, &to.writable).map_err(|error| unavailable(&error))?;
    let writable =
        sight::writable(&to.private, &to.writable).map_err(|error| unavailable(&error))?;
    let status = ruleset()
        .map_err(|error| unavailable(&error))?
        .add_rules(path_beneath_rules(writable, changes()))
        .and_then(|rules| rules.add_rules(path_beneath_rules(readable, READS)))
        .and_then(RulesetCreated::restrict_self)
        .map_err(|error| unavailable(&error))?;
    // The last is what keeps the capabilities away that are given up here.
    if status.ruleset != RulesetStatus::FullyEnforced || !status.no_new_privs {
        return Err(unavailable(&"the kernel enforces only a part of it"));
    }
    give_up_capabilities().map_err(|error| unavailable(&error))
}

/// Takes all that root may beyond files, for good: the memory and the environment of
/// the gateway among it. Files of other users stay open to root where it may write: a
/// workspace is often theirs, as in a container.
#[cfg(target_os = "linux")]
fn give_up_capabilities() -> rustix::io::Result<()> {
    use rustix::thread::{
        CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
        clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    };

    let kept = CapabilitySet::DAC_OVERRIDE | CapabilitySet::FOWNER;
    let held = capabilities(None)?;
    if held.effective.contains(CapabilitySet::SETPCAP) {
        for number in 0..u64::BITS {
            let capability = CapabilitySet::from_bits_retain(1 << number);
            match capability_is_in_bounding_set(capability) {
                Ok(true) if !kept.contains(capability) => {
                    remove_capability_from_bounding_set(capability)?;
                }
                Ok(_) => {}
                // The kernel knows no more.
                Err(_) => break,
            }
        }
    }
    clear_ambient_capability_set()?;
    let (kept, none) = (kept & held.permitted, CapabilitySet::empty());
    // The program that is started has them only when it runs as root.
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: none })
}

/// Names are no secret: folders can be listed.
#[cfg(target_os = "linux")]
const READS: landlock::AccessFs = landlock::AccessFs::ReadFile;

/// Everything that changes a file or a directory, as Linux 6.2 knows it: before
/// that, a file could be cut though it could not be written.
#[cfg(target_os = "linux")]
fn changes() -> landlock::BitFlags<landlock::AccessFs> {
    landlock::AccessFs::from_write(landlock::ABI::V3)
}

#[cfg(target_os = "linux")]
fn ruleset() -> Result<landlock::RulesetCreated, landlock::RulesetError> {
    use landlock::{CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};

    let files = || {
        Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(changes() | READS)
    };
    // Before Linux 6.12 a command may signal every process of its user.
    files()?.scope(Scope::Signal).or_else(|_| files())?.create()
}

/// Whether commands can be confined here; if not, why.
#[cfg(target_os = "linux")]
pub fn availability() -> Result<(), String> {
    ruleset()
        .map(drop)
        .map_err(|error| format!("this kernel has no landlock as of Linux 6.2 ({error})"))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn confine(_: &Confinement) -> Result<(), String> {
    availability()
}

/// Whether commands can be confined here; if not, why.
#[cfg(not(target_os = "linux"))]
pub fn availability() -> Result<(), String> {
    Err("commands can only be confined on Linux".into())
}
