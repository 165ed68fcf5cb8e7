//! `voicewake.*`.

use serde_json::Value;

use crate::protocol::ErrorShape;
use crate::protocol::methods::AnyParams;
use crate::protocol::methods::agent::AgentParams;
use crate::protocol::methods::voice::{VoicewakeRoutingSetParams, VoicewakeSetParams};
use crate::registry::{Ctx, Reply};
use crate::sessions::{AgentId, SessionKey};
use crate::store::JsonFileError;
use crate::support::json;
use crate::voice::{RouteTarget, Routing};

/// `voicewake.get`: the words that wake an agent.
pub async fn get(cx: Ctx, _: AnyParams) -> Reply<Value> {
    let triggers = cx.services.voice.wake_words().await.map_err(|it| unkept(&it))?;
    Ok(json!({"triggers": triggers}))
}

/// `voicewake.set`: other words, for everybody.
pub async fn set(cx: Ctx, p: VoicewakeSetParams) -> Reply<Value> {
    let needed = "voicewake.set requires triggers: string[]";
    let triggers = p.triggers.ok_or_else(|| ErrorShape::invalid(needed))?;
    let triggers = cx.services.voice.set_wake_words(&triggers).await.map_err(|it| unkept(&it))?;
    Ok(json!({"triggers": triggers}))
}

/// `voicewake.routing.get`: whom the words wake.
pub async fn routing_get(cx: Ctx, _: AnyParams) -> Reply<Value> {
    let routing = cx.services.voice.routing().await.map_err(|it| unkept(&it))?;
    Ok(json!({"config": routing}))
}

/// `voicewake.routing.set`: another table, for everybody.
pub async fn routing_set(cx: Ctx, p: VoicewakeRoutingSetParams) -> Reply<Value> {
    let needed = "voicewake.routing.set requires config: object";
    let written = p.config.ok_or_else(|| ErrorShape::invalid(needed))?;
    let routing = Routing::read(&written).map_err(ErrorShape::invalid)?;
    let routing = cx.services.voice.set_routing(routing).await.map_err(|it| unkept(&it))?;
    Ok(json!({"config": routing}))
}

/// The session that a wake word leads to. Who names a session, an agent or a
/// recipient means that one; the main session of the default agent is what
/// clients name when they name none.
pub(super) async fn woken(cx: &Ctx, p: &AgentParams) -> Option<SessionKey> {
    let word = p.wake_word.as_deref()?;
    let keys = &cx.services.keys.now();
    let is_given = |text: &Option<String>| text.as_deref().is_some_and(|it| !it.trim().is_empty());
    let main = SessionKey::main(&keys.default_agent, keys);
    let is_elsewhere = is_given(&p.session_key)
        && p.session_key.as_deref().is_some_and(|written| cx.session_key(written) != main);
    if is_elsewhere || is_given(&p.agent_id) || is_given(&p.session_id) || is_given(&p.reply.to) {
        return None;
    }
    let routing = match cx.services.voice.routing().await {
        Ok(routing) => routing,
        Err(error) => {
            tracing::warn!(%error, "a wake word leads nowhere");
            return None;
        }
    };
    let key = match routing.target(word) {
        RouteTarget::Current => return None,
        RouteTarget::Agent(id) => SessionKey::main(&AgentId::normalize(id), keys),
        RouteTarget::Session(key) => SessionKey::parse(key, keys),
    };
    let agent = key.agent(keys);
    let is_known = !key.is_malformed() && cx.services.settings.now().agents.has(agent.as_str());
    if !is_known {
        tracing::warn!(%key, word, "a wake word leads to an agent that there is not");
    }
    is_known.then_some(key)
}

/// The file of a setting cannot be used.
pub(super) fn unkept(error: &JsonFileError) -> ErrorShape {
    ErrorShape::unavailable(format!("Error: {error}"))
}
