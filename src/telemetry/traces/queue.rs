//! Spans that have ended, on their way to whoever sends them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::{mpsc, oneshot};

use super::context::SpanContext;
use super::span::{Attribute, Kind};
use crate::telemetry::metrics::NUMBERS;

/// Most spans that wait, as in the libraries of OpenTelemetry. Each is some
/// hundred bytes.
const QUEUE: usize = 2048;

static ON: AtomicBool = AtomicBool::new(false);
/// Bits of the share of traces that are kept.
static RATE: AtomicU64 = AtomicU64::new(0);
static SENDER: ArcSwapOption<mpsc::Sender<Queued>> = ArcSwapOption::const_empty();

/// A span that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// What it was.
    pub name: String,
    /// What kind of work it was.
    pub kind: Kind,
    /// What it is known by.
    pub context: SpanContext,
    /// The span that it belongs to.
    pub parent: Option<u64>,
    /// When it began, in nanoseconds since the epoch.
    pub began_ns: u64,
    /// When it ended, likewise.
    pub ended_ns: u64,
    /// What is known of it.
    pub attributes: Vec<(&'static str, Attribute)>,
    /// Whether it went wrong.
    pub has_failed: bool,
}

/// What comes out of the queue.
#[derive(Debug)]
pub enum Queued {
    /// A span.
    Span(Box<Ended>),
    /// Somebody waits until what came before is sent.
    Flush(oneshot::Sender<()>),
}

/// From now on spans are made, of this share of traces. What ends comes out of the
/// receiver; one that was opened before gets nothing more.
pub fn open(rate: f64) -> mpsc::Receiver<Queued> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    RATE.store(rate.to_bits(), Ordering::Relaxed);
    SENDER.store(Some(sender.into()));
    ON.store(true, Ordering::Relaxed);
    receiver
}

/// From now on no spans are made.
pub fn close() {
    ON.store(false, Ordering::Relaxed);
    SENDER.store(None);
}

/// Whether spans are made.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Waits until what has ended is sent, for at most `limit`.
pub async fn flush(limit: Duration) {
    let (done, sent) = oneshot::channel();
    let asked = SENDER.load_full().map(|sender| sender.try_send(Queued::Flush(done)));
    if asked.is_some_and(|asked| asked.is_ok()) {
        // Whoever is slower than that loses them.
        let _ = tokio::time::timeout(limit, sent).await;
    }
}

pub(super) fn rate() -> f64 {
    f64::from_bits(RATE.load(Ordering::Relaxed))
}

pub(super) fn put(ended: Box<Ended>) {
    let sender = SENDER.load();
    let Some(sender) = sender.as_ref() else { return };
    if sender.try_send(Queued::Span(ended)).is_err() {
        NUMBERS.spans.count("dropped");
    }
}
