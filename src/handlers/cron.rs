//! `cron.*`, `wake`, `last-heartbeat`, `set-heartbeats`.

use serde_json::Value;

use crate::cron::{Asked, CronError, Job, JobPage};
use crate::protocol::methods::cron::{
    CronIdParams, CronListParams, CronPreviewParams, CronRunParams, CronRunsParams,
    CronUpdateParams, NewJob, SetHeartbeatsParams, WakeMode, WakeParams,
};
use crate::protocol::methods::{AnyParams, NoParams};
use crate::protocol::{ErrorKind, ErrorShape, Scope};
use crate::registry::{Ctx, Reply};
use crate::sessions::SessionKey;
use crate::store::{StoreError, Teller};
use crate::support::json;

fn told(error: CronError) -> ErrorShape {
    match error {
        CronError::Invalid(text) => ErrorShape::invalid(text),
        CronError::Unknown(_) => {
            ErrorShape::unavailable(format!("Error: {error}")).kind(ErrorKind::NotFound)
        }
        error => ErrorShape::unavailable(format!("Error: {error}")),
    }
}

#[allow(clippy::needless_pass_by_value)] // used as a plain function in map_err
pub(super) fn unwritten(error: StoreError) -> ErrorShape {
    ErrorShape::unavailable(format!("Error: {error}"))
}

/// A job as the caller reads it: dashboards look for `jobId`, clients since protocol 4 for
/// the agent that a job without one is of.
fn fit(cx: &Ctx, job: &mut Value) {
    if cx.caller.is_dashboard {
        job["jobId"] = job["id"].clone();
    }
    if cx.caller.profile.is_newer() {
        let agent = cx.services.runs.parts().cron.agent_named(job["agentId"].as_str());
        job["effectiveAgentId"] = agent.as_str().into();
    }
}

fn shown(cx: &Ctx, job: &Job) -> Value {
    let mut shown = json!(job);
    fit(cx, &mut shown);
    shown
}

/// `cron.list`: the jobs.
pub async fn list(cx: Ctx, p: CronListParams) -> Reply<Value> {
    let JobPage { mut page, revision } =
        cx.services.runs.parts().cron.list(p).await.map_err(told)?;
    // OpenClaw's commands since protocol 4 take no page without it.
    if cx.caller.profile.is_newer() {
        page["snapshotRevision"] = revision.into();
    }
    for job in page["jobs"].as_array_mut().into_iter().flatten() {
        fit(&cx, job);
    }
    Ok(page)
}

/// `cron.get`: one job; of protocol 4.
pub async fn get(cx: Ctx, p: CronIdParams) -> Reply<Value> {
    match cx.services.runs.parts().cron.job(&p.id).await {
        Ok((job, _)) => Ok(shown(&cx, &job)),
        // After these words OpenClaw's commands look for a name.
        Err(CronError::Unknown(id)) => {
            Err(ErrorShape::invalid(format!("cron job not found: {id}")).kind(ErrorKind::NotFound))
        }
        Err(error) => Err(told(error)),
    }
}

/// `cron.status`: whether jobs run, and when the next one does.
pub async fn status(cx: Ctx, _: NoParams) -> Reply<Value> {
    let cron = &cx.services.runs.parts().cron;
    let mut status = cron.status().await.map_err(told)?;
    if cx.caller.is_dashboard {
        status["activeJobs"] = cron.running().into();
    }
    Ok(status)
}

/// `cron.add`: makes a job.
pub async fn add(cx: Ctx, p: NewJob) -> Reply<Value> {
    let job = cx.services.runs.parts().cron.add(p, None).await.map_err(told)?;
    Ok(shown(&cx, &job))
}

/// `cron.update`: changes a job.
pub async fn update(cx: Ctx, p: CronUpdateParams) -> Reply<Value> {
    let cron = &cx.services.runs.parts().cron;
    let job = cron.update(&p.id, p.patch).await.map_err(told)?;
    Ok(shown(&cx, &job))
}

/// `cron.remove`: removes a job.
pub async fn remove(cx: Ctx, p: CronIdParams) -> Reply<Value> {
    let removed = cx.services.runs.parts().cron.remove(&p.id).await.map_err(told)?;
    Ok(json!({"ok": true, "removed": removed}))
}

/// `cron.run`: runs a job now; its run begins after the answer.
pub async fn run(cx: Ctx, p: CronRunParams) -> Reply<Value> {
    let cron = &cx.services.runs.parts().cron;
    let asked = cron.ask(&p.id, p.only_due).await.map_err(told)?;
    Ok(match asked {
        Asked::Enqueued(run_id, enqueued) => {
            cx.after_answer(enqueued);
            json!({"ok": true, "enqueued": true, "runId": run_id})
        }
        Asked::NotDue => json!({"ok": true, "ran": false, "reason": "not-due"}),
        Asked::Running => json!({"ok": true, "ran": false, "reason": "already-running"}),
    })
}

/// `cron.runs`: the log of runs.
pub async fn runs(cx: Ctx, p: CronRunsParams) -> Reply<Value> {
    let mut page = cx.services.runs.parts().cron.runs(p).await.map_err(told)?;
    if cx.caller.is_dashboard {
        page["runs"] = page["entries"].clone();
    }
    Ok(page)
}

/// `cron.preview`: when a schedule would run; ours.
pub async fn preview(cx: Ctx, p: CronPreviewParams) -> Reply<Value> {
    cx.services.runs.parts().cron.upcoming(p).map_err(told)
}

/// `wake`: tells the main session something, which answers at once or later.
pub async fn wake(cx: Ctx, p: WakeParams) -> Reply<Value> {
    let (services, keys) = (&cx.services, &cx.services.keys.now());
    let parts = services.runs.parts();
    let main = SessionKey::main(&keys.default_agent, keys);
    let teller = Teller::owner_if(cx.caller.principal.allows(Scope::Admin));
    let noted = parts.notice(&main, p.text.trim(), teller).await;
    // Also where there is no room for it: the turn that this begins makes some.
    if p.mode == WakeMode::Now && noted.as_ref().err().is_none_or(StoreError::is_crowded) {
        parts.cron.heartbeats.wake(keys.default_agent.as_str(), main);
    }
    noted.map_err(unwritten)?;
    Ok(json!({"ok": true}))
}

/// `last-heartbeat`: the last one, `null` when there was none.
pub async fn last_heartbeat(cx: Ctx, _: AnyParams) -> Reply<Value> {
    Ok(cx.services.runs.parts().cron.heartbeats.last().unwrap_or_default())
}

/// `set-heartbeats`: turns heartbeats by the clock on or off, until the gateway
/// stops.
pub async fn set_heartbeats(cx: Ctx, p: SetHeartbeatsParams) -> Reply<Value> {
    let Some(enabled) = p.enabled else {
        let text = "invalid set-heartbeats params: enabled (boolean) required";
        return Err(ErrorShape::invalid(text));
    };
    cx.services.runs.parts().cron.heartbeats.set_enabled(enabled);
    Ok(json!({"ok": true, "enabled": enabled}))
}
