//! Running a target over its corpus and over changes of it.
//!
//! A target gives back a word for what an input came to. An input whose word is
//! new joins the corpus of this run, so that later changes begin there: poor
//! man's coverage.

use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use crate::mutate::{Dice, changed};

/// Changes that are tried when nobody says how long.
const ROUNDS: usize = 400;
/// An input that takes longer stops a gateway.
const SLOW: Duration = Duration::from_secs(5);
/// Inputs that are kept of one run.
const KEPT_MAX: usize = 4000;

/// A word for what an input came to.
pub type Outcome = String;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let dir = root().join("fuzz/corpus").join(name);
    let mut paths: Vec<PathBuf> =
        fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", dir.display());
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// How long, and from which seed.
struct Plan {
    until: Option<Instant>,
    seed: u64,
}

impl Plan {
    fn read() -> Self {
        let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
        let until = number("CLAWGATE_FUZZ_SECONDS").map(Duration::from_secs);
        // The short run is the same each time; a long one should not be.
        let fresh = || {
            u64::from(std::process::id())
                ^ u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap()
        };
        let seed = if until.is_some() { fresh() } else { 1 };
        Self {
            until: until.map(|limit| Instant::now() + limit),
            seed: number("CLAWGATE_FUZZ_SEED").unwrap_or(seed),
        }
    }

    fn goes_on(&self, round: usize) -> bool {
        self.until.map_or(round < ROUNDS, |until| Instant::now() < until)
    }
}

/// Tries the target.
pub fn run(name: &str, target: &dyn Fn(&[u8]) -> Outcome) {
    let plan = Plan::read();
    let mut inputs = corpus(name);
    let mut known = HashSet::new();
    for input in &inputs {
        known.insert(attempt(name, target, input));
    }
    let mut dice = Dice::new(plan.seed);
    let mut round = 0;
    while plan.goes_on(round) {
        round += 1;
        let (one, other) = (dice.below(inputs.len()), dice.below(inputs.len()));
        let input = changed(&mut dice, &inputs[one], &inputs[other]);
        let outcome = attempt(name, target, &input);
        if known.insert(outcome) && inputs.len() < KEPT_MAX {
            inputs.push(input);
        }
    }
    println!("{name}: {round} inputs, {} outcomes, seed {}", known.len(), plan.seed);
}

fn attempt(name: &str, target: &dyn Fn(&[u8]) -> Outcome, input: &[u8]) -> u64 {
    let started = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| target(input)));
    let took = started.elapsed();
    let Some(outcome) = outcome.ok().filter(|_| took < SLOW) else {
        let dir = root().join("target/fuzz");
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join(format!("{name}-{:016x}", hash(input)));
        fs::write(&path, input).unwrap();
        panic!(
            "{name} fails after {took:?} on {:?}; it is in {}",
            String::from_utf8_lossy(input),
            path.display()
        );
    };
    // Numbers and quoted texts are not what makes an outcome another one.
    hash(shape(&outcome).as_bytes())
}

fn shape(text: &str) -> String {
    let mut shape = String::new();
    let mut is_quoted = false;
    for letter in text.chars() {
        is_quoted ^= letter == '\'' || letter == '"';
        if letter.is_ascii_digit() {
            if !shape.ends_with('0') {
                shape.push('0');
            }
        } else if !is_quoted {
            shape.push(letter);
        }
    }
    shape
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}
