//! The control socket of this machine's gateway, from the other side.
//!
//! Promises: who can use it needs no token but the gateway's key; a gateway that is not there is no
//! error, since another way may lead to it.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::CliError;
use crate::auth::DeviceIdentity;
use crate::gateway::control_challenge;
use crate::support::{json, reading};

use super::client::{ClientError, GatewayError};

/// The socket, while the gateway serves it.
pub struct Control {
    stream: BufReader<UnixStream>,
    limit: Duration,
}

impl Control {
    /// Connects, if a gateway serves the socket and its key can be read.
    pub async fn connect(
        socket: &Path,
        key: &Path,
        limit: Duration,
    ) -> Result<Option<Self>, CliError> {
        // Without the key there is only the other way.
        let Ok(Some(identity)) = DeviceIdentity::load(key) else { return Ok(None) };
        match tokio::time::timeout(limit, UnixStream::connect(socket)).await {
            Ok(Ok(stream)) => {
                let mut control = Self { stream: BufReader::new(stream), limit };
                let proving = tokio::time::timeout(limit, control.prove(&identity)).await;
                proving.map_err(|_| timeout("connecting to the gateway", limit))??;
                Ok(Some(control))
            }
            Ok(Err(error)) => match error.kind() {
                io::ErrorKind::NotFound
                | io::ErrorKind::ConnectionRefused
                | io::ErrorKind::PermissionDenied
                // The path is longer than a socket's can be.
                | io::ErrorKind::InvalidInput => Ok(None),
                _ => Err(error.into()),
            },
            Err(_) => Err(timeout("connecting to the gateway", limit)),
        }
    }

    async fn prove(&mut self, identity: &DeviceIdentity) -> Result<(), CliError> {
        let greeting = self.line().await?;
        let nonce = greeting["nonce"].as_str().unwrap_or_default();
        let signature = identity.sign(&control_challenge(nonce));
        self.send(&json!({"signature": signature})).await
    }

    async fn send(&mut self, value: &Value) -> Result<(), CliError> {
        Ok(self.stream.get_mut().write_all(format!("{value}\n").as_bytes()).await?)
    }

    async fn line(&mut self) -> Result<Value, CliError> {
        let mut line = String::new();
        self.stream.read_line(&mut line).await?;
        Ok(serde_json::from_str(&line).map_err(io::Error::from)?)
    }

    /// Asks, and waits for the answer.
    pub async fn request(&mut self, method: &str, params: Value) -> Result<Value, CliError> {
        let limit = self.limit;
        let asking = tokio::time::timeout(limit, self.ask(method, params));
        asking.await.map_err(|_| timeout(method, limit))?
    }

    async fn ask(&mut self, method: &str, params: Value) -> Result<Value, CliError> {
        self.send(&json!({"method": method, "params": params})).await?;
        let mut answer = self.line().await?;
        if answer["ok"] == true {
            return Ok(answer["payload"].take());
        }
        let error = reading::of(&answer["error"]).unwrap_or_else(|_| GatewayError::unnamed());
        Err(ClientError::refused(error).into())
    }
}

fn timeout(what: &str, limit: Duration) -> CliError {
    ClientError::Timeout { what: what.to_owned(), limit }.into()
}
