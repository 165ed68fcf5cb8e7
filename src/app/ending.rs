//! The end of a gateway that runs: the signals that bring it, and its good-bye.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::{AppError, Ended};
use crate::bus::{Audience, Closing, EventKind};
use crate::gateway::Door;
use crate::registry::Services;
use crate::support::{json, millis, stability};

/// How long runs may go on after the gateway was told to stop.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);
/// How long connections may take to be closed, and answers and ends of jobs to be written.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);
/// How long what is being sent to channels may take to its end.
const CHANNELS_LIMIT: Duration = Duration::from_secs(3);
/// When clients may expect a gateway that restarts, as the original says it.
const RESTART_EXPECTED_MS: u64 = 1500;

/// What the process is told. One for all that the gateway does: what comes while one
/// runtime ends and the next one begins is heard by the next who waits.
pub struct Signals {
    pub(super) stop: StopSignals,
    /// SIGUSR1, which restarts it.
    pub(super) restart: Signal,
}

/// SIGINT and SIGTERM, which stop it, and SIGHUP.
pub(super) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    /// The end of its terminal, until it was heard: that may be told more than once, and
    /// only who asks twice is in a hurry.
    hangup: Option<Signal>,
}

impl Signals {
    /// From now on they end the process no more by themselves. For use inside of a
    /// runtime.
    ///
    /// # Errors
    /// When the system does not tell of them.
    pub fn new() -> Result<Self, AppError> {
        let hear = |kind| signal(kind).map_err(AppError::Signals);
        let (interrupt, terminate) =
            (hear(SignalKind::interrupt())?, hear(SignalKind::terminate())?);
        let hangup = is_hangup_news().then(|| hear(SignalKind::hangup())).transpose()?;
        let restart = hear(SignalKind::user_defined1())?;
        Ok(Self { stop: StopSignals { interrupt, terminate, hangup }, restart })
    }

    /// Waits for the next one that stops it.
    pub async fn stop(&mut self) {
        self.stop.next().await;
    }

    /// The restart that begins now is the one that was wanted until now.
    pub fn take_restart(&mut self) {
        let _ = self.restart.recv().now_or_never();
    }
}

impl StopSignals {
    /// Waits for the next one.
    pub(super) async fn next(&mut self) {
        let Self { interrupt, terminate, hangup } = self;
        let hung_up = async {
            match hangup {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hung_up => *hangup = None,
        }
    }
}

/// Whether SIGHUP means anything: `nohup` starts a program that is to hear nothing of it.
/// Where the system does not say so it is left to it.
fn is_hangup_news() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The first bit stands for signal 1.
    ignored.is_some_and(|mask| mask & 1 == 0)
}

/// Notes that the gateway listens, for `diagnostics.stability`.
pub(super) fn note_ready(took: Duration) {
    let phase = json!({"phase": "gateway.ready", "durationMs": millis(took)});
    stability::note("diagnostic.phase.completed", phase);
}

/// Says good-bye, and listens to signals meanwhile.
pub(super) async fn leave(
    ended: Result<Ended, AppError>,
    services: &Services,
    door: &Door,
    listener: &AbortHandle,
    signals: &mut StopSignals,
) -> Result<Ended, AppError> {
    let restarts = matches!(ended, Ok(Ended::Restarts));
    let good_bye = Box::pin(stop(services, door, listener, restarts));
    unless_told(ended, good_bye, async || signals.next().await).await
}

/// Waits for the end of `good_bye`. Whoever tells a restart to stop makes a stop of it,
/// and whoever tells a stop to stop has nothing waited for.
async fn unless_told(
    mut ended: Result<Ended, AppError>,
    mut good_bye: impl Future<Output = ()> + Unpin,
    mut told: impl AsyncFnMut(),
) -> Result<Ended, AppError> {
    loop {
        tokio::select! {
            () = &mut good_bye => return ended,
            () = told() => {}
        }
        match ended {
            Ok(Ended::Restarts) => ended = Ok(Ended::Stopped),
            ended => {
                tracing::warn!("stopped at once");
                return ended.map(|_| Ended::StoppedAtOnce);
            }
        }
    }
}

/// Says good-bye: event, drain, close.
async fn stop(services: &Services, door: &Door, listener: &AbortHandle, restarts: bool) {
    let payload = if restarts {
        json!({"reason": "gateway restarting", "restartExpectedMs": RESTART_EXPECTED_MS})
    } else {
        json!({"reason": "gateway stopping", "restartExpectedMs": null})
    };
    services.bus.publish(EventKind::Shutdown, &Audience::Everyone, &payload);
    let parts = services.runs.parts();
    parts.cron.stop();
    services.runs.drain(DRAIN_LIMIT).await;
    let channels = async {
        // What was said last goes out.
        parts.channels.drain(CHANNELS_LIMIT).await;
        parts.channels.end();
    };
    tokio::join!(channels, parts.processes.end_all(), parts.tools.mcp().stop());
    door.close(Closing { code: 1012, reason: "service restart".into(), drains: true });
    // What is being answered by HTTP is answered to its end then.
    listener.abort();
    let all_gone = async {
        while !door.have_all_gone() || parts.cron.running() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let _ = timeout(CLOSE_LIMIT, all_gone).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How it ends when so many signals come before its good-bye is over.
    async fn after(ended: Ended, mut signals: u32) -> Ended {
        let told = async || {
            if signals == 0 {
                std::future::pending::<()>().await;
            }
            signals -= 1;
        };
        let good_bye = Box::pin(tokio::time::sleep(DRAIN_LIMIT));
        unless_told(Ok(ended), good_bye, told).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_signal_makes_a_restart_a_stop_and_a_stop_one_that_waits_for_nothing() {
        use Ended::{Restarts, Stopped, StoppedAtOnce};
        assert_eq!(after(Restarts, 0).await, Restarts);
        assert_eq!(after(Restarts, 1).await, Stopped);
        assert_eq!(after(Restarts, 2).await, StoppedAtOnce);
        assert_eq!(after(Stopped, 0).await, Stopped);
        assert_eq!(after(Stopped, 1).await, StoppedAtOnce);
    }
}
