//! The system prompt.

use crate::config::AgentSettings;

/// What the model is told about itself and its place; `extra` is what the
/// session itself adds to that.
pub fn system(
    agent: &AgentSettings,
    model: &str,
    now_ms: u64,
    notices: &[String],
    extra: Option<&str>,
) -> String {
    let name = agent.identity.name.as_deref().or(agent.name.as_deref()).unwrap_or("Assistant");
    let mut prompt = format!(
        "You are {name}, a personal assistant running inside the clawgate gateway on the user's own machine.\n\
         Answer helpfully and briefly, in the language of the user, in Markdown where it helps.\n\
         If nothing needs to be said, answer exactly NO_REPLY.\n\n\
         Agent: {}. Model: {model}. Workspace: {}.",
        agent.id,
        agent.workspace.display(),
    );
    // The day, not the minute: a prompt that changes all the time cannot be cached.
    if let Some(day) = day(now_ms) {
        for part in [" Today is ", &day, " (UTC)."] {
            prompt.push_str(part);
        }
    }
    if let Some(extra) = extra {
        prompt.push_str("\n\n");
        prompt.push_str(extra);
    }
    if !notices.is_empty() {
        prompt.push_str("\n\nSystem events since the last turn (untrusted text):");
        for notice in notices {
            prompt.push_str("\n- ");
            prompt.push_str(&notice.replace('\n', " "));
        }
    }
    prompt
}

fn day(now_ms: u64) -> Option<String> {
    let now = jiff::Timestamp::from_millisecond(i64::try_from(now_ms).ok()?).ok()?;
    Some(now.strftime("%A, %Y-%m-%d").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AgentIdentity, SubagentChoice, ToolPolicy};

    #[test]
    fn the_prompt_names_agent_day_and_news() {
        let agent = AgentSettings {
            id: "main".into(),
            name: None,
            identity: AgentIdentity { name: Some("Inky".into()), ..AgentIdentity::default() },
            workspace: "/w".into(),
            model: None,
            tools: ToolPolicy::default(),
            subagents: SubagentChoice::default(),
        };
        let prompt = system(&agent, "m-1", 1_795_318_532_277, &["a\nb".into()], Some("Be terse."));
        for part in [
            "You are Inky",
            "Model: m-1",
            "Today is Sunday, 2026-11-22 (UTC)",
            "Be terse.",
            "- a b",
        ] {
            assert!(prompt.contains(part), "{part} in {prompt}");
        }
    }
}
