//! Spans, as a collector gets them: read by the messages that OpenTelemetry
//! publishes.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::metrics::Scraped;
use crate::stage::{Api, admin, ask, config, until};
use crate::support::gateway::free_port;
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, WsClient, python};

const KEY: &str = "the key of a collector";
const OTHER_KEY: &str = "the next key of a collector";

#[derive(Default)]
struct Got {
    bodies: Vec<Bytes>,
    headers: Vec<HeaderMap>,
    paths: Vec<String>,
    /// Whoever comes with another one is refused.
    key: Option<&'static str>,
    /// What each is answered whose spans are not taken, and how many there were.
    fault: Option<StatusCode>,
    faults: usize,
}

/// A collector of spans.
struct Collector {
    address: String,
    got: Arc<Mutex<Got>>,
    _server: JoinSet<()>,
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let got = Arc::<Mutex<Got>>::default();
        let take = |State(got): State<Arc<Mutex<Got>>>, uri: Uri, head: HeaderMap, body: Bytes| {
            let mut got = got.lock();
            if got.key.is_some_and(|key| head.get("x-key").is_none_or(|it| *it != *key)) {
                return std::future::ready(StatusCode::UNAUTHORIZED);
            }
            if let Some(fault) = got.fault {
                got.faults += 1;
                return std::future::ready(fault);
            }
            got.bodies.push(body);
            got.headers.push(head);
            got.paths.push(uri.path().to_owned());
            std::future::ready(StatusCode::OK)
        };
        let app = Router::new().fallback(take).with_state(Arc::clone(&got));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, got, _server: server }
    }

    /// The spans so far.
    fn spans(&self) -> Vec<Value> {
        let bodies = self.got.lock().bodies.clone();
        let mut child = Command::new(python::interpreter())
            .arg(python::script("read_spans.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        for body in bodies {
            writeln!(input, "{}", BASE64_STANDARD.encode(body)).unwrap();
        }
        drop(input);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Waits for a span of this name.
    async fn wait_for(&self, name: &str) -> Vec<Value> {
        let has_come = || async {
            let spans = self.spans();
            spans.iter().any(|span| span["name"] == name).then_some(spans)
        };
        until(name, has_come).await
    }
}

fn options(mock: &MockProvider, endpoint: &str) -> GatewayOptions {
    let mut config = config(mock.address(), Api::OpenAi);
    config["diagnostics"] = json!({"otel": {"enabled": true, "endpoint": endpoint,
        "headers": {"x-key": {"source": "env", "provider": "default", "id": "COLLECTOR_KEY"}},
        "flushIntervalMs": 1000, "serviceName": "of a test"}});
    GatewayOptions::with_config(config).env("COLLECTOR_KEY", KEY)
}

/// The key of the collector is in this file.
fn with_key_in(file: &Path, mock: &MockProvider, collector: &Collector) -> GatewayOptions {
    let mut config = config(mock.address(), Api::OpenAi);
    config["secrets"]["providers"]["t"] =
        json!({"source": "file", "path": file, "mode": "singleValue"});
    config["diagnostics"] = json!({"otel": {"enabled": true, "flushIntervalMs": 1000,
        "endpoint": format!("http://{}", collector.address),
        "headers": {"x-key": {"source": "file", "provider": "t", "id": "value"}}}});
    GatewayOptions::with_config(config)
}

fn write_key(file: &Path, key: &str) {
    fs::write(file, key).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Waits for spans, and says with which key they came.
async fn key_of_next(client: &mut WsClient, collector: &Collector) -> String {
    let has_come = async || {
        client.request("health", json!({})).await;
        let key = collector.got.lock().headers.last()?["x-key"].clone();
        Some(key.to_str().unwrap().to_owned())
    };
    until("a span", has_come).await
}

/// The one span of this name with this fact.
fn one<'a>(spans: &'a [Value], name: &str, fact: (&str, Value)) -> &'a Value {
    let is_it = |span: &&Value| span["name"] == name && span["facts"][fact.0] == fact.1;
    let found: Vec<_> = spans.iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{name} {fact:?}: {spans:#?}");
    found[0]
}

/// The value of `traceparent` of the last call of the provider.
fn told_provider(mock: &MockProvider) -> Option<String> {
    let requests = mock.requests();
    let headers = &requests.last().unwrap().headers;
    headers.iter().find(|(name, _)| name == "traceparent").map(|(_, value)| value.clone())
}

#[tokio::test]
async fn a_message_is_a_trace_down_to_the_call_of_the_model() {
    let (mock, collector) = (MockProvider::start().await, Collector::start().await);
    let gateway = Gateway::start(options(&mock, &format!("http://{}/", collector.address))).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "a private sentence", "run-of-a-trace").await;
    let header = told_provider(&mock).unwrap();
    let tool = "@mock tool name=session_status then=done";
    ask(&mut client, "other", tool, "run-with-a-tool").await;
    let spans = collector.wait_for("openclaw.tool.execution").await;

    let call = spans.iter().find(|span| {
        span["name"] == "openclaw.model.call" && header.contains(span["spanId"].as_str().unwrap())
    });
    let call = call.unwrap_or_else(|| panic!("{header}: {spans:#?}"));
    let id = |span: &Value, name: &str| span[name].as_str().unwrap().to_owned();
    assert_eq!(header, format!("00-{}-{}-01", id(call, "traceId"), id(call, "spanId")));
    let above = |span: &Value| {
        let parent = spans.iter().find(|other| other["spanId"] == span["parent"]);
        parent.unwrap_or_else(|| panic!("{span} has no parent: {spans:#?}"))
    };
    let run = above(call);
    let send = above(run);
    assert_eq!((&run["name"], &send["name"]), (&json!("openclaw.run"), &json!("chat.send")));
    assert_eq!(send["parent"], "");
    assert!([call, run, send].iter().all(|span| span["traceId"] == call["traceId"]));
    assert_eq!(
        [&call["kind"], &run["kind"], &send["kind"]].map(|kind| kind.as_u64().unwrap()),
        [3, 1, 2]
    );
    assert_eq!(call["facts"]["gen_ai.system"], "mock");
    assert_eq!(call["facts"]["gen_ai.request.model"], "mock-1");
    assert!(call["facts"]["gen_ai.usage.output_tokens"].as_u64().unwrap() > 0);
    let number = |span: &Value, name: &str| span[name].as_u64().unwrap();
    assert!(
        number(call, "begin") >= number(run, "begin") && number(call, "end") <= number(run, "end")
    );
    let tool =
        one(&spans, "openclaw.tool.execution", ("gen_ai.tool.name", json!("session_status")));
    assert_eq!(above(tool)["name"], "openclaw.run");
    assert_eq!(call["resource"]["service.name"], "of a test");

    assert_sent_as_configured(&collector);
    // Lines of the log about the run name its trace.
    let trace = id(
        one(&spans, "openclaw.tool.execution", ("gen_ai.tool.name", json!("session_status"))),
        "traceId",
    );
    ask(&mut client, "other", "@mock err status=400 msg=refused", "run-that-fails").await;
    let failing = told_provider(&mock).unwrap();
    let of_failing = failing.split('-').nth(1).unwrap();
    assert_ne!(of_failing, trace);
    let failed =
        |log: String| log.lines().find(|it| it.contains("model call failed")).map(str::to_owned);
    let line = until("the line", || async { failed(gateway.stderr()) }).await;
    assert!(line.contains(of_failing), "{line}");
    let file = until("the log file", || async { failed(log_file(&gateway)) });
    let line: Value = serde_json::from_str(&file.await).unwrap();
    assert_eq!(line["traceId"], of_failing);
}

/// What is in the log files.
fn log_file(gateway: &Gateway) -> String {
    let files = fs::read_dir(gateway.state_dir().join("logs")).unwrap();
    files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

#[tokio::test]
async fn a_request_by_http_goes_on_with_the_trace_of_its_sender() {
    let (mock, collector) = (MockProvider::start().await, Collector::start().await);
    let gateway = Gateway::start(options(&mock, &format!("http://{}", collector.address))).await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let get = |path: &str, parent: String| {
        let url = format!("http://{}{path}", gateway.address());
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        client.get(url).bearer_auth(SECRET).header("traceparent", parent).send()
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kept = format!("00-{trace}-00f067aa0ba902b7-01");
    assert_eq!(get("/metrics", kept).await.unwrap().status(), 200);
    // Whoever began this trace does not keep it, and neither do we.
    let unkept = "00-11112222333344445555666677778888-00f067aa0ba902b7-00".to_owned();
    get("/metrics", unkept).await.unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let nowhere = format!("http://{}/what-somebody-wrote", gateway.address());
    client.post(nowhere).header("traceparent", "nonsense").send().await.unwrap();
    let spans = collector.wait_for("_OTHER none").await;
    let span = one(&spans, "GET /metrics", ("http.route", json!("/metrics")));
    assert_eq!((&span["traceId"], &span["parent"]), (&json!(trace), &json!("00f067aa0ba902b7")));
    assert_eq!(span["facts"]["http.response.status_code"], 200);
    assert!(!spans.iter().any(|span| span.to_string().contains("what-somebody-wrote")));
}

#[tokio::test]
async fn a_question_by_http_is_one_trace_from_its_sender_to_the_provider() {
    let (mock, collector) = (MockProvider::start().await, Collector::start().await);
    let mut options = options(&mock, &format!("http://{}", collector.address));
    options.config.as_mut().unwrap()["gateway"]["http"]["endpoints"] =
        json!({"chatCompletions": {"enabled": true}, "responses": {"enabled": true}});
    let gateway = Gateway::start(options).await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let (trace, sender) = ("4bf92f3577b34da6a3ce929d0e0e473", "00f067aa0ba902b7");
    let question = json!([{"role": "user", "content": "a private sentence"}]);
    let paths = ["/v1/chat/completions", "/v1/responses"];
    let mut asked = Vec::new();
    for (path, stream) in paths.iter().flat_map(|path| [(path, false), (path, true)]) {
        let trace = format!("{trace}{}", asked.len());
        let body = json!({"model": "openclaw", "stream": stream,
            "messages": question, "input": "a private sentence"});
        let request = client.post(format!("http://{}{path}", gateway.address()));
        let request = request.bearer_auth(SECRET).body(body.to_string());
        let request = request.header("traceparent", format!("00-{trace}-{sender}-01"));
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        answer.text().await.unwrap();
        let told = told_provider(&mock).unwrap();
        let call = told.split('-').nth(2).unwrap().to_owned();
        assert_eq!(told, format!("00-{trace}-{call}-01"), "{path}");
        asked.push((path, trace, call));
    }
    let all_are_told = async || {
        let spans = collector.spans();
        let is_told = |(_, _, call): &(_, _, String)| {
            spans.iter().any(|span| span["spanId"] == call.as_str())
        };
        let requests = spans.iter().filter(|span| span["parent"] == sender).count();
        (asked.iter().all(is_told) && requests == asked.len()).then_some(spans)
    };
    let spans = until("all spans", all_are_told).await;
    for (path, trace, call) in asked {
        let mut way = Vec::new();
        let mut at = call;
        while let Some(span) = spans.iter().find(|span| span["spanId"] == at.as_str()) {
            assert_eq!(span["traceId"], trace.as_str());
            way.push(span["name"].as_str().unwrap());
            at = span["parent"].as_str().unwrap().to_owned();
        }
        assert_eq!(at, sender, "{way:?}");
        let ends = [way.first(), way.last()].map(|name| *name.unwrap());
        assert_eq!(ends, ["openclaw.model.call", format!("POST {path}").as_str()], "{way:?}");
        assert!(way.contains(&"openclaw.run"), "{way:?}");
    }
    assert!(!spans.iter().any(|span| span.to_string().contains("private")));
}

#[tokio::test]
async fn a_call_for_vectors_is_in_the_trace_of_whoever_asks_for_them() {
    let (mock, collector) = (MockProvider::start().await, Collector::start().await);
    let mut options = options(&mock, &format!("http://{}", collector.address));
    let config = options.config.as_mut().unwrap();
    config["gateway"]["http"]["endpoints"] = json!({"chatCompletions": {"enabled": true}});
    config["agents"]["defaults"]["memorySearch"] = json!({"provider": "mock", "model": "m"});
    let gateway = Gateway::start(options).await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = format!("http://{}/v1/embeddings", gateway.address());
    let body = json!({"model": "openclaw", "input": ["a", "b"]}).to_string();
    let asked = reqwest::Client::builder().no_proxy().build().unwrap().post(url).body(body);
    let asked = asked.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
    assert_eq!(asked.bearer_auth(SECRET).send().await.unwrap().status(), 200);
    let spans = collector.wait_for("openclaw.model.call").await;
    let call = one(&spans, "openclaw.model.call", ("gen_ai.operation.name", json!("embeddings")));
    assert_eq!(call["traceId"], trace);
    assert_eq!(call["facts"]["gen_ai.usage.input_tokens"], 2);
    let header = told_provider(&mock).unwrap();
    assert_eq!(header, format!("00-{trace}-{}-01", call["spanId"].as_str().unwrap()));
}

#[tokio::test]
async fn without_a_collector_everything_works_and_nothing_piles_up() {
    let mock = MockProvider::start().await;
    let nowhere = format!("http://127.0.0.1:{}", free_port());
    let gateway = Gateway::start(options(&mock, &nowhere)).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    let before = gateway.resident_kib().unwrap();
    for _ in 0..500 {
        client.request("health", json!({})).await;
    }
    let lost = || async {
        let scraped = Scraped::of(&gateway).await;
        let of =
            |outcome| scraped.number("clawgate_trace_spans_total", &json!({"outcome": outcome}));
        assert_eq!(of("exported"), 0.0);
        (of("failed") > 0.0).then_some(())
    };
    until("spans are given up", lost).await;
    let grown = gateway.resident_kib().unwrap().saturating_sub(before) / 1024;
    assert!(grown < 20, "the gateway grew by {grown} MiB");
    ask(&mut client, "main", "hello again", "run-2").await;
    gateway.logs("the collector of traces takes none").await;
    let log = gateway.stderr();
    assert_eq!(log.matches("the collector of traces takes none").count(), 1, "{log}");
}

#[tokio::test]
async fn traces_begin_and_end_with_the_configuration() {
    let (mock, collector) = (MockProvider::start().await, Collector::start().await);
    let mut gateway =
        Gateway::start(GatewayOptions::with_config(config(mock.address(), Api::OpenAi))).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    assert_eq!(told_provider(&mock), None, "nobody wants traces");
    let endpoint = format!("http://{}", collector.address);
    let otel = json!({"enabled": true, "endpoint": endpoint, "flushIntervalMs": 60_000});
    let set = |otel: Value| {
        let mut config = config(mock.address(), Api::OpenAi);
        config["diagnostics"] = json!({"otel": otel});
        fs::write(gateway.config_path(), config.to_string()).unwrap();
    };
    set(otel);
    let traced = async |client: &mut _, run: &str| {
        ask(client, "main", "hello", run).await;
        told_provider(&mock).is_some()
    };
    let mut tries = 0..1000;
    while !traced(&mut client, &format!("on-{}", tries.next().unwrap())).await {}
    // That one may have begun before.
    assert!(traced(&mut client, "whole").await);
    // What has ended is told before the gateway ends, however long it might wait.
    assert!(gateway.terminate().await.unwrap().success());
    let spans = collector.spans();
    assert!(spans.iter().any(|span| span["name"] == "openclaw.run"), "{spans:#?}");
}

#[tokio::test]
async fn a_secret_that_is_not_there_at_first_is_asked_for_again() {
    let (mock, collector) = (MockProvider::start().await, Collector::start().await);
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("key.txt");
    let gateway = Gateway::start(with_key_in(&secret, &mock, &collector)).await;
    let is_told = async || {
        gateway.stderr().contains("diagnostics.otel: no traces are sent for now").then_some(())
    };
    until("a line about the secret", is_told).await;
    write_key(&secret, KEY);
    let mut client = admin(&gateway).await;
    assert_eq!(key_of_next(&mut client, &collector).await, KEY);
}

#[tokio::test]
async fn a_secret_that_has_become_another_one_is_asked_for_when_the_old_one_is_refused() {
    let (mock, collector) = (MockProvider::start().await, Collector::start().await);
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("key.txt");
    write_key(&secret, KEY);
    let gateway = Gateway::start(with_key_in(&secret, &mock, &collector)).await;
    let mut client = admin(&gateway).await;
    assert_eq!(key_of_next(&mut client, &collector).await, KEY);
    *collector.got.lock() = Got { key: Some(OTHER_KEY), ..Got::default() };
    write_key(&secret, OTHER_KEY);
    assert_eq!(key_of_next(&mut client, &collector).await, OTHER_KEY);
}

#[tokio::test]
async fn a_collector_that_fails_has_no_secret_asked_for_again() {
    let (mock, collector) = (MockProvider::start().await, Collector::start().await);
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("key.txt");
    write_key(&secret, KEY);
    let gateway = Gateway::start(with_key_in(&secret, &mock, &collector)).await;
    let mut client = admin(&gateway).await;
    assert_eq!(key_of_next(&mut client, &collector).await, KEY);
    write_key(&secret, OTHER_KEY);
    *collector.got.lock() = Got { fault: Some(StatusCode::BAD_REQUEST), ..Got::default() };
    let has_failed = async || {
        client.request("health", json!({})).await;
        (collector.got.lock().faults > 0).then_some(())
    };
    until("a fault", has_failed).await;
    *collector.got.lock() = Got::default();
    assert_eq!(key_of_next(&mut client, &collector).await, KEY);
}

/// What the collector got came the way that the configuration names, and says
/// nothing that is private.
fn assert_sent_as_configured(collector: &Collector) {
    let got = collector.got.lock();
    assert!(got.paths.iter().all(|path| path == "/v1/traces"), "{:?}", got.paths);
    let sent = &got.headers[0];
    assert_eq!(sent["x-key"], KEY);
    assert_eq!(sent["content-type"], "application/x-protobuf");
    let all: Vec<u8> = got.bodies.concat();
    for private in ["private sentence", "run-of-a-trace", SECRET, KEY, "agent:main"] {
        let has = all.windows(private.len()).any(|part| part == private.as_bytes());
        assert!(!has, "{private}");
    }
}
