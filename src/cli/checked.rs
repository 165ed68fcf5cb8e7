//! Whether a gateway would start with what a command is about to write.

use super::one_thread;
use crate::app;
use crate::config::document::ConfigIssue;
use crate::config::{self, Env, Overrides};

/// The check of `config validate`, for a text in the place of the file's, which may not name
/// a model that there is not. A file that does not pass as it is can be mended step by step.
pub fn would_work(env: &Env) -> impl Fn(&str) -> Result<(), ConfigIssue> + Send + Sync + use<> {
    let env = env.clone();
    move |text| {
        let failed =
            |error: anyhow::Error| ConfigIssue { path: String::new(), message: error.to_string() };
        let runtime = one_thread().map_err(failed)?;
        let wrong = runtime.block_on(app::check_text(text, &env));
        if wrong.is_ok() || runtime.block_on(is_well(&env)) { wrong } else { Ok(()) }
    }
}

/// Whether a gateway starts with the file as it is, and has every model that it names.
async fn is_well(env: &Env) -> bool {
    let settings = config::load(env, &Overrides { read_only: true, ..Overrides::default() });
    match settings {
        Ok(settings) => app::check(&settings, env).await.is_ok_and(|missing| missing.is_empty()),
        Err(_) => false,
    }
}
