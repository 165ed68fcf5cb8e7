//! `/context`: what fills the context of the session.

use serde_json::{Map, Value};

use crate::agent::ContextWeight;
use crate::agent::status::tokens;
use crate::registry::Ctx;
use crate::sessions::SessionKey;
use crate::support::json;

const HELP: &str = "🧠 /context\n\n\
    What counts as context (high-level), plus a breakdown mode.\n\n\
    Try:\n\
    - /context list   (short breakdown)\n\
    - /context detail (per tool as well)\n\
    - /context json   (same, machine-readable)";

/// About so many characters are a token.
const CHARS_PER_TOKEN: usize = 4;
const KINDS: [&str; 3] = ["user", "assistant", "toolResult"];

/// `/context [list | detail | json]`.
pub async fn run(mode: &str, cx: &Ctx, key: &SessionKey) -> String {
    let mode = mode.to_lowercase();
    if !["list", "detail", "json"].contains(&mode.as_str()) {
        return HELP.to_owned();
    }
    match cx.services.runs.weigh(key).await {
        Ok(weight) if mode == "json" => {
            format!("```json\n{:#}\n```", to_json(key, &weight))
        }
        Ok(weight) => to_text(&weight, mode == "detail"),
        Err(error) => format!("⚠️ /context: {error}"),
    }
}

fn sized(chars: usize) -> String {
    let about = u64::try_from(chars.div_ceil(CHARS_PER_TOKEN)).unwrap_or(u64::MAX);
    format!("{chars} chars (~{} tok)", tokens(about))
}

fn to_text(weight: &ContextWeight, has_detail: bool) -> String {
    let of_tools = weight.tools.iter().map(|(_, size)| size).sum();
    let mut lines = vec![
        "🧠 Context breakdown".to_owned(),
        format!("System prompt: {}", sized(weight.system)),
        format!("Tools: {} · {}", weight.tools.len(), sized(of_tools)),
    ];
    if has_detail {
        lines.extend(
            weight.tools.iter().map(|(name, size)| format!("  - {name}: {}", sized(*size))),
        );
    }
    for (kind, (count, size)) in KINDS.iter().zip(weight.messages) {
        lines.push(format!("Messages ({kind}): {count} · {}", sized(size)));
    }
    let window = weight.window.map_or_else(|| "unknown".to_owned(), tokens);
    let last = weight.tokens.map_or_else(|| "not known yet".to_owned(), tokens);
    lines.push(format!("Last call: {last} of {window} tokens"));
    lines.join("\n")
}

fn to_json(key: &SessionKey, weight: &ContextWeight) -> Value {
    let tools = weight.tools.iter().map(|(name, size)| json!({"name": name, "chars": size}));
    let messages = KINDS
        .iter()
        .zip(weight.messages)
        .map(|(kind, (count, size))| ((*kind).to_owned(), json!({"count": count, "chars": size})));
    json!({
        "sessionKey": key.as_str(),
        "systemPrompt": {"chars": weight.system},
        "tools": tools.collect::<Vec<_>>(),
        "messages": Value::Object(messages.collect::<Map<_, _>>()),
        "totalTokens": weight.tokens,
        "contextTokens": weight.window,
    })
}
