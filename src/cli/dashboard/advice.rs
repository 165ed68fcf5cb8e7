//! What somebody has to know of an address before opening it in a browser.

use crate::cli::client::GatewayUrl;
use crate::support::Fingerprint;

use super::open::{Place, Ssh};

/// The port of SSH, unless one is named.
const SSH_PORT: &str = "22";

/// Lines for people.
pub fn of(url: &GatewayUrl, fingerprint: Option<Fingerprint>, place: &Place) -> Vec<String> {
    let mut lines = Vec::new();
    if let Place::Ssh(ssh) = place
        && url.is_loopback()
    {
        lines.push(format!(
            "This is an SSH session. On the machine with the browser, run this, keep it running, \
             and open the link there:\n  {}",
            tunnel(url, ssh)
        ));
    }
    if !url.is_tls() && !url.is_loopback() {
        lines.push(
            "Over http from another machine a browser gives pages no keys, so this login does not \
             work there: turn on gateway.tls, put https in front (docs/deploy.md), or use ssh -L."
                .to_owned(),
        );
    }
    if let Some(fingerprint) = fingerprint.filter(|_| url.is_tls()) {
        lines.push(format!(
            "If the browser warns of the certificate, compare its SHA-256 fingerprint: {fingerprint}"
        ));
    }
    lines
}

/// The command that leads a port of the other machine here.
fn tunnel(url: &GatewayUrl, ssh: &Ssh) -> String {
    let port = url.port();
    let host = url.host();
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let (server, at_port) = match &ssh.server {
        Some((server, at)) if at == SSH_PORT => (server.as_str(), String::new()),
        Some((server, at)) => (server.as_str(), format!(" -p {at}")),
        None => ("<this machine>", String::new()),
    };
    let user = ssh.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
    format!("ssh -N -L {port}:{host}:{port}{at_port} {user}{server}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> GatewayUrl {
        GatewayUrl::parse(text).unwrap()
    }

    #[test]
    fn over_ssh_it_tells_the_way_to_a_port_of_this_machine() {
        let server = |port: &str| Some(("192.0.2.7".to_owned(), port.to_owned()));
        let ssh = |server| Place::Ssh(Ssh { user: Some("ada".to_owned()), server });
        for (at, place, expected) in [
            (
                "ws://127.0.0.1:18789",
                ssh(server("22")),
                "ssh -N -L 18789:127.0.0.1:18789 ada@192.0.2.7",
            ),
            ("ws://[::1]:1", ssh(server("2222")), "ssh -N -L 1:[::1]:1 -p 2222 ada@192.0.2.7"),
            ("ws://localhost:1", ssh(None), "ssh -N -L 1:localhost:1 ada@<this machine>"),
        ] {
            let lines = of(&url(at), None, &place);
            assert!(
                lines.len() == 1 && lines[0].ends_with(&format!("\n  {expected}")),
                "{lines:?}"
            );
        }
        assert!(of(&url("wss://192.0.2.7:18789"), None, &ssh(server("22"))).is_empty());
    }

    #[test]
    fn it_warns_of_places_where_browsers_give_no_keys_and_of_own_certificates() {
        let plain = of(&url("ws://192.0.2.7:18789"), None, &Place::Nowhere);
        assert!(plain.len() == 1 && plain[0].contains("gateway.tls"), "{plain:?}");
        assert!(of(&url("ws://127.0.0.1:18789"), None, &Place::Nowhere).is_empty());
        let fingerprint: Fingerprint = "ab".repeat(32).parse().unwrap();
        let tls = of(&url("wss://127.0.0.1:1"), Some(fingerprint), &Place::Nowhere);
        assert!(tls.len() == 1 && tls[0].contains(&fingerprint.to_string()), "{tls:?}");
        assert!(of(&url("ws://127.0.0.1:1"), Some(fingerprint), &Place::Nowhere).is_empty());
    }
}
