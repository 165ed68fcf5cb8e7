//! `config.get`, `config.set`, `config.patch`, `config.apply`.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::bus::{Closing, Subscriber};
use crate::config::document::{self, ConfigIssue, ConfigSnapshot, ConfigWrite, ConfigWriteError};
use crate::protocol::ErrorShape;
use crate::protocol::methods::NoParams;
use crate::protocol::methods::config::{ConfigApplyParams, ConfigSetParams, ConfigWriteParams};
use crate::registry::{Ctx, Reply, Services, TakenUp};

/// `config.get`: the config file, what it means, and what is wrong with it.
/// Secrets are not shown; what stands in their place can be written back.
pub async fn get(cx: Ctx, _: NoParams) -> Reply<Value> {
    let env = cx.services.env.clone();
    let read = tokio::task::spawn_blocking(move || ConfigSnapshot::read(&env)).await;
    let seen = read.map_err(|_| stopped())?;
    let seen = seen.map_err(|error| ErrorShape::unavailable(error.to_string()))?;
    let state = cx.services.reload.state.now();
    let settings = cx.services.settings.now();
    let in_use = document::shown(&settings.raw, &cx.services.env, &settings.file.path);
    // What only the gateway that runs can find out.
    let trouble = state.trouble.iter().filter(|_| seen.issues.is_empty());
    let issues: Vec<_> = seen.issues.iter().chain(trouble).map(issue).collect();
    let warnings = state.pending.iter().map(
        |path| json!({"path": path, "message": "is used after the next restart of the gateway"}),
    );
    let warnings: Vec<_> = warnings.collect();
    Ok(json!({
        "path": seen.path,
        "exists": seen.exists,
        "raw": seen.raw,
        "parsed": seen.parsed,
        "sourceConfig": seen.parsed,
        "resolved": seen.resolved,
        "valid": issues.is_empty(),
        "runtimeConfig": in_use,
        "config": seen.parsed,
        "hash": seen.hash,
        "issues": issues,
        "warnings": warnings,
        "legacyIssues": [],
    }))
}

/// `config.set`: replaces the config file, if it is still the one that was read.
/// Placeholders of secrets become those secrets again, comments stay.
pub async fn set(cx: Ctx, p: ConfigSetParams) -> Reply<Value> {
    write(&cx, p.0, ConfigWrite::Replace).await
}

/// `config.apply`: the same as `config.set`, not more than three times a minute.
pub async fn apply(cx: Ctx, p: ConfigApplyParams) -> Reply<Value> {
    write(&cx, p.0, ConfigWrite::Replace).await
}

/// `config.patch`: merges members into the config file, `null` takes away; not
/// more than three times a minute.
pub async fn patch(cx: Ctx, p: ConfigApplyParams) -> Reply<Value> {
    write(&cx, p.0, ConfigWrite::Merge).await
}

async fn write(
    cx: &Ctx,
    p: ConfigWriteParams,
    kind: impl FnOnce(String) -> ConfigWrite,
) -> Reply<Value> {
    let env = cx.services.env.clone();
    let (change, base) = (kind(p.raw), p.base_hash);
    // Not given up when its caller goes away: it is written or it is not.
    let (services, runtime) = (Arc::clone(&cx.services), tokio::runtime::Handle::current());
    let work = move || {
        let would_work = |text: &str| runtime.block_on(services.reload.check(text.to_owned()));
        document::write(&change, base.as_deref(), &env, would_work)
    };
    let written = tokio::task::spawn_blocking(work).await.map_err(|_| stopped())?;
    let written = written.map_err(|error| refusal(&error))?;
    if written.changed {
        let by = &cx.caller.name;
        tracing::info!(%by, "the config file was changed");
    }
    let taken = take_up(cx, false).await.map_err(|wrong| refusal(&wrong.into()))?;
    let mut answer = json!({
        "ok": true,
        "path": written.path,
        "config": written.config,
        "requiresRestart": !taken.pending.is_empty(),
    });
    if !written.changed {
        answer["noop"] = json!(true);
    }
    Ok(answer)
}

/// Has the gateway take the config file up as it is now; `anew` where something
/// that it refers to has changed. What that means for the caller comes after its
/// answer.
pub(super) async fn take_up(cx: &Ctx, anew: bool) -> Result<TakenUp, ConfigIssue> {
    let services = &cx.services;
    let caller = Arc::clone(&cx.caller.subscriber.conn_id);
    let taken = services.reload.take_up(Some(caller), anew).await?;
    if taken.is_over {
        cx.after_answer(Farewell(Arc::clone(&cx.caller.subscriber)));
    }
    if taken.restarts {
        cx.after_answer(Restarting(Arc::clone(services)));
    }
    Ok(taken)
}

/// Closes a connection that is let in no more, when dropped.
struct Farewell(Arc<Subscriber>);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.outbox.close(Closing { drains: true, ..Closing::auth_changed() });
    }
}

/// Asks for a restart when dropped.
struct Restarting(Arc<Services>);

impl Drop for Restarting {
    fn drop(&mut self) {
        self.0.restart.ask();
    }
}

fn refusal(error: &ConfigWriteError) -> ErrorShape {
    let shape = ErrorShape::invalid(error.to_string());
    match error {
        ConfigWriteError::Invalid(wrong) => shape.details(json!({"issues": [issue(wrong)]})),
        ConfigWriteError::Save(_) => ErrorShape::unavailable(error.to_string()),
        _ => shape,
    }
}

fn issue(issue: &ConfigIssue) -> Value {
    json!({"path": issue.path, "message": issue.message})
}

fn stopped() -> ErrorShape {
    ErrorShape::unavailable("the config file was not looked at; the log says why")
}
