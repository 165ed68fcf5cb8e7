//! The schema, as the list of steps that led to it.
//!
//! Owns: `user_version`. Promises: a database is brought forward in one
//! transaction or left alone. Must not: change a step that was released; a
//! change of schema is a new step.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::error::{Fault, StoreError};

/// Step *n* takes the schema from version *n* to *n + 1*.
const STEPS: &[&str] = &[
    // 1: session index, run and idempotency records. `search` comes before
    // `entry`, so that looking through it reads no overflow pages.
    "CREATE TABLE sessions (
        key TEXT PRIMARY KEY NOT NULL,
        session_id TEXT NOT NULL,
        agent_id TEXT NOT NULL,
        updated_at INTEGER NOT NULL,
        label TEXT,
        spawned_by TEXT,
        message_count INTEGER NOT NULL,
        transcript_bytes INTEGER NOT NULL,
        leaf_id TEXT,
        derived_title TEXT,
        last_message TEXT,
        search TEXT NOT NULL,
        entry TEXT NOT NULL
    ) STRICT;
    CREATE INDEX sessions_by_time ON sessions (updated_at DESC);
    CREATE INDEX sessions_by_agent ON sessions (agent_id, updated_at DESC);
    CREATE INDEX sessions_by_id ON sessions (session_id);
    CREATE INDEX sessions_by_label ON sessions (label) WHERE label IS NOT NULL;
    CREATE INDEX sessions_by_parent ON sessions (spawned_by) WHERE spawned_by IS NOT NULL;
    CREATE TABLE runs (
        scope TEXT NOT NULL,
        key TEXT NOT NULL,
        run_id TEXT NOT NULL,
        session_key TEXT NOT NULL,
        text_hash TEXT,
        state TEXT NOT NULL,
        error TEXT,
        message TEXT,
        created_at INTEGER NOT NULL,
        ended_at INTEGER,
        PRIMARY KEY (scope, key)
    ) STRICT;
    CREATE INDEX runs_by_id ON runs (run_id);
    CREATE INDEX runs_by_end ON runs (ended_at) WHERE ended_at IS NOT NULL;
    CREATE INDEX runs_active ON runs (session_key) WHERE state = 'active';",
    // 2: usage, read from transcripts; `quarter` counts quarter hours from the epoch.
    "CREATE TABLE usage_files (
        id INTEGER PRIMARY KEY,
        agent_id TEXT NOT NULL,
        name TEXT NOT NULL,
        length INTEGER NOT NULL,
        modified_at INTEGER NOT NULL,
        read_to INTEGER NOT NULL,
        tail TEXT NOT NULL,
        last_user_at INTEGER,
        UNIQUE (agent_id, name)
    ) STRICT;
    CREATE TABLE usage_activity (
        file_id INTEGER NOT NULL REFERENCES usage_files (id) ON DELETE CASCADE,
        quarter INTEGER NOT NULL,
        user INTEGER NOT NULL,
        assistant INTEGER NOT NULL,
        tool_calls INTEGER NOT NULL,
        tool_results INTEGER NOT NULL,
        errors INTEGER NOT NULL,
        first_at INTEGER NOT NULL,
        last_at INTEGER NOT NULL,
        latencies TEXT NOT NULL,
        PRIMARY KEY (file_id, quarter)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE usage_spending (
        file_id INTEGER NOT NULL REFERENCES usage_files (id) ON DELETE CASCADE,
        quarter INTEGER NOT NULL,
        provider TEXT NOT NULL,
        model TEXT NOT NULL,
        has_cost INTEGER NOT NULL,
        count INTEGER NOT NULL,
        input INTEGER NOT NULL,
        output INTEGER NOT NULL,
        cache_read INTEGER NOT NULL,
        cache_write INTEGER NOT NULL,
        total_tokens INTEGER NOT NULL,
        input_cost REAL NOT NULL,
        output_cost REAL NOT NULL,
        cache_read_cost REAL NOT NULL,
        cache_write_cost REAL NOT NULL,
        total_cost REAL NOT NULL,
        PRIMARY KEY (file_id, quarter, provider, model, has_cost)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX usage_spending_by_time ON usage_spending (quarter);
    CREATE TABLE usage_tools (
        file_id INTEGER NOT NULL REFERENCES usage_files (id) ON DELETE CASCADE,
        quarter INTEGER NOT NULL,
        name TEXT NOT NULL,
        count INTEGER NOT NULL,
        PRIMARY KEY (file_id, quarter, name)
    ) STRICT, WITHOUT ROWID;",
    "CREATE TABLE answers (
        scope TEXT NOT NULL,
        key TEXT NOT NULL,
        answer TEXT,
        created_at INTEGER NOT NULL,
        PRIMARY KEY (scope, key)
    ) STRICT;
    CREATE INDEX answers_by_time ON answers (created_at);",
    // Credentials that rest; `model` is empty when all models are concerned.
    "CREATE TABLE cooldowns (
        credential TEXT NOT NULL,
        model TEXT NOT NULL,
        reason TEXT NOT NULL,
        failures INTEGER NOT NULL,
        failed_at INTEGER NOT NULL,
        until_ms INTEGER NOT NULL,
        PRIMARY KEY (credential, model)
    ) STRICT, WITHOUT ROWID;",
    // Memory: chunks of Markdown files, and an index over their words.
    "CREATE TABLE memory_files (
        id INTEGER PRIMARY KEY,
        workspace TEXT NOT NULL,
        path TEXT NOT NULL,
        length INTEGER NOT NULL,
        modified_at INTEGER NOT NULL,
        hash TEXT NOT NULL,
        UNIQUE (workspace, path)
    ) STRICT;
    CREATE TABLE memory_chunks (
        id INTEGER PRIMARY KEY,
        file_id INTEGER NOT NULL REFERENCES memory_files (id) ON DELETE CASCADE,
        first_line INTEGER NOT NULL,
        last_line INTEGER NOT NULL,
        text TEXT NOT NULL
    ) STRICT;
    CREATE INDEX memory_chunks_by_file ON memory_chunks (file_id);
    CREATE VIRTUAL TABLE memory_words USING fts5 (
        words, content = '', contentless_delete = 1,
        tokenize = 'porter unicode61 remove_diacritics 2'
    );",
    // Runs of sub-agents, and how far they are.
    "CREATE TABLE subagents (
        run_id TEXT PRIMARY KEY NOT NULL,
        child_key TEXT NOT NULL,
        parent_key TEXT NOT NULL,
        parent_run_id TEXT,
        owner TEXT NOT NULL,
        label TEXT,
        task TEXT NOT NULL,
        message TEXT NOT NULL,
        timeout_seconds INTEGER NOT NULL,
        is_temporary INTEGER NOT NULL,
        state TEXT NOT NULL,
        outcome TEXT,
        created_at INTEGER NOT NULL,
        ended_at INTEGER
    ) STRICT;
    CREATE INDEX subagents_by_parent ON subagents (parent_key, state);
    CREATE INDEX subagents_by_child ON subagents (child_key);
    CREATE INDEX subagents_by_state ON subagents (state, ended_at);",
    // Devices, and codes that set one up; what is known of a device is JSON.
    "CREATE TABLE devices (
        device_id TEXT PRIMARY KEY NOT NULL,
        paired TEXT,
        pending TEXT,
        request_id TEXT UNIQUE,
        requested_at INTEGER
    ) STRICT;
    CREATE TABLE setup_codes (
        hash TEXT PRIMARY KEY NOT NULL,
        granted TEXT NOT NULL,
        issued_by TEXT NOT NULL,
        expires_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE marks (name TEXT PRIMARY KEY NOT NULL) STRICT, WITHOUT ROWID;",
    // Nodes: as they last connected and what they may use; who was approved, who
    // waits for that, and what waits for them.
    "CREATE TABLE nodes (
        node_id TEXT PRIMARY KEY NOT NULL,
        facts TEXT,
        granted TEXT,
        revision INTEGER NOT NULL DEFAULT 0,
        seen_at INTEGER,
        seen_reason TEXT
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE node_pairs (
        node_id TEXT PRIMARY KEY NOT NULL,
        facts TEXT NOT NULL,
        token_hash TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        approved_at INTEGER NOT NULL,
        seen_at INTEGER,
        seen_reason TEXT,
        connected_at INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE node_requests (
        request_id TEXT PRIMARY KEY NOT NULL,
        node_id TEXT NOT NULL UNIQUE,
        facts TEXT NOT NULL,
        silent INTEGER NOT NULL,
        ts INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE node_work (
        seq INTEGER PRIMARY KEY,
        node_id TEXT NOT NULL,
        id TEXT NOT NULL,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        expires_at INTEGER,
        UNIQUE (node_id, id)
    ) STRICT;
    CREATE INDEX node_work_by_expiry ON node_work (expires_at) WHERE expires_at IS NOT NULL;",
    // Jobs of the scheduler and their runs, each instant once; system events.
    "CREATE TABLE cron_jobs (
        id TEXT PRIMARY KEY NOT NULL,
        job TEXT NOT NULL,
        due_at INTEGER,
        origin TEXT
    ) STRICT;
    CREATE TABLE notices (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session_key TEXT NOT NULL,
        text TEXT NOT NULL
    ) STRICT;
    CREATE INDEX notices_by_session ON notices (session_key, id);
    CREATE TABLE cron_imports (
        path TEXT PRIMARY KEY NOT NULL,
        at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX cron_jobs_by_time ON cron_jobs (due_at) WHERE due_at IS NOT NULL;
    CREATE TABLE cron_runs (
        id TEXT PRIMARY KEY NOT NULL,
        job_id TEXT NOT NULL,
        instant INTEGER NOT NULL,
        status TEXT NOT NULL,
        delivery TEXT NOT NULL,
        entry TEXT NOT NULL,
        at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX cron_runs_by_job ON cron_runs (job_id, at);
    CREATE INDEX cron_runs_by_time ON cron_runs (at);
    CREATE INDEX cron_runs_open ON cron_runs (job_id) WHERE status = 'started';",
    // Channels: parts on their way out, replies that are expected, people, and
    // what a channel notes for itself.
    "CREATE TABLE channel_outbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        delivery TEXT NOT NULL,
        channel TEXT NOT NULL,
        account TEXT NOT NULL,
        target TEXT NOT NULL,
        thread TEXT NOT NULL,
        part INTEGER NOT NULL,
        body TEXT NOT NULL,
        state TEXT NOT NULL,
        attempts INTEGER NOT NULL,
        due_at INTEGER NOT NULL,
        message_id TEXT,
        error TEXT,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        UNIQUE (delivery, channel, account, target, thread, part)
    ) STRICT;
    CREATE INDEX channel_outbox_open ON channel_outbox (channel, account, target, thread, id)
        WHERE state IN ('waiting', 'sending');
    CREATE INDEX channel_outbox_unsent ON channel_outbox (channel, account, state)
        WHERE state <> 'sent';
    CREATE TABLE channel_replies (
        run_id TEXT PRIMARY KEY NOT NULL,
        scope TEXT NOT NULL,
        session_key TEXT NOT NULL,
        channel TEXT NOT NULL,
        account TEXT NOT NULL,
        target TEXT NOT NULL,
        thread TEXT NOT NULL,
        reply_to TEXT,
        preview TEXT,
        created_at INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE channel_pairings (
        channel TEXT NOT NULL,
        account TEXT NOT NULL,
        person TEXT NOT NULL,
        name TEXT,
        code TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        PRIMARY KEY (channel, account, person),
        UNIQUE (channel, code)
    ) STRICT;
    CREATE TABLE channel_people (
        channel TEXT NOT NULL,
        account TEXT NOT NULL,
        person TEXT NOT NULL,
        name TEXT,
        approved_at INTEGER NOT NULL,
        PRIMARY KEY (channel, account, person)
    ) STRICT;
    CREATE TABLE channel_notes (
        name TEXT PRIMARY KEY NOT NULL,
        value TEXT NOT NULL
    ) STRICT;",
    // What people have read, put away and shown; when a person was last in a
    // session, and how it began.
    "ALTER TABLE sessions ADD COLUMN user_at INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE sessions ADD COLUMN opening TEXT;
    UPDATE sessions SET user_at = CASE WHEN json_valid(entry) THEN
        CAST(coalesce(entry ->> 'lastInteractionAt', entry ->> 'sessionStartedAt', updated_at)
            AS INTEGER)
        ELSE updated_at END;
    CREATE INDEX sessions_by_user ON sessions (user_at DESC, session_id DESC);
    CREATE TABLE session_marks (
        key TEXT PRIMARY KEY NOT NULL,
        results INTEGER NOT NULL DEFAULT 0,
        read_results INTEGER NOT NULL DEFAULT 0,
        archived_id TEXT,
        seen_at INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE session_shares (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        handle TEXT UNIQUE NOT NULL,
        token_hash TEXT NOT NULL,
        session_id TEXT NOT NULL,
        created_at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX session_shares_by_session ON session_shares (session_id);",
    "CREATE TABLE hooks (
        id TEXT PRIMARY KEY NOT NULL,
        claim TEXT UNIQUE,
        ask TEXT NOT NULL,
        is_open INTEGER NOT NULL,
        at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX hooks_open ON hooks (at) WHERE is_open = 1;",
    // The names that people gave to nodes, apart from what those call themselves.
    "ALTER TABLE node_pairs ADD COLUMN label TEXT;",
    // The device that a setup code has let in, and what it was given.
    "ALTER TABLE setup_codes ADD COLUMN taken_by TEXT;",
    // Files of another program that were taken over, as they were then.
    "CREATE TABLE sources (
        path TEXT PRIMARY KEY NOT NULL,
        print TEXT NOT NULL,
        ids TEXT NOT NULL
    ) STRICT;",
    // The place of a channel where the answer to the result of a sub-agent goes, as JSON.
    "ALTER TABLE subagents ADD COLUMN place TEXT;",
    // Whose words a system event is. Of those of earlier nobody knows.
    "ALTER TABLE notices ADD COLUMN teller TEXT NOT NULL DEFAULT 'other';",
];

/// Brings the schema up to date.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let (found, known) = check(connection, path)?;
    if found == known {
        return Ok(());
    }
    apply(connection, known).map_err(|e| Fault::Sql(e).at("bring the schema up to date", path))
}

/// The schema that is there and the one of this release.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<(i64, i64), StoreError> {
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    let found = version(connection).map_err(|e| Fault::Sql(e).at("read the schema", path))?;
    if found > known {
        return Err(StoreError::TooNew { path: path.to_owned(), found, known });
    }
    Ok((found, known))
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn apply(connection: &mut Connection, known: i64) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again inside: another process may have been faster.
    let done = usize::try_from(version(&transaction)?).unwrap_or(0);
    for step in STEPS.iter().skip(done) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()
}

/// A database that is gone after the test.
#[cfg(test)]
pub(super) fn database() -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    migrate(&mut connection, Path::new("x")).unwrap();
    connection
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_applies_and_a_second_time_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, Path::new("x")).unwrap();
        migrate(&mut connection, Path::new("x")).unwrap();
        assert_eq!(version(&connection).unwrap(), i64::try_from(STEPS.len()).unwrap());
    }

    #[test]
    fn a_database_of_a_later_release_is_refused_and_left_alone() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "user_version", 999).unwrap();
        let error = migrate(&mut connection, Path::new("x")).unwrap_err();
        assert!(matches!(error, StoreError::TooNew { found: 999, .. }));
        assert_eq!(version(&connection).unwrap(), 999);
    }
}
