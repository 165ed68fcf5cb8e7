//! Signatures of requests: HMAC-SHA256 over `<time>.<body>`.
//!
//! Promises: the comparison takes as long for a wrong signature as for a right
//! one; a request is worth something for a while only.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::support::{Secret, hex};

/// The header with the time, in seconds since the epoch.
pub const TIMESTAMP: &str = "x-openclaw-timestamp";
/// The header with the signature: `sha256=` and lowercase hex.
pub const SIGNATURE: &str = "x-openclaw-signature";
/// What a signature begins with.
const PREFIX: &str = "sha256=";

/// Both headers for a body.
pub fn sign(secret: &Secret, now: u64, body: &[u8]) -> (String, String) {
    let timestamp = now.to_string();
    let digest = mac(secret, &timestamp, body).map(|mac| hex(mac.finalize().into_bytes()));
    (timestamp, format!("{PREFIX}{}", digest.unwrap_or_default()))
}

/// Whether both headers fit a body, and the time is at most `window` seconds
/// away.
pub fn verify(
    secret: &Secret,
    timestamp: &str,
    signature: &str,
    body: &[u8],
    now: u64,
    window: u64,
) -> bool {
    let Ok(time) = timestamp.parse::<u64>() else { return false };
    let given = signature.strip_prefix(PREFIX).and_then(unhex);
    let signed = mac(secret, timestamp, body);
    let fits = signed.zip(given).is_some_and(|(mac, given)| mac.verify_slice(&given).is_ok());
    fits && time.abs_diff(now) <= window
}

/// Never `None`: a key of HMAC may have any length.
fn mac(secret: &Secret, timestamp: &str, body: &[u8]) -> Option<Hmac<Sha256>> {
    let key = secret.expose().as_bytes();
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).ok()?;
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body);
    Some(mac)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(2) || bytes.len() > 128 {
        return None;
    }
    let pairs = bytes.chunks_exact(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_rfc_4231() {
        // Test case 2, whose data are split so that time and body meet at the dot.
        let secret = Secret::new("Jefe");
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(b"Jefe").unwrap();
        mac.update(b"what do ya want for nothing?");
        let digest = hex(mac.finalize().into_bytes());
        assert_eq!(digest, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let (time, signature) = sign(&secret, 7, b"{}");
        assert_eq!(time, "7");
        assert!(verify(&secret, &time, &signature, b"{}", 7, 5));
    }

    #[test]
    fn whatever_is_changed_the_request_is_nobodys() {
        let secret = Secret::new("0123456789abcdef");
        let (time, signature) = sign(&secret, 1000, b"{\"a\":1}");
        let fits = |time: &str, signature: &str, body: &[u8], now| {
            verify(&secret, time, signature, body, now, 300)
        };
        assert!(fits(&time, &signature, b"{\"a\":1}", 1300));
        assert!(!fits(&time, &signature, b"{\"a\":1}", 1301), "too old");
        assert!(!fits(&time, &signature, b"{\"a\":1}", 699), "from the future");
        assert!(!fits(&time, &signature, b"{\"a\":2}", 1000), "another body");
        assert!(!fits("1001", &signature, b"{\"a\":1}", 1000), "another time");
        assert!(!fits("x", &signature, b"{\"a\":1}", 1000));
        let cut = &signature[..signature.len() - 2];
        for wrong in [cut, "", "sha256=", "sha256=zz", &signature[7..]] {
            assert!(!fits(&time, wrong, b"{\"a\":1}", 1000), "{wrong}");
        }
        let other = Secret::new("0123456789abcdeF");
        assert!(!verify(&other, &time, &signature, b"{\"a\":1}", 1000, 300));
    }
}
