//! What OpenClaw's dreaming has left in a workspace.
//!
//! Owns: the dream diary and the two lists of what was recalled, as files of the
//! original. Promises: only entries that somebody asked to have removed are, and
//! what cannot be read is left alone. This gateway does not dream: nothing is
//! ever added.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::files;
use crate::agent::reach::{Reach, ReachError};
use crate::config::{AgentSettings, Settings};
use crate::support::{json, sort};

/// Names of the diary; the first is the usual one.
const DIARY: [&str; 2] = ["DREAMS.md", "dreams.md"];
/// What was recalled lately.
const RECALLED: &str = "memory/.dreams/short-term-recall.json";
/// How often a phase of a dream came upon it.
const PHASES: &str = "memory/.dreams/phase-signals.json";
/// What the original keeps of transcripts for its dreams.
const CORPUS: &str = "memory/.dreams/session-corpus";
/// Up to where it has read them.
const INGESTED: &str = "memory/.dreams/session-ingestion.json";
/// Where they are moved to by a repair.
const REPAIRED: &str = ".openclaw-repair/dreaming";
/// Larger than any that dreams have made; they are kept short by the original.
const FILE_MAX: u64 = 8 * 1024 * 1024;
/// Entries that a status shows of each kind, as in the original's view.
const SHOWN: usize = 8;

const DIARY_BEGIN: &str = "<!-- openclaw:dreaming:diary:start -->";
const DIARY_END: &str = "<!-- openclaw:dreaming:diary:end -->";
const BACKFILLED: &str = "openclaw:dreaming:backfill-entry";
/// What stands between two entries.
const RULE: &str = "\n---\n";

/// Why the files are not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum DreamsError {
    /// The files failed.
    #[error("{0}")]
    Files(#[from] ReachError),
    /// One of them is not what the original writes.
    #[error("{0} is no JSON of OpenClaw's; it is left as it is")]
    Strange(&'static str),
    /// A repair did not get to its end.
    #[error("cannot move {0}: {1}")]
    Move(&'static str, std::io::Error),
}

/// The dreams of one agent.
pub struct Dreams(Reach);

/// The diary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diary {
    /// Its name in the workspace.
    pub path: &'static str,
    /// Its text; `None` when there is none.
    pub text: Option<String>,
}

/// What a change of the diary has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiaryChange {
    /// Its name in the workspace.
    pub path: &'static str,
    /// Whether it is there.
    pub found: bool,
    /// Entries that were removed.
    pub removed: usize,
    /// Entries that are left.
    pub kept: usize,
}

impl Dreams {
    /// Those in the workspace of `agent`.
    pub fn of(settings: &Settings, agent: &AgentSettings) -> Self {
        Self(Reach::new(settings, agent, true))
    }

    fn read(&self, path: &str) -> Result<Option<String>, ReachError> {
        match self.0.find(path).and_then(|place| place.read(FILE_MAX)) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The diary.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn diary(&self) -> Result<Diary, DreamsError> {
        for path in DIARY {
            if let Some(text) = self.read(path)? {
                return Ok(Diary { path, text: Some(text) });
            }
        }
        Ok(Diary { path: DIARY[0], text: None })
    }

    /// Removes entries that were made from daily notes.
    ///
    /// # Errors
    /// When the diary cannot be read or written.
    pub fn remove_backfilled(&self) -> Result<DiaryChange, DreamsError> {
        self.change(|entry| !entry.contains(BACKFILLED))
    }

    /// Removes entries that say what an earlier one says.
    ///
    /// # Errors
    /// As [`Self::remove_backfilled`].
    pub fn remove_doubled(&self) -> Result<DiaryChange, DreamsError> {
        let mut seen = HashSet::new();
        self.change(move |entry| seen.insert(bare(entry)))
    }

    fn change(&self, keep: impl FnMut(&str) -> bool) -> Result<DiaryChange, DreamsError> {
        let Diary { path, text } = self.diary()?;
        let Some(text) = text else {
            return Ok(DiaryChange { path, found: false, removed: 0, kept: 0 });
        };
        let (changed, removed, kept) = filtered(&text, keep);
        if removed > 0 {
            self.0.find(path)?.replace(changed.as_bytes())?;
        }
        Ok(DiaryChange { path, found: true, removed, kept })
    }

    /// How many daily notes there are.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn daily_notes(&self) -> Result<usize, DreamsError> {
        let is_daily = |path: &&String| {
            let name = path.strip_prefix("memory/").and_then(|path| path.strip_suffix(".md"));
            name.is_some_and(|name| name.parse::<jiff::civil::Date>().is_ok())
        };
        Ok(files::list(&self.0)?.iter().filter(is_daily).count())
    }

    /// How many memory files there are, and their bytes.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn memory(&self) -> Result<(usize, u64), DreamsError> {
        let files = files::list(&self.0)?;
        let size = |path: &String| self.0.find(path).and_then(|place| place.open()).ok();
        let bytes = files.iter().filter_map(size).map(|(_, length)| length).sum();
        Ok((files.len(), bytes))
    }

    fn entries(&self, path: &'static str) -> Result<Map<String, Value>, DreamsError> {
        let Some(text) = self.read(path)? else { return Ok(Map::new()) };
        let parsed: Value = serde_json::from_str(&text).map_err(|_| DreamsError::Strange(path))?;
        match parsed.get("entries") {
            Some(Value::Object(entries)) => Ok(entries.clone()),
            _ => Err(DreamsError::Strange(path)),
        }
    }

    /// How many notes wait to become lasting ones.
    ///
    /// # Errors
    /// When their list cannot be read.
    pub fn recalled(&self) -> Result<usize, DreamsError> {
        Ok(self.entries(RECALLED)?.values().filter(|entry| !is_promoted(entry)).count())
    }

    /// What the lists say, in the members of `doctor.memory.status`. `today` is
    /// how dates of today begin.
    ///
    /// # Errors
    /// When a list cannot be read.
    pub fn summary(&self, today: &str) -> Result<Value, DreamsError> {
        let (recalled, phases) = (self.entries(RECALLED)?, self.entries(PHASES)?);
        let (promoted, waiting): (Vec<_>, Vec<_>) =
            recalled.values().partition(|entry| is_promoted(entry));
        let sum = |name: &str| waiting.iter().map(|entry| count(entry, name)).sum::<u64>();
        let hits = |name: &str| phases.values().map(|entry| count(entry, name)).sum::<u64>();
        let (recalls, daily, grounded) =
            (sum("recallCount"), sum("dailyCount"), sum("groundedCount"));
        let is_today =
            |entry: &&&Value| entry["promotedAt"].as_str().is_some_and(|at| at.starts_with(today));
        let shown = |entries: &[&Value], by: &str| -> Vec<Value> {
            let mut sorted = entries.to_vec();
            sort::by_key(&mut sorted, |entry| std::cmp::Reverse(text(entry, by)));
            sorted.into_iter().take(SHOWN).map(row).collect()
        };
        let mut strongest = waiting.clone();
        sort::by_key(&mut strongest, |entry| std::cmp::Reverse(signals(entry)));
        let workspace = self.0.workspace();
        Ok(json!({
            "shortTermEntries": shown(&waiting, "lastRecalledAt"),
            "signalEntries": strongest.into_iter().take(SHOWN).map(row).collect::<Vec<_>>(),
            "promotedEntries": shown(&promoted, "promotedAt"),
            "shortTermCount": waiting.len(),
            "recallSignalCount": recalls,
            "dailySignalCount": daily,
            "groundedSignalCount": grounded,
            "totalSignalCount": recalls + daily + grounded,
            "phaseSignalCount": hits("lightHits") + hits("remHits"),
            "lightPhaseHitCount": hits("lightHits"),
            "remPhaseHitCount": hits("remHits"),
            "promotedTotal": promoted.len(),
            "promotedToday": promoted.iter().filter(is_today).count(),
            "storePath": workspace.join(RECALLED).display().to_string(),
            "phaseSignalPath": workspace.join(PHASES).display().to_string(),
        }))
    }

    /// Removes entries that only a backfill has made; answers how many.
    ///
    /// # Errors
    /// When the list cannot be read or written.
    pub fn remove_grounded(&self) -> Result<usize, DreamsError> {
        let Some(text) = self.read(RECALLED)? else { return Ok(0) };
        let strange = || DreamsError::Strange(RECALLED);
        let mut parsed: Value = serde_json::from_str(&text).map_err(|_| strange())?;
        let entries = parsed.get_mut("entries").and_then(Value::as_object_mut);
        let entries = entries.ok_or_else(strange)?;
        let before = entries.len();
        entries.retain(|_, entry| {
            let heard = count(entry, "recallCount") + count(entry, "dailyCount");
            heard > 0 || count(entry, "groundedCount") == 0
        });
        let removed = before - entries.len();
        if removed > 0 {
            let text = format!("{parsed:#}\n");
            self.0.find(RECALLED)?.replace(text.as_bytes())?;
        }
        Ok(removed)
    }

    /// Moves what the original keeps of transcripts out of the way; answers
    /// whether there was a corpus, and a note of how far it was read.
    ///
    /// # Errors
    /// When something is there and cannot be moved.
    pub fn put_aside(&self, stamp: &str) -> Result<(bool, bool), DreamsError> {
        let root = match self.0.workspace_folder(".") {
            Err(error) if error.is_missing() => return Ok((false, false)),
            root => root?,
        };
        let to = format!("{REPAIRED}/{stamp}");
        let aside = |from: &'static str| {
            if root.symlink_metadata(from).is_err() {
                return Ok(false);
            }
            let name = from.rsplit('/').next().unwrap_or(from);
            let moved = root
                .create_dir_all(&to)
                .and_then(|()| root.rename(from, &root, format!("{to}/{name}")));
            moved.map(|()| true).map_err(|error| DreamsError::Move(from, error))
        };
        Ok((aside(CORPUS)?, aside(INGESTED)?))
    }

    /// Where a repair at this time moves things to, with its stamp.
    pub fn repair_place(&self, now_ms: u64) -> (String, String) {
        let at = i64::try_from(now_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let stamp = format!("{:.3}", at.unwrap_or_default()).replace([':', '.'], "-");
        let place = self.0.workspace().join(REPAIRED).join(&stamp);
        (place.display().to_string(), stamp)
    }
}

/// The text without the entries that are not kept, and how many were removed
/// and kept. Only what stands between the marks of the diary is looked at.
fn filtered(text: &str, mut keep: impl FnMut(&str) -> bool) -> (String, usize, usize) {
    let begin = text.find(DIARY_BEGIN).map(|at| at + DIARY_BEGIN.len());
    let end = begin.and_then(|begin| Some(begin + text[begin..].find(DIARY_END)?));
    let (Some(begin), Some(end)) = (begin, end) else { return (text.to_owned(), 0, 0) };
    let (mut removed, mut kept) = (0, 0);
    let parts = text[begin..end].split(RULE).filter(|entry| {
        if entry.trim().is_empty() {
            return true;
        }
        let stays = keep(entry);
        *(if stays { &mut kept } else { &mut removed }) += 1;
        stays
    });
    let mut parts: Vec<_> = parts.collect();
    if kept == 0 {
        // The rules between the entries have nothing to separate any more.
        parts = vec!["\n"];
    }
    let mut middle = parts.join(RULE);
    if !middle.ends_with('\n') {
        middle.push('\n');
    }
    (format!("{}{middle}{}", &text[..begin], &text[end..]), removed, kept)
}

/// An entry without comments and without the way it is laid out.
fn bare(entry: &str) -> String {
    let mut rest = entry;
    let mut said = String::new();
    while let Some((before, comment)) = rest.split_once("<!--") {
        said.push_str(before);
        rest = comment.split_once("-->").map_or("", |(_, after)| after);
    }
    said.push_str(rest);
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn count(entry: &Value, name: &str) -> u64 {
    entry.get(name).and_then(Value::as_u64).unwrap_or(0)
}

fn text<'a>(entry: &'a Value, name: &str) -> &'a str {
    entry.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn signals(entry: &Value) -> u64 {
    ["recallCount", "dailyCount", "groundedCount"].iter().map(|name| count(entry, name)).sum()
}

fn is_promoted(entry: &Value) -> bool {
    entry.get("promotedAt").is_some_and(Value::is_string)
}

/// An entry as a status shows it.
fn row(entry: &Value) -> Value {
    let mut row = json!({"totalSignalCount": signals(entry)});
    let names = [
        "key",
        "path",
        "startLine",
        "endLine",
        "snippet",
        "recallCount",
        "dailyCount",
        "groundedCount",
        "promotedAt",
        "lastRecalledAt",
    ];
    for name in names {
        if let Some(value) = entry.get(name) {
            row[name] = value.clone();
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Dream Diary\n\n<!-- openclaw:dreaming:diary:start -->\n---\n\n\
        *April 5*\n\nA dream.\n\n---\n\n*April 6*\n\n\
        <!-- openclaw:dreaming:backfill-entry day=2026-04-06 source=memory/2026-04-06.md -->\n\n\
        What Happened\n\n---\n\n*April 5*\n\nA  dream.\n<!-- again -->\n\n\
        <!-- openclaw:dreaming:diary:end -->\nafter\n";

    #[test]
    fn only_the_entries_that_are_meant_go_and_all_else_stays_as_it_is() {
        let (text, removed, kept) = filtered(TEXT, |entry| !entry.contains(BACKFILLED));
        assert_eq!((removed, kept), (1, 2));
        assert!(!text.contains("What Happened") && text.contains("A  dream."));
        let mut seen = HashSet::new();
        let (text, removed, kept) = filtered(&text, |entry| seen.insert(bare(entry)));
        assert_eq!((removed, kept), (1, 1));
        assert_eq!(
            text,
            "# Dream Diary\n\n<!-- openclaw:dreaming:diary:start -->\n---\n\n*April 5*\n\nA dream.\n\
             <!-- openclaw:dreaming:diary:end -->\nafter\n"
        );
        let (text, removed, kept) = filtered(&text, |_| false);
        assert_eq!((removed, kept), (1, 0));
        assert!(text.contains("start -->\n<!--"), "{text}");
    }

    #[test]
    fn a_text_without_the_marks_is_somebody_elses() {
        assert_eq!(filtered("a\n---\nb\n", |_| false), ("a\n---\nb\n".to_owned(), 0, 0));
    }
}
