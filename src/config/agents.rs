//! The `agents` section: who answers, with which model, in which directory.
//!
//! Owns: defaults and list of agents. Promises: there is at least one agent,
//! ids are unique and fit for file names, and one is the default. Must not:
//! know whether a model exists.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::agent_id::id_of;
use super::explain::{Choice, Ledger};
use super::memory_flush::{self, MemoryFlush};
use super::memory_search::{self, MemorySearchConfig};
use super::pruning::{self, PruningSettings};
use super::schema::{MAX_INTEGER, Node};
use super::subagents::{self, SubagentChoice, SubagentLimits};
use super::tools::{self, ToolPolicy};
use super::{ConfigError, Paths, models};

/// 48 hours, the original's bound on a run.
const DEFAULT_TIMEOUT_SECONDS: u64 = 172_800;
/// As in the original.
const DEFAULT_MEDIA_MAX_MB: f64 = 20.0;
/// Runs at a time over all sessions. The original allows 4; a run mostly waits
/// for its provider.
const DEFAULT_MAX_CONCURRENT: usize = 32;
/// Tokens that a compaction keeps, as in the original's session manager.
const DEFAULT_KEEP_RECENT_TOKENS: u64 = 20_000;
/// Tokens that stay free for an answer, as in the original: its session manager keeps fewer,
/// but never below a floor.
const DEFAULT_RESERVE_TOKENS: u64 = 20_000;
/// The same where the file has a lower floor.
const RESERVE_TOKENS_WITH_FLOOR: u64 = 16_384;

/// How much of tool calls channels show.
pub(super) const VERBOSE: [&str; 3] = ["off", "on", "full"];
/// The same of thoughts.
pub(super) const REASONING: [&str; 3] = ["off", "on", "stream"];

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentsSettings {
    /// The agent of keys that name none.
    pub default_id: String,
    /// Every agent; never empty.
    pub list: Vec<AgentSettings>,
    /// What holds for agents that say nothing else.
    pub defaults: AgentDefaults,
    /// Whether the file lists agents; else there is one that it does not name.
    pub is_list_written: bool,
}

impl AgentsSettings {
    /// The agent with this id.
    pub fn agent(&self, id: &str) -> Option<&AgentSettings> {
        self.list.iter().find(|agent| agent.id == id)
    }

    /// Id of the agent whose rules hold for this id: what is denied to the default one is not
    /// to be had by a name that nobody has.
    pub fn ruling_id<'a>(&'a self, id: &'a str) -> &'a str {
        if self.has(id) { id } else { &self.default_id }
    }

    /// That agent.
    pub fn ruling(&self, id: &str) -> Option<&AgentSettings> {
        self.agent(self.ruling_id(id))
    }

    /// Whether there is an agent with this id; the default one is always there.
    pub fn has(&self, id: &str) -> bool {
        id == self.default_id || self.agent(id).is_some()
    }

    /// Whether the file lists an agent with this id.
    pub fn is_written(&self, id: &str) -> bool {
        self.is_list_written && self.agent(id).is_some()
    }

    /// Other agents that this one may have sub-agents of; `*` is any.
    pub fn spawnable(&self, id: &str) -> &[String] {
        let own = self.agent(id).map(|agent| agent.subagents.allow_agents.as_slice());
        own.filter(|own| !own.is_empty()).unwrap_or(&self.defaults.subagents.allow_agents)
    }

    /// Every name of a model here, but for the list of those that may be chosen.
    pub fn model_names(&self) -> Vec<&str> {
        let agents = self.list.iter().filter_map(|agent| agent.model.as_ref());
        let settings = self.defaults.model.iter().chain(agents);
        let names = settings.flat_map(|setting| {
            let fallbacks = setting.fallbacks.iter().flatten();
            std::iter::once(&setting.primary).chain(fallbacks)
        });
        names.map(String::as_str).collect()
    }

    /// How much of tool calls channels show in a session of this agent: what the session says,
    /// else what is usual.
    pub fn verbose_level<'a>(&'a self, id: &str, said: Option<&'a str>) -> Option<&'a str> {
        let usual = || self.agent(id).and_then(|agent| agent.verbose_default.as_deref());
        said.or_else(usual).or(self.defaults.verbose_default.as_deref())
    }

    /// The same of thoughts.
    pub fn reasoning_level<'a>(&'a self, id: &str, said: Option<&'a str>) -> Option<&'a str> {
        let usual = || self.agent(id).and_then(|agent| agent.reasoning_default.as_deref());
        said.or_else(usual).or(self.defaults.reasoning_default.as_deref())
    }

    /// Who makes vectors of texts for this agent.
    pub fn memory_search(&self, id: &str) -> MemorySearchConfig {
        let all = &self.defaults.memory_search;
        self.agent(id).map_or_else(|| all.clone(), |agent| agent.memory_search.over(all))
    }

    /// The agent with this id, or what an agent is that is not configured.
    pub fn agent_or_default(&self, id: &str) -> AgentSettings {
        self.agent(id)
            .cloned()
            .unwrap_or_else(|| AgentSettings::bare(id, self.defaults.workspace.clone()))
    }
}

/// One agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSettings {
    /// `[a-z0-9][a-z0-9_-]{0,63}`.
    pub id: String,
    /// Name for people.
    pub name: Option<String>,
    /// How it presents itself.
    pub identity: AgentIdentity,
    /// Where its own files are.
    pub workspace: PathBuf,
    /// Its model, when it is not the default one.
    pub model: Option<ModelSetting>,
    /// How hard its models think where nobody says so, as far as it does.
    pub thinking_default: Option<String>,
    /// How much of its tool calls channels show, as far as it says so.
    pub verbose_default: Option<String>,
    /// The same of its thoughts.
    pub reasoning_default: Option<String>,
    /// Which tools it may use, on top of what holds for every agent.
    pub tools: ToolPolicy,
    /// What its sub-agents may be, as far as it says so.
    pub subagents: SubagentChoice,
    /// Who makes vectors of texts for it, as far as it says so.
    pub memory_search: MemorySearchConfig,
}

impl AgentSettings {
    /// An agent of which only this is said.
    pub(crate) fn bare(id: &str, workspace: PathBuf) -> Self {
        Self {
            id: id.to_owned(),
            name: None,
            identity: AgentIdentity::default(),
            workspace,
            model: None,
            thinking_default: None,
            verbose_default: None,
            reasoning_default: None,
            tools: ToolPolicy::default(),
            subagents: SubagentChoice::default(),
            memory_search: MemorySearchConfig::default(),
        }
    }
}

/// How an agent presents itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentIdentity {
    /// What it calls itself.
    pub name: Option<String>,
    /// Its emoji.
    pub emoji: Option<String>,
    /// Path or URL of its picture.
    pub avatar: Option<String>,
    /// A few words on its manner.
    pub theme: Option<String>,
}

/// What holds for every agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentDefaults {
    /// Workspace of the default agent.
    pub workspace: PathBuf,
    /// The model to use.
    pub model: Option<ModelSetting>,
    /// The model that describes pictures, for those that see none.
    pub image_model: Option<ModelSetting>,
    /// Models that sessions may choose, and other names for them; any model
    /// when there is none.
    pub models: Vec<NamedModel>,
    /// Thinking level of sessions that have none of their own.
    pub thinking_default: Option<String>,
    /// How much of tool calls channels show in sessions that say nothing else.
    pub verbose_default: Option<String>,
    /// The same of thoughts.
    pub reasoning_default: Option<String>,
    /// A run is stopped after so long.
    pub timeout_seconds: u64,
    /// Most bytes of an attachment.
    pub media_max_bytes: u64,
    /// Runs at a time.
    pub max_concurrent: usize,
    /// At least so many of the newest tokens are kept by a compaction.
    pub compaction_keep_recent_tokens: u64,
    /// A conversation is compacted when less than this is left for an answer.
    pub compaction_reserve_tokens: u64,
    /// What an agent writes down before that.
    pub memory_flush: MemoryFlush,
    /// What the model no longer reads of old results of tools.
    pub pruning: Option<PruningSettings>,
    /// Bounds on sessions that agents begin themselves.
    pub subagent_limits: SubagentLimits,
    /// What these may be, for agents that say nothing else.
    pub subagents: SubagentChoice,
    /// Who makes vectors of texts.
    pub memory_search: MemorySearchConfig,
}

/// Which model answers, and which ones when it cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSetting {
    /// `provider/model`.
    pub primary: String,
    /// Tried in this order; those of the defaults when an agent says nothing.
    pub fallbacks: Option<Vec<String>>,
}

/// `agents.defaults.models.<name>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedModel {
    /// `provider/model`.
    pub name: String,
    /// A shorter name for it.
    pub alias: Option<String>,
    /// How hard it thinks where nobody says so.
    pub thinking: Option<String>,
}

pub(super) fn read(
    root: &Node<'_>,
    paths: &Paths,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<AgentsSettings, ConfigError> {
    let node = root.member("agents")?;
    let defaults_node = node.member("defaults")?;
    let written_workspace = defaults_node.member("workspace")?.path(paths)?;
    let defaults = defaults(&defaults_node, written_workspace.as_deref(), paths, file, ledger)?;
    let items = node.member("list")?.items()?;
    let default_id = default_id(&items)?;
    let mut list: Vec<AgentSettings> = Vec::with_capacity(items.len().max(1));
    for item in &items {
        let id = agent_id(item)?;
        if list.iter().any(|agent| agent.id == id) {
            return Err(item.member("id")?.wrong(&format!("`{id}` is there twice")));
        }
        let workspace = match item.member("workspace")?.path(paths)? {
            Some(own) => own,
            None if id == default_id => defaults.workspace.clone(),
            None => match &written_workspace {
                Some(shared) => shared.join(&id),
                None => paths.state_dir.join(format!("workspace-{id}")),
            },
        };
        list.push(agent(item, id, workspace)?);
    }
    if list.is_empty() {
        list.push(AgentSettings::bare(&default_id, defaults.workspace.clone()));
    }
    let ids = list.iter().map(|agent| agent.id.clone()).collect::<Vec<_>>().join(", ");
    let written = (!items.is_empty()).then_some(ids.clone());
    ledger.settle("agents.list", Choice::file(file, written), ids);
    Ok(AgentsSettings { default_id, list, defaults, is_list_written: !items.is_empty() })
}

fn defaults(
    node: &Node<'_>,
    workspace: Option<&Path>,
    paths: &Paths,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<AgentDefaults, ConfigError> {
    let key = |name| format!("agents.defaults.{name}");
    let shown = workspace.map(|path| path.display().to_string());
    let standard = paths.state_dir.join("workspace");
    ledger.settle(&key("workspace"), Choice::file(file, shown), standard.display().to_string());
    let image_model = model(&node.member("imageModel")?)?;
    let model = model(&node.member("model")?)?;
    let primary = model.as_ref().map(|model| model.primary.clone());
    ledger.settle_optional(&key("model.primary"), Choice::file(file, primary));
    let image_primary = image_model.as_ref().map(|model| model.primary.clone());
    ledger.settle_optional(&key("imageModel.primary"), Choice::file(file, image_primary));
    let models = named_models(&node.member("models")?)?;
    let names = models.iter().map(|model| model.name.clone()).collect::<Vec<_>>();
    let names = Some(names).filter(|names| !names.is_empty());
    ledger.settle_list(&key("models"), Choice::file(file, names), Vec::new());
    let fallbacks = model.as_ref().and_then(|model| model.fallbacks.clone());
    ledger.settle_list(&key("model.fallbacks"), Choice::file(file, fallbacks), Vec::new());
    let thinking = Choice::file(file, thinking_default(node)?);
    let verbose = Choice::file(file, level(node, "verboseDefault", &VERBOSE)?);
    let reasoning = Choice::file(file, level(node, "reasoningDefault", &REASONING)?);
    let timeout = Choice::file(file, node.member("timeoutSeconds")?.count()?);
    let media = Choice::file(file, megabytes(&node.member("mediaMaxMb")?)?);
    let media = ledger.settle(&key("mediaMaxMb"), media, DEFAULT_MEDIA_MAX_MB);
    let concurrent = Choice::file(file, node.member("maxConcurrent")?.count()?);
    let keep = Choice::file(file, node.at("compaction.keepRecentTokens")?.count()?);
    let reserve =
        Choice::file(file, node.at("compaction.reserveTokens")?.integer_or_zero(MAX_INTEGER)?);
    let floor: Option<u64> =
        node.at("compaction.reserveTokensFloor")?.integer_or_zero(MAX_INTEGER)?;
    ledger.settle_optional(&key("compaction.reserveTokensFloor"), Choice::file(file, floor));
    let usual_reserve = floor.map_or(DEFAULT_RESERVE_TOKENS, |_| RESERVE_TOKENS_WITH_FLOOR);
    let of_subagents = node.member("subagents")?;
    Ok(AgentDefaults {
        workspace: workspace.map_or(standard, Path::to_owned),
        model,
        image_model,
        models,
        thinking_default: ledger.settle_optional(&key("thinkingDefault"), thinking),
        verbose_default: ledger.settle_optional(&key("verboseDefault"), verbose),
        reasoning_default: ledger.settle_optional(&key("reasoningDefault"), reasoning),
        timeout_seconds: ledger.settle(&key("timeoutSeconds"), timeout, DEFAULT_TIMEOUT_SECONDS),
        media_max_bytes: bytes(media),
        max_concurrent: ledger.settle(&key("maxConcurrent"), concurrent, DEFAULT_MAX_CONCURRENT),
        compaction_keep_recent_tokens: ledger.settle(
            &key("compaction.keepRecentTokens"),
            keep,
            DEFAULT_KEEP_RECENT_TOKENS,
        ),
        compaction_reserve_tokens: ledger
            .settle(&key("compaction.reserveTokens"), reserve, usual_reserve)
            .max(floor.unwrap_or_default()),
        memory_flush: memory_flush::read(&node.at("compaction.memoryFlush")?, file, ledger)?,
        pruning: pruning::read(&node.member("contextPruning")?, file, ledger)?,
        subagent_limits: subagents::limits(&of_subagents, file, ledger)?,
        subagents: subagents::choice(&of_subagents)?,
        memory_search: memory_search::read(&node.member("memorySearch")?)?,
    })
}

/// The agent that says so, else the first, else `main`.
fn default_id(items: &[Node<'_>]) -> Result<String, ConfigError> {
    for item in items {
        if item.member("default")?.boolean()? == Some(true) {
            return agent_id(item);
        }
    }
    items.first().map_or_else(|| Ok("main".into()), agent_id)
}

fn agent_id(item: &Node<'_>) -> Result<String, ConfigError> {
    Ok(id_of(&item.member("id")?.required_text()?))
}

fn megabytes(node: &Node<'_>) -> Result<Option<f64>, ConfigError> {
    let Some(value) = node.value() else { return Ok(None) };
    let number = value.as_f64().filter(|number| *number > 0.0);
    number.map(Some).ok_or_else(|| node.wrong("must be a positive number"))
}

/// So many MiB.
fn bytes(megabytes: f64) -> u64 {
    Duration::try_from_secs_f64(megabytes * 1_048_576.0).map_or(u64::MAX, |bytes| bytes.as_secs())
}

fn agent(item: &Node<'_>, id: String, workspace: PathBuf) -> Result<AgentSettings, ConfigError> {
    let identity = item.member("identity")?;
    Ok(AgentSettings {
        id,
        name: item.member("name")?.text()?,
        identity: AgentIdentity {
            name: identity.member("name")?.text()?,
            emoji: identity.member("emoji")?.text()?,
            avatar: identity.member("avatar")?.text()?,
            theme: identity.member("theme")?.text()?,
        },
        workspace,
        model: model(&item.member("model")?)?,
        thinking_default: thinking_default(item)?,
        verbose_default: level(item, "verboseDefault", &VERBOSE)?,
        reasoning_default: level(item, "reasoningDefault", &REASONING)?,
        tools: tools::policy(&item.member("tools")?)?,
        subagents: subagents::choice(&item.member("subagents")?)?,
        memory_search: memory_search::read(&item.member("memorySearch")?)?,
    })
}

/// A bare `provider/model`, or `{primary, fallbacks}`. Without a primary there
/// is nothing to set.
pub(super) fn model(node: &Node<'_>) -> Result<Option<ModelSetting>, ConfigError> {
    if node.value().is_none_or(serde_json::Value::is_string) {
        return Ok(node.text()?.map(|primary| ModelSetting { primary, fallbacks: None }));
    }
    let fallbacks = node.member("fallbacks")?.texts()?;
    let primary = node.member("primary")?.text()?;
    Ok(primary.map(|primary| ModelSetting { primary, fallbacks }))
}

fn named_models(node: &Node<'_>) -> Result<Vec<NamedModel>, ConfigError> {
    let named = |(name, node): (String, Node<'_>)| {
        let alias = node.member("alias")?.text()?.map(|alias| alias.trim().to_owned());
        // OpenClaw takes anything here, and knows objects for some providers.
        let thinking = node.at("params.thinking")?;
        let thinking =
            thinking.value().and_then(serde_json::Value::as_str).and_then(thinking_level);
        Ok(NamedModel { name, alias, thinking: thinking.map(ToOwned::to_owned) })
    };
    let mut models =
        node.members()?.into_iter().map(named).collect::<Result<Vec<_>, ConfigError>>()?;
    models::fill_aliases(&mut models);
    Ok(models)
}

/// A member that is one of these words.
fn level(node: &Node<'_>, name: &str, levels: &[&str]) -> Result<Option<String>, ConfigError> {
    let known = |word: &str| levels.contains(&word).then(|| word.to_owned());
    node.member(name)?.word(&levels.join(", "), known)
}

/// How hard models think where nobody says so.
fn thinking_default(node: &Node<'_>) -> Result<Option<String>, ConfigError> {
    let level = node.member("thinkingDefault")?.word(THINKING_LEVELS, thinking_level)?;
    Ok(level.map(ToOwned::to_owned))
}

/// The words of `thinkingDefault`.
const THINKING_LEVELS: &str = "off, minimal, low, medium, high, xhigh, adaptive, max";

/// The level that a word means. A model that cannot adapt thinks as with
/// `medium`, one that is to think as much as it can as with `xhigh`.
fn thinking_level(word: &str) -> Option<&'static str> {
    Some(match word {
        "off" => "off",
        "minimal" => "minimal",
        "low" => "low",
        "medium" | "adaptive" => "medium",
        "high" => "high",
        "xhigh" | "max" => "xhigh",
        _ => return None,
    })
}
