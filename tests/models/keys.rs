//! The keys of runs: of those who send the same at once, one starts a run.

use std::sync::Arc;

use shuttle::future::{block_on, spawn};
use shuttle::rand::{Rng, thread_rng};

use crate::agent::run::RunEnd;
use crate::config::QueueMode;
use crate::office::{Office, run};
use crate::records::{Claim, NewRun, Records, RunState};

fn claim_of(run_id: &str) -> NewRun {
    NewRun {
        scope: "chat".into(),
        key: run_id.into(),
        run_id: run_id.into(),
        session_key: "agent:main:main".into(),
        text_hash: Some("the same text".into()),
        message: None,
        now_ms: 0,
    }
}

/// Sends as `chat.send` does; answers which run has the message.
async fn send(office: Arc<Office>, id: &'static str) -> String {
    let run = run(id, QueueMode::Followup);
    let claim = office.records.as_ref().unwrap().claim(&claim_of(id));
    let Claim::Existing(record) = claim else {
        assert!(office.send(&run).await);
        return id.to_owned();
    };
    let answering = office.lanes.table().answering(&record.run_id);
    match record.state {
        RunState::Active => answering.map_or(record.run_id, |run| run.id.to_string()),
        _ => record.run_id,
    }
}

/// Three send one key, a fourth the same text with another while that one is being
/// answered: there is one run for a key, and all hear of the end of the run that they
/// were told of.
pub fn one_key_is_one_run_and_all_its_senders_hear_of_its_end() {
    block_on(async {
        let office = Office::new(Some(Records::new()));
        let ahead = run("answers-before", QueueMode::Followup);
        if thread_rng().r#gen() {
            let claim = NewRun { text_hash: None, ..claim_of(&ahead.id) };
            assert_eq!(office.records.as_ref().unwrap().claim(&claim), Claim::New);
            assert!(office.send(&ahead).await);
        }
        let ids = ["answers-1", "answers-1", "answers-1", "answers-2"];
        let senders = ids.map(|id| {
            let office = Arc::clone(&office);
            spawn(async move {
                let run_id = send(Arc::clone(&office), id).await;
                (office.wait(&run_id).await, run_id)
            })
        });
        for (id, sender) in ids.into_iter().zip(senders) {
            let (end, told) = sender.await.unwrap();
            assert_eq!(end, RunEnd::Answered, "{told}");
            assert!(told == id || ids.contains(&&*told), "{id} was told of {told}");
        }
        office.close_up().await;
        let book = office.book.lock();
        for id in ids {
            let times = book.done.iter().filter(|done| ***done == *id).count();
            assert!(times <= 1, "{id} ran {times} times");
        }
    });
}
