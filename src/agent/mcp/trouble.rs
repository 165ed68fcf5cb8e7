//! Why a server could not be asked, in words that a model can read.
//!
//! Promises: no types of Rust, and no address, which may hold a key.

use std::io;

use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::providers::root_cause;

/// Why there is no answer.
pub struct Trouble {
    /// For the model.
    pub text: String,
    /// Whether it may be asked again, since it has not got the question.
    pub again: Again,
}

/// Whether a server may be asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// It may have got the question.
    Never,
    /// In a moment: it took no connection, and what others asked it goes on.
    Soon,
    /// When it was reached anew: it does not know us any more, or takes nothing more.
    Anew,
}

impl From<String> for Trouble {
    fn from(text: String) -> Self {
        Self { text, again: Again::Never }
    }
}

/// Why an answer did not come.
pub fn of(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => error.message.clone().into_owned(),
        ServiceError::TransportSend(error) => of_sending(error),
        error => root_cause(error),
    }
}

/// Why there is no connection.
pub fn of_beginning(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => of_sending(error),
        error => root_cause(error),
    }
}

/// Whether what was sent may be sent again.
pub fn again(error: &ServiceError) -> Again {
    let ServiceError::TransportSend(error) = error else { return Again::Never };
    match over_http(error) {
        Some(StreamableHttpError::SessionExpired) => return Again::Anew,
        Some(StreamableHttpError::Client(error)) if error.is_connect() => return Again::Soon,
        _ => {}
    }
    // Of a program that reads no more. A line without its end is no message.
    let written = error.error.downcast_ref::<io::Error>();
    let is_over = written.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    if is_over { Again::Anew } else { Again::Never }
}

fn of_sending(error: &DynamicTransportError) -> String {
    match over_http(error) {
        Some(StreamableHttpError::Client(error)) => root_cause(error),
        _ => root_cause(error),
    }
}

fn over_http(error: &DynamicTransportError) -> Option<&StreamableHttpError<reqwest::Error>> {
    error.error.downcast_ref()
}
