//! The files that are memory.

use std::collections::HashMap;
use std::io::{BufReader, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cap_std::fs::Dir;
use cap_std::time::SystemTime;
use sha2::{Digest, Sha256};

use super::chunks;
use crate::agent::reach::{Reach, ReachError};
use crate::agent::tools::files::window::{self, WindowError};
use crate::store::{MemoryFile, MemoryUpdate};
use crate::support::{hex, sort};

/// The file of what always holds, and its older name.
pub(super) const ROOT_FILES: [&str; 2] = ["MEMORY.md", "memory.md"];
/// The folder of notes.
pub(super) const FOLDER: &str = "memory";
/// Folders in folders.
const DEPTH_MAX: usize = 4;
/// Files that are indexed, the newest: some ten years of daily notes.
pub const FILES_MAX: usize = 4000;
/// Files that are looked for.
const FOUND_MAX: usize = 100_000;
/// Largest file that is indexed; notes of people are far smaller.
const FILE_MAX: u64 = 1024 * 1024;
/// Bytes that one search reads at most; the rest is for the next one.
const READ_MAX: u64 = 32 * 1024 * 1024;
/// Two changes of a file within so long may have one time: FAT counts two seconds.
const TICK_MS: u64 = 2_000;
/// Lines of an excerpt unless somebody asks for another number, as in the
/// original.
const LINES: usize = 120;
/// Characters of an excerpt, as in the original.
const CHARACTERS_MAX: usize = 12_000;

/// Whether a path of a workspace names memory.
pub fn is_memory(path: &str) -> bool {
    let is_markdown = Path::new(path).extension().is_some_and(|it| it.eq_ignore_ascii_case("md"));
    let mut parts = path.split('/');
    let is_plain = parts.clone().all(|part| !matches!(part, "" | "." | ".."));
    let is_note = parts.next() == Some(FOLDER) && parts.next().is_some();
    is_markdown && is_plain && (ROOT_FILES.contains(&path) || is_note)
}

/// What has to change in the index.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// What is new or otherwise.
    pub updates: Vec<MemoryUpdate>,
    /// Files that are gone.
    pub gone: Vec<String>,
    /// How many files are not indexed, because so many are newer.
    pub left_out: usize,
    /// How many files are read by one of the next searches.
    pub waiting: usize,
}

/// What has to change in the index. `now_ms` is the time.
pub fn changes(reach: &Reach, known: Vec<MemoryFile>, now_ms: u64) -> Result<Changes, ReachError> {
    let mut known: HashMap<String, MemoryFile> =
        known.into_iter().map(|file| (file.path.clone(), file)).collect();
    let mut changes = Changes::default();
    let mut read = 0;
    let mut found = find(reach)?;
    // The newest first, of which there is never too much.
    sort::by(&mut found, |one, other| other.cmp(one));
    changes.left_out = found.len().saturating_sub(FILES_MAX);
    found.truncate(FILES_MAX);
    for Found { path, .. } in found {
        let before = known.remove(&path);
        match look(reach, &path, before.as_ref(), &mut read, now_ms) {
            Ok(Looked::Same) => {}
            Ok(Looked::Changed(update)) => changes.updates.push(update),
            Ok(Looked::Later) => changes.waiting += 1,
            // What is out of reach is no memory; what was indexed of it goes.
            Err(error) => {
                tracing::debug!("memory file {path}: {error}");
                known.extend(before.map(|file| (path, file)));
            }
        }
    }
    changes.gone = known.into_keys().collect();
    Ok(changes)
}

/// What became of a file.
enum Looked {
    Same,
    Changed(MemoryUpdate),
    Later,
}

fn look(
    reach: &Reach,
    path: &str,
    before: Option<&MemoryFile>,
    read: &mut u64,
    now_ms: u64,
) -> Result<Looked, ReachError> {
    let (file, length) = reach.find(path)?.open()?;
    let facts = file.metadata().map_err(|error| ReachError::io(error, "stat", Path::new(path)))?;
    let seconds = u64::try_from(facts.mtime()).unwrap_or(0);
    let modified_ns = seconds * 1_000_000_000 + u64::try_from(facts.mtime_nsec()).unwrap_or(0);
    let is_same = |known: &MemoryFile| known.length == length && known.modified_ns == modified_ns;
    if before.is_some_and(is_same) {
        return Ok(Looked::Same);
    }
    if *read > READ_MAX {
        return Ok(Looked::Later);
    }
    let mut bytes = Vec::new();
    let taken = file.take(FILE_MAX).read_to_end(&mut bytes);
    taken.map_err(|error| ReachError::io(error, "read", Path::new(path)))?;
    *read += bytes.len() as u64;
    let hash = hex(Sha256::digest(&bytes));
    let is_unchanged = before.is_some_and(|known| known.hash == hash);
    let chunks = (!is_unchanged).then(|| chunks::split(&String::from_utf8_lossy(&bytes)));
    // One that may change again within the same time is read again.
    let is_fresh = (modified_ns / 1_000_000).abs_diff(now_ms) < TICK_MS;
    let modified_ns = if is_fresh { 0 } else { modified_ns };
    let file = MemoryFile { path: path.to_owned(), length, modified_ns, hash };
    Ok(Looked::Changed(MemoryUpdate { file, chunks }))
}

/// The paths of all memory files, relative to the workspace.
pub(super) fn list(reach: &Reach) -> Result<Vec<String>, ReachError> {
    Ok(find(reach)?.into_iter().map(|found| found.path).collect())
}

/// A memory file; the newest is the greatest, and of those of one time the one with the
/// greatest name, which often is a date.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    /// Whether it is the file of what always holds, which is never old.
    is_root: bool,
    modified: Option<SystemTime>,
    path: String,
}

fn find(reach: &Reach) -> Result<Vec<Found>, ReachError> {
    let mut found = Vec::new();
    let is_there =
        |name: &&&str| reach.find(name).and_then(|place| place.exists()).unwrap_or(false);
    let root = ROOT_FILES.iter().find(is_there);
    found.extend(root.map(|name| Found {
        is_root: true,
        modified: None,
        path: (*name).to_owned(),
    }));
    match reach.workspace_folder(FOLDER) {
        Ok(folder) => walk(&folder, FOLDER, DEPTH_MAX, &mut found),
        Err(error) if error.is_missing() => {}
        Err(error) => return Err(error),
    }
    Ok(found)
}

fn walk(folder: &Dir, name: &str, depth: usize, found: &mut Vec<Found>) {
    let Ok(entries) = folder.entries() else { return };
    for entry in entries.flatten() {
        let Ok(own) = entry.file_name().into_string() else { continue };
        if found.len() >= FOUND_MAX || own.starts_with('.') {
            continue;
        }
        let path = format!("{name}/{own}");
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if let Some(depth) = depth.checked_sub(1)
                && let Ok(folder) = entry.open_dir()
            {
                walk(&folder, &path, depth, found);
            }
        } else if is_memory(&path) {
            let modified = entry.metadata().and_then(|facts| facts.modified()).ok();
            found.push(Found { is_root: false, modified, path });
        }
    }
}

/// Some lines of a memory file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The lines.
    pub text: String,
    /// The first one, from 1.
    pub from: usize,
    /// How many there are.
    pub lines: usize,
    /// The line after them, when there are more.
    pub next: Option<usize>,
}

/// Reads lines of a memory file; nothing when there is no such file.
///
/// # Errors
/// When it is out of reach or no text.
pub fn excerpt(
    reach: &Reach,
    path: &str,
    from: Option<usize>,
    lines: Option<usize>,
) -> Result<Option<Excerpt>, String> {
    let from = from.unwrap_or(1).max(1);
    let opened = reach.limited(true).find(path).and_then(|place| place.open());
    let file = match opened {
        Err(error) if error.is_missing() => return Ok(None),
        opened => opened.map_err(|error| error.to_string())?.0,
    };
    let window = window::read(BufReader::new(file), from - 1, Some(lines.unwrap_or(LINES).max(1)));
    let window = window.map_err(|error| match error {
        WindowError::Binary => format!("{path} is no text"),
        WindowError::Io(error) => error.to_string(),
    })?;
    let mut text = String::new();
    let mut shown = 0;
    if let Some(length) = window.first_too_long {
        text = format!("[Line {from} has {length} bytes, too many for an excerpt]");
        shown = 1;
    }
    for line in window.text.split('\n').take(window.shown) {
        let length = text.chars().count() + line.chars().count() + 1;
        if shown > 0 && length > CHARACTERS_MAX {
            break;
        }
        if shown > 0 {
            text.push('\n');
        }
        text.extend(line.chars().take(CHARACTERS_MAX));
        if line.chars().nth(CHARACTERS_MAX).is_some() {
            text.push_str(" […]");
        }
        shown += 1;
    }
    let next = Some(from + shown).filter(|next| *next <= window.total && shown > 0);
    Ok(Some(Excerpt { text, from, lines: shown, next }))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::agent::reach::testing::Scene;

    /// Long before the tests write anything.
    const NOW: u64 = 1_700_000_000_000;

    fn paths(updates: &[MemoryUpdate]) -> Vec<&str> {
        let mut paths: Vec<_> = updates.iter().map(|it| it.file.path.as_str()).collect();
        sort::plain(&mut paths);
        paths
    }

    #[test]
    fn memory_is_markdown_in_its_places() {
        for path in ["MEMORY.md", "memory.md", "memory/a.md", "memory/2026/b.MD"] {
            assert!(is_memory(path), "{path}");
        }
        for path in [
            "",
            "AGENTS.md",
            "memory",
            "memory/a.txt",
            "memory/../x.md",
            "/etc/a.md",
            "memory//a.md",
            "./MEMORY.md",
            "other/a.md",
        ] {
            assert!(!is_memory(path), "{path}");
        }
    }

    #[test]
    fn only_what_changed_is_read_again() {
        let scene = Scene::new();
        let reach = scene.reach(true);
        scene.put("MEMORY.md", "likes tea");
        scene.put("memory/a.md", "one");
        scene.put("memory/deep/b.md", "two");
        scene.put("memory/c.txt", "no note");
        let first = changes(&reach, Vec::new(), NOW).unwrap();
        assert_eq!(paths(&first.updates), ["MEMORY.md", "memory/a.md", "memory/deep/b.md"]);
        assert!(first.gone.is_empty() && first.updates.iter().all(|it| it.chunks.is_some()));
        let known: Vec<_> = first.updates.into_iter().map(|update| update.file).collect();
        assert_eq!(changes(&reach, known.clone(), NOW).unwrap(), Changes::default());
        scene.put("memory/a.md", "changed");
        scene.put("MEMORY.md", "likes tea");
        std::fs::remove_file(scene.path("memory/deep/b.md")).unwrap();
        let Changes { updates, gone, .. } = changes(&reach, known, NOW).unwrap();
        let changed: Vec<_> =
            updates.iter().filter(|it| it.chunks.is_some()).map(|it| &*it.file.path).collect();
        assert_eq!((changed, gone), (vec!["memory/a.md"], vec!["memory/deep/b.md".to_owned()]));
    }

    #[test]
    fn a_change_of_the_same_length_at_the_same_time_is_seen() {
        let scene = Scene::new();
        let reach = scene.reach(true);
        let put = |text: &str| {
            scene.put("memory/a.md", text);
            let file = File::options().write(true).open(scene.path("memory/a.md")).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_millis(NOW)).unwrap();
        };
        put("- [ ] tea");
        let indexed = |updates: Vec<MemoryUpdate>| -> Vec<MemoryFile> {
            updates.into_iter().map(|update| update.file).collect()
        };
        let known = indexed(changes(&reach, Vec::new(), NOW + 1).unwrap().updates);
        put("- [x] tea");
        let updates = changes(&reach, known, NOW + 10_000).unwrap().updates;
        assert!(updates[0].chunks.is_some(), "{updates:?}");
        let again = changes(&reach, indexed(updates), NOW + 20_000).unwrap();
        assert_eq!(again, Changes::default());
    }

    #[test]
    fn of_too_many_notes_the_newest_are_indexed_and_the_rest_is_counted() {
        let scene = Scene::new();
        let reach = scene.reach(true);
        scene.put("MEMORY.md", "likes tea");
        for number in 0..FILES_MAX + 10 {
            let (path, age) = (format!("memory/{number}.md"), number as u64);
            scene.put(&path, "a note");
            let file = File::options().write(true).open(scene.path(&path)).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000 - age)).unwrap();
        }
        let found = changes(&reach, Vec::new(), NOW).unwrap();
        assert_eq!((found.updates.len(), found.left_out, found.waiting), (FILES_MAX, 11, 0));
        let newest = found.updates[..3].iter().map(|update| update.file.path.as_str());
        assert_eq!(newest.collect::<Vec<_>>(), ["MEMORY.md", "memory/0.md", "memory/1.md"]);
        let oldest = &found.updates[FILES_MAX - 1].file.path;
        assert_eq!(*oldest, format!("memory/{}.md", FILES_MAX - 2));
        assert_eq!(list(&reach).unwrap().len(), FILES_MAX + 11, "all are cleared");
    }

    #[test]
    fn what_one_search_does_not_read_is_counted_and_read_by_the_next() {
        let scene = Scene::new();
        let reach = scene.reach(true);
        for number in 0..36 {
            scene.put(&format!("memory/{number}.md"), vec![b' '; 1024 * 1024]);
        }
        let first = changes(&reach, Vec::new(), NOW).unwrap();
        assert_eq!((first.updates.len(), first.left_out, first.waiting), (33, 0, 3));
        let known = first.updates.into_iter().map(|update| update.file).collect();
        let next = changes(&reach, known, NOW).unwrap();
        assert_eq!((next.updates.len(), next.waiting), (3, 0));
    }

    #[test]
    fn a_link_out_of_the_workspace_is_no_memory() {
        let scene = Scene::new();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("x.md"), "secret").unwrap();
        scene.put("memory/a.md", "own");
        std::os::unix::fs::symlink(outside.path().join("x.md"), scene.path("memory/x.md")).unwrap();
        let updates = changes(&scene.reach(true), Vec::new(), NOW).unwrap().updates;
        assert_eq!(paths(&updates), ["memory/a.md"]);
        std::fs::remove_dir_all(scene.path("memory")).unwrap();
        std::os::unix::fs::symlink(outside.path(), scene.path("memory")).unwrap();
        assert!(changes(&scene.reach(true), Vec::new(), NOW).is_err());
        assert!(excerpt(&scene.reach(false), "memory/x.md", None, None).is_err());
    }

    #[test]
    fn an_excerpt_is_bounded_and_says_where_it_goes_on() {
        let scene = Scene::new();
        let reach = scene.reach(false);
        scene.put(
            "MEMORY.md",
            (1..=300).map(|n| format!("l{n}")).collect::<Vec<_>>().join("\n") + "\n",
        );
        let found = excerpt(&reach, "MEMORY.md", None, None).unwrap().unwrap();
        assert_eq!((found.lines, found.next), (120, Some(121)));
        let found = excerpt(&reach, "MEMORY.md", Some(299), Some(9)).unwrap().unwrap();
        assert_eq!((&*found.text, found.from, found.next), ("l299\nl300\n", 299, None));
        scene.put("MEMORY.md", format!("{}\nshort\n", "x".repeat(11_997)));
        let found = excerpt(&reach, "MEMORY.md", None, None).unwrap().unwrap();
        assert_eq!((found.lines, found.next), (1, Some(2)));
        for (length, end) in [(12_000, "xx"), (12_001, "x […]"), (60_000, "for an excerpt]")] {
            scene.put("MEMORY.md", format!("{}\nshort\n", "x".repeat(length)));
            let found = excerpt(&reach, "MEMORY.md", None, None).unwrap().unwrap();
            assert!(found.text.ends_with(end), "{length}: {} characters", found.text.len());
            assert_eq!((found.lines, found.next), (1, Some(2)), "{length}");
        }
        assert_eq!(excerpt(&reach, "memory/none.md", None, None), Ok(None));
    }
}
