//! `chat.abort`, and whatever else stops what goes on in a session.

use std::pin::pin;
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use crate::agent::{AbortError, AbortReason};
use crate::protocol::ErrorShape;
use crate::protocol::methods::chat::ChatAbortParams;
use crate::registry::{Ctx, Reply};
use crate::sessions::SessionKey;
use crate::support::json;

/// How long a stop waits for the requests that came before it: what one of them waits for may
/// never come.
const LINE_LIMIT: Duration = Duration::from_secs(5);

/// `chat.abort`: stops one run, or all of the session that the caller may stop.
pub async fn abort(cx: Ctx, p: ChatAbortParams) -> Reply<Value> {
    let key = cx.session_key(&p.session_key);
    let runs = stop(&cx, &key, p.run_id.as_deref(), AbortReason::Rpc).await?;
    Ok(json!({"ok": true, "aborted": !runs.is_empty(), "runIds": runs}))
}

/// Stops at once what goes on, and what requests to the session that came before this one are
/// about to begin, if they begin it soon. Where one run is meant and there already, none of those
/// is waited for.
pub(super) async fn stop(
    cx: &Ctx,
    key: &SessionKey,
    run_id: Option<&str>,
    reason: AbortReason,
) -> Reply<Vec<String>> {
    let look = || cx.services.runs.abort(key, run_id, &cx.caller.principal, reason);
    let mut line = pin!(timeout(LINE_LIMIT, cx.enter_lane(key)));
    // In line before it looks: what comes after this request is not stopped by it.
    let has_lane = futures_util::poll!(&mut line).is_ready();
    let mut stopped = look().await.unwrap_or_default();
    if run_id.is_some() && !stopped.is_empty() {
        return Ok(stopped);
    }
    if !has_lane && line.await.is_err() {
        tracing::warn!(session = %key, "a stop is answered before a request that came first");
    }
    match look().await {
        Ok(mut more) => {
            // One that winds down slowly is found both times.
            more.retain(|id| !stopped.contains(id));
            stopped.extend(more);
        }
        Err(_) if !stopped.is_empty() => {}
        Err(error) => return Err(not_stopped(error)),
    }
    Ok(stopped)
}

/// Why nothing is stopped, for whoever wanted it.
pub(super) fn not_stopped(error: AbortError) -> ErrorShape {
    match error {
        AbortError::OtherSession => ErrorShape::invalid(error.to_string()),
        AbortError::NotYours => ErrorShape::denied(error.to_string()),
    }
}
