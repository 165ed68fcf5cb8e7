//! Runs of sub-agents: who asked for them, and how far they are.
//!
//! Promises: a row goes from state to state by one who wins; a session never
//! has more open rows than it may have, also when many are added at once.

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, Row, params, params_from_iter};

use super::channels::OutboxAddress;
use super::column::{signed, unsigned};
use super::error::Fault;

/// How many rows of runs that are over are kept at most.
const RETAINED_MAX: u32 = 10_000;

const COLUMNS: &str = "run_id, child_key, parent_key, parent_run_id, owner, label, task, message, \
                       timeout_seconds, is_temporary, state, outcome, created_at, ended_at, place";

/// How far the run of a sub-agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubagentState {
    /// It has not begun.
    Waiting,
    /// It runs, or sub-agents of its own do.
    Active,
    /// It is over, and who asked for it has not been told.
    Ended,
    /// It is over and told.
    Announced,
    /// Somebody stopped it who need not be told.
    Stopped,
}

impl SubagentState {
    /// The states in which something is still to be done.
    pub const UNSETTLED: [Self; 3] = [Self::Waiting, Self::Active, Self::Ended];

    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Active => "active",
            Self::Ended => "ended",
            Self::Announced => "announced",
            Self::Stopped => "stopped",
        }
    }

    /// A word of a later release counts as over.
    fn parse(word: &str) -> Self {
        [Self::Waiting, Self::Active, Self::Ended, Self::Announced]
            .into_iter()
            .find(|state| state.as_str() == word)
            .unwrap_or(Self::Stopped)
    }

    /// Whether it waits or runs.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Waiting | Self::Active)
    }
}

/// The run of a sub-agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubagentRow {
    /// Its id.
    pub run_id: String,
    /// Canonical key of its session.
    pub child_key: String,
    /// Canonical key of the session that asked for it.
    pub parent_key: String,
    /// The run that asked for it; none when a client did.
    pub parent_run_id: Option<String>,
    /// Whose run that was, as text.
    pub owner: String,
    /// Name for people.
    pub label: Option<String>,
    /// What it is to do.
    pub task: String,
    /// What its session is told.
    pub message: String,
    /// It is stopped after so long; 0 leaves it to the agents' limit.
    pub timeout_seconds: u64,
    /// Whether its session goes once its end was told.
    pub is_temporary: bool,
    /// How far it is.
    pub state: SubagentState,
    /// How it ended, as JSON.
    pub outcome: Option<String>,
    /// When it was asked for, in milliseconds since the epoch.
    pub created_at: u64,
    /// When it ended.
    pub ended_at: Option<u64>,
    /// Where the answer to its result goes, if that is a place of a channel.
    pub place: Option<OutboxAddress>,
}

/// Which rows are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubagentQuery {
    /// The run with this id.
    Run(String),
    /// Those that this session asked for.
    OfParent(String),
    /// Those of this sub-agent's session.
    OfChild(String),
    /// Those in which something is still to be done, of all sessions.
    Unsettled,
    /// Those that were over and told before this time.
    SettledBefore(u64),
}

/// Adds a row, unless its parent has `max_open` open ones already; answers
/// whether it did.
pub(super) fn add(
    connection: &Connection,
    row: &SubagentRow,
    max_open: usize,
) -> Result<bool, Fault> {
    let open: i64 = connection
        .prepare_cached(
            "SELECT COUNT(*) FROM subagents
             WHERE parent_key = ?1 AND state IN ('waiting', 'active')",
        )?
        .query_row([&row.parent_key], |row| row.get(0))?;
    if usize::try_from(open).unwrap_or(usize::MAX) >= max_open {
        return Ok(false);
    }
    let place = row.place.as_ref().map(|place| {
        let OutboxAddress { channel, account, target, thread } = place;
        serde_json::to_string(&[channel, account, target, thread])
    });
    connection
        .prepare_cached(&format!(
            "INSERT INTO subagents ({COLUMNS})
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)"
        ))?
        .execute(params![
            row.run_id,
            row.child_key,
            row.parent_key,
            row.parent_run_id,
            row.owner,
            row.label,
            row.task,
            row.message,
            signed(row.timeout_seconds),
            row.is_temporary,
            row.state.as_str(),
            row.outcome,
            signed(row.created_at),
            row.ended_at.map(signed),
            place.transpose()?,
        ])?;
    Ok(true)
}

/// The rows that are wanted, the oldest first.
pub(super) fn list(
    connection: &Connection,
    query: &SubagentQuery,
) -> Result<Vec<SubagentRow>, Fault> {
    let (condition, value): (_, Option<SqlValue>) = match query {
        SubagentQuery::Run(id) => ("run_id = ?1", Some(id.clone().into())),
        SubagentQuery::OfParent(key) => ("parent_key = ?1", Some(key.clone().into())),
        SubagentQuery::OfChild(key) => ("child_key = ?1", Some(key.clone().into())),
        SubagentQuery::Unsettled => ("state IN ('waiting', 'active', 'ended')", None),
        SubagentQuery::SettledBefore(time) => {
            ("state IN ('announced', 'stopped') AND ended_at < ?1", Some(signed(*time).into()))
        }
    };
    let rows = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM subagents WHERE {condition} ORDER BY created_at, rowid"
        ))?
        .query_map(params_from_iter(value), read)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(rows)
}

/// Takes a row from one of some states to another; answers whether it was in
/// one of them.
pub(super) fn advance(
    connection: &Connection,
    run_id: &str,
    from: &[SubagentState],
    to: SubagentState,
    outcome: Option<&str>,
    now_ms: u64,
) -> Result<bool, Fault> {
    let from: Vec<_> = from.iter().map(|state| state.as_str()).collect();
    let ended_at = (!to.is_open()).then(|| signed(now_ms));
    let changed = connection
        .prepare_cached(
            "UPDATE subagents SET state = ?2, outcome = COALESCE(?3, outcome),
                ended_at = COALESCE(ended_at, ?4)
             WHERE run_id = ?1 AND state IN (SELECT value FROM json_each(?5))",
        )?
        .execute(params![run_id, to.as_str(), outcome, ended_at, serde_json::to_string(&from)?])?;
    Ok(changed > 0)
}

/// Takes back that results were told whose runs have not ended, those that were `answered`
/// excepted, and forgets those runs. The id of one is `prefix`, the session and the run.
pub(super) fn untell(
    connection: &Connection,
    prefix: &str,
    answered: &[String],
) -> Result<(), Fault> {
    let answered = serde_json::to_string(answered)?;
    connection.execute(
        "UPDATE subagents SET state = 'ended'
         WHERE state = 'announced' AND ?1 || child_key || ':' || run_id IN (
            SELECT key FROM runs WHERE scope = 'agent' AND state = 'active'
            AND key NOT IN (SELECT value FROM json_each(?2)))",
        [prefix, answered.as_str()],
    )?;
    connection.execute(
        "DELETE FROM runs WHERE scope = 'agent' AND state = 'active'
         AND key NOT IN (SELECT value FROM json_each(?2)) AND key IN (
            SELECT ?1 || child_key || ':' || run_id FROM subagents WHERE state = 'ended')",
        [prefix, answered.as_str()],
    )?;
    Ok(())
}

/// Adds to what a sub-agent is told that waits; answers whether it still did.
pub(super) fn tell_waiting(
    connection: &Connection,
    run_id: &str,
    text: &str,
) -> Result<bool, Fault> {
    let changed = connection
        .prepare_cached(
            "UPDATE subagents SET message = message || char(10, 10) || ?2
             WHERE run_id = ?1 AND state = 'waiting'",
        )?
        .execute([run_id, text])?;
    Ok(changed > 0)
}

/// Forgets the runs of a sub-agent whose session is gone, those in which
/// something is still to be done excepted.
pub(super) fn forget(connection: &Connection, child_key: &str) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "DELETE FROM subagents
             WHERE child_key = ?1 AND state NOT IN ('waiting', 'active', 'ended')",
        )?
        .execute([child_key])?;
    Ok(())
}

/// Forgets the oldest of those that are over, beyond the most that are kept.
pub(super) fn prune(connection: &Connection) -> Result<(), Fault> {
    connection.execute(
        "DELETE FROM subagents WHERE rowid IN (
            SELECT rowid FROM subagents WHERE state IN ('announced', 'stopped')
            ORDER BY ended_at DESC LIMIT -1 OFFSET ?1)",
        [RETAINED_MAX],
    )?;
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<SubagentRow> {
    Ok(SubagentRow {
        run_id: row.get(0)?,
        child_key: row.get(1)?,
        parent_key: row.get(2)?,
        parent_run_id: row.get(3)?,
        owner: row.get(4)?,
        label: row.get(5)?,
        task: row.get(6)?,
        message: row.get(7)?,
        timeout_seconds: unsigned(row.get(8)?),
        is_temporary: row.get(9)?,
        state: SubagentState::parse(row.get_ref(10)?.as_str()?),
        outcome: row.get(11)?,
        created_at: unsigned(row.get(12)?),
        ended_at: row.get::<_, Option<i64>>(13)?.map(unsigned),
        place: row.get::<_, Option<String>>(14)?.and_then(|written| place_of(&written)),
    })
}

fn place_of(written: &str) -> Option<OutboxAddress> {
    let parts: Vec<String> = serde_json::from_str(written).ok()?;
    let [channel, account, target, thread] = <[String; 4]>::try_from(parts).ok()?;
    Some(OutboxAddress { channel, account, target, thread })
}

#[cfg(test)]
mod tests {
    use super::super::migrations::database;
    use super::*;

    fn row(run_id: &str) -> SubagentRow {
        SubagentRow {
            run_id: run_id.into(),
            child_key: format!("agent:main:subagent:{run_id}"),
            parent_key: "agent:main:main".into(),
            parent_run_id: None,
            owner: "connection:c".into(),
            label: None,
            task: "t".into(),
            message: "m".into(),
            timeout_seconds: 5,
            is_temporary: true,
            state: SubagentState::Waiting,
            outcome: None,
            created_at: 1,
            ended_at: None,
            place: Some(OutboxAddress {
                channel: "webhook".into(),
                account: "default".into(),
                target: "\"ann\"".into(),
                thread: String::new(),
            }),
        }
    }

    #[test]
    fn a_session_has_no_more_open_rows_than_it_may_and_a_row_comes_back_as_it_was() {
        let database = database();
        assert!(add(&database, &row("a"), 2).unwrap());
        assert!(add(&database, &row("b"), 2).unwrap());
        assert!(!add(&database, &row("c"), 2).unwrap());
        let over =
            advance(&database, "a", &[SubagentState::Waiting], SubagentState::Stopped, None, 7);
        assert!(over.unwrap());
        assert!(add(&database, &row("c"), 2).unwrap());
        let found = list(&database, &SubagentQuery::OfParent("agent:main:main".into())).unwrap();
        assert_eq!(found.len(), 3);
        assert_eq!(found[1], row("b"));
        assert_eq!((found[0].state, found[0].ended_at), (SubagentState::Stopped, Some(7)));
        assert_eq!(list(&database, &SubagentQuery::SettledBefore(7)).unwrap(), []);
        assert_eq!(list(&database, &SubagentQuery::SettledBefore(8)).unwrap().len(), 1);
    }

    #[test]
    fn what_waits_is_told_more_and_what_has_begun_is_not() {
        let database = database();
        add(&database, &row("a"), 1).unwrap();
        assert!(tell_waiting(&database, "a", "more").unwrap());
        advance(&database, "a", &[SubagentState::Waiting], SubagentState::Active, None, 7).unwrap();
        assert!(!tell_waiting(&database, "a", "too late").unwrap());
        let found = list(&database, &SubagentQuery::Run("a".into())).unwrap();
        assert_eq!(found[0].message, "m\n\nmore");
    }

    #[test]
    fn only_one_takes_a_row_to_its_next_state() {
        let database = database();
        add(&database, &row("a"), 1).unwrap();
        let take = |from: &[SubagentState], to, outcome| {
            advance(&database, "a", from, to, outcome, 9).unwrap()
        };
        assert!(take(&[SubagentState::Waiting], SubagentState::Active, None));
        assert!(!take(&[SubagentState::Waiting], SubagentState::Active, None));
        assert!(take(&[SubagentState::Active], SubagentState::Ended, Some("{}")));
        assert!(take(&SubagentState::UNSETTLED, SubagentState::Announced, None));
        assert!(!take(&SubagentState::UNSETTLED, SubagentState::Stopped, None));
        let found = list(&database, &SubagentQuery::Run("a".into())).unwrap();
        assert_eq!(found[0].outcome.as_deref(), Some("{}"));
        forget(&database, "agent:main:subagent:a").unwrap();
        assert_eq!(list(&database, &SubagentQuery::Run("a".into())).unwrap(), []);
    }
}
