//! What client commands know of the machine they run on.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::config::{self, Env, GatewayMode, Origin, Overrides, Settings};
use crate::gateway::tls::fingerprint_of_file;
use crate::store::instance::{Running, running_at};
use crate::support::is_own_address;

use super::client::RemoteGateway;
use super::{LocalGateway, Screen};

/// The machine a client command runs on.
pub struct Surroundings {
    /// Its environment variables.
    pub env: Env,
    /// Its own gateway.
    pub local: LocalGateway,
    /// Where `chat` keeps the lines that were typed; none: only in memory.
    pub history: Option<PathBuf>,
    /// The control socket of its gateway, and the key that it asks for.
    pub control: Option<(PathBuf, PathBuf)>,
    /// Where its gateway listens, if it runs.
    pub running: Option<Running>,
    /// Whether its gateway lets users of a tailnet in.
    pub allows_tailscale: bool,
}

impl Surroundings {
    /// Reads the configuration of this machine's gateway. A broken one is
    /// noted and no reason to stop: the command may be for another gateway.
    pub fn find(env: Env, screen: &mut Screen) -> Self {
        let looking = Overrides { read_only: true, ..Overrides::default() };
        match config::load(&env, &looking) {
            Ok(mut settings) => {
                if let Err(error) = super::follow_secrets(&mut settings, &env) {
                    let _ = screen.note(&format!("the gateway's secret is not known: {error:#}"));
                }
                let running = running_at(&settings.paths.instance_lock());
                let Running { address, is_tls } = reached(&settings, running);
                let tls = &settings.gateway.tls;
                Self {
                    local: LocalGateway {
                        address,
                        is_tls,
                        tls_fingerprint: fingerprint_of_file(&tls.cert_path).ok(),
                        remote: remote(&settings, &env, screen),
                        token: settings.gateway.auth.token.clone(),
                        password: settings.gateway.auth.password.clone(),
                    },
                    history: Some(settings.paths.state_dir.join("chat_history")),
                    running,
                    allows_tailscale: settings.gateway.proxies.allow_tailscale,
                    control: Some((
                        settings.paths.control_socket(),
                        settings.paths.identity_file(),
                    )),
                    env,
                }
            }
            Err(error) => {
                // Nothing can be done about a terminal that is gone.
                let _ = screen
                    .note(&format!("the configuration of this machine is not readable: {error}"));
                Self {
                    env,
                    local: LocalGateway::default(),
                    history: None,
                    control: None,
                    running: None,
                    allows_tailscale: false,
                }
            }
        }
    }
}

/// Where this machine's gateway is: where it really listens, unless somebody
/// says otherwise by the variable. Credentials are sent there, so an address
/// that a gateway noted counts only while it is one of this machine, and of the
/// configuration only the port does.
fn reached(settings: &Settings, running: Option<Running>) -> Running {
    let gateway = &settings.gateway;
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), gateway.port);
    let configured = Running { address, is_tls: gateway.tls.enabled };
    if let Some(Origin::Env(_)) = settings.origin_of("gateway.port") {
        return configured;
    }
    running.filter(|running| is_own_address(running.address.ip())).unwrap_or(configured)
}

/// The gateway elsewhere, if the configuration is that of its client.
fn remote(settings: &Settings, env: &Env, screen: &mut Screen) -> Option<RemoteGateway> {
    let remote = &settings.gateway.remote;
    let url = remote.url.clone().filter(|_| settings.gateway.mode == GatewayMode::Remote)?;
    let [token, password] = super::remote_credentials(settings, env).unwrap_or_else(|error| {
        let _ = screen.note(&format!("the secret of the remote gateway is not known: {error:#}"));
        [None, None]
    });
    Some(RemoteGateway { url, token, password, tls_fingerprint: remote.tls_fingerprint })
}
