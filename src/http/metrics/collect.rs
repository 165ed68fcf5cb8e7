//! Puts the numbers of the gateway together.

use std::collections::BTreeMap;

use tokio::runtime::Handle;

use crate::gateway::Gateway;
use crate::handlers::SERVER_VERSION;
use crate::protocol::Version;
use crate::registry::Services;
use crate::store::StoreError;
use crate::support::memory;
use crate::telemetry::metrics::families as f;
use crate::telemetry::metrics::{Counts, Form, NUMBERS, Page, complaints};

/// Everything, as it is now.
///
/// # Errors
/// When the outbox of channels cannot be read.
pub(super) async fn page(gateway: &Gateway, form: Form) -> Result<String, StoreError> {
    let services = &gateway.services;
    // Asked before anything is written, so that a page is whole or is not there.
    let waiting = channel_parts(services).await?;
    let mut page = Page::new(form);
    of_process(&mut page, services);
    of_connections(&mut page, gateway);
    of_requests(&mut page, services);
    of_runs(&mut page, services);
    of_models(&mut page);
    of_storage(&mut page);
    for ((channel, state), count) in &waiting {
        page.number(&f::CHANNEL_PARTS, &[channel, state], count);
    }
    split(&mut page, &f::CHANNEL_SETTLED, NUMBERS.sends.all());
    split(&mut page, &f::SPANS, NUMBERS.spans.all());
    Ok(page.finish())
}

fn split(
    page: &mut Page,
    family: &f::Family,
    numbers: impl IntoIterator<Item = (&'static str, u64)>,
) {
    for (value, number) in numbers {
        page.number(family, &[value], number);
    }
}

fn of_process(page: &mut Page, services: &Services) {
    let protocol = Version::V3.number().to_string();
    page.number(&f::BUILD, &[SERVER_VERSION, &protocol], 1);
    page.number(&f::START_TIME, &[], seconds(services.started_ms));
    page.number(&f::UPTIME, &[], seconds(services.uptime_ms()));
    if let Some(used) = memory::used() {
        page.number(&f::MEMORY, &[], used.resident);
    }
    // The kernel makes this list as it is read.
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        page.number(&f::FILES, &[], files.count());
    }
    page.number(&f::TASKS, &[], Handle::current().metrics().num_alive_tasks());
    let log = complaints();
    split(page, &f::LOG_LINES, [("warn", log.warnings), ("error", log.errors)]);
    page.number(&f::PANICS, &[], services.tasks.panics().values().sum::<u64>());
}

fn of_connections(page: &mut Page, gateway: &Gateway) {
    for ((role, dialect), open) in NUMBERS.connections() {
        page.number(&f::CONNECTIONS, &[role, dialect], open.get());
    }
    split(page, &f::HANDSHAKES, NUMBERS.handshakes.all());
    let queued = gateway.hub.queued();
    page.number(&f::OUTBOX_BYTES, &[], queued.bytes);
    page.number(&f::OUTBOX_LARGEST, &[], queued.largest);
    page.number(&f::COALESCED, &[], NUMBERS.coalesced.get());
    page.number(&f::SLOW, &[], NUMBERS.slow.get());
    page.number(&f::EVENTS, &[], gateway.hub.delivered());
}

fn of_requests(page: &mut Page, services: &Services) {
    let registry = &services.registry;
    let mut known = Vec::new();
    for timed in registry.timings() {
        let (took, failed) = (Counts::of(timed.took), timed.failed);
        page.number(&f::REQUESTS, &[timed.method, "ok"], took.total().saturating_sub(failed));
        page.number(&f::REQUESTS, &[timed.method, "error"], failed);
        known.push((timed.method, took));
    }
    for (method, denied) in registry.denials() {
        page.number(&f::REQUESTS, &[method, "denied"], denied);
    }
    page.number(&f::REQUESTS, &["unknown", "error"], NUMBERS.unknown_methods.get());
    for (method, took) in known {
        page.times(&f::REQUEST_TIME, &[method], &took);
    }
    page.times(&f::REQUEST_LANE, &[], &Counts::of(&NUMBERS.request_lane));
    for ((route, status), count) in NUMBERS.http.all() {
        page.number(&f::HTTP_REQUESTS, &[route, &status.to_string()], count.get());
    }
    for (route, took) in NUMBERS.http_times.all() {
        page.times(&f::HTTP_TIME, &[route], &Counts::of(&took));
    }
}

fn of_runs(page: &mut Page, services: &Services) {
    let (active, waiting) = services.runs.counts();
    page.number(&f::RUNS, &["active"], active);
    page.number(&f::RUNS, &["waiting"], waiting);
    split(page, &f::RUNS_ENDED, services.runs.outcomes());
    page.times(&f::RUN_TIME, &[], &Counts::of(&NUMBERS.runs));
    page.times(&f::RUN_LANE, &[], &Counts::of(&NUMBERS.run_lane));
    split(page, &f::TOOL_CALLS, NUMBERS.tools.all());
    page.times(&f::CRON_LATE, &[], &Counts::of(&NUMBERS.cron_late));
    split(page, &f::CRON_RUNS, NUMBERS.cron.all());
}

fn of_models(page: &mut Page) {
    let models = NUMBERS.models.all();
    for ((provider, model), numbers) in &models {
        for (outcome, count) in numbers.calls.all() {
            page.number(&f::MODEL_CALLS, &[provider, model, outcome], count);
        }
    }
    for ((provider, model), numbers) in &models {
        page.times(&f::MODEL_FIRST, &[provider, model], &Counts::of(&numbers.first));
    }
    for ((provider, model), numbers) in &models {
        page.times(&f::MODEL_TIME, &[provider, model], &Counts::of(&numbers.whole));
    }
    for ((provider, model), numbers) in &models {
        for (kind, count) in numbers.tokens.all() {
            page.number(&f::TOKENS, &[provider, model, kind], count);
        }
    }
    page.number(&f::MODEL_RETRIES, &[], NUMBERS.retries.get());
}

fn of_storage(page: &mut Page) {
    page.times(&f::COMMITS, &[], &Counts::of(&NUMBERS.commits));
    page.number(&f::WRITES, &[], NUMBERS.writes.get());
    page.number(&f::COMMIT_FAILURES, &[], NUMBERS.commit_failures.get());
    page.times(&f::SYNCS, &[], &Counts::of(&NUMBERS.syncs));
}

/// How many parts of messages wait, or have not arrived, for each channel.
async fn channel_parts(
    services: &Services,
) -> Result<BTreeMap<(&'static str, &'static str), u64>, StoreError> {
    let mut parts = BTreeMap::new();
    let channels = &services.runs.parts().channels;
    for (config, _) in channels.accounts() {
        let counts = channels.outbox_counts(&config).await?;
        let states = [
            ("failed", counts.failed),
            ("uncertain", counts.uncertain),
            ("waiting", counts.waiting),
        ];
        for (state, count) in states {
            *parts.entry((config.kind.as_str(), state)).or_default() += count;
        }
    }
    Ok(parts)
}

/// Milliseconds as seconds, exactly.
fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}
