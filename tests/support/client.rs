//! A WebSocket client that keeps everything it receives, with the time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::SECRET;

/// How long a test waits for what should come at once: where others work as well, some of it
/// takes as long as half a minute.
pub const SOON: Duration = Duration::from_secs(60);

/// TCP, or TLS on it.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

type Socket = WebSocketStream<Box<dyn Wire>>;

/// One thing that came over the socket.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    /// A text frame that holds JSON.
    Frame(Value),
    /// A text frame that does not, or a binary frame.
    Other(Vec<u8>),
    Ping,
    Close(Closed),
}

impl Incoming {
    pub fn frame(&self) -> Option<&Value> {
        if let Self::Frame(value) = self { Some(value) } else { None }
    }
}

/// How a connection ended; 1005 without a code, 1006 without a close frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    pub code: u16,
    pub reason: String,
}

#[derive(Debug, Clone)]
pub struct Received {
    pub at: Instant,
    pub what: Incoming,
}

/// An upgrade that was answered with plain HTTP, or no connection at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub body: String,
}

#[derive(Default)]
struct Log {
    entries: Mutex<Vec<Received>>,
}

impl Log {
    /// Keeps it; returns how many there are now.
    fn push(&self, what: Incoming) -> usize {
        let mut entries = self.entries.lock();
        entries.push(Received { at: Instant::now(), what });
        entries.len()
    }
}

/// A client connection. Dropping it cuts the socket.
pub struct WsClient {
    sink: SplitSink<Socket, Message>,
    log: Arc<Log>,
    count: watch::Receiver<usize>,
    next_id: u64,
    cursor: usize,
    _reader: JoinSet<()>,
}

impl WsClient {
    /// Opens `ws://<address>/` without further headers.
    pub async fn open(address: &str) -> Self {
        Self::open_with(address, "/", &[]).await.expect("upgrade accepted")
    }

    pub async fn open_with(
        address: &str,
        path: &str,
        headers: &[(String, String)],
    ) -> Result<Self, Refusal> {
        let tcp = TcpStream::connect(address).await;
        let tcp = tcp.map_err(|error| Refusal { status: 0, body: error.to_string() })?;
        tcp.set_nodelay(true).unwrap();
        Self::upgrade(Box::new(tcp), &format!("ws://{address}{path}"), headers).await
    }

    /// Makes a WebSocket of a connection.
    pub async fn upgrade(
        wire: Box<dyn Wire>,
        url: &str,
        headers: &[(String, String)],
    ) -> Result<Self, Refusal> {
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
        }
        let limits = WebSocketConfig::default().max_frame_size(None).max_message_size(None);
        match client_async_with_config(request, wire, Some(limits)).await {
            Ok((socket, _)) => Ok(Self::over(socket)),
            Err(tungstenite::Error::Http(response)) => Err(Refusal {
                status: response.status().as_u16(),
                body: String::from_utf8_lossy(response.body().as_deref().unwrap_or_default())
                    .into_owned(),
            }),
            Err(error) => Err(Refusal { status: 0, body: error.to_string() }),
        }
    }

    fn over(socket: Socket) -> Self {
        let (sink, stream) = socket.split();
        let log = Arc::new(Log::default());
        let (sender, count) = watch::channel(0);
        let mut reader = JoinSet::new();
        reader.spawn(read_all(stream, Arc::clone(&log), sender));
        Self { sink, log, count, next_id: 0, cursor: 0, _reader: reader }
    }

    /// Sends text as it is. A socket that is gone already is no error here:
    /// what counts is what was received.
    pub async fn send_text(&mut self, text: impl Into<String>) {
        let _ = self.sink.send(Message::text(text.into())).await;
    }

    /// Sends texts so that they come together.
    pub async fn send_together(&mut self, texts: impl IntoIterator<Item = String>) {
        self.feed(texts).await;
        let _ = self.sink.flush().await;
    }

    /// The same with a good-bye behind them.
    pub async fn send_together_and_close(&mut self, texts: impl IntoIterator<Item = String>) {
        self.feed(texts).await;
        self.close().await;
    }

    async fn feed(&mut self, texts: impl IntoIterator<Item = String>) {
        for text in texts {
            let _ = self.sink.feed(Message::text(text)).await;
        }
    }

    pub async fn send_binary(&mut self, bytes: Vec<u8>) {
        let _ = self.sink.send(Message::binary(bytes)).await;
    }

    pub async fn send(&mut self, frame: &Value) {
        self.send_text(frame.to_string()).await;
    }

    /// Closes from this side, without a code.
    pub async fn close(&mut self) {
        let _ = self.sink.close().await;
    }

    /// Everything received so far.
    pub fn received(&self) -> Vec<Received> {
        self.log.entries.lock().clone()
    }

    /// How many things were received so far.
    pub fn received_count(&self) -> usize {
        *self.count.borrow()
    }

    /// The JSON frames received so far.
    pub fn frames(&self) -> Vec<Value> {
        self.log.entries.lock().iter().filter_map(|r| r.what.frame().cloned()).collect()
    }

    /// How the connection ended, when it has.
    pub fn closed(&self) -> Option<Closed> {
        self.log.entries.lock().iter().find_map(|r| match &r.what {
            Incoming::Close(closed) => Some(closed.clone()),
            _ => None,
        })
    }

    /// Waits until `probe` finds something in all that was received.
    pub async fn wait_until<T>(
        &self,
        limit: Duration,
        mut probe: impl FnMut(&[Received]) -> Option<T>,
    ) -> Option<T> {
        let deadline = Instant::now() + limit;
        let mut count = self.count.clone();
        loop {
            count.mark_unchanged();
            if let Some(found) = probe(&self.log.entries.lock()) {
                return Some(found);
            }
            match timeout_at(deadline, count.changed()).await {
                Ok(Ok(())) => {}
                // The reader has ended: nothing more will come.
                Ok(Err(_)) => return probe(&self.log.entries.lock()),
                Err(_) => return None,
            }
        }
    }

    /// The first frame, from the beginning, that `wanted` accepts.
    pub async fn wait_for(
        &self,
        limit: Duration,
        wanted: impl Fn(&Value) -> bool,
    ) -> Option<Value> {
        self.wait_until(limit, |all| {
            all.iter().filter_map(|r| r.what.frame()).find(|frame| wanted(frame)).cloned()
        })
        .await
    }

    /// The next thing that was not yet taken by `recv`.
    pub async fn recv(&mut self, limit: Duration) -> Option<Incoming> {
        let cursor = self.cursor;
        let next = self.wait_until(limit, |all| all.get(cursor).map(|r| r.what.clone())).await;
        self.cursor += usize::from(next.is_some());
        next
    }

    pub async fn wait_closed(&self, limit: Duration) -> Option<Closed> {
        self.wait_until(limit, |all| {
            all.iter().find_map(|r| match &r.what {
                Incoming::Close(closed) => Some(closed.clone()),
                _ => None,
            })
        })
        .await
    }

    /// Sends a request and waits for its first answer.
    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = format!("t-{}", self.next_id);
        self.send(&json!({ "type": "req", "id": id, "method": method, "params": params })).await;
        self.answer(&id)
            .await
            .unwrap_or_else(|| panic!("no answer to {method}; received {:?}", self.received()))
    }

    /// The first answer to this request id.
    pub async fn answer(&self, id: &str) -> Option<Value> {
        self.wait_for(SOON, |frame| frame["type"] == "res" && frame["id"] == id).await
    }

    /// The nonce of the challenge.
    pub async fn nonce(&self) -> String {
        let challenge = self.wait_for(SOON, |frame| frame["event"] == "connect.challenge").await;
        challenge.expect("a challenge")["payload"]["nonce"].as_str().unwrap().to_owned()
    }

    /// Connects as `gateway-client`/`backend` with the shared secret.
    pub async fn connect_standard(&mut self, scopes: &[&str]) -> Value {
        self.request("connect", standard_connect(scopes)).await
    }

    /// Connects in the simple form (`clientType`), with the shared secret.
    pub async fn connect_simple(&mut self) -> Value {
        let params = json!({
            "clientType": "web",
            "clientVersion": "1.0.0",
            "auth": { "token": SECRET },
        });
        self.request("connect", params).await
    }
}

/// Every scope an operator can have.
pub const ALL_SCOPES: [&str; 6] = [
    "operator.admin",
    "operator.read",
    "operator.write",
    "operator.approvals",
    "operator.pairing",
    "operator.talk.secrets",
];

/// Connect params of the recordings' standard client.
pub fn standard_connect(scopes: &[&str]) -> Value {
    json!({
        "minProtocol": 3,
        "maxProtocol": 3,
        "client": {
            "id": "gateway-client", "version": "1.0.0", "platform": "linux", "mode": "backend",
        },
        "role": "operator",
        "scopes": scopes,
        "caps": [],
        "auth": { "token": SECRET },
    })
}

async fn read_all(mut stream: SplitStream<Socket>, log: Arc<Log>, count: watch::Sender<usize>) {
    loop {
        let what = match stream.next().await {
            Some(Ok(message)) => incoming(message),
            Some(Err(_)) | None => {
                Some(Incoming::Close(Closed { code: 1006, reason: String::new() }))
            }
        };
        let Some(what) = what else { continue };
        let ends = matches!(what, Incoming::Close(_));
        count.send_replace(log.push(what));
        if ends {
            // Polled once more so that the close handshake is answered.
            let _ = stream.next().await;
            return;
        }
    }
}

fn incoming(message: Message) -> Option<Incoming> {
    Some(match message {
        Message::Text(text) => match serde_json::from_str(&text) {
            Ok(value) => Incoming::Frame(value),
            Err(_) => Incoming::Other(text.as_bytes().to_vec()),
        },
        Message::Binary(bytes) => Incoming::Other(bytes.to_vec()),
        Message::Ping(_) => Incoming::Ping,
        Message::Close(Some(close)) => {
            Incoming::Close(Closed { code: close.code.into(), reason: close.reason.to_string() })
        }
        Message::Close(None) => Incoming::Close(Closed { code: 1005, reason: String::new() }),
        Message::Pong(_) | Message::Frame(_) => return None,
    })
}
