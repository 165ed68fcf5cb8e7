//! The files that are memory.

use std::collections::HashMap;
use std::io::{BufReader, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cap_std::fs::Dir;
use sha2::{Digest, Sha256};

use super::chunks;
use crate::agent::reach::{Reach, ReachError};
use crate::agent::tools::files::window::{self, WindowError};
use crate::store::{MemoryFile, MemoryUpdate};
use crate::support::hex;

/// The file of what always holds, and its older name.
pub(super) const ROOT_FILES: [&str; 2] = ["MEMORY.md", "memory.md"];
/// The folder of notes.
pub(super) const FOLDER: &str = "memory";
/// Folders in folders.
const DEPTH_MAX: usize = 4;
/// Files that are indexed: some ten years of daily notes.
const FILES_MAX: usize = 4000;
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

/// What has to change in the index, and which files are gone. `now_ms` is the time.
pub fn changes(
    reach: &Reach,
    known: Vec<MemoryFile>,
    now_ms: u64,
) -> Result<(Vec<MemoryUpdate>, Vec<String>), ReachError> {
    let mut known: HashMap<String, MemoryFile> =
        known.into_iter().map(|file| (file.path.clone(), file)).collect();
    let mut updates = Vec::new();
    let mut read = 0;
    for path in list(reach)? {
        let before = known.remove(&path);
        match look(reach, &path, before.as_ref(), &mut read, now_ms) {
            Ok(update) => updates.extend(update),
            // What is out of reach is no memory; what was indexed of it goes.
            Err(error) => {
                tracing::debug!("memory file {path}: {error}");
                known.extend(before.map(|file| (path, file)));
            }
        }
    }
    Ok((updates, known.into_keys().collect()))
}

fn look(
    reach: &Reach,
    path: &str,
    before: Option<&MemoryFile>,
    read: &mut u64,
    now_ms: u64,
) -> Result<Option<MemoryUpdate>, ReachError> {
    let (file, length) = reach.find(path)?.open()?;
    let facts = file.metadata().map_err(|error| ReachError::io(error, "stat", Path::new(path)))?;
    let seconds = u64::try_from(facts.mtime()).unwrap_or(0);
    let modified_ns = seconds * 1_000_000_000 + u64::try_from(facts.mtime_nsec()).unwrap_or(0);
    let is_same = |known: &MemoryFile| known.length == length && known.modified_ns == modified_ns;
    if before.is_some_and(is_same) || *read > READ_MAX {
        return Ok(None);
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
    Ok(Some(MemoryUpdate { file, chunks }))
}

/// The paths of all memory files, relative to the workspace.
pub(super) fn list(reach: &Reach) -> Result<Vec<String>, ReachError> {
    let mut paths = Vec::new();
    let is_there =
        |name: &&&str| reach.find(name).and_then(|place| place.exists()).unwrap_or(false);
    paths.extend(ROOT_FILES.iter().find(is_there).map(|name| (*name).to_owned()));
    match reach.workspace_folder(FOLDER) {
        Ok(folder) => walk(&folder, FOLDER, DEPTH_MAX, &mut paths),
        Err(error) if error.is_missing() => {}
        Err(error) => return Err(error),
    }
    paths.sort();
    Ok(paths)
}

fn walk(folder: &Dir, name: &str, depth: usize, paths: &mut Vec<String>) {
    let Ok(entries) = folder.entries() else { return };
    for entry in entries.flatten() {
        let Ok(own) = entry.file_name().into_string() else { continue };
        if paths.len() >= FILES_MAX || own.starts_with('.') {
            continue;
        }
        let path = format!("{name}/{own}");
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if let Some(depth) = depth.checked_sub(1)
                && let Ok(folder) = entry.open_dir()
            {
                walk(&folder, &path, depth, paths);
            }
        } else if is_memory(&path) {
            paths.push(path);
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
        updates.iter().map(|update| update.file.path.as_str()).collect()
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
        let (first, gone) = changes(&reach, Vec::new(), NOW).unwrap();
        assert_eq!(paths(&first), ["MEMORY.md", "memory/a.md", "memory/deep/b.md"]);
        assert!(gone.is_empty() && first.iter().all(|update| update.chunks.is_some()));
        let known: Vec<_> = first.into_iter().map(|update| update.file).collect();
        assert_eq!(changes(&reach, known.clone(), NOW).unwrap(), (vec![], vec![]));
        scene.put("memory/a.md", "changed");
        scene.put("MEMORY.md", "likes tea");
        std::fs::remove_file(scene.path("memory/deep/b.md")).unwrap();
        let (updates, gone) = changes(&reach, known, NOW).unwrap();
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
        let known = indexed(changes(&reach, Vec::new(), NOW + 1).unwrap().0);
        put("- [x] tea");
        let (updates, _) = changes(&reach, known, NOW + 10_000).unwrap();
        assert!(updates[0].chunks.is_some(), "{updates:?}");
        assert_eq!(changes(&reach, indexed(updates), NOW + 20_000).unwrap(), (vec![], vec![]));
    }

    #[test]
    fn a_link_out_of_the_workspace_is_no_memory() {
        let scene = Scene::new();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("x.md"), "secret").unwrap();
        scene.put("memory/a.md", "own");
        std::os::unix::fs::symlink(outside.path().join("x.md"), scene.path("memory/x.md")).unwrap();
        let (updates, _) = changes(&scene.reach(true), Vec::new(), NOW).unwrap();
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
