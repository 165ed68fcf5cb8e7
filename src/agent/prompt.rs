//! The system prompt.

use crate::config::AgentSettings;

/// What the model is told about itself and its place.
pub fn system(agent: &AgentSettings, model: &str, notices: &[String]) -> String {
    let name = agent.identity.name.as_deref().or(agent.name.as_deref()).unwrap_or("Assistant");
    let mut prompt = format!(
        "You are {name}, a personal assistant running inside the clawgate gateway on the user's own machine.\n\
         Answer helpfully and briefly, in the language of the user, in Markdown where it helps.\n\
         If nothing needs to be said, answer exactly NO_REPLY.\n\n\
         Agent: {}. Model: {model}. Workspace: {}.",
        agent.id,
        agent.workspace.display(),
    );
    if !notices.is_empty() {
        prompt.push_str("\n\nSystem events since the last turn (untrusted text):");
        for notice in notices {
            prompt.push_str("\n- ");
            prompt.push_str(&notice.replace('\n', " "));
        }
    }
    prompt
}
