//! The scheduler of jobs, put together.

use std::sync::Arc;

use serde_json::Value;

use crate::bus::Bus;
use crate::channels::{Channels, Outgoing, TargetError, Wanted};
use crate::config::{Env, Settings};
use crate::cron::{Announcement, Cron, CronParts, Outlet, OutletError};
use crate::sessions::Sessions;
use crate::store::Store;
use crate::support::{BoxFuture, Clock, Ids};

/// Jobs and heartbeats. Nothing runs before its tasks do.
pub fn jobs(
    settings: &Arc<Settings>,
    env: &Env,
    sessions: &Sessions,
    channels: &Channels,
    store: &Arc<dyn Store>,
    bus: &Bus,
    clock: &Arc<dyn Clock>,
    ids: &Arc<dyn Ids>,
) -> Arc<Cron> {
    let parts = CronParts {
        settings: Arc::clone(settings),
        keys: Arc::new(sessions.rules().clone()),
        sessions: sessions.clone(),
        store: Arc::clone(store),
        bus: bus.clone(),
        clock: Arc::clone(clock),
        ids: Arc::clone(ids),
        outlet: Arc::new(ByChannels(channels.clone())),
    };
    Cron::new(parts, env)
}

/// Says what jobs have to say by the channels of the configuration.
struct ByChannels(Channels);

impl Outlet for ByChannels {
    fn say(&self, announcement: Announcement) -> BoxFuture<'_, Result<(), OutletError>> {
        Box::pin(async move {
            let thread = announcement.thread_id.as_ref().map(|id| match id {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            });
            let wanted = Wanted {
                channel: Some(&announcement.channel),
                account: announcement.account_id.as_deref(),
                to: announcement.to.as_deref(),
                thread: thread.as_deref(),
            };
            let target = self.0.target(&wanted).map_err(|error| match error {
                TargetError::NoChannel | TargetError::Unsupported(_) => {
                    OutletError::NoChannel(announcement.channel.clone())
                }
                error => OutletError::Failed(error.to_string()),
            })?;
            let message = Outgoing { text: announcement.text, ..Outgoing::default() };
            let sent = self.0.send(&announcement.idempotency_key, &target, &message).await;
            sent.map(drop).map_err(|error| OutletError::Failed(error.to_string()))
        })
    }
}
