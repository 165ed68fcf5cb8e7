//! One WebSocket connection, as cheap as possible.
//!
//! The client shares the machine with the server it measures, so it does as
//! little as it can: requests are masked once and sent as they are, frames are
//! told apart by their first bytes and never parsed.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// The shared secret of the gateways that are measured.
pub const SECRET: &str = "bench-secret-0001";

/// How every answer begins, of both servers.
pub const ANSWER: &[u8] = br#"{"type":"res""#;

/// Any key does; that of RFC 6455 §5.7 is as good as a random one.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
const READ_AT_ONCE: usize = 16 * 1024;
// The first two bytes of a frame (RFC 6455 §5.2).
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
const TWO_BYTES: u8 = 0x7e;
const EIGHT_BYTES: u8 = 0x7f;
const TEXT: u8 = 1;
const CLOSE: u8 = 8;

/// A text as a masked frame, ready to be sent any number of times.
pub fn masked(text: &str) -> Vec<u8> {
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
            frame.extend(u64::try_from(length).unwrap_or(u64::MAX).to_be_bytes());
        }
    }
    frame.extend(MASK);
    frame.extend(text.bytes().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// A request as a masked frame.
pub fn request(id: &str, method: &str, params: &Value) -> Vec<u8> {
    masked(&json!({"type": "req", "id": id, "method": method, "params": params}).to_string())
}

/// An open WebSocket.
pub struct Link {
    stream: TcpStream,
    /// Bytes that were read; those before `start` were given out.
    bytes: Vec<u8>,
    start: usize,
}

impl Link {
    /// Opens a WebSocket.
    pub async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        Self::upgrade(TcpStream::connect(address).await?, address).await
    }

    /// Opens a WebSocket and logs in.
    pub async fn hello(address: SocketAddr) -> anyhow::Result<Self> {
        let mut link = Self::open(address).await?;
        link.connect().await?;
        Ok(link)
    }

    /// Makes a WebSocket of a TCP connection.
    pub async fn upgrade(stream: TcpStream, address: SocketAddr) -> anyhow::Result<Self> {
        stream.set_nodelay(true)?;
        let mut link = Self { stream, bytes: Vec::new(), start: 0 };
        let head = format!(
            "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        link.send(head.as_bytes()).await?;
        let end = loop {
            let end = link.bytes.windows(4).position(|four| four == b"\r\n\r\n");
            match end {
                Some(end) => break end,
                None => link.fill().await?,
            }
        };
        let answer = String::from_utf8_lossy(&link.bytes[..end]).into_owned();
        ensure!(answer.starts_with("HTTP/1.1 101"), "no upgrade: {answer}");
        link.start = end + 4;
        Ok(link)
    }

    /// Logs in and waits for hello-ok.
    pub async fn connect(&mut self) -> anyhow::Result<()> {
        let params = json!({
            "minProtocol": 3,
            "maxProtocol": 3,
            "client": {"id": "gateway-client", "version": "1.0.0", "platform": "linux", "mode": "backend"},
            "role": "operator",
            "scopes": ["operator.admin", "operator.read", "operator.write"],
            "caps": [],
            "auth": {"token": SECRET},
        });
        self.ask(&request("connect", "connect", &params)).await.map(drop)
    }

    /// Sends what [`masked`] or [`request`] made.
    pub async fn send(&mut self, frames: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(frames).await.context("the server is gone")
    }

    /// Sends a request and waits for its answer. A refusal is an error: it
    /// would pass for a fast answer.
    pub async fn ask(&mut self, request: &[u8]) -> anyhow::Result<&[u8]> {
        self.send(request).await?;
        let answer = self.answer().await?;
        ensure!(is_ok(answer), "refused: {}", String::from_utf8_lossy(answer));
        Ok(answer)
    }

    /// The next answer; events before it are skipped.
    pub async fn answer(&mut self) -> anyhow::Result<&[u8]> {
        let range = loop {
            let range = self.next_range().await?;
            if self.bytes[range.clone()].starts_with(ANSWER) {
                break range;
            }
        };
        Ok(&self.bytes[range])
    }

    /// The next message.
    pub async fn next(&mut self) -> anyhow::Result<&[u8]> {
        let range = self.next_range().await?;
        Ok(&self.bytes[range])
    }

    /// The next message, if it is here already.
    pub fn ready(&mut self) -> anyhow::Result<Option<&[u8]>> {
        Ok(self.take()?.map(|range| &self.bytes[range]))
    }

    async fn next_range(&mut self) -> anyhow::Result<Range<usize>> {
        loop {
            if let Some(range) = self.take()? {
                return Ok(range);
            }
            self.fill().await?;
        }
    }

    /// Takes the next whole text frame out of the buffer.
    fn take(&mut self) -> anyhow::Result<Option<Range<usize>>> {
        while let Some((kind, body)) = frame(&self.bytes, self.start)? {
            self.start = body.end;
            match kind {
                TEXT => return Ok(Some(body)),
                CLOSE => bail!("closed: {}", String::from_utf8_lossy(&self.bytes[body])),
                _ => {}
            }
        }
        Ok(None)
    }

    async fn fill(&mut self) -> anyhow::Result<()> {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.reserve(READ_AT_ONCE);
        let read = self.stream.read_buf(&mut self.bytes).await?;
        ensure!(read > 0, "the server closed the connection");
        Ok(())
    }
}

/// The frame that begins at `start`: its kind and where its body is.
fn frame(bytes: &[u8], start: usize) -> anyhow::Result<Option<(u8, Range<usize>)>> {
    let Some([first, second, rest @ ..]) = bytes.get(start..) else { return Ok(None) };
    let (header, length) = match *second {
        TWO_BYTES => {
            let Some(length) = rest.first_chunk() else { return Ok(None) };
            (4, usize::from(u16::from_be_bytes(*length)))
        }
        EIGHT_BYTES => {
            let Some(length) = rest.first_chunk() else { return Ok(None) };
            (10, usize::try_from(u64::from_be_bytes(*length))?)
        }
        length => (2, usize::from(length)),
    };
    let body = start + header..start + header + length;
    Ok((body.end <= bytes.len()).then_some((first & 0x0f, body)))
}

/// Whether an answer is none of an error.
pub fn is_ok(answer: &[u8]) -> bool {
    // Behind the id, before the payload.
    find(&answer[..answer.len().min(80)], br#""ok":true"#).is_some()
}

/// How often `needle` occurs.
pub fn count(text: &[u8], needle: &[u8]) -> usize {
    text.windows(needle.len()).filter(|window| *window == needle).count()
}

/// Where `needle` begins.
pub fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    text.windows(needle.len()).position(|window| window == needle)
}

/// Opens and logs in `count` connections.
pub async fn crowd(address: SocketAddr, count: usize) -> anyhow::Result<Vec<Link>> {
    let mut links = Vec::with_capacity(count);
    while links.len() < count {
        links.extend(some(address, links.len(), count).await?);
    }
    Ok(links)
}

/// Clients that are logged in and read what they are told, until this is dropped.
#[derive(Default)]
pub struct Listeners {
    count: usize,
    readers: JoinSet<anyhow::Result<()>>,
}

impl Listeners {
    /// As many more as make `count`.
    pub async fn grow(&mut self, address: SocketAddr, count: usize) -> anyhow::Result<()> {
        while self.count < count {
            for mut link in some(address, self.count, count).await? {
                self.count += 1;
                self.readers.spawn(async move {
                    loop {
                        link.next().await?;
                    }
                });
            }
        }
        Ok(())
    }

    /// Fails when somebody is gone.
    pub fn all_there(&mut self) -> anyhow::Result<()> {
        self.readers.try_join_next().map_or(Ok(()), |gone| gone?)
    }
}

/// Some of `count` at once: a server only lets so many wait for their login. They come
/// from as many addresses as they need, since the port of one that was closed stays
/// taken for a minute.
async fn some(address: SocketAddr, here: usize, count: usize) -> anyhow::Result<Vec<Link>> {
    const AT_ONCE: usize = 16;
    const OF_ONE_ADDRESS: usize = 1_000;
    let come = (here..count.min(here + AT_ONCE)).map(|number| async move {
        let stream = come_from_elsewhere(address, number / OF_ONE_ADDRESS).await?;
        let mut link = Link::upgrade(stream, address).await?;
        link.connect().await?;
        anyhow::Ok(link)
    });
    futures_util::future::try_join_all(come).await
}

/// Comes from another loopback address, as if from another machine.
pub async fn come_from_elsewhere(address: SocketAddr, machine: usize) -> anyhow::Result<TcpStream> {
    let [high, low] = u16::try_from(machine + 1)?.to_be_bytes();
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(Ipv4Addr::new(127, 1, high, low).into(), 0))?;
    Ok(socket.connect(address).await?)
}
