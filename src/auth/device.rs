//! Device identity: proof of an Ed25519 key.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use ed25519_dalek::{Signature, VerifyingKey};
use sha2::{Digest, Sha256};

use crate::protocol::ErrorShape;
use crate::protocol::connect::{DeviceProof, StandardConnect};
use crate::support::{hex, json};

use super::identity;

/// How far the client's clock may be off.
const MAX_SKEW_MS: u64 = 120_000;

/// Why a proof is no proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofError {
    IdMismatch,
    Expired,
    NonceMissing,
    NonceMismatch,
    SignatureInvalid,
}

impl ProofError {
    /// The recorded answer.
    pub fn to_error(self) -> ErrorShape {
        let (message, code, reason) = match self {
            Self::IdMismatch => {
                ("device identity mismatch", "DEVICE_AUTH_DEVICE_ID_MISMATCH", "device-id-mismatch")
            }
            Self::Expired => (
                "device signature expired",
                "DEVICE_AUTH_SIGNATURE_EXPIRED",
                "device-signature-stale",
            ),
            Self::NonceMissing => {
                ("device nonce required", "DEVICE_AUTH_NONCE_REQUIRED", "device-nonce-missing")
            }
            Self::NonceMismatch => {
                ("device nonce mismatch", "DEVICE_AUTH_NONCE_MISMATCH", "device-nonce-mismatch")
            }
            Self::SignatureInvalid => {
                ("device signature invalid", "DEVICE_AUTH_SIGNATURE_INVALID", "device-signature")
            }
        };
        ErrorShape::denied(message).details(json!({"code": code, "reason": reason}))
    }
}

/// Checks a proof against the challenge that was sent on this connection.
pub fn verify(
    proof: &DeviceProof,
    connect: &StandardConnect,
    role: &str,
    nonce: &str,
    now_ms: u64,
) -> Result<(), ProofError> {
    let raw_key = decode_key(&proof.public_key);
    let expected_id =
        raw_key.as_deref().map(|raw| hex(Sha256::digest(raw))).ok_or(ProofError::IdMismatch)?;
    if expected_id != proof.id {
        return Err(ProofError::IdMismatch);
    }
    if proof.signed_at.abs_diff(now_ms) > MAX_SKEW_MS {
        return Err(ProofError::Expired);
    }
    match proof.nonce.trim() {
        "" => return Err(ProofError::NonceMissing),
        given if given != nonce => return Err(ProofError::NonceMismatch),
        _ => {}
    }
    let key = raw_key
        .and_then(|raw| VerifyingKey::try_from(raw.as_slice()).ok())
        .ok_or(ProofError::SignatureInvalid)?;
    let signature = decode(&proof.signature)
        .and_then(|raw| Signature::from_slice(&raw).ok())
        .ok_or(ProofError::SignatureInvalid)?;
    let signed = |text: String| key.verify_strict(text.as_bytes(), &signature).is_ok();
    if signed(payload_v3(proof, connect, role)) || signed(payload_v2(proof, connect, role)) {
        Ok(())
    } else {
        Err(ProofError::SignatureInvalid)
    }
}

fn payload_v2(proof: &DeviceProof, connect: &StandardConnect, role: &str) -> String {
    format!("v2|{}", common(proof, connect, role))
}

fn payload_v3(proof: &DeviceProof, connect: &StandardConnect, role: &str) -> String {
    let normalized = |text: Option<&str>| text.unwrap_or_default().trim().to_ascii_lowercase();
    format!(
        "v3|{}|{}|{}",
        common(proof, connect, role),
        normalized(Some(&connect.client.platform)),
        normalized(connect.client.device_family.as_deref()),
    )
}

fn common(proof: &DeviceProof, connect: &StandardConnect, role: &str) -> String {
    let auth = &connect.auth;
    let token =
        auth.token.as_ref().or(auth.device_token.as_ref()).or(auth.bootstrap_token.as_ref());
    format!(
        "{}|{}|{}|{role}|{}|{}|{}|{}",
        proof.id,
        connect.client.id,
        connect.client.mode,
        connect.scopes.join(","),
        proof.signed_at,
        token.map_or("", String::as_str),
        proof.nonce,
    )
}

/// Id and canonical spelling of a public key; none when it is no 32 bytes.
pub fn id_of_key(public_key: &str) -> Option<(String, String)> {
    let raw = decode_key(public_key).filter(|raw| raw.len() == 32)?;
    Some((hex(Sha256::digest(&raw)), URL_SAFE_NO_PAD.encode(raw)))
}

/// A public key as base64, or as PEM.
fn decode_key(text: &str) -> Option<Vec<u8>> {
    if text.contains("-----BEGIN") { identity::public_key_of_pem(text) } else { decode(text) }
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let bare = text.trim().trim_end_matches('=');
    URL_SAFE_NO_PAD
        .decode(bare)
        .or_else(|_| STANDARD.decode(text.trim()))
        .or_else(|_| STANDARD_NO_PAD.decode(bare))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::connect::{ClientInfo, ConnectAuth};

    // Signed by OpenClaw 2026.5.7.
    const NONCE: &str = "11111111-2222-4333-8444-555555555555";
    const SIGNED_AT: u64 = 1_767_225_600_000;
    const V2: &str =
        "6ttsT6geimCRdviFUlyCSr2OkCRd6oPbICe2P27oKG-tNbq_7TUw3LRT0aQaQ7-7hxPFWUS27XAhWR6W2g7oCA";
    const V3: &str =
        "UonjRB-xgV0LYbEQrHkSz2EhjGD8PtEVazcUJSUllT1eH3Xcl5RT-8lnYSQrcPB24UaQxvq8hQWNJ6YRXTW4Dg";

    fn connect() -> StandardConnect {
        StandardConnect {
            min_protocol: 3,
            max_protocol: 3,
            client: ClientInfo {
                id: "cli".into(),
                mode: "cli".into(),
                version: "1".into(),
                platform: " Linux ".into(),
                device_family: Some("PC".into()),
                ..ClientInfo::default()
            },
            caps: vec![],
            offers: crate::protocol::connect::NodeOffers::default(),
            role: None,
            scopes: vec!["operator.read".into(), "operator.write".into()],
            device: None,
            auth: ConnectAuth { token: Some("ref-secret-0001".into()), ..ConnectAuth::default() },
            user_agent: None,
        }
    }

    fn proof(signature: &str) -> DeviceProof {
        DeviceProof {
            id: "56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c".into(),
            public_key: "A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg".into(),
            signature: signature.into(),
            signed_at: SIGNED_AT,
            nonce: NONCE.into(),
        }
    }

    fn check(proof: &DeviceProof, connect: &StandardConnect, now: u64) -> Result<(), ProofError> {
        verify(proof, connect, "operator", NONCE, now)
    }

    #[test]
    fn both_recorded_signatures_verify_in_both_base64_spellings() {
        for signature in [V2, V3] {
            assert_eq!(check(&proof(signature), &connect(), SIGNED_AT), Ok(()));
            let plain = signature.replace('-', "+").replace('_', "/") + "==";
            assert_eq!(check(&proof(&plain), &connect(), SIGNED_AT + MAX_SKEW_MS), Ok(()));
        }
    }

    #[test]
    fn a_key_may_be_a_pem_text() {
        let raw = decode(&proof(V3).public_key).unwrap();
        let der = [&[0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0][..], &raw].concat();
        let pem = format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
            STANDARD.encode(der)
        );
        let with_pem = DeviceProof { public_key: pem.clone(), ..proof(V3) };
        assert_eq!(check(&with_pem, &connect(), SIGNED_AT), Ok(()));
        let expected = (proof(V3).id, proof(V3).public_key);
        assert_eq!(id_of_key(&pem), Some(expected));
    }

    #[test]
    fn every_signed_member_is_bound() {
        let flips: [fn(&mut StandardConnect); 5] = [
            |c| c.client.mode = "ui".into(),
            |c| c.client.id = "test".into(),
            |c| c.scopes.push("operator.admin".into()),
            |c| c.auth.token = Some("other".into()),
            |c| c.auth.token = None,
        ];
        for flip in flips {
            let mut flipped = connect();
            flip(&mut flipped);
            assert_eq!(check(&proof(V3), &flipped, SIGNED_AT), Err(ProofError::SignatureInvalid));
        }
        let mut mac = connect();
        mac.client.platform = "macos".into();
        assert_eq!(check(&proof(V3), &mac, SIGNED_AT), Err(ProofError::SignatureInvalid));
        assert_eq!(check(&proof(V2), &mac, SIGNED_AT), Ok(()), "v2 does not sign the platform");
    }

    #[test]
    fn failures_come_in_the_recorded_order() {
        let with = |change: fn(&mut DeviceProof)| {
            let mut changed = proof(V3);
            change(&mut changed);
            check(&changed, &connect(), SIGNED_AT).unwrap_err()
        };
        assert_eq!(with(|p| p.id = "x".into()), ProofError::IdMismatch);
        assert_eq!(with(|p| p.public_key = "AAAA".into()), ProofError::IdMismatch);
        assert_eq!(with(|p| p.signed_at += MAX_SKEW_MS + 1), ProofError::Expired);
        assert_eq!(with(|p| p.nonce = " ".into()), ProofError::NonceMissing);
        assert_eq!(with(|p| p.nonce = "other".into()), ProofError::NonceMismatch);
        assert_eq!(with(|p| p.signature = "AAAA".into()), ProofError::SignatureInvalid);
    }
}
