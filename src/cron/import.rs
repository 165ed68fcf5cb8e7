//! Jobs of an OpenClaw: `cron/jobs.json`, what it knew of them, their runs.
//!
//! Promises: the source is only read; a job or run that is here stays as it is,
//! so that the same import again adds nothing.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::protocol::methods::cron::modernize;
use crate::store::{CronRunRow, Store, StoreError};
use crate::support::{blocking, json_file_of_javascript, json_of_javascript};

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
    /// Whether the list of jobs could be read, or there is none.
    pub is_read: bool,
}

/// What there is in a folder of jobs.
#[derive(Default)]
struct Folder {
    jobs: Vec<Found>,
    left_out: Vec<(String, String)>,
    is_read: bool,
}

/// A job that is found, and when it is due.
struct Found {
    job: Job,
    due_at: Option<u64>,
    runs: Vec<CronRunRow>,
}

impl Imported {
    /// Takes over the jobs below a state directory; with `is_dry`, as without a store, it
    /// only tells what would be.
    ///
    /// # Errors
    /// When the database does not take them.
    pub async fn take(
        from: &Path,
        store: Option<&Arc<dyn Store>>,
        is_dry: bool,
        now: u64,
    ) -> Result<Self, StoreError> {
        let folder = from.join("cron");
        let reading = blocking(move || read(&folder, now));
        let Folder { jobs, left_out, is_read } = reading.await.unwrap_or_default();
        let mut report = Self { left_out, is_read, ..Self::default() };
        let mut known = BTreeSet::new();
        if let Some(store) = store {
            known.extend(store.cron_jobs().await?.into_iter().map(|row| row.id));
        }
        for Found { job, due_at, runs } in jobs {
            if known.contains(&job.id) {
                report.known += 1;
                continue;
            }
            let count = number(runs.len());
            let is_added = match store.filter(|_| !is_dry) {
                Some(store) => store.add_cron_job(job.to_row(due_at, None), runs, JOBS_MAX).await?,
                None => number(known.len()) < JOBS_MAX,
            };
            if !is_added {
                let why = format!("there are {JOBS_MAX} jobs already");
                report.left_out.push((job.id, why));
                continue;
            }
            known.insert(job.id);
            (report.jobs, report.runs) = (report.jobs + 1, report.runs + count);
        }
        Ok(report)
    }

    /// The same for a state directory of ours, the first time that its list of jobs
    /// is there and can be read; `None` when that was before.
    async fn once(
        from: &Path,
        store: &Arc<dyn Store>,
        now: u64,
    ) -> Result<Option<Self>, StoreError> {
        let file = from.join("cron").join("jobs.json");
        if !tokio::fs::try_exists(&file).await.unwrap_or_default() {
            return Ok(None);
        }
        let file = file.display().to_string();
        if store.has_cron_import(&file).await? {
            return Ok(None);
        }
        let report = Self::take(from, Some(store), false, now).await?;
        // A kill before this costs nothing: what is here is not added again.
        if report.is_read {
            store.note_cron_import(&file, now).await?;
        }
        Ok(Some(report))
    }
}

impl Cron {
    /// Takes over the jobs that an OpenClaw left in our state directory, the
    /// first time that they can be read.
    pub(super) async fn adopt(&self) -> Result<(), StoreError> {
        let from = self.parts.settings.now().paths.state_dir.clone();
        let once = Imported::once(&from, &self.parts.store, self.now_ms()).await?;
        let Some(report) = once else { return Ok(()) };
        for (what, why) in &report.left_out {
            tracing::warn!(what, why, "not taken over from cron/jobs.json");
        }
        if !report.is_read {
            tracing::warn!("mend cron/jobs.json or move it away: the next start looks again");
            return Ok(());
        }
        tracing::info!(jobs = report.jobs, runs = report.runs, "took over the jobs of OpenClaw");
        Ok(())
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn read(folder: &Path, now: u64) -> Folder {
    let mut found = Folder { is_read: true, ..Folder::default() };
    let jobs = match list(&folder.join("jobs.json")) {
        Ok(jobs) => jobs,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return found,
        Err(error) => {
            let left_out = vec![("cron/jobs.json".into(), error.to_string())];
            return Folder { left_out, ..Folder::default() };
        }
    };
    let states = json(&folder.join("jobs-state.json")).unwrap_or_default();
    for (index, job) in jobs.into_iter().enumerate() {
        let name = job["id"].as_str().map_or_else(|| format!("job {index}"), str::to_owned);
        match one(job, &states, folder, now) {
            Ok(one) => found.jobs.push(one),
            Err(why) => found.left_out.push((name, why)),
        }
    }
    found
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
    let Value::Object(mut entry) = json_of_javascript(line).ok()? else { return None };
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

/// The jobs of a list, which is bare or has a version.
fn list(path: &Path) -> io::Result<Vec<Value>> {
    let jobs = match json(path)? {
        Value::Object(mut members) => members.remove("jobs"),
        other => Some(other),
    };
    match jobs {
        Some(Value::Array(jobs)) => Ok(jobs),
        _ => Err(io::Error::other("it is no list of jobs")),
    }
}

fn json(path: &Path) -> io::Result<Value> {
    limit(path)?;
    json_file_of_javascript(path)
}

fn limited(path: &Path) -> io::Result<String> {
    limit(path)?;
    Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
}

fn limit(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path)?.len() > FILE_MAX {
        return Err(io::Error::other("it is too large to be a list of jobs"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{CronRunQuery, SqliteStore};
    use crate::support::json;

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
        let take =
            async |store, is_dry| Imported::take(root.path(), store, is_dry, NOW).await.unwrap();
        let nowhere = take(None, true).await;
        assert_eq!((nowhere.jobs, nowhere.runs, nowhere.left_out.len()), (3, 1, 2));
        assert_eq!(take(Some(&store), true).await, nowhere);
        let taken = take(Some(&store), false).await;
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
        for is_dry in [true, false] {
            let again = take(Some(&store), is_dry).await;
            assert_eq!((again.jobs, again.known, again.runs), (0, 3, 0));
        }
    }

    #[tokio::test]
    async fn a_list_that_cannot_be_read_is_looked_at_again_and_a_mended_one_only_once() {
        let (root, store) = place();
        let file = root.path().join("cron/jobs.json");
        let whole = std::fs::read_to_string(&file).unwrap();
        let once = || Imported::once(root.path(), &store, NOW);
        for torn in ["", "{ no json", "5", "{}", r#"{"jobs": {}}"#, &whole[..whole.len() - 9]] {
            std::fs::write(&file, torn).unwrap();
            let report = once().await.unwrap().unwrap();
            assert_eq!((report.jobs, report.is_read), (0, false));
            assert_eq!(report.left_out[0].0, "cron/jobs.json");
        }
        // What JavaScript makes of a text that it cuts inside of a character.
        let half = whole.replacen(r#""name":"hourly""#, r#""name":"hourly \ud83e""#, 1);
        assert_ne!(half, whole);
        // And what an editor puts before it.
        std::fs::write(&file, format!("\u{feff}{half}")).unwrap();
        let report = once().await.unwrap().unwrap();
        assert_eq!((report.jobs, report.is_read), (3, true));
        let job = store.cron_job("hourly").await.unwrap().unwrap();
        assert_eq!(Job::of_row(&job).unwrap().name, "hourly \u{fffd}");
        assert_eq!(once().await.unwrap(), None);
    }
}
