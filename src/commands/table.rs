//! The one list of commands.
//!
//! Owns: what each command is called, what it takes and who does it. `/help`,
//! `/commands`, `commands.list` and docs/commands.md are made from it. Names and
//! descriptions are those of the original.

use serde::Serialize;

/// Under which heading a command is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Category {
    Session,
    Options,
    Status,
    Management,
    Tools,
}

impl Category {
    /// All of them, in the order of `/commands`.
    pub const ALL: [Self; 5] =
        [Self::Session, Self::Options, Self::Status, Self::Management, Self::Tools];

    /// The heading.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Session => "Session",
            Self::Options => "Options",
            Self::Status => "Status",
            Self::Management => "Management",
            Self::Tools => "Tools",
        }
    }
}

/// One word that a command takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arg {
    /// What it is called.
    pub name: &'static str,
    /// For people.
    pub description: &'static str,
    /// The values there are; any when empty.
    pub choices: &'static [&'static str],
    /// Whether the command is nothing without it.
    pub is_required: bool,
}

const fn arg(
    name: &'static str,
    description: &'static str,
    choices: &'static [&'static str],
) -> Arg {
    Arg { name, description, choices, is_required: false }
}

const fn required(name: &'static str, description: &'static str) -> Arg {
    Arg { name, description, choices: &[], is_required: true }
}

/// Who does a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Action {
    Help,
    Commands,
    Tools,
    Status,
    Tasks,
    Subagents,
    Approve,
    Context,
    Btw,
    Whoami,
    Steer,
    Config,
    Restart,
    Reset,
    New,
    Compact,
    Setting(Setting),
    Exec,
    Model,
    Models,
    Queue,
}

/// A setting of the session that a command changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Setting {
    Usage,
    Activation,
    Send,
    Think,
    Verbose,
    Trace,
    Fast,
    Reasoning,
    Elevated,
}

/// One command.
#[derive(Debug, PartialEq, Eq)]
pub struct Spec {
    /// Its name, without the slash.
    pub name: &'static str,
    /// What it is called by in a chat; the first is the usual one.
    pub aliases: &'static [&'static str],
    /// For people.
    pub description: &'static str,
    /// Where it is listed.
    pub category: Category,
    /// Whether words may follow it. With words, one that takes none is text.
    pub takes_args: bool,
    /// Those words, where they are named.
    pub args: &'static [Arg],
    /// Who does it; nobody here when it is a stop word or asks for a skill.
    pub action: Option<Action>,
    /// What it calls in the name of its sender, who needs the right to.
    pub methods: &'static [&'static str],
}

const NONE: &[Arg] = &[];

macro_rules! commands {
    ($($name:literal [$($alias:literal),+] $category:ident, $takes:literal, $args:expr,
        $action:expr, [$($method:literal),*], $description:literal;)*) => {
        /// Every command, in the order of the original's list.
        pub const COMMANDS: &[Spec] = &[$(Spec {
            name: $name,
            aliases: &[$($alias),+],
            description: $description,
            category: Category::$category,
            takes_args: $takes,
            args: $args,
            action: $action,
            methods: &[$($method),*],
        }),*];
    };
}

commands! {
    "help" ["/help"] Status, false, NONE, Some(Action::Help), [], "Show available commands.";
    "commands" ["/commands"] Status, false, NONE, Some(Action::Commands), [],
        "List all slash commands.";
    "tools" ["/tools"] Status, true, &[arg("mode", "compact or verbose", &["compact", "verbose"])],
        Some(Action::Tools), [], "List available runtime tools.";
    "skill" ["/skill"] Tools, true,
        &[required("name", "Skill name"), arg("input", "Skill input", &[])],
        None, ["tools.invoke"], "Run a skill by name.";
    "status" ["/status"] Status, false, NONE, Some(Action::Status), [], "Show current status.";
    "tasks" ["/tasks"] Status, false, NONE, Some(Action::Tasks), [],
        "List background tasks for this session.";
    "approve" ["/approve"] Management, true, NONE, Some(Action::Approve),
        ["exec.approval.resolve", "plugin.approval.resolve"], "Approve or deny exec requests.";
    "context" ["/context"] Status, true, NONE, Some(Action::Context), [],
        "Explain how context is built and used.";
    "btw" ["/btw", "/side"] Tools, true, NONE, Some(Action::Btw), [],
        "Ask a side question without changing future session context.";
    "whoami" ["/whoami", "/id"] Status, false, NONE, Some(Action::Whoami), [], "Show your sender id.";
    "subagents" ["/subagents"] Management, true, &[
        arg("action", "list | kill | log | info | send | steer",
            &["list", "kill", "log", "info", "send", "steer"]),
        arg("target", "Run id, index, or session key", &[]),
        arg("value", "Additional input (limit/message)", &[]),
    ], Some(Action::Subagents), ["chat.abort"],
        "List, kill, log, spawn, or steer subagent runs for this session.";
    "steer" ["/steer", "/tell"] Management, true,
        &[arg("message", "Steering message", &[])],
        Some(Action::Steer), [], "Send guidance to the active run in this session.";
    "config" ["/config"] Management, true, &[
        arg("action", "show | get | set | unset", &["show", "get", "set", "unset"]),
        arg("path", "Config path", &[]),
        arg("value", "Value for set", &[]),
    ], Some(Action::Config), ["config.patch"], "Show or set config values.";
    "usage" ["/usage"] Options, true,
        &[arg("mode", "off, tokens, full, or cost", &["off", "tokens", "full", "cost"])],
        Some(Action::Setting(Setting::Usage)), ["sessions.patch"], "Usage footer or cost summary.";
    "stop" ["/stop"] Session, false, NONE, None, ["chat.abort"], "Stop the current run.";
    "restart" ["/restart"] Tools, false, NONE, Some(Action::Restart), ["gateway.restart.request"],
        "Restart OpenClaw.";
    "activation" ["/activation"] Management, true,
        &[arg("mode", "mention or always", &["mention", "always"])],
        Some(Action::Setting(Setting::Activation)), ["sessions.patch"], "Set group activation mode.";
    "send" ["/send"] Management, true,
        &[arg("mode", "on, off, or inherit", &["on", "off", "inherit"])],
        Some(Action::Setting(Setting::Send)), ["sessions.patch"], "Set send policy.";
    "reset" ["/reset"] Session, true, NONE, Some(Action::Reset), ["sessions.reset"],
        "Reset the current session.";
    "new" ["/new"] Session, true, NONE, Some(Action::New), ["sessions.reset"], "Start a new session.";
    "compact" ["/compact"] Session, true,
        &[arg("instructions", "Extra compaction instructions", &[])],
        Some(Action::Compact), ["sessions.compact"], "Compact the session context.";
    "think" ["/think", "/thinking", "/t"] Options, true,
        &[arg("level", "off, minimal, low, medium, or high", LEVELS)],
        Some(Action::Setting(Setting::Think)), ["sessions.patch"], "Set thinking level.";
    "verbose" ["/verbose", "/v"] Options, true,
        &[arg("mode", "on, off, or full", &["on", "off", "full"])],
        Some(Action::Setting(Setting::Verbose)), ["sessions.patch"], "Toggle verbose mode.";
    "trace" ["/trace"] Options, true, &[arg("mode", "on, off, or raw", &["on", "off", "raw"])],
        Some(Action::Setting(Setting::Trace)), ["sessions.patch"], "Toggle plugin trace lines.";
    "fast" ["/fast"] Options, true,
        &[arg("mode", "status, on, or off", &["status", "on", "off"])],
        Some(Action::Setting(Setting::Fast)), ["sessions.patch"], "Toggle fast mode.";
    "reasoning" ["/reasoning", "/reason"] Options, true,
        &[arg("mode", "on, off, or stream", &["on", "off", "stream"])],
        Some(Action::Setting(Setting::Reasoning)), ["sessions.patch"], "Toggle reasoning visibility.";
    "elevated" ["/elevated", "/elev"] Options, true,
        &[arg("mode", "on, off, ask, or full", &["on", "off", "ask", "full"])],
        Some(Action::Setting(Setting::Elevated)), ["sessions.patch"], "Toggle elevated mode.";
    "exec" ["/exec"] Options, true, &[
        arg("host", "auto, sandbox, gateway, or node", &["auto", "sandbox", "gateway", "node"]),
        arg("security", "deny, allowlist, or full", &["deny", "allowlist", "full"]),
        arg("ask", "off, on-miss, or always", &["off", "on-miss", "always"]),
        arg("node", "Node id or name", &[]),
    ], Some(Action::Exec), ["sessions.patch"], "Set exec defaults for this session.";
    "model" ["/model"] Options, true,
        &[arg("model", "Model id (provider/model or alias)", &[])],
        Some(Action::Model), ["sessions.patch"], "Show or set the model.";
    "models" ["/models"] Options, true, NONE, Some(Action::Models), ["models.list"],
        "List model providers/models.";
    "queue" ["/queue"] Options, true, &[
        arg("mode", "queue mode", &["steer", "queue", "followup", "collect", "steer+backlog", "interrupt"]),
        arg("debounce", "debounce duration (e.g. 500ms, 2s)", &[]),
        arg("cap", "queue cap", &[]),
        arg("drop", "drop policy", &["old", "new", "summarize"]),
    ], Some(Action::Queue), ["sessions.patch"], "Adjust queue settings.";
}

const LEVELS: &[&str] = &["off", "minimal", "low", "medium", "high"];

/// The command with this alias; the slash is part of it.
pub fn find(alias: &str) -> Option<&'static Spec> {
    let is_it = |name: &&str| name.eq_ignore_ascii_case(alias);
    COMMANDS.iter().find(|spec| spec.aliases.iter().any(is_it))
}

/// The commands that this gateway offers. `/config` is off unless the config
/// turns it on.
pub fn offered(config: bool) -> impl Iterator<Item = &'static Spec> {
    COMMANDS.iter().filter(move |spec| config || spec.action != Some(Action::Config))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_commands_are_called_the_same() {
        let mut seen = HashSet::new();
        for alias in COMMANDS.iter().flat_map(|spec| spec.aliases) {
            assert!(alias.starts_with('/') && *alias == alias.to_lowercase(), "{alias}");
            assert!(seen.insert(alias), "{alias}");
        }
        assert_eq!(find("/T").unwrap().name, "think");
        assert!(find("think").is_none());
    }
}
