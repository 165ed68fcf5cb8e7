//! Jobs of an OpenClaw: `cron/jobs.json`, what it knew of them, their runs.
//!
//! Promises: the source is only read; a job or run that is here stays as it is,
//! so that the same import again adds nothing.

use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::protocol::methods::cron::modernize;
use crate::store::{CronRunRow, Store, StoreError};
use crate::support::blocking;

use super::job::{Job, JobState};
use super::jobs::JOBS_MAX;
use super::run_log::NOT_REQUESTED;
use super::service::Cron;

/// Runs of one job that are taken over, the newest.
const RUNS_MAX: usize = 2000;
/// Far more than the original lets its files grow.
const FILE_MAX: u64 = 32 * 1024 * 1024;

/// What was taken over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// Jobs that are new here.
    pub jobs: u64,
    /// Jobs that were here.
    pub known: u64,
    /// Runs of them that are in the log.
    pub runs: u64,
    /// What was not taken over, and why.
    pub left_out: Vec<(String, String)>,
}

/// A job that is found, and when it is due.
struct Found {
    job: Job,
    due_at: Option<u64>,
    runs: Vec<CronRunRow>,
}

impl Imported {
    /// Takes over the jobs below a state directory; without a store it only
    /// tells what there is.
    ///
    /// # Errors
    /// When the database does not take them.
    pub async fn take(
        from: &Path,
        store: Option<&Arc<dyn Store>>,
        now: u64,
    ) -> Result<Self, StoreError> {
        let folder = from.join("cron");
        let reading = blocking(move || read(&folder, now));
        let (found, left_out) = reading.await.unwrap_or_default();
        let mut report = Self { left_out, ..Self::default() };
        for Found { job, due_at, runs } in found {
            let count = u64::try_from(runs.len()).unwrap_or(u64::MAX);
            let Some(store) = store else {
                (report.jobs, report.runs) = (report.jobs + 1, report.runs + count);
                continue;
            };
            if store.cron_job(&job.id).await?.is_some() {
                report.known += 1;
                continue;
            }
            if !store.add_cron_job(job.to_row(due_at, None), JOBS_MAX).await? {
                let why = format!("there are {JOBS_MAX} jobs already");
                report.left_out.push((job.id, why));
                continue;
            }
            store.add_cron_runs(runs).await?;
            (report.jobs, report.runs) = (report.jobs + 1, report.runs + count);
        }
        Ok(report)
    }
}

impl Cron {
    /// Takes over the jobs that an OpenClaw left in our state directory, the
    /// first time that they are seen.
    pub(super) async fn adopt(&self) -> Result<(), StoreError> {
        let from = self.parts.settings.now().paths.state_dir.clone();
        let file = from.join("cron").join("jobs.json");
        if !tokio::fs::try_exists(&file).await.unwrap_or_default() {
            return Ok(());
        }
        let (store, now) = (&self.parts.store, self.now_ms());
        if !store.note_cron_import(&file.display().to_string(), now).await? {
            return Ok(());
        }
        let report = Imported::take(&from, Some(store), now).await?;
        for (what, why) in &report.left_out {
            tracing::warn!(what, why, "not taken over from cron/jobs.json");
        }
        tracing::info!(jobs = report.jobs, runs = report.runs, "took over the jobs of OpenClaw");
        Ok(())
    }
}

type LeftOut = Vec<(String, String)>;

fn read(folder: &Path, now: u64) -> (Vec<Found>, LeftOut) {
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    let list = match json(&folder.join("jobs.json")) {
        Ok(list) => list,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return (found, left_out),
        Err(error) => {
            left_out.push(("cron/jobs.json".into(), error.to_string()));
            return (found, left_out);
        }
    };
    let states = json(&folder.join("jobs-state.json")).unwrap_or_default();
    let jobs = list["jobs"].as_array().or(list.as_array()).cloned().unwrap_or_default();
    for (index, job) in jobs.into_iter().enumerate() {
        let name = job["id"].as_str().map_or_else(|| format!("job {index}"), str::to_owned);
        match one(job, &states, folder, now) {
            Ok(one) => found.push(one),
            Err(why) => left_out.push((name, why)),
        }
    }
    (found, left_out)
}

fn one(mut job: Value, states: &Value, folder: &Path, now: u64) -> Result<Found, String> {
    if let Value::Object(members) = &mut job {
        modernize(members);
    }
    let mut job: Job = serde_json::from_value(job).map_err(|error| error.to_string())?;
    if job.id.is_empty() || job.id.contains(['/', '\\']) {
        return Err("its id is no name".into());
    }
    let timing = job.timing().map_err(|error| error.to_string())?;
    let known = &states["jobs"][&job.id]["state"];
    if known.is_object() {
        job.state = serde_json::from_value::<JobState>(known.clone()).unwrap_or_default();
    }
    job.state.running_at_ms = None;
    let has_run = job.state.last_run_at_ms.is_some();
    // What passed before it came here was not missed by us.
    let due_at = match (timing.is_once(), job.enabled) {
        (_, false) => None,
        (true, true) => job.due_after(now).filter(|_| !has_run),
        (false, true) => timing.next_after(now),
    };
    job.enabled = job.enabled && due_at.is_some();
    job.state.next_run_at_ms = due_at;
    let runs = runs(&folder.join("runs").join(format!("{}.jsonl", job.id)), &job);
    Ok(Found { job, due_at, runs })
}

/// The log of a job; a line that cannot be read is passed over.
fn runs(path: &Path, job: &Job) -> Vec<CronRunRow> {
    let text = limited(path).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    let newest = lines.iter().skip(lines.len().saturating_sub(RUNS_MAX));
    newest.filter_map(|line| run(line, job)).collect()
}

fn run(line: &str, job: &Job) -> Option<CronRunRow> {
    let mut entry: Map<String, Value> = serde_json::from_str(line).ok()?;
    let at = entry.get("ts")?.as_u64()?;
    let status = entry.get("status").and_then(Value::as_str).unwrap_or("ok").to_owned();
    let delivery = entry.get("deliveryStatus").and_then(Value::as_str).unwrap_or(NOT_REQUESTED);
    let delivery = delivery.to_owned();
    let instant = entry.get("runAtMs").and_then(Value::as_u64).unwrap_or(at);
    entry.insert("jobName".into(), job.name.clone().into());
    Some(CronRunRow {
        id: format!("imported:{}:{at}", job.id),
        job_id: job.id.clone(),
        instant,
        status,
        delivery,
        entry: Value::Object(entry).to_string(),
        at,
    })
}

fn json(path: &Path) -> io::Result<Value> {
    serde_json::from_str(&limited(path)?).map_err(io::Error::from)
}

fn limited(path: &Path) -> io::Result<String> {
    if std::fs::metadata(path)?.len() > FILE_MAX {
        return Err(io::Error::other("it is too large to be a list of jobs"));
    }
    std::fs::read_to_string(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{CronRunQuery, SqliteStore};
    use serde_json::json;

    const NOW: u64 = 1_795_318_100_000;

    fn place() -> (tempfile::TempDir, Arc<dyn Store>) {
        let root = tempfile::tempdir().unwrap();
        let cron = root.path().join("cron");
        std::fs::create_dir_all(cron.join("runs")).unwrap();
        let job = |id: &str, schedule: Value| {
            json!({"id": id, "name": id, "enabled": true, "createdAtMs": 1, "schedule": schedule,
                "sessionTarget": "isolated", "wakeMode": "now",
                "payload": {"kind": "agentTurn", "message": "m"}, "state": {}, "later": {}})
        };
        let jobs = json!({"version": 1, "jobs": [
            job("hourly", json!({"kind": "every", "everyMs": 3_600_000, "anchorMs": 1})),
            job("old", json!({"atMs": 1_795_318_000_000_u64})),
            job("ran", json!({"kind": "at", "at": "2026-11-22T03:00:00Z"})),
            {"id": "broken"},
            job("../x", json!({"kind": "every", "everyMs": 5})),
        ]});
        std::fs::write(cron.join("jobs.json"), jobs.to_string()).unwrap();
        let states = json!({"version": 1, "jobs": {
            "hourly": {"state": {"runningAtMs": 5, "lastStatus": "ok", "consecutiveErrors": 2}},
            "ran": {"state": {"lastRunAtMs": 7}}}});
        std::fs::write(cron.join("jobs-state.json"), states.to_string()).unwrap();
        let line = json!({"ts": 9, "jobId": "hourly", "action": "finished", "status": "error",
            "runAtMs": 8});
        std::fs::write(cron.join("runs/hourly.jsonl"), format!("{line}\ntorn{{\n")).unwrap();
        let store = SqliteStore::open(&root.path().join("x.sqlite")).unwrap();
        (root, Arc::new(store))
    }

    #[tokio::test]
    async fn jobs_come_with_their_state_and_runs_once() {
        let (root, store) = place();
        let dry = Imported::take(root.path(), None, NOW).await.unwrap();
        assert_eq!((dry.jobs, dry.runs, dry.left_out.len()), (3, 1, 2));
        let taken = Imported::take(root.path(), Some(&store), NOW).await.unwrap();
        assert_eq!((taken.jobs, taken.known, taken.runs), (3, 0, 1));
        let rows = store.cron_jobs().await.unwrap();
        let jobs: Vec<_> = rows.iter().map(|row| Job::of_row(row).unwrap()).collect();
        assert!(rows[0].due_at.unwrap() > NOW);
        assert_eq!(jobs[0].state.consecutive_errors, Some(2));
        assert_eq!(jobs[0].state.running_at_ms, None);
        // Due while nobody was there; the scheduler says what becomes of it.
        assert_eq!(rows[1].due_at, Some(1_795_318_000_000));
        assert_eq!((rows[2].due_at, jobs[2].enabled), (None, false));
        let query = CronRunQuery { limit: 9, ..CronRunQuery::default() };
        assert_eq!(store.cron_runs(query).await.unwrap().1, 1);
        let again = Imported::take(root.path(), Some(&store), NOW).await.unwrap();
        assert_eq!((again.jobs, again.known, again.runs), (0, 3, 0));
    }
}
