//! What was chosen, and what to do next, in words.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::draft::Draft;
use super::gateway;
use super::script::Mode;
use crate::config::channels::ChannelKind;

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What this machine is.
    pub mode: Mode,
    /// The config file.
    pub config: PathBuf,
    /// Whether anything is different now.
    pub changed: bool,
    /// Whether a gateway that runs has to restart to use all of it.
    pub needs_restart: bool,
    /// The default model, when one is configured.
    pub model: Option<String>,
    /// The channels that are configured.
    pub channels: Vec<&'static str>,
    /// Where the agent works.
    pub workspace: PathBuf,
    /// Where the gateway listens; 0.0.0.0 is every address.
    pub address: std::net::SocketAddr,
    /// `gateway.auth.mode`.
    pub auth: String,
    /// Whether the gateway speaks TLS.
    pub is_tls: bool,
}

impl Outcome {
    pub(super) fn of(draft: &Draft, mode: Mode, changed: bool, needs_restart: bool) -> Self {
        let settings = &draft.settings;
        let agents = &settings.agents;
        Self {
            mode,
            config: settings.file.path.clone(),
            changed,
            needs_restart,
            model: agents.defaults.model.as_ref().map(|model| model.primary.clone()),
            channels: settings.channels.kinds().map(ChannelKind::as_str).collect(),
            workspace: agents.agent_or_default(&agents.default_id).workspace,
            address: (settings.gateway.bind.host(), settings.gateway.port).into(),
            auth: settings.gateway.auth.mode.to_string(),
            is_tls: settings.gateway.tls.enabled,
        }
    }

    /// The page to open.
    pub fn url(&self) -> String {
        let s = if self.is_tls { "s" } else { "" };
        let ip = self.address.ip();
        let host = if ip.is_unspecified() { "127.0.0.1".into() } else { ip.to_string() };
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        format!("http{s}://{host}:{}/", self.address.port())
    }
}

/// What will be, without secrets.
pub fn summary(draft: &Draft, mode: Mode) -> String {
    let settings = &draft.settings;
    if mode == Mode::Remote {
        let url = settings.gateway.remote.url.as_deref().unwrap_or("not set");
        return format!("Gateway    {url} (another machine)");
    }
    let agents = &settings.agents;
    let model = agents.defaults.model.as_ref().map(|model| model.primary.as_str());
    let model = model.unwrap_or("none yet: the gateway takes what it finds");
    let key = draft.key.as_ref().map(|key| {
        let file = super::access::StoredKey::file(draft);
        format!("\nKey        {} in {}", key.id(), file.display())
    });
    let channels: Vec<_> = settings.channels.kinds().map(ChannelKind::as_str).collect();
    let channels = if channels.is_empty() { "none".into() } else { channels.join(", ") };
    format!(
        "Model      {model}{}\nChannels   {channels}\nWorkspace  {}\nGateway    {}",
        key.unwrap_or_default(),
        agents.agent_or_default(&agents.default_id).workspace.display(),
        gateway::summary(&settings.gateway),
    )
}

/// What to type next, and why.
pub fn next_steps(outcome: &Outcome) -> Vec<(String, &'static str)> {
    let step = |command: &str, why| (command.to_owned(), why);
    if outcome.mode == Mode::Remote {
        return vec![step("clawgate status", "see whether it answers")];
    }
    let mut steps = vec![
        step("clawgate gateway", "start the gateway, unless it runs"),
        step("clawgate chat \"hi\"", "talk to the agent"),
        step("clawgate status", "see how it is"),
    ];
    if outcome.auth == "token" {
        steps.push(step("clawgate token", "the token for other clients"));
    }
    if outcome.channels.contains(&"telegram") {
        steps.push(step("clawgate pairing list", "let in who has written to the bot"));
    }
    if outcome.model.is_none() {
        steps.push(step("clawgate onboard", "choose a model"));
    }
    steps
}

pub(super) fn text(outcome: &Outcome) -> String {
    let changed = if outcome.changed { "is written" } else { "is as it was" };
    let mut text = format!("{} {changed}.", outcome.config.display());
    if outcome.needs_restart {
        text.push_str(" A gateway that runs uses all of it after a restart.");
    }
    text.push_str("\n\nNext:");
    for (command, why) in next_steps(outcome) {
        let _ = write!(text, "\n  {command:<22}  {why}");
    }
    if outcome.mode == Mode::Local {
        let _ = write!(text, "\n\nClients connect to {}", outcome.url());
    }
    text
}

pub(super) fn iso(now_ms: u64) -> String {
    let now = i64::try_from(now_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    format!("{:.3}", now.unwrap_or_default())
}
