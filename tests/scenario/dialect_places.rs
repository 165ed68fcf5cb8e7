//! Where the APIs of other software are: further ports, a prefix, or nowhere.

use std::fs;
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::control_ui::http;
use crate::stage::{admin, call};
use crate::support::client::{ALL_SCOPES, WsClient};
use crate::support::{Gateway, GatewayOptions, default_config};

const STATUS: &str = "/api/claude/auth-status";
const LIMIT: Duration = Duration::from_secs(30);

fn options(dialects: &Value) -> GatewayOptions {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["dialects"] = dialects.clone();
    config["gateway"]["reload"] = json!({"mode": "hot", "debounceMs": 0});
    GatewayOptions::with_config(config)
}

async fn status(port: u16, path: &str) -> Option<StatusCode> {
    let answer = http().get(format!("http://127.0.0.1:{port}{path}")).send().await;
    answer.ok().map(|answer| answer.status())
}

/// What was asked for is there on every port.
async fn all_is_there(gateway: &Gateway, further: [u16; 2]) {
    for port in further.into_iter().chain([gateway.port()]) {
        assert_eq!(status(port, STATUS).await, Some(StatusCode::OK), "{port}");
        let mut client = WsClient::open(&format!("127.0.0.1:{port}")).await;
        let hello = client.connect_standard(&ALL_SCOPES).await;
        assert_eq!(hello["ok"], true, "{hello}");
    }
}

#[tokio::test]
async fn everything_is_on_the_further_ports_too_and_a_restart_in_place_refuses_nobody() {
    let with_ports = |ports: [u16; 2]| options(&json!({"ports": ports}));
    let (gateway, ports) = Gateway::start_with_ports(with_ports).await;
    all_is_there(&gateway, ports).await;
    let shown = format!("{}, {} as well", ports[0], ports[1]);
    assert_eq!(gateway.stdout().matches(&shown).count(), 1);
    let mut client = admin(&gateway).await;
    let told = call(&mut client, "status", json!({})).await;
    assert_eq!(told["furtherPorts"], json!(ports));
    call(&mut client, "gateway.restart.request", json!({"reason": "because"})).await;
    let deadline = Instant::now() + LIMIT;
    while gateway.stdout().matches(&shown).count() < 2 {
        assert!(Instant::now() < deadline, "it does not begin again");
        TcpStream::connect(("127.0.0.1", ports[0])).await.expect("the port stays open");
        sleep(Duration::from_millis(5)).await;
    }
    all_is_there(&gateway, ports).await;
}

#[tokio::test]
async fn a_further_port_in_use_is_said_with_its_key() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = default_config("127.0.0.1:9");
    let port = other.local_addr().unwrap().port();
    config["gateway"]["dialects"] = json!({"ports": [port]});
    let refused = Gateway::try_start(GatewayOptions::with_config(config)).await;
    let error = refused.err().expect("it does not start");
    assert!(error.contains(&format!("gateway.dialects.ports: cannot listen on 127.0.0.1:{port}")));
}

#[tokio::test]
async fn what_is_turned_off_is_not_there_and_a_prefix_is_one_more_way() {
    let gateway = Gateway::start(options(&json!({"prefix": "compat"}))).await;
    let port = gateway.port();
    let place = async |path: &str| status(port, path).await.unwrap().as_u16();
    for path in [STATUS, "/compat/api/claude/auth-status"] {
        assert_eq!(place(path).await, 200, "{path}");
    }
    for path in ["/other/api/claude/auth-status", "/compatapi/claude/auth-status"] {
        assert_eq!(place(path).await, 404, "{path}");
    }
    assert_eq!(place("/compat/api/auth/check").await, 405);
    for (dialects, expected) in [
        (json!({"claude": {"enabled": false}}), [404, 405]),
        (json!({"chat": {"enabled": false}}), [200, 404]),
        (json!({"enabled": false}), [404, 404]),
        (json!({}), [200, 405]),
    ] {
        let mut config: Value =
            serde_json::from_str(&fs::read_to_string(gateway.config_path()).unwrap()).unwrap();
        config["gateway"]["dialects"] = dialects.clone();
        fs::write(gateway.config_path(), config.to_string()).unwrap();
        let deadline = Instant::now() + LIMIT;
        loop {
            let found = [place(STATUS).await, place("/api/auth/check").await];
            if found == expected {
                break;
            }
            assert!(Instant::now() < deadline, "{dialects}: {found:?}");
            sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(place("/compat/api/claude/auth-status").await, 404, "the prefix is gone");
    }
}
