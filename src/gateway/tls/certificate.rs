//! Certificates and keys in files.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, RootCertStore, ServerConfig};

use crate::config::TlsSettings;
use crate::store::atomic::FileError;
use crate::support::{Fingerprint, open_file};

/// A chain and its key take a few KiB; this is the wrong file.
const MAX_FILE: u64 = 1024 * 1024;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// One of the files is there, the other one is not.
    #[error(
        "gateway.tls: {} is missing; put the certificate (certPath) and its key (keyPath) there, or remove both and start the gateway with autoGenerate on, which makes them",
        .0.display()
    )]
    Missing(PathBuf),
    /// A file cannot be read.
    #[error("gateway.tls: cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file holds something else.
    #[error("gateway.tls: there is no {what} in {} (PEM is wanted)", path.display())]
    NotPem {
        /// What is wanted.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// Certificate and key do not belong together, or cannot be used.
    #[error("gateway.tls: {} cannot be used with {}: {source}", cert.display(), key.display())]
    Unusable {
        /// The certificate.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
        /// What is wrong.
        #[source]
        source: rustls::Error,
    },
    /// No certificate could be made.
    #[error("gateway.tls: no certificate could be made: {0}")]
    Generate(#[from] rcgen::Error),
    /// The certificate that was made could not be stored.
    #[error("gateway.tls: {0}")]
    Store(#[from] FileError),
}

/// What a connection is served with.
pub(super) struct Served {
    /// For the library.
    pub config: Arc<ServerConfig>,
    /// Of the first certificate.
    pub fingerprint: Fingerprint,
}

/// Reads and checks what the settings name.
pub(super) fn read(settings: &TlsSettings) -> Result<Served, TlsError> {
    let (cert, key) = (&settings.cert_path, &settings.key_path);
    let mut chain = certificates(cert)?;
    if let Some(path) = &settings.ca_path {
        for authority in certificates(path)? {
            if !chain.contains(&authority) {
                chain.push(authority);
            }
        }
    }
    let fingerprint = chain.first().map(|certificate| Fingerprint::of(certificate));
    let missing = || TlsError::NotPem { what: "certificate", path: cert.clone() };
    let fingerprint = fingerprint.ok_or_else(missing)?;
    let private = PrivateKeyDer::from_pem_slice(&bytes(key)?)
        .map_err(|_| TlsError::NotPem { what: "private key", path: key.clone() })?;
    let unusable = |source| TlsError::Unusable { cert: cert.clone(), key: key.clone(), source };
    let provider = Arc::new(ring::default_provider());
    let certified = CertifiedKey::from_der(chain, private, &provider).map_err(unusable)?;
    // As the original; every client that speaks to it knows 1.3.
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unusable)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Served { config: Arc::new(config), fingerprint })
}

/// The fingerprint of the certificate in a file, for clients on this machine.
///
/// # Errors
/// When the file is not readable or holds no certificate.
pub fn fingerprint_of_file(path: &Path) -> Result<Fingerprint, TlsError> {
    let missing = || TlsError::NotPem { what: "certificate", path: path.to_owned() };
    certificates(path)?.first().map(|certificate| Fingerprint::of(certificate)).ok_or_else(missing)
}

/// When the certificate in a file has expired, if it has by now.
pub fn expiry_of_file(path: &Path, now_ms: u64) -> Option<Timestamp> {
    let found = certificates(path).ok()?;
    let parsed = ParsedCertificate::try_from(found.first()?).ok()?;
    let now = UnixTime::since_unix_epoch(Duration::from_millis(now_ms));
    // Nobody is trusted here, which is found out only after the dates.
    let nobody = RootCertStore::empty();
    let checked = verify_server_cert_signed_by_trust_anchor(&parsed, &nobody, &[], now, &[]);
    let Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext {
        not_after, ..
    })) = checked
    else {
        return None;
    };
    Timestamp::from_second(i64::try_from(not_after.as_secs()).ok()?).ok()
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = bytes(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let wrong = || TlsError::NotPem { what: "certificate", path: path.to_owned() };
    found.ok().filter(|found| !found.is_empty()).ok_or_else(wrong)
}

pub(super) fn bytes(path: &Path) -> Result<Vec<u8>, TlsError> {
    let wrong = |source| TlsError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    open_file(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes)).map_err(wrong)?;
    Ok(bytes)
}

/// Tells one state of a file from another without reading it. A link that
/// points elsewhere is another state, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark(Vec<Option<FileMark>>);

type FileMark = (u64, u64, u64, Option<std::time::SystemTime>);

impl Mark {
    /// Of the files that the settings name.
    pub fn of(settings: &TlsSettings) -> Self {
        use std::os::unix::fs::MetadataExt;
        let files =
            [Some(&settings.cert_path), Some(&settings.key_path), settings.ca_path.as_ref()];
        let mark = |path: &PathBuf| {
            let file = fs::metadata(path).ok()?;
            Some((file.dev(), file.ino(), file.len(), file.modified().ok()))
        };
        Self(files.into_iter().flatten().map(mark).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_has_expired_is_known_and_since_when() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cert.pem");
        let pair = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        fs::write(&path, params.self_signed(&pair).unwrap().pem()).unwrap();
        let end: Timestamp = "2021-01-01T00:00:00Z".parse().unwrap();
        let now = |after: i64| u64::try_from(end.as_millisecond() + after).unwrap();
        assert_eq!(expiry_of_file(&path, now(0)), None);
        assert_eq!(expiry_of_file(&path, now(1000)), Some(end));
        fs::write(&path, "no certificate").unwrap();
        assert_eq!(expiry_of_file(&path, now(1000)), None);
    }

    #[test]
    fn a_pipe_is_no_certificate_and_nobody_waits_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("cert.pem");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        let told = bytes(&pipe).unwrap_err().to_string();
        assert!(told.contains("cert.pem: it is no file"), "{told}");
    }
}
