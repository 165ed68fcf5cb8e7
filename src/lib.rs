//! clawgate: an OpenClaw-compatible gateway server.
//!
//! The modules, from the ground up. `docs/architecture.md` puts them into groups:
//! a module may use those of its own group and of the groups above it, never
//! those below; `tests/architecture.rs` checks it.
//!
//! | module | what it owns |
//! |---|---|
//! | [`support`] | clock, ids, supervised tasks, secrets, this machine's addresses |
//! | [`protocol`] | what goes over the wire: frames, params, messages, errors |
//! | [`store`] | SQLite and files; the only place that knows SQL |
//! | [`telemetry`] | log output |
//! | [`config`] | `openclaw.json`, environment, flags: the effective settings |
//! | [`auth`] | who a connection is and what it may do |
//! | [`bus`] | events and who gets them |
//! | [`sessions`] | conversations and their transcripts |
//! | [`providers`] | model APIs behind one trait |
//! | [`agent`] | a run: lane, turn, abort |
//! | [`nodes`] | machines that connect and offer commands |
//! | [`cron`] | jobs and heartbeats |
//! | [`voice`] | speech: wake words, text to speech, talking |
//! | [`push`] | notifications of browsers |
//! | [`channels`] | chat services: accounts, who may write, the way in and out |
//! | [`wizard`] | setting up by questions |
//! | [`commands`] | slash commands |
//! | [`registry`] | the table of methods and the one door to them |
//! | [`handlers`] | one function per method |
//! | [`gateway`] | sockets: listen, handshake, connection |
//! | [`http`] | what is asked for by HTTP without a WebSocket |
//! | [`dialects`] | APIs of other software on the same sessions |
//! | [`app`] | composition root: build, start, stop |
//! | [`cli`] | the `clawgate` command |
#![forbid(unsafe_code)]
#![warn(clippy::pedantic)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::dbg_macro)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
// Too noisy for what they find here; everything else of pedantic applies.
#![allow(
    clippy::module_name_repetitions,
    clippy::must_use_candidate,
    clippy::missing_errors_doc,
    clippy::too_many_lines
)]

pub mod agent;
pub mod app;
pub mod auth;
pub mod bus;
pub mod channels;
pub mod cli;
pub mod commands;
pub mod config;
pub mod cron;
pub mod dialects;
pub mod gateway;
pub mod handlers;
pub mod http;
pub mod nodes;
pub mod protocol;
pub mod providers;
pub mod push;
pub mod registry;
pub mod sessions;
pub mod store;
pub mod support;
pub mod telemetry;
pub mod voice;
pub mod wizard;
