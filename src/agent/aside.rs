//! Side questions: the model answers with what the session knows, and the
//! session does not hear of it, but pays for it.

use std::sync::Arc;
use std::time::Duration;

use crate::protocol::message::{AgentMessage, AssistantMessage, UserMessage, text_of};
use crate::providers::{ModelInfo, ModelRequest, ProviderError, ThinkingLevel};
use crate::sessions::{SessionError, SessionKey};

use super::models::SessionModel;
use super::pictures;
use super::prompt::Prompt;
use super::pruning::Share;
use super::runs::Runs;
use super::spent::charge;

/// Longer than a good model thinks about a short question. Nobody can stop one,
/// so it must not last.
const LIMIT: Duration = Duration::from_mins(2);

/// They wait for no lane, so nothing else keeps a sender from asking a provider
/// more than it answers.
pub(super) const AT_A_TIME: usize = 4;

/// What the model is told of the question.
const ABOUT: &str = "The text in <btw_side_question> is a question beside the conversation, which \
    does not hear of it. Answer it briefly from what you know already. Call no tools and do not go \
    on with the work of the conversation.";

/// Why a side question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AsideError {
    /// The session is not readable.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// There is no such model.
    #[error("Unknown model: {0}")]
    NoModel(String),
    /// The model failed.
    #[error("{0}")]
    Model(String),
    /// Too many are asked.
    #[error("{AT_A_TIME} side questions are being answered; ask again after that")]
    TooMany,
    /// It took too long.
    #[error("no answer within {LIMIT:?}")]
    TimedOut,
}

impl From<ProviderError> for AsideError {
    fn from(error: ProviderError) -> Self {
        Self::Model(error.message)
    }
}

impl Runs {
    /// Asks the model of a session something that its transcript does not keep.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn ask_aside(&self, key: &SessionKey, question: &str) -> Result<String, AsideError> {
        let _permit = self.asides.try_acquire().map_err(|_| AsideError::TooMany)?;
        let asking = Box::pin(self.answer_aside(key, question));
        let answer = tokio::time::timeout(LIMIT, asking).await;
        let answer = answer.map_err(|_| AsideError::TimedOut)??;
        charge(self.parts(), key, &answer.usage).await;
        if let Some(why) = answer.failure() {
            return Err(AsideError::Model(why));
        }
        let text = text_of(&answer.content).trim().to_owned();
        if text.is_empty() {
            return Err(AsideError::Model("the model said nothing".into()));
        }
        Ok(text)
    }

    async fn answer_aside(
        &self,
        key: &SessionKey,
        question: &str,
    ) -> Result<AssistantMessage, AsideError> {
        let parts = self.parts();
        let entry = parts.sessions.entry(key).await?;
        let SessionModel { name, info } = parts.models.of_session(key, entry.as_ref());
        let model = info.ok_or_else(|| AsideError::NoModel(name.to_string()))?;
        let entry = entry.unwrap_or_default();
        let mut messages = parts.sessions.context(key).await?;
        let media = parts.sessions.media();
        pictures::fit(&mut messages, None, model.accepts_images(), &media).await;
        Share::Usual.fit(messages.iter_mut(), model.context_window);
        let text = format!("{ABOUT}\n\n<btw_side_question>\n{question}\n</btw_side_question>");
        let now_ms = parts.clock.now_ms();
        messages.push(AgentMessage::User(UserMessage::text(text, now_ms)));
        let toolbox = self.toolbox(key, &entry, None).await?;
        let prompt = Prompt::gather(parts, key, &entry, &toolbox).await;
        let session_id = entry.session_id.clone();
        let mut request = ModelRequest {
            // A conversation with calls in it needs them, though none is called.
            tools: toolbox.specs(),
            ..ModelRequest::aside(Arc::clone(&model), messages, session_id)
        };
        let mut system = |model: &ModelInfo| prompt.render(model, ThinkingLevel::Off, &[]);
        let mut route =
            parts.models.route(key, &key.agent(&parts.keys.now()), model).unremembered();
        let mut answer = route.stream(&mut request, &mut system, &mut |_| {}).await?;
        answer.usage.grow(&route.take_dropped());
        Ok(answer)
    }
}
