//! In what the servers that speak this API differ.
//!
//! Owns: the list of differences, and that the configuration wins over it.
//! Everything that is not listed behaves like `OpenAI` itself.

use super::super::ModelInfo;
use super::super::compose::{call_of, fit};
use crate::config::model_options::{CompatConfig, MaxTokensField, ThinkingFormat};

/// What a server understands.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(clippy::struct_excessive_bools)] // each is a switch of its own in the configuration
pub struct Compat {
    /// `store` in the body.
    pub store: bool,
    /// The role `developer`.
    pub developer: bool,
    /// `stream_options.include_usage`.
    pub usage_in_streaming: bool,
    /// `strict` in tools.
    pub strict: bool,
    /// `temperature` in the body.
    pub temperature: bool,
    /// Name of the field with the token limit.
    pub max_tokens: MaxTokensField,
    /// How to ask for thought.
    pub thinking: ThinkingFormat,
    /// `reasoning_effort`, where the format has one.
    pub effort: bool,
    /// The efforts that it knows.
    pub efforts: Efforts,
    /// `name` in results.
    pub tool_result_name: bool,
    /// An answer between a result and a user's message.
    pub assistant_after_tool_result: bool,
    /// Thoughts go back as text.
    pub thinking_as_text: bool,
    /// `reasoning_content` of an answer without a thought, where that may not be missing.
    pub no_thought: Option<&'static str>,
    /// Content is one text, never a list of parts.
    pub string_content: bool,
    /// Marks for the prompt cache in messages.
    pub cache_marks: bool,
    /// Makes an id of a call acceptable.
    pub ids: IdStyle,
}

/// The words of `reasoning_effort` that a server knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Efforts {
    /// Those of `OpenAI`.
    All,
    /// None but `high`.
    High,
    /// `low`, `high` and `max`, which it takes for every other word and for none.
    Kimi,
}

/// What a server accepts as id of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdStyle {
    /// At most 40 characters, as `OpenAI` itself does.
    Plain,
    /// Nine letters and digits.
    Mistral,
}

impl Compat {
    /// What the server of `model` understands.
    pub fn of(model: &ModelInfo) -> Self {
        let guessed = Self::guessed(model);
        let guessed = if is_moonshot(model) { guessed.at_moonshot(model) } else { guessed };
        guessed.told(&model.options.compat)
    }

    /// What Moonshot does in another way.
    fn at_moonshot(self, model: &ModelInfo) -> Self {
        let is = |ids: &[&str]| ids.iter().any(|id| model.id.starts_with(id));
        // The third generation is told how hard to think, these whether to; others are told
        // nothing, and do.
        let has_effort = is(&["kimi-k3"]);
        let can_pause = is(&["kimi-k2.5", "kimi-k2.6"]);
        Self {
            store: false,
            strict: false,
            thinking: if can_pause { ThinkingFormat::Deepseek } else { ThinkingFormat::Openai },
            effort: has_effort,
            efforts: if has_effort { Efforts::Kimi } else { Efforts::All },
            // It refuses an answer without, as `DeepSeek` does; nothing is none to it.
            no_thought: model.reasoning.then_some(" "),
            ..self
        }
    }

    /// By name and address.
    fn guessed(model: &ModelInfo) -> Self {
        let is = |ids: &[&str], hosts: &[&str]| {
            ids.iter().any(|id| model.is_of(id))
                || hosts.iter().any(|host| model.base_url.contains(host))
        };
        let mistral = is(&["mistral"], &["mistral.ai"]);
        let chutes = is(&["chutes"], &["chutes.ai"]);
        let xai = is(&["xai"], &["api.x.ai"]);
        let zai = is(&["zai"], &["api.z.ai"]);
        let openrouter = is(&["openrouter"], &["openrouter.ai"]);
        // Google refuses unknown fields with 400.
        let google = is(&["google"], &["generativelanguage.googleapis.com"]);
        let ollama = is(&["ollama"], &[]);
        let deepseek = is(&["deepseek"], &["deepseek.com"]);
        // Thoughts of its own have no effort.
        let groq_qwen = is(&["groq"], &["groq.com"]) && model.id.starts_with("qwen/");
        let together = is(&["together"], &["together.ai", "together.xyz"]);
        let others = together || is(&["cerebras", "opencode"], &["cerebras.ai", "opencode.ai"]);
        let openai_fields =
            !(mistral || chutes || xai || zai || google || ollama || deepseek || others);
        Self {
            store: openai_fields,
            // The templates of models that people run themselves do not know
            // the role, so only those get it that are known to.
            developer: openai_fields
                && is(
                    &["openai", "openrouter", "groq", "github-copilot", "vercel-ai-gateway"],
                    &["openai.com", "openai.azure.com", "openrouter.ai", "groq.com", "vercel.sh"],
                ),
            usage_in_streaming: true,
            strict: !(google || together),
            temperature: true,
            max_tokens: if mistral || chutes || ollama || together {
                MaxTokensField::Plain
            } else {
                MaxTokensField::Completion
            },
            // Both think unless they are told not to.
            thinking: if zai || deepseek {
                ThinkingFormat::Deepseek
            } else if is(&["qwen", "dashscope"], &["dashscope"]) {
                ThinkingFormat::Qwen
            } else if openrouter {
                ThinkingFormat::Openrouter
            } else if together && !model.id.contains("gpt-oss") {
                ThinkingFormat::Together
            } else {
                ThinkingFormat::Openai
            },
            effort: !(xai || zai || groq_qwen),
            efforts: if mistral { Efforts::High } else { Efforts::All },
            tool_result_name: mistral,
            assistant_after_tool_result: false,
            thinking_as_text: mistral,
            // It refuses an answer without, also one of another model.
            no_thought: (deepseek && model.reasoning).then_some(""),
            string_content: false,
            cache_marks: openrouter && model.id.starts_with("anthropic/"),
            ids: if mistral { IdStyle::Mistral } else { IdStyle::Plain },
        }
    }

    /// With what the configuration says.
    fn told(self, config: &CompatConfig) -> Self {
        Self {
            store: config.supports_store.unwrap_or(self.store),
            developer: config.supports_developer_role.unwrap_or(self.developer),
            usage_in_streaming: config
                .supports_usage_in_streaming
                .unwrap_or(self.usage_in_streaming),
            strict: config.supports_strict_mode.unwrap_or(self.strict),
            temperature: config.supports_temperature.unwrap_or(self.temperature),
            max_tokens: config.max_tokens_field.unwrap_or(self.max_tokens),
            thinking: config.thinking_format.unwrap_or(self.thinking),
            effort: config.supports_reasoning_effort.unwrap_or(self.effort),
            efforts: match &config.supported_reasoning_efforts {
                None if config.reasoning_effort_map.is_empty() => self.efforts,
                _ => Efforts::All,
            },
            tool_result_name: config.requires_tool_result_name.unwrap_or(self.tool_result_name),
            assistant_after_tool_result: config
                .requires_assistant_after_tool_result
                .unwrap_or(self.assistant_after_tool_result),
            thinking_as_text: config.requires_thinking_as_text.unwrap_or(self.thinking_as_text),
            no_thought: match config.requires_reasoning_content_on_assistant_messages {
                Some(true) => Some(self.no_thought.unwrap_or_default()),
                Some(false) => None,
                None => self.no_thought,
            },
            string_content: config.requires_string_content.unwrap_or(self.string_content),
            ids: match config.requires_mistral_tool_ids {
                Some(true) => IdStyle::Mistral,
                Some(false) => IdStyle::Plain,
                None => self.ids,
            },
            ..self
        }
    }
}

/// Whether the server is Moonshot's.
pub fn is_moonshot(model: &ModelInfo) -> bool {
    model.is_of("moonshot") || model.base_url.contains("api.moonshot.")
}

const MAX_ID: usize = 40;
const MISTRAL_ID: usize = 9;

impl IdStyle {
    /// What makes an id acceptable.
    pub fn wire_id(self) -> fn(&str) -> String {
        match self {
            Self::Plain => plain_id,
            Self::Mistral => mistral_id,
        }
    }
}

/// Ids of the Responses API are `call|item`; only the first half is a call.
fn plain_id(id: &str) -> String {
    fit(&call_of(id), MAX_ID)
}

fn mistral_id(id: &str) -> String {
    let letters = id.chars().filter(char::is_ascii_alphanumeric);
    let kept: String = letters.take(MISTRAL_ID).collect();
    let missing = MISTRAL_ID - kept.len();
    kept + &"ABCDEFGHI".chars().take(missing).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::testing::model;
    use crate::support::json;
    use std::sync::Arc;

    #[test]
    fn ids_fit_each_server() {
        let long = "c".repeat(60);
        assert_eq!(plain_id("call.1|fc_2"), "call_1");
        assert_eq!(plain_id("functions.read:0"), "functions_read_0");
        assert_eq!(plain_id(&long), "c".repeat(40));
        assert_eq!(mistral_id("call_1"), "call1ABCD");
        assert_eq!(mistral_id("call_123456789"), "call12345");
        assert_eq!(mistral_id("|"), "ABCDEFGHI");
    }

    #[test]
    fn an_address_says_as_much_as_a_name() {
        for (provider, address) in [
            ("mistral", "https://api.mistral.ai/v1"),
            ("xai", "https://api.x.ai/v1"),
            ("zai", "https://api.z.ai/api/paas/v4"),
            ("openrouter", "https://openrouter.ai/api/v1"),
            ("deepseek", "https://api.deepseek.com"),
            ("moonshot", "https://api.moonshot.cn/v1"),
            ("cerebras", "https://api.cerebras.ai/v1"),
            ("groq", "https://api.groq.com/openai/v1"),
            ("together", "https://api.together.ai/v1"),
            ("openai", "https://api.openai.com/v1"),
        ] {
            let named = ModelInfo { provider: provider.into(), ..model("openai-completions") };
            let reached = ModelInfo { base_url: address.into(), ..model("openai-completions") };
            assert_eq!(Compat::of(&named), Compat::of(&reached), "{provider}");
        }
    }

    #[test]
    fn a_provider_is_known_however_it_is_written() {
        let of = |provider: &str| {
            Compat::of(&ModelInfo { provider: provider.into(), ..model("openai-completions") })
        };
        for (written, usual) in [("Mistral", "mistral"), ("Z.AI", "zai"), ("Ollama", "ollama")] {
            assert_eq!(of(written), of(usual), "{written}");
            assert_ne!(of(written), of("mock"), "{written}");
        }
    }

    #[test]
    fn servers_of_ones_own_get_no_role_that_their_templates_lack() {
        for provider in ["vllm", "lmstudio", "llama.cpp", "mock"] {
            let named = ModelInfo { provider: provider.into(), ..model("openai-completions") };
            let compat = Compat::of(&named);
            assert!(compat.store && !compat.developer, "{provider}");
        }
    }

    #[test]
    fn the_configuration_wins() {
        let mut mistral = ModelInfo { provider: "mistral".into(), ..model("openai-completions") };
        Arc::make_mut(&mut mistral.options).compat = serde_json::from_value(json!({
            "supportsStore": true, "supportsDeveloperRole": true, "supportsUsageInStreaming": false,
            "supportsStrictMode": false, "supportsTemperature": false, "supportsReasoningEffort": false,
            "maxTokensField": "max_completion_tokens", "thinkingFormat": "deepseek",
            "requiresToolResultName": false, "requiresAssistantAfterToolResult": true,
            "requiresThinkingAsText": false, "requiresReasoningContentOnAssistantMessages": true,
            "requiresStringContent": true, "requiresMistralToolIds": false,
        }))
        .unwrap();
        let expected = Compat {
            store: true,
            developer: true,
            usage_in_streaming: false,
            strict: false,
            temperature: false,
            max_tokens: MaxTokensField::Completion,
            thinking: ThinkingFormat::Deepseek,
            effort: false,
            efforts: Efforts::High,
            tool_result_name: false,
            assistant_after_tool_result: true,
            thinking_as_text: false,
            no_thought: Some(""),
            string_content: true,
            cache_marks: false,
            ids: IdStyle::Plain,
        };
        assert_eq!(Compat::of(&mistral), expected);
    }
}
