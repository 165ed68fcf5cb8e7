//! A connection that hears frames, and is strict about how they are written.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use super::echo;
use super::frame::{BINARY, CLOSE, PING, PONG, TEXT};

/// What takes longer does not come.
const PATIENCE: Duration = Duration::from_secs(30);
/// Who takes nothing for so long waits for something.
const STALLED: Duration = Duration::from_secs(2);
const READ_AT_ONCE: usize = 64 * 1024;

/// What a client hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A text message.
    Text(Vec<u8>),
    /// A binary message.
    Binary(Vec<u8>),
    /// The answer to a ping.
    Pong(Vec<u8>),
    /// A close frame; without a code it is empty.
    Close(Option<u16>),
    /// The other side has ended.
    End,
}

/// An open WebSocket.
pub struct Client {
    tcp: TcpStream,
    bytes: Vec<u8>,
    start: usize,
}

impl Client {
    /// Opens one to the echo, with this behind the request.
    pub fn open(address: SocketAddr, ahead: &[u8]) -> Self {
        let tcp = TcpStream::connect(address).unwrap();
        tcp.set_nodelay(true).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        tcp.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut client = Self { tcp, bytes: Vec::new(), start: 0 };
        let path = echo::PATH;
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        client.write(&[head.as_bytes(), ahead].concat()).unwrap();
        let end = loop {
            if let Some(end) = client.bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            assert!(client.fill(), "no answer to the upgrade");
        };
        let answer = String::from_utf8_lossy(&client.bytes[..end]).to_lowercase();
        assert!(answer.starts_with("http/1.1 101"), "no upgrade: {answer}");
        // That of the example in RFC 6455 §1.3.
        assert!(answer.contains("s3pplmbitxaq9kygzzhzrbk+xoo="), "another key: {answer}");
        // Extensions would change what the bits and bytes of frames mean.
        assert!(!answer.contains("sec-websocket-extensions"), "{answer}");
        client.start = end;
        client
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// When the other side has broken the connection off.
    pub fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.tcp.write_all(bytes)
    }

    /// Sends bytes over and over, until nothing is taken of them for a while or it is
    /// enough; how many were taken.
    pub fn press(&mut self, bytes: &[u8], enough: usize) -> usize {
        self.tcp.set_write_timeout(Some(STALLED)).unwrap();
        let mut taken = 0;
        while taken < enough {
            match self.tcp.write(&bytes[taken % bytes.len()..]) {
                Ok(more) => taken += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("after {taken} bytes: {error}"),
            }
        }
        self.tcp.set_write_timeout(Some(PATIENCE)).unwrap();
        taken
    }

    /// Says no more, and goes on to hear.
    pub fn ends_writing(&mut self) {
        self.tcp.shutdown(Shutdown::Write).unwrap();
    }

    /// The next thing that comes.
    pub fn hear(&mut self) -> Heard {
        loop {
            if let Some(heard) = self.take() {
                return heard;
            }
            if !self.fill() {
                let rest = &self.bytes[self.start..];
                let length = rest.len();
                assert!(length == 0, "ended in the middle of a frame, after {length} bytes of it");
                return Heard::End;
            }
        }
    }

    /// Whether there was more to read.
    fn fill(&mut self) -> bool {
        self.bytes.drain(..self.start);
        self.start = 0;
        let there = self.bytes.len();
        self.bytes.resize(there + READ_AT_ONCE, 0);
        let read = self.tcp.read(&mut self.bytes[there..]);
        self.bytes.truncate(there + read.as_ref().map_or(0, |read| *read));
        match read {
            Ok(read) => read > 0,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                panic!("the connection was reset instead of closed")
            }
            Err(error) => panic!("nothing came: {error}"),
        }
    }

    fn take(&mut self) -> Option<Heard> {
        let Head { kind, start, end } = head(self.bytes.get(self.start..)?)?;
        let payload = self.bytes.get(self.start + start..self.start + end)?.to_vec();
        self.start += end;
        Some(match kind {
            TEXT => match echo::binary_of(&payload) {
                Some(bytes) => Heard::Binary(bytes),
                None => Heard::Text(payload),
            },
            BINARY => Heard::Binary(payload),
            PONG => Heard::Pong(payload),
            CLOSE if payload.is_empty() => Heard::Close(None),
            CLOSE => {
                let (code, reason) = payload.split_first_chunk().expect("a code of two bytes");
                assert!(std::str::from_utf8(reason).is_ok(), "a reason that is no text");
                Heard::Close(Some(u16::from_be_bytes(*code)))
            }
            PING => panic!("nobody asked for a ping"),
            kind => panic!("a frame of the kind {kind}"),
        })
    }
}

/// What the beginning of a frame says.
pub struct Head {
    /// Which kind of frame it is.
    pub kind: u8,
    /// Where its payload begins.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

/// The head, if all of it has come. Ours are whole messages, not masked, without
/// reserved bits, and say their length in the shortest way.
pub fn head(bytes: &[u8]) -> Option<Head> {
    let [first, second, rest @ ..] = bytes else { return None };
    assert_eq!(first & 0xf0, 0x80, "a fragment, or reserved bits: {first:#x}");
    let (start, length) = match second {
        126 => {
            let length = u16::from_be_bytes(*rest.first_chunk()?);
            assert!(length > 125, "a length of {length} in two bytes");
            (4, usize::from(length))
        }
        127 => {
            let length = u64::from_be_bytes(*rest.first_chunk()?);
            assert!(length > 0xffff, "a length of {length} in eight bytes");
            (10, usize::try_from(length).unwrap())
        }
        length => {
            assert!(*length < 126, "a masked frame");
            (2, usize::from(*length))
        }
    };
    Some(Head { kind: first & 0x0f, start, end: start + length })
}
