//! What a form needs to show the config, what stands in other files, and
//! clients that take the config itself for params.

use std::fs;

use serde_json::{Value, json};

use crate::stage::{Api, admin, call, connect, refusal, scripted};
use crate::support::client::standard_connect;
use crate::support::{Gateway, SECRET};

const HIDDEN: &str = "__OPENCLAW_REDACTED__";

fn text(gateway: &Gateway) -> String {
    fs::read_to_string(gateway.config_path()).unwrap()
}

async fn dashboard(gateway: &Gateway) -> crate::support::WsClient {
    let mut params = standard_connect(&["operator.admin", "operator.read"]);
    params["userAgent"] = json!("openclaw-dashboard/1.0");
    connect(gateway, &params).await
}

#[tokio::test]
async fn the_schema_accepts_what_the_gateway_runs_with_and_each_place_can_be_looked_up() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let answer = call(&mut client, "config.schema", json!({})).await;
    let shown = call(&mut client, "config.get", json!({})).await;
    let mut config = shown["config"].clone();
    // What the schema does not have is what is told to have no effect.
    for warning in shown["warnings"].as_array().unwrap() {
        config.as_object_mut().unwrap().remove(warning["path"].as_str().unwrap());
    }
    let validator = jsonschema::validator_for(&answer["schema"]).unwrap();
    let faults: Vec<_> = validator.iter_errors(&config).map(|it| it.to_string()).collect();
    assert_eq!(faults, [""; 0], "{config:#}");
    let hints = answer["uiHints"].as_object().unwrap();
    assert_eq!(hints["gateway.auth.token"]["sensitive"], true);
    assert_eq!(
        (&hints["gateway"]["order"], &hints["gateway"]["group"]),
        (&json!(30), &json!("Gateway"))
    );
    // Every section, and whatever is below it, is told the same by both methods.
    let mut places: Vec<String> =
        answer["schema"]["properties"].as_object().unwrap().keys().cloned().collect();
    places.retain(|name| name != "$schema");
    let mut seen = 0;
    while let Some(path) = places.pop() {
        let found = call(&mut client, "config.schema.lookup", json!({"path": path})).await;
        assert_eq!(found["path"], path.as_str());
        if let Some(hint) = found["hintPath"].as_str() {
            assert_eq!(found["hint"], hints[hint], "{path}");
        }
        for child in found["children"].as_array().unwrap() {
            assert_eq!(child["path"], format!("{path}.{}", child["key"].as_str().unwrap()));
            if child["hasChildren"] == true && seen < 300 {
                places.push(child["path"].as_str().unwrap().to_owned());
            }
        }
        seen += 1;
    }
    assert!(seen > 80, "{seen}");
}

#[tokio::test]
async fn nothing_is_opened_and_the_file_is_named() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let answer = call(&mut admin(&gateway).await, "config.openFile", json!({})).await;
    assert_eq!(answer["ok"], false);
    assert_eq!(answer["path"], gateway.config_path().display().to_string());
    assert!(answer["error"].as_str().unwrap().contains("opens no programs"), "{answer}");
}

#[tokio::test]
async fn a_config_in_several_files_is_read_as_one_and_stays_in_them() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut config: Value = serde_json::from_str(&text(&gateway)).unwrap();
    let models = config["models"].take();
    config["models"] = json!({"$include": "./parts/models.json5"});
    config["session"] =
        json!({"$include": ["parts/a.json5", "parts/b.json5"], "dmScope": "per-peer"});
    config["misspelt"] = json!({"kept": true});
    let parts = gateway.config_path().with_file_name("parts");
    fs::create_dir(&parts).unwrap();
    let part = format!("// keys\n{models:#}\n");
    fs::write(parts.join("models.json5"), &part).unwrap();
    fs::write(parts.join("a.json5"), "{ mainKey: 'chief', dmScope: 'main' }").unwrap();
    fs::write(parts.join("b.json5"), "{ mainKey: 'boss' }").unwrap();
    fs::write(gateway.config_path(), format!("// mine\n{config:#}\n")).unwrap();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let hello = gateway.open().await.request("connect", standard_connect(&[])).await;
    let defaults = &hello["payload"]["snapshot"]["sessionDefaults"];
    assert_eq!(defaults["mainSessionKey"], "agent:main:boss");
    let shown = call(&mut client, "config.get", json!({})).await;
    assert_eq!((&shown["valid"], &shown["issues"]), (&json!(true), &json!([])));
    let warnings = shown["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|warning| warning["path"] == "misspelt"), "{warnings:?}");
    assert_eq!(shown["parsed"]["models"], json!({"$include": "./parts/models.json5"}));
    let key = &shown["config"]["models"]["providers"]["mock"]["apiKey"];
    assert!(key == HIDDEN || key.is_null(), "{key}");
    // A form sends the whole back, with a change of its own.
    let mut wanted = shown["config"].clone();
    wanted["session"]["dmScope"] = json!("per-channel-peer");
    let params = json!({"raw": wanted.to_string(), "baseHash": shown["hash"]});
    call(&mut client, "config.set", params).await;
    let now = text(&gateway);
    assert!(now.starts_with("// mine\n") && now.contains("./parts/models.json5"), "{now}");
    assert!(now.contains("per-channel-peer") && now.contains("misspelt"), "{now}");
    assert_eq!(fs::read_to_string(parts.join("models.json5")).unwrap(), part);
    let patch = json!({"session": {"mainKey": null}}).to_string();
    let hash = call(&mut client, "config.get", json!({})).await["hash"].clone();
    let refused =
        refusal(&mut client, "config.patch", json!({"raw": patch, "baseHash": hash})).await;
    assert!(refused.starts_with("invalid config: session.mainKey: comes from"), "{refused}");
    // What somebody has read is old when an included file says something else.
    fs::write(parts.join("b.json5"), "{ mainKey: 'leader' }").unwrap();
    let params = json!({"raw": wanted.to_string(), "baseHash": hash});
    let refused = refusal(&mut client, "config.set", params).await;
    assert!(refused.starts_with("config changed since last load"), "{refused}");
}

#[tokio::test]
async fn an_include_that_leads_out_of_the_directory_starts_no_gateway() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let hash = call(&mut client, "config.get", json!({})).await["hash"].clone();
    for file in ["/etc/hostname", "../../../../../../etc/hostname"] {
        let raw = json!({"session": {"$include": file}}).to_string();
        let refused =
            refusal(&mut client, "config.set", json!({"raw": raw, "baseHash": hash})).await;
        assert!(refused.starts_with("invalid config: session.$include: must stay in"), "{refused}");
    }
}

#[tokio::test]
async fn a_client_may_send_the_config_itself_as_params() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = dashboard(&gateway).await;
    // It takes the whole answer for the config, and sends it back.
    let mut config = call(&mut client, "config.get", json!({})).await;
    assert_eq!(config["gateway"]["auth"]["token"], HIDDEN);
    config["session"] = json!({"mainKey": "chief"});
    let written = call(&mut client, "config.set", config.clone()).await;
    assert_eq!(written["session"]["mainKey"], "chief");
    let now: Value = serde_json::from_str(&text(&gateway)).unwrap();
    assert_eq!(now["session"]["mainKey"], "chief");
    assert_eq!(now["gateway"]["auth"]["token"], SECRET);
    for member in ["path", "hash", "parsed", "valid"] {
        assert!(now.get(member).is_none(), "{member}: {now}");
    }
    // What it had read is no longer there.
    let stale = "config changed since last load; re-run config.get and retry";
    assert_eq!(refusal(&mut client, "config.set", config).await, stale);
    // Sections alone are a config, too, and without a hash there is no conflict.
    let patched =
        call(&mut client, "config.patch", json!({"messages": {"queue": {"cap": 3}}})).await;
    assert_eq!(patched["messages"]["queue"]["cap"], 3);
    let now: Value = serde_json::from_str(&text(&gateway)).unwrap();
    assert_eq!(
        (&now["messages"]["queue"]["cap"], &now["session"]["mainKey"]),
        (&json!(3), &json!("chief"))
    );
    // Nor does what is not sent go away then.
    call(&mut client, "config.set", json!({"messages": {"queue": {"cap": 4}}})).await;
    let now: Value = serde_json::from_str(&text(&gateway)).unwrap();
    assert_eq!(now["messages"], json!({"queue": {"cap": 4}}));
    assert_eq!(
        (&now["session"]["mainKey"], &now["gateway"]["auth"]["token"]),
        (&json!("chief"), &json!(SECRET))
    );
    let wrong = json!({"gateway": {"port": "x"}});
    let refused = refusal(&mut client, "config.patch", wrong).await;
    assert!(refused.starts_with("invalid config: gateway.port: must be"), "{refused}");
    let applied = call(&mut client, "config.apply", json!({})).await;
    assert_eq!((&applied["noop"], &applied["session"]["mainKey"]), (&json!(true), &json!("chief")));
    // What a change is answered with is sent back as well.
    assert!(patched["sentinel"].is_object());
    for mut answer in [patched, applied] {
        // Of a change that leads to one.
        answer["restart"] = json!({"ok": true});
        answer["session"]["mainKey"] = json!("boss");
        let written = call(&mut client, "config.set", answer).await;
        assert_eq!(written["session"]["mainKey"], "boss");
    }
    // Others get the answers that they know.
    let missing = refusal(&mut admin(&gateway).await, "config.apply", json!({})).await;
    assert_eq!(missing, "invalid config.apply params: must have required property 'raw'");
    let shown = call(&mut admin(&gateway).await, "config.get", json!({})).await;
    assert!(shown.get("gateway").is_none());
}

#[tokio::test]
async fn a_config_as_params_is_refused_to_a_client_that_knows_of_texts() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let (mut client, before) = (admin(&gateway).await, text(&gateway));
    for method in ["config.set", "config.apply", "config.patch"] {
        let refused = refusal(&mut client, method, json!({"gateway": {"port": 1}})).await;
        let expected = format!(
            "invalid {method} params: must have required property 'raw'; \
             at root: unexpected property 'gateway'"
        );
        assert_eq!(refused, expected);
    }
    let whole = json!({"raw": "{}", "sourceConfig": {}, "session": {}});
    let refused = refusal(&mut client, "config.set", whole).await;
    let expected = "invalid config.set params: at root: unexpected property 'sourceConfig'; \
                    at root: unexpected property 'session'";
    assert_eq!((refused.as_str(), text(&gateway)), (expected, before));
    let mut simple = gateway.open().await;
    simple.connect_simple().await;
    call(&mut simple, "config.set", json!({"messages": {"queue": {"cap": 5}}})).await;
    let now: Value = serde_json::from_str(&text(&gateway)).unwrap();
    assert_eq!(now["messages"]["queue"]["cap"], 5);
    assert_eq!(now["gateway"]["auth"]["token"], SECRET);
}

#[tokio::test]
async fn variables_of_the_config_hold_for_what_the_gateway_asks_for() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut config: Value = serde_json::from_str(&text(&gateway)).unwrap();
    config["env"] = json!({"vars": {"MAIN_KEY": "chief", "OPENCLAW_CONFIG_PATH": "/nowhere"},
        "LD_PRELOAD": "/nowhere.so"});
    config["session"] = json!({"mainKey": "${MAIN_KEY}"});
    fs::write(gateway.config_path(), config.to_string()).unwrap();
    gateway.restart().await;
    let hello = gateway.open().await.request("connect", standard_connect(&[])).await;
    let defaults = &hello["payload"]["snapshot"]["sessionDefaults"];
    assert_eq!(defaults["mainSessionKey"], "agent:main:chief");
    let shown = call(&mut admin(&gateway).await, "config.get", json!({})).await;
    assert_eq!(shown["resolved"]["session"]["mainKey"], "${MAIN_KEY}");
    assert_eq!(shown["path"], gateway.config_path().display().to_string());
    assert_eq!(shown["resolved"]["env"]["vars"]["MAIN_KEY"], HIDDEN);
}

#[tokio::test]
async fn who_may_only_read_sees_no_value_of_a_variable() {
    let mock = crate::support::MockProvider::start().await;
    let mut config = crate::stage::config(mock.address(), Api::OpenAi);
    config["mcp"] = json!({"servers": {"x": {"command": "true", "enabled": false,
        "args": ["postgres://h/${DATABASE}", "${DATABASE}"]}}});
    config["agents"]["defaults"]["timeoutSeconds"] = json!(600);
    let options = crate::support::GatewayOptions::with_config(config);
    let gateway = Gateway::start(options.env("DATABASE", "variable-canary")).await;
    let mut reader = connect(&gateway, &standard_connect(&["operator.read"])).await;
    let shown = call(&mut reader, "config.get", json!({})).await;
    assert!(!shown.to_string().contains("variable-canary"), "{shown}");
    for member in ["resolved", "runtimeConfig"] {
        assert_eq!(shown[member]["mcp"]["servers"]["x"]["args"][1], "${DATABASE}");
        assert_eq!(shown[member]["agents"]["defaults"]["timeoutSeconds"], 600);
    }
}
