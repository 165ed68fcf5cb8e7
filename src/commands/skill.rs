//! `/skill <name> [words]`, `/<name> [words]`: a skill is put to use.

use std::sync::LazyLock;

use serde_json::Value;

use super::{Command, Meaning, directives, refusal, stop_words, table, unoffered};
use crate::agent::RunsParts;
use crate::agent::skills::{Invocation, SkillCommand};
use crate::config::AgentSettings;
use crate::registry::Ctx;
use crate::sessions::SessionKey;
use crate::support::json;

/// Words that stand for something else already, without their slash.
static RESERVED: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let own = table::COMMANDS.iter().flat_map(|spec| spec.aliases).copied();
    let words = own.chain(unoffered::names()).chain(stop_words::STOP_WORDS);
    words.map(|word| word.trim_start_matches('/')).collect()
});

/// The commands of an agent's skills.
pub async fn commands(cx: &Ctx, agent: AgentSettings) -> Vec<SkillCommand> {
    cx.services.runs.parts().skills.commands(agent, &RESERVED).await
}

/// Whether a message names a skill, be it one that there is not.
pub async fn is_named(message: &str, parts: &RunsParts, key: &SessionKey) -> bool {
    parts.skills.invoke(parts.agent_of(key), &RESERVED, message).await.is_some()
}

/// What a message is for that names a skill; `None` when it names none.
pub async fn meaning(message: &str, cx: &Ctx, key: &SessionKey) -> Option<Meaning> {
    let parts = cx.services.runs.parts();
    let agent = parts.agent_of(key);
    Some(match parts.skills.invoke(agent.clone(), &RESERVED, message).await? {
        Invocation::Message(text) => match directives::thinking(&text) {
            Some((level, text)) => Meaning::Plain(text, Some(level)),
            None => Meaning::Plain(text, None),
        },
        Invocation::Tool { tool, arguments } => {
            Meaning::Command(Command::Tool { name: tool, arguments })
        }
        Invocation::Unknown(name) => {
            Meaning::Command(Command::Said(unknown(&name, &commands(cx, agent).await)))
        }
    })
}

fn unknown(name: &str, known: &[SkillCommand]) -> String {
    let names: Vec<_> = known.iter().map(|command| command.skill.as_str()).collect();
    let known = if names.is_empty() { "there are none".into() } else { names.join(", ") };
    format!("⚠️ No skill is called \"{name}\". Skills: {known}.")
}

/// Calls the tool that a skill names, as the sender himself could.
pub async fn call(name: &str, arguments: &Value, cx: &Ctx, key: &SessionKey) -> String {
    let params = json!({"name": name, "args": arguments, "sessionKey": key.as_str()});
    let done = match cx.call("tools.invoke", &params).await {
        Ok(done) => done,
        Err(error) => return refusal(cx, &format!("/skill: {name}"), &error),
    };
    if done["ok"] != true {
        return format!("⚠️ {name}: {}", done["error"]["message"].as_str().unwrap_or_default());
    }
    let blocks = done["output"]["content"].as_array().into_iter().flatten();
    let texts: Vec<_> = blocks.filter_map(|block| block["text"].as_str()).collect();
    match texts.join("\n").trim() {
        "" => format!("✅ {name}: done."),
        text => text.to_owned(),
    }
}
