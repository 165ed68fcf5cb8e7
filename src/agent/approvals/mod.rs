//! Which commands may run, and which tool calls a person has to allow.
//!
//! Owns: the policy, the allowlist file, the questions that wait for a person,
//! and [`Permit`], which nobody else can make and nothing is spawned without.
//! Promises: unknown, unanswered, expired, changed and failed all mean no; what
//! was shown is what was approved is what is started. Must not: start anything.

mod about_tool;
mod allowlist;
mod asking;
mod assess;
mod authorize;
mod denial;
mod file;
mod lineage;
mod listed;
mod node_run;
mod on_node;
mod pending;
mod permit;
mod policy;
mod programs;
mod request;
mod resolve;
mod service;
mod variables;
mod words;

pub use about_tool::{ToolQuestion, ToolRefusal};
pub use asking::ApprovalNews;
pub use assess::analysis_of;
pub use authorize::SHOWN_MAX;
pub use denial::Denial;
pub use file::{ApprovalsFileError, ApprovalsSnapshot};
pub use lineage::{ExecWords, Lineage, LineageError};
pub use listed::Listed;
pub use node_run::{NodeRunError, binding_of};
pub use on_node::{NodePermit, NodeRules, NodeRun};
pub use pending::{AskError, Decision, Draft, Question, QuestionKind};
pub use permit::{Launch, Permit, Program};
pub use request::{ExecHost, ExecRequest};
pub use service::{Approvals, ApprovalsParts, DecideError, check_file, forget_agent};
pub use variables::variables_warning;
pub use words::words as plain_words;
