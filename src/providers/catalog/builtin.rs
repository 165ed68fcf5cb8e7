//! Providers and models that we know without configuration.
//!
//! Owns: their names, addresses, limits and prices. The first model of each
//! provider is its default.

use super::model::{Api, InputKind, ModelPrice};

/// A provider that works as soon as its key is in the environment.
pub struct KnownProvider {
    /// Its id.
    pub id: &'static str,
    /// How to talk to it.
    pub api: Api,
    /// Where its API begins.
    pub base_url: &'static str,
    /// Variable that holds its key.
    pub key_variable: &'static str,
    /// Variable that moves its address.
    pub url_variable: Option<&'static str>,
    /// Its models.
    pub models: &'static [KnownModel],
}

/// One of its models. All of them accept text and pictures.
pub struct KnownModel {
    /// The provider's name for it.
    pub id: &'static str,
    /// Name to show.
    pub name: &'static str,
    /// Whether it can think before it answers.
    pub reasoning: bool,
    /// What it costs.
    pub price: ModelPrice,
    /// How many tokens a conversation may have.
    pub context_window: u64,
    /// How many tokens an answer may have.
    pub max_tokens: u64,
}

/// What all of them accept.
pub const INPUT: [InputKind; 2] = [InputKind::Text, InputKind::Image];

const fn price(input: f64, output: f64, cache_read: f64, cache_write: f64) -> ModelPrice {
    ModelPrice { input, output, cache_read, cache_write }
}

const fn model(
    (id, name): (&'static str, &'static str),
    reasoning: bool,
    price: ModelPrice,
    (context_window, max_tokens): (u64, u64),
) -> KnownModel {
    KnownModel { id, name, reasoning, price, context_window, max_tokens }
}

/// In the order in which they are chosen.
pub static PROVIDERS: [KnownProvider; 3] = [
    KnownProvider {
        id: "anthropic",
        api: Api::AnthropicMessages,
        base_url: "https://api.anthropic.com",
        key_variable: "ANTHROPIC_API_KEY",
        url_variable: Some("ANTHROPIC_BASE_URL"),
        models: &[
            model(
                ("claude-opus-4-6", "Claude Opus 4.6"),
                true,
                price(5.0, 25.0, 0.5, 6.25),
                (200_000, 128_000),
            ),
            model(
                ("claude-sonnet-4-6", "Claude Sonnet 4.6"),
                true,
                price(3.0, 15.0, 0.3, 3.75),
                (200_000, 64_000),
            ),
            model(
                ("claude-haiku-4-5", "Claude Haiku 4.5"),
                true,
                price(1.0, 5.0, 0.1, 1.25),
                (200_000, 64_000),
            ),
        ],
    },
    KnownProvider {
        id: "openai",
        api: Api::OpenAiResponses,
        base_url: "https://api.openai.com/v1",
        key_variable: "OPENAI_API_KEY",
        url_variable: Some("OPENAI_BASE_URL"),
        models: &[
            model(("gpt-5.2", "GPT-5.2"), true, price(1.75, 14.0, 0.175, 0.0), (400_000, 128_000)),
            model(
                ("gpt-5-mini", "GPT-5 mini"),
                true,
                price(0.25, 2.0, 0.025, 0.0),
                (400_000, 128_000),
            ),
            model(("gpt-4.1", "GPT-4.1"), false, price(2.0, 8.0, 0.5, 0.0), (1_047_576, 32_768)),
        ],
    },
    KnownProvider {
        id: "google",
        api: Api::GoogleGenerativeAi,
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        key_variable: "GEMINI_API_KEY",
        url_variable: None,
        models: &[
            model(
                ("gemini-2.5-flash", "Gemini 2.5 Flash"),
                true,
                price(0.3, 2.5, 0.03, 0.0),
                (1_048_576, 65_536),
            ),
            model(
                ("gemini-2.5-pro", "Gemini 2.5 Pro"),
                true,
                price(1.25, 10.0, 0.125, 0.0),
                (1_048_576, 65_536),
            ),
        ],
    },
];

/// The provider with this id.
pub fn provider(id: &str) -> Option<&'static KnownProvider> {
    PROVIDERS.iter().find(|known| known.id == id)
}

/// Provider id of the embedded model.
pub const OFFLINE_PROVIDER: &str = "offline";
/// Its name.
pub const OFFLINE_MODEL: &str = "echo-guide";
