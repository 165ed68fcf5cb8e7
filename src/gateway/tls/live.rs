//! The certificate in use, and the next one.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::net::TcpStream;
use tokio_rustls::{Accept, TlsAcceptor};

use crate::config::TlsSettings;
use crate::support::{Fingerprint, blocking};

use super::certificate::{Mark, Served, read};
use super::{TlsError, self_signed};

/// How often the files are looked at. Looking costs three system calls.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// TLS for new connections. Those that are open keep what they began with.
pub struct Tls {
    settings: TlsSettings,
    served: ArcSwap<Served>,
    /// Of the files before they were read the last time.
    seen: Mark,
}

impl Tls {
    /// Reads the certificate, or makes one; blocks.
    ///
    /// # Errors
    /// When there is none that can be used.
    pub fn load(settings: TlsSettings, now_ms: u64) -> Result<Self, TlsError> {
        self_signed::make_if_missing(&settings, now_ms)?;
        let seen = Mark::of(&settings);
        let served = ArcSwap::from_pointee(read(&settings)?);
        Ok(Self { settings, served, seen })
    }

    /// Whether [`Tls::load`] would succeed, as far as the files decide that;
    /// blocks, and makes nothing.
    ///
    /// # Errors
    /// As that one.
    pub fn check(settings: &TlsSettings) -> Result<(), TlsError> {
        if self_signed::is_missing(settings)? { Ok(()) } else { read(settings).map(drop) }
    }

    /// Of the certificate in use.
    pub fn fingerprint(&self) -> Fingerprint {
        self.served.load().fingerprint
    }

    /// Begins TLS on a connection; nothing happens until it is polled.
    pub(in crate::gateway) fn accept(&self, tcp: TcpStream) -> Accept<TcpStream> {
        TlsAcceptor::from(Arc::clone(&self.served.load().config)).accept(tcp)
    }

    /// Takes up new files as they come, for ever. Files that cannot be used are
    /// told of once, and what is in use stays.
    pub async fn keep_fresh(self: Arc<Self>) {
        let mut seen = self.seen.clone();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let (tls, before) = (Arc::clone(&self), seen.clone());
            let looked = blocking(move || tls.look(before)).await;
            seen = looked.unwrap_or(seen);
        }
    }

    /// Reads the files if they are others than before; blocks.
    fn look(&self, before: Mark) -> Mark {
        // First the mark: what changes while it is read is read again.
        let now = Mark::of(&self.settings);
        if now == before {
            return before;
        }
        match read(&self.settings) {
            Ok(served) => {
                tracing::info!(fingerprint = %served.fingerprint, "new certificate in use");
                self.served.store(Arc::new(served));
            }
            Err(error) => {
                tracing::warn!(%error, "the new certificate is of no use; the one before stays");
            }
        }
        now
    }
}
