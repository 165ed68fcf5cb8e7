//! The Control UI and what it asks for by HTTP.

mod files;
mod install;
mod requests;

use reqwest::{Client, Response};
use serde_json::Value;

use crate::support::control_ui::write_control_ui;
use crate::support::{Gateway, GatewayOptions, default_config};

pub fn http() -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let redirect = reqwest::redirect::Policy::none();
    Client::builder().no_proxy().redirect(redirect).build().unwrap()
}

pub async fn get(gateway: &Gateway, path: &str) -> Response {
    http().get(format!("http://{}{path}", gateway.address())).send().await.unwrap()
}

pub fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

/// A gateway with these settings of the UI, and one installed.
pub async fn with_ui(settings: Value) -> Gateway {
    let gateway = without_ui(settings).await;
    write_control_ui(&gateway.state_dir().join("control-ui"));
    gateway
}

pub async fn without_ui(settings: Value) -> Gateway {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["controlUi"] = settings;
    Gateway::start(GatewayOptions::with_config(config)).await
}
