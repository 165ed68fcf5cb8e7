//! Device identities: an Ed25519 key and the texts it signs.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Which text is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    V2,
    V3,
}

/// A device with its key pair.
pub struct DeviceKey {
    key: SigningKey,
}

impl DeviceKey {
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self { key: SigningKey::from_bytes(&seed) }
    }

    /// A key that depends on `name` only, so that a test can name its devices.
    pub fn named(name: &str) -> Self {
        Self::from_seed(Sha256::digest(name.as_bytes()).into())
    }

    pub fn public_key(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.key.verifying_key().as_bytes())
    }

    pub fn id(&self) -> String {
        id_of_key(self.key.verifying_key().as_bytes())
    }

    pub fn sign(&self, text: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.key.sign(text.as_bytes()).to_bytes())
    }

    /// The `device` member for a connect with these params: signs form v3.
    pub fn proof(&self, connect: &Value, nonce: &str, signed_at: i64) -> Value {
        let text = payload(Form::V3, connect, &self.id(), nonce, &signed_at.to_string());
        json!({
            "id": self.id(),
            "publicKey": self.public_key(),
            "signature": self.sign(&text),
            "signedAt": signed_at,
            "nonce": nonce,
        })
    }
}

/// Lowercase hex SHA-256 of the raw public key.
pub fn id_of_key(raw: &[u8]) -> String {
    Sha256::digest(raw).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Both alphabets of base64, with or without padding.
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).or_else(|_| STANDARD.decode(text)).ok()
}

/// Whether `signature` is that of `text` under `public_key`.
pub fn verifies(public_key: &str, text: &str, signature: &str) -> bool {
    let key = decode_base64(public_key)
        .and_then(|raw| <[u8; 32]>::try_from(raw).ok())
        .and_then(|raw| VerifyingKey::from_bytes(&raw).ok());
    let signature = decode_base64(signature).and_then(|raw| Signature::from_slice(&raw).ok());
    match (key, signature) {
        (Some(key), Some(signature)) => key.verify_strict(text.as_bytes(), &signature).is_ok(),
        _ => false,
    }
}

/// The text that a device signs for a connect with these params.
pub fn payload(form: Form, connect: &Value, id: &str, nonce: &str, signed_at: &str) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let client = &connect["client"];
    let scopes: Vec<_> =
        connect["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let role = connect["role"].as_str().unwrap_or("operator").to_owned();
    let auth = &connect["auth"];
    let token = ["token", "deviceToken", "bootstrapToken"]
        .iter()
        .find_map(|name| auth[*name].as_str())
        .unwrap_or_default();
    let version = if form == Form::V3 { "v3" } else { "v2" };
    let mut parts = vec![
        version.to_owned(),
        id.to_owned(),
        text(&client["id"]),
        text(&client["mode"]),
        role,
        scopes.join(","),
        signed_at.to_owned(),
        token.to_owned(),
        nonce.to_owned(),
    ];
    if form == Form::V3 {
        let lowered = |value: &Value| text(value).trim().to_ascii_lowercase();
        parts.push(lowered(&client["platform"]));
        parts.push(lowered(&client["deviceFamily"]));
    }
    parts.join("|")
}
