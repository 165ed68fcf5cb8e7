//! `device.*`.

use crate::protocol::decode::{Fields, Params, list, non_empty};

/// Params of `device.pair.approve` and `device.pair.reject`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRequestParams {
    /// The request that is decided.
    pub request_id: String,
}

impl Params for DeviceRequestParams {
    fn read(f: &mut Fields) -> Self {
        Self { request_id: f.required("requestId", non_empty()) }
    }
}

/// Params of `device.pair.remove`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicePairRemoveParams {
    /// The device.
    pub device_id: String,
}

impl Params for DevicePairRemoveParams {
    fn read(f: &mut Fields) -> Self {
        Self { device_id: f.required("deviceId", non_empty()) }
    }
}

/// Params of `device.token.rotate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceTokenRotateParams {
    /// The device.
    pub device_id: String,
    /// The role of its token.
    pub role: String,
    /// What the new one is to be good for; as the old one when absent.
    pub scopes: Option<Vec<String>>,
}

impl Params for DeviceTokenRotateParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            device_id: f.required("deviceId", non_empty()),
            role: f.required("role", non_empty()),
            scopes: f.optional("scopes", list(non_empty())),
        }
    }
}

/// Params of `device.token.revoke`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceTokenRevokeParams {
    /// The device.
    pub device_id: String,
    /// The role of its token.
    pub role: String,
}

impl Params for DeviceTokenRevokeParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            device_id: f.required("deviceId", non_empty()),
            role: f.required("role", non_empty()),
        }
    }
}
