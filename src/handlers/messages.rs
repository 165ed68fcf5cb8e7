//! `send`, `poll` and `message.action`: an operator writes to people.

use std::sync::Arc;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::chat::clean;
use super::session_settings::refuse_malformed;
use crate::agent::RunsParts;
use crate::channels::{
    Channels, Delivered, DeliveryError, MediaItem, Outgoing, Poll, Refused, Target, TargetError,
    Wanted, presented_buttons, presented_words,
};
use crate::commands::is_stop_word;
use crate::protocol::decode::{self, Unknown};
use crate::protocol::message::AssistantMessage;
use crate::protocol::methods::channels::{MessageActionParams, PollParams, SendParams};
use crate::protocol::{ErrorShape, Scope};
use crate::registry::{Ctx, Reply};
use crate::sessions::{AgentId, SessionKey};
use crate::support::{json, without_nulls};

/// The `model` of a line of a transcript that says what was sent to people.
const MIRROR: &str = "delivery-mirror";

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
    let media = p.media.iter().map(|url| media(url, p.is_voice)).collect::<Reply<Vec<_>>>()?;
    let after = After { mirror: mirror(&cx, &p)?, pin: None };
    let message = Outgoing { text, media, reply_to: p.reply_to.clone(), ..Outgoing::default() };
    deliver(&cx, "send", p.idempotency_key, target, message, after).await
}

/// What is done with a message that was sent.
#[derive(Default)]
struct After {
    /// Who gets to know it.
    mirror: Option<Mirror>,
    /// How it is pinned, if it is to be.
    pin: Option<Pin>,
}

/// How a message is pinned.
#[derive(Clone, Copy)]
struct Pin {
    /// Whether people are told of it.
    notifies: bool,
    /// Whether it is an error when it is not.
    is_required: bool,
}

/// A session that gets to know what was sent to people, and in which words.
struct Mirror {
    key: SessionKey,
    text: String,
}

impl Mirror {
    /// Puts it into the transcript, once however often it is sent again. What is sent is not
    /// taken back for it.
    async fn write(self, parts: &RunsParts, delivery: &str, is_again: bool) {
        let Self { key, text } = self;
        // When it was put into the outbox: by that and by its key it is known again.
        let at = sent_at(parts, delivery).await.unwrap_or_else(|| parts.clock.now_ms());
        let entry = parts.sessions.entry(&key).await.ok().flatten();
        let began = entry.and_then(|entry| entry.session_started_at);
        if is_again && began.is_some_and(|began| began > at) {
            // It is of the transcript before this one, and may be there.
            return;
        }
        let note = AssistantMessage::from_gateway(text, at);
        let note = AssistantMessage { model: MIRROR.into(), ..note };
        match parts.say_once_in(&key, note, delivery).await {
            Ok(stored) if stored.is_repeated => {}
            Ok(stored) => parts.announce(&key, &stored),
            Err(error) => {
                tracing::error!(session = %key, %error, "what was sent is not in its session");
            }
        }
    }
}

/// When a delivery was put into the outbox.
async fn sent_at(parts: &RunsParts, delivery: &str) -> Option<u64> {
    let sent = parts.store.outbox_of(delivery.to_owned()).await.unwrap_or_default();
    sent.first().map(|part| part.created_at)
}

/// The session that `send` names: of the text and the names of its files.
fn mirror(cx: &Ctx, p: &SendParams) -> Reply<Option<Mirror>> {
    let Some(written) = &p.session_key else { return Ok(None) };
    let key = match p.agent_id.as_deref().map(AgentId::normalize) {
        Some(agent) => cx.session_key_for(written, &agent),
        None => cx.session_key(written),
    };
    refuse_malformed(&key, written)?;
    let agent = key.agent(&cx.services.keys.now());
    if !cx.services.settings.now().agents.has(agent.as_str()) {
        return Err(ErrorShape::invalid(format!("unknown agent id \"{agent}\"")));
    }
    let names: Vec<_> = p.media.iter().map(|url| name_of(url)).collect();
    let parts = [p.message.clone().unwrap_or_default(), names.join(", ")];
    let parts: Vec<_> = parts.into_iter().filter(|text| !text.trim().is_empty()).collect();
    Ok(Some(Mirror { key, text: parts.join("\n\n") }))
}

/// What a file behind an address is called.
fn name_of(url: &str) -> String {
    let url = reqwest::Url::parse(url.trim()).ok();
    let name = url.as_ref().and_then(|url| url.path_segments()?.next_back());
    let name = name.map(|name| percent_decode_str(name).decode_utf8_lossy().into_owned());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "media".into())
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
    deliver(&cx, "poll", p.idempotency_key, target, message, After::default()).await
}

async fn deliver(
    cx: &Ctx,
    method: &'static str,
    key: String,
    target: Target,
    message: Outgoing,
    after: After,
) -> Reply<Value> {
    let (services, run_id) = (Arc::clone(&cx.services), key.clone());
    // The key is the caller's own: two callers may have the same one.
    let delivery = format!("{method}:{key}");
    let work = async move {
        let parts = services.runs.parts();
        let is_again = after.mirror.is_some() && sent_at(parts, &delivery).await.is_some();
        let sent = parts.channels.send(&delivery, &target, &message).await.map_err(undelivered)?;
        if let Some(mirror) = after.mirror {
            mirror.write(parts, &delivery, is_again).await;
        }
        if let Some(wanted) = after.pin {
            pin(&parts.channels, &target, &sent, wanted).await?;
        }
        Ok(told(&run_id, &target, &sent))
    };
    // What is in the outbox under this name is not put there again.
    cx.resumed(method, key, work).await
}

/// Pins what was sent, by the first of its messages. Where it fails the message is sent all the
/// same.
async fn pin(channels: &Channels, target: &Target, sent: &Delivered, wanted: Pin) -> Reply<()> {
    let pinned = match &sent.first_id {
        Some(id) if sent.is_complete => {
            let params = json!({"messageId": id, "notify": wanted.notifies});
            channels.act(target, "pin", &params).await
        }
        _ if sent.is_complete => Err(Refused::Failed("the service told no id of it".into())),
        _ => Err(Refused::Failed("the service has not taken it yet".into())),
    };
    let Err(error) = pinned else { return Ok(()) };
    let (channel, to) = (target.kind.as_str(), &target.address.target);
    tracing::warn!(channel, to, %error, "a message is not pinned");
    if wanted.is_required {
        return Err(ErrorShape::unavailable(format!("Error: the message is not pinned: {error}")));
    }
    Ok(())
}

/// The pin of an action (`pin`, or `delivery.pin` as a flag or as options).
fn wanted_pin(params: &Value) -> Option<Pin> {
    let delivery = &params["delivery"];
    let pin = if delivery.is_object() { &delivery["pin"] } else { &params["pin"] };
    let is_wanted = *pin == true || pin["enabled"] == true;
    is_wanted.then(|| Pin { notifies: pin["notify"] == true, is_required: pin["required"] == true })
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
        let is_admin = cx.caller.principal.allows(Scope::Admin);
        let message = outgoing(&p.params, &name, is_admin)?;
        let pin = wanted_pin(&p.params);
        let unsupported = |what: &str| {
            let channel = kind.as_str();
            let text = format!("{name} with {what} is not supported for channel {channel}");
            Err(ErrorShape::invalid(text))
        };
        if !message.buttons.is_empty() && !target.takes_buttons() {
            return unsupported("buttons");
        }
        let can_pin = channels.actions(kind, p.account_id.as_deref()).contains(&"pin");
        if pin.is_some_and(|pin| pin.is_required) && !can_pin {
            return unsupported("a required pin");
        }
        let after = After { mirror: None, pin };
        return deliver(&cx, "message.action", p.idempotency_key, target, message, after).await;
    }
    let mut params = p.params.clone();
    if name == "react" && params["messageId"].is_null() {
        params["messageId"] = p.answered.unwrap_or_default();
    }
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
    // The command sends numbers as they were typed.
    let number = |name: &str| {
        let value = given(name)?;
        let typed = value.as_str().and_then(|text| text.trim().parse::<u64>().ok());
        Some(typed.map_or(value, Value::from))
    };
    let options = given("pollOption");
    let count = options.as_ref().and_then(Value::as_array).map_or(1, Vec::len);
    let wanted = without_nulls(json!({
        "to": given("to").or_else(|| given("target")),
        "question": given("pollQuestion"),
        "options": options,
        "maxSelections": is("pollMulti").then_some(count),
        "durationSeconds": number("pollDurationSeconds"),
        "durationHours": number("pollDurationHours"),
        "silent": given("silent"),
        "isAnonymous": is("pollPublic").then_some(false),
        "threadId": given("threadId"),
        "channel": p.channel,
        "accountId": p.account_id,
        "idempotencyKey": p.idempotency_key,
    }));
    decode::decode("poll", wanted, Unknown::Refuse)
}

fn outgoing(params: &Value, action: &str, is_admin: bool) -> Reply<Outgoing> {
    let text = |name: &str| params[name].as_str().map(str::to_owned);
    let presentation = &params["presentation"];
    let may_say: fn(&str) -> bool = if is_admin { |_| true } else { is_no_command };
    let buttons = presented_buttons(presentation, may_say)
        .map_err(|why| ErrorShape::invalid(format!("invalid message.action params: {why}")))?;
    let words = text("message").or_else(|| text("text"));
    let words = words.filter(|words| !words.trim().is_empty());
    let words = words.or_else(|| presented_words(presentation)).unwrap_or_default();
    let media = text("mediaUrl").or_else(|| text("media"));
    if words.is_empty() && media.is_none() {
        return Err(ErrorShape::invalid(format!("{action} needs message")));
    }
    let is_voice = params["asVoice"] == true;
    let media = media.iter().map(|url| self::media(url, is_voice)).collect::<Reply<Vec<_>>>()?;
    let reply_to = text("replyTo").or_else(|| text("messageId").filter(|_| action == "reply"));
    let is_silent = params["silent"].as_bool().unwrap_or_default();
    Ok(Outgoing { text: words, media, poll: None, buttons, reply_to, is_silent })
}

/// Whether nobody gives a command by saying this: an owner who presses a button would give it
/// for whoever has sent the button.
fn is_no_command(said: &str) -> bool {
    // As it is read once it is said; what is not taken then is no command.
    let read = clean(said).unwrap_or_default();
    !read.trim_start().starts_with('/') && !is_stop_word(&read)
}

/// A file that the service fetches by itself. We fetch nothing for callers, and
/// read no files of this machine for them.
fn media(url: &str, is_voice: bool) -> Reply<MediaItem> {
    let parsed = reqwest::Url::parse(url.trim());
    let fits = parsed.as_ref().is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    if !fits {
        return Err(ErrorShape::invalid(
            "mediaUrl must be an http or https address: no files of the gateway's machine are \
            sent for callers. Put the file where the service can fetch it, or ask an agent to \
            send it",
        ));
    }
    Ok(MediaItem { url: Some(url.trim().to_owned()), is_voice, ..MediaItem::default() })
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
