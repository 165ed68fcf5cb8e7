//! Finding skills in folders.
//!
//! Owns: where skills are looked for, and which of two with one name counts.
//! Promises: nothing is read that a link leads to outside of the folder that
//! is looked through; folders, depth, skills and bytes are bounded; a skill
//! that cannot be read is passed over, and the log says so once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::front::Head;
use crate::agent::workspace::Stamp;
use crate::config::skills::SkillsSettings;
use crate::support::sort;

/// How deep below a folder of skills a skill may be, as in the original.
const MAX_DEPTH: usize = 6;
/// Folders that are looked into per folder of skills, as in the original.
const MAX_FOLDERS: usize = 300;
/// Skills per folder of skills, as in the original.
const MAX_SKILLS: usize = 200;
/// Entries of one directory that are looked at.
const MAX_ENTRIES: usize = 2_000;
/// Heads that are kept; beyond that the cache begins anew.
const MAX_KEPT: usize = 2_000;

/// Where a skill comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkillSource {
    /// `skills.load.extraDirs`.
    Extra,
    /// An installed OpenClaw.
    Bundled,
    /// `<state dir>/skills`.
    Managed,
    /// `~/.agents/skills`.
    Personal,
    /// `<workspace>/.agents/skills`.
    Project,
    /// `<workspace>/skills`.
    Workspace,
}

impl SkillSource {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Extra => "openclaw-extra",
            Self::Bundled => "openclaw-bundled",
            Self::Managed => "openclaw-managed",
            Self::Personal => "agents-skills-personal",
            Self::Project => "agents-skills-project",
            Self::Workspace => "openclaw-workspace",
        }
    }
}

/// A skill that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// What its head says.
    pub head: Arc<Head>,
    /// Where it comes from.
    pub source: SkillSource,
    /// Its folder.
    pub base_dir: PathBuf,
}

impl Skill {
    /// Its `SKILL.md`.
    pub fn file(&self) -> PathBuf {
        self.base_dir.join(FILE)
    }
}

/// The file that makes a folder a skill.
pub const FILE: &str = "SKILL.md";

/// Heads that were read, and what was told of those that cannot be.
#[derive(Default)]
pub struct Heads(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    heads: HashMap<PathBuf, (Stamp, Option<Arc<Head>>)>,
    complained: HashSet<PathBuf>,
}

impl Heads {
    /// Every skill of an agent with this workspace, by name. Blocks.
    pub fn find(&self, settings: &SkillsSettings, workspace: &Path) -> Vec<Skill> {
        let mut skills = BTreeMap::new();
        for (source, root) in roots(settings, workspace) {
            // Later roots go before earlier ones; in one root the first counts.
            for skill in self.below(&root, source, settings.max_file_bytes).into_iter().rev() {
                skills.insert(skill.head.name.clone(), skill);
            }
        }
        skills.into_values().collect()
    }

    fn below(&self, root: &Path, source: SkillSource, max_bytes: u64) -> Vec<Skill> {
        let Ok(real_root) = fs::canonicalize(root) else { return Vec::new() };
        let mut skills = Vec::new();
        let mut waiting = vec![(root.to_owned(), 0)];
        let mut seen = HashSet::new();
        while let Some((dir, depth)) = waiting.pop() {
            // Links can lead back to where one has been.
            if !fs::canonicalize(&dir).is_ok_and(|real| seen.insert(real)) {
                continue;
            }
            if seen.len() > MAX_FOLDERS || skills.len() >= MAX_SKILLS {
                self.complain(root, "has more folders or skills than are looked at");
                break;
            }
            let file = dir.join(FILE);
            if fs::symlink_metadata(&file).is_ok() {
                if let Some(head) = self.head(&real_root, &file, max_bytes) {
                    skills.push(Skill { head, source, base_dir: dir });
                }
                continue;
            }
            if depth < MAX_DEPTH {
                let inner = folders(&real_root, &dir).into_iter().rev();
                waiting.extend(inner.map(|dir| (dir, depth + 1)));
            }
        }
        skills
    }

    /// The head of a file below `root`; `None` when it is no skill.
    fn head(&self, root: &Path, file: &Path, max_bytes: u64) -> Option<Arc<Head>> {
        let real = fs::canonicalize(file).ok()?;
        if !real.starts_with(root) {
            self.complain(file, "leads out of its folder of skills");
            return None;
        }
        // Before it is opened: that would wait for the other end of a pipe.
        let metadata = fs::metadata(&real).ok()?;
        if !metadata.is_file() || metadata.len() > max_bytes {
            self.complain(file, "is no file, or a too large one");
            return None;
        }
        let stamp = Stamp::of(&metadata);
        if let Some((known, head)) = self.0.lock().heads.get(&real)
            && *known == stamp
        {
            return head.clone();
        }
        let head = read(&real, file, max_bytes);
        if let Err(reason) = &head {
            self.complain(file, reason);
        }
        let head = head.ok().map(Arc::new);
        let mut kept = self.0.lock();
        if kept.heads.len() >= MAX_KEPT {
            kept.heads.clear();
        }
        kept.heads.insert(real, (stamp, head.clone()));
        head
    }

    fn complain(&self, path: &Path, reason: &str) {
        let mut kept = self.0.lock();
        if kept.complained.len() < MAX_KEPT && kept.complained.insert(path.to_owned()) {
            tracing::warn!(path = %path.display(), reason, "skill passed over");
        }
    }
}

/// Folders of skills, the weakest first.
fn roots(settings: &SkillsSettings, workspace: &Path) -> Vec<(SkillSource, PathBuf)> {
    let extra = settings.extra_dirs.iter().cloned().map(|dir| (SkillSource::Extra, dir));
    let bundled = settings.bundled_dir.iter().cloned().map(|dir| (SkillSource::Bundled, dir));
    let personal = settings.personal_dir.iter().cloned().map(|dir| (SkillSource::Personal, dir));
    let mut roots: Vec<_> = extra.chain(bundled).collect();
    roots.push((SkillSource::Managed, settings.managed_dir.clone()));
    roots.extend(personal);
    roots.push((SkillSource::Project, workspace.join(".agents").join("skills")));
    roots.push((SkillSource::Workspace, workspace.join("skills")));
    roots
}

/// Folders in `dir` that may hold skills, by name. A link counts when it stays
/// below `root`.
fn folders(root: &Path, dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut folders = Vec::new();
    for entry in entries.take(MAX_ENTRIES).flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') || name == "node_modules" {
            continue;
        }
        let path = entry.path();
        let is_inside = match entry.file_type() {
            Ok(kind) if kind.is_dir() => true,
            Ok(kind) if kind.is_symlink() => {
                fs::canonicalize(&path).is_ok_and(|real| real.starts_with(root) && real.is_dir())
            }
            _ => false,
        };
        if is_inside {
            folders.push(path);
        }
    }
    sort::plain(&mut folders);
    folders
}

fn read(real: &Path, file: &Path, max_bytes: u64) -> Result<Head, String> {
    let mut bytes = Vec::new();
    let opened = File::open(real).map_err(|error| error.to_string())?;
    opened.take(max_bytes).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
    let folder = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    Head::parse(&text, &folder).map_err(|error| error.to_string())
}

#[cfg(test)]
pub mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::config::{Env, Overrides, load};

    /// Settings with this state directory.
    pub fn settings(state_dir: &Path) -> SkillsSettings {
        let dir = state_dir.to_string_lossy().into_owned();
        let env = Env::fixed([("OPENCLAW_STATE_DIR", dir.as_str())], "/nowhere");
        let looking = Overrides { read_only: true, ..Overrides::default() };
        load(&env, &looking).unwrap().skills
    }

    /// Makes a skill in `dir`, with more lines in its head.
    pub fn make(dir: &Path, name: &str, more: &str) {
        fs::create_dir_all(dir).unwrap();
        let text = format!("---\nname: {name}\ndescription: about {name}\n{more}\n---\nbody\n");
        fs::write(dir.join(FILE), text).unwrap();
    }

    fn found(
        heads: &Heads,
        settings: &SkillsSettings,
        workspace: &Path,
    ) -> Vec<(String, SkillSource)> {
        let skills = heads.find(settings, workspace).into_iter();
        skills.map(|skill| (skill.head.name.clone(), skill.source)).collect()
    }

    #[test]
    fn the_workspace_goes_before_managed_and_extra_folders() {
        let home = tempfile::tempdir().unwrap();
        let (workspace, extra) = (home.path().join("w"), home.path().join("x"));
        let mut settings = settings(home.path());
        settings.extra_dirs = vec![extra.clone()];
        for dir in [&extra, &home.path().join("skills"), &workspace.join("skills")] {
            make(&dir.join("a"), "a", "");
        }
        make(&home.path().join("skills/group/b"), "b", "");
        make(&extra.join("b"), "b", "");
        make(&extra.join("c"), "c", "");
        make(&workspace.join(".agents/skills/d"), "d", "");
        let heads = Heads::default();
        assert_eq!(
            found(&heads, &settings, &workspace),
            [
                ("a".into(), SkillSource::Workspace),
                ("b".into(), SkillSource::Managed),
                ("c".into(), SkillSource::Extra),
                ("d".into(), SkillSource::Project),
            ]
        );
    }

    #[test]
    fn a_changed_skill_is_read_again_and_a_broken_one_passed_over() {
        let home = tempfile::tempdir().unwrap();
        let (settings, heads) = (settings(home.path()), Heads::default());
        let dir = home.path().join("skills/a");
        let names = || -> Vec<String> {
            found(&heads, &settings, home.path()).into_iter().map(|it| it.0).collect()
        };
        make(&dir, "one", "");
        assert_eq!(names(), ["one"]);
        make(&dir, "second", "");
        make(&home.path().join("skills/b"), "b", "");
        fs::write(home.path().join("skills/b/SKILL.md"), "no head").unwrap();
        assert_eq!(names(), ["second"]);
    }

    #[test]
    fn links_are_followed_below_the_folder_only() {
        let home = tempfile::tempdir().unwrap();
        let (settings, heads) = (settings(home.path()), Heads::default());
        let root = home.path().join("skills");
        make(&home.path().join("outside"), "outside", "");
        make(&root.join("deep/in"), "in", "");
        symlink(home.path().join("outside"), root.join("link")).unwrap();
        fs::create_dir(root.join("half")).unwrap();
        symlink(home.path().join("outside/SKILL.md"), root.join("half/SKILL.md")).unwrap();
        // A circle must not be walked forever.
        symlink(&root, root.join("deep/up")).unwrap();
        assert_eq!(
            found(&heads, &settings, &home.path().join("w")),
            [("in".into(), SkillSource::Managed)]
        );
    }

    #[test]
    fn hidden_folders_too_large_files_and_too_deep_ones_do_not_count() {
        let home = tempfile::tempdir().unwrap();
        let (mut settings, heads) = (settings(home.path()), Heads::default());
        settings.max_file_bytes = 200;
        let root = home.path().join("skills");
        make(&root.join(".hidden"), "hidden", "");
        make(&root.join("node_modules/x"), "x", "");
        make(&root.join("large"), "large", &"#".repeat(300));
        make(&root.join("1/2/3/4/5/6"), "six", "");
        make(&root.join("1/2/3/4/5/b/7"), "seven", "");
        assert_eq!(
            found(&heads, &settings, &home.path().join("w")),
            [("six".into(), SkillSource::Managed)]
        );
    }
}
