//! What stands behind the question mark.

use axum::http::Uri;

/// The decoded value of a name in the query, if it is there once: of two, one
/// may be somebody else's.
pub(crate) fn value(uri: &Uri, name: &str) -> Option<String> {
    let pairs = form_urlencoded::parse(uri.query()?.as_bytes());
    let mut values = pairs.filter(|(key, _)| key == name);
    let (_, value) = values.next()?;
    values.next().is_none().then(|| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_decoded_and_is_there_once() {
        let of = |uri: &str, name| value(&uri.parse().unwrap(), name);
        assert_eq!(of("/x?token=a%2Bb+c&b=2", "token").as_deref(), Some("a+b c"));
        assert_eq!(of("/x?token=", "token").as_deref(), Some(""));
        assert_eq!(of("/x?token=a&token=a", "token"), None);
        assert_eq!(of("/x", "token"), None);
    }
}
