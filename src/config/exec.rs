//! `tools.exec`, as far as it says how commands run.
//!
//! Owns: limits, environment and confinement of commands. Promises: a command
//! gets no variable of the gateway's own but those that every program needs.
//! Must not: say which commands run (see [`super::exec_policy`]) or start any.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::explain::{Choice, Ledger};
use super::schema::Node;
use super::{ConfigError, Env, Paths, SandboxSettings, exec_sandbox, is_variable};

/// As in the original.
const DEFAULT_BACKGROUND_MS: u64 = 10_000;
/// The original's bounds on that.
const MIN_BACKGROUND_MS: u64 = 10;
const MAX_BACKGROUND_MS: u64 = 120_000;
/// As in the original.
const DEFAULT_TIMEOUT_SEC: u64 = 1800;
/// A month: longer than anything that is not meant to run for ever.
const MAX_TIMEOUT_SEC: u64 = 31 * 24 * 60 * 60;
/// As in the original.
const DEFAULT_CLEANUP_MS: u64 = 30 * 60 * 1000;
/// The original's bounds on that.
const MIN_CLEANUP_MS: u64 = 60 * 1000;
const MAX_CLEANUP_MS: u64 = 3 * 60 * 60 * 1000;
/// Where programs are when the gateway itself was not told.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What every command may know of the gateway's own surroundings.
const PASSED: [&str; 11] = [
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ",
    "USER",
];

/// How commands run.
#[derive(Clone)]
pub struct ExecSettings {
    /// A command that runs for longer than this goes on in the background.
    pub background_after: Duration,
    /// A command that does not ask for more is ended after this.
    pub timeout: Duration,
    /// How long what a background command has said is kept after its end.
    pub keep_finished: Duration,
    /// Whether a session is told of the end of a background command.
    pub notify_on_exit: bool,
    /// The same for one that had nothing to say and went well.
    pub notify_on_empty_success: bool,
    /// How they are confined.
    pub sandbox: SandboxSettings,
    /// The variables that every command gets. It has no `Debug`: people put
    /// keys there.
    pub env: BTreeMap<String, String>,
    /// Where programs are told to put temporary files.
    pub temporary: PathBuf,
}

pub(super) fn read(
    root: &Node<'_>,
    env: &Env,
    paths: &Paths,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<ExecSettings, ConfigError> {
    let node = root.at("tools.exec")?;
    let mut number = |name: &str, max: u64, default: u64| -> Result<u64, ConfigError> {
        let choice = Choice::file(file, node.member(name)?.integer(max)?);
        Ok(ledger.settle(&format!("tools.exec.{name}"), choice, default))
    };
    let background = number("backgroundMs", MAX_BACKGROUND_MS, DEFAULT_BACKGROUND_MS)?;
    let timeout = number("timeoutSec", MAX_TIMEOUT_SEC, DEFAULT_TIMEOUT_SEC)?;
    let cleanup = number("cleanupMs", MAX_CLEANUP_MS, DEFAULT_CLEANUP_MS)?;
    let mut flag = |name: &str, default: bool| -> Result<bool, ConfigError> {
        let choice = Choice::file(file, node.member(name)?.boolean()?);
        Ok(ledger.settle(&format!("tools.exec.{name}"), choice, default))
    };
    let notify_on_exit = flag("notifyOnExit", true)?;
    let notify_on_empty_success = flag("notifyOnExitEmptySuccess", false)?;
    let sandbox = exec_sandbox::read(root, file, ledger)?;
    let variables = variables(&node, env, paths)?;
    let temporary = variables.get("TMPDIR").map_or_else(|| "/tmp".into(), PathBuf::from);
    Ok(ExecSettings {
        background_after: Duration::from_millis(background.max(MIN_BACKGROUND_MS)),
        timeout: Duration::from_secs(timeout),
        keep_finished: Duration::from_millis(cleanup.max(MIN_CLEANUP_MS)),
        notify_on_exit,
        notify_on_empty_success,
        sandbox,
        env: variables,
        temporary,
    })
}

/// What commands get to know: of our own variables those that are passed, and
/// what `tools.exec.env` and `tools.exec.pathPrepend` say.
fn variables(
    node: &Node<'_>,
    env: &Env,
    paths: &Paths,
) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut variables: BTreeMap<String, String> =
        PASSED.iter().filter_map(|name| Some(((*name).to_owned(), env.get(name)?))).collect();
    variables.entry("PATH".into()).or_insert_with(|| DEFAULT_PATH.into());
    variables.entry("TERM".into()).or_insert_with(|| "dumb".into());
    if let Some(home) = env.home().and_then(Path::to_str) {
        variables.entry("HOME".into()).or_insert_with(|| home.into());
    }
    for (name, value) in node.member("env")?.members()? {
        if !is_variable(&name) {
            return Err(value.wrong("is no name of a variable"));
        }
        variables.insert(name, value.required_text()?);
    }
    let mut places = Vec::new();
    for item in node.member("pathPrepend")?.items()? {
        if let Some(place) = item.path(paths)? {
            places.push(place.to_string_lossy().into_owned());
        }
    }
    if let Some(path) = variables.get_mut("PATH") {
        places.push(std::mem::take(path));
        *path = places.join(":");
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::support::json;

    use super::*;

    fn load(exec: &Value) -> Result<ExecSettings, String> {
        let env = Env::fixed(
            [("PATH", "/bin"), ("LANG", "C"), ("ANTHROPIC_API_KEY", "sk-1"), ("LD_PRELOAD", "x")],
            "/home/u",
        );
        let paths = Paths::resolve(&env).unwrap();
        let document = json!({"tools": {"exec": exec}});
        let file = Path::new("x.json");
        read(&Node::root(&document, file), &env, &paths, file, &mut Ledger::default())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_command_gets_what_every_program_needs_and_none_of_our_secrets() {
        let settings =
            load(&json!({"env": {"EXTRA": "1"}, "pathPrepend": ["~/bin", "/opt/bin"]})).unwrap();
        let expected = [
            ("EXTRA", "1"),
            ("HOME", "/home/u"),
            ("LANG", "C"),
            ("PATH", "/home/u/bin:/opt/bin:/bin"),
            ("TERM", "dumb"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(settings.env, BTreeMap::from(expected));
        assert_eq!(settings.background_after, Duration::from_secs(10));
        assert_eq!(settings.timeout, Duration::from_mins(30));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_key() {
        for (exec, key) in [
            (json!({"timeoutSec": 0}), "tools.exec.timeoutSec"),
            (json!({"backgroundMs": 120_001}), "tools.exec.backgroundMs"),
            (json!({"env": {"A-B": "1"}}), "tools.exec.env.A-B"),
            (json!({"env": {"A": 1}}), "tools.exec.env.A"),
            (json!({"notifyOnExit": "no"}), "tools.exec.notifyOnExit"),
        ] {
            let error = load(&exec).err().unwrap();
            assert!(error.contains(key), "{error} names {key}");
        }
    }
}
