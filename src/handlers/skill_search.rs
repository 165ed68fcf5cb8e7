//! `skills.search`, `skills.detail`.

use std::time::UNIX_EPOCH;

use serde_json::Value;

use crate::agent::skills::{Hub, HubError, Verdict, matching};
use crate::config::Env;
use crate::protocol::ErrorShape;
use crate::protocol::methods::skills::{SkillsDetailParams, SkillsSearchParams};
use crate::registry::{Ctx, Reply};
use crate::support::{json, millis, without_nulls};

use super::skills::{agent, look};

/// Results when nobody says how many.
const DEFAULT_LIMIT: u64 = 20;
/// What is not there, and what to do.
const NO_REGISTRY: &str =
    "no registry of skills is configured; set OPENCLAW_CLAWHUB_URL to the address of one";

/// The surroundings, with the variables of the config.
fn environment(cx: &Ctx) -> Env {
    cx.services.settings.now().environment(&cx.services.env)
}

/// `skills.search`: asks the registry that is configured, else the skills that
/// the default agent finds here.
pub async fn search(cx: Ctx, p: SkillsSearchParams) -> Reply<Value> {
    let query = p.query.as_deref().map(str::trim).filter(|query| !query.is_empty());
    let limit = p.limit.unwrap_or(DEFAULT_LIMIT);
    if let Some(hub) = Hub::of(&environment(&cx)).map_err(|error| refusal(&error))? {
        let results = hub.search(query, limit).await.map_err(|error| refusal(&error))?;
        return Ok(json!({"results": results}));
    }
    let agent = agent(&cx, None)?;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let wanted = query.map(str::to_owned);
    let results = look(&cx, move |skills| {
        let verdicts = skills.verdicts(&agent);
        let found = matching(&verdicts, wanted.as_deref()).into_iter().take(most);
        found.map(|(score, verdict)| result(score, verdict)).collect::<Vec<_>>()
    });
    let results = results.await?;
    if results.is_empty() {
        return Err(no_registry(&format!("no skill here fits, and {NO_REGISTRY}")));
    }
    Ok(json!({"results": results}))
}

/// `skills.detail`: what the registry that is configured knows of a skill, else
/// what is known of it here.
pub async fn detail(cx: Ctx, p: SkillsDetailParams) -> Reply<Value> {
    let slug = p.slug.trim().to_owned();
    let unknown = || ErrorShape::not_found(format!("Skill not found: {slug}"));
    if slug.is_empty() || slug.starts_with('.') || slug.contains(char::is_control) {
        return Err(unknown());
    }
    if let Some(hub) = Hub::of(&environment(&cx)).map_err(|error| refusal(&error))? {
        let found = hub.detail(&slug).await.map_err(|error| refusal(&error))?;
        return found.ok_or_else(unknown);
    }
    let (agent, wanted) = (agent(&cx, None)?, slug.clone());
    let found = look(&cx, move |skills| {
        let mut all = skills.verdicts(&agent).into_iter();
        let is = |name: &str| name.eq_ignore_ascii_case(&wanted);
        let found = all.find(|it| is(&it.skill.head.name) || is(&it.skill.head.key));
        found.map(|verdict| shown(&verdict))
    });
    let missing = || no_registry(&format!("there is no skill {slug} here, and {NO_REGISTRY}"));
    found.await?.ok_or_else(missing)
}

fn result(score: f64, verdict: &Verdict) -> Value {
    let head = &verdict.skill.head;
    without_nulls(json!({
        "score": score,
        "slug": head.name,
        "displayName": head.name,
        "summary": head.description,
        "updatedAt": times(verdict).1,
    }))
}

fn shown(verdict: &Verdict) -> Value {
    let head = &verdict.skill.head;
    let (created, updated) = times(verdict);
    let systems = Some(&head.requires.os).filter(|systems| !systems.is_empty());
    json!({
        "skill": {
            "slug": head.name,
            "displayName": head.name,
            "summary": head.description,
            "createdAt": created.unwrap_or_default(),
            "updatedAt": updated.unwrap_or_default(),
        },
        "latestVersion": null,
        "metadata": {"os": systems, "systems": null},
        "owner": null,
    })
}

/// When the file of a skill was made and changed, in milliseconds.
fn times(verdict: &Verdict) -> (Option<u64>, Option<u64>) {
    let Ok(metadata) = std::fs::metadata(verdict.skill.file()) else { return (None, None) };
    let since = |time: std::io::Result<std::time::SystemTime>| {
        Some(millis(time.ok()?.duration_since(UNIX_EPOCH).ok()?))
    };
    let updated = since(metadata.modified());
    (since(metadata.created()).or(updated), updated)
}

fn no_registry(text: &str) -> ErrorShape {
    ErrorShape::unavailable(text).details(json!({"code": "REGISTRY_NOT_CONFIGURED"}))
}

fn refusal(error: &HubError) -> ErrorShape {
    ErrorShape::unavailable(error.to_string())
}
