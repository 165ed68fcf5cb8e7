//! `GET /sessions/<key>/history` as a stream of events.

use std::pin::Pin;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{Stream, StreamExt};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{asking, gateway};
use crate::stage::{admin, ask, call, text_of, until};
use crate::support::{Gateway, SECRET, WsClient};

const KEY: &str = "agent:main:followed";
const LIMIT: Duration = Duration::from_secs(30);
/// An answer that is not read is cut off after half of it.
const CUT_AFTER: Duration = Duration::from_secs(60);

/// A stream that is being read.
struct Following {
    stream: Pin<Box<dyn Stream<Item = reqwest::Result<bytes::Bytes>> + Send>>,
    rest: Vec<u8>,
}

impl Following {
    async fn open(gateway: &Gateway, query: &str) -> Self {
        let asked = asking(gateway, Method::GET, &format!("/sessions/{KEY}/history{query}"));
        let asked = asked.bearer_auth(SECRET).header("accept", "text/event-stream");
        let answer = asked.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream; charset=utf-8");
        assert_eq!(answer.headers()["cache-control"], "no-cache");
        let stream = Box::pin(answer.bytes_stream());
        let mut following = Self { stream, rest: Vec::new() };
        assert_eq!(following.block().await.as_deref(), Some("retry: 1000"));
        following
    }

    /// The text up to the next empty line; none at the end.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.rest.windows(2).position(|pair| pair == b"\n\n") {
                let block = self.rest.drain(..end + 2).take(end).collect();
                return Some(String::from_utf8(block).unwrap());
            }
            let part = timeout(LIMIT, self.stream.next()).await.expect("it says or ends")?;
            self.rest.extend_from_slice(&part.ok()?);
        }
    }

    /// The next event, with its name; none at the end.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            let block = self.block().await?;
            let Some((name, data)) = block.split_once("\ndata: ") else {
                assert_eq!(block, ": keepalive");
                continue;
            };
            let name = name.strip_prefix("event: ").unwrap().to_owned();
            return Some((name, serde_json::from_str(data).unwrap()));
        }
    }

    /// The places of the messages up to this one, from the first event on.
    async fn seqs_to(&mut self, last: u64) -> Vec<u64> {
        let mut seqs = Vec::new();
        while seqs.last() != Some(&last) {
            let (name, data) = self.next().await.expect("it goes on");
            match name.as_str() {
                "history" => {
                    assert!(seqs.is_empty(), "all of it is told once: {data}");
                    seqs.extend(data["messages"].as_array().unwrap().iter().map(seq));
                }
                "message" => {
                    assert_eq!(data["messageSeq"], data["message"]["__openclaw"]["seq"]);
                    assert_eq!(data["messageId"], data["message"]["__openclaw"]["id"]);
                    seqs.push(data["messageSeq"].as_u64().unwrap());
                }
                other => panic!("{other}: {data}"),
            }
        }
        seqs
    }
}

fn seq(message: &Value) -> u64 {
    message["__openclaw"]["seq"].as_u64().unwrap()
}

async fn inject(client: &mut WsClient, text: &str) {
    call(client, "chat.inject", json!({"sessionKey": KEY, "message": text})).await;
}

#[tokio::test]
async fn what_is_said_comes_as_it_is_written() {
    let (gateway, _mock) = gateway(|_| ()).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, KEY, "@mock text text=\"first\"", "run-1").await;
    let mut following = Following::open(&gateway, "").await;
    let (name, page) = following.next().await.unwrap();
    assert_eq!((name.as_str(), page["messages"].as_array().unwrap().len()), ("history", 2));
    assert_eq!((&page["sessionKey"], &page["hasMore"]), (&json!(KEY), &json!(false)));
    // Somebody else's words are none of this session.
    ask(&mut client, "agent:main:other", "@mock text text=\"elsewhere\"", "run-2").await;
    let tool = "@mock tool name=session_status args={} then=\"second\"";
    ask(&mut client, KEY, tool, "run-3").await;
    let mut roles = Vec::new();
    let mut last = json!(null);
    for seq in 3..=6 {
        let (name, told) = following.next().await.unwrap();
        assert_eq!((name.as_str(), &told["messageSeq"]), ("message", &json!(seq)), "{told}");
        assert_eq!(told["sessionKey"], KEY);
        roles.push(told["message"]["role"].as_str().unwrap().to_owned());
        last = told["message"].clone();
    }
    assert_eq!(roles, ["user", "assistant", "toolResult", "assistant"]);
    assert_eq!(text_of(&last), "second");
    let shown = call(&mut client, "chat.history", json!({"sessionKey": KEY})).await;
    assert_eq!(shown["messages"][5], last, "in the same form");
}

#[tokio::test]
async fn messages_that_are_written_while_streams_begin_come_once_and_in_order() {
    const MESSAGES: u64 = 200;
    let (gateway, _mock) = gateway(|_| ()).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, KEY, "@mock text text=\"first\"", "run-1").await;
    let (written, seen) = watch::channel(0);
    let writing = async {
        for number in 1..=MESSAGES {
            inject(&mut client, &format!("message {number}")).await;
            written.send_replace(number);
        }
    };
    // Each begins when some more is written, so that all are in the middle of it.
    let reading = join_all((0..16).map(|number| {
        let (gateway, mut seen) = (&gateway, seen.clone());
        async move {
            seen.wait_for(|written| *written >= number * 12).await.unwrap();
            let mut following = Following::open(gateway, "").await;
            following.seqs_to(MESSAGES + 2).await
        }
    }));
    let (read, ()) = tokio::join!(reading, writing);
    let all: Vec<u64> = (1..=MESSAGES + 2).collect();
    for seqs in read {
        assert_eq!(seqs, all);
    }
}

#[tokio::test]
async fn a_part_is_told_anew_with_each_message() {
    let (gateway, _mock) = gateway(|_| ()).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, KEY, "@mock text text=\"third answer\"", "run-1").await;
    let mut following = Following::open(&gateway, "?limit=1").await;
    let (name, page) = following.next().await.unwrap();
    assert_eq!(
        (name.as_str(), text_of(&page["messages"][0]).as_str()),
        ("history", "third answer")
    );
    assert_eq!((&page["hasMore"], &page["nextCursor"]), (&json!(true), &json!("2")));
    inject(&mut client, "one").await;
    let (name, page) = following.next().await.unwrap();
    assert_eq!((name.as_str(), page["items"].as_array().unwrap().len()), ("history", 1));
    assert_eq!((seq(&page["items"][0]), &page["nextCursor"]), (3, &json!("3")));
    inject(&mut client, "two").await;
    assert_eq!(following.next().await.unwrap().1["nextCursor"], "4");
}

#[tokio::test]
async fn a_session_that_begins_anew_is_told_anew() {
    let (gateway, _mock) = gateway(|_| ()).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, KEY, "@mock text text=\"before\"", "run-1").await;
    let mut following = Following::open(&gateway, "").await;
    assert_eq!(following.seqs_to(2).await, [1, 2]);
    call(&mut client, "sessions.reset", json!({"key": KEY})).await;
    inject(&mut client, "after").await;
    let (name, page) = following.next().await.unwrap();
    assert_eq!((name.as_str(), page["messages"].as_array().unwrap().len()), ("history", 1));
    assert!(text_of(&page["messages"][0]).contains("after"), "{page}");
    inject(&mut client, "more").await;
    let (name, told) = following.next().await.unwrap();
    assert_eq!((name.as_str(), &told["messageSeq"]), ("message", &json!(2)));
}

/// How many streams are open.
async fn streams(gateway: &Gateway) -> u64 {
    let asked = asking(gateway, Method::GET, "/metrics").bearer_auth(SECRET);
    let text = asked.send().await.unwrap().text().await.unwrap();
    let line = "clawgate_connections{role=\"operator\",dialect=\"stream\"} ";
    let number = text.lines().find_map(|it| it.strip_prefix(line));
    number.map_or(0, |number| number.parse().unwrap())
}

#[tokio::test]
async fn a_reader_who_does_not_read_is_cut_off() {
    let (gateway, _mock) = gateway(|_| ()).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, KEY, "@mock text text=\"first\"", "run-1").await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut tcp = socket.connect(gateway.address().parse().unwrap()).await.unwrap();
    let head = format!(
        "GET /sessions/{KEY}/history?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\
         Authorization: Bearer {SECRET}\r\nAccept: text/event-stream\r\n\r\n"
    );
    tcp.write_all(head.as_bytes()).await.unwrap();
    until("it follows", async || (streams(&gateway).await == 1).then_some(())).await;
    // With each the whole page is written, which grows.
    let long = "x".repeat(7_000);
    for _ in 0..200 {
        inject(&mut client, &long).await;
    }
    let is_cut = async {
        while streams(&gateway).await > 0 {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    timeout(CUT_AFTER, is_cut).await.expect("it is cut off");
    call(&mut client, "health", json!({})).await;
}
