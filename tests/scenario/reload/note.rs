//! What is told after the restart that a change of the config has led to.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::outside::vault;
use super::{LIMIT, config, logged, signal};
use crate::channels::receiver::{Receiver, addressed, bring};
use crate::channels::{SIGNING, with_channels, with_webhook_running};
use crate::stage::{admin, ask, call, deltas, start, told, until};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

const ANN: &str = "agent:main:webhook:direct:ann";
const NOTE: &str = "@mock text text=\"It listens everywhere.\"";

struct Place {
    receiver: Receiver,
    gateway: Gateway,
    _mock: MockProvider,
}

/// A gateway to which Ann has written, in a session of her own.
async fn place() -> Place {
    place_with(|_| {}).await
}

/// The same with another configuration.
async fn place_with(change: impl FnOnce(&mut Value)) -> Place {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let webhook =
        json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann"], "sendTo": ["bob"]});
    let mut config = with_channels(mock.address(), &json!({"webhook": webhook}));
    change(&mut config);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    with_webhook_running(&gateway).await;
    let message = json!({"id": "1", "text": "hello", "from": {"id": "ann"}});
    assert_eq!(bring(&gateway, "/webhooks/default", &message).await.0, 200);
    assert_eq!(receiver.texts(1).await, ["Echo: hello"]);
    Place { receiver, gateway, _mock: mock }
}

impl Place {
    /// The answer to a change that is written with these wishes.
    async fn patch(&self, client: &mut WsClient, change: Value, wishes: Value) -> Value {
        let hash = call(client, "config.get", json!({})).await["hash"].clone();
        let mut params = wishes;
        params["raw"] = change.to_string().into();
        params["baseHash"] = hash;
        call(client, "config.patch", params).await
    }

    fn note(&self) -> PathBuf {
        self.gateway.state_dir().join("restart-sentinel.json")
    }

    async fn note_is_gone(&self) {
        until("the note is told", async || (!self.note().exists()).then_some(())).await;
    }

    /// Ann writes, and the agent answers: whatever else is sent to chats by then, was sent
    /// before. What was sent in all.
    async fn all_sent(&self) -> Vec<(String, String)> {
        let message = json!({"id": "last", "text": "anything else?", "from": {"id": "ann"}});
        assert_eq!(bring(&self.gateway, "/webhooks/default", &message).await.0, 200);
        let sent = until("the answer to Ann", async || {
            let sent: Vec<_> = self.receiver.seen().iter().map(addressed).collect();
            sent.last().is_some_and(|(_, text)| text == "Echo: anything else?").then_some(sent)
        });
        sent.await
    }

    /// Waits until this was said last in a session.
    async fn says(&self, session: &str, text: &str) {
        until("the agent's answer", async || {
            let mut client = admin(&self.gateway).await;
            let said = told(&mut client, session).await;
            said.last().is_some_and(|(_, said)| said == text).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_restart_is_told_in_its_chat_and_to_the_agent_that_goes_on_then() {
    let place = place().await;
    let mut client = admin(&place.gateway).await;
    let change = json!({"gateway": {"bind": "lan"}});
    let answer = place.patch(&mut client, change, json!({"sessionKey": ANN, "note": NOTE})).await;
    let payload = &answer["sentinel"]["payload"];
    assert_eq!(
        (&payload["kind"], &payload["status"], &payload["sessionKey"], &payload["message"]),
        (&json!("config-patch"), &json!("ok"), &json!(ANN), &json!(NOTE)),
    );
    let root = place.gateway.config_path();
    assert_eq!(payload["stats"], json!({"mode": "config.patch", "root": root}));
    assert_eq!(answer["sentinel"]["path"], json!(place.note()));
    assert_eq!(
        (&answer["restart"]["ok"], &answer["restart"]["delayMs"]),
        (&json!(true), &json!(0))
    );
    assert_eq!(client.wait_closed(LIMIT).await.unwrap().code, 1012);

    let text =
        format!("Gateway restart config-patch ok (config.patch)\n{NOTE}\nRun: clawgate doctor");
    assert_eq!(place.receiver.sent(2).await, ("ann".to_owned(), text));
    place.says(ANN, "It listens everywhere.").await;
    place.note_is_gone().await;
    assert_eq!(place.all_sent().await.len(), 3);
}

#[tokio::test]
async fn who_is_killed_before_the_restart_tells_of_it_at_the_next_start_in_the_chat_that_is_named()
{
    let mut place = place().await;
    let mut client = admin(&place.gateway).await;
    let change = json!({"gateway": {"bind": "lan"}});
    let wishes = json!({"note": "for Bob", "restartDelayMs": 70_000,
        "deliveryContext": {"channel": "webhook", "to": "bob"}});
    let answer = place.patch(&mut client, change, wishes).await;
    assert_eq!(answer["restart"]["delayMs"], 60_000);
    assert!(place.note().exists());
    assert!(client.closed().is_none());
    place.gateway.kill9();
    place.gateway.restart().await;
    let (to, text) = place.receiver.sent(2).await;
    assert_eq!((to.as_str(), text.lines().nth(1)), ("bob", Some("for Bob")));
    place.note_is_gone().await;

    // Nobody has named the main session: it is not asked, and hears of it in its next turn.
    let mut client = admin(&place.gateway).await;
    let waits = async |client: &mut WsClient| {
        let status = call(client, "status", json!({})).await;
        status["queuedSystemEvents"].to_string().contains("for Bob")
    };
    assert!(waits(&mut client).await);
    assert_eq!(place.all_sent().await.len(), 3);
    ask(&mut client, "main", "@mock text text=heard", "main-1").await;
    assert!(!waits(&mut client).await);
    assert_eq!(call(&mut client, "last-heartbeat", json!({})).await, Value::Null);
}

#[tokio::test]
async fn two_changes_before_a_restart_that_somebody_hastens_are_both_told() {
    let place = place().await;
    let mut client = admin(&place.gateway).await;
    let waits = json!({"restartDelayMs": 60_000, "sessionKey": ANN, "note": "first"});
    place.patch(&mut client, json!({"gateway": {"bind": "lan"}}), waits).await;
    let waits = json!({"restartDelayMs": 60_000, "note": "second"});
    place.patch(&mut client, json!({"ui": {"seamColor": "#445566"}}), waits).await;
    let asked = call(&mut client, "gateway.restart.request", json!({})).await;
    assert_eq!((&asked["status"], &asked["restart"]["delayMs"]), (&json!("coalesced"), &json!(0)));
    assert_eq!(client.wait_closed(LIMIT).await.unwrap().code, 1012);

    let (to, text) = place.receiver.sent(2).await;
    assert_eq!((to.as_str(), text.lines().nth(1)), ("ann", Some("first")));
    place.note_is_gone().await;
    let mut client = admin(&place.gateway).await;
    let status = call(&mut client, "status", json!({})).await;
    assert!(status["queuedSystemEvents"].to_string().contains("second"), "{status}");
}

#[tokio::test]
async fn who_names_no_session_has_nothing_said_in_the_chat_of_the_main_one() {
    let place = place_with(|config| config["session"] = json!({"dmScope": "main"})).await;
    let mut client = admin(&place.gateway).await;
    place.patch(&mut client, json!({"gateway": {"bind": "lan"}}), json!({"note": "for me"})).await;
    assert_eq!(client.wait_closed(LIMIT).await.unwrap().code, 1012);
    place.note_is_gone().await;
    let texts: Vec<_> = place.all_sent().await.into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["Echo: hello", "Echo: anything else?"]);
}

#[tokio::test]
async fn a_change_that_needs_no_restart_leaves_no_note() {
    let place = place().await;
    let mut client = admin(&place.gateway).await;
    let change = json!({"ui": {"seamColor": "#445566"}});
    let answer = place.patch(&mut client, change, json!({"sessionKey": ANN, "note": NOTE})).await;
    assert_eq!(answer["requiresRestart"], false, "{answer}");
    assert_eq!(answer["sentinel"]["path"], Value::Null);
    assert_eq!(answer["sentinel"]["payload"]["message"], NOTE);
    assert!(answer.get("restart").is_none());
    assert!(!place.note().exists());
    assert_eq!(config(&place.gateway)["ui"]["seamColor"], "#445566");
}

#[tokio::test]
async fn only_a_change_that_leads_to_a_restart_writes_its_note() {
    let place = place().await;
    let mut client = admin(&place.gateway).await;
    place.note_is_gone().await;
    // Here no note can be written, which is in the log.
    fs::create_dir(place.note()).unwrap();
    let change = json!({"ui": {"seamColor": "#445566"}});
    place.patch(&mut client, change, json!({"note": "first"})).await;
    let change = json!({"gateway": {"bind": "lan", "reload": {"mode": "hot"}}});
    let answer = place.patch(&mut client, change, json!({"note": "second"})).await;
    assert_eq!(
        (&answer["requiresRestart"], &answer["sentinel"]["path"]),
        (&json!(true), &Value::Null)
    );
    let untold = "nobody will be told of a restart for this change";
    logged(&place.gateway, untold).await;
    assert_eq!(place.gateway.stderr().matches(untold).count(), 1);
}

#[tokio::test]
async fn what_was_left_before_stays_when_a_change_leaves_none_and_what_changes_nothing_hastens_nothing()
 {
    let place = place().await;
    let mut client = admin(&place.gateway).await;
    let hot = json!({"gateway": {"bind": "lan", "reload": {"mode": "hot"}}});
    let answer = place.patch(&mut client, hot, json!({"sessionKey": ANN, "note": "first"})).await;
    assert_eq!(answer["requiresRestart"], true);
    assert!(answer.get("restart").is_none());
    assert!(place.note().exists());
    // Nothing waits any more, but somebody is to be told of what did.
    let back = json!({"gateway": {"bind": null}});
    let answer = place.patch(&mut client, back, json!({"note": "second"})).await;
    assert_eq!(
        (&answer["requiresRestart"], &answer["sentinel"]["path"]),
        (&json!(false), &Value::Null)
    );
    assert!(place.note().exists());

    let soon = json!({"gateway": {"bind": "lan", "reload": {"mode": "hybrid"}}});
    let delayed = json!({"restartDelayMs": 60_000, "note": "third"});
    place.patch(&mut client, soon, delayed).await;
    // What changes nothing cuts nobody's delay short.
    let hash = call(&mut client, "config.get", json!({})).await["hash"].clone();
    let raw = config(&place.gateway).to_string();
    let same = call(&mut client, "config.set", json!({"raw": raw, "baseHash": hash})).await;
    assert_eq!(same["noop"], true, "{same}");
    // A restart would not let this begin.
    ask(&mut client, "main", "@mock text text=heard", "main-1").await;
    assert!(place.note().exists());
    signal(&place.gateway, Signal::USR1);
    assert_eq!(client.wait_closed(LIMIT).await.unwrap().code, 1012);
    let (to, text) = place.receiver.sent(2).await;
    assert_eq!((to.as_str(), text.lines().nth(1)), ("ann", Some("first")));
    place.note_is_gone().await;
    let mut client = admin(&place.gateway).await;
    let status = call(&mut client, "status", json!({})).await["queuedSystemEvents"].to_string();
    assert_eq!((status.contains("second"), status.contains("third")), (false, true), "{status}");
}

#[tokio::test]
async fn a_restart_that_goes_on_with_the_config_before_says_why() {
    let place = place().await;
    // Nobody can listen everywhere while somebody does at one address. The look before the
    // change is written does not see that, as the port is the gateway's own.
    let _stranger = TcpListener::bind(("127.0.0.2", place.gateway.port())).unwrap();
    let mut client = admin(&place.gateway).await;
    let change = json!({"gateway": {"bind": "lan"}});
    place.patch(&mut client, change, json!({"sessionKey": ANN, "note": NOTE})).await;
    let (to, text) = place.receiver.sent(2).await;
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        (to.as_str(), lines[0]),
        ("ann", "Gateway restart config-patch error (config.patch)")
    );
    assert!(lines[2].starts_with("Reason: gateway.port: "), "{text}");
}

#[tokio::test]
async fn a_restart_that_is_given_up_is_told_at_once_and_not_again_after_the_next_one() {
    let place = place().await;
    let before = fs::read_to_string(place.gateway.config_path()).unwrap();
    let mut client = admin(&place.gateway).await;
    start(&mut client, "main", "@mock stream n=600 delay=100", "run-1").await;
    deltas(&client, "run-1", 1).await;
    let change = json!({"gateway": {"bind": "lan"}});
    place.patch(&mut client, change, json!({"sessionKey": ANN, "note": NOTE})).await;
    // While the restart waits for the run the file becomes one that no gateway begins with.
    let mut bad = config(&place.gateway);
    bad["tools"] = json!({"allow": 7});
    fs::write(place.gateway.config_path(), bad.to_string()).unwrap();
    call(&mut client, "chat.abort", json!({"sessionKey": "main"})).await;
    let (to, text) = place.receiver.sent(2).await;
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        (to.as_str(), lines[0], lines[1]),
        ("ann", "Gateway restart config-patch error (config.patch)", NOTE)
    );
    assert!(lines[2].starts_with("Reason: tools.allow: must be"), "{text}");
    place.says(ANN, "It listens everywhere.").await;
    place.note_is_gone().await;
    assert!(client.closed().is_none());

    fs::write(place.gateway.config_path(), before).unwrap();
    signal(&place.gateway, Signal::USR1);
    assert_eq!(client.wait_closed(LIMIT).await.unwrap().code, 1012);
    with_webhook_running(&place.gateway).await;
    assert_eq!(place.all_sent().await.len(), 3);
}

#[tokio::test]
async fn a_change_that_is_taken_back_while_its_restart_is_looked_at_is_told_at_once() {
    let root = TempDir::with_prefix("clawgate-vault-").unwrap();
    let program = root.path().join("vault.sh");
    let (held, asked) = (root.path().join("held"), root.path().join("asked"));
    let waits = format!(
        "if [ -e {0} ]; then : > {1}; while [ -e {0} ]; do sleep 0.1; done; fi",
        held.display(),
        asked.display()
    );
    vault(&program, &waits);
    let place = place_with(|config| {
        config["secrets"] = json!({"providers": {"v": {"source": "exec", "command": program,
            "passEnv": ["PATH"], "timeoutMs": 120_000, "noOutputTimeoutMs": 120_000}}});
        config["models"]["providers"]["mock"]["apiKey"] =
            json!({"source": "exec", "provider": "v", "id": "a"});
    })
    .await;
    let mut client = admin(&place.gateway).await;
    // Only a gateway that begins asks the program again.
    fs::write(&held, "").unwrap();
    let change = json!({"gateway": {"bind": "lan"}});
    place.patch(&mut client, change, json!({"sessionKey": ANN, "note": NOTE})).await;
    until("the look before the restart", async || asked.exists().then_some(())).await;
    place.patch(&mut client, json!({"gateway": {"bind": null}}), json!({})).await;
    fs::remove_file(&held).unwrap();
    let (to, text) = place.receiver.sent(2).await;
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        (to.as_str(), lines[0], lines[2]),
        (
            "ann",
            "Gateway restart config-patch error (config.patch)",
            "Reason: nothing in the configuration needs it any more"
        )
    );
    logged(
        &place.gateway,
        "nothing in the configuration needs it any more; the gateway does not restart",
    )
    .await;
    place.says(ANN, "It listens everywhere.").await;
    place.note_is_gone().await;
    assert!(client.closed().is_none());
}

#[tokio::test]
async fn a_session_that_cannot_be_is_refused_before_anything_is_written() {
    let place = place().await;
    let mut client = admin(&place.gateway).await;
    let before = config(&place.gateway);
    let hash = call(&mut client, "config.get", json!({})).await["hash"].clone();
    let params =
        json!({"raw": "{gateway: {bind: 'lan'}}", "baseHash": hash, "sessionKey": "agent:"});
    let answer = client.request("config.patch", params).await;
    assert_eq!(answer["error"]["message"], "malformed session key \"agent:\"", "{answer}");
    assert_eq!(config(&place.gateway), before);
    assert!(!place.note().exists());
}
