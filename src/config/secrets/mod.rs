//! Credentials that the config refers to instead of holding them.
//!
//! Owns: what a reference looks like (`{source, provider, id}`), which
//! providers there are (`secrets.providers`), and how they are asked. Promises:
//! each provider is asked at most once for all its references, within limits of
//! time and size, and a program not again until [`reload`]; no error quotes what
//! a provider said. Must not: log a secret.

mod cache;
mod exec;
mod file;
mod provider;
mod reference;
mod resolve;
mod target;

pub use cache::SecretCache;
pub(super) use provider::read;
pub use provider::{ExecProvider, FileMode, FileProvider, SecretProvider, SecretsConfig};
pub use reference::{SecretInput, SecretRef, SecretSource};
pub use resolve::{ResolvedSecrets, SecretError, reload, resolve};
pub use target::{SecretTarget, is_target, targets};
