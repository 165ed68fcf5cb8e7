//! The gateway's certificate.
//!
//! Owns: reading it, making one, and taking up a new one while connections go
//! on. Promises: a certificate that cannot be used never takes the place of one
//! that can; there is no second crypto library beside the providers'. Must not:
//! read configuration.

mod certificate;
mod live;
mod self_signed;

pub use certificate::{TlsError, expiry_of_file, fingerprint_of_file};
pub use live::Tls;
