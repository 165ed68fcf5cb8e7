//! Where clients come in: the port, its certificate, room for connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpSocket};

use super::AppError;
use crate::config::Settings;
use crate::gateway::tls::Tls;
use crate::support::{Clock, blocking};

/// Enough for every connection that the budgets in `docs/benchmarks.md` speak
/// of. Many systems give 1024 unless one asks.
const FILES: u64 = 65_536;

/// Connections that the system holds until they are taken; it gives 4096 at most unless it
/// is told otherwise. One that finds no place is tried again by its client, a second later.
const WAITING: u32 = 4096;

/// The sockets of the last time, the first of them that of `gateway.port`. They
/// stay open when the gateway begins again, so that who connects in between waits
/// a moment and is not refused.
#[derive(Debug, Default)]
pub struct Sockets(Vec<std::net::TcpListener>);

/// Where the gateway listens, in the same order.
pub(super) struct Listening {
    pub listeners: Vec<TcpListener>,
    pub address: SocketAddr,
    pub further: Vec<SocketAddr>,
}

/// Takes the ports, or the sockets of the last time where those fit.
pub(super) fn listen(settings: &Settings, sockets: &mut Sockets) -> Result<Listening, AppError> {
    let (host, port) = (settings.gateway.bind.host(), settings.gateway.port);
    let mut known = std::mem::take(&mut sockets.0);
    let main = SocketAddr::new(host, port);
    let main = take(main, &mut known).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => AppError::PortInUse { address: main },
        _ => AppError::Listen { address: main, source },
    })?;
    let (mut listeners, address, mut further) = (vec![main.listener], main.address, Vec::new());
    sockets.0.push(main.kept);
    // The port of a flag or a variable may be one of them.
    let others = settings.gateway.dialects.ports.iter().filter(|port| **port != address.port());
    for port in others {
        let address = SocketAddr::new(host, *port);
        let taken = take(address, &mut known);
        let taken = taken.map_err(|source| AppError::FurtherPort { address, source })?;
        listeners.push(taken.listener);
        further.push(taken.address);
        sockets.0.push(taken.kept);
    }
    allow_many_files();
    Ok(Listening { listeners, address, further })
}

struct Taken {
    listener: TcpListener,
    kept: std::net::TcpListener,
    address: SocketAddr,
}

fn take(address: SocketAddr, known: &mut Vec<std::net::TcpListener>) -> io::Result<Taken> {
    let fits = |known: &std::net::TcpListener| {
        let known = known.local_addr().ok();
        known.is_some_and(|it| it.ip() == address.ip() && [0, it.port()].contains(&address.port()))
    };
    let kept = match known.iter().position(fits) {
        Some(place) => known.remove(place),
        None => bind(address).and_then(TcpListener::into_std)?,
    };
    let listener = kept.try_clone().and_then(TcpListener::from_std)?;
    let address = listener.local_addr()?;
    Ok(Taken { listener, kept, address })
}

/// As [`TcpListener::bind`], with room for more who come at once.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // What is left of connections of a gateway before holds the port for a minute.
    socket.set_reuseaddr(cfg!(unix))?;
    socket.bind(address)?;
    socket.listen(WAITING)
}

/// Asks the system for as many open files as it allows, up to [`FILES`].
fn allow_many_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(FILES, |maximum| maximum.min(FILES));
    if current.is_some_and(|current| current < wanted) {
        let limit = Rlimit { current: Some(wanted), maximum };
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::debug!(%error, "the limit of open files stays");
        }
    }
}

/// The certificate, if the settings want one.
pub(super) async fn tls(
    settings: &Settings,
    clock: &dyn Clock,
) -> Result<Option<Arc<Tls>>, AppError> {
    let tls = settings.gateway.tls.clone();
    if !tls.enabled {
        return Ok(None);
    }
    let now_ms = clock.now_ms();
    let loaded = blocking(move || Tls::load(tls, now_ms)).await;
    let loaded = loaded.map_err(|error| AppError::Serve(io::Error::other(error)))?;
    Ok(Some(Arc::new(loaded?)))
}

/// Whether there is a certificate, or one can be made.
pub(super) async fn check_tls(settings: &Settings) -> Result<(), AppError> {
    let tls = settings.gateway.tls.clone();
    if tls.enabled {
        let checked = blocking(move || Tls::check(&tls)).await;
        checked.map_err(|error| AppError::Serve(io::Error::other(error)))??;
    }
    Ok(())
}
