//! `message`: writes to people and groups of the configured channels.
//!
//! Promises: an agent reaches its own conversation, and whom the configuration
//! names; nobody else, whatever the model wants.

use serde_json::Value;

use super::files::{blocking, reach_to_read};
use super::{Tool, ToolContext, ToolOutput};
use crate::channels::{
    Channels, DeliveryError, MediaItem, Outgoing, Refused, Target, TargetError, Wanted,
};
use crate::providers::ToolSpec;
use crate::support::{BoxFuture, json};

/// The actions, with those that a channel may not have.
const ACTIONS: [&str; 5] = ["send", "reply", "react", "edit", "delete"];

/// Largest file that is read: what the largest service takes.
const FILE_MAX: u64 = 50 * 1024 * 1024;

/// The tool.
pub struct MessageTool;

impl Tool for MessageTool {
    fn name(&self) -> &'static str {
        "message"
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name().into(),
            description: "Write to a person or group of a channel (send, reply), or react to, \
                          edit or delete a message there. Your answer goes back to where a \
                          message came from by itself: use this for other places, or for more \
                          messages. Without a target it is the conversation you are in."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": ACTIONS},
                    "channel": {"type": "string", "description": "Such as telegram; may be \
                        left out when there is one."},
                    "accountId": {"type": "string"},
                    "target": {"type": "string", "description": "Id of the person or group."},
                    "threadId": {"type": "string"},
                    "message": {"type": "string"},
                    "messageId": {"type": "string", "description": "The message that is \
                        replied to, reacted to, edited or deleted."},
                    "emoji": {"type": "string"},
                    "media": {"type": "string", "description": "A file to send along: its \
                        path, or an http or https address."},
                    "silent": {"type": "boolean"},
                },
                "required": ["action"],
                "additionalProperties": false,
            }),
        }
    }

    fn meta(&self, arguments: &Value) -> Option<String> {
        let target = arguments["target"].as_str().map(|target| format!(" to {target}"));
        Some(format!("{}{}", arguments["action"].as_str()?, target.unwrap_or_default()))
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            match act(cx, arguments).await {
                Ok(data) => ToolOutput::json(data),
                Err(error) => ToolOutput::failed(self.name(), error.to_string()),
            }
        })
    }
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
enum MessageError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
    #[error("{action} needs {member}")]
    Missing { action: String, member: &'static str },
    #[error("media must be a path, or an http or https address")]
    Media,
    #[error("{action} is not possible on {channel}")]
    Unsupported { action: String, channel: &'static str },
    #[error("{0}")]
    Refused(String),
}

async fn act(cx: &ToolContext, arguments: &Value) -> Result<Value, MessageError> {
    let channels = &cx.parts().channels;
    let action = arguments["action"].as_str().unwrap_or_default();
    let target = target(cx, channels, arguments).await?;
    let done = match action {
        "send" | "reply" => send(cx, channels, arguments, action, &target).await?,
        _ => {
            let done = channels.act(&target, action, arguments).await;
            done.map_err(|refusal| match refusal {
                Refused::Unsupported => MessageError::Unsupported {
                    action: action.to_owned(),
                    channel: target.kind.as_str(),
                },
                other => MessageError::Refused(other.to_string()),
            })?
        }
    };
    Ok(json!({"ok": true, "action": action, "channel": target.kind.as_str(),
        "to": target.address.target, "result": done}))
}

/// The place that is meant, if the agent may write there.
async fn target(
    cx: &ToolContext,
    channels: &Channels,
    arguments: &Value,
) -> Result<Target, MessageError> {
    let text = |name: &str| arguments[name].as_str().filter(|text| !text.trim().is_empty());
    let own = cx.place().await;
    let kind = text("channel").map(|name| channels.kind(Some(name))).transpose()?;
    // What is not named is that of the conversation, as far as it is of the same channel.
    let here = own.as_ref().filter(|own| kind.is_none_or(|kind| kind == own.kind));
    let account = text("accountId").or(here.map(|own| own.address.account.as_str()));
    let is_here = |own: &&Target| account == Some(own.address.account.as_str());
    let target = match here.filter(is_here).filter(|_| text("target").is_none()) {
        Some(own) => {
            let mut own = own.clone();
            if let Some(thread) = text("threadId") {
                thread.trim().clone_into(&mut own.address.thread);
            }
            own
        }
        None => channels.target(&Wanted {
            channel: text("channel").or(own.as_ref().map(|own| own.kind.as_str())),
            account,
            to: text("target"),
            thread: text("threadId"),
        })?,
    };
    channels.check_reach(&target, own.as_slice()).await?;
    Ok(target)
}

async fn send(
    cx: &ToolContext,
    channels: &Channels,
    arguments: &Value,
    action: &str,
    target: &Target,
) -> Result<Value, MessageError> {
    let text = |name: &str| arguments[name].as_str().map(str::to_owned);
    let missing = |member| MessageError::Missing { action: action.to_owned(), member };
    let (words, media) = (text("message").unwrap_or_default(), text("media"));
    if words.trim().is_empty() && media.is_none() {
        return Err(missing("message"));
    }
    let reply_to = text("messageId").filter(|_| action == "reply");
    if action == "reply" && reply_to.is_none() {
        return Err(missing("messageId"));
    }
    let media = match media.as_deref().map(str::trim) {
        Some(written) => vec![item(cx, channels, written).await?],
        None => vec![],
    };
    let message = Outgoing {
        text: words,
        media,
        reply_to,
        is_silent: arguments["silent"].as_bool().unwrap_or_default(),
        ..Outgoing::default()
    };
    // A run that is played again after a crash has other calls: the id is new.
    let run = cx.run.as_ref().map_or("client", |run| &*run.id);
    let key = format!("tool:{run}:{}:{}", cx.call_id, cx.parts().ids.uuid());
    let sent = channels.send(&key, target, &message).await?;
    let status = if sent.is_complete { "sent" } else { "queued" };
    Ok(json!({"status": status, "messageId": sent.message_id}))
}

/// A file that the service fetches by itself, or one that the agent may read.
async fn item(
    cx: &ToolContext,
    channels: &Channels,
    written: &str,
) -> Result<MediaItem, MessageError> {
    if written.starts_with("http://") || written.starts_with("https://") {
        let url = reqwest::Url::parse(written).map_err(|_| MessageError::Media)?;
        let url = Some(url.to_string());
        return Ok(MediaItem { url, ..MediaItem::default() });
    }
    if written.contains("://") {
        return Err(MessageError::Media);
    }
    let (reach, path) = (reach_to_read(cx, written).await, written.to_owned());
    let read = blocking("message", move || {
        let place = reach.find(&path).map_err(|error| error.to_string())?;
        let name = place.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, place.read(FILE_MAX).map_err(|error| error.to_string())?))
    });
    let failed =
        |output: ToolOutput| MessageError::Refused(output.error_line().unwrap_or_default());
    let (name, bytes) = read.await.map_err(failed)?;
    let kept = channels.keep_file(&cx.parts().ids.uuid(), &name, bytes).await;
    kept.map_err(|error| MessageError::Refused(error.to_string()))
}
