//! What is said in a session from now on, as `text/event-stream` (WHATWG HTML §9.2).
//!
//! Promises: each message of the transcript is told once and in its order, also one
//! that is written while the stream begins: events only say that there is something,
//! what it is says the transcript. When that is another one than before, or too much
//! of it is new, all of it is told anew. A stream ends with what let it in, and when
//! its reader does not read. Must not: keep messages for a reader who is slow.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse, Response};
use futures_util::{FutureExt, stream};
use tokio::time::{Instant, timeout_at};

use super::page::{self, Wanted, seq_of};
use super::unknown;
use crate::bus::{Batch, EventKind, Item, Subscriber};
use crate::gateway::Leave;
use crate::handlers::session_rest;
use crate::http::Asked;
use crate::http::manner::not_ok_for;
use crate::protocol::ErrorShape;
use crate::registry::Ctx;
use crate::sessions::{Between, SessionKey, TranscriptPart};
use crate::support::json;

/// After how many milliseconds a client that was cut off comes again, as recorded.
const BEGIN: &str = "retry: 1000\n\n";
/// After so long without a message a comment says that there is still somebody, as in
/// the original.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);
const KEEP_ALIVE: &str = ": keepalive\n\n";

/// What the reader has been told.
struct Told {
    session_id: String,
    /// Messages of the transcript then.
    count: u64,
    /// The text of the page, where pages are told.
    page: Option<String>,
}

struct Following {
    cx: Ctx,
    key: SessionKey,
    wanted: Wanted,
    subscriber: Arc<Subscriber>,
    told: Told,
    /// What comes before all else.
    first: Option<String>,
    said: Instant,
    _leave: Leave,
}

/// The page, and what comes after it.
pub(super) async fn answer(asked: Asked<'_>, written: &str, wanted: Wanted) -> Response {
    let (subscriber, cx) = asked.subscriber(&[]);
    let key = cx.session_key(written);
    // Heard before it is read, so that nothing is missed between the two.
    subscriber.watch_messages(key.clone(), true);
    let leave = asked.join(&subscriber).await;
    let part = match page::read(&cx, &key, wanted).await {
        Ok(Some(part)) => part,
        Ok(None) => return unknown(written),
        Err(error) => return not_ok_for(&error),
    };
    let page = page::text(&key, &part);
    let first = Some(format!("{BEGIN}{}", event("history", &page)));
    let told = Told::of(&part, wanted.is_part.then_some(page));
    let said = Instant::now();
    let following = Following { cx, key, wanted, subscriber, told, first, said, _leave: leave };
    let body = stream::unfold(following, |mut following| async {
        let next = following.next().await?;
        following.said = Instant::now();
        Some((Ok::<_, Infallible>(Bytes::from(next)), following))
    });
    let head = [
        (CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (CACHE_CONTROL, "no-cache"),
        // A proxy that buffers would keep them back.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (head, Body::from_stream(body)).into_response()
}

impl Told {
    fn of(part: &TranscriptPart, page: Option<String>) -> Self {
        Self { session_id: part.session_id.clone(), count: part.count, page }
    }

    /// Whether a part goes on where this ends.
    fn goes_on_with(&self, part: &TranscriptPart) -> bool {
        part.session_id == self.session_id && part.count >= self.count && part.older.is_none()
    }
}

impl Following {
    /// What is told next; none when the stream ends.
    async fn next(&mut self) -> Option<String> {
        let subscriber = Arc::clone(&self.subscriber);
        // Whoever is cut off hears nothing more, whatever is there already.
        let cut = subscriber.outbox.unless_cut(std::future::pending::<()>());
        if cut.now_or_never().is_some() {
            return None;
        }
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        subscriber.outbox.unless_cut(self.news()).await.flatten()
    }

    async fn news(&mut self) -> Option<String> {
        let mut is_due = false;
        loop {
            match self.subscriber.outbox.take() {
                Batch::Items(items) => is_due |= items.iter().any(|item| self.is_of_session(item)),
                Batch::Close(_) => return None,
                Batch::Empty if std::mem::take(&mut is_due) => match self.look().await {
                    Ok(None) => {}
                    Ok(news) => return news,
                    Err(error) => {
                        let why = error.message;
                        tracing::warn!(session = %self.key, why, "a session cannot be followed");
                        return None;
                    }
                },
                Batch::Empty => {
                    let ready = self.subscriber.outbox.ready();
                    if timeout_at(self.said + KEEP_ALIVE_EVERY, ready).await.is_err() {
                        return Some(KEEP_ALIVE.into());
                    }
                }
            }
        }
    }

    /// Whether it says that there is a message in this session.
    fn is_of_session(&self, item: &Item) -> bool {
        let Item::Event(event) = item else { return false };
        event.kind == EventKind::SessionMessage && event.session_key.as_deref() == Some(&self.key)
    }

    /// What is new in the transcript.
    ///
    /// # Errors
    /// When it cannot be read.
    async fn look(&mut self) -> Result<Option<String>, ErrorShape> {
        if !self.wanted.is_part {
            let between = Between { after: self.told.count, before: None };
            let part = session_rest::messages(&self.cx, &self.key, None, between).await?;
            // Of a session that is gone there is nothing to tell.
            let Some(part) = part else { return Ok(None) };
            if self.told.goes_on_with(&part) {
                self.told = Told::of(&part, None);
                return Ok(self.messages(&part));
            }
        }
        let part = page::read(&self.cx, &self.key, self.wanted).await?;
        let Some(part) = part else { return Ok(None) };
        let page = page::text(&self.key, &part);
        if self.told.page.as_ref() == Some(&page) {
            return Ok(None);
        }
        let news = event("history", &page);
        self.told = Told::of(&part, self.wanted.is_part.then_some(page));
        Ok(Some(news))
    }

    fn messages(&self, part: &TranscriptPart) -> Option<String> {
        let mut news = String::new();
        for message in &part.messages {
            let told = json!({"sessionKey": self.key.as_str(), "message": message,
                "messageId": message["__openclaw"]["id"], "messageSeq": seq_of(message)});
            // Writing to a String cannot fail.
            let _ = write!(news, "{}", event("message", &told.to_string()));
        }
        (!news.is_empty()).then_some(news)
    }
}

fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}
