//! What is told once the gateway has begun again, or does not.
//!
//! Owns: the notes that wait in `restart-sentinel.json`, where OpenClaw keeps its own.
//! Promises: a note that was left is told by the next gateway that does its work, also after
//! a stop in between, or by this one when the restart is given up; one that OpenClaw has left
//! is told as well. Must not: decide when the gateway restarts.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::channels::{DeliveryError, Outgoing, Target};
use crate::sessions::SessionKey;
use crate::store::{JsonFile, JsonFileError, StoreError, Teller};
use crate::support::{json, reading};

use super::RunsParts;
use super::notices::shortened;

/// As OpenClaw writes its file.
const VERSION: u64 = 1;
/// More notes than this do not wait: the oldest give way.
const MAX_WAITING: usize = 20;

/// What helps when something is wrong after one.
pub const DOCTOR_HINT: &str = "Run: clawgate doctor";

/// What is told of a restart, in OpenClaw's words.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestartNote {
    /// What led to it: `config-patch`, `config-apply`, `update`, …
    pub kind: String,
    /// `ok`, `error`, `skipped`.
    pub status: String,
    /// When it was left, in milliseconds.
    pub ts: u64,
    /// The session that is told, and asked at once; else the main session hears of it in
    /// its next turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// The chat in which it is said: `{channel, to?, accountId?, threadId?}`; else that of the
    /// session that is named, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_context: Option<Value>,
    /// The thread of that chat, where the context does not say it: text or number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<Value>,
    /// What whoever left it wants to have said.
    pub message: Option<String>,
    /// What helps when something is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doctor_hint: Option<String>,
    /// More of what led to it.
    pub stats: Option<RestartStats>,
}

/// More of what led to a restart.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestartStats {
    /// The method.
    pub mode: Option<String>,
    /// The file that was changed.
    pub root: Option<String>,
    /// Why it went as it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl RestartNote {
    /// Of a change of this file by a method, with what its author wants to have said.
    pub fn of_change(method: &str, root: &Path, message: Option<&str>) -> Self {
        Self {
            kind: method.replace('.', "-"),
            status: "ok".to_owned(),
            message: message.map(shortened),
            doctor_hint: Some(DOCTOR_HINT.to_owned()),
            stats: Some(RestartStats {
                mode: Some(method.to_owned()),
                root: Some(root.display().to_string()),
                reason: None,
            }),
            ..Self::default()
        }
    }

    /// What is said. `trouble`: why the gateway goes on with the config of before.
    fn told(&self, trouble: Option<&str>) -> String {
        let more = self.stats.as_ref();
        let kind = said(Some(&self.kind)).unwrap_or("restart");
        let status = if trouble.is_some() { "error" } else { &self.status };
        let mut first = format!("Gateway restart {kind} {status}").trim_end().to_owned();
        if let Some(mode) = said(more.and_then(|more| more.mode.as_ref())) {
            first = format!("{first} ({mode})");
        }
        let message = said(self.message.as_ref());
        let reason = trouble.or_else(|| said(more.and_then(|more| more.reason.as_ref())));
        let reason = reason.filter(|reason| Some(*reason) != message);
        let reason = reason.map(|reason| format!("Reason: {reason}"));
        let hint = said(self.doctor_hint.as_ref());
        let lines = [Some(first.as_str()), message, reason.as_deref(), hint];
        lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    /// The chat that it names, if it names any.
    fn chat(&self) -> Option<Value> {
        let names = |chat: &&Value| ["channel", "to"].iter().any(|name| !chat[*name].is_null());
        let mut chat = self.delivery_context.as_ref().filter(names)?.clone();
        if let Some(thread) = self.thread_id.as_ref().filter(|_| chat["threadId"].is_null()) {
            chat["threadId"] = thread.clone();
        }
        Some(chat)
    }
}

fn said(text: Option<&String>) -> Option<&str> {
    text.map(|text| text.trim()).filter(|text| !text.is_empty())
}

/// The file: OpenClaw knows of one note, and reads the last.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Waiting {
    version: u64,
    payload: RestartNote,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<RestartNote>,
}

impl Waiting {
    /// All of them, the oldest first.
    fn notes(self) -> Vec<RestartNote> {
        self.earlier.into_iter().chain([self.payload]).collect()
    }
}

/// The notes that wait for the next start.
#[derive(Debug)]
pub struct RestartNotes {
    file: JsonFile,
    /// Whoever reads the file and changes it by that, to the end.
    gate: Mutex<()>,
}

impl RestartNotes {
    /// Those in this file.
    pub fn new(path: PathBuf) -> Self {
        Self { file: JsonFile::new(path), gate: Mutex::default() }
    }

    /// Where they are.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Has one told after the next start, after those that wait already.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn leave(&self, note: &RestartNote) -> Result<(), JsonFileError> {
        let _turn = self.gate.lock().await;
        let mut notes = self.read().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "what waited to be told after a restart gives way");
            Vec::new()
        });
        notes.push(note.clone());
        self.write(notes).await
    }

    async fn read(&self) -> Result<Vec<RestartNote>, JsonFileError> {
        let understood = |read: &Value| reading::of::<Waiting>(read).map_err(|it| it.to_string());
        Ok(self.file.read(understood).await?.map(Waiting::notes).unwrap_or_default())
    }

    /// The last of these wait, and no others.
    async fn write(&self, mut notes: Vec<RestartNote>) -> Result<(), JsonFileError> {
        let Some(payload) = notes.pop() else { return self.file.remove().await };
        let surplus = notes.len().saturating_sub(MAX_WAITING - 1);
        let earlier = notes.split_off(surplus);
        let waiting = Waiting { version: VERSION, payload, earlier };
        self.file.write(&json!(waiting)).await
    }
}

impl RunsParts {
    /// Tells of the restart that is over, or given up, what was to be told of it: in the chat
    /// that a note names or that of the session that it names, and to that session, which is
    /// asked at once. `trouble`: why the config is still that of before. What cannot be told
    /// now waits for the next start.
    pub async fn tell_restart(&self, trouble: Option<&str>) {
        let waiting = &self.restart_notes;
        let _turn = waiting.gate.lock().await;
        let notes = match waiting.read().await {
            Ok(notes) if notes.is_empty() => return,
            Ok(notes) => notes,
            Err(error) => return tracing::warn!(%error, "what waits for a restart is not told"),
        };
        let (mut untold, mut woken) = (Vec::new(), Vec::new());
        for note in notes {
            match self.tell_note(&note, trouble).await {
                Ok(key) => woken.extend(key),
                Err(error) => {
                    tracing::warn!(%error, "a restart is not told; its note waits for the next");
                    untold.push(note);
                }
            }
        }
        if let Err(error) = waiting.write(untold).await {
            tracing::warn!(%error, "a session may be told of this restart once more");
        }
        for key in woken {
            let agent = key.agent(&self.keys.now());
            self.cron.heartbeats.wake(agent.as_str(), key);
        }
    }

    /// Tells of one; the session that it names, if any.
    async fn tell_note(
        &self,
        note: &RestartNote,
        trouble: Option<&str>,
    ) -> Result<Option<SessionKey>, StoreError> {
        let keys = self.keys.now();
        let named = said(note.session_key.as_ref()).map(|key| SessionKey::parse(key, &keys));
        let named = named.filter(|key| !key.is_malformed());
        let main = || SessionKey::main(&keys.default_agent, &keys);
        let key = named.clone().unwrap_or_else(main);
        let text = note.told(trouble);
        if let Some(place) = self.place_of_note(note, named.as_ref()).await {
            // The same note is said once.
            let id = format!("restart:{}:{key}", note.ts);
            let message = Outgoing { text: text.clone(), ..Outgoing::default() };
            match self.channels.post(&id, &place, &message).await {
                Err(DeliveryError::Store(error)) => return Err(error),
                Err(error) => tracing::warn!(%key, %error, "a restart is not told in its chat"),
                Ok(()) => {}
            }
        }
        // Who changes the config is an admin.
        self.remind(&key, &text, Teller::Owner).await?;
        Ok(named)
    }

    async fn place_of_note(&self, note: &RestartNote, key: Option<&SessionKey>) -> Option<Target> {
        let Some(chat) = note.chat() else {
            return self.channels.place_of_session(key?).await;
        };
        let place = self.channels.place_of_context(&chat);
        place.inspect_err(|error| tracing::warn!(%error, "a restart is not told in its chat")).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(message: &str) -> RestartNote {
        RestartNote::of_change("config.patch", Path::new("/x/openclaw.json"), Some(message))
    }

    #[test]
    fn it_says_what_was_done_what_was_noted_and_what_went_wrong() {
        let note = note("Now on every address.");
        let told = "Gateway restart config-patch ok (config.patch)\nNow on every address.\n\
                    Run: clawgate doctor";
        assert_eq!(note.told(None), told);
        let told = "Gateway restart config-patch error (config.patch)\nNow on every address.\n\
                    Reason: gateway.port: taken\nRun: clawgate doctor";
        assert_eq!(note.told(Some("gateway.port: taken")), told);
        let little = RestartNote { message: Some("  ".into()), ..RestartNote::default() };
        assert_eq!(little.told(None), "Gateway restart restart");
    }

    #[test]
    fn one_of_openclaw_is_read_with_the_thread_beside_its_chat() {
        let file = json!({"version": 1, "payload": {"kind": "update", "status": "ok", "ts": 7,
            "sessionKey": "main", "threadId": 42, "message": null, "stats": null,
            "deliveryContext": {"channel": "telegram", "to": "-100"}, "continuation": {}}});
        let read = Waiting::deserialize(&file).unwrap().notes().remove(0);
        assert_eq!(read.told(None), "Gateway restart update ok");
        let chat = json!({"channel": "telegram", "to": "-100", "threadId": 42});
        assert_eq!(read.chat(), Some(chat));
    }

    #[tokio::test]
    async fn several_wait_and_the_oldest_give_way() {
        let dir = tempfile::tempdir().unwrap();
        let notes = RestartNotes::new(dir.path().join("restart-sentinel.json"));
        for index in 0..=MAX_WAITING {
            notes.leave(&note(&index.to_string())).await.unwrap();
        }
        let texts = async || {
            let notes = notes.read().await.unwrap();
            notes.into_iter().map(|note| note.message.unwrap()).collect::<Vec<_>>()
        };
        let last = (1..=MAX_WAITING).map(|index| index.to_string());
        assert_eq!(texts().await, last.collect::<Vec<_>>());

        std::fs::write(notes.path(), "not JSON").unwrap();
        assert!(notes.read().await.is_err());
        notes.leave(&note("new")).await.unwrap();
        notes.leave(&note("newer")).await.unwrap();
        assert_eq!(texts().await, ["new", "newer"]);
    }
}
