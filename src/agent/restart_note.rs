//! What is told once the gateway has begun again.
//!
//! Owns: the note that waits in `restart-sentinel.json`, where OpenClaw keeps its own.
//! Promises: a note that was left is told by the next gateway that does its work, also
//! after a stop in between. Must not: decide when the gateway restarts.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::channels::{Outgoing, Target, Wanted};
use crate::config::Paths;
use crate::sessions::SessionKey;
use crate::store::{JsonFile, JsonFileError};
use crate::support::{blocking, json, without_nulls};

use super::RunsParts;

/// What is told of a restart, in OpenClaw's words: `{kind, status, ts, sessionKey?,
/// deliveryContext?, message, doctorHint, stats: {mode, root}}`.
#[derive(Debug, Clone, PartialEq)]
pub struct RestartNote(Value);

/// Of which change it tells, and to whom.
#[derive(Debug, Clone, Default)]
pub struct RestartNews {
    /// When it was made, in milliseconds.
    pub ts: u64,
    /// The method that made it.
    pub mode: String,
    /// The file that was changed.
    pub root: PathBuf,
    /// The session that is told; the main session when absent.
    pub session_key: Option<String>,
    /// The chat in which it is said: `{channel, to, accountId, threadId}`; that of the
    /// session when absent.
    pub delivery_context: Option<Value>,
    /// What whoever made it wants to have said.
    pub message: Option<String>,
}

impl RestartNote {
    /// Of a change that is used after the restart.
    pub fn new(news: RestartNews) -> Self {
        let mut note = without_nulls(json!({
            "kind": news.mode.replace('.', "-"),
            "status": "ok",
            "ts": news.ts,
            "sessionKey": news.session_key,
            "deliveryContext": news.delivery_context,
            "doctorHint": "Run: clawgate doctor",
            "stats": {"mode": news.mode, "root": news.root},
        }));
        note["message"] = news.message.into();
        Self(note)
    }

    /// What it tells, as methods show it.
    pub fn shown(&self) -> &Value {
        &self.0
    }

    /// Has it told by the next gateway, in the place of one that waits already. Where it
    /// waits.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn leave(&self, paths: &Paths) -> Result<PathBuf, JsonFileError> {
        let file = file(paths);
        file.write(&json!({"version": 1, "payload": self.0})).await?;
        Ok(file.path().to_owned())
    }

    async fn left(paths: &Paths) -> Result<Option<Self>, JsonFileError> {
        let understood = |read: &Value| match &read["payload"] {
            payload @ Value::Object(_) => Ok(Self(payload.clone())),
            _ => Err("it has no \"payload\"".to_owned()),
        };
        file(paths).read(understood).await
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0[name].as_str().map(str::trim).filter(|text| !text.is_empty())
    }

    /// What is said. `trouble`: why the gateway has begun with the config of before.
    fn told(&self, trouble: Option<&str>) -> String {
        let kind = self.text("kind").unwrap_or("restart");
        let status = if trouble.is_some() { "error" } else { self.text("status").unwrap_or("ok") };
        let mode = self.0["stats"]["mode"].as_str();
        let mode = mode.map(|mode| format!(" ({mode})")).unwrap_or_default();
        let mut lines = vec![format!("Gateway restart {kind} {status}{mode}")];
        lines.extend(self.text("message").map(str::to_owned));
        let reason = trouble.or_else(|| self.0["stats"]["reason"].as_str());
        lines.extend(reason.map(|reason| format!("Reason: {reason}")));
        lines.extend(self.text("doctorHint").map(str::to_owned));
        lines.join("\n")
    }
}

fn file(paths: &Paths) -> JsonFile {
    JsonFile::new(paths.restart_note())
}

impl RunsParts {
    /// Tells of the restart that is over, if somebody has left a note for it: in the chat
    /// that it names, or that of its session, and to the session itself, which is asked at
    /// once when the note names it. `trouble`: why the config is still that of before.
    pub async fn tell_restart(&self, trouble: Option<String>) {
        let paths = self.settings.now().paths.clone();
        let note = match RestartNote::left(&paths).await {
            Ok(Some(note)) => note,
            Ok(None) => return,
            Err(error) => return tracing::warn!(%error, "a note for after the restart is not told"),
        };
        let keys = self.keys.now();
        let main = || SessionKey::main(&keys.default_agent, &keys);
        let named = note.text("sessionKey").map(|key| SessionKey::parse(key, &keys));
        let named = named.filter(|key| !key.is_malformed());
        let key = named.clone().unwrap_or_else(main);
        let text = note.told(trouble.as_deref());
        if let Some(place) = self.place_of_note(&note, &key).await {
            // The same note twice is said once.
            let id = format!("restart:{}", note.0["ts"]);
            let message = Outgoing { text: text.clone(), ..Outgoing::default() };
            if let Err(error) = self.channels.post(&id, &place, &message).await {
                tracing::warn!(session = %key, %error, "a restart is not told in its chat");
            }
        }
        if let Err(error) = self.notice(&key, &text).await {
            // It waits for the next start.
            return tracing::warn!(session = %key, %error, "a session is not told of a restart");
        }
        let path = paths.restart_note();
        match blocking(move || fs::remove_file(path)).await {
            Ok(Ok(())) | Err(_) => {}
            Ok(Err(error)) => tracing::warn!(%error, "a note that was told stays where it is"),
        }
        if let Some(key) = named {
            let agent = key.agent(&keys);
            self.cron.heartbeats.wake(agent.as_str(), key);
        }
    }

    async fn place_of_note(&self, note: &RestartNote, key: &SessionKey) -> Option<Target> {
        let context = &note.0["deliveryContext"];
        let Some(channel) = context["channel"].as_str() else {
            return self.channels.place_of_session(key).await;
        };
        let thread = match &context["threadId"] {
            Value::String(id) => Some(id.clone()),
            Value::Number(id) => Some(id.to_string()),
            _ => None,
        };
        let wanted = Wanted {
            channel: Some(channel),
            account: context["accountId"].as_str(),
            to: context["to"].as_str(),
            thread: thread.as_deref(),
        };
        match self.channels.target(&wanted) {
            Ok(place) => Some(place),
            Err(error) => {
                tracing::warn!(session = %key, %error, "a restart is not told in its chat");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_was_done_what_was_noted_and_what_went_wrong() {
        let note = RestartNote::new(RestartNews {
            ts: 7,
            mode: "config.patch".into(),
            message: Some("Now on every address.".into()),
            ..RestartNews::default()
        });
        let told = "Gateway restart config-patch ok (config.patch)\nNow on every address.\n\
                    Run: clawgate doctor";
        assert_eq!(note.told(None), told);
        let told = "Gateway restart config-patch error (config.patch)\nNow on every address.\n\
                    Reason: gateway.port: taken\nRun: clawgate doctor";
        assert_eq!(note.told(Some("gateway.port: taken")), told);
    }

    #[test]
    fn one_that_says_little_is_told_all_the_same() {
        assert_eq!(RestartNote(json!({"message": "  "})).told(None), "Gateway restart restart ok");
    }
}
