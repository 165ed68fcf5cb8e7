//! Channels that stand in the config and that this gateway does not have.

use serde_json::{Value, json};

use super::{clawgate, with_channels};
use crate::support::{Gateway, GatewayOptions, MockProvider};

#[tokio::test]
async fn the_command_says_of_each_that_it_is_not_supported() {
    let mock = MockProvider::start().await;
    let channels = json!({"defaults": {"groupPolicy": "open"},
        "whatsapp": {"dmPolicy": "pairing"}, "discord": {"token": "a-token-of-discord"}});
    let config = with_channels(mock.address(), &channels);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let (code, shown) = clawgate(&gateway, &["channels", "status"]).await;
    assert_eq!(code, 0, "{shown}");
    assert_eq!(shown, "whatsapp  not supported here\ndiscord   not supported here\n");
    assert_eq!(clawgate(&gateway, &["channels", "list"]).await, (code, shown));
    let (_, shown) = clawgate(&gateway, &["channels", "status", "--json"]).await;
    let told: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(told["notSupported"], json!(["whatsapp", "discord"]));
    for args in [&["channels", "start", "fax"][..], &["pairing", "approve", "fax", "ABCD2345"]] {
        let (code, told) = clawgate(&gateway, args).await;
        assert!(code == 1 && told.contains("; `clawgate channels status` shows"), "{told}");
    }
}
