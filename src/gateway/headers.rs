//! What the headers of a request say of the other side.

use std::net::IpAddr;

use axum::http::Uri;
use axum::http::header::{self, HeaderMap, HeaderName};

use crate::auth::{Claims, Peer};
use crate::support::sort;

/// Headers that only proxies add. A request with one is never local.
const FORWARDING: [&str; 7] = [
    "forwarded",
    "x-real-ip",
    "via",
    "cf-connecting-ip",
    "true-client-ip",
    "x-client-ip",
    "x-original-forwarded-for",
];
/// The same, as beginnings of their names.
const FORWARDING_FAMILIES: [&str; 2] = ["x-forwarded-", "tailscale-"];
/// Longest value of a header that names a user.
const MAX_CLAIM: usize = 256;

/// The other side of a request for `uri`, with those headers of it that are `wanted`.
pub(super) fn peer_of(remote: IpAddr, uri: &Uri, headers: &HeaderMap, wanted: &[String]) -> Peer {
    let text = |name: HeaderName| {
        let value = headers.get(name)?.to_str().ok()?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    };
    // All lines of the header form one chain, in order.
    let forwarded_for: Vec<_> =
        headers.get_all("x-forwarded-for").iter().filter_map(|line| line.to_str().ok()).collect();
    let claim = |name: &String| {
        let value = once(headers, name).filter(|value| value.len() <= MAX_CLAIM)?;
        Some((name.clone(), value.to_owned()))
    };
    let claims: Claims = sort::map(wanted.iter().filter_map(claim));
    Peer {
        forwarded_for: (!forwarded_for.is_empty()).then(|| forwarded_for.join(",")),
        // A user is named by a proxy, even by one that leaves no other trace.
        is_forwarded: !claims.is_empty() || headers.keys().any(is_forwarding),
        // An origin that is no text is still an origin, only not an allowed one.
        origin: headers
            .get(header::ORIGIN)
            .filter(|value| !value.is_empty())
            .map(|value| value.to_str().unwrap_or("null").to_owned()),
        host: host_of(uri).or_else(|| text(header::HOST)),
        is_cross_site: is_cross_site(headers),
        claims,
        ..Peer::direct(remote)
    }
}

/// The name in a target that has one: it counts instead of the header (RFC 9112, §3.2.2).
fn host_of(uri: &Uri) -> Option<String> {
    let authority = uri.authority()?.as_str();
    Some(authority.rsplit('@').next().unwrap_or(authority).to_owned())
}

/// Whether a page of another site asks. A link there that somebody follows is
/// his own doing.
fn is_cross_site(headers: &HeaderMap) -> bool {
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|it| it == value);
    let from_elsewhere = is("sec-fetch-site", "cross-site") || is("sec-fetch-site", "same-site");
    let is_link = is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document");
    from_elsewhere && !is_link
}

fn is_forwarding(name: &HeaderName) -> bool {
    let name = name.as_str();
    FORWARDING.contains(&name) || FORWARDING_FAMILIES.iter().any(|family| name.starts_with(family))
}

/// The value of a header that is there once: of two, one may be another's than it seems.
pub fn once<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut lines = headers.get_all(name).iter();
    let value = lines.next()?.to_str().ok()?.trim();
    lines.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn peer(lines: &[(&'static str, &'static str)]) -> Peer {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let uri = Uri::from_static("/");
        peer_of("127.0.0.1".parse().unwrap(), &uri, &headers, &["x-user".to_owned()])
    }

    #[test]
    fn any_trace_of_a_proxy_makes_a_request_foreign() {
        for name in ["forwarded", "x-forwarded-port", "x-real-ip", "via", "tailscale-user-login"] {
            assert!(!peer(&[(name, "")]).is_local(), "{name}");
        }
        assert!(!peer(&[("x-user", "ann")]).is_local(), "a proxy says who it is");
        assert!(peer(&[("host", "localhost"), ("x-other", "ann")]).is_local());
    }

    #[test]
    fn a_user_that_is_named_twice_is_nobody() {
        assert_eq!(peer(&[("x-user", "ann")]).claims["x-user"], "ann");
        assert!(peer(&[("x-user", "ann"), ("x-user", "bob")]).claims.is_empty());
        assert!(peer(&[("x-other", "ann")]).claims.is_empty());
    }

    #[test]
    fn a_name_in_the_target_counts_instead_of_the_header() {
        for (uri, expected) in [
            ("/", "localhost"),
            ("http://evil.example:1/", "evil.example:1"),
            ("http://localhost@evil.example/", "evil.example"),
            ("evil.example:80", "evil.example:80"),
        ] {
            let headers = [(header::HOST, HeaderValue::from_static("localhost"))];
            let headers = HeaderMap::from_iter(headers);
            let remote = "127.0.0.1".parse().unwrap();
            let peer = peer_of(remote, &uri.parse().unwrap(), &headers, &[]);
            assert_eq!(peer.host.as_deref(), Some(expected));
        }
    }

    #[test]
    fn the_lines_of_a_chain_are_one_chain() {
        let peer = peer(&[("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "2.2.2.2, 3.3.3.3")]);
        assert_eq!(peer.forwarded_for.as_deref(), Some("1.1.1.1,2.2.2.2, 3.3.3.3"));
    }
}
