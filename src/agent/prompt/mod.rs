//! The system prompt: what the model is told of itself and its place.
//!
//! Owns: its parts and their order. Promises: what stays the same comes first
//! and what changes last, so that providers can keep the beginning; everything
//! that comes out of files is marked as such; reading files blocks no async
//! thread. Must not: decide which tools or skills there are.

mod sections;

use std::sync::Arc;

use jiff::tz::TimeZone;

use super::approvals::Lineage;
use super::parts::RunsParts;
use super::tools::Toolbox;
use super::workspace::{Audience, Injected};
use crate::config::{AgentSettings, ExecSandbox, FileRules};
use crate::providers::{ModelInfo, ThinkingLevel};
use crate::sessions::{SessionEntry, SessionKey, WEBCHAT};
use crate::support::blocking;

/// The tool that runs commands.
const EXEC: &str = "exec";

/// Everything a prompt is made of, but for what changes between two calls of
/// one model.
pub struct Prompt {
    agent: AgentSettings,
    audience: Audience,
    /// A prompt of the user's own, in the place of the built one.
    written: Option<String>,
    /// Name and first sentence of each tool.
    tools: Vec<(String, String)>,
    /// What commands may write to; absent when there are none.
    sandbox: Option<ExecSandbox>,
    /// Whether tools for files never leave the workspace.
    is_workspace_only: bool,
    files: Injected,
    /// The list of skills; empty when there are none.
    skills: String,
    warns_of_truncation: bool,
    zone: Option<TimeZone>,
    /// What the session itself adds.
    extra: Option<String>,
    /// Whether what is for talking with people is left out.
    is_minimal: bool,
    /// What the message adds that is answered.
    instructions: Option<String>,
    channel: String,
    host: String,
    now_ms: u64,
}

impl Prompt {
    /// Puts together what a session's next call of a model is told. Makes the
    /// files of a new workspace.
    pub async fn gather(
        parts: &RunsParts,
        key: &SessionKey,
        entry: &SessionEntry,
        toolbox: &Toolbox,
    ) -> Self {
        let agent = parts.agent_of(key);
        let audience = audience(key);
        let settings = &parts.settings.now().workspace;
        let (workspaces, skills) = (Arc::clone(&parts.workspaces), Arc::clone(&parts.skills));
        let reading = agent.clone();
        let read = blocking(move || {
            let files = workspaces.inject(&reading.workspace, audience);
            let has_skills =
                matches!(audience, Audience::Direct | Audience::Shared | Audience::Job);
            let listing = if has_skills { skills.listing(&reading) } else { String::new() };
            (files, listing)
        });
        // Only a gateway that stops gives work up.
        let (files, skills) = read.await.unwrap_or_else(|_| (Injected::nothing(), String::new()));
        let tools = toolbox.specs().into_iter();
        let line = Lineage::of_entry(&parts.sessions, key, entry).await;
        let now = parts.settings.now();
        // Below sessions that cannot be read no command runs.
        let sandbox = line.map_or(ExecSandbox::ReadOnly, |line| line.usual(&now));
        Self {
            written: settings.prompt_override(&agent.id).map(str::to_owned),
            tools: tools
                .map(|tool| (tool.name, sections::first_sentence(&tool.description)))
                .collect(),
            sandbox: toolbox.find(EXEC).map(|_| sandbox),
            is_workspace_only: FileRules::of(&now, &agent.tools.files).is_workspace_only(),
            files,
            skills,
            warns_of_truncation: settings.warns_of_truncation,
            zone: settings.user_timezone.clone(),
            extra: entry.extra_system_prompt.clone(),
            is_minimal: false,
            instructions: None,
            channel: entry.channel.clone().unwrap_or_else(|| WEBCHAT.into()),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            now_ms: parts.clock.now_ms(),
            agent,
            audience,
        }
    }

    /// The same without the files of the workspace.
    #[must_use]
    pub fn without_files(self) -> Self {
        Self { files: Injected::nothing(), ..self }
    }

    /// The same for a task rather than a talk.
    #[must_use]
    pub fn minimal(self, is_minimal: bool) -> Self {
        Self { is_minimal, ..self }
    }

    /// The same for one message that brings instructions of its own.
    #[must_use]
    pub fn instructed(self, instructions: Option<&str>) -> Self {
        Self { instructions: instructions.map(str::to_owned), ..self }
    }

    /// The same for one message that is said to come by this channel.
    #[must_use]
    pub fn by_channel(mut self, channel: Option<&str>) -> Self {
        if let Some(channel) = channel {
            channel.clone_into(&mut self.channel);
        }
        self
    }

    /// The prompt for `model`; `notices` happened since the last turn.
    pub fn render(&self, model: &ModelInfo, thinking: ThinkingLevel, notices: &[String]) -> String {
        let mut prompt = match &self.written {
            Some(written) => written.clone(),
            None => self.built(model, thinking),
        };
        sections::instructions(&mut prompt, self.instructions.as_deref());
        sections::notices(&mut prompt, notices);
        prompt
    }

    fn built(&self, model: &ModelInfo, thinking: ThinkingLevel) -> String {
        let mut prompt = String::new();
        sections::identity(&mut prompt, self);
        sections::tools(&mut prompt, &self.tools);
        sections::rules(&mut prompt, self.is_minimal || self.audience == Audience::SubAgent);
        sections::skills(&mut prompt, &self.skills);
        sections::workspace(&mut prompt, self);
        sections::sandbox(&mut prompt, self);
        sections::time(&mut prompt, self.zone.as_ref(), self.now_ms);
        sections::extra(&mut prompt, self.audience, self.extra.as_deref());
        sections::runtime(&mut prompt, self, model, thinking);
        prompt
    }
}

/// Who reads what the agent says in this session.
fn audience(key: &SessionKey) -> Audience {
    if key.is_spawned() {
        Audience::SubAgent
    } else if key.is_job() {
        Audience::Job
    } else if key.kind() == "group" {
        Audience::Shared
    } else {
        Audience::Direct
    }
}

#[cfg(test)]
mod tests;
