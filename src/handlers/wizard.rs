//! `wizard.start`, `wizard.next`, `wizard.cancel`, `wizard.status`.

use std::sync::Arc;

use serde_json::Value;

use crate::protocol::ErrorShape;
use crate::protocol::methods::config::{
    ConfigApplyParams, ConfigInput, ConfigWriteParams, RestartWishes,
};
use crate::protocol::methods::wizard::{WizardNextParams, WizardSessionParams, WizardStartParams};
use crate::registry::{Ctx, Reply};
use crate::support::{BoxFuture, json};
use crate::wizard::{
    Changes, ConfigWriter, Mode, NextError, Setup, WizardSession, WriteRefused, Written,
};

use super::config;

/// `wizard.start`: begins the setup and answers its first question. One runs at a
/// time; the error names it.
pub async fn start(cx: Ctx, p: WizardStartParams) -> Reply<Value> {
    let services = &cx.services;
    let setup = Setup {
        sections: None,
        env: services.env.clone(),
        clock: Arc::clone(&services.clock),
        writer: Box::new(Patcher(cx.clone())),
        mode: Some(if p.mode.as_deref() == Some("remote") { Mode::Remote } else { Mode::Local }),
        workspace: p.workspace.filter(|folder| !folder.trim().is_empty()),
        skips_check: false,
        command: "wizard.start",
    };
    let session = services.wizards.start(setup, &services.ids, &services.tasks);
    let session = session.map_err(|running| {
        let details = json!({"sessionId": running.session_id});
        ErrorShape::unavailable(running.to_string()).details(details)
    })?;
    let mut answer = json!({"sessionId": session.id, "done": false});
    let first = session.next(None).await.map_err(refused)?;
    if let (Some(answer), Value::Object(first)) = (answer.as_object_mut(), first) {
        answer.extend(first);
    }
    services.wizards.forget_ended(&session.id);
    Ok(answer)
}

/// `wizard.next`: answers a question and gets the next one; without an answer the
/// one that waits, for a client that was lost.
pub async fn next(cx: Ctx, p: WizardNextParams) -> Reply<Value> {
    let session = find(&cx, &p.session_id)?;
    let answer = p.answer.as_ref().map(|answer| (answer.step_id.as_str(), &answer.value));
    let next = session.next(answer).await.map_err(refused)?;
    cx.services.wizards.forget_ended(&session.id);
    Ok(next)
}

/// `wizard.cancel`: ends the setup; nothing is written then. While it writes it is
/// too late, and the answer says so by its status.
pub async fn cancel(cx: Ctx, p: WizardSessionParams) -> Reply<Value> {
    let session = find(&cx, &p.session_id)?;
    session.cancel();
    let status = session.status();
    cx.services.wizards.forget_ended(&session.id);
    Ok(status)
}

/// `wizard.status`: how a session is. The end of one is told once.
pub async fn status(cx: Ctx, p: WizardSessionParams) -> Reply<Value> {
    let session = find(&cx, &p.session_id)?;
    let status = session.status();
    cx.services.wizards.forget_ended(&session.id);
    Ok(status)
}

fn find(cx: &Ctx, id: &str) -> Reply<Arc<WizardSession>> {
    let found = cx.services.wizards.find(id);
    found.ok_or_else(|| ErrorShape::not_found("wizard not found"))
}

#[allow(clippy::needless_pass_by_value)] // the form that `map_err` asks for
fn refused(error: NextError) -> ErrorShape {
    let shape = ErrorShape::invalid(error.to_string());
    match error {
        NextError::Answer(why) => shape.details(json!({"path": "/answer/value", "message": why})),
        NextError::NotRunning | NextError::NoStep => shape,
    }
}

/// Writes as the client that began the setup would by itself, so that what is
/// written takes effect as after any other change. A person has said yes to it: however
/// many changes there were lately, it is made.
struct Patcher(Ctx);

impl ConfigWriter for Patcher {
    fn write<'a>(
        &'a mut self,
        changes: &'a Changes,
    ) -> BoxFuture<'a, Result<Written, WriteRefused>> {
        Box::pin(async move {
            let refused = |error: ErrorShape| WriteRefused(error.message);
            let seen = self.0.call("config.get", &json!({})).await.map_err(refused)?;
            let patch = changes.patch(&seen["sourceConfig"]);
            let write = ConfigWriteParams {
                input: ConfigInput::Text(patch.to_string()),
                base_hash: seen["hash"].as_str().map(str::to_owned),
            };
            let params = ConfigApplyParams { write, restart: RestartWishes::default() };
            let written = Box::pin(config::patch(self.0.apart(), params)).await.map_err(refused)?;
            let needs_restart = written["requiresRestart"] == true;
            Ok(Written { needs_restart })
        })
    }
}
