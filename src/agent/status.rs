//! The gateway and a session on a page, for people and for models. The lines
//! are those of the original.

use std::fmt::Write as _;

use crate::config::AgentSettings;
use crate::sessions::{AgentId, SessionEntry, SessionKey};

use super::models::SessionModel;
use super::queue::QueueRules;
use super::runs::Runs;

/// The page of a session, which need not have begun, for who asks by this channel.
pub fn text(
    runs: &Runs,
    key: &SessionKey,
    entry: Option<SessionEntry>,
    came_by: Option<&str>,
) -> String {
    let parts = runs.parts();
    let model = parts.models.of_session(key, entry.as_ref());
    let rules = QueueRules::of(&parts.settings.now().messages.queue, entry.as_ref(), came_by);
    let entry = entry.unwrap_or_default();
    let now = parts.clock.now_ms();
    let used = entry.total_tokens.unwrap_or_default();
    let window = model.context_window().unwrap_or_default();
    let (running, waiting) = runs.counts();
    let why = why(runs, key, &model);
    let up = now.saturating_sub(runs.started_at()) / 1000;
    let mut text = format!("🦞 clawgate {}\n", env!("CARGO_PKG_VERSION"));
    // Writing to a String cannot fail.
    let _ = writeln!(text, "⏱️ Uptime: gateway {}", length(up));
    let _ = writeln!(text, "🧠 Model: {} ({why})", model.name);
    let _ = writeln!(
        text,
        "🧮 Tokens: {} in / {} out · 💵 Cost: ${:.4}",
        tokens(entry.input_tokens.unwrap_or_default()),
        tokens(entry.output_tokens.unwrap_or_default()),
        entry.estimated_cost_usd.unwrap_or_default()
    );
    let _ = writeln!(
        text,
        "📚 Context: {}/{} ({}%) · 🧹 Compactions: {}",
        tokens(used),
        tokens(window),
        used.saturating_mul(100) / window.max(1),
        entry.compaction_count.unwrap_or_default()
    );
    let _ = writeln!(text, "🧵 Session: {key} • {}", updated(&entry, now));
    let _ = writeln!(text, "📌 Tasks: {running} active · {waiting} waiting");
    let _ = writeln!(text, "⚙️ {}", options(runs, key, &entry));
    let _ = write!(text, "🪢 Queue: {} (depth {})", rules.mode, runs.waiting_in(key));
    text
}

/// Why this model answers in the session.
fn why(runs: &Runs, key: &SessionKey, model: &SessionModel) -> String {
    let (parts, settings) = (runs.parts(), runs.parts().settings.now());
    let agent = key.agent(&parts.keys.now());
    if model.info.is_none() {
        return "there is no such model".to_owned();
    }
    if !parts.models.of_agent(&agent).is(&model.name) {
        return "chosen for this session".to_owned();
    }
    let has_own = |it: &AgentSettings| it.model.is_some() && AgentId::normalize(&it.id) == agent;
    match settings.agents.list.iter().rposition(has_own) {
        Some(index) => match parts.models.missing_of(&agent) {
            Some(missing) => missing.message,
            None => format!("agents.list[{index}].model names it"),
        },
        None => parts.models.default_choice().reason,
    }
}

fn updated(entry: &SessionEntry, now_ms: u64) -> String {
    match entry.updated_at {
        0 => "not begun".to_owned(),
        at => match now_ms.saturating_sub(at) / 1000 {
            0..60 => "updated just now".to_owned(),
            seconds => format!("updated {} ago", length(seconds)),
        },
    }
}

/// The settings of the session that are not as usual.
fn options(runs: &Runs, key: &SessionKey, entry: &SessionEntry) -> String {
    let settings = runs.parts().settings.now();
    let agents = &settings.agents;
    let level = runs.parts().models.thinking(key, entry);
    let mut options = vec![format!("Think: {}", level.as_str())];
    let agent = key.agent(&runs.parts().keys.now());
    let verbose = agents.verbose_level(agent.as_str(), entry.verbose_level.as_deref());
    let reasoning = agents.reasoning_level(agent.as_str(), entry.reasoning_level.as_deref());
    let levels = [
        ("verbose", verbose),
        ("trace", entry.trace_level.as_deref()),
        ("reasoning", reasoning),
        ("elevated", entry.elevated_level.as_deref()),
    ];
    options.extend(levels.into_iter().filter_map(|(name, level)| match level {
        None | Some("off") => None,
        Some("on") => Some(name.to_owned()),
        Some(level) => Some(format!("{name}:{level}")),
    }));
    if entry.fast_mode == Some(true) {
        options.push("fast".to_owned());
    }
    options.join(" · ")
}

/// `4.5k`, as the original writes many tokens.
pub fn tokens(count: u64) -> String {
    // Tenths, rounded.
    let in_units = |unit: u64, name: &str| {
        let tenths = (count.saturating_mul(10) + unit / 2) / unit;
        match (tenths / 10, tenths % 10) {
            (whole, 0) => format!("{whole}{name}"),
            (whole, _) if whole >= 100 => format!("{whole}{name}"),
            (whole, tenth) => format!("{whole}.{tenth}{name}"),
        }
    };
    match count {
        0..1000 => count.to_string(),
        1000..1_000_000 => in_units(1000, "k"),
        _ => in_units(1_000_000, "m"),
    }
}

/// A length of time in its two largest units.
pub fn length(seconds: u64) -> String {
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, seconds) => format!("{seconds}s"),
        (0, 0, minutes, seconds) => format!("{minutes}m {seconds}s"),
        (0, hours, minutes, _) => format!("{hours}h {minutes}m"),
        (days, hours, ..) => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_times_are_short() {
        for (count, text) in [(0, "0"), (999, "999"), (4321, "4.3k"), (200_000, "200k")] {
            assert_eq!(tokens(count), text);
        }
        for (seconds, text) in [(5, "5s"), (74, "1m 14s"), (4560, "1h 16m"), (90_000, "1d 1h")] {
            assert_eq!(length(seconds), text);
        }
    }
}
