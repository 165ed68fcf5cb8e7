//! What nodes ask agents: what somebody said to them, and what they send by
//! themselves, such as a picture that was shared on a phone.

use std::time::Duration;

use super::chat::{check_session, clean};
use super::{attachments, reply};
use crate::agent::{Family, RunTerms, SendRequest};
use crate::channels::{Outgoing, Target, TargetError, Wanted};
use crate::nodes::{AgentRequest, SpeechPrint};
use crate::protocol::methods::agent::{AgentParams, ReplyRoute};
use crate::protocol::{ErrorShape, simple};
use crate::providers::ThinkingLevel;
use crate::registry::{Ctx, Reply};
use crate::sessions::SessionKey;

/// How hard to think about what was said, as in the original: whoever speaks waits.
const SPOKEN: &str = "low";

/// Starts a run with what somebody said to a node, unless that was heard already.
pub(super) async fn said(
    cx: &Ctx,
    node_id: &str,
    key: SessionKey,
    text: String,
    print: SpeechPrint,
) -> Reply<()> {
    let nodes = &cx.services.nodes;
    let run_id = match print {
        // The same key is the same message, also after a restart.
        SpeechPrint::Event(event) => format!("voice-{node_id}-{event}"),
        SpeechPrint::Likely(print) if nodes.hear(&key, &print) => {
            format!("voice-{}", cx.services.ids.uuid())
        }
        SpeechPrint::Likely(_) => {
            tracing::debug!(node = %node_id, session = %key, "said once, reported twice");
            return Ok(());
        }
    };
    let request = AgentRequest {
        message: text,
        attachments: Vec::new(),
        session: None,
        deliver: false,
        channel: None,
        to: None,
        receipt: None,
        thinking: Some(SPOKEN.to_owned()),
        timeout_seconds: None,
    };
    let asked = ask(cx, key.clone(), run_id, request).await;
    if asked.is_err() {
        nodes.hear_again(&key);
    }
    asked
}

/// Starts a run with what a node asks; it answers to whoever follows the session,
/// and to a channel when that is wanted.
pub(super) async fn ask(
    cx: &Ctx,
    key: SessionKey,
    run_id: String,
    mut p: AgentRequest,
) -> Reply<()> {
    let text = clean(&p.message)?;
    let count = p.attachments.len();
    p.attachments.retain(attachments::has_content);
    if p.attachments.len() < count {
        let empty = count - p.attachments.len();
        tracing::warn!(session = %key, empty, "attachments of a node that hold nothing; left out");
    }
    if text.trim().is_empty() && p.attachments.is_empty() {
        return Err(ErrorShape::invalid("message or attachment required"));
    }
    cx.enter_lane(&key).await;
    check_session(cx, &key).await?;
    let incoming =
        attachments::receive(cx, &key, &text, std::mem::take(&mut p.attachments)).await?;
    let thinking = p.thinking.as_deref().map(simple::thinking_in).and_then(ThinkingLevel::parse);
    let place = place(cx, &key, &p).await;
    let reply = match &place {
        Some(place) => reply::of_agent(cx, &key, &delivered(&run_id, place)).await?,
        None => None,
    };
    let request = SendRequest {
        family: Family::Agent,
        written_key: key.to_string(),
        key,
        idempotency_key: run_id.clone(),
        message: incoming.message,
        media: incoming.media,
        thinking,
        owner: cx.caller.principal.owner().clone(),
        dedupe_text: None,
        limit: p.timeout_seconds.map(Duration::from_secs),
        terms: RunTerms::default(),
    };
    let sent = cx.services.runs.send(request).await;
    reply::settle(cx, reply, sent.is_ok()).await;
    let (_, start) = sent.map_err(|error| ErrorShape::unavailable(error.to_string()))?;
    if let (Some(place), Some(text)) = (&place, p.receipt) {
        give_receipt(cx, &run_id, place, text).await;
    }
    if let Some(start) = start {
        cx.after_answer(start);
    }
    Ok(())
}

/// Where the answer goes beside the session. What cannot be is in the log: the
/// request is worth an answer all the same.
async fn place(cx: &Ctx, key: &SessionKey, p: &AgentRequest) -> Option<Target> {
    if !p.deliver {
        if p.receipt.is_some() {
            tracing::warn!(session = %key, "no receipt for a node: its request has no deliver");
        }
        return None;
    }
    match reachable(cx, key, p).await {
        Ok(place) => Some(place),
        Err(error) => {
            tracing::warn!(session = %key, %error, "the answer to a node is not delivered");
            None
        }
    }
}

/// The place that a node names, else that of the session, else the usual one. A
/// node reaches nobody whom an agent would not.
async fn reachable(cx: &Ctx, key: &SessionKey, p: &AgentRequest) -> Result<Target, TargetError> {
    let channels = &cx.services.runs.parts().channels;
    let entry = cx.services.sessions.entry(key).await.ok().flatten();
    let own = entry.and_then(|entry| channels.context_target(&entry));
    let is_named = p.channel.is_some() || p.to.is_some();
    if let Some(own) = own.clone().filter(|_| !is_named) {
        return Ok(own);
    }
    let (channel, to) = (p.channel.as_deref(), p.to.as_deref());
    let place = channels.target(&Wanted { channel, to, ..Wanted::default() })?;
    channels.check_reach(&place, own.as_ref()).await?;
    Ok(place)
}

/// A run whose answer goes to this place, as `agent` would have it.
fn delivered(run_id: &str, place: &Target) -> AgentParams {
    let address = place.address.clone();
    AgentParams {
        message: String::new(),
        agent_id: None,
        has_model: false,
        to: None,
        session_id: None,
        session_key: None,
        thinking: None,
        deliver: true,
        reply: ReplyRoute {
            channel: Some(address.channel),
            account: Some(address.account),
            to: Some(address.target),
            thread: Some(address.thread),
        },
        best_effort: true,
        attachments: Vec::new(),
        timeout_seconds: None,
        wake_word: None,
        idempotency_key: run_id.to_owned(),
    }
}

async fn give_receipt(cx: &Ctx, run_id: &str, place: &Target, text: String) {
    let channels = &cx.services.runs.parts().channels;
    let message = Outgoing { text, ..Outgoing::default() };
    if let Err(error) = channels.post(&format!("{run_id}-receipt"), place, &message).await {
        tracing::warn!(run = run_id, %error, "no receipt for what a node asked");
    }
}
