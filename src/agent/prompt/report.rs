//! How large the parts of a prompt are, for people who wonder where their
//! tokens go.

use serde_json::{Value, json};

use super::Prompt;
use crate::agent::workspace::InjectedFile;
use crate::providers::{ModelInfo, ThinkingLevel, ToolSpec};

/// The members of `systemPromptReport` that tell of the prompt itself; sizes
/// are in characters.
pub fn report(
    prompt: &Prompt,
    model: &ModelInfo,
    thinking: ThinkingLevel,
    tools: &[ToolSpec],
) -> Value {
    let whole = chars(&prompt.render(model, thinking, &[]));
    let files = &prompt.files;
    let context: usize = files.files.iter().map(InjectedFile::injected_chars).sum();
    let context = if prompt.written.is_some() { 0 } else { context };
    let skills = prompt.skills.blocks.iter();
    let skills: Vec<_> =
        skills.map(|(name, length)| json!({"name": name, "blockChars": length})).collect();
    let tools: Vec<_> = tools.iter().map(tool).collect();
    let schemas: u64 = tools.iter().filter_map(|tool| tool["schemaChars"].as_u64()).sum();
    let list: usize =
        prompt.tools.iter().map(|(name, summary)| chars(name) + chars(summary) + 5).sum();
    json!({
        "source": "run",
        "generatedAt": prompt.now_ms,
        "provider": model.provider,
        "model": model.id,
        "workspaceDir": prompt.agent.workspace.display().to_string(),
        "bootstrapMaxChars": files.limits.one,
        "bootstrapTotalMaxChars": files.limits.total,
        "bootstrapTruncation": {
            "warningMode": if prompt.warns_of_truncation { "always" } else { "off" },
            "warningShown": prompt.warns_of_truncation && files.truncated().next().is_some(),
            "truncatedFiles": files.truncated().count(),
            "nearLimitFiles": files.near_limit(),
            "totalNearLimit": files.is_total_near_limit(),
        },
        "systemPrompt": {
            "chars": whole,
            "projectContextChars": context,
            "nonProjectContextChars": whole.saturating_sub(context),
        },
        "injectedWorkspaceFiles": files.files.iter().map(file).collect::<Vec<_>>(),
        "skills": {"promptChars": chars(&prompt.skills.text), "entries": skills},
        "tools": {"listChars": list, "schemaChars": schemas, "entries": tools},
    })
}

fn file(file: &InjectedFile) -> Value {
    json!({
        "name": file.file.name(),
        "path": file.path.display().to_string(),
        "missing": file.is_missing,
        "rawChars": file.raw_chars,
        "injectedChars": file.injected_chars(),
        "truncated": file.is_truncated,
    })
}

fn tool(tool: &ToolSpec) -> Value {
    let properties = tool.parameters.get("properties").and_then(Value::as_object);
    json!({
        "name": tool.name,
        "summaryChars": chars(&tool.description),
        "schemaChars": chars(&tool.parameters.to_string()),
        "propertiesCount": properties.map_or(0, serde_json::Map::len),
    })
}

fn chars(text: &str) -> usize {
    text.chars().count()
}
