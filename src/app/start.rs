//! What a gateway begins with.

use crate::config::watch::fingerprint;
use crate::config::{self, ConfigError, Env, Overrides, Paths, Settings};
use crate::registry::Repair;

/// What a gateway begins with.
#[derive(Debug, Clone)]
pub struct Start {
    /// The effective configuration.
    pub settings: Settings,
    /// What the command line decides.
    pub overrides: Overrides,
    /// What is in the config file, at the latest.
    pub(super) seen: [u8; 32],
    /// Why these are not the settings of the file.
    pub repair: Option<Repair>,
}

impl Start {
    /// The configuration as it is.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn load(env: &Env, overrides: &Overrides) -> Result<Self, ConfigError> {
        // Before it is read: a change in between is found then.
        let seen = fingerprint(&[Paths::resolve(env)?.config_path]);
        let settings = config::load(env, overrides)?;
        Ok(Self { settings, overrides: overrides.clone(), seen, repair: None })
    }
}
