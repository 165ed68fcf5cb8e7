//! Which gateway to talk to, and with which credentials.
//!
//! Owns: the order of flag, environment and local settings. Promises: a
//! credential stored on this machine is sent to this machine only. Must not:
//! read files or the environment itself.

use std::net::{Ipv4Addr, SocketAddr};

use crate::cli::ConnectArgs;
use crate::support::Secret;

use super::address::{AddressError, GatewayUrl};

/// The port of a gateway that was told no other.
const DEFAULT_PORT: u16 = 18789;

/// What this machine knows of its own gateway, from `openclaw.json` and the
/// token file.
#[derive(Debug, Clone)]
pub struct LocalGateway {
    /// Where it is reached, on this machine beyond doubt.
    pub address: SocketAddr,
    /// Its shared token.
    pub token: Option<Secret>,
    /// Its shared password.
    pub password: Option<Secret>,
}

impl Default for LocalGateway {
    fn default() -> Self {
        let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), DEFAULT_PORT);
        Self { address, token: None, password: None }
    }
}

/// A gateway and the credentials to show it.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where it is.
    pub url: GatewayUrl,
    /// For auth mode `token`.
    pub token: Option<Secret>,
    /// For auth mode `password`.
    pub password: Option<Secret>,
}

/// Why there is no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The address is no good.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The port in the environment is no good.
    #[error("OPENCLAW_GATEWAY_PORT is {0:?}; set it to a port number from 1 to 65535, or unset it")]
    Port(String),
}

impl Target {
    /// Flags come first, then the environment (an empty variable counts as
    /// absent), then what this machine knows of its own gateway.
    pub fn resolve(
        args: &ConnectArgs,
        env: impl Fn(&str) -> Option<String>,
        local: &LocalGateway,
    ) -> Result<Self, TargetError> {
        let env = |name: &str| env(name).filter(|value| !value.trim().is_empty());
        let (url, is_local) = match args.url.clone().or_else(|| env("OPENCLAW_GATEWAY_URL")) {
            Some(text) => {
                let url = GatewayUrl::parse(&text)?;
                let is_local = url.is_loopback();
                (url, is_local)
            }
            None => (GatewayUrl::at(local_address(env("OPENCLAW_GATEWAY_PORT"), local)?)?, true),
        };
        let credential = |flag: &Option<Secret>, name: &str, stored: &Option<Secret>| {
            flag.clone()
                .or_else(|| env(name).map(Secret::new))
                .or_else(|| stored.clone().filter(|_| is_local))
                .filter(|secret| !secret.is_empty())
        };
        Ok(Self {
            token: credential(&args.token, "OPENCLAW_GATEWAY_TOKEN", &local.token),
            password: credential(&args.password, "OPENCLAW_GATEWAY_PASSWORD", &local.password),
            url,
        })
    }
}

fn local_address(port: Option<String>, local: &LocalGateway) -> Result<SocketAddr, TargetError> {
    let Some(given) = port else { return Ok(local.address) };
    match given.trim().parse() {
        Ok(0) | Err(_) => Err(TargetError::Port(given)),
        Ok(port) => Ok(SocketAddr::new(local.address.ip(), port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Env = &'static [(&'static str, &'static str)];

    fn resolve(args: &ConnectArgs, env: Env) -> Result<Target, TargetError> {
        resolve_at("127.0.0.1:19001", args, env)
    }

    fn resolve_at(address: &str, args: &ConnectArgs, env: Env) -> Result<Target, TargetError> {
        let lookup =
            |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, v)| (*v).to_owned());
        let local = LocalGateway {
            address: address.parse().unwrap(),
            token: Some(Secret::new("stored-token")),
            password: Some(Secret::new("stored-password")),
        };
        Target::resolve(args, lookup, &local)
    }

    fn args(url: Option<&str>, token: Option<&str>, password: Option<&str>) -> ConnectArgs {
        ConnectArgs {
            url: url.map(str::to_owned),
            token: token.map(Secret::new),
            password: password.map(Secret::new),
            ..ConnectArgs::default()
        }
    }

    fn shown(target: &Target) -> (String, Option<&str>, Option<&str>) {
        (
            target.url.to_string(),
            target.token.as_ref().map(Secret::expose),
            target.password.as_ref().map(Secret::expose),
        )
    }

    #[test]
    fn flags_beat_the_environment_which_beats_local_settings() {
        let here = "ws://127.0.0.1:19001";
        let (token, password) = (Some("stored-token"), Some("stored-password"));
        for (given, env, expected) in [
            (args(None, None, None), &[] as Env, (here, token, password)),
            (
                args(None, None, None),
                &[("OPENCLAW_GATEWAY_PORT", "19002")],
                ("ws://127.0.0.1:19002", token, password),
            ),
            (
                args(None, None, None),
                &[
                    ("OPENCLAW_GATEWAY_URL", "ws://localhost:5"),
                    ("OPENCLAW_GATEWAY_PORT", "19002"),
                    ("OPENCLAW_GATEWAY_TOKEN", "env-token"),
                    ("OPENCLAW_GATEWAY_PASSWORD", "env-password"),
                ],
                ("ws://localhost:5", Some("env-token"), Some("env-password")),
            ),
            (
                args(Some("ws://[::1]:6"), Some("flag-token"), Some("flag-password")),
                &[
                    ("OPENCLAW_GATEWAY_URL", "ws://localhost:5"),
                    ("OPENCLAW_GATEWAY_TOKEN", "env-token"),
                ],
                ("ws://[::1]:6", Some("flag-token"), Some("flag-password")),
            ),
            (
                args(None, None, None),
                &[("OPENCLAW_GATEWAY_URL", ""), ("OPENCLAW_GATEWAY_TOKEN", " ")],
                (here, token, password),
            ),
        ] {
            let target = resolve(&given, env).unwrap();
            let (url, token, password) = expected;
            assert_eq!(shown(&target), (url.to_owned(), token, password));
        }
    }

    #[test]
    fn a_stored_credential_is_never_sent_to_another_host() {
        let remote = "ws://gw.example:18789";
        for (given, env, expected) in [
            (args(Some(remote), None, None), &[] as Env, (None, None)),
            (
                args(None, None, None),
                &[("OPENCLAW_GATEWAY_URL", "ws://gw.example:18789")],
                (None, None),
            ),
            (args(Some(remote), Some("t"), None), &[], (Some("t"), None)),
            (
                args(Some(remote), None, None),
                &[("OPENCLAW_GATEWAY_TOKEN", "env-token")],
                (Some("env-token"), None),
            ),
            (args(Some(remote), None, Some("p")), &[], (None, Some("p"))),
        ] {
            let target = resolve(&given, env).unwrap();
            let (token, password) = expected;
            assert_eq!(shown(&target), (remote.to_owned(), token, password));
        }
    }

    #[test]
    fn a_gateway_of_this_machine_gets_the_stored_credential_at_any_of_its_addresses() {
        let (token, password) = (Some("stored-token"), Some("stored-password"));
        for (address, url) in
            [("192.0.2.7:5", "ws://192.0.2.7:5"), ("[2001:db8::1]:5", "ws://[2001:db8::1]:5")]
        {
            let target = resolve_at(address, &args(None, None, None), &[]).unwrap();
            assert_eq!(shown(&target), (url.to_owned(), token, password));
        }
    }

    #[test]
    fn a_port_that_is_none_is_named() {
        for port in ["0", "70000", "x"] {
            let env = |name: &str| (name == "OPENCLAW_GATEWAY_PORT").then(|| port.to_owned());
            let error = Target::resolve(&ConnectArgs::default(), env, &LocalGateway::default())
                .unwrap_err();
            assert_eq!(error, TargetError::Port(port.to_owned()));
        }
    }

    #[test]
    fn debug_output_shows_no_credential() {
        let target = resolve(&args(None, Some("flag-token"), None), &[]).unwrap();
        assert!(!format!("{target:?}").contains("flag-token"));
    }
}
