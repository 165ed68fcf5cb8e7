//! `wss` with the certificate that the gateway made, from pages in Chromium.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::stage::{Api, call, config, until};
use crate::support::client::{WsClient, standard_connect};
use crate::support::{Browser, Gateway, GatewayOptions, MockProvider, SECRET, tls};

/// A page that the gateway does not serve, but knows.
const KNOWN: &str = "https://ui.example/";
/// One that it does not know.
const FOREIGN: &str = "https://evil.example/";
const STEPS: &str = "tests/e2e/connect.mjs";

/// A gateway on this machine that encrypts by itself.
struct Place {
    gateway: Gateway,
    _mock: MockProvider,
}

impl Place {
    async fn new() -> Self {
        let mock = MockProvider::start().await;
        let mut config = config(mock.address(), Api::OpenAi);
        config["gateway"]["tls"] = json!({"enabled": true});
        config["gateway"]["controlUi"] = json!({"allowedOrigins": [KNOWN.trim_end_matches('/')]});
        Self { gateway: Gateway::start(GatewayOptions::with_config(config)).await, _mock: mock }
    }

    fn certificate(&self) -> PathBuf {
        self.gateway.state_dir().join("gateway/tls/gateway-cert.pem")
    }

    fn browser(&self) -> Browser {
        let empty = "<!doctype html><title>A page</title>";
        Browser::new().page(KNOWN, empty).page(FOREIGN, empty).trusts(&self.certificate())
    }

    fn socket(&self) -> String {
        format!("wss://localhost:{}/", self.gateway.port())
    }

    /// What becomes of a visit of this page.
    async fn visit(&self, page: &str, visit: Value) -> Value {
        let mut args = json!({"page": page, "socket": self.socket()});
        args.as_object_mut().unwrap().extend(visit.as_object().unwrap().clone());
        self.browser().run(STEPS, args).await
    }

    async fn admin(&self) -> WsClient {
        let mut client = tls::open(self.gateway.port(), &self.certificate()).await.unwrap();
        let params = standard_connect(&["operator.pairing", "operator.write", "operator.read"]);
        let hello = client.request("connect", params).await;
        assert_eq!(hello["ok"], true, "{hello}");
        client
    }
}

/// `connect` of a web UI with a device.
fn control_ui() -> Value {
    let mut params = standard_connect(&["operator.read", "operator.write"]);
    params["client"] = json!({
        "id": "openclaw-control-ui", "version": "1", "platform": "Linux x86_64", "mode": "webchat",
    });
    params
}

/// That it was let in and answered.
fn check_answered(told: &Value) {
    assert_eq!(told["hello"]["payload"]["type"], "hello-ok", "{told}");
    assert_eq!(told["events"][0], "connect.challenge", "{told}");
    assert_eq!(told["text"], "Echo: good morning", "{told}");
    assert_eq!(told["closed"], Value::Null, "{told}");
}

#[tokio::test]
async fn a_page_of_the_gateway_itself_is_paired_and_answered_over_wss() {
    let place = Place::new().await;
    let page = place.socket().replace("wss", "https");
    let visit = json!({"connect": control_ui(), "device": true, "message": "good morning"});
    let told = place.visit(&page, visit).await;
    assert_eq!(told["origin"], page.trim_end_matches('/'));
    check_answered(&told);
    let auth = &told["hello"]["payload"]["auth"];
    assert_eq!(auth["scopes"], json!(["operator.read", "operator.write"]));
    assert!(auth["deviceToken"].is_string(), "{told}");
    let list = call(&mut place.admin().await, "device.pair.list", json!({})).await;
    assert_eq!(list["paired"].as_array().unwrap().len(), 1, "{list}");
    assert_eq!(list["paired"][0]["clientId"], "openclaw-control-ui");
}

#[tokio::test]
async fn a_page_of_an_allowed_origin_is_answered_over_wss() {
    let place = Place::new().await;
    let connect = json!({"clientType": "web", "clientVersion": "1", "token": SECRET});
    let visit = json!({"connect": connect, "message": "good morning"});
    let told = place.visit(KNOWN, visit).await;
    assert_eq!(told["origin"], "https://ui.example");
    check_answered(&told);
}

#[tokio::test]
async fn a_device_in_a_page_of_an_allowed_origin_waits_for_a_person() {
    let place = Place::new().await;
    let visit = json!({"connect": control_ui(), "device": true});
    let told = place.visit(KNOWN, visit).await;
    let error = &told["hello"]["error"];
    assert_eq!(error["details"]["code"], "PAIRING_REQUIRED", "{told}");
    assert_eq!(told["closed"]["code"], 1008, "{told}");
    let list = call(&mut place.admin().await, "device.pair.list", json!({})).await;
    assert_eq!(list["pending"][0]["requestId"], error["details"]["requestId"], "{list}");
}

#[tokio::test]
async fn a_device_in_a_page_comes_in_once_it_is_approved() {
    let place = Place::new().await;
    let mut admin = place.admin().await;
    let approve = async {
        let request = until("a device that waits", async || {
            let list = call(&mut admin, "device.pair.list", json!({})).await;
            Some(list["pending"].get(0)?["requestId"].clone())
        });
        let request = request.await;
        call(&mut admin, "device.pair.approve", json!({"requestId": request})).await;
    };
    let visit = json!({
        "connect": control_ui(), "device": true, "message": "good morning", "waits": true,
    });
    let (told, ()) = tokio::join!(place.visit(KNOWN, visit), approve);
    check_answered(&told);
    assert!(told["hello"]["payload"]["auth"]["deviceToken"].is_string(), "{told}");
}

#[tokio::test]
async fn a_page_of_a_foreign_origin_is_refused_whatever_it_shows() {
    let place = Place::new().await;
    for (connect, device) in [
        (control_ui(), true),
        (standard_connect(&["operator.read"]), false),
        (json!({"clientType": "web", "token": SECRET}), false),
    ] {
        let told = place.visit(FOREIGN, json!({"connect": connect, "device": device})).await;
        assert_eq!(told["origin"], "https://evil.example");
        let error = &told["hello"]["error"];
        // As recorded.
        let text = "origin not allowed (open the Control UI from the gateway host or allow it in \
                    gateway.controlUi.allowedOrigins)";
        assert_eq!(error["message"], text, "{told}");
        assert_eq!(error["details"]["code"], "CONTROL_UI_ORIGIN_NOT_ALLOWED", "{told}");
        assert_eq!(told["closed"], json!({"code": 1008, "reason": text}), "{told}");
    }
}

/// A browser that was told nothing of the certificate does not even connect.
#[tokio::test]
async fn a_certificate_that_nobody_vouched_for_is_refused_by_the_browser() {
    let place = Place::new().await;
    let args = json!({
        "page": KNOWN, "socket": place.socket(), "connect": control_ui(), "device": true,
    });
    let browser = Browser::new().page(KNOWN, "<!doctype html><title>A page</title>");
    let told = browser.run(STEPS, args).await;
    assert_eq!(told["hello"], Value::Null, "{told}");
    assert_eq!(told["closed"]["code"], 1006, "{told}");
}
