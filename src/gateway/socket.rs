//! The WebSocket as the connection uses it.
//!
//! Keeps the library behind one file: receive, write, ping, close. What is written
//! comes in [`Frames`]: the library would keep a buffer as large as the largest batch
//! that it ever wrote, on every connection.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::error::ProtocolError;

use crate::support::BoxFuture;

use super::bypass::Bypass;
use super::frames::Frames;
use super::io::{LINGER_LIMIT, Wire};
use super::meter::Meter;
use super::preauth::PreauthPermit;

/// Longest close reason that RFC 6455 §5.5 leaves room for is 123 bytes; the
/// original cuts at 120.
const MAX_REASON: usize = 120;
/// How long a peer has to take the close frame and answer it.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// What came in.
pub enum Received {
    /// A text message.
    Message(Utf8Bytes),
    /// A binary message.
    Binary(Bytes),
    /// A message over the limit.
    TooLarge,
    /// What is no WebSocket, and the close code for it (RFC 6455 §7.4.1).
    Broken(u16),
    /// Ping or pong; answered already.
    Control,
    /// The peer is gone, with its close code when it gave one.
    Gone(Option<u16>),
}

/// A WebSocket and the connection under it.
pub struct Socket {
    /// Boxed: a future has room for what it was given and for what it keeps, so that each
    /// one that a socket is handed on through would be larger by two of them.
    inner: Box<WebSocket>,
    meter: Arc<Meter>,
    bypass: Arc<Bypass>,
    permit: Arc<PreauthPermit>,
}

impl Socket {
    /// Takes over an upgraded connection.
    pub fn new(inner: WebSocket, wire: Wire) -> Self {
        let inner = Box::new(inner);
        Self { inner, meter: wire.meter, bypass: wire.bypass, permit: wire.permit }
    }

    /// Lifts the bounds that hold before `connect`.
    pub fn authenticated(&self) {
        self.meter.open();
        self.permit.leave();
    }

    /// The next message. Safe to drop and call again.
    pub async fn receive(&mut self) -> Received {
        poll_fn(|task| self.poll_receive(task)).await
    }

    /// The same for who waits for something else as well.
    pub fn poll_receive(&mut self, task: &mut Context<'_>) -> Poll<Received> {
        Poll::Ready(match ready!(self.inner.poll_next_unpin(task)) {
            Some(Ok(Message::Text(text))) => Received::Message(text),
            Some(Ok(Message::Binary(bytes))) => Received::Binary(bytes),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Received::Control,
            Some(Ok(Message::Close(frame))) => Received::Gone(frame.map(|frame| frame.code)),
            Some(Err(error)) if self.meter.is_exhausted() || is_too_large(&error) => {
                Received::TooLarge
            }
            Some(Err(error)) => breach(&error).map_or(Received::Gone(None), Received::Broken),
            None => Received::Gone(None),
        })
    }

    /// Sends frames in as few writes as there are large ones among them; `false` when
    /// the peer is gone.
    pub async fn write(&mut self, frames: Frames) -> bool {
        for (frames, text) in frames.into_parts() {
            if !self.pass(frames, text).await {
                return false;
            }
        }
        true
    }

    /// Sends a text at once; `false` when the peer is gone.
    pub async fn send(&mut self, text: String) -> bool {
        let mut frames = Frames::default();
        frames.push(text);
        self.write(frames).await
    }

    /// Sends frames, and what the last of them holds, behind what is on its way already:
    /// a part of a pong, say.
    async fn pass(&mut self, frames: Vec<u8>, text: String) -> bool {
        if self.bypass.is_busy() && self.inner.flush().await.is_err() {
            return false;
        }
        self.bypass.put(frames.into(), text.into());
        self.inner.flush().await.is_ok()
    }

    /// Sends a ping; `false` when the peer is gone.
    pub async fn ping(&mut self) -> bool {
        self.inner.send(Message::Ping(Bytes::new())).await.is_ok()
    }

    /// What is left to say to a peer that has said good-bye: an answer to its close
    /// frame (RFC 6455 §5.5.1), since without one it sees 1006. Texts that were on their
    /// way go before it.
    pub fn part(mut self, last: Frames) -> Rest {
        // The library writes no message of its own behind a close frame.
        self.bypass.put_before(last.into_bytes().into());
        Rest(Some(Box::pin(async move {
            // The library writes its answer when it is asked for what comes next.
            let rest = async { while let Some(Ok(_)) = self.inner.recv().await {} };
            let _ = tokio::time::timeout(CLOSE_GRACE, rest).await;
        })))
    }

    /// Closes with `code` and waits a moment for the peer to see it: cutting
    /// TCP right away would show it 1006 (#146419). Boxed, since every
    /// connection would hold the space for it from its beginning.
    pub fn close(mut self, code: u16, reason: &str) -> BoxFuture<'static, Rest> {
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
            if tokio::time::timeout(CLOSE_GRACE, close).await.is_err() {
                return Rest::default();
            }
            // Behind an error the library reads no more; then what the peer is still
            // sending is read away. There is nothing after an answer.
            self.meter.leave_rest();
            Rest(Some(Box::pin(async move {
                let _ = tokio::time::timeout(LINGER_LIMIT, self.inner.flush()).await;
            })))
        })
    }
}

/// What is left of a connection that has ended: the answer to a good-bye, or what a peer
/// is still sending on one that was closed.
#[derive(Default)]
#[must_use]
pub struct Rest(Option<BoxFuture<'static, ()>>);

impl Rest {
    /// Sees to it, for a moment, and ends the connection: ended before, it would be
    /// reset, and the peer would not see why it was closed. By then nobody has to
    /// count on the connection any more: whoever sees his good-bye answered is forgotten.
    pub async fn finish(self) {
        if let Some(rest) = self.0 {
            rest.await;
        }
    }
}

fn is_too_large(error: &axum::Error) -> bool {
    matches!(of_library(error), Some(Error::Capacity(_)))
}

/// The close code for somebody who broke the rules; `None` when the connection is
/// what broke.
fn breach(error: &axum::Error) -> Option<u16> {
    match of_library(error)? {
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        Error::Protocol(_) => Some(1002),
        Error::Utf8(_) => Some(1007),
        _ => None,
    }
}

fn of_library(error: &axum::Error) -> Option<&Error> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        source = error.source();
    }
    None
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
    fn reasons_are_cut_between_characters() {
        assert_eq!(cut("short", 120), "short");
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut(&"x".repeat(200), 120).len(), 120);
    }
}
