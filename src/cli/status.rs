//! `clawgate health` and `clawgate status`.
//!
//! Owns: what people see of a gateway's state. Promises: members that a
//! gateway leaves out are left out here, never an error. Must not: compute
//! anything that the gateway knows better.

use clap::Args;
use serde_json::Value;

use crate::providers::OFFLINE_MODEL;
use crate::support::{Clock, SystemClock, json};

use super::client::{Client, ClientError};
use super::format::{self, count, span, table};
use super::{CliError, ConnectArgs, Screen, Surroundings};

/// Arguments of `clawgate health`.
#[derive(Debug, Args)]
pub struct HealthArgs {
    /// OpenClaw tells more with it; here all is told.
    #[arg(long, hide = true, alias = "debug")]
    verbose: bool,
    /// How to reach the gateway.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Arguments of `clawgate status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// OpenClaw tells more with it; here all is told.
    #[arg(long, hide = true, alias = "debug")]
    verbose: bool,
    /// The same.
    #[arg(long, hide = true)]
    all: bool,
    /// The same; whether channels can be reached is known without it.
    #[arg(long, hide = true)]
    deep: bool,
    /// How to reach the gateway.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Asks for the gateway's health; exit code 1 when it is not well.
pub async fn health(
    args: HealthArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    let mut client = args.connect.connect(around).await?;
    let health = client.request("health", json!({})).await?;
    if args.connect.json {
        screen.line(&format::compact(&health))?;
    } else {
        screen.text(&health_text(&health, uptime(&health, client.hello())))?;
    }
    client.close().await;
    Ok(u8::from(!is_ok(&health)))
}

/// Shows the gateway, its sessions and its clients.
pub async fn status(
    args: StatusArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    let target = args.connect.target(around)?;
    let mut client = Client::connect(&target, args.connect.limit()).await?;
    // Both at once: the gateway answers them concurrently.
    let status_id = client.start("status", json!({})).await?;
    let presence_id = client.start("system-presence", json!({})).await?;
    let status = client.answer(&status_id).await?;
    let presence = match client.answer(&presence_id).await {
        Ok(presence) => presence,
        // Older gateways may not have it, and the rest is still worth showing.
        Err(ClientError::Request(_)) => Value::Null,
        Err(error) => return Err(error.into()),
    };
    let report = json!({
        "url": target.url.to_string(),
        "version": text(client.hello(), "/server/version").or_else(|| text(&status, "/runtimeVersion")),
        "uptimeMs": uptime(&status, client.hello()),
        "status": status,
        "presence": presence,
    });
    if args.connect.json {
        screen.line(&format::compact(&report))?;
    } else {
        screen.text(&status_text(&report, SystemClock.now_ms()))?;
    }
    client.close().await;
    Ok(0)
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

fn number(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer)?.as_u64()
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn is_ok(health: &Value) -> bool {
    // A gateway that answers without saying so is well.
    health.get("ok").and_then(Value::as_bool).unwrap_or(true)
}

fn uptime(payload: &Value, hello: &Value) -> Option<u64> {
    number(payload, "/uptimeMs").or_else(|| number(hello, "/snapshot/uptimeMs"))
}

fn fact(name: &str, value: impl Into<String>) -> [String; 2] {
    [name.to_owned(), value.into()]
}

fn health_text(health: &Value, uptime: Option<u64>) -> String {
    let mut facts = vec![fact("ok", if is_ok(health) { "yes" } else { "no" })];
    facts.extend(uptime.map(|uptime| fact("uptime", span(uptime))));
    let agents: Vec<String> = list(health, "/agents").iter().filter_map(agent).collect();
    if !agents.is_empty() {
        facts.push(fact("agents", agents.join(", ")));
    }
    facts.extend(number(health, "/sessions/count").map(|n| fact("sessions", n.to_string())));
    facts.extend(list(health, "/degraded").iter().filter_map(|name| degraded(health, name)));
    table(&facts)
}

/// What is wrong with a part, and for how long.
fn degraded(health: &Value, name: &Value) -> Option<[String; 2]> {
    let name = name.as_str()?;
    let part = health.get("services")?.get(name)?;
    let since = number(part, "/since").zip(number(health, "/ts"));
    let lasts = since.map(|(since, now)| format!(" (for {})", span(now.saturating_sub(since))));
    let error = text(part, "/error").unwrap_or("not well");
    Some(fact(name, format!("{error}{}", lasts.unwrap_or_default())))
}

fn agent(agent: &Value) -> Option<String> {
    let name = text(agent, "/agentId")?;
    let is_default = agent.get("isDefault").and_then(Value::as_bool) == Some(true);
    Some(if is_default { format!("{name} (default)") } else { name.to_owned() })
}

fn status_text(report: &Value, now_ms: u64) -> String {
    let version = text(report, "/version").unwrap_or("of unknown version");
    let url = text(report, "/url").unwrap_or_default();
    let mut facts = vec![fact("gateway", format!("{version} at {url}"))];
    let ports: Vec<_> = list(report, "/status/furtherPorts").iter().map(Value::to_string).collect();
    if !ports.is_empty() {
        facts.push(fact("ports", format!("{} as well", ports.join(", "))));
    }
    facts.extend(number(report, "/uptimeMs").map(|uptime| fact("uptime", span(uptime))));
    facts.extend(text(report, "/status/sessions/defaults/model").map(|model| fact("model", model)));
    if text(report, "/status/sessions/defaults/model") == Some(OFFLINE_MODEL) {
        facts.push(fact("setup", "no model is configured: run `clawgate onboard`"));
    }
    let mut shown = table(&facts);

    let sessions: Vec<_> = list(report, "/status/sessions/recent")
        .iter()
        .map(|session| session_row(session, now_ms))
        .collect();
    let total = number(report, "/status/sessions/count").map(|n| n.to_string());
    let title = format!("sessions ({})", total.unwrap_or_else(|| sessions.len().to_string()));
    shown.push_str(&section(&title, ["KEY", "AGE", "TOKENS", "MODEL"], sessions));

    let clients: Vec<_> = list(report, "/presence")
        .iter()
        .filter(|entry| is_connected(entry))
        .map(client_row)
        .collect();
    let title = format!("clients ({})", clients.len());
    shown.push_str(&section(&title, ["NAME", "MODE", "VERSION", "PLATFORM"], clients));
    shown
}

fn section<const N: usize>(title: &str, head: [&str; N], rows: Vec<[String; N]>) -> String {
    let mut shown = format!("\n{title}\n");
    if !rows.is_empty() {
        let mut all = vec![head.map(str::to_owned)];
        all.extend(rows);
        shown.push_str(&table(&all));
    }
    shown
}

fn session_row(session: &Value, now_ms: u64) -> [String; 4] {
    let age = number(session, "/age")
        .or_else(|| number(session, "/updatedAt").map(|at| now_ms.saturating_sub(at)));
    [
        text(session, "/key").unwrap_or("?").to_owned(),
        age.map_or_else(|| "-".to_owned(), span),
        tokens(session),
        text(session, "/model").unwrap_or("-").to_owned(),
    ]
}

/// How many tokens a session has, and of how many it may have.
pub(super) fn tokens(session: &Value) -> String {
    let Some(total) = number(session, "/totalTokens") else { return "-".to_owned() };
    let room = number(session, "/contextTokens").map(|room| format!("/{}", count(room)));
    let percent = number(session, "/percentUsed").map(|percent| format!(" ({percent}%)"));
    [Some(count(total)), room, percent].into_iter().flatten().collect()
}

/// The list also holds the gateway itself and clients that have gone.
fn is_connected(entry: &Value) -> bool {
    !matches!(text(entry, "/reason"), Some("self" | "disconnect"))
}

fn client_row(entry: &Value) -> [String; 4] {
    ["/host", "/mode", "/version", "/platform"]
        .map(|member| text(entry, member).unwrap_or("-").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_is_one_line_per_fact() {
        let health = json!({
            "ok": true,
            "agents": [{"agentId": "main", "isDefault": true}, {"agentId": "work"}],
            "sessions": {"count": 3},
        });
        assert_eq!(
            health_text(&health, Some(4680)),
            "ok        yes\nuptime    4s\nagents    main (default), work\nsessions  3\n"
        );
        assert_eq!(health_text(&json!({"ok": false}), None), "ok  no\n");
        let health = json!({"ok": true, "ts": 61_000, "degraded": ["cron", "log"], "services":
            {"cron": {"ok": false, "error": "jobs fail: x", "since": 1000}, "log": {"ok": false}}});
        let shown = health_text(&health, None);
        assert_eq!(shown, "ok    yes\ncron  jobs fail: x (for 1m 0s)\nlog   not well\n");
        assert_eq!(health_text(&Value::Null, None), "ok  yes\n");
    }

    #[test]
    fn status_shows_sessions_and_who_is_connected() {
        let report = json!({
            "url": "ws://127.0.0.1:18789",
            "version": "2026.5.7",
            "uptimeMs": 61_000,
            "status": {"furtherPorts": [8000, 12345], "sessions": {
                "count": 2,
                "defaults": {"model": "mock-1"},
                "recent": [
                    {"key": "agent:main:main", "age": 3505, "totalTokens": 4533,
                     "contextTokens": 200_000, "percentUsed": 2, "model": "mock-1"},
                    {"key": "agent:main:b", "updatedAt": 40_000},
                ],
            }},
            "presence": [
                {"host": "box", "mode": "gateway", "reason": "self"},
                {"host": "gateway-client", "version": "1.0.0", "platform": "linux", "mode": "backend", "reason": "connect"},
                {"host": "gone", "reason": "disconnect"},
                {"host": "Ref Node"},
            ],
        });
        let expected = "\
gateway  2026.5.7 at ws://127.0.0.1:18789
ports    8000, 12345 as well
uptime   1m 1s
model    mock-1

sessions (2)
KEY              AGE    TOKENS          MODEL
agent:main:main  3s     4.5k/200k (2%)  mock-1
agent:main:b     1m 0s  -               -

clients (2)
NAME            MODE     VERSION  PLATFORM
gateway-client  backend  1.0.0    linux
Ref Node        -        -        -
";
        assert_eq!(status_text(&report, 100_000), expected);
    }

    #[test]
    fn status_says_how_to_get_a_model() {
        let report = json!({"url": "ws://gw",
            "status": {"sessions": {"defaults": {"model": "echo-guide"}}}});
        let shown = status_text(&report, 0);
        assert!(
            shown.contains("setup    no model is configured: run `clawgate onboard`\n"),
            "{shown}"
        );
    }

    #[test]
    fn status_tolerates_absent_members() {
        assert_eq!(
            status_text(&json!({"url": "ws://gw"}), 0),
            "gateway  of unknown version at ws://gw\n\nsessions (0)\n\nclients (0)\n"
        );
    }
}
