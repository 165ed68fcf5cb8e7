//! `/healthz` and `/readyz`, for whoever keeps watch (demand 47).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use reqwest::StatusCode;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::control_ui::http;
use crate::stage::{Api, admin, call, config, deltas, end_of, scripted, start, until};
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET};

/// Of those that watch processes the most patient wait so long. An answer takes
/// milliseconds; the rest is for other tests on the same machine.
const PATIENCE: Duration = Duration::from_secs(5);
const PROBES: [&str; 4] = ["/health", "/healthz", "/ready", "/readyz"];

async fn asked(gateway: &Gateway, path: &str, headers: &[(&str, &str)]) -> (StatusCode, Value) {
    let mut request = http().get(format!("http://{}{path}", gateway.address()));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = timeout(PATIENCE, request.send()).await.expect("an answer in time").unwrap();
    assert_eq!(answer.headers()["cache-control"], "no-store");
    (answer.status(), serde_json::from_str(&answer.text().await.unwrap()).unwrap())
}

#[tokio::test]
async fn a_gateway_is_live_and_ready_and_tells_strangers_no_more() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let live = json!({"ok": true, "status": "live"});
    assert_eq!(asked(&gateway, "/healthz?x=1", &[]).await, (StatusCode::OK, live));
    let far = ("X-Forwarded-For", "203.0.113.9");
    let bearer = format!("Bearer {SECRET}");
    for path in ["/ready", "/readyz"] {
        assert_eq!(asked(&gateway, path, &[far]).await.1, json!({"ready": true}));
        assert_eq!(
            asked(&gateway, path, &[("Origin", "https://evil.example")]).await.1,
            json!({"ready": true})
        );
        for headers in [&[][..], &[far, ("Authorization", &bearer)]] {
            let (status, told) = asked(&gateway, path, headers).await;
            assert_eq!((status, &told["failing"]), (StatusCode::OK, &json!([])), "{told}");
            assert!(told["uptimeMs"].is_u64(), "{told}");
        }
    }
}

#[tokio::test]
async fn a_gateway_that_asks_for_no_credential_tells_pages_that_may_not_ask_no_more() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["gateway"]["auth"] = json!({"mode": "none"});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    for header in [("Origin", "https://evil.example"), ("Host", "evil.example")] {
        assert_eq!(asked(&gateway, "/ready", &[header]).await.1, json!({"ready": true}));
    }
    assert_eq!(asked(&gateway, "/ready", &[]).await.1["failing"], json!([]));
}

#[tokio::test]
async fn a_gateway_that_stops_is_live_and_not_ready() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=20 delay=100", "run-1").await;
    deltas(&client, "run-1", 1).await;
    gateway.signal_term();
    let not_ready = async || {
        let (status, told) = asked(&gateway, "/readyz", &[]).await;
        (status == StatusCode::SERVICE_UNAVAILABLE).then_some(told)
    };
    let told = until("an end of its readiness", not_ready).await;
    assert_eq!((&told["ready"], &told["failing"]), (&json!(false), &json!(["stopping"])));
    assert_eq!(asked(&gateway, "/healthz", &[]).await.0, StatusCode::OK);
    gateway.terminate().await.expect("an end");
}

/// A gateway that outlives a file that may not grow.
async fn on_a_small_disk(mock: &MockProvider) -> (Gateway, TempDir) {
    let folder = TempDir::with_prefix("clawgate-test-").unwrap();
    let through = folder.path().join("through");
    fs::write(&through, "#!/bin/sh\ntrap '' XFSZ\nexec \"$@\"\n").unwrap();
    fs::set_permissions(&through, fs::Permissions::from_mode(0o700)).unwrap();
    let mut options = GatewayOptions::with_config(config(mock.address(), Api::OpenAi));
    options.through = Some(through);
    (Gateway::start(options).await, folder)
}

/// From now on the gateway can write no more than this of a file.
fn limit_files(gateway: &Gateway, bytes: Option<u64>) {
    let pid = gateway.pid().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    let limit = Rlimit { current: bytes, maximum: None };
    prlimit(pid, Resource::Fsize, limit).unwrap();
}

#[tokio::test]
async fn a_full_disk_is_told_and_that_it_has_room_again_is_found_out() {
    let mock = MockProvider::start().await;
    let (gateway, _folder) = on_a_small_disk(&mock).await;
    let mut client = admin(&gateway).await;
    let ask = |number: u32| {
        let message = format!("@mock text text={number}");
        json!({"sessionKey": "main", "message": message, "idempotencyKey": format!("run-{number}")})
    };
    call(&mut client, "chat.send", ask(1)).await;
    end_of(&client, "run-1").await;
    limit_files(&gateway, Some(1));
    let refused = client.request("chat.send", ask(2)).await;
    assert_eq!(refused["ok"], false, "nothing is acknowledged that is not stored: {refused}");
    for _ in 0..3 {
        let (status, told) = asked(&gateway, "/readyz", &[]).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{told}");
        assert_eq!((&told["ready"], &told["failing"]), (&json!(false), &json!(["store"])));
        let far = [("X-Forwarded-For", "203.0.113.9")];
        let (status, told) = asked(&gateway, "/ready", &far).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(told, json!({"ready": false}), "a stranger");
        assert_eq!(asked(&gateway, "/healthz", &[]).await.0, StatusCode::OK);
    }
    limit_files(&gateway, None);
    // Nobody writes but the gateway itself.
    let (status, told) = asked(&gateway, "/readyz", &[]).await;
    assert_eq!((status, &told["failing"]), (StatusCode::OK, &json!([])), "{told}");
    call(&mut client, "chat.send", ask(3)).await;
    end_of(&client, "run-3").await;
}

#[tokio::test]
async fn a_run_that_is_stopped_on_a_full_disk_is_told_as_stopped() {
    let mock = MockProvider::start().await;
    let (gateway, _folder) = on_a_small_disk(&mock).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=200 delay=100", "run-1").await;
    deltas(&client, "run-1", 1).await;
    limit_files(&gateway, Some(1));
    let answer =
        call(&mut client, "chat.abort", json!({"sessionKey": "main", "runId": "run-1"})).await;
    assert_eq!(answer, json!({"ok": true, "aborted": true, "runIds": ["run-1"]}));
    let end = end_of(&client, "run-1").await;
    assert_eq!((&end["state"], &end["stopReason"]), (&json!("aborted"), &json!("rpc")));
}

#[tokio::test]
async fn a_gateway_that_helps_to_mend_its_config_file_is_live_and_not_ready() {
    let mut wrong = config("127.0.0.1:9", Api::OpenAi);
    wrong["session"] = json!({"scope": "everybody"});
    let gateway = Gateway::start(GatewayOptions::with_config(wrong)).await;
    let (status, told) = asked(&gateway, "/readyz", &[]).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!((&told["ready"], &told["failing"]), (&json!(false), &json!(["config"])));
    assert_eq!(asked(&gateway, "/healthz", &[]).await.0, StatusCode::OK);
}

#[tokio::test]
async fn whoever_hears_that_it_is_ready_can_begin_on_every_port() {
    let with_port = |ports: [u16; 1]| {
        let mut config = config("127.0.0.1:9", Api::OpenAi);
        config["gateway"]["dialects"] = json!({"ports": ports});
        GatewayOptions::with_config(config)
    };
    let (gateway, [further]) = Gateway::start_with_ports(with_port).await;
    assert_eq!(asked(&gateway, "/readyz", &[]).await.0, StatusCode::OK);
    for address in [gateway.address(), format!("127.0.0.1:{further}")] {
        let url = format!("http://{address}/readyz");
        assert_eq!(http().get(url).send().await.unwrap().status(), StatusCode::OK, "{address}");
    }
    assert_eq!(admin(&gateway).await.request("sessions.list", json!({})).await["ok"], true);
}

/// A provider that takes every request and answers none.
async fn silent() -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut open: Vec<TcpStream> = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            open.push(socket);
        }
    });
    (address, tasks)
}

#[tokio::test]
async fn a_thousand_runs_that_wait_for_a_silent_provider_hold_no_probe_up() {
    const RUNS: usize = 1000;
    let (address, _provider) = silent().await;
    let mut config = config(&address, Api::OpenAi);
    config["gateway"]["http"]["endpoints"] = json!({"chatCompletions": {"enabled": true}});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let (client_of_api, url) =
        (http(), format!("http://{}/v1/chat/completions", gateway.address()));
    let message = json!({"role": "user", "content": "hello"});
    let body = json!({"model": "openclaw", "stream": true, "messages": [message]}).to_string();
    let mut asking = JoinSet::new();
    for _ in 0..RUNS {
        let request = client_of_api.post(&url).bearer_auth(SECRET).body(body.clone());
        asking.spawn(async move { request.send().await.unwrap().text().await });
    }
    let mut slowest = Duration::ZERO;
    let mut probe = async || {
        for path in PROBES {
            let began = Instant::now();
            let (status, told) = asked(&gateway, path, &[]).await;
            assert_eq!(status, StatusCode::OK, "{path} {told}");
            slowest = slowest.max(began.elapsed());
        }
    };
    let all_run = async || {
        probe().await;
        let health = call(&mut client, "health", json!({"probe": true})).await;
        let runs = &health["services"]["runs"];
        let count = |name: &str| runs[name].as_u64().unwrap_or_default();
        (count("active") + count("waiting") == RUNS as u64).then_some(())
    };
    until("a thousand runs", all_run).await;
    for _ in 0..20 {
        probe().await;
    }
    println!("the slowest probe took {slowest:?}");
    assert!(asking.try_join_next().is_none(), "none has ended");
}
