//! Answers to requests that may be repeated and must not be done twice.
//!
//! Promises: of many claims of one key exactly one is new, also across a
//! restart, until the answer is older than the retention.

use rusqlite::{Connection, OptionalExtension, params};

use super::column::signed;
use super::error::Fault;

/// How long an answer is kept.
const RETENTION_MS: u64 = 24 * 60 * 60 * 1000;

/// How many answers are kept at most.
const RETAINED_MAX: u32 = 10_000;

/// Answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerClaim {
    /// The key was free and is yours.
    New,
    /// This was answered, as JSON.
    Answered(String),
    /// It was begun, and there is no answer.
    Begun,
}

pub(super) fn claim(
    connection: &Connection,
    (scope, key): (&str, &str),
    now_ms: u64,
) -> Result<AnswerClaim, Fault> {
    let known: Option<Option<String>> = connection
        .prepare_cached("SELECT answer FROM answers WHERE scope = ?1 AND key = ?2")?
        .query_row([scope, key], |row| row.get(0))
        .optional()?;
    match known {
        Some(Some(answer)) => return Ok(AnswerClaim::Answered(answer)),
        Some(None) => return Ok(AnswerClaim::Begun),
        None => {}
    }
    connection
        .prepare_cached("INSERT INTO answers (scope, key, created_at) VALUES (?1, ?2, ?3)")?
        .execute(params![scope, key, signed(now_ms)])?;
    Ok(AnswerClaim::New)
}

/// What is answered from now on to who asks for something under this key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptAnswer {
    /// The method.
    pub scope: &'static str,
    /// The key.
    pub key: String,
    /// The answer as JSON.
    pub answer: String,
}

/// Keeps an answer, also under a key that is claimed.
pub(super) fn keep(connection: &Connection, kept: &KeptAnswer, now_ms: u64) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "INSERT INTO answers (scope, key, answer, created_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (scope, key) DO UPDATE SET answer = excluded.answer",
        )?
        .execute(params![kept.scope, kept.key, kept.answer, signed(now_ms)])?;
    Ok(())
}

/// Keeps the answer, or gives the key back when there is none.
pub(super) fn settle(
    connection: &Connection,
    (scope, key): (&str, &str),
    answer: Option<&str>,
) -> Result<(), Fault> {
    let sql = match answer {
        Some(_) => "UPDATE answers SET answer = ?3 WHERE scope = ?1 AND key = ?2",
        None => "DELETE FROM answers WHERE scope = ?1 AND key = ?2 AND answer IS ?3",
    };
    connection.prepare_cached(sql)?.execute(params![scope, key, answer])?;
    Ok(())
}

pub(super) fn prune(connection: &Connection, now_ms: u64) -> Result<(), Fault> {
    connection.execute(
        "DELETE FROM answers WHERE created_at < ?1",
        [signed(now_ms.saturating_sub(RETENTION_MS))],
    )?;
    connection.execute(
        "DELETE FROM answers WHERE rowid IN (
            SELECT rowid FROM answers ORDER BY created_at DESC LIMIT -1 OFFSET ?1)",
        [RETAINED_MAX],
    )?;
    Ok(())
}
