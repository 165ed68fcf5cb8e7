//! Codes for people who are unknown.
//!
//! Promises: a code is told to the person alone, and an operator lets them in;
//! nobody who is unknown gets anything else out of the gateway.

use std::sync::Arc;

use super::body::Body;
use super::inbound::{Inbound, address, short_name};
use super::parts::new_part;
use super::service::Channels;
use super::state::Account;
use crate::config::channels::ChannelKind;
use crate::store::{ChannelPerson, PairingClaim, PairingRequest, StoreError};

/// Letters of codes: none that is taken for another, as in the original.
const LETTERS: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
/// Letters of one code, as in the original: a thousand billion of them.
const CODE_LENGTH: usize = 8;

/// Why a code was not taken.
#[derive(Debug, thiserror::Error)]
pub enum PairingError {
    /// Nobody waits with it.
    #[error("no pending pairing request of {channel} has the code {code}")]
    UnknownCode {
        /// The channel.
        channel: &'static str,
        /// The code.
        code: String,
    },
    /// The list cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Channels {
    /// Tells somebody unknown a code, the first time.
    pub(super) async fn offer_code(
        &self,
        account: &Arc<Account>,
        inbound: &Inbound,
    ) -> Result<(), StoreError> {
        let (parts, config) = (&self.0.parts, &account.config);
        let Some(code) = new_code() else {
            tracing::error!("the system has no randomness; nobody is told a code");
            return Ok(());
        };
        let request = PairingRequest {
            channel: config.kind.as_str().into(),
            account: config.id.clone(),
            person: inbound.sender.id.clone(),
            name: inbound.sender.name.as_deref().map(short_name).filter(|name| !name.is_empty()),
            code,
            created_at: parts.clock.now_ms(),
        };
        let code = match parts.store.claim_pairing(request).await? {
            PairingClaim::New(code) => {
                tracing::info!(
                    channel = config.kind.as_str(),
                    account = config.id,
                    person = inbound.sender.id,
                    "somebody unknown has asked to be let in"
                );
                code
            }
            // In the outbox already, unless the gateway stopped in between.
            PairingClaim::Known(code) => code,
            PairingClaim::Full => return Ok(()),
        };
        let channel = config.kind.as_str();
        let text = format!(
            "You are not known here yet.\nYour id: {}\nPairing code: {code}\n\nAsk the owner to run:\n\
             clawgate pairing approve {channel} {code}",
            inbound.sender.id
        );
        let body = Body { text, ..Body::default() };
        let delivery = format!("pairing:{channel}:{}:{code}", config.id);
        self.put(vec![new_part(&delivery, &address(account, inbound), 0, &body)]).await
    }

    /// Those who wait to be let in, and those who were.
    ///
    /// # Errors
    /// When the lists cannot be read.
    pub async fn pairings(&self) -> Result<(Vec<PairingRequest>, Vec<ChannelPerson>), StoreError> {
        let (store, now) = (&self.0.parts.store, self.0.parts.clock.now_ms());
        Ok((store.pairings(now).await?, store.paired_people().await?))
    }

    /// Lets the one with this code in, and says so; or does not. Who asks may go away:
    /// whoever is let in hears of it.
    ///
    /// # Errors
    /// When nobody waits with it.
    pub async fn resolve_pairing(
        &self,
        kind: ChannelKind,
        code: &str,
        approved: bool,
    ) -> Result<PairingRequest, PairingError> {
        let (channels, code) = (self.clone(), code.trim().to_uppercase());
        let resolving = async move { channels.resolve(kind, code, approved).await };
        let resolved = self.0.parts.tasks.result_of("pairing", resolving).await;
        resolved.unwrap_or_else(|| Err(StoreError::Stopped { operation: "use a code" }.into()))
    }

    async fn resolve(
        &self,
        kind: ChannelKind,
        code: String,
        approved: bool,
    ) -> Result<PairingRequest, PairingError> {
        let channel = kind.as_str();
        let (store, now) = (&self.0.parts.store, self.0.parts.clock.now_ms());
        let found = store.resolve_pairing(channel.into(), code.clone(), approved, now).await?;
        let request = found.ok_or(PairingError::UnknownCode { channel, code })?;
        if approved {
            let address = crate::store::OutboxAddress {
                channel: channel.into(),
                account: request.account.clone(),
                target: request.person.clone(),
                thread: String::new(),
            };
            let text = "✅ You are let in. Say something.".to_owned();
            let body = Body { text, ..Body::default() };
            let delivery = format!("paired:{channel}:{}:{}", request.account, request.code);
            self.put(vec![new_part(&delivery, &address, 0, &body)]).await?;
        }
        Ok(request)
    }

    /// Somebody is not let in any more; whether that was so.
    ///
    /// # Errors
    /// When that cannot be written down.
    pub async fn unpair(
        &self,
        kind: ChannelKind,
        account: &str,
        person: &str,
    ) -> Result<bool, StoreError> {
        let store = &self.0.parts.store;
        store.unpair(kind.as_str().into(), account.to_owned(), person.to_owned()).await
    }
}

/// `None` when the system has no randomness: a code must not be guessed.
fn new_code() -> Option<String> {
    let mut bytes = [0_u8; CODE_LENGTH];
    getrandom::fill(&mut bytes).ok()?;
    let letter = |byte: &u8| LETTERS.get(usize::from(byte % 32)).copied().map(char::from);
    Some(bytes.iter().filter_map(letter).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_of_letters_that_nobody_takes_for_others() {
        let codes: std::collections::HashSet<_> = (0..100).filter_map(|_| new_code()).collect();
        assert_eq!(codes.len(), 100);
        assert!(codes.iter().all(|code| code.len() == 8 && !code.contains(['0', 'O', '1', 'I'])));
    }
}
