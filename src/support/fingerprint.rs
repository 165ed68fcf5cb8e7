//! SHA-256 fingerprints of certificates.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use super::hex;

/// SHA-256 of a certificate in DER form: what a client pins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Of a certificate in DER form.
    pub fn of(certificate: &[u8]) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

/// Upper case, with colons, as `openssl x509 -fingerprint -sha256` shows it.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<_> = self.0.iter().map(|byte| format!("{byte:02X}")).collect();
        f.write_str(&pairs.join(":"))
    }
}

/// Takes what tools show: either case, colons, spaces, a leading `sha256:`.
impl FromStr for Fingerprint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim().to_ascii_lowercase();
        let digits = text
            .strip_prefix("sha256")
            .or_else(|| text.strip_prefix("sha-256"))
            .map_or(text.as_str(), |rest| rest.trim_start_matches([' ', ':', '=']));
        let digits: String = digits.chars().filter(|c| ![':', ' ', '-'].contains(c)).collect();
        let wrong = || "must be a SHA-256 fingerprint: 64 hex digits, colons allowed".to_owned();
        let mut bytes = [0; 32];
        if digits.len() != 64 || !digits.is_ascii() {
            return Err(wrong());
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            let pair = digits.get(2 * index..2 * index + 2).ok_or_else(wrong)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        if hex(bytes) == digits { Ok(Self(bytes)) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_fingerprint_is_the_same() {
        let known = Fingerprint::of(b"certificate");
        let shown = known.to_string();
        let bare = shown.replace(':', "").to_lowercase();
        for text in [
            shown.clone(),
            bare.clone(),
            format!(" sha256:{bare}\n"),
            format!("SHA256={shown}"),
            shown.replace(':', " "),
        ] {
            assert_eq!(text.parse(), Ok(known), "{text}");
        }
        for text in ["", "sha256:", &bare[1..], &format!("{bare}0"), &bare.replace('a', "+")] {
            assert!(text.parse::<Fingerprint>().is_err(), "{text}");
        }
    }
}
