//! What a connection may send at each of its stages.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, Ordering};
use std::task::Waker;

use futures_util::task::AtomicWaker;

/// What a connection may send for one request: its head, which takes a few KiB
/// even with many cookies, and the body of somebody who has proved nothing.
const REQUEST_BYTES: i64 = 64 * 1024;
/// What is still read, as frames, from a client that we are closing; its close
/// frame should be among it.
const CLOSING_BYTES: i64 = 64 * 1024;

/// A stage of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Its next request has not come yet: so many bytes are left for that, and
    /// time is short.
    Request(usize),
    /// A request is being answered: so many bytes are left for its body, without
    /// a bound when it has proved who sent it.
    Answering(Option<usize>),
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
const ANSWERING: u8 = 5;
const TRUSTED: u8 = 6;

/// Switches what a connection may send.
#[derive(Debug)]
pub struct Meter {
    phase: AtomicU8,
    left: AtomicI64,
    /// How many requests have been answered.
    answered: AtomicU32,
    /// Whether some of the last request's body may be left unread.
    leaves_rest: AtomicBool,
    /// Who reads, until the client has logged in.
    reader: AtomicWaker,
}

impl Meter {
    /// For a connection that was just accepted.
    pub fn new() -> Self {
        let (phase, left) = (AtomicU8::new(REQUEST), AtomicI64::new(REQUEST_BYTES));
        let (answered, leaves_rest) = (AtomicU32::new(0), AtomicBool::new(false));
        Self { phase, left, answered, leaves_rest, reader: AtomicWaker::new() }
    }

    /// The stage, and what is left in it.
    pub fn phase(&self) -> Phase {
        let left = || usize::try_from(self.left.load(Ordering::Acquire)).unwrap_or(0);
        match self.phase.load(Ordering::Acquire) {
            REQUEST => Phase::Request(left()),
            LIMITED => Phase::Limited(left()),
            CLOSING => Phase::Closing(left()),
            CUT => Phase::Cut,
            ANSWERING => Phase::Answering(Some(left())),
            TRUSTED => Phase::Answering(None),
            _ => Phase::Open,
        }
    }

    /// Counts bytes that were read.
    pub fn spend(&self, bytes: usize) {
        self.left.fetch_sub(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::AcqRel);
    }

    fn turn(&self, from: u8, to: u8) -> bool {
        self.phase.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The head of a request has come.
    pub fn answering(&self) {
        self.leaves_rest.store(false, Ordering::Release);
        self.turn(REQUEST, ANSWERING);
    }

    /// It has proved who sent it.
    pub fn trusted(&self) {
        self.turn(ANSWERING, TRUSTED);
    }

    /// It proves who sent it by its whole body: that may have so many bytes, until
    /// it is answered.
    pub fn allow(&self, bytes: u64) {
        if self.phase.load(Ordering::Acquire) == ANSWERING {
            // What stands around chunks counts, too.
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX).saturating_add(REQUEST_BYTES);
            self.left.fetch_max(bytes, Ordering::AcqRel);
        }
    }

    /// Some of its body may be left unread.
    pub fn leave_rest(&self) {
        self.leaves_rest.store(true, Ordering::Release);
    }

    /// Whether some of the last body may have been left unread.
    pub fn leaves_rest(&self) -> bool {
        self.leaves_rest.load(Ordering::Acquire)
    }

    /// Its answer has been handed over to be written: the next request may come.
    pub fn answered(&self) {
        // Nobody spends of it meanwhile: a request is read after the answer to
        // the one before.
        if [ANSWERING, TRUSTED].contains(&self.phase.load(Ordering::Acquire)) {
            self.left.store(REQUEST_BYTES, Ordering::Release);
            self.answered.fetch_add(1, Ordering::AcqRel);
        }
        if self.turn(ANSWERING, REQUEST) || self.turn(TRUSTED, REQUEST) {
            self.reader.wake();
        }
    }

    /// How many requests have been answered.
    pub fn answers(&self) -> u32 {
        self.answered.load(Ordering::Acquire)
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
        let _ = [REQUEST, ANSWERING, TRUSTED].into_iter().any(|from| self.turn(from, LIMITED));
    }

    /// From now on only the close frame of the peer matters: what is too far
    /// away to be it is thrown away.
    pub fn closing(&self) {
        self.left.store(CLOSING_BYTES, Ordering::Release);
        self.phase.store(CLOSING, Ordering::Release);
    }

    /// Ends a connection that has not logged in.
    pub fn cut(&self) {
        // What was let in is not meant.
        for phase in [REQUEST, ANSWERING, LIMITED] {
            if self.turn(phase, CUT) {
                self.reader.wake();
            }
        }
    }

    /// Notes who is to be woken by a cut, or when time begins to count again.
    pub fn watch(&self, waker: &Waker) {
        self.reader.register(waker);
    }

    /// Whether the connection was cut.
    pub fn is_cut(&self) -> bool {
        self.phase() == Phase::Cut
    }

    /// Whether the bound has been reached.
    pub fn is_exhausted(&self) -> bool {
        self.phase() == Phase::Limited(0)
    }
}
