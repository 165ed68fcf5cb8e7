//! From the provider's bytes to the events of an answer.
//!
//! In this process and on one thread of its own, so that nothing but our
//! adapter is counted. Behind it, each event carries the whole text so far, as
//! the protocol wants, which costs what it costs.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use clawgate::config::models::ModelsConfig;
use clawgate::config::secrets::ResolvedSecrets;
use clawgate::protocol::message::{AgentMessage, UserMessage};
use clawgate::providers::{
    Adapters, Catalog, CatalogSources, ModelRequest, StreamEvent, ThinkingLevel,
};
use clawgate::support::{Clock, SystemClock};
use futures_util::stream;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::super::provider::{CHUNK, END};
use super::super::stats::{Samples, Side};
use super::Lab;

/// Between two looks at the memory.
const LOOK: usize = 1_000;
/// Connection, buffers and the way there are not what is measured.
const WARM_UP: usize = 2_000;

/// One answer of very many small chunks.
pub async fn measure(lab: &Lab, samples: &mut Samples) -> anyhow::Result<()> {
    let chunks = lab.options.size(100_000, 5_000);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let app = Router::new().fallback(move |body: Bytes| async move {
        let warm_up = std::str::from_utf8(&body).is_ok_and(|text| text.contains("warm up"));
        many(if warm_up { WARM_UP } else { chunks })
    });
    let mut server = JoinSet::new();
    server.spawn(async move { axum::serve(listener, app).await });
    let (cpu, memory) = tokio::task::spawn_blocking(move || relay(address, chunks))
        .await
        .context("it panicked")??;
    samples.add("relay-cpu", Side::Gateway, cpu);
    samples.add("relay-memory", Side::Gateway, memory);
    Ok(())
}

fn many(chunks: usize) -> Response {
    let pieces = std::iter::repeat_n(CHUNK, chunks).chain([END]);
    let pieces =
        pieces.map(|piece| Ok::<_, std::convert::Infallible>(Bytes::from_static(piece.as_bytes())));
    let body = Body::from_stream(stream::iter(pieces));
    Response::builder().header(CONTENT_TYPE, "text/event-stream").body(body).unwrap_or_default()
}

/// Microseconds of CPU for each chunk, and MiB that the stream needed.
fn relay(address: SocketAddr, chunks: usize) -> anyhow::Result<(f64, f64)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let config: ModelsConfig = serde_json::from_value(json!({"providers": {"bench": {
        "baseUrl": format!("http://{address}/v1"), "api": "openai-completions", "models": [{"id": "stream"}],
    }}}))?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let secrets = ResolvedSecrets::default();
    let sources = CatalogSources::plain(&config, &|_| None, &secrets);
    let catalog = Catalog::build(&Adapters::new(&clock), &sources)?;
    runtime.block_on(answer(&catalog, "warm up", WARM_UP))?;
    let (cpu, memory) = (cpu()?, memory()?);
    let peak = runtime.block_on(answer(&catalog, "go", chunks))?;
    let spent = self::cpu()? - cpu;
    Ok((spent / 1e3 / as_f64(chunks), (peak - memory).max(0.0) / 1024.0))
}

/// Reads one answer; the most memory that the process had meanwhile, in KiB.
async fn answer(catalog: &Catalog, text: &str, chunks: usize) -> anyhow::Result<f64> {
    let model = Arc::clone(&catalog.default_choice().model);
    let request = ModelRequest {
        model,
        system: None,
        messages: vec![AgentMessage::User(UserMessage::text(text, 1))],
        tools: vec![],
        thinking: ThinkingLevel::Off,
        session_id: "bench".into(),
        needs_pictures: false,
    };
    let (mut deltas, mut peak) = (0_usize, 0.0_f64);
    let mut count = |event: StreamEvent| {
        if matches!(event, StreamEvent::TextDelta { .. }) {
            deltas += 1;
            if deltas.is_multiple_of(LOOK) {
                peak = peak.max(memory().unwrap_or_default());
            }
        }
    };
    let provider = catalog.provider_for(&request.model);
    provider.stream(&request, &mut count).await?;
    ensure!(deltas == chunks, "{deltas} of {chunks} chunks came");
    Ok(peak)
}

/// CPU time of this thread in nanoseconds.
fn cpu() -> anyhow::Result<f64> {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(times.split_whitespace().next().context("no time in /proc")?.parse()?)
}

/// Resident memory of this process in KiB.
fn memory() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.context("no VmRSS in /proc")?.parse()?)
}

fn as_f64(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
