//! `tools.guardrails`: what is done about the tool calls of runs beside the policy.
//!
//! Owns: the strategies, and which holds for a call. Promises: off unless it is
//! written; a call that nothing is said of gets the default. Must not: carry a
//! strategy out, or grant anything: tool policy and exec approvals hold as well, so
//! the strictest wins.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::ConfigError;
use super::explain::{Choice, Ledger};
use super::schema::Node;
use super::tools::ToolPattern;

/// How long a person may think; then it is a no, as in the upstream of the action
/// chat.
pub const GUARDRAIL_ASK_LIMIT: Duration = Duration::from_mins(5);
/// A rule more is one more look at each call.
const MAX_RULES: usize = 200;
/// The strategies for error texts.
const STRATEGIES: &str = "allow, deny, hitl, pitl, aitl, filter";
/// The tool by which a model only says what it is about to do.
const INTENT: &str = "report_intent";

/// What is done about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// It goes on.
    Allow,
    /// It is refused.
    Deny,
    /// A person is asked.
    Hitl,
    /// A person is called on the phone.
    Pitl,
    /// A model is asked.
    Aitl,
    /// A prompt shield looks at it.
    Filter,
}

impl Strategy {
    /// Every strategy.
    pub const ALL: [Self; 6] =
        [Self::Allow, Self::Deny, Self::Hitl, Self::Pitl, Self::Aitl, Self::Filter];

    /// The word in the config and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Hitl => "hitl",
            Self::Pitl => "pitl",
            Self::Aitl => "aitl",
            Self::Filter => "filter",
        }
    }

    /// The strategy of a word. `ask` is an older one for a person's word.
    pub fn parse(word: &str) -> Option<Self> {
        let word = if word == "ask" { "hitl" } else { word };
        Self::ALL.into_iter().find(|strategy| strategy.as_str() == word)
    }
}

/// On whose account a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunContext {
    /// Somebody said something and waits.
    Interactive,
    /// Jobs, heartbeats and sub-agents.
    Background,
}

impl RunContext {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Interactive, Self::Background];

    /// The word in the config and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Background => "background",
        }
    }

    /// The context of a word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|context| context.as_str() == word)
    }
}

/// Strategies by tool; names are those of [`tool_id`].
pub type ToolStrategies = BTreeMap<String, Strategy>;

/// A rule for what no policy names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardrailRule {
    /// Its id; unique.
    pub id: String,
    /// Tools by name, or MCP servers by name.
    pub pattern: ToolPattern,
    /// Whether the pattern names servers.
    pub is_of_servers: bool,
    /// What is done.
    pub action: Strategy,
    /// Whether it holds.
    pub enabled: bool,
    /// Where it holds; everywhere when empty.
    pub contexts: Vec<RunContext>,
    /// For which models; all when empty.
    pub models: Vec<ToolPattern>,
}

/// What the section says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardrailSettings {
    /// Whether any of it holds.
    pub enabled: bool,
    /// For what nothing else is said of.
    pub default_strategy: Strategy,
    /// For what no policy names.
    pub context_defaults: BTreeMap<RunContext, Strategy>,
    /// By context and tool.
    pub tool_policies: BTreeMap<RunContext, ToolStrategies>,
    /// By model, context and tool.
    pub model_policies: BTreeMap<String, BTreeMap<RunContext, ToolStrategies>>,
    /// The first that fits counts.
    pub rules: Vec<GuardrailRule>,
    /// The model that reviews; the default one when absent.
    pub review_model: Option<String>,
}

impl Default for GuardrailSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            default_strategy: Strategy::Allow,
            context_defaults: BTreeMap::new(),
            tool_policies: BTreeMap::new(),
            model_policies: BTreeMap::new(),
            rules: Vec::new(),
            review_model: None,
        }
    }
}

/// A call that is to be judged.
#[derive(Debug, Clone, Copy)]
pub struct GuardedCall<'a> {
    /// On whose account.
    pub context: RunContext,
    /// The provider of the model that calls.
    pub provider: &'a str,
    /// That model.
    pub model: &'a str,
    /// The tool.
    pub tool: &'a str,
    /// The MCP server that it is of.
    pub server: Option<&'a str>,
}

impl GuardrailSettings {
    /// What is done about a call. The first that says something counts: the model's
    /// policy, the context's for the tool, the context's default, the rules, the
    /// default.
    pub fn strategy(&self, call: &GuardedCall<'_>) -> Strategy {
        if !self.enabled || call.tool == INTENT {
            return Strategy::Allow;
        }
        let full = format!("{}/{}", call.provider, call.model).to_lowercase();
        let of_model = self.model_policies.get(&full);
        let of_model = of_model.or_else(|| self.model_policies.get(&call.model.to_lowercase()));
        of_model
            .and_then(|contexts| of_tool(contexts.get(&call.context)?, call))
            .or_else(|| of_tool(self.tool_policies.get(&call.context)?, call))
            .or_else(|| self.context_defaults.get(&call.context).copied())
            .or_else(|| {
                let fits = |rule: &&GuardrailRule| rule.fits(call, &full);
                self.rules.iter().find(fits).map(|rule| rule.action)
            })
            .unwrap_or(self.default_strategy)
    }
}

fn of_tool(strategies: &ToolStrategies, call: &GuardedCall<'_>) -> Option<Strategy> {
    let server = || strategies.get(&tool_id(&format!("mcp:{}", call.server?)));
    strategies.get(&tool_id(call.tool)).or_else(server).copied()
}

impl GuardrailRule {
    fn fits(&self, call: &GuardedCall<'_>, model: &str) -> bool {
        let in_context = self.contexts.is_empty() || self.contexts.contains(&call.context);
        let short = call.model.to_lowercase();
        let of_model = self.models.is_empty()
            || self.models.iter().any(|it| it.matches(model) || it.matches(&short));
        let name = if self.is_of_servers { call.server } else { Some(call.tool) };
        let is_named = name.is_some_and(|name| self.pattern.matches(&tool_id(name)));
        self.enabled && in_context && of_model && is_named
    }
}

/// The name by which policies know a tool: ours for those that have another one in the
/// action chat's upstream, in small letters; `mcp:<server>` for all of a server.
pub fn tool_id(written: &str) -> String {
    let written = written.trim().to_lowercase();
    let own = match written.as_str() {
        "bash" | "run" => "exec",
        "view" => "read",
        "create" => "write",
        "apply-patch" => "apply_patch",
        other => other,
    };
    own.to_owned()
}

pub(super) fn read(
    tools: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<GuardrailSettings, ConfigError> {
    let node = tools.member("guardrails")?;
    let enabled = Choice::file(file, node.member("enabled")?.boolean()?);
    let enabled = ledger.settle("tools.guardrails.enabled", enabled, false);
    let default = strategy(&node.member("defaultStrategy")?)?;
    let shown = Choice::file(file, default.map(Strategy::as_str));
    ledger.settle("tools.guardrails.defaultStrategy", shown, Strategy::Allow.as_str());
    let reviewer = Choice::file(file, node.member("reviewModel")?.text()?);
    let mut context_defaults = BTreeMap::new();
    for (context, node) in contexts(&node.member("contextDefaults")?)? {
        context_defaults.extend(strategy(&node)?.map(|strategy| (context, strategy)));
    }
    let mut model_policies = BTreeMap::new();
    for (model, node) in node.member("modelPolicies")?.members()? {
        model_policies.insert(model.trim().to_lowercase(), policies(&node)?);
    }
    let rules = node.member("rules")?;
    let read: Vec<_> = rules.items()?.iter().map(rule).collect::<Result<_, _>>()?;
    if read.len() > MAX_RULES {
        return Err(rules.wrong(&format!("must have at most {MAX_RULES} rules")));
    }
    for (index, rule) in read.iter().enumerate() {
        if read[..index].iter().any(|other| other.id == rule.id) {
            return Err(rules.wrong(&format!("has two rules with the id {}", rule.id)));
        }
    }
    Ok(GuardrailSettings {
        enabled,
        default_strategy: default.unwrap_or(Strategy::Allow),
        context_defaults,
        tool_policies: policies(&node.member("toolPolicies")?)?,
        model_policies,
        rules: read,
        review_model: ledger.settle_optional("tools.guardrails.reviewModel", reviewer),
    })
}

fn strategy(node: &Node<'_>) -> Result<Option<Strategy>, ConfigError> {
    node.word(STRATEGIES, Strategy::parse)
}

fn contexts<'a>(node: &Node<'a>) -> Result<Vec<(RunContext, Node<'a>)>, ConfigError> {
    let known = |(name, node): (String, Node<'a>)| {
        let context = RunContext::parse(&name);
        context
            .map(|context| (context, node.clone()))
            .ok_or_else(|| node.wrong("is no context; there are interactive and background"))
    };
    node.members()?.into_iter().map(known).collect()
}

fn policies(node: &Node<'_>) -> Result<BTreeMap<RunContext, ToolStrategies>, ConfigError> {
    let mut read = BTreeMap::new();
    for (context, node) in contexts(node)? {
        let mut strategies = ToolStrategies::new();
        for (tool, node) in node.members()? {
            strategies.extend(strategy(&node)?.map(|strategy| (tool_id(&tool), strategy)));
        }
        read.insert(context, strategies);
    }
    Ok(read)
}

fn rule(node: &Node<'_>) -> Result<GuardrailRule, ConfigError> {
    let pattern = node.member("pattern")?;
    let of = |node: &Node<'_>, text: &str| {
        ToolPattern::parse(&tool_id(text)).ok_or_else(|| node.wrong("must be the name of a tool"))
    };
    let action = node.member("action")?;
    let scope = node.member("scope")?.word("tool, mcp", |word| match word {
        "tool" => Some(false),
        "mcp" => Some(true),
        _ => None,
    })?;
    // For people.
    node.member("name")?.text()?;
    node.member("description")?.text()?;
    node.member("hitlChannel")?.word("chat", |word| (word == "chat").then_some(()))?;
    let mut contexts = Vec::new();
    for node in node.member("contexts")?.items()? {
        contexts.extend(node.word("interactive, background", RunContext::parse)?);
    }
    let models = node.member("models")?;
    let model = |text: &String| {
        ToolPattern::parse(text).ok_or_else(|| models.wrong("must be names of models"))
    };
    Ok(GuardrailRule {
        id: node.member("id")?.required_text()?,
        pattern: of(&pattern, &pattern.required_text()?)?,
        is_of_servers: scope.unwrap_or_default(),
        action: strategy(&action)?.unwrap_or(Strategy::Hitl),
        enabled: node.member("enabled")?.boolean()?.unwrap_or(true),
        contexts,
        models: models.texts()?.unwrap_or_default().iter().map(model).collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    use crate::support::json;

    fn load(section: &Value) -> Result<GuardrailSettings, String> {
        let (document, file) = (json!({ "guardrails": section }), Path::new("x.json"));
        read(&Node::root(&document, file), file, &mut Ledger::default())
            .map_err(|error| error.to_string())
    }

    fn judged(section: &Value, context: RunContext, tool: &str) -> Strategy {
        let server = tool.split_once("__").map(|(server, _)| server);
        let call = GuardedCall { context, provider: "openai", model: "gpt-5", tool, server };
        load(section).unwrap().strategy(&call)
    }

    const BOTH: [RunContext; 2] = RunContext::ALL;

    #[test]
    fn off_everything_goes_on_and_intent_always_does() {
        for context in BOTH {
            let off = json!({"defaultStrategy": "deny"});
            assert_eq!(judged(&off, context, "exec"), Strategy::Allow);
            let deny = json!({"enabled": true, "defaultStrategy": "deny"});
            assert_eq!(judged(&deny, context, "exec"), Strategy::Deny);
            assert_eq!(judged(&deny, context, "report_intent"), Strategy::Allow);
        }
        assert_eq!(load(&json!({})).unwrap(), GuardrailSettings::default());
    }

    /// Each level says a strategy of its own; taken away one by one from above,
    /// the next one counts.
    #[test]
    fn every_strategy_holds_on_every_level_in_every_context_until_a_higher_one_speaks() {
        type Level = fn(&mut Value, RunContext, Strategy);
        let levels: [Level; 5] = [
            |at, _, strategy| at["defaultStrategy"] = json!(strategy.as_str()),
            |at, context, strategy| {
                at["rules"] = json!([
                    {"id": "0", "pattern": "*", "action": "deny", "enabled": false},
                    {"id": "1", "pattern": "*", "action": "deny", "models": ["claude*"]},
                    {"id": "2", "pattern": "*", "scope": "mcp", "action": "deny"},
                    {"id": "3", "pattern": "ex*", "action": strategy.as_str(),
                        "contexts": [context.as_str()], "models": ["openai/*"]},
                    {"id": "4", "pattern": "*", "action": "deny"}]);
            },
            |at, context, strategy| {
                at["contextDefaults"] = json!({(context.as_str()): strategy.as_str()});
            },
            |at, context, strategy| {
                at["toolPolicies"] = json!({(context.as_str()): {"bash": strategy.as_str()}});
            },
            |at, context, strategy| {
                at["modelPolicies"] =
                    json!({"OpenAI/GPT-5": {(context.as_str()): {"exec": strategy.as_str()}}});
            },
        ];
        for context in BOTH {
            for strategy in Strategy::ALL {
                for top in 0..levels.len() {
                    let mut section = json!({"enabled": true});
                    for (index, level) in levels.iter().enumerate().take(top + 1) {
                        let below = if strategy == Strategy::Deny {
                            Strategy::Allow
                        } else {
                            Strategy::Deny
                        };
                        level(&mut section, context, if index == top { strategy } else { below });
                    }
                    assert_eq!(judged(&section, context, "exec"), strategy, "{section}");
                }
            }
        }
    }

    #[test]
    fn what_is_said_of_one_context_or_tool_says_nothing_of_another() {
        let section = json!({"enabled": true, "toolPolicies": {"background": {"exec": "deny",
            "mcp:docs": "hitl", "docs__read": "allow"}}});
        let [interactive, background] = BOTH;
        assert_eq!(judged(&section, interactive, "exec"), Strategy::Allow);
        assert_eq!(judged(&section, background, "read"), Strategy::Allow);
        assert_eq!(judged(&section, background, "docs__write"), Strategy::Hitl);
        assert_eq!(judged(&section, background, "docs__read"), Strategy::Allow);
        assert_eq!(judged(&section, background, "other__write"), Strategy::Allow);
    }

    #[test]
    fn a_wrong_value_is_an_error_that_names_it() {
        for (wrong, key) in [
            (
                json!({"defaultStrategy": "maybe"}),
                "guardrails.defaultStrategy: must be one of allow",
            ),
            (json!({"enabled": "x"}), "guardrails.enabled"),
            (json!({"contextDefaults": {"voice": "deny"}}), "guardrails.contextDefaults.voice"),
            (json!({"toolPolicies": {"background": {"exec": 1}}}), "toolPolicies.background.exec"),
            (json!({"rules": [{"id": "a"}]}), "pattern"),
            (json!({"rules": [{"id": "a", "pattern": "x", "scope": "all"}]}), "scope"),
            (json!({"rules": [{"id": "a", "pattern": "x"}, {"id": "a", "pattern": "y"}]}), "id a"),
        ] {
            let error = load(&wrong).unwrap_err();
            assert!(error.contains(key), "{error} names {key}");
        }
    }
}
