//! A compaction that somebody asks for, outside of a run.
//!
//! Promises: nothing else runs in the session meanwhile.

use std::sync::Arc;

use crate::auth::Owner;
use crate::protocol::message::Usage;
use crate::providers::Route;
use crate::sessions::{CompactionReason, SessionKey};

use super::{CompactError, Compacted, compact_as};
use crate::agent::models::SessionModel;
use crate::agent::run::RunEnd;
use crate::agent::runs::Runs;

impl Runs {
    /// Sums up what is long ago in a session, heeding `instructions`. What runs
    /// there is stopped first.
    pub async fn compact(
        self: &Arc<Self>,
        key: &SessionKey,
        written_key: &str,
        owner: Owner,
        instructions: Option<&str>,
    ) -> Result<Compacted, CompactError> {
        let hold = self.hold_first(key, written_key, owner).await?;
        let parts = self.parts();
        let mut emitter = parts.emitter(&hold.run);
        let how = (CompactionReason::Manual, instructions);
        let done = match self.route_of_session(key).await {
            Ok(route) => {
                let used = &mut Usage::default();
                compact_as(parts, &hold.run, route, &mut emitter, how, used).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = &done
            && !matches!(error, CompactError::Nothing(_))
        {
            tracing::warn!(session = %key, %error, "session not compacted");
        }
        hold.end(match &done {
            Ok(_) | Err(CompactError::Nothing(_)) => RunEnd::Answered,
            Err(CompactError::Stopped(reason)) => RunEnd::Aborted(*reason),
            Err(error) => RunEnd::Failed(error.to_string()),
        })
        .await;
        done
    }

    /// The way to the summary of a session.
    async fn route_of_session(&self, key: &SessionKey) -> Result<Route, CompactError> {
        let parts = self.parts();
        let entry = parts.sessions.entry(key).await?;
        let SessionModel { name, info } = parts.models.of_session(key, entry.as_ref());
        let model = info.ok_or_else(|| CompactError::Model(format!("Unknown model: {name}")))?;
        let agent = key.agent(&parts.keys.now());
        Ok(parts.models.route(key, &agent, model).unremembered())
    }
}
