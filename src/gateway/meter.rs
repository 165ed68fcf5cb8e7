//! What a connection may send at each of its stages.

use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::task::Waker;

use futures_util::task::AtomicWaker;

/// What a connection may send before it is a WebSocket: the head of a request,
/// which takes a few KiB even with many cookies.
const REQUEST_BYTES: i64 = 64 * 1024;
/// What is still read, as frames, from a client that we are closing; its close
/// frame should be among it.
const CLOSING_BYTES: i64 = 64 * 1024;

/// A stage of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It is no WebSocket yet: so many bytes are left.
    Request(usize),
    /// It has logged in.
    Open,
    /// It has not logged in: so many bytes are left.
    Limited(usize),
    /// It is being closed: so many bytes are still read as frames.
    Closing(usize),
    /// It has to end.
    Cut,
}

const REQUEST: u8 = 0;
const OPEN: u8 = 1;
const LIMITED: u8 = 2;
const CLOSING: u8 = 3;
const CUT: u8 = 4;

/// Switches what a connection may send.
#[derive(Debug)]
pub struct Meter {
    phase: AtomicU8,
    left: AtomicI64,
    /// Who reads, until the client has logged in.
    reader: AtomicWaker,
}

impl Meter {
    /// For a connection that was just accepted.
    pub fn new() -> Self {
        let (phase, left) = (AtomicU8::new(REQUEST), AtomicI64::new(REQUEST_BYTES));
        Self { phase, left, reader: AtomicWaker::new() }
    }

    /// The stage, and what is left in it.
    pub fn phase(&self) -> Phase {
        let left = || usize::try_from(self.left.load(Ordering::Acquire)).unwrap_or(0);
        match self.phase.load(Ordering::Acquire) {
            REQUEST => Phase::Request(left()),
            LIMITED => Phase::Limited(left()),
            CLOSING => Phase::Closing(left()),
            CUT => Phase::Cut,
            _ => Phase::Open,
        }
    }

    /// Counts bytes that were read.
    pub fn spend(&self, bytes: usize) {
        self.left.fetch_sub(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::AcqRel);
    }

    /// From now on without a bound of its own: the client has logged in.
    pub fn open(&self) {
        self.phase.store(OPEN, Ordering::Release);
        drop(self.reader.take());
    }

    /// It is a WebSocket. From now on at most `bytes`; more is an error of the
    /// read.
    pub fn limit(&self, bytes: u32) {
        self.left.store(i64::from(bytes), Ordering::Release);
        let _ = self.phase.compare_exchange(REQUEST, LIMITED, Ordering::AcqRel, Ordering::Acquire);
    }

    /// From now on only the close frame of the peer matters: what is too far
    /// away to be it is thrown away.
    pub fn closing(&self) {
        self.left.store(CLOSING_BYTES, Ordering::Release);
        self.phase.store(CLOSING, Ordering::Release);
    }

    /// Ends a connection that has not logged in.
    pub fn cut(&self) {
        for phase in [REQUEST, LIMITED] {
            let swap = self.phase.compare_exchange(phase, CUT, Ordering::AcqRel, Ordering::Acquire);
            if swap.is_ok() {
                self.reader.wake();
            }
        }
    }

    /// Notes who is to be woken by a cut.
    pub fn watch(&self, waker: &Waker) {
        self.reader.register(waker);
    }

    /// Whether the connection was cut.
    #[cfg(test)]
    pub fn is_cut(&self) -> bool {
        self.phase() == Phase::Cut
    }

    /// Whether the bound has been reached.
    pub fn is_exhausted(&self) -> bool {
        self.phase() == Phase::Limited(0)
    }
}
