//! Running a target over its corpus and over changes of it.
//!
//! A target gives back a word for what an input came to. An input whose word is
//! new joins the corpus of this run, so that later changes begin there: poor
//! man's coverage. What fails in a run for a time is made smaller while it fails.

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
/// The same for targets that take long.
const FEW_ROUNDS: usize = 80;
/// An input that takes longer stops a gateway.
const SLOW: Duration = Duration::from_secs(5);
/// Inputs that are kept of one run.
const KEPT_MAX: usize = 4000;
/// How long an input that fails is made smaller.
const SMALLER: Duration = Duration::from_secs(60);

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
    rounds: usize,
    seed: u64,
}

impl Plan {
    fn read(rounds: usize) -> Self {
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
            rounds,
            seed: number("CLAWGATE_FUZZ_SEED").unwrap_or(seed),
        }
    }

    fn goes_on(&self, round: usize) -> bool {
        self.until.map_or(round < self.rounds, |until| Instant::now() < until)
    }
}

/// Tries the target.
pub fn run(name: &str, target: &dyn Fn(&[u8]) -> Outcome) {
    explore(name, target, &Plan::read(ROUNDS));
}

/// Tries a target that takes long.
pub fn run_slow(name: &str, target: &dyn Fn(&[u8]) -> Outcome) {
    explore(name, target, &Plan::read(FEW_ROUNDS));
}

fn explore(name: &str, target: &dyn Fn(&[u8]) -> Outcome, plan: &Plan) {
    let mut inputs = corpus(name);
    let mut known = HashSet::new();
    let is_long = plan.until.is_some();
    for input in &inputs {
        known.insert(attempt(name, target, input, is_long));
    }
    let mut dice = Dice::new(plan.seed);
    let mut round = 0;
    while plan.goes_on(round) {
        round += 1;
        let (one, other) = (dice.below(inputs.len()), dice.below(inputs.len()));
        let input = changed(&mut dice, &inputs[one], &inputs[other]);
        let outcome = attempt(name, target, &input, is_long);
        if known.insert(outcome) && inputs.len() < KEPT_MAX {
            inputs.push(input);
        }
    }
    println!("{name}: {round} inputs, {} outcomes, seed {}", known.len(), plan.seed);
}

/// What an input came to, if it did so in time.
fn tried(target: &dyn Fn(&[u8]) -> Outcome, input: &[u8]) -> Result<Outcome, Duration> {
    let started = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| target(input)));
    let took = started.elapsed();
    outcome.ok().filter(|_| took < SLOW).ok_or(took)
}

fn attempt(name: &str, target: &dyn Fn(&[u8]) -> Outcome, input: &[u8], is_long: bool) -> u64 {
    let outcome = tried(target, input).unwrap_or_else(|took| {
        let whole = kept(name, input);
        let small = if is_long { smaller(target, input) } else { input.to_vec() };
        let path = if small == input { whole } else { kept(name, &small) };
        panic!(
            "{name} fails after {took:?} on {:?}; it is in {}",
            String::from_utf8_lossy(&small),
            path.display()
        );
    });
    // Numbers and quoted texts are not what makes an outcome another one.
    hash(shape(&outcome).as_bytes())
}

/// Where an input is kept for whoever looks into it.
fn kept(name: &str, input: &[u8]) -> PathBuf {
    let dir = root().join("target/fuzz");
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join(format!("{name}-{:016x}", hash(input)));
    fs::write(&path, input).unwrap();
    path
}

/// The input without the pieces that it fails without, from halves down to bytes.
fn smaller(target: &dyn Fn(&[u8]) -> Outcome, input: &[u8]) -> Vec<u8> {
    let until = Instant::now() + SMALLER;
    let mut small = input.to_vec();
    let mut size = small.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < small.len() && Instant::now() < until {
            let mut without = small.clone();
            without.drain(at..(at + size).min(small.len()));
            if tried(target, &without).is_err() {
                small = without;
            } else {
                at += size;
            }
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    small
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
