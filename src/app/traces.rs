//! Tells a collector of spans that have ended.
//!
//! Owns: the task that does so, while the configuration wants it. Promises: nothing
//! of the gateway waits for the collector; what it does not take is counted and
//! forgotten. Must not: know what spans are of.

use std::time::Duration;

use parking_lot::Mutex;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use tokio::sync::mpsc::Receiver;
use tokio::time::{sleep, timeout, timeout_at};

use crate::config::provider_request::Transport;
use crate::config::secrets::resolve;
use crate::config::{Env, OtelSettings, Settings, hide_variable};
use crate::handlers::SERVER_VERSION;
use crate::providers::{Clients, root_cause};
use crate::registry::Services;
use crate::support::Live;
use crate::telemetry::metrics::NUMBERS;
use crate::telemetry::traces::{self, Ended, Queued};

/// Spans of one request, as in the libraries of OpenTelemetry.
const BATCH: usize = 512;
/// How long a collector may take for a connection …
const CONNECT: Duration = Duration::from_secs(5);
/// … and for an answer, as those libraries wait.
const ANSWER: Duration = Duration::from_secs(10);
/// Waits before a request is made again; by then the queue may be full, and what
/// ends is dropped.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];
/// Waits before it is looked again who is told, from the first to the longest: the vault
/// with the secret of a header may be away for a while.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));
/// How long the end of the gateway waits for the collector.
const LAST: Duration = Duration::from_secs(2);

/// For which settings there is a task that tells of spans.
#[derive(Default)]
pub(super) struct Exporter(Mutex<Option<OtelSettings>>);

impl Exporter {
    /// Begins, ends or begins anew, so that it is as these settings want it.
    pub fn follow(&self, services: &Services) {
        let settings = services.settings.now();
        let mut running = self.0.lock();
        if *running == settings.otel {
            return;
        }
        running.clone_from(&settings.otel);
        // What waits is still sent: the queue ends behind it.
        traces::close();
        let Some(otel) = &settings.otel else { return };
        if !otel.is_spoken {
            tracing::warn!("diagnostics.otel.protocol: grpc is not spoken; no traces are sent");
            return;
        }
        let queue = traces::open(otel.sample_rate);
        let export = export(otel.clone(), services.settings.clone(), services.env.clone(), queue);
        services.tasks.spawn("traces", export);
    }

    /// Waits for a while until what has ended is told.
    pub async fn end(&self) {
        traces::flush(LAST).await;
        traces::close();
    }
}

/// Tells of what comes out of the queue, until it ends.
async fn export(
    otel: OtelSettings,
    settings: Live<Settings>,
    env: Env,
    mut queue: Receiver<Queued>,
) {
    let Some(mut collector) = reached(&settings, &otel, &env, &mut queue).await else { return };
    let mut has_failed = false;
    while let Some(first) = queue.recv().await {
        let (batch, waiting) = gather(first, &mut queue, otel.flush).await;
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let told =
            if batch.is_empty() { Ok(()) } else { collector.tell(&otel.service, &batch).await };
        match told {
            Ok(()) => {
                NUMBERS.spans.add("exported", count);
                has_failed = false;
            }
            Err(Untold { why, is_refused }) => {
                NUMBERS.spans.add("failed", count);
                // Once until it takes some again.
                if !std::mem::replace(&mut has_failed, true) {
                    tracing::warn!(spans = count, "the collector of traces takes none: {why}");
                }
                // The secret of a header may be another one by now.
                if is_refused
                    && otel.references().next().is_some()
                    && let Ok(anew) = Collector::reach(&settings.now(), &otel, &env).await
                {
                    collector = anew;
                }
            }
        }
        if let Some(done) = waiting {
            // Nobody may be waiting any more.
            let _ = done.send(());
        }
    }
}

/// Who is told, as soon as that is known; `None` when nobody wants it any more. What
/// ends until then is given up.
async fn reached(
    settings: &Live<Settings>,
    otel: &OtelSettings,
    env: &Env,
    queue: &mut Receiver<Queued>,
) -> Option<Collector> {
    let (mut pause, longest) = AGAIN;
    let mut is_told = false;
    loop {
        // Where its secrets come from may be mended meanwhile.
        match Collector::reach(&settings.now(), otel, env).await {
            Ok(collector) => return Some(collector),
            Err(why) if !std::mem::replace(&mut is_told, true) => {
                tracing::warn!("diagnostics.otel: no traces are sent for now: {why}");
            }
            Err(why) => tracing::debug!("diagnostics.otel: still no traces are sent: {why}"),
        }
        if !give_up(queue, pause).await {
            return None;
        }
        pause = longest.min(pause * 2);
    }
}

/// Gives up what ends within `pause`; whether there may be more.
async fn give_up(queue: &mut Receiver<Queued>, pause: Duration) -> bool {
    let until = tokio::time::Instant::now() + pause;
    loop {
        match timeout_at(until, queue.recv()).await {
            Ok(Some(Queued::Span(_))) => NUMBERS.spans.count("failed"),
            Ok(Some(Queued::Flush(done))) => {
                // Nobody may be waiting any more.
                let _ = done.send(());
            }
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

type Batch = (Vec<Box<Ended>>, Option<tokio::sync::oneshot::Sender<()>>);

/// What comes within `patience`, until there is enough or somebody waits for it.
async fn gather(first: Queued, queue: &mut Receiver<Queued>, patience: Duration) -> Batch {
    let until = tokio::time::Instant::now() + patience;
    let (mut batch, mut next) = (Vec::new(), Some(first));
    while let Some(queued) = next.take() {
        match queued {
            Queued::Flush(done) => return (batch, Some(done)),
            Queued::Span(span) => batch.push(span),
        }
        if batch.len() < BATCH {
            next = timeout_at(until, queue.recv()).await.ok().flatten();
        }
    }
    (batch, None)
}

/// Why spans were not told.
struct Untold {
    why: String,
    /// Whether the collector does not know who tells them.
    is_refused: bool,
}

/// Who is told.
struct Collector {
    client: Client,
    url: Url,
    headers: HeaderMap,
}

impl Collector {
    /// The one of the settings.
    ///
    /// # Errors
    /// Why it cannot be; no secret is in it.
    async fn reach(settings: &Settings, otel: &OtelSettings, env: &Env) -> Result<Self, String> {
        let is_http = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        let url = Url::parse(&otel.url).ok().filter(is_http);
        let url = url.ok_or("the endpoint is no http or https address")?;
        let references = otel.references().cloned().collect();
        let (secrets, lost) =
            resolve(&references, &settings.secrets, &settings.environment(env)).await;
        if let Some((reference, error)) = lost.into_iter().next() {
            return Err(format!("the secret {reference} cannot be had: {error}"));
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        for (name, input) in &otel.headers {
            let Some(value) = input.resolve(&secrets) else { continue };
            hide_variable(name, &value);
            let header = HeaderName::try_from(name).ok();
            let header = header.zip(HeaderValue::from_str(value.expose()).ok());
            let (header, mut value) =
                header.ok_or_else(|| format!("headers.{name} is no header"))?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        let client = Clients::new(CONNECT).get(&url, &Transport::default()).await;
        Ok(Self { client: client.map_err(|error| error.message)?, url, headers })
    }

    /// Tells of spans; again, when it may do better later.
    async fn tell(&self, service: &str, spans: &[Box<Ended>]) -> Result<(), Untold> {
        let body = bytes::Bytes::from(traces::encode(service, SERVER_VERSION, spans));
        let mut pauses = PAUSES.iter();
        loop {
            let request = self.client.post(self.url.clone()).headers(self.headers.clone());
            let answer = timeout(ANSWER, request.body(body.clone()).send()).await;
            let (why, status) = match answer {
                Ok(Ok(answer)) if answer.status().is_success() => return Ok(()),
                Ok(Ok(answer)) => {
                    let status = answer.status().as_u16();
                    (format!("it answers {status}"), Some(status))
                }
                Ok(Err(error)) => (root_cause(&error), None),
                Err(_) => (format!("no answer within {ANSWER:?}"), None),
            };
            let may_pass = matches!(status, None | Some(429 | 502 | 503 | 504));
            match pauses.next().filter(|_| may_pass) {
                Some(pause) => sleep(*pause).await,
                None => return Err(Untold { why, is_refused: matches!(status, Some(401 | 403)) }),
            }
        }
    }
}
