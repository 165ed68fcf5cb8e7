//! `gateway.metrics`: what is told to scrapers.

use std::path::Path;

use super::ConfigError;
use super::explain::{Choice, Ledger};
use super::schema::Node;

/// `gateway.metrics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsSettings {
    /// Whether `GET /metrics` is answered.
    pub enabled: bool,
    /// Whether it is answered to programs of this machine without a credential.
    pub public: bool,
}

pub(super) fn read(
    gateway: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<MetricsSettings, ConfigError> {
    let node = gateway.member("metrics")?;
    let enabled = Choice::file(file, node.member("enabled")?.boolean()?);
    let public = Choice::file(file, node.member("public")?.boolean()?);
    Ok(MetricsSettings {
        enabled: ledger.settle("gateway.metrics.enabled", enabled, true),
        public: ledger.settle("gateway.metrics.public", public, false),
    })
}
