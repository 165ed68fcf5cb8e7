//! `/tools`: what the agent can do.

use crate::registry::Ctx;

/// `/tools [compact | verbose]`.
pub fn run(mode: &str, cx: &Ctx) -> String {
    let specs = cx.services.runs.parts().tools.specs();
    let is_verbose = match mode.to_lowercase().as_str() {
        "" | "compact" => false,
        "verbose" => true,
        _ => return "Usage: /tools [compact|verbose]".to_owned(),
    };
    let mut parts = vec!["Available tools".to_owned()];
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
