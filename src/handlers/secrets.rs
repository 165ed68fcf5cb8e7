//! `secrets.reload`, `secrets.resolve`.

use serde_json::Value;

use crate::config::document::ConfigIssue;
use crate::config::edit::Step;
use crate::config::secrets::{self, SecretTarget, is_target, targets};
use crate::protocol::ErrorShape;
use crate::protocol::methods::AnyParams;
use crate::protocol::methods::secrets::SecretsResolveParams;
use crate::registry::{Ctx, RenewError, Reply};
use crate::support::{blocking, json};

/// `secrets.reload`: looks all secrets that the configuration refers to up
/// again, and uses them from now on. When one that the gateway needs cannot be
/// had, all stay as they are. With another `.env` the configuration is taken up
/// before that.
pub async fn reload(cx: Ctx, _: AnyParams) -> Reply<Value> {
    let failed = |issue: &ConfigIssue| {
        ErrorShape::unavailable(format!("secrets.reload failed: {}", issue.message))
    };
    // What somebody writes meanwhile is taken up in his name.
    let _turn = super::config::Turn::of(&cx.services).await;
    let (before, env) = (cx.services.settings.now(), cx.services.env.clone());
    let is_other = blocking(move || before.is_dotenv_other(&env)).await.unwrap_or_default();
    if is_other {
        super::config::take_up(&cx, false).await.map_err(|issue| failed(&issue))?;
    }
    let renewed = super::config::renew_secrets(&cx).await.map_err(|error| match error {
        RenewError::Lost => ErrorShape::unavailable("secrets.reload failed"),
        RenewError::NotTakenUp(issue) => failed(&issue),
    })?;
    Ok(json!({"ok": true, "warningCount": renewed.lost}))
}

/// `secrets.resolve`: the secrets that the configuration refers to in some
/// places, for a command on this machine that needs them itself.
pub async fn resolve(cx: Ctx, p: SecretsResolveParams) -> Reply<Value> {
    let invalid =
        |what: &str| ErrorShape::invalid(format!("invalid secrets.resolve params: {what}"));
    let command = p.command_name.ok_or_else(|| invalid("commandName"))?;
    let ids = p.target_ids.ok_or_else(|| invalid("targetIds"))?;
    if let Some(unknown) = ids.iter().find(|id| !is_target(id)) {
        return Err(invalid(&format!("unknown target id \"{unknown}\"")));
    }
    let settings = &cx.services.settings.now();
    let mut wanted = targets(&settings.raw);
    wanted.retain(|target| ids.iter().any(|id| target.is_meant_by(id)));
    tracing::info!(command, secrets = wanted.len(), by = %cx.caller.name, "secrets are told");
    let references = wanted.iter().map(|target| target.reference.clone()).collect();
    let (found, lost) =
        secrets::resolve(&references, &settings.secrets, &settings.environment(&cx.services.env))
            .await;
    let told = wanted.iter().filter_map(|target| {
        let secret = found.get(&target.reference)?;
        Some(json!({
            "path": target.path.to_string(),
            "pathSegments": segments(target),
            "value": secret.expose(),
        }))
    });
    let told: Vec<_> = told.collect();
    let is_lost = |target: &&SecretTarget| found.get(&target.reference).is_none();
    let missing: Vec<_> =
        wanted.iter().filter(is_lost).map(|target| target.path.to_string()).collect();
    let why: Vec<_> = lost.iter().map(|(at, error)| format!("{at}: {error}")).collect();
    Ok(json!({
        "ok": true, "assignments": told, "diagnostics": why, "inactiveRefPaths": missing,
    }))
}

fn segments(target: &SecretTarget) -> Vec<String> {
    let segment = |step: &Step| match step {
        Step::Key(name) => name.clone(),
        Step::Index(index) => index.to_string(),
    };
    target.path.steps().iter().map(segment).collect()
}
