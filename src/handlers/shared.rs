//! Reads whose answer is the same for all who may ask: those that ask at the same time
//! share one.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::to_raw_value;

use crate::protocol::ErrorShape;
use crate::protocol::methods::models::ModelsListParams;
use crate::protocol::methods::sessions::SessionsListParams;
use crate::protocol::methods::usage::{SessionsUsageParams, UsageCostParams};
use crate::registry::{Reply, Services, Shared};
use crate::support::SharedReads;

/// The reads that are under way.
pub type Reads = SharedReads<Asked, Reply<Shared>>;

/// What is asked for, with everything that the answer depends on but the state of the
/// gateway.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Asked {
    /// `health` with `probe`, or when the last snapshot is out of date.
    Health,
    /// `models.list`.
    Models(ModelsListParams),
    /// `node.list`.
    Nodes,
    /// `sessions.list`, as most clients get it.
    Sessions(SessionsListParams),
    /// `sessions.list`, as dashboards get it.
    Dashboard(SessionsListParams),
    /// `sessions.usage` of all sessions.
    Usage(SessionsUsageParams),
    /// `usage.cost`.
    Cost(UsageCostParams),
}

/// The answer of `read`, or of an equal one that begins after this was called.
pub(super) async fn shared<T: Serialize>(
    services: &Services,
    asked: Asked,
    read: impl Future<Output = Reply<T>>,
) -> Reply<Shared> {
    services.reads.get(asked, async { raw(&read.await?) }).await
}

/// An answer as it is sent.
pub(super) fn raw(answer: &impl Serialize) -> Reply<Shared> {
    let raw = to_raw_value(answer);
    raw.map(|raw| Arc::new(raw).into())
        .map_err(|error| ErrorShape::unavailable(format!("Error: {error}")))
}
