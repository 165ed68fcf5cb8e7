//! One open connection: takes requests, gives answers and events.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::auth::Peer;
use crate::bus::{Closing, Event, SLOW, Subscriber};
use crate::protocol::hello::MAX_BUFFERED_BYTES;
use crate::protocol::{
    ErrorShape, FrameError, MAX_SPARE, Request, Response, parse_binary, parse_request, response_err,
};
use crate::registry::{Answer, Caller, Ctx, Denial, Exchange, Reply};
use crate::support::{BoxFuture, json, millis, stability};
use crate::telemetry::asked;

use super::frames::{Frames, append_frame};
use super::handshake;
use super::leave::Leave;
use super::render::View;
use super::socket::{Socket, Utf8Bytes};
use super::talk::{self, Speaker};
use super::upgrade::Gateway;
use super::welcome::Welcome;

/// Requests of one connection that may be under way; beyond it we stop
/// reading, and TCP tells the client.
const MAX_IN_FLIGHT: usize = 64;
/// Bytes of answers with what is kept that may be held back. What is in the outbox in one
/// piece is taken out in one, and is not counted any more while it is written; a larger
/// answer is shared, not copied.
const MAX_HELD_BACK: usize = 16 * 1024;
/// More refusals for a wrong role in a row than this end the connection.
const MAX_ROLE_REFUSALS: u32 = 10;

/// Serves a socket from its upgrade to its end.
pub async fn run(gateway: Arc<Gateway>, socket: Socket, peer: Peer) {
    // Boxed, so that its space is given back while the connection lasts.
    let Some((connection, socket, leave)) = Box::pin(admit(gateway, socket, peer)).await else {
        return;
    };
    let client = Arc::clone(&connection.cx.caller.client_id);
    let began = tokio::time::Instant::now();
    let (end, rest) = talk::serve(socket, Box::new(connection)).await;
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
    drop(leave);
    rest.finish().await;
}

/// The handshake; `None` when it ended with a farewell.
async fn admit(
    gateway: Arc<Gateway>,
    mut socket: Socket,
    peer: Peer,
) -> Option<(Connection, Socket, Leave)> {
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
    let connection = Connection {
        gateway,
        cx,
        view,
        in_flight: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
        role_refusals: 0,
        held_back: Vec::new(),
        held_back_last: 0,
    };
    Some((connection, socket, leave))
}

struct Connection {
    gateway: Arc<Gateway>,
    cx: Ctx,
    view: View,
    in_flight: Arc<Semaphore>,
    role_refusals: u32,
    /// Answers with what is kept that are not in the outbox yet, as frames.
    held_back: Vec<u8>,
    /// How many bytes were the last that went there.
    held_back_last: usize,
}

impl Speaker for Connection {
    /// As the original.
    fn ping_every(&self) -> Duration {
        Duration::from_secs(25)
    }

    fn subscriber(&self) -> &Arc<Subscriber> {
        &self.cx.caller.subscriber
    }

    fn hear(&mut self, message: Utf8Bytes) -> Option<BoxFuture<'_, ()>> {
        self.frame(parse_request(&message));
        None
    }

    fn hear_binary(&mut self, message: Bytes) -> Option<BoxFuture<'_, ()>> {
        self.frame(parse_binary(&message));
        None
    }

    fn settle(&mut self) {
        if !self.held_back.is_empty() {
            let mut written = std::mem::take(&mut self.held_back);
            self.held_back_last = written.len();
            written.shrink_to(written.len() + MAX_SPARE);
            self.cx.caller.subscriber.outbox.written(written);
        }
    }

    fn render(&mut self, event: &Event, frames: &mut Frames) {
        self.view.render(event, frames);
    }

    fn in_flight(&self) -> Option<&Semaphore> {
        Some(&self.in_flight)
    }
}

impl Connection {
    fn frame(&mut self, frame: Result<Request<'_>, FrameError>) {
        match frame {
            Ok(request) => self.request(request),
            // Recorded: ignored, the connection stays.
            Err(FrameError::NotJson) => {}
            Err(FrameError::NotRequest { id, text }) => {
                let error = ErrorShape::invalid(format!("invalid request frame: {text}"));
                self.settle();
                self.answer_error(&id, &error);
            }
        }
    }

    /// Answers with what is kept for the method, or calls it. What can be answered
    /// without waiting is answered right here; only what waits becomes a task.
    fn request(&mut self, request: Request<'_>) {
        let Request { id, method, params } = request;
        if params.is_none() && self.answer_kept(&id, &method) {
            self.role_refusals = 0;
            return;
        }
        self.settle();
        let id: Arc<str> = id.into();
        let (cx, exchange) = self.cx.for_request(Arc::clone(&id));
        let conn_id = Arc::clone(&self.cx.caller.subscriber.conn_id);
        let mut mark = asked::Frame::new(conn_id, Arc::clone(&id));
        let registry = &self.gateway.services.registry;
        let begun = mark.within(|| {
            let mut call = registry.call(cx, &method, params)?;
            // What waits is asked again, by the task that waits for it.
            let polled = call.poll_unpin(&mut Context::from_waker(Waker::noop()));
            Ok((call, polled))
        });
        let (mut call, polled) = match begun {
            Ok(begun) => begun,
            Err(denial) => return self.deny(&id, &denial),
        };
        self.role_refusals = 0;
        if let Poll::Ready(reply) = polled {
            return respond(&self.cx.caller, &id, reply, &exchange);
        }
        // Given back with the first answer: a request that has one waits for
        // something else, and that has its own limits.
        exchange.hold(Arc::clone(&self.in_flight).try_acquire_owned());
        let caller = Arc::clone(&self.cx.caller);
        self.cx.services.tasks.spawn("request", async move {
            let reply = poll_fn(|task| mark.poll(&mut call, task)).await;
            respond(&caller, &id, reply, &exchange);
        });
    }

    /// Answers with what is kept for a method; `false` where it has to be called. The
    /// answer is written here, and goes out with those to other requests that came with it.
    fn answer_kept(&mut self, id: &str, method: &str) -> bool {
        let Ctx { services, caller, .. } = &self.cx;
        let held_back = &mut self.held_back;
        let is_answered = services.registry.kept(services, caller, method, &mut |payload| {
            let Some(parts) = Response::parts(id, payload) else { return false };
            if parts.iter().map(|part| part.len()).sum::<usize>() > MAX_HELD_BACK {
                return false;
            }
            if held_back.is_empty() {
                held_back.reserve(self.held_back_last);
            }
            append_frame(held_back, &parts);
            true
        });
        if self.held_back.len() >= MAX_HELD_BACK {
            self.settle();
        }
        is_answered
    }

    fn deny(&mut self, id: &str, denial: &Denial) {
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

/// Gives the answer to the request `id`.
fn respond(caller: &Caller, id: &Arc<str>, reply: Reply<Answer>, exchange: &Exchange) {
    let outbox = &caller.subscriber.outbox;
    match reply.and_then(|answer| bounded(answer.response(id))) {
        Ok(response) => outbox.respond(response),
        Err(error) => outbox.answer(response_err(&Value::from(&**id), &error, caller.profile)),
    };
    exchange.answered();
}

/// An answer that may wait for its client. For one that may not he would be closed as if he
/// did not read, and would ask again.
fn bounded(response: Response) -> Reply<Response> {
    let bytes = response.len();
    if bytes <= MAX_BUFFERED_BYTES {
        return Ok(response);
    }
    let text = format!(
        "the answer has {bytes} bytes, at most {MAX_BUFFERED_BYTES} may wait for one client; \
         ask for less"
    );
    let details = json!({"bytes": bytes, "maxBufferedBytes": MAX_BUFFERED_BYTES});
    Err(ErrorShape::invalid(text).details(details))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Principal;
    use crate::bus::{Batch, Item};
    use crate::protocol::{Profile, Version};

    #[test]
    fn who_asks_for_more_than_may_wait_for_him_hears_so_and_stays() {
        let principal = Arc::new(Principal::of_this_machine());
        let caller = Caller {
            subscriber: Arc::new(Subscriber::new("c".into(), Arc::clone(&principal), &[])),
            principal,
            profile: Profile::Standard(Version::V3),
            client_id: "x".into(),
            person: None,
            name: "x".into(),
            place: None,
            is_webchat: false,
            is_dashboard: false,
            is_retrying: true,
            key_names: Arc::default(),
        };
        let (id, outbox) = (Arc::<str>::from("1"), &caller.subscriber.outbox);
        let answer = Answer::Own(format!("\"{}\"", "x".repeat(MAX_BUFFERED_BYTES)));
        respond(&caller, &id, Ok(answer), &Exchange::new(Arc::clone(&id)));
        assert!(!outbox.is_closing());
        let Batch::Items(items) = outbox.take() else { panic!("nothing is answered") };
        let [Item::Frame(frame)] = items.as_slice() else { panic!("it is answered otherwise") };
        let frame: Value = serde_json::from_str(frame).unwrap();
        assert_eq!(
            (&frame["id"], &frame["error"]["code"]),
            (&json!("1"), &json!("INVALID_REQUEST"))
        );
        assert_eq!(frame["error"]["details"]["maxBufferedBytes"], MAX_BUFFERED_BYTES);
    }
}
