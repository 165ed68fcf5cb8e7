//! Models that are not in the catalogue: Ollama's, and those of any server.

use serde_json::Value;

use super::access::{Access, check_key};
use super::asker::Stopped;
use super::check;
use super::draft::Draft;
use super::model::{Chosen, OFFLINE, OLLAMA, OTHER_MODEL, check_model_id};
use super::step::StepOption;
use super::talk::{Line, Talk};
use crate::providers::{ModelRef, known_provider};
use crate::support::json;

/// Has the key of a server of one's own.
pub const CUSTOM_KEY: &str = "CUSTOM_API_KEY";
/// Longest id of a provider; it stands in the name of each model.
const PROVIDER_ID_MAX: usize = 64;
/// APIs that servers of models speak, and what people call them.
const APIS: [(&str, &str); 3] = [
    ("openai-completions", "OpenAI chat completions (most servers)"),
    ("openai-responses", "OpenAI responses"),
    ("anthropic-messages", "Anthropic messages"),
];

/// Asks for a model of an Ollama.
pub async fn ollama(talk: &mut Talk<'_>, draft: &mut Draft) -> Result<Chosen, Stopped> {
    let usual = check::usual_ollama(draft);
    let written = draft.written("/models/providers/ollama/baseUrl");
    let initial = written.as_ref().and_then(Value::as_str).unwrap_or(&usual).to_owned();
    let line = Line::checked(check_address).initial(initial);
    let url = talk.text("ollamaUrl", "Where does Ollama listen?", line).await?;
    talk.0.tell("Asking Ollama for its models");
    let found = check::ollama_models(draft, &url).await;
    let mut options: Vec<_> = found.iter().map(|id| StepOption::new(id, id)).collect();
    let id = if options.is_empty() {
        let text = format!(
            "No Ollama with models answers at {url}. Start it with `ollama serve`, and get a \
             model with `ollama pull <model>`."
        );
        talk.note("ollamaSilent", "Ollama", text).await?;
        OTHER_MODEL.to_owned()
    } else {
        options.push(StepOption::new(OTHER_MODEL, "Another one"));
        talk.select("model", "Which model?", options, None).await?
    };
    let id = if id == OTHER_MODEL { named(talk, "qwen3:8b").await? } else { id };
    if written.is_some() || url != usual {
        let provider = json!({"baseUrl": url, "models": [{"id": id, "name": id}]});
        draft.set(vec![(vec!["models", "providers", OLLAMA], provider)]).await?;
    }
    let name = ModelRef { provider: OLLAMA.into(), model: id };
    Ok(Chosen { name, access: Access::AsIs, has_key: false })
}

/// Asks for a server of models and one of its models.
pub async fn custom(talk: &mut Talk<'_>, draft: &mut Draft) -> Result<Chosen, Stopped> {
    let line = Line::checked(check_address).placeholder("https://llm.example.com/v1");
    let url = talk.text("baseUrl", "Where does the server's API begin?", line).await?;
    let apis = APIS.map(|(id, label)| StepOption::new(id, label)).to_vec();
    let api = talk.select("api", "Which API does it speak?", apis, None).await?;
    let line = Line::checked(check_provider_id).initial(provider_id(&url));
    let id = talk.text("providerId", "What is it to be called here?", line).await?;
    let access = key(talk, draft).await?;
    let model = named(talk, "llama-3.3-70b").await?;
    let models = json!([{"id": model, "name": model}]);
    let provider = json!({"baseUrl": url, "api": api, "models": models});
    let (name, has_key) = (ModelRef { provider: id.clone(), model }, access.is_some());
    let change = move |config: &Value| {
        let mut provider = provider.clone();
        if !has_key && config["models"]["providers"][&id]["apiKey"].is_null() {
            // An empty key is none, and no variable is looked up for it.
            provider["apiKey"] = json!("");
        }
        json!({"models": {"providers": {id: provider}}})
    };
    draft.change(change).await?;
    Ok(Chosen { name, access: access.unwrap_or(Access::AsIs), has_key })
}

async fn key(talk: &mut Talk<'_>, draft: &Draft) -> Result<Option<Access>, Stopped> {
    if draft.env.get(CUSTOM_KEY).is_some() {
        let options = vec![
            StepOption::new("variable", format!("The key in {CUSTOM_KEY}")),
            StepOption::new("enter", "Enter a key, or none"),
        ];
        let source = talk.select("keySource", "Which key does it want?", options, None).await?;
        if source == "variable" {
            return Ok(Some(Access::Variable(CUSTOM_KEY.into())));
        }
    }
    let line = Line::checked(|text| if text.is_empty() { Ok(()) } else { check_key(text) });
    let key = talk.secret("key", "Its key; nothing when it wants none", line).await?;
    Ok((!key.is_empty()).then_some(Access::Key(key)))
}

async fn named(talk: &mut Talk<'_>, example: &str) -> Result<String, Stopped> {
    let line = Line::checked(check_model_id).placeholder(example);
    talk.text("modelId", "The name of the model", line).await
}

/// An address of the web, without a credential in it.
///
/// # Errors
/// In words for people.
pub fn check_address(text: &str) -> Result<(), String> {
    let parsed = reqwest::Url::parse(text).ok();
    let fits = parsed.is_some_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
    });
    if fits { Ok(()) } else { Err("give an http or https address without a user in it".into()) }
}

fn check_provider_id(text: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    if known_provider(text).is_some() || [OLLAMA, OFFLINE].contains(&text) {
        Err(format!("{text} is taken; give another name"))
    } else if (1..=PROVIDER_ID_MAX).contains(&text.len()) && text.chars().all(fits) {
        Ok(())
    } else {
        Err(format!("give 1 to {PROVIDER_ID_MAX} of a-z, 0-9, - and _"))
    }
}

/// `custom-llm-example-com` for `https://llm.example.com/v1`, as in the original.
fn provider_id(url: &str) -> String {
    let parsed = reqwest::Url::parse(url).ok();
    let host = parsed.as_ref().and_then(reqwest::Url::host_str).unwrap_or_default();
    let port = parsed.as_ref().and_then(reqwest::Url::port);
    let whole = port.map_or_else(|| host.to_owned(), |port| format!("{host}-{port}"));
    let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let words: String = whole.chars().map(word).collect();
    let id = format!("custom-{}", words.trim_matches('-'));
    id.chars().take(PROVIDER_ID_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_called_after_its_host() {
        for (url, id) in [
            ("https://llm.example.com/v1", "custom-llm-example-com"),
            ("http://127.0.0.1:8080", "custom-127-0-0-1-8080"),
            ("http://[::1]:9/v1", "custom-1--9"),
        ] {
            let made = provider_id(url);
            assert!(check_provider_id(&made).is_ok(), "{made}");
            if !url.contains('[') {
                assert_eq!(made, id);
            }
        }
        for taken in ["anthropic", "ollama", "", "A", "a/b"] {
            assert!(check_provider_id(taken).is_err(), "{taken}");
        }
    }

    #[test]
    fn an_address_is_one_of_the_web_without_a_user() {
        assert!(check_address("http://127.0.0.1:1/v1").is_ok());
        for text in ["", "x", "ftp://a", "https://u:p@h/v1", "file:///etc/passwd"] {
            assert!(check_address(text).is_err(), "{text}");
        }
    }
}
