//! Conformance: the recorded client frames, sent again to the real binary, and
//! each answer compared with the recorded one.
//!
//! | module | what it owns |
//! |---|---|
//! | `corpus`, `trace` | where the recordings are, and how a line is read |
//! | `setup`, `prelude` | how the recorded gateway was configured and what came before |
//! | `replay`, `pending` | sending the frames when their time has come |
//! | `call`, `calls`, `cut` | requests of HTTP, how they are sent, texts that were cut |
//! | `raw`, `proof`, `ids`, `moments` | rebuilt messages, device proofs made anew, learned ids, times to come |
//! | `text`, `classes`, `compare` | when two values are the same |
//! | `pairing`, `stream`, `verdict` | which frames belong together, and the checks |
//! | `differences` | the reviewed list of what may differ |
//! | `run`, `report`, `methods` | real gateways, `docs/conformance.md`, its table of methods |
//! | `playback`, `selftest` | the proof that the runner itself can pass and fail |
//!
//! `CLAWGATE_CONFORMANCE=all` also replays what is not expected to pass, any
//! other value the traces whose names fit that pattern. `CLAWGATE_UPDATE=1`
//! replays all and rewrites the report.

#[path = "../support/mod.rs"]
mod support;

mod call;
mod calls;
mod classes;
mod compare;
mod corpus;
mod cut;
mod differences;
mod ids;
mod methods;
mod moments;
mod open;
mod pairing;
mod pending;
mod playback;
mod prelude;
mod proof;
mod raw;
mod replay;
mod report;
mod run;
mod selftest;
mod setup;
mod stream;
mod text;
mod trace;
mod verdict;

use corpus::Corpus;
use differences::{DIFFERENCES, glob};
use report::Status;
use verdict::Verdict;

const REPORT: &str = "docs/conformance.md";

/// Which traces are replayed.
enum Choice {
    /// Those that the report lists as passed.
    Expected,
    All,
    Matching(String),
}

impl Choice {
    fn from_environment(update: bool) -> Self {
        match std::env::var("CLAWGATE_CONFORMANCE") {
            _ if update => Self::All,
            Ok(all) if all == "all" => Self::All,
            Ok(pattern) if !pattern.is_empty() => Self::Matching(pattern),
            _ => Self::Expected,
        }
    }

    fn takes(&self, name: &str, expected: &report::Table) -> bool {
        match self {
            Self::Expected => expected.get(name) == Some(&Status::Passed),
            Self::All => true,
            Self::Matching(pattern) => glob(pattern, name),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_passed_still_passes_and_the_report_tells_the_truth() {
    let update = std::env::var("CLAWGATE_UPDATE").is_ok_and(|value| value == "1");
    let choice = Choice::from_environment(update);
    let path = corpus::manifest().join(REPORT);
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    let expected = report::parse(&checked_in);
    let corpus = Corpus::find();
    let names = corpus.names();
    let passed = |name: &String| expected.get(name) == Some(&Status::Passed);
    let chosen = names.iter().filter(|name| choice.takes(name, &expected));
    let chosen: Vec<_> = chosen.map(|name| (name.clone(), passed(name))).collect();

    let verdicts = run::run_all(&corpus, &chosen).await;
    for verdict in &verdicts {
        print_verdict(verdict);
    }
    let table = report::merge(&expected, &names, &verdicts, update);
    for (name, status) in &table {
        println!("{name:40} {status:?}");
    }

    let worse: Vec<&str> = verdicts
        .iter()
        .filter(|verdict| passed(&verdict.trace))
        .filter(|verdict| !verdict.passes())
        .map(|verdict| verdict.trace.as_str())
        .collect();
    if update && corpus.complete {
        std::fs::write(&path, report::render(&table, &corpus)).unwrap();
    } else {
        assert!(worse.is_empty(), "passed before and do not now: {worse:?}");
    }
    let unused = unused_differences(&verdicts, &names);
    if matches!(choice, Choice::Matching(_)) {
        println!("not needed: {unused:#?}");
    } else if corpus.complete {
        assert_eq!(open::faults(&table), Vec::<String>::new());
        assert!(unused.is_empty(), "no trace needs these differences: {unused:?}");
        let now = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            now == report::render(&table, &corpus),
            "{REPORT} is stale: run with CLAWGATE_UPDATE=1"
        );
    }
}

fn print_verdict(verdict: &Verdict) {
    println!("{}: {} of {} checks", verdict.trace, verdict.passed, verdict.checks);
    for finding in &verdict.findings {
        let (place, path, kind) = (&finding.place, &finding.path, finding.kind);
        println!("    {kind:?} {place} {path}: {}", finding.text);
    }
}

/// Entries of the list that nothing needs, as far as this run can tell: every
/// trace that they are for was replayed.
fn unused_differences(verdicts: &[Verdict], names: &[String]) -> Vec<String> {
    let replayed = |name: &String| verdicts.iter().any(|verdict| verdict.trace == *name);
    DIFFERENCES
        .iter()
        .enumerate()
        .filter(|(index, entry)| {
            let known = names.iter().filter(|name| glob(entry.trace, name)).all(replayed);
            let is_sure = !differences::depends_on_pace(entry);
            known && is_sure && !verdicts.iter().any(|verdict| verdict.used.contains(index))
        })
        .map(|(_, entry)| {
            let (trace, place, path) = (entry.trace, entry.place, entry.path);
            format!("{trace} {place} {path} {:?} {:?}", entry.kind, entry.recorded)
        })
        .collect()
}
