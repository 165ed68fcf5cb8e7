//! What the numbers are called, and what they may be (the budgets).

/// What a number may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// It is only told.
    None,
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
    /// At least this share of what the bare server reaches.
    OfBare(f64),
}

/// A line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Short name, for JSON.
    pub id: &'static str,
    /// What it is.
    pub title: &'static str,
    /// What it is counted in.
    pub unit: &'static str,
    /// What it may be.
    pub budget: Budget,
}

impl Metric {
    /// How many times as good `ours` is as `theirs`. Sizes of frames and the like are
    /// neither good nor bad.
    pub fn times_better(&self, ours: f64, theirs: f64) -> Option<f64> {
        match self.unit {
            "B" => None,
            rate if rate.ends_with("/s") => Some(ours / theirs),
            _ => Some(theirs / ours),
        }
    }
}

const fn metric(
    id: &'static str,
    title: &'static str,
    unit: &'static str,
    budget: Budget,
) -> Metric {
    Metric { id, title, unit, budget }
}

/// Every line, in order.
#[rustfmt::skip] // a table
pub const METRICS: &[Metric] = {
    use Budget::{AtLeast, AtMost, None, OfBare};
    &[
        metric("hello", "exec to first hello-ok, empty state", "ms", AtMost(50.0)),
        metric("hello-1000", "exec to first hello-ok, 1 000 sessions", "ms", AtMost(50.0)),
        metric("import-1000", "the same, first start on 1 000 transcripts", "ms", None),
        metric("exit", "SIGTERM to exit, idle", "ms", None),
        metric("program", "size of the program", "MB", AtMost(25.0)),
        metric("idle", "memory, idle", "MiB", AtMost(15.0)),
        metric("idle-own", "of that its own, without pages of files", "MiB", None),
        metric("client-100", "memory per idle client, 100 clients", "KiB", AtMost(12.0)),
        metric("client-100-own", "of that its own", "KiB", None),
        metric("client-1000", "memory per idle client, 1 000 clients", "KiB", AtMost(12.0)),
        metric("client-1000-own", "of that its own", "KiB", None),
        metric("client-10000", "memory per idle client, 10 000 clients", "KiB", AtMost(12.0)),
        metric("client-10000-own", "of that its own", "KiB", None),
        metric("left", "memory left by each of 10 000 sessions that are done", "B", AtMost(1_024.0)),
        metric("left-own", "of that its own", "B", None),
        metric("quiet", "CPU with 50 idle clients and 500 sessions", "% of a core", AtMost(1.0)),
        metric("command", "`clawgate health`, from exec to exit", "ms", AtMost(100.0)),
        metric("health-1", "`health`, 1 connection", "req/s", OfBare(0.8)),
        metric("health-50", "`health`, 50 connections × 8 deep", "req/s", OfBare(0.8)),
        metric("health-50-cpu", "server CPU of each of those", "µs", None),
        metric("health-bytes", "size of their answers", "B", None),
        metric("light-1", "`last-heartbeat`, 1 connection", "req/s", None),
        metric("light-50", "`last-heartbeat`, 50 connections × 8 deep", "req/s", None),
        metric("fanout-1", "fan-out to 1", "events/s", None),
        metric("fanout-100", "fan-out to 100", "events/s", None),
        metric("fanout-100-cpu", "server CPU of each of those", "µs", None),
        metric("fanout-1000", "fan-out to 1 000", "events/s", OfBare(0.8)),
        metric("fanout-1000-cpu", "server CPU of each of those", "µs", AtMost(0.7)),
        metric("fanout-bytes", "size of those events", "B", None),
        metric("latency-p50", "delivery to 1 000 clients, 20 events a second, p50", "ms", None),
        metric("latency-p99", "p99", "ms", None),
        metric("latency-max", "slowest", "ms", None),
        metric("stalled-p50", "the same beside 50 who do not read, p50", "ms", None),
        metric("stalled-p99", "p99", "ms", None),
        metric("stalled-max", "slowest", "ms", None),
        metric("send-first", "`chat.send` to the provider's socket, first of the process", "ms", AtMost(25.0)),
        metric("send", "`chat.send` to the provider's socket", "ms", AtMost(25.0)),
        metric("starting", "slowest `health` of another client while 20 runs start", "ms", AtMost(50.0)),
        metric("chunk", "provider's chunk to the client's event", "µs", None),
        metric("relay-cpu", "CPU of each of 100 000 chunks of one answer, on their way to events", "µs", AtMost(5.0)),
        metric("relay-memory", "memory that they need", "MiB", AtMost(2.0)),
        metric("list-p50", "`sessions.list` of 5 000, p50", "ms", None),
        metric("list-p99", "`sessions.list` of 5 000, p99", "ms", AtMost(20.0)),
        metric("list-streaming-p99", "the same while 20 runs stream, p99", "ms", AtMost(20.0)),
        metric("list-all", "all 5 000 rows in one answer", "ms", None),
        metric("history-first", "first look at a large transcript that nobody has counted", "ms", None),
        metric("history-meanwhile", "slowest `chat.inject` elsewhere meanwhile", "ms", None),
        metric("history", "`chat.history` of 200 from a large transcript", "ms", AtMost(30.0)),
        metric("history-memory", "memory that the first one needs", "MiB", AtMost(8.0)),
        metric("history-16", "`chat.history` of 200 from a transcript of 16 MiB", "ms", AtMost(30.0)),
        metric("sync", "one `fdatasync` of an appended line on this disk", "µs", None),
        metric("appends", "durable `chat.inject`, 256 sessions at once", "appends/s", AtLeast(5_000.0)),
        metric("append-p99", "one `chat.inject` while 100 sessions are written at once, p99", "ms", None),
        metric("append-max", "slowest", "ms", AtMost(50.0)),
        metric("soak-turns", "soak: turns", "", None),
        metric("soak-connects", "connects", "", None),
        metric("soak-sessions", "sessions that were reset or deleted", "", None),
        metric("soak-memory", "memory grown since a tenth of it", "MiB", AtMost(20.0)),
        metric("soak-own", "of that its own", "MiB", None),
        metric("soak-files", "open files grown", "", AtMost(10.0)),
        metric("soak-tasks", "tasks grown", "", AtMost(10.0)),
        metric("silence", "slowest connect to hello-ok while 10 000 connections say nothing", "ms", AtMost(100.0)),
    ]
};
