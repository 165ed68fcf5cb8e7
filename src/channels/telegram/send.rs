//! What is sent, and what is done with messages that are there.

use std::time::Duration;

use serde_json::Value;

use super::api::{ApiError, Upload};
use super::{Telegram, format};
use crate::channels::attach::last_name;
use crate::channels::body::{Body, MediaItem, Poll};
use crate::channels::buttons::Button;
use crate::channels::channel::{Action, Refused, SendFailure, Sent};
use crate::channels::media::read_kept;
use crate::store::{OutboxAddress, OutboxPart};
use crate::support::json;

/// How many buttons are beside each other, as in the original.
const ROW: usize = 3;
/// How often a place may have changed: once its chat, and once its thread.
const FOLLOWED: usize = 2;
/// The parameter for a thread.
const THREAD: &str = "message_thread_id";
/// Bounds of how long a poll is open, in seconds; the API knows no longer ones.
const POLL_SECONDS: std::ops::RangeInclusive<u64> = 5..=600;
/// How long a change waits that nobody knows the outcome of: it may be made
/// again.
const AGAIN: Duration = Duration::from_secs(2);
/// How a file goes that needs no way of its own: the API looks at nothing in it.
const AS_DOCUMENT: Way = ("sendDocument", "document");

/// The method for a file, and the parameter that it is there.
type Way = (&'static str, &'static str);

/// Sends one part of a message.
pub(super) async fn part(
    bot: &Telegram,
    part: &OutboxPart,
    body: &Body,
) -> Result<Sent, SendFailure> {
    let address = &part.address;
    if let Some(poll) = &body.poll {
        return ask(bot, address, body, poll).await;
    }
    if let Some(media) = &body.media {
        return file(bot, address, body, media).await;
    }
    if let Some(shown) = &body.edits {
        match edit(bot, &address.target, shown, &body.text, true).await {
            Ok(()) => return Ok(Sent { message_id: Some(shown.clone()) }),
            // The preview is gone or stays as it is, or its chat is gone: the text is a message of
            // its own, which the last process may have sent.
            Err(error @ ApiError::Refused { code: 400, .. }) => {
                if part.was_cut_off() {
                    return Err(SendFailure::Unknown(error.to_string()));
                }
                tracing::warn!(%error, "an answer cannot take the place of what was shown of it");
            }
            // The same text twice is the same text: it may be set again.
            Err(error @ (ApiError::Unknown(_) | ApiError::Refused { code: 500.., .. })) => {
                let why = error.to_string();
                return Err(SendFailure::Later { after: Some(AGAIN), why });
            }
            Err(error) => return Err(error.into_failure()),
        }
    }
    let params = base(address, body);
    text(bot, params, &body.text).await
}

/// Shows the beginning of a reply, as plain text: half of a mark is none. People are
/// told of it as of any message: what it becomes is an edit, and nobody is told of those.
pub(super) async fn preview(
    bot: &Telegram,
    address: &OutboxAddress,
    body: &Body,
) -> Result<Sent, SendFailure> {
    if let Some(shown) = &body.edits {
        let edited = edit(bot, &address.target, shown, &body.text, false).await;
        edited.map_err(ApiError::into_failure)?;
        return Ok(Sent { message_id: Some(shown.clone()) });
    }
    let mut params = base(address, body);
    params["text"] = json!(body.text);
    leave_pages(bot, &mut params);
    let sent = bot.api.call("sendMessage", &params).await;
    sent.map(|message| sent_as(&message)).map_err(ApiError::into_failure)
}

/// Makes a message; in a group that has become a supergroup, and has another id, there, and
/// beside a thread that is gone. Nothing but new ones is made so: messages have other ids in
/// another group.
async fn make(bot: &Telegram, method: &str, params: &mut Value) -> Result<Value, ApiError> {
    let mut made = bot.api.call(method, params).await;
    for _ in 0..FOLLOWED {
        if !follow(&made, params) {
            break;
        }
        made = bot.api.call(method, params).await;
    }
    made
}

/// Whether a message was refused for its place, which is another one from now on.
fn follow(made: &Result<Value, ApiError>, params: &mut Value) -> bool {
    let Err(error) = made else { return false };
    if error.says("message thread not found") && params.get(THREAD).is_some() {
        tracing::warn!(
            chat = %params["chat_id"],
            thread = %params[THREAD],
            "a thread is gone; the message goes to its chat"
        );
        remove(params, THREAD);
        return true;
    }
    let Some(chat) = error.moved_to() else { return false };
    tracing::warn!(
        from = %params["chat_id"],
        to = chat,
        "a group has become a supergroup with another id; the message goes there"
    );
    params["chat_id"] = json!(chat);
    // The message of this number there is another one.
    remove(params, "reply_parameters");
    true
}

async fn text(bot: &Telegram, mut params: Value, text: &str) -> Result<Sent, SendFailure> {
    params["text"] = json!(format::html(text));
    params["parse_mode"] = json!("HTML");
    leave_pages(bot, &mut params);
    let sent = match make(bot, "sendMessage", &mut params).await {
        Err(error) if is_unreadable(&error) => {
            params["text"] = json!(text);
            remove(&mut params, "parse_mode");
            make(bot, "sendMessage", &mut params).await
        }
        sent => sent,
    };
    sent.map(|message| sent_as(&message)).map_err(ApiError::into_failure)
}

async fn edit(
    bot: &Telegram,
    chat: &str,
    message: &str,
    text: &str,
    is_final: bool,
) -> Result<(), ApiError> {
    let id = message.parse::<i64>().unwrap_or_default();
    let mut params = json!({"chat_id": chat, "message_id": id, "text": text});
    leave_pages(bot, &mut params);
    if is_final {
        params["text"] = json!(format::html(text));
        params["parse_mode"] = json!("HTML");
    }
    let mut edited = bot.api.call("editMessageText", &params).await;
    if edited.as_ref().is_err_and(is_unreadable) {
        params["text"] = json!(text);
        remove(&mut params, "parse_mode");
        edited = bot.api.call("editMessageText", &params).await;
    }
    match edited {
        Err(error) if !error.says("message is not modified") => Err(error),
        _ => Ok(()),
    }
}

async fn ask(
    bot: &Telegram,
    address: &OutboxAddress,
    body: &Body,
    poll: &Poll,
) -> Result<Sent, SendFailure> {
    let mut params = base(address, body);
    let options: Vec<_> = poll.options.iter().map(|text| json!({"text": text})).collect();
    params["question"] = json!(poll.question);
    params["options"] = json!(options);
    params["is_anonymous"] = json!(poll.is_anonymous);
    params["allows_multiple_answers"] = json!(poll.max_selections > 1);
    if let Some(seconds) = poll.duration_seconds {
        if !POLL_SECONDS.contains(&seconds) {
            let why = "a poll on Telegram is open for 5 to 600 seconds, or without an end";
            return Err(SendFailure::Refused(why.into()));
        }
        params["open_period"] = json!(seconds);
    }
    let sent = make(bot, "sendPoll", &mut params).await;
    sent.map(|message| sent_as(&message)).map_err(ApiError::into_failure)
}

/// Sends a file with its words. Where it is surely not taken, or is not there to be sent,
/// the words go without it and say so. A file without words is all of its message, which
/// is refused then; people of the chat are told as well.
async fn file(
    bot: &Telegram,
    address: &OutboxAddress,
    body: &Body,
    media: &MediaItem,
) -> Result<Sent, SendFailure> {
    let why = match with_words(bot, address, body, media).await {
        Err(SendFailure::Refused(why)) => why,
        outcome => return outcome,
    };
    let name = name_of(media);
    tracing::warn!(file = name, error = why, "a file is not sent; its chat is told");
    let note = format!("⚠️ {name} could not be sent: {why}");
    if body.text.trim().is_empty() {
        if let Err(error) = text(bot, base(address, body), &note).await {
            tracing::warn!(file = name, %error, "nobody is told of a file that is not sent");
        }
        return Err(SendFailure::Refused(why));
    }
    text(bot, base(address, body), &format!("{}\n{note}", body.text)).await
}

/// Sends a file with its words; as a document, where it is not taken as what it is. A chat
/// that takes nothing refuses that as well.
async fn with_words(
    bot: &Telegram,
    address: &OutboxAddress,
    body: &Body,
    media: &MediaItem,
) -> Result<Sent, SendFailure> {
    let way = way_of(media);
    let mut sent = captioned(bot, way, address, body, media).await?;
    if way != AS_DOCUMENT && sent.as_ref().is_err_and(is_not_taken) {
        sent = captioned(bot, AS_DOCUMENT, address, body, media).await?;
    }
    sent.map(|message| sent_as(&message)).map_err(ApiError::into_failure)
}

async fn captioned(
    bot: &Telegram,
    (method, field): Way,
    address: &OutboxAddress,
    body: &Body,
    media: &MediaItem,
) -> Result<Result<Value, ApiError>, SendFailure> {
    let mut params = base(address, body);
    if !body.text.trim().is_empty() {
        params["caption"] = json!(format::html(&body.text));
        params["parse_mode"] = json!("HTML");
    }
    let mut sent = place(bot, method, field, &mut params, media).await?;
    if sent.as_ref().is_err_and(is_unreadable) {
        params["caption"] = json!(body.text);
        remove(&mut params, "parse_mode");
        sent = place(bot, method, field, &mut params, media).await?;
    }
    Ok(sent)
}

/// The same as [`make`] for a file.
async fn place(
    bot: &Telegram,
    method: &str,
    field: &'static str,
    params: &mut Value,
    media: &MediaItem,
) -> Result<Result<Value, ApiError>, SendFailure> {
    let mut made = place_once(bot, method, field, params, media).await?;
    for _ in 0..FOLLOWED {
        if !follow(&made, params) {
            break;
        }
        made = place_once(bot, method, field, params, media).await?;
    }
    Ok(made)
}

async fn place_once(
    bot: &Telegram,
    method: &str,
    field: &'static str,
    params: &Value,
    media: &MediaItem,
) -> Result<Result<Value, ApiError>, SendFailure> {
    if let Some(url) = &media.url {
        let mut params = params.clone();
        params[field] = json!(url);
        return Ok(bot.api.call(method, &params).await);
    }
    let (name, bytes) = read_kept(&bot.media, media, bot.max_bytes).await?;
    let upload = Upload { field, name, mime_type: media.mime_type.clone(), bytes };
    Ok(bot.api.upload(method, params, upload).await)
}

/// How a file goes.
fn way_of(media: &MediaItem) -> Way {
    let path = media.url.as_deref().or(media.name.as_deref()).unwrap_or_default();
    let path = path.split(['?', '#']).next().unwrap_or_default().to_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| path.ends_with(ending));
    let is = |kind: &str| media.mime_type.as_deref().is_some_and(|it| it.starts_with(kind));
    // Of an address the service makes a voice message of nothing else.
    let is_speech = is("audio/ogg") || is("audio/opus") || ends(&[".oga", ".ogg", ".opus"]);
    let is_picture = is("image/jpeg") || is("image/png") || ends(&[".jpg", ".jpeg", ".png"]);
    if media.is_voice && is_speech {
        ("sendVoice", "voice")
    } else if is_picture {
        ("sendPhoto", "photo")
    } else if is("video/mp4") || ends(&[".mp4"]) {
        ("sendVideo", "video")
    } else if is("audio/mpeg") || is("audio/mp4") || ends(&[".mp3", ".m4a"]) {
        ("sendAudio", "audio")
    } else {
        AS_DOCUMENT
    }
}

/// What people call a file.
fn name_of(media: &MediaItem) -> String {
    let place = media.url.as_deref().or(media.file.as_deref()).unwrap_or_default();
    media.name.clone().unwrap_or_else(|| last_name(place))
}

/// What every message has.
fn base(address: &OutboxAddress, body: &Body) -> Value {
    let mut params = json!({"chat_id": address.target});
    add_thread(&mut params, &address.thread);
    if let Some(answered) = body.reply_to.as_deref().and_then(|id| id.parse::<i64>().ok()) {
        params["reply_parameters"] =
            json!({"message_id": answered, "allow_sending_without_reply": true});
    }
    if body.is_silent {
        params["disable_notification"] = json!(true);
    }
    if !body.buttons.is_empty() {
        params["reply_markup"] = keyboard(&body.buttons);
    }
    params
}

/// Shows no pages under a text that names them, where nobody wants that.
fn leave_pages(bot: &Telegram, params: &mut Value) {
    if !bot.has_link_previews {
        params["link_preview_options"] = json!({"is_disabled": true});
    }
}

fn keyboard(blocks: &[Vec<Button>]) -> Value {
    let key = |button: &Button| json!({"text": button.label, "callback_data": button.value});
    let rows = blocks.iter().flat_map(|block| block.chunks(ROW));
    let rows: Vec<Vec<_>> = rows.map(|row| row.iter().map(key).collect()).collect();
    json!({"inline_keyboard": rows})
}

pub(super) fn add_thread(params: &mut Value, thread: &str) {
    if let Ok(thread) = thread.parse::<i64>() {
        params[THREAD] = json!(thread);
    }
}

fn remove(params: &mut Value, name: &str) {
    if let Value::Object(members) = params {
        members.shift_remove(name);
    }
}

fn sent_as(message: &Value) -> Sent {
    Sent { message_id: message["message_id"].as_i64().map(|id| id.to_string()) }
}

/// Whether the API makes nothing of the marks of a text, nothing is left without them, or they
/// make it too long, as the numbers of a long list may.
fn is_unreadable(error: &ApiError) -> bool {
    let signs = [
        "can't parse entities",
        "text is empty",
        "text must be non-empty",
        "is too long",
        // So it says that of an edit.
        "message_too_long",
    ];
    signs.iter().any(|words| error.says(words))
}

/// Whether the API surely has not taken a file, for what the file is or where it was to go.
fn is_not_taken(error: &ApiError) -> bool {
    matches!(error, ApiError::Refused { code: 400 | 413, .. })
}

/// Does something with a message that is there.
pub(super) async fn act(bot: &Telegram, action: Action<'_>) -> Result<Value, Refused> {
    let wanted = |name: &str| Refused::Invalid(format!("{} needs {name}", action.name));
    let text = |name: &str| action.params[name].as_str().filter(|text| !text.is_empty());
    let id = match &action.params["messageId"] {
        Value::Number(id) => id.as_i64(),
        Value::String(id) => bot.own(id.trim()).and_then(|id| id.parse().ok()),
        _ => None,
    };
    let id = id.ok_or_else(|| wanted("messageId"))?;
    let done = match action.name {
        "react" => {
            let emoji = text("emoji").filter(|_| action.params["remove"] != true);
            let reaction: Vec<_> =
                emoji.iter().map(|emoji| json!({"type": "emoji", "emoji": emoji})).collect();
            let params = json!({"chat_id": action.to, "message_id": id, "reaction": reaction});
            bot.api.call("setMessageReaction", &params).await.map(drop)
        }
        "edit" => {
            let words = text("message").or_else(|| text("text"));
            let words = words.ok_or_else(|| wanted("message"))?;
            edit(bot, action.to, &id.to_string(), words, true).await
        }
        "delete" => {
            let params = json!({"chat_id": action.to, "message_id": id});
            bot.api.call("deleteMessage", &params).await.map(drop)
        }
        "pin" => {
            let is_silent = action.params["notify"] != true;
            let params = json!({"chat_id": action.to, "message_id": id,
                "disable_notification": is_silent});
            bot.api.call("pinChatMessage", &params).await.map(drop)
        }
        _ => return Err(Refused::Unsupported),
    };
    done.map_err(|error| Refused::Failed(error.to_string()))?;
    Ok(json!({"ok": true, "action": action.name, "messageId": id.to_string()}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_sent_as_what_it_is() {
        let item = |url: &str, mime_type: Option<&str>| MediaItem {
            url: Some(url.into()),
            mime_type: mime_type.map(Into::into),
            ..MediaItem::default()
        };
        let voice = |media: MediaItem| MediaItem { is_voice: true, ..media };
        for (media, method) in [
            (item("https://x/a.PNG?s=1", None), "sendPhoto"),
            (item("https://x/a", Some("image/png")), "sendPhoto"),
            (item("https://x/a.gif", None), "sendDocument"),
            (item("https://x/a.mp3", None), "sendAudio"),
            (item("https://x/a.mp4", None), "sendVideo"),
            (item("https://x/a.pdf", None), "sendDocument"),
            (item("https://x/a.ogg", None), "sendDocument"),
            (voice(item("https://x/a.ogg?s=1", None)), "sendVoice"),
            (voice(item("https://x/a.mp3", None)), "sendAudio"),
            (voice(item("https://x/a.png", None)), "sendPhoto"),
        ] {
            assert_eq!(way_of(&media).0, method);
        }
    }
}
