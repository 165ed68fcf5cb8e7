//! Encrypting a notification for one browser (RFC 8291, RFC 8188).

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::rand::{SecureRandom, SystemRandom};

use super::SubscriptionKeys;

/// Push services take 4096 bytes; what encryption adds is less than 200.
pub const PLAIN_MAX: usize = 3800;
/// The one record of a message ends within it.
const RECORD: u32 = 4096;
/// Bytes of a point of P-256.
const POINT: usize = 65;
/// Bytes of the secret of a browser.
const AUTH: usize = 16;
/// Bytes of a salt and of a key.
const KEY: usize = 16;
/// Bytes of a nonce.
const NONCE: usize = 12;

/// Base64url as browsers write it, with padding or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// So many bytes are derived.
struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

/// The body for the push service, in `aes128gcm`.
///
/// # Errors
/// When the keys are none, in words; they are not told.
pub fn encrypted(keys: &SubscriptionKeys, plain: &[u8]) -> Result<Vec<u8>, String> {
    let point = BASE64.decode(keys.p256dh.trim()).ok().filter(|it| it.len() == POINT);
    let point = point.ok_or("keys.p256dh is no public key of P-256")?;
    let auth = BASE64.decode(keys.auth.trim()).ok().filter(|it| it.len() == AUTH);
    let auth = auth.ok_or("keys.auth is no secret of 16 bytes")?;
    let failed = |_| "the message cannot be encrypted".to_owned();
    let random = SystemRandom::new();
    let own = EphemeralPrivateKey::generate(&ECDH_P256, &random).map_err(failed)?;
    let own_point = own.compute_public_key().map_err(failed)?;
    let mut salt = [0; KEY];
    random.fill(&mut salt).map_err(failed)?;
    let info = [b"WebPush: info\0", point.as_slice(), own_point.as_ref()];
    let theirs = UnparsedPublicKey::new(&ECDH_P256, &point);
    let agreed = agree_ephemeral(own, &theirs, |shared| derived(&auth, shared, &info, 32));
    let keying = agreed.map_err(|_| "keys.p256dh is no public key of P-256")?.map_err(failed)?;
    let key = derived(&salt, &keying, &[b"Content-Encoding: aes128gcm\0"], KEY).map_err(failed)?;
    let nonce = derived(&salt, &keying, &[b"Content-Encoding: nonce\0"], NONCE).map_err(failed)?;
    let nonce = Nonce::try_assume_unique_for_key(&nonce).map_err(failed)?;
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).map_err(failed)?);
    let mut record = plain.to_vec();
    // It is the last record.
    record.push(2);
    key.seal_in_place_append_tag(nonce, Aad::empty(), &mut record).map_err(failed)?;
    let mut body = salt.to_vec();
    body.extend(RECORD.to_be_bytes());
    body.extend(u8::try_from(POINT).ok());
    body.extend(own_point.as_ref());
    body.extend(record);
    Ok(body)
}

fn derived(
    salt: &[u8],
    secret: &[u8],
    info: &[&[u8]],
    length: usize,
) -> Result<Vec<u8>, ring::error::Unspecified> {
    let mut out = vec![0; length];
    let key = Salt::new(HKDF_SHA256, salt).extract(secret);
    key.expand(info, Bytes(length))?.fill(&mut out)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a browser does it.
    fn decrypted(own: EphemeralPrivateKey, auth: &[u8], body: &[u8]) -> Vec<u8> {
        let own_point = own.compute_public_key().unwrap();
        let (salt, rest) = body.split_at(KEY);
        assert_eq!(rest[..5], [0, 0, 16, 0, 65]);
        let (theirs, sealed) = rest[5..].split_at(POINT);
        let info = [b"WebPush: info\0", own_point.as_ref(), theirs];
        let theirs = UnparsedPublicKey::new(&ECDH_P256, theirs);
        let keying = agree_ephemeral(own, &theirs, |shared| derived(auth, shared, &info, 32));
        let keying = keying.unwrap().unwrap();
        let key = derived(salt, &keying, &[b"Content-Encoding: aes128gcm\0"], KEY).unwrap();
        let nonce = derived(salt, &keying, &[b"Content-Encoding: nonce\0"], NONCE).unwrap();
        let nonce = Nonce::try_assume_unique_for_key(&nonce).unwrap();
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).unwrap());
        let mut sealed = sealed.to_vec();
        let plain = key.open_in_place(nonce, Aad::empty(), &mut sealed).unwrap();
        let (end, plain) = plain.split_last().unwrap();
        assert_eq!(*end, 2);
        plain.to_vec()
    }

    fn keys(point: &[u8], auth: &[u8]) -> SubscriptionKeys {
        SubscriptionKeys { p256dh: BASE64.encode(point), auth: BASE64.encode(auth) }
    }

    #[test]
    fn only_the_browser_reads_a_message_and_no_two_are_alike() {
        let own = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new()).unwrap();
        let keys = keys(own.compute_public_key().unwrap().as_ref(), &[7; AUTH]);
        let (one, other) =
            (encrypted(&keys, b"hello").unwrap(), encrypted(&keys, b"hello").unwrap());
        assert_ne!(one, other);
        assert_eq!(decrypted(own, &[7; AUTH], &one), b"hello");
        assert!(encrypted(&keys, &[b'x'; PLAIN_MAX]).unwrap().len() <= 4096);
    }

    #[test]
    fn keys_that_are_none_are_refused() {
        let point = [4; POINT];
        let good = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new()).unwrap();
        let good = good.compute_public_key().unwrap();
        for (keys, wrong) in [
            (keys(&[1, 2, 3], &[0; AUTH]), "p256dh"),
            (keys(&point, &[0; AUTH]), "p256dh"),
            (keys(good.as_ref(), &[0; 3]), "auth"),
            (SubscriptionKeys { p256dh: "?".into(), auth: String::new() }, "p256dh"),
        ] {
            let error = encrypted(&keys, b"x").unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
