//! Notifications of browsers: the gateway, a push service that others could
//! have written, and the browser behind it.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::stage::{admin, call, refusal, until};
use crate::support::guest::Guest;
use crate::support::{Gateway, GatewayOptions, default_config};

/// `tests/node/push-service.mjs`; it is ended when this is dropped.
struct PushService {
    child: Child,
    said: Arc<Mutex<Vec<Value>>>,
    browser: Value,
    folder: TempDir,
}

impl PushService {
    fn start() -> Self {
        let folder = TempDir::with_prefix("clawgate-push-").unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        std::fs::write(&cert, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node/push-service.mjs");
        let mut child = Command::new("node")
            .arg(script)
            .args([&cert, &key])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node 20 or newer must be on PATH for the scenario tests");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
        let browser = lines.next().expect("it says where it listens");
        let said = Arc::new(Mutex::new(Vec::new()));
        let saying = Arc::clone(&said);
        std::thread::spawn(move || lines.for_each(|line| saying.lock().push(line)));
        Self { child, said, browser, folder }
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.browser["port"])
    }

    /// Params of `push.web.subscribe`.
    fn subscription(&self, path: &str) -> Value {
        let keys = json!({"p256dh": self.browser["p256dh"], "auth": self.browser["auth"]});
        json!({"endpoint": self.url(path), "keys": keys})
    }

    /// A gateway that believes its certificate and may ask it.
    async fn gateway(&self) -> Gateway {
        self.gateway_with(|_| {}).await
    }

    async fn gateway_with(&self, change: impl FnOnce(&mut Value)) -> Gateway {
        let mut config = default_config("127.0.0.1:9");
        config["gateway"]["push"] =
            json!({"web": {"ssrfPolicy": {"allowedHostnames": ["localhost"]}}});
        change(&mut config);
        let certificates = self.folder.path().join("cert.pem");
        let options = GatewayOptions::with_config(config)
            .env("SSL_CERT_FILE", certificates.to_str().unwrap());
        Gateway::start(options).await
    }

    /// Waits for so many messages.
    async fn messages(&self, count: usize) -> Vec<Value> {
        until("that many messages", async || {
            let said = self.said.lock();
            (said.len() >= count).then(|| said.clone())
        })
        .await
    }
}

impl Drop for PushService {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The addresses in the file, in any order.
fn kept(gateway: &Gateway) -> Vec<String> {
    let path = gateway.state_dir().join("push/web-push-subscriptions.json");
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let rows = file["subscriptionsByEndpointHash"].as_object().unwrap().values();
    let mut all: Vec<_> = rows.map(|row| row["endpoint"].as_str().unwrap().to_owned()).collect();
    all.sort();
    all
}

fn mode(gateway: &Gateway, name: &str) -> u32 {
    let path = gateway.state_dir().join("push").join(name);
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_browser_reads_its_notification_and_its_service_knows_who_sent_it() {
    let service = PushService::start();
    let mut gateway = service.gateway().await;
    let mut client = admin(&gateway).await;
    let key =
        call(&mut client, "push.web.vapidPublicKey", json!({})).await["vapidPublicKey"].clone();
    let id = call(&mut client, "push.web.subscribe", service.subscription("/one")).await;
    let again = call(&mut client, "push.web.subscribe", service.subscription("/one")).await;
    assert_eq!(id, again, "it is known");
    let told = json!({"title": "Grüße", "body": "from the gateway"});
    let results = call(&mut client, "push.web.test", told.clone()).await;
    let taken = json!({"ok": true, "subscriptionId": id["subscriptionId"], "statusCode": 201});
    assert_eq!(results, json!({"results": [taken]}));
    let message = service.messages(1).await.remove(0);
    assert_eq!(serde_json::from_str::<Value>(message["plain"].as_str().unwrap()).unwrap(), told);
    assert_eq!((&message["valid"], &message["k"]), (&json!(true), &key));
    assert_eq!(message["head"], json!({"typ": "JWT", "alg": "ES256"}));
    assert_eq!(message["token"]["aud"], json!(service.url("")));
    let now = u64::try_from(crate::support::now_ms()).unwrap() / 1000;
    let expires = message["token"]["exp"].as_u64().unwrap();
    assert!(expires > now && expires <= now + 24 * 60 * 60, "{expires}");
    assert_eq!(message["headers"]["content-encoding"], "aes128gcm");
    assert_eq!(message["headers"]["ttl"], "86400");
    assert_eq!(mode(&gateway, "vapid-keys.json"), 0o600);
    assert_eq!(mode(&gateway, "web-push-subscriptions.json"), 0o600);

    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let kept = call(&mut client, "push.web.vapidPublicKey", json!({})).await;
    assert_eq!(kept["vapidPublicKey"], key, "the same pair");
    call(&mut client, "push.web.test", json!({})).await;
    let usual = service.messages(2).await.remove(1);
    assert_eq!(
        serde_json::from_str::<Value>(usual["plain"].as_str().unwrap()).unwrap(),
        json!({"title": "OpenClaw", "body": "Web push test notification"})
    );
    let gone = json!({"endpoint": service.url("/one")});
    assert_eq!(call(&mut client, "push.web.unsubscribe", gone.clone()).await["removed"], true);
    assert_eq!(call(&mut client, "push.web.unsubscribe", gone).await["removed"], false);
    assert_eq!(
        refusal(&mut client, "push.web.test", json!({})).await,
        "no web push subscriptions registered"
    );
}

#[tokio::test]
async fn a_browser_that_is_gone_is_forgotten_and_one_that_waits_is_not() {
    let service = PushService::start();
    let gateway = service.gateway().await;
    let mut client = admin(&gateway).await;
    for path in ["/gone", "/missing", "/busy", "/away"] {
        call(&mut client, "push.web.subscribe", service.subscription(path)).await;
    }
    let broken = json!({"endpoint": service.url("/broken"),
        "keys": {"p256dh": "AAAA", "auth": "BBBB"}});
    call(&mut client, "push.web.subscribe", broken).await;
    let results = call(&mut client, "push.web.test", json!({})).await;
    let mut codes: Vec<_> = results["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| (result["ok"].as_bool().unwrap(), result["statusCode"].as_u64()))
        .collect();
    codes.sort();
    let refused = [None, Some(302), Some(404), Some(410), Some(429)];
    assert_eq!(codes, refused.map(|code| (false, code)), "{results}");
    let left = ["/away", "/broken", "/busy"].map(|path| service.url(path));
    assert_eq!(kept(&gateway), left);
    assert_eq!(service.messages(4).await.len(), 4, "nobody was asked elsewhere");
}

#[tokio::test]
async fn nothing_on_this_machine_is_a_push_service_unless_the_config_says_so() {
    let service = PushService::start();
    let gateway = Gateway::start(GatewayOptions::with_config(default_config("127.0.0.1:9"))).await;
    let mut client = admin(&gateway).await;
    let port = &service.browser["port"];
    let keys = service.subscription("/x")["keys"].clone();
    for host in ["localhost", "127.0.0.1", "[::1]", "10.0.0.1", "169.254.169.254", "a.local"] {
        let params = json!({"endpoint": format!("https://{host}:{port}/x"), "keys": keys});
        let error = refusal(&mut client, "push.web.subscribe", params).await;
        assert!(error.starts_with("invalid push subscription endpoint: "), "{host}: {error}");
    }
    let plain = json!({"endpoint": format!("http://localhost:{port}/x"), "keys": keys});
    let error = refusal(&mut client, "push.web.subscribe", plain).await;
    assert_eq!(
        error,
        "invalid push.web.subscribe params: at /endpoint: must match pattern \"^https://\""
    );
    assert!(service.said.lock().is_empty());
}

#[tokio::test]
async fn a_device_tries_its_own_browsers_and_one_that_is_removed_has_none() {
    let service = PushService::start();
    let gateway = service.gateway().await;
    let mut operator = admin(&gateway).await;
    let guests = ["laptop", "desk"].map(|name| Guest::new(name, &["operator.write"]));
    let (mut laptop, _) = guests[0].come(&gateway).await;
    let (mut desk, _) = guests[1].come(&gateway).await;
    let own = call(&mut laptop, "push.web.subscribe", service.subscription("/laptop")).await;
    call(&mut desk, "push.web.subscribe", service.subscription("/desk")).await;
    let results = call(&mut laptop, "push.web.test", json!({})).await["results"].clone();
    assert_eq!(results.as_array().unwrap().len(), 1);
    assert_eq!(results[0]["subscriptionId"], own["subscriptionId"]);
    let removed = json!({"deviceId": guests[1].id()});
    call(&mut operator, "device.pair.remove", removed).await;
    let results = call(&mut operator, "push.web.test", json!({})).await["results"].clone();
    assert_eq!(results.as_array().unwrap().len(), 1, "{results}");
    assert_eq!(kept(&gateway), [service.url("/laptop")]);
}

#[tokio::test]
async fn a_device_that_needs_no_pairing_keeps_its_browsers() {
    let service = PushService::start();
    let open = |config: &mut Value| config["gateway"]["auth"] = json!({"mode": "none"});
    let gateway = service.gateway_with(open).await;
    let guest = Guest::new("laptop", &["operator.write"]).with(json!({}));
    let (mut laptop, _) = guest.come(&gateway).await;
    call(&mut laptop, "push.web.subscribe", service.subscription("/laptop")).await;
    for _ in 0..2 {
        let results = call(&mut laptop, "push.web.test", json!({})).await["results"].clone();
        assert_eq!(results.as_array().unwrap().len(), 1, "{results}");
    }
    assert_eq!(kept(&gateway), [service.url("/laptop")]);
}

#[tokio::test]
async fn a_notification_that_no_service_takes_is_refused() {
    let service = PushService::start();
    let gateway = service.gateway().await;
    let mut client = admin(&gateway).await;
    call(&mut client, "push.web.subscribe", service.subscription("/one")).await;
    let long = json!({"title": "x", "body": "y".repeat(5000)});
    let error = refusal(&mut client, "push.web.test", long).await;
    assert_eq!(error, "title and body must be at most 3800 bytes together");
    let broken = gateway.state_dir().join("push/vapid-keys.json");
    std::fs::write(&broken, r#"{"publicKey": "AAAA", "privateKey": "s3cret"}"#).unwrap();
    let error = refusal(&mut client, "push.web.test", json!({})).await;
    assert!(error.contains("vapid-keys.json") && error.contains("no pair"), "{error}");
    assert!(!error.contains("s3cret"));
    assert!(service.said.lock().is_empty());
}
