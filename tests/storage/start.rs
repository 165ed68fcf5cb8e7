//! A system call fails while a gateway begins.

use crate::Trials;
use crate::check::World;
use crate::disk::{Disk, Fate};
use crate::errors::{CALLS, ERRORS, files};
use crate::power::ended_log;
use crate::stage::Stage;
use crate::steps::STORY;
use crate::strace::{Fault, Launcher, unusable};
use crate::support::not_run;

/// A gateway that was killed, and begins from the same files again and again.
struct Beginner {
    stage: Stage,
    disk: Disk,
    world: World,
}

impl Beginner {
    async fn new() -> Self {
        let mut stage = Stage::new(Launcher::new()).await;
        let mut world = World::default();
        for step in STORY {
            for part in step.perform(&mut stage, "one").await {
                assert!(part.is_ok, "{step:?}: {}", part.said);
                world.note(&part);
            }
        }
        stage.gateway.kill9();
        let disk = Disk::of(stage.gateway.root());
        Self { stage, disk, world }
    }

    /// Begins with a fault, and then without one; whether there was something that
    /// could fail.
    async fn begin(&mut self, calls: &'static str, error: &'static str, nth: u32) -> bool {
        let after = format!("{calls}: {error} at call {nth}");
        let stage = &mut self.stage;
        self.disk.leave(0, Fate::Kept);
        let is_general = calls == "write" || calls == "openat";
        let files = if is_general { files(stage.gateway.root()) } else { Vec::new() };
        stage.launcher.fail(&Fault { calls, error, when: nth.to_string(), files });
        match stage.gateway.try_restart().await {
            Ok(()) => stage.gets_well(&after).await,
            Err(said) => {
                assert!(said.starts_with("the gateway ended with"), "{after}: {said}");
                assert!(said.contains("cannot "), "{after}: it does not say why: {said}");
            }
        }
        stage.gateway.kill9();
        let log = ended_log(&stage.launcher, stage.launcher.process()).await;
        stage.launcher.leave_alone();
        let started = stage.gateway.try_restart().await;
        assert_eq!(started, Ok(()), "{after}");
        stage.gets_well(&after).await;
        let mut client = stage.operator().await;
        self.world.check(stage, &mut client, &after).await;
        stage.has_no_panic(&after);
        stage.gateway.kill9();
        log.contains("(INJECTED)")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_meets_a_failing_call_says_why_and_the_next_one_has_everything() {
    if let Some(why) = unusable() {
        return not_run(&why);
    }
    let mut trials = Trials::of("start");
    let ways = CALLS.iter().flat_map(|calls| ERRORS.map(|error| (*calls, error)));
    let ways = trials.shuffled(ways.collect());
    let mut beginner = Beginner::new().await;
    let mut failed = 0;
    for (calls, error) in ways {
        let mut nth = 1;
        while !trials.are_over() && beginner.begin(calls, error, nth).await {
            failed += 1;
            nth += 1;
        }
        println!("{calls}: {error}: {} times", nth - 1);
    }
    trials.have_tried(failed, "starts with a call that failed");
}
