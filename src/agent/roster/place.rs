//! Where an agent may work.
//!
//! Promises: no agent works in a folder that holds secrets or conversations of
//! the gateway, or everything there is; links on the way are followed before
//! that is decided.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::error::RosterError;
use crate::config::document::ConfigIssue;
use crate::config::{Env, Paths, Settings};

/// The longest path that systems take.
const PATH_MAX: usize = 4096;
/// Folders of the state folder that an agent's own files may be in; the others
/// hold secrets, devices, files of chats. What begins with this may be one, too.
const OWN: &str = "workspace";
/// The folder with one folder for each agent, whose `workspace` may be one.
const AGENTS: &str = "agents";

/// Whether an agent may work in `dir`.
///
/// # Errors
/// Why not.
pub fn check(dir: &Path, paths: &Paths, env: &Env) -> Result<(), RosterError> {
    let refused = |reason| Err(RosterError::Place { path: dir.to_owned(), reason });
    let text = dir.as_os_str().as_encoded_bytes();
    if text.len() > PATH_MAX || text.iter().any(u8::is_ascii_control) {
        return refused("it is no path");
    }
    if !dir.is_absolute() || dir.components().any(|part| part == Component::ParentDir) {
        return refused("write it without ..");
    }
    let real = real(dir);
    if real.exists() && !real.is_dir() {
        return refused("it is no folder");
    }
    let state = self::real(&paths.state_dir);
    if state.starts_with(&real) || self::real(&paths.config_path).starts_with(&real) {
        return refused("it holds what the gateway keeps");
    }
    let homes = [env.home(), paths.home()];
    if homes.into_iter().flatten().any(|home| self::real(home).starts_with(&real)) {
        return refused("it is the home folder, or above it");
    }
    match real.strip_prefix(&state) {
        Ok(inside) if !is_own(inside) => {
            refused("what the gateway keeps is in there; use a folder of its own")
        }
        _ => Ok(()),
    }
}

/// The workspaces that the config names and in which no agent may work, with the reasons.
pub fn misplaced(settings: &Settings, env: &Env) -> Vec<ConfigIssue> {
    let (written, agents) = (&settings.raw["agents"], &settings.agents);
    let is_named = |it: &Value| it["workspace"].is_string();
    let usual = ("agents.defaults.workspace".to_owned(), &agents.defaults.workspace);
    let usual = is_named(&written["defaults"]).then_some(usual);
    let items = written["list"].as_array().into_iter().flatten();
    let own = items.zip(&agents.list).enumerate().filter(|(_, (item, _))| is_named(item));
    let own = own
        .map(|(index, (_, agent))| (format!("agents.list[{index}].workspace"), &agent.workspace));
    let wrong = |(path, dir): (String, &PathBuf)| {
        let why = check(dir, &settings.paths, env).err()?;
        Some(ConfigIssue { path, message: why.to_string() })
    };
    usual.into_iter().chain(own).filter_map(wrong).collect()
}

/// Whether this path below the state folder is one for files of agents.
fn is_own(inside: &Path) -> bool {
    let mut parts = inside.iter().map(|part| part.to_string_lossy());
    match parts.next() {
        Some(first) if first == AGENTS => parts.nth(1).is_some_and(|it| it.starts_with(OWN)),
        first => first.is_some_and(|it| it.starts_with(OWN)),
    }
}

/// The path with links followed, as far as there is something.
pub fn real(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    let mut at = path;
    loop {
        if let Ok(found) = std::fs::canonicalize(at) {
            return rest.iter().rev().fold(found, |path, part| path.join(part));
        }
        match (at.parent(), at.file_name()) {
            (Some(parent), Some(name)) => {
                rest.push(name.to_owned());
                at = parent;
            }
            _ => return path.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_holds_neither_secrets_nor_everything() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        let state = home.join(".openclaw");
        std::fs::create_dir_all(state.join("credentials")).unwrap();
        std::fs::write(home.join("file"), "x").unwrap();
        std::os::unix::fs::symlink(state.join("credentials"), home.join("link")).unwrap();
        let env = Env::fixed([], &home);
        let paths = Paths::resolve(&env).unwrap();
        let ok = |dir: PathBuf| check(&dir, &paths, &env).is_ok();
        for dir in [
            "ws",
            ".openclaw/workspace",
            ".openclaw/workspace-two",
            ".openclaw/workspace/two",
            ".openclaw/agents/two/workspace",
        ] {
            assert!(ok(home.join(dir)), "{dir}");
        }
        for dir in [
            "",
            "file",
            "link",
            "link/x",
            "ws/../.openclaw",
            ".openclaw",
            ".openclaw/credentials",
            ".openclaw/agents",
            ".openclaw/agents/main",
            ".openclaw/agents/main/sessions",
            ".openclaw/identity/x",
            "a\nb",
        ] {
            assert!(!ok(home.join(dir)), "{dir}");
        }
        assert!(!ok("/".into()) && !ok(root.path().to_owned()) && !ok("relative".into()));
        assert!(!ok(home.join("x".repeat(PATH_MAX))));
    }
}
