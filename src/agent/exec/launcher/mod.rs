//! Our own program as the parent of a command.
//!
//! Owns: the two steps between the gateway and a command, and the one between it and
//! a program that it talks to. The *keeper* stays for as long as anything of the
//! command lives; the *starter* prepares one process and becomes the command; the
//! *holder* is the keeper of a program that answers. Promises: when the gateway orders
//! it, or is gone, everything that came from the command is ended, also what made a
//! session of its own. Must not: know what a tool is; it runs before anything else of
//! the gateway is set up.

mod descriptors;
mod holder;
mod keeper;
mod starter;
mod terminal;
mod tree;

use std::ffi::OsStr;
use std::process::ExitCode;

use self::descriptors::close_inherited;
use crate::support::HOLD;
pub use crate::support::own_program;

/// The first argument of a keeper.
pub(super) const KEEP: &str = "__keep";
/// The first argument of a starter.
const START: &str = "__start";

/// The first argument of a process that becomes what its holder holds.
const HELD: &str = "__held";

/// What the gateway writes to its keeper to have everything ended.
pub(super) const END: u8 = b'k';
/// What it writes before input for the terminal: this, the count of bytes in
/// four bytes, and the bytes.
pub(super) const INPUT: u8 = b'w';
/// Most bytes of one input.
pub const MAX_INPUT: usize = 64 * 1024;

/// Does the work of a launching step when the first argument names one.
pub fn run_step(first: Option<&OsStr>) -> Option<ExitCode> {
    let step = match first?.to_str()? {
        KEEP => keeper::run,
        START => starter::run,
        HOLD => holder::run,
        HELD => holder::run_held,
        _ => return None,
    };
    // A command has its three streams and nothing else.
    close_inherited();
    Some(step())
}
