//! The instants of a job that are due: which rows they get, and which begins.
//!
//! Pure: it is called inside the transaction that reads and writes the job.

use serde_json::Value;

use crate::store::{CronChange, CronJobChange, CronJobRow, CronRunRow};
use crate::support::json;

use super::job::{Job, Origin};
use super::missed::{MissedPolicy, Passed, Usual, passed};
use super::run_log::{NOT_REQUESTED, row_id};
use super::schedule::Timing;
use super::service::Ticket;

/// What becomes of the instants that are due.
pub(super) struct Claim {
    /// What is written.
    pub change: CronChange,
    /// The run that begins, if one does.
    pub ticket: Option<Ticket>,
    /// The job as it is then.
    pub job: Job,
    /// What is told of the last instant when it does not begin.
    pub entry: Value,
}

impl Claim {
    /// Looks at a job; `None` when nothing of it is due.
    pub fn of(
        row: &CronJobRow,
        now: u64,
        usual: Usual,
        is_free: bool,
        keep: usize,
    ) -> Option<Self> {
        let due = row.due_at.filter(|due| *due <= now)?;
        let (Ok(mut job), keep) = (Job::of_row(row), keep.max(1)) else {
            return Some(Self::unreadable(row));
        };
        let Ok(timing) = job.timing() else { return Some(Self::unreadable(row)) };
        // Its run has ended, or was put back, and the job is about to be free: nothing else
        // would bring a single instant back.
        if timing.is_once() && !is_free && job.state.running_at_ms.is_none() {
            return None;
        }
        let usual = if timing.is_once() { usual.once } else { usual.again };
        let policy = job.missed.as_deref().and_then(MissedPolicy::parse).unwrap_or(usual);
        let instants = passed(&timing, due, now, keep - 1);
        let next = if timing.is_once() { None } else { timing.next_after(now) };
        let is_young = |instant: u64| policy.runs(now.saturating_sub(instant));
        let begins = is_free && is_young(instants.last);
        if begins {
            job.state.running_at_ms = Some(now);
        } else {
            let error = why(is_young(instants.last), instants.last);
            let skipped = job.state.consecutive_skipped.unwrap_or_default();
            let before = u64::try_from(instants.before.len()).unwrap_or(u64::MAX);
            job.state.consecutive_skipped = Some(skipped.saturating_add(before).saturating_add(1));
            // What runs will say itself how it ended.
            if is_free {
                job.state.last_run_status = Some("skipped".into());
                job.state.last_status = Some("skipped".into());
                job.state.last_error = Some(error);
            }
        }
        match (timing.is_once(), begins || !is_free) {
            // Until it has run, people see when it was due.
            (true, true) => {}
            (true, false) => {
                job.enabled = false;
                job.state.next_run_at_ms = None;
            }
            (false, _) => job.state.next_run_at_ms = next,
        }
        let (id, origin) = (job.id.clone(), origin(row));
        // While the job runs, those before the last were not missed either.
        let before = instants.before.iter();
        let mut added: Vec<_> =
            before.map(|at| lost(&job, *at, now, next, !is_free && is_young(*at))).collect();
        let ticket = begins.then(|| Ticket {
            row_id: row_id(&id, instants.last),
            origin,
            run_id: None,
            instant: instants.last,
            started_at: now,
            job: job.clone(),
        });
        let last = match &ticket {
            Some(ticket) => started(ticket),
            None => lost(&job, instants.last, now, next, is_young(instants.last)),
        };
        let entry = serde_json::from_str(&last.entry).unwrap_or_default();
        added.push(last);
        let not_again = begins.then(|| not_again(job.clone(), next, row.origin.clone()));
        let put = CronJobChange::Put(job.to_row(next, row.origin.clone()));
        let change = CronChange { added, not_again, ..CronChange::of_job(put) };
        Some(Self { change, ticket, job, entry })
    }

    /// A job that cannot be read is due no more, and stays as it is: what it says of its next
    /// instant has it be due again once it can be read.
    fn unreadable(row: &CronJobRow) -> Self {
        tracing::error!(job = %row.id, "cron job not readable; it does not run");
        let put = CronJobRow { due_at: None, ..row.clone() };
        Self {
            change: CronChange::of_job(CronJobChange::Put(put)),
            ticket: None,
            job: Job::of_row(row).unwrap_or_else(|_| Job::nameless(&row.id)),
            entry: Value::Null,
        }
    }
}

/// A run that somebody wants now. When it has to be due, it is the run of the last instant
/// that is, and with those before it the log keeps so many rows as `due_rows` says; else the
/// schedule goes on beside it.
pub(super) fn asked(
    row: &CronJobRow,
    run_id: &str,
    now: u64,
    due_rows: Option<usize>,
) -> Option<(Ticket, CronChange)> {
    let mut job = Job::of_row(row).ok()?;
    let (row_id, instant, next, before) = match due_rows {
        Some(keep) => {
            let due = row.due_at.filter(|due| *due <= now)?;
            let timing = job.timing().ok()?;
            let next = if timing.is_once() { None } else { timing.next_after(now) };
            if !timing.is_once() {
                job.state.next_run_at_ms = next;
            }
            let Passed { last, before } = passed(&timing, due, now, keep.saturating_sub(1));
            (row_id(&row.id, last), last, next, before)
        }
        None => (run_id.to_owned(), now, row.due_at, Vec::new()),
    };
    job.state.running_at_ms = Some(now);
    let ticket = Ticket {
        job: job.clone(),
        origin: origin(row),
        row_id,
        run_id: Some(run_id.to_owned()),
        instant,
        started_at: now,
    };
    let mut added: Vec<_> = before.iter().map(|at| lost(&job, *at, now, next, false)).collect();
    added.push(started(&ticket));
    let put = CronJobChange::Put(job.to_row(next, row.origin.clone()));
    // Whatever else runs now has a row of its own.
    let not_again = due_rows.map(|_| not_again(job, next, row.origin.clone()));
    Some((ticket, CronChange { added, not_again, ..CronChange::of_job(put) }))
}

/// A claimed job whose instant has had its run already: it waits for the next.
fn not_again(mut job: Job, due_at: Option<u64>, origin: Option<String>) -> CronJobRow {
    job.state.running_at_ms = None;
    if due_at.is_none() && job.timing().is_ok_and(|timing| timing.is_once()) {
        job.enabled = false;
        job.state.next_run_at_ms = None;
    }
    job.to_row(due_at, origin)
}

/// What a stop leaves of a run that has not begun. That of a job that comes again goes on in the
/// next process, and its row stays: by its instant alone that could not tell which of the later
/// ones were skipped for it. `None` when it is the run of no instant.
pub(super) fn left(row: &CronJobRow, ticket: &Ticket) -> Option<CronChange> {
    if repeats(row, ticket).is_some() {
        return Some(CronChange::of_job(CronJobChange::Keep));
    }
    put_back(row, ticket)
}

/// A run of a job that comes again, which waited for its beginning when the last process ended:
/// it waits on, and the later instants are skipped for it. `None` when the last of all that have
/// passed is too old to run.
pub(super) fn resumed(row: &CronJobRow, gone: &Ticket, now: u64, usual: Usual) -> Option<Ticket> {
    let (job, timing) = repeats(row, gone)?;
    let policy = job.missed.as_deref().and_then(MissedPolicy::parse).unwrap_or(usual.again);
    let last = timing.last_until(now).unwrap_or_default().max(gone.instant);
    // Who asked for it has it run however late it is.
    let is_young = gone.run_id.is_some() || policy.runs(now.saturating_sub(last));
    is_young.then(|| Ticket { job, origin: origin(row), ..gone.clone() })
}

/// The job of a run, if that is one of its instants, and it comes again.
fn repeats(row: &CronJobRow, ticket: &Ticket) -> Option<(Job, Timing)> {
    let is_of_instant = ticket.row_id == row_id(&row.id, ticket.instant);
    let job = Job::of_row(row).ok().filter(|job| is_of_instant && job.enabled)?;
    let timing = job.timing().ok().filter(|timing| !timing.is_once())?;
    Some((job, timing))
}

/// A run that has not begun and is not to begin now: its instant is due again.
/// `None` when it is the run of no instant.
pub(super) fn put_back(row: &CronJobRow, ticket: &Ticket) -> Option<CronChange> {
    if ticket.row_id != row_id(&row.id, ticket.instant) {
        return None;
    }
    let mut job = Job::of_row(row).ok()?;
    job.state.running_at_ms = None;
    // Somebody may have given it another single instant meanwhile, or turned it off.
    let is_moved = row.due_at.is_some() && job.timing().is_ok_and(|timing| timing.is_once());
    let due_at = if is_moved { row.due_at } else { Some(ticket.instant) };
    let due_at = due_at.filter(|_| job.enabled);
    job.state.next_run_at_ms = due_at;
    let put = job.to_row(due_at, row.origin.clone());
    let undone = Some(ticket.row_id.clone());
    Some(CronChange { undone, ..CronChange::of_job(CronJobChange::Put(put)) })
}

/// A run of a single instant that has not begun, when there is that instant no more: the
/// job is due at another one.
pub(super) fn moved(row: &CronJobRow, ticket: &Ticket) -> Option<CronChange> {
    let is_once = |job: &Job| job.timing().is_ok_and(|timing| timing.is_once());
    let is_moved = row.due_at.is_some_and(|due| due != ticket.instant)
        && is_once(&ticket.job)
        && is_once(&Job::of_row(row).ok()?);
    if is_moved { put_back(row, ticket) } else { None }
}

/// Which session made a job, unless a client did.
pub(super) fn origin(row: &CronJobRow) -> Option<Origin> {
    // What cannot be read may use nothing.
    row.origin.as_ref().map(|text| {
        let unknown = || Origin { tools: Some(Vec::new()), ..Origin::default() };
        serde_json::from_str(text).unwrap_or_else(|_| unknown())
    })
}

fn why(is_young: bool, instant: u64) -> String {
    if is_young {
        "skipped: its previous run was still going on".to_owned()
    } else {
        format!(
            "missed: nobody could run it at {} (see cron.missed)",
            crate::sessions::iso_time(instant)
        )
    }
}

/// A run that waits no longer, and begins: it is not to begin again.
pub(super) fn begun(ticket: &Ticket) -> CronChange {
    let changed = vec![open(ticket, false)];
    CronChange { changed, ..CronChange::of_job(CronJobChange::Keep) }
}

/// The row of a run that waits for its beginning.
fn started(ticket: &Ticket) -> CronRunRow {
    open(ticket, true)
}

fn open(ticket: &Ticket, waits: bool) -> CronRunRow {
    let job = &ticket.job;
    // Agent and target say where a run was that is cut off, though its job may be gone.
    let entry = json!({"jobId": job.id, "jobName": job.name, "runId": ticket.run_id,
        "runAtMs": ticket.started_at, "agentId": job.agent_id,
        "sessionTarget": job.session_target, "waits": waits});
    CronRunRow {
        id: ticket.row_id.clone(),
        job_id: ticket.job.id.clone(),
        instant: ticket.instant,
        status: "started".into(),
        delivery: NOT_REQUESTED.into(),
        entry: entry.to_string(),
        at: ticket.started_at,
    }
}

/// The row of an instant at which nothing began.
fn lost(job: &Job, instant: u64, now: u64, next: Option<u64>, is_young: bool) -> CronRunRow {
    let mut entry = json!({"ts": now, "jobId": job.id, "action": "finished", "status": "skipped",
        "error": why(is_young, instant), "runAtMs": instant, "durationMs": 0,
        "deliveryStatus": NOT_REQUESTED, "jobName": job.name});
    if !is_young {
        entry["missed"] = true.into();
    }
    if let Some(next) = next {
        entry["nextRunAtMs"] = next.into();
    }
    CronRunRow {
        id: row_id(&job.id, instant),
        job_id: job.id.clone(),
        instant,
        status: if is_young { "skipped" } else { "missed" }.into(),
        delivery: NOT_REQUESTED.into(),
        entry: entry.to_string(),
        at: now,
    }
}

#[cfg(test)]
mod tests {
    use crate::protocol::methods::cron::Schedule;

    use super::*;

    const NOON: u64 = 1_795_348_800_000;
    const USUAL: Usual = Usual { once: MissedPolicy::Run, again: MissedPolicy::RunIfYounger(1000) };

    fn claim(now: u64, is_free: bool) -> Claim {
        let schedule = Schedule::Every { every_ms: 100, anchor_ms: Some(NOON) };
        let job = Job { schedule, enabled: true, ..Job::nameless("job") };
        let row = job.to_row(Some(NOON), None);
        Claim::of(&row, now, USUAL, is_free, 100).unwrap()
    }

    fn statuses(claim: &Claim) -> Vec<(u64, &str)> {
        claim.change.added.iter().map(|row| (row.instant - NOON, row.status.as_str())).collect()
    }

    #[test]
    fn instants_that_came_while_the_job_ran_are_all_skipped_and_all_count() {
        let skips = claim(NOON + 250, false);
        assert_eq!(statuses(&skips), [(0, "skipped"), (100, "skipped"), (200, "skipped")]);
        assert_eq!((skips.ticket.is_some(), skips.job.state.consecutive_skipped), (false, Some(3)));
        assert_eq!(skips.job.state.next_run_at_ms, Some(NOON + 300));
        // When nobody could run it, all but the last were missed.
        let begins = claim(NOON + 250, true);
        assert_eq!(statuses(&begins), [(0, "missed"), (100, "missed"), (200, "started")]);
        // What is too old was missed, whatever ran.
        let old = claim(NOON + 5250, false);
        let missed = statuses(&old).iter().filter(|(_, status)| *status == "missed").count();
        assert_eq!((old.change.added.len(), missed), (53, 3));
        assert_eq!(old.job.state.consecutive_skipped, Some(53));
    }

    #[test]
    fn a_single_instant_is_not_skipped_for_a_run_that_is_over() {
        let schedule = Schedule::At { at: NOON.to_string() };
        let mut once = Job { schedule, enabled: true, ..Job::nameless("once") };
        let claim = |job: &Job| {
            let row = job.to_row(Some(NOON), None);
            Claim::of(&row, NOON, USUAL, false, 100)
        };
        assert!(claim(&once).is_none());
        once.state.running_at_ms = Some(NOON - 1);
        assert_eq!(statuses(&claim(&once).unwrap()), [(0, "skipped")]);
    }

    #[test]
    fn a_single_instant_that_was_moved_takes_the_row_of_the_old_one_away() {
        let at = |at: u64| Job {
            schedule: Schedule::At { at: at.to_string() },
            enabled: true,
            ..Job::nameless("once")
        };
        let ticket = Ticket {
            job: at(NOON),
            origin: None,
            row_id: row_id("once", NOON),
            run_id: None,
            instant: NOON,
            started_at: NOON,
        };
        let moved = |due_at: Option<u64>| moved(&at(NOON + 9).to_row(due_at, None), &ticket);
        let change = moved(Some(NOON + 9)).unwrap();
        assert_eq!(change.undone, Some(row_id("once", NOON)));
        let CronJobChange::Put(row) = change.job else { panic!("the job is gone") };
        assert_eq!(row.due_at, Some(NOON + 9));
        // The new one has come as well: it is skipped, and this run is the only one.
        assert!(moved(None).is_none());
    }

    #[test]
    fn a_claim_says_what_the_job_is_when_its_instant_has_had_its_run() {
        let left = |claim: &Claim| {
            let row = claim.change.not_again.clone()?;
            let job = Job::of_row(&row).unwrap();
            Some((row.due_at, job.enabled, job.state.running_at_ms))
        };
        assert_eq!(left(&claim(NOON, true)), Some((Some(NOON + 100), true, None)));
        assert_eq!(left(&claim(NOON, false)), None, "it does not begin");
        let schedule = Schedule::At { at: NOON.to_string() };
        let once = Job { schedule, enabled: true, ..Job::nameless("once") };
        let row = once.to_row(Some(NOON), None);
        let claim = Claim::of(&row, NOON, USUAL, true, 100).unwrap();
        assert_eq!(left(&claim), Some((None, false, None)));
        let (_, change) = asked(&row, "run", NOON, Some(100)).unwrap();
        assert_eq!(change.not_again, claim.change.not_again);
        let (_, beside) = asked(&row, "run", NOON, None).unwrap();
        assert_eq!(beside.not_again, None, "its schedule goes on");
    }

    #[test]
    fn a_run_that_waits_goes_on_after_a_stop_as_long_as_the_last_instant_is_young() {
        let schedule = Schedule::Every { every_ms: 20_000, anchor_ms: Some(NOON) };
        let job = Job { schedule, enabled: true, ..Job::nameless("job") };
        let begun = Claim::of(&job.to_row(Some(NOON), None), NOON, USUAL, true, 100).unwrap();
        let (ticket, row) = (begun.ticket.unwrap(), begun.job.to_row(Some(NOON + 20_000), None));
        let stays = Some(CronChange::of_job(CronJobChange::Keep));
        assert_eq!(left(&row, &ticket), stays);
        let goes_on = |now| resumed(&row, &ticket, NOON + now, USUAL);
        // The later one has come, and is skipped for this one.
        assert_eq!(goes_on(21_000), Some(ticket.clone()));
        assert_eq!(goes_on(19_000), None, "nobody could run it in time");
        let asked = Ticket { run_id: Some("manual".into()), ..ticket.clone() };
        assert_eq!(resumed(&row, &asked, NOON + 19_000, USUAL), Some(asked));
        let off = Job { enabled: false, ..job }.to_row(None, None);
        assert_eq!(resumed(&off, &ticket, NOON, USUAL), None);
        assert_eq!(left(&off, &ticket).unwrap().undone, Some(ticket.row_id));
    }

    #[test]
    fn a_single_instant_runs_however_late_it_is_unless_somebody_says_something_else() {
        let schedule = Schedule::At { at: NOON.to_string() };
        let once = Job { schedule, enabled: true, ..Job::nameless("once") };
        let begins = |missed: Option<&str>, usual: Usual| {
            let job = Job { missed: missed.map(str::to_owned), ..once.clone() };
            let row = job.to_row(Some(NOON), None);
            Claim::of(&row, NOON + 90_000_000, usual, true, 100).unwrap().ticket.is_some()
        };
        assert!(begins(None, USUAL));
        assert!(!begins(Some("1h"), USUAL));
        assert!(!begins(None, Usual { once: MissedPolicy::Skip, ..USUAL }));
    }
}
