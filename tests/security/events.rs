//! Who hears what: without the scope of an event nobody does, and what is no
//! known event cannot be sent. `events.txt` says for every event and every
//! credential whether it is heard; it is made from the list of events, read by
//! people when it changes, and hello and what really comes are held against it.

use clawgate::bus::{EventKind, Gate};
use clawgate::protocol::Role;
use clawgate::protocol::ScopeSet;
use serde_json::{Value, json};

use crate::credentials::{COLUMNS, Column, Shown, Verdict, assert_was_read, legend, letters};
use crate::stage::{Api, admin, ask, call, config};
use crate::support::client::SOON;
use crate::support::guest::Guest;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

/// Where the signs of a line begin.
const WIDTH: usize = 34;

fn verdict(column: &Column, gate: Gate) -> Verdict {
    let Some((role, scopes)) = column.worth else { return Verdict::Outside };
    let scopes: ScopeSet = scopes.iter().copied().collect();
    let is_node = role == Role::Node;
    let hears = match gate {
        Gate::Open => true,
        Gate::Scope(scope) => !is_node && scopes.allows(scope),
        Gate::Node => is_node,
        Gate::NodeOr(scope) => is_node || scopes.allows(scope),
    };
    if hears { Verdict::Allowed } else { Verdict::Refused }
}

fn page() -> String {
    let mut page = String::from(
        "Who hears what. Made by `CLAWGATE_UPDATE=1 cargo test --test security events`; read\n\
         what changes.\n\n\
         X  it is heard    .  it is not    -  no connection\n\n",
    );
    page.push_str(&legend());
    page.push_str(&format!("\n{:<WIDTH$}{}\n", "", letters()));
    let mut kinds = EventKind::ALL.to_vec();
    kinds.sort_unstable_by_key(|kind| kind.name());
    for kind in kinds {
        let signs: String =
            COLUMNS.iter().map(|column| verdict(column, kind.gate()).sign()).collect();
        page.push_str(&format!("{:<WIDTH$}{signs}\n", kind.name()));
    }
    page
}

#[test]
fn the_events_that_were_read_are_those_there_are() {
    assert_was_read("events.txt", &page());
}

/// Lets all kinds of things happen.
async fn much_happens(gateway: &Gateway) {
    let mut admin = admin(gateway).await;
    ask(&mut admin, "main", "good morning", "run-1").await;
    call(&mut admin, "sessions.patch", json!({"key": "other", "label": "Other"})).await;
    Guest::new("a stranger", &["operator.read"]).far().asks(gateway).await;
    let approval = json!({"command": "ls", "commandArgv": ["ls"], "twoPhase": true});
    call(&mut admin, "exec.approval.request", approval).await;
    call(&mut admin, "system-event", json!({"text": "something happened"})).await;
}

/// Everybody who gets in, with what hello promises.
async fn everybody(gateway: &Gateway) -> Vec<(&'static Column, WsClient)> {
    let mut all = Vec::new();
    for column in &COLUMNS {
        if column.worth.is_none() || column.shown == Shown::Password {
            continue;
        }
        let device = format!("event device {}", column.letter);
        let (client, hello) = column.connect(gateway, &device).await;
        assert_eq!(hello["ok"], true, "{}: {hello}", column.told);
        let offered = &hello["payload"]["features"]["events"];
        for kind in EventKind::ALL {
            let is_offered = offered.as_array().unwrap().contains(&json!(kind.name()));
            let hears = verdict(column, kind.gate()) == Verdict::Allowed;
            assert_eq!(is_offered, hears, "hello of {} on {}", column.told, kind.name());
        }
        all.push((column, client));
    }
    all
}

#[tokio::test]
async fn nobody_hears_what_his_scopes_are_not_good_for() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["gateway"]["trustedProxies"] = json!(["127.0.0.1"]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let all = everybody(&gateway).await;
    much_happens(&gateway).await;
    let mut heard = std::collections::BTreeSet::new();
    for (column, client) in &all {
        // What is heard last of all that happened is heard by then.
        for kind in [
            EventKind::Chat,
            EventKind::DevicePairRequested,
            EventKind::ExecApprovalRequested,
            EventKind::Presence,
        ] {
            if verdict(column, kind.gate()) == Verdict::Allowed {
                let is_it = |frame: &Value| frame["event"] == kind.name();
                let came = client.wait_for(SOON, is_it).await;
                assert!(came.is_some(), "{} hears no {}", column.told, kind.name());
            }
        }
        for frame in client.frames().iter().filter(|frame| frame["type"] == "event") {
            let name = frame["event"].as_str().unwrap();
            let kind = EventKind::ALL.iter().find(|kind| kind.name() == name);
            let kind = kind.unwrap_or_else(|| panic!("{name} is no known event"));
            assert_eq!(verdict(column, kind.gate()), Verdict::Allowed, "{}: {frame}", column.told);
            heard.insert(name.to_owned());
        }
    }
    for name in ["agent", "chat", "device.pair.requested", "exec.approval.requested", "presence"] {
        assert!(heard.contains(name), "{name} did not happen: {heard:?}");
    }
}
