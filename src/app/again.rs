//! When a gateway begins again, and with what.
//!
//! Promises: a gateway that works is left only for a configuration with which the next one
//! begins, as far as that is known before; else the restart is given up, and told why. Must
//! not: end anything.

use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::time::{Instant, timeout_at};

use super::{Start, check, listen};
use crate::config::document::ConfigIssue;
use crate::config::{self, ConfigError, Env, Overrides, Settings};
use crate::registry::Services;
use crate::support::{Unfinished, blocking, json, stability};

/// How long a restart waits for what runs, as in the original; then it stops it.
const DEFERRED_MAX: Duration = Duration::from_mins(5);

/// What comes after a gateway, and what is in the files of that one now.
type Next = (Option<Box<Start>>, [u8; 32]);

/// Waits until a restart is wanted that interrupts nothing, and for one that the files allow.
pub(super) async fn next(
    services: &Services,
    signal: &mut Signal,
    start: &Start,
    env: &Env,
) -> Next {
    loop {
        tokio::select! {
            () = services.restart.asked() => {}
            _ = signal.recv() => services.restart.ask(),
        }
        let latest = Instant::now() + DEFERRED_MAX;
        let _ = timeout_at(latest, services.runs.idle()).await;
        // Who asks from here on may have mended what is looked at now: then it is once more.
        services.restart.give_up();
        match Box::pin(load(services, start, env)).await {
            Ok(next) => {
                services.restart.ask();
                // What has begun while that was looked at may end as well.
                let is_cut = timeout_at(latest, services.runs.idle()).await.is_err();
                note(services, is_cut);
                return next;
            }
            Err(issue) => services.reload.give_up(issue).await,
        }
    }
}

/// The configuration as it is now, when a gateway begins with it.
async fn load(services: &Services, start: &Start, env: &Env) -> Result<Next, ConfigIssue> {
    let (around, begun) = (env.clone(), start.clone());
    let (next, seen) = loaded(blocking(move || begun.next(&around)).await)?;
    begins_with(&next.settings, services, env).await?;
    Ok((Some(Box::new(next)), seen))
}

/// Whether a gateway begins with the configuration as it is now.
///
/// # Errors
/// What is wrong with it.
pub(super) async fn begins(
    services: &Services,
    env: &Env,
    overrides: &Overrides,
) -> Result<(), ConfigIssue> {
    let around = env.clone();
    let look = Overrides { read_only: true, ..overrides.clone() };
    let next = loaded(blocking(move || config::load(&around, &look)).await)?;
    begins_with(&next, services, env).await
}

fn loaded<T>(read: Result<Result<T, ConfigError>, Unfinished>) -> Result<T, ConfigIssue> {
    let read = read.map_err(|error| wrong(error.to_string()))?;
    read.map_err(|error| ConfigIssue::from(&error))
}

/// Whether the next gateway begins with these settings.
async fn begins_with(next: &Settings, services: &Services, env: &Env) -> Result<(), ConfigIssue> {
    let now = services.settings.now();
    if next.paths != now.paths {
        let text = "the state directory is another one; stop and start the gateway for that";
        return Err(wrong(text.to_owned()));
    }
    check(next, env).await.map_err(|error| error.issue())?;
    listen::check(next, &now).map_err(|error| error.issue())
}

fn wrong(message: String) -> ConfigIssue {
    ConfigIssue { path: String::new(), message }
}

fn note(services: &Services, is_cut: bool) {
    if is_cut {
        tracing::warn!("restarting though something runs");
    }
    let outcome = if is_cut { "interrupts-work" } else { "idle" };
    stability::note(
        "gateway.restart",
        json!({"outcome": outcome, "uptimeMs": services.uptime_ms()}),
    );
}
