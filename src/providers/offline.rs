//! The embedded model `offline/echo-guide`.
//!
//! Owns: an answer when there is no real model. Promises: it says that it is
//! none, and what to do about it; `/tool` calls a tool, so that everything
//! around a model can be tried without a key.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::answer::Answer;
use super::{EventSink, ModelRequest, Provider, ProviderError};
use crate::protocol::message::{AgentMessage, AssistantMessage, StopReason, Usage};
use crate::support::{BoxFuture, Clock};

/// Between two words: quick, and yet visibly a stream.
const PACE: Duration = Duration::from_millis(15);
/// How much of a text is quoted.
const MAX_QUOTE: usize = 200;

const GUIDE: &str = "I am the gateway's built-in offline model: not an AI, only a fixed text, so \
that everything else can be tried. For real answers run `clawgate onboard`, or add a provider \
under models.providers in openclaw.json (in use at once), or set ANTHROPIC_API_KEY, \
OPENAI_API_KEY or GEMINI_API_KEY, or start Ollama, and start the gateway again. Until then: /help \
lists the commands, /status shows what is running, and /tool NAME {\"some\": \"argument\"} makes \
me call a tool.";

const TOOL_SYNTAX: &str =
    "Write it as: /tool NAME {json}, for example /tool read {\"path\": \"notes.txt\"}";

/// The adapter.
pub struct Offline {
    clock: Arc<dyn Clock>,
}

/// What it does about a message.
#[derive(Debug, PartialEq)]
enum Reply {
    Say(String),
    Call { name: String, arguments: Map<String, Value> },
}

impl Offline {
    /// The embedded model.
    pub const fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock }
    }
}

impl Provider for Offline {
    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<AssistantMessage, ProviderError>> {
        Box::pin(async move {
            let now = self.clock.now_ms();
            let mut answer = Answer::new(&request.model, events, now);
            let said = match reply(&request.messages) {
                Reply::Say(text) => {
                    for word in text.split_inclusive(' ') {
                        tokio::time::sleep(PACE).await;
                        answer.text(word);
                    }
                    text
                }
                Reply::Call { name, arguments } => {
                    tokio::time::sleep(PACE).await;
                    let arguments = Value::Object(arguments).to_string();
                    let id = format!("call_offline_{now}_{}", request.messages.len());
                    let block = answer.tool_call(&id, &name);
                    answer.tool_arguments(block, &arguments);
                    arguments
                }
            };
            answer.set_usage(usage(request, &said));
            Ok(answer.finish(StopReason::Stop))
        })
    }
}

fn usage(request: &ModelRequest, said: &str) -> Usage {
    let heard: usize = request.messages.iter().map(|message| message.text().chars().count()).sum();
    let system = request.system.as_ref().map_or(0, |text| text.chars().count());
    let tokens = |chars: usize| u64::try_from(chars.div_ceil(4)).unwrap_or(u64::MAX);
    Usage {
        input: tokens(heard.saturating_add(system)),
        output: tokens(said.chars().count()),
        ..Usage::default()
    }
}

fn reply(messages: &[AgentMessage]) -> Reply {
    match messages.last() {
        Some(AgentMessage::ToolResult(result)) => {
            let text = messages.last().map(AgentMessage::text).unwrap_or_default();
            let failure = failure(&text);
            let has_failed = result.is_error || failure.is_some();
            let what = if has_failed { "failed" } else { "answered" };
            let said = first_line(failure.as_deref().unwrap_or(&text));
            Reply::Say(format!("The tool {} {what}: {said}", result.tool_name))
        }
        Some(message) => {
            let text = message.text();
            let text = without_stamp(&text);
            match text.strip_prefix("/tool") {
                Some(rest) if rest.is_empty() || rest.starts_with(char::is_whitespace) => {
                    tool(rest.trim())
                }
                _ => Reply::Say(format!("You said: {}\n\n{GUIDE}", first_line(text))),
            }
        }
        None => Reply::Say(GUIDE.to_owned()),
    }
}

/// The error of a result that is told as an object, as those of our own tools are.
fn failure(text: &str) -> Option<String> {
    let told: Value = serde_json::from_str(text).ok()?;
    let is_error = told.get("status").and_then(Value::as_str) == Some("error");
    let error = told.get("error").and_then(Value::as_str).filter(|_| is_error);
    error.map(str::to_owned)
}

fn tool(call: &str) -> Reply {
    let (name, arguments) = call.split_once(char::is_whitespace).unwrap_or((call, "{}"));
    if name.is_empty() || name.starts_with('{') {
        return Reply::Say(format!("Which tool? {TOOL_SYNTAX}"));
    }
    match serde_json::from_str(arguments) {
        Ok(arguments) => Reply::Call { name: name.to_owned(), arguments },
        Err(error) => {
            Reply::Say(format!("These arguments are not a JSON object ({error}). {TOOL_SYNTAX}"))
        }
    }
}

/// Without the time that gateways put before what a person said, such as
/// `[Sun 2026-11-22 03:35 UTC] `.
fn without_stamp(text: &str) -> &str {
    let text = text.trim();
    let stamp = text.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    match stamp {
        Some((stamp, rest)) if stamp.ends_with("UTC") || stamp.contains(':') => rest.trim_start(),
        _ => text,
    }
}

/// The first line, shortened.
fn first_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or("(nothing)").trim();
    match line.char_indices().nth(MAX_QUOTE) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or(line)),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::StreamEvent;
    use crate::providers::testing::{FixedClock, message, model, request_to, streamed_text, user};
    use crate::support::json;

    async fn ask(messages: Vec<AgentMessage>) -> (AssistantMessage, Vec<StreamEvent>) {
        let mut events = Vec::new();
        let request = request_to(model("offline"), messages);
        let offline = Offline::new(Arc::new(FixedClock));
        let message = offline.stream(&request, &mut |event| events.push(event)).await.unwrap();
        (message, events)
    }

    fn text(message: &AssistantMessage) -> String {
        crate::protocol::message::text_of(&message.content)
    }

    #[tokio::test(start_paused = true)]
    async fn it_says_what_it_is_and_how_to_get_a_real_model() {
        let (message, events) = ask(vec![user("hello there\nsecond line")]).await;
        let text = text(&message);
        assert!(text.starts_with("You said: hello there\n\n"), "{text}");
        for word in [
            "built-in offline model",
            "not an AI",
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "Ollama",
            "models.providers",
            "openclaw.json (in use at once)",
            "`clawgate onboard`",
            "start the gateway again",
            "/help",
            "/status",
        ] {
            assert!(text.contains(word), "{word} is missing in {text}");
        }
        assert_eq!(streamed_text(&events), text);
        assert!(events.len() > 30, "it should come in small pieces");
        assert_eq!(message.stop_reason, StopReason::Stop);
        assert_eq!(message.usage.input, 6);
        assert_eq!(message.usage.output, u64::try_from(text.chars().count().div_ceil(4)).unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn it_calls_a_tool_and_quotes_the_result() {
        let asked = user("[Sun 2026-11-22 03:35 UTC] /tool read {\"path\": \"n\"}");
        let (called, _) = ask(vec![asked.clone()]).await;
        assert_eq!(called.stop_reason, StopReason::ToolUse);
        let call = called.tool_calls().next().unwrap().clone();
        assert_eq!((call.name.as_str(), &call.arguments), ("read", &json!({"path": "n"})));
        let result = message(json!({
            "role": "toolResult", "toolCallId": call.id, "toolName": "read",
            "content": [{"type": "text", "text": "alpha\nbeta"}],
        }));
        let (answer, _) = ask(vec![asked, AgentMessage::Assistant(called), result]).await;
        assert_eq!(text(&answer), "The tool read answered: alpha");
        assert_eq!(answer.stop_reason, StopReason::Stop);
    }

    #[test]
    fn the_error_of_a_tool_is_told_as_one() {
        let said = |is_error: bool, text: &str| {
            let result = message(json!({
                "role": "toolResult", "toolCallId": "c", "toolName": "read", "isError": is_error,
                "content": [{"type": "text", "text": text}],
            }));
            reply(&[result])
        };
        let expected = |text: &str| Reply::Say(format!("The tool read {text}"));
        let refused =
            "{\n  \"status\": \"error\",\n  \"tool\": \"read\",\n  \"error\": \"outside\"\n}";
        assert_eq!(said(false, refused), expected("failed: outside"));
        assert_eq!(said(true, "no\nsuch"), expected("failed: no"));
        assert_eq!(said(false, "{\"status\": \"ok\"}"), expected("answered: {\"status\": \"ok\"}"));
    }

    #[test]
    fn a_call_may_lack_arguments_and_a_broken_one_is_explained() {
        let say = |text| match reply(&[user(text)]) {
            Reply::Say(text) => text,
            Reply::Call { name, .. } => panic!("called {name}"),
        };
        assert_eq!(
            reply(&[user("/tool status")]),
            Reply::Call { name: "status".into(), arguments: Map::new() }
        );
        for broken in ["/tool read {path}", "/tool read [1]", "/tool read {\"a\":1"] {
            let text = say(broken);
            assert!(text.starts_with("These arguments are not a JSON object"), "{text}");
            assert!(text.ends_with(TOOL_SYNTAX), "{text}");
        }
        assert!(say("/tool").starts_with("Which tool?"));
        assert!(say("/toolbox").starts_with("You said: /toolbox"));
        assert!(say(&"x".repeat(300)).contains(&format!("{}…\n", "x".repeat(200))));
    }
}
