//! Messages that the gateway answers itself.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use crate::protocol::message::{AgentMessage, AssistantMessage};
use crate::store::Claim;

use super::recovery;
use super::run::{ActiveRun, RunEnd};
use super::runs::{Accepted, Runs, SendError, SendRequest};

impl Runs {
    /// Keeps a command and the gateway's answer to it, and tells everybody.
    /// The same key again is not answered again, as with any other message.
    pub async fn answer_command(
        &self,
        request: SendRequest,
        answer: impl Future<Output = String>,
    ) -> Result<Accepted, SendError> {
        let run = self.new_run(request).await?;
        if let Claim::Existing(record) = self.claim(&run, None).await? {
            return Ok(self.known(record));
        }
        let noting = AssertUnwindSafe(self.note_answer(&run, answer)).catch_unwind().await;
        let noted = noting.unwrap_or_else(|_| {
            tracing::error!(run = %run.id, "command panicked");
            Err(SendError::Broken)
        });
        let end = match &noted {
            Ok(()) => RunEnd::Answered,
            Err(error) => RunEnd::Failed(error.to_string()),
        };
        self.parts().record_end(&run, &end).await;
        self.keep_report(&run, &end);
        self.tell_ended(&run, end);
        noted.map(|()| Accepted::Started)
    }

    async fn note_answer(
        &self,
        run: &ActiveRun,
        answer: impl Future<Output = String>,
    ) -> Result<(), SendError> {
        let parts = self.parts();
        // A run that is under way keeps its transcript.
        let stored = match self.active(&run.key) {
            None => recovery::open_turn(parts, run).await?,
            Some(_) => recovery::append_user_message(parts, run).await?,
        };
        parts.announce(&run.key, &stored);
        let text = answer.await;
        let message = AssistantMessage::from_gateway(text, parts.clock.now_ms());
        let id = Some(parts.ids.uuid());
        let stored = parts.append(&run.key, AgentMessage::Assistant(message), id).await?;
        parts.publish_note(&run.key, &run.id, 1, &stored);
        parts.announce(&run.key, &stored);
        Ok(())
    }
}
