//! Jobs by a clock that the test sets: which instants get which rows.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use clawgate::agent::{AbortReason, RunEnd};
use clawgate::auth::Owner;
use clawgate::bus::EventKind;
use clawgate::cron::{Asked, Cron, CronError, Job};
use clawgate::protocol::decode::{Unknown, decode};
use clawgate::protocol::methods::cron::{CronRunsParams, CronUpdateParams, NewJob};
use clawgate::sessions::{KeyRules, SessionKey};
use clawgate::store::{CronChange, CronJobChange, CronJobRow};
use clawgate::support::Clock;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use super::faults::faults;
use super::held::Hold;
use super::{LIMIT, Place, place_at};

/// A clock that stands until it is set.
struct Hands(AtomicU64);

impl Clock for Hands {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// 2026-11-22T12:00:00Z.
const NOON: u64 = 1_795_348_800_000;
const SECOND: u64 = 1000;
const HOUR: u64 = 3600 * SECOND;
const DAY: u64 = 24 * HOUR;

struct Scene {
    place: Place,
    hands: Arc<Hands>,
    cron: Arc<Cron>,
}

impl Scene {
    async fn new() -> Self {
        let scene = Self::still().await;
        scene.schedule();
        scene
    }

    /// One that does not look at its jobs yet.
    async fn still() -> Self {
        let hands = Arc::new(Hands(AtomicU64::new(NOON)));
        let place = place_at(Arc::clone(&hands) as Arc<dyn Clock>).await;
        let cron = Arc::clone(&place.runs.parts().cron);
        Self { place, hands, cron }
    }

    fn schedule(&self) {
        let runs = Arc::clone(&self.place.runs);
        self.place.tasks.spawn("cron", Arc::clone(&self.cron).schedule(runs));
    }

    async fn add(&self, schedule: Value, more: Value) -> String {
        let mut job = json!({"name": "job", "schedule": schedule, "sessionTarget": "main",
            "wakeMode": "next-heartbeat", "payload": {"kind": "systemEvent", "text": "tick"}});
        job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let job: NewJob = decode("cron.add", job, Unknown::Refuse).unwrap();
        self.cron.add(job, None).await.unwrap().id
    }

    async fn update(&self, id: &str, patch: Value) -> Result<Job, CronError> {
        let update = json!({"id": id, "patch": patch});
        let update: CronUpdateParams = decode("cron.update", update, Unknown::Refuse).unwrap();
        self.cron.update(id, update.patch).await
    }

    /// Sets the clock, and lets the scheduler look at it.
    async fn set(&self, now: u64) {
        self.hands.0.store(now, Ordering::SeqCst);
        let far = self.add(json!({"everyMs": 365 * DAY}), json!({})).await;
        self.cron.remove(&far).await.unwrap();
    }

    async fn rows(&self, id: &str) -> Vec<Value> {
        let mut rows = Vec::new();
        loop {
            let wanted = CronRunsParams {
                id: Some(id.into()),
                limit: Some(200),
                offset: u64::try_from(rows.len()).unwrap(),
                ascending: true,
                ..CronRunsParams::default()
            };
            let page = self.cron.runs(wanted).await.unwrap();
            rows.extend(page["entries"].as_array().unwrap().clone());
            if page["hasMore"] == false {
                return rows;
            }
        }
    }

    /// Waits until there are so many rows.
    async fn wait_for(&self, id: &str, count: usize) -> Vec<Value> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let rows = self.rows(id).await;
            if rows.len() >= count {
                return rows;
            }
            assert!(Instant::now() < deadline, "{count} rows do not come: {rows:?}");
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn job(&self, id: &str) -> Value {
        serde_json::to_value(self.cron.job(id).await.unwrap().0).unwrap()
    }

    /// Writes this down as a job; what was there before.
    async fn write(&self, id: &str, text: String) -> String {
        let edit = move |row: &CronJobRow| {
            let row = CronJobRow { job: text, ..row.clone() };
            Some(CronChange::of_job(CronJobChange::Put(row)))
        };
        self.place.store.edit_cron_job(id, Box::new(edit)).await.unwrap().unwrap().before.job
    }

    /// Has the schedule itself begin nothing any more.
    fn turn_off(&self) {
        let settings = &self.place.runs.parts().settings;
        let mut without = (*settings.now()).clone();
        without.cron.enabled = false;
        settings.set(without);
    }

    /// Waits until it runs, or is about to.
    async fn wait_for_claim(&self, id: &str) {
        let deadline = Instant::now() + LIMIT;
        while self.job(id).await["state"]["runningAtMs"].is_null() {
            assert!(Instant::now() < deadline, "it is not claimed");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until something breaks.
    async fn wait_for_panic(&self) {
        let deadline = Instant::now() + LIMIT;
        while self.place.tasks.panics().is_empty() {
            assert!(Instant::now() < deadline, "nothing breaks");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until the instants before this one have been dealt with.
    async fn wait_for_next(&self, id: &str, next: u64) {
        let deadline = Instant::now() + LIMIT;
        while self.job(id).await["state"]["nextRunAtMs"] != next {
            assert!(Instant::now() < deadline, "{next} is not the next instant");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

fn count(rows: &[Value], wanted: impl Fn(&Value) -> bool) -> usize {
    rows.iter().filter(|row| wanted(row)).count()
}

#[tokio::test]
async fn each_instant_runs_when_the_clock_comes_to_it_and_not_before() {
    let scene = Scene::new().await;
    let id =
        scene.add(json!({"kind": "cron", "expr": "*/10 * * * * *", "tz": "UTC"}), json!({})).await;
    assert_eq!(scene.job(&id).await["state"]["nextRunAtMs"], NOON + 10 * SECOND);
    scene.set(NOON + 9 * SECOND).await;
    assert_eq!(scene.rows(&id).await, Vec::<Value>::new());
    for step in 1..=5_u64 {
        scene.set(NOON + step * 10 * SECOND).await;
        let rows = scene.wait_for(&id, usize::try_from(step).unwrap()).await;
        assert_eq!(rows.len(), usize::try_from(step).unwrap());
        assert_eq!(count(&rows, |row| row["status"] == "ok"), rows.len(), "{rows:?}");
        let next = &scene.job(&id).await["state"]["nextRunAtMs"];
        assert_eq!(*next, NOON + (step + 1) * 10 * SECOND);
    }
}

#[tokio::test]
async fn a_clock_that_jumps_leaves_one_row_for_each_instant_and_one_start() {
    let scene = Scene::new().await;
    let id = scene.add(json!({"kind": "every", "everyMs": 10 * SECOND}), json!({})).await;
    scene.set(NOON + HOUR).await;
    let rows = scene.wait_for(&id, 360).await;
    assert_eq!(rows.len(), 360);
    assert_eq!(count(&rows, |row| row["status"] == "ok"), 1, "only the last one runs");
    assert_eq!(count(&rows, |row| row["missed"] == true), 359);
    let instants: BTreeSet<_> = rows
        .iter()
        .filter(|row| row["missed"] == true)
        .map(|row| row["runAtMs"].as_u64().unwrap())
        .collect();
    let expected: BTreeSet<_> = (1..360).map(|step| NOON + step * 10 * SECOND).collect();
    assert_eq!(instants, expected);
    assert_eq!(scene.job(&id).await["state"]["nextRunAtMs"], NOON + HOUR + 10 * SECOND);
    // A clock that is set back has none of them run again, and what was missed twice is
    // told once.
    scene.set(NOON + 60 * SECOND).await;
    scene.set(NOON + HOUR).await;
    let rows = scene.wait_for(&id, 360).await;
    assert_eq!(rows.len(), 360);
    assert_eq!(count(&rows, |row| row["status"] == "ok"), 1);
}

#[tokio::test]
async fn a_clock_that_was_days_ahead_puts_nothing_off() {
    let scene = Scene::new().await;
    let id = scene.add(json!({"kind": "cron", "expr": "0 13 * * *", "tz": "UTC"}), json!({})).await;
    scene.set(NOON + 20 * DAY).await;
    scene.wait_for_next(&id, NOON + HOUR + 20 * DAY).await;
    assert_eq!(count(&scene.rows(&id).await, |row| row["missed"] == true), 20);
    scene.set(NOON).await;
    scene.wait_for_next(&id, NOON + HOUR).await;
    assert_eq!(scene.rows(&id).await, Vec::<Value>::new());
    scene.set(NOON + HOUR).await;
    assert_eq!(scene.wait_for(&id, 1).await[0]["status"], "ok");
}

#[tokio::test]
async fn how_late_an_instant_may_be_is_said_by_its_job_else_by_the_config() {
    let scene = Scene::new().await;
    let daily = json!({"kind": "cron", "expr": "0 13 * * *", "tz": "UTC"});
    let mut ids = Vec::new();
    for (missed, runs) in
        [("run", true), ("skip", false), ("3h", true), ("30m", false), ("", false)]
    {
        let more = if missed.is_empty() { json!({}) } else { json!({"missed": missed}) };
        ids.push((scene.add(daily.clone(), more).await, runs, missed));
    }
    // Two hours late; the config says one.
    scene.set(NOON + 3 * HOUR).await;
    for (id, runs, missed) in ids {
        let rows = scene.wait_for(&id, 1).await;
        assert_eq!(rows.len(), 1, "{missed}");
        let expected = if runs { "ok" } else { "skipped" };
        assert_eq!(rows[0]["status"], expected, "{missed}: {rows:?}");
        assert_eq!(rows[0]["missed"] == true, !runs, "{missed}");
        assert_eq!(scene.job(&id).await["state"]["nextRunAtMs"], NOON + HOUR + DAY);
    }
}

#[tokio::test]
async fn an_instant_that_comes_while_the_job_runs_is_skipped_with_a_row() {
    let scene = Scene::new().await;
    let slow = json!({"sessionTarget": "isolated", "delivery": {"mode": "none"},
        "payload": {"kind": "agentTurn", "message": "@mock stream n=10 delay=200"}});
    let id = scene.add(json!({"kind": "every", "everyMs": 10 * SECOND}), slow).await;
    for passed in [10, 20, 30] {
        scene.set(NOON + passed * SECOND).await;
        scene.wait_for_next(&id, NOON + (passed + 10) * SECOND).await;
    }
    let rows = scene.wait_for(&id, 3).await;
    let skipped: Vec<_> = rows.iter().filter(|row| row["status"] == "skipped").collect();
    assert_eq!(skipped.len(), 2, "{rows:?}");
    assert!(skipped.iter().all(|row| row["missed"].is_null()), "{skipped:?}");
    assert!(skipped[0]["error"].as_str().unwrap().contains("still going on"));
    assert_eq!(count(&rows, |row| row["status"] == "ok"), 1, "{rows:?}");
}

#[tokio::test]
async fn a_single_instant_runs_once_and_a_change_of_its_job_does_not_bring_it_back() {
    let scene = Scene::new().await;
    let at = json!({"kind": "at", "at": (NOON + 10 * SECOND).to_string()});
    let id = scene.add(at, json!({"deleteAfterRun": false})).await;
    scene.set(NOON + 10 * SECOND).await;
    scene.wait_for(&id, 1).await;
    let job = scene.job(&id).await;
    assert_eq!((&job["enabled"], &job["state"]["nextRunAtMs"]), (&json!(false), &Value::Null));
    for patch in [json!({"enabled": true}), json!({"enabled": true, "schedule": job["schedule"]})] {
        let refusal = scene.update(&id, patch).await.unwrap_err().to_string();
        assert!(refusal.ends_with("give it another schedule.at as well"), "{refusal}");
        scene.update(&id, json!({"name": "again"})).await.unwrap();
        scene.set(NOON + 12 * SECOND).await;
        assert_eq!(scene.job(&id).await["enabled"], false);
    }
    assert_eq!(scene.rows(&id).await.len(), 1);
    let at = json!({"kind": "at", "at": (NOON + 20 * SECOND).to_string()});
    scene.update(&id, json!({"enabled": true, "schedule": at})).await.unwrap();
    scene.set(NOON + 20 * SECOND).await;
    scene.wait_for(&id, 2).await;
}

#[tokio::test]
async fn a_single_instant_that_was_missed_comes_back_only_as_another_one() {
    let scene = Scene::new().await;
    let at = |hours: u64| json!({"kind": "at", "at": (NOON + hours * HOUR).to_string()});
    let id = scene.add(at(1), json!({"missed": "skip"})).await;
    scene.set(NOON + 2 * HOUR).await;
    assert_eq!(scene.wait_for(&id, 1).await[0]["missed"], true);
    for patch in [json!({"enabled": true}), json!({"enabled": true, "missed": "run"})] {
        let refusal = scene.update(&id, patch).await.unwrap_err().to_string();
        assert!(refusal.ends_with("give it another schedule.at as well"), "{refusal}");
    }
    assert_eq!(scene.job(&id).await["enabled"], false);
    // The new one is as if there had been no other, also when it is given first.
    scene.update(&id, json!({"schedule": at(3), "deleteAfterRun": false})).await.unwrap();
    scene.update(&id, json!({"enabled": true})).await.unwrap();
    scene.set(NOON + 3 * HOUR).await;
    let rows = scene.wait_for(&id, 2).await;
    assert_eq!(rows[1]["status"], "ok", "{rows:?}");
}

#[tokio::test]
async fn what_was_missed_by_a_clock_that_was_ahead_comes_for_a_job_that_is_turned_on_again() {
    let scene = Scene::new().await;
    let at = json!({"kind": "at", "at": (NOON + HOUR).to_string()});
    let once = json!({"missed": "skip", "deleteAfterRun": false});
    let id = scene.add(at, once).await;
    scene.set(NOON + 2 * HOUR).await;
    assert_eq!(scene.wait_for(&id, 1).await[0]["missed"], true);
    scene.set(NOON).await;
    scene.update(&id, json!({"enabled": true})).await.unwrap();
    scene.set(NOON + HOUR).await;
    let rows = scene.wait_for(&id, 1).await;
    assert_eq!((rows.len(), &rows[0]["status"]), (1, &json!("ok")), "{rows:?}");
}

#[tokio::test]
async fn a_job_that_fails_rests_ever_longer_until_it_runs_well() {
    let scene = Scene::new().await;
    let asks = |message: &str| json!({"kind": "agentTurn", "message": message});
    let apart = json!({"sessionTarget": "isolated", "delivery": {"mode": "none"},
        "payload": asks("@mock err status=400 type=invalid_request_error")});
    let id = scene.add(json!({"kind": "every", "everyMs": 10 * SECOND}), apart).await;
    for (count, (due, next)) in [(1, (10, 40)), (2, (40, 100)), (3, (100, 400))] {
        scene.set(NOON + due * SECOND).await;
        scene.wait_for_next(&id, NOON + next * SECOND).await;
        let rows = scene.rows(&id).await;
        assert_eq!((rows.len(), &rows[0]["status"]), (count, &json!("error")), "{rows:?}");
    }
    // Nothing comes in between.
    scene.set(NOON + 150 * SECOND).await;
    assert_eq!(scene.rows(&id).await.len(), 3);
    scene.update(&id, json!({"payload": asks("@mock text text=x")})).await.unwrap();
    assert_eq!(scene.job(&id).await["state"]["nextRunAtMs"], NOON + 400 * SECOND);
    drop(scene.cron.ask(&id, false).await.unwrap());
    scene.wait_for_next(&id, NOON + 160 * SECOND).await;
    assert_eq!(count(&scene.rows(&id).await, |row| row["status"] == "ok"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_hear_when_a_job_runs_next_whose_instant_has_had_its_run() {
    let scene = Scene::new().await;
    let id = scene.add(json!({"kind": "every", "everyMs": 10 * SECOND}), json!({})).await;
    scene.set(NOON + 10 * SECOND).await;
    scene.wait_for(&id, 1).await;
    scene.set(NOON).await;
    scene.wait_for_next(&id, NOON + 10 * SECOND).await;
    let mut told = Hold::of(&scene.place, |event| {
        event["action"] == "updated" && event["nextRunAtMs"] == NOON + 20 * SECOND
    });
    tokio::join!(scene.set(NOON + 10 * SECOND), async move {
        told.came().await;
        told.let_go();
    });
    assert_eq!(scene.rows(&id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_hear_when_a_job_runs_next_that_a_clock_had_put_off() {
    let scene = Scene::new().await;
    let id = scene.add(json!({"kind": "cron", "expr": "0 13 * * *", "tz": "UTC"}), json!({})).await;
    scene.set(NOON + 20 * DAY).await;
    scene.wait_for_next(&id, NOON + HOUR + 20 * DAY).await;
    let mut told = Hold::of(&scene.place, |event| {
        event["action"] == "updated" && event["nextRunAtMs"] == NOON + HOUR
    });
    tokio::join!(scene.set(NOON), async move {
        told.came().await;
        told.let_go();
    });
}

#[tokio::test]
async fn a_job_whose_instant_has_had_its_run_does_not_run_when_somebody_asks_for_what_is_due() {
    let scene = Scene::new().await;
    let id = scene.add(json!({"kind": "every", "everyMs": 10 * SECOND}), json!({})).await;
    scene.set(NOON + 10 * SECOND).await;
    scene.wait_for(&id, 1).await;
    scene.set(NOON).await;
    scene.wait_for_next(&id, NOON + 10 * SECOND).await;
    scene.turn_off();
    scene.hands.0.store(NOON + 10 * SECOND, Ordering::SeqCst);
    // Not for a moment either: a kill would leave it so.
    let refusal = "CREATE TRIGGER refusal BEFORE UPDATE ON cron_jobs
         WHEN instr(NEW.job, 'runningAtMs') BEGIN SELECT RAISE(ABORT, 'it counts as running'); END";
    scene.place.database().execute_batch(refusal).unwrap();
    assert!(matches!(scene.cron.ask(&id, true).await.unwrap(), Asked::NotDue));
    let state = &scene.job(&id).await["state"];
    assert_eq!(state["runningAtMs"], Value::Null, "it counts as running");
    assert_eq!(state["nextRunAtMs"], NOON + 20 * SECOND);
    assert_eq!((scene.cron.running(), scene.rows(&id).await.len()), (0, 1));
}

#[tokio::test]
async fn whoever_asks_for_what_is_due_has_the_last_instant_run_and_the_others_have_rows() {
    let scene = Scene::new().await;
    let id = scene.add(json!({"kind": "every", "everyMs": 10 * SECOND}), json!({})).await;
    scene.turn_off();
    scene.hands.0.store(NOON + 35 * SECOND, Ordering::SeqCst);
    drop(scene.cron.ask(&id, true).await.unwrap());
    let rows = scene.wait_for(&id, 3).await;
    let missed = rows.iter().filter(|row| row["missed"] == true);
    let missed: BTreeSet<_> = missed.map(|row| row["runAtMs"].as_u64().unwrap()).collect();
    assert_eq!(missed, BTreeSet::from([NOON + 10 * SECOND, NOON + 20 * SECOND]), "{rows:?}");
    assert_eq!((rows.len(), count(&rows, |row| row["status"] == "ok")), (3, 1), "{rows:?}");
    assert_eq!(scene.job(&id).await["state"]["nextRunAtMs"], NOON + 40 * SECOND);
}

#[tokio::test]
async fn what_somebody_asks_for_while_a_start_looks_at_the_last_runs_is_none_of_those() {
    let scene = Scene::still().await;
    let id = scene.add(json!({"kind": "every", "everyMs": HOUR}), json!({})).await;
    drop(scene.cron.ask(&id, false).await.unwrap());
    scene.schedule();
    let rows = scene.wait_for(&id, 1).await;
    assert_eq!(rows[0]["status"], "ok", "{rows:?}");
}

/// A log that counts how often a job was not looked at, on this thread.
struct Refusals(Arc<AtomicUsize>);

impl<S: Subscriber> Layer<S> for Refusals {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let about = event.metadata();
        if *about.level() == Level::WARN && about.target() == "clawgate::cron::scheduler" {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[tokio::test]
async fn a_job_that_the_database_does_not_take_delays_no_other() {
    let scene = Scene::new().await;
    let refusals = Arc::new(AtomicUsize::new(0));
    let log = tracing_subscriber::registry().with(Refusals(Arc::clone(&refusals)));
    let _log = tracing::subscriber::set_default(log);
    let often = json!({"kind": "every", "everyMs": SECOND});
    let refused = scene.add(often.clone(), json!({})).await;
    let taken = scene.add(often, json!({})).await;
    let refusal = format!(
        "CREATE TRIGGER refusal BEFORE UPDATE ON cron_jobs WHEN OLD.id = '{refused}'
         BEGIN SELECT RAISE(ABORT, 'as the test wants it'); END"
    );
    scene.place.database().execute_batch(&refusal).unwrap();
    scene.set(NOON + SECOND).await;
    assert_eq!(scene.wait_for(&taken, 1).await[0]["status"], "ok");
    let (deadline, mut wanted) = (Instant::now() + LIMIT, usize::MAX);
    // The end of the run has the scheduler look once more; after that nothing does.
    while refusals.load(Ordering::SeqCst) < wanted {
        assert!(Instant::now() < deadline, "it is not tried again");
        if wanted == usize::MAX && scene.cron.running() == 0 {
            wanted = refusals.load(Ordering::SeqCst) + 2;
        }
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(scene.cron.stuck(), [refused.as_str()], "health tells it");
    // The refused one is let rest for longer than this.
    scene.hands.0.store(NOON + 2 * SECOND, Ordering::SeqCst);
    let next = timeout(Duration::from_secs(4), scene.wait_for(&taken, 2)).await;
    next.expect("the next instant is late");
    assert_eq!(scene.rows(&refused).await, Vec::<Value>::new());
    scene.place.database().execute_batch("DROP TRIGGER refusal").unwrap();
    scene.wait_for(&refused, 1).await;
    let deadline = Instant::now() + LIMIT;
    while !scene.cron.stuck().is_empty() {
        assert!(Instant::now() < deadline, "it is taken again");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_run_has_ended_once_also_when_it_breaks_what_tells_its_end() {
    let scene = Scene::new().await;
    let id = scene.add(json!({"kind": "every", "everyMs": 10 * SECOND}), json!({})).await;
    let _told = Hold::of(&scene.place, |event| {
        assert_ne!(event["action"], "finished", "as the test wants it");
        false
    });
    scene.set(NOON + 10 * SECOND).await;
    scene.wait_for_panic().await;
    let state = &scene.job(&id).await["state"];
    assert_eq!((&state["lastRunStatus"], &state["consecutiveErrors"]), (&json!("ok"), &json!(0)));
    assert_eq!(scene.cron.running(), 0);
}

#[tokio::test]
async fn a_run_whose_job_is_removed_has_ended_also_when_it_breaks_what_tells_its_end() {
    let scene = Scene::new().await;
    let id = scene.add(json!({"kind": "every", "everyMs": 10 * SECOND}), slow()).await;
    scene.set(NOON + 10 * SECOND).await;
    scene.wait_for_claim(&id).await;
    let _told = Hold::of(&scene.place, |event| {
        assert_ne!(event["action"], "finished", "as the test wants it");
        false
    });
    scene.cron.remove(&id).await.unwrap();
    scene.wait_for_panic().await;
    assert_eq!(scene.cron.running(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_cannot_be_read_when_it_is_due_is_not_told_as_one_that_runs() {
    let scene = Scene::new().await;
    let daily = json!({"kind": "cron", "expr": "0 13 * * *", "tz": "UTC", "staggerMs": 0});
    let id = scene.add(daily.clone(), json!({})).await;
    let later = scene.add(daily, json!({})).await;
    let unknown = scene.job(&id).await.to_string().replace("\"UTC\"", "\"Mars/Olympus\"");
    scene.write(&id, unknown).await;
    // Held back it would keep the other one from its run.
    let _told = Hold::of(&scene.place, |event| event["action"] == "updated");
    timeout(LIMIT, scene.set(NOON + HOUR)).await.expect("something is told");
    assert_eq!(scene.wait_for(&later, 1).await[0]["status"], "ok");
    let due = scene.place.store.due_cron_jobs(NOON + HOUR).await.unwrap();
    assert_eq!(due, Vec::<String>::new(), "it is due no more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_job_is_removed_counts_until_its_end_is_written() {
    let scene = Scene::new().await;
    let id = scene.add(json!({"kind": "every", "everyMs": 10 * SECOND}), slow()).await;
    scene.set(NOON + 10 * SECOND).await;
    scene.wait_for_claim(&id).await;
    let mut told = Hold::of(&scene.place, |event| event["action"] == "finished");
    scene.cron.remove(&id).await.unwrap();
    told.came().await;
    assert_eq!((scene.cron.running(), scene.rows(&id).await.len()), (1, 1));
    told.let_go();
    scene.cron.stop();
    scene.place.idle().await;
    assert_eq!(scene.cron.running(), 0);
}

#[tokio::test]
async fn a_scheduler_that_the_database_fails_ends_with_the_gateway() {
    let scene = Scene::still().await;
    scene.place.database().execute_batch("ALTER TABLE cron_runs RENAME TO away").unwrap();
    let (faults, _log) = faults();
    scene.schedule();
    timeout(LIMIT, faults.notified()).await.expect("the database does not fail");
    scene.cron.stop();
    // It rests for longer after a fault.
    let ending = timeout(Duration::from_secs(4), scene.place.idle());
    ending.await.expect("it rests though the gateway stops");
}

#[tokio::test]
async fn the_log_keeps_the_newest_runs_of_a_job() {
    let scene = Scene::new().await;
    let id = scene.add(json!({"kind": "every", "everyMs": SECOND}), json!({"missed": "run"})).await;
    scene.set(NOON + 2 * HOUR).await;
    let rows = scene.wait_for(&id, 2000).await;
    let deadline = Instant::now() + LIMIT;
    while scene.rows(&id).await.iter().all(|row| row["status"] != "ok") {
        assert!(Instant::now() < deadline, "the last one does not run");
        sleep(Duration::from_millis(5)).await;
    }
    assert!(rows.len() <= 2000, "{}", rows.len());
    let oldest = scene.rows(&id).await[0]["runAtMs"].as_u64().unwrap();
    assert!(oldest >= NOON + 2 * HOUR - 2000 * SECOND, "{oldest}");
    drop(scene.place);
}

#[tokio::test]
async fn sessions_of_runs_go_after_a_day_and_the_job_shows_the_last_one() {
    let scene = Scene::new().await;
    let apart = json!({"sessionTarget": "isolated", "delivery": {"mode": "none"},
        "payload": {"kind": "agentTurn", "message": "@mock text text=x"}});
    let id = scene.add(json!({"kind": "every", "everyMs": 2 * DAY}), apart).await;
    let mut keys = Vec::new();
    for step in 1..=2_u64 {
        scene.set(NOON + step * 2 * DAY).await;
        let rows = scene.wait_for(&id, usize::try_from(step).unwrap()).await;
        let row = rows.last().unwrap();
        assert_eq!(row["status"], "ok", "{row}");
        keys.push(row["sessionKey"].as_str().unwrap().to_owned());
    }
    let entry = async |key: &str| {
        let key = SessionKey::from_canonical(key);
        scene.place.sessions.entry(&key).await.unwrap()
    };
    let deadline = Instant::now() + LIMIT;
    while entry(&keys[0]).await.is_some() {
        assert!(Instant::now() < deadline, "{} stays", keys[0]);
        sleep(Duration::from_millis(5)).await;
    }
    let last = entry(&keys[1]).await.expect("the last run has no session");
    let shown = entry(&format!("agent:main:cron:{id}")).await.expect("the job has no session");
    assert_eq!(shown.session_id, last.session_id);
}

fn slow() -> Value {
    json!({"sessionTarget": "isolated", "delivery": {"mode": "none"},
        "payload": {"kind": "agentTurn", "message": "@mock stream n=10 delay=100"}})
}

#[tokio::test]
async fn a_run_that_was_asked_for_begins_though_who_asked_has_gone() {
    let scene = Scene::new().await;
    let id = scene.add(json!({"kind": "every", "everyMs": HOUR}), json!({})).await;
    for count in 1..=2 {
        let mut asking = Box::pin(scene.cron.ask(&id, false));
        assert!(futures_util::poll!(&mut asking).is_pending());
        drop(asking);
        let rows = scene.wait_for(&id, count).await;
        assert_eq!(rows[count - 1]["status"], "ok", "{rows:?}");
    }
}

/// Begins to ask, and goes away.
async fn go_away<T>(asking: impl Future<Output = T>) {
    let mut asking = Box::pin(asking);
    let _ = futures_util::poll!(&mut asking);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_a_job_is_told_though_who_asked_has_gone() {
    let scene = Scene::new().await;
    let hour = json!({"kind": "every", "everyMs": HOUR});
    let id = scene.add(hour.clone(), json!({})).await;
    let mut told = Hold::of(&scene.place, |event| event["action"] == "added");
    go_away(scene.add(hour, json!({}))).await;
    told.came().await;
    told.let_go();

    let mut told = Hold::of(&scene.place, |event| event["action"] == "updated");
    go_away(scene.update(&id, json!({"name": "another"}))).await;
    told.came().await;
    told.let_go();

    let mut told = Hold::of(&scene.place, |event| event["action"] == "removed");
    go_away(scene.cron.remove(&id)).await;
    told.came().await;
    told.let_go();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_nobody_hears_of_begins_without_its_turn_to_be_told() {
    let scene = Scene::new().await;
    let hour = json!({"kind": "every", "everyMs": HOUR});
    let id = scene.add(hour.clone(), slow()).await;
    let other = scene.add(hour, json!({})).await;
    let mut told = Hold::of(&scene.place, |event| event["action"] == "updated");
    go_away(scene.update(&other, json!({"name": "another"}))).await;
    told.came().await;
    *scene.place.ear.deaf_to.lock() = Some(EventKind::Cron);
    drop(scene.cron.ask(&id, false).await.unwrap());
    let deadline = Instant::now() + LIMIT;
    while scene.place.runs.counts().0 == 0 {
        assert!(Instant::now() < deadline, "it waits until the change is told");
        sleep(Duration::from_millis(5)).await;
    }
    told.let_go();
    assert_eq!(scene.wait_for(&id, 1).await[0]["status"], "ok");
}

#[tokio::test]
async fn a_job_that_waits_for_its_place_at_a_stop_is_due_again() {
    let scene = Scene::new().await;
    let at = |seconds: u64| json!({"kind": "at", "at": (NOON + seconds * SECOND).to_string()});
    let mut jobs = Vec::new();
    for _ in 0..=scene.place.runs.parts().settings.now().cron.max_concurrent {
        jobs.push(scene.add(at(10), slow()).await);
    }
    scene.set(NOON + 10 * SECOND).await;
    for id in &jobs {
        scene.wait_for_claim(id).await;
    }
    let deadline = Instant::now() + LIMIT;
    scene.cron.stop();
    let due = async || scene.place.store.due_cron_jobs(NOON + 10 * SECOND).await.unwrap();
    while due().await.is_empty() {
        assert!(Instant::now() < deadline, "no job is due again");
        sleep(Duration::from_millis(5)).await;
    }
    scene.place.idle().await;
    let again = due().await;
    for id in &again {
        let job = scene.job(id).await;
        assert_eq!(job["enabled"], true, "{job}");
        assert!(job["state"]["runningAtMs"].is_null(), "{job}");
        assert_eq!(scene.rows(id).await, Vec::<Value>::new());
    }
    assert_eq!(scene.place.store.open_cron_runs().await.unwrap(), []);
}

#[tokio::test]
async fn what_somebody_asked_for_before_a_stop_and_hears_of_after_it_is_put_back_or_told() {
    let scene = Scene::new().await;
    let at = json!({"kind": "at", "at": (NOON + HOUR).to_string()});
    let once = scene.add(at, json!({})).await;
    let daily = scene.add(json!({"kind": "every", "everyMs": DAY}), json!({})).await;
    scene.turn_off();
    scene.hands.0.store(NOON + HOUR, Ordering::SeqCst);
    let asked =
        [scene.cron.ask(&once, true).await.unwrap(), scene.cron.ask(&daily, false).await.unwrap()];
    assert!(asked.iter().all(|asked| matches!(asked, Asked::Enqueued(..))));
    scene.cron.stop();
    drop(asked);
    scene.place.idle().await;
    assert_eq!(scene.place.store.open_cron_runs().await.unwrap(), []);
    assert_eq!(scene.place.store.due_cron_jobs(NOON + HOUR).await.unwrap(), [once.as_str()]);
    let job = scene.job(&once).await;
    assert_eq!((&job["enabled"], &job["state"]["runningAtMs"]), (&json!(true), &Value::Null));
    assert_eq!(scene.rows(&once).await, Vec::<Value>::new());
    let rows = scene.rows(&daily).await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["error"], "skipped: the gateway stopped before it began");
    // Who comes after that is not told that it begins.
    let refusal = scene.cron.ask(&daily, false).await.err().unwrap().to_string();
    assert!(refusal.contains("the gateway is stopping"), "{refusal}");
    assert_eq!(scene.cron.running(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_instant_that_is_moved_while_its_run_waits_runs_once_and_at_the_new_one() {
    let scene = Scene::new().await;
    let at = |seconds: u64| json!({"kind": "at", "at": (NOON + seconds * SECOND).to_string()});
    let once = json!({"sessionTarget": "isolated", "delivery": {"mode": "none"},
        "deleteAfterRun": false,
        "payload": {"kind": "agentTurn", "message": "@mock text text=x"}});
    let id = scene.add(at(10), once).await;
    let row = SessionKey::from_canonical(format!("agent:main:cron:{id}"));
    let held = scene.place.runs.hold_behind(&row, Owner::gateway()).await.unwrap();
    scene.set(NOON + 10 * SECOND).await;
    scene.wait_for_claim(&id).await;
    let deadline = Instant::now() + LIMIT;
    let mut told = Hold::of(&scene.place, |event| {
        event["action"] == "updated" && event["job"]["state"]["runningAtMs"].is_null()
    });
    scene.update(&id, json!({"schedule": at(60)})).await.unwrap();
    // Its session is not waited for, and clients hear that it does not run.
    told.came().await;
    told.let_go();
    while !scene.job(&id).await["state"]["runningAtMs"].is_null() {
        assert!(Instant::now() < deadline, "it still waits");
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(scene.rows(&id).await, Vec::<Value>::new(), "its old instant is no more");
    held.end(RunEnd::Answered).await;
    scene.wait_for_next(&id, NOON + 60 * SECOND).await;
    scene.set(NOON + 60 * SECOND).await;
    let rows = scene.wait_for(&id, 1).await;
    assert_eq!((rows.len(), &rows[0]["status"]), (1, &json!("ok")), "{rows:?}");
    assert_eq!(rows[0]["runAtMs"], NOON + 60 * SECOND);
}

fn named(session: &str) -> SessionKey {
    SessionKey::parse(session, &KeyRules::default())
}

impl Scene {
    /// Runs a job in a session.
    async fn run_in(&self, session: &str, message: &str) -> String {
        let job = json!({"sessionTarget": format!("session:{session}"),
            "delivery": {"mode": "none"},
            "payload": {"kind": "agentTurn", "message": message}});
        let id = self.add(json!({"kind": "every", "everyMs": HOUR}), job).await;
        // It begins as the answer goes.
        drop(self.cron.ask(&id, false).await.unwrap());
        id
    }

    /// Takes all places, the first one in the session `full-0`.
    async fn fill(&self) {
        let (runs, deadline) = (&self.place.runs, Instant::now() + LIMIT);
        let places = runs.parts().settings.now().cron.max_concurrent;
        for index in 0..places {
            self.run_in(&format!("full-{index}"), "@mock stream n=2000 delay=20").await;
        }
        while runs.counts().0 < places {
            assert!(Instant::now() < deadline, "there are places left");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// A job that waits for a place, and is in line for this session.
    async fn wait_in(&self, session: &str) -> String {
        let (id, deadline) =
            (self.run_in(session, "@mock text text=x").await, Instant::now() + LIMIT);
        while !self.place.runs.is_in_use(&named(session)) {
            assert!(Instant::now() < deadline, "nobody waits for the session");
            sleep(Duration::from_millis(5)).await;
        }
        id
    }
}

#[tokio::test]
async fn who_makes_a_session_quiet_stops_the_jobs_that_wait_for_it_as_well() {
    let scene = Scene::new().await;
    scene.fill().await;
    let (runs, diary) = (&scene.place.runs, named("diary"));
    let id = scene.wait_in("diary").await;
    assert!(!runs.is_busy(&diary), "nothing runs there");
    // A message in the place of what runs there takes nothing away that waits for a place.
    assert!(!runs.make_room(&diary, AbortReason::Rpc).await.unwrap());
    assert!(runs.is_in_use(&diary), "it waits no more");
    assert!(runs.active(&diary).is_none(), "the session is kept from others");
    runs.interrupt(&diary, AbortReason::Interrupt).await.unwrap();
    let rows = scene.wait_for(&id, 1).await;
    assert_eq!(rows[0]["error"], "somebody stopped it", "{rows:?}");
    assert_eq!(rows[0]["sessionKey"], Value::Null, "it has not begun");
    assert!(!runs.is_in_use(&diary));
}

#[tokio::test]
async fn a_job_that_cannot_be_read_while_its_run_waits_is_run_once_it_can() {
    let scene = Scene::new().await;
    scene.fill().await;
    let (id, other) = (scene.wait_in("diary").await, scene.wait_in("letters").await);
    let readable = scene.write(&id, "no job".into()).await;
    scene.update(&other, json!({"enabled": false})).await.unwrap();
    // All that wait have looked at their jobs by then.
    assert_eq!(scene.wait_for(&other, 1).await[0]["status"], "skipped");
    scene.write(&id, readable).await;
    scene.place.runs.interrupt(&named("full-0"), AbortReason::Interrupt).await.unwrap();
    let rows = scene.wait_for(&id, 1).await;
    assert_eq!(rows[0]["status"], "ok", "{rows:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_begins_to_be_told_while_the_log_of_a_job_that_is_gone_is_shortened() {
    let scene = Scene::new().await;
    let (runs, deadline) = (&scene.place.runs, Instant::now() + LIMIT);
    let diary = runs.hold_behind(&named("diary"), Owner::gateway()).await.unwrap();
    let waits = scene.run_in("diary", "@mock text text=x").await;
    let gone = scene.run_in("letters", "@mock stream n=2000 delay=20").await;
    while runs.counts().0 == 0 {
        assert!(Instant::now() < deadline, "it does not run");
        sleep(Duration::from_millis(5)).await;
    }
    let mut told = Hold::of(&scene.place, |event| event["action"] == "finished");
    scene.cron.remove(&gone).await.unwrap();
    runs.interrupt(&named("letters"), AbortReason::Interrupt).await.unwrap();
    told.came().await;
    // From here on nothing is written, the log neither.
    let (tell, blocked) = oneshot::channel();
    let (go, wait) = mpsc::channel::<()>();
    let edit = move |_: &CronJobRow| -> Option<CronChange> {
        let _ = tell.send(());
        let _ = wait.recv();
        None
    };
    let mut writing = scene.place.store.edit_cron_job(&waits, Box::new(edit));
    assert!(futures_util::poll!(&mut writing).is_pending());
    timeout(LIMIT, blocked).await.expect("it is not written").unwrap();
    let mut started = Hold::of(&scene.place, |event| event["action"] == "started");
    told.let_go();
    diary.end(RunEnd::Answered).await;
    started.came().await;
    started.let_go();
    drop(go);
    writing.await.unwrap();
    assert_eq!(scene.wait_for(&waits, 1).await[0]["status"], "ok");
}
