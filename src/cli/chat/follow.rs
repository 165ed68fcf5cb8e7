//! One run, from the question to its end.
//!
//! Owns: which events belong to the run and when it is over. Promises: Ctrl-C
//! aborts the run at the gateway, not only here. Must not: connect.

use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::cli::client::{Client, ClientError, Event, GatewayError, Incoming, RequestId};
use crate::cli::screen::spelled_out;
use crate::cli::{CliError, Screen};
use crate::support::json;

use super::streamed::Streamed;

/// An abort is answered at once or not at all.
const ABORT_LIMIT: Duration = Duration::from_secs(5);

/// Longer arguments of a tool would fill the screen.
const TOOL_ARGS_SHOWN: usize = 100;

/// A message on its way to the agent.
#[derive(Debug, Clone)]
pub struct Question {
    /// Session it belongs to, as the user spelled it.
    pub session: String,
    /// What it says.
    pub text: String,
    /// How much the model may think.
    pub thinking: Option<String>,
    /// How long the run may take.
    pub limit: Option<Duration>,
    /// Names the run; the same key is never run twice.
    pub key: String,
}

impl Question {
    fn params(&self) -> Value {
        let mut params = Map::new();
        params.insert("sessionKey".into(), json!(self.session));
        params.insert("message".into(), json!(self.text));
        params.insert("idempotencyKey".into(), json!(self.key));
        if let Some(thinking) = &self.thinking {
            params.insert("thinking".into(), json!(thinking));
        }
        if let Some(milliseconds) =
            self.limit.and_then(|limit| u64::try_from(limit.as_millis()).ok())
        {
            params.insert("timeoutMs".into(), json!(milliseconds));
        }
        Value::Object(params)
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// With an answer, or without one because none was due.
    Answered,
    /// With an error, or stopped by somebody else.
    Failed(String),
    /// By Ctrl-C.
    Interrupted,
}

/// What is shown of a run.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Each event as a line of JSON instead of text.
    pub json: bool,
    /// A line per tool call.
    pub tools: bool,
}

/// What happens next.
enum Step {
    Incoming(Incoming),
    Interrupted,
    NoAck,
    TooLong,
}

/// Follows the run of one question; survives a change of connections.
pub struct Follower<'a> {
    question: &'a Question,
    screen: &'a mut Screen,
    style: Style,
    streamed: Streamed,
    /// The question's key, and the runs that the gateway gave it to.
    runs: Vec<String>,
    deadline: Option<Instant>,
    /// The text was begun over a connection that is gone.
    is_resumed: bool,
}

impl<'a> Follower<'a> {
    /// A follower of what this question leads to.
    pub fn new(question: &'a Question, screen: &'a mut Screen, style: Style) -> Self {
        Self {
            screen,
            style,
            streamed: Streamed::default(),
            runs: vec![question.key.clone()],
            deadline: question.limit.map(|limit| Instant::now() + limit),
            question,
            is_resumed: false,
        }
    }

    /// The screen, for what is to be said between two connections.
    pub const fn screen(&mut self) -> &mut Screen {
        self.screen
    }

    /// Sends the question and shows what comes until the run is over. When the
    /// connection is lost, it may be called again with another one.
    pub async fn ask(&mut self, client: &mut Client) -> Result<Ending, CliError> {
        self.is_resumed = !self.streamed.is_empty();
        // One listener for the whole run, so that no signal falls between two.
        let interrupt = tokio::signal::ctrl_c();
        tokio::pin!(interrupt);
        let request = client.start("chat.send", self.question.params()).await?;
        let ack_by = Instant::now() + client.limit();
        let mut is_acked = false;
        loop {
            let step = tokio::select! {
                // First, so that it listens before anything is shown.
                biased;
                Ok(()) = &mut interrupt => Step::Interrupted,
                incoming = client.next() => Step::Incoming(incoming?),
                () = tokio::time::sleep_until(ack_by), if !is_acked => Step::NoAck,
                () = until(self.deadline) => Step::TooLong,
            };
            let ending = match step {
                Step::Incoming(Incoming::Answer { id, result }) => {
                    is_acked |= id == request;
                    self.on_answer(&request, &id, result)?
                }
                Step::Incoming(Incoming::Event(event)) => self.on_event(&event)?,
                Step::Interrupted => {
                    self.screen.end_line()?;
                    self.abort(client).await?;
                    Some(Ending::Interrupted)
                }
                Step::NoAck => {
                    let limit = client.limit();
                    return Err(ClientError::Timeout { what: "chat.send".into(), limit }.into());
                }
                Step::TooLong => {
                    // The run of somebody else has no limit of ours.
                    if !self.streamed.is_joined() {
                        self.abort(client).await?;
                    }
                    Some(Ending::Failed("the answer took longer than --timeout-ms allows".into()))
                }
            };
            if let Some(ending) = ending {
                self.screen.end_line()?;
                return Ok(ending);
            }
        }
    }

    /// Stops the run at the gateway. A second Ctrl-C stops waiting for that.
    async fn abort(&mut self, client: &mut Client) -> Result<(), CliError> {
        let run = self.runs.last().unwrap_or(&self.question.key);
        let params = json!({"sessionKey": self.question.session, "runId": run});
        let request = tokio::time::timeout(ABORT_LIMIT, client.request("chat.abort", params));
        let outcome = tokio::select! {
            outcome = request => outcome,
            Ok(()) = tokio::signal::ctrl_c() => return Ok(()),
        };
        match outcome {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Ok(self.screen.note(&format!("the run may go on: {error}"))?),
            Err(_) => {
                Ok(self.screen.note("the run may go on: the gateway did not confirm its end")?)
            }
        }
    }

    fn on_answer(
        &mut self,
        request: &RequestId,
        id: &RequestId,
        result: Result<Value, GatewayError>,
    ) -> Result<Option<Ending>, CliError> {
        if id != request {
            return Ok(None);
        }
        let ack = result.map_err(ClientError::refused)?;
        // Words such as "stop" are answered at once and start no run.
        if ack.get("aborted").is_some() {
            let stopped = ack.get("runIds").and_then(Value::as_array).map_or(0, Vec::len);
            self.screen.note(&format!("runs stopped: {stopped}"))?;
            return Ok(Some(Ending::Answered));
        }
        if let Some(run) = ack.get("runId").and_then(Value::as_str)
            && !self.runs.iter().any(|known| known == run)
        {
            self.runs.push(run.to_owned());
        }
        match ack.get("status").and_then(Value::as_str) {
            // Only after a lost connection: the run ended meanwhile.
            Some("ok") => {
                self.screen
                    .note("the run has ended meanwhile; the session's history holds its answer")?;
                Ok(Some(Ending::Answered))
            }
            // Also after a lost connection: the gateway began anew.
            Some("started") if self.is_resumed => {
                self.screen.end_line()?;
                self.streamed = Streamed::default();
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn on_event(&mut self, event: &Event) -> Result<Option<Ending>, CliError> {
        let Some(run) = event.text("/runId") else { return Ok(None) };
        if !self.runs.iter().any(|own| own == run) {
            return Ok(None);
        }
        match event.name.as_str() {
            "agent" => {
                self.show_json(event)?;
                self.on_agent(event)?;
                Ok(None)
            }
            "chat" => {
                self.show_json(event)?;
                self.on_chat(event)
            }
            // The answer to `/btw`, beside a final without message.
            "chat.side_result" => {
                self.show_json(event)?;
                let text = event.text("/text").unwrap_or_default().to_owned();
                self.show_text(&text)?;
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn on_agent(&mut self, event: &Event) -> Result<(), CliError> {
        match event.text("/stream") {
            Some("assistant") => {
                let delta = event.text("/data/delta").unwrap_or_default();
                let fresh = self.streamed.push(delta, event.text("/data/text"));
                self.show_text(&fresh)
            }
            Some("tool") => {
                if event.text("/data/phase") == Some("start") {
                    self.streamed.end_turn();
                }
                match tool_line(event) {
                    Some(line) if self.style.tools && !self.style.json => {
                        Ok(self.screen.dim_line(&line)?)
                    }
                    _ => Ok(()),
                }
            }
            Some("approval") if !self.style.json => match approval_line(event) {
                Some(line) => Ok(self.screen.note(&line)?),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn on_chat(&mut self, event: &Event) -> Result<Option<Ending>, CliError> {
        match event.text("/state") {
            Some("final") if let Some(run) = event.text("/takenInto") => {
                self.screen.end_line()?;
                self.runs.push(run.to_owned());
                self.streamed = Streamed::joined();
                Ok(None)
            }
            Some("final") => {
                let rest = self.streamed.finish(&message_text(&event.payload));
                self.show_text(&rest)?;
                Ok(Some(Ending::Answered))
            }
            Some("error") => {
                let text =
                    event.text("/errorMessage").unwrap_or("the run failed; see the gateway's log");
                Ok(Some(Ending::Failed(text.to_owned())))
            }
            Some("aborted") => {
                let reason = event.text("/stopReason").unwrap_or("no reason given");
                Ok(Some(Ending::Failed(format!("the run was stopped ({reason})"))))
            }
            _ => Ok(None),
        }
    }

    fn show_json(&mut self, event: &Event) -> Result<(), CliError> {
        if self.style.json {
            let line = json!({"event": event.name, "payload": event.payload});
            self.screen.line(&line.to_string())?;
        }
        Ok(())
    }

    fn show_text(&mut self, text: &str) -> Result<(), CliError> {
        if !self.style.json {
            self.screen.text(text)?;
        }
        Ok(())
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Text blocks of a `chat` event's message, joined; none: no text.
fn message_text(payload: &Value) -> String {
    let Some(content) = payload.pointer("/message/content") else { return String::new() };
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let blocks = content.as_array().map_or(&[][..], Vec::as_slice);
    blocks.iter().filter_map(|block| block.get("text")?.as_str()).collect()
}

/// What is said of a command that waits for a person: without it the run would
/// only look slow.
fn approval_line(event: &Event) -> Option<String> {
    if event.text("/data/phase") != Some("requested") {
        return None;
    }
    let command = spelled_out(event.text("/data/command")?);
    let warnings = event.text("/data/warningText").unwrap_or_default().lines();
    let warnings = warnings.flat_map(|line| ["! ".into(), spelled_out(line), "\n".into()]);
    let warnings: String = warnings.collect();
    let id = event.text("/data/approvalSlug")?;
    Some(format!(
        "a command waits for approval: {command}\n{warnings}\
         decide in another terminal: clawgate approvals approve {id} (or deny)"
    ))
}

/// What is shown of a tool event: the call, and a failure.
fn tool_line(event: &Event) -> Option<String> {
    let name = event.text("/data/name")?;
    match event.text("/data/phase")? {
        "start" => {
            let args =
                event.payload.pointer("/data/args").map(Value::to_string).unwrap_or_default();
            Some(format!("⚙ {name} {}", shortened(&args)).trim_end().to_owned())
        }
        "result" if event.payload.pointer("/data/isError") == Some(&Value::Bool(true)) => {
            Some(format!("⚙ {name} failed"))
        }
        _ => None,
    }
}

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(TOOL_ARGS_SHOWN).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(data: &Value) -> Event {
        Event { name: "agent".into(), payload: json!({"stream": "tool", "data": data}), seq: None }
    }

    #[test]
    fn a_tool_call_is_one_line() {
        let start =
            tool(&json!({"phase": "start", "name": "exec", "args": {"command": "uname\n-s"}}));
        assert_eq!(tool_line(&start).unwrap(), r#"⚙ exec {"command":"uname\n-s"}"#);
        let bare = tool(&json!({"phase": "start", "name": "now"}));
        assert_eq!(tool_line(&bare).unwrap(), "⚙ now");
        let long = tool(&json!({"phase": "start", "name": "write", "args": "x".repeat(500)}));
        assert!(tool_line(&long).unwrap().chars().count() < 120);
        let failed = tool(&json!({"phase": "result", "name": "exec", "isError": true}));
        assert_eq!(tool_line(&failed).unwrap(), "⚙ exec failed");
        assert_eq!(tool_line(&tool(&json!({"phase": "result", "name": "exec"}))), None);
    }

    #[test]
    fn the_text_of_a_message_is_that_of_its_blocks() {
        let blocks = json!({"message": {"content": [
            {"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"},
        ]}});
        assert_eq!(message_text(&blocks), "ab");
        assert_eq!(message_text(&json!({"message": {"content": "plain"}})), "plain");
        assert_eq!(message_text(&json!({})), "");
    }

    #[test]
    fn a_command_that_waits_is_shown_with_what_to_do() {
        let approval = |data: Value| Event {
            name: "agent".into(),
            payload: json!({"stream": "approval", "data": data}),
            seq: None,
        };
        let asked = approval(json!({"phase": "requested", "approvalSlug": "0a1b2c3d",
            "command": "ls \u{202e}\u{1b}[2K 'é'", "warningText": "It sets:\nX='1'"}));
        let line = approval_line(&asked).unwrap();
        let begin =
            "a command waits for approval: ls \\u{202e}\\u{1b}[2K 'é'\n! It sets:\n! X='1'\n";
        assert!(line.starts_with(begin), "{line}");
        assert!(line.ends_with("clawgate approvals approve 0a1b2c3d (or deny)"), "{line}");
        assert_eq!(approval_line(&approval(json!({"phase": "resolved"}))), None);
    }
}
