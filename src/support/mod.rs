//! Small tools that every layer uses.
//!
//! Owns: time, ids, supervised tasks, work that waits for files, secrets, fingerprints, own
//! addresses, values that are replaced, reads that are shared, locks by name, programs and what
//! they start, what went wrong lately, sorting, maps of few entries, errors as one line, which
//! characters are not seen, how many descriptors are left. Must not: know anything of the
//! gateway's own nouns.

mod blocking;
mod cause;
mod clock;
pub mod descriptors;
mod escapes;
mod few;
mod fingerprint;
mod hex;
mod ids;
pub mod installation;
mod json;
mod keyed_locks;
mod live;
pub mod memory;
pub(crate) mod object;
mod open;
mod packed;
mod permits;
mod program;
pub mod reading;
mod route;
mod secret;
mod shared_reads;
pub mod sort;
pub mod stability;
pub mod sync;
mod tasks;
pub mod trouble;
mod unseen;

pub use blocking::{Unfinished, blocking};
pub use cause::with_cause;
pub use clock::{Clock, SystemClock, millis};
pub use escapes::{json_file_of_javascript, json_of_javascript, whole_escapes};
pub use few::Few;
pub use fingerprint::Fingerprint;
pub use hex::hex;
pub use ids::{Ids, RandomIds};
pub use json::{strict as strict_json, without_nulls};
pub use keyed_locks::KeyedLocks;
pub use live::Live;
pub(crate) use object::json;
pub use open::open_file;
pub use packed::unpacked;
pub use permits::Permits;
pub use program::{
    CANNOT_START, HOLD, NOT_STARTED, ProcessGroup, Program, by_signal, find_program,
    find_program_from, in_shell, own_program,
};
pub use route::{is_own_address, route_to};
pub use secret::Secret;
pub use shared_reads::SharedReads;
pub use tasks::Tasks;
pub use unseen::is_unseen;

/// A boxed future, for traits that must stay usable as `dyn`.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
