//! The gateway's own key pair.
//!
//! Owns: `identity/device.json`, in OpenClaw's format, so that the identity
//! survives a change from one program to the other. Promises: the device id is
//! always that of the key; the file is made once and only its owner can read
//! it. Must not: show the private key.

use std::fmt::{self, Write as _};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ed25519_dalek::{Signer, SigningKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::store::atomic::{FileError, OnPath, create_private};
use crate::support::{Clock, hex};

/// DER before the 32 key bytes of a PKCS#8 Ed25519 private key (RFC 8410).
const PRIVATE_PREFIX: [u8; 16] =
    [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// DER before the 32 key bytes of an Ed25519 public key (RFC 8410).
const PUBLIC_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

const PRIVATE_LABEL: &str = "PRIVATE KEY";
const PUBLIC_LABEL: &str = "PUBLIC KEY";

/// A device: a key pair and the id that follows from it.
#[derive(Clone)]
pub struct DeviceIdentity {
    device_id: String,
    public_key: String,
    key: SigningKey,
}

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file is not what OpenClaw or clawgate writes.
    #[error(
        "{} is not a device identity ({reason}); restore it from a backup, or move it away to get a new identity",
        path.display()
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The system has no random numbers for a key.
    #[error("cannot get random bytes from the operating system for the gateway's key")]
    NoRandom(#[source] getrandom::Error),
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
}

/// `identity/device.json`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeviceFile {
    version: u32,
    device_id: String,
    public_key_pem: String,
    private_key_pem: String,
    created_at_ms: u64,
}

impl DeviceIdentity {
    /// The identity in `path`; makes one when there is none.
    pub fn load_or_create(path: &Path, clock: &dyn Clock) -> Result<Self, IdentityError> {
        if let Some(identity) = Self::load(path)? {
            return Ok(identity);
        }
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(IdentityError::NoRandom)?;
        let identity = Self::from_seed(&seed);
        let text = identity.to_file_text(clock).map_err(|error| malformed(path, &error))?;
        if create_private(path, text.as_bytes())? {
            return Ok(identity);
        }
        // Another process was faster: there must be one identity.
        Self::load(path)?.ok_or_else(|| malformed(path, &"it went away while it was read"))
    }

    /// The identity of a private key.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let key = SigningKey::from_bytes(seed);
        let public = key.verifying_key().to_bytes();
        Self {
            device_id: hex(Sha256::digest(public)),
            public_key: URL_SAFE_NO_PAD.encode(public),
            key,
        }
    }

    /// Lowercase hex SHA-256 of the raw public key.
    pub fn device_id(&self) -> &str {
        &self.device_id
    }

    /// The raw public key as base64url without padding, as on the wire.
    pub fn public_key(&self) -> &str {
        &self.public_key
    }

    /// Signs a text; base64url without padding, as on the wire.
    pub fn sign(&self, payload: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.key.sign(payload.as_bytes()).to_bytes())
    }

    /// The identity in `path`, if there is one.
    pub fn load(path: &Path) -> Result<Option<Self>, IdentityError> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.on_path("read", path)?,
        };
        let file: DeviceFile = serde_json::from_str(&text).map_err(|e| malformed(path, &e))?;
        // Id and public key in the file may be stale; the private key decides.
        let der = pem_decode(PRIVATE_LABEL, &file.private_key_pem)
            .ok_or_else(|| malformed(path, &"privateKeyPem is not PEM"))?;
        let seed = der
            .strip_prefix(&PRIVATE_PREFIX)
            .and_then(|seed| <&[u8; 32]>::try_from(seed).ok())
            .ok_or_else(|| malformed(path, &"privateKeyPem is not an Ed25519 key"))?;
        Ok(Some(Self::from_seed(seed)))
    }

    fn to_file_text(&self, clock: &dyn Clock) -> Result<String, serde_json::Error> {
        let private = [PRIVATE_PREFIX.as_slice(), self.key.as_bytes()].concat();
        let public = [PUBLIC_PREFIX.as_slice(), self.key.verifying_key().as_bytes()].concat();
        let file = DeviceFile {
            version: 1,
            device_id: self.device_id.clone(),
            public_key_pem: pem_encode(PUBLIC_LABEL, &public),
            private_key_pem: pem_encode(PRIVATE_LABEL, &private),
            created_at_ms: clock.now_ms(),
        };
        serde_json::to_string_pretty(&file).map(|text| text + "\n")
    }
}

impl fmt::Debug for DeviceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceIdentity").field("device_id", &self.device_id).finish_non_exhaustive()
    }
}

fn malformed(path: &Path, reason: &dyn fmt::Display) -> IdentityError {
    IdentityError::Malformed { path: path.to_owned(), reason: reason.to_string() }
}

/// Both keys fit in one line of PEM.
fn pem_encode(label: &str, der: &[u8]) -> String {
    let mut pem = String::new();
    let body = STANDARD.encode(der);
    let _ = write!(pem, "-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
    pem
}

/// The raw key in the PEM text of an Ed25519 public key.
pub(super) fn public_key_of_pem(pem: &str) -> Option<Vec<u8>> {
    let der = pem_decode(PUBLIC_LABEL, pem)?;
    der.strip_prefix(&PUBLIC_PREFIX).map(<[u8]>::to_vec)
}

fn pem_decode(label: &str, pem: &str) -> Option<Vec<u8>> {
    let body = pem
        .trim()
        .strip_prefix(&format!("-----BEGIN {label}-----"))?
        .strip_suffix(&format!("-----END {label}-----"))?;
    STANDARD.decode(body.split_whitespace().collect::<String>()).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::support::SystemClock;

    /// Made by OpenClaw 2026.5.7.
    const DEVICE_ID: &str = "56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c";
    const PUBLIC_KEY: &str = "A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg";
    const SIGNED: [(&str, &str); 2] = [
        (
            "v2|56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c|cli|cli|operator|operator.read,operator.write|1767225600000|ref-secret-0001|11111111-2222-4333-8444-555555555555",
            "6ttsT6geimCRdviFUlyCSr2OkCRd6oPbICe2P27oKG-tNbq_7TUw3LRT0aQaQ7-7hxPFWUS27XAhWR6W2g7oCA",
        ),
        (
            "v3|56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c|node-host|node|node||1767225600000||11111111-2222-4333-8444-555555555555||",
            "Qn8sa8fSek3Ib7iBoerZpEXWPfLuoyr9Dtrj1H0JzF2cNSdjQgyFPYr_lM0V_ZyYPGhQMNDW83YM8k_k5GeICA",
        ),
    ];
    /// What `node:crypto` exports for the vector's key.
    const PRIVATE_PEM: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n-----END PRIVATE KEY-----\n";
    const PUBLIC_PEM: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=\n-----END PUBLIC KEY-----\n";

    fn vector() -> DeviceIdentity {
        DeviceIdentity::from_seed(&std::array::from_fn(|i| u8::try_from(i).unwrap()))
    }

    #[test]
    fn id_key_and_signatures_are_those_of_the_reference() {
        let identity = vector();
        assert_eq!(identity.device_id(), DEVICE_ID);
        assert_eq!(identity.public_key(), PUBLIC_KEY);
        for (payload, signature) in SIGNED {
            assert_eq!(identity.sign(payload), signature);
        }
    }

    #[test]
    fn the_file_is_that_of_openclaw() {
        struct Fixed;
        impl Clock for Fixed {
            fn now_ms(&self) -> u64 {
                7
            }
        }
        let file: serde_json::Value =
            serde_json::from_str(&vector().to_file_text(&Fixed).unwrap()).unwrap();
        assert_eq!(
            file,
            crate::support::json!({
                "version": 1, "deviceId": DEVICE_ID, "publicKeyPem": PUBLIC_PEM,
                "privateKeyPem": PRIVATE_PEM, "createdAtMs": 7,
            })
        );
    }

    #[test]
    fn an_identity_of_openclaw_is_taken_over_untouched() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("device.json");
        let text = crate::support::json!({
            "version": 1, "deviceId": "stale", "publicKeyPem": PUBLIC_PEM,
            "privateKeyPem": PRIVATE_PEM, "createdAtMs": 1, "more": true,
        })
        .to_string();
        fs::write(&path, &text).unwrap();
        let identity = DeviceIdentity::load_or_create(&path, &SystemClock).unwrap();
        assert_eq!(identity.device_id(), DEVICE_ID);
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn a_new_identity_is_private_and_stays_the_same() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("identity/device.json");
        let first = DeviceIdentity::load_or_create(&path, &SystemClock).unwrap();
        let second = DeviceIdentity::load_or_create(&path, &SystemClock).unwrap();
        assert_eq!(first.device_id(), second.device_id());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
    }

    #[test]
    fn a_broken_file_is_named_and_not_replaced() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("device.json");
        fs::write(&path, "{}").unwrap();
        let error = DeviceIdentity::load_or_create(&path, &SystemClock).unwrap_err().to_string();
        assert!(error.contains("device.json is not a device identity"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
    }
}
