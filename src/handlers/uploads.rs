//! Files that were uploaded by HTTP before their message: whose they are, and
//! which messages may name them.
//!
//! Promises: an upload is for messages of its own caller to its own session; for
//! everybody else it is not there.

use std::io;
use std::sync::Arc;

use serde_json::Value;

use crate::auth::{Login, Principal};
use crate::config::Settings;
use crate::protocol::ErrorShape;
use crate::registry::{Ctx, Reply};
use crate::sessions::{Media, MediaType, SessionKey, Upload};
use crate::support::json;

use super::chat;

/// Where files are uploaded.
pub const UPLOADS: &str = "/api/chat/uploads";
/// Files that came with messages, and those that will, as addresses.
pub const INBOUND: &str = "media://inbound/";
/// Whose the uploads are of those who have shown what opens the whole gateway.
const SHARED: &str = "gateway";
/// Where it is set how large a file of a message may be.
pub(super) const INLINE_KEY: &str = "agents.defaults.mediaMaxMb";
/// Where it is set how large an upload may be.
const UPLOAD_KEY: &str = "gateway.http.uploads.maxBytes";

/// The session that files are uploaded for.
///
/// # Errors
/// When messages to it are not taken.
pub async fn session(cx: &Ctx, written: &str) -> Reply<SessionKey> {
    let key = cx.session_key(written);
    chat::check_session(cx, &key).await?;
    Ok(key)
}

/// Whose the uploads of somebody are, for their records.
pub fn owner(principal: &Principal) -> String {
    // The connections and the requests of a device are one.
    if principal.device().is_some() || principal.login() == Login::Own {
        principal.owner().to_text()
    } else {
        SHARED.to_owned()
    }
}

/// Whether an upload is somebody's. A device that has shown the gateway's own
/// secret as well has those of the secret, too.
fn is_of(upload: &Upload, principal: &Principal) -> bool {
    upload.owner == owner(principal) || (upload.owner == SHARED && principal.login() != Login::Own)
}

/// The upload that an attachment names.
pub(super) fn named(item: &Value) -> Option<&str> {
    let text = |name: &str| item.get(name).and_then(Value::as_str).map(str::trim);
    let by_address = || text("url").and_then(|url| url.strip_prefix(INBOUND));
    text("uploadId").or_else(by_address).filter(|id| !id.is_empty())
}

/// Most bytes of a file of this type: pictures are shown to the model, whatever
/// way they come.
pub fn most(kind: MediaType, settings: &Settings) -> u64 {
    let most = settings.gateway.http.upload_max_bytes;
    if kind.is_picture() { most.min(most_of_a_picture(settings)) } else { most }
}

/// Most bytes of a picture.
pub fn most_of_a_picture(settings: &Settings) -> u64 {
    settings.agents.defaults.media_max_bytes
}

/// Where it is set how large a file of this type may be.
pub fn limiting_key(kind: MediaType, settings: &Settings) -> &'static str {
    let is_less = most(kind, settings) < settings.gateway.http.upload_max_bytes;
    if is_less { INLINE_KEY } else { UPLOAD_KEY }
}

/// What may be taken by a message.
pub(super) struct Taker {
    pub media: Media,
    pub key: SessionKey,
    pub principal: Arc<Principal>,
    pub now_ms: u64,
}

impl Taker {
    /// The upload with this id; none when it is not there for this message.
    pub fn find(&self, id: &str) -> Option<Upload> {
        let upload = self.media.uploads().find(id, self.now_ms)?;
        let is_here = upload.session_key == self.key.as_str();
        (is_here && is_of(&upload, &self.principal)).then_some(upload)
    }

    /// Its first bytes.
    pub fn beginning(&self, id: &str, most: u64) -> io::Result<Vec<u8>> {
        self.media.uploads().beginning(id, most)
    }
}

/// What is told of an upload that is not there.
pub(super) fn missing(label: &str, id: &str) -> ErrorShape {
    let why = "no such upload: it is over, or of another caller or session";
    ErrorShape::invalid(format!("Error: attachment {label}: {why}"))
        .details(json!({"code": "UPLOAD_NOT_FOUND", "uploadId": id}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_is_named_by_its_id_or_its_address() {
        for (item, id) in [
            (json!({"type": "image", "uploadId": "a---1.png"}), Some("a---1.png")),
            (json!({"url": "media://inbound/a---1.png"}), Some("a---1.png")),
            (json!({"url": "https://example.com/a.png"}), None),
            (json!({"url": "media://inbound/"}), None),
            (json!({"uploadId": 7}), None),
            (json!("media://inbound/a"), None),
        ] {
            assert_eq!(named(&item), id, "{item}");
        }
    }
}
