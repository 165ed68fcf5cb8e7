//! What agents may do.

use crate::cli::doctor::{Finding, Severity};
use crate::config::{ExecAsk, ExecSandbox, ExecSecurity, Settings, ToolPattern};

/// Tools that decide what happens on the machine.
const STRONG: [&str; 5] = ["exec", "process", "write", "edit", "apply_patch"];

/// Everything about it.
pub fn check(settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_open = !settings.gateway.bind.host().is_loopback();
    findings.push(commands(settings, is_open));
    findings.extend(clients(settings));
    findings.extend(files(settings));
    findings.extend(backend(settings));
    if settings.commands.config {
        findings.push(Finding::new(
            "commands.config",
            Severity::Info,
            "admins may change the config from a chat",
            "commands.config is on",
            "commands.config: false",
        ));
    }
    if rustix::process::geteuid().is_root() {
        findings.push(Finding::new(
            "machine.root",
            Severity::Warn,
            "this is root",
            "what an agent's command can do as root nothing can hold back or hide from it",
            "run the gateway as a user of its own: docs/deploy.md, systemd",
        ));
    }
    findings
}

/// Commands that nobody is asked about.
fn commands(settings: &Settings, is_open: bool) -> Finding {
    let policy = &settings.exec_policy;
    let one = |agent: Option<&str>| {
        let own = agent.and_then(|id| policy.agents.get(id)).copied().unwrap_or_default();
        let security = own.security.or(policy.rules.security).unwrap_or(ExecSecurity::Full);
        let ask = own.ask.or(policy.rules.ask).unwrap_or(ExecAsk::Off);
        security == ExecSecurity::Full && ask == ExecAsk::Off
    };
    let denied = &settings.tools.policy.rules.deny;
    let is_denied = denied.iter().any(|pattern| pattern.matches("exec"));
    let is_free = one(None) || policy.agents.keys().any(|id| one(Some(id)));
    if !is_free || is_denied {
        return Finding::ok("tools.exec.security", "commands are limited, or asked about");
    }
    if is_confined(settings) {
        let title = "commands run unasked, and are confined";
        return Finding::ok("tools.exec.security", title);
    }
    // The default, which trusts the model like the user: worth knowing.
    let is_written = policy.rules.security == Some(ExecSecurity::Full);
    let severity = if is_open || is_written { Severity::Warn } else { Severity::Info };
    Finding::new(
        "tools.exec.security_full",
        severity,
        "every command runs unasked and unconfined",
        "a web page or a message that the agent reads can make it do anything that its user can",
        "tools.exec.security: \"allowlist\" with ask: \"on-miss\", or tools.exec.sandbox: \
         \"workspace-write\", or tools.deny: [\"exec\", \"process\"]",
    )
}

/// Whether every session of every agent is confined.
fn is_confined(settings: &Settings) -> bool {
    let ids = settings.agents.list.iter().map(|agent| agent.id.as_str());
    let confined = |id| settings.exec.sandbox.usual(id, true, None) != ExecSandbox::Off;
    std::iter::once(settings.agents.default_id.as_str()).chain(ids).all(confined)
}

/// Tools that clients call without an agent.
fn clients(settings: &Settings) -> Option<Finding> {
    let allowed = &settings.tools.gateway.allow;
    let matches = |pattern: &ToolPattern, name: &str| pattern.matches(name);
    let strong: Vec<_> = STRONG
        .iter()
        .filter(|name| allowed.iter().flatten().any(|pattern| matches(pattern, name)))
        .copied()
        .collect();
    (!strong.is_empty()).then(|| {
        Finding::new(
            "gateway.tools.strong",
            Severity::Warn,
            format!("clients with operator.write call {} themselves", strong.join(", ")),
            "gateway.tools.allow gives them what they have not by default",
            "take these out of gateway.tools.allow",
        )
    })
}

/// How far the tools for files reach.
fn files(settings: &Settings) -> Option<Finding> {
    let is_free = !settings.tools.policy.files.is_workspace_only() && !is_confined(settings);
    is_free.then(|| {
        Finding::new(
            "tools.fs.outside_workspace",
            Severity::Info,
            "the tools for files reach beyond the workspace",
            "they never reach the config, credentials and the state directory, and change no \
             program that the allowlist of commands may mean, but the rest: what such a program \
             loads, as far as its user may",
            "tools.fs.workspaceOnly: true, or agents.defaults.sandbox.mode: \"all\"",
        )
    })
}

/// A CLI that asks nobody.
fn backend(settings: &Settings) -> Option<Finding> {
    let args = &settings.claude_cli.as_ref()?.args;
    let is_free = |text: &String| {
        let value = text.strip_prefix("--permission-mode=").unwrap_or(text);
        value == "--dangerously-skip-permissions" || value == "bypassPermissions"
    };
    args.iter().any(is_free).then(|| {
        Finding::new(
            "agents.cli_backend_unasked",
            Severity::Warn,
            "the CLI backend runs whatever its model wants, unasked",
            "neither the gateway's approvals nor its sandbox hold for it",
            "--permission-mode acceptEdits and --allowedTools in cliBackends.claude-cli.args",
        )
    })
}
