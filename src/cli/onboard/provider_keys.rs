//! The flags for keys, one for each provider, as OpenClaw has them.
//!
//! Not derived from fields: a table is much less code than one field for each provider.

use clap::{Arg, ArgGroup, ArgMatches, Args, Command, Error, FromArgMatches, value_parser};

use crate::support::Secret;

/// Ids of providers, the flags for their keys, and what --help says of these.
const KEYS: [(&str, &str, &str); 15] = [
    ("anthropic", "anthropic-api-key", "Key for Anthropic"),
    ("openai", "openai-api-key", "Key for OpenAI"),
    ("google", "gemini-api-key", "Key for Google"),
    ("openrouter", "openrouter-api-key", "Key for OpenRouter"),
    ("xai", "xai-api-key", "Key for xAI"),
    ("mistral", "mistral-api-key", "Key for Mistral"),
    ("deepseek", "deepseek-api-key", "Key for DeepSeek"),
    ("groq", "groq-api-key", "Key for Groq"),
    ("cerebras", "cerebras-api-key", "Key for Cerebras"),
    ("zai", "zai-api-key", "Key for Z.AI"),
    ("moonshot", "moonshot-api-key", "Key for Moonshot"),
    ("minimax", "minimax-api-key", "Key for MiniMax"),
    ("together", "together-api-key", "Key for Together"),
    ("fireworks", "fireworks-api-key", "Key for Fireworks"),
    ("xiaomi", "xiaomi-api-key", "Key for Xiaomi"),
];

/// Keys of providers by their ids. `-` is read from stdin, where other users cannot see it.
#[derive(Debug, Clone, Default)]
pub struct KeyArgs(Vec<(&'static str, Secret)>);

impl KeyArgs {
    /// The keys that were given, by the id of their provider.
    pub fn given(&self) -> Vec<(&'static str, &Secret)> {
        self.0.iter().map(|(id, key)| (*id, key)).collect()
    }
}

impl Args for KeyArgs {
    fn augment_args(command: Command) -> Command {
        let flags = KEYS.iter().map(|&(_, flag, help)| {
            let arg = Arg::new(flag).long(flag).help(help);
            arg.value_name("KEY").value_parser(value_parser!(Secret))
        });
        let group = ArgGroup::new("KeyArgs").multiple(true);
        let group = group.args(KEYS.iter().map(|&(_, flag, _)| flag));
        let command = command.next_help_heading("Keys (`-` reads one from stdin)");
        command.group(group).args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for KeyArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let keys = KEYS.iter().filter_map(|&(id, flag, _)| {
            let key = matches.get_one::<Secret>(flag)?;
            Some((id, key.clone()))
        });
        Ok(Self(keys.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
