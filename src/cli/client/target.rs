//! Which gateway to talk to, and with which credentials.
//!
//! Owns: the order of flag, environment and local settings. Promises: a
//! credential stored on this machine is sent to this machine only, and where `--url`
//! leads to no other than the flags give. Must not: read files or the environment itself.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::cli::ConnectArgs;
use crate::config::allows_plain;
use crate::store::instance::Running;
use crate::support::{Fingerprint, Secret};

use super::address::{AddressError, GatewayUrl};

/// The port of a gateway that was told no other.
const DEFAULT_PORT: u16 = 18789;
/// Says which gateway is meant.
const URL: &str = "OPENCLAW_GATEWAY_URL";
/// Says at which port of this machine it is.
const PORT: &str = "OPENCLAW_GATEWAY_PORT";

/// What this machine knows of its gateway, from `openclaw.json` and the token
/// file.
#[derive(Debug, Clone)]
pub struct LocalGateway {
    /// Where its own one is reached, on this machine beyond doubt.
    pub address: SocketAddr,
    /// Whether that speaks TLS.
    pub is_tls: bool,
    /// Of its certificate.
    pub tls_fingerprint: Option<Fingerprint>,
    /// The one that it uses instead of its own.
    pub remote: Option<RemoteGateway>,
    /// Its shared token.
    pub token: Option<Secret>,
    /// Its shared password.
    pub password: Option<Secret>,
    /// What `NODE_EXTRA_CA_CERTS` names, here or in the file `.env`.
    pub extra_authorities: Option<PathBuf>,
}

impl Default for LocalGateway {
    fn default() -> Self {
        let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), DEFAULT_PORT);
        Self {
            address,
            is_tls: false,
            tls_fingerprint: None,
            remote: None,
            token: None,
            password: None,
            extra_authorities: None,
        }
    }
}

/// `gateway.remote`, with its secrets.
#[derive(Debug, Clone, Default)]
pub struct RemoteGateway {
    /// Its address.
    pub url: String,
    /// Its shared token.
    pub token: Option<Secret>,
    /// Its shared password.
    pub password: Option<Secret>,
    /// Of its certificate.
    pub tls_fingerprint: Option<Fingerprint>,
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
    /// The only certificate that is believed.
    pub tls_fingerprint: Option<Fingerprint>,
    /// Without one, a file of authorities that are believed beside the system's.
    pub extra_authorities: Option<PathBuf>,
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
    /// A certificate is expected where there is none.
    #[error("--tls-fingerprint is about a certificate, and {0} has none; give a wss:// address")]
    PinWithoutTls(String),
    /// Whatever listens at an address that was given could ask for what is kept here.
    #[error(
        "gateway url override requires explicit credentials: with --url, pass --token or \
         --password too (any, where the gateway asks for none); or set OPENCLAW_GATEWAY_URL in its \
         place, and OPENCLAW_GATEWAY_TOKEN or OPENCLAW_GATEWAY_PASSWORD"
    )]
    NoCredential,
    /// Everybody on the way could read the credential.
    #[error(
        "SECURITY ERROR: Gateway URL \"{0}\" uses plaintext ws:// to a non-loopback address, and \
         everybody on the way could read the credential; use wss:// (gateway.tls), or a tunnel: \
         ssh -N -L 18789:127.0.0.1:18789 <host>, and --url ws://127.0.0.1:18789 with --token. In a \
         private network that you trust, set OPENCLAW_ALLOW_INSECURE_PRIVATE_WS=1"
    )]
    PlainText(String),
}

impl Target {
    /// Flags come first, then the environment (an empty variable counts as
    /// absent), then what this machine knows of its own gateway. With `--url` a credential
    /// has to be a flag as well: whoever names an address may have been talked into it.
    pub fn resolve(
        args: &ConnectArgs,
        env: impl Fn(&str) -> Option<String>,
        local: &LocalGateway,
    ) -> Result<Self, TargetError> {
        let env = |name: &str| env(name).filter(|value| !value.trim().is_empty());
        let own = Known {
            token: local.token.as_ref(),
            password: local.password.as_ref(),
            tls_fingerprint: local.tls_fingerprint,
        };
        let port = env(PORT);
        let (url, known, is_here) = match (args.url.clone().or_else(|| env(URL)), &local.remote) {
            (Some(text), _) => {
                let url = GatewayUrl::parse(&text)?;
                let known = if url.is_loopback() { own } else { Known::default() };
                let is_here = url.is_here();
                (url, known, is_here)
            }
            (None, Some(remote)) if port.is_none() => {
                let url = GatewayUrl::parse(&remote.url)?;
                let is_here = url.is_here();
                (url, remote.known(), is_here)
            }
            (None, _) => (GatewayUrl::at(local_address(port, local)?, local.is_tls)?, own, true),
        };
        let is_given = args.url.is_some();
        let credential = |flag: &Option<Secret>, name: &str, stored: Option<&Secret>| {
            let kept = || env(name).map(Secret::new).or_else(|| stored.cloned());
            let found = flag.clone().or_else(|| if is_given { None } else { kept() });
            found.filter(|secret| !secret.is_empty())
        };
        if args.tls_fingerprint.is_some() && !url.is_tls() {
            return Err(TargetError::PinWithoutTls(url.to_string()));
        }
        let token = credential(&args.token, "OPENCLAW_GATEWAY_TOKEN", known.token);
        let password = credential(&args.password, "OPENCLAW_GATEWAY_PASSWORD", known.password);
        if is_given && token.is_none() && password.is_none() {
            return Err(TargetError::NoCredential);
        }
        let is_trusted = is_here || url.is_tls() || (allows_plain(env) && url.may_be_private());
        if (token.is_some() || password.is_some()) && !is_trusted {
            return Err(TargetError::PlainText(url.to_string()));
        }
        let tls_fingerprint = args.tls_fingerprint.or(known.tls_fingerprint);
        let extra_authorities = local.extra_authorities.clone();
        Ok(Self { url, token, password, tls_fingerprint, extra_authorities })
    }

    /// The gateway that runs on this machine's state, whatever is said of others.
    pub fn own(running: Running, local: &LocalGateway) -> Result<Self, TargetError> {
        Ok(Self {
            url: GatewayUrl::at(running.address, running.is_tls)?,
            token: local.token.clone(),
            password: local.password.clone(),
            tls_fingerprint: running.fingerprint.or(local.tls_fingerprint),
            extra_authorities: local.extra_authorities.clone(),
        })
    }

    /// Whether [`Target::resolve`] leads to another one than that.
    pub fn is_elsewhere(
        args: &ConnectArgs,
        env: impl Fn(&str) -> Option<String>,
        local: &LocalGateway,
        running: Option<Running>,
    ) -> bool {
        let env = |name: &str| env(name).filter(|value| !value.trim().is_empty());
        if args.url.is_some() || env(URL).is_some() {
            return true;
        }
        match env(PORT) {
            Some(port) => {
                running.is_some_and(|own| port.trim().parse::<u16>() != Ok(own.address.port()))
            }
            None => local.remote.is_some(),
        }
    }
}

/// What is kept on this machine for one gateway.
#[derive(Clone, Copy, Default)]
struct Known<'a> {
    token: Option<&'a Secret>,
    password: Option<&'a Secret>,
    tls_fingerprint: Option<Fingerprint>,
}

impl RemoteGateway {
    fn known(&self) -> Known<'_> {
        let (token, password) = (self.token.as_ref(), self.password.as_ref());
        Known { token, password, tls_fingerprint: self.tls_fingerprint }
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
            ..LocalGateway::default()
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
        let remote = "wss://gw.example:18789";
        for (given, env, expected) in [
            (
                args(None, None, None),
                &[("OPENCLAW_GATEWAY_URL", "wss://gw.example:18789")] as Env,
                (None, None),
            ),
            (args(Some(remote), Some("t"), None), &[], (Some("t"), None)),
            (
                args(None, None, None),
                &[
                    ("OPENCLAW_GATEWAY_URL", "wss://gw.example:18789"),
                    ("OPENCLAW_GATEWAY_TOKEN", "env-token"),
                ],
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
    fn with_an_address_as_a_flag_only_credentials_that_are_flags_are_sent() {
        let kept: Env =
            &[("OPENCLAW_GATEWAY_TOKEN", "env-token"), ("OPENCLAW_GATEWAY_PASSWORD", "env-word")];
        for url in ["ws://127.0.0.1:5", "ws://localhost:5", "wss://gw.example"] {
            for (token, password) in [(None, None), (Some(""), None)] {
                for env in [&[] as Env, kept] {
                    let error = resolve(&args(Some(url), token, password), env).unwrap_err();
                    assert_eq!(error, TargetError::NoCredential, "{url} {token:?}");
                    assert!(error.to_string().contains("pass --token or --password"), "{error}");
                }
            }
            let target = resolve(&args(Some(url), Some("t"), None), kept).unwrap();
            assert_eq!(shown(&target), (url.to_owned(), Some("t"), None));
            let target = resolve(&args(Some(url), None, Some("p")), kept).unwrap();
            assert_eq!(shown(&target), (url.to_owned(), None, Some("p")));
        }
    }

    #[test]
    fn no_credential_is_sent_where_others_can_read_it() {
        let allow: Env = &[("OPENCLAW_ALLOW_INSECURE_PRIVATE_WS", "1")];
        let stored: Env =
            &[("OPENCLAW_GATEWAY_URL", "ws://192.0.2.7"), ("OPENCLAW_GATEWAY_PASSWORD", "p")];
        let with = |url: &str| args(Some(url), Some("flag-token"), None);
        for (given, env, refused) in [
            (with("ws://gw.example"), &[] as Env, Some("ws://gw.example")),
            (with("ws://10.1.2.3:5"), &[], Some("ws://10.1.2.3:5")),
            (args(None, None, None), stored, Some("ws://192.0.2.7")),
            (with("ws://gw.example"), allow, None),
            (with("ws://10.1.2.3:5"), allow, None),
            // That is of no private network.
            (with("ws://192.0.2.7"), allow, Some("ws://192.0.2.7")),
            (with("wss://gw.example"), &[], None),
            (with("ws://localhost:5"), &[], None),
            (with("ws://0.0.0.0:5"), &[], None),
            (args(None, None, None), &[("OPENCLAW_GATEWAY_URL", "ws://gw.example")], None),
        ] {
            let error = resolve(&given, env).err();
            let refused = refused.map(|url| TargetError::PlainText(url.to_owned()));
            assert_eq!(error, refused, "{given:?} {env:?}");
        }
        let remote = RemoteGateway {
            url: "ws://gw.example".into(),
            token: Some(Secret::new("remote-token")),
            ..RemoteGateway::default()
        };
        let local = LocalGateway { remote: Some(remote), ..LocalGateway::default() };
        let error = Target::resolve(&ConnectArgs::default(), |_| None, &local).unwrap_err();
        assert_eq!(error, TargetError::PlainText("ws://gw.example".into()));
        assert!(!error.to_string().contains("remote-token"));
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
    fn a_remote_gateway_gets_what_is_kept_for_it_and_nothing_else_does() {
        let pin = Fingerprint::of(b"its certificate");
        let remote = RemoteGateway {
            url: "wss://gw.example".into(),
            token: Some(Secret::new("remote-token")),
            password: None,
            tls_fingerprint: Some(pin),
        };
        let local = LocalGateway {
            token: Some(Secret::new("stored-token")),
            remote: Some(remote),
            is_tls: true,
            tls_fingerprint: Some(Fingerprint::of(b"our certificate")),
            ..LocalGateway::default()
        };
        let target = |args: &ConnectArgs, port: Option<&str>| {
            let env = |name: &str| port.filter(|_| name == "OPENCLAW_GATEWAY_PORT").map(Into::into);
            Target::resolve(args, env, &local).unwrap()
        };
        let there = target(&ConnectArgs::default(), None);
        assert_eq!(shown(&there), ("wss://gw.example".into(), Some("remote-token"), None));
        assert_eq!(there.tls_fingerprint, Some(pin));
        let elsewhere = target(&args(Some("wss://other.example"), None, Some("p")), None);
        assert_eq!(shown(&elsewhere), ("wss://other.example".into(), None, Some("p")));
        assert_eq!(elsewhere.tls_fingerprint, None);
        let here = target(&ConnectArgs::default(), Some("5"));
        assert_eq!(shown(&here), ("wss://127.0.0.1:5".into(), Some("stored-token"), None));
        assert_eq!(here.tls_fingerprint, local.tls_fingerprint);
    }

    #[test]
    fn a_url_another_port_or_a_remote_gateway_is_not_the_one_that_runs_here() {
        let running = Running::at("127.0.0.1:19001".parse().unwrap());
        let remote = RemoteGateway { url: "wss://gw.example".into(), ..RemoteGateway::default() };
        let remote = LocalGateway { remote: Some(remote), ..LocalGateway::default() };
        let here = LocalGateway::default();
        let none = args(None, None, None);
        let url = args(Some("ws://127.0.0.1:5"), None, None);
        let is = |args: &ConnectArgs, env: Env, local: &LocalGateway, running| {
            let lookup =
                |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, v)| (*v).to_owned());
            Target::is_elsewhere(args, lookup, local, running)
        };
        for (args, env, local, expected) in [
            (&none, &[] as Env, &here, false),
            (&url, &[], &here, true),
            (&none, &[("OPENCLAW_GATEWAY_URL", "ws://127.0.0.1:5")], &here, true),
            (&none, &[("OPENCLAW_GATEWAY_URL", " ")], &here, false),
            (&none, &[("OPENCLAW_GATEWAY_PORT", "19001")], &here, false),
            (&none, &[("OPENCLAW_GATEWAY_PORT", "19002")], &here, true),
            (&none, &[("OPENCLAW_GATEWAY_PORT", "x")], &here, true),
            (&none, &[], &remote, true),
            (&none, &[("OPENCLAW_GATEWAY_PORT", "19001")], &remote, false),
        ] {
            assert_eq!(is(args, env, local, Some(running)), expected, "{args:?} {env:?}");
        }
        // Where none runs, the port is that of the one that would.
        assert!(!is(&none, &[("OPENCLAW_GATEWAY_PORT", "19002")], &here, None));
    }

    #[test]
    fn a_fingerprint_without_a_certificate_is_an_error() {
        let pinned = ConnectArgs {
            tls_fingerprint: Some(Fingerprint::of(b"it")),
            ..args(Some("ws://gw.example"), None, None)
        };
        let error = resolve(&pinned, &[]).unwrap_err();
        assert_eq!(error, TargetError::PinWithoutTls("ws://gw.example".into()));
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
