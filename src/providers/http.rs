//! The way out to the providers.
//!
//! Owns: the HTTP clients and their limits. Promises: nothing is built before
//! the first call; no wait without limit; no credential in an error. Must not:
//! know what requests and answers mean.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use reqwest::{Client, Response, Url};
use serde_json::Value;

use super::error::{ErrorStyle, ProviderError, ProviderErrorKind};
pub use super::sse::Framing;
use super::sse::{SseEvent, SseParser};
use super::{ModelInfo, scrub::scrub};
use crate::support::Clock;

/// An error text is for people; more than this is a page of HTML.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// One delta is a few KiB; some proxies send a whole answer as one event.
const MAX_EVENT: usize = 4 * 1024 * 1024;
/// Far above the longest answer of any model with all its framing.
const MAX_STREAM: usize = 256 * 1024 * 1024;

/// How long to wait for what.
#[derive(Debug, Clone, Copy)]
pub struct HttpLimits {
    /// For a connection.
    pub connect: Duration,
    /// For the next byte of an answer, the first one included.
    pub idle: Duration,
    /// For Ollama to say which models it has: it is on this machine, and
    /// start-up waits for it.
    pub probe: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            idle: Duration::from_mins(2),
            probe: Duration::from_millis(300),
        }
    }
}

type Lazy = OnceLock<Result<Client, String>>;

/// HTTP clients that come into being when they are needed; clones share them.
#[derive(Clone)]
pub struct Http(Arc<Inner>);

struct Inner {
    limits: HttpLimits,
    clock: Arc<dyn Clock>,
    /// For `https`: has the system's certificates and proxy settings.
    secure: Lazy,
    /// For `http`, thus for this machine and its network: needs no certificates
    /// (there may be none installed) and never takes a proxy.
    plain: Lazy,
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
        Self(Arc::new(Inner { limits, clock, secure: Lazy::new(), plain: Lazy::new() }))
    }

    /// Sends a request and gives the events of its answer.
    ///
    /// # Errors
    /// When there is no answer, or one with an error status.
    pub async fn post(&self, post: Post<'_>) -> Result<EventStream, ProviderError> {
        let model = post.model;
        let result = self.try_post(post).await;
        result.map_err(|mut error| {
            error.message = scrub(&error.message, model);
            error
        })
    }

    async fn try_post(&self, post: Post<'_>) -> Result<EventStream, ProviderError> {
        let url = parse_url(&post.url)?;
        let idle = post.model.timeout.unwrap_or(self.0.limits.idle);
        let request = self
            .client(&url)
            .await?
            .post(url.clone())
            .headers(headers(post.headers, post.model)?)
            .body(post.body.to_string());
        let response = tokio::time::timeout(idle, request.send())
            .await
            .map_err(|_| ProviderError::timed_out(idle))?
            .map_err(|error| unreachable(&url, &error))?;
        let body = Body { response, idle, read: 0 };
        let status = body.response.status();
        if !status.is_success() {
            let retry_after = self.retry_after(body.response.headers());
            let text = body.text(MAX_ERROR_BODY).await;
            let error = ProviderError::from_status(post.style, status.as_u16(), &text);
            return Err(ProviderError { retry_after, ..error });
        }
        if let Some(kind) = no_stream(post.framing, body.response.headers()) {
            return Err(not_a_stream(&kind, &body.text(MAX_ERROR_BODY).await));
        }
        Ok(EventStream { body, parser: SseParser::new(post.framing, MAX_EVENT), ended: false })
    }

    /// Reads a small JSON document of a server that may not be there, posting
    /// `body` for it if there is one. `None` when nothing of the kind comes
    /// within the limit.
    pub async fn probe(&self, url: &str, body: Option<&Value>) -> Option<Value> {
        let url = parse_url(url).ok()?;
        let limit = self.0.limits.probe;
        let answer = async {
            let client = self.client(&url).await.ok()?;
            let request = match body {
                Some(body) => client.post(url.clone()).body(body.to_string()),
                None => client.get(url.clone()),
            };
            let response = request.send().await.ok()?;
            let body = Body { response, idle: limit, read: 0 };
            let ok = body.response.status().is_success();
            if ok { serde_json::from_str(&body.text(MAX_EVENT).await).ok() } else { None }
        };
        tokio::time::timeout(limit, answer).await.ok()?
    }

    async fn client(&self, url: &Url) -> Result<Client, ProviderError> {
        let inner = Arc::clone(&self.0);
        let built = if url.scheme() == "https" {
            match self.0.secure.get() {
                Some(built) => built.clone(),
                // Reads the system's certificates, which takes a while.
                None => tokio::task::spawn_blocking(move || {
                    inner.secure.get_or_init(|| build_secure(inner.limits)).clone()
                })
                .await
                .unwrap_or_else(|error| Err(error.to_string())),
            }
        } else {
            self.0.plain.get_or_init(|| build_plain(inner.limits)).clone()
        };
        built.map_err(|error| {
            let text = format!("Connection error: cannot use TLS on this machine: {error}");
            ProviderError::new(ProviderErrorKind::Network, text)
        })
    }

    fn retry_after(&self, headers: &HeaderMap) -> Option<Duration> {
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

/// Redirects are not followed: they would carry the key to another host.
fn build_secure(limits: HttpLimits) -> Result<Client, String> {
    // Refused when some other part of the program was first, which is as good.
    rustls::crypto::ring::default_provider().install_default().ok();
    Client::builder()
        .connect_timeout(limits.connect)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| chain(&error))
}

fn build_plain(limits: HttpLimits) -> Result<Client, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .connect_timeout(limits.connect)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| chain(&error))
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
    Ok(headers)
}

/// `Authorization: Bearer <key>`, when the model has a key.
///
/// # Errors
/// When it should have one, or has one that cannot be sent.
pub fn bearer(model: &ModelInfo) -> Result<HeaderMap, ProviderError> {
    let mut headers = HeaderMap::new();
    if let Some(key) = model.credential()? {
        let value = secret_header(&format!("Bearer {}", key.expose()))
            .ok_or_else(|| ProviderError::unusable_key(&model.provider))?;
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

/// A header value that neither `Debug` nor HTTP/2 compression give away.
pub fn secret_header(text: &str) -> Option<HeaderValue> {
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
    let text = format!("Connection error: cannot reach {host}: {}", chain(error));
    ProviderError::new(ProviderErrorKind::Network, text)
}

/// The innermost cause: the outer ones repeat the address and say nothing.
fn chain(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// The bytes of an answer.
struct Body {
    response: Response,
    idle: Duration,
    read: usize,
}

impl Body {
    async fn chunk(&mut self) -> Result<Option<Bytes>, ProviderError> {
        let chunk = tokio::time::timeout(self.idle, self.response.chunk())
            .await
            .map_err(|_| ProviderError::timed_out(self.idle))?
            .map_err(|_| ProviderError::cut())?;
        self.read = self.read.saturating_add(chunk.as_ref().map_or(0, Bytes::len));
        if self.read > MAX_STREAM {
            let text = format!("the provider's answer is longer than {MAX_STREAM} bytes");
            return Err(ProviderError::new(ProviderErrorKind::Protocol, text));
        }
        Ok(chunk)
    }

    /// As much of the text as arrives, up to `limit` bytes.
    async fn text(mut self, limit: usize) -> String {
        let mut bytes = Vec::new();
        while let Ok(Some(chunk)) = self.chunk().await {
            let room = limit.saturating_sub(bytes.len());
            bytes.extend(chunk.iter().take(room));
            if bytes.len() >= limit {
                break;
            }
        }
        match String::from_utf8_lossy(&bytes) {
            Cow::Borrowed(text) => text.to_owned(),
            Cow::Owned(text) => text,
        }
    }
}

/// The events of an answer.
pub struct EventStream {
    body: Body,
    parser: SseParser,
    ended: bool,
}

impl EventStream {
    /// The next event; `None` at the end.
    ///
    /// # Errors
    /// When the connection breaks, stays silent too long, or sends an event
    /// without end.
    pub async fn next(&mut self) -> Result<Option<SseEvent>, ProviderError> {
        loop {
            match self.parser.next_event() {
                Ok(Some(event)) => return Ok(Some(event)),
                Ok(None) if self.ended => return Ok(None),
                Ok(None) => {}
                Err(error) => {
                    return Err(ProviderError::new(ProviderErrorKind::Protocol, error.to_string()));
                }
            }
            if let Some(chunk) = self.body.chunk().await? {
                self.parser.feed(&chunk);
            } else {
                self.ended = true;
                self.parser.finish();
            }
        }
    }
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
        assert_eq!(read("retry-after", "soon"), None);
        assert_eq!(read("retry-after", "-1"), None);
    }

    #[tokio::test]
    async fn nothing_is_built_before_the_first_call_and_both_clients_can_be() {
        let http = http();
        assert!(http.0.plain.get().is_none() && http.0.secure.get().is_none());
        http.client(&Url::parse("http://127.0.0.1/").unwrap()).await.unwrap();
        assert!(http.0.plain.get().is_some() && http.0.secure.get().is_none());
        // With or without certificates on this machine: an answer, no panic.
        drop(http.client(&Url::parse("https://localhost/").unwrap()).await);
        assert!(http.0.secure.get().is_some());
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
