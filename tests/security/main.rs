//! One file for each class of advisory: what went wrong elsewhere must not go
//! wrong here.

#[path = "../support/mod.rs"]
mod support;

mod exec_approvals;
mod ssrf;
