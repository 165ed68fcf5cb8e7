//! `gateway.metrics`: numbers of the gateway over the last hour.

use std::sync::Arc;

use serde_json::Value;

use crate::protocol::methods::system::MetricsParams;
use crate::registry::{Ctx, Reply, Services};
use crate::support::{json, memory, millis};
use crate::telemetry::metrics::{CAPACITY, Counts, EVERY, Reading, complaints, until_something};

/// Takes samples while something happens, until the task is dropped.
pub async fn keep_history(services: Arc<Services>) {
    let history = &services.health.history;
    history.begin(reading(&services));
    loop {
        tokio::time::sleep(EVERY).await;
        if history.keep(reading(&services)) {
            continue;
        }
        // An idle gateway wakes nobody.
        until_something(|| history.rest(&reading(&services))).await;
    }
}

/// How it is now. Requests are those that the gateway answers by itself.
fn reading(services: &Services) -> Reading {
    let load = services.bus.load();
    let (active_runs, waiting_runs) = services.runs.counts();
    let mut requests = Counts::default();
    for timed in services.registry.timings().filter(|timed| !timed.waits) {
        requests.add(timed.took);
    }
    Reading {
        ts: services.clock.now_ms(),
        connections: load.connections,
        active_runs,
        waiting_runs,
        events: load.events,
        requests,
        rss_bytes: memory::used().map(|used| used.resident),
    }
}

/// `gateway.metrics`: how it is now, the samples after `since`, and what was
/// counted since the start.
pub async fn metrics(cx: Ctx, p: MetricsParams) -> Reply<Value> {
    let services = &cx.services;
    let now = reading(services);
    let (samples, current) = services.health.history.after(p.since.unwrap_or_default(), &now);
    let methods: Vec<_> = services
        .registry
        .timings()
        .map(|timed| {
            let took = Counts::of(timed.took);
            json!({
                "method": timed.method,
                "waits": timed.waits,
                "count": took.total(),
                "sumUs": took.sum_us,
                "p50Us": took.percentile(50),
                "p95Us": took.percentile(95),
                "p99Us": took.percentile(99),
            })
        })
        .collect();
    let log = complaints();
    Ok(json!({
        "ts": now.ts,
        "uptimeMs": services.uptime_ms(),
        "intervalMs": millis(EVERY),
        "capacity": CAPACITY,
        "now": current,
        "samples": samples,
        "methods": methods,
        "events": now.events,
        "log": {"warnings": log.warnings, "errors": log.errors},
    }))
}
