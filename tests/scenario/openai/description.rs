//! What `docs/openapi.json` says is what a third-party program finds.

use std::process::Stdio;

use regex::Regex;
use serde_json::{Value, json};
use tokio::process::Command;

use super::{answer, client, offering, offering_with, post};
use crate::stage::{admin, call};
use crate::support::{SECRET, get_json, python};

#[tokio::test]
async fn the_gateway_gives_its_own_description() {
    let (gateway, _mock) = offering().await;
    let given = get_json(&gateway.address(), "/openapi.json").await;
    let written: Value = serde_json::from_str(include_str!("../../../docs/openapi.json")).unwrap();
    assert_eq!(given, written);
}

#[test]
fn what_is_taken_is_described() {
    let written: Value = serde_json::from_str(include_str!("../../../docs/openapi.json")).unwrap();
    let schemas = &written["components"]["schemas"];
    let request = &schemas["ResponseRequest"]["properties"];
    let chat = &schemas["ChatRequest"]["properties"];
    for form in [&chat["response_format"], &request["text"]["properties"]["format"]] {
        let kinds = form["anyOf"].to_string();
        assert!(kinds.contains("json_object") && kinds.contains("json_schema"), "{form}");
    }
    let items = schemas["InputItem"]["anyOf"].as_array().unwrap();
    let kinds: Vec<_> =
        items.iter().filter_map(|it| it["properties"]["type"]["const"].as_str()).collect();
    let all = ["message", "function_call", "function_call_output", "reasoning", "item_reference"];
    assert_eq!(kinds, all);
    assert!(schemas["Error"]["properties"]["error"]["properties"]["param"].is_object());
}

/// Whether a schema of a text lets this one through.
fn fits(schema: &Value, text: &str) -> bool {
    let length = u64::try_from(text.chars().count()).unwrap();
    let is_within = schema["minLength"].as_u64().is_none_or(|least| length >= least)
        && schema["maxLength"].as_u64().is_none_or(|most| length <= most);
    let pattern = schema["pattern"].as_str().map(|pattern| Regex::new(pattern).unwrap());
    is_within && pattern.is_none_or(|pattern| pattern.is_match(text))
}

#[tokio::test]
async fn the_names_that_the_gateway_gives_fit_its_description() {
    let longest = "a".repeat(64);
    let (gateway, _mock) = offering_with(|config| {
        config["agents"]["list"] = json!([{"id": "main"}, {"id": longest}]);
    })
    .await;
    let written: Value = serde_json::from_str(include_str!("../../../docs/openapi.json")).unwrap();
    let operations = written["paths"].as_object().unwrap().values();
    let operations = operations.flat_map(|path| path.as_object().unwrap().values());
    let all = operations.flat_map(|it| it["parameters"].as_array().into_iter().flatten());
    let all: Vec<_> = all.collect();
    let named = |name: &str| {
        let schemas: Vec<_> =
            all.iter().filter(|it| it["name"] == name).map(|it| &it["schema"]).collect();
        assert!(!schemas.is_empty(), "{name}");
        schemas
    };

    let models = format!("http://{}/v1/models", gateway.address());
    let (_, list) = answer(client().get(models).bearer_auth(SECRET)).await;
    let models: Vec<_> =
        list["data"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert!(models.contains(&format!("openclaw/{longest}").as_str()), "{models:?}");
    for model in models {
        assert!(fits(&written["components"]["schemas"]["ModelName"], model), "{model}");
        assert!(named("model").into_iter().all(|schema| fits(schema, model)), "{model}");
        let agent = model.rsplit('/').next().unwrap();
        assert!(named("x-openclaw-agent-id").into_iter().all(|it| fits(it, agent)), "{agent}");
    }

    for user in [json!(null), json!("Bob@x.org")] {
        let mut said = json!({"model": "openclaw",
            "messages": [{"role": "user", "content": "@mock text text=\"x\""}]});
        if user.is_string() {
            said["user"] = user;
        }
        assert_eq!(answer(post(&gateway, "/v1/chat/completions", &said)).await.0, 200);
    }
    let mut operator = admin(&gateway).await;
    let listed = call(&mut operator, "sessions.list", json!({})).await;
    let rows = listed["sessions"].as_array().unwrap();
    let mut keys: Vec<_> = rows.iter().map(|row| row["key"].as_str().unwrap()).collect();
    for part in ["agent:main:openai:", "agent:main:openai-user:bob"] {
        assert!(keys.iter().any(|key| key.starts_with(part)), "{keys:?}");
    }
    keys.extend(["main", "agent:main:main", "agent:main:openai-user:bob%40x.org"]);
    let names = ["x-openclaw-session-key", "x-openclaw-requester-session-key", "key", "sessionKey"];
    for (name, key) in names.iter().flat_map(|name| keys.iter().map(move |key| (name, key))) {
        assert!(named(name).into_iter().all(|schema| fits(schema, key)), "{name}: {key}");
        assert!(!named(name).into_iter().any(|schema| fits(schema, "")), "{name}");
    }
    for model in ["mock/mock-1", "openrouter/anthropic/claude-sonnet-4.5"] {
        assert!(named("x-openclaw-model").into_iter().all(|schema| fits(schema, model)), "{model}");
    }
}

#[tokio::test]
async fn requests_made_from_the_description_meet_no_failure_and_no_other_shape() {
    let (gateway, _mock) = offering().await;
    // A session that requests can name.
    let said = json!({"model": "openclaw", "messages": [{"role": "user", "content": "hello"}]});
    let said = post(&gateway, "/v1/chat/completions", &said);
    assert_eq!(answer(said.header("x-openclaw-session-key", "main")).await.0, 200);
    let interpreter = tokio::task::spawn_blocking(python::interpreter).await.unwrap();
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");
    let checks = "not_a_server_error,status_code_conformance,content_type_conformance,\
        response_schema_conformance,ignored_auth,unsupported_method";
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(interpreter.with_file_name("schemathesis"));
    command.args(["run", document, "--url"]).arg(format!("http://{}", gateway.address()));
    command.args(["--header", &format!("Authorization: Bearer {SECRET}")]);
    command.args(["--checks", checks, "--max-examples", "40", "--seed", "1"]);
    command.args(["--phases", "coverage,fuzzing", "--generation-database", "none"]);
    command.env("NO_PROXY", "127.0.0.1").current_dir(folder.path());
    command.env("SCHEMATHESIS_HOOKS", "openapi_hooks");
    command.env("PYTHONPATH", python::script("openapi_hooks.py").parent().unwrap());
    command.stdin(Stdio::null()).kill_on_drop(true);
    let done = tokio::time::timeout(std::time::Duration::from_secs(300), command.output());
    let output = done.await.expect("it ends").unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let written: Value = serde_json::from_str(include_str!("../../../docs/openapi.json")).unwrap();
    let operations: usize = written["paths"]
        .as_object()
        .unwrap()
        .values()
        .map(|path| path.as_object().unwrap().len())
        .sum();
    assert!(text.contains(&format!("Tested: {operations}\n")), "{text}");
}
