//! Conversations.
//!
//! Owns: session keys, the session index, transcripts, history views.
//! Promises: what was acknowledged is on disk; a transcript only grows.
//! Must not: know about sockets, runs or models.

mod artifacts;
mod checkpoints;
mod compact;
mod context;
mod digest;
pub mod directives;
mod display;
mod edit;
mod entries;
mod error;
mod freshness;
mod history;
mod id;
pub mod import;
mod lookup;
pub mod maintenance;
mod media;
mod media_type;
mod outline;
mod past;
mod paths;
mod preview;
mod put_away;
mod reading;
mod rebuild;
mod service;
mod size;
mod spawners;
mod steps;
mod stored;
mod time;
mod transcript;
mod types;
mod uploads;
pub mod usage;
pub mod visible;
mod words;

pub mod key;

pub use crate::store::{
    CompactionCheckpoint, CompactionReason, SessionEntry, SessionPage, SessionQuery, SessionRow,
    TranscriptFacts,
};
pub use artifacts::{Artifact, ArtifactData, Download};
pub use context::ContextEntry;
pub use directives::{INTERNAL_BEGIN, INTERNAL_END};
pub use display::{
    HEARTBEAT_KIND, JOB_KIND, OVERSIZED, RECEIPT_MEMBER, TRUNCATED, message_display, shown_text,
    waiting_message, whole_message,
};
pub use entries::{Entries, EntryBody, EntryPlace, StoredTranscript, TranscriptEntry};
pub use error::{SessionError, TranscriptError};
pub use history::{Between, HistoryOptions, HistoryPage, TranscriptPart};
pub use id::SessionId;
pub use key::{AgentId, KeyRules, Peer, PeerKind, SessionKey, WEBCHAT};
pub use lookup::Lookup;
pub use media::{MEDIA_MEMBER, Media, MediaError, NewMedia, StagedMedia, StoredMedia};
pub use media_type::MediaType;
pub use outline::{Outline, Outlines};
pub use past::Past;
pub use rebuild::lost_with_database;
pub use service::Sessions;
pub use spawners::LINE_MAX;
pub use stored::{Source, StoredSession, stored_sessions};
pub use time::{iso as iso_time, millis as millis_of_iso};
pub use transcript::TranscriptFormat;
pub use types::{
    AppendOptions, CompactedFiles, CompactedSession, Compaction, CutSession, DeletedSession,
    ForkedSession, Remains, SessionsOptions, StoredMessage,
};
pub use uploads::{About, Partial, Stock, Upload, Uploads};
pub use words::{LastWords, OF_A_PERSON, Words};
