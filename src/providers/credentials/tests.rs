use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;
use serde_json::Value;

use super::*;
use crate::config::{Overrides, load};
use crate::providers::testing::{FixedClock, model};
use crate::providers::{Api, ErrorStyle, ProviderError};
use crate::support::json;

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn credentials(&self, config: &Value) -> Credentials {
        self.credentials_at(config, Arc::new(FixedClock))
    }

    fn credentials_at(&self, config: &Value, clock: Arc<dyn Clock>) -> Credentials {
        let dir = self.0.path().join(".openclaw");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("openclaw.json"), config.to_string()).unwrap();
        let env = Env::fixed([("WORK_KEY", "from-env")], self.0.path());
        let looking = Overrides { read_only: true, ..Overrides::default() };
        let settings = load(&env, &looking).unwrap();
        Credentials::new(&settings, &env, clock)
    }

    fn store(&self, agent: &str, value: &Value) -> PathBuf {
        let path = self.0.path().join(".openclaw/agents").join(agent).join(FILE);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, value.to_string()).unwrap();
        path
    }
}

fn key(provider: &str, key: &str) -> Value {
    json!({"type": "api_key", "provider": provider, "key": key})
}

async fn ids(credentials: &Credentials, agent: &str, model: &ModelInfo) -> Vec<String> {
    credentials.for_model(agent, model).await.into_iter().map(|it| it.id).collect()
}

fn referring(source: &str, provider: &str, id: &str) -> Value {
    let reference = json!({"source": source, "provider": provider, "id": id});
    json!({"type": "api_key", "provider": "mock", "keyRef": reference})
}

/// The key that `mock/mock-1` is asked with first; its own is `mock-key`.
async fn first_key(credentials: &Credentials) -> String {
    let model = Arc::new(model("openai-completions"));
    let first = credentials.for_model("main", &model).await.remove(0);
    first.apply(&model).api_key.as_ref().unwrap().expose().to_owned()
}

#[tokio::test]
async fn logins_come_before_keys_and_what_has_ended_is_left_out() {
    let home = Home::new();
    let far = FixedClock::NOW + 1000;
    home.store("main", &json!({"profiles": {
        "mock:k": key("mock", "1"), "other:k": key("other", "2"),
        "mock:t": {"type": "token", "provider": "mock", "token": "3"},
        "mock:o": {"type": "oauth", "provider": "mock", "access": "4", "refresh": "r", "expires": far},
        "mock:gone": {"type": "oauth", "provider": "mock", "access": "5", "expires": FixedClock::NOW},
        "mock:empty": {"type": "token", "provider": "mock"},
    }}));
    let credentials = home.credentials(&json!({}));
    let model = model("openai-completions");
    assert_eq!(ids(&credentials, "main", &model).await, ["mock:o", "mock:t", "mock:k", "mock:key"]);
    let unknown = ModelInfo { provider: "x".into(), ..model.clone() };
    assert_eq!(ids(&credentials, "main", &unknown).await, ["x:key"]);
    let first = credentials.for_model("main", &model).await.remove(0);
    let model = Arc::new(model);
    assert_eq!(first.apply(&model).api_key.as_ref().unwrap().expose(), "4");
    let anthropic = Arc::new(ModelInfo { api: Api::AnthropicMessages, ..ModelInfo::clone(&model) });
    let applied = first.apply(&anthropic);
    assert!(applied.api_key.is_none());
    assert_eq!(applied.headers.get("authorization").unwrap().expose(), "Bearer 4");
    assert!(applied.credential().unwrap().is_none());
}

#[tokio::test]
async fn an_order_leaves_out_whom_it_does_not_name_and_the_file_beats_the_configuration() {
    let home = Home::new();
    let three =
        json!({"mock:a": key("mock", "1"), "mock:b": key("mock", "2"), "mock:c": key("mock", "3")});
    home.store("main", &json!({ "profiles": three }));
    let order = json!({"auth": {"order": {"mock": ["mock:c", "mock:a", "mock:none"]}}});
    let credentials = home.credentials(&order);
    let model = ModelInfo { api_key: None, ..model("openai-completions") };
    let model = ModelInfo { base_url: "https://far/v1".into(), ..model };
    assert_eq!(ids(&credentials, "main", &model).await, ["mock:c", "mock:a"]);
    home.store("main", &json!({"profiles": three, "order": {"Mock": ["mock:b"]}}));
    assert_eq!(ids(&credentials, "main", &model).await, ["mock:b"]);
}

#[tokio::test]
async fn a_provider_is_known_however_it_is_written() {
    let home = Home::new();
    home.store(
        "main",
        &json!({
            "profiles": {"a": key("z-ai", "1"), "b": key("Z.AI", "2")}, "order": {"z.ai": ["b"]},
        }),
    );
    let expected = json!({"auth": {"profiles": {"b": {"provider": "zai", "mode": "api_key"}}}});
    let credentials = home.credentials(&expected);
    for provider in ["zai", "ZAI", "z.ai"] {
        let model = ModelInfo {
            provider: provider.into(),
            api_key: None,
            base_url: "https://far/v1".into(),
            ..model("openai-completions")
        };
        assert_eq!(ids(&credentials, "main", &model).await, ["b"], "{provider}");
        assert!(credentials.has_profile("main", &model).await, "{provider}");
    }
    let states = credentials.profiles("main").await;
    assert!(states.iter().all(|state| state.opens("Z-AI") && !state.opens("other")));
}

#[tokio::test]
async fn the_configuration_says_which_kind_is_expected_and_which_comes_first() {
    let home = Home::new();
    home.store(
        "main",
        &json!({"profiles": {
            "mock:a": key("mock", "1"), "mock:b": key("mock", "2"), "mock:c": key("mock", "3"),
        }}),
    );
    let profile = |mode: &str| json!({"provider": "mock", "mode": mode});
    let config =
        json!({"auth": {"profiles": {"mock:c": profile("api_key"), "mock:a": profile("oauth")}}});
    let credentials = home.credentials(&config);
    let model = model("openai-completions");
    assert_eq!(ids(&credentials, "main", &model).await, ["mock:c", "mock:b", "mock:key"]);
}

#[tokio::test]
async fn an_agent_sees_the_credentials_of_the_default_agent_behind_its_own() {
    let home = Home::new();
    home.store(
        "main",
        &json!({"profiles": {"mock:a": key("mock", "main"), "mock:b": key("mock", "b")}}),
    );
    home.store("work", &json!({"profiles": {"mock:a": key("mock", "own")}}));
    let credentials =
        home.credentials(&json!({"agents": {"list": [{"id": "main"}, {"id": "work"}]}}));
    let model = Arc::new(model("openai-completions"));
    let found = credentials.for_model("work", &model).await;
    let keys: Vec<_> = found
        .iter()
        .map(|it| it.apply(&model).api_key.as_ref().unwrap().expose().to_owned())
        .collect();
    assert_eq!(keys, ["own", "b", "mock-key"]);
    assert_eq!(ids(&credentials, "main", &model).await.len(), 3);
}

#[test]
fn a_file_is_read_where_nobody_is_served() {
    let home = Home::new();
    home.store("main", &json!({"profiles": {"mock:a": key("mock", "1")}}));
    let credentials = home.credentials(&json!({}));
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let (free, busy) = std::sync::mpsc::channel::<()>();
        drop(blocking(move || busy.recv()));
        let mut profiles = std::pin::pin!(credentials.profiles("main"));
        assert!(profiles.as_mut().now_or_never().is_none());
        free.send(()).unwrap();
        assert_eq!(profiles.await.len(), 1);
    });
}

#[tokio::test]
async fn a_reference_in_the_file_is_followed() {
    let home = Home::new();
    let reference = json!({"source": "env", "provider": "default", "id": "WORK_KEY"});
    home.store("main", &json!({"profiles": {
        "mock:a": {"type": "api_key", "provider": "mock", "keyRef": reference},
        "mock:b": {"type": "api_key", "provider": "mock", "key": reference},
        "mock:c": {"type": "api_key", "provider": "mock", "keyRef": {"source": "env", "id": "GONE_KEY"}},
    }}));
    let credentials = home.credentials(&json!({}));
    let model = model("openai-completions");
    assert_eq!(ids(&credentials, "main", &model).await, ["mock:a", "mock:b", "mock:key"]);
}

#[tokio::test]
async fn a_key_in_a_file_of_its_own_is_the_one_that_is_there_now() {
    let home = Home::new();
    let path = home.0.path().join("key");
    home.store("main", &json!({"profiles": {"mock:a": referring("file", "f", "value")}}));
    let provider = json!({"source": "file", "path": path, "mode": "singleValue"});
    let credentials = home.credentials(&json!({"secrets": {"providers": {"f": provider}}}));
    assert_eq!(first_key(&credentials).await, "mock-key");
    for key in ["first-key", "other-key"] {
        fs::write(&path, key).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(first_key(&credentials).await, key);
    }
}

/// A clock that is set by hand.
struct SetClock(AtomicU64);

impl Clock for SetClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn a_program_without_an_answer_is_asked_again_after_a_while() {
    let home = Home::new();
    let [program, asked, answer] =
        ["program", "asked", "answer"].map(|name| home.0.path().join(name));
    let (log, said) = (asked.display(), answer.display());
    fs::write(&program, format!("#!/bin/sh\necho x >> {log}\n/bin/cat {said}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    home.store("main", &json!({"profiles": {"mock:a": referring("exec", "p", "a")}}));
    let provider = json!({"source": "exec", "command": program});
    let clock = Arc::new(SetClock(AtomicU64::new(1000)));
    let config = json!({"secrets": {"providers": {"p": provider}}});
    let credentials = home.credentials_at(&config, clock.clone());
    let times = || fs::read_to_string(&asked).unwrap_or_default().lines().count();

    assert_eq!(first_key(&credentials).await, "mock-key");
    let told = json!({"protocolVersion": 1, "values": {"a": "told-key"}});
    fs::write(&answer, told.to_string()).unwrap();
    clock.0.store(1000 + ASK_AGAIN_MS - 1, Ordering::Relaxed);
    assert_eq!((first_key(&credentials).await, times()), ("mock-key".into(), 1));
    clock.0.store(1000 + ASK_AGAIN_MS, Ordering::Relaxed);
    assert_eq!((first_key(&credentials).await, times()), ("told-key".into(), 2));
    clock.0.store(1000 + 9 * ASK_AGAIN_MS, Ordering::Relaxed);
    assert_eq!((first_key(&credentials).await, times()), ("told-key".into(), 2));
}

#[tokio::test]
async fn a_new_key_under_an_old_name_does_not_rest() {
    let home = Home::new();
    let store = |text: &str| {
        home.store("main", &json!({"profiles": {"mock:a": key("mock", text)}}));
    };
    store("old");
    let credentials = home.credentials(&json!({}));
    let model = model("openai-completions");
    let rests = async |model: &ModelInfo| {
        let all = credentials.for_model("main", model).await;
        all.iter().map(|it| credentials.rest(it, model).is_some()).collect::<Vec<_>>()
    };
    let shown = async || credentials.longest_rest(&credentials.profiles("main").await[0]).is_some();
    let refused = ProviderError::from_status(ErrorStyle::OpenAi, 401, "bad key");
    for credential in credentials.for_model("main", &model).await {
        credentials.failed(&credential, &model, &refused, FixedClock::NOW);
    }
    assert_eq!((rests(&model).await, shown().await), (vec![true, true], true));
    store("another");
    assert_eq!((rests(&model).await, shown().await), (vec![false, true], false));
    let other = model.with_key(Secret::new("of the configuration"));
    assert_eq!(rests(&other).await, [false, false]);
    store("old");
    assert_eq!(rests(&model).await, [true, true]);
}

#[tokio::test]
async fn an_account_goes_on_resting_with_its_next_token_unless_the_token_was_refused() {
    let far = FixedClock::NOW + 1000;
    for (status, goes_on) in [(402, true), (429, true), (401, false)] {
        let home = Home::new();
        let store = |text: &str| {
            home.store(
                "main",
                &json!({"profiles": {
                    "mock:o": {"type": "oauth", "provider": "mock", "access": text},
                    "mock:t": {"type": "token", "provider": "mock", "token": text, "expires": far},
                    "mock:k": key("mock", text),
                }}),
            );
        };
        store("old");
        let credentials = home.credentials(&json!({}));
        let model = model("openai-completions");
        let failure = ProviderError::from_status(ErrorStyle::OpenAi, status, "no");
        for credential in credentials.for_model("main", &model).await {
            credentials.failed(&credential, &model, &failure, FixedClock::NOW);
        }
        store("another");
        let all = credentials.for_model("main", &model).await;
        let rests: Vec<_> = all.iter().map(|it| credentials.rest(it, &model).is_some()).collect();
        assert_eq!(rests, [goes_on, goes_on, false, true], "{status}");
        let shown = &credentials.profiles("main").await[0];
        assert_eq!(credentials.longest_rest(shown).is_some(), goes_on, "{status}");
        credentials.succeeded(&all[0], &model);
        assert!(credentials.rest(&all[0], &model).is_none(), "{status}");
    }
}

#[test]
fn what_another_call_has_read_already_is_not_taken_in_again() {
    let home = Home::new();
    let credentials = home.credentials(&json!({}));
    let rest = Rest { until_ms: u64::MAX, reason: FailureReason::Billing };
    let noted = usage_stats::ProfileRest {
        profile: "p".into(),
        model: None,
        failures: 1,
        failed_at: 1,
        rest,
    };
    let take_in = |rests| {
        let read = ProfileFile { rests, ..ProfileFile::default() };
        credentials.take_in(Path::new("a"), [None, None], Ok(read))
    };
    let (first, second) = (take_in(vec![]), take_in(vec![noted]));
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(credentials.cooldowns.rest("p", &model("openai-completions"), 10), None);
}

#[tokio::test]
async fn an_order_that_is_written_beside_the_file_counts_from_then_on() {
    let home = Home::new();
    let two = json!({"mock:a": key("mock", "1"), "mock:b": key("mock", "2")});
    let path = home.store("main", &json!({ "profiles": two }));
    let credentials = home.credentials(&json!({}));
    let model = model("openai-completions");
    assert_eq!(ids(&credentials, "main", &model).await, ["mock:a", "mock:b", "mock:key"]);
    let order = json!({"version": 1, "order": {"mock": ["mock:b", "mock:a"]}});
    fs::write(path.with_file_name("auth-state.json"), order.to_string()).unwrap();
    assert_eq!(ids(&credentials, "main", &model).await, ["mock:b", "mock:a", "mock:key"]);
}

#[test]
fn a_change_keeps_what_it_does_not_understand_and_the_file_private() {
    let home = Home::new();
    let before = json!({"version": 1, "profiles": {"odd": {"type": "new", "x": [1]}}, "lastGood": {"a": "b"}});
    let path = home.store("main", &before);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let secret = Secret::new("sk-1");
    ProfileFile::add(&path, "xai:default", "xai", ProfileMode::ApiKey, &secret).unwrap();
    let mut expected = before.clone();
    expected["profiles"]["xai:default"] = key("xai", "sk-1");
    let read = || serde_json::from_str::<Value>(&fs::read_to_string(&path).unwrap()).unwrap();
    let expected = json!({"version": 1, "profiles": {
        "odd": {"type": "new", "x": [1]}, "xai:default": {"type": "api_key", "provider": "xai", "key": "sk-1"},
    }, "lastGood": expected["lastGood"]});
    assert_eq!(read(), expected);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(ProfileFile::remove(&path, "xai:default").unwrap());
    assert!(!ProfileFile::remove(&path, "xai:default").unwrap());
    assert_eq!(read(), before);
}

#[test]
fn a_file_that_is_none_is_never_overwritten() {
    let home = Home::new();
    for text in ["{", "[]", r#"{"profiles": 5}"#] {
        let path = home.store("main", &json!({}));
        fs::write(&path, text).unwrap();
        let secret = Secret::new("k");
        let error = ProfileFile::add(&path, "a:b", "a", ProfileMode::ApiKey, &secret).unwrap_err();
        assert!(matches!(error, StoreError::Malformed(_)), "{text}: {error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert!(ProfileFile::read(&path).is_err());
    }
    let missing = home.0.path().join("none/agent/auth-profiles.json");
    assert!(ProfileFile::read(&missing).unwrap().profiles.is_empty());
}
