//! Who may call what: GHSA-68f8-9mhj-h2mp, CVE-2026-25593, CVE-2026-28472,
//! CVE-2026-22172, CVE-2026-35663, CVE-2026-32042. `rights.txt` says for every
//! method and every credential whether a call is let in; it is made from the
//! table of methods, read by people when it changes, and each of its cells is
//! tried here over a real socket.

use std::fs;

use clawgate::handlers;
use serde_json::json;

use crate::credentials::{COLUMNS, Shown, Verdict, Way, assert_was_read, gateway, legend, letters};
use crate::support::client::SOON;
use crate::support::{MockProvider, SECRET, WsClient};

fn page() -> String {
    let mut page = String::from(
        "Who may call what. Made by `CLAWGATE_UPDATE=1 cargo test --test security rights`;\n\
         read what changes.\n\n\
         X  the call is let in    .  refused for its role or scope    -  no connection\n\n",
    );
    page.push_str(&legend());
    page.push_str(&format!("\n{:<34}{}\n", "", letters()));
    let mut rows: Vec<_> = handlers::registry().list().collect();
    rows.sort_unstable_by_key(|(name, _)| *name);
    for (name, need) in rows {
        let signs: String = COLUMNS.iter().map(|column| column.verdict(need).sign()).collect();
        page.push_str(&format!("{name:<33} {signs}\n"));
    }
    page
}

/// The rows of the page: method, and a sign for each column.
fn rows() -> Vec<(String, Vec<char>)> {
    let page = page();
    let (_, table) = page.split_once("\n\n").unwrap();
    let is_row = |line: &&str| line.split_whitespace().count() == 2 && line.len() > 34;
    let row = |line: &str| {
        let mut parts = line.split_whitespace();
        (parts.next().unwrap().to_owned(), parts.next().unwrap().chars().collect())
    };
    let all = table.lines().filter(is_row).map(row);
    all.filter(|(_, signs): &(String, Vec<char>)| signs.len() == COLUMNS.len()).collect()
}

#[test]
fn the_rights_that_were_read_are_those_there_are() {
    assert_was_read("rights.txt", &page());
    assert_eq!(rows().len(), handlers::registry().list().count());
}

/// What a call of this method comes to. Params that no method takes: as little
/// as possible happens when it is let in.
async fn try_call(client: &mut WsClient, method: &str) -> Verdict {
    let answer = client.request(method, json!({"noSuchMember": true})).await;
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    let is_refused =
        message.starts_with("missing scope: ") || message.starts_with("unauthorized role: ");
    if is_refused { Verdict::Refused } else { Verdict::Allowed }
}

#[tokio::test]
async fn every_cell_of_the_rights_is_what_a_real_connection_meets() {
    let mock = MockProvider::start().await;
    let (by_token, by_password) = (gateway("token", &mock).await, gateway("password", &mock).await);
    let rows = rows();
    for (index, column) in COLUMNS.iter().enumerate() {
        let gateway = if column.shown == Shown::Password { &by_password } else { &by_token };
        let device = format!("device {}", column.letter);
        let (mut client, answer) = column.connect(gateway, &device).await;
        if column.worth.is_none() {
            assert_eq!(answer["ok"], false, "{}: {answer}", column.told);
            let closed = client.wait_closed(SOON).await.expect("closed");
            assert_eq!(closed.code, 1008, "{}: {closed:?}", column.told);
            assert!(rows.iter().all(|(_, signs)| signs[index] == '-'), "{}", column.told);
            continue;
        }
        assert_eq!(answer["ok"], true, "{}: {answer}", column.told);
        let offered = answer["payload"]["features"]["methods"].clone();
        for (number, (method, signs)) in rows.iter().enumerate() {
            let is_offered = offered.as_array().unwrap().contains(&json!(method));
            assert_eq!(is_offered, signs[index] == 'X', "hello of {} on {method}", column.told);
            // Whoever may call this one is gone with the rest.
            if is_offered && method == "gateway.restart.request" {
                continue;
            }
            // Who goes on with the wrong role is closed after ten tries.
            if number % 8 == 7 && column.way == Way::Node {
                client = column.connect(gateway, &device).await.0;
            }
            let met = try_call(&mut client, method).await;
            assert_eq!(met.sign(), signs[index], "{method} for {}", column.told);
        }
    }
}

#[tokio::test]
async fn no_method_is_answered_before_the_connect() {
    let mock = MockProvider::start().await;
    let gateway = gateway("token", &mock).await;
    let before = fs::read(gateway.config_path()).unwrap();
    for (method, _) in handlers::registry().list() {
        let mut client = gateway.open().await;
        client.nonce().await;
        let params = json!({"auth": {"token": SECRET}, "raw": "{}", "baseHash": "x"});
        client.send(&json!({"type": "req", "id": "1", "method": method, "params": params})).await;
        let closed = client.wait_closed(SOON).await.expect("closed");
        assert_eq!(closed.code, 1008, "{method}: {closed:?}");
        let well = client.frames().into_iter().any(|frame| frame["ok"] == true);
        assert!(!well, "{method}: {:?}", client.frames());
    }
    assert_eq!(fs::read(gateway.config_path()).unwrap(), before);
}
