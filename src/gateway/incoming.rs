//! The listening socket, and how its connections begin.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};

use crate::auth::bucket;
use crate::support::descriptors;

use super::accepting::Accepting;
use super::io::MeteredStream;
use super::meter::Meter;
use super::tls::Tls;
use super::transport::{Encrypted, Transport};
use super::upgrade::Gateway;

/// How long a peer may leave what it was sent without a sign of life. What is sent
/// at least every half a minute (a ping, a tick) finds out that a machine is gone, and
/// the system alone would go on for a quarter of an hour. Long enough for a network
/// that is away for a moment.
#[cfg(target_os = "linux")]
const GONE_AFTER: Duration = Duration::from_secs(90);

/// The listening socket.
pub struct Incoming {
    listener: TcpListener,
    accepting: Accepting,
    gateway: Arc<Gateway>,
    tls: Option<Arc<Tls>>,
}

impl Incoming {
    /// Connections to `gateway` that come in at `listener`, encrypted by `tls`.
    pub const fn new(listener: TcpListener, gateway: Arc<Gateway>, tls: Option<Arc<Tls>>) -> Self {
        Self { listener, accepting: Accepting::new("listener"), gateway, tls }
    }

    /// A connection that was accepted, with its place among those who wait.
    fn open(&self, tcp: TcpStream, remote: SocketAddr) -> MeteredStream {
        let transport = match &self.tls {
            Some(tls) => Transport::Tls(Box::new(Encrypted::Greeting(tls.accept(tcp)))),
            None => Transport::Plain(tcp),
        };
        let meter = Arc::new(Meter::new());
        let Gateway { auth, preauth, .. } = &*self.gateway;
        let through_proxy = auth.now().is_proxy(remote.ip());
        let permit = preauth.enter(bucket(remote.ip()), through_proxy, Arc::clone(&meter));
        MeteredStream::new(transport, meter, permit)
    }

    /// The next connection, and where it comes from.
    pub async fn accept(&mut self) -> (MeteredStream, SocketAddr) {
        // What has come on those before is looked at first: else, of very many at once,
        // somebody who has asked already would give way as if he had been silent.
        tokio::task::yield_now().await;
        let (tcp, address) = self.accepting.next(|| take(&self.listener)).await;
        adjust(&tcp);
        (self.open(tcp, address), address)
    }
}

/// The next connection; there is none while the last descriptors are all that is left. Who
/// comes by then waits at the system.
async fn take(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    descriptors::check_room(listener)?;
    listener.accept().await
}

/// What the system is asked for on every connection. One that is gone already
/// refuses, and is found out with the first read.
fn adjust(tcp: &TcpStream) {
    if let Err(error) = tcp.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY refused");
    }
    #[cfg(target_os = "linux")]
    if let Err(error) = sockopt::set_tcp_user_timeout(
        tcp,
        u32::try_from(GONE_AFTER.as_millis()).unwrap_or(u32::MAX),
    ) {
        tracing::debug!(%error, "TCP_USER_TIMEOUT refused");
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_peer_that_is_gone_is_not_waited_for_as_long_as_the_system_would() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        adjust(&tcp);
        assert_eq!(u128::from(sockopt::tcp_user_timeout(&tcp).unwrap()), GONE_AFTER.as_millis());
    }
}
