//! Models: the gateway's own code, under a scheduler that decides who goes on next.
//!
//! The files of `src` that hold the lanes of sessions, the bus and the keys of runs are
//! compiled here once more as they are, with the locks, flags and bells of `sync.rs` in
//! the place of `src/support/sync.rs`. Each model is tried over many interleavings,
//! chosen at random and by priorities that change (PCT). A task that nobody wakes ever
//! is a deadlock, which fails as a broken promise does.
//!
//! `CLAWGATE_MODELS_ROUNDS=100000 cargo test --test models` tries more, from another
//! seed; a name after it tries only the models whose names have it.

mod agent;
#[allow(dead_code, unused_imports, reason = "a part of the gateway, and its unit tests")]
#[path = "../../src/bus/mod.rs"]
mod bus;
mod bus_models;
mod explore;
mod keys;
mod lane_models;
mod office;
mod records;
pub mod sync;

use clawgate::{auth, config, providers, sessions, store, telemetry};

/// What the bus needs of the protocol, with a bound that a model reaches.
mod protocol {
    pub use clawgate::protocol::*;

    pub mod hello {
        pub use clawgate::protocol::hello::*;

        pub const MAX_BUFFERED_BYTES: usize = 512;
    }
}

mod support {
    pub use clawgate::support::*;
    pub use serde_json::json;

    pub use crate::sync;
}

fn main() {
    let models: [(&str, fn()); 10] = [
        ("bus: each sees a prefix without a hole", bus_models::each_sees_a_prefix_without_a_hole),
        ("bus: what was taken is sent", bus_models::what_was_taken_is_sent_before_the_close),
        ("bus: the last delta and the end", bus_models::the_last_delta_and_the_end_arrive),
        ("bus: who follows a session", bus_models::who_follows_gets_it_and_who_does_not_gets_none),
        ("lane: one comes as another ends", lane_models::who_comes_as_another_ends_gets_his_turn),
        ("lane: however a run ends", lane_models::however_a_run_ends_the_next_one_starts),
        ("lane: a stop", lane_models::after_a_stop_nothing_runs_and_everybody_was_told),
        ("lane: a line", lane_models::who_waits_in_line_has_the_lane_in_his_turn),
        ("lane: a compaction", lane_models::who_waits_for_a_lane_that_is_held_gets_it),
        ("keys: one key is one run", keys::one_key_is_one_run_and_all_its_senders_hear_of_its_end),
    ];
    explore::all(&models);
}
