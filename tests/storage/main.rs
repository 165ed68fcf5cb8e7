//! Storage that fails: calls that return errors, and power losses that take with
//! them what nobody synced.
//!
//! The system calls of the gateway itself are what fails (by `strace`), so that
//! SQLite, the standard library and all others are under the same test. A part of
//! all that can happen is tried each time, for as long as
//! `CLAWGATE_STORAGE_SECONDS` says; `CLAWGATE_STORAGE=all` tries everything and
//! takes a quarter of an hour, `CLAWGATE_STORAGE=3/16` the third of sixteen equal parts of it.
//! `CLAWGATE_STORAGE_SEED` repeats the choices of a run.

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
#[allow(dead_code, reason = "who kills a gateway that is held is elsewhere")]
mod strace;

use std::time::Duration;

use tokio::time::Instant;

use dice::Dice;

/// How long each test tries one thing after the other.
const SECONDS: u64 = 20;

/// What is tried, in which order, and for how long.
pub struct Trials {
    pub dice: Dice,
    /// Which part of everything, of how many.
    part: (usize, usize),
    until: Option<Instant>,
}

impl Trials {
    pub fn of(test: &str) -> Self {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        let dice = Dice::new(number("CLAWGATE_STORAGE_SEED"));
        println!("{test}: CLAWGATE_STORAGE_SEED={}", dice.seed());
        let part = std::env::var("CLAWGATE_STORAGE").ok().map(|wish| part(&wish));
        let seconds = number("CLAWGATE_STORAGE_SECONDS").unwrap_or(SECONDS);
        let until = part.is_none().then(|| Instant::now() + Duration::from_secs(seconds));
        Self { dice, part: part.unwrap_or((1, 1)), until }
    }

    /// All of them that are to be tried, in an order that nobody chose.
    pub fn shuffled<T>(&mut self, mut all: Vec<T>) -> Vec<T> {
        let (part, parts) = self.part;
        // The same for each part, so that all parts together are everything.
        shuffle(&mut all, &mut Dice::new(Some(0)));
        let mut mine: Vec<_> = all.into_iter().skip(part - 1).step_by(parts).collect();
        shuffle(&mut mine, &mut self.dice);
        mine
    }

    pub fn are_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() > until)
    }

    /// Says how many were tried. A small part may have none, everything has some.
    pub fn have_tried(&self, count: usize, what: &str) {
        println!("{count} {what}");
        assert!(count > 0 || self.part.1 > 1);
    }
}

fn shuffle<T>(all: &mut [T], dice: &mut Dice) {
    for last in (1..all.len()).rev() {
        let other = dice.up_to(last as u64 + 1);
        all.swap(last, usize::try_from(other).unwrap());
    }
}

/// A wish for everything, or for a part such as `3/16`.
fn part(wish: &str) -> (usize, usize) {
    if wish == "all" {
        return (1, 1);
    }
    let numbers = wish.split_once('/').map(|(part, parts)| (part.parse(), parts.parse()));
    match numbers {
        Some((Ok(part), Ok(parts))) if 1 <= part && part <= parts => (part, parts),
        _ => panic!("CLAWGATE_STORAGE is `all` or a part such as `3/16`, not {wish}"),
    }
}
