//! A WebSocket client that is cheap enough to have a thousand of them.
//!
//! Owns: a connection, and how far it has counted. Promises: an event out of turn is a
//! panic; nothing is kept, and nothing is parsed but answers. Must not: decide when to
//! read.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::support::SECRET;

/// How long an answer may take where a thousand others are served on two busy cores.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// Any key does; that of RFC 6455 §5.7 is as good as a random one.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
const READ_AT_ONCE: usize = 16 * 1024;
/// A number stands behind the payload, and little behind it.
const TAIL: usize = 120;
// The first two bytes of a frame (RFC 6455 §5.2).
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
const TWO_BYTES: u8 = 0x7e;
const EIGHT_BYTES: u8 = 0x7f;
const TEXT: u8 = 1;
const CLOSE: u8 = 8;

/// How a client comes in.
pub struct Guest<'a> {
    pub name: &'a str,
    pub scopes: &'a [&'a str],
    /// What its system takes that it has not read; as the system likes without one.
    pub room: Option<u32>,
}

/// An open connection that has logged in.
pub struct Link {
    pub conn_id: String,
    stream: TcpStream,
    /// Bytes that were read; those before `start` were given out.
    bytes: Vec<u8>,
    start: usize,
    /// The number of the next event.
    next: u64,
    asked: u64,
    /// Runs whose end it has heard.
    ends: Vec<String>,
}

/// How a connection ended, in words.
pub type End = String;

impl Link {
    /// Comes in and waits for its welcome.
    pub async fn open(address: &str, guest: &Guest<'_>) -> Result<Self, End> {
        let stream = connect(address, guest.room).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).unwrap();
        let mut link = Self {
            conn_id: String::new(),
            stream,
            bytes: Vec::new(),
            start: 0,
            next: 0,
            asked: 0,
            ends: Vec::new(),
        };
        link.upgrade(address).await?;
        let client = json!({"id": "gateway-client", "version": "1.0.0", "platform": "linux",
            "mode": "backend", "instanceId": guest.name});
        let params = json!({"minProtocol": 3, "maxProtocol": 3, "client": client,
            "role": "operator", "scopes": guest.scopes, "caps": [], "auth": {"token": SECRET}});
        let hello = link.call("connect", &params).await?;
        link.conn_id = hello["server"]["connId"].as_str().unwrap().to_owned();
        Ok(link)
    }

    async fn upgrade(&mut self, address: &str) -> Result<(), End> {
        let head = format!(
            "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        self.send(head.as_bytes()).await?;
        let end = loop {
            match self.bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(end) => break end,
                None => self.fill().await?,
            }
        };
        let answer = String::from_utf8_lossy(&self.bytes[..end]).into_owned();
        self.start = end + 4;
        if answer.starts_with("HTTP/1.1 101") { Ok(()) } else { Err(answer) }
    }

    /// Sends bytes as they are.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), End> {
        self.stream.write_all(bytes).await.map_err(|error| error.to_string())
    }

    /// Sends a request; its id.
    pub async fn ask(&mut self, method: &str, params: &Value) -> Result<String, End> {
        self.asked += 1;
        let id = format!("q{}", self.asked);
        self.send(&request(&id, method, params)).await?;
        Ok(id)
    }

    /// Sends a request; the payload of its answer. Others are skipped.
    pub async fn call(&mut self, method: &str, params: &Value) -> Result<Value, End> {
        let id = self.ask(method, params).await?;
        timeout(ANSWER_LIMIT, self.answer(&id))
            .await
            .unwrap_or_else(|_| Err(format!("no answer to {method}")))
    }

    /// The payload of the answer to the request with this id.
    pub async fn answer(&mut self, id: &str) -> Result<Value, End> {
        let begin = format!(r#"{{"type":"res","id":"{id}","#);
        loop {
            let text = self.next().await?;
            if text.starts_with(&begin) {
                let mut answer: Value = serde_json::from_str(text).unwrap();
                let is_well = answer["ok"] == true;
                return if is_well { Ok(answer["payload"].take()) } else { Err(text.to_owned()) };
            }
        }
    }

    /// The next message; an event has the number that its turn is. Safe to drop and
    /// call again.
    pub async fn next(&mut self) -> Result<&str, End> {
        loop {
            while let Some((kind, from, to)) = frame(&self.bytes, self.start) {
                self.start = to;
                match kind {
                    TEXT => return Ok(self.counted(from, to)),
                    CLOSE => {
                        let [high, low, why @ ..] = &self.bytes[from..to] else {
                            return Err("closed".into());
                        };
                        let code = u16::from_be_bytes([*high, *low]);
                        return Err(format!("closed {code} {}", String::from_utf8_lossy(why)));
                    }
                    _ => {}
                }
            }
            self.fill().await?;
        }
    }

    fn counted(&mut self, from: usize, to: usize) -> &str {
        let text = std::str::from_utf8(&self.bytes[from..to]).unwrap();
        if text.starts_with(r#"{"type":"event","#) {
            let seq = seq_of(text);
            assert_eq!(seq, Some(self.next), "an event out of turn: {}", begin_of(text));
            self.next += 1;
            self.ends.extend(run_that_ended(text));
        }
        text
    }

    async fn fill(&mut self) -> Result<(), End> {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.reserve(READ_AT_ONCE);
        match self.stream.read_buf(&mut self.bytes).await {
            Ok(0) => Err("ended".into()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Runs whose end it has heard, in this order.
    pub fn ends(&self) -> &[String] {
        &self.ends
    }

    /// Is gone without a word: its system answers that there is nobody.
    pub fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }
}

async fn connect(address: &str, room: Option<u32>) -> io::Result<TcpStream> {
    let address: SocketAddr = address.parse().unwrap();
    let socket = TcpSocket::new_v4()?;
    if let Some(room) = room {
        socket.set_recv_buffer_size(room)?;
    }
    if address.ip().is_loopback() {
        // The port of one that was closed stays taken for a minute.
        socket.bind(SocketAddr::new(Ipv4Addr::new(127, 0, 9, 1).into(), 0))?;
    }
    socket.connect(address).await
}

/// A request as a masked frame.
pub fn request(id: &str, method: &str, params: &Value) -> Vec<u8> {
    let text = json!({"type": "req", "id": id, "method": method, "params": params}).to_string();
    let length = text.len();
    let mut frame = vec![FINAL | TEXT];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < TWO_BYTES => frame.push(MASKED | short),
        (_, Ok(middle)) => {
            frame.push(MASKED | TWO_BYTES);
            frame.extend(middle.to_be_bytes());
        }
        _ => {
            frame.push(MASKED | EIGHT_BYTES);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend(MASK);
    frame.extend(text.bytes().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// The frame that begins at `start`, if it is whole: its kind, where its body begins
/// and where it ends.
fn frame(bytes: &[u8], start: usize) -> Option<(u8, usize, usize)> {
    let [first, second, rest @ ..] = bytes.get(start..)? else { return None };
    let (header, length) = match *second {
        TWO_BYTES => (4, usize::from(u16::from_be_bytes(*rest.first_chunk()?))),
        EIGHT_BYTES => (10, usize::try_from(u64::from_be_bytes(*rest.first_chunk()?)).unwrap()),
        length => (2, usize::from(length)),
    };
    let body = start + header;
    (body + length <= bytes.len()).then_some((first & 0x0f, body, body + length))
}

/// The number of an event, which stands behind its payload.
fn seq_of(text: &str) -> Option<u64> {
    let mut from = text.len().saturating_sub(TAIL);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let (_, number) = text[from..].rsplit_once(r#","seq":"#)?;
    let digits = number.find(|letter: char| !letter.is_ascii_digit())?;
    number[..digits].parse().ok()
}

/// The run whose end an event is.
fn run_that_ended(text: &str) -> Option<String> {
    let payload = text.strip_prefix(r#"{"type":"event","event":"chat","payload":"#)?;
    let (before, _) = payload.split_once(r#","state":"final""#)?;
    let (_, run) = before.split_once(r#""runId":""#)?;
    run.split_once('"').map(|(run, _)| run.to_owned())
}

fn begin_of(text: &str) -> String {
    text.chars().take(200).collect()
}
