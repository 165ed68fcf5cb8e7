//! From the messages of a request to what will be answered.

use std::time::Duration;

use serde_json::{Value, json};

use super::directive::Directive;

/// What one call answers with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    pub think: Vec<String>,
    pub text: Vec<String>,
    pub tools: Vec<Tool>,
    /// Whether the calls end at the limit of the output.
    pub is_cut: bool,
    pub delay: Duration,
    /// Why it ends, in the words of OpenAI, when it is another reason than usual.
    pub finish: Option<String>,
    pub failure: Option<Failure>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    pub name: String,
    pub args: Value,
}

/// A scripted failure: at once, or after some chunks of text.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub status: u16,
    pub kind: String,
    pub message: String,
    pub retry_after: Option<String>,
    pub after_chunks: u64,
}

/// Where in a conversation a call stands.
#[derive(Debug, Default, PartialEq)]
struct Turn {
    user_text: String,
    /// Tool rounds of this turn that are done.
    rounds: usize,
    last_tool: String,
}

/// What the user said last, in messages of either dialect.
pub fn user_text(messages: &Value) -> String {
    turn_of(messages).user_text
}

/// The plan for these messages, of either dialect.
pub fn plan(messages: &Value) -> Plan {
    let turn = turn_of(messages);
    let script = Directive::parse(&turn.user_text);
    let chunks = |default| usize::try_from(script.number("n", default)).unwrap();
    let delay = Duration::from_millis(script.number("delay", 20));
    let mut plan = Plan { delay, finish: script.text("finish"), ..Plan::default() };
    match script.verb.as_str() {
        "text" => plan.text = cut(&script.text("text").unwrap_or("ok".to_owned()), chunks(3)),
        "stream" => plan.text = words(chunks(20)),
        "think" => {
            plan.think = words(chunks(5));
            // What it is to say comes letter by letter.
            let said = script.text("text").map(|text| cut(&text, text.chars().count()));
            plan.text = said.unwrap_or(vec!["After ".to_owned(), "thinking.".to_owned()]);
        }
        "silent" => plan.text = vec!["NO_REPLY".to_owned()],
        "long" => {
            let size = usize::try_from(script.number("kb", 64)).unwrap() * 1024;
            plan.text = cut(&"x".repeat(size), chunks(8));
        }
        "err" => fail(&script, &mut plan),
        "tool" => call_tools(&script, &turn, &mut plan),
        _ => plan.text = cut(&format!("Echo: {}", echoed(&turn.user_text)), 3),
    }
    plan
}

fn fail(script: &Directive, plan: &mut Plan) {
    let after = script.number("after", 0);
    plan.text = words(usize::try_from(after).unwrap());
    plan.failure = Some(Failure {
        status: u16::try_from(script.number("status", 500)).unwrap(),
        kind: script.text("type").unwrap_or("server_error".to_owned()),
        message: script.text("msg").unwrap_or("scripted failure".to_owned()),
        retry_after: script.text("retryAfter"),
        after_chunks: after,
    });
}

fn call_tools(script: &Directive, turn: &Turn, plan: &mut Plan) {
    let name_of = |i: usize| if i == 1 { String::new() } else { i.to_string() };
    let all: Vec<Tool> = (1..)
        .map_while(|i| {
            let name = script.text(&format!("name{}", name_of(i)))?;
            let args = script.options.get(&format!("args{}", name_of(i))).cloned();
            Some(Tool { name, args: args.unwrap_or_else(|| json!({})) })
        })
        .collect();
    let per_round = if script.options.contains_key("parallel") { all.len().max(1) } else { 1 };
    plan.tools = all.into_iter().skip(turn.rounds * per_round).take(per_round).collect();
    plan.is_cut = !plan.tools.is_empty() && script.options.contains_key("cut");
    if plan.tools.is_empty() && script.options.contains_key("status") {
        fail(script, plan);
    } else if plan.tools.is_empty() {
        let first: String =
            turn.last_tool.lines().next().unwrap_or_default().chars().take(60).collect();
        let text = script.text("then").unwrap_or(format!("Tool said: {first}"));
        plan.text = cut(&text, usize::try_from(script.number("n", 3)).unwrap());
    } else if turn.rounds == 0 {
        plan.text = script.text("pre").map(|text| cut(&text, 2)).unwrap_or_default();
    }
}

fn turn_of(messages: &Value) -> Turn {
    locate(messages.as_array().map(Vec::as_slice).unwrap_or_default())
}

/// Walks back from the end: tool rounds already done, then the user messages
/// of this turn. A message with a directive wins over notes of the gateway.
fn locate(messages: &[Value]) -> Turn {
    let mut typed: Vec<String> = Vec::new();
    let mut turn = Turn::default();
    for message in messages.iter().rev() {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "user" {
            typed.extend(texts(&message["content"]));
        }
        if let Some(text) = tool_result(message) {
            if !typed.is_empty() {
                break;
            }
            if turn.last_tool.is_empty() {
                turn.last_tool = text;
            }
        } else if role == "assistant" && typed.is_empty() && calls_tools(message) {
            turn.rounds += 1;
        } else if role != "user" {
            break;
        }
    }
    let scripted = typed.iter().find(|text| text.contains("@mock ")).cloned();
    let bare = || typed.iter().map(|text| without_notes(text)).find(|text| !text.is_empty());
    turn.user_text = scripted.or_else(bare).unwrap_or_default();
    if turn.user_text.starts_with("[Subagent Context]") {
        turn.user_text = task(messages, &turn.user_text).unwrap_or(turn.user_text);
    }
    turn
}

/// The directive in the task of a sub-agent: `@child` at depth 1, `@grandchild`
/// below that, so that those above do not take it for their own.
fn task(messages: &[Value], first: &str) -> Option<String> {
    let mark = if first.contains("(depth 1/") { "@child " } else { "@grandchild " };
    let system = messages.iter().find(|message| message["role"] != "user")?;
    let text = flat(&system["content"]);
    let (_, directive) = text.split_once(mark)?;
    Some(format!("@mock {directive}"))
}

fn tool_result(message: &Value) -> Option<String> {
    if message["role"] == "tool" {
        return Some(flat(&message["content"]));
    }
    let results: Vec<_> = message["content"]
        .as_array()?
        .iter()
        .filter(|part| part["type"] == "tool_result")
        .map(|part| flat(&part["content"]))
        .collect();
    (!results.is_empty()).then(|| results.join("\n"))
}

fn calls_tools(message: &Value) -> bool {
    let openai = message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
    let parts = message["content"].as_array();
    openai || parts.is_some_and(|parts| parts.iter().any(|part| part["type"] == "tool_use"))
}

/// What a user said, the last first: messages that came in a row are parts of one.
fn texts(content: &Value) -> Vec<String> {
    match content {
        Value::Array(parts) => {
            let texts = parts.iter().rev().filter_map(|part| part["text"].as_str());
            texts.map(str::to_owned).collect()
        }
        content => content.as_str().map(str::to_owned).into_iter().collect(),
    }
}

fn flat(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().map(|part| part["text"].as_str().unwrap_or_default());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// The text without the JSON blocks in which a gateway names the sender.
fn without_notes(text: &str) -> String {
    let mut rest = text.to_owned();
    while let Some(mark) = rest.find("(untrusted metadata):") {
        let start = rest[..mark].rfind('\n').map_or(0, |at| at + 1);
        let Some(open) = rest[mark..].find("```json").map(|at| mark + at + 7) else { break };
        let Some(end) = rest[open..].find("```").map(|at| open + at + 3) else { break };
        rest.replace_range(start..end, "");
    }
    rest.trim().to_owned()
}

/// The last line, at most 200 characters of it.
fn echoed(text: &str) -> String {
    let line = text.trim().lines().last().unwrap_or_default();
    let skip = line.chars().count().saturating_sub(200);
    line.chars().skip(skip).collect()
}

fn words(n: usize) -> Vec<String> {
    (1..=n).map(|i| format!("w{i} ")).collect()
}

/// `text` in at most `n` pieces of equal length.
fn cut(text: &str, n: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let size = chars.len().div_ceil(n.max(1)).max(1);
    chars.chunks(size).map(|piece| piece.iter().collect()).collect()
}

/// A JSON text in two pieces, as providers send tool arguments.
pub fn halves(text: &str) -> Vec<String> {
    cut(text, 2)
}
