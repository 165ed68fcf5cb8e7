//! Storage that fails: calls that return errors, and power losses that take with
//! them what nobody synced.
//!
//! The system calls of the gateway itself are what fails (by `strace`), so that
//! SQLite, the standard library and all others are under the same test. A part of
//! all that can happen is tried each time, for as long as
//! `CLAWGATE_STORAGE_SECONDS` says; `CLAWGATE_STORAGE=all` tries everything and
//! takes hours. `CLAWGATE_STORAGE_SEED` repeats the choices of a run.

#[path = "../support/mod.rs"]
mod support;

mod calls;
mod check;
#[path = "../chaos/dice.rs"]
mod dice;
mod disk;
mod errors;
mod power;
mod stage;
mod start;
mod steps;
mod strace;

use std::time::Duration;

use tokio::time::Instant;

use dice::Dice;

/// How long each test tries one thing after the other.
const SECONDS: u64 = 20;

/// What is tried, in which order, and for how long.
pub struct Trials {
    pub dice: Dice,
    until: Option<Instant>,
}

impl Trials {
    pub fn of(test: &str) -> Self {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        let dice = Dice::new(number("CLAWGATE_STORAGE_SEED"));
        println!("{test}: CLAWGATE_STORAGE_SEED={}", dice.seed());
        let is_all = std::env::var("CLAWGATE_STORAGE").is_ok_and(|wish| wish == "all");
        let seconds = number("CLAWGATE_STORAGE_SECONDS").unwrap_or(SECONDS);
        let until = (!is_all).then(|| Instant::now() + Duration::from_secs(seconds));
        Self { dice, until }
    }

    /// All of them, in an order that nobody chose; only a part when that takes too long.
    pub fn shuffled<T>(&mut self, mut all: Vec<T>) -> Vec<T> {
        for last in (1..all.len()).rev() {
            let other = self.dice.up_to(last as u64 + 1);
            all.swap(last, usize::try_from(other).unwrap());
        }
        all
    }

    pub fn are_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() > until)
    }
}
