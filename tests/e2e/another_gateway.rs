//! An address that names another gateway: nothing is sent there (CVE-2026-25253).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::stage::until;
use crate::support::guest::said;
use crate::support::{Browser, Gateway, GatewayOptions, default_config, original_ui};

const STEPS: &str = "tests/e2e/another_gateway.mjs";

/// Somebody who would like to hear of a token.
struct Listener {
    address: String,
    connections: Arc<AtomicUsize>,
    _server: JoinSet<()>,
}

impl Listener {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut held = Vec::new();
            while let Ok((tcp, _)) = listener.accept().await {
                held.push(tcp);
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { address, connections, _server: server }
    }

    /// The ways in which an address names it.
    fn named(&self, page: &str) -> [String; 3] {
        let socket = format!("ws://{}", self.address);
        [
            format!("{page}?gatewayUrl={socket}"),
            format!("{page}#gatewayUrl={socket}"),
            format!("{page}?gatewayUrl={socket}#gatewayUrl={socket}"),
        ]
    }

    /// That nobody has come. Who connects now is counted behind all that came before.
    async fn has_heard_nothing(&self) {
        let _fence = TcpStream::connect(&self.address).await.unwrap();
        let counted = || self.connections.load(Ordering::SeqCst);
        until("the last connection", async || (counted() > 0).then_some(())).await;
        assert_eq!(counted(), 1, "the browser has connected there");
    }
}

async fn login(gateway: &Gateway) -> String {
    said(gateway, &["dashboard", "--no-open"]).await.trim().to_owned()
}

#[tokio::test]
async fn our_page_connects_nowhere_else_whatever_its_address_says() {
    let gateway = Gateway::start(GatewayOptions::with_config(default_config("127.0.0.1:9"))).await;
    let listener = Listener::start().await;
    let page = format!("http://{}/clawgate/", gateway.address());
    // It is in, so it has shown what it has to whom it has connected to.
    let inside = ".shell nav a";
    let visits = listener.named(&page).map(|url| json!({"url": url, "shown": inside}));
    let args = json!({"login": login(&gateway).await, "inside": inside, "visits": visits});
    let arrived = Browser::new().run(STEPS, args).await;
    assert!(arrived.as_array().unwrap().iter().all(|url| url.as_str().unwrap().starts_with(&page)));
    listener.has_heard_nothing().await;
}

#[tokio::test]
async fn the_original_control_ui_asks_a_person_before_it_connects_anywhere_else() {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["controlUi"] = json!({"root": original_ui::folder()});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let listener = Listener::start().await;
    let asks = format!(".exec-approval-command:has-text(\"{}\")", listener.address);
    let page = format!("http://{}/chat", gateway.address());
    let visits = listener.named(&page).map(|url| json!({"url": url, "shown": asks}));
    let inside = "textarea:enabled";
    let args = json!({"login": login(&gateway).await, "inside": inside, "visits": visits});
    Browser::new().run(STEPS, args).await;
    listener.has_heard_nothing().await;
}
