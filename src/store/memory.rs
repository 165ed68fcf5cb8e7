//! Memory files by their words.
//!
//! Owns: the `memory_*` tables, which repeat what the files say and can be made
//! again from them at any time.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};

use super::column::{signed, unsigned};
use super::error::Fault;
use crate::support::sort;

/// Files that are forgotten in one commit, which others wait for, with the rest of their
/// workspaces.
const FORGOTTEN_MAX: u16 = 100;

/// A file as it was when it was indexed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryFile {
    /// Relative to its workspace.
    pub path: String,
    /// Its bytes.
    pub length: u64,
    /// When it had been changed, in nanoseconds since the epoch.
    pub modified_ns: u64,
    /// Digest of what it held.
    pub hash: String,
}

/// Some lines of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryChunk {
    /// From 1.
    pub first_line: u64,
    /// Included.
    pub last_line: u64,
    /// The lines.
    pub text: String,
    /// The words that it is found by, with spaces between them.
    pub words: String,
}

/// What a file holds now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryUpdate {
    /// The file.
    pub file: MemoryFile,
    /// All of its chunks; `None` when they are as they were.
    pub chunks: Option<Vec<MemoryChunk>>,
}

/// A chunk that was searched for.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryHit {
    /// The file, relative to its workspace.
    pub path: String,
    /// From 1.
    pub first_line: u64,
    /// Included.
    pub last_line: u64,
    /// The lines.
    pub text: String,
    /// From 0 to 1: how many of the terms are there, rare ones counting more.
    pub score: f64,
}

pub(super) fn files(connection: &Connection, workspace: &str) -> Result<Vec<MemoryFile>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT path, length, modified_at, hash FROM memory_files WHERE workspace = ?1",
    )?;
    let rows = statement.query_map([workspace], |row| {
        Ok(MemoryFile {
            path: row.get(0)?,
            length: unsigned(row.get(1)?),
            modified_ns: unsigned(row.get(2)?),
            hash: row.get(3)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn update(
    connection: &Connection,
    workspace: &str,
    updates: &[MemoryUpdate],
    gone: &[String],
) -> Result<(), Fault> {
    for path in gone {
        if let Some(id) = file_id(connection, workspace, path)? {
            forget_file(connection, id)?;
        }
    }
    for MemoryUpdate { file, chunks } in updates {
        let id: i64 = connection
            .prepare_cached(
                "INSERT INTO memory_files (workspace, path, length, modified_at, hash)
                 VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (workspace, path) DO UPDATE SET length = excluded.length,
                    modified_at = excluded.modified_at, hash = excluded.hash
                 RETURNING id",
            )?
            .query_row(
                params![
                    workspace,
                    file.path,
                    signed(file.length),
                    signed(file.modified_ns),
                    file.hash
                ],
                |row| row.get(0),
            )?;
        let Some(chunks) = chunks else { continue };
        forget_chunks(connection, id)?;
        for chunk in chunks {
            add_chunk(connection, id, chunk)?;
        }
    }
    Ok(())
}

fn file_id(connection: &Connection, workspace: &str, path: &str) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT id FROM memory_files WHERE workspace = ?1 AND path = ?2")?
        .query_row([workspace, path], |row| row.get(0))
        .optional()
}

/// Forgets some of the files that are in none of these workspaces; answers whether there may
/// be more.
pub(super) fn forget_others(connection: &Connection, workspaces: &[String]) -> Result<bool, Fault> {
    let files = connection
        .prepare_cached(
            "SELECT id FROM memory_files
             WHERE workspace NOT IN (SELECT value FROM json_each(?1)) LIMIT ?2",
        )?
        .query_map(params![serde_json::to_string(workspaces)?, FORGOTTEN_MAX], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<i64>>>()?;
    for file in &files {
        forget_file(connection, *file)?;
    }
    Ok(files.len() >= usize::from(FORGOTTEN_MAX))
}

fn forget_file(connection: &Connection, file: i64) -> rusqlite::Result<()> {
    forget_chunks(connection, file)?;
    connection.prepare_cached("DELETE FROM memory_files WHERE id = ?1")?.execute([file])?;
    Ok(())
}

fn forget_chunks(connection: &Connection, file: i64) -> rusqlite::Result<()> {
    let words = "DELETE FROM memory_words
        WHERE rowid IN (SELECT id FROM memory_chunks WHERE file_id = ?1)";
    connection.prepare_cached(words)?.execute([file])?;
    connection.prepare_cached("DELETE FROM memory_chunks WHERE file_id = ?1")?.execute([file])?;
    Ok(())
}

fn add_chunk(connection: &Connection, file: i64, chunk: &MemoryChunk) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO memory_chunks (file_id, first_line, last_line, text)
             VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![file, signed(chunk.first_line), signed(chunk.last_line), chunk.text])?;
    let id = connection.last_insert_rowid();
    connection
        .prepare_cached("INSERT INTO memory_words (rowid, words) VALUES (?1, ?2)")?
        .execute(params![id, chunk.words])?;
    Ok(())
}

/// What was found of one chunk.
#[derive(Default)]
struct Found {
    weight: f64,
    /// Sum of the ranks of its terms; less is better.
    rank: f64,
}

pub(super) fn search(
    connection: &Connection,
    workspace: &str,
    terms: &[String],
    limit: usize,
) -> Result<Vec<MemoryHit>, Fault> {
    let chunks: f64 = connection
        .prepare_cached(
            "SELECT count(*) FROM memory_chunks c JOIN memory_files f ON f.id = c.file_id
             WHERE f.workspace = ?1",
        )?
        .query_row([workspace], |row| row.get(0))?;
    let mut matching = connection.prepare_cached(
        "SELECT c.id, bm25(memory_words) FROM memory_words
         JOIN memory_chunks c ON c.id = memory_words.rowid
         JOIN memory_files f ON f.id = c.file_id
         WHERE memory_words MATCH ?1 AND f.workspace = ?2",
    )?;
    let mut found: HashMap<i64, Found> = HashMap::new();
    let mut total = 0.0;
    for term in terms {
        // Between quotes nothing is an operator; a NUL would end the query.
        let quoted = format!("\"{}\"", term.replace('\0', " ").replace('"', "\"\""));
        let rows = matching
            .query_map([&*quoted, workspace], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<Vec<(i64, f64)>>>()?;
        #[allow(clippy::cast_precision_loss)]
        let weight = (1.0 + chunks / (rows.len().max(1) as f64)).ln();
        total += weight;
        for (id, rank) in rows {
            let chunk = found.entry(id).or_default();
            chunk.weight += weight;
            chunk.rank += rank;
        }
    }
    let mut best: Vec<_> = found.into_iter().collect();
    sort::by(&mut best, |(one, a), (other, b)| {
        let by_weight = b.weight.total_cmp(&a.weight);
        by_weight.then(a.rank.total_cmp(&b.rank)).then(one.cmp(other))
    });
    let mut lines = connection.prepare_cached(
        "SELECT f.path, c.first_line, c.last_line, c.text
         FROM memory_chunks c JOIN memory_files f ON f.id = c.file_id WHERE c.id = ?1",
    )?;
    let hits = best.into_iter().take(limit).map(|(id, chunk)| {
        lines.query_row([id], |row| {
            Ok(MemoryHit {
                path: row.get(0)?,
                first_line: unsigned(row.get(1)?),
                last_line: unsigned(row.get(2)?),
                text: row.get(3)?,
                score: chunk.weight / total,
            })
        })
    });
    Ok(hits.collect::<rusqlite::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::migrations::database;

    fn file(path: &str, texts: &[&str]) -> MemoryUpdate {
        let file = MemoryFile { path: path.into(), length: 1, modified_ns: 2, hash: "h".into() };
        let chunk = |(at, text): (usize, &&str)| MemoryChunk {
            first_line: at as u64 + 1,
            last_line: at as u64 + 1,
            text: (*text).into(),
            words: (*text).into(),
        };
        MemoryUpdate { file, chunks: Some(texts.iter().enumerate().map(chunk).collect()) }
    }

    fn found(connection: &Connection, workspace: &str, terms: &[&str]) -> Vec<String> {
        let terms: Vec<String> = terms.iter().map(|term| (*term).to_owned()).collect();
        let hits = search(connection, workspace, &terms, 10).unwrap();
        assert!(hits.iter().all(|hit| hit.score > 0.0 && hit.score <= 1.0), "{hits:?}");
        hits.into_iter().map(|hit| hit.text).collect()
    }

    #[test]
    fn chunks_with_more_of_the_terms_and_rarer_ones_come_first() {
        let connection = database();
        let texts = ["the dog barks", "the cat sleeps", "the dog and the cat"];
        update(&connection, "w", &[file("a.md", &texts)], &[]).unwrap();
        assert_eq!(found(&connection, "w", &["cat", "dog"])[0], "the dog and the cat");
        assert_eq!(found(&connection, "w", &["the", "barks"])[0], "the dog barks");
        assert_eq!(found(&connection, "w", &["sleeping"]), ["the cat sleeps"]);
        assert!(found(&connection, "other", &["cat"]).is_empty());
    }

    #[test]
    fn what_changed_or_is_gone_is_not_found_any_more() {
        let connection = database();
        update(&connection, "w", &[file("a.md", &["old"]), file("b.md", &["other"])], &[]).unwrap();
        update(&connection, "w", &[file("a.md", &["new"])], &["b.md".into()]).unwrap();
        assert!(found(&connection, "w", &["old", "other"]).is_empty());
        assert_eq!(found(&connection, "w", &["new"]), ["new"]);
        let touched = MemoryUpdate { chunks: None, ..file("a.md", &[]) };
        update(&connection, "w", &[touched], &[]).unwrap();
        assert_eq!(found(&connection, "w", &["new"]), ["new"]);
        assert_eq!(files(&connection, "w").unwrap().len(), 1);
    }

    #[test]
    fn of_workspaces_that_nobody_has_nothing_is_kept() {
        let connection = database();
        for workspace in ["w", "gone"] {
            update(&connection, workspace, &[file("a.md", &["words"])], &[]).unwrap();
        }
        assert!(!forget_others(&connection, &["w".into(), "new".into()]).unwrap());
        assert_eq!(found(&connection, "w", &["words"]), ["words"]);
        assert_eq!(files(&connection, "gone").unwrap(), []);
        let left = |table: &str| -> i64 {
            let sql = format!("SELECT COUNT(*) FROM {table}");
            connection.query_row(&sql, [], |row| row.get(0)).unwrap()
        };
        assert_eq!((left("memory_chunks"), left("memory_words")), (1, 1));
    }

    #[test]
    fn a_term_is_never_an_operator() {
        let connection = database();
        update(&connection, "w", &[file("a.md", &["near words"])], &[]).unwrap();
        for term in
            ["\"", "a\" OR \"near", "*", "NEAR(", "words:near", "^near", "-", "", "\0", "(("]
        {
            search(&connection, "w", &[term.to_owned()], 10).unwrap();
        }
    }
}
