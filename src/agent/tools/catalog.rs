//! The names of built-in tools: groups, labels, a line on each, profiles.
//!
//! A tool is offered when it is built in; being here only says what it is
//! called. Source: `tools.catalog` and `tools.effective` of the recording.

use crate::config::ToolProfile;

/// Tools that belong together; lists name them `group:<id>`.
pub struct ToolGroup {
    /// Its id.
    pub id: &'static str,
    /// Name for people.
    pub label: &'static str,
    /// Its tools.
    pub tools: &'static [ToolEntry],
}

/// A built-in tool.
pub struct ToolEntry {
    /// Its name.
    pub id: &'static str,
    /// Name for people.
    pub label: &'static str,
    /// What it is good for, in a line.
    pub summary: &'static str,
    /// The smaller profiles that have it; all are in `full`.
    pub profiles: &'static [ToolProfile],
}

impl ToolEntry {
    /// Whether a profile has it.
    pub fn is_in(&self, profile: ToolProfile) -> bool {
        profile == ToolProfile::Full || self.profiles.contains(&profile)
    }
}

const NONE: &[ToolProfile] = &[];
const CODING: &[ToolProfile] = &[ToolProfile::Coding];
const MESSAGING: &[ToolProfile] = &[ToolProfile::Messaging];
const TALKING: &[ToolProfile] = &[ToolProfile::Coding, ToolProfile::Messaging];
const ALWAYS: &[ToolProfile] = &[ToolProfile::Minimal, ToolProfile::Coding, ToolProfile::Messaging];

const fn tool(
    id: &'static str,
    label: &'static str,
    summary: &'static str,
    profiles: &'static [ToolProfile],
) -> ToolEntry {
    ToolEntry { id, label, summary, profiles }
}

/// Every group, in the order of the original.
pub const GROUPS: &[ToolGroup] = &[
    ToolGroup {
        id: "fs",
        label: "Files",
        tools: &[
            tool("read", "Read", "Read file contents", CODING),
            tool("write", "Write", "Create or overwrite files", CODING),
            tool("edit", "Edit", "Make precise edits", CODING),
            tool("apply_patch", "Apply Patch", "Patch files", CODING),
        ],
    },
    ToolGroup {
        id: "runtime",
        label: "Runtime",
        tools: &[
            tool("exec", "Exec", "Run shell commands that start now.", CODING),
            tool("process", "Process", "Inspect and control running exec sessions.", CODING),
        ],
    },
    ToolGroup {
        id: "web",
        label: "Web",
        tools: &[
            tool("web_search", "Web Search", "Search the web", CODING),
            tool("web_fetch", "Web Fetch", "Fetch web content", CODING),
        ],
    },
    ToolGroup {
        id: "memory",
        label: "Memory",
        tools: &[
            tool("memory_search", "Memory Search", "Full-text search", CODING),
            tool("memory_get", "Memory Get", "Read memory files", CODING),
        ],
    },
    ToolGroup {
        id: "sessions",
        label: "Sessions",
        tools: &[
            tool(
                "sessions_list",
                "Sessions",
                "List visible sessions with mailbox filters and optional previews.",
                TALKING,
            ),
            tool(
                "sessions_history",
                "Session History",
                "Read sanitized message history for a visible session.",
                TALKING,
            ),
            tool(
                "sessions_send",
                "Session Send",
                "Send a message to another visible session.",
                TALKING,
            ),
            tool("sessions_spawn", "Sub-agent", "Spawn sub-agent sessions.", CODING),
            tool("subagents", "Subagents", "Manage sub-agents", CODING),
            tool(
                "session_status",
                "Session Status",
                "Show session status, usage, and model state.",
                ALWAYS,
            ),
        ],
    },
    ToolGroup {
        id: "messaging",
        label: "Messaging",
        tools: &[tool("message", "Message", "Send messages", MESSAGING)],
    },
    ToolGroup {
        id: "automation",
        label: "Automation",
        tools: &[
            tool("cron", "Cron", "Schedule cron jobs, reminders, and wake events.", CODING),
            tool("gateway", "Gateway", "Gateway status", NONE),
        ],
    },
    ToolGroup {
        id: "nodes",
        label: "Nodes",
        tools: &[tool("nodes", "Nodes", "Nodes + devices", NONE)],
    },
    ToolGroup {
        id: "agents",
        label: "Agents",
        tools: &[tool("agents_list", "Agents", "List agents", NONE)],
    },
    ToolGroup {
        id: "media",
        label: "Media",
        tools: &[tool("image", "Image", "Image understanding", CODING)],
    },
];

/// The built-in tool of this name, and its group.
pub fn find(name: &str) -> Option<(&'static ToolGroup, &'static ToolEntry)> {
    let in_group = |group: &'static ToolGroup| {
        let tool = group.tools.iter().find(|tool| tool.id == name)?;
        Some((group, tool))
    };
    GROUPS.iter().find_map(in_group)
}
