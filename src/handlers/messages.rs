//! `send`, `poll` and `message.action`: an operator writes to people.

use serde_json::{Value, json};

use crate::channels::{
    Channels, Delivered, DeliveryError, MediaItem, Outgoing, Poll, Refused, Target, TargetError,
    Wanted,
};
use crate::protocol::ErrorShape;
use crate::protocol::decode::{self, Unknown};
use crate::protocol::methods::channels::{MessageActionParams, PollParams, SendParams};
use crate::registry::{Ctx, Reply};
use crate::support::without_nulls;

fn channels_of(cx: &Ctx) -> Channels {
    cx.services.runs.parts().channels.clone()
}

/// `send`: one message, durably.
pub async fn send(cx: Ctx, p: SendParams) -> Reply<Value> {
    let channels = channels_of(&cx);
    let wanted = Wanted {
        channel: p.channel.as_deref(),
        account: p.account_id.as_deref(),
        to: Some(&p.to),
        thread: p.thread_id.as_deref(),
    };
    let target = channels.target(&wanted).map_err(misdirected)?;
    let text = p.message.clone().unwrap_or_default();
    if text.trim().is_empty() && p.media.is_empty() {
        return Err(ErrorShape::invalid("message or mediaUrl is required"));
    }
    let media = p.media.iter().map(|url| media(url)).collect::<Reply<Vec<_>>>()?;
    let message = Outgoing { text, media, reply_to: p.reply_to.clone(), ..Outgoing::default() };
    deliver(&cx, "send", p.idempotency_key, target, message).await
}

/// `poll`: a question with answers to choose from.
pub async fn poll(cx: Ctx, p: PollParams) -> Reply<Value> {
    let channels = channels_of(&cx);
    let kind = channels.kind(p.channel.as_deref()).map_err(|error| match error {
        TargetError::Unsupported(name) => {
            ErrorShape::invalid(format!("unsupported poll channel: {name}"))
        }
        other => misdirected(other),
    })?;
    if !channels.has_polls(kind, p.account_id.as_deref()) {
        let text = format!("unsupported poll channel: {}", kind.as_str());
        return Err(ErrorShape::invalid(text));
    }
    let wanted = Wanted {
        channel: Some(kind.as_str()),
        account: p.account_id.as_deref(),
        to: Some(&p.to),
        thread: p.thread_id.as_deref(),
    };
    let target = channels.target(&wanted).map_err(misdirected)?;
    let poll = Poll {
        question: p.question,
        options: p.options,
        max_selections: p.max_selections.and_then(|most| u32::try_from(most).ok()).unwrap_or(1),
        duration_seconds: p.duration_seconds,
        is_anonymous: p.is_anonymous.unwrap_or(true),
    };
    let message = Outgoing { poll: Some(poll), is_silent: p.silent, ..Outgoing::default() };
    deliver(&cx, "poll", p.idempotency_key, target, message).await
}

async fn deliver(
    cx: &Ctx,
    method: &'static str,
    key: String,
    target: Target,
    message: Outgoing,
) -> Reply<Value> {
    let (channels, run_id) = (channels_of(cx), key.clone());
    // The key is the caller's own: two callers may have the same one.
    let delivery = format!("{method}:{key}");
    let work = async move {
        let sent = channels.send(&delivery, &target, &message).await;
        sent.map(|sent| told(&run_id, &target, &sent)).map_err(undelivered)
    };
    cx.once(method, Some(key), work).await
}

fn told(run_id: &str, target: &Target, sent: &Delivered) -> Value {
    let mut answer = json!({"runId": run_id, "channel": target.kind.as_str(),
        "to": target.address.target});
    match (&sent.message_id, sent.is_complete) {
        (Some(id), true) => answer["messageId"] = json!(id),
        (None, true) => {}
        // The service does not take it yet; it is in the outbox.
        (_, false) => answer["status"] = json!("queued"),
    }
    answer
}

/// `message.action`: react to a message, edit or delete it; `send`, `reply` and `poll` as
/// well.
pub async fn action(cx: Ctx, p: MessageActionParams) -> Reply<Value> {
    let channels = channels_of(&cx);
    let kind = channels.kind(Some(&p.channel)).map_err(misdirected)?;
    let name = p.action.trim().to_owned();
    if name == "poll" && channels.has_polls(kind, p.account_id.as_deref()) {
        let wanted = as_poll(&p)?;
        return poll(cx, wanted).await;
    }
    let is_send = matches!(name.as_str(), "send" | "reply");
    if !is_send && !channels.actions(kind, p.account_id.as_deref()).contains(&name.as_str()) {
        let text = format!("Message action {name} not supported for channel {}.", kind.as_str());
        return Err(ErrorShape::invalid(text));
    }
    let text = |member: &str| p.params[member].as_str().map(str::to_owned);
    let (to, thread) = (text("to").or_else(|| text("target")), text("threadId"));
    let wanted = Wanted {
        channel: Some(kind.as_str()),
        account: p.account_id.as_deref(),
        to: to.as_deref(),
        thread: thread.as_deref(),
    };
    let target = channels.target(&wanted).map_err(misdirected)?;
    if is_send {
        let message = outgoing(&p.params, &name)?;
        return deliver(&cx, "message.action", p.idempotency_key, target, message).await;
    }
    let params = p.params.clone();
    let work = async move {
        let done = channels.act(&target, &name, &params).await;
        done.map_err(|refusal| match refusal {
            Refused::Invalid(text) => ErrorShape::invalid(text),
            other => ErrorShape::unavailable(format!("Error: {other}")),
        })
    };
    cx.once("message.action", Some(p.idempotency_key), work).await
}

/// The poll of an action, as OpenClaw's `message poll` sends it.
fn as_poll(p: &MessageActionParams) -> Reply<PollParams> {
    let given = |name: &str| p.params.get(name).filter(|value| !value.is_null()).cloned();
    let is = |name: &str| given(name).is_some_and(|value| value == true);
    let options = given("pollOption");
    let count = options.as_ref().and_then(Value::as_array).map_or(1, Vec::len);
    let wanted = without_nulls(json!({
        "to": given("to").or_else(|| given("target")),
        "question": given("pollQuestion"),
        "options": options,
        "maxSelections": is("pollMulti").then_some(count),
        "durationSeconds": given("pollDurationSeconds"),
        "durationHours": given("pollDurationHours"),
        "silent": given("silent"),
        "isAnonymous": is("pollPublic").then_some(false),
        "threadId": given("threadId"),
        "channel": p.channel,
        "accountId": p.account_id,
        "idempotencyKey": p.idempotency_key,
    }));
    decode::decode("poll", wanted, Unknown::Refuse)
}

fn outgoing(params: &Value, action: &str) -> Reply<Outgoing> {
    let text = |name: &str| params[name].as_str().map(str::to_owned);
    let words = text("message").or_else(|| text("text")).unwrap_or_default();
    let media = text("mediaUrl").or_else(|| text("media"));
    if words.trim().is_empty() && media.is_none() {
        return Err(ErrorShape::invalid(format!("{action} needs message")));
    }
    let media = media.iter().map(|url| self::media(url)).collect::<Reply<Vec<_>>>()?;
    let reply_to = text("replyTo").or_else(|| text("messageId").filter(|_| action == "reply"));
    let is_silent = params["silent"].as_bool().unwrap_or_default();
    Ok(Outgoing { text: words, media, poll: None, reply_to, is_silent })
}

/// A file that the service fetches by itself. We fetch nothing for callers, and
/// read no files of this machine for them.
fn media(url: &str) -> Reply<MediaItem> {
    let parsed = reqwest::Url::parse(url.trim());
    let fits = parsed.as_ref().is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    if !fits {
        return Err(ErrorShape::invalid("mediaUrl must be an http or https address"));
    }
    Ok(MediaItem { url: Some(url.trim().to_owned()), file: None, name: None, mime_type: None })
}

fn misdirected(error: TargetError) -> ErrorShape {
    match error {
        TargetError::Store(error) => ErrorShape::unavailable(format!("Error: {error}")),
        other => ErrorShape::invalid(other.to_string()),
    }
}

#[allow(clippy::needless_pass_by_value)] // used as a plain function in map_err
fn undelivered(error: DeliveryError) -> ErrorShape {
    ErrorShape::unavailable(format!("Error: {error}"))
}
