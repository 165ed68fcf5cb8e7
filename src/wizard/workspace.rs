//! Where the agent works, and what it is called.

use serde_json::Value;

use super::asker::Stopped;
use super::draft::{Draft, blocking};
use super::talk::{Line, Talk};
use crate::agent::roster::check_workspace;
use crate::agent::workspace::set_up;
use crate::config::agent_id;
use crate::support::{json, with_cause};

/// Longest name of an agent; it stands in lists.
const NAME_MAX: usize = 60;

/// Asks for folder and name. `given` is a folder that is wanted.
///
/// # Errors
/// When nobody answers any more.
pub async fn choose(
    talk: &mut Talk<'_>,
    draft: &mut Draft,
    given: Option<&str>,
) -> Result<(), Stopped> {
    let current = draft.settings.agents.defaults.workspace.clone();
    let shown = current.display().to_string();
    let line = Line::checked(check_folder(draft)).initial(given.unwrap_or(&shown));
    let question = "The folder that the agent works in; its files are made there";
    let folder = talk.text("workspace", question, line).await?;
    let wanted = draft.settings.paths.expand(&folder);
    if wanted.map_err(|error| Stopped::Failed(error.to_string()))? != current {
        draft.set(vec![(vec!["agents", "defaults", "workspace"], json!(folder))]).await?;
    }
    let agents = &draft.settings.agents;
    let id = agents.default_id.clone();
    let own = agents.agent(&id).and_then(|agent| agent.identity.name.clone());
    let line = Line { initial: own.clone(), ..Line::checked(check_name) };
    let question = "The agent's name; nothing to let it find one in its first conversation";
    let name = talk.text("agentName", question, line).await?;
    if !name.is_empty() && own.as_deref() != Some(&name) {
        let change = move |config: &Value| {
            let entry = json!({"id": written_id(config, &id), "identity": {"name": name}});
            json!({"agents": {"list": [entry]}})
        };
        draft.change(change).await?;
    }
    Ok(())
}

/// The id as it stands in the file, so that its entry is found.
fn written_id(config: &Value, id: &str) -> String {
    let items = config["agents"]["list"].as_array();
    let ids = items.into_iter().flatten().filter_map(|item| item.get("id")?.as_str());
    let same = |written: &&str| agent_id(written) == id;
    ids.into_iter().find(same).unwrap_or(id).to_owned()
}

/// Makes the folder and its files. What else was chosen `is_written` by then, or as it was.
///
/// # Errors
/// When that cannot be.
pub async fn make(draft: &Draft, is_written: bool) -> Result<(), Stopped> {
    let (settings, clock) = (draft.settings.workspace.clone(), draft.clock.clone());
    let agents = &draft.settings.agents;
    let dir = agents.agent_or_default(&agents.default_id).workspace;
    let made = blocking(move || set_up(&dir, &settings, clock.now_ms()));
    let rest = if is_written { "; all else that was chosen is written" } else { "" };
    made.await?.map_err(|error| {
        Stopped::Failed(format!("the workspace is not made: {}{rest}", with_cause(&error)))
    })
}

/// Whether an agent may work there. The folder that is configured stays, as everywhere.
fn check_folder(draft: &Draft) -> impl Fn(&str) -> Result<(), String> + Send + Sync + use<> {
    let (paths, env) = (draft.settings.paths.clone(), draft.env.clone());
    let current = draft.settings.agents.defaults.workspace.clone();
    move |text| {
        if !(text.starts_with('/') || text == "~" || text.starts_with("~/")) {
            return Err("give a path that begins with / or ~/".into());
        }
        let dir = paths.expand(text).map_err(|error| error.to_string())?;
        if dir == current {
            return Ok(());
        }
        check_workspace(&dir, &paths, &env).map_err(|error| error.to_string())
    }
}

fn check_name(text: &str) -> Result<(), String> {
    if text.chars().nth(NAME_MAX).is_some() {
        Err(format!("give at most {NAME_MAX} characters"))
    } else {
        Ok(())
    }
}
