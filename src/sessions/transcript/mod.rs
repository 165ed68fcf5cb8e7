//! Transcripts: JSONL files that only grow.
//!
//! Owns: the lines of a conversation and the one thread that writes them.
//! Promises: an acknowledged line is on disk; a byte that was written stays
//! what it is; what cannot be read is skipped, never removed. Must not: know
//! the session index.

mod backward;
mod copy;
mod file;
mod forward;
mod health;
mod line;
mod scan;
mod sync;
#[cfg(test)]
pub(super) mod testing;
mod writer;

pub use crate::config::TranscriptFormat;

pub(super) use backward::Backward;
pub(super) use copy::{Tail, fork, own_begin, tail};
pub(super) use file::{bare_id, header};
pub(super) use forward::Forward;
pub(super) use line::{Body, Entry, Header, Kept, Line, Loose, Parent};
pub(super) use scan::{Position, head, position};
pub(super) use writer::{Birth, NewEntry, NewKind, Place, Placed, Writer};
