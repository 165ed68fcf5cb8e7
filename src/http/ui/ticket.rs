//! Tickets for one file: what an `<img>` of the Control UI shows, which can send
//! no credential.

use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::support::reading;

/// As in the original.
const LIFE_MS: u64 = 300_000;
/// Most letters of a ticket; a source is part of it.
const MAX_TICKET: usize = 16 * 1024;
/// What it is for.
const SCOPE: &str = "assistant-media";

/// Makes tickets, which are good until they end or the gateway does.
#[derive(Default)]
pub struct Tickets {
    /// Made when the first one is.
    key: OnceLock<Option<[u8; 32]>>,
}

#[derive(Serialize, Deserialize)]
struct Payload {
    scope: String,
    source: String,
    exp: u64,
}

impl Tickets {
    /// A ticket for a file, and when it ends; none without random numbers.
    pub fn issue(&self, source: &str, now_ms: u64) -> Option<(String, u64)> {
        let exp = now_ms + LIFE_MS;
        let payload = Payload { scope: SCOPE.to_owned(), source: source.to_owned(), exp };
        let payload = URL_SAFE_NO_PAD.encode(serde_json::to_string(&payload).ok()?);
        let proof = self.proof(&payload)?.finalize().into_bytes();
        Some((format!("v1.{payload}.{}", URL_SAFE_NO_PAD.encode(proof)), exp))
    }

    /// Whether a ticket is good for a file.
    pub fn is_good(&self, ticket: &str, source: &str, now_ms: u64) -> bool {
        self.checked(ticket, now_ms).is_some_and(|of| of == source)
    }

    /// The file that a ticket is good for.
    fn checked(&self, ticket: &str, now_ms: u64) -> Option<String> {
        if ticket.len() > MAX_TICKET {
            return None;
        }
        let (payload, proof) = ticket.strip_prefix("v1.")?.split_once('.')?;
        self.proof(payload)?.verify_slice(&URL_SAFE_NO_PAD.decode(proof).ok()?).ok()?;
        let payload = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
        let payload: Payload = reading::of(&payload).ok()?;
        (payload.scope == SCOPE && payload.exp >= now_ms).then_some(payload.source)
    }

    fn proof(&self, payload: &str) -> Option<Hmac<Sha256>> {
        let key = self.key.get_or_init(|| {
            let mut key = [0; 32];
            getrandom::fill(&mut key).ok().map(|()| key)
        });
        let mut proof = Hmac::new_from_slice(key.as_ref()?).ok()?;
        proof.update(payload.as_bytes());
        Some(proof)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_for_its_file_and_its_time_and_this_gateway() {
        let tickets = Tickets::default();
        let (ticket, exp) = tickets.issue("/a.png", 1000).unwrap();
        assert_eq!(exp, 301_000);
        assert!(tickets.is_good(&ticket, "/a.png", exp));
        assert!(!tickets.is_good(&ticket, "/a.png", exp + 1));
        assert!(!tickets.is_good(&ticket, "/b.png", 1000));
        assert!(!Tickets::default().is_good(&ticket, "/a.png", 1000));
        let (other, _) = tickets.issue("/b.png", 1000).unwrap();
        let swapped = format!(
            "{}.{}",
            &other[..other.rfind('.').unwrap()],
            &ticket[ticket.rfind('.').unwrap() + 1..]
        );
        for wrong in ["", "v1..", "v1.a.b", &ticket[..ticket.len() - 2], &swapped] {
            assert!(!tickets.is_good(wrong, "/b.png", 1000), "{wrong}");
        }
    }
}
