//! What was said beside a run, which its model does not hear of.

use crate::protocol::message::{AgentMessage, UserMessage};

/// Leaves out what the gateway has said since the user did: a request that ended with it
/// would have the model go on with words that are not its own.
pub(super) fn leave_out(messages: &mut Vec<AgentMessage>) {
    let is_user = |message: &AgentMessage| matches!(message, AgentMessage::User(_));
    let mut left = messages.iter().rposition(is_user).map_or(0, |last| last + 1);
    messages.retain(|message| {
        let is_note = matches!(message, AgentMessage::Assistant(it) if it.is_from_gateway());
        // What comes up to there is kept as it is.
        let is_kept = left > 0 || !is_note;
        left = left.saturating_sub(1);
        is_kept
    });
}

/// Leaves nothing but the message of the run with this id and what came of it. Of others
/// there may be some behind it, which were stopped before their turn.
pub(super) fn keep_own(messages: &mut Vec<AgentMessage>, own: &UserMessage, run_id: &str) {
    let is_own = |message: &AgentMessage| {
        matches!(message, AgentMessage::User(it) if it.extra.get("idempotencyKey")
            .is_some_and(|key| key == run_id))
    };
    let at = messages.iter().rposition(is_own);
    messages.drain(..at.map_or(messages.len(), |at| at + 1));
    messages.retain(|message| !matches!(message, AgentMessage::User(_)));
    messages.insert(0, AgentMessage::User(own.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::message::AssistantMessage;

    fn said(who: &str, text: &str) -> AgentMessage {
        if who == "user" {
            return AgentMessage::User(UserMessage::text(text, 0));
        }
        let message = AssistantMessage::from_gateway(text, 0);
        AgentMessage::Assistant(AssistantMessage { provider: who.into(), ..message })
    }

    #[test]
    fn a_bare_run_hears_itself_and_nobody_else() {
        let sent = |text: &str, key: &str| {
            let mut message = UserMessage::text(text, 0);
            message.extra.insert("idempotencyKey".into(), key.into());
            message
        };
        let own = sent("mine", "k2");
        let mut messages = vec![
            AgentMessage::User(sent("before", "k1")),
            said("mock", "answer"),
            AgentMessage::User(own.clone()),
            said("mock", "a call"),
            AgentMessage::User(sent("stopped", "k3")),
        ];
        keep_own(&mut messages, &own, "k2");
        let texts: Vec<_> = messages.iter().map(AgentMessage::text).collect();
        assert_eq!(texts, ["mine", "a call"]);
        keep_own(&mut messages, &sent("new", "k9"), "k9");
        assert_eq!(messages.iter().map(AgentMessage::text).collect::<Vec<_>>(), ["new"]);
    }

    #[test]
    fn a_note_is_heard_with_the_next_message_and_not_before() {
        let mut messages = [
            ("user", "one"),
            ("mock", "two"),
            ("openclaw", "a note"),
            ("user", "three"),
            ("mock", "four"),
            ("openclaw", "another"),
        ]
        .map(|(who, text)| said(who, text))
        .to_vec();
        leave_out(&mut messages);
        let texts: Vec<_> = messages.iter().map(AgentMessage::text).collect();
        assert_eq!(texts, ["one", "two", "a note", "three", "four"]);
        leave_out(&mut messages);
        assert_eq!(messages.len(), 5);
    }
}
