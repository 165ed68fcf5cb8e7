//! Jobs: what an agent does at a time, without anybody asking.
//!
//! Owns: schedules, jobs, the scheduler, the log of runs, heartbeats. Promises:
//! an instant that is due gets exactly one row, which is committed before its
//! run begins, so that a crash leaves at most one start; what passed while
//! nobody could run it is told; without jobs nothing wakes up. Must not: know
//! about sockets, methods or channels.

mod admission;
mod alert;
mod ask;
mod claim;
mod deliver;
mod error;
mod execute;
pub mod heartbeat;
mod hooks;
mod import;
mod job;
mod jobs;
mod missed;
mod outcome;
mod outlet;
mod preview;
mod recover;
mod remind;
mod retry;
mod room;
mod run_log;
pub mod schedule;
mod scheduler;
mod service;
mod set_back;
mod sweep;
mod target;
mod texts;
mod unheard;
mod webhook;

pub use error::CronError;

pub use hooks::{HookAsk, HookError};
pub use import::{Imported, list_of_openclaw, unreadable_list};
pub use job::{Job, JobState, Origin};
pub use jobs::{JOBS_MAX, JobPage};
pub use outlet::{Announcement, Bounds, Outlet, OutletError, Told};
pub use service::{Asked, Cron, CronParts, Ticket};
pub use set_back::put_off_beside;
pub use target::NamedChat;
pub use unheard::{Unheard, unheard_beside};
