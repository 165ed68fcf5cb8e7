//! Providers whose API is not built in.

use serde_json::Value;

use crate::support::json;

use super::super::tests::try_build;
use super::*;

/// The models that can be used, and the one that answers by default.
fn built(
    config: &Value,
    default: Option<&str>,
    env: &[(&str, &str)],
) -> Result<(Vec<String>, String), String> {
    let made = try_build(config.clone(), json!(default), env).map_err(|error| error.to_string())?;
    let names = made.models().iter().map(|model| model.reference().to_string());
    Ok((names.collect(), made.default_choice().model.reference().to_string()))
}

fn with_azure() -> Value {
    json!({"providers": {
        "azure": {"api": "azure-openai-responses", "models": [{"id": "a"}, {"id": "b"}]},
        "mock": {"baseUrl": "http://h/v1", "models": [
            {"id": "one"}, {"id": "two", "api": "bedrock-converse-stream"}]},
    }})
}

#[test]
fn a_provider_or_model_whose_api_is_not_built_in_is_off_and_the_others_are_there() {
    let (names, chosen) = built(&with_azure(), None, &[]).unwrap();
    assert_eq!(names, ["mock/one", "offline/echo-guide"]);
    assert_eq!(chosen, "mock/one");
    let (_, chosen) = built(&with_azure(), Some("mock/one"), &[]).unwrap();
    assert_eq!(chosen, "mock/one");
}

#[test]
fn a_provider_that_we_know_is_off_as_a_whole() {
    let models = json!({"providers": {"openai": {"api": "openai-codex-responses", "models": [
        {"id": "gpt-6.1-sol"}]}}});
    let (names, chosen) = built(&models, None, &[("OPENAI_API_KEY", "k")]).unwrap();
    assert_eq!((names.len(), chosen.as_str()), (1, "offline/echo-guide"));
    // The model that its own line turns off is not there by another way.
    let models = json!({"providers": {"openai": {"models": [
        {"id": "gpt-6.1-sol", "api": "openai-codex-responses"}]}}});
    let (names, _) = built(&models, None, &[("OPENAI_API_KEY", "k")]).unwrap();
    assert!(names.len() > 1 && !names.contains(&"openai/gpt-6.1-sol".to_owned()), "{names:?}");
}

#[test]
fn a_default_model_of_such_a_provider_is_told_with_what_it_speaks() {
    let known = Api::names();
    for (default, provider, api) in [
        ("azure/a", "azure", "azure-openai-responses"),
        ("azure/another", "azure", "azure-openai-responses"),
        ("mock/two", "mock", "bedrock-converse-stream"),
    ] {
        let catalog = try_build(with_azure(), json!(default), &[]).unwrap();
        let expected = format!(
            "provider {provider} speaks api {api}, which is not built in; built in are {known}; \
             runs with it fail"
        );
        assert_eq!(catalog.missing_default().unwrap().message, expected);
        assert_eq!(catalog.default_choice().model.reference().to_string(), default);
    }
}

#[test]
fn where_nothing_else_is_there_it_is_told_what_is_not_spoken() {
    let mut config = with_azure();
    config["mode"] = json!("replace");
    config["providers"].as_object_mut().unwrap().remove("mock");
    let known = Api::names();
    let expected = format!(
        "models.providers.azure.api: provider azure speaks api azure-openai-responses, which is \
         not built in; built in are {known}"
    );
    assert_eq!(built(&config, None, &[]).unwrap_err(), expected);
    let error = built(&json!({"mode": "replace"}), None, &[]).unwrap_err();
    assert!(error.contains("models.providers has no model"), "{error}");
}

#[test]
fn what_is_said_to_be_built_in_is() {
    assert_eq!(APIS.built_in.join(", "), Api::names());
}
