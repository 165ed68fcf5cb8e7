//! A connection that has said hello.
//!
//! Owns: requests under way, and what arrived while something else was waited
//! for. Promises: answers may come in any order, and no event is lost. Must
//! not: hold more than [`MAX_BACKLOG`] of what nobody has asked for yet.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::support::json;

use super::error::{ClientError, GatewayError};
use super::frame::{Event, Frame};
use super::handshake;
use super::socket::Socket;
use super::target::Target;

/// A busy gateway sends some hundred events per second, and answers are
/// waited for some seconds.
const MAX_BACKLOG: usize = 10_000;

/// A gateway that restarts is back within two seconds.
const RENEWAL_LIMIT: Duration = Duration::from_secs(10);
/// Between two tries to reach a gateway that restarts.
const RENEWAL_PAUSE: Duration = Duration::from_millis(250);

/// Ties an answer to its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(String);

/// Something that arrived.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    /// An answer. Some methods answer one request twice.
    Answer {
        /// Which request it answers.
        id: RequestId,
        /// Payload or error.
        result: Result<Value, GatewayError>,
    },
    /// An event.
    Event(Event),
}

impl From<Frame> for Incoming {
    fn from(frame: Frame) -> Self {
        match frame {
            Frame::Answer { id, result } => Self::Answer { id: RequestId(id), result },
            Frame::Event(event) => Self::Event(event),
        }
    }
}

/// A client of a gateway.
pub struct Client {
    socket: Socket,
    hello: Value,
    limit: Duration,
    requests: u64,
    backlog: VecDeque<Incoming>,
}

impl Client {
    /// Connects and introduces itself. `limit` holds for this and for the
    /// answer to each later request.
    pub async fn connect(target: &Target, limit: Duration) -> Result<Self, ClientError> {
        let (socket, hello) =
            tokio::time::timeout(limit, handshake::open(target)).await.map_err(|_| {
                let url = &target.url;
                let port = url.is_loopback().then(|| url.port());
                ClientError::Mute { url: url.to_string(), port, limit }
            })??;
        Ok(Self { socket, hello, limit, requests: 0, backlog: VecDeque::new() })
    }

    /// Connects anew, patient with a gateway that restarts.
    pub async fn renew(target: &Target, limit: Duration) -> Result<Self, ClientError> {
        let give_up = Instant::now() + RENEWAL_LIMIT;
        loop {
            match Self::connect(target, limit).await {
                Err(
                    ClientError::Refused { .. }
                    | ClientError::Unreachable { .. }
                    | ClientError::Busy { .. }
                    | ClientError::Mute { .. }
                    | ClientError::Closed { .. }
                    | ClientError::Lost { .. },
                ) if Instant::now() < give_up => tokio::time::sleep(RENEWAL_PAUSE).await,
                outcome => return outcome,
            }
        }
    }

    /// Payload of `hello-ok`.
    pub const fn hello(&self) -> &Value {
        &self.hello
    }

    /// How long an answer may take.
    pub const fn limit(&self) -> Duration {
        self.limit
    }

    /// Sends a request without waiting for its answer.
    pub async fn start(&mut self, method: &str, params: Value) -> Result<RequestId, ClientError> {
        self.requests += 1;
        let id = format!("cli-{}", self.requests);
        self.socket
            .send(&json!({"type": "req", "id": id, "method": method, "params": params}))
            .await?;
        Ok(RequestId(id))
    }

    /// The answer to a request that was started.
    pub async fn answer(&mut self, wanted: &RequestId) -> Result<Value, ClientError> {
        let limit = self.limit;
        tokio::time::timeout(limit, self.any_answer(wanted))
            .await
            .map_err(|_| ClientError::Timeout { what: "a request".to_owned(), limit })?
    }

    /// Sends a request and waits for its answer.
    pub async fn request(&mut self, method: &str, params: Value) -> Result<Value, ClientError> {
        let id = self.start(method, params).await?;
        self.answer(&id).await.map_err(|error| match error {
            ClientError::Timeout { limit, .. } => {
                ClientError::Timeout { what: method.to_owned(), limit }
            }
            other => other,
        })
    }

    async fn any_answer(&mut self, wanted: &RequestId) -> Result<Value, ClientError> {
        let waiting = self
            .backlog
            .iter()
            .position(|known| matches!(known, Incoming::Answer { id, .. } if id == wanted));
        if let Some(Incoming::Answer { result, .. }) =
            waiting.and_then(|place| self.backlog.remove(place))
        {
            return result.map_err(ClientError::refused);
        }
        loop {
            match Incoming::from(self.socket.read().await?) {
                Incoming::Answer { id, result } if id == *wanted => {
                    return result.map_err(ClientError::refused);
                }
                other => self.keep(other)?,
            }
        }
    }

    fn keep(&mut self, incoming: Incoming) -> Result<(), ClientError> {
        if self.backlog.len() >= MAX_BACKLOG {
            return Err(ClientError::Flooded);
        }
        self.backlog.push_back(incoming);
        Ok(())
    }

    /// Whatever arrives next. May be cancelled at any time.
    pub async fn next(&mut self) -> Result<Incoming, ClientError> {
        if let Some(kept) = self.backlog.pop_front() {
            return Ok(kept);
        }
        Ok(self.socket.read().await?.into())
    }

    /// The next event; answers that nobody waits for any more are dropped. May
    /// be cancelled at any time.
    pub async fn next_event(&mut self) -> Result<Event, ClientError> {
        loop {
            if let Incoming::Event(event) = self.next().await? {
                return Ok(event);
            }
        }
    }

    /// Says goodbye.
    pub async fn close(self) {
        self.socket.close().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::super::address::GatewayUrl;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_is_waited_for_and_may_be_starting_or_another_program() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = GatewayUrl::at(listener.local_addr().unwrap(), false).unwrap();
        let find = format!("lsof -nP -iTCP:{} -sTCP:LISTEN", url.port());
        let (token, password, tls_fingerprint, extra_authorities) = (None, None, None, None);
        let target = Target { url, token, password, tls_fingerprint, extra_authorities };
        let (start, limit) = (Instant::now(), Duration::from_mins(1));
        let error = Client::connect(&target, limit).await.err().unwrap().to_string();
        assert!(error.contains(&find) && error.contains("--timeout"), "{error}");
        assert!(start.elapsed() >= limit, "{:?}", start.elapsed());
        // One that restarts is asked again.
        let start = Instant::now();
        let error = Client::renew(&target, Duration::from_secs(1)).await.err().unwrap();
        assert!(matches!(error, ClientError::Mute { .. }), "{error}");
        assert!(start.elapsed() >= RENEWAL_LIMIT, "{:?}", start.elapsed());
    }
}
