//! A home for the tests of what reaches files.

use std::fs;
use std::path::{Path, PathBuf};

use super::Reach;
use crate::config::{Env, Overrides, Settings, load};

/// A home with the state in `.openclaw`, and the workspace in there.
pub struct Scene {
    dir: tempfile::TempDir,
    pub settings: Settings,
}

impl Scene {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(".openclaw/workspace")).unwrap();
        let env = Env::fixed([], dir.path().to_str().unwrap());
        let settings = load(&env, &Overrides { read_only: true, ..Overrides::default() }).unwrap();
        Self { dir, settings }
    }

    pub fn reach(&self, only_workspace: bool) -> Reach {
        let agent = self.settings.agents.agent_or_default("main");
        Reach::new(&self.settings, &agent, only_workspace)
    }

    /// A path in the workspace.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(".openclaw/workspace").join(name)
    }

    pub fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        write(&self.path(name), content);
    }

    /// A path in the home.
    pub fn at_home(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn put_at_home(&self, name: &str, content: &str) -> PathBuf {
        let path = self.at_home(name);
        write(&path, content);
        path
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}
