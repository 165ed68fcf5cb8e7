//! The skills of all agents, and what is set for them now.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde_json::Value;

use super::check::{Surroundings, Verdict};
use super::command::{self, Invocation, SkillCommand};
use super::install::{self, InstallError, Installed};
use super::listing::{self, Listing};
use super::scan::Heads;
use super::update::{SkillChange, UpdateError, redacted};
use crate::config::skills::SkillsSettings;
use crate::config::{AgentSettings, Env, Settings};

/// The skills of all agents.
pub struct Skills {
    settings: Arc<Settings>,
    env: Env,
    /// What is set now; it begins as the config was at the start.
    now: ArcSwap<Now>,
    heads: Heads,
    /// One change at a time; held by blocking threads only.
    changing: Mutex<()>,
}

/// What is set now.
#[derive(Clone)]
struct Now {
    skills: SkillsSettings,
    /// The config as written, for `requires.config`; `None` while it is as it
    /// was at the start.
    config: Option<Value>,
}

impl Skills {
    /// With these settings.
    pub fn new(settings: Arc<Settings>, env: Env) -> Self {
        let now = Now { skills: settings.skills.clone(), config: None };
        Self {
            settings,
            env,
            now: ArcSwap::from_pointee(now),
            heads: Heads::default(),
            changing: Mutex::default(),
        }
    }

    /// Where skills for all agents are.
    pub fn managed_dir(&self) -> &Path {
        &self.settings.skills.managed_dir
    }

    /// Every skill that an agent finds, and what holds of it. Blocks.
    pub fn verdicts(&self, agent: &AgentSettings) -> Vec<Verdict> {
        let now = self.now.load();
        let config = now.config.as_ref().unwrap_or(&self.settings.raw);
        let mut surroundings = Surroundings::new(&now.skills, config, &self.env);
        let skills = self.heads.find(&now.skills, &agent.workspace).into_iter();
        skills.map(|skill| surroundings.judge(skill, &agent.id)).collect()
    }

    /// The list for an agent's prompt. Blocks.
    pub fn listing(&self, agent: &AgentSettings) -> Listing {
        let now = self.now.load();
        let verdicts = self.verdicts(agent);
        listing::list(&verdicts, now.skills.max_in_prompt, now.skills.max_prompt_chars(&agent.id))
    }

    /// The names of programs that skills of any agent need. Blocks.
    pub fn bins(&self) -> Vec<String> {
        let mut bins = BTreeSet::new();
        for agent in &self.settings.agents.list {
            for verdict in self.verdicts(agent) {
                let requires = &verdict.skill.head.requires;
                bins.extend(requires.bins.iter().chain(&requires.any_bins).cloned());
            }
        }
        bins.into_iter().collect()
    }

    /// The commands of an agent's skills; none has a `reserved` name.
    pub async fn commands(
        self: &Arc<Self>,
        agent: AgentSettings,
        reserved: &'static [&'static str],
    ) -> Vec<SkillCommand> {
        let skills = Arc::clone(self);
        let work = move || command::commands(&skills.verdicts(&agent), reserved);
        // Only a gateway that stops gives work up.
        tokio::task::spawn_blocking(work).await.unwrap_or_default()
    }

    /// What a chat message that begins with a slash asks an agent's skills for;
    /// `None` when it names none.
    pub async fn invoke(
        self: &Arc<Self>,
        agent: AgentSettings,
        reserved: &'static [&'static str],
        message: &str,
    ) -> Option<Invocation> {
        if !message.trim_start().starts_with('/') {
            return None;
        }
        command::invoke(&self.commands(agent, reserved).await, message)
    }

    /// Changes what is set for a skill: in the config file, and at once. The
    /// entry as it is now, without its secrets.
    ///
    /// # Errors
    /// When a value cannot be set, or the file cannot be changed.
    pub async fn update(self: &Arc<Self>, change: SkillChange) -> Result<Value, UpdateError> {
        let change = change.checked()?;
        let skills = Arc::clone(self);
        // Not given up when its caller goes away: file and memory change together.
        let work = tokio::task::spawn_blocking(move || skills.change(&change));
        Ok(redacted(&work.await.map_err(|_| UpdateError::Stopped)??))
    }

    fn change(&self, change: &SkillChange) -> Result<Value, UpdateError> {
        let _one = self.changing.lock();
        let entry = change.save(&self.settings.file.path)?;
        let mut now = Now::clone(&self.now.load());
        change.apply(now.skills.entries.entry(change.key.clone()).or_default());
        let mut config = now.config.take().unwrap_or_else(|| self.settings.raw.clone());
        put(&mut config, &["skills", "entries", &change.key], entry.clone());
        now.config = Some(config);
        self.now.store(Arc::new(now));
        Ok(entry)
    }

    /// Takes a skill over from a folder, for all agents.
    ///
    /// # Errors
    /// When there is none, it is no good, or there already.
    pub async fn install(
        self: &Arc<Self>,
        from: PathBuf,
        is_forced: bool,
    ) -> Result<Installed, InstallError> {
        let skills = Arc::clone(self);
        let work = move || {
            let _one = skills.changing.lock();
            install::install(&from, skills.managed_dir(), is_forced)
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| InstallError::Stopped)?
    }
}

/// Puts a value at a place, where that has objects on the way or nothing.
fn put(root: &mut Value, path: &[&str], value: Value) {
    let mut at = root;
    for name in path {
        if at.is_null() {
            *at = Value::Object(serde_json::Map::new());
        }
        let Some(members) = at.as_object_mut() else { return };
        at = members.entry(*name).or_insert(Value::Null);
    }
    *at = value;
}
