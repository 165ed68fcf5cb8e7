//! Device proofs, made anew.
//!
//! A recorded proof is tied to a nonce and a key that are gone. Each recorded
//! device gets a key of its own, and what was wrong with the recorded proof is
//! made wrong again: another nonce, an old time, a bad signature, a foreign id.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::ids::Learned;
use crate::support::device::{DeviceKey, Form, decode_base64, id_of_key, payload, verifies};
use crate::support::now_ms;

/// What the recording's connection knew when it connected.
pub struct Challenge {
    pub recorded_nonce: String,
    pub recorded_ts: i64,
    pub nonce: String,
}

/// The key that stands for a recorded device.
pub fn key_for(recorded_public_key: &str) -> DeviceKey {
    DeviceKey::named(recorded_public_key)
}

/// The new id and key of a recorded device become known, so that they are
/// replaced wherever they are named.
pub fn adopt(device: &Value, learned: &mut Learned) {
    let public = device["publicKey"].as_str().unwrap_or_default();
    let Some(raw) = decode_base64(public).filter(|raw| raw.len() == 32) else { return };
    let key = key_for(&canonical(&raw));
    learned.insert(&id_of_key(&raw), &key.id());
    learned.insert(&canonical(&raw), &key.public_key());
}

fn canonical(raw: &[u8]) -> String {
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(raw)
}

/// The `device` member of `connect`, valid or invalid as the recorded one was.
/// `recorded` are the recorded connect params, `connect` those sent now.
pub fn renew(recorded: &Value, connect: &Value, challenge: &Challenge) -> Value {
    let device = &recorded["device"];
    let mut renewed = device.clone();
    let text = |name: &str| device[name].as_str().unwrap_or_default();
    if text("nonce") == challenge.recorded_nonce {
        renewed["nonce"] = challenge.nonce.clone().into();
    }
    if let Some(signed_at) = device["signedAt"].as_i64() {
        renewed["signedAt"] = (now_ms() + signed_at - challenge.recorded_ts).into();
    }
    let raw = decode_base64(text("publicKey")).filter(|raw| raw.len() == 32);
    let Some(raw) = raw else { return renewed };
    let key = key_for(&canonical(&raw));
    let id_was = id_of_key(&raw);
    if text("id") == id_was {
        renewed["id"] = key.id().into();
    }
    renewed["publicKey"] = like(text("publicKey"), &key.public_key()).into();
    if let Some(form) = recorded_form(recorded) {
        let id = renewed["id"].as_str().unwrap_or_default();
        let nonce = renewed["nonce"].as_str().unwrap_or_default();
        let signed_at = renewed["signedAt"].to_string();
        let signed = key.sign(&payload(form, connect, id, nonce, &signed_at));
        renewed["signature"] = like(text("signature"), &signed).into();
    } else if decode_base64(text("signature")).is_some_and(|raw| raw.len() == 64) {
        renewed["signature"] = key.sign("another text").into();
    }
    renewed
}

/// The form under which the recorded signature holds, if it does.
fn recorded_form(recorded: &Value) -> Option<Form> {
    let device = &recorded["device"];
    let text = |name: &str| device[name].as_str().unwrap_or_default();
    let signed_at = device["signedAt"].to_string();
    [Form::V3, Form::V2].into_iter().find(|form| {
        let text_of = payload(*form, recorded, text("id"), text("nonce"), &signed_at);
        verifies(text("publicKey"), &text_of, text("signature"))
    })
}

/// In the alphabet that was recorded.
fn like(recorded: &str, value: &str) -> String {
    let plain = recorded.contains(['+', '/', '=']);
    match decode_base64(value) {
        Some(raw) if plain => STANDARD.encode(raw),
        _ => value.to_owned(),
    }
}

/// Params with a proof for a device that was connected before the recording.
pub fn signed(mut connect: Value, name: &str, nonce: &str) -> Value {
    connect["device"] = json!(null);
    connect["device"] = DeviceKey::named(name).proof(&connect, nonce, now_ms());
    connect
}
