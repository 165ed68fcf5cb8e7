//! The channel `webhook`.

use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::receiver::{Behaviour, Receiver, bring, bring_signed, post};
use super::{SIGNING, clawgate, patch, with_channels, with_webhook_running};
use crate::metrics::Scraped;
use crate::stage::{
    Api, RUN_LIMIT, SecretFile, admin, call, config, connect, deltas, events, history, lines,
    refusal, row, text_of, told, until,
};
use crate::support::client::{SOON, standard_connect};
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, WsClient, now_ms};

const PATH: &str = "/webhooks/default";
/// What a person hears whose message a stop of the gateway left without an answer.
const CUT_OFF: &str =
    "⚠️ The gateway stopped before it had answered. Send your message again to get an answer.";
/// Seconds in which no test ends.
const LONG: u64 = 3600;

/// A gateway with a webhook, and its other side.
struct Place {
    gateway: Gateway,
    receiver: Receiver,
    _mock: MockProvider,
}

async fn place(settings: &Value) -> Place {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let mut webhook = json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann", 7]});
    for (name, value) in settings.as_object().unwrap() {
        webhook[name] = value.clone();
    }
    let config = with_channels(mock.address(), &json!({"webhook": webhook}));
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let place = Place { gateway, receiver, _mock: mock };
    place.is_running().await;
    place
}

impl Place {
    async fn is_running(&self) {
        with_webhook_running(&self.gateway).await;
    }

    async fn is_answering_ann(&self) {
        let mut client = admin(&self.gateway).await;
        until("it runs", async || {
            let row = row(&mut client, "agent:main:webhook:direct:ann").await;
            (row["hasActiveRun"] == true).then_some(())
        })
        .await;
    }

    async fn bring(&self, message: &Value) -> (u16, Value) {
        bring(&self.gateway, PATH, message).await
    }

    async fn outbox(&self) -> Value {
        let mut client = admin(&self.gateway).await;
        let status = call(&mut client, "channels.status", json!({})).await;
        status["channels"]["webhook"]["outbox"].clone()
    }

    /// Waits until a message is to be tried again, which is long after the test, kills the
    /// gateway then, and starts it when it is time for that.
    async fn is_killed_before_the_next_try(&mut self) {
        until("it waits", async || (self.outbox().await["waiting"] == 1).then_some(())).await;
        self.gateway.kill9();
        let database = Connection::open(self.gateway.state_dir().join("clawgate.sqlite")).unwrap();
        let changed = database.execute("UPDATE channel_outbox SET due_at = 0", []).unwrap();
        assert_eq!(changed, 1);
        drop(database);
        self.gateway.restart().await;
    }
}

fn from_ann(id: &str, text: &str) -> Value {
    json!({"id": id, "text": text, "from": {"id": "ann", "name": "Ann"}})
}

#[tokio::test]
async fn the_first_channel_works_when_its_config_is_answered() {
    let mock = MockProvider::start().await;
    let options = GatewayOptions::with_config(config(mock.address(), Api::OpenAi));
    let gateway = Gateway::start(options).await;
    let mut client = admin(&gateway).await;
    let webhook = json!({"secret": SIGNING, "url": "http://127.0.0.1:9/answers"});
    patch(&mut client, &json!({"channels": {"webhook": webhook}})).await;
    let status = call(&mut client, "channels.status", json!({})).await;
    assert_eq!(status["channels"]["webhook"]["running"], true, "{status}");
}

#[tokio::test]
async fn health_tells_those_without_scopes_how_a_channel_is_and_not_who_may_write_there() {
    let place = place(&json!({})).await;
    let mut nobody = connect(&place.gateway, &standard_connect(&[])).await;
    let health = call(&mut nobody, "health", json!({"probe": true})).await;
    let told = &health["channels"]["webhook"];
    assert_eq!((&told["configured"], &told["running"]), (&json!(true), &json!(true)), "{health}");
    let mut reader = connect(&place.gateway, &standard_connect(&["operator.read"])).await;
    let status = call(&mut reader, "channels.status", json!({})).await;
    for name in ["dmPolicy", "groupPolicy", "allowFrom", "webhookPath"] {
        assert_eq!(told.get(name), None);
        assert!(status["channels"]["webhook"].get(name).is_some(), "{name}: {status}");
    }
}

#[tokio::test]
async fn a_reload_of_secrets_begins_an_account_anew_whose_secret_is_another() {
    let mock = MockProvider::start().await;
    let file = SecretFile::new("another-secret-of-32-characters-or-more");
    let account = json!({"secret": SecretFile::reference(), "url": "http://127.0.0.1:9/", "allowFrom": ["ann"]});
    let mut config = with_channels(mock.address(), &json!({"webhook": account}));
    file.name_in(&mut config);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = with_webhook_running(&gateway).await;
    assert_eq!(bring(&gateway, PATH, &from_ann("1", "hello")).await.0, 401);
    file.tells(SIGNING);
    call(&mut client, "secrets.reload", json!({})).await;
    assert_eq!(bring(&gateway, PATH, &from_ann("1", "hello")).await.0, 200);
    let started = async |client: &mut WsClient| {
        let status = call(client, "channels.status", json!({})).await;
        status["channelAccounts"]["webhook"][0]["lastStartAt"].clone()
    };
    let before = started(&mut client).await;
    call(&mut client, "secrets.reload", json!({})).await;
    assert_eq!(started(&mut client).await, before, "nothing has changed");
}

#[tokio::test]
async fn a_message_that_came_by_a_webhook_is_answered_there_once() {
    let place = place(&json!({})).await;
    let (status, answer) = place.bring(&from_ann("1", "hello")).await;
    assert_eq!((status, &answer["status"]), (200, &json!("accepted")), "{answer}");
    assert_eq!(answer["runId"], "webhook:default:ann:1");
    let sent = place.receiver.wait(1).await;
    let expected = json!({"type": "message", "channel": "webhook", "accountId": "default",
        "to": "ann", "id": "webhook:default:ann:1:1:0", "text": "Echo: hello", "part": 0});
    assert_eq!(sent[0], expected);

    // The same message again is the same message.
    let again = place.bring(&from_ann("1", "hello")).await;
    assert_eq!(again, (200, answer));
    place.bring(&from_ann("2", "bye")).await;
    assert_eq!(place.receiver.texts(2).await, ["Echo: hello", "Echo: bye"]);
    let mut client = admin(&place.gateway).await;
    let key = "agent:main:webhook:direct:ann";
    let told = told(&mut client, key).await;
    let all = [
        ("user", "hello"),
        ("assistant", "Echo: hello"),
        ("user", "bye"),
        ("assistant", "Echo: bye"),
    ];
    assert_eq!(told, lines(&all));
    let row = row(&mut client, key).await;
    assert_eq!((&row["channel"], &row["lastTo"]), (&json!("webhook"), &json!("ann")));
    let context = json!({"channel": "webhook", "to": "ann", "accountId": "default"});
    assert_eq!(row["deliveryContext"], context);
    assert_eq!(row["lastAccountId"], "default");

    let hello = json!({"clientType": "web", "clientVersion": "1", "auth": {"token": SECRET}});
    let mut simple = connect(&place.gateway, &hello).await;
    let described = call(&mut simple, "sessions.describe", json!({"sessionKey": key})).await;
    assert_eq!(described["session"]["surface"], "webhook", "{described}");
}

#[tokio::test]
async fn what_is_not_signed_now_by_the_secret_is_nobodys() {
    let place = place(&json!({})).await;
    let (gateway, body) = (&place.gateway, from_ann("1", "hello").to_string());
    let now = u64::try_from(now_ms()).unwrap() / 1000;
    let wrong = "another-secret-of-32-characters-x";
    for (secret, time) in [(wrong, now), (SIGNING, now - 400), (SIGNING, now + 400)] {
        let (status, _) = bring_signed(gateway, PATH, body.clone(), secret, time).await;
        assert_eq!(status, 401);
    }
    assert_eq!(post(gateway, PATH, body.clone().into_bytes(), &[]).await.0, 401);
    let (status, answer) = bring_signed(gateway, PATH, "{}".into(), SIGNING, now).await;
    assert_eq!(status, 400, "{answer}");
    assert_eq!(post(gateway, "/webhooks/other", b"{}".to_vec(), &[]).await.0, 404);
    assert!(place.receiver.seen().is_empty());
    let mut client = admin(gateway).await;
    assert!(history(&mut client, "agent:main:webhook:direct:ann").await.is_empty());
}

/// The status of a post of which so many bytes are announced, and these sent.
async fn announced(gateway: &Gateway, length: &str, sent: &[u8]) -> u16 {
    let stream = tokio::net::TcpStream::connect(gateway.address().to_string()).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let head = format!("POST {PATH} HTTP/1.1\r\nhost: {}\r\n{length}\r\n\r\n", gateway.address());
    writer.write_all(head.as_bytes()).await.unwrap();
    let sent = sent.to_vec();
    // The answer comes while this is still being written, which then fails.
    let writing = async move {
        let _ = writer.write_all(&sent).await;
        writer
    };
    let reading = async {
        let mut status = [0; 12];
        reader.read_exact(&mut status).await.unwrap();
        String::from_utf8_lossy(&status[9..]).parse().unwrap()
    };
    let (status, _) = tokio::join!(reading, writing);
    status
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let place = place(&json!({"mediaMaxMb": 1})).await;
    // Nothing of it is ever sent, and still there is an answer.
    let length = format!("content-length: {}", 20 * 1024 * 1024);
    assert_eq!(announced(&place.gateway, &length, &[]).await, 413);
    assert_eq!(announced(&place.gateway, &length, &vec![b'x'; 20 * 1024 * 1024]).await, 413);
    // One that does not say how long it is.
    let chunk = [b"200000\r\n".to_vec(), vec![b'x'; 0x20_0000], b"\r\n".to_vec()].concat();
    assert_eq!(announced(&place.gateway, "transfer-encoding: chunked", &chunk).await, 413);
    place.bring(&from_ann("1", "hello")).await;
    assert_eq!(place.receiver.texts(1).await, ["Echo: hello"]);
}

#[tokio::test]
async fn somebody_unknown_gets_a_code_and_is_answered_once_let_in() {
    let mut place = place(&json!({})).await;
    let from_eve = |id: &str| json!({"id": id, "text": "hi", "from": {"id": "eve", "name": "ann"}});
    for id in ["1", "2"] {
        let (_, answer) = place.bring(&from_eve(id)).await;
        assert_eq!(answer["status"], "pairing");
    }
    let told = place.receiver.texts(1).await;
    let mut client = admin(&place.gateway).await;
    let list = call(&mut client, "channels.pairing.list", json!({})).await;
    let code = list["requests"][0]["code"].as_str().unwrap().to_owned();
    assert!(told[0].contains(&code) && told[0].contains("eve"), "{told:?}");
    assert_eq!(list["requests"].as_array().unwrap().len(), 1);

    let wrong = json!({"channel": "webhook", "code": "WRONG234"});
    let error = refusal(&mut client, "channels.pairing.approve", wrong).await;
    assert!(error.contains("no pending pairing request"), "{error}");
    let right = json!({"channel": "webhook", "code": code.to_lowercase()});
    let approved = call(&mut client, "channels.pairing.approve", right.clone()).await;
    assert_eq!(approved["person"], "eve");
    refusal(&mut client, "channels.pairing.approve", right).await;
    assert!(place.receiver.texts(2).await[1].contains("let in"));
    place.gateway.kill9();
    place.gateway.restart().await;
    place.is_running().await;
    let (_, answer) = place.bring(&from_eve("3")).await;
    assert_eq!(answer["status"], "accepted");
    assert_eq!(place.receiver.texts(3).await[2], "Echo: hi");

    let mut client = admin(&place.gateway).await;
    let person = json!({"channel": "webhook", "person": "eve"});
    let removed = call(&mut client, "channels.pairing.remove", person).await;
    assert_eq!(removed, json!({"removed": true}));
    assert_eq!(place.bring(&from_eve("4")).await.1["status"], "pairing");
}

#[tokio::test]
async fn in_a_group_only_known_people_who_speak_to_the_agent_are_answered() {
    let place = place(&json!({"groups": {"g1": {}, "g2": {"requireMention": false}}})).await;
    let said = |id: &str, from: &str, group: &str, mentioned: bool| {
        json!({"id": id, "text": "hello", "from": {"id": from, "name": "Ann"}, "mentioned": mentioned,
            "chat": {"kind": "group", "id": group, "title": "Team", "threadId": "5"}})
    };
    for (message, status) in [
        (said("1", "ann", "g1", false), "ignored"),
        (said("2", "eve", "g1", true), "ignored"),
        (said("3", "ann", "g3", true), "ignored"),
        (said("4", "ann", "g1", true), "accepted"),
        (said("5", "7", "g2", false), "accepted"),
    ] {
        let (_, answer) = place.bring(&message).await;
        assert_eq!(answer["status"], status, "{message} {answer}");
    }
    let sent = place.receiver.wait(2).await;
    let mut places: Vec<_> = sent
        .iter()
        .map(|it| (it["to"].as_str().unwrap(), it["threadId"].as_str().unwrap()))
        .collect();
    places.sort_unstable();
    assert_eq!(places, [("g1", "5"), ("g2", "5")]);
    let mut client = admin(&place.gateway).await;
    let key = "agent:main:webhook:group:g1:thread:5";
    let told = told(&mut client, key).await;
    assert_eq!(told[0].1, "[Ann (ann)]\nhello");
    let row = row(&mut client, key).await;
    assert_eq!((&row["kind"], &row["displayName"]), (&json!("group"), &json!("Team")));
}

#[tokio::test]
async fn a_service_that_says_later_is_asked_later_and_one_that_refuses_is_not() {
    let place = place(&json!({})).await;
    place.receiver.behave([Behaviour::Busy(1), Behaviour::Status(429)]);
    place.bring(&from_ann("1", "hello")).await;
    let sent = place.receiver.wait(3).await;
    assert!(sent.iter().all(|it| it == &sent[0]));
    until("it is noted", async || {
        (place.outbox().await == json!({"waiting": 0, "uncertain": 0, "failed": 0})).then_some(())
    })
    .await;

    place.receiver.behave([Behaviour::Status(404), Behaviour::Status(500)]);
    for id in ["2", "3", "4"] {
        place.bring(&from_ann(id, id)).await;
        place.receiver.wait(id.parse::<usize>().unwrap() + 2).await;
    }
    until("all is settled", async || {
        (place.outbox().await == json!({"waiting": 0, "uncertain": 1, "failed": 1})).then_some(())
    })
    .await;
    let texts = place.receiver.texts(6).await;
    assert_eq!(texts[3..], ["Echo: 2", "Echo: 3", "Echo: 4"]);
}

#[tokio::test]
async fn a_kill_while_a_reply_is_being_sent_leaves_it_uncertain_and_it_is_not_sent_again() {
    let mut place = place(&json!({"textChunkLimit": 64})).await;
    place.receiver.behave([Behaviour::Hang]);
    let long = format!("{} {}", "a".repeat(50), "b".repeat(50));
    place.bring(&from_ann("1", &long)).await;
    // It has arrived, and the gateway does not know that.
    let first = place.receiver.wait(1).await;
    assert_eq!((&first[0]["part"], &first[0]["parts"]), (&json!(0), &json!(2)));
    place.gateway.kill9();
    place.gateway.restart().await;
    place.is_running().await;
    // What was not being sent goes out; what was, does not.
    let sent = place.receiver.wait(2).await;
    assert_eq!(sent[1]["part"], 1);
    place.bring(&from_ann("2", "next")).await;
    let texts = place.receiver.texts(3).await;
    assert_eq!(texts[2], "Echo: next");
    assert_eq!(place.outbox().await["uncertain"], 1);
}

#[tokio::test]
async fn a_kill_before_a_reply_is_sent_loses_it_not() {
    let mut place = place(&json!({})).await;
    place.receiver.behave([Behaviour::Busy(LONG)]);
    place.bring(&from_ann("1", "hello")).await;
    place.receiver.wait(1).await;
    until("it waits", async || (place.outbox().await["waiting"] == 1).then_some(())).await;
    let of_webhook = json!({"channel": "webhook", "state": "waiting"});
    let told = Scraped::of(&place.gateway).await;
    assert_eq!(told.number("clawgate_channel_outbox_parts", &of_webhook), 1.0);
    assert_eq!(told.number("clawgate_channel_sends_total", &json!({"outcome": "retried"})), 1.0);
    place.is_killed_before_the_next_try().await;
    assert_eq!(place.receiver.texts(2).await, ["Echo: hello", "Echo: hello"]);
}

#[tokio::test]
async fn who_sends_again_after_a_kill_hears_what_became_of_his_message() {
    let mut place = place(&json!({})).await;
    let mut client = admin(&place.gateway).await;
    place.receiver.behave([Behaviour::Busy(LONG)]);
    let params =
        json!({"channel": "webhook", "to": "ann", "message": "hi", "idempotencyKey": "s1"});
    client.send(&json!({"type": "req", "id": "s", "method": "send", "params": params})).await;
    place.receiver.wait(1).await;
    place.is_killed_before_the_next_try().await;
    place.is_running().await;
    let mut client = admin(&place.gateway).await;
    let sent = call(&mut client, "send", params.clone()).await;
    assert_eq!((&sent["runId"], &sent["to"]), (&json!("s1"), &json!("ann")), "{sent}");
    assert_eq!(call(&mut client, "send", params).await, sent);
    assert_eq!(place.receiver.texts(2).await, ["hi", "hi"], "one was refused, and one taken");
}

#[tokio::test]
async fn a_kill_in_the_middle_of_a_run_is_told_to_the_person_once() {
    let mut place = place(&json!({})).await;
    place.bring(&from_ann("1", "@mock stream n=500 delay=50")).await;
    place.is_answering_ann().await;
    for _ in 0..2 {
        place.gateway.kill9();
        place.gateway.restart().await;
        place.is_running().await;
        // One that is being sent at the second kill would be uncertain.
        place.receiver.wait(1).await;
    }
    // The service has no answer to its message, and comes again.
    place.bring(&from_ann("1", "@mock stream n=500 delay=50")).await;
    let other = json!({"id": "1", "text": "hello", "from": {"id": 7.to_string()}});
    place.bring(&other).await;
    let texts = place.receiver.texts(2).await;
    assert!(texts[0].contains("stopped before it had answered"), "{texts:?}");
    assert_eq!(texts[1..], ["Echo: hello"]);
}

#[tokio::test]
async fn a_stop_that_cuts_a_run_is_told_to_the_person_too() {
    let mut place = place(&json!({})).await;
    place.bring(&from_ann("1", "@mock stream n=2000 delay=50")).await;
    place.is_answering_ann().await;
    place.gateway.signal_term();
    // Runs have some time to end by themselves.
    let status = place.gateway.wait_exit(3 * SOON).await.expect("an exit");
    assert_eq!(status.code(), Some(0));
    assert!(place.receiver.texts(0).await.is_empty(), "the next process says so");
    place.gateway.restart().await;
    let texts = place.receiver.texts(1).await;
    // What was said by then is in the transcript.
    let is_whole = texts[0].starts_with("w1 w2 ") && texts[0].ends_with(&format!("\n\n{CUT_OFF}"));
    assert!(is_whole, "{texts:?}");
    assert_eq!(texts.len(), 1);
}

#[tokio::test]
async fn the_note_behind_a_long_answer_that_was_cut_off_names_its_message() {
    let mut place = place(&json!({"textChunkLimit": 200})).await;
    let client = admin(&place.gateway).await;
    place.bring(&from_ann("1", "@mock stream n=2000 delay=50")).await;
    until("there is more than fits into two messages", async || {
        (deltas(&client, "webhook:default:ann:1", 1).await.len() > 500).then_some(())
    })
    .await;
    place.gateway.signal_term();
    place.gateway.wait_exit(3 * SOON).await.expect("an exit");
    place.gateway.restart().await;
    let sent = until("the note", async || {
        let seen = place.receiver.seen();
        seen.last()?["text"].as_str()?.ends_with(CUT_OFF).then_some(seen)
    })
    .await;
    let quotes: Vec<_> = sent.iter().map(|message| message["replyToId"].as_str()).collect();
    assert!(quotes.len() >= 3, "{sent:?}");
    let (end, others) = quotes.split_last().unwrap();
    assert_eq!(*end, Some("1"));
    assert!(others.iter().all(Option::is_none), "{quotes:?}");
}

#[tokio::test]
async fn after_a_kill_what_was_answered_is_told_and_each_open_message_is_named() {
    let mut place = place(&json!({})).await;
    place.bring(&from_ann("1", "@mock stream n=100 delay=50")).await;
    place.is_answering_ann().await;
    // It goes into the run of the first, once that has answered.
    place.bring(&from_ann("2", "@mock stream n=2000 delay=50")).await;
    let mut client = admin(&place.gateway).await;
    until("the second is being answered", async || {
        let said = told(&mut client, "agent:main:webhook:direct:ann").await;
        // One that waits is shown, too.
        (said.len() == 3 && said[1].1.trim_end().ends_with("w100")).then_some(())
    })
    .await;
    // It waits for that.
    place.bring(&from_ann("3", "and me?")).await;
    place.gateway.kill9();
    place.gateway.restart().await;
    let mut sent = place.receiver.wait(3).await;
    sent.sort_by_key(|message| message["id"].to_string());
    let whole: Vec<_> = (1..=100).map(|index| format!("w{index}")).collect();
    assert_eq!(sent[0]["text"].as_str().unwrap().trim_end(), whole.join(" "), "{sent:?}");
    assert_eq!(sent[0]["replyToId"], Value::Null, "it need not be sent again");
    for (message, id) in sent[1..].iter().zip(["2", "3"]) {
        assert_eq!((&message["replyToId"], &message["text"]), (&json!(id), &json!(CUT_OFF)));
    }
}

#[tokio::test]
async fn what_a_command_was_answered_during_a_run_that_a_kill_cut_off_is_not_told_as_its_answer() {
    let mut place = place(&json!({})).await;
    place.bring(&from_ann("1", "@mock stream n=2000 delay=50")).await;
    place.is_answering_ann().await;
    place.bring(&from_ann("2", "/whoami")).await;
    place.receiver.texts(1).await;
    place.gateway.kill9();
    place.gateway.restart().await;
    let told = place.receiver.texts(2).await;
    assert_eq!(told[1], CUT_OFF);
}

#[tokio::test]
async fn commands_of_a_chat_have_the_rights_of_who_wrote_them() {
    let place = place(&json!({"allowFrom": ["ann", "boss"]})).await;
    place.bring(&from_ann("1", "/new")).await;
    let texts = place.receiver.texts(1).await;
    let refused = &texts[0];
    assert!(refused.contains("operator.admin"), "{refused}");
    assert!(refused.contains("\"webhook:ann\" in commands.ownerAllowFrom"), "{refused}");
    place.bring(&from_ann("2", "/whoami")).await;
    let texts = place.receiver.texts(2).await;
    assert!(texts[1].contains("Channel: webhook\nAccount: default\nUser id: ann"), "{texts:?}");
    place.bring(&from_ann("3", "@mock stream n=500 delay=50")).await;
    place.is_answering_ann().await;
    place.bring(&from_ann("4", "stop")).await;
    let texts = place.receiver.texts(3).await;
    assert_eq!(texts[2], "⚙️ Stopped.");
    // What others use is told to owners.
    place.bring(&from_ann("5", "/usage cost")).await;
    let texts = place.receiver.texts(4).await;
    assert!(texts[3].starts_with("💸 Usage cost\nSession $"), "{texts:?}");
    assert!(!texts[3].contains("Today"), "{texts:?}");
    place.bring(&from_ann("6", "/allowlist")).await;
    let texts = place.receiver.texts(5).await;
    assert_eq!(texts[4], "⚠️ webhook does not expose allowlist configuration.");
}

#[tokio::test]
async fn a_stop_that_comes_again_stops_nothing_more() {
    let place = place(&json!({})).await;
    place.bring(&from_ann("1", "@mock stream n=500 delay=50")).await;
    place.is_answering_ann().await;
    let stopped = place.bring(&from_ann("2", "stop")).await;
    assert_eq!(place.receiver.texts(1).await, ["⚙️ Stopped."]);
    place.bring(&from_ann("3", "@mock stream n=20 delay=50")).await;
    place.is_answering_ann().await;
    assert_eq!(place.bring(&from_ann("2", "stop")).await, stopped);
    let texts = place.receiver.texts(2).await;
    assert_ne!(texts[1], texts[0], "the second run is answered");
}

#[tokio::test]
async fn what_is_sent_is_told_to_the_session_that_the_sender_names() {
    let place = place(&json!({})).await;
    let mut client = admin(&place.gateway).await;
    call(&mut client, "sessions.messages.subscribe", json!({"key": "bob"})).await;
    let params = json!({"to": "bob", "message": "hi", "sessionKey": "bob", "idempotencyKey": "s1",
        "mediaUrls": ["https://host.example/a%20b.png?x=1", "https://host.example/"]});
    for _ in 0..2 {
        call(&mut client, "send", params.clone()).await;
    }
    let messages = history(&mut client, "bob").await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    let (text, model) = (text_of(&messages[0]), &messages[0]["model"]);
    assert_eq!((text.as_str(), model), ("hi\n\na b.png, media", &json!("delivery-mirror")));
    let told = |frame: &Value| {
        frame["event"] == "session.message" && frame["payload"]["sessionKey"] == "agent:main:bob"
    };
    client.wait_for(RUN_LIMIT, told).await.expect("whoever watches the session is told");

    let other = json!({"to": "bob", "message": "x", "sessionKey": "agent:nobody:main",
        "idempotencyKey": "s2"});
    assert_eq!(refusal(&mut client, "send", other).await, "unknown agent id \"nobody\"");
    place.receiver.behave([Behaviour::Status(400)]);
    let refused =
        json!({"to": "bob", "message": "no", "sessionKey": "bob", "idempotencyKey": "s3"});
    refusal(&mut client, "send", refused).await;
    assert_eq!(history(&mut client, "bob").await.len(), 1, "what was not sent is not told");
}

#[tokio::test]
async fn a_kill_before_the_answer_to_a_send_puts_it_into_its_session_once() {
    let mut place = place(&json!({})).await;
    let params = json!({"to": "bob", "message": "hi", "sessionKey": "bob", "idempotencyKey": "s1"});
    let sent = call(&mut admin(&place.gateway).await, "send", params.clone()).await;
    place.gateway.kill9();
    // As it is when the kill comes before the answer is noted.
    let database = Connection::open(place.gateway.state_dir().join("clawgate.sqlite")).unwrap();
    let unanswered = "UPDATE answers SET answer = NULL WHERE scope = 'send' AND key = 's1'";
    assert_eq!(database.execute(unanswered, []).unwrap(), 1);
    drop(database);
    place.gateway.restart().await;
    place.is_running().await;
    let mut client = admin(&place.gateway).await;
    assert_eq!(call(&mut client, "send", params.clone()).await, sent);
    let messages = history(&mut client, "bob").await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!((text_of(&messages[0]), place.receiver.seen().len()), ("hi".to_owned(), 1));

    // A session that has begun anew since then is not told once more.
    let database = Connection::open(place.gateway.state_dir().join("clawgate.sqlite")).unwrap();
    assert_eq!(database.execute(unanswered, []).unwrap(), 1);
    drop(database);
    call(&mut client, "sessions.reset", json!({"key": "bob"})).await;
    assert_eq!(call(&mut client, "send", params).await, sent);
    let messages = history(&mut client, "bob").await;
    assert!(messages.iter().all(|it| it["model"] != "delivery-mirror"), "{messages:?}");
}

#[tokio::test]
async fn a_message_whose_answer_cannot_be_delivered_changes_nothing() {
    let place = place(&json!({})).await;
    let mut client = admin(&place.gateway).await;
    let refused = json!({"message": "x", "idempotencyKey": "a", "sessionKey": "attic",
        "sessionId": "old", "label": "Attic", "thinking": "low", "deliver": true,
        "bestEffortDeliver": false, "replyChannel": "Telegram"});
    let text = "Error: Outbound not configured for channel: telegram";
    assert_eq!(refusal(&mut client, "agent", refused).await, text);
    assert_eq!(row(&mut client, "agent:main:attic").await, Value::Null);
}

#[tokio::test]
async fn an_operator_sends_and_acts_by_methods() {
    let place = place(&json!({})).await;
    let mut client = admin(&place.gateway).await;
    let params =
        json!({"to": "bob", "message": "hi", "channel": "webhook", "idempotencyKey": "s1"});
    let sent = call(&mut client, "send", params.clone()).await;
    let expected = json!({"runId": "s1", "channel": "webhook", "to": "bob", "messageId": "m1"});
    assert_eq!(sent, expected);
    assert_eq!(call(&mut client, "send", params).await, expected);
    let only = json!({"to": "bob", "message": "two", "idempotencyKey": "s2"});
    assert_eq!(call(&mut client, "send", only).await["messageId"], "m2");
    let react_to_it = json!({"channel": "webhook", "action": "react", "idempotencyKey": "a0",
        "toolContext": {"currentMessageId": "m2"}, "params": {"to": "bob", "emoji": "👍"}});
    assert_eq!(call(&mut client, "message.action", react_to_it).await["ok"], true);
    assert_eq!(place.receiver.wait(3).await[2]["messageId"], "m2");
    let react = json!({"channel": "webhook", "action": "react", "idempotencyKey": "a1",
        "params": {"to": "bob", "messageId": "m1", "emoji": "👍"}});
    assert_eq!(call(&mut client, "message.action", react).await["ok"], true);
    let seen = place.receiver.wait(4).await;
    assert_eq!((&seen[3]["type"], &seen[3]["emoji"]), (&json!("react"), &json!("👍")));

    place.receiver.behave([Behaviour::Status(400)]);
    let refused = json!({"to": "bob", "message": "no", "idempotencyKey": "s3"});
    assert_eq!(refusal(&mut client, "send", refused).await, "Error: the webhook answered 400");
    let pin = json!({"channel": "webhook", "action": "pin", "params": {}, "idempotencyKey": "a2"});
    let error = refusal(&mut client, "message.action", pin).await;
    assert_eq!(error, "Message action pin not supported for channel webhook.");
    let poll = json!({"to": "b", "question": "q", "options": ["a", "b"], "idempotencyKey": "p"});
    assert_eq!(refusal(&mut client, "poll", poll).await, "unsupported poll channel: webhook");
    for (params, text) in [
        (json!({"channel": "nope"}), "unsupported channel: nope"),
        (json!({"channel": "telegram"}), "unsupported channel: telegram"),
    ] {
        let mut whole = json!({"to": "b", "message": "x", "idempotencyKey": "s9"});
        whole["channel"] = params["channel"].clone();
        assert_eq!(refusal(&mut client, "send", whole).await, text);
    }
}

#[tokio::test]
async fn a_stopped_channel_takes_nothing_and_what_waits_goes_out_when_it_starts() {
    let place = place(&json!({})).await;
    let mut client = admin(&place.gateway).await;
    let channel = json!({"channel": "webhook"});
    let stopped = call(&mut client, "channels.stop", channel.clone()).await;
    let expected = json!({"channel": "webhook", "accountId": "default", "stopped": true});
    assert_eq!(stopped, expected);
    assert_eq!(place.bring(&from_ann("1", "hello")).await.0, 503);
    let params = json!({"sessionKey": "main", "message": "hi", "deliver": true, "to": "ann",
        "idempotencyKey": "r1"});
    let answer = client.request("agent", params).await;
    assert_eq!(answer["payload"]["status"], "accepted", "{answer}");
    until("its reply waits", async || (place.outbox().await["waiting"] == 1).then_some(())).await;
    let started = call(&mut client, "channels.start", channel).await;
    assert_eq!(started["started"], true);
    assert_eq!(place.receiver.texts(1).await, ["Echo: hi"]);
    let nope = json!({"channel": "webhook", "accountId": "nope"});
    assert_eq!(refusal(&mut client, "channels.start", nope).await, "unknown account nope");
}

#[tokio::test]
async fn a_stopped_channel_stays_so_whatever_changes_in_the_config() {
    let place = place(&json!({})).await;
    let mut client = admin(&place.gateway).await;
    let channel = json!({"channel": "webhook"});
    call(&mut client, "channels.stop", channel.clone()).await;
    for change in [
        json!({"messages": {"queue": {"cap": 7}}}),
        json!({"channels": {"webhook": {"textChunkLimit": 100}}}),
    ] {
        patch(&mut client, &change).await;
        assert_eq!(place.bring(&from_ann("1", "hello")).await.0, 503, "{change}");
        let status = call(&mut client, "channels.status", json!({})).await;
        assert_eq!(status["channels"]["webhook"]["running"], false, "{change}");
    }
    call(&mut client, "channels.start", channel).await;
    assert_eq!(place.bring(&from_ann("1", "hello")).await.0, 200);
    assert_eq!(place.receiver.texts(1).await, ["Echo: hello"]);
}

#[tokio::test]
async fn an_answer_goes_to_the_channel_when_its_sender_wants_that() {
    let place = place(&json!({})).await;
    place.bring(&from_ann("1", "hello")).await;
    place.receiver.wait(1).await;
    let mut client = admin(&place.gateway).await;
    let key = "agent:main:webhook:direct:ann";
    for (run, deliver) in [("r1", false), ("r2", true)] {
        let params = json!({"sessionKey": key, "message": run, "deliver": deliver,
            "idempotencyKey": run});
        call(&mut client, "chat.send", params).await;
        crate::stage::end_of(&client, run).await;
    }
    assert_eq!(place.receiver.texts(2).await, ["Echo: hello", "Echo: r2"]);
    assert_eq!(events(&client, "chat", "r1").last().unwrap()["state"], "final");
}

#[tokio::test]
async fn bindings_choose_the_agent_and_a_config_that_cannot_work_says_why() {
    let mock = MockProvider::start().await;
    let channels = json!({"webhook": {"secret": "short"}});
    let mut config = with_channels(mock.address(), &channels);
    let gateway = Gateway::start(GatewayOptions::with_config(config.clone())).await;
    let mut client = admin(&gateway).await;
    let status = call(&mut client, "channels.status", json!({})).await;
    let account = &status["channelAccounts"]["webhook"][0];
    assert_eq!((&account["configured"], &account["running"]), (&json!(false), &json!(false)));
    assert_eq!(account["lastError"], "secret must have at least 16 characters");
    let error = refusal(&mut client, "channels.start", json!({"channel": "webhook"})).await;
    assert!(error.contains("secret must have"), "{error}");

    config["channels"] =
        json!({"webhook": {"secret": SIGNING, "dmPolicy": "open", "allowFrom": ["*"]}});
    config["agents"]["list"] = json!([{"id": "main"}, {"id": "ops"}]);
    config["bindings"] = json!([{"agentId": "ops", "match": {"channel": "webhook",
        "peer": {"kind": "direct", "id": "7"}}}]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    for (from, key) in [("7", "agent:ops:webhook:direct:7"), ("8", "agent:main:webhook:direct:8")] {
        until("it is taken", async || {
            let message = json!({"id": "1", "text": "x", "from": {"id": from}});
            (bring(&gateway, PATH, &message).await.0 == 200).then_some(())
        })
        .await;
        until("it is answered", async || {
            (history(&mut client, key).await.len() == 2).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn the_command_shows_channels_sends_and_lets_people_in() {
    let place = place(&json!({})).await;
    let gateway = &place.gateway;
    let (code, shown) = clawgate(gateway, &["channels", "status"]).await;
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("webhook (default)") && shown.contains("connected"), "{shown}");
    let (_, status) = clawgate(gateway, &["channels", "status", "--json"]).await;
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["channelOrder"], json!(["webhook", "telegram"]));
    let line = ["message", "send", "--target", "bob", "--message", "hi", "--json"];
    let (code, sent) = clawgate(gateway, &line).await;
    assert_eq!(code, 0, "{sent}");
    let sent: Value = serde_json::from_str(&sent).unwrap();
    assert_eq!((&sent["channel"], &sent["messageId"]), (&json!("webhook"), &json!("m1")));
    let eve = json!({"id": "1", "text": "hi", "from": {"id": "eve"}});
    place.bring(&eve).await;
    let told = place.receiver.texts(2).await;
    let code = told[1].split("Pairing code: ").nth(1).unwrap().lines().next().unwrap();
    let (_, list) = clawgate(gateway, &["pairing", "list"]).await;
    assert!(list.contains(code) && list.contains("eve"), "{list}");
    // The forms of OpenClaw.
    for narrow in [&["telegram"][..], &["--channel", "telegram"], &["--account", "other"]] {
        let (done, list) = clawgate(gateway, &[&["pairing", "list"], narrow].concat()).await;
        assert_eq!((done, list.as_str()), (0, "Nobody waits, and nobody was let in.\n"));
    }
    let (_, list) = clawgate(gateway, &["pairing", "list", "webhook", "--json"]).await;
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list["channel"], "webhook", "{list}");
    let request = &list["requests"][0];
    assert_eq!((&request["id"], &request["code"]), (&json!("eve"), &json!(code)), "{list}");
    for other in [&["NOBODY23"][..], &[code, "--channel", "webhook", "--account", "other"]] {
        let (refused, told) = clawgate(gateway, &[&["pairing", "approve"], other].concat()).await;
        assert!(refused == 1 && told.contains("nobody waits there with the code"), "{told}");
    }
    let (done, shown) = clawgate(gateway, &["pairing", "approve", code, "--notify"]).await;
    assert_eq!((done, shown.as_str()), (0, "eve of webhook is let in\n"));
    let (refused, shown) = clawgate(gateway, &["pairing", "approve", "webhook", code]).await;
    assert!(refused != 0 && shown.contains("no pending pairing request"), "{shown}");
    let stranger = clawgate(gateway, &["pairing", "remove", "webhook", "nobody"]).await;
    assert_eq!(stranger, (1, "error: that person was not let in\n".to_owned()));
}

#[tokio::test]
async fn a_job_announces_its_answer_in_a_chat() {
    let place = place(&json!({})).await;
    let mut client = admin(&place.gateway).await;
    let job = |name: &str, channel: &str| {
        json!({"name": name, "enabled": true, "schedule": {"kind": "every", "everyMs": 3_600_000},
            "sessionTarget": "isolated", "wakeMode": "now",
            "payload": {"kind": "agentTurn", "message": "@mock text text=done"},
            "delivery": {"mode": "announce", "channel": channel, "to": "ann"}})
    };
    let added = call(&mut client, "cron.add", job("tells", "webhook")).await;
    call(&mut client, "cron.run", json!({"id": added["id"], "mode": "force"})).await;
    let sent = place.receiver.wait(1).await;
    assert_eq!((&sent[0]["to"], &sent[0]["text"]), (&json!("ann"), &json!("done")));
    let added = call(&mut client, "cron.add", job("cannot", "telegram")).await;
    call(&mut client, "cron.run", json!({"id": added["id"], "mode": "force"})).await;
    let error = until("it has ended", async || {
        let runs = call(&mut client, "cron.runs", json!({"id": added["id"]})).await;
        runs["entries"][0]["error"].as_str().map(str::to_owned)
    })
    .await;
    assert!(error.contains("no channel \"telegram\" is configured"), "{error}");
}

#[tokio::test]
async fn a_channel_that_is_logged_out_is_configured_no_more() {
    let mut place = place(&json!({})).await;
    let mut client = admin(&place.gateway).await;
    let params = json!({"channel": "webhook"});
    let out = call(&mut client, "channels.logout", params).await;
    assert_eq!((&out["cleared"], &out["loggedOut"]), (&json!(true), &json!(true)), "{out}");
    let (status, _) = place.bring(&from_ann("1", "hello")).await;
    assert_ne!(status, 200, "it takes nothing any more");
    let text = std::fs::read_to_string(place.gateway.config_path()).unwrap();
    assert!(!text.contains(SIGNING), "the secret is gone from the file");
    place.gateway.restart().await;
    let mut client = admin(&place.gateway).await;
    let row = &call(&mut client, "channels.status", json!({})).await["channels"]["webhook"];
    assert_eq!((&row["configured"], &row["running"]), (&json!(false), &json!(false)), "{row}");
}

#[tokio::test]
async fn a_channel_that_was_logged_out_begins_with_its_next_credential() {
    let place = place(&json!({})).await;
    let mut client = admin(&place.gateway).await;
    call(&mut client, "channels.logout", json!({"channel": "webhook"})).await;
    patch(&mut client, &json!({"channels": {"webhook": {"secret": SIGNING}}})).await;
    place.is_running().await;
    assert_eq!(place.bring(&from_ann("1", "hello")).await.0, 200);
    assert_eq!(place.receiver.texts(1).await, ["Echo: hello"]);
}

#[tokio::test]
async fn a_message_that_cannot_be_written_as_a_request_is_refused_and_not_uncertain() {
    let place = place(&json!({})).await;
    let mut client = admin(&place.gateway).await;
    let params = json!({"to": "ann", "message": "hi", "idempotencyKey": "one\ntwo"});
    let error = refusal(&mut client, "send", params).await;
    assert!(error.starts_with("Error: ") && !error.contains("uncertain"), "{error}");
    assert_eq!(place.outbox().await, json!({"waiting": 0, "uncertain": 0, "failed": 1}));
    assert!(place.receiver.seen().is_empty());
}
