//! The gateway's own presence entry.

use std::net::Ipv4Addr;

use crate::bus::Beacon;
use crate::handlers::SERVER_VERSION;
use crate::support::route_to;

/// Stands for all other machines: reserved for documentation (RFC 5737), so it
/// is nobody's.
const ANYWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// What the gateway tells of the machine it runs on.
pub fn own_beacon() -> Beacon {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy().into_owned();
    let ip = route_to(ANYWHERE).map(|ip| ip.to_string());
    let place = ip.as_ref().map_or_else(String::new, |ip| format!(" ({ip})"));
    Beacon {
        text: Some(format!(
            "Gateway: {host}{place} · app {SERVER_VERSION} · mode gateway · reason self"
        )),
        host: Some(host),
        ip,
        version: Some(SERVER_VERSION.into()),
        platform: Some(format!("{} {}", platform(), system.release().to_string_lossy())),
        device_family: Some(family().into()),
        model_identifier: Some(architecture().into()),
        mode: Some("gateway".into()),
        reason: Some("self".into()),
        ..Beacon::default()
    }
}

/// Names as Node.js has them, which clients know.
fn platform() -> &'static str {
    match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    }
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn family() -> &'static str {
    match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "Mac",
        other => other,
    }
}
