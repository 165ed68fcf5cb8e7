//! Files that are uploaded before their message (#103560): too large for a frame,
//! and not held in memory.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::stage::{Api, admin, ask, call, connect, end_of, history, scripted, text_of, until};
use crate::support::client::standard_connect;
use crate::support::guest::Guest;
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, WsClient, default_config};

const PATH: &str = "/api/chat/uploads?sessionKey=main";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
const MIB: usize = 1024 * 1024;
/// Longer than anything here takes.
const HANG: Duration = Duration::from_secs(60);
/// How much more memory an upload of any size may need, in KiB.
const ROOM_KIB: u64 = 16 * 1024;

fn http() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

fn post_as(gateway: &Gateway, path: &str, token: &str) -> reqwest::RequestBuilder {
    http().post(format!("http://{}{path}", gateway.address())).bearer_auth(token)
}

fn post(gateway: &Gateway, path: &str) -> reqwest::RequestBuilder {
    post_as(gateway, path, SECRET)
}

/// The status and the body.
async fn told(request: reqwest::RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn upload(
    gateway: &Gateway,
    path: &str,
    kind: &str,
    bytes: impl Into<reqwest::Body>,
) -> Value {
    let (status, told) = told(post(gateway, path).header("content-type", kind).body(bytes)).await;
    assert_eq!(status, 201, "{told}");
    told
}

fn picture(bytes: usize) -> Vec<u8> {
    let mut picture = PNG.to_vec();
    picture.extend((picture.len()..bytes).map(|at| (at % 251) as u8));
    picture
}

/// A gateway whose model sees, with such bounds.
async fn gateway(http: Value) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["gateway"]["http"] = http;
    for model in config["models"]["providers"]["mock"]["models"].as_array_mut().unwrap() {
        model["input"] = json!(["text", "image"]);
    }
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

async fn send(client: &mut WsClient, key: &str, run: &str, files: Value) -> Value {
    let params = json!({"sessionKey": key, "message": "look", "idempotencyKey": run,
        "attachments": files});
    client.request("chat.send", params).await
}

/// All files below a folder of the media.
fn files(gateway: &Gateway, folder: &str) -> Vec<PathBuf> {
    fn below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { below(&path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    below(&gateway.state_dir().join("media").join(folder), &mut found);
    found
}

async fn open(gateway: &Gateway, path: &str, token: &str, headers: &str) -> TcpStream {
    let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
    let mut head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n");
    write!(head, "Authorization: Bearer {token}\r\n{headers}\r\n").unwrap();
    tcp.write_all(head.as_bytes()).await.unwrap();
    tcp
}

/// The status and the body of an answer after which the connection ends.
async fn answered(tcp: &mut TcpStream) -> (u16, String) {
    let mut answer = Vec::new();
    let _ = timeout(HANG, tcp.read_to_end(&mut answer)).await.expect("an end");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

async fn when(what: &str, mut is: impl FnMut() -> bool) {
    until(what, async || is().then_some(())).await;
}

/// Waits until somebody has begun to write a file.
async fn has_begun(gateway: &Gateway) {
    when("a file that is being written", || !files(gateway, "uploads/partial").is_empty()).await;
}

#[tokio::test]
async fn a_picture_larger_than_a_frame_reaches_the_model() {
    let (gateway, mock) = gateway(json!({"uploads": {"maxBytes": 100 * MIB}})).await;
    let bytes = picture(19 * MIB);
    let made =
        upload(&gateway, &format!("{PATH}&fileName=my%20holiday.jpg"), "image/jpeg", bytes.clone())
            .await;
    let id = made["uploadId"].as_str().unwrap();
    assert!(id.starts_with("my_holiday---") && id.ends_with(".png"), "{made}");
    let expires = made["expiresAtMs"].as_u64().unwrap();
    let sum = clawgate::support::hex(Sha256::digest(&bytes));
    assert_eq!(
        made,
        json!({"ok": true, "uploadId": id, "url": format!("media://inbound/{id}"),
        "fileName": "my holiday.jpg", "mimeType": "image/png", "sizeBytes": bytes.len(),
        "sha256": sum, "expiresAtMs": expires})
    );

    let mut client = admin(&gateway).await;
    let answer =
        send(&mut client, "main", "run-1", json!([{"type": "image", "uploadId": id}])).await;
    assert_eq!(answer["payload"]["status"], "started", "{answer}");
    assert_eq!(end_of(&client, "run-1").await["state"], "final");
    let asked = mock.requests().last().unwrap().body.to_string();
    assert!(asked.contains(&STANDARD.encode(&bytes)), "the whole picture");
    let kept = files(&gateway, "inbound");
    assert_eq!(kept.len(), 1);
    assert!(std::fs::read(&kept[0]).unwrap() == bytes);
    assert!(files(&gateway, "uploads/files").is_empty());
    let messages = history(&mut client, "main").await;
    assert_eq!(messages[0]["MediaPaths"], json!([kept[0]]));

    // The same message once more is the same run; by another key it is another message.
    let again =
        send(&mut client, "main", "run-1", json!([{"type": "image", "uploadId": id}])).await;
    assert_eq!(again["payload"], json!({"runId": "run-1", "status": "ok"}), "{again}");
    let address = json!([{"url": format!("media://inbound/{id}")}]);
    let other = send(&mut client, "agent:main:main", "run-2", address).await;
    assert_eq!(other["payload"]["status"], "started", "{other}");
    assert_eq!(end_of(&client, "run-2").await["state"], "final");
    assert_eq!(files(&gateway, "inbound"), kept);
}

#[tokio::test]
async fn every_method_that_takes_files_takes_uploads() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-0").await;
    for (method, run) in [("chat.send", "run-1"), ("sessions.send", "run-2"), ("agent", "run-3")] {
        let text = format!("text of {method}");
        let made = upload(&gateway, PATH, "text/plain", text.clone()).await;
        let key = if method == "sessions.send" { "key" } else { "sessionKey" };
        let mut params = json!({"message": "read", "idempotencyKey": run,
            "attachments": [{"type": "file", "uploadId": made["uploadId"]}]});
        params[key] = json!("main");
        let answer = client.request(method, params).await;
        assert_eq!(answer["ok"], true, "{answer}");
        let report =
            call(&mut client, "agent.wait", json!({"runId": run, "timeoutMs": 20_000})).await;
        assert_eq!(report["status"], "ok", "{report}");
        assert!(mock.requests().last().unwrap().body.to_string().contains(&text), "{method}");
    }
    assert_eq!(files(&gateway, "inbound").len(), 3);
}

#[tokio::test]
#[allow(clippy::disallowed_methods)] // no supervisor in a test
async fn sixty_mebibytes_need_no_memory_and_the_model_reads_their_beginning() {
    let (gateway, mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    upload(&gateway, PATH, "text/plain", "warm").await;
    let before = gateway.resident_kib().unwrap();
    let line = b"All work and no play makes Jack a dull boy.\n";
    let text: Vec<u8> = line.iter().copied().cycle().take(60 * MIB).collect();
    for is_form in [false, true] {
        let request = if is_form {
            let part = reqwest::multipart::Part::bytes(text.clone()).file_name("book.txt");
            post(&gateway, PATH).multipart(reqwest::multipart::Form::new().part("file", part))
        } else {
            post(&gateway, &format!("{PATH}&fileName=book.txt")).body(text.clone())
        };
        let sending = tokio::spawn(told(request));
        let mut most = 0;
        while !sending.is_finished() {
            most = most.max(gateway.resident_kib().unwrap());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (status, made) = sending.await.unwrap();
        assert_eq!(status, 201, "{made}");
        assert_eq!(made["mimeType"], "text/plain");
        assert_eq!(made["sha256"], clawgate::support::hex(Sha256::digest(&text)));
        assert!(most < before + ROOM_KIB, "{before} KiB became {most}");
        let run = format!("run-{is_form}");
        let file = json!([{"uploadId": made["uploadId"]}]);
        assert_eq!(send(&mut client, "main", &run, file).await["ok"], true);
        assert_eq!(end_of(&client, &run).await["state"], "final");
    }
    let asked = mock.requests().last().unwrap().body.to_string();
    assert!(asked.contains("[cut here; the rest is in the file]"));
    let message = &history(&mut client, "main").await[2];
    assert!(text_of(message).starts_with("[media attached: "), "{message}");
}

#[tokio::test]
async fn what_is_too_large_is_refused_by_its_head_and_on_its_way() {
    let most = 3 * MIB;
    let (gateway, _mock) = gateway(json!({"uploads": {"maxBytes": most}})).await;
    let limits: Value = http()
        .get(format!("http://{}/api/chat/uploads", gateway.address()))
        .bearer_auth(SECRET)
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(limits["maxBytes"], most);

    // Nothing of the body was sent.
    let mut tcp = open(&gateway, PATH, SECRET, "Content-Length: 3145729\r\n").await;
    let (status, body) = answered(&mut tcp).await;
    assert_eq!(status, 413, "{body}");
    let error = &serde_json::from_str::<Value>(&body).unwrap()["error"];
    assert_eq!(error["code"], "UPLOAD_TOO_LARGE");
    assert_eq!(
        (&error["maxBytes"], &error["configPath"]),
        (&json!(most), &json!("gateway.http.uploads.maxBytes"))
    );

    let mut tcp = open(&gateway, PATH, SECRET, "Transfer-Encoding: chunked\r\n").await;
    let chunk = [b"10000\r\n".as_slice(), &vec![b'x'; 0x10000], b"\r\n"].concat();
    // What it goes on sending is thrown away for a moment, so that it can read why.
    let began = Instant::now();
    while tcp.write_all(&chunk).await.is_ok() {
        assert!(began.elapsed() < HANG, "it has no end");
    }
    when("nothing is left", || files(&gateway, "uploads").is_empty()).await;

    // All that it may have.
    upload(&gateway, PATH, "text/plain", vec![b'x'; most]).await;
}

#[tokio::test]
async fn a_picture_has_the_bound_of_pictures_and_is_refused_before_it_has_come() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["mediaMaxMb"] = json!(1);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut tcp = open(&gateway, PATH, SECRET, "Content-Length: 2000000\r\n").await;
    tcp.write_all(&picture(5000)).await.unwrap();
    let (status, body) = answered(&mut tcp).await;
    assert_eq!(status, 413, "{body}");
    let error = &serde_json::from_str::<Value>(&body).unwrap()["error"];
    assert_eq!(error["configPath"], "agents.defaults.mediaMaxMb");
    assert_eq!(error["maxBytes"], MIB);
    upload(
        &gateway,
        PATH,
        "application/pdf",
        [b"%PDF-1.7\n".as_slice(), &vec![0; 2 * MIB]].concat(),
    )
    .await;
}

#[tokio::test]
async fn what_is_cut_off_leaves_nothing_even_by_a_kill() {
    let (mut gateway, _mock) = gateway(json!({})).await;
    let headers = "Content-Length: 1000000\r\n";
    let mut tcp = open(&gateway, PATH, SECRET, headers).await;
    tcp.write_all(&[b'x'; 500_000]).await.unwrap();
    has_begun(&gateway).await;
    drop(tcp);
    when("nothing is left", || files(&gateway, "uploads").is_empty()).await;

    let kept = upload(&gateway, PATH, "text/plain", "kept").await;
    let mut tcp = open(&gateway, PATH, SECRET, headers).await;
    tcp.write_all(&[b'x'; 500_000]).await.unwrap();
    has_begun(&gateway).await;
    gateway.kill9();
    assert_eq!(files(&gateway, "uploads/partial").len(), 1);
    gateway.restart().await;
    assert!(files(&gateway, "uploads/partial").is_empty());
    // What was acknowledged is there.
    let mut client = admin(&gateway).await;
    let answer = send(&mut client, "main", "run-1", json!([{"uploadId": kept["uploadId"]}])).await;
    assert_eq!(answer["ok"], true, "{answer}");
}

#[tokio::test]
async fn an_upload_is_for_its_own_caller_and_session() {
    let (gateway, _mock) = gateway(json!({})).await;
    let (mut first, auth) =
        Guest::new("first", &["operator.write", "operator.read"]).come(&gateway).await;
    let token = auth["deviceToken"].as_str().unwrap().to_owned();
    let own = Guest::new("second", &["operator.write", "operator.read"]);
    let token_of_second = own.token(&gateway).await;
    let (mut second, _) = own.with(json!({"deviceToken": token_of_second})).come(&gateway).await;
    let (status, made) = told(post_as(&gateway, PATH, &token).body("private")).await;
    assert_eq!(status, 201, "{made}");
    let file = json!([{"type": "file", "uploadId": made["uploadId"]}]);
    let refused = json!({"code": "UPLOAD_NOT_FOUND", "uploadId": made["uploadId"]});
    for (client, key, run) in
        [(&mut second, "main", "run-1"), (&mut first, "agent:main:other", "run-2")]
    {
        let answer = send(client, key, run, file.clone()).await;
        assert_eq!(answer["error"]["details"], refused, "{answer}");
    }
    let mut anybody = admin(&gateway).await;
    assert_eq!(
        send(&mut anybody, "main", "run-3", file.clone()).await["error"]["details"],
        refused
    );
    for id in ["../records/x", "/etc/passwd", "x\0", "", "a.png"] {
        let answer = send(&mut first, "main", "run-4", json!([{"uploadId": id}])).await;
        assert_eq!(answer["ok"], false, "{id:?}: {answer}");
    }
    assert_eq!(send(&mut first, "main", "run-5", file).await["ok"], true);
}

#[tokio::test]
async fn who_may_not_write_uploads_nothing() {
    let (gateway, _mock) = gateway(json!({})).await;
    let reader = Guest::new("reader", &["operator.read"]).token(&gateway).await;
    for (token, status) in [("wrong", 401), (reader.as_str(), 403)] {
        // Its body is not waited for.
        let mut tcp =
            open(&gateway, PATH, token, "Content-Length: 999\r\nConnection: close\r\n").await;
        assert_eq!(answered(&mut tcp).await.0, status);
    }
    for (path, text) in [
        ("/api/chat/uploads", "sessionKey"),
        ("/api/chat/uploads?sessionKey=a&sessionKey=b", "sessionKey"),
        ("/api/chat/uploads?sessionKey=agent:nobody:main", "no longer exists"),
    ] {
        let (status, told) = told(post(&gateway, path).body("x")).await;
        let message = told["error"]["message"].as_str().unwrap();
        assert!(status == 400 && message.contains(text), "{told}");
    }
    let (status, _) = told(post(&gateway, PATH).body("")).await;
    assert_eq!(status, 400, "an empty file");
    let zipped = post(&gateway, PATH).header("content-encoding", "gzip").body("x");
    assert_eq!(told(zipped).await.0, 415);
    assert!(files(&gateway, "uploads").is_empty());
}

#[tokio::test]
async fn who_is_removed_while_he_uploads_is_cut_off_at_once() {
    let (gateway, _mock) = gateway(json!({})).await;
    let guest = Guest::new("guest", &["operator.write"]);
    let token = guest.token(&gateway).await;
    let mut tcp = open(&gateway, PATH, &token, "Content-Length: 1000000\r\n").await;
    tcp.write_all(&[b'x'; 300_000]).await.unwrap();
    has_begun(&gateway).await;
    let mut operator = admin(&gateway).await;
    call(&mut operator, "device.pair.remove", json!({"deviceId": guest.id()})).await;
    assert_eq!(answered(&mut tcp).await.0, 401);
    when("nothing is left", || files(&gateway, "uploads").is_empty()).await;
}

#[tokio::test]
async fn a_digest_that_is_stated_has_to_be_the_one_of_the_body() {
    let (gateway, _mock) = gateway(json!({})).await;
    let digest = |text: &str| STANDARD.encode(Sha256::digest(text));
    for (name, value) in [
        ("content-digest", format!("sha-256=:{}:", digest("hello"))),
        ("digest", format!("SHA-256={}", digest("hello"))),
    ] {
        let stated = |text: &'static str| post(&gateway, PATH).header(name, &value).body(text);
        assert_eq!(told(stated("hello")).await.0, 201);
        let (status, refused) = told(stated("hellO")).await;
        assert_eq!((status, &refused["error"]["code"]), (400, &json!("DIGEST_MISMATCH")));
    }
    let unread = post(&gateway, PATH).header("content-digest", "sha-256=x").body("hello");
    assert_eq!(told(unread).await.0, 400);
    assert_eq!(files(&gateway, "uploads/files").len(), 2);
}

#[tokio::test]
async fn some_upload_side_by_side_and_no_one_takes_all_places_or_all_room() {
    let (gateway, _mock) = gateway(json!({"uploads": {"maxBytes": 100_000}})).await;
    let headers = "Content-Length: 90000\r\n";
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut tcp = open(&gateway, PATH, SECRET, headers).await;
        tcp.write_all(&[b'x'; 10_000]).await.unwrap();
        held.push(tcp);
    }
    when("four are under way", || files(&gateway, "uploads/partial").len() == 4).await;
    let fifth = post(&gateway, PATH).body("x").send().await.unwrap();
    assert_eq!(fifth.status().as_u16(), 429);
    assert!(fifth.headers().contains_key("retry-after"));
    // Those that were there go on, one after the other or together.
    for tcp in &mut held {
        tcp.write_all(&[b'x'; 80_000]).await.unwrap();
    }
    for tcp in &mut held {
        let mut head = [0; 12];
        timeout(HANG, tcp.read_exact(&mut head)).await.unwrap().unwrap();
        assert_eq!(&head, b"HTTP/1.1 201");
    }
    // Sixteen of the largest are all that is kept for messages to come.
    for _ in 4..17 {
        upload(&gateway, PATH, "text/plain", vec![b'x'; 90_000]).await;
    }
    let (status, told) = told(post(&gateway, PATH).body(vec![b'x'; 90_000])).await;
    assert_eq!((status, &told["error"]["code"]), (507, &json!("UPLOADS_FULL")));
}

#[tokio::test]
async fn files_that_messages_took_are_in_nobodys_way() {
    let (gateway, _mock) = gateway(json!({})).await;
    upload(&gateway, PATH, "text/plain", "x").await;
    let records = gateway.state_dir().join("media/uploads/records");
    for number in 0..1000 {
        std::fs::write(records.join(format!("taken-{number}.json")), "{}").unwrap();
    }
    upload(&gateway, PATH, "text/plain", "x").await;
}

#[tokio::test]
async fn a_body_that_does_not_come_on_is_given_up() {
    let (gateway, _mock) = gateway(json!({})).await;
    let mut tcp = open(&gateway, PATH, SECRET, "Content-Length: 1000000\r\n").await;
    tcp.write_all(b"x").await.unwrap();
    let (mut reading, mut writing) = tcp.split();
    let drip = async {
        while writing.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    let mut head = [0; 12];
    let answer = timeout(HANG, reading.read_exact(&mut head));
    tokio::select! {
        answer = answer => { answer.expect("an answer").unwrap(); }
        () = drip => {}
    }
    assert_eq!(&head, b"HTTP/1.1 408");
    when("nothing is left", || files(&gateway, "uploads").is_empty()).await;
}

#[tokio::test]
async fn readers_of_a_chat_take_no_uploads() {
    let (gateway, _mock) = gateway(json!({})).await;
    let made = upload(&gateway, PATH, "text/plain", "x").await;
    let mut reader = connect(&gateway, &standard_connect(&["operator.read"])).await;
    let answer = send(&mut reader, "main", "run-1", json!([{"uploadId": made["uploadId"]}])).await;
    assert_eq!(answer["error"]["message"], "missing scope: operator.write", "{answer}");
}
