//! Providers that hang, flood, break off and talk rubbish: each run ends once and
//! says why, with what had come; the gateway stays small, and the next message of
//! the session is answered.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::seen::health;
use crate::stage::{admin, ask, call, ends_of, history, text_of};
use crate::support::{Gateway, GatewayOptions, WsClient, default_config};

/// How long the gateway waits for the next byte of this provider, in seconds.
const IDLE: u64 = 3;
/// For the longest of them, in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(100);
/// How much more memory one of them may need: an answer of 4 MiB some times over, and
/// what waits for one client.
const ROOM_KIB: u64 = 200 * 1024;
/// The longest text of an error: what a provider says is told, up to a bound.
const MAX_ERROR: usize = 65 * 1024;
/// Stands for an answer of which nothing had come.
const NOTHING: &str = "[assistant turn failed before producing content]";

const EVENTS: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// What a provider does, and what becomes of its run.
struct Bad {
    name: &'static str,
    /// `errorKind`.
    kind: &'static str,
    /// What the error says.
    told: &'static str,
    /// What had come before.
    partial: &'static str,
}

const fn bad(
    name: &'static str,
    kind: &'static str,
    told: &'static str,
    partial: &'static str,
) -> Bad {
    Bad { name, kind, told, partial }
}

/// They say little.
const QUIET: [Bad; 14] = [
    bad("no-head", "timeout", "timed out", NOTHING),
    bad("no-body", "timeout", "timed out", NOTHING),
    bad("stalls", "timeout", "timed out", "Half a"),
    bad("ends-early", "unknown", "", "Half a"),
    bad("resets", "unknown", "", "Half a"),
    bad("cut-chunk", "unknown", "", "Half a"),
    bad("wrong-chunk", "unknown", "", "Half a"),
    bad("cut-length", "unknown", "", "Half a"),
    bad("nothing", "unknown", "", NOTHING),
    bad("binary", "unknown", "", NOTHING),
    bad("wrong-json", "unknown", "", NOTHING),
    bad("no-http", "unknown", "", NOTHING),
    bad("page", "unknown", "text/html", NOTHING),
    bad("circle", "unknown", "", NOTHING),
];
/// They do not stop.
const FLOODS: [Bad; 5] = [
    bad("endless-head", "unknown", "", NOTHING),
    bad("endless-error", "unknown", "", NOTHING),
    bad("endless-line", "unknown", "longer than", NOTHING),
    bad("thoughts", "unknown", "longer than", ""),
    bad("calls", "unknown", "more than", ""),
];

/// One event with a delta.
fn event(delta: &Value) -> String {
    let chunk = json!({"id": "c", "object": "chat.completion.chunk", "model": "mock-1",
        "choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    format!("data: {chunk}\n\n")
}

fn words(text: &str) -> String {
    event(&json!({"content": text}))
}

/// Sends the same again and again, until nobody takes it any more.
async fn flood(tcp: &mut TcpStream, piece: &str) {
    let many = piece.repeat((256 * 1024 / piece.len()).max(1));
    while tcp.write_all(many.as_bytes()).await.is_ok() {}
}

/// Keeps the connection and says nothing, until the gateway has enough of it.
async fn hang(tcp: &mut TcpStream) {
    let mut space = [0; 1024];
    while tcp.read(&mut space).await.is_ok_and(|read| read > 0) {}
}

async fn behave(tcp: &mut TcpStream, name: &str) {
    let half = words("Half a");
    let say = match name {
        "no-head" => String::new(),
        "no-body" => EVENTS.to_owned(),
        "stalls" | "ends-early" | "resets" => format!("{EVENTS}{half}"),
        "cut-chunk" => format!("{CHUNKED}{:x}\r\n{half}\r\nfff\r\ndata: {{", half.len()),
        "wrong-chunk" => format!("{CHUNKED}{:x}\r\n{half}\r\nzz\r\ndata", half.len()),
        "cut-length" => EVENTS.replace("\r\n\r\n", "\r\nContent-Length: 99999999\r\n\r\n") + &half,
        "nothing" | "binary" | "thoughts" | "calls" => EVENTS.to_owned(),
        "endless-line" => format!("{EVENTS}data: "),
        "wrong-json" => format!("{EVENTS}data: {{\"choices\": [{{\"delta\": oops\n\n"),
        "no-http" => "SSH-2.0-OpenSSH_9.9\r\n".to_owned(),
        "page" => "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<h1>Log in</h1>".to_owned(),
        "endless-head" => "HTTP/1.1 200 OK\r\n".to_owned(),
        "endless-error" => "HTTP/1.1 400 Bad Request\r\n\r\n".to_owned(),
        "circle" => "HTTP/1.1 307 Again\r\nLocation: /v1/chat/completions\r\n\
            Content-Length: 0\r\n\r\n"
            .to_owned(),
        _ => {
            let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
            format!("{EVENTS}{}data: {end}\n\ndata: [DONE]\n\n", words("All right."))
        }
    };
    let _ = tcp.write_all(say.as_bytes()).await;
    match name {
        "no-head" | "no-body" | "stalls" => hang(tcp).await,
        // What has been said has to arrive before.
        "resets" => {
            sleep(Duration::from_millis(300)).await;
            tcp.set_zero_linger().unwrap();
        }
        "binary" => {
            let bytes: Vec<u8> = (0..64 * 1024_u32).map(|at| ((at * 7919) >> 3) as u8).collect();
            let _ = tcp.write_all(&bytes).await;
        }
        "endless-head" => flood(tcp, "X-More: and more\r\n").await,
        "endless-error" => flood(tcp, "it is bad ").await,
        "thoughts" => flood(tcp, &event(&json!({"reasoning_content": "h".repeat(1000)}))).await,
        "calls" => flood_of_calls(tcp).await,
        "endless-line" => flood(tcp, "x").await,
        _ => {}
    }
}

/// Every event begins another call.
async fn flood_of_calls(tcp: &mut TcpStream) {
    for index in 0.. {
        let function = json!({"name": "session_status", "arguments": "{}"});
        let call = json!({"index": index, "id": format!("call-{index}"), "type": "function",
            "function": function});
        let said = event(&json!({"tool_calls": [call]}));
        if tcp.write_all(said.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Reads a request; the name in what was said last: messages in a row are parts of one.
async fn asked(tcp: &mut TcpStream) -> Option<String> {
    let mut reader = BufReader::new(tcp);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim().to_ascii_lowercase();
        if let Some(said) = line.strip_prefix("content-length:") {
            length = said.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await.ok()?;
    let body: Value = serde_json::from_slice(&body).unwrap();
    let last = &body["messages"].as_array().unwrap().last().unwrap()["content"];
    let last = last.as_array().and_then(|parts| parts.last()).unwrap_or(last).to_string();
    let name = last.split_once("@bad ").map(|(_, rest)| {
        rest.chars().take_while(|char| char.is_ascii_lowercase() || *char == '-').collect()
    });
    Some(name.unwrap_or_default())
}

/// The provider; it stops when it is dropped.
async fn provider() -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut server = JoinSet::new();
    server.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((mut tcp, _)) = listener.accept().await {
            open.spawn(async move {
                if let Some(name) = asked(&mut tcp).await {
                    behave(&mut tcp, &name).await;
                }
            });
        }
    });
    (address, server)
}

/// The end of a run, and the most memory that the gateway had until then.
async fn end_of(client: &WsClient, gateway: &Gateway, run_id: &str, most_kib: &mut u64) -> Value {
    let end = client.wait_for(PATIENCE, |frame| {
        let payload = &frame["payload"];
        frame["event"] == "chat" && payload["runId"] == run_id && payload["state"] != "delta"
    });
    tokio::pin!(end);
    loop {
        tokio::select! {
            end = &mut end => {
                return end.unwrap_or_else(|| panic!("{run_id} has no end"))["payload"].clone();
            }
            () = sleep(Duration::from_millis(20)) => {
                *most_kib = (*most_kib).max(gateway.resident_kib().unwrap());
            }
        }
    }
}

async fn check(client: &mut WsClient, bad: &Bad, end: &Value) {
    let name = bad.name;
    assert_eq!(end["state"], "error", "{name}: {end}");
    assert_eq!(end["errorKind"], bad.kind, "{name}: {end}");
    let text = end["errorMessage"].as_str().unwrap();
    assert!(!text.is_empty() && text.len() <= MAX_ERROR, "{name}: {} bytes", text.len());
    assert!(text.contains(bad.told), "{name}: {text}");
    let next = ask(client, name, "and now?", &format!("next-{name}")).await;
    assert_eq!(text_of(&next["message"]), "All right.", "{name}: {next}");
    assert_eq!(ends_of(client, name).len(), 1, "{name}");
    let messages = history(client, name).await;
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"], "{name}");
    assert_eq!(messages[1]["stopReason"], "error", "{name}");
    let partial = text_of(&messages[1]);
    assert!(partial.starts_with(bad.partial), "{name}: {:.100}", partial);
}

async fn gateway(address: &str) -> Gateway {
    let mut config = default_config(address);
    config["models"]["providers"]["mock"]["timeoutSeconds"] = json!(IDLE);
    Gateway::start(GatewayOptions::with_config(config)).await
}

async fn begin(client: &mut WsClient, bad: &Bad) {
    let message = format!("@bad {}", bad.name);
    let params = json!({"sessionKey": bad.name, "message": message, "idempotencyKey": bad.name});
    call(client, "chat.send", params).await;
}

async fn nothing_runs(client: &mut WsClient) {
    let runs = &health(client).await["services"]["runs"];
    assert_eq!((&runs["active"], &runs["waiting"]), (&json!(0), &json!(0)), "{runs}");
}

#[tokio::test]
async fn whatever_a_provider_does_its_run_ends_once_and_the_next_message_is_answered() {
    let (address, _provider) = provider().await;
    let gateway = gateway(&address).await;
    let mut client = admin(&gateway).await;
    for bad in &QUIET {
        begin(&mut client, bad).await;
    }
    for bad in &QUIET {
        let end = end_of(&client, &gateway, bad.name, &mut 0).await;
        check(&mut client, bad, &end).await;
    }
    nothing_runs(&mut client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_does_not_stop_is_given_up_and_fills_no_memory() {
    let (address, _provider) = provider().await;
    let gateway = gateway(&address).await;
    let before_kib = gateway.resident_kib().unwrap();
    let mut most_kib = before_kib;
    for bad in &FLOODS {
        let began = Instant::now();
        let mut client = admin(&gateway).await;
        begin(&mut client, bad).await;
        let end = end_of(&client, &gateway, bad.name, &mut most_kib).await;
        check(&mut client, bad, &end).await;
        let grown = most_kib - before_kib;
        println!("{}: {:?}, {} MiB more at most", bad.name, began.elapsed(), grown / 1024);
        assert!(grown < ROOM_KIB, "{}: {grown} KiB more", bad.name);
        nothing_runs(&mut client).await;
    }
}
