//! `gateway.push`: notifications of browsers.

use serde::Deserialize;

use super::ConfigError;
use super::schema::Node;
use super::web::SsrfConfig;

/// `gateway.push`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PushConfig {
    /// The push services of browsers.
    pub web: WebPushConfig,
}

/// `gateway.push.web`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WebPushConfig {
    /// Which push services may be asked though they are private.
    pub ssrf_policy: SsrfConfig,
}

/// Reads the section; an error names the key inside it.
pub(super) fn read(root: &Node<'_>) -> Result<PushConfig, ConfigError> {
    root.at("gateway.push")?.deserialize()
}
