//! The way out to the web, for tools.
//!
//! Owns: which addresses a tool may ask, the client that asks them, what is
//! made of a page, searching, what is kept of both. Promises: nothing private
//! is reached unless the configuration names it, neither by a name, nor by a
//! redirect, nor by a spelling; every answer has bounds of size and time; what
//! comes from outside is marked so. Must not: know the tools.

mod address;
mod body;
mod cache;
mod charset;
mod client;
mod error;
mod extract;
mod lookup;
mod policy;
pub mod search;
mod tls;
mod untrusted;

pub use body::{Body, read as read_body};
pub use cache::Cache;
pub use charset::decode;
pub use client::{Fetched, GuardedClient, PageRequest, Proxies};
pub use error::FetchError;
pub use extract::{ExtractMode, Extracted, Extractor};
pub use lookup::{Lookup, SystemLookup};
pub use policy::{Place, Policy};
pub use tls::Tls;
pub use untrusted::{Wrapped, wrap, wrap_page};
