//! APIs of other software, answered out of the same sessions, runs and approvals.
//!
//! Owns: the tables of their paths, and how their frames are made of our events.
//! Promises: whatever somebody does in a dialect he does by methods with his own
//! rights (`Ctx::call`); where one is not enabled there is nothing. Must not: run
//! an agent, keep a message or decide about an approval in a way of its own.

pub mod chat;
pub mod claude;

use crate::gateway::Gateway;
use crate::http::{Manner, Route, SocketRoute, openai};

/// One of them.
pub struct Dialect {
    /// What it is called in the configuration.
    pub name: &'static str,
    /// How it refuses.
    pub manner: Manner,
    /// What can be asked for by HTTP.
    pub routes: &'static [Route],
    /// Where it is spoken over a WebSocket.
    pub sockets: &'static [SocketRoute],
}

/// All of them, in the order in which their paths are looked through.
pub static ALL: [&Dialect; 3] = [&openai::DIALECT, &claude::DIALECT, &chat::DIALECT];

/// The dialects in which a path may mean something, each with the path as its
/// tables have it.
pub(crate) fn at<'p>(
    gateway: &Gateway,
    path: &'p str,
) -> impl Iterator<Item = (&'static Dialect, &'p str)> {
    let is_there = move |(dialect, path): &(&Dialect, &str)| {
        dialect.name != openai::DIALECT.name || openai::has(gateway, path)
    };
    anywhere(gateway, path).filter(is_there)
}

/// The same, whether they are enabled or not.
pub(crate) fn anywhere<'p>(
    _gateway: &Gateway,
    path: &'p str,
) -> impl Iterator<Item = (&'static Dialect, &'p str)> {
    ALL.into_iter().map(move |dialect| (dialect, path))
}
