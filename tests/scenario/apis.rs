//! Every API of models, played by the third-party mock server.

use serde_json::{Value, json};

use crate::aimock::Aimock;
use crate::stage::{Stage, admin, ask, call, events, history, lines, text_of, told};
use crate::support::{Gateway, GatewayOptions, MockProvider, default_config};

const ANSWER: &str = "Good morning. This answer comes in many small pieces, one after the other.";

/// Name in the configuration, what follows the host, what the path of a call
/// ends with.
const APIS: [(&str, &str, &str); 5] = [
    ("openai-completions", "/v1", "/v1/chat/completions"),
    ("anthropic-messages", "", "/v1/messages"),
    ("openai-responses", "/v1", "/v1/responses"),
    ("google-generative-ai", "/v1beta", "/v1beta/models/third-1:streamGenerateContent"),
    ("ollama", "", "/api/chat"),
];

async fn stage(api: &str, base: &str) -> Stage {
    let mock = Aimock::start();
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["model"]["primary"] = json!("third/third-1");
    config["agents"]["defaults"]["thinkingDefault"] = json!("low");
    config["models"]["providers"]["third"] = json!({
        "baseUrl": format!("http://{}{base}", mock.address()), "apiKey": "mock-key", "api": api,
        "models": [{"id": "third-1", "name": "Third One", "reasoning": true, "contextWindow": 200_000, "maxTokens": 8192}],
    });
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    Stage { gateway, mock }
}

fn last_path(requests: &[Value]) -> String {
    let path = requests.last().unwrap()["path"].as_str().unwrap();
    path.split('?').next().unwrap().to_owned()
}

#[tokio::test]
async fn an_answer_arrives_and_goes_back_with_the_next_question_by_each_api() {
    for (api, base, path) in APIS {
        let stage = stage(api, base).await;
        let mut client = admin(&stage.gateway).await;
        let end = ask(&mut client, "main", "greet me", "run-1").await;
        assert_eq!((&end["state"], &end["stopReason"]), (&json!("final"), &json!("stop")), "{api}");
        assert_eq!(text_of(&end["message"]), ANSWER, "{api}");
        let end = ask(&mut client, "main", "second question", "run-2").await;
        assert_eq!(end["state"], "final", "{api}");
        let requests = stage.mock.requests().await;
        assert_eq!(last_path(&requests), path);
        let sent = requests.last().unwrap()["body"].to_string();
        let places: Vec<_> = ["greet me", ANSWER, "second question"]
            .iter()
            .map(|text| sent.find(text).unwrap_or_else(|| panic!("{api}: {text} is not in {sent}")))
            .collect();
        assert!(places.is_sorted(), "{api}: {sent}");
        let answer = text_of(&end["message"]);
        let expected = [
            ("user", "greet me"),
            ("assistant", ANSWER),
            ("user", "second question"),
            ("assistant", &answer),
        ];
        assert_eq!(told(&mut client, "main").await, lines(&expected), "{api}");
    }
}

#[tokio::test]
async fn a_failure_is_told_and_a_busy_provider_asked_again_by_each_api() {
    for (api, base, _) in APIS {
        let stage = stage(api, base).await;
        let mut client = admin(&stage.gateway).await;
        let end = ask(&mut client, "main", "refuse my key", "run-1").await;
        assert_eq!(end["state"], "error", "{api}");
        assert!(end.to_string().contains("The key is not valid"), "{api}: {end}");
        let end = ask(&mut client, "main", "busy once", "run-2").await;
        assert_eq!(text_of(&end["message"]), "Here I am again.", "{api}");
    }
}

#[tokio::test]
async fn calls_of_tools_are_run_and_their_results_go_back_by_each_api() {
    for (api, base, _) in APIS {
        let stage = stage(api, base).await;
        let mut client = admin(&stage.gateway).await;
        let end = ask(&mut client, "main", "look at yourself", "run-1").await;
        assert_eq!(end["state"], "final", "{api}: {end}");
        assert!(text_of(&end["message"]).ends_with("I see two of me."), "{api}: {end}");
        let requests = stage.mock.requests().await;
        assert_eq!(requests.len(), 2, "{api}");
        let page = call(&mut client, "chat.history", json!({"sessionKey": "main"})).await;
        let messages = page["messages"].as_array().unwrap();
        let results = messages.iter().filter(|message| message["role"] == "toolResult");
        let failed: Vec<_> = results.map(|message| message["isError"] == true).collect();
        assert_eq!(failed, [false, false], "{api}: {page}");
    }
}

#[tokio::test]
async fn a_thought_is_kept_apart_from_the_answer_by_each_api() {
    // The mock server writes Ollama's thoughts under a name that Ollama does not know.
    for (api, base, _) in APIS.into_iter().filter(|(api, ..)| *api != "ollama") {
        let stage = stage(api, base).await;
        let mut client = admin(&stage.gateway).await;
        let end = ask(&mut client, "main", "think first", "run-1").await;
        assert_eq!(text_of(&end["message"]), "Three.", "{api}: {end}");
        let page = call(&mut client, "chat.history", json!({"sessionKey": "main"})).await;
        let content = &page["messages"][1]["content"];
        assert_eq!(content[0]["thinking"], "Hm, one two three.", "{api}: {content}");
    }
}

#[tokio::test]
async fn a_character_that_is_cut_between_two_pieces_stays_whole_by_each_api() {
    const PARTY: &str = "Great 🎉🎉🎉 party 😀😀😀 and 🍕🍕🍕🍕 done.";
    for (api, base, _) in APIS {
        let stage = stage(api, base).await;
        let mut client = admin(&stage.gateway).await;
        let end = ask(&mut client, "main", "plan the party", "run-1").await;
        assert_eq!(text_of(&end["message"]), PARTY, "{api}: {end}");
        let steps = events(&client, "agent", "run-1");
        let said = steps.iter().filter(|step| step["stream"] == "assistant");
        let deltas: Vec<_> = said.filter_map(|step| step["data"]["delta"].as_str()).collect();
        assert_eq!(deltas.concat(), PARTY, "{api}: {deltas:?}");
        for delta in events(&client, "chat", "run-1") {
            assert!(PARTY.starts_with(&text_of(&delta["message"])), "{api}: {delta}");
        }
        let file = std::fs::read_to_string(stage.gateway.workspace().join("party.md"));
        assert_eq!(file.unwrap(), "At 8 😀😀😀 bring 🍕🍕🍕🍕 ok", "{api}");
        let messages = history(&mut client, "main").await;
        let last = messages.last().unwrap();
        assert_eq!(text_of(last), PARTY, "{api}: {last}");
        // See above for Ollama's thoughts.
        if api != "ollama" {
            assert_eq!(last["content"][0]["thinking"], "Hm 🤔🤔🤔 yes.", "{api}: {last}");
        }
    }
}

#[tokio::test]
async fn the_proxy_of_the_environment_is_taken_but_for_what_it_excepts() {
    let mock = MockProvider::start().await;
    let mut config = default_config("models.test");
    config["models"]["providers"]["excepted"] = json!({
        "baseUrl": "http://nowhere.invalid/v1", "apiKey": "k", "timeoutSeconds": 5,
        "models": [{"id": "m"}],
    });
    let options = GatewayOptions::with_config(config)
        .env("HTTP_PROXY", &format!("http://{}", mock.address()))
        .env("NO_PROXY", "nowhere.invalid");
    let gateway = Gateway::start(options.clone()).await;
    let mut client = admin(&gateway).await;
    let end = ask(&mut client, "main", "hello", "run-1").await;
    assert_eq!(end["state"], "final", "{end}");

    let mut config = options.config.clone().unwrap();
    config["agents"]["defaults"]["model"]["primary"] = json!("excepted/m");
    let gateway = Gateway::start(GatewayOptions { config: Some(config), ..options }).await;
    let mut client = admin(&gateway).await;
    let end = ask(&mut client, "main", "hello", "run-1").await;
    assert_eq!(end["state"], "error", "{end}");
    assert!(end.to_string().contains("cannot reach http://nowhere.invalid"), "{end}");
}
