//! `gateway.dialects.claude.projects`, `.projectsDir`: the sessions that Claude
//! Code itself has on this machine.

use std::path::PathBuf;

use super::ConfigError;
use super::explain::{Choice, Ledger, Origin};
use super::gateway::Sources;
use super::schema::Node;

/// Names another folder than `~/.claude` to Claude Code.
const FOLDER: &str = "CLAUDE_CONFIG_DIR";
const PROJECTS: &str = "projects";

/// The folder with them; `None` when they are not to be shown, or when there is
/// no home folder to look in.
pub(super) fn read(
    gateway: &Node<'_>,
    from: &Sources<'_>,
    ledger: &mut Ledger,
) -> Result<Option<PathBuf>, ConfigError> {
    let node = gateway.member("dialects")?.member("claude")?;
    let is_shown = Choice::file(from.file, node.member("projects")?.boolean()?);
    let is_shown = ledger.settle("gateway.dialects.claude.projects", is_shown, true);
    let named = node.member("projectsDir")?;
    let is_named = named.text()?.is_some_and(|text| !text.trim().is_empty());
    let named = if is_named { named.path(from.paths)? } else { None };
    let (folder, origin) = match (named, from.env.get(FOLDER)) {
        (Some(named), _) => (Some(named), Origin::File(from.file.to_owned())),
        (None, Some(set)) => (Some(from.paths.expand(&set)?.join(PROJECTS)), Origin::Env(FOLDER)),
        (None, None) => {
            let folder = from.env.home().map(|home| home.join(".claude").join(PROJECTS));
            (folder, Origin::Default)
        }
    };
    let shown = folder.as_ref().map(|folder| folder.display().to_string());
    ledger.note("gateway.dialects.claude.projectsDir", shown.unwrap_or_default(), origin);
    Ok(folder.filter(|_| is_shown))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use crate::support::json;

    use super::super::{Env, Overrides, Paths};
    use super::*;

    fn folder<const N: usize>(claude: &Value, env: [(&str, &str); N]) -> Option<PathBuf> {
        let root = json!({"dialects": {"claude": claude}});
        let (file, env) = (Path::new("x.json"), Env::fixed(env, "/home/u"));
        let (overrides, paths) = (Overrides::default(), Paths::resolve(&env).unwrap());
        let from = Sources { env: &env, overrides: &overrides, paths: &paths, file };
        read(&Node::root(&root, file), &from, &mut Ledger::default()).unwrap()
    }

    #[test]
    fn the_folder_is_where_claude_code_has_it_unless_the_file_names_another_or_none() {
        let claude = [("CLAUDE_CONFIG_DIR", "/c")];
        let some = |path: &str| Some(PathBuf::from(path));
        assert_eq!(folder(&json!({}), []), some("/home/u/.claude/projects"));
        assert_eq!(folder(&json!({"projectsDir": ""}), claude), some("/c/projects"));
        assert_eq!(folder(&json!({"projectsDir": "/p"}), claude), some("/p"));
        assert_eq!(folder(&json!({"projects": false, "projectsDir": "/p"}), claude), None);
    }
}
