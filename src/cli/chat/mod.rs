//! `clawgate chat`.
//!
//! Owns: one message (`command`), a conversation (`repl`), what is typed
//! (`lines`), one run from question to end (`follow`) and its text
//! (`streamed`). Promises: only events of the own run are shown, its text
//! exactly once. Must not: interpret slash commands but `/quit` and `/exit`.

mod command;
mod follow;
mod lines;
mod repl;
mod streamed;

pub use command::{ChatArgs, run};
