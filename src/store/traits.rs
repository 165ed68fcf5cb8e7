//! The store as the rest of the program sees it.
//!
//! Promises: when a future of a write is ready, the write is durable. The
//! methods are such that a database server can fulfil them for several nodes:
//! keys are text, each call is one transaction.

use super::{
    AnswerClaim, ChannelStore, Claim, CooldownChange, CooldownRow, CronEdit, CronEdited,
    CronJobRow, CronRunQuery, CronRunRow, DeviceStore, HookStore, MarkStore, MemoryFile, MemoryHit,
    MemoryUpdate, NewRun, NodeStore, NoticeRow, RunOutcome, RunRecord, SessionEntry, SessionPage,
    SessionQuery, SessionRow, SourceStore, Spending, StoreError, SubagentQuery, SubagentRow,
    SubagentState, Teller, UsageFacts, UsageFile, UsageScan,
};
use crate::support::BoxFuture;

/// A change of an entry, made inside the transaction that reads and writes it.
pub type SessionChange = Box<dyn FnOnce(&mut SessionEntry) + Send>;

/// A change of an entry that may refuse, with a text for the one who asked; then
/// nothing is written.
pub type SessionEdit = Box<dyn FnOnce(&mut SessionEntry) -> Result<(), String> + Send>;

/// What became of an edit.
#[derive(Debug, Clone, PartialEq)]
pub enum Edited {
    /// It is written.
    Written {
        /// The entry now.
        entry: Box<SessionEntry>,
        /// Whether the session was begun by this.
        is_new: bool,
    },
    /// Another session of the agent has this label.
    LabelTaken(String),
    /// The edit itself refused.
    Refused(String),
}

/// What a store call yields.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// A session that may be new.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSession {
    /// Canonical key.
    pub key: String,
    /// Agent that it belongs to.
    pub agent: String,
    /// Its entry, if there is none yet.
    pub entry: SessionEntry,
}

/// Session index, run records, usage, credentials that rest, devices, nodes,
/// channels, marks on sessions, and files that were taken over.
pub trait Store:
    ChannelStore + DeviceStore + HookStore + MarkStore + NodeStore + SourceStore
{
    /// The session with this key.
    fn session<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<SessionEntry>>;

    /// The session whose current transcript has this id.
    fn session_by_id<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, Option<SessionRow>>;

    /// Adds those sessions whose keys are free, all or none of them durably;
    /// answers the entries that are there now, in order, and whether each is new.
    fn create_sessions_if_absent(
        &self,
        sessions: Vec<NewSession>,
    ) -> StoreFuture<'_, Vec<(SessionEntry, bool)>>;

    /// Changes an entry; `None` when there is no such session.
    fn update_session<'a>(
        &'a self,
        key: &'a str,
        change: SessionChange,
    ) -> StoreFuture<'a, Option<SessionEntry>>;

    /// Changes an entry, or makes one out of `new` first when the key is free.
    /// Whether the label is free is looked at in the same transaction.
    fn edit_session(&self, new: NewSession, edit: SessionEdit) -> StoreFuture<'_, Edited>;

    /// Gives a session another key and entry, and takes its marks and notices along; its
    /// links go by its id and stay. Answers whether it did: it is there, and the key is free.
    fn rename_session<'a>(&'a self, key: &'a str, new: NewSession) -> StoreFuture<'a, bool>;

    /// Removes a session from the index; answers what was there.
    fn delete_session<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<SessionEntry>>;

    /// Removes a session from the index unless it changed since it was looked
    /// at; answers whether it did.
    fn delete_unchanged_session<'a>(
        &'a self,
        key: &'a str,
        updated_at: u64,
    ) -> StoreFuture<'a, bool>;

    /// The sessions that a query asks for.
    fn list_sessions(&self, query: SessionQuery) -> StoreFuture<'_, SessionPage>;

    /// How many sessions there are, of one agent or of all.
    fn count_sessions<'a>(&'a self, agent: Option<&'a str>) -> StoreFuture<'a, u64>;

    /// Whether there is no session, and not because the last one was removed: the
    /// index is new, or the one that there was is lost.
    fn is_index_new(&self) -> StoreFuture<'_, bool>;

    /// The `limit` sessions that changed last, of one agent or of all.
    fn recent_sessions<'a>(
        &'a self,
        agent: Option<&'a str>,
        limit: u32,
    ) -> StoreFuture<'a, Vec<SessionRow>>;

    /// Takes an idempotency key, or tells which run has it.
    fn claim_run(&self, run: NewRun) -> StoreFuture<'_, Claim>;

    /// Notes how an active run ended; false when it is not active.
    fn finish_run<'a>(
        &'a self,
        scope: &'a str,
        run_id: &'a str,
        outcome: RunOutcome,
        message_is_stored: bool,
        now_ms: u64,
    ) -> StoreFuture<'a, bool>;

    /// The run with this id, the newest if several scopes used it.
    fn run<'a>(&'a self, run_id: &'a str) -> StoreFuture<'a, Option<RunRecord>>;

    /// The last run that had this key among those of `scope`; its key may be free again.
    fn run_of<'a>(&'a self, scope: &'a str, key: &'a str) -> StoreFuture<'a, Option<RunRecord>>;

    /// The runs that are active, and those whose messages are still to be put
    /// into their transcripts, in the order they were accepted.
    fn unsettled_runs(&self) -> StoreFuture<'_, Vec<RunRecord>>;

    /// Marks every active run as interrupted, for the start; answers how many.
    fn interrupt_unfinished(&self, now_ms: u64) -> StoreFuture<'_, usize>;

    /// The message of a run is in its transcript, so the record need not keep
    /// it.
    fn message_stored<'a>(&'a self, scope: &'a str, run_id: &'a str) -> StoreFuture<'a, ()>;

    /// The same for one that went into another run: who says the same again says it
    /// anew.
    fn message_taken<'a>(&'a self, scope: &'a str, run_id: &'a str) -> StoreFuture<'a, ()>;

    /// Forgets ended runs and answers beyond their retention; answers how many
    /// runs.
    fn prune_runs(&self, now_ms: u64) -> StoreFuture<'_, u64>;

    /// Takes the key of a request that must not be done twice, or tells what was
    /// answered.
    fn claim_answer<'a>(
        &'a self,
        scope: &'a str,
        key: &'a str,
        now_ms: u64,
    ) -> StoreFuture<'a, AnswerClaim>;

    /// Keeps the answer to such a request; without one the key is free again.
    fn settle_answer<'a>(
        &'a self,
        scope: &'a str,
        key: &'a str,
        answer: Option<String>,
    ) -> StoreFuture<'a, ()>;

    /// How far transcripts were read for their usage.
    fn usage_files(&self) -> StoreFuture<'_, Vec<UsageFile>>;

    /// Takes in stretches of transcripts, in order, with one commit.
    fn record_usage(&self, scans: Vec<UsageScan>) -> StoreFuture<'_, ()>;

    /// Forgets transcripts, by agent and file name, that are no more.
    fn forget_usage(&self, files: Vec<(String, String)>) -> StoreFuture<'_, ()>;

    /// What is known of some transcripts, by agent and file name, between two
    /// quarters, both included; in the order of the files.
    fn usage_facts(
        &self,
        files: Vec<(String, String)>,
        quarters: (u64, u64),
    ) -> StoreFuture<'_, Vec<UsageFacts>>;

    /// What all transcripts together spent between two quarters, both included.
    fn usage_spending(&self, quarters: (u64, u64)) -> StoreFuture<'_, Vec<Spending>>;

    /// The credentials that rest, or did not long ago.
    fn cooldowns(&self) -> StoreFuture<'_, Vec<CooldownRow>>;

    /// Notes which credentials rest, with one commit.
    fn change_cooldowns(&self, changes: Vec<CooldownChange>) -> StoreFuture<'_, ()>;

    /// The memory files of a workspace as they were indexed.
    fn memory_files<'a>(&'a self, workspace: &'a str) -> StoreFuture<'a, Vec<MemoryFile>>;

    /// Indexes files of a workspace anew and forgets others, by their paths.
    fn update_memory<'a>(
        &'a self,
        workspace: &'a str,
        updates: Vec<MemoryUpdate>,
        gone: Vec<String>,
    ) -> StoreFuture<'a, ()>;

    /// Forgets what was indexed of workspaces that are none of these, a part of it at a time;
    /// answers whether there may be more.
    fn forget_memory_but(&self, workspaces: Vec<String>) -> StoreFuture<'_, bool>;

    /// The chunks of a workspace in which most of some terms are, the best
    /// first. A term is a word, or words that stand together.
    fn search_memory<'a>(
        &'a self,
        workspace: &'a str,
        terms: Vec<String>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<MemoryHit>>;

    /// Adds the run of a sub-agent, unless its parent has `max_open` open ones
    /// already; answers whether it did.
    fn add_subagent(&self, row: SubagentRow, max_open: usize) -> StoreFuture<'_, bool>;

    /// Runs of sub-agents, the oldest first.
    fn subagents(&self, query: SubagentQuery) -> StoreFuture<'_, Vec<SubagentRow>>;

    /// Takes the run of a sub-agent from one of some states to another; answers
    /// whether it was in one of them. An outcome is JSON.
    fn advance_subagent<'a>(
        &'a self,
        run_id: &'a str,
        from: &'static [SubagentState],
        to: SubagentState,
        outcome: Option<String>,
        now_ms: u64,
    ) -> StoreFuture<'a, bool>;

    /// Takes back that results of sub-agents were told whose runs have not ended, those that
    /// were `answered` excepted, and forgets those runs, for the start: they are told again.
    /// Their ids begin with `prefix`.
    fn untell_subagents(&self, prefix: &'static str, answered: Vec<String>) -> StoreFuture<'_, ()>;

    /// Adds to what a sub-agent is told that waits; answers whether it still did.
    fn tell_waiting_subagent<'a>(&'a self, run_id: &'a str, text: &'a str)
    -> StoreFuture<'a, bool>;

    /// Forgets the runs that are over of a sub-agent whose session is gone.
    fn forget_subagent<'a>(&'a self, child_key: &'a str) -> StoreFuture<'a, ()>;

    /// Adds a system event that waits for a session's next turn; answers its id.
    fn add_notice<'a>(&'a self, key: &'a str, text: String, teller: Teller)
    -> StoreFuture<'a, u64>;

    /// Forgets these system events of a session.
    fn forget_notices<'a>(&'a self, key: &'a str, ids: Vec<u64>) -> StoreFuture<'a, ()>;

    /// All system events that wait, the oldest first.
    fn notices(&self) -> StoreFuture<'_, Vec<NoticeRow>>;

    /// The jobs of the scheduler, in the order they were made.
    fn cron_jobs(&self) -> StoreFuture<'_, Vec<CronJobRow>>;

    /// The job with this id.
    fn cron_job<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<CronJobRow>>;

    /// Adds a job with runs that it had elsewhere, unless there are `max` jobs
    /// already or its id is taken; answers whether it did.
    fn add_cron_job(
        &self,
        row: CronJobRow,
        runs: Vec<CronRunRow>,
        max: u64,
    ) -> StoreFuture<'_, bool>;

    /// Changes a job and its runs with one commit; `None` when there is no such
    /// job, or the edit wants nothing.
    fn edit_cron_job<'a>(
        &'a self,
        id: &'a str,
        edit: CronEdit,
    ) -> StoreFuture<'a, Option<CronEdited>>;

    /// Ids of the jobs that are due, the earliest first.
    fn due_cron_jobs(&self, now_ms: u64) -> StoreFuture<'_, Vec<String>>;

    /// When the next job is due, but for these.
    fn next_cron_job(&self, except: Vec<String>) -> StoreFuture<'_, Option<u64>>;

    /// The runs of jobs that have begun and not ended.
    fn open_cron_runs(&self) -> StoreFuture<'_, Vec<CronRunRow>>;

    /// Notes how a run has ended whose job is gone.
    fn end_cron_run(&self, run: CronRunRow) -> StoreFuture<'_, bool>;

    /// Whether a file of jobs was taken over.
    fn has_cron_import<'a>(&'a self, path: &'a str) -> StoreFuture<'a, bool>;

    /// Notes that a file of jobs is taken over.
    fn note_cron_import<'a>(&'a self, path: &'a str, now_ms: u64) -> StoreFuture<'a, ()>;

    /// Runs that have ended, and how many there are of those that are wanted.
    fn cron_runs(&self, query: CronRunQuery) -> StoreFuture<'_, (Vec<CronRunRow>, u64)>;

    /// Forgets the oldest runs of a job beyond the `kept` newest.
    fn prune_cron_runs<'a>(&'a self, job_id: &'a str, kept: u32) -> StoreFuture<'a, ()>;

    /// Forgets that a job missed instants that are still to come.
    fn forget_cron_misses<'a>(&'a self, job_id: &'a str, now_ms: u64) -> StoreFuture<'a, ()>;

    /// Writes what is there already: whether writes are stored again.
    fn try_write(&self) -> StoreFuture<'_, ()>;
}
