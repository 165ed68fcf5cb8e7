//! `diagnostics.otel`: to whom spans are told.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::schema::Node;
use super::secrets::{SecretInput, SecretRef};
use super::{ConfigError, Env};

/// Where a collector on this machine listens.
const ENDPOINT: &str = "http://localhost:4318";
/// What is behind the address of a collector.
const PATH: &str = "/v1/traces";
/// What the original calls itself.
const SERVICE: &str = "openclaw-gateway";
/// How long spans wait for others, as in the libraries of OpenTelemetry.
const FLUSH: Duration = Duration::from_secs(5);
/// As in the original.
const FLUSH_LEAST: Duration = Duration::from_secs(1);
/// Spans of more than that are old news, and many.
const FLUSH_MOST: Duration = Duration::from_mins(5);

/// The section as it is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Written {
    enabled: bool,
    traces: bool,
    endpoint: Option<String>,
    traces_endpoint: Option<String>,
    headers: BTreeMap<String, SecretInput>,
    service_name: Option<String>,
    sample_rate: f64,
    flush_interval_ms: Option<u64>,
}

impl Default for Written {
    fn default() -> Self {
        Self {
            enabled: false,
            traces: true,
            endpoint: None,
            traces_endpoint: None,
            headers: BTreeMap::new(),
            service_name: None,
            sample_rate: 1.0,
            flush_interval_ms: None,
        }
    }
}

/// To whom spans are told.
#[derive(Debug, Clone, PartialEq)]
pub struct OtelSettings {
    /// Where; it may hold a password, and need not be an address.
    pub url: String,
    /// What is sent along, which are keys mostly.
    pub headers: BTreeMap<String, SecretInput>,
    /// What we call ourselves.
    pub service: String,
    /// The share of traces that are kept, from 0 to 1.
    pub sample_rate: f64,
    /// How long spans wait for others.
    pub flush: Duration,
    /// Whether it wants a protocol that we speak.
    pub is_spoken: bool,
}

impl OtelSettings {
    /// Every reference to a secret.
    pub fn references(&self) -> impl Iterator<Item = &SecretRef> {
        self.headers.values().filter_map(SecretInput::reference)
    }
}

/// Reads the section; `None` when nobody is told.
pub(super) fn read(root: &Node<'_>, env: &Env) -> Result<Option<OtelSettings>, ConfigError> {
    let diagnostics = root.member("diagnostics")?;
    let is_off = diagnostics.member("enabled")?.boolean()? == Some(false);
    let node = diagnostics.member("otel")?;
    let written: Written = node.deserialize()?;
    if !(0.0..=1.0).contains(&written.sample_rate) {
        return Err(node.member("sampleRate")?.wrong("is not between 0 and 1"));
    }
    let protocol = node.member("protocol")?.word("http/protobuf, grpc", |word| match word {
        "http/protobuf" => Some(true),
        "grpc" => Some(false),
        _ => None,
    })?;
    if is_off || !written.enabled || !written.traces {
        return Ok(None);
    }
    let whole = written.traces_endpoint.or_else(|| env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"));
    let base = written.endpoint.or_else(|| env.get("OTEL_EXPORTER_OTLP_ENDPOINT"));
    let base = base.unwrap_or_else(|| ENDPOINT.to_owned());
    let below =
        if base.contains(PATH) { base } else { base.trim_end_matches('/').to_owned() + PATH };
    let flush = written.flush_interval_ms.map_or(FLUSH, Duration::from_millis);
    let service = written.service_name.or_else(|| env.get("OTEL_SERVICE_NAME"));
    Ok(Some(OtelSettings {
        url: whole.unwrap_or(below),
        headers: written.headers,
        service: service.unwrap_or_else(|| SERVICE.to_owned()),
        sample_rate: written.sample_rate,
        flush: flush.clamp(FLUSH_LEAST, FLUSH_MOST),
        is_spoken: protocol.unwrap_or(true),
    }))
}
