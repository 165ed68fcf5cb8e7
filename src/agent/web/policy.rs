//! Which address a tool may ask.
//!
//! Owns: the rules for what a URL looks like and where its host may be.
//! Promises: a host is judged by what it is, however it is spelled; what a
//! name leads to is judged by all addresses that it has. Must not: resolve
//! names or open connections.

use std::collections::HashSet;
use std::net::IpAddr;

use reqwest::Url;

use super::address;
use super::error::FetchError;
use crate::config::web::SsrfConfig;

/// Longest address; browsers and servers stop far below.
const MAX_URL: usize = 8 * 1024;
/// Names of this machine, and of services that hand out secrets.
const PRIVATE_NAMES: [&str; 6] = [
    "localhost",
    "localhost.localdomain",
    "ip6-localhost",
    "ip6-loopback",
    "metadata",
    "metadata.google.internal",
];
/// Names that are only known inside of a network.
const PRIVATE_ENDINGS: [&str; 7] =
    [".localhost", ".localdomain", ".local", ".internal", ".intranet", ".lan", ".home.arpa"];

/// The rules.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// `host` or `host:port`, spelled as [`Url`] spells hosts.
    allowed: HashSet<String>,
    allow_benchmark: bool,
    allow_unique_local: bool,
}

/// Where a host is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// At this address, which was checked.
    Address(IpAddr),
    /// Where this name leads to; its addresses are to be checked.
    Name(String),
    /// Wherever this name leads to: the configuration allows it.
    AllowedName(String),
}

impl Policy {
    /// The rules of a configuration. What is no host in it allows nothing.
    pub fn new(config: &SsrfConfig) -> Self {
        let allowed = config.allowed_hostnames.iter().filter_map(|text| {
            let text = text.trim();
            if text.contains(['/', '\\', '@', '?', '#']) {
                return None;
            }
            let is_bare_v6 = text.parse::<std::net::Ipv6Addr>().is_ok();
            let text = if is_bare_v6 { format!("[{text}]") } else { text.to_owned() };
            // Port 0 stands for any: `Url` leaves the usual ones out.
            let has_port = text.rsplit_once(':').is_some_and(|(_, port)| {
                !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
            });
            let suffix = if has_port { "" } else { ":0" };
            let url = Url::parse(&format!("http://{text}{suffix}/")).ok()?;
            let host = host_name(&url)?;
            Some(if has_port { format!("{host}:{}", url.port_or_known_default()?) } else { host })
        });
        Self {
            allowed: allowed.collect(),
            allow_benchmark: config.allow_rfc2544_benchmark_range,
            allow_unique_local: config.allow_ipv6_unique_local_range,
        }
    }

    /// Reads an address as a model writes it.
    ///
    /// # Errors
    /// When it is none that may be asked.
    pub fn parse(&self, text: &str) -> Result<(Url, Place), FetchError> {
        let too_long = || FetchError::Invalid(format!("it is longer than {MAX_URL} bytes"));
        if text.len() > MAX_URL {
            return Err(too_long());
        }
        let url = Url::parse(text.trim())
            .map_err(|error| FetchError::Invalid(format!("it is no URL ({error})")))?;
        // As it is asked for, percent-encoded, it may be three times as long.
        if url.as_str().len() > MAX_URL {
            return Err(too_long());
        }
        let place = self.place(&url)?;
        Ok((url, place))
    }

    /// Where the host of an address is.
    ///
    /// # Errors
    /// When it may not be asked.
    pub fn place(&self, url: &Url) -> Result<Place, FetchError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(FetchError::Invalid("it must be http or https".into()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(FetchError::Invalid("it must not hold a user name or password".into()));
        }
        let host = host_name(url).ok_or_else(|| FetchError::Invalid("it has no host".into()))?;
        let is_allowed = self.allows(&host, url);
        if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            return if is_allowed || self.accepts(address) {
                Ok(Place::Address(address))
            } else {
                Err(FetchError::Blocked { host })
            };
        }
        match is_allowed {
            true => Ok(Place::AllowedName(host)),
            false if is_private_name(&host) => Err(FetchError::Blocked { host }),
            false => Ok(Place::Name(host)),
        }
    }

    /// Whether an address may be asked that a name leads to.
    pub fn accepts(&self, address: IpAddr) -> bool {
        address::is_public(address)
            || (self.allow_benchmark && address::is_benchmark(address))
            || (self.allow_unique_local && address::is_unique_local(address))
    }

    fn allows(&self, host: &str, url: &Url) -> bool {
        let with_port = || Some(format!("{host}:{}", url.port_or_known_default()?));
        self.allowed.contains(host) || with_port().is_some_and(|it| self.allowed.contains(&it))
    }
}

/// The host without the dots at its end, which change nothing.
fn host_name(url: &Url) -> Option<String> {
    let host = url.host_str()?.trim_end_matches('.');
    (!host.is_empty()).then(|| host.to_lowercase())
}

fn is_private_name(host: &str) -> bool {
    PRIVATE_NAMES.contains(&host) || PRIVATE_ENDINGS.iter().any(|ending| host.ends_with(ending))
}

#[cfg(test)]
mod tests;
