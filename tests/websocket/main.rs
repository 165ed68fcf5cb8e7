//! The WebSocket itself: what RFC 6455 asks of a server, frame by frame.
//!
//! Everything that a client says goes the way of the product: its listener, its
//! upgrade, its meter, its socket and its loop. Only who answers is a speaker of this
//! test, which says again what it hears. The cases are those that Autobahn's suite
//! has in its groups 1 to 7, 9 and 10, and some of our own; `autobahn.rs` runs that
//! suite itself where a Python 2 is to be had. `docs/protocol.md` has what came of it.
//!
//! | file | what it has |
//! |---|---|
//! | `echo` | the gateway, in this process, with a dialect that echoes |
//! | `frame` | frames as clients write them |
//! | `client` | a connection that hears frames, and is strict about them |
//! | `case` | one case: what is said, what has to be heard |
//! | `framing`, `fragments`, `text`, `closing`, `sizes` | the cases |
//! | `autobahn`, `translator` | the suite of Autobahn |
#![forbid(unsafe_code)]
#![warn(clippy::pedantic)]

mod autobahn;
mod case;
mod client;
mod closing;
mod echo;
mod fragments;
mod frame;
mod framing;
#[path = "../support/not_run.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod not_run;
mod sizes;
mod text;
mod translator;
