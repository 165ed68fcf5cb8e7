//! `secrets.reload`, `secrets.resolve`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::config::Settings;
use crate::config::edit::Step;
use crate::config::hooks::proves;
use crate::config::secrets::{
    self, ResolvedSecrets, SecretInput, SecretTarget, is_target, targets,
};
use crate::protocol::ErrorShape;
use crate::protocol::methods::AnyParams;
use crate::protocol::methods::secrets::SecretsResolveParams;
use crate::providers::CatalogSources;
use crate::registry::{Ctx, Reply};
use crate::support::{blocking, json};

/// `secrets.reload`: looks all secrets that the configuration refers to up
/// again, and uses them from now on. When one that the gateway needs cannot be
/// had, all stay as they are. With another `.env` the configuration is taken up
/// before that.
pub async fn reload(cx: Ctx, _: AnyParams) -> Reply<Value> {
    let services = &cx.services;
    let (before, env) = (services.settings.now(), services.env.clone());
    let is_other = blocking(move || before.is_dotenv_other(&env)).await.unwrap_or_default();
    if is_other && let Err(issue) = super::config::take_up(&cx, false).await {
        return Err(ErrorShape::unavailable(format!("secrets.reload failed: {}", issue.message)));
    }
    let settings = &services.settings.now();
    let auth = &settings.gateway.auth;
    let mode = auth.mode.to_string();
    let (needed, others): (Vec<_>, Vec<_>) =
        targets(&settings.raw).into_iter().partition(|target| target.is_needed(&mode));
    let wanted = |targets: &[SecretTarget]| -> BTreeSet<_> {
        targets.iter().map(|target| target.reference.clone()).collect()
    };
    let (must, may) = (wanted(&needed), wanted(&others));
    let reloaded =
        secrets::reload(&must, &may, &settings.secrets, &settings.environment(&services.env)).await;
    let (found, lost) = reloaded.map_err(|lost| {
        for (reference, error) in &lost {
            tracing::error!(%reference, %error, "secrets stay as they are");
        }
        ErrorShape::unavailable("secrets.reload failed")
    })?;
    for (reference, error) in &lost {
        tracing::warn!(%reference, %error, "a secret cannot be had");
    }
    let failover = services.models.failover();
    let env = settings.environment(&services.env);
    let lookup = |name: &str| env.get(name);
    failover.catalog().renew(&CatalogSources::plain(&settings.models, &lookup, &found));
    failover.credentials().forget();
    let is_stale = |target: &SecretTarget| is_stale(settings, target, &found);
    let is_old_in_use = needed.iter().chain(&others).any(is_stale)
        || services.runs.parts().channels.are_stale(&found);
    if is_old_in_use && let Err(issue) = super::config::take_up(&cx, true).await {
        return Err(ErrorShape::unavailable(format!("secrets.reload failed: {}", issue.message)));
    }
    Ok(json!({"ok": true, "warningCount": lost.len()}))
}

/// Whether what lets clients in, or requests to hooks, is not what the target
/// leads to.
fn is_stale(settings: &Settings, target: &SecretTarget, found: &ResolvedSecrets) -> bool {
    let (auth, hooks) = (&settings.gateway.auth, &settings.hooks);
    let new = found.get(&target.reference);
    let is_other = |token: Option<&SecretInput>| {
        let pair = token.filter(|_| hooks.enabled).zip(new);
        pair.is_some_and(|(token, new)| !proves(token, new.expose()))
    };
    match target.path.steps() {
        [Step::Key(first), Step::Key(second), Step::Key(last)]
            if first == "gateway" && second == "auth" && *last == auth.mode.to_string() =>
        {
            let now = if last == "token" { &auth.token } else { &auth.password };
            !new.zip(now.as_ref()).is_some_and(|(new, now)| new.matches(now.expose()))
        }
        [Step::Key(first), Step::Key(_)] if first == "hooks" => is_other(hooks.token.as_ref()),
        [Step::Key(first), Step::Key(_), Step::Index(index), Step::Key(_)] if first == "hooks" => {
            is_other(hooks.mappings.get(*index).and_then(|mapping| mapping.token.as_ref()))
        }
        _ => false,
    }
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
