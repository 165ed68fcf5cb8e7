//! The recorded requests of the Control UI, sent again to a gateway that has one.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::corpus::Corpus;
use super::setup;
use super::trace::{Line, What};
use crate::support::control_ui::write_control_ui;
use crate::support::{Gateway, GatewayOptions, MockProvider};

const TRACES: [&str; 3] = ["http/control-ui-and-rest", "http/auth-none", "http/defaults-off"];
/// Paths of other parts of the gateway in these recordings.
const OTHERS: [&str; 9] = [
    "/v1/chat",
    "/v1/responses",
    "/v1/embeddings",
    "/tools/",
    "/sessions/",
    "/hooks/",
    "/ready",
    "/metrics",
    "/__openclaw__/c",
];
const HEADERS: [&str; 9] = [
    "content-type",
    "cache-control",
    "x-frame-options",
    "x-content-type-options",
    "referrer-policy",
    "permissions-policy",
    "content-security-policy",
    "retry-after",
    "allow",
];
/// What differs on purpose: request, what of its answer, and why.
const DIFFERENCES: [(&str, &str, &str); 5] = [
    ("POST /", "status", "A method that a path does not take is told."),
    ("POST /", "allow", "So are the methods that it takes."),
    ("POST /", "body", "And the text says so."),
    ("GET /ui", "x-frame-options", "A text that nobody frames."),
    ("GET /ui", "content-security-policy", "A text that loads nothing."),
];

struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<String> {
        let found = self.headers.iter().find(|(known, _)| known == name)?;
        Some(without_hashes(&found.1))
    }
}

/// A policy without the hashes of scripts: the UI here is another one.
fn without_hashes(policy: &str) -> String {
    let mut rest = policy.to_owned();
    while let Some((before, after)) = rest.split_once(" 'sha256-") {
        let (_, after) = after.split_once('\'').expect("the end of a hash");
        rest = format!("{before}{after}");
    }
    rest
}

/// Sends a request as it was recorded: no client would send some of the paths.
async fn ask(gateway: &Gateway, req: &Value) -> Answer {
    let (method, path) = (req["method"].as_str().unwrap(), req["path"].as_str().unwrap());
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
    for (name, value) in req["headers"].as_object().into_iter().flatten() {
        text.push_str(&format!("{name}: {}\r\n", value.as_str().unwrap()));
    }
    text.push_str("Content-Length: 0\r\nConnection: close\r\n\r\n");
    let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
    tcp.write_all(text.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    tcp.read_to_end(&mut bytes).await.unwrap();
    let answer = String::from_utf8_lossy(&bytes);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    Answer { status, headers: headers.collect(), body: body.to_owned() }
}

/// A recorded body with the places of this gateway, and a version that is one of
/// the original's; none where the recording does not have it.
fn body(recorded: &str, gateway: &Gateway) -> Option<String> {
    if recorded.contains("not kept>") || recorded.contains("chars in all>") {
        return None;
    }
    let state = gateway.state_dir().display().to_string();
    let workspace = gateway.workspace().display().to_string();
    let placed = recorded.replace("<STATE_DIR>", &state).replace("<WORKSPACE>", &workspace);
    let version = format!("2026.5.7+clawgate.{}", env!("CARGO_PKG_VERSION"));
    Some(placed.replace("<TMP>", "/tmp").replace("\"2026.5.7\"", &format!("{version:?}")))
}

/// What of an answer is not as it was recorded.
fn mismatches(res: &Value, answer: &Answer, gateway: &Gateway) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut compare = |what: &str, recorded: Option<String>, now: Option<String>| {
        if recorded != now {
            found.push((what.to_owned(), format!("recorded {recorded:?}, now {now:?}")));
        }
    };
    compare("status", Some(res["status"].to_string()), Some(answer.status.to_string()));
    for name in HEADERS {
        let recorded = res["headers"][name].as_str().map(without_hashes);
        compare(name, recorded, answer.header(name));
    }
    if let Some(recorded) = body(res["body"].as_str().unwrap_or_default(), gateway) {
        compare("body", Some(recorded), Some(answer.body.clone()));
    }
    found
}

fn request(line: &Line) -> Option<(&Value, &Value, String)> {
    let What::Http { req, res } = &line.what else { return None };
    let path = req["path"].as_str()?;
    let is_other = OTHERS.iter().any(|other| path.starts_with(other))
        || path == "/__openclaw__/a2ui/"
        || (path.starts_with("/v1/") && req["method"] != "GET")
        || res["body"].as_str()?.starts_with("{\"object\"");
    (!is_other).then(|| (req, res, format!("{} {path}", req["method"].as_str().unwrap())))
}

#[tokio::test]
async fn the_recorded_requests_of_the_control_ui_are_answered_as_recorded() {
    let corpus = Corpus::find();
    let names = corpus.names();
    let (mut wrong, mut used, mut compared) = (Vec::new(), Vec::new(), 0);
    for name in TRACES.iter().filter(|name| names.iter().any(|known| known == *name)) {
        let provider = MockProvider::start().await;
        let config = setup::config(name, provider.address());
        let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
        write_control_ui(&gateway.state_dir().join("control-ui"));
        for (req, res, what) in corpus.load(name).lines.iter().filter_map(request) {
            compared += 1;
            for (part, text) in mismatches(res, &ask(&gateway, req).await, &gateway) {
                let meant = DIFFERENCES
                    .iter()
                    .position(|(request, meant, _)| *request == what && *meant == part);
                match meant {
                    Some(index) => used.push(index),
                    None => wrong.push(format!("{name}: {what}: {part}: {text}")),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    if corpus.complete {
        assert!(compared > 25, "{compared}");
        let unused: Vec<_> = (0..DIFFERENCES.len()).filter(|index| !used.contains(index)).collect();
        assert!(unused.is_empty(), "nothing needs these differences: {unused:?}");
    }
}
