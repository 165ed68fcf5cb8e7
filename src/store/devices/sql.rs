//! The rows of devices and setup codes.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::column::{signed, unsigned};
use super::super::error::Fault;
use super::super::nodes::forget_node;
use super::{CodeUse, DeviceRow, MAX_PAIRED, MAX_PENDING, MAX_SETUP_CODES, SetupCode};

const SELECT: &str = "SELECT device_id, paired, pending FROM devices";
const CODE: &str = "hash, granted, issued_by, expires_at, taken_by";

/// The device with this id.
pub fn by_id(c: &Connection, id: &str, since: u64) -> Result<Option<DeviceRow>, Fault> {
    one(c, "device_id = ?1", id, since)
}

/// The device of this request.
pub fn by_request(c: &Connection, id: &str, since: u64) -> Result<Option<DeviceRow>, Fault> {
    let found = one(c, "request_id = ?1", id, since)?;
    Ok(found.filter(|row| row.pending.is_some()))
}

/// Every device of which something is known.
pub fn all(c: &Connection, since: u64) -> Result<Vec<DeviceRow>, Fault> {
    let mut statement = c.prepare_cached(SELECT)?;
    let texts = statement.query_map([], read)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let rows = texts.into_iter().map(|texts| parse(texts, since));
    let rows = rows.collect::<Result<Vec<_>, Fault>>()?;
    Ok(rows.into_iter().filter(|row| row.paired.is_some() || row.pending.is_some()).collect())
}

/// Changes a device; false when there are too many for a new one.
pub fn edit(
    c: &Connection,
    id: String,
    since: u64,
    edit: Box<dyn FnOnce(&mut DeviceRow) + Send + '_>,
) -> Result<bool, Fault> {
    let before = by_id(c, &id, since)?;
    let mut row = before.clone().unwrap_or(DeviceRow { device_id: id, ..DeviceRow::default() });
    edit(&mut row);
    let before = before.unwrap_or_default();
    if row.paired.is_some() && before.paired.is_none() && count(c, "paired")? >= MAX_PAIRED {
        return Ok(false);
    }
    if row.pending.is_some() && before.pending.is_none() {
        c.prepare_cached(
            "UPDATE devices SET pending = NULL, request_id = NULL WHERE requested_at < ?1",
        )?
        .execute([signed(since)])?;
        c.prepare_cached("DELETE FROM devices WHERE paired IS NULL AND pending IS NULL")?
            .execute([])?;
        if count(c, "pending")? >= MAX_PENDING {
            return Ok(false);
        }
    }
    if row.paired.is_none() && before.paired.is_some() {
        forget_node(c, &row.device_id)?;
    }
    save(c, &row)?;
    Ok(true)
}

/// Adds devices that are not known; answers how many.
pub fn import(
    c: &Connection,
    rows: &[DeviceRow],
    mark: Option<&'static str>,
) -> Result<usize, Fault> {
    if let Some(mark) = mark {
        let added = c
            .prepare_cached("INSERT INTO marks (name) VALUES (?1) ON CONFLICT DO NOTHING")?
            .execute([mark])?;
        if added == 0 {
            return Ok(0);
        }
    }
    let mut room = MAX_PAIRED.saturating_sub(count(c, "paired")?);
    let mut imported = 0;
    for row in rows {
        let known = by_id(c, &row.device_id, 0)?;
        if room == 0 || known.as_ref().is_some_and(|known| known.paired.is_some()) {
            continue;
        }
        let pending = known.and_then(|known| known.pending);
        save(c, &DeviceRow { pending, ..row.clone() })?;
        room -= 1;
        imported += 1;
    }
    Ok(imported)
}

/// Whether something was marked as done.
pub fn is_marked(c: &Connection, mark: &str) -> Result<bool, Fault> {
    Ok(c.prepare_cached("SELECT 1 FROM marks WHERE name = ?1")?.exists([mark])?)
}

/// Adds a code; false when there are too many that were not used.
pub fn add_code(c: &Connection, code: &SetupCode, now_ms: u64) -> Result<bool, Fault> {
    c.prepare_cached("DELETE FROM setup_codes WHERE expires_at <= ?1")?
        .execute([signed(now_ms)])?;
    let known: i64 = c
        .prepare_cached("SELECT COUNT(*) FROM setup_codes WHERE taken_by IS NULL")?
        .query_row([], |row| row.get(0))?;
    if usize::try_from(known).unwrap_or(usize::MAX) >= MAX_SETUP_CODES {
        return Ok(false);
    }
    c.prepare_cached(
        "INSERT INTO setup_codes (hash, granted, issued_by, expires_at) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![code.hash, code.grant, code.issued_by, signed(code.expires_at_ms)])?;
    Ok(true)
}

/// A code that is still good, if only for the device that has used it.
pub fn code(c: &Connection, hash: &str, now_ms: u64) -> Result<Option<SetupCode>, Fault> {
    let sql = format!("SELECT {CODE} FROM setup_codes WHERE hash = ?1 AND expires_at > ?2");
    Ok(c.prepare_cached(&sql)?.query_row(params![hash, signed(now_ms)], read_code).optional()?)
}

/// Changes a device by a code that is still good, and notes what became of the code.
pub fn use_code(
    c: &Connection,
    (hash, now_ms): (&str, u64),
    (id, since): (String, u64),
    code_use: CodeUse,
) -> Result<bool, Fault> {
    let Some(code) = code(c, hash, now_ms)? else { return Ok(true) };
    let mut taken_by = None;
    let change = |row: &mut DeviceRow| taken_by = code_use(row, &code);
    if !edit(c, id, since, Box::new(change))? {
        return Ok(false);
    }
    if let Some(taken_by) = taken_by {
        c.prepare_cached("UPDATE setup_codes SET taken_by = ?2 WHERE hash = ?1")?
            .execute([hash, taken_by.as_str()])?;
    }
    Ok(true)
}

/// Takes all codes away; answers how many were still good for any device.
pub fn clear_codes(c: &Connection, now_ms: u64) -> Result<usize, Fault> {
    c.prepare_cached("DELETE FROM setup_codes WHERE expires_at <= ?1 OR taken_by IS NOT NULL")?
        .execute([signed(now_ms)])?;
    Ok(c.prepare_cached("DELETE FROM setup_codes")?.execute([])?)
}

fn one(c: &Connection, condition: &str, id: &str, since: u64) -> Result<Option<DeviceRow>, Fault> {
    let texts = c
        .prepare_cached(&format!("{SELECT} WHERE {condition}"))?
        .query_row([id], read)
        .optional()?;
    texts.map(|texts| parse(texts, since)).transpose()
}

type Texts = (String, Option<String>, Option<String>);

fn read(row: &Row<'_>) -> rusqlite::Result<Texts> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

fn parse((device_id, paired, pending): Texts, since: u64) -> Result<DeviceRow, Fault> {
    let mut row = DeviceRow {
        device_id,
        paired: paired.map(|text| serde_json::from_str(&text)).transpose()?,
        pending: pending.map(|text| serde_json::from_str(&text)).transpose()?,
    };
    row.pending = row.pending.filter(|pending| pending.ts >= since);
    Ok(row)
}

fn read_code(row: &Row<'_>) -> rusqlite::Result<SetupCode> {
    Ok(SetupCode {
        hash: row.get(0)?,
        grant: row.get(1)?,
        issued_by: row.get(2)?,
        expires_at_ms: unsigned(row.get(3)?),
        taken_by: row.get(4)?,
    })
}

fn save(c: &Connection, row: &DeviceRow) -> Result<(), Fault> {
    if row.paired.is_none() && row.pending.is_none() {
        c.prepare_cached("DELETE FROM devices WHERE device_id = ?1")?.execute([&row.device_id])?;
        return Ok(());
    }
    let paired = row.paired.as_ref().map(serde_json::to_string).transpose()?;
    let pending = row.pending.as_ref().map(serde_json::to_string).transpose()?;
    c.prepare_cached(
        "INSERT OR REPLACE INTO devices (device_id, paired, pending, request_id, requested_at)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        row.device_id,
        paired,
        pending,
        row.pending.as_ref().map(|pending| &pending.request_id),
        row.pending.as_ref().map(|pending| signed(pending.ts)),
    ])?;
    Ok(())
}

/// How many devices have something in a column, which is a name of ours.
fn count(c: &Connection, column: &'static str) -> Result<usize, Fault> {
    let number: i64 = c
        .prepare_cached(&format!("SELECT COUNT(*) FROM devices WHERE {column} IS NOT NULL"))?
        .query_row([], |row| row.get(0))?;
    Ok(usize::try_from(number).unwrap_or(usize::MAX))
}
