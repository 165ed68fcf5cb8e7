//! The WebSocket as the connection uses it.
//!
//! Keeps the library behind one file: receive, feed, flush, close.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use bytes::Bytes;
use futures_util::SinkExt;

use crate::support::BoxFuture;

use super::io::{Bypass, Wire};
use super::meter::Meter;
use super::preauth::PreauthPermit;

/// Longest close reason that RFC 6455 §5.5 leaves room for is 123 bytes; the
/// original cuts at 120.
const MAX_REASON: usize = 120;
/// How long a peer has to take the close frame and answer it.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// Frames above this go around the library's write buffer, which would stay as
/// large as they are.
const MAX_BUFFERED_FRAME: usize = 16 * 1024;

/// What came in.
pub enum Received {
    /// A text message.
    Message(Bytes),
    /// A binary message.
    Binary(Bytes),
    /// A message over the limit.
    TooLarge,
    /// Ping or pong; answered already.
    Control,
    /// The peer is gone, with its close code when it gave one.
    Gone(Option<u16>),
}

/// A WebSocket and the connection under it.
pub struct Socket {
    inner: WebSocket,
    meter: Arc<Meter>,
    bypass: Arc<Bypass>,
    permit: Arc<PreauthPermit>,
}

impl Socket {
    /// Takes over an upgraded connection.
    pub fn new(inner: WebSocket, wire: Wire) -> Self {
        Self { inner, meter: wire.meter, bypass: wire.bypass, permit: wire.permit }
    }

    /// Lifts the bounds that hold before `connect`.
    pub fn authenticated(&self) {
        self.meter.open();
        self.permit.leave();
    }

    /// The next message. Safe to drop and call again.
    pub async fn receive(&mut self) -> Received {
        match self.inner.recv().await {
            Some(Ok(Message::Text(text))) => Received::Message(text.into()),
            Some(Ok(Message::Binary(bytes))) => Received::Binary(bytes),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Received::Control,
            Some(Ok(Message::Close(frame))) => Received::Gone(frame.map(|frame| frame.code)),
            Some(Err(error)) if self.meter.is_exhausted() || is_too_large(&error) => {
                Received::TooLarge
            }
            Some(Err(_)) | None => Received::Gone(None),
        }
    }

    /// Puts a text into the write buffer, or sends it if it is large; `false`
    /// when the peer is gone.
    pub async fn feed(&mut self, text: String) -> bool {
        if text.len() > MAX_BUFFERED_FRAME {
            return self.send_around(text).await;
        }
        self.inner.feed(Message::Text(Utf8Bytes::from(text))).await.is_ok()
    }

    async fn send_around(&mut self, text: String) -> bool {
        if !self.flush().await {
            return false;
        }
        self.bypass.put(text_head(text.len()), Bytes::from(text));
        self.flush().await
    }

    /// Sends what is in the write buffer; `false` when the peer is gone.
    pub async fn flush(&mut self) -> bool {
        self.inner.flush().await.is_ok()
    }

    /// Sends a text at once; `false` when the peer is gone.
    pub async fn send(&mut self, text: String) -> bool {
        self.feed(text).await && self.flush().await
    }

    /// Sends a ping; `false` when the peer is gone.
    pub async fn ping(&mut self) -> bool {
        self.inner.send(Message::Ping(Bytes::new())).await.is_ok()
    }

    /// Answers the close frame of a peer that has said good-bye (RFC 6455 §5.5.1):
    /// without one it sees 1006. Boxed as [`Self::close`].
    pub fn part(mut self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // The library writes its answer when it is asked for what comes next.
            let rest = async { while let Some(Ok(_)) = self.inner.recv().await {} };
            let _ = tokio::time::timeout(CLOSE_GRACE, rest).await;
        })
    }

    /// Closes with `code` and waits a moment for the peer to see it: cutting
    /// TCP right away would show it 1006 (#146419). Boxed, since every
    /// connection would hold the space for it from its beginning.
    pub fn close(mut self, code: u16, reason: &str) -> BoxFuture<'static, ()> {
        let reason = Utf8Bytes::from(cut(reason, MAX_REASON));
        self.permit.leave();
        Box::pin(async move {
            let close = async {
                let frame = CloseFrame { code, reason };
                if self.inner.send(Message::Close(Some(frame))).await.is_err() {
                    return;
                }
                self.meter.closing();
                // Its close frame is the answer that we wait for, and the last.
                while let Some(Ok(_)) = self.inner.recv().await {}
            };
            let _ = tokio::time::timeout(CLOSE_GRACE, close).await;
        })
    }
}

/// Head of an unmasked text frame of more than 125 bytes (RFC 6455 §5.2).
fn text_head(length: usize) -> Bytes {
    const FINAL_TEXT: u8 = 0x81;
    if let Ok(length) = u16::try_from(length) {
        return [&[FINAL_TEXT, 126], &length.to_be_bytes()[..]].concat().into();
    }
    let length = u64::try_from(length).unwrap_or(u64::MAX);
    [&[FINAL_TEXT, 127], &length.to_be_bytes()[..]].concat().into()
}

fn is_too_large(error: &axum::Error) -> bool {
    use tokio_tungstenite::tungstenite::Error;
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(Error::Capacity(_)) = error.downcast_ref::<Error>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// At most `max` bytes of `text`, cut between characters.
fn cut(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_in_the_shortest_form() {
        assert_eq!(text_head(0xffff)[..], [0x81, 126, 0xff, 0xff]);
        assert_eq!(text_head(0x1_0000)[..], [0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn reasons_are_cut_between_characters() {
        assert_eq!(cut("short", 120), "short");
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut(&"x".repeat(200), 120).len(), 120);
    }
}
