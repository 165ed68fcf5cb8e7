//! The address of a gateway.
//!
//! Owns: which addresses are accepted, and which of them are this machine.
//! Promises: an address holds no credential, so it may be shown anywhere.
//! Must not: resolve names.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use reqwest::Url;

use crate::support::is_own_address;

/// Words that give away a credential in a query or fragment. Dashboard links
/// of the original carry `#token=…`.
const CREDENTIAL_WORDS: [&str; 4] = ["token", "password", "secret", "auth"];

/// Why a text is no address of a gateway. The text itself is not repeated: it
/// may hold a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not a URL, or of another scheme.
    #[error(
        "the address given by --url or OPENCLAW_GATEWAY_URL is not one of a gateway; \
         write it like ws://127.0.0.1:18789"
    )]
    NotAGateway,
    /// A credential is part of it.
    #[error(
        "the gateway address holds a user name, password or token, and addresses end up in \
         logs; take it out and give it by OPENCLAW_GATEWAY_TOKEN, OPENCLAW_GATEWAY_PASSWORD, \
         --token or --password"
    )]
    HoldsCredential,
}

/// A `ws://` or `wss://` address without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayUrl(Url);

impl GatewayUrl {
    /// Reads an address; `http://` and `https://` mean `ws://` and `wss://`.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let mut url = Url::parse(text.trim()).map_err(|_| AddressError::NotAGateway)?;
        let scheme = match url.scheme() {
            "ws" | "http" => "ws",
            "wss" | "https" => "wss",
            _ => return Err(AddressError::NotAGateway),
        };
        if holds_credential(&url) {
            return Err(AddressError::HoldsCredential);
        }
        url.set_scheme(scheme).map_err(|()| AddressError::NotAGateway)?;
        // A fragment never goes over the wire, and the library refuses it.
        url.set_fragment(None);
        Ok(Self(url))
    }

    /// The gateway at this address.
    pub fn at(address: SocketAddr, is_tls: bool) -> Result<Self, AddressError> {
        let scheme = if is_tls { "wss" } else { "ws" };
        Self::parse(&format!("{scheme}://{address}"))
    }

    /// Its host; a v6 address without brackets.
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default().trim_matches(['[', ']'])
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or_default()
    }

    /// Whether the host is this machine beyond doubt. Only `localhost` counts
    /// as a name: others depend on a resolver.
    pub fn is_loopback(&self) -> bool {
        if self.host() == "localhost" {
            return true;
        }
        match self.host().parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => address.is_loopback(),
            Ok(IpAddr::V6(address)) => {
                address.is_loopback()
                    || address.to_ipv4_mapped().is_some_and(|mapped| mapped.is_loopback())
            }
            Err(_) => false,
        }
    }

    /// Whether what is sent there does not leave this machine.
    pub fn is_here(&self) -> bool {
        self.is_loopback() || self.host().parse::<IpAddr>().is_ok_and(is_own_address)
    }

    /// Whether the host is in a network that is not the internet; a name may be.
    pub fn may_be_private(&self) -> bool {
        match self.host().parse::<IpAddr>().map(|ip| ip.to_canonical()) {
            Ok(IpAddr::V4(ip)) => {
                // 100.64.0.0/10 is what tailnets use.
                let is_shared = matches!(ip.octets(), [100, 64..=127, _, _]);
                is_shared || ip.is_private() || ip.is_link_local()
            }
            Ok(IpAddr::V6(ip)) => ip.is_unique_local() || ip.is_unicast_link_local(),
            Err(_) => true,
        }
    }

    /// Whether the connection is to be encrypted.
    pub fn is_tls(&self) -> bool {
        self.0.scheme() == "wss"
    }

    /// The address as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for GatewayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // People write it without the slash that stands for an empty path.
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

fn holds_credential(url: &Url) -> bool {
    let names_one = |text: &str| {
        let text = text.to_ascii_lowercase();
        CREDENTIAL_WORDS.iter().any(|word| text.contains(word))
    };
    !url.username().is_empty()
        || url.password().is_some()
        || url.query_pairs().any(|(name, _)| names_one(&name))
        || url.fragment().is_some_and(names_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_means_websocket_and_the_path_stays() {
        for (given, shown) in [
            ("ws://127.0.0.1:18789", "ws://127.0.0.1:18789"),
            ("http://gw.example/", "ws://gw.example"),
            ("https://gw.example/base?x=1#part", "wss://gw.example/base?x=1"),
            (" WSS://GW.example:444 ", "wss://gw.example:444"),
        ] {
            assert_eq!(GatewayUrl::parse(given).unwrap().to_string(), shown, "{given}");
        }
    }

    #[test]
    fn what_is_no_gateway_address_is_refused() {
        for given in ["", "18789", "127.0.0.1:18789", "localhost:18789", "ftp://gw", "ws://"] {
            assert_eq!(GatewayUrl::parse(given), Err(AddressError::NotAGateway), "{given}");
        }
    }

    #[test]
    fn an_address_with_a_credential_is_refused_and_not_repeated() {
        for given in [
            "ws://user@gw/",
            "ws://user:hunter2@gw/",
            "ws://:hunter2@gw/",
            "ws://gw/?token=hunter2",
            "ws://gw/?a=1&Access_Token=hunter2",
            "ws://gw/?password=hunter2",
            "http://gw/#token=hunter2",
        ] {
            let error = GatewayUrl::parse(given).unwrap_err();
            assert_eq!(error, AddressError::HoldsCredential, "{given}");
            assert!(!error.to_string().contains("hunter2"));
        }
    }

    #[test]
    fn what_is_of_the_internet_is_not_private() {
        for (given, expected) in [
            ("ws://10.0.0.1", true),
            ("ws://192.168.1.2:1", true),
            ("ws://169.254.1.1", true),
            ("ws://100.101.102.103", true),
            ("ws://100.128.0.1", false),
            ("ws://8.8.8.8", false),
            ("ws://[fd00::1]", true),
            ("ws://[fe80::1]", true),
            ("ws://[::ffff:10.0.0.1]", true),
            ("ws://[2001:db8::1]", false),
            ("ws://gw.example", true),
        ] {
            assert_eq!(GatewayUrl::parse(given).unwrap().may_be_private(), expected, "{given}");
        }
    }

    #[test]
    fn loopback_is_decided_by_the_host_alone() {
        for (given, expected) in [
            ("ws://127.0.0.1:1", true),
            ("ws://127.9.9.9", true),
            ("ws://localhost:1", true),
            ("ws://LOCALHOST", true),
            ("ws://[::1]:1", true),
            ("ws://[::ffff:127.0.0.1]:1", true),
            ("ws://127.1", true),
            ("ws://0.0.0.0:1", false),
            ("ws://10.0.0.1", false),
            ("ws://[fe80::1]", false),
            ("ws://localhost.example", false),
            ("ws://127.0.0.1.example", false),
            ("ws://gw.localhost", false),
        ] {
            assert_eq!(GatewayUrl::parse(given).unwrap().is_loopback(), expected, "{given}");
        }
    }
}
