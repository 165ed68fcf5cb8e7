//! `exec` runs a command, `process` looks after those that go on.
//!
//! Owns: what a model asks of commands and what it is told of them. Promises:
//! nothing runs without a permit; a call that is given up ends its command.
//! Must not: start processes itself (see [`crate::agent::exec`]).

mod command;
mod keys;
mod on_node;
mod process;
mod programs;
mod request;
mod shell;
mod told;
mod words;

pub use command::Exec;
pub use process::ProcessTool;
