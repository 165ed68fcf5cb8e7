//! Where a request may have its credential.
//!
//! Promises: the header wins over the query, and the query over a cookie; of a
//! name that is there twice neither counts. A cookie comes with requests that
//! nobody meant, so alone it is worth something only where no other site can have
//! made the request.

use axum::http::{HeaderMap, Method, header, request};

use super::caller::once;
use super::manner::Manner;
use super::query;

/// What a request shows, and whether its browser may have done so by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Credential {
    pub text: String,
    pub is_ambient: bool,
}

impl Manner {
    /// Names in the query under which its clients show a credential.
    const fn query_names(self) -> &'static [&'static str] {
        match self {
            Self::Recorded | Self::OpenAi => &[],
            Self::Claude => &["access_token"],
            Self::Chat => &["token", "secret"],
        }
    }

    /// The cookie in which they do.
    const fn cookie_name(self) -> Option<&'static str> {
        match self {
            Self::Claude => Some("access_token"),
            Self::Recorded | Self::Chat | Self::OpenAi => None,
        }
    }

    /// Whether its clients may show a credential in a cookie.
    pub(super) const fn has_cookie(self) -> bool {
        self.cookie_name().is_some()
    }

    /// What a request shows that is made in this manner.
    pub(super) fn credential(self, parts: &request::Parts) -> Option<Credential> {
        let meant = |text: String| Credential { text, is_ambient: false };
        if let Some(bearer) = bearer(&parts.headers) {
            return Some(meant(bearer.to_owned()));
        }
        let in_query = |name: &&str| query::value(&parts.uri, name).filter(|it| !it.is_empty());
        if let Some(shown) = self.query_names().iter().find_map(in_query) {
            return Some(meant(shown));
        }
        let cookie = cookie(&parts.headers, self.cookie_name()?)?;
        Some(Credential { text: cookie.to_owned(), is_ambient: true })
    }
}

/// Whether a request can be trusted to have a cookie because somebody meant it
/// to. A browser says where a page is that changes something or opens a WebSocket,
/// and `is_known` whether that is one that may; what only reads may be without that.
pub(super) fn is_meant(is_known: bool, parts: &request::Parts) -> bool {
    let has = |name| parts.headers.contains_key(name);
    // A page reads the answer of another origin only where that allows it; no browser
    // keeps it from what comes by a WebSocket, and from speaking there.
    let is_socket_of_page = has(header::UPGRADE) && has(header::ORIGIN);
    let is_read = [Method::GET, Method::HEAD].contains(&parts.method) && !is_socket_of_page;
    let is_own_page = once(&parts.headers, "sec-fetch-site") == Some("same-origin");
    is_read || is_known || is_own_page
}

/// What stands behind `Bearer`, if there is one such header.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = once(headers, header::AUTHORIZATION.as_str())?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The value of a cookie that is there once (RFC 6265 §4.2.1).
fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    let mut values = pairs.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim());
    let value = values.next().filter(|_| values.next().is_none())?;
    let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    Some(quoted.unwrap_or(value)).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderValue, Request};

    fn parts(uri: &str, lines: &[(&'static str, &'static str)]) -> request::Parts {
        let mut request = Request::new(());
        *request.uri_mut() = uri.parse().unwrap();
        for (name, value) in lines {
            request.headers_mut().append(*name, HeaderValue::from_static(value));
        }
        request.into_parts().0
    }

    #[test]
    fn a_bearer_is_one_and_is_one_whole_word_of_the_header() {
        let of = |lines: &[&'static str]| {
            let lines: Vec<_> = lines.iter().map(|line| ("authorization", *line)).collect();
            bearer(&parts("/", &lines).headers).map(str::to_owned)
        };
        assert_eq!(of(&["Bearer abc"]).as_deref(), Some("abc"));
        assert_eq!(of(&["bearer   a b "]).as_deref(), Some("a b"));
        for none in [&["Basic abc"][..], &["Bearer"], &["Bearer  "], &["Bearer a", "Bearer b"], &[]]
        {
            assert_eq!(of(none), None, "{none:?}");
        }
    }

    #[test]
    fn each_manner_has_its_places_and_the_header_wins() {
        let all = "/x?access_token=q&token=t&secret=s";
        let cookie = ("cookie", "a=b; access_token=c");
        let of = |manner: Manner, uri: &str, lines: &[(&'static str, &'static str)]| {
            let found = manner.credential(&parts(uri, lines));
            found.map(|it| (it.text, it.is_ambient))
        };
        let with = |text: &str, is_ambient| Some((text.to_owned(), is_ambient));
        for manner in [Manner::Recorded, Manner::Claude, Manner::Chat] {
            let lines = [("authorization", "Bearer h"), cookie];
            assert_eq!(of(manner, all, &lines), with("h", false), "{manner:?}");
        }
        assert_eq!(of(Manner::Recorded, all, &[cookie]), None);
        assert_eq!(of(Manner::Claude, all, &[cookie]), with("q", false));
        assert_eq!(of(Manner::Claude, "/x", &[cookie]), with("c", true));
        assert_eq!(of(Manner::Chat, all, &[cookie]), with("t", false));
        assert_eq!(of(Manner::Chat, "/x?secret=s%20", &[cookie]), with("s ", false));
        assert_eq!(of(Manner::Chat, "/x", &[cookie]), None);
        let twice = ("cookie", "access_token=1; access_token=2");
        assert_eq!(of(Manner::Claude, "/x", &[twice]), None);
        let quoted = ("cookie", "access_token=\"1\"");
        assert_eq!(of(Manner::Claude, "/x", &[quoted]), with("1", true));
    }

    #[test]
    fn a_cookie_alone_changes_nothing_unless_the_browser_says_whose_page_it_is() {
        let meant = |method: Method, is_known, lines: &[(&'static str, &'static str)]| {
            let mut parts = parts("/", lines);
            parts.method = method;
            is_meant(is_known, &parts)
        };
        assert!(meant(Method::GET, false, &[]));
        assert!(!meant(Method::POST, false, &[]));
        assert!(!meant(Method::DELETE, false, &[("sec-fetch-site", "none")]));
        assert!(meant(Method::POST, false, &[("sec-fetch-site", "same-origin")]));
        assert!(meant(Method::POST, true, &[]));
        let (upgrade, page) = (("upgrade", "websocket"), ("origin", "https://evil.example"));
        assert!(meant(Method::GET, false, &[upgrade]) && meant(Method::GET, false, &[page]));
        assert!(!meant(Method::GET, false, &[upgrade, page]));
        assert!(meant(Method::GET, true, &[upgrade, page]));
        assert!(meant(Method::GET, false, &[upgrade, page, ("sec-fetch-site", "same-origin")]));
    }
}
