//! The key pair that names this gateway to push services (RFC 8292).

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::Value;

use super::{Push, PushError};
use crate::support::{Secret, json};
use crate::telemetry;

/// Whom a push service may turn to, as in the original;
/// `OPENCLAW_VAPID_SUBJECT` names somebody else.
const SUBJECT: &str = "https://openclaw.ai";
/// Where the private number and the public point are in the PKCS #8 that is
/// generated: RFC 5958 around RFC 5915, of fixed length.
const PKCS8_LENGTH: usize = 138;
const PRIVATE: std::ops::Range<usize> = 36..68;
const PUBLIC: std::ops::Range<usize> = 73..138;
/// How long a proof is good; 24 hours is the most that there may be.
const PROOF_SECONDS: u64 = 12 * 60 * 60;

/// The pair, as it is written in its file.
#[derive(Debug, Clone)]
pub(super) struct VapidKeys {
    /// The public point, in base64url.
    pub public: String,
    private: Secret,
    subject: String,
}

impl VapidKeys {
    /// A new pair.
    fn generate() -> Result<Self, PushError> {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pair = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new());
        let pair = pair.map_err(|_| PushError::Keys("none could be made".into()))?;
        let whole = pair.as_ref();
        let (private, public) = (whole.get(PRIVATE), whole.get(PUBLIC));
        let (Some(private), Some(public)) = (private, public) else {
            return Err(PushError::Keys("none could be made".into()));
        };
        let text = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let keys =
            Self { public: text(public), private: text(private).into(), subject: SUBJECT.into() };
        // Another form of the pair would not be one.
        if whole.len() != PKCS8_LENGTH {
            return Err(PushError::Keys("none could be made".into()));
        }
        keys.pair().map(|_| keys)
    }

    fn read(file: &Value) -> Result<Self, String> {
        let text = |name: &str| file.get(name).and_then(Value::as_str).map(str::to_owned);
        let missing = || "it needs publicKey and privateKey".to_owned();
        let public = text("publicKey").ok_or_else(missing)?;
        let private = text("privateKey").ok_or_else(missing)?;
        let subject = text("subject").unwrap_or_else(|| SUBJECT.to_owned());
        let keys = Self { public, private: private.into(), subject };
        keys.pair().map(|_| keys).map_err(|error| error.to_string())
    }

    fn pair(&self) -> Result<EcdsaKeyPair, PushError> {
        let bytes = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text.trim_end_matches('='));
        let wrong = || PushError::Keys("publicKey and privateKey are no pair of P-256".into());
        let private = bytes(self.private.expose()).map_err(|_| wrong())?;
        let public = bytes(&self.public).map_err(|_| wrong())?;
        EcdsaKeyPair::from_private_key_and_public_key(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            &private,
            &public,
            &SystemRandom::new(),
        )
        .map_err(|_| wrong())
    }

    /// The `Authorization` header for the push service at this origin.
    pub fn proof(&self, origin: &str, now_ms: u64) -> Result<String, PushError> {
        let text = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let expires = now_ms / 1000 + PROOF_SECONDS;
        let claims = json!({"aud": origin, "exp": expires, "sub": self.subject});
        let head = text(json!({"typ": "JWT", "alg": "ES256"}));
        let signed = format!("{head}.{}", text(claims));
        let signature = self.pair()?.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = signature.map_err(|_| PushError::Keys("they cannot sign".into()))?;
        let signature = BASE64_URL_SAFE_NO_PAD.encode(signature);
        Ok(format!("vapid t={signed}.{signature}, k={}", self.public))
    }
}

impl Push {
    /// The public key, which browsers ask for.
    ///
    /// # Errors
    /// When there is no pair and none can be kept.
    pub async fn public_key(&self) -> Result<String, PushError> {
        Ok(self.vapid_keys().await?.public)
    }

    /// The pair of the environment, or the one in the file, which is made once.
    pub(super) async fn vapid_keys(&self) -> Result<VapidKeys, PushError> {
        let around = self.parts.settings.now().environment(&self.parts.env);
        let env = |name: &str| around.get(name).filter(|text| !text.trim().is_empty());
        let named = env("OPENCLAW_VAPID_PUBLIC_KEY").zip(env("OPENCLAW_VAPID_PRIVATE_KEY"));
        let mut keys = match named {
            Some((public, private)) => {
                let file = json!({"publicKey": public.trim(), "privateKey": private.trim()});
                VapidKeys::read(&file).map_err(PushError::Keys)?
            }
            None => self.kept_keys().await?,
        };
        if let Some(subject) = env("OPENCLAW_VAPID_SUBJECT") {
            subject.trim().clone_into(&mut keys.subject);
        }
        telemetry::hide(&keys.private);
        Ok(keys)
    }

    async fn kept_keys(&self) -> Result<VapidKeys, PushError> {
        let _gate = self.gate.lock().await;
        if let Some(keys) = self.keys.read(VapidKeys::read).await? {
            return Ok(keys);
        }
        let keys = VapidKeys::generate()?;
        let file = json!({"publicKey": keys.public, "privateKey": keys.private.expose(),
            "subject": keys.subject});
        self.keys.write(&file).await?;
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    #[test]
    fn a_pair_is_read_as_it_was_written_and_its_proof_is_good() {
        let keys = VapidKeys::generate().unwrap();
        let file = json!({"publicKey": keys.public, "privateKey": keys.private.expose()});
        let keys = VapidKeys::read(&file).unwrap();
        let proof = keys.proof("https://push.example", 1_000_000).unwrap();
        let (token, key) = proof.strip_prefix("vapid t=").unwrap().split_once(", k=").unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let bytes = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).unwrap();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, bytes(key))
            .verify(signed.as_bytes(), &bytes(signature))
            .unwrap();
        let claims: Value =
            serde_json::from_slice(&bytes(signed.split_once('.').unwrap().1)).unwrap();
        assert_eq!(
            claims,
            json!({"aud": "https://push.example", "exp": 1000 + 43_200, "sub": SUBJECT})
        );
        assert!(!format!("{keys:?}").contains(keys.private.expose()));
    }

    #[test]
    fn keys_that_do_not_belong_together_are_refused_without_being_told() {
        let (one, other) = (VapidKeys::generate().unwrap(), VapidKeys::generate().unwrap());
        let mixed = json!({"publicKey": one.public, "privateKey": other.private.expose()});
        let error = VapidKeys::read(&mixed).unwrap_err();
        assert!(error.contains("no pair") && !error.contains(other.private.expose()), "{error}");
        for wrong in [json!({}), json!({"publicKey": "AAAA", "privateKey": "?"})] {
            assert!(VapidKeys::read(&wrong).is_err());
        }
    }
}
