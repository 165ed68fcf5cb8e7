//! A recording that is played back must pass without a single allowed
//! difference.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::corpus::Corpus;
use crate::playback::Playback;
use crate::replay::{Target, replay};
use crate::text::Places;
use crate::trace::{Line, Trace, What};
use crate::verdict::Verdict;

/// All recordings are played at once, which takes a minute on a busy machine;
/// only a hang reaches this.
const HANG: Duration = Duration::from_mins(5);

fn placeholders() -> Places {
    Places {
        state_dir: "<STATE_DIR>".to_owned(),
        home: "<HOME>".to_owned(),
        workspace: "<WORKSPACE>".to_owned(),
        root: "<RUN_DIR>".to_owned(),
    }
}

async fn replayed(trace: &Trace, playback: Playback) -> Verdict {
    let target = Target {
        address: playback.address.clone(),
        places: placeholders(),
        new_devices: false,
        limit: HANG,
    };
    Verdict::of(trace, &replay(trace, &target).await)
}

/// The verdicts on all recorded sockets and requests, with the ids as recorded or others.
async fn play_all(renamed: bool) -> Vec<Verdict> {
    let corpus = Corpus::find();
    let traces = corpus.names().into_iter().map(|name| corpus.load(&name));
    let is_played = |line: &Line| line.is_socket() || matches!(line.what, What::Http(_));
    let is_playable = |trace: &Trace| trace.lines.iter().any(is_played);
    let mut tasks = JoinSet::new();
    for trace in traces.filter(is_playable) {
        tasks.spawn(async move {
            let playback = if renamed {
                Playback::start_renamed(&trace).await
            } else {
                Playback::start(&trace).await
            };
            replayed(&trace, playback).await
        });
    }
    tasks.join_all().await
}

fn assert_all_pass(verdicts: &[Verdict]) {
    let failed: Vec<_> =
        verdicts.iter().filter(|verdict| !verdict.passes() || !verdict.used.is_empty()).collect();
    assert!(verdicts.len() > 10 && failed.is_empty(), "{failed:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recording_that_is_played_back_passes_without_any_difference() {
    assert_all_pass(&play_all(false).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_that_the_server_makes_up_are_carried_on() {
    assert_all_pass(&play_all(true).await);
}
