//! The end of a gateway that runs: what brings it, and its good-bye.

use std::time::Duration;

use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use super::AppError;
use crate::bus::{Audience, Closing, EventKind, Hub};
use crate::registry::Services;
use crate::support::{millis, stability};

/// How long runs may go on after the gateway was told to stop.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);
/// How long a restart waits for what runs, as in the original; then it stops it.
const DEFERRED_MAX: Duration = Duration::from_mins(5);
/// How long connections may take to be closed.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);
/// How long what is being sent to channels may take to its end.
const CHANNELS_LIMIT: Duration = Duration::from_secs(3);
/// When clients may expect a gateway that restarts, as the original says it.
const RESTART_EXPECTED_MS: u64 = 1500;

/// SIGINT and SIGTERM, which stop it. One for all that the gateway does: what comes
/// while one runtime ends and the next one begins is heard by the next who waits.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From now on they end the process no more by themselves. For use inside of a
    /// runtime.
    ///
    /// # Errors
    /// When the system does not tell of them.
    pub fn new() -> Result<Self, AppError> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(AppError::Signals)?,
            terminate: signal(SignalKind::terminate()).map_err(AppError::Signals)?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// SIGUSR1, which restarts it.
pub(super) fn restart_signal() -> Result<Signal, AppError> {
    signal(SignalKind::user_defined1()).map_err(AppError::Signals)
}

/// Waits until a restart is wanted, and then until it interrupts nothing.
pub(super) async fn restart(services: &Services, signal: &mut Signal) {
    tokio::select! {
        () = services.restart.asked() => {}
        _ = signal.recv() => services.restart.ask(),
    }
    let is_cut = timeout(DEFERRED_MAX, services.runs.idle()).await.is_err();
    if is_cut {
        tracing::warn!("restarting though something runs");
    }
    let outcome = if is_cut { "interrupts-work" } else { "idle" };
    stability::note(
        "gateway.restart",
        json!({"outcome": outcome, "uptimeMs": services.uptime_ms()}),
    );
}

/// Notes that the gateway listens, for `diagnostics.stability`.
pub(super) fn note_ready(took: Duration) {
    let phase = json!({"phase": "gateway.ready", "durationMs": millis(took)});
    stability::note("diagnostic.phase.completed", phase);
}

/// Says good-bye: event, drain, close.
pub(super) async fn stop(services: &Services, hub: &Hub, restarts: bool) {
    let payload = if restarts {
        json!({"reason": "gateway restarting", "restartExpectedMs": RESTART_EXPECTED_MS})
    } else {
        json!({"reason": "gateway stopping", "restartExpectedMs": null})
    };
    services.bus.publish(EventKind::Shutdown, &Audience::Everyone, &payload);
    let parts = services.runs.parts();
    parts.cron.stop();
    services.runs.drain(DRAIN_LIMIT).await;
    // What was said last goes out.
    parts.channels.drain(CHANNELS_LIMIT).await;
    parts.channels.end();
    tokio::join!(parts.processes.end_all(), parts.tools.mcp().stop());
    hub.close_all(&Closing { code: 1012, reason: "service restart".into(), drains: true });
    let all_gone = async {
        while !hub.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let _ = timeout(CLOSE_LIMIT, all_gone).await;
}
