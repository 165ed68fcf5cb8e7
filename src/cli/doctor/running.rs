//! Where the gateway is, and whether it answers.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use super::finding::{Finding, Severity};
use crate::cli::banner::reachable;
use crate::cli::client::{GatewayUrl, LocalGateway, RemoteGateway, Target};
use crate::cli::{ConnectArgs, remote_credentials};
use crate::config::{Env, GatewayMode, Paths, Settings};
use crate::store::instance::running_at;

/// A gateway that is only busy answers sooner.
const PATIENCE: Duration = Duration::from_secs(2);

/// Who runs on the directory, and whether the port is free.
pub fn check(paths: &Paths, settings: Option<&Settings>, env: &Env) -> Vec<Finding> {
    if let Some(running) = running_at(&paths.instance_lock()) {
        return vec![answering(running.address)];
    }
    let Some(settings) = settings else { return Vec::new() };
    if settings.gateway.mode == GatewayMode::Remote {
        return vec![remote(settings, env)];
    }
    let address = SocketAddr::new(settings.gateway.bind.host(), settings.gateway.port);
    match TcpListener::bind(address) {
        Ok(_) => vec![Finding::ok("gateway.port", format!("nobody listens at {address}"))],
        Err(error) => vec![Finding::new(
            "gateway.port",
            Severity::Critical,
            format!("the gateway cannot listen at {address}: {error}"),
            "another program has the port, or the address is not of this machine",
            format!(
                "find it with `lsof -nP -iTCP:{} -sTCP:LISTEN`, or choose another gateway.port",
                address.port()
            ),
        )],
    }
}

/// Whether the gateway that holds the state directory does anything.
fn answering(address: SocketAddr) -> Finding {
    let Err(error) = ask(reachable(address).0) else {
        let title = format!("a gateway runs on this state directory, at {address}");
        return Finding::ok("gateway.running", title);
    };
    let (severity, how) = if is_silence(&error) {
        (Severity::Critical, "does not answer".to_owned())
    } else {
        (Severity::Warn, format!("cannot be asked: {error}"))
    };
    Finding::new(
        "gateway.running",
        severity,
        format!("the gateway that runs on this state directory, at {address}, {how}"),
        "nobody is served by it; it may be stopped (SIGSTOP), or be beginning or ending just now",
        "look at it with `ps` and `clawgate logs`, and start it anew",
    )
}

/// Asks what costs nothing. Whatever comes is an answer, also that it wants TLS.
fn ask(address: SocketAddr) -> io::Result<()> {
    let mut tcp = TcpStream::connect_timeout(&address, PATIENCE)?;
    tcp.set_read_timeout(Some(PATIENCE))?;
    tcp.set_write_timeout(Some(PATIENCE))?;
    tcp.write_all(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    match tcp.read_exact(&mut [0; 1]) {
        Err(error) if is_silence(&error) => Err(error),
        _ => Ok(()),
    }
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Whether it is known where the gateway is whose client this machine is, and whether commands
/// would ask it.
fn remote(settings: &Settings, env: &Env) -> Finding {
    let url = settings.gateway.remote.url.clone().map(|url| (GatewayUrl::parse(&url), url));
    let url = match url {
        Some((Ok(_), url)) => url,
        // Not repeated: it may hold a secret.
        Some((Err(_), _)) => {
            return lost("gateway.remote.url is no address of a gateway, or holds a secret");
        }
        None => return lost("gateway.mode is remote, and gateway.remote.url is not set"),
    };
    // That a credential cannot be had is told elsewhere.
    let [token, password] = remote_credentials(settings, env).unwrap_or_default();
    let remote = RemoteGateway { url, token, password, ..RemoteGateway::default() };
    let local = LocalGateway { remote: Some(remote), ..LocalGateway::default() };
    match Target::resolve(&ConnectArgs::default(), |name| env.get(name), &local) {
        Ok(target) => {
            let title =
                format!("gateway.mode is remote: commands ask the gateway at {}", target.url);
            Finding::ok("gateway.remote", title)
        }
        Err(error) => Finding::new(
            "gateway.remote",
            Severity::Critical,
            error.to_string(),
            "commands do not ask their gateway",
            "correct gateway.remote.url, or the variable that is named",
        ),
    }
}

fn lost(why: &str) -> Finding {
    Finding::new(
        "gateway.remote",
        Severity::Critical,
        why,
        "no gateway starts here in this mode, and commands do not know where theirs is",
        "clawgate onboard --mode remote; or --mode local, to run a gateway here",
    )
}
