//! The body of an answer, up to a bound.

use futures_util::StreamExt;

use super::error::FetchError;
use crate::providers::root_cause;

/// What came, and whether there was more.
#[derive(Debug, Clone, Default)]
pub struct Body {
    /// The bytes, at most as many as asked for.
    pub bytes: Vec<u8>,
    /// Whether some were left out.
    pub is_cut: bool,
}

/// Reads at most `limit` bytes; what comes after them is not waited for.
///
/// # Errors
/// When the connection breaks before.
pub async fn read(response: reqwest::Response, limit: usize) -> Result<Body, FetchError> {
    let mut body = Body::default();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| FetchError::Connection(root_cause(&error)))?;
        let room = limit - body.bytes.len();
        if chunk.len() > room {
            body.bytes.extend(chunk.iter().take(room));
            body.is_cut = true;
            break;
        }
        body.bytes.extend_from_slice(&chunk);
    }
    Ok(body)
}
