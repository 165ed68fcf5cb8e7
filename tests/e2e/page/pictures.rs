//! Pictures of our page for the README. `CLAWGATE_UPDATE=1 cargo test --test e2e
//! pictures` takes them anew; otherwise nothing happens here.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Place;
use crate::support::{Gateway, GatewayOptions, MockProvider, default_config};

/// Days with something in them.
const DAYS: i64 = 30;
/// A README is read on phones as well.
const MOST_BYTES: u64 = 150_000;

/// A session: its key, label and channel, its model with the prices of a million
/// tokens, and what was said in it last.
type Told =
    (&'static str, &'static str, Option<&'static str>, (&'static str, f64, f64), [&'static str; 2]);

const OPUS: (&str, f64, f64) = ("claude-opus-4-6", 5.0, 25.0);
const SONNET: (&str, f64, f64) = ("claude-sonnet-4-6", 3.0, 15.0);
const SMALL: (&str, f64, f64) = ("claude-haiku-4-5", 1.0, 5.0);

const SESSIONS: [Told; 5] = [
    (
        "main",
        "Home",
        None,
        OPUS,
        [
            "Which nights this week are cold enough to cover the tomatoes?",
            "Two of them:\n\n| night | low | cover? |\n|---|---|---|\n| Tuesday | 3 °C | yes |\n\
             | Wednesday | 9 °C | no |\n| Thursday | 4 °C | yes |\n\nI can remind you at six on \
             **Tuesday** and **Thursday**. Shall I?",
        ],
    ),
    (
        "trip",
        "Trip to Lisbon",
        Some("telegram"),
        SONNET,
        ["Find a train for Friday.", "The 8:32 is direct."],
    ),
    ("taxes", "Taxes", None, OPUS, ["What is still missing?", "The receipt of the heating."]),
    ("news", "Morning news", Some("webhook"), SMALL, ["What is new?", "Nothing that cannot wait."]),
    (
        "recipes",
        "Recipes",
        Some("telegram"),
        SMALL,
        ["Something with leeks?", "A tart: leeks, eggs, cream."],
    ),
];

fn line(id: &str, at: Timestamp, message: &Value) -> String {
    let line = json!({"type": "message", "id": id, "parentId": null,
        "timestamp": format!("{at:.3}"), "message": message});
    format!("{line}\n")
}

fn transcript(number: i64, (_, _, _, (model, input_price, output_price), said): &Told) -> String {
    let mut text = format!("{{\"type\":\"session\",\"version\":3,\"id\":\"s-{number}\"}}\n");
    let now = Timestamp::now();
    for day in (0..DAYS).rev() {
        // Some days are quiet, and none is like the other.
        let mark = (day * 7 + number * 13) * 2_654_435 % 97;
        if day > 0 && mark % 4 == 0 {
            continue;
        }
        let at = now - SignedDuration::from_hours(day * 24) - SignedDuration::from_mins(number);
        let (input, output) = (mark * 900 + 4000, mark * 45 + 300);
        #[allow(clippy::cast_precision_loss, reason = "some thousands")]
        let cost = |tokens: i64, price: f64| tokens as f64 * price / 1e6;
        let costs = (cost(input, *input_price), cost(output, *output_price));
        let question = json!({"role": "user", "content": [{"type": "text", "text": said[0]}],
            "timestamp": at.as_millisecond()});
        let answer = json!({"role": "assistant", "content": [{"type": "text", "text": said[1]}],
            "api": "anthropic-messages", "provider": "anthropic", "model": model,
            "usage": {"input": input, "output": output, "cacheRead": 0, "cacheWrite": 0,
                "totalTokens": input + output, "cost": {"input": costs.0, "output": costs.1,
                "cacheRead": 0, "cacheWrite": 0, "total": costs.0 + costs.1}},
            "stopReason": "stop", "timestamp": at.as_millisecond()});
        let _ = write!(text, "{}", line(&format!("q{day}"), at, &question));
        let _ = write!(text, "{}", line(&format!("a{day}"), at, &answer));
    }
    text
}

fn lived_in(state: &Path) {
    let folder = state.join("agents/main/sessions");
    fs::create_dir_all(&folder).unwrap();
    let mut index = json!({});
    for (number, told) in (0..).zip(&SESSIONS) {
        let at = Timestamp::now() - SignedDuration::from_mins(number);
        let mut entry = json!({"sessionId": format!("s-{number}"), "label": told.1,
            "updatedAt": at.as_millisecond()});
        if let Some(channel) = told.2 {
            entry["channel"] = json!(channel);
        }
        index[format!("agent:main:{}", told.0)] = entry;
        fs::write(folder.join(format!("s-{number}.jsonl")), transcript(number, told)).unwrap();
    }
    fs::write(folder.join("sessions.json"), index.to_string()).unwrap();
}

#[tokio::test]
async fn pictures_are_taken_when_they_are_wanted() {
    if std::env::var_os("CLAWGATE_UPDATE").is_none() {
        return;
    }
    let mock = MockProvider::start().await;
    let root = TempDir::with_prefix("clawgate-test-").unwrap();
    lived_in(&root.path().join("state"));
    let options = GatewayOptions::with_config(default_config(mock.address()));
    let place = Place::of(Gateway::start_in(root, options).await.unwrap(), mock).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/images");
    fs::create_dir_all(&folder).unwrap();
    let told = place.run("pictures", "takes", json!({"folder": folder})).await;
    for name in told.as_array().unwrap() {
        let size = fs::metadata(folder.join(name.as_str().unwrap())).unwrap().len();
        assert!(size < MOST_BYTES, "{name}: {size}");
    }
}
