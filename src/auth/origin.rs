//! Which web pages may connect.

use std::net::IpAddr;

use crate::config::ControlUiSettings;

use super::Peer;

/// Why an origin was refused; the text is `details.reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OriginRefusal {
    /// Absent, `null` or unparsable.
    Missing,
    /// A page that is not allowed.
    NotAllowed,
}

impl OriginRefusal {
    /// The text on the wire.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Missing => "origin missing or invalid",
            Self::NotAllowed => "origin not allowed",
        }
    }
}

/// Checks the origin of a connection for which the rule applies.
pub fn check(peer: &Peer, settings: &ControlUiSettings) -> Result<(), OriginRefusal> {
    let origin = peer.origin.as_deref().unwrap_or_default().trim();
    let Some(authority) = authority(origin) else {
        return Err(OriginRefusal::Missing);
    };
    let listed = settings.allowed_origins.iter().any(|allowed| {
        allowed == "*" || allowed.trim_end_matches('/').eq_ignore_ascii_case(origin)
    });
    let same_host = settings.dangerously_allow_host_header_origin_fallback
        && peer.host.as_deref().is_some_and(|host| host.eq_ignore_ascii_case(authority));
    if listed || is_own_page(peer) || same_host { Ok(()) } else { Err(OriginRefusal::NotAllowed) }
}

/// Whether the page comes from this machine, over a connection that does.
pub fn is_own_page(peer: &Peer) -> bool {
    let origin = peer.origin.as_deref().unwrap_or_default().trim();
    peer.is_local() && authority(origin).is_some_and(|it| is_loopback_name(host_of(it)))
}

/// `host[:port]` of an origin.
fn authority(origin: &str) -> Option<&str> {
    let (scheme, authority) = origin.split_once("://")?;
    let valid = !scheme.is_empty()
        && !authority.is_empty()
        && !authority.contains(['/', '@', '?', '#', ' ']);
    valid.then_some(authority)
}

/// The host of `host[:port]`; brackets of a v6 address go.
pub fn host_of(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    authority.split(':').next().unwrap_or_default()
}

/// Whether a host name means this machine. Only exact forms count
/// (`127.evil.com` does not).
pub fn is_loopback_name(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(
        origin: Option<&str>,
        remote: &str,
        settings: &ControlUiSettings,
    ) -> Result<(), OriginRefusal> {
        let peer = Peer {
            remote: remote.parse().unwrap(),
            forwarded_for: None,
            is_forwarded: false,
            origin: origin.map(Into::into),
            host: Some("gw.example:18789".into()),
        };
        check(&peer, settings)
    }

    #[test]
    fn only_named_origins_and_own_pages_pass() {
        let none = ControlUiSettings::default();
        let listed = ControlUiSettings {
            allowed_origins: vec!["https://ui.example".into()],
            ..ControlUiSettings::default()
        };
        let fallback = ControlUiSettings {
            dangerously_allow_host_header_origin_fallback: true,
            ..ControlUiSettings::default()
        };
        let refused = Err(OriginRefusal::NotAllowed);
        for (origin, remote, settings, expected) in [
            (Some("http://localhost:5173"), "127.0.0.1", &none, Ok(())),
            (Some("http://[::1]:5173"), "::1", &none, Ok(())),
            (Some("https://127.9.9.9"), "127.0.0.1", &none, Ok(())),
            (Some("http://localhost:5173"), "10.0.0.1", &none, refused),
            (Some("https://127.evil.com"), "127.0.0.1", &none, refused),
            (Some("https://ui.example"), "10.0.0.1", &listed, Ok(())),
            (Some("https://ui.example.evil"), "10.0.0.1", &listed, refused),
            (Some("http://gw.example:18789"), "10.0.0.1", &fallback, Ok(())),
            (Some("http://gw.example:18789"), "10.0.0.1", &none, refused),
            (Some("null"), "127.0.0.1", &none, Err(OriginRefusal::Missing)),
            (None, "127.0.0.1", &none, Err(OriginRefusal::Missing)),
            (Some("http://a@localhost"), "127.0.0.1", &none, Err(OriginRefusal::Missing)),
        ] {
            assert_eq!(verdict(origin, remote, settings), expected, "{origin:?} from {remote}");
        }
    }
}
