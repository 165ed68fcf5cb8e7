//! `push.*`, `web.login.*`, `browser.request`, `nativeHook.invoke`.

use serde_json::Value;

use crate::protocol::decode::{
    Fields, Params, any, boolean, integer_from, non_empty, object, one_of, text,
};

/// Longest address of a push service.
const ENDPOINT_MAX: usize = 2048;
/// Longest key of a browser.
const KEY_MAX: usize = 512;
/// Longest picture of a code.
const QR_MAX: usize = 16_384;

/// Params of `push.test`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PushTestParams {
    /// Which node.
    pub node_id: String,
}

impl Params for PushTestParams {
    fn read(f: &mut Fields) -> Self {
        let params = Self { node_id: f.required("nodeId", non_empty()) };
        f.optional("title", text());
        f.optional("body", text());
        f.optional("environment", one_of(&["sandbox", "production"]));
        params
    }
}

/// Params of `push.web.unsubscribe`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebPushUnsubscribeParams {
    /// Where the push service takes notifications.
    pub endpoint: String,
}

impl Params for WebPushUnsubscribeParams {
    fn read(f: &mut Fields) -> Self {
        Self { endpoint: endpoint(f) }
    }
}

/// Params of `push.web.subscribe`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct WebPushSubscribeParams {
    /// Where the push service takes notifications.
    pub endpoint: String,
    /// What they are encrypted with.
    pub keys: WebPushKeys,
}

/// Keys of a browser.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct WebPushKeys {
    /// Its public key, in base64url.
    pub p256dh: String,
    /// Its secret, in base64url.
    pub auth: String,
}

impl Params for WebPushKeys {
    fn read(f: &mut Fields) -> Self {
        Self {
            p256dh: f.required("p256dh", non_empty().max(KEY_MAX)),
            auth: f.required("auth", non_empty().max(KEY_MAX)),
        }
    }
}

impl Params for WebPushSubscribeParams {
    fn read(f: &mut Fields) -> Self {
        Self { endpoint: endpoint(f), keys: f.required("keys", object::<WebPushKeys>()) }
    }
}

fn endpoint(f: &mut Fields) -> String {
    let is_https = |text: &str| text.starts_with("https://");
    f.required("endpoint", non_empty().max(ENDPOINT_MAX).pattern("^https://", is_https))
}

/// Params of `push.web.test`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebPushTestParams {
    /// What is shown first.
    pub title: Option<String>,
    /// What is shown below.
    pub body: Option<String>,
}

impl Params for WebPushTestParams {
    fn read(f: &mut Fields) -> Self {
        Self { title: f.optional("title", text()), body: f.optional("body", text()) }
    }
}

/// Params of `web.login.start`. No channel here has such a login.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WebLoginStartParams;

impl Params for WebLoginStartParams {
    fn read(f: &mut Fields) -> Self {
        f.optional("force", boolean());
        f.optional("timeoutMs", integer_from(0));
        f.optional("verbose", boolean());
        f.optional("accountId", text());
        Self
    }
}

/// Params of `web.login.wait`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WebLoginWaitParams;

impl Params for WebLoginWaitParams {
    fn read(f: &mut Fields) -> Self {
        let shown = "^data:image/png;base64,";
        let is_png = |text: &str| text.starts_with("data:image/png;base64,");
        f.optional("timeoutMs", integer_from(0));
        f.optional("accountId", text());
        f.optional("currentQrDataUrl", text().max(QR_MAX).pattern(shown, is_png));
        Self
    }
}

/// Params of `browser.request`, read by hand as the original does: what is no
/// text counts as absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BrowserRequestParams {
    /// In capitals.
    pub method: String,
    /// Below the service.
    pub path: String,
}

impl Params for BrowserRequestParams {
    fn read(f: &mut Fields) -> Self {
        let mut word = |name| {
            let value = f.optional(name, any());
            value.as_ref().and_then(Value::as_str).unwrap_or_default().trim().to_owned()
        };
        let params = Self { method: word("method").to_uppercase(), path: word("path") };
        f.ignore_rest();
        params
    }
}
