//! Where a connection comes from.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::config::ProxySettings;

use super::AuthFailure;
use super::vouch::{Claims, Vouch, Voucher};

/// What the upgrade request tells of the other side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The other end of the TCP connection.
    pub remote: IpAddr,
    /// `X-Forwarded-For`, as sent.
    pub forwarded_for: Option<String>,
    /// Whether any forwarding header is there.
    pub is_forwarded: bool,
    /// `Origin`, as sent; never empty.
    pub origin: Option<String>,
    /// `Host`, as sent.
    pub host: Option<String>,
    /// Whether a browser says that a page of another site asks.
    pub is_cross_site: bool,
    /// Headers that say who the user is.
    pub claims: Claims,
    /// Whether somebody has confirmed that.
    pub vouch: Vouch,
}

impl Peer {
    /// A connection without any header of interest.
    pub fn direct(remote: IpAddr) -> Self {
        Self {
            remote,
            forwarded_for: None,
            is_forwarded: false,
            origin: None,
            host: None,
            is_cross_site: false,
            claims: Claims::new(),
            vouch: Vouch::Nothing,
        }
    }

    /// Who vouches for the user, if anybody does.
    pub const fn voucher(&self) -> Option<Voucher> {
        match self.vouch {
            Vouch::For(voucher) => Some(voucher),
            Vouch::Nothing | Vouch::Refused(_) => None,
        }
    }

    /// Why nobody vouches for the user, for one who has given no secret either.
    pub const fn refused(&self, gives_secret: bool) -> Option<AuthFailure> {
        match self.vouch {
            Vouch::Refused(why) if !gives_secret => Some(why),
            _ => None,
        }
    }

    /// A direct connection from this machine: loopback, and no header that a
    /// proxy would add.
    pub fn is_local(&self) -> bool {
        canonical(self.remote).is_loopback() && !self.is_forwarded
    }

    /// The client's address: behind a trusted proxy the last address of the
    /// chain that is no proxy itself, else the TCP peer.
    pub fn client_ip(&self, proxies: &ProxySettings) -> IpAddr {
        let is_trusted = |ip: &IpAddr| proxies.includes(*ip);
        let remote = canonical(self.remote);
        if !is_trusted(&remote) {
            return remote;
        }
        self.forwarded_for
            .as_deref()
            .unwrap_or_default()
            .rsplit(',')
            .map_while(|part| address(part.trim()))
            .map(canonical)
            .find(|ip| !is_trusted(ip))
            .unwrap_or(remote)
    }
}

/// The address in one part of a chain; some proxies tell the port as well, or put the
/// brackets of an URL around a v6 address.
fn address(part: &str) -> Option<IpAddr> {
    let inner = || part.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok();
    let with_port = || Some(part.parse::<SocketAddr>().ok()?.ip());
    part.parse().ok().or_else(with_port).or_else(|| inner().map(IpAddr::V6))
}

/// One spelling for one address: v4-mapped v6 becomes v4 (GHSA-5847-rm3g-23mw).
pub fn canonical(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

/// What counts as one place for limits: a v4 address, or a v6 /64.
pub fn bucket(ip: IpAddr) -> IpAddr {
    match canonical(ip) {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(remote: &str, forwarded: Option<&str>) -> Peer {
        Peer {
            forwarded_for: forwarded.map(Into::into),
            is_forwarded: forwarded.is_some(),
            ..Peer::direct(remote.parse().unwrap())
        }
    }

    #[test]
    fn a_forwarding_header_makes_a_connection_foreign() {
        assert!(peer("127.0.0.1", None).is_local());
        assert!(peer("::ffff:127.0.0.1", None).is_local());
        assert!(!peer("127.0.0.1", Some("127.0.0.1")).is_local());
        assert!(!peer("10.0.0.1", None).is_local());
    }

    #[test]
    fn the_chain_is_believed_only_behind_a_trusted_proxy() {
        let ranges = ["127.0.0.1", "10.0.0.2"].map(|range| range.parse().unwrap()).into();
        let proxies = ProxySettings { ranges, ..ProxySettings::default() };
        let ip = |remote, chain| peer(remote, Some(chain)).client_ip(&proxies).to_string();
        assert_eq!(ip("127.0.0.1", "198.51.100.7"), "198.51.100.7");
        assert_eq!(ip("127.0.0.1", "1.1.1.1, 198.51.100.7, 10.0.0.2"), "198.51.100.7");
        for rubbish in ["rubbish", "[198.51.100.8]", "198.51.100.8:", "198.51.100.8:99999", "[::1"]
        {
            let chain = format!("198.51.100.7, {rubbish}");
            let found = peer("127.0.0.1", Some(&chain)).client_ip(&proxies);
            assert_eq!(found.to_string(), "127.0.0.1", "{rubbish}");
        }
        assert_eq!(ip("192.0.2.1", "198.51.100.7"), "192.0.2.1");
    }

    #[test]
    fn an_address_of_the_chain_is_understood_with_its_port_and_in_brackets() {
        let ranges = ["127.0.0.1", "10.0.0.2"].map(|range| range.parse().unwrap()).into();
        let proxies = ProxySettings { ranges, ..ProxySettings::default() };
        for (part, expected) in [
            ("198.51.100.7:4444", "198.51.100.7"),
            ("198.51.100.7:4444, 10.0.0.2:80", "198.51.100.7"),
            ("[2001:db8::7]:4444", "2001:db8::7"),
            ("[2001:db8::7]", "2001:db8::7"),
            ("[::ffff:198.51.100.7]:1", "198.51.100.7"),
        ] {
            let ip = peer("127.0.0.1", Some(part)).client_ip(&proxies);
            assert_eq!(ip.to_string(), expected, "{part}");
        }
    }

    #[test]
    fn limits_fold_mapped_addresses_and_v6_networks() {
        let of = |text: &str| bucket(text.parse().unwrap());
        assert_eq!(of("::ffff:1.2.3.4"), of("1.2.3.4"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    }
}
