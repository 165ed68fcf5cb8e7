//! The workspaces of all agents.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::cache::Texts;
use super::files::{self, FileEntry, FilesError};
use super::identity::{self, FileIdentity};
use super::inject::{self, Audience, Injected, Limits};
use super::{BootstrapFile, first_of, picture, seed};
use crate::agent::reach::Guard;
use crate::config::Settings;
use crate::store::atomic;
use crate::support::{Clock, Few, Live, trouble, with_cause};

/// Paths whose trouble was reported; beyond that nothing more is.
const MAX_COMPLAINTS: usize = 256;
/// Its name among the parts of the gateway.
const PART: &str = "workspaces";

/// The workspaces of all agents.
pub struct Workspaces {
    settings: Live<Settings>,
    clock: Arc<dyn Clock>,
    texts: Texts,
    /// Folders that could not be set up, so that the log has it once.
    complained: Mutex<HashSet<PathBuf>>,
    /// What of them a prompt lacks, with why, until it can be had.
    lacking: Mutex<Few<PathBuf, String>>,
}

impl Workspaces {
    /// With these settings.
    pub fn new(settings: Live<Settings>, clock: Arc<dyn Clock>) -> Self {
        Self {
            settings,
            clock,
            texts: Texts::default(),
            complained: Mutex::default(),
            lacking: Mutex::default(),
        }
    }

    /// What of the files in `dir` a session gets into its prompt; makes the
    /// files that are missing. A file that cannot be read, or is the gateway's own by
    /// another name, counts as missing, and `health` tells of it.
    /// Blocks.
    pub fn inject(&self, dir: &Path, audience: Audience) -> Injected {
        self.ensure(dir);
        // Tools work in it, with or without files of ours.
        if let Err(error) = atomic::create_private_dir(dir) {
            self.lack(dir.to_owned(), &error);
        }
        let guard = self.guard();
        let sources = audience.files().iter().map(|&file| {
            let text = self.texts.read(dir, file, &guard).unwrap_or_else(|error| {
                self.lack(dir.join(file.name()), &error);
                None
            });
            (file, dir.join(file.name()), text)
        });
        let sources = sources.collect();
        if self.lacks_any() {
            trouble::tell(PART, self.lacking());
        }
        let settings = &self.settings.now().workspace;
        let limits = Limits { one: settings.max_chars, total: settings.total_max_chars };
        inject::inject(sources, limits)
    }

    /// Whether a prompt lacked something that could not be had when it was last looked at.
    pub fn lacks_any(&self) -> bool {
        !self.lacking.lock().is_empty()
    }

    /// What agents work without, in words, where a prompt lacked something: looks again
    /// whether it can be had by now. Blocks.
    pub fn lacking(&self) -> Option<String> {
        let noted: Vec<_> = self.lacking.lock().keys().cloned().collect();
        let still = |path: &PathBuf| {
            let why = self.still_lacks(path);
            let told = why.as_ref().map(|why| format!("{}: {why}", path.display()));
            let mut lacking = self.lacking.lock();
            if let Some(why) = why {
                lacking.insert(path.clone(), why);
            } else {
                lacking.remove(path);
                drop(lacking);
                self.complained.lock().remove(path);
            }
            told
        };
        let told: Vec<_> = noted.iter().filter_map(still).collect();
        first_of(&told).map(|told| format!("agents work without what cannot be read: {told}"))
    }

    /// Why this cannot be had now, if it cannot: a file, or the folder itself, for as long as
    /// an agent has it.
    fn still_lacks(&self, path: &Path) -> Option<String> {
        let agents = &self.settings.now().agents;
        // An agent that the list does not have works in that of the defaults.
        let is_used = |dir: &Path| {
            agents.defaults.workspace == dir || agents.list.iter().any(|it| it.workspace == dir)
        };
        let file = path.file_name().and_then(|name| BootstrapFile::named(name.to_str()?));
        if let (Some(file), Some(dir)) = (file, path.parent()) {
            let opened = is_used(dir).then(|| files::open(dir, file, &self.guard()))?;
            return opened.err().map(|error| error.to_string());
        }
        let why = self.lacking.lock().get(path).cloned();
        why.filter(|_| is_used(path) && !path.is_dir())
    }

    /// Every file in `dir`, without texts; makes those that are missing.
    /// `BOOTSTRAP.md` is not listed after the first conversation. One that cannot
    /// be had, as a link out of the workspace, is listed with the reason. Blocks.
    pub fn list(&self, dir: &Path) -> Vec<FileEntry> {
        self.ensure(dir);
        let is_set_up = seed::is_set_up(dir);
        let files = BootstrapFile::ALL.into_iter();
        let shown = files.filter(|file| !is_set_up || *file != BootstrapFile::Bootstrap);
        let guard = self.guard();
        let look = |file| {
            files::look(dir, file, &guard)
                .unwrap_or_else(|error| FileEntry::withheld(dir, file, &error))
        };
        shown.map(look).collect()
    }

    /// One file with its text. Blocks.
    ///
    /// # Errors
    /// For one that leads out of the workspace, is the gateway's own, or is too large.
    pub fn get(&self, dir: &Path, file: BootstrapFile) -> Result<FileEntry, FilesError> {
        self.ensure(dir);
        files::read(dir, file, &self.guard())
    }

    /// Writes one file; it is durable when this returns. Blocks.
    ///
    /// # Errors
    /// For one that leads out of the workspace, is the gateway's own, too large or not
    /// writable.
    pub fn set(
        &self,
        dir: &Path,
        file: BootstrapFile,
        content: &str,
    ) -> Result<FileEntry, FilesError> {
        self.ensure(dir);
        files::write(dir, file, content, &self.guard())
    }

    /// What `IDENTITY.md` says; nothing when it is not there. Its picture is the
    /// one at `path` in the workspace, where the config names one. Makes no file.
    /// Blocks.
    pub fn identity(&self, dir: &Path, path: Option<&str>) -> FileIdentity {
        let read = self.texts.read(dir, BootstrapFile::Identity, &self.guard());
        let text = read.ok().flatten();
        let mut identity = text.map(|text| identity::parse(&text)).unwrap_or_default();
        let named = |path: &str| picture::in_workspace(dir, path);
        let of_file = identity.avatar.take();
        let of_file = of_file.or_else(|| identity.avatar_path.as_deref().and_then(named));
        identity.avatar = path.and_then(named).or(of_file);
        identity
    }

    fn guard(&self) -> Guard {
        Guard::new(&self.settings.now())
    }

    /// Makes what is missing. That it cannot be done keeps nobody from working.
    fn ensure(&self, dir: &Path) {
        if self.settings.now().workspace.skip_bootstrap {
            return;
        }
        if let Err(error) = seed::ensure(dir, self.clock.now_ms()) {
            self.complain(dir.to_owned(), &error);
        }
    }

    /// Notes what a prompt lacks.
    fn lack(&self, path: PathBuf, error: &dyn std::error::Error) {
        let mut lacking = self.lacking.lock();
        if lacking.len() < MAX_COMPLAINTS {
            lacking.insert(path.clone(), with_cause(error));
        }
        drop(lacking);
        self.complain(path, error);
    }

    fn complain(&self, path: PathBuf, error: &dyn std::error::Error) {
        let mut complained = self.complained.lock();
        if complained.len() < MAX_COMPLAINTS && !complained.contains(&path) {
            tracing::warn!(path = %path.display(), %error, "workspace not as it should be");
            complained.insert(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::agent::reach::testing::Scene;
    use crate::support::SystemClock;

    #[test]
    fn what_no_agent_has_any_more_is_not_lacking() {
        let scene = Scene::new();
        let settings = Live::new(scene.settings.clone());
        let workspaces = Workspaces::new(settings.clone(), Arc::new(SystemClock));
        let rules = scene.settings.agents.defaults.workspace.join("AGENTS.md");
        // Nothing can be read from it.
        fs::create_dir(&rules).unwrap();
        workspaces.lack(rules, &FilesError::Unsafe("AGENTS.md"));
        assert!(workspaces.lacking().unwrap().contains("AGENTS.md"));
        settings.change(|now| {
            let mut other = now.clone();
            other.agents.defaults.workspace = scene.at_home("other");
            other.agents.list.iter_mut().for_each(|it| it.workspace = scene.at_home("other"));
            other
        });
        assert_eq!(workspaces.lacking(), None);
        assert!(!workspaces.lacks_any());
    }
}
