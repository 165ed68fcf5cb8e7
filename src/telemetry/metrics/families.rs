//! What `GET /metrics` tells: the one list of its families.
//!
//! Owns: names, kinds, labels and meanings; `docs/metrics.md` is made of it.
//! Promises: a name says its base unit; no label holds what a person wrote.

/// What kind of number a family has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It goes up and down.
    Gauge,
    /// It only grows.
    Counter,
    /// Durations, in buckets that end at 2^from, 2^(from + 1) … 2^to microseconds.
    Times {
        /// The end of the first bucket.
        from: u32,
        /// The end of the last one but for the rest.
        to: u32,
    },
}

impl Kind {
    /// The word after `# TYPE`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Times { .. } => "histogram",
        }
    }
}

/// Numbers of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// Its name; that of a counter ends with `_total`.
    pub name: &'static str,
    /// What it counts in.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it means.
    pub help: &'static str,
}

/// From a quarter of a millisecond to a minute: what a client waits for.
const SHORT: Kind = Kind::Times { from: 8, to: 26 };
/// From 64 microseconds to eight seconds: what happens inside.
const INNER: Kind = Kind::Times { from: 6, to: 23 };
/// From eight milliseconds to half an hour: what models and agents do.
const LONG: Kind = Kind::Times { from: 13, to: 31 };

macro_rules! families {
    ($($key:ident = $kind:expr, $name:literal, [$($label:literal),*], $help:literal;)*) => {
        $(
            #[doc = concat!("`", $name, "`")]
            pub const $key: Family =
                Family { name: $name, kind: $kind, labels: &[$($label),*], help: $help };
        )*

        /// All of them, in the order in which they are told.
        pub const ALL: &[Family] = &[$($key),*];
    };
}

families! {
    BUILD = Kind::Gauge, "clawgate_build_info", ["version", "protocol_version"],
        "Always 1; which gateway this is.";
    START_TIME = Kind::Gauge, "clawgate_process_start_time_seconds", [],
        "When the gateway started, in seconds since the epoch.";
    UPTIME = Kind::Gauge, "clawgate_process_uptime_seconds", [],
        "How long the gateway has been running.";
    MEMORY = Kind::Gauge, "clawgate_process_resident_memory_bytes", [],
        "Memory of the process, where the system says.";
    FILES = Kind::Gauge, "clawgate_process_open_fds", [],
        "Open file descriptors of the process, where the system says.";
    TASKS = Kind::Gauge, "clawgate_process_tasks", [],
        "Tasks that have not ended, one or more for each connection, request and run.";
    LOG_LINES = Kind::Counter, "clawgate_log_messages_total", ["level"],
        "Lines of the log that complain: warn, error.";
    PANICS = Kind::Counter, "clawgate_task_panics_total", [],
        "Tasks of the gateway that have panicked.";
    CONNECTIONS = Kind::Gauge, "clawgate_connections", ["role", "dialect"],
        "Open connections that have logged in, by role (operator, node) and dialect (v3, v4, simple, other).";
    HANDSHAKES = Kind::Counter, "clawgate_handshakes_total", ["outcome"],
        "Ends of logins: ok, refused, not_paired (no device identity, or one that waits for approval), invalid (no connect, or none that can be read), timeout, gone.";
    OUTBOX_BYTES = Kind::Gauge, "clawgate_outbox_bytes", [],
        "Bytes that wait to be sent on all connections.";
    OUTBOX_LARGEST = Kind::Gauge, "clawgate_outbox_largest_bytes", [],
        "Bytes that wait on the connection with the most.";
    COALESCED = Kind::Counter, "clawgate_deltas_coalesced_total", [],
        "Waiting deltas that gave way to a newer one of their run.";
    SLOW = Kind::Counter, "clawgate_slow_consumers_closed_total", [],
        "Connections that were closed since they did not read.";
    EVENTS = Kind::Counter, "clawgate_events_total", [],
        "Events that were published, however many got each.";
    REQUESTS = Kind::Counter, "clawgate_requests_total", ["method", "outcome"],
        "Requests by method, calls inside of the gateway among them: ok, error, denied (no right to it, or too often). A method that there is not is unknown.";
    REQUEST_TIME = SHORT, "clawgate_request_duration_seconds", ["method"],
        "From a request to its last answer; some methods wait for people, models or nodes. An answer that was kept ready counts as none.";
    REQUEST_LANE = INNER, "clawgate_request_lane_wait_seconds", [],
        "How long requests waited for others of their session.";
    HTTP_REQUESTS = Kind::Counter, "clawgate_http_requests_total", ["route", "status"],
        "Requests by HTTP without upgrades, by the route that took them and the status of the answer.";
    HTTP_TIME = SHORT, "clawgate_http_request_duration_seconds", ["route"],
        "From a request by HTTP to the head of its answer.";
    RUNS = Kind::Gauge, "clawgate_runs", ["phase"],
        "Runs that are active or waiting.";
    RUNS_ENDED = Kind::Counter, "clawgate_runs_ended_total", ["outcome"],
        "Runs that have ended: succeeded, failed, timed_out, cancelled, lost (cut off by the last stop).";
    RUN_TIME = LONG, "clawgate_run_duration_seconds", [],
        "From the beginning of a run to its end.";
    RUN_LANE = LONG, "clawgate_run_lane_wait_seconds", [],
        "From entering a lane to the beginning of the run.";
    TOOL_CALLS = Kind::Counter, "clawgate_tool_calls_total", ["outcome"],
        "Calls of tools by models: ok, error.";
    MODEL_CALLS = Kind::Counter, "clawgate_model_calls_total", ["provider", "model", "outcome"],
        "Calls of models: ok, error, aborted.";
    MODEL_FIRST = LONG, "clawgate_model_first_token_seconds", ["provider", "model"],
        "From a call of a model to the first piece of its answer.";
    MODEL_TIME = LONG, "clawgate_model_call_duration_seconds", ["provider", "model"],
        "From a call of a model to its end.";
    TOKENS = Kind::Counter, "clawgate_model_tokens_total", ["provider", "model", "kind"],
        "Tokens: input, output, cache_read, cache_write; also of calls that failed or were given up.";
    MODEL_RETRIES = Kind::Counter, "clawgate_model_retries_total", [],
        "Calls of models that were made again.";
    CRON_LATE = LONG, "clawgate_cron_lateness_seconds", [],
        "How long after its instant a job began.";
    CRON_RUNS = Kind::Counter, "clawgate_cron_runs_total", ["outcome"],
        "Runs of jobs: ok, error, skipped.";
    COMMITS = INNER, "clawgate_store_commit_duration_seconds", [],
        "How long commits of the database took; one holds all writes that waited.";
    WRITES = Kind::Counter, "clawgate_store_writes_total", [],
        "Writes in those commits.";
    COMMIT_FAILURES = Kind::Counter, "clawgate_store_commit_failures_total", [],
        "Commits that failed.";
    SYNCS = INNER, "clawgate_transcript_sync_duration_seconds", [],
        "How long writing and syncing transcripts took; once for all lines that waited for a file.";
    CHANNEL_PARTS = Kind::Gauge, "clawgate_channel_outbox_parts", ["channel", "state"],
        "Parts of messages to chat services: waiting, failed, uncertain; the last two are kept for a week.";
    CHANNEL_SETTLED = Kind::Counter, "clawgate_channel_sends_total", ["outcome"],
        "Tries to send a part: sent, retried, failed, uncertain.";
    SPANS = Kind::Counter, "clawgate_trace_spans_total", ["outcome"],
        "Spans: exported, dropped (the queue was full), failed (the collector did not take them).";
}
