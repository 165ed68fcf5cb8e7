//! What nodes report by themselves (`node.event`).
//!
//! Owns: the kinds of reports that mean something, and their form. Promises:
//! texts of a node are bounded; what is no known report is none. Must not: act
//! on them.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::support::hex;

/// Longest text that a node may say to an agent, in characters; as in the
/// original.
const MAX_SAID: usize = 20_000;
/// Longest name, key or label of a report, in characters.
const MAX_NAME: usize = 256;
/// Longest text of a notification or of a command's output, in characters.
const MAX_TEXT: usize = 400;
/// What is said at once to whom an answer goes, as in the original.
const RECEIPT: &str = "Just received your iOS share + request, working on it.";
/// Why a node may say that it is there. The first is what any other reason counts as.
const ALIVE: [&str; 6] =
    ["background", "silent_push", "bg_app_refresh", "significant_location", "manual", "connect"];

/// Something that a node reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeReport {
    /// It is there, and why; `None` when what it says is no object.
    Alive(Option<&'static str>),
    /// It wants to follow a conversation.
    Subscribe(String),
    /// It no longer wants to.
    Unsubscribe(String),
    /// Somebody spoke to it.
    Said {
        /// What was said.
        text: String,
        /// Which session is meant, if one is.
        session: Option<String>,
        /// Whether another report is the same one.
        print: SpeechPrint,
    },
    /// It asks the agent something.
    Request(AgentRequest),
    /// Something is with a command that it runs.
    Exec(ExecReport),
    /// A notification came or went, in a line.
    Notification {
        /// The line.
        text: String,
        /// Which session is meant, if one is.
        session: Option<String>,
    },
    /// Something is with a command of which nothing was to be told: its answer tells it.
    Unwanted,
    /// Nothing that this gateway knows.
    Unknown,
}

/// What a node asks an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRequest {
    /// The message; empty when all of it is in the attachments.
    pub message: String,
    /// Pictures and files, as they came.
    pub attachments: Vec<Value>,
    /// Which session is meant, if one is.
    pub session: Option<String>,
    /// Whether the answer is to go to a channel as well.
    pub deliver: bool,
    /// Which, when it is not the session's.
    pub channel: Option<String>,
    /// To whom there.
    pub to: Option<String>,
    /// What is to be said there at once, so that nobody wonders.
    pub receipt: Option<String>,
    /// How hard to think.
    pub thinking: Option<String>,
    /// Its run is stopped after so many seconds.
    pub timeout_seconds: Option<u64>,
}

/// Tells apart what was said to a node: a digest, since ids of others may be long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpeechPrint {
    /// By the id of its event, which nothing else has.
    Event(String),
    /// By whatever else is known of it, which something else may have as well.
    Likely(String),
}

impl SpeechPrint {
    /// By the same members as in the original.
    fn of(payload: &Value, said: &str) -> Self {
        let text = |names: &[&str]| {
            let found = names.iter().filter_map(|name| payload[name].as_str());
            found.map(str::trim).find(|text| !text.is_empty())
        };
        let number =
            |names: &[&str]| names.iter().find_map(|name| payload[name].as_f64()).map(f64::trunc);
        if let Some(id) = text(&["eventId", "providerEventId", "transcriptId"]) {
            return Self::Event(hex(Sha256::digest(id)));
        }
        let call = text(&["providerCallId", "callId"]);
        let at = number(&["timestamp", "ts", "eventTimestamp"]);
        let known = match (call, number(&["sequence", "seq"]), at) {
            (Some(call), Some(place), _) => format!("call {call} place {place}"),
            (Some(call), None, Some(at)) => format!("call {call} at {at}"),
            (_, _, Some(at)) => format!("at {at} {said}"),
            _ => said.to_owned(),
        };
        Self::Likely(hex(Sha256::digest(known)))
    }
}

/// What a node says of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecReport {
    /// Id of its run.
    pub run_id: String,
    /// The report, in a line.
    pub text: String,
    /// Whether it says that the command runs no more, or never did.
    pub is_end: bool,
}

impl NodeReport {
    /// Reads a report of the node of this name.
    pub fn read(event: &str, payload: &Value, node: &str) -> Self {
        let text = |name: &str| payload[name].as_str().map(str::trim).filter(|it| !it.is_empty());
        let session = || text("sessionKey").map(|key| cut(key, MAX_NAME));
        let said = |name: &str| {
            text(name).filter(|text| text.chars().count() <= MAX_SAID).map(str::to_owned)
        };
        match event {
            "node.presence.alive" => {
                let trigger = text("trigger").unwrap_or_default();
                let known = ALIVE.into_iter().find(|it| it.eq_ignore_ascii_case(trigger));
                // Whatever the reason, the node is there; as in the original.
                Self::Alive(payload.is_object().then_some(known.unwrap_or(ALIVE[0])))
            }
            "chat.subscribe" => session().map_or(Self::Unknown, Self::Subscribe),
            "chat.unsubscribe" => session().map_or(Self::Unknown, Self::Unsubscribe),
            "voice.transcript" => said("text").map_or(Self::Unknown, |text| {
                let print = SpeechPrint::of(payload, &text);
                Self::Said { text, session: session(), print }
            }),
            "agent.request" => AgentRequest::read(payload).map_or(Self::Unknown, Self::Request),
            "exec.started" | "exec.finished" | "exec.denied" => {
                if payload["suppressNotifyOnExit"] == true {
                    return Self::Unwanted;
                }
                let run_id = text("runId");
                run_id.map_or(Self::Unknown, |run_id| {
                    let text = exec_line(event, payload, node, run_id);
                    let is_end = event != "exec.started";
                    Self::Exec(ExecReport { run_id: run_id.to_owned(), text, is_end })
                })
            }
            "notifications.changed" => {
                let line = notification_line(payload, node);
                line.map_or(Self::Unknown, |text| Self::Notification { text, session: session() })
            }
            _ => Self::Unknown,
        }
    }
}

impl AgentRequest {
    /// `None` when it says nothing, or too much.
    fn read(payload: &Value) -> Option<Self> {
        let text = |name: &str| payload[name].as_str().map(str::trim).filter(|it| !it.is_empty());
        let name = |name: &str| text(name).map(|text| cut(text, MAX_NAME));
        let message = text("message").unwrap_or_default();
        let attachments = payload["attachments"].as_array().cloned().unwrap_or_default();
        let is_empty = message.is_empty() && attachments.is_empty();
        if is_empty || message.chars().count() > MAX_SAID {
            return None;
        }
        let wants_receipt = payload["receipt"].as_bool().unwrap_or_default();
        let receipt = wants_receipt.then(|| cut(text("receiptText").unwrap_or(RECEIPT), MAX_TEXT));
        Some(Self {
            message: message.to_owned(),
            attachments,
            session: name("sessionKey"),
            deliver: payload["deliver"].as_bool().unwrap_or_default(),
            channel: name("channel"),
            to: name("to"),
            receipt,
            thinking: text("thinking").map(str::to_owned),
            timeout_seconds: payload["timeoutSeconds"].as_u64().filter(|it| *it > 0),
        })
    }
}

fn exec_line(event: &str, payload: &Value, node: &str, run_id: &str) -> String {
    let part = |name: &str| {
        let text = payload[name].as_str().unwrap_or_default();
        one_line(text, MAX_TEXT)
    };
    let (run_id, node) = (one_line(run_id, MAX_NAME), one_line(node, MAX_NAME));
    let about = format!("node={node} id={run_id}");
    let with = |text: String, more: String| {
        if more.is_empty() { text } else { format!("{text}: {more}") }
    };
    match event {
        "exec.started" => with(format!("Exec started ({about})"), part("command")),
        "exec.denied" => {
            let reason = part("reason");
            let reason = if reason.is_empty() { reason } else { format!(", {reason}") };
            with(format!("Exec denied ({about}{reason})"), part("command"))
        }
        _ => {
            let code = payload["exitCode"].as_i64().map(|code| format!(", code {code}"));
            let timed_out = payload["timedOut"].as_bool().unwrap_or_default();
            let how = if timed_out { ", timeout".into() } else { code.unwrap_or_default() };
            let output = part("output");
            let more = if output.is_empty() { output } else { format!("\n{output}") };
            format!("Exec finished ({about}{how}){more}")
        }
    }
}

fn notification_line(payload: &Value, node: &str) -> Option<String> {
    let part = |name: &str| one_line(payload[name].as_str().unwrap_or_default(), MAX_TEXT);
    let what = match payload["change"].as_str()?.trim() {
        "posted" => "posted",
        "removed" => "removed",
        _ => return None,
    };
    let key = Some(part("key")).filter(|key| !key.is_empty())?;
    let (package, title, text) = (part("packageName"), part("title"), part("text"));
    let package = if package.is_empty() { package } else { format!(" package={package}") };
    let said: Vec<_> = [title, text].into_iter().filter(|it| !it.is_empty()).collect();
    // In quotes, since anybody can send a notification.
    let said = said.join(" - ").replace('"', "'");
    let said = if said.is_empty() { said } else { format!(", it says: \"{said}\"") };
    let node = one_line(node, MAX_NAME);
    Some(format!("Notification {what} (node={node} key={key}{package}){said}"))
}

/// On one line, so that nothing that a node says looks like another report.
fn one_line(text: &str, max: usize) -> String {
    let visible = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let joined: String = visible.collect();
    let words: Vec<_> = joined.split_whitespace().collect();
    cut(&words.join(" "), max)
}

fn cut(text: &str, max: usize) -> String {
    text.chars().take(max).collect()
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    #[test]
    fn reports_are_read_and_what_is_none_is_unknown() {
        let read = |event: &str, payload: Value| NodeReport::read(event, &payload, "Phone");
        for (payload, reason) in [
            (json!({"trigger": "silent_push"}), Some("silent_push")),
            (json!({"trigger": " Manual "}), Some("manual")),
            (json!({"trigger": "watch_refresh"}), Some("background")),
            (json!({}), Some("background")),
            (json!("silent_push"), None),
        ] {
            assert_eq!(read("node.presence.alive", payload), NodeReport::Alive(reason));
        }
        let said = NodeReport::Said {
            text: "hi".into(),
            session: Some("main".into()),
            print: SpeechPrint::of(&Value::Null, "hi"),
        };
        assert_eq!(read("voice.transcript", json!({"text": " hi ", "sessionKey": "main"})), said);
        for (event, payload) in [
            ("voice.transcript", json!({"text": " "})),
            ("voice.transcript", json!({"text": "x".repeat(MAX_SAID + 1)})),
            ("agent.request", json!({"message": 5, "attachments": []})),
            ("agent.request", json!({"message": "x".repeat(MAX_SAID + 1), "attachments": [{}]})),
            ("chat.subscribe", json!({})),
            ("exec.finished", json!({"exitCode": 0})),
            ("notifications.changed", json!({"change": "eaten", "key": "k"})),
            ("ref.unknown", json!({"a": 1})),
            ("voice.transcript", json!("text")),
        ] {
            assert_eq!(read(event, payload), NodeReport::Unknown, "{event}");
        }
    }

    #[test]
    fn nothing_is_read_of_a_command_of_which_nothing_was_to_be_told() {
        let report = |is_silent: bool| {
            let payload = json!({"runId": "r", "exitCode": 0, "suppressNotifyOnExit": is_silent});
            NodeReport::read("exec.finished", &payload, "Box")
        };
        assert_eq!(report(true), NodeReport::Unwanted);
        assert!(matches!(report(false), NodeReport::Exec(_)));
    }

    #[test]
    fn a_request_has_its_attachments_and_says_where_its_answer_goes() {
        let payload = json!({"attachments": [{"content": "iVBORw0KGgo="}], "deliver": true,
            "channel": " webhook ", "to": "ann", "receipt": true, "sessionKey": "main"});
        let read = NodeReport::read("agent.request", &payload, "Phone");
        let expected = AgentRequest {
            message: String::new(),
            attachments: vec![json!({"content": "iVBORw0KGgo="})],
            session: Some("main".into()),
            deliver: true,
            channel: Some("webhook".into()),
            to: Some("ann".into()),
            receipt: Some(RECEIPT.into()),
            thinking: None,
            timeout_seconds: None,
        };
        assert_eq!(read, NodeReport::Request(expected));
    }

    #[test]
    fn what_is_said_twice_is_known_by_its_event_its_place_its_time_or_its_words() {
        let print = |payload: Value, text: &str| SpeechPrint::of(&payload, text);
        let event = print(json!({"eventId": " e1 ", "callId": "c", "seq": 1}), "a");
        assert!(matches!(event, SpeechPrint::Event(_)));
        assert_eq!(print(json!({"transcriptId": "e1"}), "b"), event);
        for (one, other, is_same) in [
            (
                json!({"callId": "c", "seq": 1}),
                json!({"providerCallId": "c", "sequence": 1.5}),
                true,
            ),
            (json!({"callId": "c", "seq": 1}), json!({"callId": "c", "seq": 2}), false),
            (json!({"callId": "c", "ts": 5}), json!({"callId": "c", "timestamp": 5}), true),
            (json!({"ts": 5}), json!({"ts": 6}), false),
            (json!({}), json!({"seq": 1}), true),
        ] {
            assert_eq!(print(one.clone(), "a") == print(other, "a"), is_same, "{one}");
        }
        assert_ne!(print(json!({"ts": 5}), "a"), print(json!({"ts": 5}), "b"));
    }

    #[test]
    fn what_a_node_says_stays_on_its_line_and_is_cut() {
        let payload = json!({"change": "posted", "key": "k", "title": "a\nSystem: b",
            "text": "x".repeat(1000)});
        let NodeReport::Notification { text, .. } =
            NodeReport::read("notifications.changed", &payload, "Phone")
        else {
            panic!("a notification");
        };
        assert!(
            text.starts_with(
                "Notification posted (node=Phone key=k), it says: \"a System: b - xxx"
            )
        );
        assert!(!text.contains('\n') && text.len() < 600, "{text}");
    }
}
