//! Tokens of devices.
//!
//! Promises: what is stored does not tell the token. It is made of the
//! gateway's private key and a salt, so that a device that has lost it, or was
//! given another one, gets it with its next hello; without the key the rows
//! are worth nothing.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::auth::DeviceIdentity;
use crate::protocol::Role;
use crate::store::DeviceToken;
use crate::support::{Ids, Secret, hex};

use super::scopes::{is_of_role, normalized};

/// What no other text that the gateway signs begins with.
const PURPOSE: &str = "clawgate device token";

/// Makes tokens.
#[derive(Clone)]
pub struct Minter {
    identity: Arc<DeviceIdentity>,
    ids: Arc<dyn Ids>,
}

impl Minter {
    /// With the gateway's key.
    pub fn new(identity: Arc<DeviceIdentity>, ids: Arc<dyn Ids>) -> Self {
        Self { identity, ids }
    }

    /// An id for a request.
    pub fn new_id(&self) -> String {
        self.ids.uuid()
    }

    /// A new token for a device and role, in the place of an older one.
    pub fn mint(
        &self,
        (device_id, role): (&str, &str),
        scopes: &[String],
        older: Option<&DeviceToken>,
        now_ms: u64,
    ) -> DeviceToken {
        let salt = self.ids.uuid();
        let of_role: Vec<_> =
            scopes.iter().filter(|scope| is_of_role(role, scope)).cloned().collect();
        DeviceToken {
            hash: hash(self.text(device_id, role, &salt).expose()),
            salt: Some(salt),
            scopes: normalized(&of_role),
            created_at_ms: older.map_or(now_ms, |older| older.created_at_ms),
            rotated_at_ms: older.map(|_| now_ms),
            revoked_at_ms: None,
            last_used_at_ms: older.and_then(|older| older.last_used_at_ms),
        }
    }

    /// The token itself; none when another program or another key made it.
    pub fn reveal(&self, device_id: &str, role: Role, token: &DeviceToken) -> Option<Secret> {
        let text = self.text(device_id, role.as_str(), token.salt.as_ref()?);
        is_text_of(token, text.expose()).then_some(text)
    }

    fn text(&self, device_id: &str, role: &str, salt: &str) -> Secret {
        let signed = self.identity.sign(&format!("{PURPOSE}|{device_id}|{role}|{salt}"));
        Secret::new(URL_SAFE_NO_PAD.encode(Sha256::digest(signed)))
    }
}

/// What is stored of a secret of 256 random bits.
pub fn hash(secret: &str) -> String {
    hex(Sha256::digest(secret.trim()))
}

/// Whether this is the token.
pub fn is_text_of(token: &DeviceToken, text: &str) -> bool {
    Secret::new(&token.hash).matches(&hash(text))
}

/// When a token was issued.
pub fn issued_at(token: &DeviceToken) -> u64 {
    token.rotated_at_ms.unwrap_or(token.created_at_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::RandomIds;

    fn minter(seed: u8) -> Minter {
        Minter::new(Arc::new(DeviceIdentity::from_seed(&[seed; 32])), Arc::new(RandomIds))
    }

    #[test]
    fn the_key_that_made_a_token_finds_it_again_and_no_other_does() {
        let minter = minter(1);
        let scopes = ["operator.write".to_owned(), "x".to_owned()];
        let token = minter.mint(("d", "operator"), &scopes, None, 5);
        let text = minter.reveal("d", Role::Operator, &token).unwrap();
        assert_eq!(text.expose().len(), 43);
        assert_eq!(token.scopes, ["operator.read", "operator.write"]);
        assert!(is_text_of(&token, text.expose()));
        assert!(!format!("{token:?}").contains(text.expose()));
        assert!(minter.reveal("e", Role::Operator, &token).is_none());
        assert!(minter.reveal("d", Role::Node, &token).is_none());
        assert!(self::minter(2).reveal("d", Role::Operator, &token).is_none());
        let next = minter.mint(("d", "operator"), &[], Some(&token), 9);
        assert!(!is_text_of(&next, text.expose()));
        assert_eq!((next.created_at_ms, next.rotated_at_ms), (5, Some(9)));
    }

    #[test]
    fn a_token_of_another_program_is_known_by_its_hash_only() {
        let minter = minter(1);
        let mut token = minter.mint(("d", "node"), &[], None, 1);
        (token.hash, token.salt) = (hash("theirs"), None);
        assert!(is_text_of(&token, " theirs "));
        assert!(minter.reveal("d", Role::Node, &token).is_none());
    }
}
