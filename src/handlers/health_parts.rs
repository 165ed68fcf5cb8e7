//! How each part of the gateway is, for `health`.
//!
//! Promises: what is wrong is said in words, with the time since when; a part
//! that works says how much it does. Must not: ask the network.

use std::sync::Arc;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::config::document::ConfigIssue;
use crate::config::{self, ConfigFile, Env};
use crate::registry::Services;
use crate::support::{blocking, hex, json, memory, trouble, with_cause, without_nulls};
use crate::telemetry;

/// Parts without which nothing can be promised.
const CORE: [&str; 4] = ["store", "database", "transcripts", "tasks"];
/// Jobs that are named; the rest is counted.
const NAMED: usize = 3;

/// How the parts are.
pub struct Parts {
    /// By name.
    pub parts: Map<String, Value>,
    /// Names of those that are not well.
    pub degraded: Vec<String>,
}

impl Parts {
    /// Whether the gateway does what it promises.
    pub fn is_well(&self) -> bool {
        !self.degraded.iter().any(|part| CORE.contains(&part.as_str()))
    }

    /// Adds a part: what it does, and what is wrong with it.
    fn add(&mut self, name: &'static str, facts: Value, error: Option<String>) {
        let wrong = trouble::found(name, error);
        self.put(name, facts, wrong);
    }

    /// The same of a part that notes its own troubles.
    fn add_noted(&mut self, name: &'static str, facts: Value) {
        self.put(name, facts, trouble::of(name));
    }

    fn put(&mut self, name: &str, mut facts: Value, wrong: Option<trouble::Trouble>) {
        let mut part = Map::from_iter([("ok".to_owned(), Value::Bool(wrong.is_none()))]);
        if let Some(wrong) = wrong {
            part.insert("error".into(), telemetry::without_secrets(&wrong.error).into());
            part.insert("since".into(), wrong.since.into());
            self.degraded.push(name.to_owned());
        }
        if let Value::Object(facts) = &mut facts {
            part.append(facts);
        }
        self.parts.insert(name.to_owned(), without_nulls(Value::Object(part)));
    }
}

/// Looks at every part. `accounts` is what `channels.status` tells of accounts.
pub async fn parts(services: &Services, accounts: Option<&Value>) -> Parts {
    let mut parts = Parts { parts: Map::new(), degraded: Vec::new() };
    parts.add_noted("store", json!({}));
    parts.add_noted("transcripts", json!({}));
    parts.add_noted("listener", json!({}));
    parts.add_noted("control", json!({}));
    if services.settings.now().gateway.tls.enabled {
        parts.add_noted("tls", json!({}));
    }
    parts.add_noted("log", json!({"writes": telemetry::place().is_some()}));
    let (active, waiting) = services.runs.counts();
    let tasks = services.runs.tasks();
    parts.add(
        "runs",
        json!({"active": active, "waiting": waiting, "ended": tasks["byStatus"]}),
        None,
    );
    let panics = services.tasks.panics();
    let said = panics.iter().map(|(name, count)| format!("{name} ({count})"));
    let said = said.collect::<Vec<_>>().join(", ");
    let error = (!panics.is_empty()).then(|| format!("tasks panicked: {said}"));
    parts.add("tasks", json!({"alive": services.tasks.len()}), error);
    let (is_pending, error) = config_state(services).await;
    parts.add("config", json!({"pending": is_pending.then_some(true)}), error);
    let (count, error) = channels(accounts);
    parts.add("channels", json!({"accounts": count}), error);
    cron(services, &mut parts).await;
    approvals(services, &mut parts).await;
    models(services, &mut parts).await;
    parts.add("nodes", json!({"connected": services.nodes.connected()}), None);
    let workspaces = Arc::clone(&services.runs.parts().workspaces);
    let lacking = if workspaces.lacks_any() {
        blocking(move || workspaces.lacking()).await.ok().flatten()
    } else {
        None
    };
    trouble::found("workspaces", lacking);
    trouble::found("hooks", services.settings.now().hooks.trouble.clone());
    for name in ["database", "hooks", "openclaw", "sessions", "workspaces"] {
        if trouble::of(name).is_some() {
            parts.add_noted(name, json!({}));
        }
    }
    if let Some(used) = memory::used() {
        parts.add("memory", json!({"rssBytes": used.resident, "peakRssBytes": used.peak}), None);
    }
    parts
}

/// Whether something in the config waits, and what is wrong with it.
async fn config_state(services: &Services) -> (bool, Option<String>) {
    if let Some(repair) = &services.repair {
        return (true, Some(repair.to_string()));
    }
    let (state, settings) = (services.reload.state.now(), services.settings.now());
    let (differs, error) = file_state(settings.file.clone(), services.env.clone()).await;
    // Of a file that is as it was again nothing is wrong, but of one that it includes.
    let may_be_wrong = differs || !settings.included.is_empty();
    let error = error.or_else(|| state.said().filter(|_| may_be_wrong));
    (differs || error.is_some() || !settings.pending.is_empty(), error)
}

/// Whether the config file has another text than the one in use, and what is
/// wrong with that.
async fn file_state(used: ConfigFile, env: Env) -> (bool, Option<String>) {
    let look = move || {
        let text = match config::read_text(&used.path) {
            Ok(text) => text,
            Err(error) => return (true, Some(ConfigIssue::from(&error).message)),
        };
        let is_there = text.is_some();
        let text = text.unwrap_or_default();
        // An empty file is another one than none.
        if is_there == used.exists && hex(Sha256::digest(&text)) == used.hash {
            return (false, None);
        }
        let wrong = config::check(&text, &env).err();
        let wrong = wrong.map(|error| format!("{error}; the config before it stays in use"));
        (true, wrong)
    };
    blocking(look).await.unwrap_or((false, None))
}

/// How many accounts of channels are in use, and which of them fail.
fn channels(accounts: Option<&Value>) -> (usize, Option<String>) {
    let by_kind = accounts.and_then(Value::as_object);
    let mut count = 0;
    let mut wrong = Vec::new();
    for (kind, rows) in by_kind.into_iter().flatten() {
        for row in rows.as_array().into_iter().flatten().filter(|row| row["enabled"] == true) {
            count += 1;
            let id = row["accountId"].as_str().unwrap_or_default();
            if let Some(error) = row["lastError"].as_str() {
                wrong.push(format!("{kind} {id}: {error}"));
            } else if row["running"] == true && row["connected"] == false {
                wrong.push(format!("{kind} {id} is not connected"));
            }
        }
    }
    (count, (!wrong.is_empty()).then(|| wrong.join("; ")))
}

/// Jobs that fail.
async fn cron(services: &Services, parts: &mut Parts) {
    let cron = &services.runs.parts().cron;
    let enabled = services.settings.now().cron.enabled;
    match cron.failing().await {
        Err(error) => parts.add("cron", json!({"enabled": enabled}), Some(error.to_string())),
        Ok((jobs, failing)) => {
            let named = failing.iter().take(NAMED);
            let named = named.map(|(name, times)| format!("{name} ({times} times in a row)"));
            let named = named.collect::<Vec<_>>().join(", ");
            let error = match failing.len() {
                0 => None,
                all if all > NAMED => Some(format!("{all} jobs fail, such as {named}")),
                _ => Some(format!("jobs fail: {named}")),
            };
            let stuck = cron.stuck();
            let named = stuck.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
            let stuck = (!stuck.is_empty()).then(|| {
                format!("the database does not take jobs that are due ({}): {named}", stuck.len())
            });
            let said: Vec<_> = stuck.into_iter().chain(error).collect();
            let error = (!said.is_empty()).then(|| said.join("; "));
            let facts = json!({"enabled": enabled, "jobs": jobs, "running": cron.running()});
            parts.add("cron", facts, error);
        }
    }
}

/// Whether what says which commands may run can be followed.
async fn approvals(services: &Services, parts: &mut Parts) {
    // Who helps to mend the config reads nothing else.
    let error = if services.repair.is_none() {
        services.runs.parts().approvals.check_file().await.err()
    } else {
        None
    };
    parts.add("approvals", json!({}), error.map(|error| with_cause(&error)));
}

/// Whether the default model can be asked.
async fn models(services: &Services, parts: &mut Parts) {
    let model = Arc::clone(&services.models.default_choice().model);
    let failover = services.models.failover();
    let credentials = failover.credentials();
    let keys = services.keys.now();
    let agent = keys.default_agent.as_str();
    let offered = credentials.for_model(agent, &model).await;
    let rests: Vec<_> = offered.iter().filter_map(|it| credentials.rest(it, &model)).collect();
    let stored = credentials.profiles(agent).await;
    let is_stored = stored.iter().any(|it| it.opens(&model.provider));
    let has_any = is_stored || model.has_credential();
    let name = model.reference().to_string();
    let error = if let Some(why) = &model.options.missing {
        Some(why.to_string())
    } else if !has_any {
        let why = model.options.unset.as_ref().map(ToString::to_string);
        Some(why.unwrap_or_else(|| format!("there is no credential for {name}")))
    } else if rests.len() == offered.len() {
        rests.iter().min_by_key(|rest| rest.until_ms).map(|rest| {
            let why = rest.reason.as_str();
            format!("every credential for {name} rests ({why}) until {}", time(rest.until_ms))
        })
    } else {
        None
    };
    parts.add("models", json!({"default": name, "resting": rests.len()}), error);
}

/// A time as people read it.
fn time(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    format!("{:.0}", at.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_one_that_people_read() {
        assert_eq!(time(1_796_090_413_832), "2026-12-01T02:00:13Z");
    }

    #[test]
    fn an_account_that_fails_is_named_with_its_reason() {
        let accounts = json!({"telegram": [
            {"accountId": "a", "enabled": true, "running": true, "connected": true},
            {"accountId": "b", "enabled": true, "lastError": "401 Unauthorized"},
            {"accountId": "c", "enabled": true, "running": true, "connected": false},
            {"accountId": "d", "enabled": false, "lastError": "old"},
        ]});
        let (count, error) = channels(Some(&accounts));
        assert_eq!(count, 3);
        assert_eq!(error.unwrap(), "telegram b: 401 Unauthorized; telegram c is not connected");
        assert_eq!(channels(None), (0, None));
    }

    #[tokio::test]
    async fn a_config_file_that_is_not_valid_any_more_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("openclaw.json");
        let home = dir.path().to_str().unwrap().to_owned();
        let env = || Env::fixed([("OPENCLAW_STATE_DIR", home.as_str())], "/h");
        let used = |text: Option<&str>| ConfigFile {
            path: file.clone(),
            exists: text.is_some(),
            is_blank: text.is_none(),
            hash: hex(Sha256::digest(text.unwrap_or_default())),
        };
        assert_eq!(file_state(used(None), env()).await, (false, None));
        std::fs::write(&file, "").unwrap();
        let (is_pending, error) = file_state(used(None), env()).await;
        assert!(is_pending && error.unwrap().contains("is empty"));
        std::fs::write(&file, "{}").unwrap();
        assert_eq!(file_state(used(Some("{}")), env()).await, (false, None));
        assert_eq!(file_state(used(None), env()).await, (true, None));
        std::fs::write(&file, "{gateway: {port: 'x'}}").unwrap();
        let (is_pending, error) = file_state(used(Some("{}")), env()).await;
        assert!(is_pending && error.unwrap().contains("gateway.port"));
        std::fs::write(&file, b"{\n// \xe4").unwrap();
        let (is_pending, error) = file_state(used(Some("{}")), env()).await;
        let error = error.unwrap();
        assert!(is_pending && error.contains(":2:4: ") && error.contains("UTF-8"), "{error}");
    }
}
