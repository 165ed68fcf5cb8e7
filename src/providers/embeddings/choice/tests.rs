use std::collections::BTreeMap;

use serde_json::Value;

use super::*;
use crate::config::models::ModelsConfig;
use crate::config::secrets::ResolvedSecrets;
use crate::support::json;

/// Candidates of this `memorySearch` and these providers, each as
/// `provider/model at address`.
fn told(
    config: Value,
    providers: &Value,
    env: &[(&str, &str)],
    wanted: Option<&str>,
) -> Result<Vec<String>, EmbeddingsRefused> {
    let found = candidates(config, providers, env, wanted)?;
    let one = |it: &EmbeddingModel| format!("{} at {}", it.info.reference(), it.info.base_url);
    Ok(found.iter().map(one).collect())
}

fn candidates(
    config: Value,
    providers: &Value,
    env: &[(&str, &str)],
    wanted: Option<&str>,
) -> Result<Vec<EmbeddingModel>, EmbeddingsRefused> {
    let config: MemorySearchConfig = serde_json::from_value(config).unwrap();
    let models: ModelsConfig = serde_json::from_value(json!({"providers": providers})).unwrap();
    let env: BTreeMap<_, _> = env.iter().copied().collect();
    let lookup = |name: &str| env.get(name).map(|value| (*value).to_owned());
    let secrets = ResolvedSecrets::default();
    let sources = CatalogSources::plain(&models, &lookup, &secrets);
    EmbeddingSettings { config: &config, wanted, sources: &sources }.candidates()
}

fn one(config: Value, providers: &Value) -> String {
    let mut all = told(config, providers, &[], None).unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn each_provider_has_its_usual_model_and_address() {
    for (id, expected) in [
        ("openai", "openai/text-embedding-3-small at https://api.openai.com/v1"),
        (
            "gemini",
            "google/gemini-embedding-001 at https://generativelanguage.googleapis.com/v1beta",
        ),
        ("Voyage", "voyage/voyage-4-large at https://api.voyageai.com/v1"),
        ("mistral", "mistral/mistral-embed at https://api.mistral.ai/v1"),
        ("deepinfra", "deepinfra/BAAI/bge-m3 at https://api.deepinfra.com/v1/openai"),
        ("ollama", "ollama/nomic-embed-text at http://127.0.0.1:11434"),
        ("lmstudio", "lmstudio/text-embedding-nomic-embed-text-v1.5 at http://127.0.0.1:1234/v1"),
    ] {
        assert_eq!(one(json!({"provider": id}), &json!({})), expected);
    }
    let all = told(json!({}), &json!({}), &[], None).unwrap();
    let ids: Vec<_> = all.iter().map(|it| it.split('/').next().unwrap()).collect();
    assert_eq!(ids, ["openai", "google", "voyage", "mistral", "deepinfra"]);
}

#[test]
fn providers_of_the_configuration_are_asked_in_the_api_that_they_speak() {
    let providers = json!({
        "gpu": {"api": "ollama", "baseUrl": "http://gpu:1/v1/"},
        "mine": {"baseUrl": "http://mine/v1", "apiKey": "k"},
        "g": {"api": "google-generative-ai", "baseUrl": "http://g/v1beta"},
        "claude": {"api": "anthropic-messages", "baseUrl": "http://c"},
    });
    let of = |config| told(config, &providers, &[], None);
    assert_eq!(one(json!({"provider": "gpu"}), &providers), "gpu/nomic-embed-text at http://gpu:1");
    assert_eq!(
        one(json!({"provider": "mine", "model": "mine/BAAI/bge"}), &providers),
        "mine/BAAI/bge at http://mine/v1"
    );
    assert_eq!(
        one(json!({"provider": "mine", "model": "BAAI/bge"}), &providers),
        "mine/BAAI/bge at http://mine/v1"
    );
    assert_eq!(
        one(json!({"provider": "g"}), &providers),
        "g/gemini-embedding-001 at http://g/v1beta"
    );
    for (config, why) in [
        (json!({"provider": "mine"}), "name a model of mine"),
        (json!({"provider": "claude"}), "speaks anthropic-messages"),
        (json!({"provider": "bedrock"}), "there is no \"bedrock\" here"),
        (json!({"provider": "openai", "enabled": false}), "enabled is false"),
    ] {
        let error = of(config).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_request_chooses_among_the_models_of_the_agents_provider() {
    let of = |config: Value, wanted: &str| told(config, &json!({}), &[], Some(wanted));
    let openai = || json!({"provider": "openai"});
    let at = " at https://api.openai.com/v1";
    assert_eq!(of(openai(), "large").unwrap(), [format!("openai/large{at}")]);
    assert_eq!(of(openai(), "OpenAI/large").unwrap(), [format!("openai/large{at}")]);
    assert_eq!(of(openai(), "other/model"), Err(EmbeddingsRefused::OtherProvider));
    assert_eq!(of(openai(), "auto/model"), Err(EmbeddingsRefused::OtherProvider));
    for wrong in ["openai/", "openai/../x", "openai/a b", "openai/x?y", "a\u{e9}", "..", "a//b"] {
        assert!(of(openai(), wrong).is_err(), "{wrong}");
    }
    assert_eq!(of(json!({}), "mistral/m").unwrap(), ["mistral/m at https://api.mistral.ai/v1"]);
    assert_eq!(of(json!({}), "auto/m").unwrap().len(), 5);
    assert_eq!(of(json!({}), "ollama/m"), Err(EmbeddingsRefused::OtherProvider));
    assert_eq!(of(json!({}), "mock/m"), Err(EmbeddingsRefused::OtherProvider));
}

#[test]
fn the_remote_of_the_section_wins_over_the_provider() {
    let remote = json!({"baseUrl": "http://there/v1/", "apiKey": "own-key",
        "headers": {"X-Team": "t"}});
    let config = json!({"provider": "openai", "remote": remote});
    let env = [("OPENAI_API_KEY", "usual-key")];
    let found = candidates(config, &json!({}), &env, None).unwrap().remove(0);
    assert!(found.is_elsewhere);
    assert_eq!(found.info.base_url, "http://there/v1");
    assert_eq!(found.info.headers["x-team"].expose(), "t");
    assert_eq!(found.info.options.auth.as_ref().unwrap().value.expose(), "own-key");
    assert!(found.info.credential().unwrap().is_none(), "the usual key stays at home");

    for place in ["apiKey", "baseUrl"] {
        let mut remote = json!({"baseUrl": "http://there/v1"});
        remote[place] = json!({"source": "env", "id": "NO"});
        let config = json!({"provider": "openai", "remote": remote});
        let found = candidates(config, &json!({}), &env, None).unwrap().remove(0);
        let why = found.info.credential().unwrap_err().message;
        assert!(found.is_elsewhere && why.contains("env:default:NO"), "{place}: {why}");
    }

    let gemini = json!({"provider": "gemini", "remote": {"apiKey": "k",
        "baseUrl": "http://there/v1beta/openai"}});
    let found = candidates(gemini, &json!({}), &[], None).unwrap().remove(0);
    assert_eq!(found.info.base_url, "http://there/v1beta");
    assert_eq!(found.info.options.auth.as_ref().unwrap().name, "x-goog-api-key");

    let ollama = json!({"provider": "ollama", "remote": {"baseUrl": "http://there:1"}});
    let env = [("OLLAMA_API_KEY", "of-the-cloud")];
    let found = candidates(ollama, &json!({}), &env, None).unwrap().remove(0);
    assert!(found.info.api_key.is_none());
}
