//! `agents.defaults.cliBackends.claude-cli`: a program that answers instead of
//! a server.
//!
//! Owns: what to start and what it gets to know of our surroundings. Promises:
//! without that key there is none; no variable of ours is passed on but those
//! that a program needs to run. Must not: start anything.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::schema::Node;
use super::{ConfigError, Paths};
use crate::support::{Secret, find_program, sort};

/// The only one that we know, and its provider id.
pub const CLAUDE_CLI: &str = "claude-cli";

/// What every program may know: who and where it is, and how to reach others.
const PASSED: [&str; 25] = [
    "ALL_PROXY",
    "CLAUDE_CONFIG_DIR",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "PATH",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// How often it asks its provider again. Its own 10 times take minutes in which
/// it says nothing, and another model could have answered.
const RETRIES: (&str, &str) = ("CLAUDE_CODE_MAX_RETRIES", "2");

/// Where programs are when no variable says so.
pub const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program to start for each answer.
#[derive(Debug, Clone)]
pub struct CliBackend {
    /// Its absolute path, or its name in `PATH`.
    pub command: PathBuf,
    /// Arguments beside our own.
    pub args: Vec<String>,
    /// Variables to set. Secrets, since people put keys there.
    pub env: BTreeMap<String, Secret>,
    /// Variables of ours that it shall not get.
    pub clear_env: Vec<String>,
    /// Where it is started: the workspace of the default agent.
    pub directory: PathBuf,
    /// Where it finds what it is told of itself.
    pub prompts: PathBuf,
    /// Its own words for models.
    pub model_aliases: BTreeMap<String, String>,
}

impl CliBackend {
    /// The same with all variables that it gets, `lookup` being ours.
    #[must_use]
    pub fn in_environment(&self, lookup: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut env = passed(lookup);
        env.retain(|name, _| !self.clear_env.contains(name));
        env.insert(RETRIES.0.to_owned(), Secret::new(RETRIES.1));
        env.extend(self.env.clone());
        Self { env, ..self.clone() }
    }

    /// Where it is, if it is there and can be started, by the `PATH` that it gets.
    pub fn program(&self) -> Option<PathBuf> {
        let path = self.env.get("PATH").map_or(USUAL_PATH, Secret::expose);
        find_program(&self.command, path)
    }

    /// What nobody else gets to know.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let passed = |name: &String| PASSED.contains(&name.as_str()) || name == RETRIES.0;
        self.env.iter().filter(move |(name, _)| !passed(name)).map(|(_, secret)| secret)
    }
}

/// The variables of ours that every program gets.
pub fn passed(lookup: &dyn Fn(&str) -> Option<String>) -> BTreeMap<String, Secret> {
    let found = |name: &&str| Some(((*name).to_owned(), Secret::new(lookup(name)?)));
    sort::map(PASSED.iter().filter_map(found))
}

/// Reads it; `None` when the file does not ask for it.
pub(super) fn read(
    root: &Node<'_>,
    paths: &Paths,
    workspace: &Path,
) -> Result<Option<CliBackend>, ConfigError> {
    let node = root.at("agents.defaults.cliBackends")?.member(CLAUDE_CLI)?;
    if !node.is_set() {
        return Ok(None);
    }
    let texts = |name: &str| -> Result<Vec<(String, String)>, ConfigError> {
        let members = node.member(name)?.members()?.into_iter();
        members.map(|(name, node)| Ok((name, node.required_text()?))).collect()
    };
    let secret = |(name, text): (String, String)| (name, Secret::new(text));
    let command = node.member("command")?.text()?.unwrap_or_else(|| "claude".into());
    Ok(Some(CliBackend {
        command: if command.contains('/') { paths.expand(&command)? } else { command.into() },
        args: node.member("args")?.texts()?.unwrap_or_default(),
        env: sort::map(texts("env")?.into_iter().map(secret)),
        clear_env: node.member("clearEnv")?.texts()?.unwrap_or_default(),
        directory: workspace.to_owned(),
        prompts: paths.cli_prompts_dir(),
        model_aliases: sort::map(texts("modelAliases")?),
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::config::Env;
    use crate::support::json;

    use super::*;

    fn read(backends: &Value) -> Result<Option<CliBackend>, ConfigError> {
        let root = json!({"agents": {"defaults": {"cliBackends": backends}}});
        let paths = Paths::resolve(&Env::fixed([], "/home/u")).unwrap();
        super::read(&Node::root(&root, Path::new("openclaw.json")), &paths, Path::new("/w"))
    }

    #[test]
    fn there_is_one_only_when_it_is_asked_for() {
        assert!(read(&Value::Null).unwrap().is_none());
        assert!(read(&json!({"codex-cli": {}})).unwrap().is_none());
        let usual = read(&json!({"claude-cli": {}})).unwrap().unwrap().command;
        assert_eq!(usual, Path::new("claude"));
        let error = read(&json!({"claude-cli": {"args": [1]}})).unwrap_err().to_string();
        assert!(error.contains("agents.defaults.cliBackends.claude-cli.args[0]"), "{error}");
    }

    #[test]
    fn a_path_is_one_of_the_home_or_the_state_directory_and_a_name_one_of_path() {
        for (written, expected) in [
            ("~/bin/claude", "/home/u/bin/claude"),
            ("bin/claude", "/home/u/.openclaw/bin/claude"),
            ("/opt/claude", "/opt/claude"),
            ("claude-2", "claude-2"),
        ] {
            let backend = read(&json!({"claude-cli": {"command": written}})).unwrap().unwrap();
            assert_eq!(backend.command, Path::new(expected), "{written}");
        }
    }

    #[test]
    fn it_gets_what_it_needs_and_none_of_our_secrets() {
        let written = json!({"claude-cli": {"env": {"X_KEY": "key-1"}, "clearEnv": ["LANG"]}});
        let backend = read(&written).unwrap().unwrap();
        assert!(!format!("{backend:?}").contains("key-1"));
        let ours = |name: &str| Some(format!("our {name}"));
        let env = backend.in_environment(&ours).env;
        assert_eq!(env.get("PATH").unwrap().expose(), "our PATH");
        assert_eq!(env.get("X_KEY").unwrap().expose(), "key-1");
        assert_eq!(env.get("CLAUDE_CODE_MAX_RETRIES").unwrap().expose(), "2");
        for name in ["LANG", "ANTHROPIC_API_KEY", "OPENCLAW_GATEWAY_TOKEN"] {
            assert!(!env.contains_key(name), "{name}");
        }
    }
}
