//! What a client may set of a session, and what that means for its entry.
//!
//! Owns: the words that settings take. Promises: a patch is applied whole or
//! refused with the original's text. Must not: write anything.

use crate::protocol::decode::Setting;
use crate::protocol::methods::session_settings::SessionSettings;
use crate::providers::{ModelRef, NameError, ThinkingLevel};
use crate::sessions::{KeyRules, SessionEntry, SessionKey};

use super::models::Models;

const ON_OFF_FULL: [&str; 3] = ["on", "off", "full"];
const TRACE: [&str; 3] = ["on", "off", "raw"];
const REASONING: [&str; 3] = ["on", "off", "stream"];
const ELEVATED: [&str; 4] = ["on", "off", "ask", "full"];
const EXEC_HOSTS: [&str; 4] = ["auto", "sandbox", "gateway", "node"];
const EXEC_SECURITY: [&str; 3] = ["deny", "allowlist", "full"];
const EXEC_ASK: [&str; 3] = ["off", "on-miss", "always"];
/// The mode in which nothing is changed.
const PLAN: &str = "plan";

/// What a patch is applied with.
#[derive(Clone)]
pub struct PatchContext {
    /// The session.
    pub key: SessionKey,
    /// Models to choose from.
    pub models: Models,
}

impl PatchContext {
    /// Changes an entry as a client wishes.
    ///
    /// # Errors
    /// The original's text for a value that a setting does not take, or that
    /// this session does not.
    pub fn apply(&self, settings: SessionSettings, entry: &mut SessionEntry) -> Result<(), String> {
        self.apply_lineage(&self.models.keys(), &settings, entry)?;
        if let Setting::Set(label) = &settings.label
            && label.trim().is_empty()
        {
            return Err("invalid label: empty".into());
        }
        put(trimmed(settings.label), &mut entry.label);
        thinking(settings.thinking_level, &mut entry.thinking_level)?;
        put(settings.fast_mode, &mut entry.fast_mode);
        word("verboseLevel", &ON_OFF_FULL, settings.verbose_level, &mut entry.verbose_level)?;
        word("traceLevel", &TRACE, settings.trace_level, &mut entry.trace_level)?;
        word("reasoningLevel", &REASONING, settings.reasoning_level, &mut entry.reasoning_level)?;
        put(usage(settings.response_usage), &mut entry.response_usage);
        word("elevatedLevel", &ELEVATED, settings.elevated_level, &mut entry.elevated_level)?;
        mode(settings.permission_mode, entry)?;
        word("execHost", &EXEC_HOSTS, settings.exec_host, &mut entry.exec_host)?;
        word("execSecurity", &EXEC_SECURITY, settings.exec_security, &mut entry.exec_security)?;
        word("execAsk", &EXEC_ASK, settings.exec_ask, &mut entry.exec_ask)?;
        if let Setting::Set(node) = &settings.exec_node
            && node.trim().is_empty()
        {
            return Err("invalid execNode: empty".into());
        }
        put(trimmed(settings.exec_node), &mut entry.exec_node);
        put(settings.send_policy, &mut entry.send_policy);
        put(settings.group_activation, &mut entry.group_activation);
        self.apply_model(settings.model, entry)
    }

    /// Where a sub-agent comes from: told once, by whoever began it.
    fn apply_lineage(
        &self,
        keys: &KeyRules,
        settings: &SessionSettings,
        entry: &mut SessionEntry,
    ) -> Result<(), String> {
        let is_spawned = self.key.is_spawned();
        let parent = match &settings.spawned_by {
            Setting::Set(parent) => Setting::Set(SessionKey::parse(parent, keys).to_string()),
            other => other.clone(),
        };
        once("spawnedBy", is_spawned, parent, &mut entry.spawned_by)?;
        let folder = trimmed(settings.spawned_workspace_dir.clone());
        once("spawnedWorkspaceDir", is_spawned, folder, &mut entry.spawned_workspace_dir)?;
        once("spawnDepth", is_spawned, settings.spawn_depth, &mut entry.spawn_depth)?;
        let (role, scope) = (&settings.subagent_role, &settings.subagent_control_scope);
        once("subagentRole", is_spawned, role.clone(), &mut entry.subagent_role)?;
        let slot = &mut entry.subagent_control_scope;
        once("subagentControlScope", is_spawned, scope.clone(), slot)
    }

    /// The agent's own model needs no note; any other is kept, also one that
    /// there is not (yet).
    fn apply_model(
        &self,
        setting: Setting<String>,
        entry: &mut SessionEntry,
    ) -> Result<(), String> {
        let agent = self.key.agent(&self.models.keys());
        let wanted = match setting {
            Setting::Keep => return Ok(()),
            Setting::Clear => None,
            Setting::Set(written) if written.trim().is_empty() => {
                return Err("invalid model: empty".into());
            }
            Setting::Set(written) => {
                let named = self.models.named(written.trim(), &agent);
                Some(named.map_err(|error| match error {
                    NameError::NotAllowed(name) => format!("model not allowed: {name}"),
                    error => error.to_string(),
                })?)
            }
        };
        let wanted = wanted.filter(|name| !self.models.of_agent(&agent).is(name));
        if self.models.chosen(entry) != wanted {
            entry.live_model_switch_pending = Some(true);
            (entry.model_provider, entry.model, entry.context_tokens) = (None, None, None);
        }
        entry.model_override_source = wanted.as_ref().map(|_| "user".into());
        (entry.provider_override, entry.model_override) = match wanted {
            Some(ModelRef { provider, model }) => (Some(provider), Some(model)),
            None => (None, None),
        };
        Ok(())
    }
}

fn put<T>(setting: Setting<T>, slot: &mut Option<T>) {
    match setting {
        Setting::Keep => {}
        Setting::Clear => *slot = None,
        Setting::Set(value) => *slot = Some(value),
    }
}

fn trimmed(setting: Setting<String>) -> Setting<String> {
    match setting {
        Setting::Set(text) => Setting::Set(text.trim().to_owned()),
        other => other,
    }
}

fn word(
    name: &str,
    allowed: &[&str],
    setting: Setting<String>,
    slot: &mut Option<String>,
) -> Result<(), String> {
    let setting = match setting {
        Setting::Set(text) => {
            let mut said = text.trim().to_lowercase();
            if allowed.contains(&"on") {
                said = switch(said);
            }
            if !allowed.contains(&said.as_str()) {
                let quoted: Vec<_> = allowed.iter().map(|word| format!("\"{word}\"")).collect();
                return Err(format!("invalid {name} (use {})", quoted.join("|")));
            }
            Setting::Set(said)
        }
        other => other,
    };
    put(setting, slot);
    Ok(())
}

/// What the original takes for `on` and `off` as well.
fn switch(said: String) -> String {
    match said.as_str() {
        "true" | "yes" | "1" => "on".into(),
        "false" | "no" | "0" => "off".into(),
        _ => said,
    }
}

/// A mode stands for settings of commands, so these go with it. No session is less
/// strict than the configuration, so `bypassPermissions` only ends its own rules.
fn mode(setting: Setting<String>, entry: &mut SessionEntry) -> Result<(), String> {
    let (security, ask) = match &setting {
        Setting::Keep => return Ok(()),
        Setting::Clear => (None, None),
        Setting::Set(mode) => match mode.as_str() {
            // Edits are not asked about here.
            "default" | "acceptEdits" => (Some("allowlist"), Some("on-miss")),
            PLAN => (Some("deny"), None),
            "bypassPermissions" => (None, None),
            _ => {
                return Err("invalid permissionMode (use \"default\"|\"acceptEdits\"|\"plan\"|\
                    \"bypassPermissions\")"
                    .into());
            }
        },
    };
    put(setting, &mut entry.permission_mode);
    (entry.exec_security, entry.exec_ask) = (security.map(Into::into), ask.map(Into::into));
    Ok(())
}

/// Whether a session may only look.
pub fn only_plans(entry: &SessionEntry) -> bool {
    entry.permission_mode.as_deref() == Some(PLAN)
}

/// A model without the highest level thinks as hard as it can with it. To adapt is to think
/// like `medium`, as in the configuration.
fn thinking(setting: Setting<String>, slot: &mut Option<String>) -> Result<(), String> {
    let setting = match setting {
        Setting::Set(text) => {
            let adapts = ["adaptive", "auto"].iter().any(|it| it.eq_ignore_ascii_case(text.trim()));
            let level =
                if adapts { Some(ThinkingLevel::Medium) } else { ThinkingLevel::meant_by(&text) };
            let level = level.ok_or("invalid thinkingLevel (use off|minimal|low|medium|high)")?;
            Setting::Set(level.as_str().to_owned())
        }
        other => other,
    };
    put(setting, slot);
    Ok(())
}

/// `on` is the short form; `off` is what holds without a setting.
fn usage(setting: Setting<String>) -> Setting<String> {
    match setting {
        Setting::Set(text) if text == "on" => Setting::Set("tokens".into()),
        Setting::Set(text) if text == "off" => Setting::Clear,
        other => other,
    }
}

/// A setting of sub-agents that stays as it was first set.
fn once<T: PartialEq>(
    name: &str,
    is_spawned: bool,
    setting: Setting<T>,
    slot: &mut Option<T>,
) -> Result<(), String> {
    let is_other = match &setting {
        Setting::Clear if slot.is_some() => {
            return Err(format!("{name} cannot be cleared once set"));
        }
        Setting::Keep | Setting::Clear => return Ok(()),
        Setting::Set(value) => slot.as_ref().is_some_and(|old| old != value),
    };
    if !is_spawned {
        return Err(format!("{name} is only supported for subagent:* or acp:* sessions"));
    }
    if is_other {
        return Err(format!("{name} cannot be changed once set"));
    }
    put(setting, slot);
    Ok(())
}
