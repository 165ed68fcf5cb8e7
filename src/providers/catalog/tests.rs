#![allow(clippy::needless_pass_by_value)] // `json!(…)` reads best in place

use super::*;
use crate::config::secrets::ResolvedSecrets;
use crate::providers::testing::FixedClock;
use crate::support::{Clock, json};
use serde_json::Value;
use std::time::Duration;

fn adapters() -> Arc<Adapters> {
    let clock: Arc<dyn Clock> = Arc::new(FixedClock);
    Adapters::new(&clock)
}

pub(super) fn try_build(
    models: Value,
    default: Value,
    env: &[(&str, &str)],
) -> Result<Catalog, CatalogError> {
    let config: ModelsConfig = serde_json::from_value(models).unwrap();
    let default = default.get("primary").unwrap_or(&default).as_str();
    let lookup = |name: &str| {
        env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    };
    let secrets = ResolvedSecrets::default();
    let wanted = default.into_iter().collect();
    let sources =
        CatalogSources { default, wanted, ..CatalogSources::plain(&config, &lookup, &secrets) };
    Catalog::build(&adapters(), &sources)
}

fn build(models: Value, default: Value, env: &[(&str, &str)]) -> Catalog {
    try_build(models, default, env).unwrap()
}

fn error(models: Value, default: Value) -> String {
    try_build(models, default, &[]).err().unwrap().to_string()
}

fn chosen(catalog: &Catalog) -> (String, String) {
    let choice = catalog.default_choice();
    (choice.model.reference().to_string(), choice.reason.clone())
}

fn names(catalog: &Catalog) -> Vec<String> {
    catalog.models().iter().map(|model| model.reference().to_string()).collect()
}

fn mock() -> Value {
    json!({"baseUrl": "http://127.0.0.1:4010/v1/", "apiKey": "k", "models": [{"id": "one"}, {"id": "two"}]})
}

#[test]
fn without_anything_the_embedded_model_answers_and_ollama_is_wanted() {
    let catalog = build(json!({}), Value::Null, &[]);
    assert_eq!(chosen(&catalog), ("offline/echo-guide".into(), build::OFFLINE_REASON.into()));
    assert_eq!(catalog.default_choice().model.context_window, 200_000);
    assert_eq!(catalog.ollama_url(), Some("http://127.0.0.1:11434"));
    let catalog = build(json!({}), json!("offline/echo-guide"), &[]);
    assert_eq!(catalog.ollama_url(), None);
}

#[test]
fn keys_of_the_environment_bring_models_in_their_order() {
    let google = ("GEMINI_API_KEY", "g");
    let openai = ("OPENAI_API_KEY", "o");
    let anthropic = ("ANTHROPIC_API_KEY", "a");
    let reason = |env: &[(&str, &str)]| chosen(&build(json!({}), Value::Null, env));
    assert_eq!(
        reason(&[google]),
        ("google/gemini-3.8-flash".into(), "GEMINI_API_KEY is set".into())
    );
    assert_eq!(
        reason(&[google, openai]),
        ("openai/gpt-6.1-sol".into(), "OPENAI_API_KEY is set".into())
    );
    let all = [google, openai, anthropic, ("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/")];
    let catalog = build(json!({}), Value::Null, &all);
    assert_eq!(chosen(&catalog).0, "anthropic/claude-opus-5-5");
    let model = &catalog.default_choice().model;
    assert_eq!(model.base_url, "http://127.0.0.1:1");
    assert_eq!(model.api, Api::AnthropicMessages);
    let ids: Vec<_> = catalog.providers().into_iter().map(|it| (it.id, it.has_key)).collect();
    let expected = [("anthropic", true), ("openai", true), ("google", true), ("offline", false)];
    assert_eq!(ids, expected.map(|(id, key)| (id.to_owned(), key)));
    assert_eq!(reason(&[("OPENAI_API_KEY", "  ")]).0, "offline/echo-guide");
}

#[test]
fn configured_models_come_before_keys_and_a_named_default_before_all() {
    let env = [("OPENAI_API_KEY", "o")];
    let models = json!({"providers": {"mock": mock()}});
    let catalog = build(models.clone(), Value::Null, &env);
    let reason = "it is the first model of models.providers";
    assert_eq!(chosen(&catalog), ("mock/one".into(), reason.into()));
    assert_eq!(names(&catalog).first().unwrap(), "mock/one");
    assert!(names(&catalog).contains(&"openai/gpt-5.2".to_owned()));
    assert_eq!(catalog.default_choice().model.base_url, "http://127.0.0.1:4010/v1");

    let catalog = build(models.clone(), json!({"primary": "openai/gpt-4.1"}), &env);
    let reason = "agents.defaults.model names it";
    assert_eq!(chosen(&catalog), ("openai/gpt-4.1".into(), reason.into()));
    assert_eq!(chosen(&build(models, json!("two"), &env)).0, "mock/two");
}

#[test]
fn replace_leaves_only_what_is_configured() {
    let models = json!({"mode": "replace", "providers": {"mock": mock()}});
    let catalog = build(models, Value::Null, &[("OPENAI_API_KEY", "o")]);
    assert_eq!(names(&catalog), ["mock/one", "mock/two"]);
    assert_eq!(error(json!({"mode": "replace"}), Value::Null), CatalogError::NoModels.to_string());
}

#[test]
fn a_provider_that_we_know_needs_only_what_differs() {
    let models = json!({"providers": {"anthropic": {
        "apiKey": "m", "headers": {"X-Proxy": "h"}, "models": [{"id": "claude-next"}],
    }}});
    let catalog = build(models, Value::Null, &[]);
    assert_eq!(names(&catalog), ["anthropic/claude-next", "offline/echo-guide"]);
    let model = &catalog.default_choice().model;
    assert_eq!(
        (model.api, model.base_url.as_str()),
        (Api::AnthropicMessages, "https://api.anthropic.com")
    );
    assert_eq!(model.api_key.as_ref().unwrap().expose(), "m");
    assert_eq!(model.headers.get("X-Proxy").unwrap().expose(), "h");

    let keyed = build(json!({"providers": {"openai": {"apiKey": "k"}}}), Value::Null, &[]);
    let reason = "models.providers.openai.apiKey is set";
    assert_eq!(chosen(&keyed), ("openai/gpt-6.1-sol".into(), reason.into()));
}

#[test]
fn a_key_is_that_of_the_file_or_of_the_variable_named_after_the_provider() {
    let key = |written: Value| {
        let models = json!({"providers": {"x-ai": {
            "baseUrl": "https://h/v1", "apiKey": written, "models": [{"id": "m"}],
        }}});
        let catalog = build(models, Value::Null, &[("X_AI_API_KEY", "from the environment")]);
        let model = &catalog.default_choice().model;
        model.api_key.as_ref().map(|key| key.expose().to_owned())
    };
    assert_eq!(key(json!("from the file")).as_deref(), Some("from the file"));
    assert_eq!(key(Value::Null).as_deref(), Some("from the environment"));
    assert_eq!(key(json!(" ")), None);
}

#[test]
fn a_provider_may_have_a_timeout_of_its_own() {
    let models = json!({"providers": {"p": {
        "baseUrl": "https://h/v1", "timeoutSeconds": 5, "models": [{"id": "m"}],
    }}});
    let catalog = build(models, Value::Null, &[]);
    assert_eq!(catalog.default_choice().model.timeout, Some(Duration::from_secs(5)));
}

#[test]
fn a_reference_that_leads_nowhere_is_no_key_that_it_leads_to() {
    let reference = json!({"source": "exec", "provider": "vault", "id": "a"});
    let models = json!({"providers": {"x": {
        "baseUrl": "https://h/v1", "apiKey": reference, "models": [{"id": "m"}],
    }}});
    let model = Arc::clone(&build(models, Value::Null, &[]).default_choice().model);
    assert!(model.api_key.is_none());
}

#[test]
fn models_without_a_key_are_known_but_not_offered() {
    let catalog = build(json!({}), json!("anthropic/claude-opus-5-5"), &[]);
    let model = &catalog.default_choice().model;
    let missing = model.credential().unwrap_err().message;
    assert!(missing.starts_with("No API key for provider: anthropic; "), "{missing}");
    let shown = |view, has: &dyn Fn(&str) -> bool| {
        let models = catalog.view(view, has);
        models.iter().map(|model| model.provider.clone()).collect::<Vec<_>>()
    };
    assert_eq!(shown(View::Default, &|_| false), ["offline"]);
    assert_eq!(shown(View::Configured, &|_| false), ["anthropic"]);
    let with_key = shown(View::Default, &|provider| provider == "groq");
    assert!(with_key.len() > 3 && with_key[1..].iter().all(|provider| provider == "groq"));
    assert!(shown(View::All, &|_| false).len() > 200);
}

#[test]
fn a_model_that_is_newer_than_the_data_file_can_be_named() {
    let env = [("ANTHROPIC_API_KEY", "a"), ("OPENROUTER_API_KEY", "o")];
    let catalog = build(json!({}), json!("anthropic/claude-opus-99"), &env);
    assert_eq!(chosen(&catalog).0, "anthropic/claude-opus-99");
    let open = catalog.resolve("openrouter/new-lab/new-model", "anthropic").unwrap();
    assert_eq!(open.base_url, "https://openrouter.ai/api/v1");
    assert!(open.api_key.is_some());
    assert!(catalog.find(&ModelRef::parse("anthropic/claude-opus-98").unwrap()).is_none());
}

fn named(models: &[(&str, Option<&str>)], wanted: &[&str], env: &[(&str, &str)]) -> Catalog {
    let named: Vec<_> = models
        .iter()
        .map(|(name, alias)| NamedModel {
            name: (*name).to_owned(),
            alias: alias.map(str::to_owned),
            thinking: None,
        })
        .collect();
    let lookup = |name: &str| {
        env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    };
    let (config, secrets) = (ModelsConfig::default(), ResolvedSecrets::default());
    let wanted = wanted.to_vec();
    let sources = CatalogSources {
        named: &named,
        wanted,
        ..CatalogSources::plain(&config, &lookup, &secrets)
    };
    Catalog::build(&adapters(), &sources).unwrap()
}

const TWO_KEYS: [(&str, &str); 2] = [("ANTHROPIC_API_KEY", "a"), ("OPENAI_API_KEY", "o")];

#[test]
fn a_name_stands_for_a_model_as_people_write_it() {
    let catalog = named(&[], &[], &TWO_KEYS);
    let found = |written: &str| {
        catalog.resolve(written, "anthropic").map(|model| model.reference().to_string())
    };
    for (written, meant) in [
        ("anthropic/claude-opus-5-5", "anthropic/claude-opus-5-5"),
        ("claude-opus-5-5", "anthropic/claude-opus-5-5"),
        ("opus 5.5", "anthropic/claude-opus-5-5"),
        ("Claude Haiku 5.5", "anthropic/claude-haiku-5-5"),
        ("anthropic/sonnet-5-5", "anthropic/claude-sonnet-5-5"),
        ("gpt-6.1-sol", "openai/gpt-6.1-sol"),
        ("gpt6.1 terra", "openai/gpt-6.1-terra"),
        ("echo", "offline/echo-guide"),
    ] {
        assert_eq!(found(written).as_deref(), Ok(meant), "{written}");
    }
    let several = found("opus").unwrap_err();
    assert!(matches!(&several, NameError::Ambiguous { candidates, .. }
        if candidates.len() > 3 && candidates.iter().all(|name| name.contains("opus"))));
    for unknown in ["", " / ", "nope", "groq/llama-3.1-8b", "anthropic/gpt-6.1-sol"] {
        assert!(matches!(found(unknown), Err(NameError::Unknown(_))), "{unknown}");
    }
}

#[test]
fn a_list_of_allowed_models_gives_aliases_and_limits_the_choice() {
    let list = [
        ("anthropic/claude-opus-5-5", Some("Opus")),
        ("openai/gpt-6.1-sol", None),
        ("groq/openai/gpt-oss-120b", Some("fast")),
    ];
    let catalog = named(&list, &["openai/gpt-6-luna"], &TWO_KEYS);
    let shown: Vec<_> = catalog
        .view(View::Default, &|_| false)
        .iter()
        .map(|model| (model.reference().to_string(), catalog.alias(model).map(str::to_owned)))
        .collect();
    let row = |name: &str, alias: Option<&str>| (name.to_owned(), alias.map(str::to_owned));
    assert_eq!(
        shown,
        [
            row("anthropic/claude-opus-5-5", Some("Opus")),
            row("openai/gpt-6.1-sol", None),
            row("openai/gpt-6-luna", None),
            row("groq/openai/gpt-oss-120b", Some("fast")),
        ]
    );
    let found = |written: &str| {
        catalog.resolve(written, "anthropic").map(|model| model.reference().to_string())
    };
    assert_eq!(found("OPUS").unwrap(), "anthropic/claude-opus-5-5");
    assert_eq!(found("fast").unwrap(), "groq/openai/gpt-oss-120b");
    assert_eq!(found("luna").unwrap(), "openai/gpt-6-luna");
    assert_eq!(
        found("anthropic/claude-haiku-5-5").unwrap_err(),
        NameError::NotAllowed("anthropic/claude-haiku-5-5".into())
    );
    assert!(matches!(found("haiku"), Err(NameError::Unknown(_))));
}

#[test]
fn wrong_entries_are_named_by_their_path() {
    let api = |models: Value| error(json!({"providers": {"p": models}}), Value::Null);
    let known = "known are openai-completions, openai-responses, anthropic-messages, \
                 google-generative-ai, ollama, offline";
    assert_eq!(
        api(json!({"baseUrl": "http://h", "api": "grpc", "models": [{"id": "m"}]})),
        format!("models.providers.p.api: unknown api \"grpc\"; {known}")
    );
    assert_eq!(
        api(json!({"baseUrl": "http://h", "models": [{"id": "m"}, {"id": "n", "api": "x"}]})),
        format!("models.providers.p.models[1].api: unknown api \"x\"; {known}")
    );
    assert_eq!(
        api(json!({"models": [{"id": "m"}]})),
        "models.providers.p.baseUrl: set it to the address of the provider's API"
    );
}

#[test]
fn a_name_of_no_model_is_told_and_a_fallback_stands_in_for_it() {
    let why = |name: &str| {
        format!(
            "there is no model \"{name}\"; known are mock/one, mock/two, offline/echo-guide. \
             Add others under models.providers.<id>.models"
        )
    };
    let catalog = build(json!({"providers": {"mock": mock()}}), json!("mock/three"), &[]);
    let missing = catalog.missing_default().unwrap();
    assert_eq!(
        (missing.path.as_str(), missing.name.as_str()),
        ("agents.defaults.model", "mock/three")
    );
    assert_eq!(missing.message, format!("{}; runs with it fail", why("mock/three")));
    assert!(!missing.is_answered);
    // Whoever asks what stands there hears why.
    let model = &catalog.default_choice().model;
    assert_eq!(model.reference().to_string(), "mock/three");
    let error = model.credential().unwrap_err();
    assert_eq!(error.message, format!("agents.defaults.model: {}", why("mock/three")));
    assert!(!error.is_retryable() && catalog.find(&model.reference()).is_none());
    let two = catalog.named("mock/two");
    let (model, missing) = catalog.named_at("agents.list[0].model", "none/at-all", two.as_ref());
    assert_eq!(model.reference().to_string(), "mock/two");
    let expected = format!("{}; its fallback mock/two answers", why("none/at-all"));
    let missing = missing.unwrap();
    assert_eq!((missing.message.as_str(), missing.is_answered), (expected.as_str(), true));
    let (model, missing) = catalog.named_at("agents.list[0].model", "mock/one", two.as_ref());
    assert_eq!((model.id.as_str(), missing), ("one", None));
}

#[test]
fn a_missing_model_is_known_again_by_its_place_which_for_an_agent_is_the_agent() {
    let catalog = build(json!({"providers": {"mock": mock()}}), json!("mock/one"), &[]);
    let at = |path: &str, name: &str, agent: Option<&str>| {
        let missing = catalog.named_at(path, name, None).1.unwrap();
        MissingModel { agent: agent.map(str::to_owned), ..missing }
    };
    let of_all = at("agents.defaults.model", "no/such", None);
    assert!(of_all.is_same(&of_all));
    assert!(!of_all.is_same(&at("agents.defaults.model", "no/other", None)));
    let of_agent = at("agents.list[1].model", "no/such", Some("a"));
    assert!(of_agent.is_same(&at("agents.list[0].model", "no/such", Some("a"))));
    for other in [&of_all, &at("agents.list[1].model", "no/such", Some("b"))] {
        assert!(!of_agent.is_same(other) && !other.is_same(&of_agent), "{other:?}");
    }
    let moved = at("agents.list[0].model", "no/such", Some("a"));
    let begun = at("agents.list[1].model", "no/such", Some("b"));
    let known = [of_all.clone(), of_agent];
    let found = vec![of_all, moved.clone(), begun.clone()];
    assert_eq!(MissingModel::begun(found, &known), Some(begun));
    assert_eq!(MissingModel::begun(vec![moved], &known), None);
}

#[test]
fn names_of_models_may_contain_slashes() {
    let name = ModelRef::parse("openrouter/anthropic/claude").unwrap();
    assert_eq!((name.provider.as_str(), name.model.as_str()), ("openrouter", "anthropic/claude"));
    assert_eq!(name.to_string(), "openrouter/anthropic/claude");
    for wrong in ["", "x", "/x", "x/", " / "] {
        assert_eq!(ModelRef::parse(wrong), None, "{wrong:?}");
    }
    let catalog = build(json!({"providers": {"mock": mock()}}), Value::Null, &[]);
    assert_eq!(catalog.find(&ModelRef::parse("mock/two").unwrap()).unwrap().id, "two");
    assert!(catalog.find(&ModelRef::parse("mock/three").unwrap()).is_none());
}

#[test]
fn a_provider_may_be_written_in_any_case_and_by_any_of_its_names() {
    let zai = json!({"apiKey": "k"});
    let models = json!({"providers": {"Mock": mock(), "z.ai": zai}});
    let catalog = build(models, json!("MOCK/two"), &[]);
    assert_eq!(chosen(&catalog).0, "Mock/two");
    for name in ["mock/one", "Mock/one", " MOCK /one"] {
        assert_eq!(catalog.named(name).unwrap().id, "one", "{name}");
    }
    let name = |text: &str| ModelRef::parse(text).unwrap();
    let known = catalog.models().iter().find(|model| model.provider == "zai").unwrap();
    for provider in ["Z-AI", "z.ai", "zai"] {
        let found = catalog.find(&name(&format!("{provider}/{}", known.id))).unwrap();
        assert_eq!(found.api_key.as_ref().unwrap().expose(), "k", "{provider}");
    }
    assert_eq!(name("Doubao/Seed").to_string(), "volcengine/Seed");
    let newer = catalog.find_or_guess(&name("MOCK/newer")).unwrap();
    assert_eq!(newer.base_url, "http://127.0.0.1:4010/v1");
    assert!(catalog.find(&name("mock/ONE")).is_none(), "a model has one name");
}

#[test]
fn a_known_provider_is_spoken_to_in_its_own_api_at_home() {
    let key = "k";
    for (id, base, expected) in [
        ("openai", Value::Null, Api::OpenAiResponses),
        ("openai", json!("https://api.openai.com/v1/"), Api::OpenAiResponses),
        ("openai", json!("http://127.0.0.1:1/v1"), Api::OpenAiCompletions),
        ("google", Value::Null, Api::GoogleGenerativeAi),
        ("google", json!("https://proxy/v1beta/openai/"), Api::OpenAiCompletions),
        ("ollama", json!("http://gpu-box:11434"), Api::Ollama),
        ("ollama", json!("http://gpu-box:11434/v1"), Api::OpenAiCompletions),
        ("else", json!("https://else"), Api::OpenAiCompletions),
    ] {
        let models = json!({"providers": {id: {
            "baseUrl": base, "apiKey": key, "models": [{"id": "m"}],
        }}});
        let catalog = build(models, Value::Null, &[]);
        assert_eq!(catalog.default_choice().model.api, expected, "{id} {base}");
    }
}

#[test]
fn what_a_model_is_told_comes_from_it_and_its_provider() {
    let models = json!({"providers": {"ollama": {
        "baseUrl": "http://gpu-box:11434", "params": {"temperature": 0.5, "maxTokens": 9},
        "models": [{"id": "m", "params": {"maxTokens": 10}, "compat": {"supportsTools": false}}],
    }}});
    let model = Arc::clone(&build(models, Value::Null, &[]).default_choice().model);
    let params = &model.options.params;
    assert_eq!((params.temperature, model.answer_limit()), (Some(0.5), 10));
    assert_eq!(model.options.compat.supports_tools, Some(false));
    // Neither a key nor a window of memory that nobody asked for.
    assert!(model.credential().unwrap().is_none());
    assert_eq!(model.context_window, 65_536);
}

#[test]
fn a_named_ollama_model_needs_no_configuration() {
    let env = [("OLLAMA_HOST", "gpu-box")];
    let catalog = build(json!({}), json!("ollama/llama3:8b"), &env);
    assert_eq!(chosen(&catalog).0, "ollama/llama3:8b");
    assert_eq!(catalog.default_choice().model.base_url, "http://gpu-box:11434");
    let provider = json!({"baseUrl": "http://gpu-box:11434", "models": [{"id": "m"}]});
    for id in ["ollama", "Ollama"] {
        let catalog = build(json!({"providers": {id: provider}}), Value::Null, &[]);
        let new = catalog.find_or_guess(&ModelRef::parse("ollama/new").unwrap()).unwrap();
        assert!(new.options.is_assumed, "{id}");
    }
}

#[test]
fn debug_output_has_no_keys_in_it() {
    let models = json!({"providers": {"mock": {
        "baseUrl": "http://h", "apiKey": "sk-hidden", "headers": {"x": "hdr-hidden"}, "models": [{"id": "m"}],
    }}});
    let shown = format!("{:?}", build(models, Value::Null, &[]).models());
    assert!(!shown.contains("hidden"), "{shown}");
}

#[test]
fn price_is_per_million_tokens() {
    use crate::protocol::message::Usage;
    let model = crate::providers::testing::model("offline");
    let usage = Usage { input: 1_000_000, output: 500_000, ..Usage::default() };
    let priced = model.priced(usage);
    assert_eq!(priced.total_tokens, 1_500_000);
    assert!((priced.cost.total - 2.0).abs() < 1e-9, "{:?}", priced.cost);
}

#[test]
fn a_model_that_nobody_listed_is_asked_for_at_its_provider_only() {
    let mut provider = mock();
    let off = json!({"id": "off", "api": "bedrock-converse-stream"});
    provider["models"].as_array_mut().unwrap().push(off);
    let catalog =
        build(json!({"mode": "replace", "providers": {"mock": provider}}), json!(null), &[]);
    let first = Arc::clone(&catalog.models()[0]);
    let name = |text: &str| ModelRef::parse(text).unwrap();
    let listed = catalog.find_or_guess(&first.reference()).unwrap();
    assert_eq!(listed.price, first.price);
    let newer = catalog.find_or_guess(&name("mock/vendor/newer")).unwrap();
    assert_eq!((newer.id.as_str(), &newer.base_url), ("vendor/newer", &first.base_url));
    assert_eq!(newer.price, ModelPrice::default());
    assert!(catalog.find(&name("mock/vendor/newer")).is_none());
    for nowhere in ["nobody/newer", "offline/newer", "mock/off"] {
        assert!(catalog.find_or_guess(&name(nowhere)).is_none(), "{nowhere}");
    }
}

#[test]
fn long_prompts_have_a_price_of_their_own() {
    use crate::protocol::message::Usage;
    let catalog = build(json!({}), json!("openai/gpt-6.1-sol"), &[]);
    let model = &catalog.default_choice().model;
    let cost = |input, cache_read| {
        let usage = Usage { input, cache_read, output: 1_000_000, ..Usage::default() };
        model.priced(usage).cost
    };
    let near = |left: f64, right: f64| (left - right).abs() < 1e-9;
    assert!(near(cost(272_000, 0).output, 10.0) && near(cost(272_000, 1).output, 15.0));
    assert!(near(cost(500_000, 0).input, 2.0), "{:?}", cost(500_000, 0));
}
