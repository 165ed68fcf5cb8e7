//! The model API that the gateway calls, in this process.
//!
//! A message that contains `bench:<chunks>:<pause>;` is answered with so many
//! chunks of one letter, `<pause>` milliseconds apart; without a pause they are
//! one piece, as from a model that is faster than the network.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use futures_util::stream;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// A chunk of one letter.
pub const CHUNK: &str = "data: {\"id\":\"bench\",\"object\":\"chat.completion.chunk\",\"model\":\"stream\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":null}]}\n\n";
/// The end of an answer.
pub const END: &str = "data: {\"id\":\"bench\",\"object\":\"chat.completion.chunk\",\"model\":\"stream\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// When what happened, since [`Provider::forget`].
#[derive(Debug, Default, Clone)]
pub struct Times {
    /// Requests came in.
    pub requests: Vec<Instant>,
    /// Chunks of paced answers went out.
    pub chunks: Vec<Instant>,
}

type Log = Arc<Mutex<Times>>;

/// The provider; it stops when it is dropped.
pub struct Provider {
    address: SocketAddr,
    log: Log,
    _server: JoinSet<()>,
}

/// The message that makes the provider answer so. Each has its own number: the
/// gateway takes the same text again, while it is answered, for a repetition.
pub fn message(number: usize, chunks: usize, pause: Duration) -> String {
    format!("message {number} bench:{chunks}:{};", pause.as_millis())
}

impl Provider {
    /// Starts it on a free port.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let log = Log::default();
        let app = Router::new().fallback(serve).with_state(Arc::clone(&log));
        let mut server = JoinSet::new();
        server.spawn(async move {
            if let Err(error) = axum::serve(listener, app).await {
                eprintln!("the provider failed: {error}");
            }
        });
        Ok(Self { address, log, _server: server })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What happened since the last [`Self::forget`].
    pub fn times(&self) -> Times {
        self.log.lock().clone()
    }

    /// Starts a new log.
    pub fn forget(&self) {
        *self.log.lock() = Times::default();
    }
}

async fn serve(State(log): State<Log>, body: Bytes) -> Response {
    log.lock().requests.push(Instant::now());
    let (chunks, pause) = plan(&body).unwrap_or((1, Duration::ZERO));
    let answer = if pause.is_zero() {
        Body::from(CHUNK.repeat(chunks) + END)
    } else {
        Body::from_stream(stream::unfold(0, move |sent| {
            paced(Arc::clone(&log), sent, chunks, pause)
        }))
    };
    Response::builder().header(CONTENT_TYPE, "text/event-stream").body(answer).unwrap_or_default()
}

async fn paced(
    log: Log,
    sent: usize,
    chunks: usize,
    pause: Duration,
) -> Option<(Result<&'static str, Infallible>, usize)> {
    if sent > chunks {
        return None;
    }
    tokio::time::sleep(pause).await;
    if sent == chunks {
        return Some((Ok(END), sent + 1));
    }
    log.lock().chunks.push(Instant::now());
    Some((Ok(CHUNK), sent + 1))
}

/// The last plan counts: the ones before are the conversation so far.
fn plan(body: &[u8]) -> anyhow::Result<(usize, Duration)> {
    let text = std::str::from_utf8(body)?;
    let (_, plan) = text.rsplit_once("bench:").context("no plan")?;
    let (chunks, rest) = plan.split_once(':').context("no pause")?;
    let (pause, _) = rest.split_once(';').context("no end")?;
    Ok((chunks.parse()?, Duration::from_millis(pause.parse()?)))
}
