//! `health`, `system-event`, `gateway.restart.request`, `gateway.metrics`.

use serde_json::Value;

use crate::protocol::decode::{Fields, Params, any, integer_from};

/// Params of `health`; anything else is passed over, as in the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthParams {
    /// Make a new snapshot instead of answering the last one.
    pub probe: bool,
}

impl Params for HealthParams {
    fn read(f: &mut Fields) -> Self {
        let probe = f.optional("probe", any()) == Some(Value::Bool(true));
        f.ignore_rest();
        Self { probe }
    }
}

/// Params of `gateway.metrics`, which is ours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MetricsParams {
    /// Only samples after this time, in milliseconds since the epoch.
    pub since: Option<u64>,
}

impl Params for MetricsParams {
    fn read(f: &mut Fields) -> Self {
        Self { since: f.optional("since", integer_from(0)) }
    }
}

/// Params of `gateway.restart.request`, read by hand as the original does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestartRequestParams {
    /// Why, for the log; trimmed, at most 200 characters.
    pub reason: Option<String>,
}

/// More of a reason is not kept.
const REASON_MAX: usize = 200;

impl Params for RestartRequestParams {
    fn read(f: &mut Fields) -> Self {
        let reason = f.optional("reason", any());
        f.ignore_rest();
        let reason = reason.as_ref().and_then(Value::as_str).map(str::trim);
        let reason = reason.filter(|reason| !reason.is_empty());
        Self { reason: reason.map(|reason| reason.chars().take(REASON_MAX).collect()) }
    }
}

/// Params of `system-event`, read by hand as the original does: members of the
/// wrong type count as absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SystemEventParams {
    /// What happened; trimmed.
    pub text: String,
    /// Key of the presence entry.
    pub device_id: Option<String>,
    /// Key of the presence entry.
    pub instance_id: Option<String>,
    /// Name of the machine.
    pub host: Option<String>,
    /// Address of the machine.
    pub ip: Option<String>,
    /// Version of the program.
    pub version: Option<String>,
    /// Operating system.
    pub platform: Option<String>,
    /// Such as `Mac`.
    pub device_family: Option<String>,
    /// Such as `Mac14,2`.
    pub model_identifier: Option<String>,
    /// What it is, such as `ui`.
    pub mode: Option<String>,
    /// Why it speaks up, such as `periodic`.
    pub reason: Option<String>,
    /// Seconds since somebody touched the machine.
    pub last_input_seconds: Option<u64>,
    /// Its roles.
    pub roles: Vec<String>,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// Free marks.
    pub tags: Vec<String>,
}

impl Params for SystemEventParams {
    fn read(f: &mut Fields) -> Self {
        let word = |f: &mut Fields, name: &str| {
            let value = f.optional(name, any())?;
            let text = value.as_str()?.trim();
            (!text.is_empty()).then(|| text.to_owned())
        };
        let words = |f: &mut Fields, name: &str| -> Vec<String> {
            f.optional(name, any())
                .and_then(|value| {
                    Some(
                        value
                            .as_array()?
                            .iter()
                            .filter_map(Value::as_str)
                            .map(str::to_owned)
                            .collect(),
                    )
                })
                .unwrap_or_default()
        };
        let event = Self {
            text: word(f, "text").unwrap_or_default(),
            device_id: word(f, "deviceId"),
            instance_id: word(f, "instanceId"),
            host: word(f, "host"),
            ip: word(f, "ip"),
            version: word(f, "version"),
            platform: word(f, "platform"),
            device_family: word(f, "deviceFamily"),
            model_identifier: word(f, "modelIdentifier"),
            mode: word(f, "mode"),
            reason: word(f, "reason"),
            last_input_seconds: f.optional("lastInputSeconds", any()).and_then(|v| v.as_u64()),
            roles: words(f, "roles"),
            scopes: words(f, "scopes"),
            tags: words(f, "tags"),
        };
        f.ignore_rest();
        event
    }
}
