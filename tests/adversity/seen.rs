//! What is seen of a gateway from outside: its numbers, its process, its log.

use std::fs;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::stage::call;
use crate::support::{Gateway, SECRET, WsClient};

/// What the gateway answers to a plain request, with its head. Costs next to nothing,
/// so that it can be asked again and again.
pub async fn page(gateway: &Gateway, path: &str) -> String {
    let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
    let request =
        format!("GET {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {SECRET}\r\n\r\n");
    tcp.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Whether the gateway takes work, and what fails.
pub async fn readiness(gateway: &Gateway) -> (bool, Value) {
    let answer = page(gateway, "/readyz").await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let told: Value = serde_json::from_str(body).unwrap();
    let is_ready = head.lines().next().unwrap().contains(" 200 ");
    assert!(is_ready || head.lines().next().unwrap().contains(" 503 "), "{head}");
    (is_ready, told["failing"].clone())
}

/// How the gateway is, looked at now.
pub async fn health(client: &mut WsClient) -> Value {
    call(client, "health", json!({"probe": true})).await
}

/// The sum of all samples of a family of `/metrics`.
pub async fn number(gateway: &Gateway, family: &str) -> f64 {
    let page = page(gateway, "/metrics").await;
    let samples = page
        .lines()
        .filter(|line| line.strip_prefix(family).is_some_and(|rest| rest.starts_with(['{', ' '])));
    let values: Vec<f64> =
        samples.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    assert!(!values.is_empty(), "no {family} in {page}");
    values.iter().sum()
}

/// How many files and sockets the process has open.
pub fn descriptors(gateway: &Gateway) -> usize {
    fs::read_dir(format!("/proc/{}/fd", gateway.pid().unwrap())).unwrap().count()
}

/// The time that the process has spent, in ticks of a hundredth of a second.
pub fn ticks(gateway: &Gateway) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", gateway.pid().unwrap())).unwrap();
    let (_, after_name) = stat.rsplit_once(')').unwrap();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    fields[11..=12].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// Lines of the log that say this.
pub fn records(gateway: &Gateway, what: &str) -> Vec<String> {
    gateway.stderr().lines().filter(|line| line.contains(what)).map(str::to_owned).collect()
}
