//! One stored credential.

use serde_json::Value;

use crate::config::models::provider_id;
use crate::config::profiles::ProfileMode;
use crate::config::secrets::{ResolvedSecrets, SecretInput, SecretRef};
use crate::support::{Secret, reading};

/// A profile of `auth-profiles.json`.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Its id, such as `anthropic:default`.
    pub id: String,
    /// Whose it is, as that is written usually.
    pub provider: String,
    /// What kind it is.
    pub mode: ProfileMode,
    /// Whose account it is, when that is known.
    pub email: Option<String>,
    /// How long it is good for.
    pub expiry: Expiry,
    input: Option<SecretInput>,
}

/// How long a credential is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// For ever.
    Never,
    /// Until then, in milliseconds since the epoch.
    At(u64),
    /// What is written is no time; the credential is not used.
    Invalid,
}

impl Expiry {
    fn read(value: Option<&Value>) -> Self {
        match value {
            None | Some(Value::Null) => Self::Never,
            Some(value) => match value.as_u64() {
                Some(time) if time > 0 => Self::At(time),
                _ => Self::Invalid,
            },
        }
    }

    /// Whether it is good at this time.
    pub const fn is_valid(self, now_ms: u64) -> bool {
        match self {
            Self::Never => true,
            Self::At(time) => now_ms < time,
            Self::Invalid => false,
        }
    }
}

impl Profile {
    /// Reads the entry `id`; `None` when it is none that we know.
    pub fn read(id: &str, value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let mode = ProfileMode::parse(value.get("type")?.as_str()?)?;
        let provider = provider_id(&text("provider")?);
        let (written, reference) = match mode {
            ProfileMode::ApiKey => ("key", "keyRef"),
            ProfileMode::Token => ("token", "tokenRef"),
            ProfileMode::OAuth => ("access", "accessRef"),
        };
        // A reference counts where both are written, as in the original.
        let referred = value.get(reference).and_then(|it| reading::of(it).ok());
        let input = referred.map(SecretInput::Ref).or_else(|| {
            // Some versions write the reference in the place of the secret.
            value.get(written).and_then(|it| reading::of(it).ok())
        });
        Some(Self {
            id: id.to_owned(),
            provider,
            mode,
            email: text("email"),
            expiry: if mode == ProfileMode::ApiKey {
                Expiry::Never
            } else {
                Expiry::read(value.get("expires"))
            },
            input,
        })
    }

    /// Whether its secret is replaced by others of the same account.
    pub fn is_renewed(&self) -> bool {
        match self.mode {
            ProfileMode::OAuth => true,
            ProfileMode::Token => self.expiry != Expiry::Never || self.reference().is_some(),
            ProfileMode::ApiKey => false,
        }
    }

    /// Where its secret is, when it is not in the file.
    pub fn reference(&self) -> Option<&SecretRef> {
        self.input.as_ref()?.reference()
    }

    /// Whether the file holds its secret or says where it is.
    pub const fn has_input(&self) -> bool {
        self.input.is_some()
    }

    /// Its secret.
    pub fn secret(&self, secrets: &ResolvedSecrets) -> Option<Secret> {
        let secret = self.input.as_ref()?.resolve(secrets)?;
        crate::telemetry::hide(&secret);
        Some(secret)
    }
}
