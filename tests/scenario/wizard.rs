//! `wizard.*` over real connections.

use std::fs;

use serde_json::{Value, json};

use crate::channels::bot_api::{BotApi, TOKEN};
use crate::stage::{admin, ask, call, refusal, text_of};
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, WsClient};

const KEY: &str = "sk-canary-of-the-wizard";

/// A gateway that has a token and nothing else, and Anthropic played by a mock.
async fn bare() -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let config = json!({"gateway": {"auth": {"token": SECRET}}});
    let url = format!("http://{}", mock.address());
    let options = GatewayOptions::with_config(config).env("ANTHROPIC_BASE_URL", &url);
    (Gateway::start(options).await, mock)
}

/// One way through the questions.
struct Walk {
    client: WsClient,
    session: String,
    now: Value,
}

impl Walk {
    async fn start(mut client: WsClient) -> Self {
        let now = call(&mut client, "wizard.start", json!({"mode": "local"})).await;
        let session = now["sessionId"].as_str().unwrap().to_owned();
        Self { client, session, now }
    }

    /// Answers the question that waits; what is done meanwhile is passed over.
    async fn answer(&mut self, value: Value) -> &Value {
        let step = &self.now["step"]["id"];
        let params = json!({"sessionId": self.session, "answer": {"stepId": step, "value": value}});
        self.now = call(&mut self.client, "wizard.next", params).await;
        while self.now["step"]["type"] == "progress" {
            let params = json!({"sessionId": self.session});
            self.now = call(&mut self.client, "wizard.next", params).await;
        }
        &self.now
    }

    /// Answers a question that begins like this.
    async fn says(&mut self, question: &str, value: Value) {
        let step = &self.now["step"];
        let message = step["message"].as_str().or(step["title"].as_str()).unwrap_or_default();
        assert!(message.starts_with(question), "not {question:?} but {}", self.now);
        self.answer(value).await;
    }

    /// Reads a note.
    async fn reads(&mut self, title: &str) {
        let step = &self.now["step"];
        assert_eq!(
            (&step["type"], &step["title"]),
            (&json!("note"), &json!(title)),
            "{}",
            self.now
        );
        self.answer(Value::Null).await;
    }

    async fn accepts(&mut self) {
        self.reads("OpenClaw setup").await;
        // By default nobody is asked about a command, and who reads this may want that.
        let risk = self.now["step"]["message"].as_str().unwrap();
        assert!(risk.contains("By default no command is asked about"), "{risk}");
        assert!(risk.contains("tools.exec.security"), "{risk}");
        self.reads("What this is, and its risk").await;
        self.says("Do you accept", json!(true)).await;
        self.reads("Your configuration").await;
    }

    /// What is asked after the model, answered with what is usual.
    async fn ends(&mut self) {
        self.says("Which channels", json!([])).await;
        let usual = self.now["step"]["initialValue"].clone();
        self.says("The folder", usual).await;
        self.says("The agent's name", json!("")).await;
        self.says("The gateway:", json!("keep")).await;
        self.reads("What will be").await;
        self.says("Write this", json!(true)).await;
        self.reads("Done").await;
        assert_eq!(self.now, json!({"done": true, "status": "done"}));
    }
}

#[tokio::test]
async fn a_client_sets_the_gateway_up_and_no_key_comes_out_anywhere() {
    let (mut gateway, mock) = bare().await;
    let commented = format!("// by hand\n{}", fs::read_to_string(gateway.config_path()).unwrap());
    fs::write(gateway.config_path(), &commented).unwrap();
    let mut walk = Walk::start(admin(&gateway).await).await;
    walk.accepts().await;
    let options = walk.now["step"]["options"].as_array().unwrap().clone();
    let values: Vec<_> = options.iter().map(|option| option["value"].as_str().unwrap()).collect();
    for offered in ["anthropic", "openai", "google", "openrouter", "ollama", "custom", "offline"] {
        assert!(values.contains(&offered), "{values:?}");
    }
    walk.says("Who is to answer?", json!("anthropic")).await;
    let step = &walk.now["step"];
    assert_eq!((&step["sensitive"], &step["type"]), (&json!(true), &json!("text")));
    walk.says("The key for Anthropic", json!(KEY)).await;
    walk.says("Which model?", json!("claude-sonnet-5-5")).await;
    walk.ends().await;
    for frame in walk.client.frames() {
        assert!(!frame.to_string().contains("canary"), "{frame}");
    }
    let text = fs::read_to_string(gateway.config_path()).unwrap();
    assert!(text.starts_with("// by hand\n") && text.contains(SECRET), "{text}");
    assert!(!text.contains("canary"), "{text}");
    assert!((gateway.stdout() + &gateway.stderr()).find("canary").is_none());
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let end = ask(&mut client, "main", "@mock text text=\"hello there\"", "r1").await;
    assert_eq!(text_of(&end["message"]), "hello there");
    assert_eq!(mock.calls().last().unwrap(), &("claude-sonnet-5-5".to_owned(), KEY.to_owned()));
}

#[tokio::test]
async fn what_a_person_said_yes_to_is_written_however_often_the_config_was_changed_before() {
    let (gateway, _mock) = bare().await;
    let mut client = admin(&gateway).await;
    let hash = call(&mut client, "config.get", json!({})).await["hash"].clone();
    let nothing = json!({"raw": "{}", "baseHash": hash});
    for _ in 0..3 {
        call(&mut client, "config.patch", nothing.clone()).await;
    }
    let text = refusal(&mut client, "config.patch", nothing).await;
    assert!(text.contains("rate limit exceeded"), "{text}");
    let mut walk = Walk::start(client).await;
    walk.accepts().await;
    walk.says("Who is to answer?", json!("offline")).await;
    walk.ends().await;
    let text = fs::read_to_string(gateway.config_path()).unwrap();
    assert!(text.contains("offline/echo-guide"), "{text}");
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_refused_and_the_question_stays() {
    let (gateway, _mock) = bare().await;
    let mut walk = Walk::start(admin(&gateway).await).await;
    walk.accepts().await;
    let question = walk.now["step"].clone();
    let at = |step: &Value, value: Value| json!({"sessionId": walk.session, "answer": {"stepId": step, "value": value}});
    let wrong = at(&question["id"], json!("nobody"));
    let answer = walk.client.request("wizard.next", wrong).await;
    assert_eq!(answer["error"]["code"], "INVALID_REQUEST");
    assert_eq!(answer["error"]["details"]["path"], "/answer/value");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(
        message
            .starts_with("invalid wizard.next params: at /answer/value: must be one of anthropic"),
        "{message}"
    );
    let old = at(&json!("of-yesterday"), json!("anthropic"));
    assert_eq!(refusal(&mut walk.client, "wizard.next", old).await, "wizard: no pending step");
    let same = call(&mut walk.client, "wizard.next", json!({"sessionId": walk.session})).await;
    assert_eq!(same["step"], question);
    walk.says("Who is to answer?", json!("anthropic")).await;
    let key = walk.now["step"].clone();
    let again = walk.answer(json!("two words")).await;
    assert_eq!((&again["step"], &again["status"]), (&key, &json!("running")));
    assert!(again["error"].as_str().unwrap().contains("without spaces"), "{again}");
}

#[tokio::test]
async fn a_client_that_was_lost_goes_on_and_a_cancelled_setup_writes_nothing() {
    let (gateway, _mock) = bare().await;
    let before = fs::read_to_string(gateway.config_path()).unwrap();
    let mut walk = Walk::start(admin(&gateway).await).await;
    walk.accepts().await;
    let (question, session) = (walk.now["step"].clone(), walk.session.clone());
    walk.client.close().await;
    let mut client = admin(&gateway).await;
    let answer = client.request("wizard.start", json!({})).await;
    assert_eq!(answer["error"]["message"], "wizard already running");
    assert_eq!(answer["error"]["details"]["sessionId"], json!(session));
    let id = json!({"sessionId": session});
    assert_eq!(call(&mut client, "wizard.status", id.clone()).await, json!({"status": "running"}));
    let now = call(&mut client, "wizard.next", id.clone()).await;
    assert_eq!(now["step"], question);
    let mut walk = Walk { client, session, now };
    walk.says("Who is to answer?", json!("offline")).await;
    let cancelled = json!({"status": "cancelled", "error": "cancelled"});
    assert_eq!(call(&mut walk.client, "wizard.cancel", id.clone()).await, cancelled);
    for method in ["wizard.status", "wizard.next", "wizard.cancel"] {
        assert_eq!(refusal(&mut walk.client, method, id.clone()).await, "wizard not found");
    }
    assert_eq!(fs::read_to_string(gateway.config_path()).unwrap(), before);
    // There is room for another one.
    let mut walk = Walk::start(walk.client).await;
    walk.reads("OpenClaw setup").await;
    walk.reads("What this is, and its risk").await;
    walk.says("Do you accept", json!(false)).await;
    assert_eq!((&walk.now["done"], &walk.now["status"]), (&json!(true), &json!("cancelled")));
    assert_eq!(fs::read_to_string(gateway.config_path()).unwrap(), before);
}

#[tokio::test]
async fn what_lets_us_in_elsewhere_is_neither_in_an_address_nor_a_variable() {
    let (gateway, _mock) = bare().await;
    let mut client = admin(&gateway).await;
    let now = call(&mut client, "wizard.start", json!({"mode": "remote"})).await;
    let session = now["sessionId"].as_str().unwrap().to_owned();
    let mut walk = Walk { client, session, now };
    walk.accepts().await;
    for address in ["wss://:canary@gw.example:1", "wss://canary@gw.example:1"] {
        let again = walk.answer(json!(address)).await;
        assert!(again["error"].as_str().unwrap().contains("without a user in it"), "{again}");
    }
    walk.says("The address of the gateway", json!("wss://gw.example:1")).await;
    let again = walk.answer(json!("canary-${NOBODY_SET_THIS}")).await;
    assert!(again["error"].as_str().unwrap().contains("read as a variable"), "{again}");
    walk.says("Its token", json!("canary-of-there")).await;
    walk.reads("What will be").await;
    for frame in walk.client.frames() {
        assert!(!frame.to_string().contains("canary"), "{frame}");
    }
    call(&mut walk.client, "wizard.cancel", json!({"sessionId": walk.session})).await;
}

#[tokio::test]
async fn a_key_that_is_refused_is_told_and_another_one_or_this_one_is_taken() {
    let (gateway, mock) = bare().await;
    mock.fail("sk-wrong-canary", 401, "invalid x-api-key sk-wrong-canary");
    let mut walk = Walk::start(admin(&gateway).await).await;
    walk.accepts().await;
    walk.says("Who is to answer?", json!("anthropic")).await;
    walk.says("The key for", json!("sk-wrong-canary")).await;
    walk.says("Which model?", json!("claude-opus-5-5")).await;
    let told = walk.now["step"]["message"].as_str().unwrap().to_owned();
    assert!(told.contains("does not accept the key") && !told.contains("canary"), "{told}");
    walk.says("anthropic/claude-opus-5-5", json!("again")).await;
    walk.says("anthropic/claude-opus-5-5", json!("key")).await;
    walk.says("The key for", json!("sk-wrong-canary")).await;
    walk.says("anthropic/claude-opus-5-5", json!("keep")).await;
    walk.ends().await;
    assert_eq!(mock.calls().len(), 3);
    let profiles = gateway.state_dir().join("agents/main/agent/auth-profiles.json");
    assert!(fs::read_to_string(profiles).unwrap().contains("sk-wrong-canary"));
}

#[tokio::test]
async fn a_bot_is_asked_for_its_name_and_the_config_file_of_somebody_else_is_not_overwritten() {
    let (gateway, _mock) = bare().await;
    let bots = BotApi::start().await;
    let mut config: Value =
        serde_json::from_str(&fs::read_to_string(gateway.config_path()).unwrap()).unwrap();
    config["channels"] = json!({"telegram": {"enabled": false, "apiRoot": bots.url()}});
    fs::write(gateway.config_path(), config.to_string()).unwrap();
    let mut walk = Walk::start(admin(&gateway).await).await;
    walk.accepts().await;
    walk.says("Who is to answer?", json!("offline")).await;
    walk.says("Which channels", json!(["telegram"])).await;
    let again = walk.answer(json!("not a token")).await;
    assert!(again["error"].as_str().unwrap().contains("@BotFather"), "{again}");
    walk.says("The bot's token", json!(TOKEN)).await;
    assert_eq!(bots.calls("getMe").len(), 1);
    let usual = walk.now["step"]["initialValue"].clone();
    walk.says("The folder", usual).await;
    walk.says("The agent's name", json!("")).await;
    walk.says("The gateway:", json!("keep")).await;
    walk.reads("What will be").await;
    // Meanwhile somebody edits the file.
    let edited = config.to_string().replacen('{', "{ /* theirs */ \"ui\": {}, ", 1);
    fs::write(gateway.config_path(), &edited).unwrap();
    walk.says("Write this", json!(true)).await;
    walk.reads("Done").await;
    let text = fs::read_to_string(gateway.config_path()).unwrap();
    assert!(text.contains("/* theirs */ \"ui\": {}"), "{text}");
    let parsed = clawgate::config::parse(&text, &gateway.config_path()).unwrap();
    let telegram = &parsed["channels"]["telegram"];
    assert_eq!((&telegram["botToken"], &telegram["enabled"]), (&json!(TOKEN), &json!(true)));
    assert_eq!(
        (&telegram["dmPolicy"], &telegram["apiRoot"]),
        (&json!("pairing"), &json!(bots.url()))
    );
    assert_eq!(parsed["agents"]["defaults"]["model"]["primary"], "offline/echo-guide");
}

#[tokio::test]
async fn who_has_no_token_that_telegram_knows_leaves_telegram_out() {
    let (gateway, _mock) = bare().await;
    let mut config: Value =
        serde_json::from_str(&fs::read_to_string(gateway.config_path()).unwrap()).unwrap();
    // Nothing listens there.
    config["channels"] = json!({"telegram": {"enabled": false, "apiRoot": "http://127.0.0.1:1"}});
    fs::write(gateway.config_path(), config.to_string()).unwrap();
    let mut walk = Walk::start(admin(&gateway).await).await;
    walk.accepts().await;
    walk.says("Who is to answer?", json!("offline")).await;
    walk.says("Which channels", json!(["telegram"])).await;
    walk.says("The bot's token; nothing to change nothing", json!(TOKEN)).await;
    walk.says("Telegram does not know this bot", json!("again")).await;
    walk.says("The bot's token", json!("")).await;
    let usual = walk.now["step"]["initialValue"].clone();
    walk.says("The folder", usual).await;
    walk.says("The agent's name", json!("")).await;
    walk.says("The gateway:", json!("keep")).await;
    walk.reads("What will be").await;
    walk.says("Write this", json!(true)).await;
    walk.reads("Done").await;
    let text = fs::read_to_string(gateway.config_path()).unwrap();
    let parsed = clawgate::config::parse(&text, &gateway.config_path()).unwrap();
    assert_eq!(parsed["channels"], config["channels"]);
}

#[tokio::test]
async fn what_somebody_writes_between_the_questions_and_their_end_is_not_undone() {
    let (gateway, _mock) = bare().await;
    let bots = BotApi::start().await;
    let mut config: Value =
        serde_json::from_str(&fs::read_to_string(gateway.config_path()).unwrap()).unwrap();
    config["agents"] = json!({"defaults": {"model": "offline/echo-guide"}});
    config["channels"] = json!({"telegram": {"enabled": false, "apiRoot": bots.url()}});
    fs::write(gateway.config_path(), config.to_string()).unwrap();
    let mut walk = Walk::start(admin(&gateway).await).await;
    walk.accepts().await;
    walk.says("Who is to answer?", json!("anthropic")).await;
    walk.says("The key for Anthropic", json!(KEY)).await;
    walk.says("Which model?", json!("claude-sonnet-5-5")).await;
    walk.says("Which channels", json!(["telegram"])).await;
    walk.says("The bot's token", json!(TOKEN)).await;
    let usual = walk.now["step"]["initialValue"].clone();
    walk.says("The folder", usual).await;
    walk.says("The agent's name", json!("")).await;
    walk.says("The gateway:", json!("keep")).await;
    walk.reads("What will be").await;
    let fallbacks = json!(["offline/echo-guide"]);
    config["agents"]["defaults"] = json!({
        "model": {"primary": "offline/echo-guide", "fallbacks": fallbacks},
        "models": {"offline/echo-guide": {}},
    });
    config["channels"]["telegram"]["dmPolicy"] = json!("disabled");
    fs::write(gateway.config_path(), config.to_string()).unwrap();
    walk.says("Write this", json!(true)).await;
    walk.reads("Done").await;
    let after: Value =
        serde_json::from_str(&fs::read_to_string(gateway.config_path()).unwrap()).unwrap();
    let (name, defaults) = ("anthropic/claude-sonnet-5-5", &after["agents"]["defaults"]);
    assert_eq!(defaults["model"], json!({"primary": name, "fallbacks": fallbacks}));
    assert_eq!(defaults["models"], json!({"offline/echo-guide": {}, name: {}}));
    let telegram = &after["channels"]["telegram"];
    assert_eq!((&telegram["botToken"], &telegram["dmPolicy"]), (&json!(TOKEN), &json!("disabled")));
}
