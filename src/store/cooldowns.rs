//! Credentials that rest: rows that outlast the process.

use rusqlite::{Connection, params};

use super::column::{signed, unsigned};
use super::error::Fault;

/// What is known of a credential that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CooldownRow {
    /// Id of the credential.
    pub credential: String,
    /// The model, when only that is concerned.
    pub model: Option<String>,
    /// Why it failed last, as the wire has it.
    pub reason: String,
    /// How often in a row; 0 when a success has ended what another program
    /// noted.
    pub failures: u32,
    /// When it failed last, in milliseconds since the epoch.
    pub failed_at: u64,
    /// Until when it rests.
    pub until_ms: u64,
}

/// A row that is new or different, or one that is no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CooldownChange {
    /// It is so now.
    Set(CooldownRow),
    /// There is none for this credential and model.
    Remove(String, Option<String>),
}

/// All rows.
pub(super) fn all(connection: &Connection) -> Result<Vec<CooldownRow>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT credential, model, reason, failures, failed_at, until_ms FROM cooldowns",
    )?;
    let rows = statement.query_map([], |row| {
        let model: String = row.get(1)?;
        Ok(CooldownRow {
            credential: row.get(0)?,
            model: Some(model).filter(|model| !model.is_empty()),
            reason: row.get(2)?,
            failures: row.get(3)?,
            failed_at: unsigned(row.get(4)?),
            until_ms: unsigned(row.get(5)?),
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Makes the changes.
pub(super) fn change(connection: &Connection, changes: &[CooldownChange]) -> Result<(), Fault> {
    let mut set = connection.prepare_cached(
        "INSERT OR REPLACE INTO cooldowns
             (credential, model, reason, failures, failed_at, until_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let mut remove =
        connection.prepare_cached("DELETE FROM cooldowns WHERE credential = ?1 AND model = ?2")?;
    for change in changes {
        match change {
            CooldownChange::Set(row) => set.execute(params![
                row.credential,
                row.model.as_deref().unwrap_or_default(),
                row.reason,
                row.failures,
                signed(row.failed_at),
                signed(row.until_ms),
            ])?,
            CooldownChange::Remove(credential, model) => {
                remove.execute(params![credential, model.as_deref().unwrap_or_default()])?
            }
        };
    }
    Ok(())
}
