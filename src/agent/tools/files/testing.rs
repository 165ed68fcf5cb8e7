//! A workspace for the tests of file tools.

use std::fs;
use std::path::PathBuf;

use crate::agent::reach::Reach;
use crate::config::{Env, Overrides, Settings, load};

/// A home with a workspace.
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
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}
