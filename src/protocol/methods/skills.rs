//! `skills.*`.

use crate::protocol::decode::{
    Fields, Params, boolean, dictionary, integer_from, literal, non_empty, text,
};

/// Params of `skills.status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillsStatusParams {
    /// Which agent; the default one when absent.
    pub agent_id: Option<String>,
}

impl Params for SkillsStatusParams {
    fn read(f: &mut Fields) -> Self {
        Self { agent_id: f.optional("agentId", non_empty()) }
    }
}

/// Params of `skills.search`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillsSearchParams {
    /// What for; everything when absent.
    pub query: Option<String>,
    /// Most results.
    pub limit: Option<u64>,
}

impl Params for SkillsSearchParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            query: f.optional("query", non_empty()),
            limit: f.optional("limit", integer_from(1).max(100)),
        }
    }
}

/// Params of `skills.detail`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillsDetailParams {
    /// The skill's name in the registry, or here.
    pub slug: String,
}

impl Params for SkillsDetailParams {
    fn read(f: &mut Fields) -> Self {
        Self { slug: f.required("slug", non_empty()) }
    }
}

/// Params of `skills.update`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillsUpdateParams {
    /// Changes what is set for one skill.
    Entry {
        /// Its key.
        skill_key: String,
        /// Whether it may be used.
        enabled: Option<bool>,
        /// The value of its main variable; empty to take it away.
        api_key: Option<String>,
        /// Variables; empty ones are taken away.
        env: Vec<(String, String)>,
    },
    /// Asks `ClawHub` for newer versions.
    ClawHub,
}

impl Params for SkillsUpdateParams {
    fn read(f: &mut Fields) -> Self {
        let entry = |f: &mut Fields| Self::Entry {
            skill_key: f.required("skillKey", non_empty()),
            enabled: f.optional("enabled", boolean()),
            api_key: f.optional("apiKey", text()),
            env: f.optional("env", dictionary(text())).unwrap_or_default(),
        };
        let hub = |f: &mut Fields| {
            f.required("source", literal(&["clawhub"]));
            f.optional("slug", non_empty());
            f.optional("all", boolean());
            Self::ClawHub
        };
        // As dashboards call it.
        f.alias("skillKey", "id");
        f.one_of_forms(&[entry, hub]).unwrap_or(Self::ClawHub)
    }
}

/// Params of `skills.install`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillsInstallParams {
    /// Runs an installer that a skill declares.
    Installer {
        /// The skill.
        name: String,
    },
    /// Fetches a skill from `ClawHub`.
    ClawHub,
    /// Copies a skill from a folder of the gateway's machine; ours.
    Local {
        /// Its absolute path, or one below `~`.
        path: String,
        /// Whether it replaces one that is there.
        is_forced: bool,
    },
}

impl Params for SkillsInstallParams {
    fn read(f: &mut Fields) -> Self {
        if f.is_literal("source", "local") {
            f.required("source", literal(&["local"]));
            return Self::Local {
                path: f.required("path", non_empty()),
                is_forced: f.optional("force", boolean()).unwrap_or_default(),
            };
        }
        let installer = |f: &mut Fields| {
            // Dashboards name the skill by this alone.
            let is_dashboards = f.alias("name", "id");
            let name = f.required("name", non_empty());
            if is_dashboards {
                f.optional("installId", non_empty());
            } else {
                f.required("installId", non_empty());
            }
            f.optional("dangerouslyForceUnsafeInstall", boolean());
            f.optional("timeoutMs", integer_from(1000));
            Self::Installer { name }
        };
        let hub = |f: &mut Fields| {
            f.required("source", literal(&["clawhub"]));
            f.required("slug", non_empty());
            f.optional("version", non_empty());
            f.optional("force", boolean());
            f.optional("timeoutMs", integer_from(1000));
            Self::ClawHub
        };
        f.one_of_forms(&[installer, hub]).unwrap_or(Self::ClawHub)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::protocol::decode::{Unknown, decode};
    use crate::support::json;

    fn read<P: Params>(method: &str, value: Value) -> Result<P, String> {
        decode(method, value, Unknown::Refuse).map_err(|error| error.message)
    }

    #[test]
    fn params_of_no_form_are_told_what_all_forms_lack() {
        assert_eq!(
            read::<SkillsInstallParams>("skills.install", json!({})).unwrap_err(),
            "invalid skills.install params: must have required property 'name'; must have required \
             property 'installId'; must have required property 'source'; must have required property \
             'slug'; must match a schema in anyOf"
        );
        assert_eq!(
            read::<SkillsUpdateParams>("skills.update", json!({})).unwrap_err(),
            "invalid skills.update params: must have required property 'skillKey'; must have required \
             property 'source'; must match a schema in anyOf"
        );
    }

    #[test]
    fn each_form_is_recognised() {
        let update = json!({"skillKey": "a", "enabled": true, "env": {"A": "1"}});
        assert_eq!(
            read("skills.update", update),
            Ok(SkillsUpdateParams::Entry {
                skill_key: "a".into(),
                enabled: Some(true),
                api_key: None,
                env: vec![("A".into(), "1".into())],
            })
        );
        let by_id = json!({"id": "a", "enabled": false});
        assert!(matches!(
            read::<SkillsUpdateParams>("skills.update", by_id),
            Ok(SkillsUpdateParams::Entry { skill_key, enabled: Some(false), .. }) if skill_key == "a"
        ));
        assert_eq!(
            read("skills.install", json!({"id": "a"})),
            Ok(SkillsInstallParams::Installer { name: "a".into() })
        );
        let hub = json!({"source": "clawhub", "slug": "x"});
        assert_eq!(read("skills.install", hub), Ok(SkillsInstallParams::ClawHub));
        let local = json!({"source": "local", "path": "/s", "force": true});
        assert_eq!(
            read("skills.install", local),
            Ok(SkillsInstallParams::Local { path: "/s".into(), is_forced: true })
        );
        let error = read::<SkillsInstallParams>("skills.install", json!({"source": "local"}));
        assert_eq!(
            error.unwrap_err(),
            "invalid skills.install params: must have required property 'path'"
        );
    }
}
