//! One heartbeat, from the question to what is told of the answer.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::agent::{AbortReason, Family, Progress, RunEnd, RunTerms, Runs, SendRequest};
use crate::auth::Owner;
use crate::bus::{Audience, EventKind};
use crate::config::HeartbeatSettings;
use crate::cron::outlet::Announcement;
use crate::cron::target::{Place, Wanted};
use crate::cron::{Cron, texts};
use crate::protocol::message::UserMessage;
use crate::sessions::{AgentId, HEARTBEAT_KIND, SessionKey};
use crate::support::without_nulls;

use super::silent::news;

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
    /// Somebody has woken it.
    Woken,
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
    pub async fn run(self) {
        let began = self.cron.now_ms();
        let told = match self.ask().await {
            Ok(said) => self.tell(&said).await,
            Err(Quiet::Skipped(reason)) => json!({"status": "skipped", "reason": reason}),
            Err(Quiet::Failed(reason)) => json!({"status": "failed", "reason": reason}),
        };
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

    fn key(&self) -> SessionKey {
        if let Cause::Reminder(key) = &self.cause {
            return key.clone();
        }
        self.cron.heartbeat_session(&self.settings)
    }

    /// The answer of the agent.
    async fn ask(&self) -> Result<Progress, Quiet> {
        let (key, parts) = (self.key(), self.runs.parts());
        if self.cause == Cause::Clock && self.runs.is_busy(&key) {
            return Err(Quiet::Skipped("requests-in-flight"));
        }
        let mut untold = parts.take_notices(&key);
        let events = untold.texts();
        if events.is_empty() && matches!(self.cause, Cause::Reminder(_)) {
            // Another turn has heard it.
            return Err(Quiet::Skipped("already-told"));
        }
        if events.is_empty() && self.cause == Cause::Clock && !self.has_something_to_read().await {
            return Err(Quiet::Skipped("empty-heartbeat-file"));
        }
        let reminder = matches!(self.cause, Cause::Reminder(_)).then(|| events.join("\n\n"));
        let (now, zone) = (self.cron.now_ms(), self.cron.zone());
        let text = if events.is_empty() {
            texts::heartbeat(&self.settings.prompt, &zone, now)
        } else {
            texts::events(&events, &zone, now)
        };
        let mut message = UserMessage::text(text, now);
        message.extra.insert("provenance".into(), json!({"kind": HEARTBEAT_KIND}));
        let run_id = format!("heartbeat:{}", parts.ids.uuid());
        let terms = RunTerms {
            is_owner: true,
            is_heartbeat: true,
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
            Ok((_, start)) => {
                // They stand in the transcript.
                untold.set_heard();
                drop(start);
            }
            // They are heard at the next turn instead.
            Err(error) => return Err(Quiet::Failed(error.to_string())),
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
            ) => Ok(Progress { text: reminder.into(), ..Progress::default() }),
            (RunEnd::Failed(error), _) => {
                Err(Quiet::Failed(report.failure().unwrap_or_else(|| error.clone())))
            }
            (RunEnd::Aborted(reason), _) => {
                Err(Quiet::Failed(format!("stopped ({})", reason.as_str())))
            }
        }
    }

    /// Whether there is a file that says what is to be looked at, and says
    /// something.
    async fn has_something_to_read(&self) -> bool {
        let agent =
            self.runs.parts().settings.now().agents.agent_or_default(&self.settings.agent_id);
        let path = agent.workspace.join(FILE);
        match tokio::fs::metadata(&path).await {
            Ok(file) if file.len() > LOOK_BYTES => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
        let text = tokio::fs::read_to_string(&path).await.unwrap_or_default();
        says_something(&text)
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
        let news = match news(&said.text, self.settings.ack_max_chars) {
            Some(news) => news,
            None if said.files.is_empty() => {
                let status = if said.text.trim().is_empty() { "ok-empty" } else { "ok-token" };
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
            files: said.files.clone(),
            idempotency_key: format!("heartbeat-{}", self.cron.parts.ids.uuid()),
        });
        match said.await {
            Ok(()) => told("sent", None, Some(&place)),
            Err(error) => told("failed", Some(&error.to_string()), Some(&place)),
        }
    }
}

/// Why there is no answer.
enum Quiet {
    Skipped(&'static str),
    Failed(String),
}

/// Whether a file says anything beside headings, empty lists and comments.
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
        let bare = line.trim_start_matches(['-', '*', '+', ' ']);
        let bare = bare.trim_start_matches("[ ]").trim();
        !was_comment && !bare.is_empty() && !line.starts_with('#')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_headings_and_comments_says_nothing() {
        for nothing in ["", "# Heartbeat\n\n- \n* [ ]\n", "<!-- one\ntwo -->\n#x", "\n  \n"] {
            assert!(!says_something(nothing), "{nothing}");
        }
        for something in ["- check mail", "# H\nLook.", "<!-- a -->\nb"] {
            assert!(says_something(something), "{something}");
        }
    }
}
