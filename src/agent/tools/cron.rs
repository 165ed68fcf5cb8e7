//! `cron`: jobs and reminders, so that a session can come back to something.
//!
//! Promises: a job has no tool that the session has not which made it; a session
//! that may use less than its agent makes jobs that run apart, and touches no
//! others; no job is made or changed that acts in the sessions of an agent which may not
//! be spawned, or that names a chat to which the agent may not write by itself, other than to
//! be turned off. Only for the gateway's owner.

mod written;

use serde_json::Value;

use super::{Tool, ToolContext, ToolKind, ToolOutput, ToolScope};
use crate::agent::approvals::{ExecWords, Lineage};
use crate::channels::{Target, Wanted};
use crate::cron::{Asked, CronError, Job, NamedChat, Origin};
use crate::protocol::decode::{Params, Unknown, decode};
use crate::protocol::methods::cron::{
    CronListParams, CronRunsParams, CronUpdateParams, NewJob, WakeMode,
};
use crate::providers::ToolSpec;
use crate::sessions::{AgentId, SessionKey};
use crate::store::{StoreError, Teller};
use crate::support::{BoxFuture, json};

const DESCRIPTION: &str = "Manage scheduled jobs and reminders of the gateway. Use it for anything \
    that is to happen later or again: reminders, \"check back in an hour\", daily reports.\n\
    Actions: status; list {includeDisabled?}; add {job}; update {jobId, patch}; remove {jobId}; run \
    {jobId} (now); runs {jobId} (how its runs ended); wake {text, mode?} (tell the main session \
    something).\n\
    A job is {name, schedule, payload, sessionTarget, delivery?, deleteAfterRun?}.\n\
    schedule: {kind:\"at\", at:\"<ISO 8601>\"} once, {kind:\"every\", everyMs} again and again, \
    {kind:\"cron\", expr, tz?} by the calendar. Times without a zone are UTC.\n\
    payload and sessionTarget: {kind:\"systemEvent\", text} with \"main\" reminds the main session; \
    {kind:\"agentTurn\", message, model?, fallbacks?, thinking?, timeoutSeconds?, toolsAllow?, lightContext?} with \"isolated\" \
    runs apart, with \"current\" in this very session. The message must say all that is needed.\n\
    delivery (of agentTurn): {mode:\"announce\", channel?, to?} tells the answer where this session \
    talks to the user (the default), {mode:\"webhook\", to:\"<URL>\"} posts it, {mode:\"none\"}.";

/// The tool.
pub struct CronTool;

impl Tool for CronTool {
    fn name(&self) -> &'static str {
        "cron"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Changes
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name().into(),
            description: DESCRIPTION.into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": ["status", "list", "add", "update",
                        "remove", "run", "runs", "wake"]},
                    "job": {"type": "object", "description": "For add."},
                    "jobId": {"type": "string", "description": "For update, remove, run, runs."},
                    "id": {"type": "string", "description": "The same as jobId."},
                    "patch": {"type": "object", "description": "For update: what changes."},
                    "includeDisabled": {"type": "boolean"},
                    "text": {"type": "string", "description": "For wake."},
                    "mode": {"type": "string", "enum": ["now", "next-heartbeat"]},
                    "runMode": {"type": "string", "enum": ["due", "force"]},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 200},
                },
                "required": ["action"],
            }),
        }
    }

    fn meta(&self, arguments: &Value) -> Option<String> {
        let action = arguments["action"].as_str()?;
        let about = arguments["job"]["name"].as_str().or_else(|| arguments["name"].as_str());
        let about = about.or_else(|| job_id(arguments));
        Some(about.map_or_else(|| action.to_owned(), |about| format!("{action} {about}")))
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            if !cx.is_owner() {
                return ToolOutput::error("cron is only for the owner of the gateway");
            }
            match act(cx, arguments).await {
                Ok(answer) => ToolOutput::json(answer),
                Err(error) => ToolOutput::error(error),
            }
        })
    }
}

/// What of the caller decides which jobs it may make and touch.
struct Caller {
    /// Which session it is.
    origin: Origin,
    /// Whether it may use less than its agent.
    is_narrowed: bool,
}

async fn act(cx: &ToolContext, arguments: &Value) -> Result<Value, String> {
    let cron = &cx.parts().cron;
    let told = |error: CronError| error.to_string();
    match arguments["action"].as_str().unwrap_or_default() {
        "status" => cron.status().await.map_err(told),
        "list" => {
            let include_disabled = arguments["includeDisabled"] == true;
            let wanted = CronListParams { include_disabled, ..CronListParams::default() };
            cron.list(wanted).await.map(|listed| listed.page).map_err(told)
        }
        "add" => add(cx, arguments).await,
        "runs" => {
            let limit = arguments["limit"].as_u64();
            let id = job_id(arguments).map(str::to_owned);
            let wanted = CronRunsParams { id, limit, ..CronRunsParams::default() };
            cron.runs(wanted).await.map_err(told)
        }
        "update" => update(cx, arguments).await,
        "remove" => {
            let id = own_job(cx, arguments).await?;
            let removed = cron.remove(&id).await.map_err(told)?;
            Ok(json!({"ok": true, "removed": removed}))
        }
        "run" => {
            let id = own_job(cx, arguments).await?;
            let only_due = arguments["runMode"] == "due";
            let asked = cron.ask(&id, only_due).await.map_err(told)?;
            Ok(match asked {
                // It begins as this goes.
                Asked::Enqueued(run_id, _) => {
                    json!({"ok": true, "enqueued": true, "runId": run_id})
                }
                Asked::NotDue => json!({"ok": true, "ran": false, "reason": "not-due"}),
                Asked::Running => json!({"ok": true, "ran": false, "reason": "already-running"}),
            })
        }
        "wake" => {
            if caller(cx).await?.is_narrowed {
                return Err(NARROWED.into());
            }
            let text = arguments["text"].as_str().map(str::trim).unwrap_or_default();
            if text.is_empty() {
                return Err("wake needs text".into());
            }
            let keys = &cx.parts().keys.now();
            let agent = cx.key.agent(keys);
            let main = SessionKey::main(&agent, keys);
            let teller = Teller::owner_if(cx.is_owner());
            let noted = cx.parts().notice(&main, text, teller).await;
            let mode = WakeMode::parse(arguments["mode"].as_str().unwrap_or("now"));
            // Also where there is no room for it: the turn that this begins makes some.
            if mode == WakeMode::Now && noted.as_ref().err().is_none_or(StoreError::is_crowded) {
                cron.heartbeats.wake(agent.as_str(), main);
            }
            noted.map_err(|error| error.to_string())?;
            Ok(json!({"ok": true}))
        }
        other => Err(format!("unknown action \"{other}\"")),
    }
}

const NARROWED: &str = "this session may use less than its agent, so it can only make jobs with \
    sessionTarget \"isolated\", and touch those that it made so";

fn job_id(arguments: &Value) -> Option<&str> {
    arguments["jobId"].as_str().or_else(|| arguments["id"].as_str())
}

fn read<P: Params>(method: &str, params: Value) -> Result<P, String> {
    decode(method, params, Unknown::Refuse).map_err(|error| error.message)
}

async fn add(cx: &ToolContext, arguments: &Value) -> Result<Value, String> {
    let job = written::members(arguments, "job");
    let mut job: NewJob = read("cron.add", Value::Object(job))?;
    written::check(&job.schedule)?;
    let caller = caller(cx).await?;
    check_target(&caller, &job.session_target)?;
    let keys = &cx.parts().keys.now();
    let own = cx.key.agent(keys);
    if job.agent_id.is_none() && own != keys.default_agent {
        job.agent_id = Some(own.to_string());
    }
    // Where the answer is told, unless the job says where.
    let key = job.session_key.get_or_insert_with(|| cx.key.to_string());
    let cron = &cx.parts().cron;
    let agents = cron.agents_of(job.agent_id.as_deref(), Some(key), &job.session_target);
    check_agents(cx, &agents)?;
    check_commands(cx, &agents, &job.session_target, true)?;
    let told = |error: CronError| error.to_string();
    let job = cron.draft(job).map_err(told)?;
    let own = cx.place().await;
    check_reach(cx, &job, own.as_slice()).await?;
    let origin = Origin { asked_in: own.map(chat), ..caller.origin };
    let job = cron.put_down(job, Some(origin)).await;
    job.map(|job| json!(job)).map_err(told)
}

async fn update(cx: &ToolContext, arguments: &Value) -> Result<Value, String> {
    let cron = &cx.parts().cron;
    let told = |error: CronError| error.to_string();
    let id = own_job(cx, arguments).await?;
    let patch = Value::Object(written::members(arguments, "patch"));
    if patch == json!({}) {
        return Err("patch required".into());
    }
    let params = json!({"id": id, "patch": patch});
    let params: CronUpdateParams = read("cron.update", params)?;
    params.patch.schedule.as_ref().map_or(Ok(()), written::check)?;
    let caller = caller(cx).await?;
    if let Some(target) = &params.patch.session_target {
        check_target(&caller, target)?;
    }
    // As it is to be.
    let (mut job, origin) = cron.job(&params.id).await.map_err(told)?;
    job.patch(params.patch.clone(), cx.parts().clock.now_ms()).map_err(told)?;
    let agents = agents_of(cx, &job);
    check_agents(cx, &agents)?;
    let keys = &cx.parts().keys.now();
    let maker = origin.map(|it| SessionKey::from_canonical(it.session_key).agent(keys));
    check_commands(cx, &agents, &job.session_target, maker == Some(cx.key.agent(keys)))?;
    // What one that is turned off says, run by hand, is looked at when it is sent.
    if patch != json!({"enabled": false}) {
        check_reach(cx, &job, cx.place().await.as_slice()).await?;
    }
    let job = cron.update(&params.id, params.patch).await.map_err(told)?;
    Ok(json!(job))
}

async fn caller(cx: &ToolContext) -> Result<Caller, String> {
    let parts = cx.parts();
    let entry = parts.sessions.entry(&cx.key).await.map_err(|error| error.to_string())?;
    let scope = ToolScope::of_session(parts, &cx.key, entry.as_ref()).await;
    let scope = scope.map_err(|error| error.to_string())?.owned(true);
    let limits = cx.run.as_ref().map_or(&[][..], |run| &run.terms.tools);
    let scope = scope.limited(limits);
    let is_narrowed = scope.is_narrowed();
    let tools = if is_narrowed {
        let agent = cx.key.agent(&parts.keys.now());
        let toolbox = parts.tools.toolbox(&parts.settings.now(), agent.as_str(), &scope).await;
        Some(toolbox.iter().map(|tool| tool.name().to_owned()).collect())
    } else {
        None
    };
    let lineage = Lineage::of(&parts.sessions, &cx.key).await.map_err(|error| error.to_string())?;
    let agent = cx.key.agent(&parts.keys.now());
    let commands = lineage.words_for(agent.as_str(), &parts.settings.now());
    let origin = Origin { session_key: cx.key.to_string(), tools, commands, asked_in: None };
    Ok(Caller { origin, is_narrowed })
}

fn check_target(caller: &Caller, target: &str) -> Result<(), String> {
    if caller.is_narrowed && target != "isolated" {
        return Err(NARROWED.into());
    }
    Ok(())
}

/// The agents in whose sessions a job acts.
fn agents_of(cx: &ToolContext, job: &Job) -> Vec<AgentId> {
    let (agent, key) = (job.agent_id.as_deref(), job.session_key.as_deref());
    cx.parts().cron.agents_of(agent, key, &job.session_target)
}

/// Another agent may have tools that this one has not.
fn check_agents(cx: &ToolContext, agents: &[AgentId]) -> Result<(), String> {
    let own = cx.key.agent(&cx.parts().keys.now());
    let settings = cx.parts().settings.now();
    let allowed = settings.agents.spawnable(own.as_str());
    let is_allowed = |agent: &AgentId| {
        *agent == own || allowed.iter().any(|id| id == "*" || id == agent.as_str())
    };
    match agents.iter().find(|agent| !is_allowed(agent)) {
        None => Ok(()),
        Some(agent) => Err(format!(
            "a job of agent \"{agent}\" is not allowed: agentId, sessionKey and sessionTarget may \
             mean {own} and its subagents.allowAgents"
        )),
    }
}

/// Another agent may run commands that this one may not. What binds this one binds only
/// those jobs of that one which run apart and were made by this one.
fn check_commands(
    cx: &ToolContext,
    agents: &[AgentId],
    target: &str,
    is_made_here: bool,
) -> Result<(), String> {
    let settings = cx.parts().settings.now();
    let own = ExecWords::of_agent(&settings, cx.key.agent(&cx.parts().keys.now()).as_str());
    let is_laxer = |agent: &AgentId| {
        let theirs = ExecWords::of_agent(&settings, agent.as_str());
        theirs.clone().and(own.clone()) != theirs
    };
    match agents.iter().find(|agent| is_laxer(agent)) {
        Some(agent) if target != "isolated" || !is_made_here => Err(format!(
            "agent \"{agent}\" may run commands that this one may not, so jobs of it can only be \
             made, with sessionTarget \"isolated\", and changed where they were made so"
        )),
        _ => Ok(()),
    }
}

/// What a job says is said to nobody to whom the agent may not write by itself; `own` is
/// where it is asked for.
async fn check_reach(cx: &ToolContext, job: &Job, own: &[Target]) -> Result<(), String> {
    let channels = &cx.parts().channels;
    for chat in &cx.parts().cron.named_chats(job).await {
        let target = channels.target(&Wanted {
            channel: Some(&chat.channel),
            account: chat.account_id.as_deref(),
            to: Some(&chat.to),
            thread: None,
        });
        let target = target.map_err(|error| error.to_string())?;
        let reached = channels.check_reach(&target, own).await;
        reached.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// A place as a job keeps it.
fn chat(place: Target) -> NamedChat {
    let address = place.address;
    NamedChat { channel: address.channel, to: address.target, account_id: Some(address.account) }
}

/// The job that is meant, which the caller may touch.
async fn own_job(cx: &ToolContext, arguments: &Value) -> Result<String, String> {
    let id = job_id(arguments).ok_or("jobId required")?;
    let caller = caller(cx).await?;
    let known = match cx.parts().cron.job(id).await {
        // There is nothing to touch.
        Err(CronError::Unknown(_)) if !caller.is_narrowed => return Ok(id.to_owned()),
        known => known,
    };
    let (job, origin) = known.map_err(|error| error.to_string())?;
    if caller.is_narrowed {
        // One that it made when it was not bound like this is bound by less.
        let is_own = |origin: &Origin| {
            origin.session_key == cx.key.as_str() && origin.commands == caller.origin.commands
        };
        if !origin.as_ref().is_some_and(is_own) {
            return Err(NARROWED.into());
        }
    }
    check_agents(cx, &agents_of(cx, &job))?;
    Ok(id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_says_which_job_is_meant() {
        let meta = |arguments: Value| CronTool.meta(&arguments);
        assert_eq!(meta(json!({"action": "list"})).as_deref(), Some("list"));
        let add = json!({"action": "add", "job": {"name": "tea"}});
        assert_eq!(meta(add).as_deref(), Some("add tea"));
        assert_eq!(meta(json!({"action": "run", "jobId": "j"})).as_deref(), Some("run j"));
        assert_eq!(meta(json!({"action": 5})), None);
    }
}
