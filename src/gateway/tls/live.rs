//! The certificate in use, and the next one.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::net::TcpStream;
use tokio_rustls::{Accept, TlsAcceptor};

use crate::config::TlsSettings;
use crate::support::{Fingerprint, blocking, trouble};

use super::certificate::{Mark, Served, expiry_of_file, read};
use super::{TlsError, self_signed};

/// How often the files are looked at. Looking costs three system calls.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Its name on the board of troubles.
const PART: &str = "tls";

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
        if let Some(expired) = expiry_of_file(&settings.cert_path, now_ms) {
            let path = settings.cert_path.display();
            tracing::warn!(%path, %expired, "the certificate has expired; only who pins it connects");
        }
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

    /// Takes up new files as they come, for ever, and has each certificate told. What is wrong
    /// with files that cannot be used is told once, and they are read again at each look; what
    /// is in use stays.
    pub async fn keep_fresh(
        self: Arc<Self>,
        on_new: impl Fn(Fingerprint) + Clone + Send + 'static,
    ) {
        trouble::tell(PART, None);
        let mut seen = Seen { mark: self.seen.clone(), wrong: None };
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let (tls, before, on_new) = (Arc::clone(&self), seen.clone(), on_new.clone());
            let looked = blocking(move || {
                let known = tls.fingerprint();
                let seen = tls.look(before);
                let now = tls.fingerprint();
                if now != known {
                    on_new(now);
                }
                seen
            });
            let looked = looked.await;
            seen = looked.unwrap_or(seen);
        }
    }

    /// Reads the files if they are others than before, or were of no use; blocks.
    fn look(&self, before: Seen) -> Seen {
        // First the mark: what changes while it is read is read again.
        let mark = Mark::of(&self.settings);
        if mark == before.mark && before.wrong.is_none() {
            return before;
        }
        let wrong = match read(&self.settings) {
            Ok(served) => {
                tracing::info!(fingerprint = %served.fingerprint, "new certificate in use");
                self.served.store(Arc::new(served));
                None
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = wrong.as_ref().filter(|_| wrong != before.wrong) {
            tracing::warn!(%error, "the new certificate is of no use; the one before stays");
        }
        trouble::tell(PART, wrong.clone());
        Seen { mark, wrong }
    }
}

/// What was seen of the files the last time.
#[derive(Clone)]
struct Seen {
    mark: Mark,
    /// Why they were of no use; that need not be in the files.
    wrong: Option<String>,
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;
    use std::time::SystemTime;

    use super::*;

    fn put(folder: &Path) -> (TlsSettings, Fingerprint) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let settings = TlsSettings {
            enabled: true,
            auto_generate: false,
            cert_path: folder.join("cert.pem"),
            key_path: folder.join("key.pem"),
            is_own: false,
            ca_path: None,
        };
        fs::write(&settings.cert_path, made.cert.pem()).unwrap();
        fs::write(&settings.key_path, made.signing_key.serialize_pem()).unwrap();
        (settings, Fingerprint::of(made.cert.der()))
    }

    /// Writes a file that looks the same each time.
    fn write(path: &Path, bytes: &[u8]) {
        fs::write(path, bytes).unwrap();
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }

    #[test]
    fn files_that_could_not_be_used_are_read_again_though_they_look_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let (settings, first) = put(folder.path());
        let tls = Tls::load(settings.clone(), 0).unwrap();
        let (_, second) = put(folder.path());
        let key = fs::read(&settings.key_path).unwrap();
        write(&settings.key_path, &vec![b'x'; key.len()]);
        let seen = tls.look(Seen { mark: tls.seen.clone(), wrong: None });
        let wrong = seen.wrong.as_deref().unwrap();
        assert!(wrong.contains("no private key") && trouble::of(PART).unwrap().error == wrong);
        assert_eq!(tls.fingerprint(), first);

        // As when only the right to read it was missing.
        write(&settings.key_path, &key);
        assert!(Mark::of(&settings) == seen.mark);
        assert_eq!(tls.look(seen).wrong, None);
        assert_eq!(tls.fingerprint(), second);
        assert_eq!(trouble::of(PART), None);
    }
}
