//! `/clear`: the agent forgets what it wrote down.

use std::sync::Arc;

use crate::agent::memory;
use crate::agent::reach::Reach;
use crate::protocol::ErrorShape;
use crate::registry::{Ctx, Reply};
use crate::sessions::SessionKey;
use crate::support::blocking;

/// Who may call this may change the files of an agent.
const METHOD: &str = "agents.files.set";

/// Moves the files that are memory to the trash of the gateway's user.
pub async fn clear(cx: &Ctx, session: Option<&SessionKey>) -> Reply<String> {
    cx.check(METHOD)?;
    let settings = cx.services.settings.now();
    let keys = cx.services.keys.now();
    let id = session.map_or_else(|| keys.default_agent.clone(), |key| key.agent(&keys));
    let agent = settings.agents.agent_or_default(id.as_str());
    let reach = Reach::new(&settings, &agent, true);
    let now_ms = cx.now_ms();
    let settings = Arc::clone(&settings);
    let work = move || memory::clear(&reach, settings.paths.home(), now_ms);
    let cleared = blocking(work).await?;
    let count = cleared.map_err(|error| ErrorShape::unavailable(error.to_string()))?;
    Ok(format!("Memory cleared ({count} files removed)."))
}
