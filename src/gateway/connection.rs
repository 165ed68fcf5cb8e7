//! One open connection: reads requests, writes answers and events.
//!
//! One task does both, so a connection costs little and its order is plain: it
//! reads what is there, answers what can be answered at once, and writes all
//! that waits in one flush.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{Interval, MissedTickBehavior, interval_at};

use crate::auth::Peer;
use crate::bus::{Batch, Closing, Item, SLOW};
use crate::protocol::{ErrorShape, FrameError, Request, parse_request, response_err, response_ok};
use crate::registry::{Ctx, Denial};
use crate::support::{millis, stability};

use super::handshake::{self, Welcome};
use super::leave::Leave;
use super::render::View;
use super::socket::{Received, Socket};
use super::upgrade::Gateway;

/// The original pings every 25 s; a missing pong has no consequence.
const PING_EVERY: Duration = Duration::from_secs(25);
/// Requests of one connection that may be under way; beyond it we stop
/// reading, and TCP tells the client.
const MAX_IN_FLIGHT: usize = 64;
/// Messages that are read before what they caused is written.
const READ_BURST: usize = 64;
/// More refusals for a wrong role in a row than this end the connection.
const MAX_ROLE_REFUSALS: u32 = 10;

/// Serves a socket from its upgrade to its end.
pub async fn run(gateway: Arc<Gateway>, socket: Socket, peer: Peer) {
    // Boxed, so that its space is given back while the connection lasts.
    let Some((connection, leave)) = Box::pin(admit(gateway, socket, peer)).await else {
        return;
    };
    let client = Arc::clone(&connection.cx.caller.client_id);
    let began = tokio::time::Instant::now();
    let end = connection.serve().await;
    let members = json!({
        "source": &*client,
        "connId": &*leave.conn_id,
        "reason": end,
        "durationMs": millis(began.elapsed()),
    });
    stability::note(
        if end.ends_with(SLOW) { "connection.slow" } else { "connection.closed" },
        members,
    );
    tracing::info!(conn = %leave.conn_id, %end, "disconnected");
}

/// The handshake; `None` when it ended with a farewell.
async fn admit(
    gateway: Arc<Gateway>,
    mut socket: Socket,
    peer: Peer,
) -> Option<(Connection, Leave)> {
    let welcome = match handshake::run(&gateway, &mut socket, &peer).await {
        Ok(welcome) => welcome,
        Err(farewell) => {
            if let Some(farewell) = farewell {
                farewell.say(socket).await;
            }
            return None;
        }
    };
    let Welcome { caller, view, leave } = welcome;
    let cx = Ctx::new(Arc::clone(&gateway.services), caller);
    let in_flight = Arc::new(Semaphore::new(MAX_IN_FLIGHT));
    Some((Connection { gateway, cx, view, socket, in_flight, role_refusals: 0 }, leave))
}

struct Connection {
    gateway: Arc<Gateway>,
    cx: Ctx,
    view: View,
    socket: Socket,
    in_flight: Arc<Semaphore>,
    role_refusals: u32,
}

/// What the main loop does next.
enum Turn {
    Read(Received),
    Write,
    Ping,
}

impl Connection {
    async fn serve(mut self) -> String {
        let mut pings = pings();
        let mut burst = 0;
        loop {
            let turn = self.turn(&mut pings, burst >= READ_BURST).await;
            burst = if matches!(turn, Turn::Read(_)) { burst + 1 } else { 0 };
            match turn {
                Turn::Read(Received::Message(message)) => self.receive(&message).await,
                Turn::Read(Received::TooLarge) => {
                    self.socket.close(1009, "").await;
                    return "message too large".into();
                }
                Turn::Read(Received::Gone(code)) => {
                    return code
                        .map_or_else(|| "gone".into(), |code| format!("closed with {code}"));
                }
                Turn::Ping if !self.ping().await => return "gone".into(),
                Turn::Ping | Turn::Read(Received::Control) => {}
                Turn::Write => match self.cx.caller.subscriber.outbox.take() {
                    Batch::Items(items) => {
                        if !self.write(items).await {
                            return "gone".into();
                        }
                    }
                    Batch::Empty => {}
                    Batch::Close(Closing { code, reason, .. }) => {
                        let conn_id = &self.cx.caller.subscriber.conn_id;
                        tracing::debug!(conn = %conn_id, code, %reason, "closing");
                        self.socket.close(code, &reason).await;
                        return format!("closed with {code} {reason}");
                    }
                },
            }
        }
    }

    /// Whatever stops the reading also ends the turn: the burst at once, since
    /// it may have caused nothing to write; the lack of permits with the next.
    async fn turn(&mut self, pings: &mut Interval, is_sated: bool) -> Turn {
        let has_room = self.in_flight.available_permits() > 0;
        let outbox = &self.cx.caller.subscriber.outbox;
        tokio::select! {
            biased;
            received = self.socket.receive(), if has_room && !is_sated => Turn::Read(received),
            () = outbox.ready() => Turn::Write,
            () = std::future::ready(()), if is_sated => Turn::Write,
            _ = self.in_flight.acquire(), if !has_room => Turn::Write,
            _ = pings.tick() => Turn::Ping,
        }
    }

    /// `false` when the peer is gone. Like a write, a ping waits for a peer that
    /// does not read.
    async fn ping(&mut self) -> bool {
        let outbox = &self.cx.caller.subscriber.outbox;
        outbox.unless_cut(self.socket.ping()).await.unwrap_or(true)
    }

    /// Writes a batch in one flush; `false` when the peer is gone. A peer that
    /// does not read is left waiting here until its queue is cut; the main loop
    /// then finds the close in the outbox.
    async fn write(&mut self, items: Vec<Item>) -> bool {
        let Self { cx, view, socket, .. } = self;
        let outbox = &cx.caller.subscriber.outbox;
        let send = async {
            for item in items {
                let text = match item {
                    Item::Frame(text) => text,
                    Item::Event(event) => view.render(&event),
                };
                if !socket.feed(text).await {
                    return false;
                }
            }
            socket.flush().await
        };
        outbox.unless_cut(send).await.unwrap_or(true)
    }

    async fn receive(&mut self, message: &Bytes) {
        match parse_request(message) {
            Ok(request) => self.request(request).await,
            // Recorded: ignored, the connection stays.
            Err(FrameError::NotJson) => {}
            Err(FrameError::NotRequest { id, text }) => {
                let error = ErrorShape::invalid(format!("invalid request frame: {text}"));
                self.answer_error(&id, &error);
            }
        }
    }

    /// Calls the method. What can be answered without waiting is answered
    /// right here; only what waits becomes a task.
    async fn request(&mut self, request: Request) {
        let Request { id, method, params } = request;
        let (cx, exchange) = self.cx.for_request(id);
        let mut answer = match self.gateway.services.registry.call(cx, &method, params) {
            Ok(answer) => answer,
            Err(denial) => return self.deny(exchange.id.as_deref(), &denial),
        };
        self.role_refusals = 0;
        let profile = self.cx.caller.profile;
        let subscriber = Arc::clone(&self.cx.caller.subscriber);
        let asked = Arc::clone(&exchange);
        let respond = move |reply: Result<String, ErrorShape>| {
            let id = asked.id.as_deref().unwrap_or_default();
            subscriber.outbox.answer(match reply {
                Ok(payload) => response_ok(id, &payload),
                Err(error) => response_err(&Value::from(id), &error, profile),
            });
            asked.answered();
        };
        if let Poll::Ready(reply) = futures_util::poll!(&mut answer) {
            return respond(reply);
        }
        // Given back with the first answer: a request that has one waits for
        // something else, and that has its own limits.
        exchange.hold(Arc::clone(&self.in_flight).try_acquire_owned());
        self.cx.services.tasks.spawn("request", async move { respond(answer.await) });
    }

    fn deny(&mut self, id: Option<&str>, denial: &Denial) {
        if !denial.wrong_role {
            self.role_refusals = 0;
        } else if self.role_refusals > MAX_ROLE_REFUSALS {
            let reason = "repeated unauthorized calls".into();
            let closing = Closing { code: 1008, reason, drains: true };
            return self.cx.caller.subscriber.outbox.close(closing);
        } else {
            self.role_refusals += 1;
        }
        self.answer_error(&Value::from(id), &denial.error);
    }

    fn answer_error(&self, id: &Value, error: &ErrorShape) {
        let frame = response_err(id, error, self.cx.caller.profile);
        self.cx.caller.subscriber.outbox.answer(frame);
    }
}

fn pings() -> Interval {
    let mut pings = interval_at(tokio::time::Instant::now() + PING_EVERY, PING_EVERY);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings
}
