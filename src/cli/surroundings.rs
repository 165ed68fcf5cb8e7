//! What client commands know of the machine they run on.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::config::{self, Env, Origin, Overrides, Settings};
use crate::store::instance::running_at;
use crate::support::is_own_address;

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
                Self {
                    local: LocalGateway {
                        address: address(&settings),
                        token: settings.gateway.auth.token.clone(),
                        password: settings.gateway.auth.password.clone(),
                    },
                    history: Some(settings.paths.state_dir.join("chat_history")),
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
                Self { env, local: LocalGateway::default(), history: None, control: None }
            }
        }
    }
}

/// Where this machine's gateway is: where it really listens, unless somebody
/// says otherwise by the variable. Credentials are sent there, so an address
/// that a gateway noted counts only while it is one of this machine, and of the
/// configuration only the port does.
fn address(settings: &Settings) -> SocketAddr {
    let configured = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), settings.gateway.port);
    if let Some(Origin::Env(_)) = settings.origin_of("gateway.port") {
        return configured;
    }
    let running = running_at(&settings.paths.instance_lock());
    running.filter(|address| is_own_address(address.ip())).unwrap_or(configured)
}
