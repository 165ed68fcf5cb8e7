//! What is written past the WebSocket library.
//!
//! Owns: frames that wait to be written to a connection directly. Promises: they go in the
//! order in which they were put, before what the library has not begun to write, and never
//! into the middle of what it has.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use tokio::io::AsyncWrite;

use super::transport::Transport;

/// Frames that are written to the connection directly, before anything that
/// the library writes after they were put here.
#[derive(Debug)]
pub struct Bypass {
    frames: Mutex<Chain<Bytes, Bytes>>,
    /// Whether the library has written a part of something.
    is_midway: AtomicBool,
}

impl Bypass {
    /// Nothing waits.
    pub fn new() -> Self {
        let frames = Mutex::new(Bytes::new().chain(Bytes::new()));
        Self { frames, is_midway: AtomicBool::new(false) }
    }

    /// Whether something is on its way already that frames must not come into: then it
    /// has to be flushed before they are put here.
    pub fn is_busy(&self) -> bool {
        self.is_midway.load(Ordering::Acquire) || self.frames.lock().has_remaining()
    }

    /// Puts frames here, in two parts; the next flush sends them, before what the library
    /// holds.
    pub fn put(&self, first: Bytes, second: Bytes) {
        *self.frames.lock() = first.chain(second);
    }

    /// Puts frames here that go before whatever the library holds, unless a part of
    /// something has gone already.
    pub fn put_before(&self, last: Bytes) {
        let mut frames = self.frames.lock();
        if !frames.has_remaining() && !self.is_midway.load(Ordering::Acquire) {
            *frames = last.chain(Bytes::new());
        }
    }

    /// Notes how much the library has written of what it wanted to.
    pub fn note(&self, polled: &Poll<std::io::Result<usize>>, wanted: usize) {
        let is_whole = matches!(polled, Poll::Ready(Ok(written)) if *written == wanted);
        self.is_midway.store(!is_whole, Ordering::Release);
    }

    /// Writes what waits.
    pub fn poll_write(
        &self,
        to: &mut Transport,
        cx: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        let mut frames = self.frames.lock();
        if !frames.has_remaining() {
            return Poll::Ready(Ok(()));
        }
        while frames.has_remaining() {
            let written = ready!(Pin::new(&mut *to).poll_write(cx, frames.chunk()))?;
            if written == 0 {
                return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into()));
            }
            frames.advance(written);
        }
        *frames = Bytes::new().chain(Bytes::new());
        Poll::Ready(Ok(()))
    }
}
