//! `/help`, `/commands`.

use super::table::{Category, Spec, offered};
use crate::registry::Ctx;

/// What most people need, with its forms.
const SHORT: [(&str, &[(&str, &str)]); 4] = [
    (
        "Session",
        &[
            ("new", "/new"),
            ("reset", "/reset"),
            ("compact", "/compact [instructions]"),
            ("stop", "/stop"),
        ],
    ),
    (
        "Options",
        &[
            ("think", "/think <level>"),
            ("model", "/model <id>"),
            ("fast", "/fast status|on|off"),
            ("verbose", "/verbose on|off|full"),
            ("trace", "/trace on|off|raw"),
            ("config", "/config"),
        ],
    ),
    (
        "Status",
        &[
            ("status", "/status"),
            ("tasks", "/tasks"),
            ("whoami", "/whoami"),
            ("context", "/context"),
        ],
    ),
    ("Skills", &[("skill", "/skill <name> [input]")]),
];

const MORE: &str = "More: /commands for full list, /tools for available capabilities";

/// `/help`.
pub fn short(cx: &Ctx) -> String {
    let known: Vec<_> = offered(cx.services.settings.now().commands.config).collect();
    let mut parts = vec!["ℹ️ Help".to_owned()];
    for (title, forms) in SHORT {
        let is_there = |name: &str| known.iter().any(|spec| spec.name == name);
        let forms = forms.iter().filter(|(name, _)| is_there(name)).map(|(_, form)| *form);
        let line = forms.collect::<Vec<_>>().join("  |  ");
        parts.push(format!("{title}\n  {line}"));
    }
    parts.push(MORE.to_owned());
    parts.join("\n\n")
}

/// `/commands`.
pub fn long(cx: &Ctx) -> String {
    let known: Vec<_> = offered(cx.services.settings.now().commands.config).collect();
    let mut parts = vec!["ℹ️ Slash commands".to_owned()];
    for category in Category::ALL {
        let lines = known.iter().filter(|spec| spec.category == category).map(|spec| line(spec));
        let lines: Vec<_> = lines.collect();
        parts.push(format!("{}\n{}", category.title(), lines.join("\n")));
    }
    parts.push("More: /tools for available capabilities".to_owned());
    parts.join("\n\n")
}

fn line(spec: &Spec) -> String {
    let (first, others) = spec.aliases.split_first().unwrap_or((&"", &[]));
    let others = match others {
        [] => String::new(),
        others => format!(" ({})", others.join(", ")),
    };
    format!("  {first}{others} - {}", spec.description)
}
