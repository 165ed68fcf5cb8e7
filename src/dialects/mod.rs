//! APIs of other software, answered out of the same sessions, runs and approvals.
//!
//! Owns: the tables of their paths, and how their frames are made of our events.
//! Promises: whatever somebody does in a dialect he does by methods with his own
//! rights (`Ctx::call`); where one is not enabled there is nothing. Must not: run
//! an agent, keep a message or decide about an approval in a way of its own.

pub mod chat;
pub mod claude;
mod question;

use std::fmt;

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

impl fmt::Debug for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Dialects, in the order in which their paths are looked through.
pub type Dialects = &'static [&'static Dialect];

/// All of them.
pub static ALL: [&Dialect; 3] = [&openai::DIALECT, &claude::DIALECT, &chat::DIALECT];

/// The dialects in which a path may mean something, each with the path as its
/// tables have it.
pub(crate) fn at<'p>(
    gateway: &Gateway,
    path: &'p str,
) -> impl Iterator<Item = (&'static Dialect, &'p str)> {
    let settings = gateway.services.settings.now();
    anywhere(gateway, path).filter(move |(dialect, path)| match dialect.name {
        "openai" => openai::has(gateway, path),
        name => settings.gateway.dialects.has(name),
    })
}

/// The same, whether they are enabled or not.
pub(crate) fn anywhere<'p>(
    gateway: &Gateway,
    path: &'p str,
) -> impl Iterator<Item = (&'static Dialect, &'p str)> {
    let prefix = &gateway.services.settings.now().gateway.dialects.prefix;
    let below = if prefix.is_empty() { None } else { path.strip_prefix(prefix.as_str()) };
    let paths = [Some(path), below.filter(|below| below.starts_with('/'))];
    let dialects = gateway.dialects;
    paths.into_iter().flatten().flat_map(|path| dialects.iter().map(move |it| (*it, path)))
}
