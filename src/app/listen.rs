//! Where clients come in: the port, its certificate, room for connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;

use super::AppError;
use crate::config::Settings;
use crate::gateway::tls::Tls;
use crate::support::Clock;

/// Enough for every connection that the budgets in `docs/benchmarks.md` speak
/// of. Many systems give 1024 unless one asks.
const FILES: u64 = 65_536;

/// Takes the port, or the socket of the last time where that fits.
pub(super) async fn listen(
    settings: &Settings,
    socket: &mut Option<std::net::TcpListener>,
) -> Result<(TcpListener, SocketAddr), AppError> {
    let address = SocketAddr::new(settings.gateway.bind.host(), settings.gateway.port);
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => AppError::PortInUse { address },
        _ => AppError::Listen { address, source },
    };
    let fits = |known: &std::net::TcpListener| {
        let known = known.local_addr().ok();
        known.is_some_and(|it| it.ip() == address.ip() && [0, it.port()].contains(&address.port()))
    };
    let kept = match socket.take().filter(fits) {
        Some(kept) => kept,
        None => TcpListener::bind(address).await.and_then(TcpListener::into_std).map_err(failed)?,
    };
    let listener = kept.try_clone().and_then(TcpListener::from_std).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    *socket = Some(kept);
    allow_many_files();
    Ok((listener, address))
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
    let loaded = tokio::task::spawn_blocking(move || Tls::load(tls, now_ms)).await;
    let loaded = loaded.map_err(|error| AppError::Serve(io::Error::other(error)))?;
    Ok(Some(Arc::new(loaded?)))
}

/// Whether there is a certificate, or one can be made.
pub(super) async fn check_tls(settings: &Settings) -> Result<(), AppError> {
    let tls = settings.gateway.tls.clone();
    if tls.enabled {
        let checked = tokio::task::spawn_blocking(move || Tls::check(&tls)).await;
        checked.map_err(|error| AppError::Serve(io::Error::other(error)))??;
    }
    Ok(())
}
