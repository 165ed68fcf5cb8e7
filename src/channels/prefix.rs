//! What stands before answers in chats: `responsePrefix` of an account, its channel or
//! `messages`.
//!
//! Promises: as in the original; nothing stands before nothing. Must not: stand in a transcript.

use super::replies::ReplyTo;
use super::service::Channels;
use crate::agent::{Answer, Speech};
use crate::store::OutboxAddress;

/// Stands for the name of the agent in brackets.
const AUTO: &str = "auto";
/// Is no answer for people.
const SILENT: &str = "HEARTBEAT_OK";

impl Channels {
    /// The answer, with what stands before it there; `answer` says whose it is.
    pub(super) fn prefixed(
        &self,
        reply: &ReplyTo,
        answer: Option<&Answer>,
        speech: Speech,
    ) -> Speech {
        let agent = reply.key.agent(&self.0.parts.keys.now());
        let text = self.with_prefix(&reply.address, agent.as_str(), answer, speech.text);
        Speech { text, ..speech }
    }

    /// The same of what this agent says in a chat.
    pub(super) fn with_prefix(
        &self,
        address: &OutboxAddress,
        agent: &str,
        answer: Option<&Answer>,
        text: String,
    ) -> String {
        let settings = self.0.parts.settings.now();
        let account = self.account(&address.channel, &address.account);
        let own = account.as_ref().and_then(|account| account.config.response_prefix.as_deref());
        let Some(written) = own.or(settings.messages.response_prefix.as_deref()) else {
            return text;
        };
        let agent = settings.agents.agent(agent);
        let name = agent.and_then(|agent| agent.identity.name.as_deref()).map(str::trim);
        let name = name.filter(|name| !name.is_empty());
        let prefix = if written == AUTO {
            name.map(|name| format!("[{name}]")).unwrap_or_default()
        } else {
            filled(written, name, answer)
        };
        before(&prefix, text)
    }
}

/// The text after the prefix, unless it begins with it already.
fn before(prefix: &str, text: String) -> String {
    let said = text.trim();
    if prefix.is_empty() || said.is_empty() || said == SILENT || text.starts_with(prefix) {
        return text;
    }
    format!("{prefix} {}", text.trim_start_matches('\n'))
}

/// A prefix with its variables filled in; what is not known stays as it is.
fn filled(written: &str, name: Option<&str>, answer: Option<&Answer>) -> String {
    let value = |variable: &str| match variable.to_ascii_lowercase().as_str() {
        "model" => answer.map(|answer| short(&answer.model).to_owned()),
        "modelfull" => answer.map(|answer| format!("{}/{}", answer.provider, answer.model)),
        "provider" => answer.map(|answer| answer.provider.clone()),
        "thinkinglevel" | "think" => answer.map(|answer| answer.thinking.to_owned()),
        "identity.name" | "identityname" => name.map(str::to_owned),
        _ => None,
    };
    let (mut text, mut rest) = (String::new(), written);
    while let Some((plain, after)) = rest.split_once('{') {
        text.push_str(plain);
        let found = after.split_once('}').and_then(|(name, after)| Some((value(name)?, after)));
        if let Some((value, after)) = found {
            text.push_str(&value);
            rest = after;
        } else {
            text.push('{');
            rest = after;
        }
    }
    text + rest
}

/// The name of a model without its provider, its date and `-latest`.
fn short(model: &str) -> &str {
    let model = model.rsplit_once('/').map_or(model, |(_, name)| name);
    let is_date = |text: &str| text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    let dated = model.rsplit_once('-').filter(|(_, date)| is_date(date));
    let model = dated.map_or(model, |(name, _)| name);
    model.strip_suffix("-latest").unwrap_or(model)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::message::Usage;

    #[test]
    fn variables_are_filled_in_as_in_the_original() {
        let answer = Answer {
            stop_reason: "stop",
            provider: "anthropic".into(),
            model: "claude-opus-4-6-20260205".into(),
            context_window: 1,
            thinking: "high",
            used: Usage::default(),
            last: Usage::default(),
        };
        for (written, text) in [
            ("[{model} | think:{thinkingLevel}]", "[claude-opus-4-6 | think:high]"),
            ("{PROVIDER} {modelFull}", "anthropic anthropic/claude-opus-4-6-20260205"),
            ("{identity.name} {identityName} {think}", "Ann Ann high"),
            ("{other} {model", "{other} {model"),
            ("plain", "plain"),
        ] {
            assert_eq!(filled(written, Some("Ann"), Some(&answer)), text);
        }
        assert_eq!(filled("{model} {identity.name}", None, None), "{model} {identity.name}");
        assert_eq!(short("openai/gpt-5.4-latest"), "gpt-5.4");
        assert_eq!(short("gpt-5.4"), "gpt-5.4");
    }

    #[test]
    fn it_stands_once_before_what_is_said_and_never_alone() {
        for (text, whole) in [
            ("hi", "[A] hi"),
            ("\n\nhi", "[A] hi"),
            ("[A] hi", "[A] hi"),
            ("", ""),
            ("HEARTBEAT_OK", "HEARTBEAT_OK"),
        ] {
            assert_eq!(before("[A]", text.to_owned()), whole);
        }
        assert_eq!(before("", "hi".to_owned()), "hi");
    }
}
