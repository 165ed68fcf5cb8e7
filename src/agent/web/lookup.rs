//! From names to addresses.

use std::io;
use std::net::IpAddr;

use crate::support::BoxFuture;

/// Most addresses of a name that are looked at.
const MAX_ADDRESSES: usize = 64;

/// Who knows the addresses of names.
pub trait Lookup: Send + Sync {
    /// All addresses of `host`.
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The resolver of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).take(MAX_ADDRESSES).collect())
        })
    }
}
