//! From the arguments of `exec` to what is asked of the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::agent::approvals::{ExecHost, ExecRequest};
use crate::agent::exec::environment;
use crate::agent::tools::ToolContext;
use crate::config::{ExecAsk, ExecPlace, ExecSandbox, ExecSecurity, ExecSettings};
use crate::support::{Secret, reading};

/// The original's bounds on how long a call waits for its command.
const MIN_YIELD: Duration = Duration::from_millis(10);
const MAX_YIELD: Duration = Duration::from_mins(2);
/// A month: longer than anything that is not meant to run for ever.
const MAX_TIMEOUT: Duration = Duration::from_hours(31 * 24);

/// The arguments; the schema has checked their types.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Arguments {
    command: String,
    workdir: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    yield_ms: Option<f64>,
    #[serde(default)]
    background: bool,
    timeout: Option<f64>,
    #[serde(default)]
    pty: bool,
    host: Option<String>,
    security: Option<String>,
    ask: Option<String>,
    node: Option<String>,
}

impl Arguments {
    /// Reads them.
    ///
    /// # Errors
    /// In words for the model.
    pub fn read(arguments: &Value) -> Result<Self, String> {
        let read: Self = reading::of(arguments).map_err(|error| error.to_string())?;
        if read.command.trim().is_empty() {
            return Err("Provide a command to start.".into());
        }
        if read.command.contains('\0') {
            return Err("A command cannot contain a NUL byte.".into());
        }
        Ok(read)
    }

    /// The command.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// The node that it names, if it names one.
    pub fn node(&self) -> Option<&str> {
        self.node.as_deref().map(str::trim).filter(|name| !name.is_empty())
    }

    /// Where it is to run, if it says so.
    pub fn workdir(&self) -> Option<&str> {
        self.workdir.as_deref().map(str::trim).filter(|given| !given.is_empty())
    }

    /// The variables that it sets, as a node gets them.
    ///
    /// # Errors
    /// For one that no call may set, in words for the model.
    pub fn variables(&self) -> Result<BTreeMap<String, String>, String> {
        environment::check(&self.env)?;
        Ok(self.env.clone())
    }

    /// Whether a node can do it.
    ///
    /// # Errors
    /// In words for the model, when not.
    pub fn is_for_nodes(&self) -> Result<(), String> {
        if self.pty || self.background {
            return Err("exec host=node runs in the foreground and without a terminal: leave \
                        background and pty out"
                .into());
        }
        Ok(())
    }

    /// What somebody has to permit, for a command that runs on a node in `cwd`.
    ///
    /// # Errors
    /// In words for the model.
    pub fn request_on_node(
        &self,
        cx: &ToolContext,
        cwd: PathBuf,
        env: &BTreeMap<String, String>,
    ) -> Result<ExecRequest, String> {
        Ok(ExecRequest {
            command: self.command.clone(),
            cwd,
            env: env.clone(),
            env_asked: env.keys().cloned().collect(),
            has_terminal: false,
            host: ExecHost::Node,
            agent: cx.agent.id.clone(),
            workspace: cx.agent.workspace.clone(),
            session: cx.key.clone(),
            run_id: cx.run.as_ref().map(|run| run.id.clone()),
            call_id: cx.call_id.clone(),
            security: read_word("security", self.security.as_deref(), ExecSecurity::parse)?,
            ask: read_word("ask", self.ask.as_deref(), ExecAsk::parse)?,
        })
    }

    /// How long to wait for the end of the command.
    pub fn patience(&self, settings: &ExecSettings) -> Duration {
        match self.yield_ms {
            _ if self.background => Duration::ZERO,
            Some(given) => duration(given / 1000.0, MAX_YIELD).max(MIN_YIELD),
            None => settings.background_after,
        }
    }

    /// When the command is ended. Who says that it may go on in the background,
    /// and no time, gives it all the time.
    pub fn time_limit(&self, settings: &ExecSettings) -> Option<Duration> {
        match self.timeout {
            None if self.background || self.yield_ms.is_some() => None,
            _ => self.time_limit_on_node(settings),
        }
    }

    /// When a node ends the command: it is waited for, so that nothing but the call's own
    /// `timeout` gives it more time than is usual.
    pub fn time_limit_on_node(&self, settings: &ExecSettings) -> Option<Duration> {
        match self.timeout {
            Some(given) => Some(duration(given, MAX_TIMEOUT)).filter(|limit| !limit.is_zero()),
            None => Some(settings.timeout),
        }
    }

    /// What somebody has to permit. `of_skills` are the variables of the agent's
    /// skills.
    ///
    /// # Errors
    /// In words for the model, when something that it wants cannot be had.
    pub fn request(
        &self,
        cx: &ToolContext,
        settings: &ExecSettings,
        host: ExecHost,
        of_skills: &BTreeMap<String, Secret>,
    ) -> Result<ExecRequest, String> {
        let security = read_word("security", self.security.as_deref(), ExecSecurity::parse)?;
        let ask = read_word("ask", self.ask.as_deref(), ExecAsk::parse)?;
        Ok(ExecRequest {
            command: self.command.clone(),
            cwd: self.directory(&cx.agent.workspace, settings),
            env: environment::merge(settings, of_skills, &self.env, self.pty)?,
            env_asked: self.env.keys().cloned().collect::<BTreeSet<_>>(),
            has_terminal: self.pty,
            host,
            agent: cx.agent.id.clone(),
            workspace: cx.agent.workspace.clone(),
            session: cx.key.clone(),
            run_id: cx.run.as_ref().map(|run| run.id.clone()),
            call_id: cx.call_id.clone(),
            security,
            ask,
        })
    }

    /// Where it runs: confined when the call, the session or the config says so.
    /// `sessions` are the words of the session and of those that spawned it.
    ///
    /// # Errors
    /// In words for the model, when that place is not here.
    pub fn host<'a>(
        &self,
        sessions: impl Iterator<Item = &'a str>,
        settings: &ExecSettings,
        sandbox: ExecSandbox,
    ) -> Result<ExecHost, String> {
        let asked = read_word("host", self.host.as_deref(), ExecPlace::parse)?;
        let mut said = vec![asked, Some(settings.sandbox.place)];
        for word in sessions {
            said.push(read_word("host", Some(word), ExecPlace::parse)?);
        }
        let is_confined = sandbox != ExecSandbox::Off || said.contains(&Some(ExecPlace::Sandbox));
        if said.contains(&Some(ExecPlace::Node)) {
            // What is confined does not get out by way of another machine, and
            // what was sent to one does not come back.
            let is_here = |place: &Option<ExecPlace>| *place == Some(ExecPlace::Gateway);
            if is_confined || said.iter().any(is_here) {
                return Err(
                    "exec host not allowed: this session or the config says that commands \
                            run elsewhere"
                        .into(),
                );
            }
            return Ok(ExecHost::Node);
        }
        Ok(if is_confined { ExecHost::Sandbox } else { ExecHost::Gateway })
    }

    fn directory(&self, workspace: &Path, settings: &ExecSettings) -> PathBuf {
        let given = self.workdir.as_deref().map(str::trim).filter(|given| !given.is_empty());
        let home = || settings.env.get("HOME").map(Path::new);
        match given {
            None => workspace.to_owned(),
            Some("~") => home().unwrap_or(workspace).to_owned(),
            Some(given) => match (given.strip_prefix("~/"), home()) {
                (Some(rest), Some(home)) => home.join(rest),
                _ => workspace.join(given),
            },
        }
    }
}

/// Seconds, at most so many.
fn duration(seconds: f64, max: Duration) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).map_or(max, |given| given.min(max))
}

fn word(text: Option<&str>) -> Option<String> {
    text.map(|text| text.trim().to_lowercase()).filter(|text| !text.is_empty())
}

fn read_word<T>(
    name: &str,
    text: Option<&str>,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    let Some(text) = word(text) else { return Ok(None) };
    parse(&text).map(Some).ok_or_else(|| format!("unknown exec {name} \"{text}\""))
}
