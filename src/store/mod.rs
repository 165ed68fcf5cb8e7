//! What is kept on disk besides transcripts and configuration.
//!
//! Owns: the embedded database and every line of SQL, private files, the lock
//! on the state directory and those of files that several processes change.
//! Promises: a write that was answered is committed and synced; files it creates
//! are readable by their owner only; what the rest of the program sees of the
//! database is [`Store`], which a server database can implement as well. Must not:
//! know what a session or a run means.

mod about;
mod answers;
pub mod atomic;
mod beside;
mod channels;
mod check;
mod checkpoint;
mod column;
mod cooldowns;
mod cron;
mod database;
mod devices;
mod entry;
mod error;
mod group;
mod hooks;
pub mod instance;
mod json_file;
mod marks;
mod memory;
mod migrations;
mod nodes;
mod notices;
mod query;
mod readers;
mod runs;
mod sessions;
mod sources;
mod sqlite;
mod subagents;
mod traits;
mod usage;
mod write_lock;

pub use answers::{AnswerClaim, KeptAnswer};
pub use atomic::{FileError, create_private, create_private_dir, move_private, write_private};
pub use beside::{copy_beside, cron_jobs_beside, is_earlier_beside, sessions_beside};
pub use channels::{
    ChannelPerson, ChannelStore, ExpectedReply, NewPart, OutboxAddress, OutboxCounts, OutboxNext,
    OutboxPart, OutboxSettled, OutboxState, PAIRING_CODE_MS, PAIRINGS_MAX, PairingClaim,
    PairingRequest,
};
pub use check::check;
pub use checkpoint::{CheckpointPlace, CompactionCheckpoint, CompactionReason};
pub use cooldowns::{CooldownChange, CooldownRow};
pub use cron::{
    CronChange, CronEdit, CronEdited, CronJobChange, CronJobRow, CronRunQuery, CronRunRow,
};
pub use database::Database;
pub use devices::{
    CodeUse, DeviceEdit, DeviceFacts, DeviceRow, DeviceStore, DeviceToken, PairedDevice,
    PendingDevice, SetupCode,
};
pub use entry::{SessionEntry, TranscriptFacts};
pub use error::StoreError;
pub use hooks::{HookAccepted, HookNews, HookRow, HookStore};
pub use json_file::{JsonFile, JsonFileError};
pub use marks::{
    MAX_SHARES, MarkStore, Overview, OverviewFilter, OverviewPlace, OverviewQuery, OverviewRow,
    SessionMarks, SessionShare,
};
pub use memory::{MemoryChunk, MemoryFile, MemoryHit, MemoryUpdate};
pub use nodes::{
    ActionHolder, KnownNode, NodeAction, NodeAdmitted, NodeApproval, NodeCheck, NodeDone,
    NodeDrain, NodeFacts, NodeGround, NodePair, NodePairRequest, NodePairings, NodeStore, NodeWork,
};
pub use notices::{NoticeRow, Teller};
pub use query::{SessionPage, SessionQuery, SessionRow};
pub use runs::{Claim, NewRun, RunOutcome, RunRecord, RunState};
pub use sources::{SourceNote, SourceStore, sources_beside};
pub use sqlite::SqliteStore;
pub use subagents::{SubagentQuery, SubagentRow, SubagentState};
pub use traits::{Edited, NewSession, SessionChange, SessionEdit, Store, StoreFuture};
pub use usage::{Activity, Spending, ToolCalls, UsageFacts, UsageFile, UsageScan};
pub use write_lock::{WriteLock, WriteLockError};
