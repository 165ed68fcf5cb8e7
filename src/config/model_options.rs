//! What can be said about a model beside its limits and prices.
//!
//! Owns: `compat` and `params` of a model and its provider, in the words of
//! OpenClaw. Promises: what is not written is `None`, so that whoever knows the
//! server can decide. Must not: know what servers understand.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::cli_backend::CliBackend;
use super::provider_request::{AuthHeader, Transport};

/// Everything of this file that a model was given.
#[derive(Debug, Clone, Default)]
pub struct ModelOptions {
    /// What its server understands.
    pub compat: CompatConfig,
    /// What is sent with each call.
    pub params: ParamsConfig,
    /// How its server is reached.
    pub transport: Transport,
    /// What lets us in, instead of a key where the API wants it.
    pub auth: Option<AuthHeader>,
    /// Whether its limits are only assumed, and its server could be asked.
    pub is_assumed: bool,
    /// What answers instead of a server.
    pub cli: Option<Arc<CliBackend>>,
    /// Why there is no such model, where this only stands in for one.
    pub missing: Option<Arc<str>>,
    /// Why it has no key, where the config names a variable for it that is not set.
    pub unset: Option<Arc<str>>,
}

/// `models.providers.<id>.models[].compat`: what a server understands, where
/// it differs from what its name and address suggest.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CompatConfig {
    /// `store` in the body.
    pub supports_store: Option<bool>,
    /// The role `developer` for the system prompt of models that think.
    pub supports_developer_role: Option<bool>,
    /// `reasoning_effort` in the body.
    pub supports_reasoning_effort: Option<bool>,
    /// `stream_options.include_usage`.
    pub supports_usage_in_streaming: Option<bool>,
    /// `strict` in tools.
    pub supports_strict_mode: Option<bool>,
    /// Tools at all.
    pub supports_tools: Option<bool>,
    /// `temperature` in the body.
    pub supports_temperature: Option<bool>,
    /// `prompt_cache_key` in the body.
    pub supports_prompt_cache_key: Option<bool>,
    /// Name of the field with the token limit.
    pub max_tokens_field: Option<MaxTokensField>,
    /// How the server wants to be told to think.
    pub thinking_format: Option<ThinkingFormat>,
    /// Efforts that the server accepts; the nearest lower one is sent.
    pub supported_reasoning_efforts: Option<Vec<String>>,
    /// Words to send instead of our own, by level (`off` included).
    pub reasoning_effort_map: BTreeMap<String, String>,
    /// `name` in results of tools.
    pub requires_tool_result_name: Option<bool>,
    /// An answer between a result and a user's message.
    pub requires_assistant_after_tool_result: Option<bool>,
    /// Thoughts go back as text.
    pub requires_thinking_as_text: Option<bool>,
    /// `reasoning_content` in every answer of the past, empty or not.
    pub requires_reasoning_content_on_assistant_messages: Option<bool>,
    /// Ids of calls with exactly nine letters and digits.
    pub requires_mistral_tool_ids: Option<bool>,
    /// Content is one text, never a list of parts.
    pub requires_string_content: Option<bool>,
    /// Keywords of JSON Schema to leave out of tools.
    pub unsupported_tool_schema_keywords: Vec<String>,
    /// `provider` in the body, for `OpenRouter`.
    pub open_router_routing: Option<Map<String, Value>>,
    /// `providerOptions.gateway` in the body, for Vercel's gateway.
    pub vercel_gateway_routing: Option<Map<String, Value>>,
}

/// `compat.maxTokensField`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum MaxTokensField {
    /// What `OpenAI` wants today.
    #[serde(rename = "max_completion_tokens")]
    Completion,
    /// What it wanted before.
    #[serde(rename = "max_tokens")]
    Plain,
}

impl MaxTokensField {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completion => "max_completion_tokens",
            Self::Plain => "max_tokens",
        }
    }
}

/// `compat.thinkingFormat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThinkingFormat {
    /// `reasoning_effort: "low"`.
    Openai,
    /// `reasoning: {effort: "low"}`.
    Openrouter,
    /// `thinking: {type: "enabled"}` and `reasoning_effort`.
    Deepseek,
    /// `reasoning: {enabled: true}`.
    Together,
    /// `enable_thinking: true`.
    Zai,
    /// The same.
    Qwen,
    /// `chat_template_kwargs: {enable_thinking: true}`.
    QwenChatTemplate,
}

/// `params` of a provider or of one of its models: what is sent with each call.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParamsConfig {
    /// How freely to choose words.
    pub temperature: Option<f64>,
    /// Tokens that an answer may have.
    pub max_tokens: Option<u64>,
    /// How long the provider may keep the prompt in its cache.
    pub cache_retention: Option<CacheRetention>,
    /// `OpenAI`'s `service_tier`.
    #[serde(alias = "service_tier")]
    pub service_tier: Option<String>,
    /// Whether, or which, tools must be called; sent only where there are tools.
    #[serde(alias = "tool_choice")]
    pub tool_choice: Option<ToolChoice>,
    /// What Anthropic is told about a call.
    pub metadata: Option<MetadataConfig>,
}

impl ParamsConfig {
    /// These, and for what they leave open those of `base`.
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        Self {
            temperature: self.temperature.or(base.temperature),
            max_tokens: self.max_tokens.or(base.max_tokens),
            cache_retention: self.cache_retention.or(base.cache_retention),
            service_tier: self.service_tier.clone().or_else(|| base.service_tier.clone()),
            tool_choice: self.tool_choice.clone().or_else(|| base.tool_choice.clone()),
            metadata: self.metadata.clone().or_else(|| base.metadata.clone()),
        }
    }
}

/// `params.toolChoice`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "auto, none, any, required, or an object as the API wants it")]
pub enum ToolChoice {
    /// A word that every API has a form of.
    Word(ToolChoiceWord),
    /// What one API understands, sent as it is.
    Object(Map<String, Value>),
}

/// `params.toolChoice` as a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolChoiceWord {
    /// The model decides.
    Auto,
    /// It calls none.
    None,
    /// It calls at least one; `required` is `OpenAI`'s word for it.
    #[serde(alias = "required")]
    Any,
}

impl ToolChoiceWord {
    /// The word of Anthropic.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::Any => "any",
        }
    }
}

/// `params.metadata`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct MetadataConfig {
    /// An opaque id of the person on whose behalf is asked.
    pub user_id: Option<String>,
}

/// `params.cacheRetention`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheRetention {
    /// Not at all.
    None,
    /// As long as the provider does unasked.
    #[default]
    Short,
    /// As long as it can: an hour at Anthropic, a day at `OpenAI`.
    Long,
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    #[test]
    fn words_of_the_original_are_understood_and_unknown_ones_skipped() {
        let compat: CompatConfig = serde_json::from_value(json!({
            "supportsStore": false, "maxTokensField": "max_tokens", "thinkingFormat": "qwen-chat-template",
            "requiresMistralToolIds": true, "reasoningEffortMap": {"off": "none"}, "codeMode": "capable",
            "unsupportedToolSchemaKeywords": ["format"],
        }))
        .unwrap();
        assert_eq!(compat.supports_store, Some(false));
        assert_eq!(compat.supports_developer_role, None);
        assert_eq!(compat.max_tokens_field, Some(MaxTokensField::Plain));
        assert_eq!(compat.thinking_format, Some(ThinkingFormat::QwenChatTemplate));
        assert_eq!(compat.reasoning_effort_map["off"], "none");
        assert!(
            serde_json::from_value::<CompatConfig>(json!({"maxTokensField": "tokens"})).is_err()
        );
    }

    #[test]
    fn params_of_a_model_win_over_those_of_its_provider() {
        let read = |value| serde_json::from_value::<ParamsConfig>(value).unwrap();
        let provider = read(json!({"temperature": 0.5, "cacheRetention": "long"}));
        let model = read(json!({"temperature": 0, "service_tier": "flex", "fastMode": true}));
        let expected =
            read(json!({"temperature": 0, "serviceTier": "flex", "cacheRetention": "long"}));
        assert_eq!(model.over(&provider), expected);
    }

    #[test]
    fn a_tool_choice_is_a_word_or_what_the_api_wants() {
        let read = |value| serde_json::from_value::<ParamsConfig>(json!({"toolChoice": value}));
        let choice = |value| read(value).unwrap().tool_choice.unwrap();
        assert_eq!(choice(json!("required")), ToolChoice::Word(ToolChoiceWord::Any));
        assert!(matches!(choice(json!({"type": "tool", "name": "x"})), ToolChoice::Object(_)));
        let error = read(json!("sometimes")).unwrap_err().to_string();
        assert!(error.contains("auto, none, any, required"), "{error}");
    }
}
