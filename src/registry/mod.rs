//! The table of methods and the one door to them.
//!
//! Owns: which methods exist, what each needs, and the way of a request to
//! its handler. Promises: nobody reaches a handler without the right that the
//! table names; requests of one session that enter its lane are served in the
//! order they came; a panic in a handler is an error of that request only. Must not: know how
//! requests arrive.
#![deny(missing_docs)]

mod answer;
mod budget;
mod context;
mod exchange;
mod inner;
mod lanes;
mod once;
mod reload;
mod repair;
mod restart;
mod table;

pub use answer::{Answer, Answers, Shared};
pub use context::{ACTION_CHAT, Caller, Ctx, KeyNames, Person, Services};
pub use exchange::Exchange;
pub use lanes::Lanes;
pub use reload::{Ask, ConfigState, NoRestart, Reload, RenewError, Renewed, TakenUp, Writing};
pub use repair::Repair;
pub use restart::{Cause, Promised, Restart, Round};
pub use table::{
    Call, Denial, Method, Need, Registry, Reply, Timed, admin, approvals, node, open, pairing,
    read, write,
};
