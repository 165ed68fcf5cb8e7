//! How a job is doing, as far as somebody else may say it.

use super::{DELIVERIES, STATUSES};
use crate::protocol::decode::{Fields, Params, boolean, integer_from, literal, text};

/// Why a run failed, in the words of the original. Here it is in the error itself.
const REASONS: [&str; 10] = [
    "auth",
    "format",
    "rate_limit",
    "billing",
    "timeout",
    "model_not_found",
    "empty_response",
    "no_error_details",
    "unclassified",
    "unknown",
];

/// What is said of how a job is doing. What is not said stays, and so does what decides when it
/// runs: the rows of its instants say that.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatePatch {
    /// How its last run ended.
    pub last_run_status: Option<String>,
    /// The same, by its older name.
    pub last_status: Option<String>,
    /// Why its last run failed.
    pub last_error: Option<String>,
    /// How long that took, in milliseconds.
    pub last_duration_ms: Option<u64>,
    /// How many runs have failed since the last good one.
    pub consecutive_errors: Option<u64>,
    /// Whether its answer arrived where it should.
    pub last_delivered: Option<bool>,
    /// The same in a word.
    pub last_delivery_status: Option<String>,
    /// Why it did not.
    pub last_delivery_error: Option<String>,
    /// When somebody was last told of failures.
    pub last_failure_alert_at_ms: Option<u64>,
}

impl Params for StatePatch {
    fn read(f: &mut Fields) -> Self {
        for name in ["nextRunAtMs", "runningAtMs", "lastRunAtMs"] {
            f.optional(name, integer_from(0));
        }
        let last_run_status = f.optional("lastRunStatus", literal(&STATUSES));
        let last_status = f.optional("lastStatus", literal(&STATUSES));
        let last_error = f.optional("lastError", text());
        f.optional("lastErrorReason", literal(&REASONS));
        let last_duration_ms = f.optional("lastDurationMs", integer_from(0));
        let consecutive_errors = f.optional("consecutiveErrors", integer_from(0));
        f.optional("consecutiveSkipped", integer_from(0));
        let patch = Self {
            last_run_status,
            last_status,
            last_error,
            last_duration_ms,
            consecutive_errors,
            last_delivered: f.optional("lastDelivered", boolean()),
            last_delivery_status: f.optional("lastDeliveryStatus", literal(&DELIVERIES)),
            last_delivery_error: f.optional("lastDeliveryError", text()),
            last_failure_alert_at_ms: f.optional("lastFailureAlertAtMs", integer_from(0)),
        };
        // There a job has more of it.
        f.ignore_rest_of_newer();
        patch
    }
}
