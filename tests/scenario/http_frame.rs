//! What is the same for all routes: how large texts come, what stands above
//! answers, and how the log names requests.

use std::fs;
use std::io::Read;

use flate2::read::GzDecoder;
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};

use crate::openai::{offering_with, post};
use crate::stage::{admin, call, until};
use crate::support::control_ui::write_control_ui;
use crate::support::{Gateway, GatewayOptions, SECRET, default_config};

async fn gateway(change: impl FnOnce(&mut Value)) -> Gateway {
    let mut config = default_config("127.0.0.1:9");
    change(&mut config);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    write_control_ui(&gateway.state_dir().join("control-ui"));
    gateway
}

async fn ask(gateway: &Gateway, method: Method, path: &str, headers: &[(&str, &str)]) -> Response {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().no_proxy().build().unwrap();
    let request = client.request(method, format!("http://{}{path}", gateway.address()));
    let request =
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.send().await.unwrap()
}

fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

async fn bytes(response: Response) -> Vec<u8> {
    response.bytes().await.unwrap().to_vec()
}

#[tokio::test]
async fn a_large_text_is_packed_for_who_unpacks_it_and_is_the_same_text() {
    let gateway = gateway(|_| ()).await;
    for path in ["/openapi.json", "/assets/index-NYVkUQrq.js"] {
        let plain = ask(&gateway, Method::GET, path, &[("accept-encoding", "gzip;q=0")]).await;
        assert_eq!(header(&plain, "content-encoding"), None, "{path}");
        let varies: Vec<_> = plain.headers().get_all("vary").iter().collect();
        assert_eq!(varies, ["accept-encoding"], "{path}");
        let tag = header(&plain, "etag").map(str::to_owned);
        let plain = bytes(plain).await;

        let gzip = ("accept-encoding", "br, gzip");
        let packed = ask(&gateway, Method::GET, path, &[gzip]).await;
        assert_eq!(header(&packed, "content-encoding"), Some("gzip"), "{path}");
        assert_eq!(header(&packed, "vary"), Some("accept-encoding"), "{path}");
        // The same meaning, and other bytes.
        let weak = tag.as_ref().map(|tag| format!("W/{tag}"));
        assert_eq!(header(&packed, "etag"), weak.as_deref(), "{path}");
        let length: usize = header(&packed, "content-length").unwrap().parse().unwrap();
        let packed = bytes(packed).await;
        assert_eq!(packed.len(), length);
        assert!(packed.len() * 4 < plain.len(), "{path}: {} of {}", packed.len(), plain.len());
        let mut whole = Vec::new();
        GzDecoder::new(&packed[..]).read_to_end(&mut whole).unwrap();
        assert!(whole == plain, "{path}");

        let head = ask(&gateway, Method::HEAD, path, &[gzip]).await;
        assert_eq!(header(&head, "content-encoding"), Some("gzip"), "{path}");
        assert_eq!(header(&head, "etag"), weak.as_deref(), "{path}");
        if let Some(weak) = &weak {
            let known = ask(&gateway, Method::GET, path, &[gzip, ("if-none-match", weak)]).await;
            assert_eq!(known.status(), 304, "{path}");
        }
    }
    for path in ["/health", "/clawgate/icon.svg", "/favicon.svg"] {
        let small = ask(&gateway, Method::GET, path, &[("accept-encoding", "gzip")]).await;
        let is_ours = path.starts_with("/clawgate/");
        assert_eq!(header(&small, "content-encoding").is_some(), is_ours, "{path}");
    }
}

/// What a page can have a browser ask with its user's rights may be anything: its
/// length on the way tells nothing (BREACH).
#[tokio::test]
async fn what_a_page_can_have_asked_for_is_never_packed() {
    let gateway = gateway(|config| {
        config["gateway"]["metrics"] = json!({"enabled": true, "public": true});
    })
    .await;
    let bearer = format!("Bearer {SECRET}");
    let gzip = ("accept-encoding", "gzip");
    let meant = ask(&gateway, Method::GET, "/metrics", &[gzip, ("authorization", &bearer)]).await;
    assert_eq!(header(&meant, "content-encoding"), Some("gzip"));
    for headers in [&[gzip][..], &[gzip, ("cookie", "access_token=x")]] {
        let unmeant = ask(&gateway, Method::GET, "/metrics", headers).await;
        assert_eq!(unmeant.status(), 200);
        assert_eq!(header(&unmeant, "content-encoding"), None, "{headers:?}");
    }
}

#[tokio::test]
async fn streams_and_media_come_as_they_are() {
    let (gateway, _mock) = offering_with(|_| ()).await;
    let text = format!("@mock text text=\"{}\" n=8", "again ".repeat(2000));
    let body = json!({"model": "openclaw", "stream": true, "messages": [{"role": "user", "content": text}]});
    let stream = post(&gateway, "/v1/chat/completions", &body).header("accept-encoding", "gzip");
    let stream = stream.send().await.unwrap();
    assert_eq!((header(&stream, "content-encoding"), header(&stream, "vary")), (None, None));
    assert!(String::from_utf8(bytes(stream).await).unwrap().ends_with("data: [DONE]\n\n"));
    let whole = json!({"model": "openclaw", "messages": [{"role": "user", "content": text}]});
    let whole = post(&gateway, "/v1/chat/completions", &whole).header("accept-encoding", "gzip");
    let whole = whole.send().await.unwrap();
    assert_eq!(header(&whole, "content-encoding"), Some("gzip"));

    let folder = gateway.state_dir().join("media");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("long.txt"), "again ".repeat(2000)).unwrap();
    let source = folder.join("long.txt").display().to_string();
    let path = format!("/__openclaw__/assistant-media?source={source}");
    let bearer = format!("Bearer {SECRET}");
    let headers = [("accept-encoding", "gzip"), ("authorization", bearer.as_str())];
    let media = ask(&gateway, Method::GET, &path, &headers).await;
    assert_eq!((media.status().as_u16(), header(&media, "content-encoding")), (200, None));
}

#[tokio::test]
async fn the_transport_policy_is_what_the_config_says_now() {
    let gateway = gateway(|_| ()).await;
    let told = async || {
        let answer = ask(&gateway, Method::GET, "/health", &[]).await;
        header(&answer, "strict-transport-security").map(str::to_owned)
    };
    assert_eq!(told().await, None);
    let set = |value: Value| {
        let path = gateway.config_path();
        let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        config["gateway"]["http"]["securityHeaders"]["strictTransportSecurity"] = value;
        fs::write(path.with_extension("new"), config.to_string()).unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    };
    for (value, expected) in [
        (json!(" max-age=60; includeSubDomains "), Some("max-age=60; includeSubDomains")),
        (json!(false), None),
        (json!("max-age=1"), Some("max-age=1")),
    ] {
        set(value);
        let is_told = async || (told().await.as_deref() == expected).then_some(());
        until("the policy of the config", is_told).await;
    }
    // What no browser would understand is not taken up, and named.
    set(json!("for ever"));
    let named = async || {
        let key = "gateway.http.securityHeaders.strictTransportSecurity";
        gateway.stderr().contains(key).then_some(())
    };
    until("a line about the key", named).await;
    assert_eq!(told().await.as_deref(), Some("max-age=1"));
}

/// The lines of the log file, as objects.
fn lines(gateway: &Gateway) -> Vec<Value> {
    let files = fs::read_dir(gateway.state_dir().join("logs")).unwrap();
    let texts = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap_or_default());
    let text: String = texts.collect();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[tokio::test]
async fn a_line_names_its_request_and_its_run_whoever_wrote_it() {
    let (gateway, _mock) = offering_with(|config| {
        config["logging"] = json!({"level": "debug"});
    })
    .await;
    let failing = "@mock err status=400 type=invalid_request_error msg=\"no such thing\"";
    let body = json!({"model": "openclaw", "messages": [{"role": "user", "content": failing}]});
    let asked = post(&gateway, "/v1/chat/completions", &body).header("x-request-id", "mine-1");
    let answer = asked.send().await.unwrap();
    assert_eq!(header(&answer, "x-request-id"), Some("mine-1"));
    let of_http = async || {
        let is_its = |line: &&Value| line["requestId"] == "mine-1" && line["runId"].is_string();
        lines(&gateway).iter().find(is_its).cloned()
    };
    let line = until("a line of the run", of_http).await;
    assert!(line["connId"].is_null(), "{line}");
    let run = line["runId"].as_str().unwrap();
    let marks = format!("request{{id=\"mine-1\"}}:run{{id=\"{run}\"}}");
    gateway.logs(&marks).await;

    let mut client = admin(&gateway).await;
    let sent = json!({"sessionKey": "main", "message": failing, "idempotencyKey": "run-by-socket"});
    call(&mut client, "chat.send", sent).await;
    let of_socket = async || {
        let is_its = |line: &&Value| line["runId"] == "run-by-socket";
        lines(&gateway).iter().find(is_its).cloned()
    };
    let line = until("a line of the other run", of_socket).await;
    assert!(line["connId"].is_string() && line["requestId"].is_string(), "{line}");
    // Answered at once, by the task that also reads for the other requests.
    let refused = client.request("node.event", json!({})).await;
    let of_refused = async || {
        let is_its = |line: &&Value| line["requestId"] == refused["id"];
        lines(&gateway).iter().find(is_its).cloned()
    };
    let refusal = until("a line of a request that is refused", of_refused).await;
    assert_eq!(refusal["connId"], line["connId"], "{refusal}");
    // A line that belongs to no request says so by saying nothing.
    let listening = lines(&gateway).into_iter().find(|line| line["requestId"].is_null());
    assert!(listening.is_some_and(|line| line["runId"].is_null()));
}
