//! Text to speech: with services that others play, and with a program.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::aimock::Aimock;
use crate::stage::{RUN_LIMIT, admin, call, refusal, until};
use crate::support::{Gateway, GatewayOptions, default_config};

/// `the sound` in base64, which is also in `aimock-fixtures.json`.
const SOUND: &str = "the sound";
/// What the tests' own service answers with.
const OWN_SOUND: &[u8] = b"ID3 own sound";

/// A request to the tests' own service.
#[derive(Debug, Clone)]
pub struct Asked {
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Value,
}

/// A service that speaks, refuses or is silent, by what it is to say; it stops
/// when it is dropped.
pub struct Speaker {
    pub port: u16,
    pub asked: Arc<Mutex<Vec<Asked>>>,
    _server: JoinSet<()>,
}

impl Speaker {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::default();
        let app = Router::new().fallback(answer).with_state(Arc::clone(&asked));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { port, asked, _server: server }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    pub fn last(&self) -> Asked {
        self.asked.lock().last().unwrap().clone()
    }
}

async fn answer(
    State(asked): State<Arc<Mutex<Vec<Asked>>>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, Vec<u8>) {
    let body: Value = serde_json::from_slice(&body).unwrap();
    let said = format!("bad key {headers:?}");
    asked.lock().push(Asked { uri, headers, body: body.clone() });
    let text = body["input"].as_str().or(body["text"].as_str()).unwrap();
    match text {
        "refuse" => (StatusCode::UNAUTHORIZED, said.into_bytes()),
        "empty" => (StatusCode::OK, Vec::new()),
        "too much" => (StatusCode::OK, vec![0; 13 * 1024 * 1024]),
        "wait" => std::future::pending().await,
        _ => (StatusCode::OK, OWN_SOUND.to_vec()),
    }
}

/// A gateway with this in `messages.tts`.
pub async fn gateway(tts: Value) -> Gateway {
    let mut config = default_config("127.0.0.1:9");
    config["messages"]["tts"] = tts;
    Gateway::start(GatewayOptions::with_config(config).env("SPEECH_KEY", "key-of-speech")).await
}

#[tokio::test]
async fn services_that_others_play_speak_into_a_file_of_ours() {
    let mock = Aimock::start();
    let base = format!("http://{}", mock.address());
    let key = json!({"source": "env", "id": "SPEECH_KEY"});
    let gateway = gateway(json!({"provider": "openai", "providers": {
        "openai": {"apiKey": key, "baseUrl": format!("{base}/v1")},
        "elevenlabs": {"apiKey": key, "baseUrl": base}}}))
    .await;
    let mut client = admin(&gateway).await;
    for provider in ["openai", "elevenlabs"] {
        let params = json!({"text": " speak this ", "provider": provider});
        let spoken = call(&mut client, "tts.convert", params).await;
        assert_eq!(spoken["provider"], provider);
        assert_eq!(spoken["voiceCompatible"], false);
        let path = spoken["audioPath"].as_str().unwrap();
        assert!(path.ends_with(".mp3") && path.contains("/tts-"), "{path}");
        assert_eq!(std::fs::read(path).unwrap(), SOUND.as_bytes());
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let path = std::path::Path::new(path);
        assert_eq!((mode(path), mode(path.parent().unwrap())), (0o600, 0o700));
    }
    let status = call(&mut client, "tts.status", json!({})).await;
    assert_eq!((&status["provider"], &status["enabled"]), (&json!("openai"), &json!(false)));
    assert_eq!(status["fallbackProviders"], json!(["elevenlabs"]));
}

#[tokio::test]
async fn no_other_key_is_sent_for_one_that_is_not_set() {
    let speaker = Speaker::start().await;
    let mut config = default_config("127.0.0.1:9");
    config["messages"]["tts"] = json!({"providers": {"openai":
        {"apiKey": "${NO_SPEECH_KEY}", "baseUrl": speaker.url()}}});
    let options = GatewayOptions::with_config(config).env("OPENAI_API_KEY", "key-of-models");
    let gateway = Gateway::start(options).await;
    let mut client = admin(&gateway).await;
    let params = json!({"text": "hello", "provider": "openai"});
    refusal(&mut client, "tts.convert", params).await;
    assert!(speaker.asked.lock().is_empty());
    gateway.logs("env:default:NO_SPEECH_KEY").await;
}

#[tokio::test]
async fn a_service_is_asked_in_its_own_words() {
    let speaker = Speaker::start().await;
    let tts = json!({
        "persona": "narrator",
        "personas": {"narrator": {"label": "Narrator", "provider": "openai",
            "providers": {"openai": {"instructions": "Slowly."}}}},
        "providers": {
            "openai": {"apiKey": "key-1", "baseUrl": speaker.url(), "voice": "nova", "speed": 1.25},
            "elevenlabs": {"apiKey": "key-2", "baseUrl": speaker.url(), "seed": 7,
                "voiceSettings": {"stability": 0.9}}}});
    let gateway = gateway(tts).await;
    let mut client = admin(&gateway).await;
    let params = json!({"text": "hello", "channel": "telegram", "modelId": "tts-1-hd"});
    let spoken = call(&mut client, "tts.convert", params).await;
    assert_eq!(
        (&spoken["outputFormat"], &spoken["voiceCompatible"]),
        (&json!("opus"), &json!(true))
    );
    let asked = speaker.last();
    assert_eq!(asked.uri.path(), "/v1/audio/speech");
    assert_eq!(asked.headers["authorization"], "Bearer key-1");
    assert_eq!(
        asked.body,
        json!({"model": "tts-1-hd", "input": "hello", "voice": "nova",
            "response_format": "opus", "speed": 1.25, "instructions": "Slowly."})
    );
    let params = json!({"text": "hello", "provider": "elevenlabs", "voiceId": "ABCDEFGHIJ1234"});
    call(&mut client, "tts.convert", params).await;
    let asked = speaker.last();
    assert_eq!(asked.uri, "/v1/v1/text-to-speech/ABCDEFGHIJ1234?output_format=mp3_44100_128");
    assert_eq!(asked.headers["xi-api-key"], "key-2");
    assert_eq!(
        (&asked.body["seed"], &asked.body["voice_settings"]["stability"]),
        (&json!(7), &json!(0.9))
    );
    let params = json!({"text": "x", "provider": "elevenlabs", "voiceId": "../../admin"});
    let error = refusal(&mut client, "tts.convert", params).await;
    assert!(error.contains("no voice id of ElevenLabs"), "{error}");
    let personas = call(&mut client, "tts.personas", json!({})).await;
    assert_eq!(
        personas,
        json!({"active": "narrator", "personas": [{"id": "narrator", "label": "Narrator",
            "provider": "openai", "providers": ["openai"]}]})
    );
}

#[tokio::test]
async fn what_goes_wrong_is_told_without_the_key_and_the_next_one_speaks_instead() {
    let speaker = Speaker::start().await;
    let gateway = gateway(json!({"provider": "openai", "maxTextLength": 20, "timeoutMs": 1000,
        "providers": {"openai": {"apiKey": "key-of-mine", "baseUrl": speaker.url()}}}))
    .await;
    let mut client = admin(&gateway).await;
    for (text, wrong) in [
        ("refuse", "openai: API error (401): bad key"),
        ("empty", "openai: the audio is empty"),
        ("too much", "openai: the audio has more than"),
        ("wait", "openai: no answer within 1000 ms"),
        ("a text that is too long", "Text too long (23 chars, max 20)"),
    ] {
        let answer = client.request("tts.convert", json!({"text": text})).await;
        let error = answer["error"]["message"].as_str().unwrap();
        assert!(error.contains(wrong) && !error.contains("key-of-mine"), "{text}: {error}");
    }
    assert_eq!(
        refusal(&mut client, "tts.convert", json!({"text": "x", "provider": "microsoft"})).await,
        "Invalid provider. Use a registered TTS provider id."
    );
    let tts = json!({"provider": "microsoft",
        "providers": {"openai": {"baseUrl": speaker.url()}}});
    let gateway = self::gateway(tts).await;
    let mut client = admin(&gateway).await;
    let spoken = call(&mut client, "tts.convert", json!({"text": "hello"})).await;
    assert_eq!(
        (&spoken["provider"], &spoken["fallbackFrom"]),
        (&json!("openai"), &json!("microsoft"))
    );
    assert!(!speaker.last().headers.contains_key("authorization"), "an own server needs no key");
}

#[tokio::test]
async fn who_names_a_model_or_a_voice_means_one_service_and_no_other() {
    let speaker = Speaker::start().await;
    let gateway = gateway(json!({"provider": "openai", "providers": {
        "openai": {"apiKey": "key-1", "baseUrl": "http://127.0.0.1:9/v1"},
        "elevenlabs": {"apiKey": "key-2", "baseUrl": speaker.url()}}}))
    .await;
    let mut client = admin(&gateway).await;
    for wish in ["modelId", "voiceId"] {
        let params = json!({"text": "hello", (wish): "ABCDEFGHIJ1234"});
        let error = refusal(&mut client, "tts.convert", params).await;
        assert!(error.contains("openai: ") && !error.contains("elevenlabs"), "{error}");
    }
    assert!(speaker.asked.lock().is_empty());
    let spoken = call(&mut client, "tts.convert", json!({"text": "hello"})).await;
    assert_eq!(
        (&spoken["provider"], &spoken["fallbackFrom"]),
        (&json!("elevenlabs"), &json!("openai"))
    );
}

#[tokio::test]
async fn nobody_speaks_as_long_as_nobody_is_configured() {
    let gateway = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let error = refusal(&mut client, "tts.convert", json!({"text": "x"})).await;
    assert_eq!(error, "TTS conversion failed: no providers available");
    let error =
        refusal(&mut client, "tts.convert", json!({"text": "x", "provider": "openai"})).await;
    assert_eq!(error, "TTS conversion failed: openai: not configured");
    let status = call(&mut client, "tts.status", json!({})).await;
    assert_eq!(status["provider"], Value::Null);
    let configured = |it: &Value| it["configured"] == true;
    assert!(!status["providerStates"].as_array().unwrap().iter().any(configured));
}

#[tokio::test]
async fn a_program_speaks_into_its_file_or_its_output_and_is_ended_in_time() {
    let program = |script: &str| {
        json!({"providers": {"tts-local-cli": {"command": "sh", "timeoutMs": 1500,
            "args": ["-c", script, "sh", "{{OutputPath}}", "{{Text}}"], "outputFormat": "wav",
            "env": {"WORD": "and more"}}}})
    };
    for (script, sound) in [
        (r#"printf '%s %s' "$2" "$WORD" > "$1""#, Some("it's {{Text}} and more")),
        (r#"printf 'spoken %s' "$2""#, Some("spoken it's {{Text}}")),
        ("exit 3", None),
        ("sleep 600", None),
    ] {
        let gateway = gateway(program(script)).await;
        let mut client = admin(&gateway).await;
        let answer = client.request("tts.convert", json!({"text": "it's {{Text}}"})).await;
        let Some(sound) = sound else {
            let error = answer["error"]["message"].as_str().unwrap();
            let known = ["the program failed", "no end within 1500 ms"];
            assert!(known.iter().any(|it| error.contains(it)), "{script}: {error}");
            continue;
        };
        let path = answer["payload"]["audioPath"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(path.ends_with(".wav"), "{path}");
        assert_eq!(std::fs::read_to_string(path).unwrap(), sound, "{script}");
    }
}

#[tokio::test]
async fn a_program_may_be_a_command_line_and_its_sound_where_and_as_it_likes() {
    let line = r#"sh -c 'printf "RIFF %s" "$1" > "$2/$3.wav"' sh "{{ text }}" {{OutputDir}} {{OutputBase}}"#;
    let tools = tempfile::TempDir::with_prefix("my tools ").unwrap();
    let cat = tools.path().join("cat");
    std::os::unix::fs::symlink("/bin/cat", &cat).unwrap();
    let otherwise = json!(["-c", "printf sound > \"$1/take-1.m4a\"", "sh", "{{OutputDir}}"]);
    for (program, format, sound) in [
        (json!({"command": line}), "wav", "RIFF it's"),
        (json!({"command": "sh", "args": otherwise}), "m4a", "sound"),
        (json!({"command": "sh -c", "args": ["printf 'RIFF '; cat"]}), "wav", "RIFF it's"),
        (json!({"command": cat, "outputFormat": "mp3"}), "mp3", "it's"),
        // Bare samples are what such programs print that are asked for nothing.
        (json!({"command": cat}), "pcm", "it's"),
    ] {
        let gateway = gateway(json!({"providers": {"tts-local-cli": program}})).await;
        let mut client = admin(&gateway).await;
        let spoken = call(&mut client, "tts.convert", json!({"text": "it's"})).await;
        assert_eq!(spoken["outputFormat"], format, "{program}");
        let path = spoken["audioPath"].as_str().unwrap();
        assert!(path.ends_with(&format!(".{format}")), "{path}");
        assert_eq!(std::fs::read_to_string(path).unwrap(), sound, "{program}");
    }
}

#[tokio::test]
async fn what_a_program_has_started_ends_with_its_time_and_with_the_gateway() {
    for timeout in [3000, 600_000] {
        let folder = tempfile::TempDir::with_prefix("clawgate-test-").unwrap();
        let file = folder.path().join("pid");
        // Moved when it is whole, so that nobody reads half of it.
        let script = "sleep 600 & echo $! > \"$PID.new\"; mv \"$PID.new\" \"$PID\"; wait";
        let program = json!({"command": "sh", "args": ["-c", script], "timeoutMs": timeout,
            "env": {"PID": file}});
        let mut gateway = gateway(json!({"providers": {"tts-local-cli": program}})).await;
        let mut client = admin(&gateway).await;
        let params = json!({"text": "hello"});
        let asked = json!({"type": "req", "id": "s", "method": "tts.convert", "params": params});
        client.send(&asked).await;
        let child = until("the program runs", async || std::fs::read_to_string(&file).ok()).await;
        let is_gone = || {
            // A process that nobody has waited for yet is a zombie.
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.trim()));
            !status.is_ok_and(|status| !status.contains("State:\tZ"))
        };
        if timeout == 3000 {
            let ended = client.wait_for(RUN_LIMIT, |frame| frame["id"] == "s").await;
            let error = ended.unwrap()["error"]["message"].clone();
            assert!(error.as_str().unwrap().contains("no end within 3000 ms"), "{error}");
        } else {
            assert!(!is_gone());
            gateway.terminate().await.expect("the gateway stops");
        }
        until("what it has started is gone", async || is_gone().then_some(())).await;
    }
}

#[tokio::test]
async fn a_text_that_looks_like_an_option_is_none_and_its_file_is_where_the_environment_says() {
    let program =
        json!({"command": "sh", "args": ["-c", "printf '<%s>' \"$1\"", "sh", "{{Text}}"]});
    let gateway = gateway(json!({"providers": {"tts-local-cli": program}})).await;
    let mut client = admin(&gateway).await;
    let spoken = call(&mut client, "tts.convert", json!({"text": "-rf"})).await;
    let path = spoken["audioPath"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap(), "< -rf>");
    let tmp = gateway.root().join("tmp");
    assert!(std::path::Path::new(path).starts_with(&tmp), "{path}");
}

#[tokio::test]
async fn a_persona_is_spoken_however_its_service_is_written_and_by_no_other_where_it_says_so() {
    let speaker = Speaker::start().await;
    let tts = |policy: &str| {
        json!({
            "persona": "narrator",
            "personas": {"narrator": {"provider": "openai", "fallbackPolicy": policy,
                "providers": {"openai": {"voice": "coral"}}}},
            "providers": {
                "OpenAI": {"apiKey": "key-1", "baseUrl": speaker.url(), "voice": "nova"},
                "deepinfra": {"apiKey": "key-2", "baseUrl": speaker.url()}}})
    };
    for (policy, refused) in [
        ("preserve-persona", "deepinfra: API error (401)"),
        ("fail", "deepinfra: persona narrator has no provider binding"),
    ] {
        let gateway = gateway(tts(policy)).await;
        let mut client = admin(&gateway).await;
        call(&mut client, "tts.convert", json!({"text": "hello"})).await;
        let asked = speaker.last();
        assert_eq!(
            (&asked.body["voice"], &asked.body["input"]),
            (&json!("coral"), &json!("hello"))
        );
        assert_eq!(asked.headers["authorization"], "Bearer key-1");
        let error = refusal(&mut client, "tts.convert", json!({"text": "refuse"})).await;
        assert!(error.contains("openai: API error (401)") && error.contains(refused), "{error}");
    }
}

#[tokio::test]
async fn what_people_choose_lasts_and_the_rest_of_their_file_stays() {
    let tts = json!({"personas": {"Alfred": {}, "bea": {}}, "persona": "bea",
        "providers": {"openai": {"apiKey": "k"}, "elevenlabs": {"apiKey": "k"}}});
    let mut gateway = gateway(tts).await;
    let path = gateway.state_dir().join("settings/tts.json");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, r#"{"other": 1, "tts": {"maxLength": 900, "enabled": false}}"#).unwrap();
    let mut client = admin(&gateway).await;
    let status = call(&mut client, "tts.status", json!({})).await;
    assert_eq!((&status["auto"], &status["persona"]), (&json!("off"), &json!("bea")));
    assert_eq!(status["provider"], "openai");
    assert_eq!(status["prefsPath"], json!(path));
    for (method, params, answer) in [
        ("tts.enable", json!({}), json!({"enabled": true})),
        ("tts.setProvider", json!({"provider": "ElevenLabs"}), json!({"provider": "elevenlabs"})),
        ("tts.setPersona", json!({"persona": "alfred"}), json!({"persona": "Alfred"})),
    ] {
        assert_eq!(call(&mut client, method, params).await, answer);
    }
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let status = call(&mut client, "tts.status", json!({})).await;
    let chosen = ["auto", "provider", "persona"].map(|name| status[name].clone());
    assert_eq!(chosen, ["always", "elevenlabs", "Alfred"].map(|it| json!(it)));
    let none = call(&mut client, "tts.setPersona", json!({"persona": "off"})).await;
    assert_eq!(none, json!({"persona": null}));
    call(&mut client, "tts.disable", json!({})).await;
    let file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(
        file,
        json!({"other": 1, "tts": {"maxLength": 900, "auto": "off", "provider": "elevenlabs",
            "persona": null}})
    );
}
