//! Which browsers want notifications.
//!
//! Owns: the file of them, which is that of the original. Promises: an address
//! is there once; what is taken in or away is on disk. Must not: ask anybody.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{Push, PushError};
use crate::support::{hex, json, reading};

/// Browsers of one device; more are left over from earlier ones.
const OF_DEVICE_MAX: usize = 16;
/// Browsers of all devices: each is asked for each notification.
const ALL_MAX: usize = 256;
/// Characters of the hash that an address is filed under, as in the original.
const HASH: usize = 32;

/// What a message for a browser is encrypted with.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriptionKeys {
    /// Its public key, in base64url.
    pub p256dh: String,
    /// Its secret, in base64url.
    pub auth: String,
}

/// Hides both: who has the secret can make notifications.
impl fmt::Debug for SubscriptionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubscriptionKeys").finish_non_exhaustive()
    }
}

/// A browser that wants notifications.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subscription {
    /// Its id.
    pub subscription_id: String,
    /// Where its push service takes them.
    pub endpoint: String,
    /// What they are encrypted with.
    pub keys: SubscriptionKeys,
    created_at_ms: u64,
    updated_at_ms: u64,
    /// The device that it belongs to, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
}

/// The file. What is no subscription in it stays as it is.
#[derive(Debug, Default)]
pub(super) struct Book {
    rows: BTreeMap<String, Subscription>,
    rest: Map<String, Value>,
}

const ROWS: &str = "subscriptionsByEndpointHash";

impl Book {
    pub fn read(file: &Value) -> Result<Self, String> {
        let Value::Object(mut rest) = file.clone() else { return Err("must be an object".into()) };
        let rows = rest.remove(ROWS).unwrap_or_else(|| json!({}));
        let rows = reading::of(&rows).map_err(|error| format!("{ROWS}: {error}"))?;
        Ok(Self { rows, rest })
    }

    fn written(&self) -> Value {
        let mut file = self.rest.clone();
        file.insert(ROWS.into(), json!(self.rows));
        Value::Object(file)
    }
}

impl Push {
    /// Takes a browser in; one that is known keeps its id. The oldest one of
    /// its device gives way when there are too many. That of a device which is not
    /// paired, as where no login is asked for, is nobody's.
    ///
    /// # Errors
    /// When its push service may not be asked, there are too many browsers, or
    /// it cannot be kept.
    pub async fn subscribe(
        &self,
        endpoint: String,
        keys: SubscriptionKeys,
        device_id: Option<&str>,
    ) -> Result<String, PushError> {
        self.policy().parse(&endpoint).map_err(|error| PushError::Endpoint(error.to_string()))?;
        let device_id = match device_id {
            Some(id) if self.is_paired(id).await == Some(false) => None,
            device_id => device_id,
        };
        let (now, hash) = (self.parts.clock.now_ms(), filed(&endpoint));
        let _gate = self.gate.lock().await;
        let mut book = self.book().await?;
        let known = book.rows.remove(&hash);
        let of_device = |row: &Subscription| row.device_id.as_deref() == device_id;
        while device_id.is_some()
            && book.rows.values().filter(|row| of_device(row)).count() >= OF_DEVICE_MAX
        {
            let rows = book.rows.iter().filter(|(_, row)| of_device(row));
            let oldest =
                rows.min_by_key(|(_, row)| row.updated_at_ms).map(|(hash, _)| hash.clone());
            let Some(oldest) = oldest else { break };
            book.rows.remove(&oldest);
        }
        if book.rows.len() >= ALL_MAX {
            return Err(PushError::TooMany(ALL_MAX));
        }
        let (id, created_at_ms) = match known {
            Some(known) => (known.subscription_id, known.created_at_ms),
            None => (self.parts.ids.uuid(), now),
        };
        let row = Subscription {
            subscription_id: id.clone(),
            endpoint,
            keys,
            created_at_ms,
            updated_at_ms: now,
            device_id: device_id.map(str::to_owned),
        };
        book.rows.insert(hash, row);
        self.subscriptions.write(&book.written()).await?;
        Ok(id)
    }

    /// Forgets the browser with this address; whether it was there.
    ///
    /// # Errors
    /// When that cannot be kept.
    pub async fn unsubscribe(&self, endpoint: &str) -> Result<bool, PushError> {
        let removed = self.forget(|row| row.endpoint == endpoint).await?;
        Ok(removed > 0)
    }

    /// Forgets browsers; how many there were.
    pub(super) async fn forget(
        &self,
        is_gone: impl Fn(&Subscription) -> bool,
    ) -> Result<usize, PushError> {
        let _gate = self.gate.lock().await;
        let mut book = self.book().await?;
        let before = book.rows.len();
        book.rows.retain(|_, row| !is_gone(row));
        let removed = before - book.rows.len();
        if removed > 0 {
            self.subscriptions.write(&book.written()).await?;
        }
        Ok(removed)
    }

    /// Everybody who wants notifications.
    pub(super) async fn everybody(&self) -> Result<Vec<Subscription>, PushError> {
        Ok(self.book().await?.rows.into_values().collect())
    }

    async fn book(&self) -> Result<Book, PushError> {
        Ok(self.subscriptions.read(Book::read).await?.unwrap_or_default())
    }
}

/// What an address is filed under.
fn filed(endpoint: &str) -> String {
    let mut hash = hex(Sha256::digest(endpoint));
    hash.truncate(HASH);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_original_is_read_and_keeps_what_is_not_known() {
        let row = json!({"subscriptionId": "s-1", "endpoint": "https://push.example/1",
            "keys": {"p256dh": "p", "auth": "a"}, "createdAtMs": 1, "updatedAtMs": 2});
        let file = json!({"version": 9, "subscriptionsByEndpointHash": {"h": row}});
        let book = Book::read(&file).unwrap();
        assert_eq!(book.rows["h"].endpoint, "https://push.example/1");
        assert_eq!(book.written(), file);
        assert!(Book::read(&json!([])).is_err());
        assert!(Book::read(&json!({"subscriptionsByEndpointHash": {"h": 1}})).is_err());
    }
}
