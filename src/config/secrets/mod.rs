//! Credentials that the config refers to instead of holding them.
//!
//! Owns: what a reference looks like (`{source, provider, id}`), which
//! providers there are (`secrets.providers`), and how they are asked. Promises:
//! each provider is asked at most once for all its references, within limits of
//! time and size; no error quotes what a provider said. Must not: cache or log
//! a secret.

mod exec;
mod file;
mod provider;
mod reference;
mod resolve;

pub(super) use provider::read;
pub use provider::{ExecProvider, FileMode, FileProvider, SecretProvider, SecretsConfig};
pub use reference::{SecretInput, SecretRef, SecretSource};
pub use resolve::{ResolvedSecrets, SecretError, resolve};
