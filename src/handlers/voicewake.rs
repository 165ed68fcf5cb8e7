//! `voicewake.*`.

use serde_json::{Value, json};

use crate::protocol::ErrorShape;
use crate::protocol::methods::AnyParams;
use crate::protocol::methods::voice::{VoicewakeRoutingSetParams, VoicewakeSetParams};
use crate::registry::{Ctx, Reply};
use crate::store::JsonFileError;
use crate::voice::Routing;

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

/// The file of a setting cannot be used.
pub(super) fn unkept(error: &JsonFileError) -> ErrorShape {
    ErrorShape::unavailable(format!("Error: {error}"))
}
