//! Jobs of an OpenClaw: `cron/jobs.json`, what it knew of them, their runs.
//!
//! Promises: the source is only read; a job or run that is here stays as it is,
//! so that the same import again adds nothing; a job that was removed here does
//! not come back to our own place, and what has run once does not run again; a
//! job that is turned off by this is told.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::config::{CronRetrySettings, Settings};
use crate::protocol::methods::cron::Schedule;
use crate::sessions::KeyRules;
use crate::store::{CronRunQuery, CronRunRow, SourceNote, Store, StoreError};
use crate::support::reading::by_text;
use crate::support::{blocking, json_file_of_javascript, json_of_javascript};

use super::job::Job;
use super::jobs::JOBS_MAX;
use super::outcome::Outcome;
use super::recover::INTERRUPTED;
use super::run_log::NOT_REQUESTED;
use super::schedule::Timing;
use super::service::{Cron, Ticket};
use super::unheard::{self, Unheard};

mod shapes;

/// Runs of one job that are taken over, the newest.
const RUNS_MAX: usize = 2000;
/// Far more than the original lets its files grow.
const FILE_MAX: u64 = 32 * 1024 * 1024;

/// What was taken over.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imported {
    /// Jobs that are new here.
    pub jobs: u64,
    /// Jobs that were here.
    pub known: u64,
    /// Runs of them that are in the log.
    pub runs: u64,
    /// What was not taken over, and why.
    pub left_out: Vec<(String, String)>,
    /// Ids of the jobs of the list that are here, or were: what is noted of it.
    pub ids: Vec<String>,
    /// Whether the list of jobs and what is known of them could be read, or there is none.
    pub is_read: bool,
    /// The jobs that are new here.
    new: Vec<Job>,
}

/// What there is in a list of jobs and beside it.
#[derive(Default)]
struct List {
    jobs: Vec<Found>,
    left_out: Vec<(String, String)>,
    is_read: bool,
}

/// A job that is found, and when it is due.
struct Found {
    job: Job,
    due_at: Option<u64>,
    runs: Vec<CronRunRow>,
    /// Why it is turned off, when it was not.
    off: Option<&'static str>,
}

/// Where the OpenClaw with these settings keeps its jobs: where they say nothing, in its
/// state directory.
pub fn list_of_openclaw(settings: &Settings) -> PathBuf {
    let named = settings.cron.openclaw_store.as_deref();
    let named = named.and_then(|text| settings.paths.expand(text.trim()).ok());
    named.unwrap_or_else(|| settings.paths.state_dir.join("cron").join("jobs.json"))
}

/// What is told of the jobs of that OpenClaw when they cannot be read, and what helps; `None`
/// when they can, or `notes` say that they were taken over. Blocks.
pub fn unreadable_list(settings: &Settings, notes: &[SourceNote]) -> Option<(String, String)> {
    let list = list_of_openclaw(settings);
    let path = list.display().to_string();
    if notes.iter().any(|note| note.path == path) {
        return None;
    }
    let (file, error) = parts(&list).err()?;
    let what = format!("{} cannot be read: {error}", file.display());
    let help = "no job of OpenClaw comes from there: mend it or move it away, and start the \
        gateway again, which looks at it once more";
    Some((what, help.to_owned()))
}

impl Imported {
    /// Takes over the jobs of a list; with `is_dry`, as without a store, it only tells
    /// what would be.
    ///
    /// # Errors
    /// When the database does not take them.
    pub async fn take(
        file: &Path,
        store: Option<&Arc<dyn Store>>,
        is_dry: bool,
        now: u64,
    ) -> Result<Self, StoreError> {
        let (path, file) = (file.display().to_string(), file.to_owned());
        let reading = blocking(move || read(&file, now));
        let List { jobs, left_out, is_read } = reading.await.unwrap_or_default();
        let (mut known, mut noted) = (BTreeSet::<String>::new(), BTreeSet::<String>::new());
        if let Some(store) = store {
            known.extend(store.cron_jobs().await?.into_iter().map(|row| row.id));
            let of_list = store.sources().await?.into_iter().filter(|note| note.path == path);
            noted.extend(of_list.flat_map(|note| note.ids));
        }
        let unread = left_out.iter().map(|(id, _)| id);
        let ids = unread.filter(|id| noted.contains(*id)).cloned().collect();
        let mut report = Self { left_out, ids, is_read, ..Self::default() };
        for Found { job, due_at, runs, off } in jobs {
            if known.contains(&job.id) {
                report.known += 1;
                report.ids.push(job.id);
                continue;
            }
            // It went once it had run, or somebody has removed it.
            if noted.contains(&job.id) || due_at.is_some() && has_gone(&job, store).await? {
                let why = "it was here before, and has run or was removed since";
                report.left_out.push((job.id.clone(), why.into()));
                report.ids.push(job.id);
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
            if let Some(why) = off {
                report.left_out.push((job.id.clone(), format!("turned off: {why}")));
            }
            report.ids.push(job.id.clone());
            known.insert(job.id.clone());
            report.new.push(job);
            (report.jobs, report.runs) = (report.jobs + 1, report.runs + count);
        }
        Ok(report)
    }

    /// The same for the list of our own state directory, the first time that it is there
    /// and can be read; `None` when that was before.
    async fn once(
        file: &Path,
        store: &Arc<dyn Store>,
        now: u64,
    ) -> Result<Option<Self>, StoreError> {
        // Where that cannot be seen, reading it says why.
        let looked = file.to_owned();
        if let Ok(Ok(false)) = blocking(move || looked.try_exists()).await {
            return Ok(None);
        }
        // Looked at first: what is written meanwhile is found to be another file.
        let looked = file.to_owned();
        let note = blocking(move || SourceNote::of(&looked)).await.ok();
        let path = file.display().to_string();
        let was_taken = store.has_cron_import(&path).await?;
        if was_taken && store.sources().await?.iter().any(|note| note.path == path) {
            return Ok(None);
        }
        // A release that noted no more has taken it over: what is not here of it was
        // removed, and stays away.
        let report = Self::take(file, Some(store), was_taken, now).await?;
        // A kill before this costs nothing: what is here is not added again.
        if report.is_read {
            let note = note.map(|note| SourceNote { ids: report.ids.clone(), ..note });
            store.note_sources(note.into_iter().collect()).await?;
            store.note_cron_import(&path, now).await?;
        }
        Ok(Some(report).filter(|_| !was_taken))
    }

    /// Those of the new jobs that nobody hears, as far as the sessions are here.
    ///
    /// # Errors
    /// When the sessions cannot be read.
    pub async fn unheard(
        &self,
        store: Option<&Arc<dyn Store>>,
        settings: &Settings,
        rules: &KeyRules,
    ) -> Result<Vec<Unheard>, StoreError> {
        let mut last = BTreeMap::new();
        for key in self.new.iter().flat_map(|job| unheard::sessions_of(job, rules)) {
            let Some(store) = store else { break };
            let entry = store.session(key.as_str()).await?;
            last.extend(entry.map(|entry| (key.to_string(), entry.last_channel)));
        }
        Ok(unheard::among(&self.new, &last, settings, rules))
    }
}

impl Cron {
    /// Takes over the jobs that an OpenClaw left in our state directory, the
    /// first time that they can be read.
    pub(super) async fn adopt(&self) -> Result<(), StoreError> {
        let settings = self.parts.settings.now();
        let file = list_of_openclaw(&settings);
        let once = Imported::once(&file, &self.parts.store, self.now_ms()).await?;
        let Some(report) = once else { return Ok(()) };
        for (what, why) in &report.left_out {
            tracing::warn!(
                what,
                why,
                "not taken over, or not as it was, from the jobs of OpenClaw"
            );
        }
        let file = file.display();
        if !report.is_read {
            tracing::warn!(%file, "mend what is named or move it away: the next start looks again");
            return Ok(());
        }
        if !report.left_out.is_empty() {
            let from = settings.paths.state_dir.display();
            tracing::warn!(
                %file,
                "for a job that is mended there, stop the gateway and run \
                 `clawgate import --from {from}`"
            );
        }
        let (store, keys) = (&self.parts.store, self.parts.keys.now());
        for Unheard { id, why, .. } in report.unheard(Some(store), &settings, &keys).await? {
            tracing::warn!(job = %id, %why, "a job of OpenClaw that nobody hears here");
        }
        tracing::info!(jobs = report.jobs, runs = report.runs, "took over the jobs of OpenClaw");
        Ok(())
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Whether a job of a single instant has rows here though it is not here itself: it may
/// have come from another list.
async fn has_gone(job: &Job, store: Option<&Arc<dyn Store>>) -> Result<bool, StoreError> {
    let Some(store) = store.filter(|_| matches!(job.schedule, Schedule::At { .. })) else {
        return Ok(false);
    };
    let query = CronRunQuery { job_id: Some(job.id.clone()), ..CronRunQuery::default() };
    Ok(store.cron_runs(query).await?.1 > 0)
}

fn read(file: &Path, now: u64) -> List {
    let mut found = List { is_read: true, ..List::default() };
    let (jobs, states) = match parts(file) {
        Ok(parts) => parts,
        Err((file, error)) => {
            let left_out = vec![(file.display().to_string(), error.to_string())];
            return List { left_out, ..List::default() };
        }
    };
    let folder = file.parent().unwrap_or(Path::new("."));
    for (index, job) in jobs.into_iter().enumerate() {
        let name = job["id"].as_str().map_or_else(|| format!("job {index}"), str::to_owned);
        match one(job, &states, folder, now) {
            Ok(one) => found.jobs.push(one),
            Err(why) => found.left_out.push((name, why)),
        }
    }
    found
}

/// The jobs of a list, none where there is no list, and what is known of them; or else what
/// cannot be read, and why.
fn parts(file: &Path) -> Result<(Vec<Value>, Value), (PathBuf, io::Error)> {
    let jobs = match list(file) {
        Ok(jobs) => jobs,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok((Vec::new(), Value::Null));
        }
        Err(error) => return Err((file.to_owned(), error)),
    };
    // Without them a job that has run would look as if it had not.
    let of_states = states_file(file);
    match states(&of_states) {
        Ok(states) => Ok((jobs, states)),
        Err(error) => Err((of_states, error)),
    }
}

/// The file in which OpenClaw notes how the jobs of a list are doing.
fn states_file(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".json").unwrap_or(&name);
    file.with_file_name(format!("{name}-state.json"))
}

/// What stands there; nothing where there is no such file.
fn states(file: &Path) -> io::Result<Value> {
    match json(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Value::Null),
        Ok(other) if !other.is_object() => Err(io::Error::other("it has no states of jobs")),
        states => states,
    }
}

fn one(mut job: Value, states: &Value, folder: &Path, now: u64) -> Result<Found, String> {
    if let Value::Object(members) = &mut job {
        shapes::complete(members);
    }
    let mut job: Job = by_text(&job)?;
    job.announce_by_default();
    if job.id.is_empty() || job.id.contains(['/', '\\']) {
        return Err("its id is no name".into());
    }
    let timing = job.timing().map_err(|error| error.to_string())?;
    let known = &states["jobs"][&job.id];
    if known["state"].is_object() {
        job.state = by_text(&known["state"]).unwrap_or_default();
    }
    // OpenClaw keeps it there, and takes what it finds in this order.
    let written = Some(job.updated_at_ms).filter(|at| *at > 0);
    job.updated_at_ms = known["updatedAtMs"].as_u64().or(written).unwrap_or(job.created_at_ms);
    let mut runs = runs(&folder.join("runs").join(format!("{}.jsonl", job.id)), &job);
    let was_on = job.enabled;
    let cut_off = job.state.running_at_ms.take();
    let due_at = due(&job, &timing, &runs, now).filter(|_| cut_off.is_none() || !timing.is_once());
    job.enabled = was_on && due_at.is_some();
    job.state.next_run_at_ms = due_at;
    if let Some(began) = cut_off {
        let (ended, run) = interrupted(job, due_at, began, now).ok_or("its run cannot be ended")?;
        job = ended;
        runs.push(run);
    }
    let why = match (cut_off, timing.is_once()) {
        (Some(_), true) => "its run was cut off with OpenClaw, and it is not run again",
        (None, true) => "it has run",
        (_, false) => "it never comes due",
    };
    let off = (was_on && !job.enabled).then_some(why);
    Ok(Found { job, due_at, runs, off })
}

/// When a job is due next. What passed before it came here was not missed by us, but for
/// the single instant of a job that has not run since, and a try that is still to come.
fn due(job: &Job, timing: &Timing, runs: &[CronRunRow], now: u64) -> Option<u64> {
    if !job.enabled {
        return None;
    }
    let Timing::At(at) = timing else { return timing.next_after(now) };
    let state = &job.state;
    match state.last_run_at_ms.filter(|ran| ran >= at) {
        // Its state may be lost, and its log be there.
        None => Some(*at).filter(|at| runs.iter().all(|run| run.instant < *at)),
        Some(ran) => {
            let status = state.last_run_status.as_deref().or(state.last_status.as_deref());
            let again = state.next_run_at_ms.filter(|next| *next > ran);
            again.filter(|_| status == Some("error"))
        }
    }
}

/// A job whose run ended with OpenClaw itself, as after a run that we have cut off, and
/// the row of that run.
fn interrupted(job: Job, due_at: Option<u64>, began: u64, now: u64) -> Option<(Job, CronRunRow)> {
    // Nothing of it passes by itself.
    let retry = CronRetrySettings { max_attempts: 0, backoff_ms: Vec::new(), retry_on: Vec::new() };
    let row = job.to_row(due_at, None);
    let ticket = Ticket {
        row_id: format!("imported:{}:{began}", job.id),
        job,
        origin: None,
        run_id: None,
        instant: began,
        started_at: began,
    };
    let outcome = Outcome { is_cut: true, ..Outcome::failed(INTERRUPTED, "cron-setup", now) };
    let ended = outcome.change(&row, &ticket, &retry, now)?;
    Some((ended.job, ended.change.changed.into_iter().next()?))
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
    use crate::protocol::methods::cron::DeliveryMode;
    use crate::store::{CronChange, CronJobChange, CronJobRow, SqliteStore};
    use crate::support::json;

    const NOW: u64 = 1_795_318_100_000;
    /// A second after three o'clock of that day.
    const RAN: u64 = 1_795_316_401_000;

    fn list_in(root: &tempfile::TempDir) -> PathBuf {
        root.path().join("cron/jobs.json")
    }

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
            job("later", json!({"kind": "at", "at": "2026-11-23T03:00:00Z"})),
            job("failed", json!({"kind": "at", "at": "2026-11-22T03:00:00Z"})),
            job("cut", json!({"kind": "at", "at": "2026-11-22T03:00:00Z"})),
            {"id": "broken"},
            job("../x", json!({"kind": "every", "everyMs": 5})),
        ]});
        std::fs::write(cron.join("jobs.json"), jobs.to_string()).unwrap();
        let states = json!({"version": 1, "jobs": {
            "hourly": {"state": {"runningAtMs": 5, "lastStatus": "ok", "consecutiveErrors": 2}},
            "ran": {"state": {"lastRunAtMs": RAN, "lastStatus": "ok"}},
            "later": {"updatedAtMs": 7, "state": {"lastRunAtMs": RAN, "lastStatus": "ok"}},
            "failed": {"state": {"lastRunAtMs": RAN, "lastRunStatus": "error",
                "consecutiveErrors": 1, "nextRunAtMs": NOW + 9}},
            "cut": {"state": {"runningAtMs": RAN, "nextRunAtMs": RAN}}}});
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
        let file = list_in(&root);
        let take = async |store, is_dry| Imported::take(&file, store, is_dry, NOW).await.unwrap();
        let nowhere = take(None, true).await;
        assert_eq!((nowhere.jobs, nowhere.runs, nowhere.left_out.len()), (6, 3, 4));
        assert_eq!(take(Some(&store), true).await, nowhere);
        let taken = take(Some(&store), false).await;
        assert_eq!((taken.jobs, taken.known, taken.runs), (6, 0, 3));
        let off: Vec<_> =
            taken.left_out.iter().filter(|it| it.1.starts_with("turned off")).collect();
        assert_eq!(off.iter().map(|it| it.0.as_str()).collect::<Vec<_>>(), ["ran", "cut"]);
        let of = async |id: &str| {
            let row = store.cron_job(id).await.unwrap().unwrap();
            let job = Job::of_row(&row).unwrap();
            (row.due_at, job.enabled, job.state)
        };
        let (due_at, _, state) = of("hourly").await;
        assert!(due_at.unwrap() > NOW);
        assert_eq!((state.running_at_ms, state.last_run_at_ms), (None, Some(5)));
        assert_eq!(
            (state.consecutive_errors, state.last_error.as_deref()),
            (Some(3), Some(INTERRUPTED))
        );
        // Due while nobody was there; the scheduler says what becomes of it.
        assert_eq!(of("old").await.0, Some(1_795_318_000_000));
        let (due_at, is_on, _) = of("ran").await;
        assert_eq!((due_at, is_on), (None, false));
        assert_eq!(of("later").await.0, Some(1_795_402_800_000), "it ran before, and was moved");
        for (id, changed) in [("later", 7), ("ran", 1)] {
            let row = store.cron_job(id).await.unwrap().unwrap();
            assert_eq!(Job::of_row(&row).unwrap().updated_at_ms, changed, "{id}");
        }
        assert_eq!(of("failed").await.0, Some(NOW + 9), "OpenClaw would have tried it again");
        let (due_at, is_on, state) = of("cut").await;
        assert_eq!((due_at, is_on, state.last_run_at_ms), (None, false, Some(RAN)));
        assert_eq!(state.last_run_status.as_deref(), Some("error"));
        let query = |id: &str| CronRunQuery {
            job_id: Some(id.into()),
            limit: 9,
            ..CronRunQuery::default()
        };
        assert_eq!(store.cron_runs(query("hourly")).await.unwrap().1, 2);
        let (runs, _) = store.cron_runs(query("cut")).await.unwrap();
        assert_eq!((runs.len(), runs[0].status.as_str(), runs[0].instant), (1, "error", RAN));
        for is_dry in [true, false] {
            let again = take(Some(&store), is_dry).await;
            assert_eq!((again.jobs, again.known, again.runs), (0, 6, 0));
        }
    }

    #[tokio::test]
    async fn an_agent_that_is_asked_announces_though_its_job_says_nothing_of_it() {
        let (root, store) = place();
        Imported::take(&list_in(&root), Some(&store), false, NOW).await.unwrap();
        let row = store.cron_job("hourly").await.unwrap().unwrap();
        assert!(row.job.contains(r#""delivery":{"mode":"announce"}"#), "{}", row.job);
        // As an earlier release has taken it over.
        for earlier in ["", r#""delivery":{"to":"7"},"#] {
            let job = row.job.replace(r#""delivery":{"mode":"announce"},"#, earlier);
            assert_ne!(job, row.job);
            let job = Job::of_row(&CronJobRow { job, ..row.clone() }).unwrap();
            assert_eq!(job.delivery.unwrap().mode(), DeliveryMode::Announce);
        }
    }

    #[tokio::test]
    async fn a_job_of_a_single_instant_that_ran_here_and_went_does_not_come_again() {
        let (root, store) = place();
        let file = list_in(&root);
        let take = async || Imported::take(&file, Some(&store), false, NOW).await.unwrap();
        take().await;
        let run = CronRunRow {
            id: "old@1".into(),
            job_id: "old".into(),
            instant: 1,
            status: "ok".into(),
            delivery: NOT_REQUESTED.into(),
            entry: "{}".into(),
            at: 1,
        };
        let went = |_: &CronJobRow| {
            let remove = CronChange::of_job(CronJobChange::Remove);
            Some(CronChange { added: vec![run], ..remove })
        };
        store.edit_cron_job("old", Box::new(went)).await.unwrap();
        let again = take().await;
        assert_eq!((again.jobs, again.known), (0, 5));
        assert!(again.left_out.iter().any(|it| it.0 == "old" && it.1.contains("has run")));
    }

    #[tokio::test]
    async fn without_the_states_of_the_list_nothing_comes_and_what_its_log_shows_has_run() {
        let (root, store) = place();
        let file = list_in(&root);
        let of_states = file.with_file_name("jobs-state.json");
        let whole = std::fs::read_to_string(&of_states).unwrap();
        let once = || Imported::once(&file, &store, NOW);
        for torn in ["", "5", &whole[..whole.len() - 9]] {
            std::fs::write(&of_states, torn).unwrap();
            let report = once().await.unwrap().unwrap();
            assert_eq!((report.jobs, report.is_read, report.left_out.len()), (0, false, 1));
            assert_eq!(report.left_out[0].0, of_states.display().to_string());
            assert_eq!(store.sources().await.unwrap(), [], "the next start looks again");
        }
        std::fs::remove_file(&of_states).unwrap();
        let line = json!({"ts": RAN + 9, "action": "finished", "runAtMs": RAN}).to_string();
        for id in ["ran", "later"] {
            std::fs::write(file.with_file_name(format!("runs/{id}.jsonl")), &line).unwrap();
        }
        let report = once().await.unwrap().unwrap();
        assert!(report.is_read);
        assert!(report.left_out.contains(&("ran".into(), "turned off: it has run".into())));
        assert_eq!(store.cron_job("ran").await.unwrap().unwrap().due_at, None);
        let later = store.cron_job("later").await.unwrap().unwrap();
        assert_eq!(later.due_at, Some(1_795_402_800_000), "that was before its instant");
    }

    #[tokio::test]
    async fn a_list_that_cannot_be_seen_is_told_and_one_that_is_not_there_is_none() {
        let (root, store) = place();
        let once = async |path: &str| {
            let file = root.path().join(path);
            Imported::once(&file, &store, NOW).await.unwrap()
        };
        assert_eq!(once("none/jobs.json").await, None);
        let unseen = once("cron/jobs.json/jobs.json").await.unwrap();
        assert!(!unseen.is_read && unseen.left_out.len() == 1, "{unseen:?}");
        assert!(store.sources().await.unwrap().is_empty(), "the next start looks again");
    }

    #[tokio::test]
    async fn a_list_that_cannot_be_read_is_looked_at_again_and_a_mended_one_only_once() {
        let (root, store) = place();
        let file = list_in(&root);
        let whole = std::fs::read_to_string(&file).unwrap();
        let once = || Imported::once(&file, &store, NOW);
        for torn in ["", "{ no json", "5", "{}", r#"{"jobs": {}}"#, &whole[..whole.len() - 9]] {
            std::fs::write(&file, torn).unwrap();
            let report = once().await.unwrap().unwrap();
            assert_eq!((report.jobs, report.is_read), (0, false));
            assert!(report.left_out[0].0.ends_with("cron/jobs.json"));
            assert_eq!(store.sources().await.unwrap(), [], "it was not taken over");
        }
        // What JavaScript makes of a text that it cuts inside of a character.
        let half = whole.replacen(r#""name":"hourly""#, r#""name":"hourly \ud83e""#, 1);
        assert_ne!(half, whole);
        // And what an editor puts before it.
        std::fs::write(&file, format!("\u{feff}{half}")).unwrap();
        let report = once().await.unwrap().unwrap();
        assert_eq!((report.jobs, report.is_read), (6, true));
        assert!(!store.sources().await.unwrap()[0].has_changed());
        let job = store.cron_job("hourly").await.unwrap().unwrap();
        assert_eq!(Job::of_row(&job).unwrap().name, "hourly \u{fffd}");
        assert_eq!(once().await.unwrap(), None);
    }
}
