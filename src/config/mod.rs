//! The effective settings: flags, environment, `openclaw.json`, defaults.
//!
//! Owns: reading and checking the config, and knowing where each value comes
//! from. Promises: flag beats environment beats file beats default; an error
//! names the key and what it must be; loading never writes the user's file.
//! Must not: ask the process for its arguments or variables (see [`Env`]).

mod agent_id;
mod agents;
mod auth;
mod bind;
pub mod channels;
mod claude_projects;
pub mod cli_backend;
mod commands;
mod control_ui;
mod cron;
mod dialects;
pub mod document;
mod dotenv;
pub mod edit;
mod env;
mod env_section;
mod error;
mod exec;
mod exec_policy;
mod exec_sandbox;
mod explain;
mod file_rules;
mod fillings;
pub mod foreign;
mod gateway;
mod guardrails;
mod heartbeat;
mod hiding;
pub mod hooks;
mod http;
pub mod include;
pub mod keys;
mod load;
mod logging;
mod maintenance;
pub mod mcp;
mod memory_flush;
pub mod memory_search;
mod messages;
mod metrics;
pub mod model_options;
pub mod models;
mod nesting;
mod nodes;
mod otel;
mod paths;
pub mod profiles;
pub mod provider_request;
mod proxies;
mod pruning;
mod push;
pub mod redact;
mod reload;
mod reset;
mod salvage;
mod save;
mod schema;
pub mod secrets;
mod session;
mod settings;
pub mod skills;
mod subagents;
mod substitute;
mod tls;
mod token;
mod tools;
mod unset;
mod variables;
pub mod voice;
pub mod watch;
pub mod web;
mod workspace;

pub use agent_id::id_of as agent_id;
pub use agents::{
    AgentDefaults, AgentIdentity, AgentSettings, AgentsSettings, ModelSetting, NamedModel,
};
pub use auth::{AuthMode, AuthSettings, RateLimitSettings};
pub use bind::{Bind, BindChoice};
pub use commands::CommandsSettings;
pub use control_ui::{EmbedSandbox, UiSettings, vain_origins};
pub use cron::{
    CronRetryOn, CronRetrySettings, CronSettings, FailureAlertSettings, FailureDestinationSettings,
    MissedPolicy,
};
pub use dialects::DialectsSettings;
pub use dotenv::fault as dotenv_fault;
pub use env::{ALLOW_PLAIN, Env, allows_plain};
pub use error::ConfigError;
pub use exec::ExecSettings;
pub use exec_policy::{APPROVAL_TIMEOUT_MAX, ExecAsk, ExecPolicySettings, ExecRules, ExecSecurity};
pub use exec_sandbox::{ExecPlace, ExecSandbox, SandboxSettings};
pub use explain::{Explained, Origin};
pub use file_rules::FileRules;
pub use gateway::{ControlUiSettings, DEFAULT_PORT, GatewayMode, GatewaySettings};
pub use guardrails::{
    GUARDRAIL_ASK_LIMIT, GuardedCall, GuardrailRule, GuardrailSettings, RunContext, Strategy,
    tool_id,
};
pub use heartbeat::{ActiveHours, HEARTBEAT_PROMPT, HeartbeatSettings};
pub use hiding::variable as hide_variable;
pub use hooks::HooksSettings;
pub use http::{EndpointSettings, HttpSettings};
pub use load::{check, load, load_text, parse, parse_value, preview, read_text};
pub use logging::{LogLevel, LoggingSettings};
pub use maintenance::{DiskBudget, MaintenanceMode, MaintenanceSettings, duration_or_zero};
pub use memory_flush::MemoryFlush;
pub use messages::{DropPolicy, MessagesSettings, QueueMode, QueueSettings};
pub use metrics::MetricsSettings;
pub use nodes::NodesSettings;
pub use otel::OtelSettings;
pub use paths::Paths;
pub use proxies::{ProxyRange, ProxySettings, ProxyUserSettings};
pub use pruning::PruningSettings;
pub use push::{PushConfig, WebPushConfig};
pub use redact::{REDACTED, is_secret, redacted};
pub use reload::{ReloadMode, ReloadSettings};
pub use reset::{ResetPolicy, ResetSettings, ResetType};
pub use salvage::salvage;
pub use save::{SaveError, edit_file};
pub use session::{DmScope, SessionScope, SessionSettings, TranscriptFormat, TypingMode};
pub use settings::{ConfigFile, Overrides, Settings};
pub use subagents::{SubagentChoice, SubagentLimits};
pub use tls::{RemoteSettings, TlsSettings};
pub use tools::{
    AgentToAgent, SessionVisibility, ToolPattern, ToolPolicy, ToolProfile, ToolRules, ToolsSettings,
};
pub use unset::Unset;
pub use variables::{decides_code, is_variable};
pub use workspace::WorkspaceSettings;
