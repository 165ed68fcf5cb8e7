//! `clawgate gateway status`, in the words of OpenClaw.

use clap::Args;
use serde_json::Value;

use super::holder::Holder;
use super::manager::Seen;
use super::place::{Installed, Place};
use crate::cli::client::{Client, Target};
use crate::cli::surroundings::settings;
use crate::cli::{CliError, ConnectArgs, Screen, Surroundings, format};
use crate::config::Overrides;
use crate::support::{Clock, SystemClock, json};
use crate::telemetry::LogPlace;

/// Arguments of `clawgate gateway status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Do not connect to the gateway
    #[arg(long, conflicts_with = "require_rpc")]
    no_probe: bool,
    /// Exit with 1 when the gateway does not answer
    #[arg(long)]
    require_rpc: bool,
    /// OpenClaw looks for services of others with it.
    #[arg(long, hide = true)]
    deep: bool,
    /// How to reach the gateway.
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Shows it.
pub async fn run(
    args: &StatusArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    let place = Place::of(&around.env).map_err(|error| CliError::Usage(error.to_string()))?;
    let target = args.connect.target(around)?;
    let probe = if args.no_probe { Value::Null } else { probe(&target, &args.connect).await };
    let config = &place.paths.config_path;
    let report = json!({
        "service": service(&place),
        "config": {"path": config.to_string_lossy(), "exists": config.exists(),
            "remote": around.local.remote.is_some()},
        "logs": {"file": log(&place, around)},
        "gateway": gateway(&place),
        "rpc": probe,
    });
    if args.connect.json {
        screen.line(&format::compact(&report))?;
    } else {
        screen.text(&text(&report, &target.url.to_string()))?;
    }
    Ok(u8::from(args.require_rpc && report["rpc"]["ok"] != true))
}

/// Whether the gateway lets us in.
async fn probe(target: &Target, connect: &ConnectArgs) -> Value {
    let url = target.url.to_string();
    match Client::connect(target, connect.limit()).await {
        Ok(client) => {
            let version = client.hello().pointer("/server/version").cloned();
            client.close().await;
            json!({"ok": true, "url": url, "version": version})
        }
        Err(error) => json!({"ok": false, "url": url, "error": error.to_string()}),
    }
}

fn service(place: &Place) -> Value {
    let manager = place.manager;
    let mut service = json!({"label": manager.name(), "name": manager.service(),
        "file": place.file.to_string_lossy(), "installed": false, "loaded": false});
    match place.installed() {
        Err(error) => service["error"] = json!(error.to_string()),
        Ok(Installed::No) => {}
        Ok(Installed::Another(state_dir)) => {
            service["ofStateDir"] = json!(state_dir.to_string_lossy());
        }
        Ok(Installed::Yes(_)) => {
            let Seen { enabled, state, pid, trouble } = manager.look();
            service["installed"] = json!(true);
            service["loaded"] = json!(enabled.is_some());
            service["loadedText"] = json!(enabled);
            service["runtime"] = json!({"status": if pid.is_some() { "running" } else { "stopped" },
                "state": state, "pid": pid});
            service["error"] = json!(trouble);
        }
    }
    service
}

fn gateway(place: &Place) -> Value {
    let Some(holder) = Holder::of(&place.paths.instance_lock()) else {
        return json!({"running": false, "stateDir": place.paths.state_dir.to_string_lossy()});
    };
    let running = holder.running;
    json!({
        "running": running.is_some(),
        "stateDir": place.paths.state_dir.to_string_lossy(),
        "pid": holder.number(),
        "address": running.map(|running| running.address.to_string()),
        "port": running.map(|running| running.address.port()),
        "tls": running.map(|running| running.is_tls),
    })
}

/// The file that was logged into last; none where the config is no good.
fn log(place: &Place, around: &Surroundings) -> Value {
    let looking = Overrides { read_only: true, ..Overrides::default() };
    let Ok(settings) = settings(&around.env, &looking) else { return Value::Null };
    let now = SystemClock.now_ms();
    let file = LogPlace::last_used(&settings.logging, &place.paths.state_dir, now).current(now);
    json!(file.to_string_lossy())
}

fn text(report: &Value, url: &str) -> String {
    let word = |pointer: &str| report.pointer(pointer).and_then(Value::as_str);
    let service = &report["service"];
    let label = word("/service/label").unwrap_or_default();
    let state = if service["installed"] == true {
        word("/service/loadedText").unwrap_or("not loaded").to_owned()
    } else if let Some(dir) = word("/service/ofStateDir") {
        format!("of another state directory: {dir}")
    } else {
        "not installed".to_owned()
    };
    let mut lines = vec![format!("Service: {label} ({state})")];
    if service["installed"] == true {
        lines.extend(word("/service/file").map(|file| format!("Service file: {file}")));
    }
    lines.extend(word("/service/error").map(|error| format!("Service trouble: {error}")));
    lines.extend(word("/config/path").map(|path| {
        let absent =
            if report["config"]["exists"] == true { "" } else { " (not there; defaults apply)" };
        format!("Config: {path}{absent}")
    }));
    lines.extend(word("/logs/file").map(|file| format!("File logs: {file}")));
    lines.push(String::new());
    lines.push(runtime(report));
    lines.extend(word("/gateway/address").map(|address| format!("Listening: {address}")));
    lines.push(match (report["rpc"]["ok"].as_bool(), word("/rpc/error")) {
        (Some(true), _) => format!("RPC probe: ok ({url})"),
        (_, Some(error)) => format!("RPC probe: failed ({url})\n  {error}"),
        _ => "RPC probe: left out".to_owned(),
    });
    if report["gateway"]["running"] != true && report["rpc"]["ok"] != true {
        let next = if service["installed"] == true { "start" } else { "install" };
        lines.push(if report["config"]["remote"] == true {
            "Start it where it runs: gateway.mode is remote, and none starts here".to_owned()
        } else {
            format!("Start with: clawgate gateway {next}   or   clawgate gateway run")
        });
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Whether the gateway of this state directory runs, and as what.
fn runtime(report: &Value) -> String {
    let (pid, of_service) = (&report["gateway"]["pid"], &report["service"]["runtime"]["pid"]);
    let state = report["service"]["runtime"]["state"].as_str();
    match pid.as_i64() {
        Some(number) if report["gateway"]["running"] != true => {
            format!("Runtime: the process {number} has the state directory, and does not listen")
        }
        Some(number) if pid == of_service => {
            format!("Runtime: running (pid {number}, {})", state.unwrap_or("as the service"))
        }
        Some(number) => format!("Runtime: running (pid {number}, not as the service)"),
        None => match state {
            Some(state) => format!("Runtime: stopped (service {state})"),
            None => "Runtime: stopped".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_that_runs_as_the_service_is_shown_in_the_words_of_openclaw() {
        let report = json!({
            "service": {"label": "systemd", "file": "/h/clawgate.service", "installed": true,
                "loadedText": "enabled",
                "runtime": {"status": "running", "state": "active (running)", "pid": 7}},
            "config": {"path": "/h/.openclaw/openclaw.json", "exists": true},
            "logs": {"file": "/h/.openclaw/logs/a.log"},
            "gateway": {"running": true, "pid": 7, "address": "127.0.0.1:18789"},
            "rpc": {"ok": true},
        });
        let expected = "\
Service: systemd (enabled)
Service file: /h/clawgate.service
Config: /h/.openclaw/openclaw.json
File logs: /h/.openclaw/logs/a.log

Runtime: running (pid 7, active (running))
Listening: 127.0.0.1:18789
RPC probe: ok (ws://127.0.0.1:18789)
";
        assert_eq!(text(&report, "ws://127.0.0.1:18789"), expected);
    }

    #[test]
    fn where_nothing_is_there_it_is_said_what_to_do() {
        let report = json!({
            "service": {"label": "systemd", "installed": false},
            "config": {"path": "/h/openclaw.json", "exists": false},
            "gateway": {"running": false},
            "rpc": {"ok": false, "error": "no gateway answers"},
        });
        let expected = "\
Service: systemd (not installed)
Config: /h/openclaw.json (not there; defaults apply)

Runtime: stopped
RPC probe: failed (ws://h)
  no gateway answers
Start with: clawgate gateway install   or   clawgate gateway run
";
        assert_eq!(text(&report, "ws://h"), expected);
        // The gateway of a client is started elsewhere.
        let mut report = report;
        report["config"]["remote"] = json!(true);
        let shown = text(&report, "wss://h");
        assert!(!shown.contains("gateway run") && shown.contains("where it runs"), "{shown}");
    }
}
