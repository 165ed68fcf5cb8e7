//! A system call fails while a gateway works.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::Trials;
use crate::check::{World, index_agrees, read_all, works};
use crate::stage::Stage;
use crate::steps::{STORY, Step};
use crate::strace::{Fault, Injection, Launcher};
use crate::support::not_run;

/// Calls that change what is on a disk. Of `write` and `openat` only those about files
/// that are there already: the others are not the gateway's, or wake threads.
pub const CALLS: [&str; 8] = [
    "fsync,fdatasync",
    "pwrite64",
    "write",
    "openat",
    "rename,renameat,renameat2",
    "unlink,unlinkat",
    "mkdir,mkdirat",
    "ftruncate,link,linkat,copy_file_range",
];
/// What they fail with.
pub const ERRORS: [&str; 2] = ["EIO", "ENOSPC"];
/// No thread makes more such calls for one step.
const CALLS_MAX: u32 = 400;

/// One way to fail: the first, second, third … such call of each thread, until
/// there are no more.
#[derive(Debug, Clone, Copy)]
struct Way {
    step: Step,
    calls: &'static str,
    error: &'static str,
}

/// All files below a folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found
}

/// A gateway on which one thing after the other fails.
struct Trial {
    stage: Stage,
    world: World,
    rounds: u32,
}

impl Trial {
    /// Does a step with a fault; whether there was something that could fail.
    async fn fail(&mut self, way: Way, nth: u32) -> bool {
        let Way { step, calls, error } = way;
        self.rounds += 1;
        let (tag, after) = (format!("t{}", self.rounds), format!("{way:?}, call {nth}"));
        for needed in step.needs() {
            self.succeed(*needed, &tag, &after).await;
        }
        let all = if calls == "write" { files(self.stage.gateway.root()) } else { Vec::new() };
        let fault = Fault { calls, error, when: nth.to_string(), files: all };
        let process = self.stage.gateway.pid().unwrap();
        let injection = Injection::into(process, &fault).unwrap();
        let parts = step.perform(&mut self.stage, &tag).await;
        let has_failed = injection.end();
        for part in &parts {
            self.world.note(part);
            assert!(part.is_ok || has_failed, "{after}: {}", part.said);
        }
        if !has_failed {
            return false;
        }
        self.stage.gets_well(&after).await;
        let again = format!("{tag}-again");
        for step in step.needs().iter().copied().chain([step]) {
            self.succeed(step, &again, &after).await;
        }
        self.stage.gateway.kill9();
        self.begin_again(&after).await;
        true
    }

    async fn succeed(&mut self, step: Step, tag: &str, after: &str) {
        for part in step.perform(&mut self.stage, tag).await {
            let log = self.stage.gateway.stderr();
            assert!(part.is_ok, "{after}: {step:?} of {tag}: {}\n{log}", part.said);
            self.world.note(&part);
        }
    }

    async fn begin_again(&mut self, after: &str) {
        let started = self.stage.gateway.try_restart().await;
        assert_eq!(started, Ok(()), "{after}");
        self.stage.gets_well(after).await;
        let mut client = self.stage.operator().await;
        self.world.check(&mut self.stage, &mut client, after).await;
        self.stage.has_no_panic(after);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whichever_call_fails_nothing_acknowledged_is_lost_and_nobody_has_to_help() {
    let stage = Stage::new(Launcher::new()).await;
    if let Some(why) = refusal(&stage) {
        return not_run(&why);
    }
    let mut trials = Trials::of("errors");
    let ways = STORY.iter().flat_map(|step| {
        CALLS.iter().flat_map(|calls| ERRORS.map(|error| Way { step: *step, calls, error }))
    });
    let ways = trials.shuffled(ways.collect());
    let mut trial = Trial { stage, world: World::default(), rounds: 0 };
    let mut failed = 0;
    for way in ways {
        let mut nth = 1;
        while nth <= CALLS_MAX && !trials.are_over() && trial.fail(way, nth).await {
            failed += 1;
            nth += 1;
        }
        assert!(nth <= CALLS_MAX, "{way:?} goes on failing");
        println!("{way:?}: {} times", nth - 1);
    }
    trials.have_tried(failed, "calls failed");
    works(&mut trial.stage, "all of them").await;
    let mut client = trial.stage.operator().await;
    let read = read_all(&mut trial.stage, &mut client).await;
    trial.stage.gateway.terminate().await.expect("an end");
    index_agrees(&trial.stage.gateway.state_dir(), &read, "all of them").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_written_is_named_as_long_as_it_lasts_and_no_longer() {
    let mut stage = Stage::new(Launcher::new()).await;
    if let Some(why) = refusal(&stage) {
        return not_run(&why);
    }
    for part in Step::Say.perform(&mut stage, "one").await {
        assert!(part.is_ok, "{}", part.said);
    }
    let folder = stage.gateway.state_dir().join("agents/main/sessions");
    for (part, step, files) in
        [("store", Step::Label, Vec::new()), ("transcripts", Step::Note, files(&folder))]
    {
        let always = "1+".to_owned();
        let fault = Fault { calls: "fsync,fdatasync", error: "EIO", when: always, files };
        let process = stage.gateway.pid().unwrap();
        let injection = Injection::into(process, &fault).unwrap();
        let refused = step.perform(&mut stage, "one").await;
        assert!(!refused[0].is_ok, "{}", refused[0].said);
        if part == "store" {
            // Looking again changes nothing as long as it lasts.
            assert_eq!(stage.readiness().await, (false, json!([part])));
        }
        let service = health_of(&mut stage, part).await;
        assert_eq!(service["ok"], false, "{service}");
        assert!(service["error"].as_str().unwrap().starts_with("cannot "), "{service}");
        assert!(injection.end());
        stage.gets_well(part).await;
        assert_eq!(health_of(&mut stage, part).await["ok"], true);
        let mut client = stage.operator().await;
        let mut world = World::default();
        let before = refused[0].cells.iter().map(|(name, _)| (name.clone(), Value::Null));
        world.is_so(&before.collect::<Vec<_>>());
        world.check(&mut stage, &mut client, "what was refused is not there").await;
        let accepted = step.perform(&mut stage, "one").await;
        world.note(&accepted[0]);
        world.check(&mut stage, &mut client, "what was accepted is there once").await;
    }
}

/// What `health` tells of a part of the gateway.
async fn health_of(stage: &mut Stage, part: &str) -> Value {
    let mut client = stage.operator().await;
    let told = stage.ask(&mut client, "health", json!({"probe": true})).await.payload();
    told["services"][part].clone()
}

/// Why nothing can fail here, if so.
fn refusal(stage: &Stage) -> Option<String> {
    let process = stage.gateway.pid().unwrap();
    let nothing = Fault { calls: "fsync", error: "EIO", when: "1".into(), files: vec!["/".into()] };
    let why = Injection::into(process, &nothing).err()?;
    // Nobody keeps one who may do all from doing this.
    Some(format!(
        "what becomes of failing system calls: strace cannot attach to the gateway \
         of this user: {why}; install strace, and run as root or after `sysctl \
         kernel.yama.ptrace_scope=0`"
    ))
}
