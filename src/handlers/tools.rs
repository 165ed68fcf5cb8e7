//! `tools.catalog`, `tools.effective`, `tools.invoke`.

use std::sync::Arc;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::agent::guardrails;
use crate::agent::tools::{
    CallError, Tool, ToolContext, ToolKind, ToolScope, ToolSource, Toolbox, catalog,
};
use crate::config::ToolProfile;
use crate::protocol::message::{ToolCall, ToolCallTag};
use crate::protocol::methods::tools::{
    ToolsCatalogParams, ToolsEffectiveParams, ToolsInvokeParams,
};
use crate::protocol::{ErrorShape, Scope};
use crate::registry::{Ctx, Reply};
use crate::sessions::{AgentId, SessionKey};
use crate::support::{hex, json, sort, without_nulls};

use super::sessions::unavailable;

/// Longest description in `tools.effective`, in characters.
const DESCRIPTION_MAX: usize = 120;

/// `tools.catalog`: the tools that an agent could have.
pub async fn catalog(cx: Ctx, p: ToolsCatalogParams) -> Reply<Value> {
    let agent = configured(&cx, p.agent_id.as_deref())?;
    let profiles = ToolProfile::ALL.map(|it| json!({"id": it.as_str(), "label": it.label()}));
    let tools = &cx.services.runs.parts().tools;
    let is_there =
        |entry: &&catalog::ToolEntry| tools.builtin().iter().any(|it| it.name() == entry.id);
    let groups = catalog::GROUPS.iter().filter_map(|group| {
        let entries: Vec<_> = group.tools.iter().filter(is_there).map(catalog_row).collect();
        let row = json!({"id": group.id, "label": group.label, "source": "core", "tools": entries});
        (!entries.is_empty()).then_some(row)
    });
    Ok(json!({"agentId": agent.as_str(), "profiles": profiles,
        "groups": groups.collect::<Vec<_>>()}))
}

fn catalog_row(tool: &catalog::ToolEntry) -> Value {
    let profiles: Vec<_> = tool.profiles.iter().map(|profile| profile.as_str()).collect();
    json!({"id": tool.id, "label": tool.id, "description": tool.summary, "source": "core",
        "defaultProfiles": profiles})
}

/// `tools.effective`: the tools that a session has now.
pub async fn effective(cx: Ctx, p: ToolsEffectiveParams) -> Reply<Value> {
    let (services, key) = (&cx.services, cx.session_key(&p.session_key));
    let entry = services.sessions.entry(&key).await.map_err(unavailable)?;
    let agent = key.agent(&services.keys.now());
    // The main session of an agent is there before anybody has written in it.
    let is_main = || key == SessionKey::main(&agent, &services.keys.now());
    if entry.is_none() && !(is_main() && services.settings.now().agents.has(agent.as_str())) {
        let text = format!("unknown session key \"{}\"", p.session_key);
        return Err(ErrorShape::not_found(text));
    }
    if let Some(written) = &p.agent_id
        && AgentId::normalize(written) != agent
    {
        return Err(ErrorShape::not_found(format!("unknown agent id \"{written}\"")));
    }
    let parts = services.runs.parts();
    let scope = ToolScope::of_session(parts, &key, entry.as_ref()).await.map_err(unavailable)?;
    let scope = scope.owned(cx.caller.principal.allows(Scope::Admin));
    let toolbox = parts.tools.toolbox(&services.settings.now(), agent.as_str(), &scope).await;
    let mut tools: Vec<_> = toolbox.iter().collect();
    sort::by(&mut tools, |a, b| a.name().cmp(b.name()));
    let groups = ToolSource::LISTED.into_iter().filter_map(|(id, label)| {
        let of_group = tools.iter().filter(|tool| tool.source().as_str() == id);
        let rows: Vec<_> = of_group.map(|tool| effective_row(*tool)).collect();
        let row = json!({"id": id, "label": label, "source": id, "tools": rows});
        (!rows.is_empty()).then_some(row)
    });
    Ok(
        json!({"agentId": agent.as_str(), "profile": scope.profile(&services.settings.now()).as_str(),
        "groups": groups.collect::<Vec<_>>()}),
    )
}

fn effective_row(tool: &dyn Tool) -> Value {
    let (spec, source) = (tool.spec(), tool.source());
    let known = catalog::find(&spec.name).map(|(_, tool)| tool);
    let label = known.map_or_else(|| title(&spec.name), |tool| tool.label.to_owned());
    let summary = known.map_or_else(|| shortened(&spec.description), |it| it.summary.to_owned());
    without_nulls(json!({"id": spec.name, "label": label, "description": summary,
        "rawDescription": spec.description, "source": source.as_str(),
        "pluginId": source.plugin()}))
}

/// `get_file` as people write it: `Get File`.
fn title(name: &str) -> String {
    let words = name.split(['_', '-']).filter(|word| !word.is_empty()).map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_uppercase().to_string());
        first.unwrap_or_default() + letters.as_str()
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The begin of a description, up to a word.
fn shortened(text: &str) -> String {
    let text = text.lines().next().unwrap_or_default();
    let Some((end, _)) = text.char_indices().nth(DESCRIPTION_MAX) else { return text.to_owned() };
    let begin = text.get(..end).unwrap_or(text);
    let whole = begin.rsplit_once(' ').map_or(begin, |(words, _)| words);
    format!("{whole}...")
}

/// `tools.invoke`: calls one tool as a session would. What goes wrong with the
/// tool is part of the answer.
pub async fn invoke(cx: Ctx, p: ToolsInvokeParams) -> Reply<Value> {
    let services = &cx.services;
    let named = p.agent_id.as_deref().map(AgentId::normalize);
    let agent = named.clone().unwrap_or_else(|| services.keys.now().default_agent.clone());
    let key = cx.session_key_for(p.session_key.as_deref().unwrap_or("main"), &agent);
    let of_key = key.agent(&services.keys.now());
    if let Some(named) = named.filter(|named| *named != of_key) {
        let text = format!("agent id \"{named}\" does not match session agent \"{of_key}\"");
        return Ok(refused(&p.name, "validation_error", &text));
    }
    let mut call = call_of(services.ids.uuid(), p.name, p.args.unwrap_or_default());
    let toolbox = toolbox(&cx, &key).await?;
    if let Some(action) = p.action {
        let tool = toolbox.find(&call.name);
        add_action(&mut call.arguments, tool, &action);
    }
    let is_known = services.settings.now().agents.has(of_key.as_str());
    // Who may not call it now is told no answer of an earlier call either.
    match toolbox.check(&call) {
        // What its own rules would be, nobody has said.
        Ok((tool, _)) if !is_known && tool.kind() != ToolKind::Reads => {
            let text = format!("unknown agent id \"{of_key}\"");
            return Ok(refused(&call.name, "validation_error", &text));
        }
        Ok((tool, _)) if p.dry_run == Some(true) && tool.kind() != ToolKind::Reads => {
            let text = "this tool changes something, so it cannot be called with dryRun";
            return Ok(refused(&call.name, "validation_error", text));
        }
        Ok(_) => {}
        Err(CallError::Unknown(name)) => {
            let text = format!("Tool not available: {name}");
            return Ok(refused(&call.name, "not_found", &text));
        }
        Err(CallError::Invalid(text)) => {
            return Ok(refused(&call.name, "validation_error", &text));
        }
    }
    let print = print_of(&call, &key, is_owner(&cx));
    let work = {
        let (cx, print) = (cx.clone(), print.clone());
        async move {
            let answer = called(&cx, &key, &toolbox, &call).await;
            Ok(json!({"call": print, "answer": answer}))
        }
    };
    // What others call theirs is another key.
    let whose = cx.caller.principal.device().unwrap_or("gateway");
    let once = p.idempotency_key.map(|key| format!("{whose} {key}"));
    let mut kept = cx.once("tools.invoke", once, work).await?;
    if kept["call"] != print {
        return Err(ErrorShape::invalid("idempotencyKey was used for another call"));
    }
    Ok(kept["answer"].take())
}

/// The tools that the caller may call in a session.
async fn toolbox(cx: &Ctx, key: &SessionKey) -> Reply<Toolbox> {
    let parts = cx.services.runs.parts();
    let entry = parts.sessions.entry(key).await.map_err(unavailable)?;
    let scope = ToolScope::of_session(parts, key, entry.as_ref()).await;
    let scope = scope.map_err(unavailable)?.by_client().owned(is_owner(cx));
    let agent = key.agent(&parts.keys.now());
    Ok(parts.tools.toolbox(&parts.settings.now(), agent.as_str(), &scope).await)
}

/// Calls a tool that is there, for the caller.
async fn called(cx: &Ctx, key: &SessionKey, toolbox: &Toolbox, call: &ToolCall) -> Value {
    let runs = &cx.services.runs;
    let context = ToolContext::new(Arc::clone(runs), key.clone(), runs.parts().agent_of(key));
    let output = guardrails::call(&context.owned(is_owner(cx)), toolbox, call).await;
    if let Some(usage) = &output.usage {
        runs.pay_for(key, usage).await;
    }
    let source = toolbox.find(&call.name).map(|tool| tool.source().word());
    match (guardrails::refusal(&output), output.error_text()) {
        (Some(reason), _) => refused(&call.name, "forbidden", reason),
        (None, Some(text)) => refused(&call.name, "internal_error", &text),
        (None, None) => json!({"ok": true, "toolName": call.name, "output": output.to_wire(),
            "source": source}),
    }
}

fn is_owner(cx: &Ctx) -> bool {
    cx.caller.principal.allows(Scope::Admin)
}

/// Tells calls apart, in whatever order their arguments come.
fn print_of(call: &ToolCall, key: &SessionKey, is_owner: bool) -> String {
    let mut asked = json!([call.name, call.arguments, key.as_str(), is_owner]);
    asked.sort_all_objects();
    hex(Sha256::digest(asked.to_string()))
}

fn refused(tool: &str, code: &str, message: &str) -> Value {
    json!({"ok": false, "toolName": tool, "error": {"code": code, "message": message}})
}

/// Puts the action among the arguments, if the tool has one and they do not.
fn add_action(arguments: &mut Value, tool: Option<&dyn Tool>, action: &str) {
    let takes_it =
        tool.is_some_and(|tool| tool.spec().parameters.pointer("/properties/action").is_some());
    if takes_it && arguments.get("action").is_none() {
        arguments["action"] = json!(action);
    }
}

fn call_of(id: String, name: String, args: Vec<(String, Value)>) -> ToolCall {
    ToolCall {
        kind: ToolCallTag::ToolCall,
        id,
        name,
        arguments: Value::Object(args.into_iter().collect()),
        fault: None,
        thought_signature: None,
        extra: Map::new(),
    }
}

/// The agent that is named, which must be configured.
pub(super) fn configured(cx: &Ctx, written: Option<&str>) -> Reply<AgentId> {
    let services = &cx.services;
    let agent = written.map(AgentId::normalize);
    let agent = agent.unwrap_or_else(|| services.keys.now().default_agent.clone());
    if services.settings.now().agents.has(agent.as_str()) {
        Ok(agent)
    } else {
        let written = written.unwrap_or_default();
        Err(ErrorShape::not_found(format!("unknown agent id \"{written}\"")))
    }
}
