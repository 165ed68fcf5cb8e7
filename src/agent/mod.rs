//! A run: from an accepted message to its answer.
//!
//! Owns: which run is active in which session and who waits, the turn with the
//! model and its tools, the events of a run. Promises: one run at a time per
//! session, many sessions in parallel; every accepted message ends in exactly
//! one of answered, aborted, failed; a finished run, however it ends, starts
//! the next. Must not: know about sockets or methods.

mod abort;
pub mod approvals;
mod aside;
mod calls;
mod changes;
mod commanded;
pub mod compaction;
mod conversation;
mod cut_commands;
mod drive;
pub mod embeddings;
mod emitter;
pub mod exec;
mod fallback;
pub mod feed;
pub mod guardrails;
mod hold;
pub mod inter_session;
mod interrupt;
mod job_row;
mod join;
mod lane;
mod lanes;
mod live;
pub mod mcp;
pub mod memory;
mod models;
mod named_files;
mod notices;
mod parts;
mod patch;
mod pictures;
pub mod prompt;
mod pruning;
mod queue;
pub mod reach;
mod recovery;
mod report;
mod request;
mod restart_note;
pub mod roster;
mod route;
mod rows;
mod run;
mod runs;
mod sent_at;
mod session_events;
pub mod skills;
mod speech;
mod spent;
pub mod status;
pub mod subagents;
mod tally;
mod terms;
mod thinking;
pub mod tools;
mod turn;
mod unrecorded;
mod wait;
pub mod web;
mod weight;
mod work;
pub mod workspace;

pub use crate::sessions::visible::{Visible, part_thoughts};

pub use abort::{AbortError, StillActive};
pub use changes::{Change, CompactionChange, Deletion};
pub use commanded::{AfterAnswer, CommandAnswer};
pub use cut_commands::forget_command;
pub use emitter::Card;
pub use hold::{Hold, HoldError, InLine};
pub use models::{Models, SessionModel, missing_models};
pub use notices::{Notices, shortened};
pub use parts::RunsParts;
pub use patch::PatchContext;
pub use queue::QueueRules;
pub use report::{Answer, Family, Progress, RunReport, add_turn};
pub use request::SendRequest;
pub use restart_note::{DOCTOR_HINT, RestartNote, RestartNotes};
pub use rows::{SessionRow, agent_runtime};
#[cfg(test)]
pub use run::tests::run as run_for_tests;
pub use run::{AbortReason, ActiveRun, RunEnd};
pub use runs::{Accepted, Runs, SendError, Start};
pub use session_events::SessionEvents;
pub use speech::Speech;
pub use tally::Tally;
pub use terms::{Hearer, RunTerms, WhenStale};
pub use turn::CUT_CALL;
pub use unrecorded::{Ended, Unrecorded};
pub use weight::ContextWeight;
