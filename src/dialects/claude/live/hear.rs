//! What clients say, and the methods that do it.
//!
//! Promises: everything is done with the rights of whoever said it; what is
//! refused is said to the sender alone.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;
use uuid::Uuid;

use super::frame::{self, Frame};
use super::questions::Waiting;
use super::room::Room;
use super::teller::idle;
use crate::agent::approvals::QuestionKind;
use crate::bus::Subscriber;
use crate::commands::Command;
use crate::dialects::claude::format::{Ids, echo};
use crate::handlers::clean;
use crate::http::cx_with;
use crate::protocol::{ErrorShape, Scope};
use crate::registry::{Ctx, Reply};
use crate::support::json;

/// What is said of a message that cannot be sent.
pub const NOT_SENT: &str = "Failed to send message to session";
/// Why it cannot be sent to a session that is gone.
const DELETED: &str = "the session was deleted";
/// How long whoever interrupts waits to hear whether the conversation is another one by now.
const LOOK: Duration = Duration::from_secs(1);
/// What a tool result of a client cannot be for.
const NO_CALL: &str = "no call waits for a result of a client: the gateway runs its tools itself";
/// What the rest of an answer to a question would have to be.
const CHANGED: &str = "the input of a call cannot be changed: allow it as it is, or deny it and say \
    what to do instead";

/// Tokens of thinking from which on a level is meant: as many as Anthropic's API is asked for at
/// it. Claude Code's own most are 31 999.
const LEVELS: [(u64, &str); 5] =
    [(0, "off"), (1024, "minimal"), (2048, "low"), (8192, "medium"), (16_384, "high")];

/// A connection, as whoever speaks for it.
pub struct Hearing {
    room: Arc<Room>,
    subscriber: Arc<Subscriber>,
}

impl Hearing {
    /// Hears what this connection says in this room.
    pub const fn new(room: Arc<Room>, subscriber: Arc<Subscriber>) -> Self {
        Self { room, subscriber }
    }

    /// One frame. Types that are not known are nothing.
    pub async fn hear(&self, frame: &Value) {
        match frame["type"].as_str() {
            Some("user_message") => {
                if let Some(content) = frame["content"].as_str() {
                    self.message(content).await;
                }
            }
            Some("control_request") => self.control(frame).await,
            Some("control_response") => self.answer(frame).await,
            Some("tool_result") if frame["tool_use_id"].is_string() => {
                self.say(&frame::error(NOT_SENT, NO_CALL));
            }
            Some("subscribe") => self.subscribe(frame).await,
            Some("typing") => self.typing(frame),
            Some("ack") if self.check_current().await.is_ok() => self.room.note_read().await,
            _ => {}
        }
    }

    /// Calls of one frame; what waits for their answer goes on when it is dropped.
    fn cx(&self) -> Ctx {
        cx_with(&self.room.services, Arc::clone(&self.subscriber))
    }

    fn say(&self, frame: &Value) {
        self.subscriber.outbox.answer(frame.to_string());
    }

    fn key(&self) -> &str {
        self.room.key.as_str()
    }

    /// `user_message`.
    async fn message(&self, content: &str) {
        let run_id = self.room.services.ids.uuid();
        let cx = self.cx();
        let sent = self.send(&cx, content, &run_id).await;
        match sent {
            Err(message) => self.say(&frame::error(NOT_SENT, &message)),
            Ok(answer) => {
                // Before the run begins, which waits for the end of `cx`.
                self.echo(content, &run_id, &answer);
                if answer["aborted"] == false {
                    self.nothing_to_stop();
                }
            }
        }
        drop(cx);
    }

    async fn send(&self, cx: &Ctx, content: &str, run_id: &str) -> Result<Value, String> {
        self.check_current().await?;
        let params = json!({"sessionKey": self.key(), "message": content,
            "idempotencyKey": run_id});
        cx.call("chat.send", &params).await.map_err(|error| error.message)
    }

    /// Whether the key still means this transcript.
    async fn check_current(&self) -> Result<(), String> {
        let entry = self.room.services.sessions.entry(&self.room.key).await;
        let entry = entry.map_err(|error| error.to_string())?.ok_or(DELETED)?;
        if entry.session_id == *self.room.session_id {
            return Ok(());
        }
        Err(frame::begun_anew(&entry.session_id))
    }

    /// Tells all what was said, though its turn may come later. What no transcript will
    /// have is told once, and no secret in it at all.
    fn echo(&self, content: &str, run_id: &str, answer: &Value) {
        // As `chat.send` reads and keeps it.
        let Ok(text) = clean(content) else { return };
        let shown = match Command::parse(&text) {
            Some(command) => command.line(&text),
            None => text,
        };
        let room = &self.room;
        let message_id = room.services.runs.message_id(run_id);
        // Without an id in a transcript it has that of its run.
        let id = message_id.as_deref().unwrap_or(run_id);
        let uuid = Ids::new(&*room.session_id).user(id);
        let now_ms = room.services.clock.now_ms();
        let value = echo(&room.session_id, uuid, now_ms, &Value::from(shown));
        let is_kept = message_id.is_some();
        let frame = if is_kept { Frame::echo(uuid, &value) } else { Frame::passing(&value) };
        if answer["status"] == "started" {
            room.tell_said(&frame, run_id);
        } else {
            room.tell(&frame);
        }
    }

    /// A stop word where nothing runs: nobody works.
    fn nothing_to_stop(&self) {
        let (room, uuid) = (&self.room, self.room.services.ids.uuid());
        let now_ms = room.services.clock.now_ms();
        for frame in idle(&room.session_id, "", 0.0, &uuid, now_ms) {
            room.tell(&frame);
        }
    }

    /// `control_request`.
    async fn control(&self, frame: &Value) {
        let Some(id) = frame["request_id"].as_str() else { return };
        let request = &frame["request"];
        match request["subtype"].as_str() {
            Some("interrupt") => self.interrupt().await,
            Some("set_permission_mode") => {
                let mode = request["mode"].as_str().unwrap_or_default();
                let set = self.patch(&json!({"permissionMode": mode})).await;
                let said = set.map(|()| json!({"subtype": "set_permission_mode", "mode": mode}));
                self.controlled(id, "set_permission_mode", said, true);
            }
            Some("set_model") => {
                let set = self.patch(&json!({"model": request["model"]})).await;
                self.controlled(id, "set_model", set.map(|()| success(id, None)), false);
            }
            Some("set_max_thinking_tokens") => {
                let tokens = request["max_thinking_tokens"].as_u64();
                let set = self.patch(&json!({"thinkingLevel": tokens.map(level_of)})).await;
                let said = set.map(|()| success(id, None));
                self.controlled(id, "set_max_thinking_tokens", said, false);
            }
            Some("initialize") => self.initialize(id).await,
            _ => {}
        }
    }

    async fn interrupt(&self) {
        if let Err(message) = self.abort().await {
            let text = format!("Failed to interrupt session: {message}");
            self.say(&frame::error(&text, &message));
        }
    }

    /// Ends what runs, also while nobody can say whose conversation it is by now.
    async fn abort(&self) -> Result<(), String> {
        let entry = self.room.services.sessions.entry(&self.room.key);
        if let Ok(Ok(Some(entry))) = timeout(LOOK, entry).await
            && entry.session_id != *self.room.session_id
        {
            return Err(frame::begun_anew(&entry.session_id));
        }
        let params = json!({"sessionKey": self.key()});
        self.cx().call("chat.abort", &params).await.map(drop).map_err(|error| error.message)
    }

    async fn patch(&self, change: &Value) -> Reply<()> {
        self.check_current().await.map_err(ErrorShape::invalid)?;
        let mut params = change.clone();
        params["key"] = self.key().into();
        self.cx().call("sessions.patch", &params).await.map(drop)
    }

    /// The answer to a request: to all when it changed what all see.
    fn controlled(&self, id: &str, subtype: &str, said: Reply<Value>, is_for_all: bool) {
        match said {
            Ok(response) => {
                let frame = json!({"type": "control_response", "request_id": id,
                    "response": response});
                if is_for_all {
                    self.room.tell(&Frame::passing(&frame));
                } else {
                    self.say(&frame);
                }
            }
            Err(error) => self.say(&json!({
                "type": "control_response",
                "request_id": id,
                "response": {"subtype": subtype, "request_id": id, "error": error.message},
                "error": error.message,
            })),
        }
    }

    /// What a client may want to know before it says anything.
    async fn initialize(&self, id: &str) {
        let cx = self.cx();
        let listed = cx.call("commands.list", &json!({})).await;
        let models = cx.call("models.list", &json!({})).await;
        let said = listed.and_then(|listed| {
            let rows = listed["commands"].as_array().cloned().unwrap_or_default();
            let commands = rows.iter().map(|row| {
                json!({"name": row["name"], "description": row["description"],
                    "argumentHint": ""})
            });
            let models = models?["models"].as_array().cloned().unwrap_or_default();
            let models = models.iter().map(|model| {
                // Without its provider the same name may mean another model.
                let parts = [&model["provider"], &model["id"]].map(|it| it.as_str());
                let value = parts.map(Option::unwrap_or_default).join("/");
                json!({"value": value, "displayName": model["name"], "description": ""})
            });
            let found = json!({"commands": commands.collect::<Vec<_>>(),
                "models": models.collect::<Vec<_>>(), "output_style": "default",
                "available_output_styles": ["default"]});
            Ok(success(id, Some(found)))
        });
        self.controlled(id, "initialize", said, false);
    }

    /// `control_response`: somebody allows something, or does not.
    async fn answer(&self, frame: &Value) {
        let response = &frame["response"];
        // The real command has the id inside.
        let id = frame["request_id"].as_str().or_else(|| response["request_id"].as_str());
        let Some(id) = id else { return };
        let Some(waiting) = self.room.waiting(id) else {
            // Settled while this client was away; it still shows the question.
            self.subscriber.outbox.answer(self.room.settled(id));
            return;
        };
        let inner = &response["response"];
        let inner = if inner.is_object() { inner } else { response };
        let is_always = frame["always_allow"].as_bool() == Some(true);
        let done = match inner["behavior"].as_str() {
            Some("allow") if Self::is_changed(&waiting, inner) => Err(CHANGED.to_owned()),
            Some("allow") => self.allow(&waiting, is_always).await,
            Some("deny") => self.deny(&waiting).await,
            _ => return,
        };
        if let Err(message) = done {
            self.say(&frame::error("Failed to answer permission request", &message));
        }
    }

    /// Whether something else is allowed than what was asked.
    fn is_changed(waiting: &Waiting, inner: &Value) -> bool {
        let updated = [&inner["updated_input"], &inner["updatedInput"]];
        let asked: Value = serde_json::from_str(&waiting.frame).unwrap_or_default();
        updated.into_iter().any(|input| {
            let is_given = input.as_object().is_some_and(|input| !input.is_empty());
            is_given && !is_same(input, &asked["request"]["input"])
        })
    }

    async fn allow(&self, waiting: &Waiting, is_always: bool) -> Result<(), String> {
        if !is_always {
            return self.decide(waiting, "allow-once").await;
        }
        let alike = self.room.alike(waiting);
        // Where it is asked each time, it is allowed this time.
        if self.decide(waiting, "allow-always").await.is_err() {
            self.decide(waiting, "allow-once").await?;
        }
        for other in alike {
            self.decide(&other, "allow-once").await?;
        }
        Ok(())
    }

    /// What is not allowed ends the turn.
    async fn deny(&self, waiting: &Waiting) -> Result<(), String> {
        self.room.end_after(waiting, self.cx());
        let denied = self.decide(waiting, "deny").await;
        if let (Err(_), Some(call_id)) = (&denied, &waiting.call_id) {
            // It was allowed after all, or nobody knows.
            self.room.take_denial(&waiting.key, call_id);
        }
        denied
    }

    async fn decide(&self, waiting: &Waiting, decision: &str) -> Result<(), String> {
        let method = match waiting.kind {
            QuestionKind::Exec => "exec.approval.resolve",
            QuestionKind::Plugin => "plugin.approval.resolve",
        };
        let params = json!({"id": waiting.id, "decision": decision});
        let decided = self.cx().call(method, &params).await;
        decided.map(drop).map_err(|error| error.message)
    }

    /// `subscribe`: everything after a line again.
    async fn subscribe(&self, frame: &Value) {
        let from = frame["fromUuid"].as_str().and_then(|uuid| uuid.parse().ok());
        let from = from.or_else(|| frame.get("fromUuid").map(|_| Uuid::nil()));
        if let Err(message) = self.read(from).await {
            self.say(&frame::error("Failed to read session", &message));
        }
    }

    async fn read(&self, from: Option<Uuid>) -> Result<(), String> {
        self.check_current().await?;
        let joined = self.room.join(&self.subscriber, None, from).await;
        joined.map_err(|error| error.to_string())
    }

    /// `typing` of whoever may write.
    fn typing(&self, frame: &Value) {
        if self.subscriber.principal.allows(Scope::Write)
            && let Some(is_typing) = frame["isTyping"].as_bool()
        {
            let frame = json!({"type": "typing", "isTyping": is_typing});
            self.room.relay(&self.subscriber.conn_id, &frame.to_string());
        }
    }
}

/// The level of thinking that so many tokens are about.
fn level_of(tokens: u64) -> &'static str {
    let level = LEVELS.iter().rev().find(|(least, _)| *least <= tokens);
    level.map_or("off", |(_, level)| level)
}

/// Whether two values say the same. JavaScript writes `1500.0` as `1500`.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(_), Value::Number(_)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has = |(name, value): (&String, &Value)| {
                other.get(name).is_some_and(|other| is_same(value, other))
            };
            one.len() == other.len() && one.iter().all(has)
        }
        _ => one == other,
    }
}

fn success(id: &str, found: Option<Value>) -> Value {
    let mut said = json!({"subtype": "success", "request_id": id});
    if let Some(found) = found {
        said["response"] = found;
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_the_same_when_javascript_has_written_its_numbers() {
        let asked = json!({"command": "ls", "timeout": 1500.0, "more": [{"n": 2.0}]});
        let written = json!({"more": [{"n": 2}], "timeout": 1500, "command": "ls"});
        assert!(is_same(&written, &asked));
        for other in [
            json!({"command": "ls", "timeout": 1501, "more": [{"n": 2}]}),
            json!({"command": "ls", "timeout": "1500", "more": [{"n": 2}]}),
            json!({"command": "ls", "timeout": 1500, "more": [{"n": 2}, 3]}),
            json!({"command": "ls", "timeout": 1500, "more": [{"m": 2}]}),
            json!({"command": "ls", "timeout": 1500}),
            json!({"command": "ls", "timeout": 1500, "more": [{"n": 2}], "env": {}}),
        ] {
            assert!(!is_same(&other, &asked), "{other}");
        }
    }

    #[test]
    fn tokens_of_thinking_are_the_level_that_they_are_about() {
        for (tokens, level) in [
            (0, "off"),
            (1023, "off"),
            (1024, "minimal"),
            (2048, "low"),
            (10_000, "medium"),
            (16_383, "medium"),
            (16_384, "high"),
            (31_999, "high"),
        ] {
            assert_eq!(level_of(tokens), level, "{tokens}");
        }
    }
}
