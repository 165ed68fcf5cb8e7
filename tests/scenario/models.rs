//! What clients are told of models and credentials.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::stage::{admin, ask, call, refusal, text_of};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient, default_config};

async fn names(client: &mut WsClient, view: &str) -> Vec<String> {
    let list = call(client, "models.list", json!({ "view": view })).await;
    let rows = list["models"].as_array().unwrap().iter();
    rows.map(|row| {
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        format!("{}/{}", text("provider"), text("id"))
    })
    .collect()
}

#[tokio::test]
async fn the_views_of_the_list_show_what_is_usable_configured_and_known() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["models"]["mode"] = "merge".into();
    let gateway =
        Gateway::start(GatewayOptions::with_config(config).env("GROQ_API_KEY", "groq-key")).await;
    let mut client = admin(&gateway).await;
    let configured = ["mock/mock-1", "mock/mock-2", "mocka/mock-think"];
    assert_eq!(names(&mut client, "configured").await, configured);
    let usable = names(&mut client, "default").await;
    assert_eq!(usable[..3], configured);
    assert!(usable.iter().any(|name| name.starts_with("groq/")), "{usable:?}");
    assert!(usable.iter().all(|name| !name.starts_with("anthropic/")), "{usable:?}");
    let all = names(&mut client, "all").await;
    assert!(all.len() > 200 && all.contains(&"anthropic/claude-opus-5-5".to_owned()));
}

#[tokio::test]
async fn a_list_of_allowed_models_is_what_clients_see_with_its_aliases() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["models"] =
        json!({"mock/mock-1": {}, "mocka/mock-think": {"alias": "Thinker", "params": {"x": 1}}});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let list = call(&mut client, "models.list", json!({})).await;
    let rows = list["models"].as_array().unwrap();
    let shown: Vec<_> = rows.iter().map(|row| (row["id"].clone(), row["alias"].clone())).collect();
    assert_eq!(shown, [(json!("mock-1"), Value::Null), (json!("mock-think"), json!("Thinker"))]);
}

#[tokio::test]
async fn a_session_takes_a_model_by_its_alias_and_none_that_is_not_on_the_list() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["models"] =
        json!({"mock/mock-1": {}, "mocka/mock-think": {"alias": "Thinker"}});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let patch = |model: &str| json!({"key": "main", "model": model});
    for written in ["thinker", "mocka/mock-think", "mock-think", "MOCKA/mock-think"] {
        let patched = call(&mut client, "sessions.patch", patch(written)).await;
        assert_eq!(patched["entry"]["providerOverride"], "mocka", "{written}: {patched}");
        assert_eq!(patched["entry"]["modelOverride"], "mock-think", "{written}: {patched}");
        call(&mut client, "sessions.patch", json!({"key": "main", "model": null})).await;
    }
    for (written, full) in [("mock-2", "mock/mock-2"), ("else/new", "else/new")] {
        let refused = refusal(&mut client, "sessions.patch", patch(written)).await;
        assert_eq!(refused, format!("model not allowed: {full}"));
    }
}

#[tokio::test]
async fn the_status_of_credentials_shows_everything_but_the_secret() {
    let mock = MockProvider::start().await;
    let config = default_config(mock.address());
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let status = call(&mut client, "models.authStatus", json!({"refresh": true})).await;
    assert_eq!(status["providers"], json!([]));

    let dir = gateway.state_dir().join("agents/main/agent");
    fs::create_dir_all(&dir).unwrap();
    let far = 9_000_000_000_000_u64;
    let profiles = json!({
        "anthropic:a": {"type": "api_key", "provider": "Anthropic", "key": "canary-1"},
        "openai:me@x.y": {"type": "oauth", "provider": "openai", "access": "canary-2",
            "refresh": "canary-3", "expires": far, "email": "me@x.y"},
        "openai:old": {"type": "token", "provider": "openai", "token": "canary-4", "expires": 5},
        "openai:bad": {"type": "token", "provider": "openai", "token": "canary-5", "expires": "x"},
        "openai:ref": {"type": "api_key", "provider": "openai",
            "keyRef": {"source": "env", "provider": "default", "id": "NOT_SET_ANYWHERE"}},
    });
    fs::write(
        dir.join("auth-profiles.json"),
        json!({"version": 1, "profiles": profiles}).to_string(),
    )
    .unwrap();
    let status = call(&mut client, "models.authStatus", json!({})).await;
    assert!(!status.to_string().contains("canary"), "{status}");
    let providers = status["providers"].as_array().unwrap();
    assert_eq!(
        providers[0],
        json!({"provider": "anthropic", "displayName": "Anthropic", "status": "static",
            "profiles": [{"profileId": "anthropic:a", "type": "api_key", "status": "static",
                "reasonCode": "ok"}]})
    );
    assert_eq!(
        (&providers[1]["status"], &providers[1]["expiry"]["at"]),
        (&json!("ok"), &json!(far))
    );
    let told: Vec<_> = providers[1]["profiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            [&row["profileId"], &row["status"], &row["reasonCode"]].map(|it| it.as_str().unwrap())
        })
        .collect();
    assert_eq!(
        told,
        [
            ["openai:me@x.y", "ok", "ok"],
            ["openai:old", "expired", "expired"],
            ["openai:bad", "missing", "invalid_expires"],
            ["openai:ref", "missing", "unresolved_ref"],
        ]
    );
    assert!(!gateway.stderr().contains("canary"), "{}", gateway.stderr());
}

#[tokio::test]
async fn a_stored_key_opens_the_models_of_its_provider_however_that_is_written() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["models"]["mode"] = "merge".into();
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let are_groqs = |shown: Vec<String>| shown.iter().any(|name| name.starts_with("groq/"));
    assert!(!are_groqs(names(&mut client, "default").await));
    let dir = gateway.state_dir().join("agents/main/agent");
    fs::create_dir_all(&dir).unwrap();
    let stored = json!({"Groq:a": {"type": "api_key", "provider": "Groq", "key": "canary-1"}});
    let file = json!({"version": 1, "profiles": stored}).to_string();
    fs::write(dir.join("auth-profiles.json"), file).unwrap();
    assert!(are_groqs(names(&mut client, "default").await));
}

#[tokio::test]
async fn a_key_in_a_private_file_is_used_and_never_shown() {
    let mock = MockProvider::start().await;
    let secrets = tempfile::tempdir().unwrap();
    let path = secrets.path().join("key");
    fs::write(&path, "canary-file-key\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let mut config = default_config(mock.address());
    config["secrets"] = json!({"providers": {"f":
        {"source": "file", "path": path.to_str().unwrap(), "mode": "singleValue"}}});
    config["models"]["providers"]["mock"]["apiKey"] =
        json!({"source": "file", "provider": "f", "id": "value"});
    let gateway = Gateway::start(GatewayOptions::with_config(config.clone())).await;
    let mut client = admin(&gateway).await;
    let end = ask(&mut client, "main", "hello", "r1").await;
    assert_eq!(text_of(&end["message"]), "Echo: hello");
    assert_eq!(mock.calls(), [("mock-1".to_owned(), "canary-file-key".to_owned())]);
    mock.fail("mock-1", 401, "the key canary-file-key is bad");
    let end = ask(&mut client, "main", "hello", "r2").await;
    assert_eq!(end["errorMessage"], "401 the key *** is bad");
    let told = format!("{:?}{}{}", client.frames(), gateway.stderr(), gateway.stdout());
    assert!(!told.contains("canary"), "{told}");

    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let mut strict = GatewayOptions::with_config(config);
    strict.args = vec!["--strict".into()];
    let error = Gateway::try_start(strict).await.err().unwrap();
    assert!(error.contains("models.providers.mock.apiKey: "), "{error}");
    assert!(error.contains("is open to others (mode 644)"), "{error}");
}

#[tokio::test]
async fn a_model_that_there_is_not_is_stood_in_for_by_a_fallback_or_fails_by_its_name() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["model"] =
        json!({"primary": "nowhere/first", "fallbacks": ["nowhere/second", "mock/mock-2"]});
    config["agents"]["list"] = json!([
        {"id": "main"},
        {"id": "lost", "model": {"primary": "nowhere/third", "fallbacks": []}},
        {"id": "moved", "model": {"primary": "nowhere/fifth",
            "fallbacks": ["nowhere/second", "mock/mock-1"]}},
    ]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let end = ask(&mut client, "main", "hello", "r1").await;
    assert_eq!(text_of(&end["message"]), "Echo: hello");
    assert_eq!(mock.calls().last().unwrap().0, "mock-2");
    let end = ask(&mut client, "agent:lost:main", "hello", "r2").await;
    let error = end["errorMessage"].as_str().unwrap();
    assert!(
        error.starts_with("agents.list[1].model: there is no model \"nowhere/third\""),
        "{error}"
    );
    assert_eq!(mock.calls().len(), 1);
    let seen = call(&mut client, "config.get", json!({})).await;
    assert_eq!(seen["valid"], true, "{seen}");
    let told = |path: &str| {
        let mut warnings = seen["warnings"].as_array().unwrap().iter();
        let found = warnings.find(|warning| warning["path"] == path).unwrap();
        found["message"].as_str().unwrap().to_owned()
    };
    assert!(told("agents.defaults.model").ends_with("; its fallback mock/mock-2 answers"));
    assert!(told("agents.list[1].model").ends_with("; runs with it fail"));
    assert!(told("agents.list[2].model").ends_with("; its fallback mock/mock-1 answers"));
    gateway.logs("agents.list[1].model: there is no model").await;
    let path = "agents.list[1].model";
    let patch = json!({"agents": {"list": [{"id": "lost", "model": "nowhere/fourth"}]}});
    let params = json!({"raw": patch.to_string(), "baseHash": seen["hash"]});
    let refused = refusal(&mut client, "config.patch", params).await;
    assert!(
        refused.starts_with(&format!("invalid config: {path}: there is no model")),
        "{refused}"
    );
    // A fallback is told of when it comes into use, not by whoever looks at a text.
    for path in ["agents.defaults.model.fallbacks", "agents.list[2].model.fallbacks"] {
        let line = format!("{path}: there is no model \"nowhere/second\"");
        gateway.logs(&line).await;
        let log = gateway.stderr();
        assert_eq!(log.matches(&line).count(), 1, "{log}");
    }
}
