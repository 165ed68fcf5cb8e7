//! The skills of all agents, and what is set for them now.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::check::{Surroundings, Verdict};
use super::command::{self, Invocation, SkillCommand};
use super::install::{self, InstallError, Installed};
use super::listing;
use super::scan::Heads;
use super::update::{SkillChange, UpdateError, is_fit, redacted};
use crate::config::secrets::resolve;
use crate::config::skills::SkillEntry;
use crate::config::{AgentSettings, Env, Settings};
use crate::support::{Live, Secret, blocking};

/// The skills of all agents.
pub struct Skills {
    settings: Live<Settings>,
    env: Env,
    heads: Heads,
    /// One install at a time; held by blocking threads only.
    installing: Mutex<()>,
}

impl Skills {
    /// With these settings.
    pub fn new(settings: Live<Settings>, env: Env) -> Self {
        Self { settings, env, heads: Heads::default(), installing: Mutex::default() }
    }

    /// Where skills for all agents are.
    pub fn managed_dir(&self) -> PathBuf {
        self.settings.now().skills.managed_dir.clone()
    }

    /// Every skill that an agent finds, and what holds of it. Blocks.
    pub fn verdicts(&self, agent: &AgentSettings) -> Vec<Verdict> {
        let now = self.settings.now();
        let env = now.environment(&self.env);
        let mut surroundings = Surroundings::new(&now.skills, &now.raw, &env);
        let skills = self.heads.find(&now.skills, &agent.workspace).into_iter();
        skills.map(|skill| surroundings.judge(skill, &agent.id)).collect()
    }

    /// The list for an agent's prompt; empty without skills. Blocks.
    pub fn listing(&self, agent: &AgentSettings) -> String {
        let now = self.settings.now();
        let verdicts = self.verdicts(agent);
        listing::list(&verdicts, now.skills.max_in_prompt, now.skills.max_prompt_chars(&agent.id))
    }

    /// The names of programs that skills of any agent need. Blocks.
    pub fn bins(&self) -> Vec<String> {
        let mut bins = BTreeSet::new();
        for agent in &self.settings.now().agents.list {
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
        blocking(work).await.unwrap_or_default()
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

    /// The variables that are set for an agent's skills, for the commands of its
    /// runs. The variables of the gateway itself are not among them: a skill
    /// could name any.
    pub async fn variables(self: &Arc<Self>, agent: &AgentSettings) -> BTreeMap<String, Secret> {
        let now = self.settings.now();
        let sets = |entry: &SkillEntry| entry.api_key.is_some() || !entry.env.is_empty();
        // Each command asks: nobody looks through folders for nothing.
        if !now.skills.entries.values().any(sets) {
            return BTreeMap::new();
        }
        let (skills, agent) = (Arc::clone(self), agent.clone());
        let work = move || skills.verdicts(&agent);
        let verdicts = blocking(work).await.unwrap_or_default();
        let usable = verdicts.iter().filter(|verdict| verdict.is_usable());
        let set = usable.filter_map(|verdict| {
            let head = &verdict.skill.head;
            now.skills.entries.get(&head.key).map(|entry| (head, entry))
        });
        let set: Vec<_> = set.collect();
        let references = set.iter().filter_map(|(_, entry)| entry.api_key.as_ref()?.reference());
        let references = references.cloned().collect();
        let (secrets, lost) = resolve(&references, &now.secrets, &now.environment(&self.env)).await;
        for (reference, error) in lost {
            tracing::warn!(%reference, %error, "key of a skill not found");
        }
        let mut variables = BTreeMap::new();
        for (head, entry) in set {
            let key = entry.api_key.as_ref().and_then(|key| key.resolve(&secrets));
            variables.extend(head.primary_env.clone().zip(key));
            variables.extend(entry.env.clone());
        }
        variables.retain(|name, value| is_fit(name) && !value.is_empty());
        variables
    }

    /// Changes what is set for a skill in the config file, which has to be taken
    /// up then. The entry as it is there, without its secrets. Blocks.
    ///
    /// # Errors
    /// When a value cannot be set, or the file cannot be changed.
    pub fn update(&self, change: SkillChange) -> Result<Value, UpdateError> {
        let change = change.checked()?;
        Ok(redacted(&change.save(&self.settings.now().file.path)?))
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
            let _one = skills.installing.lock();
            install::install(&from, &skills.managed_dir(), is_forced)
        };
        blocking(work).await.map_err(|_| InstallError::Stopped)?
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::agent::skills::scan::tests::make;
    use crate::config::{Overrides, load};

    #[tokio::test]
    async fn commands_get_what_is_set_for_usable_skills_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join(".openclaw");
        make(&state.join("skills/a"), "a", "metadata: {openclaw: {primaryEnv: A_KEY}}");
        make(&state.join("skills/b"), "b", "metadata: {openclaw: {requires: {bins: [nope]}}}");
        make(
            &state.join("skills/c"),
            "c",
            "metadata: {openclaw: {primaryEnv: LD_PRELOAD, requires: {env: [HOST_SECRET]}}}",
        );
        fs::write(
            state.join("openclaw.json"),
            r#"{skills: {entries: {
                a: {apiKey: {source: "env", id: "STORED"}, env: {A_URL: "u", PATH: "/evil"}},
                b: {env: {B: "not usable"}},
                c: {apiKey: "/evil.so"},
                gone: {env: {GONE: "no such skill"}},
            }}}"#,
        )
        .unwrap();
        let env = Env::fixed([("STORED", "key"), ("HOST_SECRET", "h")], home.path());
        let looking = Overrides { read_only: true, ..Overrides::default() };
        let settings = Live::new(load(&env, &looking).unwrap());
        let agent = settings.now().agents.agent_or_default("main");
        let skills = Arc::new(Skills::new(settings, env));
        let variables = skills.variables(&agent).await;
        let shown: Vec<_> =
            variables.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
        assert_eq!(shown, [("A_KEY", "key"), ("A_URL", "u")]);
    }
}
