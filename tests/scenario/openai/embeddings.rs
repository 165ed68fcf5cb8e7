//! `POST /v1/embeddings`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{answer, offering_with, post};
use crate::aimock::Aimock;
use crate::metrics::Scraped;
use crate::stage::{Api, config};
use crate::support::{Gateway, GatewayOptions, MockProvider};

const PATH: &str = "/v1/embeddings";

/// A gateway whose agents have this `memorySearch`, with its mock of providers.
async fn embedding(search: Value) -> (Gateway, MockProvider) {
    offering_with(|config| config["agents"]["defaults"]["memorySearch"] = search).await
}

fn asks(input: Value) -> Value {
    json!({"model": "openclaw", "input": input})
}

/// The vectors of an answer.
fn vectors(told: &Value) -> Vec<Vec<f64>> {
    let rows = told["data"].as_array().unwrap_or_else(|| panic!("{told}"));
    let numbered = rows.iter().enumerate().all(|(index, row)| row["index"] == index);
    assert!(numbered, "{told}");
    let vector = |row: &Value| serde_json::from_value(row["embedding"].clone()).unwrap();
    rows.iter().map(vector).collect()
}

#[tokio::test]
async fn texts_become_vectors_in_their_order_and_tokens_are_counted() {
    let (gateway, mock) = embedding(json!({"provider": "mock", "model": "mock-embed"})).await;
    let mut body = asks(json!(["1", "2", "3"]));
    body["dimensions"] = json!(2);
    let (status, told) = answer(post(&gateway, PATH, &body)).await;
    assert_eq!(status, 200, "{told}");
    assert_eq!(vectors(&told), [[1.0, 0.2], [2.0, 0.2], [3.0, 0.2]]);
    assert_eq!(told["usage"], json!({"prompt_tokens": 3, "total_tokens": 3}));
    let sent = mock.requests()[0].clone();
    assert_eq!(
        sent.body,
        json!({"model": "mock-embed", "input": ["1", "2", "3"], "dimensions": 2})
    );
    assert!(sent.path.ends_with("/embeddings"), "{}", sent.path);

    body["encoding_format"] = json!("base64");
    let (_, told) = answer(post(&gateway, PATH, &body)).await;
    let bytes = STANDARD.decode(told["data"][2]["embedding"].as_str().unwrap()).unwrap();
    assert_eq!(bytes, [3.0_f32.to_le_bytes(), 0.2_f32.to_le_bytes()].concat());

    let page = Scraped::of(&gateway).await;
    let labels = json!({"provider": "mock", "model": "mock-embed", "kind": "input"});
    assert_eq!(page.number("clawgate_model_tokens_total", &labels), 6.0);
}

#[tokio::test]
async fn each_agent_has_its_own_provider_and_a_request_its_model() {
    let (gateway, mock) = offering_with(|config| {
        config["agents"]["defaults"]["memorySearch"] =
            json!({"provider": "mock", "model": "for-all", "outputDimensionality": 3});
        config["agents"]["list"] = json!([{"id": "main"},
            {"id": "ops", "memorySearch": {"model": "for-ops"}}]);
    })
    .await;
    let mut body = asks(json!("x"));
    let (_, told) = answer(post(&gateway, PATH, &body)).await;
    assert_eq!(vectors(&told)[0].len(), 3);
    body["model"] = json!("openclaw/ops");
    answer(post(&gateway, PATH, &body)).await;
    let named = |model: &str| post(&gateway, PATH, &body).header("x-openclaw-model", model);
    answer(named("mock/other")).await;
    let models: Vec<_> = mock.calls().into_iter().map(|(model, _)| model).collect();
    assert_eq!(models, ["for-all", "for-ops", "other"]);
    for (model, text) in [
        ("openai/other", "does not allow that embedding provider"),
        ("mock/../x", "Unsupported embedding model reference."),
        ("mock/", "Unsupported embedding model reference."),
    ] {
        let (status, told) = answer(named(model)).await;
        let message = told["error"]["message"].as_str().unwrap();
        assert!(status == 400 && message.contains(text), "{model}: {told}");
    }
    body["model"] = json!("openclaw/nobody");
    let (status, told) = answer(post(&gateway, PATH, &body)).await;
    assert_eq!((status, &told["error"]["message"]), (400, &json!("unknown agent id \"nobody\"")));
    assert_eq!(mock.requests().len(), 3);
}

#[tokio::test]
async fn what_is_no_vector_for_each_text_is_a_failure() {
    let (gateway, mock) = embedding(json!({"provider": "mock", "model": "m"})).await;
    for wrong in ["null", "empty", "uneven", "huge", "short"] {
        let (status, told) =
            answer(post(&gateway, PATH, &asks(json!(["x", format!("@embed {wrong}")])))).await;
        let expected = json!({"error": {"message": "internal error", "type": "api_error"}});
        assert_eq!((status, &told), (500, &expected), "{wrong}");
    }
    let mut body = asks(json!("@embed stubborn"));
    body["dimensions"] = json!(5);
    let (status, told) = answer(post(&gateway, PATH, &body)).await;
    let message = told["error"]["message"].as_str().unwrap();
    assert!(status == 400 && message.starts_with("dimensions: "), "{told}");
    // What cannot get better is asked once.
    assert_eq!(mock.requests().len(), 6);

    mock.fail("m", 400, "the key mock-key is odd");
    let (status, told) = answer(post(&gateway, PATH, &asks(json!("x")))).await;
    assert_eq!((status, &told["error"]["message"]), (500, &json!("internal error")));
    mock.heal("m");
    assert_eq!(answer(post(&gateway, PATH, &asks(json!([])))).await.0, 200, "nothing is asked");
    assert_eq!(mock.requests().len(), 7);
}

#[tokio::test]
async fn who_has_no_provider_is_told_what_to_configure() {
    let (gateway, _mock) = embedding(Value::Null).await;
    let response = post(&gateway, PATH, &asks(json!("x"))).send().await.unwrap();
    assert_eq!(response.status(), 500);
    assert_eq!(response.headers()["x-should-retry"], "false");
    let text = response.text().await.unwrap();
    assert!(text.contains("agents.defaults.memorySearch.provider"), "{text}");
}

#[tokio::test]
async fn gemini_is_asked_in_its_own_way_and_a_hundred_at_a_time() {
    let (gateway, mock) = offering_with(|config| {
        let url = config["models"]["providers"]["mock"]["baseUrl"].as_str().unwrap();
        let url = url.replace("/v1", "/v1beta");
        config["agents"]["defaults"]["memorySearch"] = json!({"provider": "gemini",
            "remote": {"baseUrl": url, "apiKey": "of-gemini", "headers": {"X-Team": "t"}}});
    })
    .await;
    let texts: Vec<_> = (1..=128).map(|number| number.to_string()).collect();
    let (status, told) = answer(post(&gateway, PATH, &asks(json!(texts)))).await;
    assert_eq!(status, 200, "{told}");
    let all = vectors(&told);
    assert_eq!(all.len(), 128);
    for (index, vector) in all.iter().enumerate() {
        let length = vector.iter().map(|it| it * it).sum::<f64>().sqrt();
        assert!((length - 1.0).abs() < 1e-9, "of length 1");
        let number = vector[0] / vector[1] * 0.2;
        assert_eq!(number.round() as usize, index + 1);
    }
    let requests = mock.requests();
    let sizes: Vec<_> =
        requests.iter().map(|it| it.body["requests"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [100, 28]);
    assert!(requests[0].path.ends_with("/v1beta/models/gemini-embedding-001:batchEmbedContents"));
    let has = |name: &str, value: &str| {
        requests[0].headers.iter().any(|(own, text)| own == name && text == value)
    };
    assert!(has("x-goog-api-key", "of-gemini") && has("x-team", "t"));
    assert_eq!(requests[0].body["requests"][0]["taskType"], "RETRIEVAL_DOCUMENT");
}

#[tokio::test]
async fn ollama_is_asked_by_the_name_of_a_provider_of_ones_own() {
    let (gateway, mock) = offering_with(|config| {
        let url = config["models"]["providers"]["mock"]["baseUrl"].clone();
        config["models"]["providers"]["gpu"] =
            json!({"api": "ollama", "baseUrl": url, "models": []});
        config["agents"]["defaults"]["memorySearch"] = json!({"provider": "gpu"});
    })
    .await;
    let (status, told) = answer(post(&gateway, PATH, &asks(json!(["1", "2"])))).await;
    assert_eq!((status, &told["usage"]["total_tokens"]), (200, &json!(2)), "{told}");
    let sent = mock.requests()[0].clone();
    assert_eq!(sent.path, "/api/embed");
    assert_eq!(sent.body, json!({"model": "nomic-embed-text", "input": ["1", "2"]}));
}

#[tokio::test]
async fn a_provider_that_is_busy_is_asked_again() {
    let (gateway, mock) = embedding(json!({"provider": "mock", "model": "m"})).await;
    mock.fail("m", 503, "busy");
    let asked = asks(json!("1"));
    let (answered, ()) = tokio::join!(answer(post(&gateway, PATH, &asked)), async {
        while mock.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        mock.heal("m");
    });
    assert_eq!((answered.0, mock.requests().len()), (200, 2), "{}", answered.1);
}

#[tokio::test]
async fn a_third_partys_mock_of_openai_is_understood() {
    let mock = Aimock::start();
    let mut config = config(mock.address(), Api::OpenAi);
    config["gateway"]["http"]["endpoints"] = json!({"chatCompletions": {"enabled": true}});
    config["agents"]["defaults"]["memorySearch"] = json!({"provider": "openai",
        "remote": {"baseUrl": format!("http://{}/v1", mock.address()), "apiKey": "k"}});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let asked = asks(json!(["embed this", "embed this"]));
    let (status, told) = answer(post(&gateway, PATH, &asked)).await;
    assert_eq!(status, 200, "{told}");
    assert_eq!(vectors(&told), [[0.6, 0.8, 0.0], [0.6, 0.8, 0.0]]);
}
