//! `/tools`: what the agent can do.

use crate::agent::tools::ToolScope;
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
        let entry = cx.services.sessions.entry(key).await?.unwrap_or_default();
        let runs = &cx.services.runs;
        let scope = ToolScope::of_session(runs.parts(), key, Some(&entry)).await?;
        let profile = scope.profile(&cx.services.settings.now());
        Ok::<_, SessionError>((runs.toolbox(key, &entry, None).await?.specs(), profile))
    };
    let (specs, profile) = match listed.await {
        Ok(listed) => listed,
        Err(error) => return format!("⚠️ /tools: {error}"),
    };
    let mut parts = vec!["Available tools".to_owned(), format!("Profile: {}", profile.as_str())];
    if is_verbose {
        let lines = specs.iter().map(|spec| {
            let first = spec.description.split(". ").next().unwrap_or_default();
            format!("  {} - {first}", spec.name)
        });
        parts.push(format!("Built-in tools\n{}", lines.collect::<Vec<_>>().join("\n")));
    } else {
        let names: Vec<_> = specs.iter().map(|spec| spec.name.as_str()).collect();
        parts.push(format!("Built-in tools\n  {}", names.join(", ")));
        parts.push("Use /tools verbose for descriptions.".to_owned());
    }
    parts.join("\n\n")
}
