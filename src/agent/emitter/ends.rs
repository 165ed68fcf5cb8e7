//! How a run ends: in one of these ways, and once.

use std::sync::Arc;

use serde_json::Value;

use super::Emitter;
use crate::agent::feed::{Ending, RunNews};
use crate::agent::run::AbortReason;
use crate::bus::{Audience, ChatMark, Event, EventKind};
use crate::protocol::message::{StopReason, Usage};
use crate::providers::text_for_people;
use crate::support::{json, without_nulls};

impl Emitter {
    /// The run ends with its answer.
    pub fn finish(&mut self, usage: &Usage, stop_reason: StopReason) {
        self.settle(stop_reason.ended_by_itself());
        let liveness = if self.is_abandoned { "abandoned" } else { "working" };
        let data = json!({"phase": "end", "livenessState": liveness,
            "replayInvalid": self.has_changed.then_some(true), "endedAt": self.clock.now_ms()});
        self.agent("lifecycle", without_nulls(data));
        self.flush();
        let message = self.last_words();
        let more = json!({"message": message, "usage": usage,
            "stopReason": stop_reason.as_str()});
        self.chat_end("final", self.run.key.as_str(), more);
        self.tell(|| {
            let (usage, stop_reason) = (usage.clone(), stop_reason.as_str().to_owned());
            RunNews::Ends(Ending::Answered { usage, stop_reason })
        });
    }

    /// The run ends with an error.
    pub fn fail(&mut self, message: &str, kind: &str) {
        self.show_rest();
        let text = self.whole_text();
        // One that fails outside of its turn has said what it had said before.
        if !text.is_empty() {
            self.show(&text);
        }
        let told = text_for_people(message, kind);
        let data = json!({"phase": "error", "error": told, "livenessState": "blocked",
            "endedAt": self.clock.now_ms()});
        self.agent("lifecycle", data);
        // The last is what dashboards read, in the words of the provider.
        let more = json!({"errorMessage": told, "errorKind": kind,
            "error": {"code": kind, "message": message}});
        self.chat_end("error", self.run.key.as_str(), more);
        self.tell(|| {
            let (message, kind) = (message.to_owned(), kind.to_owned());
            RunNews::Ends(Ending::Failed { message, told, kind })
        });
    }

    /// The message went into another run, which tells the rest. Names that run.
    pub fn taken_into(&mut self, run_id: &str) {
        self.seq += 1;
        self.chat_end("final", self.run.key.as_str(), json!({"takenInto": run_id}));
        self.tell(|| RunNews::Ends(Ending::TakenInto(run_id.to_owned())));
    }

    /// A newer message takes the place of the run, which ends with what it has.
    pub fn interrupt(&mut self) {
        self.show_rest();
        let data = json!({"phase": "end", "aborted": true, "livenessState": "blocked",
            "endedAt": self.clock.now_ms()});
        self.agent("lifecycle", data);
        self.flush();
        self.chat_stop("final", self.run.key.as_str(), AbortReason::Interrupt);
        self.tell(|| RunNews::Ends(Ending::Aborted(AbortReason::Interrupt)));
    }

    /// Somebody stopped the run.
    pub fn abort(&mut self, reason: AbortReason) {
        self.show_rest();
        self.seq += 1;
        // This end names the session as the sender wrote it.
        self.chat_stop("aborted", &self.run.written_key, reason);
        self.seq -= 1;
        let data = json!({"phase": "end", "status": "cancelled", "aborted": true,
            "stopReason": reason.as_str(), "startedAt": self.started_at,
            "endedAt": self.clock.now_ms()});
        self.agent("lifecycle", data);
        self.tell(|| RunNews::Ends(Ending::Aborted(reason)));
    }

    fn chat_stop(&self, state: &str, key: &str, reason: AbortReason) {
        let message = self.last_words();
        self.chat_end(state, key, json!({"stopReason": reason.as_str(), "message": message}));
    }

    /// Shows all that was said; it as a message, if it is anything.
    fn last_words(&self) -> Option<Value> {
        let text = self.whole_text();
        self.show(&text);
        (!text.is_empty()).then(|| self.message(&text))
    }

    /// `key` names the session, `more` are the members that not all ends have.
    fn chat_end(&self, state: &str, key: &str, more: Value) {
        self.run.set_over();
        // Of a heartbeat only an answer is told that says something.
        let is_heartbeat = self.run.terms.is_heartbeat;
        if is_heartbeat && (state != "final" || self.says_nothing()) {
            return;
        }
        let run = &self.run;
        let mut payload = json!({"runId": *run.id, "sessionKey": key,
            "spawnedBy": run.spawned_by, "seq": self.seq, "state": state});
        if let (Value::Object(members), Value::Object(more)) = (&mut payload, more) {
            members.extend(more);
        }
        let payload = without_nulls(payload);
        let mark = ChatMark { run_id: Arc::clone(&run.id), text: None, begins: false };
        let event = Event::new(EventKind::Chat, &payload).about(Arc::clone(&self.key)).chat(mark);
        self.bus.deliver(event, &Audience::Everyone);
    }
}
