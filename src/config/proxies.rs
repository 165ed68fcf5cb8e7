//! Who stands in front of the gateway: `gateway.trustedProxies`,
//! `gateway.auth.trustedProxy` and `gateway.auth.allowTailscale`.
//!
//! Promises: there is no setting by which a header says what somebody may do.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

use ipnet::IpNet;

use super::explain::{Choice, Ledger};
use super::schema::Node;
use super::{AuthMode, ConfigError};

/// Whose word about a client counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxySettings {
    /// Where the proxies are.
    pub ranges: Vec<ProxyRange>,
    /// What they say of the user, in mode `trusted-proxy`.
    pub user: ProxyUserSettings,
    /// Whether a user whom Tailscale Serve names, and `tailscale whois`
    /// confirms, needs no other credential.
    pub allow_tailscale: bool,
}

impl ProxySettings {
    /// Whether a connection from this address is a proxy's.
    pub fn includes(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.includes(address))
    }
}

/// `gateway.auth.trustedProxy`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxyUserSettings {
    /// The header that names the user, in lower case.
    pub user_header: Option<String>,
    /// Headers without which nobody is believed, in lower case.
    pub required_headers: Vec<String>,
    /// Who may come in; empty: whoever the proxy lets through.
    pub allow_users: Vec<String>,
    /// Whether the proxy may be on this machine, where any program could stand
    /// in for it.
    pub allow_loopback: bool,
}

/// An address, or a network of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyRange(IpNet);

impl ProxyRange {
    /// Whether the address is in it; a v4-mapped one is the v4 one.
    pub fn includes(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl From<IpAddr> for ProxyRange {
    fn from(address: IpAddr) -> Self {
        Self(address.to_canonical().into())
    }
}

impl FromStr for ProxyRange {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.trim().parse::<IpAddr>() {
            Ok(address) => Ok(address.into()),
            Err(_) => text.trim().parse().map(Self).map_err(drop),
        }
    }
}

impl fmt::Display for ProxyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == self.0.max_prefix_len() {
            return self.0.addr().fmt(f);
        }
        self.0.fmt(f)
    }
}

pub(super) fn read(
    gateway: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<ProxySettings, ConfigError> {
    let written = Choice::file(file, ranges(&gateway.member("trustedProxies")?)?);
    let ranges = ledger.settle_list("gateway.trustedProxies", written, Vec::new());
    let auth = gateway.member("auth")?;
    let node = auth.member("trustedProxy")?;
    let key = |name: &str| format!("gateway.auth.trustedProxy.{name}");
    let header = Choice::file(file, header(&node.member("userHeader")?)?);
    let user_header = ledger.settle_optional(&key("userHeader"), header);
    let required = headers(&node.member("requiredHeaders")?)?;
    let required_headers =
        ledger.settle_list(&key("requiredHeaders"), Choice::file(file, required), Vec::new());
    let users = Choice::file(file, node.member("allowUsers")?.texts()?);
    let allow_users = ledger.settle_list(&key("allowUsers"), users, Vec::new());
    let loopback = Choice::file(file, node.member("allowLoopback")?.boolean()?);
    let allow_loopback = ledger.settle(&key("allowLoopback"), loopback, false);
    let tailscale = Choice::file(file, auth.member("allowTailscale")?.boolean()?);
    let allow_tailscale = ledger.settle("gateway.auth.allowTailscale", tailscale, false);
    let user = ProxyUserSettings { user_header, required_headers, allow_users, allow_loopback };
    Ok(ProxySettings { ranges, user, allow_tailscale })
}

/// What a mode needs of the settings of proxies.
pub(super) fn check(mode: AuthMode, settings: &ProxySettings) -> Result<(), ConfigError> {
    if mode != AuthMode::TrustedProxy {
        return Ok(());
    }
    if settings.ranges.is_empty() {
        return Err(ConfigError::ProxiesMissing);
    }
    if settings.user.user_header.is_none() {
        return Err(ConfigError::UserHeaderMissing);
    }
    Ok(())
}

fn ranges(node: &Node<'_>) -> Result<Option<Vec<ProxyRange>>, ConfigError> {
    if !node.is_set() {
        return Ok(None);
    }
    // As in the original, what is no address is believed nothing; `foreign` tells of it.
    let texts = node.texts()?.unwrap_or_default();
    Ok(Some(texts.iter().filter_map(|text| text.parse().ok()).collect()))
}

fn header(node: &Node<'_>) -> Result<Option<String>, ConfigError> {
    let Some(text) = node.text()? else { return Ok(None) };
    let name = text.trim().to_ascii_lowercase();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(node.wrong("must be the name of a header"));
    }
    Ok(Some(name))
}

fn headers(node: &Node<'_>) -> Result<Option<Vec<String>>, ConfigError> {
    if !node.is_set() {
        return Ok(None);
    }
    let read = |item: Node<'_>| header(&item)?.ok_or_else(|| item.wrong("must be a string"));
    node.items()?.into_iter().map(read).collect::<Result<_, _>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_an_address_or_a_network_in_either_spelling() {
        let range = |text: &str| text.parse::<ProxyRange>().unwrap();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(range(" 127.0.0.1 ").to_string(), "127.0.0.1");
        assert_eq!(range("10.0.0.0/8").to_string(), "10.0.0.0/8");
        assert!(range("10.0.0.0/8").includes(ip("10.9.8.7")));
        assert!(range("10.0.0.0/8").includes(ip("::ffff:10.9.8.7")));
        assert!(!range("10.0.0.0/8").includes(ip("11.0.0.1")));
        assert!(range("::ffff:10.0.0.1").includes(ip("10.0.0.1")));
        assert!(range("fd00::/8").includes(ip("fd12::1")));
        for text in ["", "proxy", "10.0.0.0/33", "10.0.0"] {
            assert!(text.parse::<ProxyRange>().is_err(), "{text}");
        }
    }
}
