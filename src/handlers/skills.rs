//! `skills.*`.

use std::sync::Arc;

use serde_json::Value;

use crate::agent::skills::{
    InstallError, Installed, Requires, SkillChange, SkillSource, Skills, UpdateError, Verdict,
};
use crate::config::AgentSettings;
use crate::protocol::ErrorShape;
use crate::protocol::methods::NoParams;
use crate::protocol::methods::skills::{
    SkillsInstallParams, SkillsStatusParams, SkillsUpdateParams,
};
use crate::registry::{Ctx, Reply};
use crate::sessions::AgentId;
use crate::support::{Secret, blocking, json, sort, without_nulls};

/// What is not there, and what is instead.
const NO_CLAWHUB: &str =
    "ClawHub is not asked by this gateway; install a skill from a folder with source \"local\"";

/// `skills.status`: the skills that an agent finds, and what they lack.
pub async fn status(cx: Ctx, p: SkillsStatusParams) -> Reply<Value> {
    let agent = agent(&cx, p.agent_id.as_deref())?;
    let workspace = agent.workspace.display().to_string();
    let managed = skills(&cx).managed_dir().display().to_string();
    let verdicts = look(&cx, move |skills| skills.verdicts(&agent)).await?;
    let rows: Vec<_> = verdicts.iter().map(row).collect();
    Ok(json!({"workspaceDir": workspace, "managedSkillsDir": managed, "skills": rows}))
}

/// `skills.bins`: the programs that skills need, for nodes.
pub async fn bins(cx: Ctx, _: NoParams) -> Reply<Value> {
    let bins = look(&cx, Skills::bins).await?;
    Ok(json!({"bins": bins}))
}

/// `skills.update`: switches a skill on or off, sets its key and variables.
pub async fn update(cx: Ctx, p: SkillsUpdateParams) -> Reply<Value> {
    let SkillsUpdateParams::Entry { skill_key, enabled, api_key, env } = p else {
        return Err(ErrorShape::unavailable(NO_CLAWHUB));
    };
    let skill_key = skill_key.trim().to_owned();
    let change = SkillChange {
        key: skill_key.clone(),
        enabled,
        api_key: api_key.map(Secret::new),
        env: sort::map(
            env.into_iter().map(|(name, value)| (name.trim().to_owned(), Secret::new(value))),
        ),
    };
    let skills = Arc::clone(skills(&cx));
    let work = super::config::in_turn(&cx.services, move |_| skills.update(change));
    let (changed, _turn) = work.await?;
    let changed = changed.map_err(|error| match error {
        UpdateError::Invalid { .. } => {
            ErrorShape::invalid(format!("invalid skills.update params: {error}"))
        }
        UpdateError::Save(_) => ErrorShape::unavailable(error.to_string()),
    })?;
    super::config::take_up(&cx, false).await.map_err(|wrong| super::config::not_in_use(&wrong))?;
    Ok(json!({"ok": true, "skillKey": skill_key, "config": changed}))
}

/// `skills.install`: takes a skill over from a folder of the gateway's machine.
/// Installers that skills declare are not run, and `ClawHub` is not asked.
pub async fn install(cx: Ctx, p: SkillsInstallParams) -> Reply<Value> {
    let (path, is_forced) = match p {
        SkillsInstallParams::Local { path, is_forced } => (path, is_forced),
        SkillsInstallParams::ClawHub => return Err(not_installed(NO_CLAWHUB)),
        SkillsInstallParams::Installer { name } => return Err(no_installer(&cx, &name).await?),
    };
    let settings = &cx.services.settings.now();
    let path = settings.paths.expand(path.trim());
    let path = path.map_err(|error| ErrorShape::invalid(error.to_string()))?;
    let installed = skills(&cx).install(path, is_forced).await;
    let Installed { head, base_dir } = installed.map_err(|error| match error {
        InstallError::Io { .. } | InstallError::Folder(_) | InstallError::Stopped => {
            not_installed(&error.to_string())
        }
        _ => ErrorShape::invalid(error.to_string()),
    })?;
    Ok(json!({
        "ok": true,
        "message": format!("Installed {}", head.name),
        "stdout": "",
        "stderr": "",
        "code": 0,
        "name": head.name,
        "skillKey": head.key,
        "baseDir": base_dir.display().to_string(),
    }))
}

/// Why an installer is not run: it has no skill, or is one of another program.
async fn no_installer(cx: &Ctx, name: &str) -> Reply<ErrorShape> {
    let agent = agent(cx, None)?;
    let wanted = name.trim().to_owned();
    let is_there = look(cx, move |skills| {
        skills.verdicts(&agent).iter().any(|verdict| verdict.skill.head.name == wanted)
    });
    Ok(if is_there.await? {
        not_installed(
            "Installers are not run by this gateway; install what the skill needs by hand",
        )
    } else {
        not_installed(&format!("Skill not found: {name}"))
    })
}

/// An error in the form of an installer's end.
fn not_installed(message: &str) -> ErrorShape {
    let payload =
        json!({"ok": false, "message": message, "stdout": "", "stderr": "", "code": null});
    ErrorShape::unavailable(message).payload(payload)
}

fn skills(cx: &Ctx) -> &Arc<Skills> {
    &cx.services.runs.parts().skills
}

/// Looks at skills where that may block.
pub(super) async fn look<T: Send + 'static>(
    cx: &Ctx,
    work: impl FnOnce(&Skills) -> T + Send + 'static,
) -> Reply<T> {
    let skills = Arc::clone(skills(cx));
    Ok(blocking(move || work(&skills)).await?)
}

pub(super) fn agent(cx: &Ctx, named: Option<&str>) -> Reply<AgentSettings> {
    let agents = &cx.services.settings.now().agents;
    let id = named.map_or_else(|| cx.services.keys.now().default_agent.clone(), AgentId::normalize);
    if agents.has(id.as_str()) {
        return Ok(agents.agent_or_default(id.as_str()));
    }
    let named = named.unwrap_or_default();
    Err(ErrorShape::not_found(format!("unknown agent id \"{named}\"")))
}

fn row(verdict: &Verdict) -> Value {
    let (skill, head) = (&verdict.skill, &verdict.skill.head);
    let missing = &verdict.missing;
    let check = |path: &String| json!({"path": path, "satisfied": !missing.config.contains(path)});
    let checks: Vec<_> = head.requires.config.iter().map(check).collect();
    without_nulls(json!({
        "name": head.name,
        "description": head.description,
        "source": skill.source.as_str(),
        "bundled": skill.source == SkillSource::Bundled,
        "filePath": skill.file().display().to_string(),
        "baseDir": skill.base_dir.display().to_string(),
        "skillKey": head.key,
        "primaryEnv": head.primary_env,
        "emoji": head.emoji,
        "homepage": head.homepage,
        "always": head.is_always,
        "disabled": verdict.is_disabled,
        "blockedByAllowlist": verdict.is_blocked_by_allowlist,
        "blockedByAgentFilter": verdict.is_blocked_by_agent,
        "eligible": verdict.is_eligible(),
        "modelVisible": verdict.is_model_visible(),
        "userInvocable": head.is_user_invocable,
        "commandVisible": verdict.is_command_visible(),
        "requirements": requires(&head.requires),
        "missing": requires(missing),
        "configChecks": checks,
        // Installers are not run here.
        "install": [],
    }))
}

fn requires(requires: &Requires) -> Value {
    json!({
        "bins": requires.bins,
        "anyBins": requires.any_bins,
        "env": requires.env,
        "config": requires.config,
        "os": requires.os,
    })
}
