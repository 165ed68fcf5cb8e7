//! Calls of the Bot API.
//!
//! Promises: the token is in no error; what the API says of waiting is kept.
//! Source: core.telegram.org/bots/api, Making requests.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use parking_lot::Mutex;
use reqwest::multipart::{Form, Part};
use reqwest::{Client, RequestBuilder, Url};
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};

use crate::agent::web::{Tls, read_body};
use crate::channels::channel::SendFailure;
use crate::providers::root_cause;
use crate::support::Secret;

/// How long a call may take that does not wait by itself.
const CALL: Duration = Duration::from_secs(30);
/// How long a file may take …
const TRANSFER: Duration = Duration::from_secs(100);
/// … of which something comes at least so often.
const STALL: Duration = Duration::from_secs(15);
/// Most bytes of an answer; a hundred updates are far below.
const ANSWER_MAX: usize = 16 * 1024 * 1024;
/// The longest wait that is believed.
const RETRY_MAX: Duration = Duration::from_hours(1);
/// Connections that are kept: one waits for updates, others send.
const KEPT: usize = 4;

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// It was not made: there was no connection.
    #[error("{0}")]
    Unreachable(String),
    /// Nobody knows whether it was done.
    #[error("{0}")]
    Unknown(String),
    /// The API refuses it.
    #[error("the Bot API answered {code}: {description}")]
    Refused {
        /// Its code, mostly that of HTTP.
        code: u64,
        /// Its words.
        description: String,
        /// How long to wait.
        retry_after: Option<Duration>,
        /// The id that the chat has now: it was called by the one that it had.
        moved_to: Option<i64>,
    },
}

impl ApiError {
    /// The id that the chat has now, when it was called by the one that it had.
    pub fn moved_to(&self) -> Option<i64> {
        match self {
            Self::Refused { moved_to, .. } => *moved_to,
            Self::Unreachable(_) | Self::Unknown(_) => None,
        }
    }

    /// How long the API wants to be left alone, if it says so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            Self::Unreachable(_) | Self::Unknown(_) => None,
        }
    }

    /// Whether the API's words have this in them.
    pub fn says(&self, words: &str) -> bool {
        matches!(self, Self::Refused { description, .. }
            if description.to_lowercase().contains(words))
    }

    /// What that means for a file: it may be asked for twice.
    pub fn into_fetch_failure(self) -> SendFailure {
        let why = self.to_string();
        match self {
            Self::Refused { code: 429 | 500.., retry_after, .. } => {
                SendFailure::Later { after: retry_after, why }
            }
            Self::Unreachable(_) | Self::Unknown(_) => SendFailure::Later { after: None, why },
            Self::Refused { .. } => SendFailure::Refused(why),
        }
    }

    /// What that means for a message.
    pub fn into_failure(self) -> SendFailure {
        let why = self.to_string();
        match self {
            Self::Unreachable(_) => SendFailure::Later { after: None, why },
            // What is wrong with the token is mended by people; nothing was sent.
            Self::Refused { code: 401 | 404 | 429, retry_after, .. } => {
                SendFailure::Later { after: retry_after, why }
            }
            Self::Refused { code: 500.., .. } | Self::Unknown(_) => SendFailure::Unknown(why),
            Self::Refused { .. } => SendFailure::Refused(why),
        }
    }
}

/// A file to send.
pub struct Upload {
    /// The parameter that it is.
    pub field: &'static str,
    /// Its name.
    pub name: String,
    /// What it is.
    pub mime_type: Option<String>,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// The API with one bot's token.
pub struct Api {
    root: String,
    token: Secret,
    tls: Arc<Tls>,
    client: OnceCell<Client>,
    /// The chats that the API wants left alone, each until then. Of what is in no chat it is
    /// `null`.
    quiet_until: Mutex<Vec<(String, Instant)>>,
}

impl Api {
    /// Nobody is asked yet.
    pub fn new(root: &str, token: Secret, tls: Arc<Tls>) -> Self {
        let (root, client) = (root.to_owned(), OnceCell::new());
        Self { root, token, tls, client, quiet_until: Mutex::default() }
    }

    /// Whether the API wants less of us, so that nothing is sent that can be left out.
    pub fn is_quiet(&self) -> bool {
        let now = Instant::now();
        self.quiet_until.lock().iter().any(|(_, until)| now < *until)
    }

    /// How long nothing at all is to be sent to a chat.
    pub fn quiet_in(&self, chat: &str) -> Option<Duration> {
        let quiet = self.quiet_until.lock();
        let (_, until) = quiet.iter().find(|(quiet, _)| quiet == chat)?;
        Some(until.saturating_duration_since(Instant::now())).filter(|wait| !wait.is_zero())
    }

    fn leave_alone(&self, params: &Value, wait: Duration) {
        let (chat, now) = (plain(&params["chat_id"]), Instant::now());
        let mut quiet = self.quiet_until.lock();
        quiet.retain(|(other, until)| *other != chat && now < *until);
        quiet.push((chat, now + wait));
    }

    /// Calls a method.
    ///
    /// # Errors
    /// When it has no result.
    pub async fn call(&self, method: &str, params: &Value) -> Result<Value, ApiError> {
        self.call_for(method, params, CALL).await
    }

    /// The same for a method that takes its time.
    ///
    /// # Errors
    /// As before.
    pub async fn call_for(
        &self,
        method: &str,
        params: &Value,
        limit: Duration,
    ) -> Result<Value, ApiError> {
        let request = self.with_params(method, params).await?;
        self.result(params, request.timeout(limit)).await
    }

    /// The same for what is no part of a talk: when the API wants to be left alone with it, all
    /// else goes on.
    ///
    /// # Errors
    /// As before.
    pub async fn call_aside(&self, method: &str, params: &Value) -> Result<Value, ApiError> {
        answer(self.with_params(method, params).await?.timeout(CALL)).await
    }

    /// The same with a file.
    ///
    /// # Errors
    /// As before.
    pub async fn upload(
        &self,
        method: &str,
        params: &Value,
        file: Upload,
    ) -> Result<Value, ApiError> {
        let mut part = Part::bytes(file.bytes).file_name(file.name);
        if let Some(mime_type) = &file.mime_type {
            let read = part.mime_str(mime_type);
            part = read.map_err(|_| ApiError::Unreachable("the file's type is none".into()))?;
        }
        let mut form = Form::new().part(file.field, part);
        for (name, value) in params.as_object().into_iter().flatten() {
            form = form.text(name.clone(), plain(value));
        }
        let request = self.request(method).await?.multipart(form);
        self.result(params, request.timeout(TRANSFER)).await
    }

    /// The bytes of a file, by the path that `getFile` tells; at most `max`.
    ///
    /// # Errors
    /// As before.
    pub async fn download(&self, path: &str, max: usize) -> Result<Vec<u8>, ApiError> {
        let url = format!("{}/file/bot{}/{path}", self.root, self.token.expose());
        let client = self.client().await?;
        let asked = client.get(parse(&url)?).timeout(TRANSFER).send();
        let response = timeout(STALL, asked).await.map_err(|_| stalled())?.map_err(lost)?;
        if !response.status().is_success() {
            return Err(refused(u64::from(response.status().as_u16()), "the file is not given"));
        }
        whole(response.bytes_stream(), max).await
    }

    async fn with_params(&self, method: &str, params: &Value) -> Result<RequestBuilder, ApiError> {
        let request = self.request(method).await?;
        let request = request.header(reqwest::header::CONTENT_TYPE, "application/json");
        Ok(request.body(params.to_string()))
    }

    async fn request(&self, method: &str) -> Result<RequestBuilder, ApiError> {
        let url = format!("{}/bot{}/{method}", self.root, self.token.expose());
        Ok(self.client().await?.post(parse(&url)?))
    }

    async fn client(&self) -> Result<&Client, ApiError> {
        let build = || async {
            let root = parse(&self.root)?;
            let builder = self.tls.trusted(&root).await.map_err(ApiError::Unreachable)?;
            let built = builder.pool_max_idle_per_host(KEPT).build();
            built.map_err(|error| ApiError::Unreachable(root_cause(&error)))
        };
        self.client.get_or_try_init(build).await
    }

    async fn result(&self, params: &Value, request: RequestBuilder) -> Result<Value, ApiError> {
        let result = answer(request).await;
        if let Some(wait) = result.as_ref().err().and_then(ApiError::retry_after) {
            self.leave_alone(params, wait);
        }
        result
    }
}

async fn answer(request: RequestBuilder) -> Result<Value, ApiError> {
    let response = request.send().await.map_err(lost)?;
    let status = u64::from(response.status().as_u16());
    let body = read_body(response, ANSWER_MAX).await;
    let body = body.map_err(|error| ApiError::Unknown(error.to_string()))?;
    let answer: Value = serde_json::from_slice(&body.bytes).unwrap_or_default();
    if answer["ok"] == true {
        return Ok(answer["result"].clone());
    }
    if answer["ok"] != false && status < 400 {
        return Err(ApiError::Unknown("the Bot API's answer cannot be read".into()));
    }
    let retry_after = answer["parameters"]["retry_after"].as_u64();
    let description = answer["description"].as_str().unwrap_or("no reason given");
    Err(ApiError::Refused {
        code: answer["error_code"].as_u64().unwrap_or(status),
        description: description.chars().take(300).collect(),
        retry_after: retry_after.map(|it| Duration::from_secs(it).min(RETRY_MAX)),
        moved_to: answer["parameters"]["migrate_to_chat_id"].as_i64(),
    })
}

/// All of a file, unless it is too large, or nothing comes of it for a while.
async fn whole(
    chunks: impl Stream<Item = reqwest::Result<Bytes>>,
    max: usize,
) -> Result<Vec<u8>, ApiError> {
    let mut chunks = std::pin::pin!(chunks);
    let mut bytes = Vec::new();
    while let Some(chunk) = timeout(STALL, chunks.next()).await.map_err(|_| stalled())? {
        let chunk = chunk.map_err(lost)?;
        if chunk.len() > max - bytes.len() {
            return Err(refused(413, "the file is larger than channels.telegram.mediaMaxMb"));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn stalled() -> ApiError {
    refused(408, "nothing more comes of the file")
}

/// A parameter as it stands in a form.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn parse(url: &str) -> Result<Url, ApiError> {
    Url::parse(url).map_err(|_| ApiError::Unreachable("apiRoot or botToken is wrong".into()))
}

fn refused(code: u64, text: &str) -> ApiError {
    ApiError::Refused { code, description: text.to_owned(), retry_after: None, moved_to: None }
}

/// An error of the connection, without the address: the token is in it.
fn lost(error: reqwest::Error) -> ApiError {
    let (is_connect, error) = (error.is_connect(), error.without_url());
    let why = root_cause(&error);
    if is_connect { ApiError::Unreachable(why) } else { ApiError::Unknown(why) }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;
    use crate::support::json;

    #[tokio::test(start_paused = true)]
    async fn a_file_of_which_nothing_more_comes_is_given_up() {
        let half = || stream::iter([Ok(Bytes::from_static(b"half"))]);
        assert_eq!(whole(half().chain(half()), 8).await.unwrap(), b"halfhalf");
        assert!(whole(half().chain(half()), 7).await.is_err(), "it is too large");
        let begun = Instant::now();
        let lost = whole(half().chain(stream::pending()), 8).await.unwrap_err();
        assert_eq!((lost, begun.elapsed().as_secs()), (stalled(), STALL.as_secs()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_chat_that_is_to_be_left_alone_is_none_of_the_others() {
        let api = Api::new("http://127.0.0.1:9", Secret::new("1:x"), Arc::default());
        let seconds = Duration::from_secs;
        api.leave_alone(&json!({"chat_id": "7"}), seconds(5));
        api.leave_alone(&json!({"chat_id": -8}), seconds(9));
        let quiet = ["7", "-8", "9"].map(|chat| api.quiet_in(chat));
        assert_eq!(quiet, [Some(seconds(5)), Some(seconds(9)), None]);
        tokio::time::advance(seconds(6)).await;
        assert_eq!((api.quiet_in("7"), api.is_quiet()), (None, true));
        tokio::time::advance(seconds(6)).await;
        assert_eq!((api.quiet_in("-8"), api.is_quiet()), (None, false));
    }

    #[test]
    fn only_what_was_surely_not_taken_is_sent_again() {
        let refused = |code| ApiError::Refused {
            code,
            description: "x".into(),
            retry_after: Some(Duration::from_secs(3)),
            moved_to: None,
        };
        for code in [401, 404, 429] {
            let failure = refused(code).into_failure();
            assert!(matches!(failure, SendFailure::Later { after: Some(_), .. }), "{code}");
        }
        for code in [400, 403, 413] {
            assert!(matches!(refused(code).into_failure(), SendFailure::Refused(_)), "{code}");
        }
        for error in [refused(500), refused(502), ApiError::Unknown("x".into())] {
            assert!(matches!(error.into_failure(), SendFailure::Unknown(_)));
        }
        let down = ApiError::Unreachable("x".into()).into_failure();
        assert!(matches!(down, SendFailure::Later { .. }));
    }

    #[test]
    fn a_file_is_asked_for_again_unless_it_is_refused() {
        let passing = [429, 500, 502].map(|code| refused(code, "x"));
        let lost = [ApiError::Unknown("x".into()), ApiError::Unreachable("x".into())];
        for error in passing.into_iter().chain(lost) {
            let failure = error.clone().into_fetch_failure();
            assert!(matches!(failure, SendFailure::Later { .. }), "{error:?}");
        }
        for code in [400, 401, 404, 413] {
            let failure = refused(code, "x").into_fetch_failure();
            assert!(matches!(failure, SendFailure::Refused(_)), "{code}");
        }
    }
}
