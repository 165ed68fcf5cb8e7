//! What a request says that its body comes to: `Content-Digest` (RFC 9530) and the
//! older `Digest` (RFC 3230), of which SHA-256 is looked at.

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A digest of SHA-256.
pub(super) type Stated = [u8; 32];

/// The digest that is stated, if one is that we know.
///
/// # Errors
/// What is wrong: the header that cannot be read, or two that differ.
pub(super) fn stated(headers: &HeaderMap) -> Result<Option<Stated>, String> {
    let mut found = None;
    for (name, key, is_bytes) in [("content-digest", "sha-256", true), ("digest", "SHA-256", false)]
    {
        for line in headers.get_all(name) {
            let line = line.to_str().map_err(|_| format!("{name} cannot be read"))?;
            let values = line.split(',').filter_map(|item| item.trim().split_once('='));
            for (_, value) in values.filter(|(given, _)| given.trim().eq_ignore_ascii_case(key)) {
                let digest = decoded(value.trim(), is_bytes)
                    .ok_or_else(|| format!("{name}: {key} must be 32 bytes in base64"))?;
                if found.replace(digest).is_some_and(|other| other != digest) {
                    return Err(format!("{name}: two digests that differ"));
                }
            }
        }
    }
    Ok(found)
}

/// A sequence of bytes as structured fields have it (RFC 8941 §3.3.5), or plain
/// base64.
fn decoded(value: &str, is_bytes: bool) -> Option<Stated> {
    let text = if is_bytes {
        let value = value.split(';').next().unwrap_or_default().trim_end();
        value.strip_prefix(':')?.strip_suffix(':')?
    } else {
        value
    };
    STANDARD.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of nothing.
    const EMPTY: &str = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";

    fn of(lines: &[(&'static str, String)]) -> Result<Option<Stated>, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        stated(&headers)
    }

    #[test]
    fn both_forms_are_read_and_others_are_left_alone() {
        let expected: Stated = STANDARD.decode(EMPTY).unwrap().try_into().unwrap();
        for (name, value) in [
            ("content-digest", format!("sha-256=:{EMPTY}:")),
            ("content-digest", format!("sha-512=:AAAA:, sha-256=:{EMPTY}:;x=1")),
            ("digest", format!("SHA-256={EMPTY}")),
            ("digest", format!("unixsum=30637, sha-256={EMPTY}")),
        ] {
            assert_eq!(of(&[(name, value.clone())]), Ok(Some(expected)), "{value}");
        }
        let both = [
            ("content-digest", format!("sha-256=:{EMPTY}:")),
            ("digest", format!("SHA-256={EMPTY}")),
        ];
        assert_eq!(of(&both), Ok(Some(expected)));
        assert_eq!(of(&[("content-digest", "sha-512=:AAAA:".into())]), Ok(None));
        assert_eq!(of(&[]), Ok(None));
    }

    #[test]
    fn what_cannot_be_read_is_no_digest_that_was_not_stated() {
        let other = STANDARD.encode([7; 32]);
        for lines in [
            vec![("content-digest", format!("sha-256={EMPTY}"))],
            vec![("content-digest", "sha-256=:AAAA:".into())],
            vec![("digest", "SHA-256=x".into())],
            vec![
                ("content-digest", format!("sha-256=:{EMPTY}:")),
                ("digest", format!("SHA-256={other}")),
            ],
        ] {
            assert!(of(&lines).is_err(), "{lines:?}");
        }
    }
}
