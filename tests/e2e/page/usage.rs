//! What models used, on our page.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::Place;
use crate::stage::{admin, ask};
use crate::support::{Gateway, GatewayOptions, MockProvider, default_config};

/// The first day of what the original has left behind.
const FIRST: &str = "2026-03-04";
const LAST: &str = "2026-03-06";

fn line(day: u32, minute: u32, message: &Value) -> String {
    let timestamp = format!("2026-03-{day:02}T10:{minute:02}:00.000Z");
    let id = format!("{day}-{minute}");
    let line = json!({"type": "message", "id": id, "parentId": null, "timestamp": timestamp,
        "message": message});
    format!("{line}\n")
}

/// An answer of a model whose price nobody knows when `cost` is not there.
fn answer(model: &str, input: u64, output: u64, cost: Option<f64>) -> Value {
    let mut usage = json!({"input": input, "output": output, "cacheRead": 30, "cacheWrite": 4,
        "totalTokens": input + output + 34});
    if let Some(cost) = cost {
        usage["cost"] = json!({"input": cost, "output": 0, "cacheRead": 0, "cacheWrite": 0,
            "total": cost});
    }
    json!({"role": "assistant", "content": [{"type": "text", "text": "so much"}],
        "api": "openai-completions", "provider": "elsewhere", "model": model, "usage": usage,
        "stopReason": "stop", "timestamp": 1})
}

/// Two sessions on three days, by three models.
fn left_behind(state: &Path) {
    let folder = state.join("agents/main/sessions");
    fs::create_dir_all(&folder).unwrap();
    let index = json!({
        "agent:main:trip": {"sessionId": "s-trip", "updatedAt": 1_772_620_000_000_u64,
            "channel": "telegram", "label": "Trip"},
        "agent:main:taxes": {"sessionId": "s-taxes", "updatedAt": 1_772_800_000_000_u64,
            "label": "=Taxes"},
    });
    fs::write(folder.join("sessions.json"), index.to_string()).unwrap();
    let header = |id: &str| format!("{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\"}}\n");
    let question = json!({"role": "user", "content": [{"type": "text", "text": "how much?"}],
        "timestamp": 1});
    let trip = [
        header("s-trip"),
        line(4, 1, &question),
        line(4, 2, &answer("big", 1000, 10, Some(0.5))),
        line(5, 1, &answer("small", 400, 20, Some(0.125))),
    ];
    fs::write(folder.join("s-trip.jsonl"), trip.concat()).unwrap();
    let taxes = [
        header("s-taxes"),
        line(6, 1, &question),
        line(6, 2, &answer("big", 3000, 30, Some(1.5))),
        line(6, 3, &answer("unpriced", 50, 5, None)),
    ];
    fs::write(folder.join("s-taxes.jsonl"), taxes.concat()).unwrap();
}

#[tokio::test]
async fn what_transcripts_say_was_used_is_shown_by_day_and_model_and_downloaded() {
    let mock = MockProvider::start().await;
    let root = TempDir::with_prefix("clawgate-test-").unwrap();
    left_behind(&root.path().join("state"));
    let options = GatewayOptions::with_config(default_config(mock.address()));
    let place = Place::of(Gateway::start_in(root, options).await.unwrap(), mock).await;
    let told = place.run("usage", "shows", json!({"first": FIRST, "last": LAST})).await;
    assert_eq!(told["totals"]["Tokens"], "4.7K 4,651 in all", "{told}");
    assert_eq!(told["totals"]["In"], "4.5K $2.13", "{told}");
    assert_eq!(told["totals"]["Out"], "65", "{told}");
    assert_eq!(told["totals"]["Cache"], "136 120 read, 16 written", "{told}");
    assert_eq!(told["totals"]["Cost"], "$2.13 at least", "{told}");
    assert_eq!(told["totals"]["Messages"], "6 2 from people", "{told}");
    assert_eq!(told["totals"]["Answers"], "4 0 tool calls", "{told}");
    assert!(told["missing"].as_str().unwrap().contains("price of 1 answer"), "{told}");
    // Models by their use, days in order.
    assert_eq!(
        told["byModel"],
        json!([
            ["When", "elsewhere/big", "elsewhere/small", "elsewhere/unpriced"],
            ["Mar 4, 2026", "1K", "0", "0"],
            ["Mar 5, 2026", "0", "454", "0"],
            ["Mar 6, 2026", "3.1K", "0", "89"],
        ])
    );
    assert_eq!(
        told["costBySession"],
        json!([
            ["When", "=Taxes", "Trip"],
            ["Mar 4, 2026", "$0.00", "$0.50"],
            ["Mar 5, 2026", "$0.00", "$0.13"],
            ["Mar 6, 2026", "$1.50", "$0.00"],
        ])
    );
    // What stands on the keyboard's point is what a screen reader says of it.
    let said = "Mar 5, 2026: elsewhere/big 0 tokens, elsewhere/small 454 tokens, \
                elsewhere/unpriced 0 tokens";
    assert_eq!(told["point"], said);
    let csv = "date,session,tokens,cost_usd\r\n2026-03-04,Trip,1044,0.5\r\n\
               2026-03-05,Trip,454,0.125\r\n2026-03-06,'=Taxes,3153,1.5\r\n";
    assert_eq!(told["csv"], csv);
    assert_eq!(told["file"], format!("usage-{FIRST}-{LAST}-by-session.csv"));
    assert_eq!(told["chat"], "#/chat/agent%3Amain%3Ataxes");
}

/// The sums over all transcripts of an agent.
fn sums(sessions: &Path) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for file in fs::read_dir(sessions).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_none_or(|it| it != "jsonl") {
            continue;
        }
        for line in fs::read_to_string(file).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let usage = &line["message"]["usage"];
            for name in ["input", "output", "totalTokens"] {
                *sums.entry(name.to_owned()).or_default() += usage[name].as_f64().unwrap_or(0.0);
            }
            let cost = usage["cost"]["total"].as_f64().unwrap_or(0.0);
            *sums.entry("cost".to_owned()).or_default() += cost;
        }
    }
    sums
}

#[tokio::test]
async fn what_a_model_was_just_asked_is_in_the_usage_of_today() {
    let place = Place::new().await;
    let mut client = admin(&place.gateway).await;
    for (session, run) in [("main", "r1"), ("main", "r2"), ("agent:main:other", "r3")] {
        ask(&mut client, session, "how are you?", run).await;
    }
    let sums = sums(&place.gateway.state_dir().join("agents/main/sessions"));
    let told = place.run("usage", "today", json!({"tokens": sums["totalTokens"]})).await;
    let shown = |name: &str| told["today"][name].as_f64().unwrap();
    assert!(sums["totalTokens"] > 0.0 && sums["cost"] > 0.0, "{sums:?}");
    assert_eq!(shown("tokens"), sums["totalTokens"], "{told}");
    assert!((shown("cost") - sums["cost"]).abs() < 0.000_05, "{told} {sums:?}");
    assert_eq!(told["model"], "mock/mock-1", "{told}");
}
