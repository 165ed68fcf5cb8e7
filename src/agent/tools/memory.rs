//! `memory_search` and `memory_get`: what an agent has written down.

use serde_json::Value;

use super::files::{reach, text};
use super::{Tool, ToolContext, ToolKind, ToolOutput};
use crate::agent::memory::{self, Excerpt, Found};
use crate::config::Settings;
use crate::providers::ToolSpec;
use crate::store::MemoryHit;
use crate::support::{BoxFuture, blocking, json, without_nulls};

/// Results when nobody asks for another number, as in the original.
const RESULTS: usize = 6;
/// Most results of a search; all of them go to the model.
const RESULTS_MAX: usize = 50;
/// Longest query, in bytes; longer ones are cut.
const QUERY_MAX: usize = 4096;

/// The search.
pub struct MemorySearch;

/// The excerpt.
pub struct MemoryGet;

/// Whether an agent is to look into its memory by itself.
fn has_memory(settings: &Settings, agent: &str) -> bool {
    settings.agents.memory_search(agent).enabled != Some(false)
}

impl Tool for MemorySearch {
    fn name(&self) -> &'static str {
        "memory_search"
    }

    fn is_for(&self, settings: &Settings, agent: &str) -> bool {
        has_memory(settings, agent)
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Reads
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name().into(),
            description: "Mandatory recall step: search MEMORY.md + memory/*.md before answering \
                questions about prior work, decisions, dates, people, preferences, or todos; \
                returns the best snippets with path and lines. Use the words that the notes may \
                use. If the response has disabled=true, memory is unavailable: tell the user."
                .into(),
            parameters: json!({
                "type": "object",
                "required": ["query"],
                "properties": {
                    "query": {"type": "string"},
                    "maxResults": {"type": "integer", "minimum": 1},
                    "minScore": {"type": "number"},
                },
                "additionalProperties": false,
            }),
        }
    }

    fn meta(&self, arguments: &Value) -> Option<String> {
        arguments.get("query")?.as_str().map(str::to_owned)
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let query = text(arguments, "query");
            let query = &query[..query.floor_char_boundary(QUERY_MAX)];
            let limit = arguments.get("maxResults").and_then(Value::as_u64);
            let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(RESULTS);
            let least = arguments.get("minScore").and_then(Value::as_f64).unwrap_or(0.0);
            let (store, limit) = (&*cx.parts().store, limit.min(RESULTS_MAX));
            let now_ms = cx.parts().clock.now_ms();
            match memory::search(store, &reach(cx).await, query, limit, now_ms).await {
                Ok(Found { hits, note }) => ToolOutput::json(without_nulls(json!({
                    "results": hits.iter().filter(|hit| hit.score >= least).map(row).collect::<Vec<_>>(),
                    "provider": "none",
                    "mode": "fts-only",
                    "citations": "auto",
                    "note": note,
                }))),
                Err(error) => ToolOutput::json(json!({
                    "results": [],
                    "disabled": true,
                    "unavailable": true,
                    "error": error.to_string(),
                })),
            }
        })
    }
}

fn row(hit: &MemoryHit) -> Value {
    let MemoryHit { path, first_line, last_line, text, score } = hit;
    let lines = if first_line == last_line {
        format!("#L{first_line}")
    } else {
        format!("#L{first_line}-L{last_line}")
    };
    json!({
        "path": path,
        "startLine": first_line,
        "endLine": last_line,
        "score": (score * 1000.0).round() / 1000.0,
        "snippet": text,
        "source": "memory",
        "citation": format!("{path}{lines}"),
        "corpus": "memory",
    })
}

impl Tool for MemoryGet {
    fn name(&self) -> &'static str {
        "memory_get"
    }

    fn is_for(&self, settings: &Settings, agent: &str) -> bool {
        has_memory(settings, agent)
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Reads
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name().into(),
            description: "Safe exact excerpt read from MEMORY.md or memory/*.md, for use after \
                memory_search. Without lines it is a bounded excerpt; nextFrom says where it \
                goes on."
                .into(),
            parameters: json!({
                "type": "object",
                "required": ["path"],
                "properties": {
                    "path": {"type": "string"},
                    "from": {"type": "integer", "minimum": 1},
                    "lines": {"type": "integer", "minimum": 1},
                },
                "additionalProperties": false,
            }),
        }
    }

    fn meta(&self, arguments: &Value) -> Option<String> {
        arguments.get("path")?.as_str().map(str::to_owned)
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let path = text(arguments, "path").trim().trim_start_matches("./").to_owned();
            let refused = |error: String| {
                ToolOutput::json(
                    json!({"path": path, "text": "", "disabled": true, "error": error}),
                )
            };
            if !memory::is_memory(&path) {
                return refused("path is not MEMORY.md or memory/*.md".into());
            }
            let number = |name| {
                let number = arguments.get(name).and_then(Value::as_u64)?;
                usize::try_from(number).ok()
            };
            let (from, lines) = (number("from"), number("lines"));
            let (reach, wanted) = (reach(cx).await, path.clone());
            let read = move || memory::excerpt(&reach, &wanted, from, lines);
            match blocking(read).await {
                Ok(Ok(None)) => ToolOutput::json(json!({"path": path, "text": ""})),
                Ok(Ok(Some(found))) => ToolOutput::json(excerpt(&path, found)),
                Ok(Err(error)) => refused(error),
                Err(_) => refused("the work was cut off".into()),
            }
        })
    }
}

fn excerpt(path: &str, found: Excerpt) -> Value {
    let Excerpt { mut text, from, lines, next } = found;
    let mut data = json!({"path": path, "text": "", "from": from, "lines": lines});
    if let Some(next) = next {
        text = format!("{text}\n\n[More content available. Use from={next} to continue.]");
        data["truncated"] = json!(true);
        data["nextFrom"] = json!(next);
    }
    data["text"] = json!(text);
    data
}
