//! The log of runs: what is told of each, and pages of it.

use serde_json::Value;

use crate::protocol::methods::cron::CronRunsParams;
use crate::store::CronRunQuery;
use crate::support::json;

use super::error::CronError;
use super::service::Cron;

/// Nobody was to be told of the answer.
pub(super) const NOT_REQUESTED: &str = "not-requested";
/// Entries of a page when nobody says how many.
const PAGE: u64 = 50;

/// The id of the row of an instant.
pub(super) fn row_id(job_id: &str, instant: u64) -> String {
    format!("{job_id}@{instant}")
}

/// What of an entry an event tells beside the job.
pub(super) fn without_place(entry: &Value) -> Value {
    let mut entry = entry.clone();
    if let Value::Object(members) = &mut entry {
        for name in ["ts", "jobId", "action", "jobName"] {
            members.shift_remove(name);
        }
    }
    entry
}

impl Cron {
    /// A page of the log: `cron.runs`.
    ///
    /// # Errors
    /// When nobody says which job is meant, or it cannot be read.
    pub async fn runs(&self, p: CronRunsParams) -> Result<Value, CronError> {
        let limit = p.limit.unwrap_or(PAGE);
        let scope = p.scope.as_deref();
        let job_id = p.id.filter(|_| scope != Some("all"));
        if scope == Some("job") && job_id.is_none() {
            return Err(CronError::Invalid("invalid cron.runs params: missing id".into()));
        }
        // Instants that were missed are told as skipped.
        let mut statuses = p.statuses;
        if statuses.iter().any(|status| status == "skipped") {
            statuses.push("missed".into());
        }
        let query = CronRunQuery {
            job_id,
            run_id: p.run_id,
            statuses,
            deliveries: p.deliveries,
            search: p.query.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()),
            oldest_first: p.ascending,
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
            offset: u32::try_from(p.offset).unwrap_or(u32::MAX),
        };
        let (rows, total) = self.parts.store.cron_runs(query).await?;
        let entries: Vec<Value> = rows
            .into_iter()
            .map(|row| Value::Object(serde_json::from_str(&row.entry).unwrap_or_default()))
            .collect();
        let mut page = json!({"entries": entries});
        add_place(&mut page, total, p.offset, limit, entries.len());
        Ok(page)
    }
}

/// Where a page is among all there is.
pub(super) fn add_place(page: &mut Value, total: u64, offset: u64, limit: u64, shown: usize) {
    let end = offset.saturating_add(u64::try_from(shown).unwrap_or(u64::MAX));
    let has_more = end < total;
    page["total"] = total.into();
    page["offset"] = offset.into();
    page["limit"] = limit.into();
    page["hasMore"] = has_more.into();
    page["nextOffset"] = if has_more { end.into() } else { Value::Null };
}
