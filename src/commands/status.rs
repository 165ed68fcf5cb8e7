//! `/status`, `/whoami`.

use std::fmt::Write as _;

use crate::agent::QueueRules;
use crate::auth::Owner;
use crate::protocol::Scope;
use crate::registry::Ctx;
use crate::sessions::{SessionEntry, SessionKey};

/// `/status`: the gateway and the session, on a page.
pub async fn run(cx: &Ctx, key: &SessionKey) -> String {
    let services = &cx.services;
    let entry = services.sessions.entry(key).await.ok().flatten();
    let model = services.models.of_session(key, entry.as_ref());
    let rules = QueueRules::of(&services.settings.messages.queue, entry.as_ref());
    let entry = entry.unwrap_or_default();
    let used = entry.total_tokens.unwrap_or_default();
    let window = model.context_window().unwrap_or_default().max(1);
    let (running, waiting) = services.runs.counts();
    let choice = services.models.default_choice();
    let why = if model.info.is_none() {
        "there is no such model"
    } else if choice.model.is(&model.name) {
        choice.reason.as_str()
    } else {
        "chosen for this session"
    };
    let mut text = format!("🦞 clawgate {}\n", env!("CARGO_PKG_VERSION"));
    // Writing to a String cannot fail.
    let _ = writeln!(text, "⏱️ Uptime: gateway {}", length(services.started.elapsed().as_secs()));
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
        used * 100 / window,
        entry.compaction_count.unwrap_or_default()
    );
    let _ = writeln!(text, "🧵 Session: {key} • {}", updated(&entry, cx.now_ms()));
    let _ = writeln!(text, "📌 Tasks: {running} active · {waiting} waiting");
    let _ = writeln!(text, "⚙️ {}", options(cx, &entry));
    let _ = write!(text, "🪢 Queue: {} (depth {})", rules.mode, services.runs.waiting_in(key));
    text
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
fn options(cx: &Ctx, entry: &SessionEntry) -> String {
    let usual = cx.services.settings.agents.defaults.thinking_default.as_deref();
    let level = entry.thinking_level.as_deref().or(usual).unwrap_or("off");
    let mut options = vec![format!("Think: {level}")];
    for (name, level) in [
        ("verbose", &entry.verbose_level),
        ("trace", &entry.trace_level),
        ("reasoning", &entry.reasoning_level),
        ("elevated", &entry.elevated_level),
    ] {
        match level.as_deref() {
            None | Some("off") => {}
            Some("on") => options.push(name.to_owned()),
            Some(level) => options.push(format!("{name}:{level}")),
        }
    }
    if entry.fast_mode == Some(true) {
        options.push("fast".to_owned());
    }
    options.join(" · ")
}

/// `/whoami`: who sends, and what he may do.
pub fn whoami(cx: &Ctx) -> String {
    let principal = &cx.caller.principal;
    let held = Scope::ALL.into_iter().filter(|scope| principal.allows(*scope));
    let scopes: Vec<_> = held.map(Scope::as_str).collect();
    let device = match principal.owner() {
        Owner::Device(id) => format!("\nDevice: {id}"),
        Owner::Connection(_) => String::new(),
    };
    let client = &cx.caller.client_id;
    format!(
        "🧭 Identity\nChannel: webchat\nUser id: {client}{device}\nScopes: {}",
        scopes.join(", ")
    )
}

/// `4.5k`, as the original writes many tokens.
pub fn tokens(count: u64) -> String {
    // Tenths, rounded.
    let tenths = |unit: u64| (count * 10 + unit / 2) / unit;
    let written = |tenths: u64, unit: &str| match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole}{unit}"),
        (whole, _) if whole >= 100 => format!("{whole}{unit}"),
        (whole, tenth) => format!("{whole}.{tenth}{unit}"),
    };
    match count {
        0..1000 => count.to_string(),
        1000..1_000_000 => written(tenths(1000), "k"),
        _ => written(tenths(1_000_000), "m"),
    }
}

fn length(seconds: u64) -> String {
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
        for (count, text) in
            [(0, "0"), (999, "999"), (4521, "4.5k"), (200_000, "200k"), (1_048_576, "1m")]
        {
            assert_eq!(tokens(count), text);
        }
        for (seconds, text) in [(59, "59s"), (625, "10m 25s"), (5800, "1h 36m"), (90_000, "1d 1h")]
        {
            assert_eq!(length(seconds), text);
        }
    }
}
