//! The way out to the providers.
//!
//! Owns: the HTTP clients and their limits. Promises: nothing is built before
//! the first call; no wait without limit; no credential in an error. Must not:
//! know what requests and answers mean.

mod body;
mod client;

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use serde_json::Value;

use super::error::{ErrorStyle, ProviderError, ProviderErrorKind, RETRY_AFTER_MAX};
pub use super::sse::Framing;
use super::sse::SseParser;
use super::{ModelInfo, scrub::scrub};
use crate::config::provider_request::Transport;
use crate::support::Clock;
use crate::telemetry::traces;
use body::Body;
pub use body::EventStream;
use client::is_near;
pub use client::{Clients, is_loopback};

/// An error text is for people; more than this is a page of HTML.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// One delta is a few KiB; some proxies send a whole answer as one event.
const MAX_EVENT: usize = 4 * 1024 * 1024;

/// How long to wait for what.
#[derive(Debug, Clone, Copy)]
pub struct HttpLimits {
    /// For a connection.
    pub connect: Duration,
    /// For the next byte of an answer, the first one included.
    pub idle: Duration,
    /// The same for servers on this machine or in a network around it: they are
    /// silent for minutes while they read a long prompt, as is usual there.
    pub near_idle: Duration,
    /// For Ollama to say which models it has: it is on this machine, and
    /// start-up waits for it.
    pub probe: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            idle: Duration::from_mins(2),
            near_idle: Duration::from_mins(30),
            probe: Duration::from_millis(300),
        }
    }
}

impl HttpLimits {
    /// How long the server of an address may be silent where nobody says so.
    fn idle_of(&self, url: &Url) -> Duration {
        if is_near(url) { self.near_idle } else { self.idle }
    }
}

/// HTTP clients that come into being when they are needed; clones share them.
#[derive(Clone)]
pub struct Http(Arc<Inner>);

struct Inner {
    limits: HttpLimits,
    clock: Arc<dyn Clock>,
    clients: Clients,
}

/// A request to a provider.
pub struct Post<'a> {
    /// Whom it is for: key, extra headers, patience.
    pub model: &'a ModelInfo,
    /// Full address.
    pub url: String,
    /// Headers of the API; those of the configuration win over them.
    pub headers: HeaderMap,
    /// JSON body.
    pub body: &'a Value,
    /// How this API writes its errors.
    pub style: ErrorStyle,
    /// How this API writes its stream.
    pub framing: Framing,
}

impl Http {
    /// Clients with these limits. Costs nothing until the first call.
    pub fn new(limits: HttpLimits, clock: Arc<dyn Clock>) -> Self {
        let clients = Clients::new(limits.connect);
        Self(Arc::new(Inner { limits, clock, clients }))
    }

    /// Sends a request and gives its answer, which has at most `limit` bytes.
    ///
    /// # Errors
    /// When there is no answer, a larger one, or one with an error status.
    pub async fn ask(&self, post: Post<'_>, limit: usize) -> Result<Vec<u8>, ProviderError> {
        let model = post.model;
        let answer = async { self.send(post).await?.whole(limit).await };
        answer.await.map_err(|error| scrubbed(error, model))
    }

    /// Sends a request and gives the events of its answer.
    ///
    /// # Errors
    /// When there is no answer, or one with an error status.
    pub async fn post(&self, post: Post<'_>) -> Result<EventStream, ProviderError> {
        let model = post.model;
        self.try_post(post).await.map_err(|error| scrubbed(error, model))
    }

    async fn try_post(&self, post: Post<'_>) -> Result<EventStream, ProviderError> {
        let framing = post.framing;
        let body = self.send(post).await?;
        if let Some(kind) = no_stream(framing, body.headers()) {
            return Err(not_a_stream(&kind, &body.text(MAX_ERROR_BODY).await));
        }
        Ok(EventStream::new(body, SseParser::new(framing, MAX_EVENT)))
    }

    /// Sends a request; the answer has no error status.
    async fn send(&self, post: Post<'_>) -> Result<Body, ProviderError> {
        let url = parse_url(&post.url)?;
        let idle = post.model.timeout.unwrap_or_else(|| self.0.limits.idle_of(&url));
        let request = self
            .0
            .clients
            .get(&url, &post.model.options.transport)
            .await?
            .post(url.clone())
            .headers(headers(post.headers, post.model)?)
            .headers(trace_headers())
            .body(post.body.to_string());
        let response = tokio::time::timeout(idle, request.send())
            .await
            .map_err(|_| ProviderError::timed_out(idle))?
            .map_err(|error| unreachable(&url, &error))?;
        let body = Body::new(response, idle);
        let status = body.status();
        if !status.is_success() {
            let asked = self.retry_after(body.headers());
            let text = body.text(MAX_ERROR_BODY).await;
            let error = ProviderError::from_status(post.style, status.as_u16(), &text);
            let retry_after = asked.or(error.retry_after);
            return Err(ProviderError { retry_after, ..error });
        }
        Ok(body)
    }

    /// Reads a small JSON document of a server that may not be there, posting
    /// `body` for it if there is one. `None` when nothing of the kind comes
    /// within the limit.
    pub async fn probe(&self, url: &str, body: Option<&Value>) -> Option<Value> {
        let url = parse_url(url).ok()?;
        let limit = self.0.limits.probe;
        let answer = async {
            let client = self.0.clients.get(&url, &Transport::default()).await.ok()?;
            let request = match body {
                Some(body) => client.post(url.clone()).body(body.to_string()),
                None => client.get(url.clone()),
            };
            let response = request.send().await.ok()?;
            let body = Body::new(response, limit);
            let ok = body.status().is_success();
            if ok { serde_json::from_str(&body.text(MAX_EVENT).await).ok() } else { None }
        };
        tokio::time::timeout(limit, answer).await.ok()?
    }

    fn retry_after(&self, headers: &HeaderMap) -> Option<Duration> {
        Some(self.named_pause(headers)?.min(RETRY_AFTER_MAX))
    }

    fn named_pause(&self, headers: &HeaderMap) -> Option<Duration> {
        let text = |name: &HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
        let millis = text(&HeaderName::from_static("retry-after-ms"));
        if let Some(millis) = millis.and_then(|text| text.parse::<u64>().ok()) {
            return Some(Duration::from_millis(millis));
        }
        let text = text(&RETRY_AFTER)?;
        if let Ok(seconds) = text.parse::<f64>() {
            return Duration::try_from_secs_f64(seconds).ok();
        }
        let date = jiff::fmt::rfc2822::parse(text).ok()?;
        let then = u64::try_from(date.timestamp().as_millisecond()).ok()?;
        Some(Duration::from_millis(then.saturating_sub(self.0.clock.now_ms())))
    }
}

fn scrubbed(error: ProviderError, model: &ModelInfo) -> ProviderError {
    ProviderError { message: scrub(&error.message, model), ..error }
}

fn parse_url(text: &str) -> Result<Url, ProviderError> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    url.ok_or_else(|| {
        let text = "the provider's baseUrl is not an http or https address";
        ProviderError::new(ProviderErrorKind::BadRequest, text)
    })
}

fn headers(mut headers: HeaderMap, model: &ModelInfo) -> Result<HeaderMap, ProviderError> {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in &model.headers {
        let header = HeaderName::try_from(name.as_str()).ok().zip(secret_header(value.expose()));
        let Some((name, value)) = header else {
            let text =
                format!("models.providers.{}.headers: {name:?} is no header", model.provider);
            return Err(ProviderError::new(ProviderErrorKind::BadRequest, text));
        };
        headers.insert(name, value);
    }
    if let Some(auth) = &model.options.auth {
        let value = secret_header(&format!("{}{}", auth.prefix, auth.value.expose()));
        let header = HeaderName::try_from(auth.name.as_str()).ok().zip(value);
        let Some((name, value)) = header else {
            let place = format!("models.providers.{}.request.auth", model.provider);
            let text = format!("{place}: {:?} with this value is no header", auth.name);
            return Err(ProviderError::new(ProviderErrorKind::BadRequest, text));
        };
        headers.insert(name, value);
    }
    Ok(headers)
}

/// The span that a call is made in, for the provider.
fn trace_headers() -> HeaderMap {
    let context = traces::current().and_then(|it| HeaderValue::try_from(it.header()).ok());
    let header = context.map(|value| (HeaderName::from_static("traceparent"), value));
    header.into_iter().collect()
}

/// `Authorization: Bearer <key>`, when the model has a key.
///
/// # Errors
/// When it should have one, or has one that cannot be sent.
pub fn bearer(model: &ModelInfo) -> Result<HeaderMap, ProviderError> {
    key_header(model, AUTHORIZATION, "Bearer ")
}

/// The key of the model, when it has one, behind `prefix` in this header.
///
/// # Errors
/// When it should have one, or has one that cannot be sent.
pub fn key_header(
    model: &ModelInfo,
    name: HeaderName,
    prefix: &str,
) -> Result<HeaderMap, ProviderError> {
    let mut headers = HeaderMap::new();
    if let Some(key) = model.credential()? {
        let value = secret_header(&format!("{prefix}{}", key.expose()))
            .ok_or_else(|| ProviderError::unusable_key(&model.provider))?;
        headers.insert(name, value);
    }
    Ok(headers)
}

/// A header value that `Debug` does not give away.
fn secret_header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The content type, when it is one that no stream of events has.
fn no_stream(framing: Framing, headers: &HeaderMap) -> Option<String> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let kind = kind.split(';').next()?.trim().to_lowercase();
    let refused = match kind.as_str() {
        // A single line of JSON is a whole answer there.
        "application/json" => framing == Framing::Events,
        kind => kind == "text/html",
    };
    refused.then_some(kind)
}

fn not_a_stream(kind: &str, body: &str) -> ProviderError {
    let start: String = body.trim().chars().take(200).collect();
    let text = format!("the provider sent {kind} instead of an event stream: {start}");
    ProviderError::new(ProviderErrorKind::Protocol, text)
}

fn unreachable(url: &Url, error: &reqwest::Error) -> ProviderError {
    // Only scheme, host and port: the rest may hold credentials.
    let host = url.origin().ascii_serialization();
    let text = format!("Connection error: cannot reach {host}: {}", root_cause(error));
    ProviderError::new(ProviderErrorKind::Network, text)
}

/// The innermost cause: the outer ones repeat the address and say nothing.
pub fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::testing::{FixedClock, model};

    fn http() -> Http {
        Http::new(HttpLimits::default(), Arc::new(FixedClock))
    }

    #[test]
    fn retry_after_is_seconds_milliseconds_or_a_date() {
        let read = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            http().retry_after(&headers)
        };
        assert_eq!(read("retry-after", "2"), Some(Duration::from_secs(2)));
        assert_eq!(read("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(read("retry-after-ms", "40"), Some(Duration::from_millis(40)));
        assert_eq!(
            read("retry-after", "Thu, 01 Jan 1970 00:00:10 GMT"),
            Some(Duration::from_millis(10_000 - FixedClock::NOW))
        );
        let day = Some(Duration::from_hours(24));
        assert_eq!(read("retry-after", "86401"), day);
        assert_eq!(read("retry-after-ms", "18446744073709551615"), day);
        assert_eq!(read("retry-after", "Fri, 01 Jan 2100 00:00:00 GMT"), day);
        assert_eq!(read("retry-after", "soon"), None);
        assert_eq!(read("retry-after", "-1"), None);
    }

    #[test]
    fn servers_near_by_may_be_silent_for_longer() {
        let idle = |url: &str| HttpLimits::default().idle_of(&Url::parse(url).unwrap());
        for url in [
            "http://localhost:11434/v1",
            "http://127.0.0.1:1234/v1",
            "http://0.0.0.0:8000",
            "http://10.1.2.3/v1",
            "http://172.16.0.9/v1",
            "http://192.168.1.20:8080/v1",
            "http://100.100.1.1/v1",
            "http://mac.LOCAL:1234/v1",
            "http://[::1]:8000/v1",
            "http://[fd7a:115c:a1e0::1]/v1",
            "http://[fe80::1]/v1",
            "http://[::ffff:127.0.0.1]/v1",
        ] {
            assert_eq!(idle(url), Duration::from_mins(30), "{url}");
        }
        for url in [
            "https://api.anthropic.com",
            "http://172.32.0.1/v1",
            "http://100.128.0.1/v1",
            "http://local.example.com/v1",
            "http://127.0.0.1.example.com/v1",
            "http://[2001:db8::1]/v1",
        ] {
            assert_eq!(idle(url), Duration::from_mins(2), "{url}");
        }
    }

    #[tokio::test]
    async fn an_address_or_header_that_is_none_is_said() {
        let mut model = model("openai-completions");
        let body = Value::Null;
        let post = |model: &ModelInfo, url: &str| {
            let (model, url, http, body) = (model.clone(), url.to_owned(), http(), body.clone());
            async move {
                let headers = HeaderMap::new();
                let style = ErrorStyle::OpenAi;
                let framing = Framing::Events;
                let post = Post { model: &model, url, headers, body: &body, style, framing };
                http.post(post).await.err().unwrap()
            }
        };
        assert_eq!(post(&model, "ftp://x/").await.kind, ProviderErrorKind::BadRequest);
        model.headers.insert("bad name".into(), crate::support::Secret::new("v"));
        let error = post(&model, "http://127.0.0.1:9/").await;
        assert_eq!(error.message, "models.providers.mock.headers: \"bad name\" is no header");
    }

    #[test]
    fn what_is_no_stream_is_quoted() {
        let error = not_a_stream("text/html", " <h1>Hello</h1> ");
        assert_eq!(error.kind, ProviderErrorKind::Protocol);
        assert!(error.message.ends_with("instead of an event stream: <h1>Hello</h1>"));
    }
}
