//! What waits to be sent on one connection.
//!
//! Owns: one queue for answers and events, so their order is defined.
//! Promises: bounded in bytes, and so are the answers of all of them together, where more
//! than a few wait; an older delta of a run gives way to a newer one, never to the end;
//! when the bound is reached the queue is freed at once and the connection is told to
//! close. The writer numbers events when it takes them, so nothing that happens here can
//! make a hole in `seq` (#12895).

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::protocol::Response;
use crate::protocol::hello::MAX_BUFFERED_BYTES;
use crate::support::sync::{AtomicBool, Mutex, Notify};
use crate::telemetry::metrics::NUMBERS;

use super::event::Event;

/// Most items that one batch takes: enough to fill a flush, little enough
/// that reading is not starved.
const BATCH_ITEMS: usize = 64;
/// Bytes after which a batch is full.
const BATCH_BYTES: usize = 64 * 1024;
/// A queue that once was long gives its memory back.
const KEEP_CAPACITY: usize = 64;

/// Answers that wait on all connections together, in bytes. Each counts in full, also one
/// that others have as well, since its queue may be the last to have it; an event does not.
/// Beyond it nothing is added where much waits already.
const ALL_ANSWERS: usize = 512 * 1024 * 1024;
/// What waits for somebody who reads is less.
const LITTLE: usize = 1024 * 1024;
/// As long as no more than this waits for a client, its answers are not counted among them:
/// all who read would count at one place, and wait there for each other.
const FEW: usize = 16 * 1024;

static ANSWERS: AtomicUsize = AtomicUsize::new(0);

/// The reason that a connection is told which does not read.
pub const SLOW: &str = "slow consumer";

/// Something to send.
#[derive(Debug, Clone)]
pub enum Item {
    /// A complete frame: an answer, or whatever a dialect says.
    Frame(String),
    /// Answers in the form in which they go to the client.
    Written(Vec<u8>),
    /// An answer in its parts.
    Response(Response),
    /// An event, still to be numbered.
    Event(Arc<Event>),
}

impl Item {
    /// Bytes that it takes in a queue.
    #[allow(clippy::len_without_is_empty)] // it never is
    pub fn len(&self) -> usize {
        match self {
            Self::Frame(text) => text.len(),
            Self::Written(frames) => frames.len(),
            Self::Response(response) => response.len(),
            Self::Event(event) => event.len(),
        }
    }
}

/// Why the gateway ends a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closing {
    /// WebSocket close code.
    pub code: u16,
    /// At most 120 bytes of it are sent.
    pub reason: String,
    /// Whether what waits in the queue is sent before.
    pub drains: bool,
}

impl Closing {
    /// What let it in does so no more: it is cut off.
    pub fn auth_changed() -> Self {
        Self { code: 4001, reason: "gateway auth changed".into(), drains: false }
    }

    /// The device has no right to be here any more: it is cut off.
    pub fn device_removed() -> Self {
        Self { code: 4001, reason: "device removed".into(), drains: false }
    }

    /// It has ended; nobody is told.
    pub fn gone() -> Self {
        Self { code: 1001, reason: "gone".into(), drains: false }
    }
}

/// What [`Outbox::take`] gives.
#[derive(Debug)]
pub enum Batch {
    /// Send these.
    Items(Vec<Item>),
    /// Nothing waits.
    Empty,
    /// Send a close frame.
    Close(Closing),
}

/// Bytes of an answer that waits.
#[derive(Debug)]
struct Held(usize);

impl Held {
    fn of(item: &Item) -> Self {
        let bytes = item.len();
        ANSWERS.fetch_add(bytes, Ordering::Relaxed);
        Self(bytes)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        ANSWERS.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// A place in a queue. It is small: an event takes one on each connection, and to fill a
/// place that is in no cache is most of what queueing it costs.
#[derive(Debug)]
enum Slot {
    Event(Arc<Event>),
    /// Anything else, in a box that keeps places small, and what it counts among all
    /// answers, if it does.
    Other(Box<(Item, Option<Held>)>),
    /// A delta that gave way to a newer one.
    Empty,
}

const _: () = assert!(size_of::<Slot>() <= 16);

impl Slot {
    /// `is_counted` says whether it counts among all answers, which an event never does.
    fn new(item: Item, is_counted: bool) -> Self {
        match item {
            Item::Event(event) => Self::Event(event),
            other => {
                let held = is_counted.then(|| Held::of(&other));
                Self::Other(Box::new((other, held)))
            }
        }
    }

    fn into_item(self) -> Option<Item> {
        match self {
            Self::Event(event) => Some(Item::Event(event)),
            Self::Other(other) => Some(other.0),
            Self::Empty => None,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Slot>,
    /// How many items were taken from the front so far.
    taken: u64,
    /// Position (counted from the start of time) of the waiting delta of a run.
    deltas: HashMap<Arc<str>, u64>,
    bytes: usize,
    closing: Option<Closing>,
}

/// The queue of one connection.
#[derive(Debug, Default)]
pub struct Outbox {
    state: Mutex<State>,
    /// Whether the state has a closing; written under its lock.
    is_closing: AtomicBool,
    ready: Notify,
    cut: Notify,
    ended: Notify,
}

impl Outbox {
    /// Adds an answer; `false` when it is too late for it: the connection was told
    /// to close.
    pub fn answer(&self, frame: String) -> bool {
        self.push(Item::Frame(frame), None)
    }

    /// The same with an answer in its parts.
    pub fn respond(&self, response: Response) -> bool {
        self.push(Item::Response(response), None)
    }

    /// The same with several that were written already.
    pub fn written(&self, frames: Vec<u8>) -> bool {
        self.push(Item::Written(frames), None)
    }

    /// Adds an event.
    pub fn event(&self, event: &Arc<Event>) {
        let replaces =
            event.chat.as_ref().map(|mark| (Arc::clone(&mark.run_id), mark.text.is_some()));
        self.push(Item::Event(Arc::clone(event)), replaces);
    }

    /// Ends the connection; the first reason wins. Whoever is to be cut off is, also
    /// when he was to get what waits before: he may not be reading.
    pub fn close(&self, closing: Closing) {
        let mut state = self.state.lock();
        match state.closing.take() {
            None => self.end(&mut state, closing),
            Some(first) if first.drains && !closing.drains => {
                self.end(&mut state, Closing { drains: false, ..first });
            }
            first => state.closing = first,
        }
        drop(state);
        self.ready.notify_one();
    }

    /// Whether the connection was told to close: nothing more is answered.
    pub fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Whether it was told to close without sending the rest before.
    pub fn is_cut(&self) -> bool {
        self.state.lock().closing.as_ref().is_some_and(|closing| !closing.drains)
    }

    /// Waits until [`Self::is_closing`].
    pub async fn closes(&self) {
        // Listening before looking, so that an end between is not missed.
        let mut ended = pin!(self.ended.notified());
        ended.as_mut().enable();
        if !self.is_closing() {
            ended.await;
        }
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// Waits until [`Self::take`] has something to give.
    pub async fn ready(&self) {
        self.ready.notified().await;
    }

    /// What `sending` gives; `None` when the connection was told to close
    /// without sending the rest before it came to an end.
    pub async fn unless_cut<T>(&self, sending: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            sent = sending => Some(sent),
            () = self.cut.notified() => None,
        }
    }

    /// Takes what can be sent in one flush.
    pub fn take(&self) -> Batch {
        let mut state = self.state.lock();
        let mut items = Vec::with_capacity(state.queue.len().min(BATCH_ITEMS));
        let mut bytes = 0;
        while items.len() < BATCH_ITEMS && bytes < BATCH_BYTES {
            let Some(slot) = state.queue.pop_front() else { break };
            state.taken += 1;
            let Some(item) = slot.into_item() else { continue };
            state.bytes -= item.len();
            bytes += item.len();
            if let Item::Event(event) = &item
                && let Some(mark) = &event.chat
            {
                let position = state.taken - 1;
                if state.deltas.get(&mark.run_id) == Some(&position) {
                    state.deltas.remove(&mark.run_id);
                }
            }
            items.push(item);
        }
        if state.queue.is_empty() && state.queue.capacity() > KEEP_CAPACITY {
            state.queue.shrink_to(KEEP_CAPACITY);
        }
        if !items.is_empty() {
            if !state.queue.is_empty() || state.closing.is_some() {
                self.ready.notify_one();
            }
            return Batch::Items(items);
        }
        state.closing.clone().map_or(Batch::Empty, Batch::Close)
    }

    fn push(&self, item: Item, chat: Option<(Arc<str>, bool)>) -> bool {
        let mut state = self.state.lock();
        if state.closing.is_some() {
            return false;
        }
        match chat {
            Some((run_id, true)) => {
                state.drop_waiting_delta(&run_id);
                let position = state.taken + u64::try_from(state.queue.len()).unwrap_or(u64::MAX);
                state.deltas.insert(run_id, position);
            }
            // The last delta stays: a client that appends needs it.
            Some((run_id, false)) => {
                state.deltas.remove(&run_id);
            }
            None => {}
        }
        // Who found something here was told, or will look again.
        let is_first = state.queue.is_empty();
        let is_one_too_many = state.bytes > LITTLE && ANSWERS.load(Ordering::Relaxed) > ALL_ANSWERS;
        state.bytes += item.len();
        let slot = Slot::new(item, state.bytes > FEW);
        state.queue.push_back(slot);
        if state.bytes > MAX_BUFFERED_BYTES || is_one_too_many {
            let reason = SLOW.into();
            NUMBERS.slow.count();
            self.end(&mut state, Closing { code: 1008, reason, drains: false });
        }
        let is_news = is_first || state.closing.is_some();
        drop(state);
        if is_news {
            self.ready.notify_one();
        }
        true
    }

    fn end(&self, state: &mut State, closing: Closing) {
        // Before anybody is told: who is cut looks here without the lock.
        self.is_closing.store(true, Ordering::Release);
        self.ended.notify_waiters();
        if !closing.drains {
            state.clear();
            self.cut.notify_one();
        }
        state.closing = Some(closing);
    }
}

impl State {
    /// A newer delta of the run makes the waiting one superfluous: deltas are
    /// cumulative.
    fn drop_waiting_delta(&mut self, run_id: &Arc<str>) {
        let Some(position) = self.deltas.remove(run_id) else { return };
        let index = usize::try_from(position - self.taken).unwrap_or(usize::MAX);
        let Some(slot) = self.queue.get_mut(index) else { return };
        if let Some(item) = mem::replace(slot, Slot::Empty).into_item() {
            self.bytes -= item.len();
            NUMBERS.coalesced.count();
        }
    }

    fn clear(&mut self) {
        self.queue = VecDeque::new();
        self.deltas = HashMap::new();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::{ChatMark, EventKind};
    use crate::support::json;

    fn delta(run: &str, text: &str) -> Arc<Event> {
        let mark = ChatMark { run_id: run.into(), text: Some(text.into()), begins: false };
        Arc::new(Event::new(EventKind::Chat, &json!({"run": run, "text": text})).chat(mark))
    }

    fn end(run: &str) -> Arc<Event> {
        let mark = ChatMark { run_id: run.into(), text: None, begins: false };
        Arc::new(Event::new(EventKind::Chat, &json!({"run": run, "end": true})).chat(mark))
    }

    fn drain(outbox: &Outbox) -> Vec<String> {
        let mut sent = Vec::new();
        while let Batch::Items(items) = outbox.take() {
            sent.extend(items.into_iter().map(|item| match item {
                Item::Frame(text) => text,
                Item::Written(frames) => String::from_utf8(frames).unwrap(),
                Item::Response(response) => response.into_text(),
                Item::Event(event) => event.payload().to_owned(),
            }));
        }
        sent
    }

    #[test]
    fn a_waiting_delta_gives_way_to_a_newer_one_of_its_run_only() {
        let outbox = Outbox::default();
        outbox.event(&delta("a", "1"));
        outbox.answer("answer".into());
        outbox.event(&delta("b", "1"));
        outbox.event(&delta("a", "12"));
        assert_eq!(
            drain(&outbox),
            ["answer", r#"{"run":"b","text":"1"}"#, r#"{"run":"a","text":"12"}"#]
        );
        assert_eq!(outbox.bytes(), 0);
    }

    #[test]
    fn answers_go_out_as_they_come_and_few_of_them_are_not_counted_among_all() {
        let outbox = Outbox::default();
        let counted = || {
            let state = outbox.state.lock();
            let held = |slot: &Slot| match slot {
                Slot::Other(other) => other.1.as_ref().map(|held| held.0),
                Slot::Event(_) | Slot::Empty => None,
            };
            state.queue.iter().map(held).collect::<Vec<_>>()
        };
        let response = Response::new(&"1".into(), format!("\"{}\"", "x".repeat(FEW)));
        let (length, text) = (response.len(), response.clone().into_text());
        outbox.answer("first".into());
        outbox.event(&delta("a", "1"));
        outbox.respond(Response::new(&"2".into(), "2".into()));
        outbox.respond(response);
        outbox.event(&delta("b", "1"));
        assert_eq!(counted(), [None, None, None, Some(length), None]);
        let sent = drain(&outbox);
        assert_eq!(sent.len(), 5);
        assert_eq!(sent[2], r#"{"type":"res","id":"2","ok":true,"payload":2}"#);
        assert!(sent[3] == text);
        assert_eq!(outbox.bytes(), 0);
    }

    #[test]
    fn the_end_of_a_run_leaves_its_last_delta() {
        let outbox = Outbox::default();
        outbox.event(&delta("a", "1"));
        outbox.event(&end("a"));
        outbox.event(&delta("a", "of a later run with the same id"));
        let sent = drain(&outbox);
        assert_eq!(sent.first().map(String::as_str), Some(r#"{"run":"a","text":"1"}"#));
        assert_eq!(sent.len(), 3);
    }

    #[test]
    fn over_the_bound_the_queue_is_freed_and_the_connection_closes() {
        let outbox = Outbox::default();
        let big = "x".repeat(MAX_BUFFERED_BYTES / 2);
        outbox.answer(big.clone());
        outbox.answer(big);
        outbox.answer("the straw".into());
        assert_eq!(outbox.bytes(), 0);
        outbox.answer("too late".into());
        let Batch::Close(closing) = outbox.take() else { panic!("expected a close") };
        assert_eq!((closing.code, closing.reason.as_str()), (1008, "slow consumer"));
    }

    #[test]
    fn when_all_together_have_too_much_who_does_not_read_is_given_up() {
        // Zeros that nobody writes take no memory.
        let zeros = |bytes| String::from_utf8(vec![0; bytes]).unwrap();
        let fill = |count: usize, bytes| {
            let outboxes: Vec<_> = (0..count).map(|_| Outbox::default()).collect();
            for outbox in &outboxes {
                assert!(outbox.answer(zeros(bytes)));
                assert_eq!(outbox.bytes(), bytes);
            }
            outboxes
        };
        // Room for what other tests have meanwhile.
        let part = MAX_BUFFERED_BYTES / 2;
        let crowd = fill(ALL_ANSWERS / part - 2, part);
        let readers = fill(4 * part / LITTLE, LITTLE);
        assert!(ANSWERS.load(Ordering::Relaxed) > ALL_ANSWERS);
        readers[0].answer(zeros(part));
        assert_eq!(drain(&readers[0]).len(), 2, "who reads is not disturbed");
        crowd[0].answer("the straw".into());
        assert_eq!(crowd[0].bytes(), 0);
        assert!(matches!(crowd[0].take(), Batch::Close(Closing { code: 1008, .. })));
        drop((crowd, readers));
        assert!(ANSWERS.load(Ordering::Relaxed) < ALL_ANSWERS / 2);
    }

    #[tokio::test]
    async fn what_is_being_sent_is_given_up_when_the_queue_is_cut() {
        let outbox = Outbox::default();
        assert_eq!(outbox.unless_cut(std::future::ready(7)).await, Some(7));
        let stalled = outbox.unless_cut(std::future::pending::<()>());
        let cut = async {
            outbox.close(Closing { code: 1008, reason: "slow consumer".into(), drains: false });
        };
        assert_eq!(tokio::join!(stalled, cut).0, None);
        assert!(matches!(outbox.take(), Batch::Close(Closing { code: 1008, .. })));
    }

    #[tokio::test]
    async fn who_waits_for_a_close_hears_of_it_and_who_comes_later_at_once() {
        let outbox = Outbox::default();
        let mut closes = pin!(outbox.closes());
        assert!(futures_util::poll!(&mut closes).is_pending());
        outbox.close(Closing { code: 1012, reason: "service restart".into(), drains: true });
        assert!(futures_util::poll!(&mut closes).is_ready());
        outbox.closes().await;
    }

    #[test]
    fn a_draining_close_comes_after_what_waits() {
        let outbox = Outbox::default();
        outbox.answer("last words".into());
        assert!(!outbox.is_closing());
        outbox.close(Closing { code: 1012, reason: "service restart".into(), drains: true });
        outbox.close(Closing { code: 1008, reason: "second".into(), drains: true });
        assert!(outbox.is_closing(), "also while something waits");
        assert_eq!(drain(&outbox), ["last words"]);
        assert!(matches!(outbox.take(), Batch::Close(Closing { code: 1012, .. })));
    }

    #[tokio::test]
    async fn who_is_to_be_cut_off_is_also_while_he_is_sent_his_last_words() {
        let outbox = Outbox::default();
        outbox.answer("last words".into());
        outbox.close(Closing { code: 1012, reason: "service restart".into(), drains: true });
        assert!(!outbox.is_cut());
        let stalled = outbox.unless_cut(std::future::pending::<()>());
        let cut = async { outbox.close(Closing::device_removed()) };
        assert_eq!(tokio::join!(stalled, cut).0, None);
        assert_eq!(outbox.bytes(), 0);
        assert!(outbox.is_cut());
        assert!(outbox.is_closing());
        let first = Closing { code: 1012, reason: "service restart".into(), drains: false };
        assert!(matches!(outbox.take(), Batch::Close(closing) if closing == first));
    }

    proptest::proptest! {
        #[test]
        fn the_last_delta_of_each_run_always_arrives(
            steps in proptest::collection::vec((0..3_u8, 0..4_u8), 0..60),
        ) {
            let outbox = Outbox::default();
            let mut last: HashMap<String, String> = HashMap::new();
            let mut got: HashMap<String, String> = HashMap::new();
            let mut receive = |outbox: &Outbox| for payload in drain(outbox) {
                let value: serde_json::Value = serde_json::from_str(&payload).unwrap();
                got.insert(value["run"].as_str().unwrap().into(), value["text"].as_str().unwrap().into());
            };
            for (index, (run, action)) in steps.into_iter().enumerate() {
                let (run, text) = (run.to_string(), index.to_string());
                outbox.event(&delta(&run, &text));
                last.insert(run, text);
                if action == 0 {
                    receive(&outbox);
                }
            }
            receive(&outbox);
            proptest::prop_assert_eq!(got, last);
            proptest::prop_assert_eq!(outbox.bytes(), 0);
        }
    }
}
