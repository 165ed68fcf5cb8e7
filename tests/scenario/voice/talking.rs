//! `talk.*`: what programs need that talk with an agent.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::speaking::Speaker;
use crate::stage::{admin, call, connect, refusal};
use crate::support::client::{SOON, standard_connect};
use crate::support::{Gateway, GatewayOptions, default_config};

async fn gateway(talk: Value) -> Gateway {
    let mut config = default_config("127.0.0.1:9");
    config["talk"] = talk;
    config["session"]["mainKey"] = json!("main");
    config["ui"] = json!({"seamColor": "#ff4500"});
    Gateway::start(GatewayOptions::with_config(config).env("TALK_KEY", "key-of-talk")).await
}

#[tokio::test]
async fn keys_are_for_those_who_may_see_them_and_only_when_they_ask() {
    let gateway = gateway(json!({"providers": {"elevenlabs": {"apiKey": "${TALK_KEY}",
        "voiceId": "v"}}, "interruptOnSpeech": true, "silenceTimeoutMs": 700}))
    .await;
    let mut admin = admin(&gateway).await;
    let shown = call(&mut admin, "talk.config", json!({})).await["config"].clone();
    assert_eq!(shown["session"], json!({"mainKey": "main"}));
    assert_eq!(shown["ui"], json!({"seamColor": "#ff4500"}));
    let hidden = json!({"apiKey": "__OPENCLAW_REDACTED__", "voiceId": "v"});
    assert_eq!(
        shown["talk"],
        json!({"providers": {"elevenlabs": hidden}, "interruptOnSpeech": true,
            "silenceTimeoutMs": 700, "provider": "elevenlabs",
            "resolved": {"provider": "elevenlabs", "config": hidden}})
    );
    let wanted = json!({"includeSecrets": true});
    let whole = call(&mut admin, "talk.config", wanted.clone()).await["config"]["talk"].clone();
    assert_eq!(whole["resolved"]["config"]["apiKey"], "key-of-talk");
    let mut reader = connect(&gateway, &standard_connect(&["operator.read"])).await;
    assert_eq!(
        refusal(&mut reader, "talk.config", wanted.clone()).await,
        "missing scope: operator.talk.secrets"
    );
    let scopes = ["operator.read", "operator.talk.secrets"];
    let mut talker = connect(&gateway, &standard_connect(&scopes)).await;
    let whole = call(&mut talker, "talk.config", wanted).await;
    assert_eq!(whole["config"]["talk"]["providers"]["elevenlabs"]["apiKey"], "key-of-talk");
}

#[tokio::test]
async fn a_text_is_spoken_by_the_service_of_talk_as_the_request_wishes() {
    let speaker = Speaker::start().await;
    let gateway = gateway(json!({"provider": "openai", "providers": {"openai": {
        "apiKey": {"source": "env", "id": "TALK_KEY"}, "baseUrl": speaker.url(),
        "voiceAliases": {"Bea": "nova"}}}}))
    .await;
    let mut client = admin(&gateway).await;
    let params = json!({"text": "hello", "voiceId": "bea", "rateWpm": 210, "outputFormat": "wav"});
    let spoken = call(&mut client, "talk.speak", params).await;
    let sound = BASE64_STANDARD.encode(b"ID3 own sound");
    assert_eq!(
        spoken,
        json!({"audioBase64": sound, "provider": "openai", "outputFormat": "wav",
            "voiceCompatible": false, "mimeType": "audio/wav", "fileExtension": ".wav"})
    );
    let asked = speaker.last();
    assert_eq!((&asked.body["voice"], &asked.body["speed"]), (&json!("nova"), &json!(1.2)));
    assert_eq!(asked.headers["authorization"], "Bearer key-of-talk");
    let error = refusal(&mut client, "talk.speak", json!({"text": "x", "rateWpm": 1})).await;
    assert!(error.contains("rateWpm must resolve to speed"), "{error}");
    let refused = client.request("talk.speak", json!({"text": "refuse"})).await;
    assert_eq!(refused["error"]["code"], "UNAVAILABLE");
    assert_eq!(
        refused["error"]["details"],
        json!({"reason": "synthesis_failed", "fallbackEligible": false})
    );
    assert!(!refused.to_string().contains("key-of-talk"), "{refused}");
}

#[tokio::test]
async fn a_client_learns_that_it_has_to_speak_itself() {
    for (talk, reason) in [
        (json!({}), "talk_unconfigured"),
        (json!({"provider": "microsoft"}), "talk_provider_unsupported"),
    ] {
        let gateway = gateway(talk).await;
        let mut client = admin(&gateway).await;
        let refused = client.request("talk.speak", json!({"text": "x"})).await;
        assert_eq!(
            refused["error"]["details"],
            json!({"reason": reason, "fallbackEligible": true}),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn who_may_write_hears_that_somebody_talks_and_nobody_else_does() {
    let gateway = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let writer = connect(&gateway, &standard_connect(&["operator.write"])).await;
    let mut reader = connect(&gateway, &standard_connect(&["operator.read"])).await;
    let told = call(&mut client, "talk.mode", json!({"enabled": true, "phase": "listening"})).await;
    let heard = writer.wait_for(SOON, |frame| frame["event"] == "talk.mode").await;
    assert_eq!(heard.unwrap()["payload"], told);
    call(&mut reader, "voicewake.get", json!({})).await;
    assert!(!reader.frames().iter().any(|frame| frame["event"] == "talk.mode"));
    let mut page = crate::session_settings::webchat(&gateway).await;
    assert_eq!(
        refusal(&mut page, "talk.mode", json!({"enabled": true})).await,
        "talk disabled: no connected Talk-capable nodes"
    );
}
