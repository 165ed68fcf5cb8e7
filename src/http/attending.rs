//! Requests that take long.
//!
//! Promises: one ends with what let it in, as connections do: when a device is
//! removed, its token is taken away, or the gateway's secret becomes another one; and
//! when whoever asks goes away before the answer.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use crate::bus::Subscriber;
use crate::gateway::Gateway;
use crate::registry::Ctx;

use super::asked::{Asked, cx_with, subscriber};
use super::manner::Manner;

/// A request while it is answered. It is no connection: it gets no events, and is
/// in no list.
pub struct Attending {
    gateway: Arc<Gateway>,
    subscriber: Arc<Subscriber>,
    gone: CancellationToken,
}

impl Asked<'_> {
    /// From now on the request ends with what let it in; and what calls in the name
    /// of the caller work with.
    pub fn attend(&self) -> impl Future<Output = (Attending, Ctx)> + Send + use<> {
        let (gateway, footing) = (Arc::clone(self.gateway), self.footing.clone());
        let subscriber = subscriber(&gateway.services, &self.caller.principal, &[]);
        let gone = self.gone.clone();
        async move {
            gateway.hub.attend(Arc::clone(&subscriber));
            let cx = cx_with(&gateway.services, Arc::clone(&subscriber));
            let attending = Attending { gateway, subscriber, gone };
            // What happened before the hub knew of it.
            footing.look_again(&attending.gateway, &attending.subscriber).await;
            (attending, cx)
        }
    }
}

impl Attending {
    /// What `work` comes to; `None` when whoever asks is let in no more, or has gone.
    pub async fn unless_cut<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = self.subscriber.outbox.unless_cut(work) => done,
            () = self.gone.cancelled() => None,
        }
    }

    /// Whether whoever asks is let in no more, or has gone. Nothing else is to be awaited then.
    pub fn is_cut(&self) -> bool {
        self.unless_cut(std::future::pending::<()>()).now_or_never().is_some()
    }

    /// The answer to somebody who is let in no more.
    pub fn cut(manner: Manner) -> Response {
        manner.error(StatusCode::UNAUTHORIZED, CUT)
    }
}

/// What he is told.
pub const CUT: &str = "Unauthorized";

impl Drop for Attending {
    fn drop(&mut self) {
        self.gateway.hub.depart(&self.subscriber.conn_id);
    }
}
