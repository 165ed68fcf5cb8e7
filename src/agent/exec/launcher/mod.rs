//! Our own program as the parent of a command.
//!
//! Owns: the two steps between the gateway and a command. The *keeper* stays
//! for as long as anything of the command lives; the *starter* prepares one
//! process and becomes the command. Promises: when the gateway orders it, or is
//! gone, everything that came from the command is ended, also what made a
//! session of its own. Must not: know what a tool is; it runs before anything
//! else of the gateway is set up.

mod descriptors;
mod keeper;
mod starter;
mod terminal;
mod tree;

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use self::descriptors::close_inherited;

/// The first argument of a keeper.
pub(super) const KEEP: &str = "__keep";
/// The first argument of a starter.
const START: &str = "__start";

/// What the gateway writes to its keeper to have everything ended.
pub(super) const END: u8 = b'k';
/// What it writes before input for the terminal: this, the count of bytes in
/// four bytes, and the bytes.
pub(super) const INPUT: u8 = b'w';
/// Most bytes of one input.
pub const MAX_INPUT: usize = 64 * 1024;

/// The program that runs now, also when a newer one has taken its place on disk.
///
/// # Errors
/// When the system does not say which it is.
pub fn own_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// Does the work of a launching step when the first argument names one.
pub fn run_step(first: Option<&OsStr>) -> Option<ExitCode> {
    let step = match first?.to_str()? {
        KEEP => keeper::run,
        START => starter::run,
        _ => return None,
    };
    // A command has its three streams and nothing else.
    close_inherited();
    Some(step())
}
