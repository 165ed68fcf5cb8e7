//! Commands that run.
//!
//! Owns: every process that a tool has started, from its start to the end of
//! all that came from it. Promises: nothing starts without a permit; what is
//! ended is dead within two seconds, whatever sessions it made; nothing outlives
//! the gateway, however that goes; no variable of the gateway's own is passed
//! on. Must not: decide what may run, or know what a tool shows of it.
//!
//! A command runs below a *keeper*, our own program in another role (see
//! [`launcher`]), which finds and ends whatever the command has started.

pub mod environment;
pub mod launcher;
mod names;
mod output;
mod overflow;
mod plan;
mod process;
mod processes;
pub mod sandbox;
mod supervisor;
mod text;

pub use output::tail;
pub use overflow::MAX_FILE;
pub use process::{Cause, Ending, Foreground, Process, State};
pub use processes::{How, Processes, StartError};
pub use sandbox::availability as sandbox_availability;
