//! Transcripts that are made of parts of others.
//!
//! Promises: the others are only read; a new file is whole and synced before
//! it has its name; a header says how much behind it was copied when a session
//! was branched off, so that what it cost counts once. Bare files have no header;
//! what was put away of a cut transcript counts nowhere else, so two branches from
//! one `.bak` each count what it has.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde_json::Value;
use tempfile::{NamedTempFile, TempPath};

use super::super::paths;
use super::file::{COPIED, bare_id, header};
use super::line::{Kept as FirstKept, mend};
use super::writer::Birth;
use super::{Backward, Body, Forward, Line, Parent, Position, TranscriptFormat, head, position};
use crate::store::atomic::{staged_in, sync_dir};

/// Makes a transcript of what comes before the entry `until` in another one, or
/// of all of it. Answers whether that entry was there.
pub(crate) fn fork(
    source: &Path,
    until: Option<&str>,
    target: &Path,
    birth: &Birth,
) -> io::Result<bool> {
    let mut file = paths::open(source)?;
    let length = file.metadata()?.len();
    let end = match until {
        Some(id) => begin_of(&file, length, id)?,
        None => Some(length),
    };
    let Some(end) = end else { return Ok(false) };
    let (format, found) = head(&file)?.unwrap_or((birth.format, None));
    let (headed, noted) = beginning(&file)?;
    let start = headed.min(end);
    let mut staged = staged_beside(target)?;
    if format == TranscriptFormat::OpenClaw {
        let cwd = found.and_then(|found| found.cwd).unwrap_or_else(|| birth.cwd.clone());
        let whole = end.saturating_sub(start);
        let copied = if is_backup(source) { noted.map(|it| it.min(whole)) } else { Some(whole) };
        writeln!(staged, "{}", header(&Birth { cwd, copied, ..birth.clone() }))?;
    }
    file.seek(SeekFrom::Start(start))?;
    io::copy(&mut file.take(end.saturating_sub(start)), staged.as_file_mut())?;
    staged.as_file().sync_all()?;
    staged.persist_noclobber(target)?;
    if let Some(folder) = target.parent() {
        sync_dir(folder)?;
    }
    Ok(true)
}

/// Whether a file is what was put away of a transcript when it was cut.
fn is_backup(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(paths::archive).is_some_and(|archive| archive.reason == "bak")
}

/// Where the line of an entry begins.
fn begin_of(file: &File, length: u64, id: &str) -> io::Result<Option<u64>> {
    let mut lines = Backward::new(file, length);
    while let Some(line) = lines.next()? {
        if let Some(Line::Entry(entry)) = Line::parse(line)
            && entry.id.as_deref() == Some(id)
        {
            return Ok(Some(lines.begins()));
        }
    }
    Ok(None)
}

/// Where the part of a transcript begins that was not copied from another one;
/// 0 when nothing says that any of it was.
pub(crate) fn own_begin(file: &File) -> io::Result<u64> {
    let (headed, copied) = beginning(file)?;
    Ok(copied.map_or(0, |copied| headed.saturating_add(copied)))
}

/// Where the header ends, 0 without one; and how many bytes behind it are copied, when
/// it says so.
fn beginning(file: &File) -> io::Result<(u64, Option<u64>)> {
    let mut lines = Forward::new(file, 0, u64::MAX)?;
    let Some(Line::Header(header)) = lines.next()?.and_then(Line::parse) else {
        return Ok((0, None));
    };
    Ok((lines.ends(), header.copied))
}

/// The last lines of a transcript.
pub(crate) enum Tail {
    /// There are no more; so many.
    All(usize),
    /// They are in this file, ready to take its place.
    Cut {
        /// The new file.
        file: TempPath,
        /// Length of the transcript that was read.
        length: u64,
    },
}

/// Makes a transcript of the header and the last `count` lines of another one,
/// which are all counted. Entries whose parents are cut off become roots.
pub(crate) fn tail(source: &Path, count: usize, birth: &Birth) -> io::Result<Tail> {
    let mut file = paths::open(source)?;
    let length = file.metadata()?.len();
    let mut lines = Backward::new(&file, length);
    let mut kept = Kept::default();
    let (mut begins, mut found) = (length, 0_usize);
    while let Some(line) = lines.next()? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        if found == count {
            found = found.saturating_add(1);
            break;
        }
        found = found.saturating_add(1);
        kept.note(line);
        begins = lines.begins();
    }
    if found <= count {
        return Ok(Tail::All(found));
    }
    if kept.is_numbered {
        kept.gone = position(&file, begins, &Position::default())?.messages;
    }
    let format = head(&file)?.map_or(birth.format, |(format, _)| format);
    let (headed, copied) = beginning(&file)?;
    let headed = headed.min(begins);
    let mut staged = staged_beside(source)?;
    if let Some(copied) = copied {
        let own = headed.saturating_add(copied).min(length);
        let stays = kept.write(&file, (begins, own), &mut io::sink())?;
        staged.write_all(&recounted(&file, headed, stays)?)?;
    } else if headed > 0 {
        file.seek(SeekFrom::Start(0))?;
        io::copy(&mut (&file).take(headed), staged.as_file_mut())?;
    } else if format == TranscriptFormat::OpenClaw {
        writeln!(staged, "{}", header(birth))?;
    }
    let mut writer = BufWriter::new(staged.as_file_mut());
    kept.write(&file, (begins, length), &mut writer)?;
    writer.flush()?;
    drop(writer);
    staged.as_file().sync_all()?;
    Ok(Tail::Cut { file: staged.into_temp_path(), length })
}

/// The header of a transcript of whose copied part so many bytes stay.
fn recounted(mut file: &File, headed: u64, copied: u64) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(headed).read_to_end(&mut line)?;
    mend(&mut line);
    if let Some(mut header) = Line::json(&line) {
        header[COPIED] = copied.into();
        line = format!("{header}\n").into_bytes();
    }
    Ok(line)
}

/// Which entries stay.
#[derive(Default)]
struct Kept {
    ids: HashSet<String>,
    /// What the oldest of them is called.
    first: Option<String>,
    /// How many of them count.
    counted: u64,
    /// Whether some are called by their numbers, which are others once some are cut off.
    is_numbered: bool,
    /// How many that count are cut off then.
    gone: u64,
}

impl Kept {
    /// Takes in a line; the newest comes first.
    fn note(&mut self, line: &[u8]) {
        let Some(Line::Entry(entry)) = Line::parse(line) else { return };
        let is_counted = entry.body.is_counted();
        self.counted = self.counted.saturating_add(u64::from(is_counted));
        if let Some(id) = entry.id {
            self.first = Some(id.clone());
            self.ids.insert(id);
        } else if is_counted {
            self.first = Some(bare_id(1));
            self.is_numbered = true;
        }
    }

    /// From which entry on a summary keeps what stays, that has kept it from this one on. What
    /// may be a number is one: summaries keep ids that were theirs before they were cut once.
    fn kept_from(&self, id: &str) -> Option<String> {
        let number = u64::from_str_radix(id, 16).ok().filter(|_| self.is_numbered);
        let number = number.and_then(|number| number.checked_sub(self.gone));
        let stays = number.filter(|number| (1..=self.counted).contains(number));
        let named = || self.ids.get(id).cloned().or_else(|| self.first.clone());
        stays.map(bare_id).or_else(named)
    }

    /// Writes the lines between two places without their references to what is
    /// cut off; answers how many bytes they are then.
    fn write(
        &self,
        mut file: &File,
        (from, to): (u64, u64),
        out: &mut dyn Write,
    ) -> io::Result<u64> {
        file.seek(SeekFrom::Start(from))?;
        let mut reader = BufReader::new(file.take(to.saturating_sub(from)));
        let (mut line, mut written) = (Vec::new(), 0_u64);
        while reader.read_until(b'\n', &mut line)? > 0 {
            if let Some(rooted) = self.rooted(&line) {
                line = format!("{rooted}\n").into_bytes();
            }
            out.write_all(&line)?;
            written = written.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
            line.clear();
        }
        Ok(written)
    }

    /// The line without its references to what is cut off; `None` when it has
    /// none.
    fn rooted(&self, line: &[u8]) -> Option<Value> {
        let mut line = line.to_vec();
        mend(&mut line);
        let Some(Line::Entry(entry)) = Line::parse(&line) else { return None };
        let is_gone = |id: &String| !self.ids.contains(id);
        let hangs = matches!(&entry.parent, Parent::Id(id) if is_gone(id));
        let keeps = match &entry.body {
            // One that keeps nothing names itself.
            Body::Compaction { first_kept: Some(FirstKept::Id(id)), .. }
                if entry.id.as_ref() != Some(id) && (self.is_numbered || is_gone(id)) =>
            {
                self.kept_from(id).filter(|first| first != id)
            }
            // Lines have other numbers once some of them are cut off.
            Body::Compaction { first_kept: Some(FirstKept::Line(_)), .. } => self.first.clone(),
            _ => None,
        };
        if !hangs && keeps.is_none() {
            return None;
        }
        let mut value = Line::json(&line)?;
        if hangs {
            value["parentId"] = Value::Null;
        }
        if let Some(first) = keeps {
            value["firstKeptEntryId"] = first.into();
            if let Value::Object(members) = &mut value {
                members.shift_remove("firstKeptEntryIndex");
            }
        }
        Some(value)
    }
}

fn staged_beside(target: &Path) -> io::Result<NamedTempFile> {
    let folder = target.parent().unwrap_or(Path::new("."));
    staged_in(folder, target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;
    use std::fs;

    use crate::support::json;

    fn birth() -> Birth {
        Birth {
            format: TranscriptFormat::OpenClaw,
            session_id: "s".into(),
            session_key: "agent:main:main".into(),
            cwd: "/w".into(),
            timestamp: "2026-11-22T03:35:28.398Z".into(),
            parent: Some("/s/a.jsonl".into()),
            copied: None,
        }
    }

    /// A chain of messages with these ids; the first one hangs on `parent`.
    fn chain(parent: Option<&str>, ids: &[&str]) -> String {
        let mut parent = parent;
        let mut text = String::new();
        for id in ids {
            let line = json!({"type": "message", "id": id, "parentId": parent,
                "message": {"role": "user", "content": id, "timestamp": 1}});
            writeln!(text, "{line}").unwrap();
            parent = Some(*id);
        }
        text
    }

    /// The ids of what is not copied.
    fn own(path: &Path) -> Vec<String> {
        let begin = own_begin(&File::open(path).unwrap()).unwrap();
        let bytes = fs::read(path).unwrap();
        let own = bytes.get(usize::try_from(begin).unwrap()..).unwrap();
        let lines = own.split(|byte| *byte == b'\n').filter_map(Line::json);
        lines.map(|line| line["id"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_branch_says_what_is_copied_also_when_it_is_branched_off_or_cut() {
        let home = tempfile::tempdir().unwrap();
        let [source, branch, again] = ["a", "b", "c"].map(|name| home.path().join(name));
        fs::write(&source, header(&birth()) + "\n" + &chain(None, &["a", "b", "c", "d"])).unwrap();
        assert_eq!(own_begin(&File::open(&source).unwrap()).unwrap(), 0);
        assert!(fork(&source, Some("d"), &branch, &birth()).unwrap());
        assert_eq!(own(&branch), [""; 0]);
        let whole = fs::read_to_string(&branch).unwrap() + &chain(Some("c"), &["e", "f"]);
        fs::write(&branch, &whole).unwrap();
        assert_eq!(own(&branch), ["e", "f"]);
        assert!(fork(&branch, Some("f"), &again, &birth()).unwrap());
        assert_eq!(own(&again), [""; 0]);
        for (count, expected) in [(5, &["e", "f"][..]), (3, &["e", "f"]), (1, &["f"])] {
            let Tail::Cut { file, .. } = tail(&branch, count, &birth()).unwrap() else {
                panic!("not cut")
            };
            assert_eq!(own(&file), expected, "{count}");
            let text = fs::read_to_string(&file).unwrap();
            assert_eq!(text.lines().count(), count + 1, "{text}");
            let first = Line::json(text.lines().next().unwrap().as_bytes()).unwrap();
            assert_eq!(first["sessionKey"], "agent:main:main");
        }
    }

    #[test]
    fn what_was_put_away_of_a_cut_transcript_counts_in_the_branch_that_has_it() {
        let home = tempfile::tempdir().unwrap();
        let put_away =
            |id: &str| home.path().join(format!("{id}.jsonl.bak.2026-11-22T03-46-28.004Z"));
        let [branch, again] = ["b", "c"].map(|name| home.path().join(name));
        let whole = header(&birth()) + "\n" + &chain(None, &["a", "b", "c", "d"]);
        fs::write(put_away("a"), whole).unwrap();
        assert!(fork(&put_away("a"), Some("d"), &branch, &birth()).unwrap());
        assert_eq!(own_begin(&File::open(&branch).unwrap()).unwrap(), 0);
        assert_eq!(fs::read_to_string(&branch).unwrap().lines().count(), 4);
        // But what it has itself from another one counts there.
        let copied = chain(None, &["a", "b"]);
        let length = u64::try_from(copied.len()).unwrap();
        let whole = header(&Birth { copied: Some(length), ..birth() }) + "\n" + &copied;
        fs::write(put_away("b"), whole + &chain(Some("b"), &["c", "d"])).unwrap();
        assert!(fork(&put_away("b"), Some("d"), &again, &birth()).unwrap());
        assert_eq!(own(&again), ["c"]);
    }

    #[test]
    fn a_summary_keeps_the_same_messages_where_an_older_one_has_the_number_of_one() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a");
        let said = |text: &str| json!({"role": "user", "content": text}).to_string() + "\n";
        let summed = |id: &str, first: &str| {
            let line = json!({"type": "compaction", "id": id, "summary": "S",
                "firstKeptEntryId": first});
            line.to_string() + "\n"
        };
        let cut = |count| {
            let Tail::Cut { file, .. } = tail(&path, count, &birth()).unwrap() else {
                panic!("not cut")
            };
            fs::read_to_string(&file).unwrap()
        };
        let first = summed("00000004", "00000003");
        let whole = [said("a"), said("b"), said("c"), first, said("d")].concat();
        fs::write(&path, whole).unwrap();
        let (first, again) = (summed("00000004", "00000001"), summed("00000006", "00000004"));
        assert_eq!(cut(3), [said("c"), first.clone(), said("d")].concat());
        let whole = [said("c"), first, said("d"), said("e"), said("f"), again].concat();
        fs::write(&path, whole).unwrap();
        // Of the fourth message on; it is the third one now.
        let (first, again) = (summed("00000004", "00000004"), summed("00000006", "00000003"));
        assert_eq!(cut(5), [first, said("d"), said("e"), said("f"), again].concat());
    }

    #[test]
    fn a_torn_last_line_is_copied_and_counts_at_its_origin() {
        let home = tempfile::tempdir().unwrap();
        let [source, branch] = ["a", "b"].map(|name| home.path().join(name));
        let whole = header(&birth()) + "\n" + &chain(None, &["a", "b"]) + "{\"type\":\"mess";
        fs::write(&source, whole).unwrap();
        assert!(fork(&source, None, &branch, &birth()).unwrap());
        assert_eq!(own(&branch), [""; 0]);
        let text = fs::read_to_string(&branch).unwrap();
        assert!(text.ends_with("{\"type\":\"mess"), "{text}");
        fs::write(&branch, text + "\n" + &chain(Some("b"), &["c"])).unwrap();
        assert_eq!(own(&branch), ["c"]);
    }

    #[test]
    fn a_summary_with_half_a_character_becomes_a_root_too() {
        let home = tempfile::tempdir().unwrap();
        let source = home.path().join("a");
        let line = r#"{"type":"compaction","id":"b","parentId":"a","summary":"so \ud83e far","firstKeptEntryId":"a"}"#;
        fs::write(&source, chain(None, &["a"]) + line + "\n").unwrap();
        let Tail::Cut { file, .. } = tail(&source, 1, &birth()).unwrap() else { panic!("not cut") };
        let text = fs::read_to_string(&file).unwrap();
        let root = Line::json(text.lines().last().unwrap().as_bytes()).unwrap();
        let expected = json!({"type": "compaction", "id": "b", "parentId": null,
            "summary": "so \u{fffd} far", "firstKeptEntryId": "b"});
        assert_eq!(root, expected);
    }
}
