//! The `gateway.auth` section: who is let in.
//!
//! Owns: the auth mode, the shared secret, what it is worth, the rate limit.
//! Promises: there are no settings that let strangers in over the network, and
//! none whose mode lacks its secret. Must not: check a credential.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::explain::{Choice, Ledger, Origin};
use super::gateway::Sources;
use super::schema::Node;
use super::secrets::{self, SecretError, SecretInput, SecretRef, SecretsConfig};
use super::{Bind, ConfigError, Env, token};
use crate::protocol::{Scope, ScopeSet};
use crate::support::{Secret, millis};
use crate::telemetry;

const MODES: &str = "token, password, none, trusted-proxy";
const TOKEN_KEY: &str = "gateway.auth.token";
const PASSWORD_KEY: &str = "gateway.auth.password";

/// How a client proves that it may connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMode {
    /// It knows the token.
    Token,
    /// It knows the password.
    Password,
    /// It need not; this machine only.
    None,
    /// A proxy in front has checked it.
    TrustedProxy,
}

impl AuthMode {
    /// The name in the config file and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Password => "password",
            Self::None => "none",
            Self::TrustedProxy => "trusted-proxy",
        }
    }
}

impl FromStr for AuthMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Token, Self::Password, Self::None, Self::TrustedProxy]
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| format!("must be one of {MODES}"))
    }
}

impl fmt::Display for AuthMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who is let in.
#[derive(Debug, Clone)]
pub struct AuthSettings {
    /// How a client proves that it may connect.
    pub mode: AuthMode,
    /// The shared token; always there in token mode, unless only looking or
    /// referred to.
    pub token: Option<Secret>,
    /// The shared password; always there in password mode, unless referred to.
    pub password: Option<Secret>,
    /// Where the secret of the mode is when the file only refers to it, by its
    /// key; see [`AuthSettings::follow`].
    pub referred: Vec<(&'static str, SecretRef)>,
    /// What a shared secret is worth to a client without a device.
    pub shared_secret_scopes: ScopeSet,
    /// Limit on failed logins; `None` when the config has none.
    pub rate_limit: Option<RateLimitSettings>,
}

impl AuthSettings {
    /// Follows the references to token and password. Nothing waits, and nobody
    /// is asked, when there are none.
    ///
    /// # Errors
    /// For a reference that leads nowhere, or to nothing, with its key.
    pub async fn follow(
        &mut self,
        config: &SecretsConfig,
        env: &Env,
    ) -> Result<(), (&'static str, SecretError)> {
        let referred = std::mem::take(&mut self.referred);
        if referred.is_empty() {
            return Ok(());
        }
        let wanted = referred.iter().map(|(_, reference)| reference.clone()).collect();
        let (found, lost) = secrets::resolve(&wanted, config, env).await;
        if let Some((reference, error)) = lost.into_iter().next() {
            let place = referred.iter().find(|(_, known)| *known == reference);
            return Err((place.map_or(TOKEN_KEY, |(key, _)| *key), error));
        }
        for (key, reference) in referred {
            let secret = found.get(&reference).filter(|secret| !secret.is_empty()).cloned();
            if secret.is_none() {
                let (name, _) = config.provider(reference.source, reference.provider.as_deref());
                let (name, id) = (name.to_owned(), reference.id);
                return Err((key, SecretError::NotThere { name, id }));
            }
            if key == TOKEN_KEY { self.token = secret } else { self.password = secret }
        }
        Ok(())
    }
}

/// Limit on failed logins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitSettings {
    /// So many failures …
    pub max_attempts: u32,
    /// … within this time …
    pub window: Duration,
    /// … close the door for this long.
    pub lockout: Duration,
    /// This machine's own clients are not counted.
    pub exempt_loopback: bool,
}

impl Default for RateLimitSettings {
    fn default() -> Self {
        Self {
            max_attempts: 10,
            window: Duration::from_mins(1),
            lockout: Duration::from_mins(5),
            exempt_loopback: true,
        }
    }
}

pub(super) fn resolve(
    node: &Node<'_>,
    bind: Bind,
    from: &Sources<'_>,
    ledger: &mut Ledger,
) -> Result<AuthSettings, ConfigError> {
    let secret = |flag, value: &Option<Secret>, variable, name| -> Result<_, ConfigError> {
        let given = value.clone().filter(|secret| !secret.is_empty());
        let variable_text = from.env.get(variable).map(Secret::new);
        Ok(Choice::flag(flag, given.map(SecretInput::Text))
            .or_env(variable, variable_text.map(SecretInput::Text))
            .or_file(from.file, node.member(name)?.secret(from.env)?))
    };
    let password =
        secret("--password", &from.overrides.password, "OPENCLAW_GATEWAY_PASSWORD", "password")?;
    let token = secret("--token", &from.overrides.token, "OPENCLAW_GATEWAY_TOKEN", "token")?;
    let mode = mode(node, &password, from, ledger)?;
    if mode == AuthMode::None && !bind.host().is_loopback() {
        return Err(ConfigError::ExposedWithoutAuth { host: bind.host() });
    }
    if mode == AuthMode::Password && !password.is_set() {
        return Err(ConfigError::PasswordMissing);
    }
    let shared_secret_scopes = shared_secret_scopes(node, from, ledger)?;
    let rate_limit = rate_limit(&node.member("rateLimit")?, from, ledger)?;
    let token = if mode == AuthMode::Token { with_token_file(token, from)? } else { token };
    let mut referred = Vec::new();
    // Only what the mode asks for is looked up: another one may lead nowhere.
    let mut settle = |key, choice, is_used| match ledger.settle_secret(key, choice) {
        Some(SecretInput::Text(secret)) => {
            telemetry::hide(&secret);
            Some(secret)
        }
        Some(SecretInput::Ref(reference)) => {
            referred.extend(Some((key, reference)).filter(|_| is_used));
            None
        }
        None => None,
    };
    Ok(AuthSettings {
        mode,
        token: settle(TOKEN_KEY, token, mode == AuthMode::Token),
        // Beside a proxy, it is for programs on this machine.
        password: settle(
            PASSWORD_KEY,
            password,
            matches!(mode, AuthMode::Password | AuthMode::TrustedProxy),
        ),
        referred,
        shared_secret_scopes,
        rate_limit,
    })
}

/// What is written wins; else a password means password mode.
fn mode(
    node: &Node<'_>,
    password: &Choice<SecretInput>,
    from: &Sources<'_>,
    ledger: &mut Ledger,
) -> Result<AuthMode, ConfigError> {
    let written = node.member("mode")?.word(MODES, |text| text.parse().ok())?;
    let implied = password.origin().cloned();
    let choice = Choice::flag("--auth", from.overrides.auth)
        .or_file(from.file, written)
        .or(implied.is_some().then_some(AuthMode::Password), || implied.unwrap_or(Origin::Default));
    Ok(ledger.settle("gateway.auth.mode", choice, AuthMode::Token))
}

fn with_token_file(
    token: Choice<SecretInput>,
    from: &Sources<'_>,
) -> Result<Choice<SecretInput>, ConfigError> {
    if token.is_set() {
        return Ok(token);
    }
    let path = from.paths.token_file();
    let kept = if from.overrides.read_only {
        token::read(&path)?
    } else {
        Some(token::read_or_create(&path)?)
    };
    Ok(token.or(kept.map(SecretInput::Text), || Origin::Generated(path)))
}

fn shared_secret_scopes(
    node: &Node<'_>,
    from: &Sources<'_>,
    ledger: &mut Ledger,
) -> Result<ScopeSet, ConfigError> {
    let node = node.member("sharedSecretScopes")?;
    let mut scopes = node.is_set().then(Vec::new);
    for item in node.items()? {
        let name = item.required_text()?;
        let scope = Scope::parse(&name).or_else(|| Scope::parse(&format!("operator.{name}")));
        let allowed = Scope::ALL.map(Scope::as_str).join(", ");
        let scope = scope.ok_or_else(|| item.wrong(&format!("must be one of {allowed}")))?;
        scopes.get_or_insert_default().push(scope);
    }
    let default = [Scope::Read, Scope::Write, Scope::Admin, Scope::Approvals];
    let origin = match scopes {
        Some(_) => Origin::File(from.file.to_owned()),
        None => Origin::Default,
    };
    let set: ScopeSet = scopes.unwrap_or_else(|| default.to_vec()).into_iter().collect();
    let names: Vec<_> = set.iter().map(Scope::as_str).collect();
    let shown = if names.is_empty() { "none".into() } else { names.join(", ") };
    ledger.note("gateway.auth.sharedSecretScopes", shown, origin);
    Ok(set)
}

fn rate_limit(
    node: &Node<'_>,
    from: &Sources<'_>,
    ledger: &mut Ledger,
) -> Result<Option<RateLimitSettings>, ConfigError> {
    if !node.is_set() {
        ledger.note("gateway.auth.rateLimit", "off".into(), Origin::Default);
        return Ok(None);
    }
    let max_attempts = Choice::file(from.file, node.member("maxAttempts")?.count()?);
    let window = Choice::file(from.file, node.member("windowMs")?.count()?);
    let lockout = Choice::file(from.file, node.member("lockoutMs")?.count()?);
    let exempt = Choice::file(from.file, node.member("exemptLoopback")?.boolean()?);
    let key = |name| format!("gateway.auth.rateLimit.{name}");
    let default = RateLimitSettings::default();
    let (window_ms, lockout_ms) = (millis(default.window), millis(default.lockout));
    Ok(Some(RateLimitSettings {
        max_attempts: ledger.settle(&key("maxAttempts"), max_attempts, default.max_attempts),
        window: Duration::from_millis(ledger.settle(&key("windowMs"), window, window_ms)),
        lockout: Duration::from_millis(ledger.settle(&key("lockoutMs"), lockout, lockout_ms)),
        exempt_loopback: ledger.settle(&key("exemptLoopback"), exempt, default.exempt_loopback),
    }))
}
