//! [`Store`] on the embedded database.

use std::path::Path;

use super::traits::StoreFuture;
use super::{
    AnswerClaim, Claim, CooldownChange, CooldownRow, CronEdit, CronEdited, CronJobRow,
    CronRunQuery, CronRunRow, Database, Edited, MemoryFile, MemoryHit, MemoryUpdate, NewRun,
    NewSession, NoticeRow, RunOutcome, RunRecord, SessionChange, SessionEdit, SessionEntry,
    SessionPage, SessionQuery, SessionRow, Spending, Store, StoreError, SubagentQuery, SubagentRow,
    SubagentState, Teller, UsageFacts, UsageFile, UsageScan, answers, channels, cooldowns, cron,
    hooks, memory, notices, runs, sessions, subagents, usage,
};

/// The store of a gateway on one machine.
#[derive(Clone)]
pub struct SqliteStore {
    pub(super) database: Database,
}

impl SqliteStore {
    /// Opens or creates the database file.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self::new(Database::open(path)?))
    }

    /// A store on a database that is open already.
    pub fn new(database: Database) -> Self {
        Self { database }
    }

    pub(super) const fn database(&self) -> &Database {
        &self.database
    }
}

impl Store for SqliteStore {
    fn session<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<SessionEntry>> {
        self.read_of("look up a session", key, sessions::get)
    }

    fn session_by_id<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, Option<SessionRow>> {
        self.read_of("look up a session id", session_id, sessions::by_id)
    }

    fn create_sessions_if_absent(
        &self,
        new: Vec<NewSession>,
    ) -> StoreFuture<'_, Vec<(SessionEntry, bool)>> {
        Box::pin(self.database.write("create a session", move |c| {
            new.into_iter().map(|session| sessions::create_if_absent(c, session)).collect()
        }))
    }

    fn update_session<'a>(
        &'a self,
        key: &'a str,
        change: SessionChange,
    ) -> StoreFuture<'a, Option<SessionEntry>> {
        self.write_of("update a session", key, move |c, key| sessions::update(c, key, change))
    }

    fn edit_session(&self, new: NewSession, edit: SessionEdit) -> StoreFuture<'_, Edited> {
        Box::pin(self.database.write("edit a session", move |c| sessions::edit(c, new, edit)))
    }

    fn rename_session<'a>(&'a self, key: &'a str, new: NewSession) -> StoreFuture<'a, bool> {
        self.write_of("rename a session", key, move |c, key| sessions::rename(c, key, &new))
    }

    fn delete_session<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<SessionEntry>> {
        self.write_of("delete a session", key, sessions::delete)
    }

    fn delete_unchanged_session<'a>(
        &'a self,
        key: &'a str,
        updated_at: u64,
    ) -> StoreFuture<'a, bool> {
        let delete = move |c: &_, key: &_| sessions::delete_unchanged(c, key, updated_at);
        self.write_of("delete an old session", key, delete)
    }

    fn list_sessions(&self, query: SessionQuery) -> StoreFuture<'_, SessionPage> {
        Box::pin(self.database.read("list sessions", move |c| sessions::list(c, &query)))
    }

    fn count_sessions<'a>(&'a self, agent: Option<&'a str>) -> StoreFuture<'a, u64> {
        let agent = agent.map(str::to_owned);
        let count = move |c: &_| sessions::count(c, agent.as_deref());
        Box::pin(self.database.read("count sessions", count))
    }

    fn is_index_new(&self) -> StoreFuture<'_, bool> {
        Box::pin(self.database.read("look for an index", sessions::is_new))
    }

    fn recent_sessions<'a>(
        &'a self,
        agent: Option<&'a str>,
        limit: u32,
    ) -> StoreFuture<'a, Vec<SessionRow>> {
        let query = SessionQuery {
            limit: Some(limit),
            agent: agent.map(str::to_owned),
            include_global: true,
            ..SessionQuery::default()
        };
        Box::pin(
            self.database
                .read("list recent sessions", move |c| Ok(sessions::list(c, &query)?.entries)),
        )
    }

    fn claim_run(&self, run: NewRun) -> StoreFuture<'_, Claim> {
        let claim = move |c: &_| runs::claim(c, &run, channels::forget);
        Box::pin(self.database.write("claim a run", claim))
    }

    fn finish_run<'a>(
        &'a self,
        scope: &'a str,
        run_id: &'a str,
        outcome: RunOutcome,
        message_is_stored: bool,
        now_ms: u64,
    ) -> StoreFuture<'a, bool> {
        let (scope, run_id) = (scope.to_owned(), run_id.to_owned());
        let finish =
            move |c: &_| runs::finish(c, (&scope, &run_id), &outcome, message_is_stored, now_ms);
        Box::pin(self.database.write("finish a run", finish))
    }

    fn run<'a>(&'a self, run_id: &'a str) -> StoreFuture<'a, Option<RunRecord>> {
        let run_id = run_id.to_owned();
        Box::pin(self.database.read("look up a run", move |c| runs::by_id(c, &run_id)))
    }

    fn run_of<'a>(&'a self, scope: &'a str, key: &'a str) -> StoreFuture<'a, Option<RunRecord>> {
        let (scope, key) = (scope.to_owned(), key.to_owned());
        let find = move |c: &_| Ok(runs::by_key(c, &scope, &key)?);
        Box::pin(self.database.read("look up the run of a key", find))
    }

    fn unsettled_runs(&self) -> StoreFuture<'_, Vec<RunRecord>> {
        Box::pin(self.database.read("list unsettled runs", runs::unsettled))
    }

    fn message_stored<'a>(&'a self, scope: &'a str, run_id: &'a str) -> StoreFuture<'a, ()> {
        let (scope, run_id) = (scope.to_owned(), run_id.to_owned());
        let forget = move |c: &_| runs::message_stored(c, (&scope, &run_id));
        Box::pin(self.database.write("forget a stored message", forget))
    }

    fn message_taken<'a>(&'a self, scope: &'a str, run_id: &'a str) -> StoreFuture<'a, ()> {
        let (scope, run_id) = (scope.to_owned(), run_id.to_owned());
        let forget = move |c: &_| runs::message_taken(c, (&scope, &run_id));
        Box::pin(self.database.write("forget a message that another run has", forget))
    }

    fn interrupt_unfinished(&self, now_ms: u64) -> StoreFuture<'_, usize> {
        Box::pin(self.database.write("interrupt runs", move |c| runs::interrupt(c, now_ms)))
    }

    fn prune_runs(&self, now_ms: u64) -> StoreFuture<'_, u64> {
        let prune = move |c: &_| {
            answers::prune(c, now_ms)?;
            subagents::prune(c)?;
            channels::prune(c, now_ms)?;
            cron::prune_orphans(c, cron::ORPHANS_MAX)?;
            hooks::prune(c, now_ms)?;
            runs::prune(c, now_ms)
        };
        Box::pin(self.database.write("prune runs", prune))
    }

    fn claim_answer<'a>(
        &'a self,
        scope: &'a str,
        key: &'a str,
        now_ms: u64,
    ) -> StoreFuture<'a, AnswerClaim> {
        let (scope, key) = (scope.to_owned(), key.to_owned());
        let claim = move |c: &_| answers::claim(c, (&scope, &key), now_ms);
        Box::pin(self.database.write("claim a key", claim))
    }

    fn settle_answer<'a>(
        &'a self,
        scope: &'a str,
        key: &'a str,
        answer: Option<String>,
    ) -> StoreFuture<'a, ()> {
        let (scope, key) = (scope.to_owned(), key.to_owned());
        let settle = move |c: &_| answers::settle(c, (&scope, &key), answer.as_deref());
        Box::pin(self.database.write("keep an answer", settle))
    }

    fn usage_files(&self) -> StoreFuture<'_, Vec<UsageFile>> {
        Box::pin(self.database.read("list usage", usage::files))
    }

    fn record_usage(&self, scans: Vec<UsageScan>) -> StoreFuture<'_, ()> {
        let record = move |c: &_| scans.iter().try_for_each(|scan| usage::record(c, scan));
        Box::pin(self.database.write("record usage", record))
    }

    fn forget_usage(&self, files: Vec<(String, String)>) -> StoreFuture<'_, ()> {
        Box::pin(self.database.write("forget usage", move |c| usage::forget(c, &files)))
    }

    fn usage_facts(
        &self,
        files: Vec<(String, String)>,
        quarters: (u64, u64),
    ) -> StoreFuture<'_, Vec<UsageFacts>> {
        Box::pin(self.database.read("look up usage", move |c| usage::facts(c, &files, quarters)))
    }

    fn usage_spending(&self, quarters: (u64, u64)) -> StoreFuture<'_, Vec<Spending>> {
        Box::pin(self.database.read("sum up usage", move |c| usage::spending_of_all(c, quarters)))
    }

    fn cooldowns(&self) -> StoreFuture<'_, Vec<CooldownRow>> {
        Box::pin(self.database.read("list cooldowns", cooldowns::all))
    }

    fn change_cooldowns(&self, changes: Vec<CooldownChange>) -> StoreFuture<'_, ()> {
        let change = move |c: &_| cooldowns::change(c, &changes);
        Box::pin(self.database.write("change cooldowns", change))
    }

    fn memory_files<'a>(&'a self, workspace: &'a str) -> StoreFuture<'a, Vec<MemoryFile>> {
        let workspace = workspace.to_owned();
        Box::pin(self.database.read("look up memory files", move |c| memory::files(c, &workspace)))
    }

    fn update_memory<'a>(
        &'a self,
        workspace: &'a str,
        updates: Vec<MemoryUpdate>,
        gone: Vec<String>,
    ) -> StoreFuture<'a, ()> {
        let workspace = workspace.to_owned();
        Box::pin(
            self.database.write("index memory files", move |c| {
                memory::update(c, &workspace, &updates, &gone)
            }),
        )
    }

    fn forget_memory_but(&self, workspaces: Vec<String>) -> StoreFuture<'_, bool> {
        let forget = move |c: &_| memory::forget_others(c, &workspaces);
        Box::pin(self.database.write("forget memory files", forget))
    }

    fn search_memory<'a>(
        &'a self,
        workspace: &'a str,
        terms: Vec<String>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<MemoryHit>> {
        let workspace = workspace.to_owned();
        Box::pin(
            self.database
                .read("search memory", move |c| memory::search(c, &workspace, &terms, limit)),
        )
    }

    fn add_subagent(&self, row: SubagentRow, max_open: usize) -> StoreFuture<'_, bool> {
        let add = move |c: &_| subagents::add(c, &row, max_open);
        Box::pin(self.database.write("add a sub-agent", add))
    }

    fn subagents(&self, query: SubagentQuery) -> StoreFuture<'_, Vec<SubagentRow>> {
        Box::pin(self.database.read("list sub-agents", move |c| subagents::list(c, &query)))
    }

    fn advance_subagent<'a>(
        &'a self,
        run_id: &'a str,
        from: &'static [SubagentState],
        to: SubagentState,
        outcome: Option<String>,
        now_ms: u64,
    ) -> StoreFuture<'a, bool> {
        let run_id = run_id.to_owned();
        let advance =
            move |c: &_| subagents::advance(c, &run_id, from, to, outcome.as_deref(), now_ms);
        Box::pin(self.database.write("update a sub-agent", advance))
    }

    fn untell_subagents(&self, prefix: &'static str, answered: Vec<String>) -> StoreFuture<'_, ()> {
        let untell = move |c: &_| subagents::untell(c, prefix, &answered);
        Box::pin(self.database.write("update sub-agents", untell))
    }

    fn tell_waiting_subagent<'a>(
        &'a self,
        run_id: &'a str,
        text: &'a str,
    ) -> StoreFuture<'a, bool> {
        let (run_id, text) = (run_id.to_owned(), text.to_owned());
        let tell = move |c: &_| subagents::tell_waiting(c, &run_id, &text);
        Box::pin(self.database.write("update a sub-agent", tell))
    }

    fn forget_subagent<'a>(&'a self, child_key: &'a str) -> StoreFuture<'a, ()> {
        let key = child_key.to_owned();
        Box::pin(self.database.write("forget a sub-agent", move |c| subagents::forget(c, &key)))
    }

    fn add_notice<'a>(
        &'a self,
        key: &'a str,
        text: String,
        teller: Teller,
    ) -> StoreFuture<'a, u64> {
        let key = key.to_owned();
        let add = move |c: &_| notices::add(c, &key, &text, teller);
        Box::pin(self.database.write("add a system event", add))
    }

    fn forget_notices<'a>(&'a self, key: &'a str, ids: Vec<u64>) -> StoreFuture<'a, ()> {
        let key = key.to_owned();
        let forget = move |c: &_| notices::forget(c, &key, &ids);
        Box::pin(self.database.write("forget system events", forget))
    }

    fn notices(&self) -> StoreFuture<'_, Vec<NoticeRow>> {
        Box::pin(self.database.read("list system events", notices::list))
    }

    fn cron_jobs(&self) -> StoreFuture<'_, Vec<CronJobRow>> {
        Box::pin(self.database.read("list jobs", cron::jobs))
    }

    fn cron_job<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<CronJobRow>> {
        let id = id.to_owned();
        Box::pin(self.database.read("look up a job", move |c| cron::job(c, &id)))
    }

    fn add_cron_job(
        &self,
        row: CronJobRow,
        runs: Vec<CronRunRow>,
        max: u64,
    ) -> StoreFuture<'_, bool> {
        Box::pin(self.database.write("add a job", move |c| cron::add(c, &row, &runs, max)))
    }

    fn edit_cron_job<'a>(
        &'a self,
        id: &'a str,
        edit: CronEdit,
    ) -> StoreFuture<'a, Option<CronEdited>> {
        let id = id.to_owned();
        Box::pin(self.database.write("change a job", move |c| cron::edit(c, &id, edit)))
    }

    fn due_cron_jobs(&self, now_ms: u64) -> StoreFuture<'_, Vec<String>> {
        Box::pin(self.database.read("look for due jobs", move |c| cron::due(c, now_ms)))
    }

    fn next_cron_job(&self, except: Vec<String>) -> StoreFuture<'_, Option<u64>> {
        let next = move |c: &_| cron::next_due(c, &except);
        Box::pin(self.database.read("look for the next job", next))
    }

    fn open_cron_runs(&self) -> StoreFuture<'_, Vec<CronRunRow>> {
        Box::pin(self.database.read("list open runs of jobs", cron::open_runs))
    }

    fn end_cron_run(&self, run: CronRunRow) -> StoreFuture<'_, bool> {
        Box::pin(self.database.write("end a run of a job", move |c| cron::change_run(c, &run)))
    }

    fn has_cron_import<'a>(&'a self, path: &'a str) -> StoreFuture<'a, bool> {
        let path = path.to_owned();
        Box::pin(self.database.read("look for an import", move |c| cron::is_imported(c, &path)))
    }

    fn note_cron_import<'a>(&'a self, path: &'a str, now_ms: u64) -> StoreFuture<'a, ()> {
        let path = path.to_owned();
        let note = move |c: &_| cron::note_import(c, &path, now_ms);
        Box::pin(self.database.write("note an import", note))
    }

    fn cron_runs(&self, query: CronRunQuery) -> StoreFuture<'_, (Vec<CronRunRow>, u64)> {
        Box::pin(self.database.read("list runs of jobs", move |c| cron::runs(c, &query)))
    }

    fn prune_cron_runs<'a>(&'a self, job_id: &'a str, kept: u32) -> StoreFuture<'a, ()> {
        let id = job_id.to_owned();
        Box::pin(self.database.write("forget runs of a job", move |c| cron::prune(c, &id, kept)))
    }

    fn forget_cron_misses<'a>(&'a self, job_id: &'a str, now_ms: u64) -> StoreFuture<'a, ()> {
        let id = job_id.to_owned();
        let forget = move |c: &_| cron::forget_misses(c, &id, now_ms);
        Box::pin(self.database.write("forget what a job missed", forget))
    }

    fn try_write(&self) -> StoreFuture<'_, ()> {
        // Of the version the page that holds it is written anew.
        let again = |c: &rusqlite::Connection| {
            let version: i64 = c.pragma_query_value(None, "user_version", |row| row.get(0))?;
            Ok(c.pragma_update(None, "user_version", version)?)
        };
        Box::pin(self.database.write("try a write", again))
    }
}
