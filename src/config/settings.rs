//! The settings as a whole.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::channels::ChannelsSettings;
use super::cli_backend::CliBackend;
use super::mcp::McpConfig;
use super::models::ModelsConfig;
use super::profiles::ProfilesConfig;
use super::secrets::SecretsConfig;
use super::skills::SkillsSettings;
use super::voice::VoiceConfig;
use super::web::WebConfig;
use super::{
    AgentsSettings, AuthMode, BindChoice, CommandsSettings, CronSettings, Env, ExecPolicySettings,
    ExecSettings, Explained, GatewaySettings, HeartbeatSettings, HooksSettings, LoggingSettings,
    MessagesSettings, NodesSettings, OtelSettings, Paths, PushConfig, SessionSettings,
    ToolsSettings, Unset, WorkspaceSettings, dotenv,
};
use crate::support::{Secret, hex};

/// What the command line decides.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--port`; 0 takes any free one.
    pub port: Option<u16>,
    /// `--bind`.
    pub bind: Option<BindChoice>,
    /// `--auth`.
    pub auth: Option<AuthMode>,
    /// `--token`.
    pub token: Option<Secret>,
    /// `--password`.
    pub password: Option<Secret>,
    /// Only look: do not generate a token when there is none.
    pub read_only: bool,
}

/// Everything the gateway was told, checked.
#[derive(Clone)]
pub struct Settings {
    /// Where files live.
    pub paths: Paths,
    /// How to listen and whom to let in.
    pub gateway: GatewaySettings,
    /// How conversations are keyed and kept.
    pub session: SessionSettings,
    /// Who answers.
    pub agents: AgentsSettings,
    /// What they are told before anything else.
    pub workspace: WorkspaceSettings,
    /// Skills.
    pub skills: SkillsSettings,
    /// What happens to messages.
    pub messages: MessagesSettings,
    /// How commands run.
    pub exec: ExecSettings,
    /// Which commands may run and who is asked.
    pub exec_policy: ExecPolicySettings,
    /// What nodes may be asked to do, and which one runs commands.
    pub nodes: NodesSettings,
    /// Which tools agents may use.
    pub tools: ToolsSettings,
    /// Longest text in an answer of `chat.history`, in characters.
    pub history_max_chars: usize,
    /// The `models` section with its variables filled in; `null` when absent.
    pub models: ModelsConfig,
    /// `agents.defaults.cliBackends.claude-cli`: a program that answers.
    pub claude_cli: Option<CliBackend>,
    /// The `auth` section: which credential of a provider is tried when.
    pub profiles: ProfilesConfig,
    /// Which commands of chats are turned on.
    pub commands: CommandsSettings,
    /// The `secrets` section: whom to ask for secrets.
    pub secrets: SecretsConfig,
    /// `tools.web`: reading pages and searching.
    pub web: WebConfig,
    /// `messages.tts` and `talk`: speech.
    pub voice: VoiceConfig,
    /// `gateway.push`: notifications of browsers.
    pub push: PushConfig,
    /// The `mcp` section: servers that bring tools along.
    pub mcp: McpConfig,
    /// The `cron` section: jobs.
    pub cron: CronSettings,
    /// The `hooks` section: requests of other programs.
    pub hooks: HooksSettings,
    /// `diagnostics.otel`: to whom spans are told, if anybody.
    pub otel: Option<OtelSettings>,
    /// The `logging` section.
    pub logging: LoggingSettings,
    /// How often each agent is asked whether something is to be done.
    pub heartbeats: Vec<HeartbeatSettings>,
    /// How agents are asked that are not among those.
    pub heartbeat_of_others: HeartbeatSettings,
    /// The `channels` section and `bindings`: chat services.
    pub channels: ChannelsSettings,
    /// The config as written, with what it includes and unknown keys.
    pub raw: Value,
    /// The config file.
    pub file: ConfigFile,
    /// The files that it includes.
    pub included: Vec<PathBuf>,
    /// What is written otherwise than it is used, until a restart: paths of keys.
    pub pending: Vec<String>,
    /// Credentials that count as absent, since a variable is not set.
    pub unset: Vec<Unset>,
    /// Variables of the section `env`, for [`Settings::environment`].
    pub(super) variables: Arc<BTreeMap<String, Secret>>,
    /// Those of the file `.env`, for the same.
    pub(super) dotenv: Arc<BTreeMap<String, Secret>>,
    pub(super) explained: Vec<Explained>,
}

impl Settings {
    /// The config file, the file `.env`, and those that the config includes.
    pub fn files(&self) -> Vec<PathBuf> {
        self.paths.config_files().into_iter().chain(self.included.iter().cloned()).collect()
    }

    /// Whether the file `.env` had other variables for `other`.
    pub fn has_other_dotenv(&self, other: &Self) -> bool {
        self.dotenv != other.dotenv
    }

    /// Whether it has others by now. Blocks.
    pub fn is_dotenv_other(&self, env: &Env) -> bool {
        dotenv::beside(env, &self.paths).0.dotenv() != self.dotenv
    }

    /// The same, with keys whose new values wait for a restart.
    #[must_use]
    pub fn waiting_for_restart(&self, pending: Vec<String>) -> Self {
        Self { pending, ..self.clone() }
    }

    /// `env` with the variables of the file `.env` and of the section `env`, where
    /// it has none of that name.
    pub fn environment(&self, env: &Env) -> Env {
        env.with_dotenv(Arc::clone(&self.dotenv)).with(Arc::clone(&self.variables))
    }
}

/// The text the settings were read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// Where it is, or would be.
    pub path: PathBuf,
    /// Whether it is there.
    pub exists: bool,
    /// Whether it says nothing, not even `{}`.
    pub is_blank: bool,
    /// Lowercase hex SHA-256 of the text; of the empty text when there is none.
    pub hash: String,
}

impl ConfigFile {
    /// One with this text, wherever it is.
    pub(super) fn of(text: &str) -> Self {
        let (path, hash) = (PathBuf::new(), hex(Sha256::digest(text)));
        Self { path, exists: true, is_blank: text.trim().is_empty(), hash }
    }
}

/// Leaves out the sections with keys and tokens in them.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("paths", &self.paths)
            .field("gateway", &self.gateway)
            .field("session", &self.session)
            .field("agents", &self.agents)
            .field("messages", &self.messages)
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}
