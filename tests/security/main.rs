//! One file for each class of advisories: what went wrong elsewhere does not
//! here.

#[path = "../support/mod.rs"]
mod support;

#[allow(dead_code, reason = "the stage is shared with other test crates")]
#[path = "../scenario/aimock.rs"]
mod aimock;
#[allow(dead_code, unused_imports, unused_macros, reason = "as above")]
#[path = "../scenario/stage.rs"]
mod stage;

mod agent_rights;
mod brute_force;
mod constant_time;
mod exec_approvals;
mod floods;
mod forwarded_headers;
mod pages;
mod paths;
mod session_ids;
mod session_tools;
mod silent_sockets;
mod ssrf;
