//! The channel `webhook`: messages in and out as signed JSON over HTTP.
//!
//! Promises: both ways are signed over time and body; a request that is old, or
//! whose signature does not fit, is nobody's; nothing is sent but to the address
//! of the configuration, whatever that one answers.

mod inbound;
mod signature;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{StatusCode, Url};
use serde_json::Value;

use super::body::{Body, MediaItem};
use super::channel::{Action, Channel, Refused, SendFailure, Sent};
use super::hook::{HookRefusal, HookRequest};
use super::inbound::Inbound;
use super::media::read_kept;
use crate::agent::web::Tls;
use crate::config::channels::{ChannelAccount, WebhookSettings};
use crate::providers::root_cause;
use crate::store::OutboxPart;
use crate::support::{BoxFuture, Clock, Secret, json};

pub use signature::{SIGNATURE, TIMESTAMP, sign};

/// How long the other side may take for an answer.
const REQUEST_LIMIT: Duration = Duration::from_secs(20);
/// Most bytes of an answer that are read: it is an id.
const ANSWER_MAX: usize = 64 * 1024;
/// The longest wait that is believed.
const RETRY_MAX: Duration = Duration::from_hours(1);
/// What can be done with a message that is there.
const ACTIONS: &[&str] = &["react", "edit", "delete"];

/// One account.
pub struct Webhook {
    account: String,
    url: Option<String>,
    replay_seconds: u64,
    max_bytes: usize,
    around: WebhookParts,
}

/// What an account needs beside its settings.
pub struct WebhookParts {
    /// What signs.
    pub secret: Secret,
    /// Where files are that are sent.
    pub media: PathBuf,
    /// Certificates.
    pub tls: Arc<Tls>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
}

impl Webhook {
    /// Whether buttons may be under a message.
    pub const HAS_BUTTONS: bool = false;

    /// One with these settings. Nobody is asked.
    pub fn new(account: &ChannelAccount, settings: &WebhookSettings, around: WebhookParts) -> Self {
        let megabytes = usize::try_from(account.media_max_mb).unwrap_or(usize::MAX);
        Self {
            account: account.id.clone(),
            url: settings.url.clone(),
            replay_seconds: settings.replay_seconds,
            max_bytes: megabytes.saturating_mul(1024 * 1024),
            around,
        }
    }

    /// Sends one signed request; `id` lets the other side know it again.
    async fn post(&self, id: &str, payload: &Value) -> Result<Value, SendFailure> {
        let refused = |why: &str| SendFailure::Refused(why.to_owned());
        let url = self.url.as_deref().ok_or_else(|| refused("channels.webhook.url is not set"))?;
        let url = Url::parse(url).map_err(|_| refused("channels.webhook.url is no address"))?;
        let later = |why: String| SendFailure::Later { after: None, why };
        let builder = self.around.tls.trusted(&url).await.map_err(later)?;
        let client = builder.timeout(REQUEST_LIMIT).build();
        let client = client.map_err(|error| later(root_cause(&error)))?;
        let body = payload.to_string();
        let (timestamp, signature) =
            sign(&self.around.secret, self.around.clock.now_ms() / 1000, body.as_bytes());
        let request = client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header(TIMESTAMP, timestamp)
            .header(SIGNATURE, signature)
            .header("idempotency-key", id)
            .body(body);
        let response = match request.send().await {
            Ok(response) => response,
            // There was no connection, so nothing was sent.
            Err(error) if error.is_connect() => return Err(later(root_cause(&error))),
            // Nor where it cannot be written, as with an id of several lines.
            Err(error) if error.is_builder() => return Err(refused(&root_cause(&error))),
            Err(error) => return Err(SendFailure::Unknown(root_cause(&error))),
        };
        let (status, after) = (response.status(), retry_after(response.headers()));
        let answer = crate::agent::web::read_body(response, ANSWER_MAX).await;
        judge(status, after)?;
        // It has taken it, whatever it says about it.
        let answer = answer.ok().map(|body| body.bytes);
        Ok(answer.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
    }

    /// A file as it is sent.
    async fn file(&self, media: &MediaItem) -> Result<Value, SendFailure> {
        let (name, bytes) = read_kept(&self.around.media, media, self.max_bytes).await?;
        Ok(json!({"fileName": name, "mimeType": media.mime_type,
            "content": STANDARD.encode(bytes)}))
    }

    fn payload(&self, kind: &str, to: &str, thread: &str) -> Value {
        let mut payload = json!({"type": kind, "channel": "webhook", "accountId": self.account,
            "to": to});
        if !thread.is_empty() {
            payload["threadId"] = json!(thread);
        }
        payload
    }
}

/// What a status says of whether the message was taken.
fn judge(status: StatusCode, after: Option<Duration>) -> Result<(), SendFailure> {
    let why = || format!("the webhook answered {}", status.as_u16());
    match status.as_u16() {
        200..=299 => Ok(()),
        // Both say that nothing was done.
        429 | 503 => Err(SendFailure::Later { after, why: why() }),
        408 | 500..=599 => Err(SendFailure::Unknown(why())),
        _ => Err(SendFailure::Refused(why())),
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_MAX))
}

fn message_id(answer: &Value) -> Option<String> {
    match &answer["messageId"] {
        Value::String(id) if !id.is_empty() => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

impl Channel for Webhook {
    fn send<'a>(
        &'a self,
        part: &'a OutboxPart,
        body: &'a Body,
    ) -> BoxFuture<'a, Result<Sent, SendFailure>> {
        Box::pin(async move {
            // With its number: the key of a run that was stopped may be used again.
            let id = format!("{}:{}:{}", part.delivery, part.id, part.part);
            let mut payload = self.payload("message", &part.address.target, &part.address.thread);
            payload["id"] = json!(id);
            payload["text"] = json!(body.text);
            payload["part"] = json!(part.part);
            if let Some(parts) = body.of_parts {
                payload["parts"] = json!(parts);
            }
            if let Some(answered) = &body.reply_to {
                payload["replyToId"] = json!(answered);
            }
            if let Some(url) = body.media.as_ref().and_then(|media| media.url.as_ref()) {
                payload["mediaUrl"] = json!(url);
            } else if let Some(media) = &body.media {
                payload["media"] = self.file(media).await?;
            }
            let answer = self.post(&id, &payload).await?;
            Ok(Sent { message_id: message_id(&answer) })
        })
    }

    fn actions(&self) -> &'static [&'static str] {
        ACTIONS
    }

    fn act<'a>(&'a self, action: Action<'a>) -> BoxFuture<'a, Result<Value, Refused>> {
        Box::pin(async move {
            let mut payload =
                self.payload(action.name, action.to, action.thread.unwrap_or_default());
            let wanted = |name: &str| Refused::Invalid(format!("{} needs {name}", action.name));
            let text = |name: &str| action.params[name].as_str().filter(|text| !text.is_empty());
            let message = text("messageId").ok_or_else(|| wanted("messageId"))?;
            payload["messageId"] = json!(message);
            match action.name {
                "react" => payload["emoji"] = json!(text("emoji").unwrap_or_default()),
                "edit" => {
                    let words = text("message").or_else(|| text("text"));
                    payload["text"] = json!(words.ok_or_else(|| wanted("message"))?);
                }
                _ => {}
            }
            let id = format!("{}:{message}:{}", action.name, self.around.clock.now_ms());
            let answer = self.post(&id, &payload).await;
            let answer = answer.map_err(|failure| Refused::Failed(failure.to_string()))?;
            Ok(json!({"ok": true, "action": action.name, "messageId": message, "answer": answer}))
        })
    }

    fn read_hook(&self, request: &HookRequest<'_>) -> Result<Option<Inbound>, HookRefusal> {
        let now = self.around.clock.now_ms() / 1000;
        let header = |name: &str| (request.header)(name).ok_or(HookRefusal::Unauthorized);
        let (timestamp, signature) = (header(TIMESTAMP)?, header(SIGNATURE)?);
        let window = self.replay_seconds;
        if !signature::verify(
            &self.around.secret,
            &timestamp,
            &signature,
            request.body,
            now,
            window,
        ) {
            return Err(HookRefusal::Unauthorized);
        }
        inbound::read(request.body).map(Some).map_err(HookRefusal::Malformed)
    }

    fn probe(&self) -> BoxFuture<'_, Result<Value, String>> {
        // A webhook is called when there is something to say, not to be tried.
        let configured = self.url.is_some();
        Box::pin(std::future::ready(Ok(json!({"ok": true, "canSend": configured}))))
    }

    fn mode(&self) -> &'static str {
        "webhook"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_status_that_says_so_is_tried_again() {
        let status = |code| StatusCode::from_u16(code).unwrap();
        assert_eq!(judge(status(204), None), Ok(()));
        let wait = Some(Duration::from_secs(7));
        for code in [429, 503] {
            let judged = judge(status(code), wait);
            assert!(matches!(judged, Err(SendFailure::Later { after, .. }) if after == wait));
        }
        for code in [408, 500, 502, 504] {
            assert!(matches!(judge(status(code), None), Err(SendFailure::Unknown(_))), "{code}");
        }
        for code in [301, 307, 400, 401, 404, 413] {
            assert!(matches!(judge(status(code), None), Err(SendFailure::Refused(_))), "{code}");
        }
    }
}
