//! How risky tools are, and the presets that follow from it.

use serde_json::Value;

use crate::agent::tools::catalog;
use crate::config::{RunContext, Strategy};
use crate::registry::Ctx;

/// How much harm a call can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Risk {
    /// It only reads.
    Low,
    /// It changes what is the agent's own, or asks the net.
    Medium,
    /// It runs programs, speaks for its user, or nobody knows.
    High,
}

impl Risk {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// That of a tool of this name. Unknown is high.
    pub fn of(tool: &str) -> Self {
        match tool {
            "read" | "memory_search" | "memory_get" | "sessions_list" | "sessions_history"
            | "session_status" | "agents_list" | "image" | "gateway" => Self::Low,
            "write" | "edit" | "apply_patch" | "web_search" | "web_fetch" | "cron"
            | "sessions_spawn" | "subagents" => Self::Medium,
            _ => Self::High,
        }
    }
}

/// Something that a policy can name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarded {
    /// What policies call it.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// What it is good for.
    pub description: String,
    /// How risky it is.
    pub risk: Risk,
    /// Whether it is an MCP server.
    pub is_server: bool,
}

/// What there is: tools that are built in and offered, and MCP servers.
pub fn tools(cx: &Ctx) -> Vec<Guarded> {
    let settings = cx.services.settings.now();
    let builtin = cx.services.runs.parts().tools.builtin();
    let tool = |name: &str| {
        let known = catalog::find(name).map(|(_, entry)| entry);
        Guarded {
            id: name.to_owned(),
            name: known.map_or(name, |entry| entry.label).to_owned(),
            description: known.map(|entry| entry.summary.to_owned()).unwrap_or_default(),
            risk: Risk::of(name),
            is_server: false,
        }
    };
    let offered = builtin.iter().filter(|tool| tool.is_offered(&settings));
    let server = |name: &String| Guarded {
        id: format!("mcp:{}", name.to_lowercase()),
        name: name.clone(),
        description: "MCP server".to_owned(),
        risk: Risk::High,
        is_server: true,
    };
    let servers = settings.mcp.servers.iter().map(|it| server(&it.name));
    offered.map(|it| tool(it.name())).chain(servers).collect()
}

/// A way to guard all tools by their risk.
#[derive(Debug)]
pub struct Preset {
    /// Its id.
    pub id: &'static str,
    /// Name for people.
    pub name: &'static str,
    /// What it is for.
    pub description: &'static str,
    /// In runs that somebody waits for: low, medium, high.
    interactive: [Strategy; 3],
    /// In the background.
    background: [Strategy; 3],
}

use Strategy::{Deny, Filter, Hitl};

/// The presets of the upstream.
pub static PRESETS: [Preset; 3] = [
    Preset {
        id: "permissive",
        name: "Permissive",
        description: "Everything goes on while somebody waits; risky background calls are asked about",
        interactive: [Filter, Filter, Filter],
        background: [Filter, Filter, Hitl],
    },
    Preset {
        id: "balanced",
        name: "Balanced",
        description: "Risky calls are asked about; in the background they are refused",
        interactive: [Filter, Filter, Hitl],
        background: [Filter, Hitl, Deny],
    },
    Preset {
        id: "restrictive",
        name: "Restrictive",
        description: "All but reading is asked about; in the background it is refused",
        interactive: [Filter, Hitl, Hitl],
        background: [Filter, Deny, Deny],
    },
];

impl Preset {
    /// What it does about a risk.
    pub fn strategy(&self, context: RunContext, risk: Risk) -> Strategy {
        let [low, medium, high] = match context {
            RunContext::Interactive => self.interactive,
            RunContext::Background => self.background,
        };
        match risk {
            Risk::Low => low,
            Risk::Medium => medium,
            Risk::High => high,
        }
    }

    /// What it does about each tool.
    pub fn policies(&self, context: RunContext, tools: &[Guarded]) -> Value {
        let strategy = |tool: &Guarded| {
            let strategy = self.strategy(context, tool.risk).as_str();
            (tool.id.clone(), Value::from(strategy))
        };
        Value::Object(tools.iter().map(strategy).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_follow_the_risk_of_a_tool_and_unknown_is_high() {
        for (tool, risk) in [
            ("read", Risk::Low),
            ("write", Risk::Medium),
            ("edit", Risk::Medium),
            ("exec", Risk::High),
            ("process", Risk::High),
            ("docs__look", Risk::High),
            ("what", Risk::High),
        ] {
            assert_eq!(Risk::of(tool), risk, "{tool}");
        }
        let [permissive, balanced, restrictive] = &PRESETS;
        let (front, back) = (RunContext::Interactive, RunContext::Background);
        assert_eq!(permissive.strategy(front, Risk::High), Strategy::Filter);
        assert_eq!(permissive.strategy(back, Risk::High), Strategy::Hitl);
        assert_eq!(balanced.strategy(front, Risk::High), Strategy::Hitl);
        assert_eq!(balanced.strategy(back, Risk::Medium), Strategy::Hitl);
        assert_eq!(restrictive.strategy(back, Risk::Medium), Strategy::Deny);
        assert_eq!(restrictive.strategy(front, Risk::Low), Strategy::Filter);
    }
}
