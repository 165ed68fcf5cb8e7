//! Connections as they are served: by HTTP/1.1 and nothing else.
//!
//! Owns: the task of each connection, until it is over or a WebSocket. Promises: who speaks
//! HTTP/2 unasked is not answered, since names, deadlines and bounds are those of one request
//! after the other; when the listener goes, what is answered is answered to its end, and no
//! connection takes another request. Must not: know what is asked.

use std::net::SocketAddr;
use std::pin::pin;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::Request;
use hyper::body::Incoming as Body;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio_util::sync::CancellationToken;

use super::incoming::Incoming;
use super::io::MeteredStream;
use super::upgrade::Gateway;

/// Serves all that comes in, until it is dropped.
pub(super) async fn serve_all(mut incoming: Incoming, routes: Router, gateway: &Gateway) {
    let over = CancellationToken::new();
    let _ends = over.clone().drop_guard();
    loop {
        let (stream, remote) = incoming.accept().await;
        let served = serve_one(stream, remote, routes.clone(), over.clone());
        gateway.services.tasks.spawn_uncounted("http", gateway.door.serving(served));
    }
}

async fn serve_one(
    stream: MeteredStream,
    remote: SocketAddr,
    routes: Router,
    over: CancellationToken,
) {
    let (wire, routes) = (stream.wire(remote), TowerToHyperService::new(routes));
    let service = service_fn(move |mut request: Request<Body>| {
        request.extensions_mut().insert(ConnectInfo(wire.clone()));
        routes.call(request)
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection.with_upgrades());
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = over.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "a connection has ended");
    }
}
