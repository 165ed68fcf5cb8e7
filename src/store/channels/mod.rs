//! What is kept for channels: what is to be sent, replies that are expected,
//! people who were let in, how far a service was read.

mod outbox;
mod people;
mod replies;
mod traits;

pub use outbox::{
    NewPart, OutboxAddress, OutboxCounts, OutboxNext, OutboxPart, OutboxSettled, OutboxState,
};
pub(super) use outbox::{forget, prune};
pub use people::{
    CODE_MS as PAIRING_CODE_MS, ChannelPerson, PairingClaim, PairingRequest,
    WAITING_MAX as PAIRINGS_MAX,
};
pub use replies::ExpectedReply;
pub use traits::ChannelStore;

use rusqlite::{Connection, OptionalExtension};

use super::error::Fault;

/// What was kept under a name.
fn note(connection: &Connection, name: &str) -> Result<Option<String>, Fault> {
    let found = connection
        .prepare_cached("SELECT value FROM channel_notes WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    Ok(found)
}

/// Keeps something under a name, in the place of what was there.
fn keep_note(connection: &Connection, name: &str, value: &str) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "INSERT INTO channel_notes (name, value) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )?
        .execute([name, value])?;
    Ok(())
}

#[cfg(test)]
mod tests;
