//! A certificate of the gateway's own making, for clients that pin it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jiff::{Timestamp, tz::TimeZone};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};

use crate::config::TlsSettings;
use crate::store::atomic;

use super::TlsError;
use super::certificate::bytes;

/// As the original's. Nobody renews it, and clients look at the fingerprint.
const YEARS: i16 = 10;
/// Everybody may see a certificate.
const CERTIFICATE_MODE: u32 = 0o644;
/// The name that the original gives its own.
const NAME: &str = "openclaw-gateway";

/// Whether the certificate has to be made, and may be. Its key is made before it, and is
/// there alone when a start was cut short in between; then it must be of use. A key that
/// somebody else has put somewhere waits for its certificate.
pub(super) fn is_missing(settings: &TlsSettings) -> Result<bool, TlsError> {
    let (cert, key) = (&settings.cert_path, &settings.key_path);
    match (cert.exists(), key.exists()) {
        (true, true) => Ok(false),
        (true, false) => Err(TlsError::Missing(key.clone())),
        (false, false) if settings.auto_generate => Ok(true),
        (false, true) if settings.auto_generate && settings.is_own => own_key(key).map(|_| true),
        (false, _) => Err(TlsError::Missing(cert.clone())),
    }
}

/// Makes the certificate when it is not there, with its key unless that is, and the
/// settings allow it.
pub(super) fn make_if_missing(settings: &TlsSettings, now_ms: u64) -> Result<(), TlsError> {
    if !is_missing(settings)? {
        return Ok(());
    }
    let (cert, key) = (&settings.cert_path, &settings.key_path);
    let pair = if key.exists() {
        own_key(key)?
    } else {
        let pair = KeyPair::generate()?;
        atomic::create_private(key, pair.serialize_pem().as_bytes())?;
        pair
    };
    let certificate = params(now_ms)?.self_signed(&pair)?;
    atomic::create_private(cert, certificate.pem().as_bytes())?;
    show(cert);
    let path = cert.display();
    if settings.is_own {
        tracing::info!(%path, "made a self-signed certificate");
    } else {
        tracing::warn!(%path, "there was no certificate; made a self-signed one, which no client knows");
    }
    Ok(())
}

fn own_key(path: &Path) -> Result<KeyPair, TlsError> {
    let not_pem = || TlsError::NotPem { what: "private key", path: path.to_owned() };
    let text = String::from_utf8(bytes(path)?).map_err(|_| not_pem())?;
    KeyPair::from_pem(&text).map_err(|_| not_pem())
}

fn params(now_ms: u64) -> Result<CertificateParams, rcgen::Error> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // A name that no certificate can hold is left out.
    if CertificateParams::new([host.clone()]).is_ok() && !names.contains(&host) {
        names.push(host);
    }
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let now = i64::try_from(now_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let now = now.unwrap_or_default().to_zoned(TimeZone::UTC);
    // The first of a month is in every year, and before today.
    let month = u8::try_from(now.month()).unwrap_or(1);
    params.not_before = date_time_ymd(i32::from(now.year()), month, 1);
    params.not_after = date_time_ymd(i32::from(now.year() + YEARS), month, 1);
    Ok(params)
}

/// Lets everybody read the certificate. It is of use without.
fn show(cert: &Path) {
    if let Err(error) = fs::set_permissions(cert, Permissions::from_mode(CERTIFICATE_MODE)) {
        tracing::debug!(%error, path = %cert.display(), "the certificate stays private");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::tls::certificate::read;

    #[test]
    fn a_key_without_a_certificate_gets_one_where_that_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        let settings = |auto_generate| TlsSettings {
            enabled: true,
            auto_generate,
            cert_path: cert.clone(),
            key_path: key.clone(),
            is_own: true,
            ca_path: None,
        };
        make_if_missing(&settings(true), 0).unwrap();
        let made = fs::read(&key).unwrap();
        fs::remove_file(&cert).unwrap();
        let refused = make_if_missing(&settings(false), 0);
        assert!(matches!(refused, Err(TlsError::Missing(path)) if path == cert));
        let elsewhere = TlsSettings { is_own: false, ..settings(true) };
        let refused = make_if_missing(&elsewhere, 0);
        assert!(matches!(refused, Err(TlsError::Missing(path)) if path == cert));
        make_if_missing(&settings(true), 0).unwrap();
        assert_eq!(fs::read(&key).unwrap(), made, "the key stays");
        read(&settings(true)).unwrap_or_else(|error| panic!("{error}"));

        fs::remove_file(&cert).unwrap();
        fs::write(&key, "no key").unwrap();
        let refused = is_missing(&settings(true));
        assert!(matches!(refused, Err(TlsError::NotPem { path, .. }) if path == key));
        assert!(!cert.exists());

        fs::remove_file(&key).unwrap();
        make_if_missing(&elsewhere, 0).unwrap();
        read(&elsewhere).unwrap_or_else(|error| panic!("{error}"));
    }
}
