//! The files of `src/agent` that the lanes of sessions consist of, as they are.
#![allow(dead_code, unused_imports, reason = "parts of the gateway, and their unit tests")]

#[path = "../../src/agent/calls.rs"]
pub mod calls;
#[path = "../../src/agent/lane.rs"]
pub mod lane;
#[path = "../../src/agent/lanes.rs"]
pub mod lanes;
#[path = "../../src/agent/queue.rs"]
pub mod queue;
#[path = "../../src/agent/report.rs"]
pub mod report;
#[path = "../../src/agent/request.rs"]
pub mod request;
#[path = "../../src/agent/run.rs"]
pub mod run;
#[path = "../../src/agent/terms.rs"]
pub mod terms;

pub use run::AbortReason;
