//! Channels whose callers go away, or come when it is too late.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use clawgate::channels::{Channels, ChannelsParts, Outgoing, Target};
use clawgate::config::channels::ChannelKind;
use clawgate::config::{Env, Overrides, load};
use clawgate::store::OutboxAddress;
use clawgate::support::Live;
use futures_util::FutureExt;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::support::default_config;
use super::{LIMIT, Place, place};

/// Channels with a webhook that sends to this address.
fn channels(place: &Place, root: &TempDir, service: SocketAddr) -> Channels {
    let mut config = default_config(&service.to_string());
    config["agents"]["defaults"]["workspace"] = root.path().to_str().unwrap().into();
    let secret = "a-secret-of-32-characters-or-more";
    config["channels"] =
        json!({"webhook": {"secret": secret, "url": format!("http://{service}/")}});
    fs::create_dir_all(root.path().join(".openclaw")).unwrap();
    fs::write(root.path().join(".openclaw/openclaw.json"), config.to_string()).unwrap();
    let env = Env::fixed([], root.path());
    let parts = place.runs.parts();
    Channels::new(ChannelsParts {
        settings: Live::new(load(&env, &Overrides::default()).unwrap()),
        env,
        store: Arc::clone(&place.store),
        sessions: place.sessions.clone(),
        keys: parts.keys.clone(),
        clock: Arc::clone(&parts.clock),
        tasks: place.tasks.clone(),
    })
}

#[tokio::test]
async fn what_is_in_the_outbox_is_sent_though_whoever_sends_has_gone() {
    let (place, root) = (place().await, TempDir::new().unwrap());
    let service = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let channels = channels(&place, &root, service.local_addr().unwrap());
    channels.start(ChannelKind::Webhook, None).await.unwrap();
    let address = OutboxAddress {
        channel: "webhook".into(),
        account: "default".into(),
        target: "ann".into(),
        thread: String::new(),
    };
    let target = Target { kind: ChannelKind::Webhook, address };
    let message = Outgoing { text: "hello".into(), ..Outgoing::default() };
    // Gone as soon as there is something to wait for.
    assert!(channels.send("one", &target, &message).now_or_never().is_none());
    timeout(LIMIT, service.accept()).await.expect("it is not sent").unwrap();
}

#[tokio::test]
async fn who_starts_or_stops_an_account_hears_whether_it_is_in_use() {
    let (place, root) = (place().await, TempDir::new().unwrap());
    let channels = channels(&place, &root, SocketAddr::from(([127, 0, 0, 1], 9)));
    let start = async || channels.start(ChannelKind::Webhook, None).await.unwrap();
    assert_eq!(start().await, ("default".to_owned(), true));
    let stopped = channels.stop(ChannelKind::Webhook, None).unwrap();
    assert_eq!(stopped, ("default".to_owned(), true));
    // Nothing begins any more at the end of the gateway.
    channels.end();
    assert_eq!(start().await, ("default".to_owned(), false));
}
