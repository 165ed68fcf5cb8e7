//! Messages that the gateway answers itself.
//!
//! Promises: the same key again does nothing again; a command is done to its
//! end though its sender goes away; everybody is told after the sender has his
//! answer, clients of its end only when the sender has taken that in, before a
//! stop of the gateway, and whatever writing it down came to. The line of a command is
//! in no transcript, only in the record of its run until that ends: cut off by a crash,
//! it is put into the transcript like any message.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::Instrument;

use crate::bus::{Audience, ChatMark, Event, EventKind};
use crate::config::QueueMode;
use crate::protocol::message::{AgentMessage, AssistantMessage};
use crate::sessions::{SessionEntry, StoredMessage};
use crate::store::Claim;
use crate::support::json;
use crate::telemetry::traces;

use super::lanes::unbroken;
use super::request::SendRequest;
use super::run::{ActiveRun, RunEnd};
use super::runs::{Accepted, Runs, SendError};
use super::terms::WhenStale;

/// The end of a command comes so long after the answer to its sender, or later. The chat of
/// `openclaw tui` notes with that answer what it waits for: an end that it reads in one piece
/// with it comes before that note, and it waits for ever. The original takes 60 ms or more.
const END_AFTER: Duration = Duration::from_millis(50);

/// What a command comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandAnswer {
    /// A note of the gateway, kept in the transcript.
    Note(String),
    /// The answer to a side question, kept nowhere.
    Aside {
        /// What was asked.
        question: String,
        /// The answer, or why there is none.
        text: String,
        /// Whether there is none.
        is_error: bool,
    },
}

/// What is left to do once the sender has his answer; done when this is
/// dropped.
pub struct AfterAnswer(Option<Box<dyn FnOnce() + Send>>);

impl AfterAnswer {
    pub(super) fn new(rest: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(rest)))
    }
}

impl Drop for AfterAnswer {
    fn drop(&mut self) {
        if let Some(rest) = self.0.take() {
            rest();
        }
    }
}

type Claimed = Result<(Arc<ActiveRun>, Option<SessionEntry>), Accepted>;
type Taken = Result<(Accepted, Option<AfterAnswer>), SendError>;

/// What there is to tell of a command.
enum News {
    Note(Box<StoredMessage>),
    Aside(Value),
}

impl News {
    /// What was answered.
    fn text(&self) -> String {
        match self {
            Self::Note(stored) => stored.message.text(),
            Self::Aside(payload) => payload["text"].as_str().unwrap_or_default().to_owned(),
        }
    }
}

impl Runs {
    /// Does a command before its sender is answered.
    ///
    /// # Errors
    /// When nothing could be recorded.
    pub async fn answer_command(
        self: &Arc<Self>,
        request: SendRequest,
        answer: impl Future<Output = CommandAnswer> + Send + 'static,
    ) -> Taken {
        self.claimed(request, None, |runs, run, line| runs.finish_command(run, line, answer)).await
    }

    /// Does a command that takes its time after its sender is answered.
    ///
    /// # Errors
    /// When nothing could be recorded.
    pub async fn answer_command_later(
        self: &Arc<Self>,
        request: SendRequest,
        answer: impl Future<Output = CommandAnswer> + Send + 'static,
    ) -> Taken {
        self.claimed(request, None, move |runs, run, line| async move {
            let (tasks, commands) = (runs.parts().tasks.clone(), runs.commands.clone());
            let marked = run.marked.clone();
            let work = Box::pin(async move {
                let end_at = Instant::now() + END_AFTER;
                unbroken(&run, async { runs.tell_line(&run, line) }).await;
                let news = runs.work_out(&run, answer).await;
                let end = runs.settle_command(&run, &news).await;
                if let Ok(news) = &news {
                    unbroken(&run, async { runs.tell_stored(&run, news) }).await;
                }
                sleep_until(end_at).await;
                let telling = async {
                    match news {
                        Ok(news) => runs.tell_end(&run, news),
                        Err(error) => runs.emitter(&run).fail(&error.to_string(), "unknown"),
                    }
                };
                unbroken(&run, telling).await;
                runs.lanes.end_to_tell(&run, end);
            });
            let work = traces::within(traces::current(), work).instrument(marked);
            let work = commands.track_future(work);
            let begin = move || drop(tasks.spawn("command", work));
            Ok((Accepted::Started, Some(AfterAnswer::new(begin))))
        })
        .await
    }

    /// Accepts a message that something has to be done for before: what that
    /// refuses is the answer, and the message is not run. With a `mode` it waits
    /// in that one for what is active.
    ///
    /// # Errors
    /// When the message was not accepted.
    pub async fn send_after(
        self: &Arc<Self>,
        mut request: SendRequest,
        mode: Option<QueueMode>,
        first: impl Future<Output = Result<(), String>> + Send + 'static,
    ) -> Taken {
        let media = request.media.take();
        self.claimed(request, mode, move |runs, run, line| async move {
            let refused = match AssertUnwindSafe(first).catch_unwind().await {
                Ok(Ok(())) => {
                    let (accepted, start) = runs.take(run, media).await?;
                    return Ok((accepted, start.map(|start| AfterAnswer::new(|| drop(start)))));
                }
                Ok(Err(text)) => text,
                Err(_) => {
                    tracing::error!(run = %run.id, "command panicked");
                    "⚠️ The command failed inside the gateway; its log says why.".to_owned()
                }
            };
            runs.finish_command(run, line, async { CommandAnswer::Note(refused) }).await
        })
        .await
    }

    async fn finish_command(
        self: Arc<Self>,
        run: Arc<ActiveRun>,
        line: Option<SessionEntry>,
        answer: impl Future<Output = CommandAnswer>,
    ) -> Taken {
        let news = self.work_out(&run, answer).await;
        let end = self.settle_command(&run, &news).await;
        let news = match news {
            Ok(news) => news,
            Err(error) => {
                self.lanes.end_to_tell(&run, end);
                return Err(error);
            }
        };
        // From here on a stop and a restart wait for what is told.
        let under_way = self.commands.token();
        let tell = move || {
            // Nothing in these waits.
            unbroken(&run, async { self.tell_line(&run, line) }).now_or_never();
            unbroken(&run, async { self.tell_stored(&run, &news) }).now_or_never();
            let tasks = self.parts().tasks.clone();
            tasks.spawn("command", async move {
                sleep(END_AFTER).await;
                unbroken(&run, async { self.tell_end(&run, news) }).await;
                self.lanes.end_to_tell(&run, end);
                drop(under_way);
            });
        };
        Ok((Accepted::Started, Some(AfterAnswer::new(tell))))
    }

    /// Claims the key of a command and goes on with it, though its sender goes
    /// away.
    async fn claimed<T>(
        self: &Arc<Self>,
        request: SendRequest,
        mode: Option<QueueMode>,
        go_on: impl FnOnce(Arc<Self>, Arc<ActiveRun>, Option<SessionEntry>) -> T + Send + 'static,
    ) -> Taken
    where
        T: Future<Output = Taken> + Send,
    {
        let runs = Arc::clone(self);
        let work = Box::pin(async move {
            match runs.claim_command(request, mode).await? {
                Ok((run, line)) => go_on(runs, run, line).await,
                Err(known) => Ok((known, None)),
            }
        });
        let work = traces::within(traces::current(), work).in_current_span();
        let work = self.commands.track_future(work);
        let working = self.parts().tasks.result_of("command", work);
        working.await.unwrap_or(Err(SendError::Broken))
    }

    /// Claims the key of a command; with the session as it is before. Its
    /// message waits in this mode, if there is one, whatever the session's is.
    /// `Err` is the answer to one that was given already.
    async fn claim_command(
        &self,
        request: SendRequest,
        mode: Option<QueueMode>,
    ) -> Result<Claimed, SendError> {
        let mut run = self.new_run(request).await?;
        run.queue.mode = mode.unwrap_or(run.queue.mode);
        let run = Arc::new(run);
        if let Claim::Existing(record) = self.claim(&run, None).await? {
            return Ok(Err(self.known(record)));
        }
        let entry = self.parts().sessions.entry(&run.key).await?;
        Ok(Ok((run, entry)))
    }

    async fn work_out(
        &self,
        run: &ActiveRun,
        answer: impl Future<Output = CommandAnswer>,
    ) -> Result<News, SendError> {
        let noting = AssertUnwindSafe(self.note_answer(run, answer)).catch_unwind().await;
        noting.unwrap_or_else(|_| {
            tracing::error!(run = %run.id, "command panicked");
            Err(SendError::Broken)
        })
    }

    async fn note_answer(
        &self,
        run: &ActiveRun,
        answer: impl Future<Output = CommandAnswer>,
    ) -> Result<News, SendError> {
        let parts = self.parts();
        // A run that is under way keeps its transcript.
        let renew = async |when| {
            if run.terms.when_stale == when && self.active(&run.key).is_none() {
                parts.renew_if_stale(run).await?;
            }
            Ok::<_, SendError>(())
        };
        renew(WhenStale::AtOnce).await?;
        let answer = answer.await;
        renew(WhenStale::Afterwards).await?;
        Ok(match answer {
            CommandAnswer::Note(text) => {
                let message = AssistantMessage::from_gateway(text, parts.clock.now_ms());
                let id = Some(parts.ids.uuid());
                let message = AgentMessage::Assistant(message);
                News::Note(Box::new(parts.append(&run.key, message, id).await?))
            }
            CommandAnswer::Aside { question, text, is_error } => News::Aside(json!({
                "kind": "btw", "runId": *run.id, "sessionKey": run.key.as_str(),
                "question": question, "text": text, "isError": is_error,
                "ts": parts.clock.now_ms(), "seq": 1,
            })),
        })
    }

    /// Writes down how a command ended. Its line need not be kept any longer. Who waits for
    /// its end hears of that once it is told.
    async fn settle_command(&self, run: &Arc<ActiveRun>, news: &Result<News, SendError>) -> RunEnd {
        let end = match news {
            Ok(_) => RunEnd::Answered,
            Err(error) => RunEnd::Failed(error.to_string()),
        };
        run.set_stored();
        if let Ok(news) = news {
            run.note(|progress| progress.text = news.text().into());
        }
        // Before the records tell that it is over.
        self.lanes.begin_to_tell(run, &end);
        unbroken(run, self.parts().record_end(run, &end)).await;
        end
    }

    /// Shows the line of a command to those who watch a session that there was.
    fn tell_line(&self, run: &ActiveRun, before: Option<SessionEntry>) {
        let Some(entry) = before else { return };
        let seq = entry.transcript.message_count;
        let message = json!({"role": "user", "content": run.message.content.text(),
            "timestamp": run.message.timestamp, "__openclaw": {"seq": seq}});
        self.parts().events.command(&run.key, &entry, &message, seq);
    }

    /// Tells of a note that is in the transcript now those inside of the gateway who follow
    /// the session, and clients that watch it: later, others may have come behind the note,
    /// and the row that is told with it would be an old one.
    fn tell_stored(&self, run: &ActiveRun, news: &News) {
        if let News::Note(stored) = news {
            self.parts().feed_note(&run.key, &run.id, stored);
            self.parts().announce(&run.key, stored);
        }
    }

    /// Tells clients that a command has ended, and how.
    fn tell_end(&self, run: &ActiveRun, news: News) {
        let parts = self.parts();
        match news {
            News::Note(stored) => parts.show_note(&run.key, &run.id, 1, &stored),
            News::Aside(payload) => {
                let event = Event::new(EventKind::ChatSideResult, &payload).about(run.key.clone());
                parts.bus.deliver(event, &Audience::Everyone);
                let payload = json!({"runId": *run.id, "sessionKey": run.key.as_str(), "seq": 2,
                    "state": "final"});
                let mark = ChatMark { run_id: run.id.clone(), text: None, begins: false };
                let event = Event::new(EventKind::Chat, &payload).about(run.key.clone()).chat(mark);
                parts.bus.deliver(event, &Audience::Everyone);
            }
        }
    }
}
