//! `cron.preview`.

use super::Schedule;
use super::written::{schedule, within};
use crate::protocol::decode::{Fields, Params, integer_from, non_empty, object};

/// Most instants of one answer: enough to see a rhythm.
const INSTANTS_MAX: u64 = 20;

/// Params of `cron.preview`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CronPreviewParams {
    /// When a job is to run.
    pub schedule: Schedule,
    /// The job that is to get this schedule, when there is one already.
    pub id: Option<String>,
    /// How many instants.
    pub limit: Option<u64>,
}

impl Params for CronPreviewParams {
    fn read(f: &mut Fields) -> Self {
        f.amend(|members| within(members, "schedule", schedule));
        Self {
            schedule: f.required("schedule", object::<Schedule>()),
            id: f.optional("id", non_empty()),
            limit: f.optional("limit", integer_from(1).max(INSTANTS_MAX)),
        }
    }
}
