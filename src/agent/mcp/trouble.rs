//! Why a server could not be asked, in words that a model can read.
//!
//! Promises: no types of Rust, and no address, which may hold a key; what is told has bounds,
//! however much a server says.

use std::io;
use std::time::Duration;

use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use super::way::Failure;
use crate::providers::root_cause;
use crate::telemetry::without_secrets;

/// Most bytes of a reason: a server may write megabytes.
const MAX_TEXT: usize = 4096;

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

/// A reason as it may be told. Half of a secret would not be known for one, so they go first.
pub fn told(why: &str) -> String {
    let why = without_secrets(why);
    let begin = why.get(..why.floor_char_boundary(MAX_TEXT)).unwrap_or_default();
    let is_whole = begin.len() == why.len();
    if is_whole { why.into_owned() } else { format!("{begin}… ({} bytes in all)", why.len()) }
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
    match error.error.downcast_ref::<Failure>() {
        Some(Failure::Http(StreamableHttpError::SessionExpired)) => Again::Anew,
        Some(Failure::Http(StreamableHttpError::Client(error))) if error.is_connect() => {
            Again::Soon
        }
        // It reads no more. A line without its end is no message.
        Some(Failure::Program(error)) if error.kind() == io::ErrorKind::BrokenPipe => Again::Anew,
        _ => Again::Never,
    }
}

/// Asks again while that is allowed: once after `soon`, and once anew, since who took no
/// connection may have forgotten us when it takes one.
///
/// # Errors
/// With why the last try failed.
pub async fn persistently<T, F>(soon: Duration, ask: impl Fn() -> F) -> Result<T, Trouble>
where
    F: Future<Output = Result<T, Trouble>>,
{
    let is = |asked: &Result<T, Trouble>, again: Again| {
        asked.as_ref().err().is_some_and(|trouble| trouble.again == again)
    };
    let mut asked = ask().await;
    if is(&asked, Again::Soon) {
        tokio::time::sleep(soon).await;
        asked = ask().await;
    }
    if is(&asked, Again::Anew) {
        asked = ask().await;
    }
    asked
}

fn of_sending(error: &DynamicTransportError) -> String {
    match error.error.downcast_ref::<Failure>() {
        Some(Failure::Http(StreamableHttpError::Client(error))) => root_cause(error),
        _ => root_cause(error),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn who_took_no_connection_and_then_does_not_know_us_is_asked_once_more() {
        let cases: [(&[Again], Option<usize>); 7] = [
            (&[Again::Soon, Again::Anew], Some(3)),
            (&[Again::Soon], Some(2)),
            (&[Again::Anew], Some(2)),
            (&[Again::Soon, Again::Soon], None),
            (&[Again::Anew, Again::Anew], None),
            (&[Again::Soon, Again::Anew, Again::Anew], None),
            (&[Again::Never], None),
        ];
        for (tries, expected) in cases {
            let asked = Cell::new(0);
            let ask = || {
                let again = tries.get(asked.get()).copied();
                asked.set(asked.get() + 1);
                let trouble = again.map(|again| Trouble { text: String::new(), again });
                std::future::ready(trouble.map_or(Ok(asked.get()), Err))
            };
            let answer = persistently(Duration::ZERO, ask).await.ok();
            assert_eq!(answer, expected, "{tries:?}");
            assert_eq!(asked.get(), expected.unwrap_or(tries.len()), "{tries:?}");
        }
    }

    #[test]
    fn a_reason_has_bounds_and_no_half_of_a_secret() {
        assert_eq!(told("no such page"), "no such page");
        crate::telemetry::hide(&crate::support::Secret::new("reason-canary-1"));
        let before = "x".repeat(MAX_TEXT - 4);
        let long = told(&format!("{before}reason-canary-1é{before}"));
        assert_eq!(long, format!("{before}***… (8189 bytes in all)"));
    }
}
