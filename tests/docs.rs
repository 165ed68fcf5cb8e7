//! The pages in `docs/` and the README, held against the real thing: generated
//! tables, frames that are shown, settings that are shown, links.

#[path = "docs/classes.rs"]
mod classes;
#[path = "docs/config_keys.rs"]
mod config_keys;
#[path = "../benches/load/metric.rs"]
#[allow(dead_code, reason = "the benchmarks use more of it")]
mod metric;
#[path = "docs/reliability.rs"]
mod reliability;
#[path = "docs/samples.rs"]
mod samples;
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use clawgate::bus::{EventKind, Gate};
use clawgate::commands::{COMMANDS, Category};
use clawgate::handlers;
use clawgate::registry::Need;
use clawgate::telemetry::metrics::families::{ALL, Family};
use serde_json::{Value, json};
use support::client::SOON;
use support::{Closed, DeviceKey, Gateway, GatewayOptions, Incoming, WsClient, now_ms, program};

/// The token that the pages show.
const TOKEN: &str = "TOKEN";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What a line has between backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// README and pages, by path.
fn pages() -> Vec<(String, String)> {
    let mut paths = vec!["README.md".to_owned()];
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            paths.push(format!("docs/{name}"));
        }
    }
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

/// Contents of the fenced blocks of one kind.
fn blocks(page: &str, kind: &str) -> Vec<String> {
    let fence = format!("```{kind}\n");
    page.split(&fence).skip(1).map(|rest| rest.split("\n```").next().unwrap().to_owned()).collect()
}

// ---- docs/metrics.md ----

/// The lines of the table of metrics.
fn metric_lines() -> String {
    let line = |family: &Family| {
        let labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let Family { name, kind, help, .. } = family;
        format!("| `{name}` | {} | {} | {help} |\n", kind.as_str(), labels.join(", "))
    };
    ALL.iter().map(line).collect()
}

#[test]
fn the_list_of_metrics_is_that_of_the_code() {
    let page = read("docs/metrics.md");
    let head = "| metric | kind | labels | what it means |\n|---|---|---|---|\n";
    let (before, rest) = page.split_once(head).unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    let made = format!("{before}{head}{}\n{after}", metric_lines());
    if std::env::var_os("CLAWGATE_UPDATE").is_some() {
        fs::write(root().join("docs/metrics.md"), &made).unwrap();
    }
    assert_eq!(read("docs/metrics.md"), made, "CLAWGATE_UPDATE=1 cargo test --test docs");
}

#[test]
fn the_dashboard_shows_every_metric_and_none_that_there_is_not() {
    let board: Value = serde_json::from_str(&read("config/grafana-dashboard.json")).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries: Vec<_> = targets.map(|it| it["expr"].as_str().unwrap().to_owned()).collect();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut shown: BTreeSet<&str> = BTreeSet::new();
    for word in queries.iter().flat_map(|query| query.split(|c| !is_name(c))) {
        if word.starts_with("clawgate_") {
            let times = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end));
            let is_known = |name: &str| ALL.iter().any(|family| family.name == name);
            shown.insert(times.filter(|name| is_known(name)).unwrap_or(word));
        }
    }
    let names: BTreeSet<_> = ALL.iter().map(|family| family.name).collect();
    assert_eq!(shown, names);
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    let sources = panels.iter().filter(|panel| panel["type"] != "row");
    assert!(sources.into_iter().all(|panel| panel["datasource"]["uid"] == "${datasource}"));
}

// ---- docs/methods.md ----

/// The sentence after `` /// `name`: `` in a source, and the source.
fn method_doc(name: &str) -> (String, String) {
    for file in fs::read_dir(root().join("src/handlers")).unwrap() {
        let file = file.unwrap().file_name().into_string().unwrap();
        let source = read(&format!("src/handlers/{file}"));
        if let Some((_, doc)) = source.split_once(&format!("/// `{name}`: ")) {
            return (sentence(doc), file);
        }
    }
    panic!("no function in src/handlers begins its comment with `{name}`: …");
}

/// The first sentence of a doc comment whose marker was taken off.
fn sentence(doc: &str) -> String {
    let mut words = String::new();
    for (index, line) in doc.lines().enumerate() {
        let text = if index == 0 { Some(line) } else { line.trim().strip_prefix("/// ") };
        let Some(text) = text else { break };
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(text.trim());
    }
    let end = words.find(". ").map_or(words.len(), |at| at + 1);
    words.truncate(end);
    words.trim_end_matches('.').to_owned()
}

fn event_doc(name: &str) -> String {
    let source = read("src/bus/kind.rs");
    let (before, _) = source.split_once(&format!(" = \"{name}\"")).unwrap();
    let start = before.rfind("    /// ").unwrap();
    sentence(before.get(start..).unwrap().trim().trim_start_matches("/// "))
}

fn methods_page() -> String {
    let mut page = String::from(
        "# Methods and events\n\n\
         Generated from the tables in `src/handlers/mod.rs` and `src/bus/kind.rs` by\n\
         `CLAWGATE_UPDATE=1 cargo test --test docs`; do not edit.\n\n\
         `operator.admin` satisfies every scope, `operator.write` satisfies `operator.read`.\n\
         Any other name is answered with `unknown method`, to admins; without that scope\n\
         with `missing scope: operator.admin`. `features` of `hello-ok` names what the\n\
         connection may call and will hear.\n\n\
         ## Methods\n\n| method | scope | what it does | in `src/handlers/` |\n|---|---|---|---|\n",
    );
    for (name, need) in handlers::registry().list() {
        let scope = match need {
            Need::Open => "none".to_owned(),
            Need::Node => "role `node`".to_owned(),
            Need::Operator(scope) => format!("`{}`", scope.as_str()),
        };
        let (doc, file) = method_doc(name);
        page.push_str(&format!("| `{name}` | {scope} | {doc} | `{file}` |\n"));
    }
    page.push_str("\n## Events\n\n| event | scope | when |\n|---|---|---|\n");
    for kind in EventKind::ALL {
        let scope = match kind.gate() {
            Gate::Open => "none".to_owned(),
            Gate::Node => "node".to_owned(),
            Gate::NodeOr(scope) => format!("node, or `{}`", scope.as_str()),
            Gate::Scope(scope) => format!("`{}`", scope.as_str()),
        };
        page.push_str(&format!("| `{}` | {scope} | {} |\n", kind.name(), event_doc(kind.name())));
    }
    page
}

#[test]
fn the_page_of_methods_is_current() {
    let path = root().join("docs/methods.md");
    let expected = methods_page();
    if std::env::var("CLAWGATE_UPDATE").is_ok_and(|value| value == "1") {
        fs::write(&path, &expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/methods.md is stale: CLAWGATE_UPDATE=1 cargo test --test docs"
    );
}

// ---- docs/commands.md ----

const COMMANDS_BEGIN: &str = "<!-- commands -->\n";
const COMMANDS_END: &str = "<!-- end -->";

fn commands_table() -> String {
    let mut table = String::from(
        "Generated by `CLAWGATE_UPDATE=1 cargo test --test docs`.\n\n\
         | command | what it does | calls |\n|---|---|---|\n",
    );
    for category in Category::ALL {
        for spec in COMMANDS.iter().filter(|spec| spec.category == category) {
            let code = |names: &[&str]| {
                let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
                names.join(", ")
            };
            let (names, calls) = (code(spec.aliases), code(spec.methods));
            table.push_str(&format!("| {names} | {} | {calls} |\n", spec.description));
        }
    }
    table
}

#[test]
fn the_page_of_commands_is_current() {
    let path = root().join("docs/commands.md");
    let page = read("docs/commands.md");
    let (head, rest) = page.split_once(COMMANDS_BEGIN).unwrap();
    let (found, tail) = rest.split_once(COMMANDS_END).unwrap();
    let expected = commands_table();
    if std::env::var("CLAWGATE_UPDATE").is_ok_and(|value| value == "1") {
        let page = [head, COMMANDS_BEGIN, &expected, COMMANDS_END, tail].concat();
        return fs::write(&path, page).unwrap();
    }
    assert!(
        found == expected,
        "docs/commands.md is stale: CLAWGATE_UPDATE=1 cargo test --test docs"
    );
}

// ---- links and settings ----

#[test]
fn links_lead_to_files_that_are_there() {
    let mut broken = Vec::new();
    for (page, text) in pages() {
        let folder = root().join(&page).parent().unwrap().to_owned();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            let is_own = !file.is_empty() && !link.contains("://");
            if is_own && !folder.join(file).exists() {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn settings_that_are_shown_are_valid() {
    let shown: Vec<_> = pages()
        .into_iter()
        .flat_map(|(page, text)| {
            blocks(&text, "json5").into_iter().map(move |block| (page.clone(), block))
        })
        .collect();
    assert!(!shown.is_empty());
    for (page, block) in shown {
        is_valid(&page, &block);
    }
}

/// Checks settings that are shown somewhere with `clawgate config validate`.
fn is_valid(place: &str, settings: &str) {
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("openclaw.json");
    fs::write(&config, settings).unwrap();
    let output = Command::new(program())
        .args(["config", "validate"])
        .env_clear()
        .envs([("HOME", home.path()), ("OPENCLAW_CONFIG_PATH", &config)])
        .envs(["EXAMPLE_API_KEY", "MY_GATEWAY_TOKEN"].map(|name| (name, "x")))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{place}: {error}\n{settings}");
}

// ---- docs/protocol.md ----

/// One line of a conversation.
#[derive(Debug, PartialEq)]
enum Line {
    Send(Value),
    Receive(Value),
    Close(Closed),
}

/// A `wire` block: `→` is sent, `←` is received, an indented line continues.
fn conversation(block: &str) -> Vec<Line> {
    let mut texts: Vec<String> = Vec::new();
    for line in block.lines() {
        match texts.last_mut() {
            Some(last) if line.starts_with("  ") => last.push_str(line.trim_start()),
            _ => texts.push(line.to_owned()),
        }
    }
    let frame =
        |text: &str| serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"));
    texts
        .iter()
        .map(|text| {
            if let Some(sent) = text.strip_prefix("→ ") {
                return Line::Send(frame(sent));
            }
            let received = text.strip_prefix("← ").unwrap_or_else(|| panic!("odd line {text}"));
            match received.strip_prefix("close ") {
                None => Line::Receive(frame(received)),
                Some(close) => {
                    let (code, reason) = close.split_once(' ').unwrap_or((close, ""));
                    Line::Close(Closed { code: code.parse().unwrap(), reason: reason.to_owned() })
                }
            }
        })
        .collect()
}

/// Whether `found` is what is shown: `"…"` stands for anything, objects may
/// have more members, a list that ends in `"…"` more items, a text more text.
fn fits(shown: &Value, found: &Value) -> bool {
    match (shown, found) {
        (Value::String(shown), Value::String(found)) => match shown.strip_suffix('…') {
            Some(start) => found.starts_with(start),
            None => shown == found,
        },
        (Value::String(shown), _) => shown == "…",
        (Value::Object(shown), Value::Object(found)) => shown
            .iter()
            .all(|(name, value)| found.get(name).is_some_and(|found| fits(value, found))),
        (Value::Array(shown), Value::Array(found)) => {
            let is_open = shown.last().is_some_and(|last| *last == json!("…"));
            let named = if is_open { &shown[..shown.len() - 1] } else { &shown[..] };
            (is_open || named.len() == found.len())
                && named.len() <= found.len()
                && named.iter().zip(found).all(|(shown, found)| fits(shown, found))
        }
        _ => shown == found,
    }
}

async fn play(address: &str, lines: Vec<Line>) {
    let mut client = WsClient::open(address).await;
    let mut next = 0;
    for line in lines {
        let wanted = |incoming: &Incoming| match (&line, incoming) {
            (Line::Receive(shown), Incoming::Frame(found)) => fits(shown, found),
            (Line::Close(shown), Incoming::Close(found)) => shown == found,
            _ => false,
        };
        if let Line::Send(frame) = &line {
            client.send(frame).await;
            continue;
        }
        let found = client
            .wait_until(SOON, |all| (next..all.len()).find(|index| wanted(&all[*index].what)))
            .await;
        let Some(index) = found else {
            panic!("{line:?}\nnever came; received {:#?}", client.received());
        };
        next = index + 1;
    }
}

async fn gateway() -> Gateway {
    let config = json!({
        "gateway": {"auth": {"mode": "token", "token": TOKEN}},
        "agents": {"defaults": {"model": "offline/echo-guide"}},
    });
    Gateway::start(GatewayOptions::with_config(config)).await
}

#[tokio::test]
async fn the_frames_that_are_shown_are_the_frames_that_come() {
    let page = read("docs/protocol.md");
    let shown = blocks(&page, "wire");
    assert!(shown.len() >= 5, "only {} conversations found", shown.len());
    for block in shown {
        // Each on a gateway of its own, so that their order does not matter.
        let gateway = gateway().await;
        play(&gateway.address(), conversation(&block)).await;
    }
}

#[tokio::test]
async fn a_local_device_that_proves_itself_gets_the_scopes_it_asks_for() {
    let gateway = gateway().await;
    let mut client = WsClient::open(&gateway.address()).await;
    let nonce = client.nonce().await;
    let mut connect = json!({
        "minProtocol": 3, "maxProtocol": 4,
        "client": {"id": "cli", "version": "1", "platform": "linux", "mode": "cli"},
        "scopes": ["operator.read"], "auth": {"token": TOKEN},
    });
    let proof = DeviceKey::named("documented").proof(&connect, &nonce, now_ms());
    connect["device"] = proof;
    let answer = client.request("connect", connect).await;
    assert_eq!(answer["payload"]["auth"]["scopes"], json!(["operator.read"]), "{answer}");
}

#[test]
fn what_does_not_fit_is_noticed() {
    let shown = json!({"a": "x…", "b": ["…"], "c": [1, 2], "d": "…"});
    assert!(fits(&shown, &json!({"a": "xy", "b": [1], "c": [1, 2], "d": {}, "e": 0})));
    for wrong in [
        json!({"a": "y", "b": [], "c": [1, 2], "d": 0}),
        json!({"a": "x", "b": [], "c": [1], "d": 0}),
        json!({"a": "x", "b": [], "c": [1, 2, 3], "d": 0}),
        json!({"a": "x", "b": [], "c": [1, 2]}),
    ] {
        assert!(!fits(&shown, &wrong), "{wrong}");
    }
    assert_eq!(
        conversation("→ {\"a\":\n  1}\n← close 1008 invalid role"),
        [
            Line::Send(json!({"a": 1})),
            Line::Close(Closed { code: 1008, reason: "invalid role".into() })
        ]
    );
}
