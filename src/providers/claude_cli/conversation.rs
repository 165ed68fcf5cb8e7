//! Which session of the CLI has which conversation.
//!
//! Promises: a session is gone on with only when what it has is what our
//! transcript has; whoever takes one has it alone. Kept in memory: after a
//! restart, a new session is told the conversation.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::protocol::message::{AgentMessage, AssistantMessage, text_of};

/// More conversations than that are not continued at the same time.
const LIMIT: usize = 256;

/// A session of the CLI.
pub struct Known {
    /// Its id.
    pub id: String,
    /// How many messages of ours it has.
    pub messages: usize,
}

struct Kept {
    conversation: String,
    session: Known,
    fingerprint: u64,
}

/// The last ones, oldest first.
#[derive(Default)]
pub struct Conversations(VecDeque<Kept>);

impl Conversations {
    /// The session that has all of `messages` but the last questions.
    pub fn take(&mut self, conversation: &str, messages: &[AgentMessage]) -> Option<Known> {
        let at = self.0.iter().position(|kept| kept.conversation == conversation)?;
        let Kept { session, fingerprint: kept, .. } = self.0.remove(at)?;
        let had = messages.get(..session.messages)?;
        let rest = messages.get(session.messages..)?;
        let only_questions = rest.iter().all(|it| matches!(it, AgentMessage::User(_)));
        let fits = !rest.is_empty() && only_questions && fingerprint(had) == kept;
        fits.then_some(session)
    }

    /// This session has `messages` and `answer` now.
    pub fn keep(
        &mut self,
        conversation: &str,
        id: String,
        messages: &[AgentMessage],
        answer: &AssistantMessage,
    ) {
        let mut all = messages.to_vec();
        all.push(AgentMessage::Assistant(answer.clone()));
        self.0.push_back(Kept {
            conversation: conversation.to_owned(),
            session: Known { id, messages: all.len() },
            fingerprint: fingerprint(&all),
        });
        if self.0.len() > LIMIT {
            self.0.pop_front();
        }
    }
}

fn fingerprint(messages: &[AgentMessage]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for message in messages {
        let (role, text) = match message {
            AgentMessage::User(user) => (0_u8, super::prompt::user_text(user)),
            AgentMessage::Assistant(answer) => (1, text_of(&answer.content)),
            AgentMessage::ToolResult(result) => (2, text_of(&result.content)),
        };
        (role, text).hash(&mut hasher);
    }
    hasher.finish()
}
