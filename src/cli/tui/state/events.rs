//! What the gateway tells without being asked.

use serde_json::Value;

use super::{State, row::Row};
use crate::cli::client::Event;
use crate::cli::tui::text::clean;
use crate::cli::tui::transcript::text_of;

impl State {
    pub(super) fn gateway(&mut self, event: &Event) {
        let payload = &event.payload;
        match event.name.as_str() {
            "agent" | "session.tool" if self.is_ours(payload) => self.agent_event(payload),
            "chat" => self.chat_event(payload),
            "chat.side_result" if self.is_ours(payload) => {
                let text = payload["text"].as_str().unwrap_or_default();
                self.transcript.aside(text);
            }
            "session.message" if self.is_ours(payload) => self.message_event(&payload["message"]),
            "sessions.changed" if self.is_ours(payload) => self.changed_event(payload),
            "exec.approval.requested" => self.approvals.ask(payload, self.now),
            "exec.approval.resolved" => self.resolved_event(payload),
            _ => {}
        }
    }

    fn is_ours(&self, payload: &Value) -> bool {
        payload["sessionKey"]
            .as_str()
            .is_some_and(|key| key.eq_ignore_ascii_case(&self.place.session))
    }

    fn agent_event(&mut self, payload: &Value) {
        let (Some(run), Some(stream)) = (payload["runId"].as_str(), payload["stream"].as_str())
        else {
            return;
        };
        let is_news = self.transcript.agent(run, stream, &payload["data"]);
        self.reading.is_old |= is_news && self.reading.is_under_way;
    }

    fn chat_event(&mut self, payload: &Value) {
        if payload["state"] == "delta" {
            return;
        }
        let run = payload["runId"].as_str().unwrap_or_default();
        let before = self.open_runs.len();
        self.open_runs.retain(|open| open != run);
        let is_own = self.open_runs.len() < before;
        // The key of a stopped run is as somebody else wrote it.
        let is_live = self.transcript.live().is_some_and(|live| live.run_id == run);
        if !is_own && !is_live && !self.is_ours(payload) {
            return;
        }
        if let Some(ending) = self.transcript.ended(payload) {
            self.ending = Some(ending);
        }
        self.read_history();
        self.read_row();
    }

    fn message_event(&mut self, message: &Value) {
        if message["role"] == "user" {
            let text = text_of(&message["content"]);
            if !clean(&text).trim().is_empty() {
                self.transcript.user_said(&text);
            }
            self.reading.is_old |= self.reading.is_under_way;
        } else if self.transcript.live().is_none() {
            self.read_history();
        }
    }

    fn changed_event(&mut self, payload: &Value) {
        match payload["reason"].as_str() {
            Some("reset" | "new" | "delete" | "compact" | "create") => {
                self.read_history();
                self.read_row();
            }
            Some(_) => self.read_row(),
            None if payload["session"].is_object() => {
                let (levels, context) = (self.row.thinking_levels.clone(), self.row.context);
                let row = Row::read(&payload["session"], &Value::Null);
                if !row.model.is_empty() && !row.thinking.is_empty() {
                    let thinking_levels =
                        if row.thinking_levels.is_empty() { levels } else { row.thinking_levels };
                    self.row = Row { thinking_levels, context: row.context.or(context), ..row };
                }
            }
            None => {}
        }
    }

    fn resolved_event(&mut self, payload: &Value) {
        let id = payload["id"].as_str().unwrap_or_default();
        let Some(question) = self.approvals.remove(id, self.now) else { return };
        let decision = payload["decision"].as_str().unwrap_or("decided");
        let by = payload["resolvedBy"].as_str().map(|by| format!(" by {by}")).unwrap_or_default();
        self.note(&format!("{decision}{by}: {}", question.command.join("\n")));
    }
}
