//! One WebSocket, carrying frames.
//!
//! Owns: the connection and its errors. Promises: pings are answered while
//! something reads; a close tells its reason. Must not: know a method.

use std::io;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::error::ClientError;
use super::frame::{self, Frame};
use super::target::Target;
use super::tls;

/// Gateways send frames of up to 25 MiB (`policy.maxPayload`).
const MAX_FRAME: usize = 32 << 20;

/// The library's default of 128 KiB is for servers' throughput.
const READ_BUFFER: usize = 16 << 10;

/// Ticks come every 30 s; three missing in a row mean that nobody is there.
const SILENCE_LIMIT: Duration = Duration::from_secs(90);

/// A close is a courtesy; nobody waits long for it.
const CLOSE_LIMIT: Duration = Duration::from_millis(500);

/// TCP, or TLS on it.
trait Wire: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Wire for T {}

/// An open connection.
pub(super) struct Socket {
    stream: WebSocketStream<Box<dyn Wire>>,
    url: String,
    /// Reason of the `shutdown` event, to explain the close that follows.
    shutdown: Option<String>,
}

impl Socket {
    /// Connects and upgrades; over TLS only with a certificate that is believed.
    pub(super) async fn open(target: &Target) -> Result<Self, ClientError> {
        let (url, wire) = (&target.url, wire(target).await?);
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            .max_message_size(Some(MAX_FRAME))
            .max_frame_size(Some(MAX_FRAME));
        match client_async_with_config(url.as_str(), wire, Some(config)).await {
            Ok((stream, _)) => Ok(Self { stream, url: url.to_string(), shutdown: None }),
            Err(error) => Err(not_opened(url.to_string(), error)),
        }
    }

    /// Sends one frame.
    pub(super) async fn send(&mut self, frame: &Value) -> Result<(), ClientError> {
        self.stream.send(Message::text(frame.to_string())).await.map_err(lost)
    }

    /// The next frame that means something. May be cancelled at any time.
    pub(super) async fn read(&mut self) -> Result<Frame, ClientError> {
        loop {
            let message = tokio::time::timeout(SILENCE_LIMIT, self.stream.next())
                .await
                .map_err(|_| ClientError::Silent(SILENCE_LIMIT))?;
            match message {
                Some(Ok(Message::Close(frame))) => {
                    let (code, reason) = frame.map_or((1005, String::new()), |frame| {
                        (u16::from(frame.code), frame.reason.to_string())
                    });
                    return Err(ClientError::Closed {
                        code,
                        reason,
                        shutdown: self.shutdown.take(),
                    });
                }
                Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => {
                    if let Some(frame) = self.parse(&message.into_data())? {
                        return Ok(frame);
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(lost(error)),
                None => return Err(lost(tungstenite::Error::ConnectionClosed)),
            }
        }
    }

    fn parse(&mut self, message: &[u8]) -> Result<Option<Frame>, ClientError> {
        let frame = frame::parse(message).map_err(|error| ClientError::NotAGateway {
            url: self.url.clone(),
            found: format!("it sent a frame that cannot be read: {error}"),
        })?;
        if let Some(Frame::Event(event)) = &frame
            && event.name == "shutdown"
        {
            self.shutdown = event.text("/reason").map(str::to_owned);
        }
        Ok(frame)
    }

    /// Says goodbye.
    pub(super) async fn close(mut self) {
        // Whether it arrives or not, the connection ends here.
        let _ = tokio::time::timeout(CLOSE_LIMIT, self.stream.close(None)).await;
    }
}

async fn wire(target: &Target) -> Result<Box<dyn Wire>, ClientError> {
    let url = &target.url;
    let unreachable = |error| not_opened(url.to_string(), tungstenite::Error::Io(error));
    let tcp = TcpStream::connect((url.host(), url.port())).await.map_err(unreachable)?;
    tcp.set_nodelay(true).map_err(unreachable)?;
    if !url.is_tls() {
        return Ok(Box::new(tcp));
    }
    match tls::connect(tcp, target).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(source) => Err(ClientError::Tls { url: url.to_string(), source }),
    }
}

fn not_opened(url: String, error: tungstenite::Error) -> ClientError {
    match error {
        tungstenite::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            ClientError::Refused { url }
        }
        tungstenite::Error::Http(answer) if answer.status() == StatusCode::SERVICE_UNAVAILABLE => {
            ClientError::Busy { url }
        }
        tungstenite::Error::Http(answer) => {
            ClientError::NotAGateway { url, found: format!("HTTP {}", answer.status()) }
        }
        error @ tungstenite::Error::Protocol(_) => {
            ClientError::NotAGateway { url, found: error.to_string() }
        }
        source => ClientError::Unreachable { url, source: Box::new(source) },
    }
}

fn lost(source: tungstenite::Error) -> ClientError {
    ClientError::Lost { source: Box::new(source) }
}
