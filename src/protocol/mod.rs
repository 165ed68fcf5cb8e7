//! What goes over the wire.
//!
//! Owns: frames, connect and hello, errors, scopes, params and results of each
//! method, messages and their blocks. Promises: decoding never panics, and an
//! error names the path of the offending member in the original's words.
//! Must not: do IO, know a service.
#![deny(missing_docs)]

pub mod agent_event;
pub mod connect;
pub mod decode;
mod error;
mod frame;

pub mod hello;
pub mod message;
pub mod methods;

mod profile;
mod response;
mod scope;
pub mod simple;

pub use error::{ErrorCode, ErrorKind, ErrorShape, missing_scope};
pub use frame::{FrameError, Request, parse_binary, parse_request};
pub use profile::{Profile, Version, is_dashboard};
pub use response::{MAX_SPARE, Response, ResponseHead, ResponseRest, response_err, response_of};
pub use scope::{Role, Scope, ScopeSet};
