//! How one connection sees events: which text goes out for each.
//!
//! Runs in the connection's writer, so increments are computed from what this
//! connection has really been sent, whatever was coalesced before.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::bus::{ChatMark, Event, EventKind};
use crate::protocol::simple;
use crate::protocol::{Profile, Version, is_dashboard};
use crate::registry::KeyNames;
use crate::support::json;

use super::frames::Frames;

/// Runs whose text is remembered; the end of one does not come to a node that no longer
/// follows its session.
const MAX_SHOWN: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Snapshots, as they are.
    V3,
    /// Snapshots with the increment beside.
    V4,
    /// Increments in place of snapshots.
    Appending,
    /// Increments, and everything else as in the simple profile.
    Simple,
}

/// The way one connection sees events.
pub struct View {
    style: Style,
    key_names: Arc<KeyNames>,
    /// Number of the last frame; the challenge was 0.
    seq: u64,
    /// The end of one frame after the other.
    end: String,
    /// What it has been shown of each run that is under way; one that is forgotten is
    /// shown anew.
    shown: HashMap<Arc<str>, Arc<str>>,
}

/// The new part of a run's text.
struct Increment {
    delta: String,
    /// It takes the place of the text so far: that was no beginning of the new
    /// one, or the connection came late and may have it from the history.
    replaces: bool,
}

/// Of which session a payload is; the rest of it is passed over.
#[derive(Deserialize)]
struct OfSession<'a> {
    #[serde(borrow, rename = "sessionKey")]
    key: Cow<'a, str>,
}

impl View {
    /// The view of a connection that has just been welcomed.
    pub fn new(profile: Profile, user_agent: &str, key_names: Arc<KeyNames>) -> Self {
        let style = match profile {
            Profile::Simple => Style::Simple,
            Profile::Standard(_) if is_dashboard(user_agent) => Style::Appending,
            Profile::Standard(Version::V4) => Style::V4,
            Profile::Standard(Version::V3) => Style::V3,
        };
        Self { style, key_names, seq: 0, end: String::new(), shown: HashMap::new() }
    }

    /// Adds the frame for `event`; numbers are given here, one after the other.
    pub fn render(&mut self, event: &Event, frames: &mut Frames) {
        self.seq += 1;
        if let Some(frame) = self.reshape(event) {
            frames.push(frame);
        } else {
            self.end.clear();
            event.end(&mut self.end, self.seq);
            let renamed = self.renamed(event);
            frames.push_joined(renamed.as_deref().unwrap_or_else(|| event.head()), &self.end);
        }
    }

    /// The frame of an event that this connection does not get as it is.
    fn reshape(&mut self, event: &Event) -> Option<String> {
        if self.style == Style::V3 {
            return None;
        }
        let increment = event.chat.as_ref().and_then(|mark| self.advance(mark));
        match (self.style, increment) {
            (Style::V4, Some(increment)) => {
                let replace = if increment.replaces { r#","replace":true"# } else { "" };
                let members = format!(r#","deltaText":{}{replace}"#, json!(increment.delta));
                Some(event.frame_with(&members, self.seq))
            }
            (Style::Appending, increment) if event.kind == EventKind::Chat => {
                let key_names = Arc::clone(&self.key_names);
                self.rewrite(event, |payload| to_dashboard(payload, increment, &key_names))
            }
            (Style::Appending | Style::Simple, None)
                if event.kind == EventKind::ExecApprovalRequested =>
            {
                let key_names = Arc::clone(&self.key_names);
                self.rewrite(event, |payload| {
                    simple::approval_out(payload);
                    key_names.put(payload.get_mut("sessionKey"));
                })
            }
            (Style::Simple, increment) => {
                let key_names = Arc::clone(&self.key_names);
                self.rewrite(event, |payload| to_simple(payload, increment, &key_names))
            }
            _ => None,
        }
    }

    /// The head of an event that only names its session in another way, where the client has
    /// a name of its own.
    fn renamed<'e>(&self, event: &'e Event) -> Option<Cow<'e, str>> {
        if (self.style, event.kind) != (Style::Appending, EventKind::Agent) {
            return None;
        }
        let session: OfSession<'_> = serde_json::from_str(event.payload()).ok()?;
        let name = self.key_names.name(&session.key)?;
        Some(event.head_named(&name))
    }

    fn advance(&mut self, mark: &ChatMark) -> Option<Increment> {
        let Some(text) = &mark.text else {
            self.shown.remove(&mark.run_id);
            return None;
        };
        if self.shown.len() >= MAX_SHOWN
            && !self.shown.contains_key(&mark.run_id)
            && let Some(forgotten) = self.shown.keys().next().cloned()
        {
            self.shown.remove(&forgotten);
        }
        let before = self.shown.insert(Arc::clone(&mark.run_id), Arc::clone(text));
        let continuation = match &before {
            Some(before) => text.strip_prefix(&**before),
            None => mark.begins.then_some(&**text),
        };
        Some(Increment {
            delta: continuation.unwrap_or(text).to_owned(),
            replaces: continuation.is_none(),
        })
    }

    /// The frame with a changed payload. What we wrote ourselves can be read; if not, it
    /// is sent as it is.
    fn rewrite(&self, event: &Event, change: impl FnOnce(&mut Value)) -> Option<String> {
        let mut payload = serde_json::from_str::<Value>(event.payload()).ok()?;
        change(&mut payload);
        Some(event.frame_around(&payload.to_string(), self.seq))
    }
}

fn set_text(payload: &mut Value, increment: Increment) {
    if let Some(text) = payload.pointer_mut("/message/content/0/text") {
        *text = Value::String(increment.delta);
    }
    if increment.replaces
        && let Value::Object(members) = payload
    {
        members.insert("replace".into(), json!(true));
    }
}

/// What dashboards read of a run.
fn to_dashboard(payload: &mut Value, increment: Option<Increment>, key_names: &KeyNames) {
    if let Some(increment) = increment {
        set_text(payload, increment);
    }
    key_names.put(payload.get_mut("sessionKey"));
    if let Some(usage) = payload.get_mut("usage") {
        simple::add_counts(usage);
    }
}

/// What is told of a session, in the client's words.
fn row_out(row: &mut Value, key_names: &KeyNames) {
    if let Value::Object(members) = row {
        key_names.put_in_row(members);
        simple::row_out(members);
    }
}

fn to_simple(payload: &mut Value, increment: Option<Increment>, key_names: &KeyNames) {
    if let Some(increment) = increment {
        set_text(payload, increment);
    }
    key_names.put(payload.get_mut("sessionKey"));
    row_out(payload, key_names);
    if let Some(row) = payload.get_mut("session") {
        row_out(row, key_names);
    }
    let Value::Object(members) = payload else { return };
    if let Some(message) = members.get_mut("message") {
        simple::message_out(message);
    }
    simple::counts_out(members);
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::EventKind;

    fn delta(text: &str) -> Event {
        let payload = json!({"runId": "r", "sessionKey": "agent:main:main", "state": "delta",
            "message": {"role": "assistant", "content": [{"type": "text", "text": text}]}});
        Event::new(EventKind::Chat, &payload).chat(ChatMark {
            run_id: "r".into(),
            text: Some(text.into()),
            begins: true,
        })
    }

    fn view(profile: Profile, agent: &str) -> View {
        View::new(profile, agent, Arc::default())
    }

    pub(super) fn rendered(view: &mut View, event: &Event) -> Value {
        let mut frames = Frames::default();
        view.render(event, &mut frames);
        let frame = frames.into_bytes();
        let text = frame.iter().position(|byte| *byte == b'{').unwrap();
        serde_json::from_slice(&frame[text..]).unwrap()
    }

    #[test]
    fn version_3_sees_snapshots_numbered_from_one() {
        let mut view = view(Profile::Standard(Version::V3), "ref/1");
        assert_eq!(rendered(&mut view, &delta("ab"))["seq"], 1);
        let second = rendered(&mut view, &delta("abc"));
        assert_eq!(second["seq"], 2);
        assert_eq!(second["payload"]["message"]["content"][0]["text"], "abc");
        assert!(second["payload"].get("deltaText").is_none());
    }

    #[test]
    fn version_4_sees_the_increment_beside_the_snapshot() {
        let mut view = view(Profile::Standard(Version::V4), "");
        assert_eq!(rendered(&mut view, &delta("ab"))["payload"]["deltaText"], "ab");
        let second = rendered(&mut view, &delta("ab\"c"));
        assert_eq!(second["payload"]["deltaText"], "\"c");
        assert_eq!(second["payload"]["message"]["content"][0]["text"], "ab\"c");
        let third = rendered(&mut view, &delta("x"));
        assert_eq!(
            (&third["payload"]["deltaText"], &third["payload"]["replace"]),
            (&json!("x"), &json!(true))
        );
    }

    #[test]
    fn who_comes_late_is_told_that_the_first_delta_replaces_what_it_has() {
        let mut late = delta("ab");
        late.chat.as_mut().unwrap().begins = false;
        let first = rendered(&mut view(Profile::Simple, ""), &late)["payload"].clone();
        assert_eq!(first["message"]["content"][0]["text"], "ab");
        assert_eq!(first["replace"], true);
        let first = rendered(&mut view(Profile::Simple, ""), &delta("ab"))["payload"].clone();
        assert!(first.get("replace").is_none());
    }

    #[test]
    fn of_runs_without_an_end_only_so_many_are_remembered() {
        let mut view = view(Profile::Standard(Version::V4), "");
        let mut show = |run: usize, text: &str, begins: bool| {
            let mut event = delta(text);
            let run_id = run.to_string().into();
            event.chat = Some(ChatMark { run_id, text: Some(text.into()), begins });
            let frame = rendered(&mut view, &event);
            assert!(view.shown.len() <= MAX_SHOWN);
            frame["payload"]["replace"] == true
        };
        let runs = MAX_SHOWN + 3;
        assert!((0..runs).all(|run| !show(run, "a", true)));
        let anew = (0..runs).filter(|run| show(*run, "ab", false)).count();
        assert!(anew >= 3, "what was forgotten is shown anew");
        assert!(!show(runs - 1, "abc", false), "the last one is known");
    }

    #[test]
    fn dashboards_read_what_a_run_has_used_in_their_own_words() {
        let usage = json!({"input": 5, "output": 7, "cost": {"total": 0.5}});
        let payload = json!({"runId": "r", "state": "final", "usage": usage});
        let mark = ChatMark { run_id: "r".into(), text: None, begins: false };
        let end = Event::new(EventKind::Chat, &payload).chat(mark);
        let standard = Profile::Standard(Version::V3);
        let told = rendered(&mut view(standard, "openclaw-dashboard/1.0"), &end);
        let mut expected = usage.clone();
        expected["inputTokens"] = json!(5);
        expected["outputTokens"] = json!(7);
        expected["totalCost"] = json!(0.5);
        assert_eq!(told["payload"]["usage"], expected);
        assert_eq!(rendered(&mut view(standard, "ref/1"), &end)["payload"]["usage"], usage);
    }

    #[test]
    fn what_a_run_does_is_written_once_for_all_dashboards_without_names_of_their_own() {
        let payload = json!({"runId": "r", "stream": "tool", "data": {"sessionKey": "x"},
            "sessionKey": "agent:main:main", "seq": 1, "ts": 2});
        let event = Event::new(EventKind::Agent, &payload);
        let mut view = view(Profile::Standard(Version::V3), "openclaw-dashboard/1.0");
        assert_eq!((view.reshape(&event), view.renamed(&event)), (None, None));
        assert_eq!(rendered(&mut view, &event)["payload"], payload);
    }

    #[test]
    fn appending_clients_get_only_what_is_new() {
        for (profile, agent) in
            [(Profile::Simple, ""), (Profile::Standard(Version::V3), "openclaw-dashboard/1.0")]
        {
            let mut view = view(profile, agent);
            let text = |frame: Value| frame["payload"]["message"]["content"][0]["text"].clone();
            assert_eq!(text(rendered(&mut view, &delta("ab"))), "ab");
            assert_eq!(text(rendered(&mut view, &delta("abcd"))), "cd");
            let end = Event::new(EventKind::Chat, &json!({"state": "final"})).chat(ChatMark {
                run_id: "r".into(),
                text: None,
                begins: false,
            });
            rendered(&mut view, &end);
            assert!(view.shown.is_empty(), "an ended run leaves nothing behind");
        }
    }
}
