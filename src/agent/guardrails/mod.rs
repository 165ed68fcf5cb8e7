//! Guardrails: what is done about a tool call before it is made, of a run or of a client
//! that calls a tool itself.
//!
//! Owns: carrying out what `tools.guardrails` says. Promises: off, it costs one look
//! at a setting; a call is only ever taken away, never granted: tool policy and exec
//! approvals judge what goes on here as ever, tool policy once more when somebody was
//! asked; unclear, late and failed all mean no; a refused call is an answer that the model
//! reads, and the run goes on. Must not: know who may call a tool.

mod review;

use serde_json::Value;

use super::approvals::ToolQuestion;
use super::run::ActiveRun;
use super::tools::{CallNews, ToolContext, ToolNews, ToolOutput, ToolSource, Toolbox};
use crate::auth::Owner;
use crate::config::{GuardedCall, RunContext, Strategy};
use crate::protocol::message::ToolCall;
use crate::support::json;

/// `by` in the details of a call that they refused.
pub const GUARDRAILS: &str = "guardrails";
/// The tool that asks about what it runs by itself, and shows more of it.
const EXEC: &str = "exec";
/// Why a call is refused that nobody looked at, as the action chat tells it.
const BY_RULE: &str = "Denied by guardrail rule";
const NO_PHONE: &str =
    "Denied by guardrail rule: phone verification is not offered by this gateway";

const NOT_ANY_MORE: &str = "Denied by tool policy: the tool may not be used any more";

/// What those who follow a run are told of a call that is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardNews {
    /// It is refused, for this reason.
    Denied(String),
    /// A model looks at it.
    ReviewBegins,
    /// That has ended.
    ReviewEnds {
        /// Whether it may go on.
        approved: bool,
        /// Why.
        reason: String,
    },
}

/// Makes a call, if it may be made.
pub async fn call(cx: &ToolContext, toolbox: &Toolbox, call: &ToolCall) -> ToolOutput {
    if !cx.parts().settings.now().tools.guardrails.enabled {
        return toolbox.call(cx, call).await;
    }
    // What cannot be called anyway nobody need be asked about.
    if toolbox.check(call).is_err() {
        return toolbox.call(cx, call).await;
    }
    match judged(cx, toolbox, call).await {
        Ok(None) => toolbox.call(cx, call).await,
        Ok(Some(asking)) => toolbox.call(cx, &asking).await,
        Err(reason) => {
            cx.tell(ToolNews::Guard(GuardNews::Denied(reason.clone()))).await;
            denied(&call.name, &reason)
        }
    }
}

/// Whether a call may be made, and if not as it is, how.
async fn judged(
    cx: &ToolContext,
    toolbox: &Toolbox,
    call: &ToolCall,
) -> Result<Option<ToolCall>, String> {
    match strategy(cx, toolbox, call) {
        // There is no prompt shield to look at it.
        Strategy::Allow | Strategy::Filter => Ok(None),
        Strategy::Deny => Err(BY_RULE.into()),
        Strategy::Pitl => Err(NO_PHONE.into()),
        Strategy::Hitl if call.name == EXEC => Ok(Some(asking(call))),
        Strategy::Hitl => {
            let about = ToolQuestion {
                tool: &call.name,
                arguments: &call.arguments,
                call_id: &call.id,
                agent: &cx.agent.id,
                session: &cx.key,
            };
            let answer = cx.parts().approvals.ask_about(&about, &CallNews(cx)).await;
            answer.map_err(|why| format!("Denied by guardrail rule: {why}"))?;
            check_still(cx, toolbox, call).await.map(|()| None)
        }
        Strategy::Aitl => {
            cx.tell(ToolNews::Guard(GuardNews::ReviewBegins)).await;
            let verdict = review::review(cx, call).await;
            let (approved, reason) = (verdict.is_ok(), verdict.clone().unwrap_or_else(|it| it));
            cx.tell(ToolNews::Guard(GuardNews::ReviewEnds { approved, reason })).await;
            verdict.map_err(|why| format!("Denied by AI review: {why}"))?;
            check_still(cx, toolbox, call).await.map(|()| None)
        }
    }
}

/// Whether a tool may still be used, after somebody was asked about a call of it.
async fn check_still(cx: &ToolContext, toolbox: &Toolbox, call: &ToolCall) -> Result<(), String> {
    let Some(tool) = toolbox.find(&call.name).filter(|tool| !tool.is_of_client()) else {
        return Ok(());
    };
    let may = cx.may_still_use(tool).await;
    may.then_some(()).ok_or_else(|| NOT_ANY_MORE.to_owned())
}

fn strategy(cx: &ToolContext, toolbox: &Toolbox, call: &ToolCall) -> Strategy {
    let source = toolbox.find(&call.name).map_or(ToolSource::Core, super::tools::Tool::source);
    let (provider, model) =
        cx.model.as_ref().map_or(("", ""), |model| (model.provider.as_str(), model.id.as_str()));
    let context = cx.run.as_ref().map_or(RunContext::Interactive, |run| context(run));
    let guarded =
        GuardedCall { context, provider, model, tool: &call.name, server: source.plugin() };
    cx.parts().settings.now().tools.guardrails.strategy(&guarded)
}

/// On whose account a run is. What the gateway began by itself, and what sub-agents
/// do, nobody waits for.
fn context(run: &ActiveRun) -> RunContext {
    let by_itself = run.terms.is_heartbeat || *run.owner == Owner::gateway();
    if by_itself || run.spawned_by.is_some() || run.key.is_spawned() || run.key.is_job() {
        RunContext::Background
    } else {
        RunContext::Interactive
    }
}

/// The same command, which asks in any case: its own question shows the directory and
/// the environment too, and what is approved is what is started.
fn asking(call: &ToolCall) -> ToolCall {
    let mut call = call.clone();
    if let Value::Object(arguments) = &mut call.arguments {
        arguments.insert("ask".into(), json!("always"));
    }
    call
}

/// Why they have refused a call; none where a tool itself has answered.
pub fn refusal(output: &ToolOutput) -> Option<&str> {
    let details = output.details.as_ref()?;
    if details["by"] != GUARDRAILS || details["status"] != "denied" {
        return None;
    }
    details["reason"].as_str()
}

fn denied(tool: &str, reason: &str) -> ToolOutput {
    let text = format!(
        "{reason}. The tool {tool} was not used. Do not try the same again; go on without it, or \
         tell the user what you could not do."
    );
    let details = json!({"status": "denied", "by": GUARDRAILS, "tool": tool, "reason": reason});
    ToolOutput { is_error: true, details: Some(details), ..ToolOutput::text(text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::run::tests::run;

    #[test]
    fn what_nobody_waits_for_is_in_the_background() {
        for (key, expected) in [
            ("main", RunContext::Interactive),
            ("agent:main:dashboard:x", RunContext::Interactive),
            ("agent:main:subagent:x", RunContext::Background),
            ("agent:main:cron:x", RunContext::Background),
        ] {
            assert_eq!(context(&run("r", key)), expected, "{key}");
        }
    }

    #[test]
    fn a_command_that_is_asked_about_says_so_whatever_the_model_wrote() {
        let written = json!({"type": "toolCall", "id": "c", "name": EXEC,
            "arguments": {"command": "ls", "ask": "off"}});
        let call: ToolCall = serde_json::from_value(written).unwrap();
        assert_eq!(asking(&call).arguments, json!({"command": "ls", "ask": "always"}));
    }
}
