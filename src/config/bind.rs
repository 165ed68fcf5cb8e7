//! Which address to listen on.
//!
//! Owns: OpenClaw's bind modes. Promises: no mode but `lan`, `tailnet` and an
//! address of the user's own ever opens the gateway to other machines. Must not:
//! bind.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use super::ConfigError;
use super::explain::{Choice, Ledger, Origin};
use super::schema::Node;
use crate::support::route_to;

const ALLOWED: &str = "loopback, lan, tailnet, auto, custom or an IP address";

/// Tailscale's own name server, reachable from inside a tailnet only.
const TAILNET_PROBE: (Ipv4Addr, u16) = (Ipv4Addr::new(100, 100, 100, 100), 53);

/// What the user asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindChoice {
    /// This machine only.
    Loopback,
    /// Every interface.
    Lan,
    /// The Tailscale address.
    Tailnet,
    /// The gateway decides: this machine only.
    Auto,
    /// `gateway.customBindHost`.
    Custom,
    /// This address.
    Host(IpAddr),
}

impl FromStr for BindChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "loopback" => Ok(Self::Loopback),
            "lan" => Ok(Self::Lan),
            "tailnet" => Ok(Self::Tailnet),
            "auto" => Ok(Self::Auto),
            "custom" => Ok(Self::Custom),
            other => other.parse().map(Self::Host).map_err(|_| format!("must be one of {ALLOWED}")),
        }
    }
}

impl fmt::Display for BindChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback => f.write_str("loopback"),
            Self::Lan => f.write_str("lan"),
            Self::Tailnet => f.write_str("tailnet"),
            Self::Auto => f.write_str("auto"),
            Self::Custom => f.write_str("custom"),
            Self::Host(host) => write!(f, "{host}"),
        }
    }
}

/// What to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bind {
    /// This machine only.
    Loopback,
    /// Every interface.
    Lan,
    /// The Tailscale address; loopback when this machine has none.
    Tailnet(IpAddr),
    /// The gateway decided: this machine only.
    Auto,
    /// An address of the user's choice.
    Custom(IpAddr),
}

impl Bind {
    /// The address to listen on.
    pub const fn host(self) -> IpAddr {
        match self {
            // Unlike the original, `auto` never falls back to every interface:
            // a busy loopback port must not open the gateway to the network.
            Self::Loopback | Self::Auto => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Self::Lan => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Self::Tailnet(host) | Self::Custom(host) => host,
        }
    }

    /// The name of the mode, as in the config file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Lan => "lan",
            Self::Tailnet(_) => "tailnet",
            Self::Auto => "auto",
            Self::Custom(_) => "custom",
        }
    }
}

pub(super) fn resolve(
    gateway: &Node<'_>,
    file: &std::path::Path,
    flag: Option<BindChoice>,
    ledger: &mut Ledger,
) -> Result<Bind, ConfigError> {
    let written = gateway.member("bind")?.word(ALLOWED, |text| text.parse().ok())?;
    let custom_node = gateway.member("customBindHost")?;
    let custom = custom_node.text()?.and_then(|text| text.trim().parse().ok());
    let choice = Choice::flag("--bind", flag).or_file(file, written);
    let choice = ledger.settle("gateway.bind", choice, BindChoice::Loopback);
    if let Some(host) = custom {
        let origin = Origin::File(file.to_owned());
        ledger.note("gateway.customBindHost", IpAddr::to_string(&host), origin);
    }
    Ok(match choice {
        BindChoice::Loopback => Bind::Loopback,
        BindChoice::Lan => Bind::Lan,
        BindChoice::Auto => Bind::Auto,
        BindChoice::Tailnet => {
            Bind::Tailnet(tailnet_address().unwrap_or(Ipv4Addr::LOCALHOST.into()))
        }
        BindChoice::Host(host) => Bind::Custom(host),
        BindChoice::Custom => {
            let missing = "must be an IP address of this machine when gateway.bind is custom";
            Bind::Custom(custom.ok_or_else(|| custom_node.wrong(missing))?)
        }
    })
}

/// The address this machine would use to speak to the tailnet, if it is in one.
fn tailnet_address() -> Option<IpAddr> {
    let IpAddr::V4(address) = route_to(TAILNET_PROBE)? else { return None };
    is_tailnet(address).then_some(IpAddr::V4(address))
}

/// 100.64.0.0/10, which Tailscale gives its machines.
fn is_tailnet(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    first == 100 && (64..128).contains(&second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_auto_stay_on_this_machine_and_the_others_do_not() {
        let given = IpAddr::from([100, 64, 0, 1]);
        for (bind, host) in [
            (Bind::Loopback, Ipv4Addr::LOCALHOST.into()),
            (Bind::Auto, Ipv4Addr::LOCALHOST.into()),
            (Bind::Lan, Ipv4Addr::UNSPECIFIED.into()),
            (Bind::Tailnet(given), given),
            (Bind::Custom(given), given),
        ] {
            assert_eq!(bind.host(), host, "{bind:?}");
        }
    }

    #[test]
    fn every_name_reads_back_and_anything_else_is_refused() {
        for name in ["loopback", "lan", "tailnet", "auto", "custom", "10.0.0.7", "::1"] {
            assert_eq!(name.parse::<BindChoice>().unwrap().to_string(), name);
        }
        assert!("everywhere".parse::<BindChoice>().is_err());
    }

    #[test]
    fn the_tailnet_range_ends_where_it_should() {
        let is = |text: &str| is_tailnet(text.parse().unwrap());
        assert!(is("100.64.0.1") && is("100.127.255.254"));
        assert!(!is("100.63.255.255") && !is("100.128.0.0") && !is("10.64.0.1"));
    }
}
