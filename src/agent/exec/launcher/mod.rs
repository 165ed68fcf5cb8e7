//! Our own program as the parent of a command.
//!
//! Owns: the two steps between the gateway and a command. The *keeper* stays
//! for as long as anything of the command lives; the *starter* prepares one
//! process and becomes the command. Promises: when the gateway orders it, or is
//! gone, everything that came from the command is ended, also what made a
//! session of its own. Must not: know what a tool is; it runs before anything
//! else of the gateway is set up.

mod keeper;
mod starter;
mod tree;

use std::ffi::OsStr;
use std::process::ExitCode;

/// The first argument of a keeper.
pub(super) const KEEP: &str = "__keep";
/// The first argument of a starter.
const START: &str = "__start";

/// What the gateway writes to its keeper to have everything ended.
pub(super) const END: u8 = b'k';

/// Does the work of a launching step when the first argument names one.
pub fn run_step(first: Option<&OsStr>) -> Option<ExitCode> {
    match first?.to_str()? {
        KEEP => Some(keeper::run()),
        START => Some(starter::run()),
        _ => None,
    }
}
