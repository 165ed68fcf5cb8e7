//! `/tools`: what the agent can do for who asks.

use crate::agent::tools::{Tool, ToolScope, ToolSource};
use crate::protocol::Scope;
use crate::registry::Ctx;
use crate::sessions::{SessionError, SessionKey};

/// `/tools [compact | verbose]`.
pub async fn run(mode: &str, cx: &Ctx, key: &SessionKey) -> String {
    let is_verbose = match mode.to_lowercase().as_str() {
        "" | "compact" => false,
        "verbose" => true,
        _ => return "Usage: /tools [compact|verbose]".to_owned(),
    };
    let listed = async {
        let (parts, settings) = (cx.services.runs.parts(), cx.services.settings.now());
        let entry = parts.sessions.entry(key).await?;
        let scope = ToolScope::of_session(parts, key, entry.as_ref()).await?;
        let scope = scope.owned(cx.caller.principal.allows(Scope::Admin));
        let agent = key.agent(&parts.keys.now());
        let toolbox = parts.tools.toolbox(&settings, agent.as_str(), &scope).await;
        Ok::<_, SessionError>((toolbox, scope.profile(&settings)))
    };
    let (toolbox, profile) = match listed.await {
        Ok(listed) => listed,
        Err(error) => return format!("⚠️ /tools: {error}"),
    };
    let mut parts = vec!["Available tools".to_owned(), format!("Profile: {}", profile.as_str())];
    for (source, title) in ToolSource::LISTED {
        let of_it = toolbox.iter().filter(|tool| tool.source().as_str() == source);
        let lines: Vec<_> = of_it.map(|tool| line(tool, is_verbose)).collect();
        if !lines.is_empty() {
            let text =
                if is_verbose { lines.join("\n") } else { format!("  {}", lines.join(", ")) };
            parts.push(format!("{title}\n{text}"));
        }
    }
    if !is_verbose {
        parts.push("Use /tools verbose for descriptions.".to_owned());
    }
    parts.join("\n\n")
}

/// The name of a tool and whose it is; with the beginning of what it is for, where that is
/// asked for.
fn line(tool: &dyn Tool, is_verbose: bool) -> String {
    let source = tool.source();
    let whose = source.plugin().map(|plugin| format!(" ({plugin})")).unwrap_or_default();
    let name = format!("{}{whose}", tool.name());
    if !is_verbose {
        return name;
    }
    let spec = tool.spec();
    let first = spec.description.split(". ").next().unwrap_or_default();
    format!("  {name} - {first}")
}
