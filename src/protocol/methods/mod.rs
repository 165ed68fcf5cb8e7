//! Params of each method, one file per family.
//!
//! The order of the reads is the order in which errors are reported; see
//! `protocol::decode`.

pub mod agent;
pub mod agents;
pub mod approvals;
pub mod artifacts;
pub mod channels;
pub mod chat;
pub mod commands;
pub mod compaction;
pub mod config;
pub mod cron;
pub mod devices;
pub mod diagnostics;
pub mod logs;
pub mod models;
pub mod nodes;
pub mod push;
pub mod secrets;
pub mod session_settings;
pub mod sessions;
pub mod skills;
pub mod system;
pub mod tools;
pub mod usage;
pub mod voice;
pub mod wizard;

use super::decode::{Fields, Params};

/// Params of a method that takes none and, like the original, refuses any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoParams;

impl Params for NoParams {
    fn read(_: &mut Fields) -> Self {
        Self
    }
}

/// Params of a method that takes none and does not look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnyParams;

impl Params for AnyParams {
    fn read(f: &mut Fields) -> Self {
        f.ignore_rest();
        Self
    }
}
