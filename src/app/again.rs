//! When a gateway begins again, and with what.
//!
//! Promises: a gateway that works is left only for a configuration with which the next one
//! begins, as far as that is known before; else the restart is given up, and told why; what
//! was wanted for a change that is taken back does not come. Must not: end anything.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::time::{Instant, timeout_at};

use super::{Start, check_beside, listen, periodic};
use crate::config::document::ConfigIssue;
use crate::config::{self, ConfigError, Env, Overrides, Settings};
use crate::registry::{Cause, Restart, Services};
use crate::support::{Unfinished, blocking, json, stability};

/// How long a restart waits for what runs, as in the original; then it stops it.
const DEFERRED_MAX: Duration = Duration::from_mins(5);

/// What comes after a gateway, and what is in the files of that one now.
type Next = (Option<Box<Start>>, [u8; 32]);

/// Waits until a restart is wanted that interrupts nothing, and for one that the files allow.
pub(super) async fn next(
    services: &Arc<Services>,
    signal: &mut Signal,
    start: &Start,
    env: &Env,
) -> Next {
    let restart = &services.restart;
    loop {
        hearing(restart, signal, restart.asked()).await;
        note_wait(services);
        let latest = Instant::now() + DEFERRED_MAX;
        if has_idled(restart, signal, services.runs.idle(), latest).await.is_none() {
            continue;
        }
        // Who asks from here on may have mended what is looked at now: then it is once more.
        let suspended = restart.suspend();
        match hearing(restart, signal, Box::pin(load(services, start, env))).await {
            Ok(next) if restart.resume(suspended) => {
                // What has begun while that was looked at may end as well.
                let idle = services.runs.idle();
                let Some(has_idled) = has_idled(restart, signal, idle, latest).await else {
                    continue;
                };
                note(services, !has_idled);
                return next;
            }
            // Nothing was due when the change was taken back, so nobody has heard of that.
            Ok(_) if restart.promised().is_none() => periodic::tell_not_needed(services),
            Ok(_) => {}
            Err(issue) => services.reload.give_up(issue).await,
        }
    }
}

/// Waits until nothing runs, at most until `latest`; whether that came. `None` when no restart
/// is wanted any more.
async fn has_idled(
    restart: &Restart,
    signal: &mut Signal,
    idle: impl Future<Output = ()>,
    latest: Instant,
) -> Option<bool> {
    let waited = async {
        tokio::select! {
            biased;
            () = restart.withdrawn() => None,
            idled = timeout_at(latest, idle) => Some(idled.is_ok()),
        }
    };
    hearing(restart, signal, waited).await
}

/// What comes of `work`. A signal that comes meanwhile is a wish like any other.
async fn hearing<T>(restart: &Restart, signal: &mut Signal, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            _ = signal.recv() => {
                tracing::info!("a signal asks for a restart");
                restart.ask(Cause::Wish);
            }
            done = &mut work => return done,
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
    check_beside(next, Some(&*now), env).await.map_err(|error| error.issue())?;
    listen::check(next, &now).map_err(|error| error.issue())
}

fn wrong(message: String) -> ConfigIssue {
    ConfigIssue { path: String::new(), message }
}

/// Says what a restart waits for, if it does.
fn note_wait(services: &Services) {
    let work = services.runs.work();
    if work.total() > 0 {
        tracing::info!(
            runs = work.runs,
            queued = work.queued,
            commands = work.tasks,
            "the restart waits until nothing runs, for {} minutes at most",
            DEFERRED_MAX.as_secs() / 60
        );
    }
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

#[cfg(test)]
mod tests {
    use std::future::pending;

    use rustix::process::{Signal as Number, getpid, kill_process};
    use tokio::signal::unix::{SignalKind, signal};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_wish_while_runs_are_waited_for_outlives_a_change_that_is_taken_back() {
        let (restart, moment) = (Restart::default(), Duration::from_millis(20));
        let mut heard = signal(SignalKind::user_defined2()).unwrap();
        kill_process(getpid(), Number::USR2).unwrap();
        let mut tries = 0;
        loop {
            restart.ask(Cause::Change);
            let latest = Instant::now() + moment;
            let waited = has_idled(&restart, &mut heard, pending(), latest).await;
            assert_eq!(waited, Some(false));
            if !restart.cancel_change() {
                break;
            }
            tries += 1;
            assert!(tries < 1000, "nobody hears the signal");
        }
        timeout(moment, restart.asked()).await.unwrap();
    }
}
