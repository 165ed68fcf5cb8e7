//! In what the servers that speak this API differ.
//!
//! Owns: the list of differences. Everything that is not listed behaves like
//! `OpenAI` itself.

use super::super::ModelInfo;

/// How a server wants to be told to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingStyle {
    /// `reasoning_effort: "low"`.
    Effort,
    /// `reasoning: {effort: "low"}`.
    Nested,
    /// `enable_thinking: true`.
    Switch,
    /// Not at all.
    None,
}

/// What a server understands.
#[derive(Debug, Clone, Copy)]
pub struct Compat {
    /// `store`, and the role `developer`.
    pub openai_fields: bool,
    /// `strict` in tools.
    pub strict: bool,
    /// Name of the field with the token limit.
    pub max_tokens: &'static str,
    /// How to ask for thought.
    pub thinking: ThinkingStyle,
    /// Marks for the prompt cache in messages.
    pub cache_marks: bool,
    /// Makes an id of a call acceptable.
    pub tool_id: fn(&str) -> String,
}

impl Compat {
    /// What the server of `model` understands.
    pub fn of(model: &ModelInfo) -> Self {
        let is = |ids: &[&str], hosts: &[&str]| {
            ids.contains(&model.provider.as_str())
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
        let others = is(
            &["cerebras", "deepseek", "opencode"],
            &["cerebras.ai", "deepseek.com", "opencode.ai"],
        );
        let thinking = if zai || is(&["qwen", "dashscope"], &["dashscope"]) {
            ThinkingStyle::Switch
        } else if xai {
            ThinkingStyle::None
        } else if openrouter {
            ThinkingStyle::Nested
        } else {
            ThinkingStyle::Effort
        };
        Self {
            openai_fields: !(mistral || chutes || xai || zai || google || ollama || others),
            strict: !google,
            max_tokens: if mistral || chutes || ollama {
                "max_tokens"
            } else {
                "max_completion_tokens"
            },
            thinking,
            cache_marks: openrouter && model.id.starts_with("anthropic/"),
            tool_id: if mistral {
                mistral_id
            } else if is(&["openai"], &["api.openai.com"]) {
                openai_id
            } else {
                plain_id
            },
        }
    }
}

const MAX_ID: usize = 40;
const MISTRAL_ID: usize = 9;

/// Ids of the Responses API are `call|item`; only the first half is a call.
fn plain_id(id: &str) -> String {
    match id.split_once('|') {
        Some((call, _)) => {
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            call.chars().map(|c| if fits(c) { c } else { '_' }).take(MAX_ID).collect()
        }
        None => id.to_owned(),
    }
}

fn openai_id(id: &str) -> String {
    plain_id(id).chars().take(MAX_ID).collect()
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

    #[test]
    fn ids_fit_each_server() {
        let long = "c".repeat(60);
        assert_eq!(plain_id("call.1|fc_2"), "call_1");
        assert_eq!(plain_id(&long), long);
        assert_eq!(openai_id(&long), "c".repeat(40));
        assert_eq!(mistral_id("call_1"), "call1ABCD");
        assert_eq!(mistral_id("call_123456789"), "call12345");
        assert_eq!(mistral_id("|"), "ABCDEFGHI");
    }
}
