//! `web_fetch` and `web_search`.

mod content;
mod fetch;
mod search;

use std::sync::Arc;

use super::Tool;
use crate::agent::web::Tls;
use crate::config::{Env, Settings};
use crate::support::Ids;

pub use fetch::user_agent;

/// Those of them that the configuration wants.
pub fn tools(settings: &Settings, env: &Env, tls: &Arc<Tls>) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    if settings.web.search.enabled {
        tools.push(Arc::new(search::WebSearch::new(settings, env, Arc::clone(tls))));
    }
    if settings.web.fetch.enabled {
        tools.push(Arc::new(fetch::WebFetch::new(&settings.web.fetch, env, Arc::clone(tls))));
    }
    tools
}

/// What marks of untrusted text are known by: nobody outside can guess it.
fn mark_id(ids: &dyn Ids) -> String {
    ids.uuid().chars().filter(|c| *c != '-').take(16).collect()
}
