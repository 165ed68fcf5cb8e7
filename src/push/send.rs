//! Delivering a notification.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use reqwest::Url;
use reqwest::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};
use serde::Serialize;

use super::keys::VapidKeys;
use super::message::{PLAIN_MAX, encrypted};
use super::{Push, Subscription};
use crate::store::JsonFileError;
use crate::support::json;

/// How long a push service may take to accept a message.
const LIMIT: Duration = Duration::from_secs(15);
/// Push services that are asked at a time; there are few of them.
const AT_ONCE: usize = 8;
/// How long a message waits for a browser that is closed, in seconds: a day,
/// after that it is no news.
const TTL: &str = "86400";

/// A notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What is shown first.
    pub title: String,
    /// What is shown below.
    pub body: String,
}

/// What became of a notification for one browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// Whether its push service has taken it.
    pub ok: bool,
    /// Which browser.
    pub subscription_id: String,
    /// What the push service answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
    /// Why it did not take it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Delivery {
    /// Whether the push service says that there is no such browser any more.
    fn is_gone(&self) -> bool {
        matches!(self.status_code, Some(404 | 410))
    }
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The push service may not be asked.
    #[error("invalid push subscription endpoint: {0}")]
    Endpoint(String),
    /// There are too many browsers.
    #[error("there are {0} push subscriptions already; take some away with push.web.unsubscribe")]
    TooMany(usize),
    /// There is too much to tell.
    #[error("title and body must be at most {PLAIN_MAX} bytes together")]
    TooLong,
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] JsonFileError),
    /// The key pair cannot be used.
    #[error("the VAPID keys cannot be used: {0}")]
    Keys(String),
}

impl Push {
    /// Sends a notification to the browsers of a device and to those of nobody;
    /// to all when it is no device that asks. Browsers that are gone are
    /// forgotten.
    ///
    /// # Errors
    /// When nobody could be asked. What push services refuse is no error.
    pub async fn notify(
        &self,
        notice: &Notice,
        device_id: Option<&str>,
    ) -> Result<Vec<Delivery>, PushError> {
        let plain = json!({"title": notice.title, "body": notice.body}).to_string();
        if plain.len() > PLAIN_MAX {
            return Err(PushError::TooLong);
        }
        let mut browsers = self.of_paired_devices().await?;
        browsers.retain(|row| {
            device_id.is_none() || row.device_id.is_none() || row.device_id.as_deref() == device_id
        });
        if browsers.is_empty() {
            return Ok(Vec::new());
        }
        let keys = self.vapid_keys().await?;
        let sending: Vec<_> =
            browsers.iter().map(|row| self.send(row, plain.as_bytes(), &keys)).collect();
        let deliveries: Vec<_> = stream::iter(sending).buffered(AT_ONCE).collect().await;
        let gone: Vec<_> = browsers
            .iter()
            .zip(&deliveries)
            .filter(|(_, delivery)| delivery.is_gone())
            .map(|(row, _)| row)
            .collect();
        if !gone.is_empty() {
            // One that has come back meanwhile has other keys.
            self.forget(|row| gone.contains(&row)).await?;
        }
        Ok(deliveries)
    }

    /// The browsers but for those of devices that are no longer paired, which
    /// are forgotten.
    async fn of_paired_devices(&self) -> Result<Vec<Subscription>, PushError> {
        let browsers = self.everybody().await?;
        let mut paired = HashMap::new();
        for id in browsers.iter().filter_map(|row| row.device_id.clone()) {
            if let Entry::Vacant(entry) = paired.entry(id) {
                // What cannot be looked up is not sent, and not forgotten.
                let is_paired = self.is_paired(entry.key()).await;
                entry.insert(is_paired);
            }
        }
        let state = |row: &Subscription| match &row.device_id {
            None => Some(true),
            Some(id) => paired.get(id).copied().flatten(),
        };
        if browsers.iter().any(|row| state(row) == Some(false)) {
            self.forget(|row| state(row) == Some(false)).await?;
        }
        Ok(browsers.into_iter().filter(|row| state(row) == Some(true)).collect())
    }

    /// Whether a device is paired; `None` when that cannot be looked up.
    pub(super) async fn is_paired(&self, device_id: &str) -> Option<bool> {
        let row = self.parts.store.device(device_id, 0).await.ok()?;
        Some(row.is_some_and(|row| row.paired.is_some()))
    }

    async fn send(&self, row: &Subscription, plain: &[u8], keys: &VapidKeys) -> Delivery {
        let asked = self.post(row, plain, keys).await;
        let (status_code, error) = match asked {
            Ok(status) if (200..300).contains(&status) => (Some(status), None),
            Ok(status) => (Some(status), Some(format!("the push service answered {status}"))),
            Err(error) => (None, Some(error)),
        };
        let subscription_id = row.subscription_id.clone();
        Delivery { ok: error.is_none(), subscription_id, status_code, error }
    }

    async fn post(
        &self,
        row: &Subscription,
        plain: &[u8],
        keys: &VapidKeys,
    ) -> Result<u16, String> {
        let url = Url::parse(&row.endpoint).ok().filter(|url| url.scheme() == "https");
        let url = url.ok_or("the endpoint is no https address")?;
        let body = encrypted(&row.keys, plain)?;
        let origin = url.origin().ascii_serialization();
        let proof = keys.proof(&origin, self.parts.clock.now_ms());
        let proof = proof.map_err(|error| error.to_string())?;
        let mut headers = HeaderMap::new();
        let proof = HeaderValue::from_str(&proof).map_err(|error| error.to_string())?;
        headers.insert(AUTHORIZATION, proof);
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("aes128gcm"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert(HeaderName::from_static("ttl"), HeaderValue::from_static(TTL));
        headers.insert(HeaderName::from_static("urgency"), HeaderValue::from_static("normal"));
        let posted = self.client().post_bytes(&row.endpoint, headers, body, LIMIT).await;
        posted.map(|status| status.as_u16()).map_err(|error| error.to_string())
    }
}
