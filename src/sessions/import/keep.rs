//! OpenClaw's indexes, taken along for a database that is lost.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::super::error::SessionError;
use super::super::rebuild;
use super::super::steps::blocking;
use super::super::{AgentId, KeyRules, SessionKey, paths};
use super::plan::Plan;
use super::report::{ImportReport, LeftOut};
use super::service::Import;
use crate::store::SourceNote;
use crate::store::atomic::create_private;

impl Import {
    /// Takes OpenClaw's indexes along, where there are none: the keys of its transcripts are
    /// nowhere else, should ours be lost.
    pub(super) async fn keep_indexes(
        &self,
        plans: &[Plan],
        report: &mut ImportReport,
    ) -> Result<(), SessionError> {
        let other = |plan: &Plan| {
            let (from, _) = plan.index.as_ref().filter(|(from, to)| from != to)?;
            Some((AgentId::normalize(&plan.report.agent_id), from.clone()))
        };
        let indexes: Vec<_> = plans.iter().filter_map(other).collect();
        if self.is_dry || indexes.is_empty() {
            return Ok(());
        }
        let (to, rules) = (self.to.clone(), self.rules.clone());
        let (brought, failed) = blocking(move || Ok(keep(&indexes, &to, &rules))).await?;
        report.brought.extend(brought);
        report.left_out.extend(failed);
        Ok(())
    }
}

/// Writes the indexes that agents do not have here. Each has its own keys, wherever they were
/// listed: in the folder of another agent nobody would look for their transcripts.
fn keep(
    indexes: &[(AgentId, PathBuf)],
    to: &Path,
    rules: &KeyRules,
) -> (Vec<SourceNote>, Vec<LeftOut>) {
    let mut by_agent: BTreeMap<AgentId, Map<String, Value>> = BTreeMap::new();
    let (mut brought, mut failed, mut unread) = (Vec::new(), Vec::new(), HashSet::new());
    let mut fail = |path: &Path, why: String| {
        failed.push(LeftOut { what: path.display().to_string(), why });
    };
    for (agent, from) in indexes {
        let index = match rebuild::read_index(from) {
            Ok(index) => index,
            Err(error) => {
                fail(from, error.to_string());
                unread.insert(agent);
                continue;
            }
        };
        // One that lists nothing says that nothing else is a session.
        by_agent.entry(agent.clone()).or_default();
        for (name, entry) in index {
            let key = SessionKey::parse_for(&name, agent, rules);
            let owner = if key.names_agent() { key.agent(rules) } else { agent.clone() };
            by_agent.entry(owner).or_default().entry(name).or_insert(entry);
        }
    }
    for (agent, index) in by_agent {
        if unread.contains(&agent) {
            continue;
        }
        let (path, text) = (paths::index(to, &agent), Value::Object(index).to_string());
        let is_ours = if path.exists() {
            // Of an import that was cut off.
            Ok(fs::read(&path).is_ok_and(|it| it == text.as_bytes()))
        } else {
            create_private(&path, text.as_bytes())
        };
        match is_ours {
            Ok(true) => brought.push(SourceNote::of(&path)),
            Ok(false) => {}
            Err(error) => fail(&path, error.to_string()),
        }
    }
    (brought, failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_cannot_be_read_is_kept_as_none() {
        let root = tempfile::tempdir().unwrap();
        let (broken, whole) = (root.path().join("broken.json"), root.path().join("whole.json"));
        fs::write(&broken, "{").unwrap();
        fs::write(&whole, r#"{"agent:main:one": {}}"#).unwrap();
        let [main, other] = ["main", "other"].map(AgentId::normalize);
        let indexes = [(main.clone(), broken.clone()), (other.clone(), whole)];
        let to = root.path().join("state");
        for agent in [&main, &other] {
            fs::create_dir_all(paths::folder(&to, agent)).unwrap();
        }
        let kept = paths::index(&to, &other);
        let keep = || {
            let (brought, failed) = keep(&indexes, &to, &KeyRules::default());
            let failed: Vec<_> = failed.into_iter().map(|one| one.what).collect();
            assert_eq!(failed, [broken.display().to_string()]);
            assert!(!paths::index(&to, &main).exists());
            brought
        };
        for round in ["first", "after it was cut off"] {
            assert_eq!(keep(), [SourceNote::of(&kept)], "{round}");
        }
        fs::write(&kept, r#"{"agent:other:new": {}}"#).unwrap();
        assert_eq!(keep(), [], "it is another one by now");
    }
}
