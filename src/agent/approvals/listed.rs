//! The programs that the allowlist may mean.
//!
//! Owns: which files no tool changes, since a command that names one of them may run
//! without a question. Promises: whatever link leads to one, it is one; where an entry
//! leaves it open, it is one. Must not: decide on commands.

use std::path::{Path, PathBuf};

use super::allowlist::Entry;
use super::policy::all_entries;
use super::resolve::{is_changeable, real};
use super::service::Approvals;
use crate::config::Settings;

/// The entries of all agents, and what is needed to follow them.
#[derive(Debug, Clone, Default)]
pub struct Listed {
    entries: Vec<Entry>,
    workspaces: Vec<PathBuf>,
    home: Option<PathBuf>,
    /// `PATH` of commands.
    search: Option<String>,
}

impl Listed {
    /// Whether an entry may speak for a program at this path; it need not be there.
    /// Touches the disk.
    pub fn may_mean(&self, path: &Path) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        let real = real(path);
        let place = if real.exists() { Some(&*real) } else { real.parent() };
        let (home, search) = (self.home.as_deref(), self.search.as_deref());
        // What anybody could have changed anyway is never run without a question.
        place.is_some_and(|place| !is_changeable(place, &self.workspaces))
            && self.entries.iter().any(|entry| entry.may_mean(&real, home, search))
    }
}

impl Approvals {
    /// The programs that commands may name without a question. From a file that cannot be
    /// read none runs.
    pub async fn listed(&self) -> Listed {
        let entries = self.file.read().await.map(|snapshot| all_entries(&snapshot.file));
        let settings = self.parts.settings.now();
        Listed {
            entries: entries.unwrap_or_default(),
            workspaces: workspaces(&settings),
            home: settings.paths.home().map(ToOwned::to_owned),
            search: settings.exec.search(),
        }
    }
}

/// Where agents write.
pub(super) fn workspaces(settings: &Settings) -> Vec<PathBuf> {
    let agents = &settings.agents;
    let own = agents.list.iter().map(|agent| agent.workspace.clone());
    own.chain([agents.defaults.workspace.clone()]).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::resolve::testing::{closed_dir, program};
    use super::*;
    use crate::agent::reach::ReachError;
    use crate::agent::reach::testing::Scene;
    use crate::support::json;

    #[test]
    fn a_program_is_meant_by_its_path_its_name_and_whatever_leads_to_it() {
        let home = closed_dir();
        let root = fs::canonicalize(home.path()).unwrap();
        for name in ["bin/one", "bin/two", "opt/three-1.2", "work/four"] {
            program(&root.join(name));
        }
        symlink(root.join("opt/three-1.2"), root.join("bin/three")).unwrap();
        symlink(root.join("bin"), root.join("link")).unwrap();
        let listed = |pattern: &str| Listed {
            entries: vec![Entry::read("main", &json!({ "pattern": pattern })).unwrap()],
            workspaces: vec![root.join("work")],
            home: Some(root.clone()),
            search: Some(root.join("bin").display().to_string()),
        };
        let at = |name: &str| root.join(name).display().to_string();
        for (pattern, path) in [
            (at("bin/one").as_str(), "bin/one"),
            (at("bin/one").as_str(), "link/../bin/one"),
            (at("link/one").as_str(), "bin/one"),
            ("~/bin/one", "link/one"),
            (at("bin/three").as_str(), "opt/three-1.2"),
            ("three", "opt/three-1.2"),
            ("one", "bin/one"),
            // It would be found before the other one.
            ("one", "opt/one"),
            (at("bin/new").as_str(), "link/new"),
            (at("opt/*").as_str(), "bin/two"),
        ] {
            assert!(listed(pattern).may_mean(&root.join(path)), "{pattern} {path}");
        }
        for (pattern, path) in [
            (at("bin/one").as_str(), "bin/two"),
            ("one", "bin/two"),
            ("~/bin/none", "bin/one"),
            ("*", "work/four"),
            (at("work/four").as_str(), "work/four"),
            ("*", "work/new"),
        ] {
            assert!(!listed(pattern).may_mean(&root.join(path)), "{pattern} {path}");
        }
        assert!(!Listed::default().may_mean(&root.join("bin/one")));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_link_that_leads_elsewhere_meanwhile_hides_no_program() {
        let (home, scene) = (closed_dir(), Scene::new());
        let root = fs::canonicalize(home.path()).unwrap();
        program(&root.join("one"));
        let entry = Entry::read("main", &json!({"pattern": root.join("one")})).unwrap();
        let listed = Listed { entries: vec![entry], ..Listed::default() };
        let link = scene.path("link");
        symlink(&root, &link).unwrap();
        let place = scene.reach(false).sparing(listed).find("link/one").unwrap();
        fs::remove_file(&link).unwrap();
        symlink(scene.path(""), &link).unwrap();
        for changed in [place.replace(b"x"), place.remove()] {
            let error = changed.unwrap_err();
            assert!(matches!(error, ReachError::Listed(_)), "{error}");
        }
        assert_eq!(fs::read_to_string(root.join("one")).unwrap(), "#!/bin/sh\n");
    }
}
