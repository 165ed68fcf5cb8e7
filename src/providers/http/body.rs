//! What comes back.
//!
//! Owns: reading bytes and events under their limits. Promises: silence beyond
//! the patience of the provider's configuration is an error.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Response, StatusCode};

use super::super::error::{ProviderError, ProviderErrorKind};
use super::super::sse::{SseEvent, SseParser};

/// Far above the longest answer of any model with all its framing.
const MAX_STREAM: usize = 256 * 1024 * 1024;

/// The bytes of an answer.
pub struct Body {
    response: Response,
    idle: Duration,
    read: usize,
}

impl Body {
    /// The bytes of `response`, which may stay silent for `idle`.
    pub const fn new(response: Response, idle: Duration) -> Self {
        Self { response, idle, read: 0 }
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// Its headers.
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next bytes; `None` at the end.
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

    /// All of it, which has at most `limit` bytes.
    ///
    /// # Errors
    /// When it has more, or does not come to its end.
    pub async fn whole(mut self, limit: usize) -> Result<Vec<u8>, ProviderError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if bytes.len().saturating_add(chunk.len()) > limit {
                let text = format!("the provider's answer is longer than {limit} bytes");
                return Err(ProviderError::new(ProviderErrorKind::Protocol, text));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// As much of the text as arrives, up to `limit` bytes.
    pub async fn text(mut self, limit: usize) -> String {
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
    /// The events that `parser` finds in `body`.
    pub const fn new(body: Body, parser: SseParser) -> Self {
        Self { body, parser, ended: false }
    }

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
