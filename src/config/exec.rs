//! `tools.exec`, as far as it says how commands run.
//!
//! Owns: limits, environment and confinement of commands. Promises: a command
//! gets no variable of the gateway's own but those that every program needs.
//! Must not: say which commands run (see [`super::exec_policy`]) or start any.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::agent_id::id_of;
use super::explain::{Choice, Ledger};
use super::schema::Node;
use super::{ConfigError, Env, Paths, SandboxSettings, exec_sandbox, is_variable};
use crate::support::sort;

/// As in the original.
const DEFAULT_BACKGROUND_MS: u64 = 10_000;
/// The original's bounds on that.
const BACKGROUND_MS: (u64, u64) = (10, 120_000);
/// As in the original.
const DEFAULT_TIMEOUT_SEC: u64 = 1800;
/// A month: longer than anything that is not meant to run for ever.
const MAX_TIMEOUT_SEC: u64 = 31 * 24 * 60 * 60;
/// As in the original.
const DEFAULT_CLEANUP_MS: u64 = 30 * 60 * 1000;
/// The original's bounds on that.
const CLEANUP_MS: (u64, u64) = (60 * 1000, 3 * 60 * 60 * 1000);
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
    /// The node of an agent that names one itself, for commands that name none.
    pub node: Option<String>,
    /// What holds for agents that say something themselves.
    own: BTreeMap<String, Self>,
}

impl ExecSettings {
    /// What holds for commands of this agent.
    pub fn of(&self, agent: &str) -> &Self {
        self.own.get(agent).unwrap_or(self)
    }

    /// Where programs of any agent are looked for.
    pub fn search(&self) -> Option<String> {
        let all = std::iter::once(self).chain(self.own.values());
        let places: Vec<_> = all.filter_map(|it| it.env.get("PATH")).map(String::as_str).collect();
        (!places.is_empty()).then(|| places.join(":"))
    }
}

pub(super) fn read(
    root: &Node<'_>,
    env: &Env,
    paths: &Paths,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<ExecSettings, ConfigError> {
    let node = root.at("tools.exec")?;
    let mut number = |name: &str, bounds: (u64, u64), default: u64| -> Result<u64, ConfigError> {
        let choice = Choice::file(file, node.member(name)?.bounded(bounds.0, bounds.1)?);
        Ok(ledger.settle(&format!("tools.exec.{name}"), choice, default))
    };
    let background = number("backgroundMs", BACKGROUND_MS, DEFAULT_BACKGROUND_MS)?;
    let timeout = number("timeoutSec", (1, MAX_TIMEOUT_SEC), DEFAULT_TIMEOUT_SEC)?;
    let cleanup = number("cleanupMs", CLEANUP_MS, DEFAULT_CLEANUP_MS)?;
    let mut flag = |name: &str, default: bool| -> Result<bool, ConfigError> {
        let choice = Choice::file(file, node.member(name)?.boolean()?);
        Ok(ledger.settle(&format!("tools.exec.{name}"), choice, default))
    };
    let notify_on_exit = flag("notifyOnExit", true)?;
    let notify_on_empty_success = flag("notifyOnExitEmptySuccess", false)?;
    let sandbox = exec_sandbox::read(root, file, ledger)?;
    let env_of_all = variables(&node, &node.member("pathPrepend")?, env, paths)?;
    let temporary = env_of_all.get("TMPDIR").map_or_else(|| "/tmp".into(), PathBuf::from);
    let mut settings = ExecSettings {
        background_after: Duration::from_millis(background),
        timeout: Duration::from_secs(timeout),
        keep_finished: Duration::from_millis(cleanup),
        notify_on_exit,
        notify_on_empty_success,
        sandbox,
        env: env_of_all,
        temporary,
        node: None,
        own: BTreeMap::new(),
    };
    let mut all = BTreeMap::new();
    for item in root.at("agents.list")?.items()? {
        let own = item.at("tools.exec")?;
        if own.value().is_some() {
            let id = id_of(&item.member("id")?.required_text()?);
            let prepend = own.member("pathPrepend")?;
            let prepend =
                if prepend.value().is_some() { prepend } else { node.member("pathPrepend")? };
            let of_agent = ExecSettings {
                sandbox: settings.sandbox.for_agent(&id),
                env: variables(&node, &prepend, env, paths)?,
                ..read_own(&own, &settings)?
            };
            all.insert(id, of_agent);
        }
    }
    settings.own = all;
    Ok(settings)
}

/// What an agent says itself, in the place of what holds for all.
fn read_own(node: &Node<'_>, all: &ExecSettings) -> Result<ExecSettings, ConfigError> {
    let number = |name: &str, bounds: (u64, u64)| -> Result<Option<u64>, ConfigError> {
        node.member(name)?.bounded(bounds.0, bounds.1)
    };
    let flag = |name: &str| -> Result<Option<bool>, ConfigError> { node.member(name)?.boolean() };
    let mut own = all.clone();
    own.node = node.member("node")?.text()?.map(|name| name.trim().to_owned());
    own.node = own.node.filter(|name| !name.is_empty());
    if let Some(background) = number("backgroundMs", BACKGROUND_MS)? {
        own.background_after = Duration::from_millis(background);
    }
    if let Some(timeout) = number("timeoutSec", (1, MAX_TIMEOUT_SEC))? {
        own.timeout = Duration::from_secs(timeout);
    }
    if let Some(notifies) = flag("notifyOnExit")? {
        own.notify_on_exit = notifies;
    }
    if let Some(notifies) = flag("notifyOnExitEmptySuccess")? {
        own.notify_on_empty_success = notifies;
    }
    Ok(own)
}

/// What commands get to know: of our own variables those that are passed, and
/// what `tools.exec.env` and `pathPrepend` say.
fn variables(
    node: &Node<'_>,
    prepend: &Node<'_>,
    env: &Env,
    paths: &Paths,
) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut variables =
        sort::map(PASSED.iter().filter_map(|name| Some(((*name).to_owned(), env.get(name)?))));
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
    for item in prepend.items()? {
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
        load_whole(&json!({"tools": {"exec": exec}}))
    }

    fn load_whole(document: &Value) -> Result<ExecSettings, String> {
        let env = Env::fixed(
            [("PATH", "/bin"), ("LANG", "C"), ("ANTHROPIC_API_KEY", "sk-1"), ("LD_PRELOAD", "x")],
            "/home/u",
        );
        let paths = Paths::resolve(&env).unwrap();
        let file = Path::new("x.json");
        read(&Node::root(document, file), &env, &paths, file, &mut Ledger::default())
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
    fn times_beyond_their_bounds_count_as_these_as_in_the_original() {
        let long = json!({"backgroundMs": 300_000, "timeoutSec": 99_999_999,
            "cleanupMs": 86_400_000});
        let times = |exec: &Value| {
            let settings = load(exec).unwrap();
            (settings.background_after, settings.timeout, settings.keep_finished)
        };
        let most = (Duration::from_mins(2), Duration::from_hours(31 * 24), Duration::from_hours(3));
        assert_eq!(times(&long), most);
        let short = json!({"backgroundMs": 1, "timeoutSec": 1, "cleanupMs": 1});
        let least = (Duration::from_millis(10), Duration::from_secs(1), Duration::from_mins(1));
        assert_eq!(times(&short), least);
    }

    #[test]
    fn what_an_agent_says_itself_holds_for_its_commands() {
        let document = json!({
            "tools": {"exec": {"timeoutSec": 60, "pathPrepend": ["/all"], "env": {"A": "1"}}},
            "agents": {"list": [
                {"id": "main"},
                {"id": "Ops", "tools": {"exec": {"timeoutSec": 5, "backgroundMs": 100,
                    "notifyOnExit": false, "pathPrepend": ["/ops"], "node": " box "}}},
            ]},
        });
        let settings = load_whole(&document).unwrap();
        let path = |exec: &ExecSettings| exec.env["PATH"].split(':').next().unwrap().to_owned();
        let (main, ops) = (settings.of("main"), settings.of("ops"));
        assert_eq!((main.timeout, path(main)), (Duration::from_mins(1), "/all".into()));
        assert_eq!((ops.timeout, path(ops)), (Duration::from_secs(5), "/ops".into()));
        assert_eq!(ops.background_after, Duration::from_millis(100));
        assert!(main.notify_on_exit && !ops.notify_on_exit);
        assert_eq!((main.node.as_deref(), ops.node.as_deref()), (None, Some("box")));
        assert_eq!(ops.env["A"], "1");
        let search = settings.search().unwrap();
        assert!(search.starts_with("/all:") && search.contains(":/ops:"), "{search}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_key() {
        for (exec, key) in [
            (json!({"timeoutSec": 0}), "tools.exec.timeoutSec"),
            (json!({"backgroundMs": -1}), "tools.exec.backgroundMs"),
            (json!({"env": {"A-B": "1"}}), "tools.exec.env.A-B"),
            (json!({"env": {"A": 1}}), "tools.exec.env.A"),
            (json!({"notifyOnExit": "no"}), "tools.exec.notifyOnExit"),
        ] {
            let error = load(&exec).err().unwrap();
            assert!(error.contains(key), "{error} names {key}");
        }
    }
}
