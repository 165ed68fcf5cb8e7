//! The control socket of this machine's gateway, from the other side.
//!
//! Promises: who can use it needs no token; a gateway that is not there is no
//! error, since another way may lead to it.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::CliError;
use super::client::{ClientError, GatewayError};

/// The socket, while the gateway serves it.
pub struct Control {
    stream: BufReader<UnixStream>,
    limit: Duration,
}

impl Control {
    /// Connects, if a gateway serves the socket.
    pub async fn connect(path: &Path, limit: Duration) -> Result<Option<Self>, CliError> {
        match tokio::time::timeout(limit, UnixStream::connect(path)).await {
            Ok(Ok(stream)) => Ok(Some(Self { stream: BufReader::new(stream), limit })),
            Ok(Err(error)) => match error.kind() {
                io::ErrorKind::NotFound
                | io::ErrorKind::ConnectionRefused
                | io::ErrorKind::PermissionDenied
                // The path is longer than a socket's can be.
                | io::ErrorKind::InvalidInput => Ok(None),
                _ => Err(error.into()),
            },
            Err(_) => Err(self::timeout("connecting to the gateway", limit)),
        }
    }

    /// Asks, and waits for the answer.
    pub async fn request(&mut self, method: &str, params: Value) -> Result<Value, CliError> {
        let limit = self.limit;
        let asking = tokio::time::timeout(limit, self.ask(method, params));
        asking.await.map_err(|_| timeout(method, limit))?
    }

    async fn ask(&mut self, method: &str, params: Value) -> Result<Value, CliError> {
        let line = format!("{}\n", json!({"method": method, "params": params}));
        self.stream.get_mut().write_all(line.as_bytes()).await?;
        let mut answer = String::new();
        self.stream.read_line(&mut answer).await?;
        let mut answer: Value = serde_json::from_str(&answer).map_err(io::Error::from)?;
        if answer["ok"] == true {
            return Ok(answer["payload"].take());
        }
        let error: GatewayError = serde_json::from_value(answer["error"].take())
            .unwrap_or_else(|_| GatewayError::unnamed());
        Err(ClientError::refused(error).into())
    }
}

fn timeout(what: &str, limit: Duration) -> CliError {
    ClientError::Timeout { what: what.to_owned(), limit }.into()
}
