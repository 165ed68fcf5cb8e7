//! Which web pages may connect, and under which names the gateway answers them.
//!
//! Promises: a page that is not allowed gets nothing, whatever name it gives the
//! gateway (DNS rebinding) and whether its browser sends an origin or not.

use std::fmt;
use std::net::IpAddr;

use reqwest::Url;

use crate::config::ControlUiSettings;
use crate::protocol::ErrorShape;
use crate::support::json;
use crate::telemetry::quoted;

use super::Peer;

/// Why a page was refused; the text is `details.reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OriginRefusal {
    /// Absent, `null` or unparsable.
    #[error("origin missing or invalid")]
    Missing,
    /// A page that is not allowed.
    #[error("origin not allowed")]
    NotAllowed,
    /// It calls the gateway by a name that may be anybody's.
    #[error(
        "host not allowed (use an IP address or localhost, or name the host in gateway.controlUi.allowedOrigins)"
    )]
    ForeignHost,
}

impl OriginRefusal {
    /// The error of a `connect`: the recorded one, with what was seen and what
    /// to write.
    pub fn to_error(self, peer: &Peer) -> ErrorShape {
        let mut details = json!({
            "code": "CONTROL_UI_ORIGIN_NOT_ALLOWED",
            "reason": self.to_string(),
        });
        for (name, seen) in [("origin", &peer.origin), ("host", &peer.host)] {
            if let Some(seen) = seen {
                details[name] = quoted(seen).into();
            }
        }
        // What was shortened is nothing to write.
        let whole = peer.origin.as_deref().filter(|origin| quoted(origin) == **origin);
        if let Some(origin) = whole.and_then(normal) {
            details["fix"] = format!("add \"{origin}\" to gateway.controlUi.allowedOrigins").into();
        }
        ErrorShape::denied(
            "origin not allowed (open the Control UI from the gateway host or allow it in gateway.controlUi.allowedOrigins)",
        )
        .details(details)
    }
}

/// Why a page is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// `gateway.controlUi.allowedOrigins` has it.
    Listed,
    /// It is served from this machine to this machine.
    OwnPage,
    /// It is called as the gateway is, and that counts.
    SameHost,
    /// It is called as the gateway is, over TLS, and nobody else can be.
    SamePlace,
}

/// Checks the origin of a connection for which the rule applies.
pub fn check(peer: &Peer, settings: &ControlUiSettings) -> Result<Pass, OriginRefusal> {
    let origin = peer.origin.as_deref().unwrap_or_default().trim();
    let Some(authority) = authority(origin) else {
        return Err(OriginRefusal::Missing);
    };
    let has_own_name = peer.host.as_deref().is_some_and(|it| it.eq_ignore_ascii_case(authority));
    let same_host = has_own_name && settings.dangerously_allow_host_header_origin_fallback;
    let same_place = has_own_name
        && normal(origin).is_some_and(|origin| origin.starts_with("https://"))
        && is_nobody_elses(host_of(authority));
    if listing(peer, settings).is_some() {
        Ok(Pass::Listed)
    } else if is_own_page(peer) {
        Ok(Pass::OwnPage)
    } else if same_host {
        Ok(Pass::SameHost)
    } else if same_place {
        Ok(Pass::SamePlace)
    } else {
        Err(OriginRefusal::NotAllowed)
    }
}

/// Whether the page comes from this machine, over a connection that does.
pub fn is_own_page(peer: &Peer) -> bool {
    let origin = peer.origin.as_deref().unwrap_or_default().trim();
    peer.is_local() && authority(origin).is_some_and(|it| is_loopback_name(host_of(it)))
}

/// Checks a request that is no WebSocket. A page that has had its own name point
/// here sends no origin, but that name.
pub fn check_request(
    peer: &Peer,
    settings: &ControlUiSettings,
    through_proxy: bool,
) -> Result<(), OriginRefusal> {
    if peer.origin.is_some() {
        check(peer, settings)?;
    } else if peer.is_cross_site {
        return Err(OriginRefusal::NotAllowed);
    }
    match &peer.host {
        Some(host) if !through_proxy && !is_known_host(host_of(host), settings) => {
            Err(OriginRefusal::ForeignHost)
        }
        _ => Ok(()),
    }
}

/// How `gateway.controlUi.allowedOrigins` has a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// By its origin.
    ByName,
    /// With all others, as `*`.
    ByStar,
}

/// How the list has the page of a request; none when it has not.
pub fn listing(peer: &Peer, settings: &ControlUiSettings) -> Option<Listing> {
    let origin = peer.origin.as_deref()?.trim();
    authority(origin)?;
    let normal = normal(origin);
    let allowed = settings.allowed_origins.iter().map(|allowed| allowed.trim_end_matches('/'));
    let is_its = |allowed: &str| {
        allowed.eq_ignore_ascii_case(origin)
            || (normal.is_some() && normal == self::normal(allowed))
    };
    if allowed.clone().any(is_its) {
        return Some(Listing::ByName);
    }
    allowed.into_iter().any(|allowed| allowed == "*").then_some(Listing::ByStar)
}

/// An origin without the port that its scheme implies; `None` for schemes that
/// browsers make no such origins of.
fn normal(origin: &str) -> Option<String> {
    let origin = Url::parse(origin).ok()?.origin();
    origin.is_tuple().then(|| origin.ascii_serialization())
}

/// Whether a host name cannot be pointed here by somebody else: addresses,
/// `localhost`, names of this machine and of tailnets, and those of the pages
/// that are allowed. All are, where the name itself decides which pages are.
fn is_known_host(host: &str, settings: &ControlUiSettings) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let own = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
    // However it is written there: as for the origin itself.
    let of_allowed = |allowed: &String| {
        let allowed = allowed.trim_end_matches('/');
        let origin = normal(allowed);
        let authority = authority(origin.as_deref().unwrap_or(allowed));
        allowed == "*" || authority.is_some_and(|it| host_of(it).eq_ignore_ascii_case(&host))
    };
    host.parse::<IpAddr>().is_ok()
        || host == "localhost"
        || host.ends_with(".localhost")
        || host == own
        || host.strip_suffix(".local") == Some(own.as_str())
        || host.ends_with(".ts.net")
        || settings.dangerously_allow_host_header_origin_fallback
        || settings.allowed_origins.iter().any(of_allowed)
}

/// Whether a page under this name that calls the gateway by the same one was
/// served by it: an address leads to one place, and the names of a tailnet are
/// given out by Tailscale. Any other name can be made to lead here.
fn is_nobody_elses(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok() || host.to_ascii_lowercase().ends_with(".ts.net")
}

/// What would become of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageVerdict {
    /// What its browser sends as `Origin`.
    pub origin: String,
    /// When the browser is on the gateway's machine, without a proxy between.
    pub here: Result<Pass, OriginRefusal>,
    /// When it is anywhere else, or comes through a proxy.
    pub elsewhere: Result<Pass, OriginRefusal>,
    /// Whether the browser lets it have a device identity: over `https`, or from
    /// its own machine.
    pub is_secure: bool,
}

/// The verdict on a page at this address; `None` when it is not one of a page.
/// Opens nothing.
pub fn page_verdict(url: &str, settings: &ControlUiSettings) -> Option<PageVerdict> {
    let url = url.trim();
    let url = match url.split_once("://")? {
        ("ws", rest) => format!("http://{rest}"),
        ("wss", rest) => format!("https://{rest}"),
        _ => url.to_owned(),
    };
    let origin = normal(&url)?;
    let host = authority(&origin)?;
    let from = |remote: [u8; 4]| {
        let peer = Peer {
            origin: Some(origin.clone()),
            host: Some(host.to_owned()),
            ..Peer::direct(remote.into())
        };
        check(&peer, settings)
    };
    Some(PageVerdict {
        here: from([127, 0, 0, 1]),
        // Reserved for documentation (RFC 5737), so never this machine.
        elsewhere: from([192, 0, 2, 1]),
        is_secure: url.starts_with("https://") || is_loopback_name(host_of(host)),
        origin,
    })
}

/// For people, with the way out.
impl fmt::Display for PageVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, here, elsewhere, is_secure } = self;
        let why = |pass: Pass| match pass {
            Pass::Listed => "gateway.controlUi.allowedOrigins has it",
            Pass::OwnPage => "it is a page of this machine",
            Pass::SameHost => "dangerouslyAllowHostHeaderOriginFallback is on",
            Pass::SamePlace => "it is the gateway's own page, over TLS",
        };
        match (here, elsewhere) {
            (_, Ok(pass)) => write!(f, "a page of {origin} may connect: {}", why(*pass))?,
            (Ok(pass), Err(_)) => write!(
                f,
                "a page of {origin} may connect from the gateway's own machine ({}), and from \
                 nowhere else; to allow that, add \"{origin}\" to gateway.controlUi.allowedOrigins",
                why(*pass)
            )?,
            (Err(refusal), Err(_)) => write!(
                f,
                "a page of {origin} may not connect: {refusal}; to allow it, add \"{origin}\" to \
                 gateway.controlUi.allowedOrigins"
            )?,
        }
        if !is_secure {
            f.write_str(
                "; over http from another machine its browser gives it no device identity, which \
                 the Control UI needs: serve it by https (see docs/deploy.md)",
            )?;
        }
        Ok(())
    }
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
            origin: origin.map(Into::into),
            host: Some("gw.example:18789".into()),
            ..Peer::direct(remote.parse().unwrap())
        };
        check(&peer, settings).map(drop)
    }

    fn listed(origin: &str) -> ControlUiSettings {
        ControlUiSettings { allowed_origins: vec![origin.into()], ..ControlUiSettings::default() }
    }

    #[test]
    fn only_named_origins_and_own_pages_pass() {
        let none = ControlUiSettings::default();
        let listed = listed("https://ui.example:443/");
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
            (Some("HTTPS://UI.example:443"), "10.0.0.1", &listed, Ok(())),
            (Some("https://ui.example:444"), "10.0.0.1", &listed, refused),
            (Some("http://ui.example"), "10.0.0.1", &listed, refused),
            (Some("https://ui.example.evil"), "10.0.0.1", &listed, refused),
            (Some("http://gw.example:18789"), "10.0.0.1", &fallback, Ok(())),
            (Some("http://gw.example:18789"), "10.0.0.1", &none, refused),
            (Some("null"), "127.0.0.1", &none, Err(OriginRefusal::Missing)),
            (None, "127.0.0.1", &none, Err(OriginRefusal::Missing)),
            (Some("http://a@localhost"), "127.0.0.1", &none, Err(OriginRefusal::Missing)),
        ] {
            assert_eq!(verdict(origin, remote, settings), expected, "{origin:?} from {remote}");
        }
        let app = self::listed("tauri://localhost");
        assert_eq!(verdict(Some("tauri://localhost"), "10.0.0.1", &app), Ok(()));
    }

    #[test]
    fn names_that_anybody_can_point_here_are_not_answered() {
        let settings = listed("https://ui.example:8443");
        let of = |host: &str, through_proxy| {
            let host = Some(host.to_owned());
            let peer = Peer { host, ..Peer::direct([127, 0, 0, 1].into()) };
            check_request(&peer, &settings, through_proxy)
        };
        for host in [
            "localhost:18789",
            "LOCALHOST.",
            "app.localhost",
            "127.0.0.1:18789",
            "[::1]:18789",
            "192.168.1.20",
            "box.tail1234.ts.net",
            "ui.example",
        ] {
            assert_eq!(of(host, false), Ok(()), "{host}");
        }
        for host in ["evil.example:18789", "127.0.0.1.evil.example", "localhost.evil.example", ""] {
            assert_eq!(of(host, false), Err(OriginRefusal::ForeignHost), "{host}");
            assert_eq!(of(host, true), Ok(()), "its proxy answers for {host}");
        }
    }

    #[test]
    fn the_host_of_a_listed_origin_is_known_however_that_is_written() {
        let of = |written: &str| {
            let host = Some("ui.example:8443".to_owned());
            let peer = Peer { host, ..Peer::direct([127, 0, 0, 1].into()) };
            check_request(&peer, &listed(written), false)
        };
        for written in
            ["https://ui.example/", "HTTPS://UI.Example:8443", "https://ui.example/chat", "*/"]
        {
            assert_eq!(of(written), Ok(()), "{written}");
        }
        for written in ["https://example/", "https://ui.example.evil/", "ui.example/", ""] {
            assert_eq!(of(written), Err(OriginRefusal::ForeignHost), "{written}");
        }
    }

    #[test]
    fn a_request_of_another_site_is_refused_with_and_without_an_origin() {
        let settings = ControlUiSettings::default();
        let direct = || Peer::direct([127, 0, 0, 1].into());
        let silent = Peer { is_cross_site: true, ..direct() };
        assert_eq!(check_request(&silent, &settings, false), Err(OriginRefusal::NotAllowed));
        let origin = Some("https://evil.example".into());
        let open = Peer { origin, ..direct() };
        assert_eq!(check_request(&open, &settings, true), Err(OriginRefusal::NotAllowed));
        assert_eq!(check_request(&direct(), &settings, false), Ok(()));
    }

    #[test]
    fn a_page_of_the_gateway_itself_passes_where_nobody_else_can_serve_it() {
        let passes = |origin: &str, host: &str| {
            let (origin, host) = (Some(origin.to_owned()), Some(host.to_owned()));
            let peer = Peer { origin, host, ..Peer::direct([10, 0, 0, 1].into()) };
            check(&peer, &ControlUiSettings::default()) == Ok(Pass::SamePlace)
        };
        assert!(passes("https://192.168.1.20:18789", "192.168.1.20:18789"));
        assert!(passes("https://[fd00::1]:18789", "[fd00::1]:18789"));
        assert!(passes("https://box.tail1a2b.ts.net", "BOX.tail1a2b.ts.net"));
        for (origin, host) in [
            ("https://192.168.1.20:8443", "192.168.1.20:18789"),
            ("https://192.168.1.21:18789", "192.168.1.20:18789"),
            ("http://192.168.1.20:18789", "192.168.1.20:18789"),
            ("https://evil.example:18789", "evil.example:18789"),
            ("https://ts.net.evil.example", "ts.net.evil.example"),
            ("https://evil-ts.net", "evil-ts.net"),
        ] {
            assert!(!passes(origin, host), "{origin}");
        }
    }

    #[test]
    fn the_verdict_on_a_page_says_who_gets_in_and_what_to_do() {
        let settings = listed("https://ui.example");
        let said = |url: &str| page_verdict(url, &settings).map(|verdict| verdict.to_string());
        assert_eq!(
            said("https://UI.example:443/chat?x=1").unwrap(),
            "a page of https://ui.example may connect: gateway.controlUi.allowedOrigins has it"
        );
        assert_eq!(
            said("ws://localhost:18789").unwrap(),
            "a page of http://localhost:18789 may connect from the gateway's own machine (it is a \
             page of this machine), and from nowhere else; to allow that, add \
             \"http://localhost:18789\" to gateway.controlUi.allowedOrigins"
        );
        let lan = said("http://192.168.1.20:18789/").unwrap();
        assert!(lan.contains("may not connect: origin not allowed"), "{lan}");
        assert!(lan.contains("add \"http://192.168.1.20:18789\""), "{lan}");
        assert!(lan.ends_with("serve it by https (see docs/deploy.md)"), "{lan}");
        for url in ["", "ui.example", "mailto:a@b", "file:///etc/passwd"] {
            assert_eq!(said(url), None, "{url}");
        }
    }
}
