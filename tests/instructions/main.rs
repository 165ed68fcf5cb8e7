//! How many instructions the gateway executes for what it does most often.
//!
//! Unlike times they are the same on a busy machine, so a change that makes one of
//! these dearer is found before it is merged. The release build is run under
//! valgrind's callgrind, twice for each line, with few and with many requests; the
//! difference is what a request costs. `benches/instructions.txt` has what it cost
//! before; `docs/benchmarks.md` says how to renew it.
//!
//! | file | what it has |
//! |---|---|
//! | `lines` | what is counted |
//! | `counted` | a gateway under callgrind, and what it has executed |
//! | `figures` | the committed file, and what counts as dearer |
//! | `order` | which functions the linker puts side by side |
//! | `idle` | how much memory is used where nothing happens |
#![forbid(unsafe_code)]
#![warn(clippy::pedantic)]

mod counted;
mod figures;
mod idle;
mod lines;
mod order;

/// The client, the provider and the states of the benchmarks.
#[path = "../../benches/load"]
#[allow(dead_code, reason = "the benchmarks use more of it")]
mod load {
    pub mod client;
    pub mod gateway;
    #[path = "../../tests/support/installed.rs"]
    pub mod installed;
    pub mod metric;
    #[path = "../../tests/support/npm.rs"]
    pub mod npm;
    pub mod original;
    pub mod provider;
    pub mod server;
    pub mod state;
    pub mod stats;
}

#[path = "../support/not_run.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod not_run;

#[path = "../support/tested.rs"]
#[allow(dead_code, reason = "what was built along with the tests is not counted")]
mod tested;

use counted::Counter;
use figures::{Figures, Verdict};
use not_run::not_run;
// What it names is the program that is counted: the release build.
use tested::VARIABLE as PROGRAM;

/// Renews the files instead of comparing with them.
const UPDATE: &str = "CLAWGATE_UPDATE";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_costs_more_instructions_than_before() {
    let Some(program) = std::env::var_os(PROGRAM) else {
        return not_run(&format!(
            "instructions are not counted: {PROGRAM} has to name a release build, which must be \
             of this state of the source; .ci/run does so"
        ));
    };
    let counter = Counter::new(program.as_ref()).await;
    let before = Figures::read();
    let (mut costs, mut dearer) = (Vec::new(), Vec::new());
    for line in &lines::LINES {
        let mut now = counter.each(line).await;
        let judge = |now| before.judge(line.name, line.tolerance, now);
        if matches!(judge(now), Verdict::Dearer { .. }) {
            // What happens beside it by the clock may have met this count.
            now = now.min(counter.each(line).await);
        }
        let verdict = judge(now);
        println!("{verdict}");
        if matches!(verdict, Verdict::Dearer { .. } | Verdict::Unknown { .. }) {
            dearer.push(verdict.to_string());
        }
        costs.push((line.name, now));
    }
    if std::env::var_os(UPDATE).is_some() {
        let (quiet, busy) = counter.names(&lines::LINES).await;
        order::write(&quiet, &busy);
        return Figures::write(&costs);
    }
    assert!(dearer.is_empty(), "{}\n{} {}", dearer.join("\n"), figures::ADVICE, figures::RENEW);
}
