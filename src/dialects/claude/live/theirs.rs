//! A connection that looks at a session which Claude Code itself has.
//!
//! Promises: lines come as they are read, then those that are added, none twice.
//! Must not: write into the session, or let anybody talk in it.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::frame;
use super::hear::NOT_SENT;
use super::history::AGAIN_MAX;
use crate::bus::{Closing, Event, Subscriber};
use crate::dialects::claude::projects::{Follow, Followed, Projects, RawBurst, RawLine};
use crate::dialects::claude::rest::{READ_ONLY, mark_theirs_read};
use crate::gateway::{Frames, Gateway, Speaker, Utf8Bytes};
use crate::registry::Services;
use crate::support::{BoxFuture, json_of_javascript};

/// Lines of which is remembered that they were told. A file repeats lines near
/// each other, when a conversation is taken up again.
const TOLD_MAX: usize = 16 * 1024;
/// Beginnings that may wait; beyond it nothing is read.
const ASKED_MAX: usize = 4;

/// A connection that was let in.
pub struct Reader {
    gateway: Arc<Gateway>,
    projects: Projects,
    subscriber: Arc<Subscriber>,
    id: String,
    from: Option<String>,
    line: Option<Line>,
}

/// What there is once it has begun.
struct Line {
    /// After which lines its client wants to read.
    asks: mpsc::Sender<Option<String>>,
    _ends: DropGuard,
}

impl Reader {
    /// A connection that has not begun; `from` is the line after which it wants to
    /// read.
    pub fn new(
        gateway: Arc<Gateway>,
        projects: Projects,
        subscriber: Arc<Subscriber>,
        (id, from): (String, Option<String>),
    ) -> Self {
        Self { gateway, projects, subscriber, id, from, line: None }
    }
}

impl Speaker for Reader {
    /// As the real software.
    fn ping_every(&self) -> Duration {
        Duration::from_secs(30)
    }

    fn subscriber(&self) -> &Arc<Subscriber> {
        &self.subscriber
    }

    fn begin(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let (asks, asked) = mpsc::channel(ASKED_MAX);
            let ends = CancellationToken::new();
            let teller = Teller {
                services: Arc::clone(&self.gateway.services),
                projects: self.projects.clone(),
                subscriber: Arc::clone(&self.subscriber),
                id: self.id.clone(),
                told: Told::default(),
            };
            let (from, token) = (self.from.take(), ends.clone());
            self.gateway.services.tasks.spawn("claude file", async move {
                let _ = token.run_until_cancelled(teller.run(from, asked)).await;
            });
            self.line = Some(Line { asks, _ends: ends.drop_guard() });
        })
    }

    fn hear(&mut self, message: Utf8Bytes) -> Option<BoxFuture<'_, ()>> {
        Some(Box::pin(async move {
            let Ok(message) = json_of_javascript(&message) else { return };
            match message["type"].as_str() {
                Some("user_message" | "control_request" | "control_response" | "tool_result") => {
                    let refusal = frame::error(NOT_SENT, READ_ONLY);
                    self.subscriber.outbox.answer(refusal.to_string());
                }
                Some("subscribe") => {
                    let from = message["fromUuid"].as_str().map(str::to_owned);
                    if let Some(line) = &self.line {
                        // Fails when the connection is about to end.
                        let _ = line.asks.send(from).await;
                    }
                }
                Some("ack") => mark_theirs_read(&self.gateway.services, &self.id).await,
                _ => {}
            }
        }))
    }

    fn render(&mut self, _: &Event, _: &mut Frames) {}
}

/// What its client is told.
struct Teller {
    services: Arc<Services>,
    projects: Projects,
    subscriber: Arc<Subscriber>,
    id: String,
    told: Told,
}

impl Teller {
    async fn run(mut self, from: Option<String>, mut asked: mpsc::Receiver<Option<String>>) {
        if let Err(error) = self.follow(from, &mut asked).await {
            tracing::warn!(session = self.id, %error, "a session cannot be looked at");
            let error = frame::error("Failed to read session", &error.to_string());
            self.subscriber.outbox.answer(error.to_string());
            let reason = "session not readable".into();
            self.subscriber.outbox.close(Closing { code: 1011, reason, drains: true });
        }
    }

    async fn follow(
        &mut self,
        from: Option<String>,
        asked: &mut mpsc::Receiver<Option<String>>,
    ) -> io::Result<()> {
        let follow = self.begin(from).await?;
        let mut follow = follow.ok_or_else(|| io::Error::other("the session is gone"))?;
        loop {
            let anew = tokio::select! {
                from = asked.recv() => match from {
                    None => return Ok(()),
                    Some(from) => self.begin(from).await?,
                },
                happened = follow.next() => match happened? {
                    Followed::Lines(lines) => {
                        self.tell(lines);
                        mark_theirs_read(&self.services, &self.id).await;
                        None
                    }
                    Followed::Restarted => self.begin(None).await?,
                    // It may come back.
                    Followed::Gone => None,
                },
            };
            // Without one the file is gone.
            follow = anew.unwrap_or(follow);
        }
    }

    /// Tells the newest pages, or what comes after a line; gives what follows.
    async fn begin(&mut self, from: Option<String>) -> io::Result<Option<Follow>> {
        let Some(burst) = self.projects.burst(&self.id).await? else { return Ok(None) };
        let Some(follow) = self.projects.follow(&self.id, burst.end).await? else {
            return Ok(None);
        };
        self.told = Told::default();
        let again = match from {
            Some(from) => self.after(&from, &burst).await?,
            None => None,
        };
        let lines = if let Some(again) = again {
            again
        } else {
            let info = frame::session_info(burst.total_pages, burst.lowest_page);
            self.subscriber.outbox.answer(info.to_string());
            burst.lines
        };
        self.tell(lines);
        mark_theirs_read(&self.services, &self.id).await;
        Ok(Some(follow))
    }

    /// The lines after this one; `None` when it is nowhere, or too far away.
    async fn after(&self, from: &str, burst: &RawBurst) -> io::Result<Option<Vec<RawLine>>> {
        let mut found = burst.lines.clone();
        let mut page = burst.lowest_page;
        loop {
            let is_it = |line: &RawLine| line.uuid.as_deref() == Some(from);
            if let Some(place) = found.iter().rposition(is_it) {
                return Ok(Some(found.split_off(place.saturating_add(1))));
            }
            let bytes: usize = found.iter().map(|line| line.text.len()).sum();
            if page == 0 || bytes > AGAIN_MAX {
                return Ok(None);
            }
            page = page.saturating_sub(1);
            let Some(before) = self.projects.page(&self.id, page).await? else {
                return Ok(None);
            };
            found.splice(..0, before.lines);
        }
    }

    fn tell(&mut self, lines: Vec<RawLine>) {
        for line in lines {
            if line.uuid.as_ref().is_none_or(|uuid| self.told.is_new(uuid)) {
                self.subscriber.outbox.answer(line.text);
            }
        }
    }
}

/// The last lines that were told.
#[derive(Default)]
struct Told {
    known: HashSet<Arc<str>>,
    order: VecDeque<Arc<str>>,
}

impl Told {
    fn is_new(&mut self, uuid: &str) -> bool {
        if self.known.contains(uuid) {
            return false;
        }
        let uuid: Arc<str> = uuid.into();
        self.known.insert(Arc::clone(&uuid));
        self.order.push_back(uuid);
        if self.order.len() > TOLD_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}
