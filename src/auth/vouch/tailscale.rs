//! Users that Tailscale Serve names.

use std::net::IpAddr;

use super::super::peer::canonical;
use super::whois::Whois;
use super::{AuthFailure, Peer};

const LOGIN: &str = "tailscale-user-login";

/// What Serve sends: the user, and where the request came from.
pub(super) const HEADERS: [&str; 4] =
    [LOGIN, "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"];

/// The user, when Tailscale itself says that the client's address is his.
pub(super) async fn user<'a>(peer: &'a Peer, whois: &Whois) -> Result<&'a str, AuthFailure> {
    let claim = |name: &str| {
        peer.claims.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    };
    let login = claim(LOGIN).ok_or(AuthFailure::TailscaleUserMissing)?;
    let from_serve =
        canonical(peer.remote).is_loopback() && HEADERS.iter().all(|name| claim(name).is_some());
    if !from_serve {
        return Err(AuthFailure::TailscaleProxyMissing);
    }
    // Serve puts the client's address last, whatever the client sent.
    let chain = peer.forwarded_for.as_deref().unwrap_or_default();
    let client = chain.rsplit(',').next().and_then(|part| part.trim().parse::<IpAddr>().ok());
    let client = client.map(canonical).filter(|ip| is_tailnet(*ip));
    let client = client.ok_or(AuthFailure::TailscaleWhoisFailed)?;
    let known = whois.login(client).await.ok_or(AuthFailure::TailscaleWhoisFailed)?;
    if known.trim().eq_ignore_ascii_case(login) {
        Ok(login)
    } else {
        Err(AuthFailure::TailscaleUserMismatch)
    }
}

/// What Tailscale gives to machines: 100.64.0.0/10 and `fd7a:115c:a1e0::/48`.
fn is_tailnet(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let [first, second, ..] = ip.octets();
            first == 100 && (64..128).contains(&second)
        }
        IpAddr::V6(ip) => matches!(ip.segments(), [0xfd7a, 0x115c, 0xa1e0, ..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_tailnets_are_asked_about() {
        let is = |text: &str| is_tailnet(text.parse().unwrap());
        assert!(is("100.64.0.1") && is("100.127.0.1") && is("fd7a:115c:a1e0::1"));
        assert!(!is("100.128.0.1") && !is("10.0.0.1") && !is("fd7a:115c:a1e1::1"));
    }
}
