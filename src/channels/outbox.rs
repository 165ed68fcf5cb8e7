//! The way out: parts of messages, durable, in order for each address.
//!
//! Promises: a part is noted as being sent before it is; one of which nobody
//! knows whether the service has it is not sent again (#129793), unless it only
//! takes the place of what was shown of it; a service that says later is asked
//! later. A task only while something is to be sent.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

use super::body::Body;
use super::channel::{Channel, SendFailure, Sent};
use super::service::{Channels, ChannelsParts};
use super::state::Account;
use crate::store::{
    NewPart, OutboxAddress, OutboxNext, OutboxPart, OutboxSettled, OutboxState, StoreError,
};
use crate::support::{millis, reading, sort};
use crate::telemetry::metrics::NUMBERS;

/// How many parts are being sent at a time, to all addresses.
const AT_A_TIME: usize = 32;
/// How long a part waits after the first try that was not taken …
const RETRY_MIN: Duration = Duration::from_secs(1);
/// … and at most.
const RETRY_MAX: Duration = Duration::from_mins(5);
/// A part that nobody took for so long is given up: it is old news.
const GIVE_UP_MS: u64 = 24 * 60 * 60 * 1000;
/// How long a part that is to be sent later waits at most. Services are believed for no
/// longer: what is due after that was put off by a clock that was ahead.
const WAIT_MAX: Duration = Duration::from_hours(1);
/// How long a try may take; services answer in seconds.
const SEND_LIMIT: Duration = Duration::from_mins(2);
/// How long the store may fail before its next try.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// Who is sending.
pub(super) struct Outbox {
    /// The addresses that have a sender; whether it has to look once more.
    busy: Mutex<HashMap<OutboxAddress, bool>>,
    permits: Semaphore,
    /// Rings whenever a part is settled.
    bell: Notify,
}

impl Default for Outbox {
    fn default() -> Self {
        Self { busy: Mutex::default(), permits: Semaphore::new(AT_A_TIME), bell: Notify::new() }
    }
}

/// What became of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// The service's id of the first message, where it tells one.
    pub first_id: Option<String>,
    /// The service's id of the last message, where it tells one.
    pub message_id: Option<String>,
    /// Whether all of it is with the service; what is not yet will be sent.
    pub is_complete: bool,
}

/// Why a delivery did not arrive, or may not have.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The service does not take it.
    #[error("{0}")]
    Refused(String),
    /// Nobody knows.
    #[error("delivery uncertain: {0}; it may have arrived and is not sent again")]
    Uncertain(String),
    /// The outbox cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Delivered {
    /// Not all of it is with the service yet.
    const UNDER_WAY: Self = Self { first_id: None, message_id: None, is_complete: false };
}

impl Channels {
    /// Puts parts into the outbox and sends them. The same delivery again adds
    /// nothing. Who asks may go away: what is in the outbox is sent at once.
    pub(super) async fn put(&self, parts: Vec<NewPart>) -> Result<(), StoreError> {
        let channels = self.clone();
        let putting = async move {
            let mut addresses: Vec<_> = parts.iter().map(|part| part.address.clone()).collect();
            sort::plain(&mut addresses);
            addresses.dedup();
            let ChannelsParts { store, clock, .. } = &channels.0.parts;
            store.add_outbox(parts, clock.now_ms()).await?;
            for address in addresses {
                channels.kick(address);
            }
            Ok::<_, StoreError>(())
        };
        let put = self.0.parts.tasks.result_of("outbox put", putting).await;
        put.unwrap_or(Err(StoreError::Stopped { operation: "add to the outbox" }))
    }

    /// The same, and waits until the service has it all, for at most `limit`.
    pub(super) async fn put_and_wait(
        &self,
        delivery: &str,
        parts: Vec<NewPart>,
        limit: Duration,
    ) -> Result<Delivered, DeliveryError> {
        self.put(parts).await?;
        self.delivered(delivery, limit).await
    }

    /// Waits until a service has all of a delivery, for at most `limit`. One that
    /// is not in the outbox yet is waited for.
    ///
    /// # Errors
    /// When the service does not take it, or nobody knows whether it did.
    pub async fn delivered(
        &self,
        delivery: &str,
        limit: Duration,
    ) -> Result<Delivered, DeliveryError> {
        let settled = async {
            loop {
                // Listening before looking, so nothing between is missed.
                let mut rung = std::pin::pin!(self.0.outbox.bell.notified());
                rung.as_mut().enable();
                if let Some(delivered) = self.outcome_of(delivery).await? {
                    return Ok::<_, DeliveryError>(delivered);
                }
                rung.await;
            }
        };
        match tokio::time::timeout(limit, settled).await {
            Ok(delivered) => delivered,
            // What is known is told even to those who wait no time at all.
            Err(_) => Ok(self.outcome_of(delivery).await?.unwrap_or(Delivered::UNDER_WAY)),
        }
    }

    /// What became of a delivery, once that is known of all of it.
    async fn outcome_of(&self, delivery: &str) -> Result<Option<Delivered>, DeliveryError> {
        let parts = self.0.parts.store.outbox_of(delivery.to_owned()).await?;
        if parts.is_empty() || !parts.iter().all(|part| part.state.is_settled()) {
            return Ok(None);
        }
        outcome(&parts).map(Some)
    }

    /// For the start: what was being sent is uncertain from now on.
    pub(super) async fn open_outbox(&self) -> Result<(), StoreError> {
        let uncertain = self.0.parts.store.doubt_outbox(self.0.parts.clock.now_ms()).await?;
        if uncertain > 0 {
            tracing::warn!(
                uncertain,
                "messages were being sent when the gateway stopped; they are \
                not sent again"
            );
        }
        Ok(())
    }

    /// Sends what waits for an account that has just begun, once the outbox can be read.
    pub(super) fn resume_outbox(&self, account: &Arc<Account>) {
        let (channels, account) = (self.clone(), Arc::clone(account));
        self.0.parts.tasks.spawn("outbox", async move {
            let waiting = loop {
                match channels.0.parts.store.waiting_outbox().await {
                    Ok(waiting) => break waiting,
                    Err(error) => tracing::error!(%error, "the outbox cannot be read"),
                }
                tokio::select! {
                    () = channels.0.closing.cancelled() => return,
                    () = tokio::time::sleep(STORE_PAUSE) => {}
                }
                if account.channel().is_none() {
                    // Whoever opens it again looks then.
                    return;
                }
            };
            let (channel, id) = (account.config.kind.as_str(), &account.config.id);
            let is_its = |it: &OutboxAddress| it.channel == channel && it.account == *id;
            for address in waiting.into_iter().filter(is_its) {
                channels.kick(address);
            }
        });
    }

    /// Something is to be sent to an address.
    pub(super) fn kick(&self, address: OutboxAddress) {
        {
            let mut busy = self.0.outbox.busy.lock();
            if let Some(again) = busy.get_mut(&address) {
                *again = true;
                return;
            }
            busy.insert(address.clone(), false);
        }
        let channels = self.clone();
        self.0.parts.tasks.spawn("outbox", async move {
            let mut place =
                SenderPlace { channels: channels.clone(), address: address.clone(), left: false };
            channels.send_all(&address).await;
            place.left = true;
        });
    }

    async fn send_all(&self, address: &OutboxAddress) {
        let (store, clock) = (&self.0.parts.store, &self.0.parts.clock);
        let mut as_of = 0;
        loop {
            // First: what is noted as being sent waits for nobody, and nothing begins after
            // the last drain.
            let Ok(permit) = self.0.outbox.permits.acquire().await else { return };
            let account = self.account(&address.channel, &address.account);
            // What waits for an account that is not in use is sent once it is.
            let Some((account, channel)) = account.and_then(|it| Some((it.clone(), it.channel()?)))
            else {
                if self.leave(address) {
                    return;
                }
                continue;
            };
            match store.next_outbox(address.clone(), clock.now_ms().max(as_of)).await {
                Err(error) => {
                    drop(permit);
                    tracing::error!(%error, "the outbox cannot be read");
                    tokio::time::sleep(STORE_PAUSE).await;
                }
                Ok(OutboxNext::Nothing) => {
                    if self.leave(address) {
                        return;
                    }
                }
                Ok(OutboxNext::Wait(until)) => {
                    drop(permit);
                    let (wait, then) = rest(until, clock.now_ms());
                    tokio::select! {
                        () = self.0.closing.cancelled() => {}
                        () = tokio::time::sleep(wait) => as_of = then,
                    }
                }
                Ok(OutboxNext::Send(part)) => {
                    as_of = 0;
                    self.send_part(&account, &*channel, &part).await;
                }
            }
        }
    }

    /// Whether the sender of an address may go: nothing came meanwhile.
    fn leave(&self, address: &OutboxAddress) -> bool {
        let mut busy = self.0.outbox.busy.lock();
        match busy.get_mut(address) {
            Some(again) if *again => {
                *again = false;
                false
            }
            _ => {
                busy.remove(address);
                true
            }
        }
    }

    /// Waits until nothing is being sent, and what became of it is noted; for the end of the
    /// gateway, as nothing is sent after it.
    pub async fn drain(&self, limit: Duration) {
        let all = u32::try_from(AT_A_TIME).unwrap_or(u32::MAX);
        let permits = &self.0.outbox.permits;
        // What is not over by then is uncertain for the next start.
        let drained = tokio::time::timeout(limit, permits.acquire_many(all)).await;
        permits.close();
        drop(drained);
    }

    async fn send_part(&self, account: &Arc<Account>, channel: &dyn Channel, part: &OutboxPart) {
        let outcome = match reading::text::<Body>(&part.body) {
            Err(error) => Err(SendFailure::Refused(format!("it cannot be read: {error}"))),
            Ok(body) => {
                let unknown = |why: String| Err(SendFailure::Unknown(why));
                let sending = AssertUnwindSafe(channel.send(part, &body)).catch_unwind();
                match tokio::time::timeout(SEND_LIMIT, sending).await {
                    Ok(Ok(sent)) => sent,
                    Ok(Err(_)) => unknown("the channel failed inside the gateway".into()),
                    Err(_) => unknown(format!("no answer within {SEND_LIMIT:?}")),
                }
            }
        };
        let now = self.0.parts.clock.now_ms();
        if outcome.is_ok() {
            account.spoke(now);
        }
        let settled = settled(part, outcome, now);
        NUMBERS.sends.count(match settled.state {
            OutboxState::Waiting => "retried",
            state => state.as_str(),
        });
        if matches!(settled.state, OutboxState::Uncertain | OutboxState::Failed) {
            tracing::warn!(
                channel = part.address.channel,
                delivery = part.delivery,
                part = part.part,
                state = settled.state.as_str(),
                error = settled.error.as_deref().unwrap_or_default(),
                "message not sent"
            );
        }
        // Until this is written, nobody may send it again.
        while let Err(error) = self.0.parts.store.settle_outbox(part.id, settled.clone(), now).await
        {
            tracing::error!(%error, "what became of a message is not noted");
            tokio::time::sleep(STORE_PAUSE).await;
        }
        self.0.outbox.bell.notify_waiters();
    }
}

/// Frees an address when its sender is gone without having left.
struct SenderPlace {
    channels: Channels,
    address: OutboxAddress,
    left: bool,
}

impl Drop for SenderPlace {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        self.channels.0.outbox.busy.lock().remove(&self.address);
    }
}

fn settled(part: &OutboxPart, outcome: Result<Sent, SendFailure>, now: u64) -> OutboxSettled {
    let done = |state, message_id, error| OutboxSettled { state, message_id, error, due_at: 0 };
    match outcome {
        Ok(sent) => done(OutboxState::Sent, sent.message_id, None),
        Err(SendFailure::Refused(why)) => done(OutboxState::Failed, None, Some(why)),
        Err(SendFailure::Unknown(why)) => done(OutboxState::Uncertain, None, Some(why)),
        Err(SendFailure::Later { why, .. }) if now >= part.created_at + GIVE_UP_MS => {
            done(OutboxState::Failed, None, Some(format!("given up: {why}")))
        }
        Err(SendFailure::Later { after, why }) => OutboxSettled {
            state: OutboxState::Waiting,
            message_id: None,
            error: Some(why),
            due_at: now.saturating_add(millis(after.unwrap_or_else(|| retry(part.attempts)))),
        },
    }
}

/// How long a part waits that is due at a time, and as of when it is looked at after that,
/// whatever the clock says then.
fn rest(until: u64, now: u64) -> (Duration, u64) {
    let wait = Duration::from_millis(until.saturating_sub(now));
    if wait > WAIT_MAX { (WAIT_MAX, until) } else { (wait, 0) }
}

/// How long a part waits after so many tries.
fn retry(attempts: u32) -> Duration {
    let factor = 2_u32.saturating_pow(attempts.saturating_sub(1));
    RETRY_MIN.saturating_mul(factor).min(RETRY_MAX)
}

fn outcome(parts: &[OutboxPart]) -> Result<Delivered, DeliveryError> {
    let error = |part: &OutboxPart| part.error.clone().unwrap_or_default();
    let of = |state| parts.iter().find(|part| part.state == state);
    if let Some(failed) = of(OutboxState::Failed) {
        return Err(DeliveryError::Refused(error(failed)));
    }
    if let Some(uncertain) = of(OutboxState::Uncertain) {
        return Err(DeliveryError::Uncertain(error(uncertain)));
    }
    let first_id = parts.iter().find_map(|part| part.message_id.clone());
    let message_id = parts.iter().rev().find_map(|part| part.message_id.clone());
    Ok(Delivered { first_id, message_id, is_complete: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(attempts: u32, created_at: u64) -> OutboxPart {
        OutboxPart {
            id: 1,
            delivery: "d".into(),
            address: OutboxAddress {
                channel: "webhook".into(),
                account: "default".into(),
                target: "7".into(),
                thread: String::new(),
            },
            part: 0,
            body: "{}".into(),
            state: OutboxState::Sending,
            attempts,
            due_at: 0,
            message_id: None,
            error: None,
            created_at,
        }
    }

    #[test]
    fn only_what_was_not_taken_is_tried_again() {
        let later = |after| SendFailure::Later { after, why: "busy".into() };
        for (outcome, attempts, state, due_at) in [
            (Ok(Sent::default()), 1, OutboxState::Sent, 0),
            (Err(SendFailure::Refused("no".into())), 1, OutboxState::Failed, 0),
            (Err(SendFailure::Unknown("?".into())), 1, OutboxState::Uncertain, 0),
            (Err(later(None)), 1, OutboxState::Waiting, 1_500),
            (Err(later(None)), 3, OutboxState::Waiting, 4_500),
            (Err(later(None)), 40, OutboxState::Waiting, 300_500),
            (Err(later(Some(Duration::from_secs(7)))), 1, OutboxState::Waiting, 7_500),
        ] {
            let settled = settled(&part(attempts, 0), outcome, 500);
            assert_eq!((settled.state, settled.due_at), (state, due_at));
        }
        let old = settled(&part(9, 0), Err(later(None)), GIVE_UP_MS);
        assert_eq!(old.state, OutboxState::Failed);
    }

    #[test]
    fn a_clock_that_is_set_back_puts_a_part_off_for_an_hour_at_most() {
        assert_eq!(rest(7000, 2000), (Duration::from_secs(5), 0));
        assert_eq!(rest(2000, 7000), (Duration::ZERO, 0));
        let day = 24 * 60 * 60 * 1000;
        assert_eq!(rest(day, 0), (WAIT_MAX, day), "it is due then");
    }
}
