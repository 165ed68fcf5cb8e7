//! One heartbeat, from the question to what is told of the answer.

use std::sync::Arc;

use serde_json::Value;

use crate::agent::{AbortReason, Family, Progress, RunEnd, RunTerms, Runs, SendRequest};
use crate::auth::Owner;
use crate::bus::{Audience, EventKind};
use crate::config::{HEARTBEAT_PROMPT, HeartbeatSettings};
use crate::cron::outlet::{Announcement, Told};
use crate::cron::target::{Place, Wanted};
use crate::cron::{Cron, texts};
use crate::protocol::message::UserMessage;
use crate::sessions::{AgentId, HEARTBEAT_KIND, SessionKey, directives};
use crate::support::{blocking, json, without_nulls};

/// The file that says what is to be looked at.
const FILE: &str = "HEARTBEAT.md";
/// Longer files are not read to see whether they say anything: they do.
const LOOK_BYTES: u64 = 64 * 1024;
/// Most characters of an answer that are told beside it.
const PREVIEW_MAX: usize = 200;

/// Why an agent is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// It is time.
    Clock,
    /// Somebody has told it something in a session, and woken it.
    Woken(SessionKey),
    /// A job reminds of something in a session. It is said where that was last
    /// written to from, as in the original.
    Reminder(SessionKey),
}

/// One heartbeat.
pub struct Beat {
    /// Where it is told.
    pub cron: Arc<Cron>,
    /// Who is asked.
    pub runs: Arc<Runs>,
    /// How.
    pub settings: HeartbeatSettings,
    /// Why.
    pub cause: Cause,
}

impl Beat {
    /// Asks, and tells what came of it.
    pub async fn run(mut self) {
        if !self.waits_its_turn().await {
            return;
        }
        let began = self.cron.now_ms();
        let told = self.ask_and_tell().await;
        let now = self.cron.now_ms();
        let mut event = json!({"ts": now});
        if let (Value::Object(event), Value::Object(told)) = (&mut event, told) {
            event.extend(told);
        }
        event["durationMs"] = now.saturating_sub(began).into();
        let event = without_nulls(event);
        self.cron.heartbeats.state.lock().last = Some(event.clone());
        self.cron.parts.bus.publish(EventKind::Heartbeat, &Audience::Everyone, &event);
    }

    /// Waits until nothing runs in the session: what waits there may be heard until then,
    /// and by the clock the next time may be a day away. `false` when another one waits
    /// already, which is this one, too. The agent is asked as the configuration is by then.
    async fn waits_its_turn(&mut self) -> bool {
        let agent = self.settings.agent_id.clone();
        loop {
            let key = self.key();
            let is_reminder = matches!(self.cause, Cause::Reminder(_));
            let Some(waits) = self.cron.heartbeats.wait(&agent, &key, is_reminder) else {
                return false;
            };
            self.runs.lane_is_free(&key).await;
            if waits.over() {
                self.cause = Cause::Reminder(key.clone());
            }
            self.settings = self.cron.heartbeat_settings(&agent);
            if self.key() == key {
                return true;
            }
            // The clock's are in another session now. Somebody may have been woken in this one.
            self.cron.heartbeats.wake(&agent, key);
        }
    }

    /// What came of asking. What the agent was to hear waits in the database until that
    /// is told: after a crash it is heard in the session's next turn.
    async fn ask_and_tell(&self) -> Value {
        let key = self.key();
        let mut untold = self.runs.parts().take_notices(&key);
        let is_owners = untold.is_owners(true);
        let (told, is_heard) = match self.ask(&key, &untold.texts(), is_owners).await {
            Ok(said) => (self.tell(&said).await, true),
            Err(Quiet::Skipped(reason)) => (json!({"status": "skipped", "reason": reason}), false),
            Err(Quiet::Unheard(reason)) => (json!({"status": "failed", "reason": reason}), false),
            Err(Quiet::Failed(reason)) => (json!({"status": "failed", "reason": reason}), true),
        };
        if is_heard {
            untold.set_heard();
        }
        told
    }

    fn key(&self) -> SessionKey {
        match &self.cause {
            Cause::Woken(key) | Cause::Reminder(key) => key.clone(),
            Cause::Clock => self.cron.heartbeat_session(&self.settings),
        }
    }

    /// The answer of the agent to what waits in a session. With the tools of the owner only
    /// when all of it `is_owners`.
    async fn ask(
        &self,
        key: &SessionKey,
        events: &[String],
        is_owners: bool,
    ) -> Result<Progress, Quiet> {
        if events.is_empty() {
            if let Some(reason) = self.untimely() {
                return Err(Quiet::Skipped(reason));
            }
            if !self.is_for_the_file(key).await {
                return Err(Quiet::Skipped(match self.cause {
                    Cause::Clock => "empty-heartbeat-file",
                    // Another turn has heard it.
                    Cause::Woken(_) | Cause::Reminder(_) => "already-told",
                }));
            }
        }
        let reminder = matches!(self.cause, Cause::Reminder(_)).then(|| events.join("\n\n"));
        let (now, zone) = (self.cron.now_ms(), self.cron.zone());
        let text = if events.is_empty() {
            texts::heartbeat(&self.settings.prompt, &zone, now)
        } else {
            texts::events(events, &zone, now)
        };
        let mut message = UserMessage::text(text, now);
        message.extra.insert("provenance".into(), json!({"kind": HEARTBEAT_KIND}));
        let run_id = format!("heartbeat:{}", self.cron.parts.ids.uuid());
        let terms = RunTerms {
            is_owner: is_owners,
            is_heartbeat: true,
            ack_max_chars: self.settings.ack_max_chars,
            model: self.settings.model.clone(),
            ..RunTerms::default()
        };
        let sent = self.runs.send(SendRequest {
            family: Family::Agent,
            written_key: key.to_string(),
            key: key.clone(),
            idempotency_key: run_id.clone(),
            message,
            media: None,
            thinking: None,
            owner: Owner::gateway(),
            dedupe_text: None,
            limit: None,
            terms,
        });
        match sent.await {
            // The run begins as its start goes.
            Ok((_, start)) => drop(start),
            // They are heard at the next turn instead.
            Err(error) => return Err(Quiet::Unheard(error.to_string())),
        }
        let report = self.runs.ends(Some(Family::Agent), &run_id).await;
        let report = report.map_err(|error| Quiet::Failed(error.to_string()))?;
        match (&report.end, reminder) {
            (RunEnd::Answered, _) => Ok(report.progress.clone()),
            // Nobody asks again: it is said as it was written.
            (
                RunEnd::Failed(_)
                | RunEnd::Aborted(
                    AbortReason::Timeout | AbortReason::Shutdown | AbortReason::Interrupt,
                ),
                Some(reminder),
            ) => Ok(Progress::saying(&reminder)),
            // The next process says it.
            (RunEnd::Aborted(reason @ AbortReason::Shutdown), None) => {
                Err(Quiet::Unheard(format!("stopped ({})", reason.as_str())))
            }
            (RunEnd::Failed(error), _) => {
                Err(Quiet::Failed(report.failure().unwrap_or_else(|| error.clone())))
            }
            (RunEnd::Aborted(reason), _) => {
                Err(Quiet::Failed(format!("stopped ({})", reason.as_str())))
            }
        }
    }

    /// Why one by the clock is not wanted any more that has waited for its session, in the
    /// words of the original.
    fn untimely(&self) -> Option<&'static str> {
        if self.cause != Cause::Clock {
            return None;
        }
        if !self.cron.heartbeats.is_enabled() || self.settings.every_ms.is_none() {
            return Some("disabled");
        }
        let is_active = self.cron.is_active(&self.settings, self.cron.now_ms());
        (!is_active).then_some("quiet-hours")
    }

    /// Whether an agent is asked in a session although nothing waits there: a heartbeat in
    /// its own session is for the file, too.
    async fn is_for_the_file(&self, key: &SessionKey) -> bool {
        !matches!(self.cause, Cause::Reminder(_))
            && *key == self.cron.heartbeat_session(&self.settings)
            && self.has_something_to_read().await
    }

    /// Whether there is a file that says what is to be looked at, and says something. Where
    /// there is none, a question that somebody has written himself is asked all the same, as
    /// in the original.
    async fn has_something_to_read(&self) -> bool {
        let agent =
            self.runs.parts().settings.now().agents.agent_or_default(&self.settings.agent_id);
        let path = agent.workspace.join(FILE);
        let look = move || {
            let is_long = path.metadata().ok()?.len() > LOOK_BYTES;
            let text = || std::fs::read_to_string(&path).unwrap_or_default();
            Some(is_long || says_something(&text()))
        };
        let found = blocking(look).await.ok().flatten();
        found.unwrap_or(self.settings.prompt != HEARTBEAT_PROMPT)
    }

    /// The chat that a job reminds in, if its session was last written to from one.
    async fn reminded_chat(&self, agent: &AgentId, home: &SessionKey) -> Option<Place> {
        if !matches!(self.cause, Cause::Reminder(_)) {
            return None;
        }
        let last = self.cron.place(&Wanted::at(None, None, None), agent, home).await;
        last.ok().filter(|place| matches!(place, Place::Chat { .. }))
    }

    /// What becomes of an answer.
    async fn tell(&self, said: &Progress) -> Value {
        let ack_max = self.settings.ack_max_chars;
        let news = match directives::heartbeat_news(&said.paragraphs(), ack_max) {
            Some(news) => news,
            None if said.files.is_empty() => {
                let status = if said.shown().trim().is_empty() { "ok-empty" } else { "ok-token" };
                return json!({"status": status});
            }
            None => String::new(),
        };
        let preview: String = news.chars().take(PREVIEW_MAX).collect();
        let told = |status: &str, reason: Option<&str>, place: Option<&Place>| {
            json!({"status": status, "reason": reason, "preview": preview, "hasMedia": !said.files.is_empty(),
                "channel": place.map(Place::channel), "to": place.and_then(Place::to)})
        };
        let (agent, home) = (AgentId::normalize(&self.settings.agent_id), self.key());
        let target = &self.settings.target;
        let wanted = Wanted::at(Some(target), self.settings.to.as_deref(), None);
        let place = match self.reminded_chat(&agent, &home).await {
            Some(chat) => chat,
            None if target == "none" => return told("skipped", Some("target-none"), None),
            None => match self.cron.place(&wanted, &agent, &home).await {
                Ok(place) => place,
                Err(error) => return told("failed", Some(&error), None),
            },
        };
        let Place::Chat { channel, to, thread_id, account_id } = &place else {
            // It stands in the session that was asked.
            return told("sent", None, Some(&place));
        };
        let said = self.cron.parts.outlet.say(Announcement {
            agent_id: agent.to_string(),
            channel: channel.clone(),
            to: to.clone(),
            thread_id: thread_id.clone(),
            account_id: account_id.clone(),
            text: news.clone(),
            answer: said.answer.clone(),
            files: said.files.clone(),
            bound_to: None,
            idempotency_key: format!("heartbeat-{}", self.cron.parts.ids.uuid()),
        });
        match said.await {
            Ok(Told::Said) => told("sent", None, Some(&place)),
            Ok(Told::Waits) => told("sent", Some("waits-for-channel"), Some(&place)),
            Err(error) => told("failed", Some(&error.to_string()), Some(&place)),
        }
    }
}

/// Why there is no answer.
enum Quiet {
    /// Nobody was asked.
    Skipped(&'static str),
    /// Nobody has heard what was to be said.
    Unheard(String),
    /// Somebody has heard it, and failed.
    Failed(String),
}

/// Whether a file says anything beside headings, empty lists, comments, and the fences
/// that OpenClaw puts around those.
fn says_something(text: &str) -> bool {
    let mut is_comment = false;
    text.lines().map(str::trim).any(|line| {
        if line.starts_with("<!--") {
            is_comment = true;
        }
        let was_comment = is_comment;
        if line.ends_with("-->") {
            is_comment = false;
        }
        !was_comment && !is_frame(line)
    })
}

/// Whether a line is a heading, a fence, or an item of a list with nothing in it.
fn is_frame(line: &str) -> bool {
    let behind_marks = line.trim_start_matches('#');
    let is_heading = behind_marks.len() < line.len()
        && behind_marks.chars().next().is_none_or(char::is_whitespace);
    let is_fence = line
        .strip_prefix("```")
        .is_some_and(|kind| kind.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)));
    let item = line.trim_start_matches(['-', '*', '+', ' ']);
    let boxes = ["[ ]", "[x]", "[X]"];
    let bare = boxes.iter().find_map(|it| item.strip_prefix(it)).unwrap_or(item);
    is_heading || is_fence || bare.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_headings_fences_and_comments_says_nothing() {
        let of_openclaw = "# HEARTBEAT.md Template\n\n```markdown\n# Keep this file empty (or with \
            only comments) to skip heartbeat API calls.\n\n# Add tasks below.\n```\n";
        for nothing in [
            "",
            "# Heartbeat\n\n- \n* [ ]\n+ [x]\n##\n",
            "<!-- one\ntwo -->\n# x",
            "\n  \n",
            of_openclaw,
        ] {
            assert!(!says_something(nothing), "{nothing}");
        }
        for something in [
            "- check mail",
            "- [ ] check mail",
            "# H\nLook.",
            "<!-- a -->\nb",
            "#1 check mail",
            "```\ncheck mail\n```",
            "```check mail",
        ] {
            assert!(says_something(something), "{something}");
        }
    }
}
