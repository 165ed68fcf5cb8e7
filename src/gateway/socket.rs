//! The WebSocket as the connection uses it.
//!
//! Owns: what the library does on an open connection: receive, write, ping, close. It reads
//! and writes the connection itself, without anything between that wakes and locks. Promises:
//! one task at a time may receive or write, and what it drops goes on where it was; who takes
//! no pong is heard no more. Must not: have the library hold texts that are to be written. They
//! come in [`Frames`]: it would keep a buffer as large as the largest batch that it ever wrote,
//! on every connection.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::{
    CloseFrame, Role, WebSocketConfig, WebSocketContext,
};
use tokio_tungstenite::tungstenite::{Error, Message};

/// The text of a message.
pub use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::protocol::hello::MAX_PAYLOAD;
use crate::support::BoxFuture;

use super::frames::Frames;
use super::io::{LINGER_LIMIT, MeteredStream};
use super::line::{Line, Now};

/// Read buffer of each connection. The library's default of 128 KiB is what
/// every client would cost. What is larger takes more reads.
const READ_BUFFER: usize = 1024;
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
    /// Ping or pong; the answer is on its way.
    Control,
    /// The peer is gone, with its close code when it gave one.
    Gone(Option<u16>),
}

/// A WebSocket and the connection under it.
pub struct Socket {
    /// Boxed: a future has room for what it was given and for what it keeps, so that each
    /// one that a socket is handed on through would be larger by two of them.
    inner: Box<Inner>,
}

struct Inner {
    library: WebSocketContext,
    line: Line,
    /// Whether nothing can be read any more.
    has_ended: bool,
    /// Whether the pong for the last ping is still to be sent.
    owes_pong: bool,
}

impl Inner {
    /// Has the library do something, which goes on when it is asked again.
    fn poll<T>(
        &mut self,
        task: &mut Context<'_>,
        what: impl FnOnce(&mut WebSocketContext, &mut Now<'_, '_>) -> Result<T, Error>,
    ) -> Poll<Result<T, Error>> {
        match what(&mut self.library, &mut self.line.during(task)) {
            Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
            done => Poll::Ready(done),
        }
    }

    fn poll_next(&mut self, task: &mut Context<'_>) -> Poll<Result<Message, Error>> {
        if self.has_ended {
            return Poll::Ready(Err(Error::AlreadyClosed));
        }
        // Who sends pings and takes no pong is heard no more: the library would go on, and
        // keep them all.
        if self.owes_pong && self.poll_pong(task).is_pending() {
            return Poll::Pending;
        }
        let polled = self.poll(task, |library, line| library.read(line));
        self.has_ended = matches!(polled, Poll::Ready(Err(_)));
        if matches!(polled, Poll::Ready(Ok(Message::Ping(_)))) {
            self.owes_pong = true;
            let _ = self.poll_pong(task);
        }
        polled
    }

    /// Sends what the library has to say. A line that is broken tells whoever reads next.
    fn poll_pong(&mut self, task: &mut Context<'_>) -> Poll<()> {
        let _ = ready!(self.poll_flush(task));
        self.owes_pong = false;
        Poll::Ready(())
    }

    fn poll_flush(&mut self, task: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.poll(task, |library, line| library.flush(line))
    }

    /// The error with which the reading ends. What comes before is not minded.
    async fn end(&mut self) -> Error {
        poll_fn(|task| {
            loop {
                if let Err(error) = ready!(self.poll_next(task)) {
                    return Poll::Ready(error);
                }
            }
        })
        .await
    }

    /// Sends all that waits; `false` when the peer is gone.
    async fn flush(&mut self) -> bool {
        poll_fn(|task| self.poll_flush(task)).await.is_ok()
    }

    /// Sends what is no text; `false` when the peer is gone.
    async fn say(&mut self, message: Message) -> bool {
        let mut message = Some(message);
        let taken = poll_fn(|task| {
            let Some(message) = message.take() else { return Poll::Ready(Ok(())) };
            let polled = self.poll(task, |library, line| library.write(line, message));
            // It is with the library, whatever is on its way before it.
            Poll::Ready(if let Poll::Ready(done) = polled { done } else { Ok(()) })
        });
        taken.await.is_ok() && self.flush().await
    }
}

impl Socket {
    /// Takes over a connection that was upgraded, and what has come on it already.
    pub fn new(stream: MeteredStream, read: &[u8]) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            .max_message_size(Some(MAX_PAYLOAD))
            .max_frame_size(Some(MAX_PAYLOAD));
        // Copied, or the 8 KiB that the request was read into would stay.
        let mut buffer = Vec::with_capacity(READ_BUFFER.max(read.len()));
        buffer.extend_from_slice(read);
        let library = WebSocketContext::from_partially_read(buffer, Role::Server, Some(config));
        let line = Line::new(stream);
        Self { inner: Box::new(Inner { library, line, has_ended: false, owes_pong: false }) }
    }

    /// Lifts the bounds that hold before `connect`.
    pub fn authenticated(&self) {
        let stream = self.inner.line.stream();
        stream.meter().open();
        stream.permit().leave();
    }

    /// The next message. Safe to drop and call again.
    pub async fn receive(&mut self) -> Received {
        poll_fn(|task| self.poll_receive(task)).await
    }

    /// The same for who waits for something else as well.
    pub fn poll_receive(&mut self, task: &mut Context<'_>) -> Poll<Received> {
        Poll::Ready(match ready!(self.inner.poll_next(task)) {
            Ok(Message::Text(text)) => Received::Message(text),
            Ok(Message::Binary(bytes)) => Received::Binary(bytes),
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => Received::Control,
            Ok(Message::Close(frame)) => Received::Gone(frame.map(|frame| frame.code.into())),
            Err(error) => self.broken(&error),
        })
    }

    fn broken(&self, error: &Error) -> Received {
        if self.inner.line.stream().meter().is_exhausted() {
            return Received::TooLarge;
        }
        match error {
            Error::Capacity(_) => Received::TooLarge,
            // The connection is what broke.
            Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Received::Gone(None),
            Error::Protocol(_) => Received::Broken(1002),
            Error::Utf8(_) => Received::Broken(1007),
            _ => Received::Gone(None),
        }
    }

    /// Sends frames, and large texts among them from where they are; `false` when the peer is
    /// gone.
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
        if self.inner.line.is_busy() && !self.inner.flush().await {
            return false;
        }
        self.inner.line.put(frames, text);
        self.inner.flush().await
    }

    /// Sends a ping; `false` when the peer is gone.
    pub async fn ping(&mut self) -> bool {
        self.inner.say(Message::Ping(Bytes::new())).await
    }

    /// Sends the pong for the last ping, for who does not read meanwhile; when it is sent
    /// already, this has no end.
    pub async fn pong(&mut self) {
        if !self.inner.owes_pong {
            return std::future::pending().await;
        }
        poll_fn(|task| self.inner.poll_pong(task)).await;
    }

    /// What is left to say to a peer that has said good-bye: an answer to its close
    /// frame (RFC 6455 §5.5.1), since without one it sees 1006. Texts that were on their
    /// way go before it, unless a part of something has gone that they would come into.
    pub fn part(mut self, last: Frames) -> Rest {
        if self.inner.has_ended {
            return self.nothing_more();
        }
        // The library writes no message of its own behind a close frame.
        self.inner.line.put_before(last.into_bytes());
        Rest(Some(Box::pin(async move {
            let flush = async {
                // The library writes its answer and says that this was the end; what TLS
                // still holds of it is not its concern.
                self.inner.flush().await;
                poll_fn(|task| self.inner.line.poll_flush(task)).await
            };
            let _ = tokio::time::timeout(CLOSE_GRACE, flush).await;
        })))
    }

    /// Closes with `code` and waits a moment for the peer to see it: cutting
    /// TCP right away would show it 1006 (#146419). Boxed, since every
    /// connection would hold the space for it from its beginning.
    pub fn close(mut self, code: u16, reason: &str) -> BoxFuture<'static, Rest> {
        let reason = Utf8Bytes::from(cut(reason, MAX_REASON));
        self.inner.line.stream().permit().leave();
        Box::pin(async move {
            let close = async {
                let frame = CloseFrame { code: code.into(), reason };
                if !self.inner.say(Message::Close(Some(frame))).await {
                    return None;
                }
                self.inner.line.stream().meter().closing();
                // Its close frame is the answer that we wait for, and the last.
                Some(self.inner.end().await)
            };
            match tokio::time::timeout(CLOSE_GRACE, close).await {
                // There is nothing after an answer.
                Err(_) | Ok(Some(Error::ConnectionClosed)) => return self.nothing_more(),
                Ok(_) => {}
            }
            // Behind an error nothing is read as frames; then what the peer is still sending
            // is read away.
            Rest(Some(Box::pin(async move {
                let _ = tokio::time::timeout(LINGER_LIMIT, self.inner.line.linger()).await;
            })))
        })
    }

    /// The end of the connection is all that is left.
    fn nothing_more(self) -> Rest {
        Rest(Some(Box::pin(async move { drop(self) })))
    }
}

/// What is left of a connection that has ended: the answer to a good-bye, what a peer is
/// still sending on one that was closed, or its end alone. One that broke is dropped at once,
/// and nothing is left of it.
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
