//! The loop of an open connection, whatever it speaks.
//!
//! One task does both directions, so a connection costs little and its order is
//! plain: it reads what is there, answers what can be answered at once, and
//! writes all that waits in one flush.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::{Interval, MissedTickBehavior, interval_at};
use tracing::Instrument;

use crate::bus::{Batch, Closing, Event, Item, Outbox, Subscriber};
use crate::support::BoxFuture;
use crate::telemetry::asked;
use crate::telemetry::metrics::OpenConnection;

use super::footing::Footing;
use super::frames::Frames;
use super::leave::Leave;
use super::socket::{Received, Rest, Socket, Utf8Bytes};
use super::upgrade::Gateway;

/// Messages that are read before what they caused is written.
const READ_BURST: usize = 64;

/// What is said on a connection. Always behind a pointer, so that the loop is compiled once.
pub trait Speaker: Send + Sync {
    /// How often it pings; a missing pong has no consequence.
    fn ping_every(&self) -> Duration;

    /// Its place in the bus.
    fn subscriber(&self) -> &Arc<Subscriber>;

    /// Begins: what is put into the outbox here is sent first.
    fn begin(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// A message came; what of it waits for something, if any does. While that waits, nothing
    /// else is read or written: what takes long is a task.
    fn hear(&mut self, message: Utf8Bytes) -> Option<BoxFuture<'_, ()>>;

    /// A binary message came. Nobody minds it, where texts are spoken.
    fn hear_binary(&mut self, message: Bytes) -> Option<BoxFuture<'_, ()>> {
        drop(message);
        None
    }

    /// Nothing more has come for now: what it held back is put into the outbox. Who is
    /// told to close meanwhile does not get it, like what he asked later.
    fn settle(&mut self) {}

    /// Adds the frame for an event, unless it is one that is not told.
    fn render(&mut self, event: &Event, frames: &mut Frames);

    /// The last words of a connection that is told to close and is not cut off:
    /// what it still owes its client.
    fn farewell(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Permits of what is under way; without one left, nothing is read, and TCP
    /// tells the client.
    fn in_flight(&self) -> Option<&Semaphore> {
        None
    }
}

/// A connection of a dialect that was let in and is about to become a WebSocket.
pub struct Opened {
    dialect: &'static str,
    speaker: Box<dyn Speaker>,
}

impl Opened {
    /// The connection of `dialect` that `speaker` serves. It is in the hub while it
    /// lasts, so it ends with what let it in.
    pub fn new(dialect: &'static str, speaker: impl Speaker + 'static) -> Self {
        Self { dialect, speaker: Box::new(speaker) }
    }

    /// Serves it to its end; says why it ended.
    pub async fn run(self, gateway: Arc<Gateway>, socket: Socket, footing: Footing) -> String {
        let subscriber = Arc::clone(self.speaker.subscriber());
        gateway.door.join(&subscriber);
        let open = OpenConnection::new(subscriber.principal.role().as_str(), self.dialect);
        let conn_id = Arc::clone(&subscriber.conn_id);
        let leave = Leave::new(Arc::clone(&gateway), conn_id, None, open);
        footing.look_again(&gateway, &subscriber).await;
        let marked = asked::connection(&subscriber.conn_id);
        let (end, rest) = serve(socket, self.speaker).instrument(marked).await;
        drop(leave);
        rest.finish().await;
        end
    }
}

/// What the loop does next.
enum Turn {
    Read(Received),
    Write,
    Ping,
}

/// How a connection ended whose peer did not say good-bye.
const GONE: &str = "gone";

/// What somebody hears whose message is over the limit (#10243): sent again, it would
/// be again.
const TOO_LARGE: &str = "message too large (maxPayload); upload files by POST /api/chat/uploads";

/// Serves a connection to its end; says why it ended, and what may still come of it.
pub(super) async fn serve(mut socket: Socket, mut speaker: Box<dyn Speaker>) -> (String, Rest) {
    let speaker = &mut *speaker;
    speaker.begin().await;
    let subscriber = Arc::clone(speaker.subscriber());
    let outbox = &subscriber.outbox;
    let mut pings = pings(speaker.ping_every());
    let mut burst = 0;
    loop {
        let is_sated = burst >= READ_BURST;
        let turn = turn(&mut socket, speaker, outbox, &mut pings, is_sated).await;
        burst = if matches!(turn, Turn::Read(_)) { burst + 1 } else { 0 };
        match turn {
            Turn::Read(Received::Message(message)) => wait(speaker.hear(message)).await,
            Turn::Read(Received::Binary(message)) => wait(speaker.hear_binary(message)).await,
            Turn::Read(Received::TooLarge) => {
                write_rest(&mut socket, speaker).await;
                return ("message too large".into(), socket.close(1009, TOO_LARGE).await);
            }
            Turn::Read(Received::Broken(code)) => {
                write_rest(&mut socket, speaker).await;
                let end = format!("broken frames, closed with {code}");
                return (end, socket.close(code, "").await);
            }
            Turn::Read(Received::Gone(code)) => {
                let rest = rest(speaker);
                let end = code.map_or_else(|| GONE.into(), |code| format!("closed with {code}"));
                return (end, socket.part(frames_of(speaker, rest)));
            }
            Turn::Ping if !ping(&mut socket, speaker).await => return gone(),
            Turn::Ping | Turn::Read(Received::Control) => {}
            Turn::Write => match outbox.take() {
                Batch::Items(items) => {
                    if !write(&mut socket, speaker, items).await {
                        return gone();
                    }
                }
                Batch::Empty => {}
                Batch::Close(Closing { code, reason, drains }) => {
                    // A peer that was cut off does not read: whoever wrote to it would wait.
                    let last = if drains { speaker.farewell() } else { Vec::new() };
                    let items: Vec<_> = last.into_iter().map(Item::Frame).collect();
                    if !items.is_empty() && !write(&mut socket, speaker, items).await {
                        return gone();
                    }
                    let conn_id = &subscriber.conn_id;
                    tracing::debug!(conn = %conn_id, code, %reason, "closing");
                    let end = format!("closed with {code} {reason}");
                    return (end, socket.close(code, &reason).await);
                }
            },
        }
    }
}

async fn wait(heard: Option<BoxFuture<'_, ()>>) {
    if let Some(heard) = heard {
        heard.await;
    }
}

fn gone() -> (String, Rest) {
    (GONE.into(), Rest::default())
}

/// Whatever stops the reading also ends the turn: the burst at once, since it
/// may have caused nothing to write; the lack of permits with the next. Who was told to
/// close is heard no more, whatever of him has come already: it may be that he has no
/// right any more to ask for anything, and nothing is answered.
async fn turn(
    socket: &mut Socket,
    speaker: &mut dyn Speaker,
    outbox: &Outbox,
    pings: &mut Interval,
    is_sated: bool,
) -> Turn {
    if is_sated {
        speaker.settle();
        return Turn::Write;
    }
    let has_room = speaker.in_flight().is_none_or(|permits| permits.available_permits() > 0);
    if !has_room {
        speaker.settle();
        return without_room(socket, speaker, outbox, pings).await;
    }
    let mut ready = pin!(outbox.ready());
    // Where several messages have come at once, the next one waits for nothing.
    let turn = poll_fn(|task| {
        if let Poll::Ready(received) = socket.poll_receive(task) {
            return Poll::Ready(Turn::Read(received));
        }
        speaker.settle();
        if ready.as_mut().poll(task).is_ready() {
            return Poll::Ready(Turn::Write);
        }
        pings.poll_tick(task).map(|_| Turn::Ping)
    });
    match turn.await {
        Turn::Read(Received::Message(_) | Received::Binary(_)) if outbox.is_closing() => {
            Turn::Write
        }
        turn => turn,
    }
}

/// The turn of a connection that is read no more before something is answered.
async fn without_room(
    socket: &mut Socket,
    speaker: &dyn Speaker,
    outbox: &Outbox,
    pings: &mut Interval,
) -> Turn {
    let permit = async {
        match speaker.in_flight() {
            Some(permits) => drop(permits.acquire().await),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = outbox.ready() => Turn::Write,
        () = permit => Turn::Write,
        _ = pings.tick() => Turn::Ping,
        () = socket.pong() => Turn::Write,
    }
}

/// `false` when the peer is gone. Like a write, a ping waits for a peer that
/// does not read.
async fn ping(socket: &mut Socket, speaker: &dyn Speaker) -> bool {
    let outbox = &speaker.subscriber().outbox;
    outbox.unless_cut(socket.ping()).await.unwrap_or(true)
}

/// Writes a batch in one flush; `false` when the peer is gone. A peer that does
/// not read is left waiting here until its queue is cut; the loop then finds the
/// close in the outbox.
async fn write(socket: &mut Socket, speaker: &mut dyn Speaker, items: Vec<Item>) -> bool {
    let frames = frames_of(speaker, items);
    speaker.subscriber().outbox.unless_cut(socket.write(frames)).await.unwrap_or(true)
}

fn frames_of(speaker: &mut dyn Speaker, items: Vec<Item>) -> Frames {
    let texts = items.iter().filter(|item| !matches!(item, Item::Written(_)));
    let mut frames = Frames::for_texts(texts.map(Item::len));
    for item in items {
        match item {
            Item::Frame(text) => frames.push(text),
            Item::Written(written) => frames.push_written(written),
            Item::Response(response) => frames.push_response(response),
            Item::Event(event) => speaker.render(&event, &mut frames),
        }
    }
    frames
}

/// What was caused by messages before the last one, and is not written yet: all of it,
/// which the outbox bounds.
fn rest(speaker: &mut dyn Speaker) -> Vec<Item> {
    speaker.settle();
    let mut rest = Vec::new();
    while let Batch::Items(items) = speaker.subscriber().outbox.take() {
        rest.extend(items);
    }
    rest
}

async fn write_rest(socket: &mut Socket, speaker: &mut dyn Speaker) {
    let rest = rest(speaker);
    // If the peer is gone, closing finds out as well.
    let _ = rest.is_empty() || write(socket, speaker, rest).await;
}

fn pings(every: Duration) -> Interval {
    let mut pings = interval_at(tokio::time::Instant::now() + every, every);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings
}
