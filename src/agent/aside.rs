//! Side questions: the model answers with what the session knows, and the
//! session does not hear of it, but pays for it.

use std::sync::Arc;
use std::time::Duration;

use crate::protocol::message::{AgentMessage, AssistantMessage, Usage, UserMessage, text_of};
use crate::providers::{Briefing, ModelInfo, ModelRequest, ProviderError, ThinkingLevel};
use crate::sessions::{SessionError, SessionKey};
use crate::support::BoxFuture;

use super::conversation::Conversation;
use super::models::SessionModel;
use super::prompt::Prompt;
use super::runs::Runs;
use super::spent::{ask, charge};

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

/// What a model is told of itself and of the conversation.
struct AsideBrief<'t> {
    prompt: Prompt,
    conversation: Conversation<'t>,
}

impl Briefing for AsideBrief<'_> {
    fn brief<'a>(
        &'a mut self,
        model: &'a ModelInfo,
        request: &'a mut ModelRequest,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            request.system = Some(self.prompt.render(model, ThinkingLevel::Off, &[]));
            self.conversation.fit(model, request).await;
        })
    }
}

impl Runs {
    /// Asks the model of a session something that its transcript does not keep.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn ask_aside(&self, key: &SessionKey, question: &str) -> Result<String, AsideError> {
        let _permit = self.asides.try_acquire().map_err(|_| AsideError::TooMany)?;
        let mut used = Usage::default();
        let asking = Box::pin(self.answer_aside(key, question, &mut used));
        let answer = tokio::time::timeout(LIMIT, asking).await;
        // Paid for, also when there is no answer in the end.
        charge(self.parts(), key, &used).await;
        let answer = answer.map_err(|_| AsideError::TimedOut)??;
        if let Some(why) = answer.failure() {
            return Err(AsideError::Model(why));
        }
        let text = text_of(&answer.content).trim().to_owned();
        if text.is_empty() {
            return Err(AsideError::Model("the model said nothing".into()));
        }
        Ok(text)
    }

    /// `used` is what it takes, also where a model fails in the end.
    async fn answer_aside(
        &self,
        key: &SessionKey,
        question: &str,
        used: &mut Usage,
    ) -> Result<AssistantMessage, AsideError> {
        let parts = self.parts();
        let entry = parts.sessions.entry(key).await?;
        let SessionModel { name, info } = parts.models.of_session(key, entry.as_ref());
        let model = info.ok_or_else(|| AsideError::NoModel(name.to_string()))?;
        let entry = entry.unwrap_or_default();
        let messages = parts.sessions.context(key).await?;
        let text = format!("{ABOUT}\n\n<btw_side_question>\n{question}\n</btw_side_question>");
        let now_ms = parts.clock.now_ms();
        let conversation = Conversation {
            behind: vec![AgentMessage::User(UserMessage::text(text, now_ms))],
            ..Conversation::new(parts, messages)
        };
        let toolbox = self.toolbox(key, &entry, None).await?;
        let prompt = Prompt::gather(parts, key, &entry, &toolbox).await;
        let session_id = entry.session_id.clone();
        let mut request = ModelRequest {
            // A conversation with calls in it needs them, though none is called.
            tools: toolbox.specs(),
            ..ModelRequest::aside(Arc::clone(&model), Vec::new(), session_id)
        };
        let mut brief = AsideBrief { prompt, conversation };
        let mut route =
            parts.models.route(key, &key.agent(&parts.keys.now()), model).unremembered();
        brief.conversation.is_kept = route.has_others();
        Ok(ask(&mut route, &mut request, &mut brief, used).await?)
    }
}
