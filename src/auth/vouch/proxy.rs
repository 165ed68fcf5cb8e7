//! Users that a trusted proxy names.

use crate::config::ProxySettings;
use crate::support::is_own_address;

use super::super::peer::canonical;
use super::{AuthFailure, Peer};

/// The user, or why nobody is believed; in the order of the original.
pub(super) fn user<'a>(settings: &ProxySettings, peer: &'a Peer) -> Result<&'a str, AuthFailure> {
    if !settings.includes(peer.remote) {
        return Err(AuthFailure::ProxyUntrusted);
    }
    let rules = &settings.user;
    // Any program of this machine can connect from one of its addresses.
    let remote = canonical(peer.remote);
    if !rules.allow_loopback && (remote.is_loopback() || is_own_address(remote)) {
        return Err(AuthFailure::ProxyLoopback);
    }
    let claim = |name: &String| {
        peer.claims.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    };
    if !rules.required_headers.iter().all(|name| claim(name).is_some()) {
        return Err(AuthFailure::ProxyHeaderMissing);
    }
    let user = rules.user_header.as_ref().and_then(claim).ok_or(AuthFailure::ProxyUserMissing)?;
    if rules.allow_users.is_empty() || rules.allow_users.iter().any(|allowed| allowed == user) {
        Ok(user)
    } else {
        Err(AuthFailure::ProxyUserNotAllowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::vouch::Claims;
    use crate::config::ProxyUserSettings;

    fn settings() -> ProxySettings {
        ProxySettings {
            ranges: vec!["192.0.2.0/24".parse().unwrap(), "127.0.0.1".parse().unwrap()],
            user: ProxyUserSettings {
                user_header: Some("x-user".into()),
                required_headers: vec!["x-proof".into()],
                allow_users: vec!["ann@example.com".into()],
                allow_loopback: false,
            },
            allow_tailscale: false,
        }
    }

    fn peer(remote: &str, claims: &[(&str, &str)]) -> Peer {
        let claims: Claims =
            claims.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Peer { claims, ..Peer::direct(remote.parse().unwrap()) }
    }

    #[test]
    fn a_user_is_believed_only_from_a_proxy_with_all_that_was_asked_for() {
        let ann = ("x-user", "ann@example.com");
        let proof = ("x-proof", "1");
        for (remote, claims, expected) in [
            ("192.0.2.7", &[ann, proof][..], Ok("ann@example.com")),
            ("198.51.100.7", &[ann, proof], Err(AuthFailure::ProxyUntrusted)),
            ("127.0.0.1", &[ann, proof], Err(AuthFailure::ProxyLoopback)),
            ("::ffff:127.0.0.1", &[ann, proof], Err(AuthFailure::ProxyLoopback)),
            ("192.0.2.7", &[ann], Err(AuthFailure::ProxyHeaderMissing)),
            ("192.0.2.7", &[ann, ("x-proof", " ")], Err(AuthFailure::ProxyHeaderMissing)),
            ("192.0.2.7", &[proof], Err(AuthFailure::ProxyUserMissing)),
            ("192.0.2.7", &[proof, ("x-user", "")], Err(AuthFailure::ProxyUserMissing)),
            (
                "192.0.2.7",
                &[proof, ("x-user", "Ann@example.com")],
                Err(AuthFailure::ProxyUserNotAllowed),
            ),
        ] {
            let peer = peer(remote, claims);
            assert_eq!(user(&settings(), &peer), expected, "{remote} {claims:?}");
        }
    }
}
