//! Which commands may run.
//!
//! Owns: the policy, the allowlist file, the questions that wait for a person,
//! and [`Permit`], which nobody else can make and nothing is spawned without.
//! Promises: unknown, unanswered, expired, changed and failed all mean no; what
//! was shown is what was approved is what is started. Must not: start anything.

mod denial;
mod permit;
mod request;
mod unasked;

pub use denial::Denial;
pub use permit::{Launch, Permit, Program};
pub use request::{ExecHost, ExecRequest};
pub use unasked::unasked;
