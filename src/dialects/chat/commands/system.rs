//! `/status`, `/profile`, `/channels`, `/preflight`, `/lockdown`, `/help`: the gateway
//! itself.

use serde_json::Value;

use crate::registry::{Ctx, Reply};
use crate::sessions::SessionKey;
use crate::support::json;

use super::super::lockdown;
use super::super::setup;

/// `/help`.
pub const HELP: &str = "\
Available Commands

  /new, /model <name>, /models, /status, /session, /config
  /skills, /addskill <name>, /removeskill <name>
  /plugins, /plugin enable|disable <id>
  /mcp, /mcp add|remove|enable|disable <name>
  /schedules, /schedule add|remove
  /sessions, /session delete <id>, /sessions clear
  /change, /profile, /channels, /clear
  /phone <number>, /call, /preflight, /lockdown, /help";

/// `/phone`, `/call`.
pub const NO_PHONE: &str = "Phone calls are not offered by this gateway.";

const LOCK_USAGE: &str = "Usage: /lockdown on | /lockdown off";

/// `/status`.
pub async fn status(cx: &Ctx, session: Option<&SessionKey>) -> Reply<String> {
    cx.check("status")?;
    let services = &cx.services;
    let model = match session {
        Some(key) => {
            let entry = services.sessions.entry(key).await.ok().flatten();
            services.models.of_session(key, entry.as_ref()).name
        }
        None => services.models.of_agent(&services.keys.now().default_agent).reference(),
    };
    let up = services.uptime_ms() / 1000;
    let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
    let (running, waiting) = services.runs.counts();
    let jobs = cx.call("cron.list", &json!({"enabled": "all"})).await?;
    let jobs = jobs["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let active = jobs.iter().filter(|job| job["enabled"] == true).count();
    let channels = cx.call("channels.status", &json!({})).await?;
    let channels: Vec<_> = accounts(&channels)
        .filter(|(_, account)| account["connected"] == true)
        .map(|(name, _)| name.to_owned())
        .collect();
    let channels = if channels.is_empty() { "none".to_owned() } else { channels.join(", ") };
    let dir = services.settings.now().paths.state_dir.display().to_string();
    Ok(format!(
        "System Status\n  Model: {model}\n  Uptime: {hours}h {minutes}m {seconds}s\n  \
         Runs: {running} active / {waiting} waiting\n  Connected channels: {channels}\n  \
         Scheduled tasks: {active} active / {} total\n  Data dir: {dir}",
        jobs.len()
    ))
}

/// The accounts of all channels, with the names of the channels.
fn accounts(status: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let channels = status["channelAccounts"].as_object();
    channels.into_iter().flatten().flat_map(|(name, accounts)| {
        accounts.as_array().into_iter().flatten().map(move |account| (name.as_str(), account))
    })
}

/// `/profile`.
pub async fn profile(cx: &Ctx) -> Reply<String> {
    let profile = setup::profile(cx).await?;
    let text = |name: &str| match profile[name].as_str() {
        None | Some("") => "(not set)".to_owned(),
        Some(text) => text.to_owned(),
    };
    let mut lines = vec![
        "Agent Profile".to_owned(),
        format!("  Name: {}", text("name")),
        format!("  Emoji: {}", text("emoji")),
        format!("  Location: {}", text("location")),
    ];
    let preferences = profile["preferences"].as_object();
    if let Some(preferences) = preferences.filter(|it| !it.is_empty()) {
        lines.push("  Preferences:".into());
        let line = |(name, value): (&String, &Value)| {
            format!("    {name}: {}", value.as_str().unwrap_or_default())
        };
        lines.extend(preferences.iter().map(line));
    }
    Ok(lines.join("\n"))
}

/// `/channels`.
pub async fn channels(cx: &Ctx) -> Reply<String> {
    let status = cx.call("channels.status", &json!({})).await?;
    let mut lines = vec!["Channel Configuration\n".to_owned()];
    for (id, label) in status["channelLabels"].as_object().into_iter().flatten() {
        let label = label.as_str().unwrap_or(id);
        let own: Vec<_> = accounts(&status).filter(|(name, _)| name == id).collect();
        if own.is_empty() {
            lines.push(format!("{label}: not configured"));
            continue;
        }
        lines.push(format!("{label}:"));
        for (_, account) in own {
            let name = account["accountId"].as_str().unwrap_or_default();
            lines.push(format!("  {name}: {}", state(account)));
        }
    }
    Ok(lines.join("\n"))
}

fn state(account: &Value) -> String {
    if account["enabled"] == false {
        return "disabled".into();
    }
    match account["lastError"].as_str() {
        Some(error) => format!("failed ({error})"),
        None if account["connected"] == true => "connected".into(),
        None if account["running"] == true => "starting".into(),
        None => "stopped".into(),
    }
}

/// `/preflight`.
pub async fn preflight(cx: &Ctx) -> Reply<String> {
    let checks = setup::checks(cx).await?;
    let is_ok = checks.iter().all(|check| check.is_ok);
    let head = format!("Preflight Checks ({})", if is_ok { "OK" } else { "FAILED" });
    let row = |check: &setup::Check| {
        let mark = if check.is_ok { "OK" } else { "!!" };
        format!("  [{mark}] {}: {}", check.name, check.detail)
    };
    Ok(std::iter::once(head).chain(checks.iter().map(row)).collect::<Vec<_>>().join("\n"))
}

/// `/lockdown [on|off]`.
pub async fn lock(cx: &Ctx, args: &str) -> Reply<String> {
    let is_on = lockdown::is_on(&cx.services.settings.now());
    let wanted = match args.to_lowercase().as_str() {
        "" => {
            let state = if is_on { "ENABLED" } else { "disabled" };
            return Ok(format!("Lock Down Mode: {state}\n\n{LOCK_USAGE}"));
        }
        "on" => true,
        "off" => false,
        _ => return Ok(LOCK_USAGE.into()),
    };
    if wanted == is_on {
        let state = if is_on { "enabled" } else { "disabled" };
        return Ok(format!("Lock Down Mode is already {state}."));
    }
    lockdown::set(cx, wanted).await?;
    Ok(if wanted {
        "Lock Down Mode ENABLED\n\n  - Admin panel disabled".into()
    } else {
        "Lock Down Mode DISABLED\n\n  - Admin panel re-enabled".into()
    })
}
