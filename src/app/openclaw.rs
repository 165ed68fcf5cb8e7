//! What an OpenClaw left that had this state directory, and whether it has run here since.
//!
//! Owns: when the sessions that its config keeps elsewhere are taken over, and who is
//! told of files that are others by now. Promises: its files are only read, and what
//! has changed in them is taken over when somebody wants it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::AppError;
use crate::config::Settings;
use crate::cron::unreadable_list;
use crate::registry::Services;
use crate::sessions::import::{Import, Indexes, changed_sources};
use crate::sessions::{AgentId, KeyRules};
use crate::store::{SourceNote, Store};
use crate::support::{blocking, in_shell, trouble};

/// Files that are named; more tell nothing new.
const NAMED: usize = 5;
/// What `health` calls it.
const PART: &str = "openclaw";

/// Where the OpenClaw with these settings has its sessions.
pub fn indexes(settings: &Settings) -> Indexes {
    let named = settings.session.openclaw_store.as_deref();
    let named = named.and_then(|text| settings.paths.expand(text.trim()).ok());
    let default = AgentId::normalize(&settings.agents.default_id);
    let listed = settings.agents.list.iter().map(|agent| AgentId::normalize(&agent.id));
    let others: Vec<_> = listed.filter(|agent| *agent != default).collect();
    let agents = [vec![default], others].concat();
    Indexes { state_dir: settings.paths.state_dir.clone(), named, agents }
}

/// How the indexes are before anything of them is read; `None` when that was before.
///
/// # Errors
/// When our own index fails.
pub(super) async fn first_look(
    settings: &Settings,
    store: &Arc<dyn Store>,
) -> Result<Option<Vec<SourceNote>>, AppError> {
    let indexes = indexes(settings);
    if indexes.are_noted(&store.sources().await?) {
        return Ok(None);
    }
    Ok(blocking(move || indexes.notes()).await.ok())
}

/// Takes over the sessions that `session.store` keeps elsewhere, and notes how the indexes
/// were at the first look.
///
/// # Errors
/// When our own index or disk fails.
pub(super) async fn arrive(
    settings: &Settings,
    store: &Arc<dyn Store>,
    rules: &KeyRules,
    mut first: Vec<SourceNote>,
) -> Result<(), AppError> {
    let indexes = indexes(settings);
    let looked = indexes.clone();
    let further = blocking(move || looked.further()).await.unwrap_or_default();
    let mut seen = Vec::new();
    if !further.is_empty() {
        let import = Import {
            from: indexes.state_dir.clone(),
            to: indexes.state_dir.clone(),
            rules: rules.clone(),
            store: Some(Arc::clone(store)),
            further,
            removed: BTreeMap::new(),
            is_dry: false,
        };
        let report = Box::pin(import.run_further()).await?;
        for one in report.all_left_out() {
            tracing::warn!(what = %one.what, why = %one.why, "left out of session.store, or changed");
        }
        let sessions: u64 = report.agents.iter().map(|agent| agent.sessions).sum();
        tracing::info!(sessions, "took over the sessions that session.store names");
        first.extend(report.brought);
        seen = report.seen;
    }
    Ok(indexes.note(&**store, seen, first).await?)
}

/// Tells of files that are others than those that were taken over, never were, or cannot be
/// read.
pub(super) async fn look(services: Arc<Services>) {
    let settings = services.settings.now();
    let indexes = indexes(&settings);
    let notes = match services.runs.parts().store.sources().await {
        Ok(notes) => notes,
        Err(error) => return tracing::warn!(%error, "files of OpenClaw not looked at"),
    };
    let told = blocking(move || {
        if let Some(old) = old_state(&settings) {
            let old = old.display();
            tracing::warn!(
                "{old} is of an OpenClaw of 2025 and not read here, where there is no config yet; \
                 let `openclaw doctor --fix` bring it up to date, then `clawgate import`"
            );
        }
        not_taken_over(&indexes, &notes)
            .or_else(|| indexes.unreadable().into_iter().next())
            .or_else(|| unreadable_list(&settings, &notes))
    });
    let told = told.await.ok().flatten();
    if let Some((what, help)) = &told {
        tracing::warn!("{what}; {help}");
    }
    trouble::tell(PART, told.map(|(what, help)| format!("{what}; {help}")));
}

/// What an OpenClaw of 2025 left in the home of who has nothing newer. Blocks.
fn old_state(settings: &Settings) -> Option<PathBuf> {
    let home = settings.paths.home()?;
    let is_new = !settings.file.exists && settings.paths.state_dir == home.join(".openclaw");
    Some(home.join(".clawdbot")).filter(|old| is_new && old.is_dir())
}

/// What is told of files that are others by now, or that the config names only since, and
/// what helps; `None` when there are none. Blocks.
pub fn not_taken_over(indexes: &Indexes, notes: &[SourceNote]) -> Option<(String, String)> {
    let state_dir = indexes.state_dir.as_path();
    let told = [
        (
            "OpenClaw has run on this state directory since it was taken over",
            changed_sources(state_dir, notes),
        ),
        ("session.store names what was not taken over", indexes.passed_over(notes)),
    ];
    let told = told.iter().filter(|(_, paths)| !paths.is_empty());
    let told: Vec<_> =
        told.map(|(what, paths)| format!("{what}: {}", named(state_dir, paths))).collect();
    let help = format!(
        "stop the gateway and run `clawgate import --from {}`, which adds what is missing here",
        in_shell(state_dir)
    );
    (!told.is_empty()).then(|| (told.join("; "), help))
}

fn named(state_dir: &Path, paths: &[PathBuf]) -> String {
    let names = paths.iter().take(NAMED);
    let names =
        names.map(|path| path.strip_prefix(state_dir).unwrap_or(path).display().to_string());
    let mut names = names.collect::<Vec<_>>().join(", ");
    if paths.len() > NAMED {
        names.push_str(", and more");
    }
    names
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::{Env, Overrides, load};

    #[test]
    fn what_is_left_of_2025_is_found_in_the_home_of_who_has_nothing_newer() {
        let home = tempfile::tempdir().unwrap();
        let (old, state) = (home.path().join(".clawdbot"), home.path().join(".openclaw"));
        let found = || {
            let looking = Overrides { read_only: true, ..Overrides::default() };
            old_state(&load(&Env::fixed([], home.path()), &looking).unwrap())
        };
        assert_eq!(found(), None);
        fs::create_dir(&old).unwrap();
        fs::create_dir(&state).unwrap();
        assert_eq!(found(), Some(old));
        fs::write(state.join("openclaw.json"), "{}").unwrap();
        assert_eq!(found(), None);
    }
}
