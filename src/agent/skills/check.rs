//! Whether a skill can work here, and for this agent.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value;

use super::front::Requires;
use super::scan::{Skill, SkillSource};
use crate::config::Env;
use crate::config::skills::{SkillEntry, SkillsSettings, is_config_set};

/// What holds of a skill here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The skill.
    pub skill: Skill,
    /// Switched off in `skills.entries`.
    pub is_disabled: bool,
    /// Not among the bundled skills that are allowed.
    pub is_blocked_by_allowlist: bool,
    /// Not among the skills of this agent.
    pub is_blocked_by_agent: bool,
    /// What it needs and is not there.
    pub missing: Requires,
}

impl Verdict {
    /// Whether it can be used, were the agent to have it.
    pub fn is_eligible(&self) -> bool {
        let is_free = !self.is_disabled && !self.is_blocked_by_allowlist;
        let has_all = self.skill.head.is_always || self.missing == Requires::default();
        // Another system's skill does not work here, whatever it says.
        is_free && has_all && self.missing.os.is_empty()
    }

    /// Whether this agent can use it.
    pub fn is_usable(&self) -> bool {
        self.is_eligible() && !self.is_blocked_by_agent
    }

    /// Whether the model is told of it.
    pub fn is_model_visible(&self) -> bool {
        self.is_usable() && self.skill.head.is_model_invocable
    }

    /// Whether a chat may name it as a command.
    pub fn is_command_visible(&self) -> bool {
        self.is_usable() && self.skill.head.is_user_invocable
    }
}

/// What skills are held against.
pub struct Surroundings<'a> {
    settings: &'a SkillsSettings,
    config: &'a Value,
    env: &'a Env,
    path: Vec<PathBuf>,
    programs: HashMap<String, bool>,
}

impl<'a> Surroundings<'a> {
    /// `config` is the config file as it is written.
    pub fn new(settings: &'a SkillsSettings, config: &'a Value, env: &'a Env) -> Self {
        let path = env.get("PATH").unwrap_or_default();
        let path = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).collect();
        Self { settings, config, env, path, programs: HashMap::new() }
    }

    /// What holds of `skill` for this agent. Blocks.
    pub fn judge(&mut self, skill: Skill, agent_id: &str) -> Verdict {
        let (settings, head) = (self.settings, &skill.head);
        let entry = settings.entries.get(&head.key);
        let is_named = |names: &[String]| names.contains(&head.name) || names.contains(&head.key);
        Verdict {
            is_disabled: entry.is_some_and(|entry| entry.enabled == Some(false)),
            is_blocked_by_allowlist: skill.source == SkillSource::Bundled
                && settings.allow_bundled.as_deref().is_some_and(|names| !is_named(names)),
            is_blocked_by_agent: settings
                .only(agent_id)
                .is_some_and(|names| !names.contains(&head.name)),
            missing: self.missing(&head.requires, entry, head.primary_env.as_deref()),
            skill,
        }
    }

    fn missing(
        &mut self,
        requires: &Requires,
        entry: Option<&SkillEntry>,
        primary_env: Option<&str>,
    ) -> Requires {
        let has_any = requires.any_bins.is_empty()
            || requires.any_bins.iter().any(|name| self.has_program(name));
        let has_variable = |name: &String| {
            let is_set = entry.is_some_and(|entry| {
                let is_key = entry.api_key.is_some() && primary_env == Some(name);
                is_key || entry.env.get(name).is_some_and(|value| !value.is_empty())
            });
            is_set || self.env.get(name).is_some()
        };
        let lacking = |names: &[String], has: &dyn Fn(&String) -> bool| {
            names.iter().filter(|name| !has(name)).cloned().collect::<Vec<_>>()
        };
        let is_here = requires.os.is_empty() || requires.os.iter().any(|name| name == platform());
        let env = lacking(&requires.env, &has_variable);
        let config = lacking(&requires.config, &|path| is_config_set(self.config, path));
        Requires {
            bins: requires.bins.iter().filter(|name| !self.has_program(name)).cloned().collect(),
            any_bins: if has_any { vec![] } else { requires.any_bins.clone() },
            env,
            config,
            os: if is_here { vec![] } else { requires.os.clone() },
        }
    }

    fn has_program(&mut self, name: &str) -> bool {
        if let Some(known) = self.programs.get(name) {
            return *known;
        }
        let is_name = !name.contains('/') && name != "." && name != "..";
        let is_program = |dir: &PathBuf| {
            let found = fs::metadata(dir.join(name));
            found.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        };
        let is_there = is_name && self.path.iter().any(is_program);
        self.programs.insert(name.to_owned(), is_there);
        is_there
    }
}

/// The system's name as Node.js has it.
fn platform() -> &'static str {
    match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::agent::skills::scan::{Heads, tests as scan};
    use crate::config::secrets::SecretInput;
    use crate::support::{Secret, json};

    fn judge(home: &Path, settings: &SkillsSettings, config: &Value, env: &Env) -> Vec<Verdict> {
        let skills = Heads::default().find(settings, home).into_iter();
        let mut surroundings = Surroundings::new(settings, config, env);
        skills.map(|skill| surroundings.judge(skill, "main")).collect()
    }

    fn one(home: &Path, settings: &SkillsSettings, config: &Value, env: &Env) -> Verdict {
        judge(home, settings, config, env).remove(0)
    }

    #[test]
    fn what_is_missing_is_named_and_what_is_set_counts() {
        let home = tempfile::tempdir().unwrap();
        let bin = home.path().join("bin");
        fs::create_dir(&bin).unwrap();
        scan::make(
            &home.path().join("skills/a"),
            "a",
            "metadata: {openclaw: {primaryEnv: KEY, requires: {bins: [tool, plain], anyBins: [x, y], \
             env: [KEY, OTHER], config: [channels.c.on]}}}",
        );
        let mut settings = scan::settings(home.path());
        let path = bin.to_string_lossy().into_owned();
        let env = Env::fixed([("PATH", path.as_str()), ("OTHER", "o")], home.path());
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        // No program without the right to run it.
        fs::write(bin.join("plain"), "").unwrap();
        let verdict = one(home.path(), &settings, &json!({}), &env);
        assert_eq!(
            verdict.missing,
            Requires {
                bins: names(&["tool", "plain"]),
                any_bins: names(&["x", "y"]),
                env: names(&["KEY"]),
                config: names(&["channels.c.on"]),
                os: vec![],
            }
        );
        assert!(!verdict.is_eligible());
        for name in ["tool", "plain", "y"] {
            fs::write(bin.join(name), "").unwrap();
            fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let api_key = Some(SecretInput::Text(Secret::new("k")));
        settings.entries.insert("a".into(), SkillEntry { api_key, ..SkillEntry::default() });
        let config = json!({"channels": {"c": {"on": true}}});
        let verdict = one(home.path(), &settings, &config, &env);
        assert!(verdict.is_model_visible() && verdict.is_command_visible(), "{verdict:?}");
        settings.entries.get_mut("a").unwrap().enabled = Some(false);
        let verdict = one(home.path(), &settings, &config, &env);
        assert!(verdict.is_disabled && !verdict.is_usable());
    }

    #[test]
    fn always_is_not_stronger_than_the_system_or_the_user() {
        let home = tempfile::tempdir().unwrap();
        let here = home.path().join("skills");
        scan::make(
            &here.join("a"),
            "a",
            "metadata: {openclaw: {always: true, requires: {bins: [nope]}}}",
        );
        scan::make(&here.join("b"), "b", "metadata: {openclaw: {always: true, os: [plan9]}}");
        let (settings, env) = (scan::settings(home.path()), Env::fixed([], home.path()));
        let eligible: Vec<_> = judge(home.path(), &settings, &json!({}), &env)
            .iter()
            .map(Verdict::is_eligible)
            .collect();
        assert_eq!(eligible, [true, false]);
    }

    #[test]
    fn allowlists_hold_for_bundled_skills_and_for_agents() {
        let home = tempfile::tempdir().unwrap();
        let bundled = home.path().join("bundled");
        scan::make(&bundled.join("a"), "a", "");
        scan::make(&bundled.join("b"), "b", "");
        scan::make(&home.path().join("skills/c"), "c", "");
        let mut settings = scan::settings(home.path());
        settings.bundled_dir = Some(bundled);
        settings.allow_bundled = Some(vec!["a".into()]);
        let env = Env::fixed([], home.path());
        let usable = judge(home.path(), &settings, &json!({}), &env);
        let usable: Vec<_> = usable.iter().map(Verdict::is_usable).collect();
        assert_eq!(usable, [true, false, true]);
    }
}
