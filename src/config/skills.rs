//! The `skills` section, and which skills an agent may have.
//!
//! Owns: where skills are looked for, what is set for each of them, how much
//! of them the model is told. Must not: read a skill.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::agent_id::id_of;
use super::explain::{Choice, Ledger};
use super::schema::{MAX_INTEGER, Node};
use super::secrets::SecretInput;
use super::{ConfigError, Env, Paths};
use crate::support::{Secret, reading, sort};

/// Skills in the prompt, as in the original.
const DEFAULT_MAX_IN_PROMPT: usize = 150;
/// Characters of the list in the prompt, as in the original.
const DEFAULT_MAX_PROMPT_CHARS: usize = 18_000;
/// Bytes of a `SKILL.md`, as in the original.
const DEFAULT_MAX_FILE_BYTES: u64 = 256_000;
/// Most that `skills.limits.maxSkillFileBytes` allows: a file is read whole.
const LARGEST_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Where skills are, and what is set for them.
#[derive(Debug, Clone)]
pub struct SkillsSettings {
    /// Skills for all agents: `<state dir>/skills`.
    pub managed_dir: PathBuf,
    /// `OPENCLAW_BUNDLED_SKILLS_DIR`: skills of an OpenClaw that is installed.
    pub bundled_dir: Option<PathBuf>,
    /// `~/.agents/skills`, unless the state directory is elsewhere.
    pub personal_dir: Option<PathBuf>,
    /// Further folders.
    pub extra_dirs: Vec<PathBuf>,
    /// Which bundled skills may be used; any when not set.
    pub allow_bundled: Option<Vec<String>>,
    /// What is set for a skill, by its key.
    pub entries: BTreeMap<String, SkillEntry>,
    /// Skills in the prompt.
    pub max_in_prompt: usize,
    /// Bytes of a `SKILL.md`; a larger one is passed over.
    pub max_file_bytes: u64,
    max_prompt_chars: usize,
    only: Option<Vec<String>>,
    agents: BTreeMap<String, AgentSkills>,
}

/// `skills.entries.<key>`.
#[derive(Debug, Clone, Default)]
pub struct SkillEntry {
    /// Whether it may be used.
    pub enabled: Option<bool>,
    /// The value of the variable that the skill names as its main one.
    pub api_key: Option<SecretInput>,
    /// Variables for the commands of runs.
    pub env: BTreeMap<String, Secret>,
}

/// What an agent says of skills.
#[derive(Debug, Clone, Default)]
struct AgentSkills {
    only: Option<Vec<String>>,
    max_prompt_chars: Option<usize>,
}

impl SkillsSettings {
    /// The folders of skills that are no agent's own.
    pub fn shared_dirs(&self) -> impl Iterator<Item = &PathBuf> {
        let optional = self.bundled_dir.iter().chain(&self.personal_dir);
        self.extra_dirs.iter().chain(optional).chain([&self.managed_dir])
    }

    /// The only skills that this agent may have, by name; any when `None`.
    pub fn only(&self, agent_id: &str) -> Option<&[String]> {
        let own = self.agents.get(agent_id).and_then(|agent| agent.only.as_deref());
        own.or(self.only.as_deref())
    }

    /// Characters of the list in this agent's prompt.
    pub fn max_prompt_chars(&self, agent_id: &str) -> usize {
        let own = self.agents.get(agent_id).and_then(|agent| agent.max_prompt_chars);
        own.unwrap_or(self.max_prompt_chars)
    }
}

pub(super) fn read(
    root: &Node<'_>,
    paths: &Paths,
    env: &Env,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<SkillsSettings, ConfigError> {
    let node = root.member("skills")?;
    let limits = node.member("limits")?;
    let in_prompt =
        Choice::file(file, limits.member("maxSkillsInPrompt")?.integer_or_zero(MAX_INTEGER)?);
    let chars =
        Choice::file(file, limits.member("maxSkillsPromptChars")?.integer_or_zero(MAX_INTEGER)?);
    let bytes = Choice::file(
        file,
        limits.member("maxSkillFileBytes")?.bounded::<u64>(0, LARGEST_FILE_BYTES)?,
    );
    let allow_bundled = node.member("allowBundled")?.texts()?;
    ledger.settle_list("skills.allowBundled", Choice::file(file, allow_bundled.clone()), vec![]);
    let dirs = node.at("load.extraDirs")?.texts()?;
    let extra = dirs.iter().flatten().map(|dir| paths.expand(dir.trim()));
    let extra_dirs = extra.collect::<Result<_, _>>()?;
    ledger.settle_list("skills.load.extraDirs", Choice::file(file, dirs), vec![]);
    let only = root.at("agents.defaults.skills")?.texts()?;
    ledger.settle_list("agents.defaults.skills", Choice::file(file, only.clone()), vec![]);
    let entries = entries(&node.member("entries")?)?;
    let shown: Vec<_> = entries.keys().cloned().collect();
    let shown = Some(shown).filter(|keys| !keys.is_empty());
    ledger.settle_list("skills.entries", Choice::file(file, shown), vec![]);
    let bundled_dir = env.get("OPENCLAW_BUNDLED_SKILLS_DIR");
    let is_usual = paths.expand("~/.openclaw").is_ok_and(|usual| usual == paths.state_dir);
    let personal_dir = paths.expand("~/.agents/skills").ok().filter(|_| is_usual);
    Ok(SkillsSettings {
        managed_dir: paths.state_dir.join("skills"),
        bundled_dir: bundled_dir.map(|dir| paths.expand(&dir)).transpose()?,
        personal_dir,
        extra_dirs,
        allow_bundled: allow_bundled.filter(|names| !names.is_empty()),
        entries,
        max_in_prompt: ledger.settle(
            "skills.limits.maxSkillsInPrompt",
            in_prompt,
            DEFAULT_MAX_IN_PROMPT,
        ),
        max_prompt_chars: ledger.settle(
            "skills.limits.maxSkillsPromptChars",
            chars,
            DEFAULT_MAX_PROMPT_CHARS,
        ),
        max_file_bytes: ledger.settle(
            "skills.limits.maxSkillFileBytes",
            bytes,
            DEFAULT_MAX_FILE_BYTES,
        ),
        only,
        agents: agents(root)?,
    })
}

fn entries(node: &Node<'_>) -> Result<BTreeMap<String, SkillEntry>, ConfigError> {
    let mut entries = BTreeMap::new();
    for (key, node) in node.members()? {
        let env = node.member("env")?.members()?.into_iter();
        let env = env.map(|(name, value)| Ok((name, Secret::new(value.required_text()?))));
        // For the skill itself to read.
        node.member("config")?.members()?;
        let entry = SkillEntry {
            enabled: node.member("enabled")?.boolean()?,
            api_key: api_key(&node.member("apiKey")?)?,
            env: sort::map(env.collect::<Result<Vec<_>, ConfigError>>()?),
        };
        entries.insert(key, entry);
    }
    Ok(entries)
}

fn api_key(node: &Node<'_>) -> Result<Option<SecretInput>, ConfigError> {
    let Some(value) = node.value() else { return Ok(None) };
    let input = match value {
        Value::String(text) => SecretInput::written(text).map_err(|rule| node.wrong(rule))?,
        // No serde error here: it would quote what is written.
        other => reading::of(other)
            .map_err(|_| node.wrong("must be a string or {source, provider, id}"))?,
    };
    let is_empty = matches!(&input, SecretInput::Text(secret) if secret.is_empty());
    Ok((!is_empty).then_some(input))
}

fn agents(root: &Node<'_>) -> Result<BTreeMap<String, AgentSkills>, ConfigError> {
    let mut agents = BTreeMap::new();
    for item in root.at("agents.list")?.items()? {
        let own = AgentSkills {
            only: item.member("skills")?.texts()?,
            max_prompt_chars: item
                .at("skillsLimits.maxSkillsPromptChars")?
                .integer_or_zero(MAX_INTEGER)?,
        };
        if let Some(id) = item.member("id")?.text()? {
            agents.insert(id_of(&id), own);
        }
    }
    Ok(agents)
}

/// Whether something is set at a dotted path of the config, as `requires.config`
/// of a skill asks: anything but `false`, 0, `null` and a blank text.
pub fn is_config_set(raw: &Value, path: &str) -> bool {
    let mut names = path.split('.').filter(|name| !name.is_empty());
    match names.try_fold(raw, |value, name| value.get(name)) {
        None | Some(Value::Null) => false,
        Some(Value::Bool(value)) => *value,
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(Value::String(text)) => !text.trim().is_empty(),
        Some(Value::Array(_) | Value::Object(_)) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    fn settings(config: &Value) -> Result<SkillsSettings, String> {
        let env = Env::fixed([("OPENCLAW_BUNDLED_SKILLS_DIR", "/b")], "/h");
        let paths = Paths::resolve(&env).unwrap();
        let file = Path::new("c.json");
        let read = read(&Node::root(config, file), &paths, &env, file, &mut Ledger::default());
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn folders_and_limits_have_the_originals_defaults() {
        let settings = settings(&json!({})).unwrap();
        assert_eq!(settings.managed_dir, Path::new("/h/.openclaw/skills"));
        assert_eq!(settings.bundled_dir.as_deref(), Some(Path::new("/b")));
        assert_eq!(settings.personal_dir.as_deref(), Some(Path::new("/h/.agents/skills")));
        assert_eq!((settings.max_in_prompt, settings.max_prompt_chars("main")), (150, 18_000));
        assert_eq!(settings.only("main"), None);
    }

    #[test]
    fn an_agents_own_list_goes_before_that_of_all_even_when_it_is_empty() {
        let settings = settings(&json!({"agents": {
            "defaults": {"skills": ["a"]},
            "list": [{"id": "main"}, {"id": "B", "skills": [],
                "skillsLimits": {"maxSkillsPromptChars": 9}}],
        }}))
        .unwrap();
        assert_eq!(settings.only("main"), Some(&["a".to_owned()][..]));
        assert_eq!(settings.only("b"), Some(&[][..]));
        assert_eq!(settings.max_prompt_chars("b"), 9);
    }

    #[test]
    fn entries_hold_switch_key_and_variables_and_hide_them() {
        let settings = settings(&json!({"skills": {"entries": {
            "gh": {"enabled": false, "apiKey": "sk-1", "env": {"GH_HOST": "h"}, "config": {"x": 1}},
            "bare": {"apiKey": ""},
        }}}))
        .unwrap();
        let entry = &settings.entries["gh"];
        assert_eq!(entry.enabled, Some(false));
        assert_eq!(entry.env["GH_HOST"].expose(), "h");
        assert!(entry.api_key.is_some() && settings.entries["bare"].api_key.is_none());
        assert!(!format!("{settings:?}").contains("sk-1"));
    }

    #[test]
    fn a_wrong_entry_is_told_without_its_secret() {
        for (entry, part) in [
            (json!({"apiKey": {"source": "sk-9"}}), "skills.entries.x.apiKey: must be a string"),
            (json!({"enabled": 1}), "skills.entries.x.enabled: must be true or false"),
            (json!({"env": {"A": 1}}), "skills.entries.x.env.A: must be a string"),
        ] {
            let error = settings(&json!({"skills": {"entries": {"x": entry}}})).unwrap_err();
            assert!(error.contains(part) && !error.contains("sk-9"), "{error}");
        }
    }

    #[test]
    fn set_means_neither_false_nor_empty() {
        let raw = json!({"a": {"b": true, "c": "", "d": 0, "e": {}, "f": false}});
        for (path, is_set) in [
            ("a.b", true),
            ("a.c", false),
            ("a.d", false),
            ("a.e", true),
            ("a.f", false),
            ("x.y", false),
        ] {
            assert_eq!(is_config_set(&raw, path), is_set, "{path}");
        }
    }
}
