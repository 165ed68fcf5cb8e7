//! Methods of things that this gateway does not have: `web.login.*`,
//! `browser.request`, `nativeHook.invoke`.

use serde_json::Value;

use crate::protocol::ErrorShape;
use crate::protocol::methods::AnyParams;
use crate::protocol::methods::push::{
    BrowserRequestParams, WebLoginStartParams, WebLoginWaitParams,
};
use crate::registry::{Ctx, Reply};
use crate::support::json;

/// What `browser.request` can ask with.
const BROWSER_METHODS: [&str; 3] = ["GET", "POST", "DELETE"];

/// `web.login.start`: a login by a code on a screen. No channel here has one.
pub async fn login_start(_: Ctx, _: WebLoginStartParams) -> Reply<Value> {
    Err(no_login())
}

/// `web.login.wait`: the end of such a login.
pub async fn login_wait(_: Ctx, _: WebLoginWaitParams) -> Reply<Value> {
    Err(no_login())
}

fn no_login() -> ErrorShape {
    ErrorShape::invalid("web login provider is not available")
}

/// `nativeHook.invoke`: what a hook of another agent's program has to say. Such
/// programs get no hooks here.
pub async fn native_hook(_: Ctx, _: AnyParams) -> Reply<Value> {
    Err(ErrorShape::invalid("unsupported native hook relay provider"))
}

/// `browser.request`: a request to the program that steers a browser, which
/// there is none of.
pub async fn browser(_: Ctx, p: BrowserRequestParams) -> Reply<Value> {
    if p.method.is_empty() || p.path.is_empty() {
        return Err(ErrorShape::invalid("method and path are required"));
    }
    if !BROWSER_METHODS.contains(&p.method.as_str()) {
        return Err(ErrorShape::invalid("method must be GET, POST, or DELETE"));
    }
    let error = "browser control is not offered by this gateway; web_fetch reads pages";
    Err(ErrorShape::unavailable(error).details(json!({"reason": "not_offered"})))
}
