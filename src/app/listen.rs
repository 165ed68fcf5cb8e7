//! Where clients come in: the port, its certificate, room for connections.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpSocket};

use super::AppError;
use crate::config::Settings;
use crate::gateway::tls::Tls;
use crate::store::instance::renew_certificate;
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

/// Takes the ports, or the sockets of the last time where those fit. When one is not
/// to be had, the gateway of the last time can still go on: its sockets are there.
///
/// # Errors
/// Which address is not to be had, and why.
pub(super) fn listen(settings: &Settings, sockets: &mut Sockets) -> Result<Listening, AppError> {
    let mut known = std::mem::take(&mut sockets.0);
    let before: Vec<_> = known.iter().filter_map(|known| known.local_addr().ok()).collect();
    let listening = take_all(settings, &mut known, sockets);
    if listening.is_err() {
        known.append(&mut sockets.0);
        let kept = before.into_iter().filter_map(|address| take(address, &mut known).ok());
        sockets.0 = kept.map(|taken| taken.kept).collect();
    }
    listening
}

fn take_all(
    settings: &Settings,
    known: &mut Vec<std::net::TcpListener>,
    sockets: &mut Sockets,
) -> Result<Listening, AppError> {
    let main = SocketAddr::new(settings.gateway.bind.host(), settings.gateway.port);
    let main = take(main, known).map_err(|source| refused(main, source))?;
    let (mut listeners, address, mut further) = (vec![main.listener], main.address, Vec::new());
    sockets.0.push(main.kept);
    // The port of a flag or a variable may be one of them.
    let others = settings.gateway.dialects.ports.iter().filter(|port| **port != address.port());
    for port in others {
        let address = SocketAddr::new(address.ip(), *port);
        let taken = take(address, known);
        let taken = taken.map_err(|source| AppError::FurtherPort { address, source })?;
        listeners.push(taken.listener);
        further.push(taken.address);
        sockets.0.push(taken.kept);
    }
    allow_many_files();
    Ok(Listening { listeners, address, further })
}

fn refused(address: SocketAddr, source: io::Error) -> AppError {
    match source.kind() {
        io::ErrorKind::AddrInUse => AppError::PortInUse { address },
        _ => AppError::Listen { address, source },
    }
}

/// Whether a gateway that listens as `now` says could listen as `next` does. An address
/// whose port it holds itself is tried on another port. For use inside of a runtime.
///
/// # Errors
/// Which address is not to be had, and why.
pub(super) fn check(next: &Settings, now: &Settings) -> Result<(), AppError> {
    let (before, wanted) = (addresses(now), addresses(next));
    for (place, address) in wanted.into_iter().enumerate() {
        if before.contains(&address) {
            continue;
        }
        let is_own = before.iter().any(|own| own.port() == address.port());
        let tried = SocketAddr::new(address.ip(), if is_own { 0 } else { address.port() });
        if let Err(source) = bind(tried) {
            let error = match place {
                0 => refused(address, source),
                _ => AppError::FurtherPort { address, source },
            };
            return Err(error);
        }
    }
    Ok(())
}

/// Where a gateway listens that has these settings, the first of them `gateway.port`.
fn addresses(settings: &Settings) -> Vec<SocketAddr> {
    let (host, port) = (settings.gateway.bind.host(), settings.gateway.port);
    let others = settings.gateway.dialects.ports.iter().filter(|other| **other != port);
    let ports = std::iter::once(&port).chain(others);
    ports.map(|port| SocketAddr::new(host, *port)).collect()
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
    let kept = if let Some(place) = known.iter().position(fits) {
        known.remove(place)
    } else {
        // On another address one's own socket holds the port as a stranger's would.
        known.retain(|it| it.local_addr().is_ok_and(|it| it.port() != address.port()));
        bind(address).and_then(TcpListener::into_std)?
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

/// Takes up new certificates as they come, and tells the commands of this machine, which
/// read of them in the file `lock`.
pub(super) async fn keep_certificate(tls: Arc<Tls>, lock: PathBuf) {
    let tell = move |fingerprint| {
        if let Err(error) = renew_certificate(&lock, fingerprint) {
            tracing::warn!(%error, "commands of this machine do not know the new certificate");
        }
    };
    tls.keep_fresh(tell).await;
}

/// Whether there is a certificate, or one can be made; but not in the place of one that
/// somebody has put where a gateway `now` has it from: that was lost.
pub(super) async fn check_tls(settings: &Settings, now: Option<&Settings>) -> Result<(), AppError> {
    let mut tls = settings.gateway.tls.clone();
    let used = now.map(|now| &now.gateway.tls).filter(|used| used.enabled && !used.is_own);
    if used.is_some_and(|used| used.cert_path == tls.cert_path) {
        tls.auto_generate = false;
    }
    if tls.enabled {
        let checked = blocking(move || Tls::check(&tls)).await;
        checked.map_err(|error| AppError::Serve(io::Error::other(error)))??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Env, Overrides};

    fn settings(bind: &str, port: u16, others: &[u16]) -> Settings {
        let dialects = crate::support::json!({"ports": others});
        let gateway = crate::support::json!({"bind": bind, "dialects": dialects});
        let text = crate::support::json!({"gateway": gateway}).to_string();
        let env = Env::fixed([("OPENCLAW_GATEWAY_TOKEN", "token-of-a-test")], "/nowhere");
        let given = Overrides { port: Some(port), read_only: true, ..Overrides::default() };
        config::load_text(&text, &env, &given).unwrap()
    }

    fn begin() -> (Sockets, u16) {
        let mut sockets = Sockets::default();
        let first = listen(&settings("loopback", 0, &[]), &mut sockets).unwrap();
        (sockets, first.address.port())
    }

    #[tokio::test]
    async fn another_address_takes_over_the_port_that_was_its_own() {
        let (mut sockets, port) = begin();
        for (bind, host) in [("lan", "0.0.0.0"), ("loopback", "127.0.0.1")] {
            let next = settings(bind, port, &[]);
            let listening = listen(&next, &mut sockets).unwrap();
            assert_eq!(listening.address.to_string(), format!("{host}:{port}"));
        }
    }

    #[tokio::test]
    async fn what_is_not_to_be_had_is_found_and_leaves_the_sockets_as_they_were() {
        let (mut sockets, port) = begin();
        let before = settings("loopback", port, &[]);
        let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = stranger.local_addr().unwrap().port();
        for (bind, port_there, more, key) in [
            ("loopback", taken, &[][..], "gateway.port"),
            ("loopback", port, &[taken], "gateway.dialects.ports"),
            ("lan", port, &[taken], "gateway.dialects.ports"),
        ] {
            let next = settings(bind, port_there, more);
            let told = check(&next, &before).unwrap_err().to_string();
            assert!(told.contains(key) && told.contains(&taken.to_string()), "{told}");
            let failed = listen(&next, &mut sockets).err().unwrap();
            assert_eq!(failed.to_string(), told);
            let [kept] = &*sockets.0 else { panic!("{sockets:?}") };
            assert_eq!(kept.local_addr().unwrap(), SocketAddr::new([127, 0, 0, 1].into(), port));
        }
        assert!(listen(&before, &mut sockets).is_ok());
    }
}
