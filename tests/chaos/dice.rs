//! Choices that can be repeated.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A small generator (splitmix64): the same seed, the same choices.
#[derive(Debug)]
pub struct Dice {
    seed: u64,
    state: u64,
}

impl Dice {
    /// From this seed, or from one of its own.
    pub fn new(seed: Option<u64>) -> Self {
        // std seeds every `RandomState` differently.
        let seed = seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        Self { seed, state: seed }
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// For another task.
    pub fn fork(&mut self) -> Self {
        Self::new(Some(self.next()))
    }

    /// Less than `bound`.
    pub fn up_to(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
