//! The way to a server, whichever it is.
//!
//! Owns: one type for all ways, so that what the protocol does over one is compiled once.

use std::io;

use futures_util::TryFutureExt;
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use tokio::process::{ChildStdin, ChildStdout};

use super::client::Client;
use super::lines::Lines;
use crate::support::BoxFuture;

/// The way to a server.
pub enum Way {
    /// The pipes of a program.
    Program(Box<AsyncRwTransport<RoleClient, Lines<ChildStdout>, ChildStdin>>),
    /// Requests over HTTP.
    Http(StreamableHttpClientTransport<Client>),
}

/// Why something did not go that way.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// To a program.
    #[error(transparent)]
    Program(io::Error),
    /// Over HTTP.
    #[error(transparent)]
    Http(StreamableHttpError<reqwest::Error>),
}

impl Transport<RoleClient> for Way {
    type Error = Failure;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Failure>> + Send + 'static {
        let sent: BoxFuture<'static, Result<(), Failure>> = match self {
            Self::Program(way) => Box::pin(way.send(item).map_err(Failure::Program)),
            Self::Http(way) => Box::pin(way.send(item).map_err(Failure::Http)),
        };
        sent
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        match self {
            Self::Program(way) => way.receive().await,
            Self::Http(way) => way.receive().await,
        }
    }

    async fn close(&mut self) -> Result<(), Failure> {
        match self {
            Self::Program(way) => way.close().await.map_err(Failure::Program),
            Self::Http(way) => way.close().await.map_err(Failure::Http),
        }
    }
}
