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

impl Kept {
    /// Whether it has all of `messages` but the last questions.
    fn fits(&self, messages: &[AgentMessage]) -> bool {
        let Some((had, rest)) = messages.split_at_checked(self.session.messages) else {
            return false;
        };
        let only_questions = rest.iter().all(|it| matches!(it, AgentMessage::User(_)));
        !rest.is_empty() && only_questions && fingerprint(had, None) == self.fingerprint
    }
}

/// The last ones, oldest first.
#[derive(Default)]
pub struct Conversations(VecDeque<Kept>);

impl Conversations {
    /// The session that has all of `messages` but the last questions. Others of the same
    /// conversation, which was asked twice at the same time, are given up.
    pub fn take(&mut self, conversation: &str, messages: &[AgentMessage]) -> Option<Known> {
        let is_own = |kept: &Kept| kept.conversation == conversation;
        let (own, others): (VecDeque<_>, _) =
            std::mem::take(&mut self.0).into_iter().partition(is_own);
        self.0 = others;
        own.into_iter().rev().find(|kept| kept.fits(messages)).map(|kept| kept.session)
    }

    /// This session has `messages` and `answer` now.
    pub fn keep(
        &mut self,
        conversation: &str,
        id: String,
        messages: &[AgentMessage],
        answer: &AssistantMessage,
    ) {
        self.0.push_back(Kept {
            conversation: conversation.to_owned(),
            session: Known { id, messages: messages.len() + 1 },
            fingerprint: fingerprint(messages, Some(answer)),
        });
        if self.0.len() > LIMIT {
            self.0.pop_front();
        }
    }
}

/// Of these messages, and this answer to them.
fn fingerprint(messages: &[AgentMessage], answer: Option<&AssistantMessage>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for message in messages {
        let (role, text) = match message {
            AgentMessage::User(user) => (0_u8, super::prompt::user_text(user)),
            AgentMessage::Assistant(answer) => (1, text_of(&answer.content)),
            AgentMessage::ToolResult(result) => (2, text_of(&result.content)),
        };
        (role, text).hash(&mut hasher);
    }
    if let Some(answer) = answer {
        (1_u8, text_of(&answer.content)).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::message::UserMessage;

    fn asked(text: &str) -> AgentMessage {
        AgentMessage::User(UserMessage::text(text, 0))
    }

    fn answer(text: &str) -> AssistantMessage {
        AssistantMessage::from_gateway(text, 0)
    }

    #[test]
    fn a_session_goes_on_with_what_it_has_and_one_that_was_asked_beside_it_is_given_up() {
        let mut known = Conversations::default();
        let first = [asked("one")];
        // Both were asked at the same time, so each began a session.
        known.keep("c", "beside".into(), &[asked("one"), asked("by the way")], &answer("yes"));
        known.keep("c", "own".into(), &first, &answer("1"));
        known.keep("other", "another".into(), &first, &answer("1"));
        let next = [asked("one"), AgentMessage::Assistant(answer("1")), asked("two")];
        let taken = known.take("c", &next).unwrap();
        assert_eq!((taken.id.as_str(), taken.messages), ("own", 2));
        assert!(known.take("c", &next).is_none());
        known.keep("c", taken.id, &next, &answer("2"));
        let more = [&next[..], &[AgentMessage::Assistant(answer("2")), asked("three")]].concat();
        assert_eq!(known.take("c", &more).unwrap().id, "own");
        assert_eq!(known.take("other", &next).unwrap().id, "another");
    }

    #[test]
    fn a_session_that_has_something_else_or_all_of_it_does_not_go_on() {
        let all = [asked("one"), AgentMessage::Assistant(answer("1")), asked("two")];
        for messages in [&all[..2], &all[2..], &[]] {
            let mut known = Conversations::default();
            known.keep("c", "own".into(), &all[..1], &answer("1"));
            assert!(known.take("c", messages).is_none());
        }
        let mut known = Conversations::default();
        known.keep("c", "own".into(), &all[..1], &answer("another"));
        assert!(known.take("c", &all).is_none());
    }
}
