//! Accounts that begin and end while the configuration changes.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::bot_api::{BotApi, TOKEN};
use super::receiver::{Behaviour, Receiver, bring};
use super::{SIGNING, patch, with_channels, with_webhook_running};
use crate::program::clawgate;
use crate::stage::{admin, call, row, until};
use crate::support::client::{SOON, WsClient};
use crate::support::{Gateway, GatewayOptions, MockProvider};

/// A program that tells the token of a bot, to each who asks only once it is let.
struct Held(TempDir);

impl Held {
    fn new() -> Self {
        // It ends as well when its folder is gone.
        Self::after("while [ -e asked ] && [ ! -e go.$$ ]; do /bin/sleep 0.05; done")
    }

    /// One that tells it after this.
    fn after(what: &str) -> Self {
        let held = Self(TempDir::with_prefix("clawgate-held-").unwrap());
        let answer = json!({"protocolVersion": 1, "values": {"token": TOKEN}});
        let script = format!(
            "#!/bin/sh\ncd '{}' || exit 1\necho $$ >> asked\n{what}\necho '{answer}'\n",
            held.0.path().display()
        );
        let program = held.0.path().join("held.sh");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        held
    }

    /// A gateway with a bot whose token it tells.
    async fn gateway(&self, api: &BotApi, mock: &MockProvider) -> Gateway {
        let token = json!({"source": "exec", "provider": "held", "id": "token"});
        let telegram = json!({"botToken": token, "apiRoot": api.url(), "allowFrom": [7],
            "streaming": "off"});
        let mut config = with_channels(mock.address(), &json!({"telegram": telegram}));
        config["secrets"]["providers"]["held"] = json!({"source": "exec",
            "command": self.0.path().join("held.sh"), "timeoutMs": 60_000});
        Gateway::start(GatewayOptions::with_config(config)).await
    }

    /// Who waits for an answer, in order, once there were so many.
    async fn asked(&self, times: usize) -> Vec<String> {
        until(&format!("question {times}"), async || {
            let asked = fs::read_to_string(self.0.path().join("asked")).unwrap_or_default();
            let asked: Vec<_> = asked.lines().map(str::to_owned).collect();
            (asked.len() >= times).then_some(asked)
        })
        .await
    }

    fn tells(&self, who: &str) {
        fs::write(self.0.path().join(format!("go.{who}")), "").unwrap();
    }
}

/// Waits until an account was built that may not begin.
async fn built_in_vain(gateway: &Gateway) {
    until("an account is built in vain", async || {
        gateway.stderr().contains("channel not started").then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_account_that_is_replaced_while_it_is_being_built_does_not_begin_beside_the_new_one() {
    let (api, mock, held) = (BotApi::start().await, MockProvider::start().await, Held::new());
    let gateway = held.gateway(&api, &mock).await;
    let mut client = admin(&gateway).await;
    held.asked(1).await;
    let hash = call(&mut client, "config.get", json!({})).await["hash"].clone();
    let raw = json!({"messages": {"queue": {"cap": 7}}}).to_string();
    let request = json!({"type": "req", "id": "patch", "method": "config.patch",
        "params": {"raw": raw, "baseHash": hash}});
    client.send(&request).await;
    // Who takes the change up asks as well, and is told first.
    let asked = held.asked(2).await;
    held.tells(&asked[1]);
    let answer = client.answer("patch").await.expect("an answer");
    assert_eq!(answer["ok"], true, "{answer}");
    api.direct(1, 7, "hello");
    api.shows(&["Echo: hello"]).await;
    held.tells(&asked[0]);
    built_in_vain(&gateway).await;
    api.direct(2, 7, "again");
    api.shows(&["Echo: hello", "Echo: again"]).await;
    assert_eq!((api.calls("getMe").len(), api.most_waiting()), (1, 1));
}

#[tokio::test]
async fn who_is_let_in_no_more_goes_though_a_channel_waits_for_its_secret() {
    let (api, mock, held) = (BotApi::start().await, MockProvider::start().await, Held::new());
    let gateway = held.gateway(&api, &mock).await;
    let (mut author, other) = (admin(&gateway).await, admin(&gateway).await);
    held.asked(1).await;
    let hash = call(&mut author, "config.get", json!({})).await["hash"].clone();
    let raw = json!({"gateway": {"auth": {"token": "another-secret-0002"}}}).to_string();
    let request = json!({"type": "req", "id": "patch", "method": "config.patch",
        "params": {"raw": raw, "baseHash": hash}});
    author.send(&request).await;
    // Who takes the change up asks as well, and nobody is told.
    held.asked(2).await;
    let closed = other.wait_closed(SOON / 2).await.expect("it stays");
    assert_eq!(&*closed.reason, "gateway auth changed");
}

#[tokio::test]
async fn an_account_that_is_ended_while_it_is_being_built_does_not_begin() {
    for is_removed in [true, false] {
        let (api, mock, held) = (BotApi::start().await, MockProvider::start().await, Held::new());
        let gateway = held.gateway(&api, &mock).await;
        let mut client = admin(&gateway).await;
        let asked = held.asked(1).await;
        if is_removed {
            patch(&mut client, &json!({"channels": null})).await;
        } else {
            call(&mut client, "channels.stop", json!({"channel": "telegram"})).await;
        }
        held.tells(&asked[0]);
        built_in_vain(&gateway).await;
        assert!(api.calls("getMe").is_empty());
    }
}

#[tokio::test]
async fn a_reply_whose_account_was_removed_meanwhile_goes_out_once_that_is_back() {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let webhook = json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann"]});
    let channels = json!({"webhook": webhook});
    let config = with_channels(mock.address(), &channels);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = with_webhook_running(&gateway).await;
    let text = "@mock stream n=200 delay=50";
    let message = json!({"id": "1", "text": text, "from": {"id": "ann"}});
    assert_eq!(bring(&gateway, "/webhooks/default", &message).await.0, 200);
    patch(&mut client, &json!({"channels": null})).await;
    let database = Connection::open(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    database.busy_timeout(SOON).unwrap();
    let waiting = "SELECT COUNT(*) FROM channel_outbox WHERE state = 'waiting'";
    until("the reply is in the outbox", async || {
        let count: i64 = database.query_row(waiting, [], |row| row.get(0)).unwrap();
        (count == 1).then_some(())
    })
    .await;
    assert!(receiver.seen().is_empty());
    patch(&mut client, &json!({"channels": channels})).await;
    assert_eq!(receiver.sent(1).await.0, "ann");
}

/// Has a gateway killed while it answers somebody; gives its config.
async fn killed_while_it_answers(gateway: &mut Gateway, client: &mut WsClient) -> Value {
    let message = json!({"id": "1", "text": "@mock stream n=500 delay=50", "from": {"id": "ann"}});
    assert_eq!(bring(gateway, "/webhooks/default", &message).await.0, 200);
    until("it runs", async || {
        let row = row(client, "agent:main:webhook:direct:ann").await;
        (row["hasActiveRun"] == true).then_some(())
    })
    .await;
    gateway.kill9();
    serde_json::from_str(&fs::read_to_string(gateway.config_path()).unwrap()).unwrap()
}

#[tokio::test]
async fn a_channel_that_comes_back_while_the_gateway_runs_tells_what_was_cut_off() {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let webhook = json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann"]});
    let channels = json!({"webhook": webhook});
    let config = with_channels(mock.address(), &channels);
    let mut gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = with_webhook_running(&gateway).await;
    let mut config = killed_while_it_answers(&mut gateway, &mut client).await;
    config.as_object_mut().unwrap().remove("channels");
    fs::write(gateway.config_path(), config.to_string()).unwrap();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    patch(&mut client, &json!({"channels": channels})).await;
    let texts = receiver.texts(1).await;
    assert!(texts[0].contains("stopped before it had answered"), "{texts:?}");
}

#[tokio::test]
async fn a_reply_whose_account_is_gone_at_a_start_goes_out_once_that_is_back() {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let account = json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann"]});
    let channels = json!({"webhook": {"accounts": {"default": account, "other": account}}});
    let config = with_channels(mock.address(), &channels);
    let mut gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = with_webhook_running(&gateway).await;
    let mut config = killed_while_it_answers(&mut gateway, &mut client).await;
    config["channels"]["webhook"]["accounts"].as_object_mut().unwrap().remove("default");
    fs::write(gateway.config_path(), config.to_string()).unwrap();
    gateway.restart().await;
    let database = Connection::open(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    database.busy_timeout(SOON).unwrap();
    let waiting = "SELECT COUNT(*) FROM channel_outbox WHERE state = 'waiting'";
    until("the reply is in the outbox", async || {
        let count: i64 = database.query_row(waiting, [], |row| row.get(0)).unwrap();
        (count == 1).then_some(())
    })
    .await;
    assert!(receiver.seen().is_empty());
    let mut client = admin(&gateway).await;
    patch(&mut client, &json!({"channels": channels})).await;
    let texts = receiver.texts(1).await;
    assert!(texts[0].contains("stopped before it had answered"), "{texts:?}");
}

#[tokio::test]
async fn who_starts_an_account_waits_until_it_is_known_what_the_last_process_was_sending() {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let webhook = json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann"]});
    let config = with_channels(mock.address(), &json!({"webhook": webhook}));
    let mut gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    with_webhook_running(&gateway).await;
    receiver.behave([Behaviour::Hang]);
    let message = json!({"id": "1", "text": "hello", "from": {"id": "ann"}});
    assert_eq!(bring(&gateway, "/webhooks/default", &message).await.0, 200);
    receiver.wait(1).await;
    gateway.kill9();
    let database = Connection::open(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    let refuses = "CREATE TRIGGER full BEFORE UPDATE ON channel_outbox
        WHEN NEW.state = 'uncertain' BEGIN SELECT RAISE(ABORT, 'no room'); END";
    database.execute_batch(refuses).unwrap();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    until("it is not known", async || {
        gateway.stderr().contains("messages of the last process are not settled").then_some(())
    })
    .await;
    let request = json!({"type": "req", "id": "start", "method": "channels.start",
        "params": {"channel": "webhook"}});
    client.send(&request).await;
    let mut watcher = admin(&gateway).await;
    let status = call(&mut watcher, "channels.status", json!({})).await;
    assert_eq!(status["channels"]["webhook"]["running"], false);
    database.busy_timeout(SOON).unwrap();
    database.execute_batch("DROP TRIGGER full").unwrap();
    let answer = client.answer("start").await.expect("an answer");
    assert_eq!(answer["payload"]["started"], true, "{answer}");
    let status = call(&mut watcher, "channels.status", json!({})).await;
    assert_eq!(status["channels"]["webhook"]["outbox"]["uncertain"], 1);
    assert_eq!(receiver.seen().len(), 1);
}

#[tokio::test]
async fn an_account_whose_secret_comes_late_begins_then() {
    let held = Held::after("[ -e go.everybody ] || exit 1");
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let gateway = held.gateway(&api, &mock).await;
    until("it is not to be had", async || {
        gateway.stderr().contains("channel not started").then_some(())
    })
    .await;
    assert!(api.calls("getMe").is_empty());
    held.tells("everybody");
    api.direct(1, 7, "hello");
    api.shows(&["Echo: hello"]).await;
}

/// Accounts of a status of which something is told, and that.
fn troubles(status: &Value) -> Vec<(String, String)> {
    let all = status["channelAccounts"].as_object().unwrap().values();
    let rows = all.flat_map(|rows| rows.as_array().unwrap());
    let text = |value: &Value| value.as_str().map(str::to_owned);
    rows.filter_map(|row| Some((text(&row["accountId"])?, text(&row["lastError"])?))).collect()
}

#[tokio::test]
async fn of_two_accounts_with_one_bot_or_one_path_one_is_used_and_all_tell_of_the_other() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let bot =
        json!({"botToken": TOKEN, "apiRoot": api.url(), "allowFrom": [7], "streaming": "off"});
    let hook = |path: &str| json!({"secret": SIGNING, "path": path});
    let hooks = json!({"in": hook("/in"), "late": hook("/in"), "own": hook("/healthz")});
    let channels =
        json!({"telegram": {"accounts": {"a": bot, "b": bot}}, "webhook": {"accounts": hooks}});
    let config = with_channels(mock.address(), &channels);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    api.direct(1, 7, "hello");
    api.shows(&["Echo: hello"]).await;
    let expected = [
        ("telegram", "b", "botToken is that of account a of telegram as well"),
        ("webhook", "late", "/in is the path of account in of webhook as well"),
        ("webhook", "own", "path is a path that the gateway has for something else"),
    ];
    let mut client = admin(&gateway).await;
    let status = call(&mut client, "channels.status", json!({})).await;
    let told = expected.map(|(_, id, why)| (id.to_owned(), why.to_owned()));
    assert_eq!(troubles(&status), told);
    assert_eq!((api.calls("getMe").len(), api.most_waiting()), (1, 1));

    let validated = clawgate(&gateway, &["config", "validate", "--json"]).await.stdout;
    let validated: Value = serde_json::from_slice(&validated).unwrap();
    let warnings = validated["warnings"].as_array().unwrap().iter();
    let warnings: Vec<_> = warnings
        .filter(|it| it["path"].as_str().unwrap().starts_with("channels."))
        .map(|it| format!("{}: {}", it["path"].as_str().unwrap(), it["message"].as_str().unwrap()))
        .collect();
    let expected =
        expected.map(|(channel, id, why)| format!("channels.{channel}.accounts.{id}: {why}"));
    assert_eq!(warnings, expected);
    let report = clawgate(&gateway, &["doctor", "--json"]).await.stdout;
    let report: Value = serde_json::from_slice(&report).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    let mut findings: Vec<_> = findings
        .filter(|it| it["checkId"] == "channels.unusable")
        .map(|it| it["title"].as_str().unwrap())
        .collect();
    findings.sort_unstable();
    assert_eq!(findings, expected);
}

#[tokio::test]
async fn a_bot_to_whose_token_two_references_lead_is_used_by_one_account() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let bot = |id: &str| {
        json!({"botToken": {"source": "env", "id": id}, "apiRoot": api.url(), "allowFrom": [7],
            "streaming": "off"})
    };
    let accounts = json!({"a": bot("BOT_A"), "b": bot("BOT_B")});
    let config = with_channels(mock.address(), &json!({"telegram": {"accounts": accounts}}));
    let options = GatewayOptions::with_config(config).env("BOT_A", TOKEN).env("BOT_B", TOKEN);
    let gateway = Gateway::start(options).await;
    let mut client = admin(&gateway).await;
    let why = "botToken is that of account a of telegram as well";
    let expected = [("b".to_owned(), why.to_owned())];
    until("one of them is not begun", async || {
        let status = call(&mut client, "channels.status", json!({})).await;
        (troubles(&status) == expected).then_some(())
    })
    .await;
    api.direct(1, 7, "hello");
    api.shows(&["Echo: hello"]).await;
    assert_eq!((api.calls("getMe").len(), api.most_waiting()), (1, 1));

    let without = json!({"channels": {"telegram": {"accounts": {"a": {"enabled": false}}}}});
    patch(&mut client, &without).await;
    until("the other one is used", async || {
        let status = call(&mut client, "channels.status", json!({})).await;
        let mut rows = status["channelAccounts"]["telegram"].as_array().unwrap().iter();
        rows.any(|row| row["accountId"] == "b" && row["running"] == true).then_some(())
    })
    .await;
}

/// The bots that run once it was tried so often to begin `c`.
async fn running_after(client: &mut WsClient, tries: u64) -> Vec<String> {
    until(&format!("try {tries}"), async || {
        let status = call(client, "channels.status", json!({})).await;
        let rows = status["channelAccounts"]["telegram"].as_array().unwrap();
        let tried = rows.iter().find(|row| row["accountId"] == "c").unwrap();
        if tried["reconnectAttempts"].as_u64() < Some(tries) {
            return None;
        }
        let running = rows.iter().filter(|row| row["running"] == true);
        Some(running.map(|row| row["accountId"].as_str().unwrap().to_owned()).collect())
    })
    .await
}

#[tokio::test]
async fn a_bot_whose_account_is_stopped_for_a_while_goes_to_no_other_one() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let bot = |id: &str| {
        json!({"botToken": {"source": "env", "id": id}, "apiRoot": api.url(), "allowFrom": [7],
            "streaming": "off"})
    };
    // The default one is used, and `c` is tried again and again.
    let telegram = json!({"defaultAccount": "b",
        "accounts": {"a": bot("BOT_A"), "b": bot("BOT_B"), "c": bot("BOT_C")}});
    let config = with_channels(mock.address(), &json!({"telegram": telegram}));
    let options = GatewayOptions::with_config(config).env("BOT_A", TOKEN).env("BOT_B", TOKEN);
    let gateway = Gateway::start(options).await;
    let mut client = admin(&gateway).await;
    assert_eq!(running_after(&mut client, 1).await, ["b"]);
    let account = json!({"channel": "telegram", "accountId": "b"});
    call(&mut client, "channels.stop", account.clone()).await;
    assert!(running_after(&mut client, 4).await.is_empty());
    assert_eq!(call(&mut client, "channels.start", account).await["started"], true);
    api.direct(1, 7, "hello");
    api.shows(&["Echo: hello"]).await;
}
