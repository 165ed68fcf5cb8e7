//! What nodes ask agents: what somebody said to them, and what they send by
//! themselves, such as a picture that was shared on a phone.

use std::time::Duration;

use super::chat::{check_session, clean};
use super::sessions::unavailable;
use super::{attachments, reply};
use crate::agent::{Accepted, Family, RunTerms, SendRequest};
use crate::channels::{Expected, Outgoing, Target, TargetError, Wanted};
use crate::nodes::{AgentRequest, SpeechPrint};
use crate::protocol::ErrorShape;
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
    let print = match print {
        // The same key is the same message, also after a restart.
        SpeechPrint::Event(event) => {
            let mut run_id = format!("voice-{node_id}-{event}");
            cx.enter_lane(&key).await;
            // One that a stop has cut off is answered now: nobody can say it under another id.
            while ask_in_lane(cx, key.clone(), run_id.clone(), request.clone()).await?
                == Accepted::Interrupted
            {
                run_id.push_str("-again");
            }
            return Ok(());
        }
        SpeechPrint::Likely(print) => print,
    };
    let nodes = &cx.services.nodes;
    if !nodes.hear(&key, &print) {
        tracing::debug!(node = %node_id, session = %key, "said once, reported twice");
        return Ok(());
    }
    let run_id = format!("voice-{}", cx.services.ids.uuid());
    let asked = ask(cx, key.clone(), run_id, request).await;
    if asked.is_err() {
        nodes.hear_again(&key, &print);
    }
    asked.map(drop)
}

/// Starts a run with what a node asks; it answers to whoever follows the session,
/// and to a channel when that is wanted.
pub(super) async fn ask(
    cx: &Ctx,
    key: SessionKey,
    run_id: String,
    p: AgentRequest,
) -> Reply<Accepted> {
    cx.enter_lane(&key).await;
    ask_in_lane(cx, key, run_id, p).await
}

async fn ask_in_lane(
    cx: &Ctx,
    key: SessionKey,
    run_id: String,
    mut p: AgentRequest,
) -> Reply<Accepted> {
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
    check_session(cx, &key).await?;
    let incoming =
        attachments::receive(cx, &key, &text, std::mem::take(&mut p.attachments)).await?;
    let thinking = p.thinking.as_deref().and_then(ThinkingLevel::meant_by);
    let place = place(cx, &key, &p).await;
    let reply = match place.clone() {
        Some(place) => Some(reply::expect(cx, Family::Agent, &key, &run_id, place).await?),
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
        terms: RunTerms {
            hearer: reply.as_ref().map(Expected::hearer).unwrap_or_default(),
            ..RunTerms::default()
        },
    };
    let sent = cx.services.runs.send(request).await;
    reply::settle(reply, sent.is_ok()).await;
    let (accepted, start) = sent.map_err(|error| ErrorShape::unavailable(error.to_string()))?;
    if let (Some(place), Some(text)) = (&place, p.receipt) {
        give_receipt(cx, &run_id, place, text).await;
    }
    if let Some(start) = start {
        cx.after_answer(start);
    }
    Ok(accepted)
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
            let error = error.message;
            tracing::warn!(session = %key, error, "the answer to a node is not delivered");
            None
        }
    }
}

/// The place that a node names, else that of the session, else the usual one. A
/// node reaches nobody whom an agent would not.
async fn reachable(cx: &Ctx, key: &SessionKey, p: &AgentRequest) -> Reply<Target> {
    let channels = &cx.services.runs.parts().channels;
    let refused = |error: TargetError| ErrorShape::invalid(error.to_string());
    // Where the session is cannot be guessed when it cannot be read.
    let entry = cx.services.sessions.entry(key).await.map_err(unavailable)?;
    let own = entry.and_then(|entry| channels.context_target(&entry));
    let is_named = p.channel.is_some() || p.to.is_some();
    if let Some(own) = own.clone().filter(|_| !is_named) {
        return Ok(own);
    }
    let (channel, to) = (p.channel.as_deref(), p.to.as_deref());
    let place = channels.target(&Wanted { channel, to, ..Wanted::default() }).map_err(refused)?;
    channels.check_reach(&place, own.as_slice()).await.map_err(refused)?;
    Ok(place)
}

async fn give_receipt(cx: &Ctx, run_id: &str, place: &Target, text: String) {
    let channels = &cx.services.runs.parts().channels;
    let message = Outgoing { text, ..Outgoing::default() };
    if let Err(error) = channels.post(&format!("{run_id}-receipt"), place, &message).await {
        tracing::warn!(run = run_id, %error, "no receipt for what a node asked");
    }
}
