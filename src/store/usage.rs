//! What models were asked and what it cost, by transcript and quarter hour.
//!
//! Owns: the `usage_*` tables, which repeat what transcripts say and can be
//! made again from them at any time.

use rusqlite::{Connection, params};

use super::column::{signed, unsigned};
use super::error::Fault;
use crate::protocol::message::{Cost, Usage};

/// Far more tokens than one transcript has in a quarter hour. But it may say
/// anything, and SQLite gives no sum at all of numbers that are too large for it.
const TOKENS_MAX: u64 = 1 << 40;

/// How far a transcript was read for its usage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageFile {
    /// Agent whose folder it is in.
    pub agent: String,
    /// Its file name.
    pub name: String,
    /// Its length when it was looked at last; with `modified_ms` it tells
    /// whether there is anything new.
    pub length: u64,
    /// When it had been changed, in milliseconds since the epoch.
    pub modified_ms: u64,
    /// Bytes that were taken in.
    pub read_to: u64,
    /// Digest of the bytes before that, by which a rewritten file is told.
    pub tail: String,
    /// Time of the last message of a user in those bytes.
    pub last_user_at: Option<u64>,
}

/// What was found in one stretch of a transcript, or is known of all of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UsageFacts {
    /// Messages, by quarter hour.
    pub activity: Vec<Activity>,
    /// Tokens and prices, by quarter hour and model.
    pub spending: Vec<Spending>,
    /// Tool calls, by quarter hour and tool.
    pub tools: Vec<ToolCalls>,
}

/// The messages of a quarter hour. Quarters count from the epoch, in UTC.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Activity {
    /// Which.
    pub quarter: u64,
    /// Messages of users.
    pub user: u64,
    /// Messages of models, and of the gateway in their place.
    pub assistant: u64,
    /// Tool calls in them.
    pub tool_calls: u64,
    /// Answers of tools.
    pub tool_results: u64,
    /// Failed tools, and answers that failed or were stopped.
    pub errors: u64,
    /// Time of the first message.
    pub first_at: u64,
    /// Time of the last message.
    pub last_at: u64,
    /// Milliseconds between a user's message and each answer to it.
    pub latencies: Vec<u64>,
}

/// What a model was asked in a quarter hour.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spending {
    /// Which.
    pub quarter: u64,
    /// Provider; empty when the message names none.
    pub provider: String,
    /// Model; empty when the message names none.
    pub model: String,
    /// Whether the messages say what they cost.
    pub has_cost: bool,
    /// Number of answers.
    pub count: u64,
    /// Tokens and prices of all of them.
    pub usage: Usage,
}

/// How often a tool was called in a quarter hour.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolCalls {
    /// Which.
    pub quarter: u64,
    /// Name of the tool.
    pub name: String,
    /// Number of calls.
    pub count: u64,
}

/// A stretch of a transcript that was read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UsageScan {
    /// Where the file stands now.
    pub file: UsageFile,
    /// Whether it was read from its beginning: what was known before goes.
    pub starts_over: bool,
    /// What was found.
    pub facts: UsageFacts,
}

pub(super) fn files(connection: &Connection) -> Result<Vec<UsageFile>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT agent_id, name, length, modified_at, read_to, tail, last_user_at FROM usage_files",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(UsageFile {
            agent: row.get(0)?,
            name: row.get(1)?,
            length: unsigned(row.get(2)?),
            modified_ms: unsigned(row.get(3)?),
            read_to: unsigned(row.get(4)?),
            tail: row.get(5)?,
            last_user_at: row.get::<_, Option<i64>>(6)?.map(unsigned),
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn record(connection: &Connection, scan: &UsageScan) -> Result<(), Fault> {
    let file = &scan.file;
    let id: i64 = connection
        .prepare_cached(
            "INSERT INTO usage_files
                (agent_id, name, length, modified_at, read_to, tail, last_user_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (agent_id, name) DO UPDATE SET length = excluded.length,
                modified_at = excluded.modified_at, read_to = excluded.read_to,
                tail = excluded.tail, last_user_at = excluded.last_user_at
             RETURNING id",
        )?
        .query_row(
            params![
                file.agent,
                file.name,
                signed(file.length),
                signed(file.modified_ms),
                signed(file.read_to),
                file.tail,
                file.last_user_at.map(signed),
            ],
            |row| row.get(0),
        )?;
    if scan.starts_over {
        for table in ["usage_activity", "usage_spending", "usage_tools"] {
            connection
                .prepare_cached(&format!("DELETE FROM {table} WHERE file_id = ?1"))?
                .execute([id])?;
        }
    }
    add_activity(connection, id, &scan.facts.activity)?;
    add_spending(connection, id, &scan.facts.spending)?;
    add_tools(connection, id, &scan.facts.tools)
}

fn add_activity(connection: &Connection, id: i64, rows: &[Activity]) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO usage_activity (file_id, quarter, user, assistant, tool_calls, tool_results,
            errors, first_at, last_at, latencies)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
         ON CONFLICT (file_id, quarter) DO UPDATE SET user = user + excluded.user,
            assistant = assistant + excluded.assistant,
            tool_calls = tool_calls + excluded.tool_calls,
            tool_results = tool_results + excluded.tool_results,
            errors = errors + excluded.errors, first_at = MIN(first_at, excluded.first_at),
            last_at = MAX(last_at, excluded.last_at), latencies = latencies || excluded.latencies",
    )?;
    for row in rows {
        let latencies: Vec<_> = row.latencies.iter().map(u64::to_string).collect();
        // Each ends in a comma, so that more can be put behind them.
        let latencies = [latencies.join(","), String::new()].join(",");
        statement.execute(params![
            id,
            signed(row.quarter),
            signed(row.user),
            signed(row.assistant),
            signed(row.tool_calls),
            signed(row.tool_results),
            signed(row.errors),
            signed(row.first_at),
            signed(row.last_at),
            latencies,
        ])?;
    }
    Ok(())
}

fn add_spending(connection: &Connection, id: i64, rows: &[Spending]) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO usage_spending (file_id, quarter, provider, model, has_cost, count, input,
            output, cache_read, cache_write, total_tokens, input_cost, output_cost,
            cache_read_cost, cache_write_cost, total_cost)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
         ON CONFLICT (file_id, quarter, provider, model, has_cost) DO UPDATE SET
            count = count + excluded.count, input = input + excluded.input,
            output = output + excluded.output, cache_read = cache_read + excluded.cache_read,
            cache_write = cache_write + excluded.cache_write,
            total_tokens = total_tokens + excluded.total_tokens,
            input_cost = input_cost + excluded.input_cost,
            output_cost = output_cost + excluded.output_cost,
            cache_read_cost = cache_read_cost + excluded.cache_read_cost,
            cache_write_cost = cache_write_cost + excluded.cache_write_cost,
            total_cost = total_cost + excluded.total_cost",
    )?;
    for row in rows {
        let Usage { input, output, cache_read, cache_write, total_tokens, ref cost, .. } =
            row.usage;
        let tokens = |count: u64| signed(count.min(TOKENS_MAX));
        statement.execute(params![
            id,
            signed(row.quarter),
            row.provider,
            row.model,
            row.has_cost,
            signed(row.count),
            tokens(input),
            tokens(output),
            tokens(cache_read),
            tokens(cache_write),
            tokens(total_tokens),
            cost.input,
            cost.output,
            cost.cache_read,
            cost.cache_write,
            cost.total,
        ])?;
    }
    Ok(())
}

fn add_tools(connection: &Connection, id: i64, rows: &[ToolCalls]) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO usage_tools (file_id, quarter, name, count) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (file_id, quarter, name) DO UPDATE SET count = count + excluded.count",
    )?;
    for row in rows {
        statement.execute(params![id, signed(row.quarter), row.name, signed(row.count)])?;
    }
    Ok(())
}

/// Files are told by agent and name.
pub(super) fn forget(connection: &Connection, files: &[(String, String)]) -> Result<(), Fault> {
    let mut statement =
        connection.prepare_cached("DELETE FROM usage_files WHERE agent_id = ?1 AND name = ?2")?;
    for (agent, name) in files {
        statement.execute([agent, name])?;
    }
    Ok(())
}

/// What is known of some files between two quarters, both included; in the
/// order of the files.
pub(super) fn facts(
    connection: &Connection,
    files: &[(String, String)],
    quarters: (u64, u64),
) -> Result<Vec<UsageFacts>, Fault> {
    let mut find = connection
        .prepare_cached("SELECT id FROM usage_files WHERE agent_id = ?1 AND name = ?2")?;
    let mut all = Vec::with_capacity(files.len());
    for (agent, name) in files {
        let id = find.query_map([agent, name], |row| row.get::<_, i64>(0))?.next().transpose()?;
        all.push(match id {
            None => UsageFacts::default(),
            Some(id) => UsageFacts {
                activity: activity_of(connection, id, quarters)?,
                spending: spending_of(connection, id, quarters)?,
                tools: tools_of(connection, id, quarters)?,
            },
        });
    }
    Ok(all)
}

fn activity_of(
    connection: &Connection,
    id: i64,
    (from, to): (u64, u64),
) -> Result<Vec<Activity>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT quarter, user, assistant, tool_calls, tool_results, errors, first_at, last_at,
            latencies
         FROM usage_activity WHERE file_id = ?1 AND quarter BETWEEN ?2 AND ?3 ORDER BY quarter",
    )?;
    let rows = statement.query_map(params![id, signed(from), signed(to)], |row| {
        let latencies: String = row.get(8)?;
        Ok(Activity {
            quarter: unsigned(row.get(0)?),
            user: unsigned(row.get(1)?),
            assistant: unsigned(row.get(2)?),
            tool_calls: unsigned(row.get(3)?),
            tool_results: unsigned(row.get(4)?),
            errors: unsigned(row.get(5)?),
            first_at: unsigned(row.get(6)?),
            last_at: unsigned(row.get(7)?),
            latencies: latencies.split(',').filter_map(|millis| millis.parse().ok()).collect(),
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The columns of a [`Spending`], from the second on.
const SPENT: &str = "provider, model, has_cost, SUM(count), SUM(input), SUM(output),
    SUM(cache_read), SUM(cache_write), SUM(total_tokens), SUM(input_cost), SUM(output_cost),
    SUM(cache_read_cost), SUM(cache_write_cost), SUM(total_cost)";

fn spending(row: &rusqlite::Row<'_>) -> rusqlite::Result<Spending> {
    Ok(Spending {
        quarter: unsigned(row.get(0)?),
        provider: row.get(1)?,
        model: row.get(2)?,
        has_cost: row.get(3)?,
        count: unsigned(row.get(4)?),
        usage: Usage {
            input: unsigned(row.get(5)?),
            output: unsigned(row.get(6)?),
            cache_read: unsigned(row.get(7)?),
            cache_write: unsigned(row.get(8)?),
            total_tokens: unsigned(row.get(9)?),
            cost: Cost {
                input: row.get(10)?,
                output: row.get(11)?,
                cache_read: row.get(12)?,
                cache_write: row.get(13)?,
                total: row.get(14)?,
                ..Cost::default()
            },
            ..Usage::default()
        },
    })
}

fn spending_of(
    connection: &Connection,
    id: i64,
    (from, to): (u64, u64),
) -> Result<Vec<Spending>, Fault> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT quarter, {SPENT} FROM usage_spending
         WHERE file_id = ?1 AND quarter BETWEEN ?2 AND ?3
         GROUP BY quarter, provider, model, has_cost"
    ))?;
    let rows = statement.query_map(params![id, signed(from), signed(to)], spending)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// What all files together spent between two quarters, both included.
pub(super) fn spending_of_all(
    connection: &Connection,
    (from, to): (u64, u64),
) -> Result<Vec<Spending>, Fault> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT quarter, {SPENT} FROM usage_spending WHERE quarter BETWEEN ?1 AND ?2
         GROUP BY quarter, provider, model, has_cost"
    ))?;
    let rows = statement.query_map(params![signed(from), signed(to)], spending)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn tools_of(
    connection: &Connection,
    id: i64,
    (from, to): (u64, u64),
) -> Result<Vec<ToolCalls>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT quarter, name, count FROM usage_tools
         WHERE file_id = ?1 AND quarter BETWEEN ?2 AND ?3",
    )?;
    let rows = statement.query_map(params![id, signed(from), signed(to)], |row| {
        let (quarter, count) = (unsigned(row.get(0)?), unsigned(row.get(2)?));
        Ok(ToolCalls { quarter, name: row.get(1)?, count })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::super::migrations;
    use super::*;

    #[test]
    fn what_no_model_was_ever_asked_leaves_all_others_their_sums() {
        let connection = migrations::database();
        let usage = Usage { input: u64::MAX, total_tokens: u64::MAX, ..Usage::default() };
        let spending = vec![Spending { count: 1, usage, ..Spending::default() }];
        for name in ["a.jsonl", "a.jsonl", "b.jsonl"] {
            let file = UsageFile { name: name.to_owned(), ..UsageFile::default() };
            let facts = UsageFacts { spending: spending.clone(), ..UsageFacts::default() };
            record(&connection, &UsageScan { file, starts_over: false, facts }).unwrap();
        }
        let all = spending_of_all(&connection, (0, 0)).unwrap();
        let found: Vec<_> = all.iter().map(|it| (it.count, it.usage.input)).collect();
        assert_eq!(found, [(3, 3 * TOKENS_MAX)]);
    }
}
