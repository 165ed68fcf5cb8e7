//! One file for each class of advisories: what must not be possible, tried at
//! the real binary.

#[path = "../support/mod.rs"]
mod support;

mod ssrf;
