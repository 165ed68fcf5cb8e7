//! Requests with an idempotency key of which each is done once.
//!
//! Promises: the same key gets the same answer, also after a restart. When the
//! gateway stopped while it was doing something, nobody knows how far it came,
//! and it is not done again, unless that does no harm.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use serde_json::Value;

use crate::protocol::ErrorShape;
use crate::store::{AnswerClaim, StoreError};
use crate::support::BoxFuture;
use crate::telemetry::traces;

use super::context::Ctx;
use super::table::Reply;

impl Ctx {
    /// Does `work` once for each `key` of a `method`. An error gives the key
    /// back. What has begun is done to its end, though the caller goes away.
    pub async fn once(
        &self,
        method: &'static str,
        key: Option<String>,
        work: impl Future<Output = Reply<Value>> + Send + 'static,
    ) -> Reply<Value> {
        let Some(key) = key else { return work.await };
        self.done_once((method, key), WhenBegun::Refused, Box::pin(work)).await
    }

    /// The same for work that by itself does nothing twice. Where the gateway has stopped
    /// while it was done, whoever asks again hears what becomes of it.
    pub async fn resumed(
        &self,
        method: &'static str,
        key: String,
        work: impl Future<Output = Reply<Value>> + Send + 'static,
    ) -> Reply<Value> {
        self.done_once((method, key), WhenBegun::GoesOn, Box::pin(work)).await
    }

    async fn done_once(
        &self,
        (method, key): (&'static str, String),
        when_begun: WhenBegun,
        work: BoxFuture<'static, Reply<Value>>,
    ) -> Reply<Value> {
        let services = self.services.clone();
        let now_ms = self.now_ms();
        let doing = Box::pin(async move {
            let store = &services.runs.parts().store;
            // The same key waits for the one before.
            let _turn = services.lanes.enter(format!("once {method} {key}")).await;
            match store.claim_answer(method, &key, now_ms).await.map_err(unavailable)? {
                AnswerClaim::Answered(answer) => {
                    return serde_json::from_str(&answer).map_err(unavailable);
                }
                AnswerClaim::Begun if when_begun == WhenBegun::Refused => {
                    return Err(ErrorShape::unavailable(
                        "the gateway stopped while it did this; see how far it came, and ask \
                         with another idempotencyKey if it is to be done again",
                    ));
                }
                AnswerClaim::Begun | AnswerClaim::New => {}
            }
            let panicked = || Err(failed(method));
            let answer = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| panicked());
            let kept = answer.as_ref().ok().map(Value::to_string);
            store.settle_answer(method, &key, kept).await.map_err(unavailable)?;
            answer
        });
        let doing = traces::within(traces::current(), doing);
        let doing = self.services.tasks.result_of(method, doing);
        doing.await.unwrap_or_else(|| Err(failed(method)))
    }
}

/// What becomes of a request that an earlier process has begun with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WhenBegun {
    /// It is told so.
    Refused,
    /// It is done as far as it was not.
    GoesOn,
}

fn failed(method: &str) -> ErrorShape {
    ErrorShape::unavailable(format!("Error: {method} failed inside the gateway"))
}

fn unavailable(error: impl Into<AnswerError>) -> ErrorShape {
    ErrorShape::unavailable(format!("Error: {}", error.into()))
}

/// Why an answer is not there.
#[derive(Debug, thiserror::Error)]
enum AnswerError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the stored answer cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}
