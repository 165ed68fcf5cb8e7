//! The first connection of the Control UI: at most one step of a person.

use serde_json::json;

use super::{Place, Seen};
use crate::stage::{admin, call, until};
use crate::support::{SECRET, original_ui};

/// Where somebody else serves the UI.
const ELSEWHERE: &str = "https://ui.example";
/// What the UI asks once it is in.
const BEGINNING: [&str; 10] = [
    "agent.identity.get",
    "agents.list",
    "chat.history",
    "commands.list",
    "device.pair.list",
    "health",
    "models.list",
    "node.list",
    "sessions.list",
    "sessions.subscribe",
];

/// That the page is in, and that the secret is nowhere where it stays.
fn check_in(seen: &Seen, origin: &str) {
    let view = format!("{origin}/chat?session=main");
    assert_eq!((&seen.told["url"], &seen.told["again"]), (&json!(view), &json!(view)));
    assert!(!seen.told["stored"].as_str().unwrap().contains(SECRET), "{}", seen.told);
    seen.check_calls(&BEGINNING);
}

fn origin(place: &Place) -> String {
    format!("http://{}", place.gateway.address())
}

/// What a page that has no token yet asks for in vain, as with the original.
const BEFORE: &str = "401 /__openclaw/control-ui-config.json";

#[tokio::test]
async fn a_link_with_the_token_is_all_that_the_first_connection_takes() {
    let place = Place::new().await;
    let seen = place.look("first", json!({"way": "link"})).await;
    check_in(&seen, &origin(&place));
    seen.check_refused(&[]);
    assert_eq!(seen.complaints, [""; 0]);
    assert_eq!(seen.errors, [""; 0]);
    // The other window has the token of its device only.
    assert_eq!(seen.http, [BEFORE]);
    assert_eq!(seen.calls["connect"], 3);
}

#[tokio::test]
async fn typing_the_token_once_is_all_that_it_takes_without_a_link() {
    let place = Place::new().await;
    let seen = place.look("first", json!({"way": "form"})).await;
    check_in(&seen, &origin(&place));
    // As recorded.
    let missing = "unauthorized: gateway token missing (open the dashboard URL and paste the token \
                   in Control UI settings)";
    seen.check_refused(&[("connect", missing)]);
    assert_eq!(seen.told["refused"], missing);
    assert_eq!(seen.complaints, [missing]);
    assert_eq!(seen.errors, [""; 0]);
    assert_eq!(seen.http, [BEFORE, BEFORE]);
    assert_eq!(seen.calls["connect"], 4);
}

#[tokio::test]
async fn a_gateway_without_a_secret_asks_for_nothing() {
    let place = Place::with(|config| config["gateway"]["auth"] = json!({"mode": "none"})).await;
    let seen = place.visit("first", json!({"way": "open"})).await;
    check_in(&seen, &origin(&place));
}

#[tokio::test]
async fn a_page_of_another_origin_connects_by_url_once_a_person_lets_it_in() {
    let place = Place::with(|config| {
        config["gateway"]["controlUi"] = json!({"allowedOrigins": [ELSEWHERE]});
    })
    .await;
    let mut person = admin(&place.gateway).await;
    let approve = async {
        let request = until("a device that waits", async || {
            let list = call(&mut person, "device.pair.list", json!({})).await;
            Some(list["pending"].get(0)?["requestId"].clone())
        });
        let request = request.await;
        call(&mut person, "device.pair.approve", json!({"requestId": request})).await;
    };
    let visit = json!({"way": "elsewhere", "page": ELSEWHERE, "files": original_ui::folder(),
        "socket": format!("ws://{}", place.gateway.address())});
    let (seen, ()) = tokio::join!(place.look("first", visit), approve);
    check_in(&seen, ELSEWHERE);
    seen.check_refused(&[("connect", "pairing required: device is not approved yet")]);
    let waits = seen.told["refused"].as_str().unwrap();
    assert!(waits.starts_with("device pairing required (requestId: "), "{waits}");
    let at_once = |text: &&String| text.as_str() != waits;
    let shown: Vec<_> = seen.complaints.iter().filter(at_once).collect();
    // Nobody serves a gateway at the page's own origin, which it tries first.
    let expected = [
        "disconnected (1006): no reason",
        "Only confirm if you trust this URL. Malicious URLs can compromise your system.",
    ];
    assert_eq!(shown, expected);
    assert!(
        seen.errors.iter().all(|error| error.contains("'wss://ui.example/'")),
        "{:?}",
        seen.errors
    );
}
