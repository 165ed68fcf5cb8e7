//! `gateway.http`: which APIs of other software are spoken by HTTP.

use std::path::Path;

use super::ConfigError;
use super::explain::{Choice, Ledger};
use super::schema::Node;

/// As in the original: conversations come with their pictures.
const BODY_BYTES: u64 = 20 * 1024 * 1024;
/// More is held in memory by nobody's leave.
const BODY_BYTES_MAX: u64 = 100 * 1024 * 1024;

/// `gateway.http`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpSettings {
    /// `endpoints.chatCompletions`.
    pub chat_completions: EndpointSettings,
    /// `endpoints.responses`.
    pub responses: EndpointSettings,
}

/// One API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointSettings {
    /// Whether it is there.
    pub enabled: bool,
    /// Most bytes of a request's body.
    pub max_body_bytes: u64,
    /// Whether a picture may be an address, from which it is fetched.
    pub fetches_images: bool,
}

impl HttpSettings {
    /// Whether any of the APIs is there.
    pub const fn any(&self) -> bool {
        self.chat_completions.enabled || self.responses.enabled
    }
}

pub(super) fn read(
    gateway: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<HttpSettings, ConfigError> {
    let endpoints = gateway.member("http")?.member("endpoints")?;
    let mut endpoint = |name: &str, fetches: bool| -> Result<EndpointSettings, ConfigError> {
        let node = endpoints.member(name)?;
        let path = |key: &str| format!("gateway.http.endpoints.{name}.{key}");
        let enabled = Choice::file(file, node.member("enabled")?.boolean()?);
        let bytes = node.member("maxBodyBytes")?.integer(BODY_BYTES_MAX)?;
        let images = node.member("images")?.member("allowUrl")?.boolean()?;
        Ok(EndpointSettings {
            enabled: ledger.settle(&path("enabled"), enabled, false),
            max_body_bytes: ledger.settle(
                &path("maxBodyBytes"),
                Choice::file(file, bytes),
                BODY_BYTES,
            ),
            fetches_images: ledger.settle(
                &path("images.allowUrl"),
                Choice::file(file, images),
                fetches,
            ),
        })
    };
    // As in the original: of the two only the second fetches unasked.
    Ok(HttpSettings {
        chat_completions: endpoint("chatCompletions", false)?,
        responses: endpoint("responses", true)?,
    })
}
