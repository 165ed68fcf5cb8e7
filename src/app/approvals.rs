//! Questions to people, as the gateway asks them.

use std::sync::Arc;

use crate::agent::approvals::{Approvals, ApprovalsParts};
use crate::bus::Bus;
use crate::config::Settings;
use crate::sessions::Sessions;
use crate::support::{Clock, Ids, Live};

/// Nobody is asked yet.
pub(super) fn approvals(
    settings: &Live<Settings>,
    sessions: &Sessions,
    bus: &Bus,
    clock: &Arc<dyn Clock>,
    ids: &Arc<dyn Ids>,
) -> Approvals {
    Approvals::new(ApprovalsParts {
        settings: settings.clone(),
        sessions: sessions.clone(),
        bus: bus.clone(),
        clock: Arc::clone(clock),
        ids: Arc::clone(ids),
    })
}
