//! Messages of `chat.history` as entries.
//!
//! Both ways of writing them are read: the standard one, and the simple one that a client
//! without a device gets from another machine.

use serde_json::Value;

use super::{Body, Entry, Level, Tool, ToolState};
use crate::cli::tui::text::{clean, one_line};

/// Longer arguments of a tool are cut.
const MAX_ARGS: usize = 4000;
/// Of longer outputs the begin is shown.
const MAX_OUTPUT: usize = 32_000;

/// Tokens and cost of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Tokens that the model read, also from its cache.
    pub input: u64,
    /// Tokens that it wrote.
    pub output: u64,
    /// In US dollars; 0 when nobody knows.
    pub cost: f64,
}

/// A run that is under way while the history is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Active {
    /// Its id.
    pub run_id: String,
    /// When it began, in milliseconds since the epoch.
    pub started_at: Option<u64>,
    /// All of its text so far.
    text: String,
    /// What of that the messages have already.
    stored: Vec<String>,
}

impl Active {
    /// The part of its text that no message has.
    pub fn rest(&self) -> String {
        let mut rest = self.text.as_str();
        for stored in &self.stored {
            match rest.trim_start().strip_prefix(stored.trim()) {
                Some(after) => rest = after,
                // The text is behind the messages, or written otherwise: what comes next tells.
                None => return String::new(),
            }
        }
        rest.trim_start_matches('\n').to_owned()
    }

    /// Whether a message says just this.
    pub fn is_stored(&self, text: &str) -> bool {
        self.stored.iter().any(|stored| stored.trim() == text.trim())
    }
}

/// A page of the history.
#[derive(Debug, Default)]
pub struct Page {
    /// Its messages.
    pub entries: Vec<Entry>,
    /// What is under way.
    pub active: Option<Active>,
    /// Of the last run.
    pub usage: Usage,
    /// How many messages it has.
    pub count: usize,
    /// What the user said, the oldest first.
    pub typed: Vec<String>,
}

impl Page {
    /// Reads the payload of `chat.history`.
    pub fn read(payload: &Value) -> Self {
        let messages = payload["messages"].as_array().map_or(&[][..], Vec::as_slice);
        let active = &payload["activeRun"];
        let mut page = Self { count: messages.len(), ..Self::default() };
        let started_at = active["startedAt"].as_u64();
        page.active = active["runId"].as_str().map(|run_id| Active {
            run_id: run_id.to_owned(),
            started_at,
            text: clean(active["text"].as_str().unwrap_or_default()),
            stored: Vec::new(),
        });
        for (index, message) in messages.iter().enumerate() {
            page.message(index, message);
        }
        if page.active.is_none() {
            page.turn_open_calls(ToolState::Lost, |_| true);
        } else if let Some(waiting) = active["waitingCalls"].as_array() {
            let ids: Vec<_> = waiting.iter().filter_map(Value::as_str).map(entry_of).collect();
            page.turn_open_calls(ToolState::Waiting, |id| ids.iter().any(|waits| waits == id));
        }
        page
    }

    fn push(&mut self, id: String, body: Body) {
        self.entries.push(Entry { id, rev: 0, body });
    }

    fn message(&mut self, index: usize, message: &Value) {
        let about = &message["__openclaw"];
        let id = about["id"].as_str().map_or_else(|| format!("#{index}"), str::to_owned);
        match message["role"].as_str() {
            Some("user") => self.user(&id, message),
            Some("assistant") => self.assistant(&id, message),
            Some("toolResult") => {
                let call = message["toolCallId"].as_str().unwrap_or_default();
                let name = message["toolName"].as_str().unwrap_or("tool");
                self.result(call, name, &message["content"], message["isError"] == true);
            }
            Some("system") => {
                let what = about["kind"].as_str().unwrap_or("note");
                let text = text_of(&message["content"]);
                let text = if what == "compaction" {
                    "the conversation before was summed up".to_owned()
                } else {
                    one_line(&text)
                };
                self.push(format!("m:{id}"), Body::Mark(text));
            }
            _ => {}
        }
    }

    fn user(&mut self, id: &str, message: &Value) {
        let results = message["content"].as_array().into_iter().flatten();
        for block in results.filter(|block| block["type"] == "tool_result") {
            let call = block["tool_use_id"].as_str().unwrap_or_default();
            self.result(call, "tool", &block["content"], block["is_error"] == true);
        }
        let text = clean(&text_of(&message["content"]));
        if text.trim().is_empty() {
            return;
        }
        self.usage = Usage::default();
        self.typed.push(text.clone());
        let is_waiting = message["__openclaw"]["pending"] == true;
        self.push(format!("m:{id}"), Body::User { text, is_waiting, is_command: false });
    }

    fn assistant(&mut self, id: &str, message: &Value) {
        self.usage.add(&message["usage"]);
        let mut said = String::new();
        let blocks = match &message["content"] {
            Value::String(text) => vec![crate::support::json!({"type": "text", "text": text})],
            content => content.as_array().cloned().unwrap_or_default(),
        };
        for (index, block) in blocks.iter().enumerate() {
            let id = format!("m:{id}:{index}");
            match block["type"].as_str() {
                Some("text" | "output_text") => {
                    let text = clean(block["text"].as_str().unwrap_or_default());
                    said.push_str(&text);
                    if !text.trim().is_empty() {
                        self.push(id, Body::Answer(text));
                    }
                }
                Some("thinking") => {
                    let text = clean(block["thinking"].as_str().unwrap_or_default());
                    if !text.trim().is_empty() {
                        self.push(id, Body::Thought(text));
                    }
                }
                Some("toolCall" | "toolUse" | "tool_use") => self.call(block),
                Some(other) => self.push(id, Body::Answer(format!("`[{}]`", one_line(other)))),
                None => {}
            }
        }
        if message["stopReason"] == "error" {
            let why = message["errorMessage"].as_str().unwrap_or("the run failed");
            self.push(format!("m:{id}:e"), Body::Notice { level: Level::Error, text: clean(why) });
        }
        let at = message["timestamp"].as_u64();
        if let Some(active) = &mut self.active
            && at.zip(active.started_at).is_some_and(|(at, began)| at >= began)
            && !said.trim().is_empty()
        {
            active.stored.push(said);
        }
    }

    fn call(&mut self, block: &Value) {
        let args = [&block["arguments"], &block["input"]].into_iter().find(|args| !args.is_null());
        let tool = Tool {
            name: one_line(block["name"].as_str().unwrap_or("tool")),
            args: args_of(args.unwrap_or(&Value::Null)),
            output: String::new(),
            state: ToolState::Running,
        };
        self.push(entry_of(block["id"].as_str().unwrap_or_default()), Body::Tool(tool));
    }

    fn result(&mut self, call: &str, name: &str, content: &Value, is_error: bool) {
        let id = entry_of(call);
        let state = if is_error { ToolState::Failed } else { ToolState::Done };
        let output = output_of(content);
        let known = self.entries.iter_mut().rev().find(|entry| entry.id == id);
        if let Some(Body::Tool(tool)) = known.map(|entry| &mut entry.body) {
            (tool.output, tool.state) = (output, state);
        } else {
            let tool = Tool { name: one_line(name), args: String::new(), output, state };
            self.push(id, Body::Tool(tool));
        }
    }

    fn turn_open_calls(&mut self, state: ToolState, is_meant: impl Fn(&str) -> bool) {
        for entry in &mut self.entries {
            if let Body::Tool(tool) = &mut entry.body
                && tool.state == ToolState::Running
                && is_meant(&entry.id)
            {
                tool.state = state;
            }
        }
    }
}

impl Usage {
    fn add(&mut self, usage: &Value) {
        let count =
            |names: [&str; 2]| names.iter().find_map(|name| usage[*name].as_u64()).unwrap_or(0);
        self.input +=
            count(["input", "inputTokens"]) + count(["cacheRead", ""]) + count(["cacheWrite", ""]);
        self.output += count(["output", "outputTokens"]);
        self.cost += usage["cost"]["total"].as_f64().unwrap_or(0.0);
    }
}

/// All text of a message, pictures as a word.
pub fn text_of(content: &Value) -> String {
    let blocks = match content {
        Value::String(text) => return text.clone(),
        content => content.as_array().map_or(&[][..], Vec::as_slice),
    };
    let words = |block: &Value| match block["type"].as_str() {
        Some("image") => Some("[image]".to_owned()),
        Some("tool_result") => None,
        _ => block["text"].as_str().map(str::to_owned),
    };
    blocks.iter().filter_map(words).collect::<Vec<_>>().join("\n")
}

/// The id of the entry of a call.
pub(super) fn entry_of(call: &str) -> String {
    format!("t:{call}")
}

/// What a tool is called with, on one line.
pub fn args_of(args: &Value) -> String {
    let text = match args {
        Value::Null => String::new(),
        Value::Object(members) => {
            let pair = |(name, value): (&String, &Value)| match value.as_str() {
                Some(text) => format!("{name}={text}"),
                None => format!("{name}={value}"),
            };
            members.iter().map(pair).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    };
    one_line(&text).chars().take(MAX_ARGS).collect()
}

/// What a tool gave.
pub fn output_of(content: &Value) -> String {
    let text = clean(&text_of(content));
    let mut short: String = text.chars().take(MAX_OUTPUT).collect();
    if short.len() < text.len() {
        short.push_str("\n…");
    }
    short.trim_end().to_owned()
}
