//! The flags for keys, one for each provider, as OpenClaw has them.

use clap::Args;

use crate::support::Secret;

/// Keys of providers. `-` is read from stdin, where other users cannot see it.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Keys (`-` reads one from stdin)")]
// The names are those of the flags, the docs what --help says.
#[allow(clippy::struct_field_names, clippy::doc_markdown)]
pub struct KeyArgs {
    /// Key for Anthropic
    #[arg(long, value_name = "KEY")]
    anthropic_api_key: Option<Secret>,
    /// Key for OpenAI
    #[arg(long, value_name = "KEY")]
    openai_api_key: Option<Secret>,
    /// Key for Google
    #[arg(long, value_name = "KEY")]
    gemini_api_key: Option<Secret>,
    /// Key for OpenRouter
    #[arg(long, value_name = "KEY")]
    openrouter_api_key: Option<Secret>,
    /// Key for xAI
    #[arg(long, value_name = "KEY")]
    xai_api_key: Option<Secret>,
    /// Key for Mistral
    #[arg(long, value_name = "KEY")]
    mistral_api_key: Option<Secret>,
    /// Key for DeepSeek
    #[arg(long, value_name = "KEY")]
    deepseek_api_key: Option<Secret>,
    /// Key for Groq
    #[arg(long, value_name = "KEY")]
    groq_api_key: Option<Secret>,
    /// Key for Cerebras
    #[arg(long, value_name = "KEY")]
    cerebras_api_key: Option<Secret>,
    /// Key for Z.AI
    #[arg(long, value_name = "KEY")]
    zai_api_key: Option<Secret>,
    /// Key for Moonshot
    #[arg(long, value_name = "KEY")]
    moonshot_api_key: Option<Secret>,
    /// Key for MiniMax
    #[arg(long, value_name = "KEY")]
    minimax_api_key: Option<Secret>,
    /// Key for Together
    #[arg(long, value_name = "KEY")]
    together_api_key: Option<Secret>,
    /// Key for Fireworks
    #[arg(long, value_name = "KEY")]
    fireworks_api_key: Option<Secret>,
    /// Key for Xiaomi
    #[arg(long, value_name = "KEY")]
    xiaomi_api_key: Option<Secret>,
}

impl KeyArgs {
    /// The keys that were given, by the id of their provider.
    pub fn given(&self) -> Vec<(&'static str, &Secret)> {
        let all = [
            ("anthropic", &self.anthropic_api_key),
            ("openai", &self.openai_api_key),
            ("google", &self.gemini_api_key),
            ("openrouter", &self.openrouter_api_key),
            ("xai", &self.xai_api_key),
            ("mistral", &self.mistral_api_key),
            ("deepseek", &self.deepseek_api_key),
            ("groq", &self.groq_api_key),
            ("cerebras", &self.cerebras_api_key),
            ("zai", &self.zai_api_key),
            ("moonshot", &self.moonshot_api_key),
            ("minimax", &self.minimax_api_key),
            ("together", &self.together_api_key),
            ("fireworks", &self.fireworks_api_key),
            ("xiaomi", &self.xiaomi_api_key),
        ];
        all.into_iter().filter_map(|(id, key)| Some((id, key.as_ref()?))).collect()
    }
}
