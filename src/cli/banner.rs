//! What the gateway prints when it is ready.
//!
//! Promises: no secret is in it, so it may end up in any log.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::app::Ready;
use crate::config::{AuthMode, Origin, Settings};
use crate::providers::OFFLINE_PROVIDER;
use crate::registry::Repair;

/// The start-up text: address, credential, model, files, what to type next.
pub fn start_text(settings: &Settings, ready: &Ready) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let (address, everywhere) = reachable(ready.address);
    let reach = if everywhere { "  (and every other address of this machine)" } else { "" };
    let (credential, hint) = credential(settings);
    let s = if ready.tls.is_some() { "s" } else { "" };
    let certificate = ready.tls.map(|tls| format!("  TLS       SHA-256 fingerprint {tls}\n"));
    let certificate = certificate.unwrap_or_default();
    let ports: Vec<_> = ready.further.iter().map(|at| at.port().to_string()).collect();
    let further = if ports.is_empty() {
        String::new()
    } else {
        format!("  Ports     {} as well\n", ports.join(", "))
    };
    let config = settings.file.path.display();
    // The embedded model only shows that everything else works.
    let provider = ready.model.split_once('/').map(|(provider, _)| provider);
    let first = if provider == Some(OFFLINE_PROVIDER) {
        "clawgate onboard (for a model)   or   "
    } else {
        ""
    };
    let absent = if settings.file.exists { "" } else { " (not there; defaults apply)" };
    format!(
        "clawgate {version} is ready\n\
         \x20 Address   ws{s}://{address}  http{s}://{address}/{reach}\n\
         {further}{certificate}\
         \x20 {credential:<8}  {hint}\n\
         \x20 Model     {model} ({reason})\n\
         \x20 State     {state}\n\
         \x20 Config    {config}{absent}\n\
         \x20 Next      {first}clawgate chat \"hi\"   or   clawgate dashboard   (in another terminal)\n",
        model = ready.model,
        reason = ready.model_reason,
        state = settings.paths.state_dir.display(),
    )
}

/// What a gateway prints that only helps to mend its config file.
pub fn repair_text(repair: &Repair, ready: &Ready) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let address = ready.address;
    format!("clawgate {version} waits on ws://{address}, for this machine only: {repair}\n")
}

/// An address to connect to from this machine, and whether it stands for every
/// interface.
pub(super) fn reachable(address: SocketAddr) -> (SocketAddr, bool) {
    let local = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => return (SocketAddr::new(ip, address.port()), false),
    };
    (SocketAddr::new(local, address.port()), true)
}

/// What a client must know, and how to get it.
fn credential(settings: &Settings) -> (&'static str, String) {
    match settings.gateway.auth.mode {
        AuthMode::Token => {
            ("Token", whereabouts(settings, "gateway.auth.token", Some("clawgate token")))
        }
        AuthMode::Password => ("Password", whereabouts(settings, "gateway.auth.password", None)),
        AuthMode::None => ("Auth", "none: every program on this machine may connect".into()),
        AuthMode::TrustedProxy => ("Auth", "left to the proxy in front (trusted-proxy)".into()),
    }
}

fn whereabouts(settings: &Settings, key: &str, command: Option<&str>) -> String {
    match settings.origin_of(key) {
        Some(Origin::Flag(flag)) => format!("the one given with {flag}"),
        Some(Origin::Env(variable)) => format!("from {variable}"),
        Some(Origin::File(path) | Origin::Generated(path)) => match command {
            Some(command) => format!("`{command}` prints it (kept in {})", path.display()),
            None => format!("{key} in {}", path.display()),
        },
        Some(Origin::Default) | None => "not set".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Env, Overrides, load};
    use crate::support::{Fingerprint, Secret};

    fn ready(address: &str) -> Ready {
        Ready {
            address: address.parse().unwrap(),
            further: Vec::new(),
            model: "mock/mock-1".into(),
            model_reason: "agents.defaults.model".into(),
            tls: None,
        }
    }

    /// The text for these inputs, with the state directory as `<S>`.
    fn text<const N: usize>(
        variables: [(&str, &str); N],
        overrides: &Overrides,
        address: &str,
    ) -> String {
        let home = tempfile::tempdir().unwrap();
        let settings = load(&Env::fixed(variables, home.path()), overrides).unwrap();
        start_text(&settings, &ready(address))
            .replace(settings.paths.state_dir.to_str().unwrap(), "<S>")
            .replace(env!("CARGO_PKG_VERSION"), "<V>")
    }

    #[test]
    fn a_fresh_machine() {
        assert_eq!(
            text([], &Overrides::default(), "127.0.0.1:18789"),
            r#"clawgate <V> is ready
  Address   ws://127.0.0.1:18789  http://127.0.0.1:18789/
  Token     `clawgate token` prints it (kept in <S>/gateway-token)
  Model     mock/mock-1 (agents.defaults.model)
  State     <S>
  Config    <S>/openclaw.json (not there; defaults apply)
  Next      clawgate chat "hi"   or   clawgate dashboard   (in another terminal)
"#
        );
    }

    #[test]
    fn without_a_model_the_next_thing_is_to_choose_one() {
        let home = tempfile::tempdir().unwrap();
        let settings = load(&Env::fixed([], home.path()), &Overrides::default()).unwrap();
        let ready = Ready { model: "offline/echo-guide".into(), ..ready("127.0.0.1:1") };
        let shown = start_text(&settings, &ready);
        assert!(
            shown.contains("  Next      clawgate onboard (for a model)   or   clawgate chat"),
            "{shown}"
        );
    }

    #[test]
    fn every_interface_is_said_and_a_usable_address_shown() {
        let shown = text([], &Overrides::default(), "0.0.0.0:1");
        assert!(
            shown.contains(
                "ws://127.0.0.1:1  http://127.0.0.1:1/  (and every other address of this machine)"
            ),
            "{shown}"
        );
    }

    #[test]
    fn a_certificate_is_said_with_its_fingerprint() {
        let home = tempfile::tempdir().unwrap();
        let settings = load(&Env::fixed([], home.path()), &Overrides::default()).unwrap();
        let tls = Fingerprint::of(b"certificate");
        let shown = start_text(&settings, &Ready { tls: Some(tls), ..ready("127.0.0.1:1") });
        let expected = format!(
            "  Address   wss://127.0.0.1:1  https://127.0.0.1:1/\n  TLS       SHA-256 fingerprint {tls}\n"
        );
        assert!(shown.contains(&expected), "{shown}");
    }

    #[test]
    fn no_secret_is_shown_wherever_it_comes_from() {
        let flag = Overrides { token: Some(Secret::new("hunter2")), ..Overrides::default() };
        let off = Overrides { auth: Some(AuthMode::None), ..Overrides::default() };
        let none = Overrides::default();
        for (shown, expected) in [
            (text([], &flag, "127.0.0.1:1"), "Token     the one given with --token"),
            (
                text([("OPENCLAW_GATEWAY_TOKEN", "hunter2")], &none, "127.0.0.1:1"),
                "Token     from OPENCLAW_GATEWAY_TOKEN",
            ),
            (
                text([("OPENCLAW_GATEWAY_PASSWORD", "hunter2")], &none, "127.0.0.1:1"),
                "Password  from OPENCLAW_GATEWAY_PASSWORD",
            ),
            (text([], &off, "127.0.0.1:1"), "Auth      none: every program"),
        ] {
            assert!(shown.contains(expected), "{shown}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
}
