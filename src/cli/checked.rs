//! Whether a gateway would start with what a command is about to write.

use super::{block_on, one_thread};
use crate::app;
use crate::config::document::ConfigIssue;
use crate::config::{self, Env, Overrides};
use crate::providers::MissingModel;

/// The check of `config validate`, for a text in the place of the file's, which may name no
/// model that there is not but those that the file names as it is. A file that no gateway
/// starts with can be mended step by step.
pub fn would_work(env: &Env) -> impl Fn(&str) -> Result<(), ConfigIssue> + Send + Sync + use<> {
    let env = env.clone();
    move |text| {
        let failed =
            |error: anyhow::Error| ConfigIssue { path: String::new(), message: error.to_string() };
        let runtime = one_thread().map_err(failed)?;
        let found = block_on(&runtime, app::check_text(text, &env));
        if found.as_ref().is_ok_and(Vec::is_empty) {
            return Ok(());
        }
        let Some(known) = block_on(&runtime, known(&env)) else { return Ok(()) };
        MissingModel::begun(found?, &known).map_or(Ok(()), |missing| Err(missing.into()))
    }
}

/// The models that the file as it is names in vain; `None` when no gateway starts with it.
async fn known(env: &Env) -> Option<Vec<MissingModel>> {
    let look = Overrides { read_only: true, ..Overrides::default() };
    let settings = config::load(env, &look).ok()?;
    app::check(&settings, env).await.ok()
}
