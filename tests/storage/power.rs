//! The power fails between two system calls.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::Trials;
use crate::calls;
use crate::check::{World, index_agrees, read_all, works};
use crate::dice::Dice;
use crate::disk::{Disk, Fate};
use crate::stage::Stage;
use crate::steps::{Part, STORY};
use crate::strace::{Launcher, unusable};
use crate::support::not_run;

/// What all things are named after.
const TAG: &str = "one";
/// Until the log of a gateway that has ended is whole.
const LOG_LIMIT: Duration = Duration::from_secs(30);

/// A gateway that did each thing once and was stopped, and all that it did.
struct Recording {
    stage: Stage,
    disk: Disk,
    /// What was answered, and after how many events.
    told: Vec<(usize, Part)>,
}

impl Recording {
    async fn make() -> Self {
        let mut stage = Stage::new(Launcher::new()).await;
        stage.gateway.terminate().await.expect("an end");
        let root = stage.gateway.root().to_owned();
        empty(&root, &stage.gateway.config_path());
        let mut disk = Disk::of(&root);
        stage.launcher.record();
        stage.gateway.restart().await;
        let process = stage.gateway.pid().unwrap();
        let mut parts = Vec::new();
        for step in STORY {
            let done = step.perform(&mut stage, TAG).await;
            let refused = done.iter().find(|part| !part.is_ok).map(|part| &part.said);
            assert_eq!(refused, None, "{step:?}: {}", stage.gateway.stderr());
            parts.extend(done);
        }
        stage.gateway.terminate().await.expect("an end");
        stage.launcher.leave_alone();
        let log = ended_log(&stage.launcher, process).await;
        calls::read(&log).iter().for_each(|call| disk.note(call));
        let mut told: Vec<(usize, Part)> = Vec::new();
        for part in parts {
            let from = told.last().map_or(0, |(moment, _)| *moment);
            let marks: Vec<_> = part.marks.iter().map(String::as_str).collect();
            let moment = disk.told(from, &marks);
            told.push((moment.unwrap_or_else(|| panic!("{} is not in the log", part.said)), part));
        }
        Self { stage, disk, told }
    }

    /// What is so at a moment, and what may be so already.
    fn world(&self, moment: usize) -> World {
        let mut world = World::default();
        let known = self.told.iter().take_while(|(told, _)| *told <= moment).count();
        self.told[..known].iter().for_each(|(_, part)| world.is_so(&part.cells));
        // What was asked next was under way.
        if let Some((_, next)) = self.told.get(known) {
            world.may_be_so(&next.cells);
        }
        world
    }

    /// Loses the power after so many events, and starts again.
    async fn fail_at(&mut self, moment: usize, fate: Fate<'_>) {
        let after = format!("{fate:?} after {moment} of {} events", self.disk.len());
        let mut world = self.world(moment);
        let stage = &mut self.stage;
        self.disk.leave(moment, fate);
        let started = stage.gateway.try_restart().await;
        assert_eq!(started, Ok(()), "{after}");
        stage.gets_well(&after).await;
        let mut client = stage.operator().await;
        world.check(stage, &mut client, &after).await;
        works(stage, &after).await;
        let read = read_all(stage, &mut client).await;
        stage.has_no_panic(&after);
        stage.gateway.terminate().await.expect("an end");
        index_agrees(&stage.gateway.state_dir(), &read, &after).await;
    }
}

/// Leaves nothing but the folders and the config file.
fn empty(root: &Path, config: &Path) {
    let text = fs::read(config).unwrap();
    for folder in ["home", "state", "workspace", "tmp"] {
        fs::remove_dir_all(root.join(folder)).unwrap();
        fs::create_dir(root.join(folder)).unwrap();
    }
    fs::write(config, text).unwrap();
}

/// What was written of a gateway, once it has ended.
pub async fn ended_log(launcher: &Launcher, process: u32) -> String {
    let deadline = Instant::now() + LOG_LIMIT;
    loop {
        if let Some(log) = launcher.ended_log(process) {
            return log;
        }
        assert!(Instant::now() < deadline, "strace has not seen the end of the gateway");
        sleep(Duration::from_millis(20)).await;
    }
}

/// What becomes of what nobody synced.
#[derive(Debug, Clone, Copy)]
enum Loss {
    None,
    All,
    Some,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_loss_between_any_two_calls_takes_nothing_that_was_acknowledged() {
    if let Some(why) = unusable() {
        return not_run(&why);
    }
    let mut recording = Recording::make().await;
    let mut trials = Trials::of("power");
    let moments: Vec<_> =
        (0..=recording.disk.len()).filter(|moment| recording.disk.changes_at(*moment)).collect();
    println!("{} events, {} moments", recording.disk.len(), moments.len());
    assert!(moments.len() > 300, "all was recorded");
    let losses = [Loss::None, Loss::All, Loss::Some];
    let all: Vec<_> =
        moments.iter().flat_map(|moment| losses.map(|loss| (*moment, loss))).collect();
    let mut tried = 0;
    for (moment, loss) in trials.shuffled(all) {
        if trials.are_over() {
            break;
        }
        let mut dice = Dice::new(Some(trials.dice.seed() ^ moment as u64));
        let fate = match loss {
            Loss::None => Fate::Kept,
            Loss::All => Fate::Lost,
            Loss::Some => Fate::Mixed(&mut dice),
        };
        recording.fail_at(moment, fate).await;
        tried += 1;
    }
    trials.have_tried(tried, "power losses");
}
