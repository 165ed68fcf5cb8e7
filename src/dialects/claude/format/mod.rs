//! Our transcripts as the JSONL lines and the frames of Claude Code.
//!
//! Owns: the shape of every line, the ids in them, the names of tools and of
//! their arguments. Promises: the same entry gives the same lines with the same
//! uuids, whoever asks and whenever; each line follows the one before it. Must
//! not: read or write files, or know sockets.
//!
//! - [`Ids`]: ids that are derived from where a thing is in its transcript, so a
//!   live frame, a page of history and an export name a block alike. An
//!   assistant message needs only its entry id for that, which is known before
//!   its first token.
//! - [`Format`]: entries in, [`Line`]s out. One per session; it remembers the last
//!   line and the tool calls that wait for a result.
//! - [`live`]: a line as the frame that is sent when it happens.
//! - [`strip`]: what is too heavy for a frame goes.
//! - [`block`], [`tool_name`], [`tool_input`], [`tool_use_id`], [`usage_at_start`],
//!   [`usage_at_end`], [`stop_reason`], [`error_class`], [`error_text`]: the parts,
//!   for frames that are made before there is an entry.
//!
//! Members and their order are those of Claude Code 2.1.62.

mod blocks;
mod errors;
mod facts;
mod frames;
mod ids;
mod lines;
mod names;
mod patch;
mod results;
mod strip;
mod tail;
mod usage;

pub use blocks::block;
pub use errors::{INTERRUPTED, INTERRUPTED_TOOL, error_class, error_text};
pub use facts::{CLAUDE_CODE_VERSION, SessionFacts, Sidechain, git_branch, slug};
pub use frames::{echo, live};
pub use ids::Ids;
pub use lines::{Format, Line};
pub use names::{tool_input, tool_name, tool_use_id};
pub use results::tool_use_result;
pub use strip::strip;
pub use tail::{summary_line, title_line};
pub use usage::{stop_reason, usage_at_end, usage_at_start};

#[cfg(test)]
mod tests;
