//! What the config names and nobody can use: files of agents, tokens of hooks, pages.

use std::collections::BTreeSet;

use super::files::give;
use super::finding::{Finding, Severity};
use crate::agent::workspace;
use crate::config::document::ConfigIssue;
use crate::config::hooks::HooksSettings;
use crate::config::{Env, Settings, vain_origins};

/// Files that tell agents how they work, and cannot be read.
pub fn files_of_agents(settings: &Settings) -> Vec<Finding> {
    let folders: BTreeSet<_> = settings.agents.list.iter().map(|it| &it.workspace).collect();
    let findings = folders.into_iter().filter_map(|dir| {
        let why = workspace::unreadable(dir, settings)?;
        Some(Finding::new(
            "agents.files",
            Severity::Critical,
            format!("files of the workspace {} cannot be had: {why}", dir.display()),
            "the agent works without what they say, its rules among them",
            format!("put right what is named; where it belongs to another user: {}", give(dir)),
        ))
    });
    findings.collect()
}

/// Whether a token of hooks is a reference to the secret of the gateway.
pub async fn hooks(settings: &Settings, env: &Env) -> Option<Finding> {
    let mut auth = settings.gateway.auth.clone();
    // That a secret of the gateway cannot be had is told elsewhere.
    auth.follow(&settings.secrets, env).await.ok()?;
    let mut hooks = settings.hooks.clone();
    hooks.follow(&settings.secrets, env, &auth).await;
    reused(&hooks)
}

/// The same of hooks whose references were followed.
pub fn reused(hooks: &HooksSettings) -> Option<Finding> {
    hooks.is_any_reused.then(|| {
        Finding::new(
            "hooks.token_reuse",
            Severity::Critical,
            "a token of hooks is the token or password of the gateway itself",
            "nobody gets in by it: who tells agents something would be able to do everything",
            "a secret of its own in hooks.token: openssl rand -hex 32",
        )
    })
}

/// Entries of the list of pages that let none in.
pub fn origins(settings: &Settings) -> Vec<Finding> {
    let findings = vain_origins(&settings.raw);
    let findings = findings.into_iter().map(|ConfigIssue { path, message }| {
        Finding::new(
            "gateway.control_ui.allowed_origins_vain",
            Severity::Warn,
            format!("{path} {message}"),
            "the page that is meant gets no connection",
            "write the origin as a browser sends it, such as https://chat.example.com",
        )
    });
    findings.collect()
}
