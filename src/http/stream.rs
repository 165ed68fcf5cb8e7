//! Answers that do not end: events of the bus, each a line of
//! `text/event-stream` (WHATWG HTML §9.2).
//!
//! Promises: a stream is a connection like any other while it lasts: it sees what
//! its caller may see, its queue has the bound of all queues, and it ends with
//! what let it in.

use std::any::Any;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::{FutureExt, Stream, stream};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::bus::{Batch, Event, Item, Subscriber};
use crate::gateway::Leave;
use crate::registry::Ctx;
use crate::telemetry::metrics::OpenConnection;

use super::Asked;
use super::asked::{cx_with, subscriber};

/// After so long without anything to tell, a comment shows proxies and the other
/// side that there is still somebody.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(25);
const KEEP_ALIVE: &str = ": keep-alive\n\n";

impl Asked<'_> {
    /// The caller as the bus sees it, for [`Self::stream`], and what calls in its
    /// name work with. `caps` are those that a client of the standard protocol
    /// would name.
    pub fn subscriber(&self, caps: &[String]) -> (Arc<Subscriber>, Ctx) {
        let services = &self.gateway.services;
        let subscriber = subscriber(services, &self.caller.principal, caps);
        let cx = cx_with(services, Arc::clone(&subscriber));
        (subscriber, cx)
    }

    /// What comes into the outbox of `subscriber` from now on, after what is there
    /// already: frames as they are, which must be JSON in one line, and events as
    /// `render` tells them, if it does.
    pub async fn stream(
        self,
        subscriber: Arc<Subscriber>,
        render: impl FnMut(&Event) -> Option<Value> + Send + 'static,
    ) -> Response {
        let leave = self.join(&subscriber).await;
        let headers =
            [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
        // A proxy that buffers would keep them back.
        let unbuffered = [("x-accel-buffering", "no")];
        let body = Body::from_stream(lines(subscriber, leave, render));
        (headers, unbuffered, body).into_response()
    }

    /// From now on what it may see comes into the outbox of `subscriber`, until what
    /// this gives is dropped. It is closed when the caller would not be let in any
    /// more.
    pub(super) fn join<'a>(
        &'a self,
        subscriber: &'a Arc<Subscriber>,
    ) -> impl Future<Output = Leave> + Send + 'a {
        let Self { gateway, footing, .. } = self;
        async move {
            gateway.door.join(subscriber);
            let open = OpenConnection::new(subscriber.principal.role().as_str(), "stream");
            let conn_id = Arc::clone(&subscriber.conn_id);
            let leave = Leave::new(Arc::clone(gateway), conn_id, None, open);
            footing.look_again(gateway, subscriber).await;
            leave
        }
    }
}

struct Telling<R> {
    subscriber: Arc<Subscriber>,
    render: R,
    waiting: VecDeque<Item>,
    said: Instant,
    /// Dropped when nobody listens any more.
    _held: Box<dyn Any + Send>,
}

fn lines(
    subscriber: Arc<Subscriber>,
    held: impl Any + Send,
    render: impl FnMut(&Event) -> Option<Value> + Send + 'static,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    let (waiting, said) = (VecDeque::new(), Instant::now());
    let telling = Telling { subscriber, render, waiting, said, _held: Box::new(held) };
    stream::unfold(telling, |mut telling| async {
        let line = telling.next().await?;
        telling.said = Instant::now();
        Some((Ok(Bytes::from(line)), telling))
    })
}

impl<R: FnMut(&Event) -> Option<Value>> Telling<R> {
    /// The next line; none when the stream ends.
    async fn next(&mut self) -> Option<String> {
        loop {
            // What was taken already is not told either.
            let cut = self.subscriber.outbox.unless_cut(std::future::pending::<()>());
            if cut.now_or_never().is_some() {
                return None;
            }
            while let Some(item) = self.waiting.pop_front() {
                let told = match item {
                    Item::Frame(text) => Some(text),
                    Item::Response(response) => Some(response.into_text()),
                    Item::Event(event) => (self.render)(&event).map(|told| told.to_string()),
                    // Frames of a WebSocket, which this is not.
                    Item::Written(_) => None,
                };
                if let Some(told) = told {
                    return Some(format!("data: {told}\n\n"));
                }
            }
            match self.subscriber.outbox.take() {
                Batch::Items(items) => self.waiting = items.into(),
                Batch::Close(_) => return None,
                Batch::Empty => {
                    let ready = self.subscriber.outbox.ready();
                    if timeout_at(self.said + KEEP_ALIVE_EVERY, ready).await.is_err() {
                        return Some(KEEP_ALIVE.into());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;
    use crate::auth::Principal;
    use crate::bus::{Closing, EventKind};
    use crate::support::json;

    fn subscriber() -> Arc<Subscriber> {
        Arc::new(Subscriber::new("c".into(), Arc::new(Principal::of_this_machine()), &[]))
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_told_comes_in_order_and_silence_is_broken_by_comments() {
        let (subscriber, held) = (subscriber(), Arc::new(()));
        subscriber.outbox.answer(r#"{"type":"connected"}"#.into());
        let render = |event: &Event| {
            (event.kind == EventKind::Tick).then(|| json!({"tick": event.payload().len()}))
        };
        let lines = lines(Arc::clone(&subscriber), Arc::clone(&held), render);
        let mut lines =
            Box::pin(lines.map(|line| String::from_utf8(line.unwrap().to_vec()).unwrap()));
        assert_eq!(lines.next().await.unwrap(), "data: {\"type\":\"connected\"}\n\n");
        subscriber.outbox.event(&Arc::new(Event::new(EventKind::Health, &json!({}))));
        subscriber.outbox.event(&Arc::new(Event::new(EventKind::Tick, &json!({}))));
        assert_eq!(lines.next().await.unwrap(), "data: {\"tick\":2}\n\n");
        let began = Instant::now();
        for count in 1..=3 {
            assert_eq!(lines.next().await.unwrap(), KEEP_ALIVE);
            assert_eq!(began.elapsed(), KEEP_ALIVE_EVERY * count);
        }
        subscriber.outbox.answer("{}".into());
        subscriber.outbox.close(Closing { drains: true, ..Closing::auth_changed() });
        assert_eq!(lines.next().await.unwrap(), "data: {}\n\n");
        assert_eq!(lines.next().await, None);
        assert_eq!(Arc::strong_count(&held), 1, "it has left");
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_cut_off_hears_nothing_more() {
        let subscriber = subscriber();
        let mut lines = Box::pin(lines(Arc::clone(&subscriber), (), |_| None));
        for _ in 0..3 {
            subscriber.outbox.answer("{}".into());
        }
        assert!(lines.next().await.is_some());
        subscriber.outbox.close(Closing::device_removed());
        assert!(lines.next().await.is_none());
    }
}
