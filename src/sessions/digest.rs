//! What the session list shows of a conversation.

use super::directives;
use super::display::is_of_heartbeat;
use crate::protocol::message::AgentMessage;
use crate::store::TranscriptFacts;

/// Longest title, in characters.
const TITLE_MAX: usize = 60;

/// A title is cut at a space when it keeps at least this much.
const TITLE_MIN: usize = 36;

/// Longest beginning of the first question, in characters.
const OPENING_MAX: usize = 120;

/// Longest preview, in characters.
const PREVIEW_MAX: usize = 240;

/// Takes a message into the title and preview of its session.
pub(super) fn note(facts: &mut TranscriptFacts, message: &AgentMessage) {
    let (is_user, members) = match message {
        AgentMessage::User(message) => (true, &message.extra),
        AgentMessage::Assistant(message) => (false, &message.extra),
        AgentMessage::ToolResult(_) => return,
    };
    if is_of_heartbeat(members) {
        return;
    }
    let text = message.text();
    let text = if is_user { directives::strip_internal(&text) } else { text };
    let words = if is_user { directives::strip_files(&text) } else { &text };
    let text = one_line(words);
    if text.is_empty() || (!is_user && directives::is_silent(&text)) {
        return;
    }
    if is_user && facts.derived_title.is_none() {
        facts.derived_title = Some(title(&text));
        facts.opening = Some(cut(&text, OPENING_MAX));
    }
    facts.last_message = Some(cut(&directives::strip(&text), PREVIEW_MAX));
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn title(text: &str) -> String {
    if text.chars().count() <= TITLE_MAX {
        return text.to_owned();
    }
    let start: String = text.chars().take(TITLE_MAX.saturating_sub(1)).collect();
    match start.rsplit_once(' ') {
        Some((words, _)) if words.chars().count() > TITLE_MIN => format!("{words}…"),
        _ => format!("{start}…"),
    }
}

fn cut(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    text.chars().take(max.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::message::{AssistantMessage, UserMessage};
    use crate::sessions::HEARTBEAT_KIND;
    use crate::support::json;

    #[test]
    fn the_first_question_is_the_title_and_the_last_text_the_preview() {
        let mut facts = TranscriptFacts::default();
        note(&mut facts, &AgentMessage::User(UserMessage::text("[Sun] first\n answer", 1)));
        note(&mut facts, &AgentMessage::User(UserMessage::text("second", 2)));
        for reply in ["[[reply_to_current]]done", "NO_REPLY", ""] {
            note(&mut facts, &AgentMessage::Assistant(AssistantMessage::from_gateway(reply, 3)));
        }
        assert_eq!(facts.derived_title.as_deref(), Some("[Sun] first answer"));
        assert_eq!(facts.last_message.as_deref(), Some("done"));
    }

    #[test]
    fn a_heartbeat_that_nobody_sees_is_no_title_and_no_preview() {
        let mut facts = TranscriptFacts::default();
        let kind = json!({"kind": HEARTBEAT_KIND});
        let mut question = UserMessage::text("Read HEARTBEAT.md", 1);
        question.extra.insert("provenance".into(), kind.clone());
        note(&mut facts, &AgentMessage::User(question));
        let mut quiet = AssistantMessage::from_gateway("All is well. HEARTBEAT_OK", 2);
        quiet.extra.insert("provenance".into(), kind);
        note(&mut facts, &AgentMessage::Assistant(quiet));
        assert_eq!(facts, TranscriptFacts::default());
        note(&mut facts, &AgentMessage::User(UserMessage::text("hello", 3)));
        assert_eq!(facts.derived_title.as_deref(), Some("hello"));
    }

    #[test]
    fn long_titles_end_at_a_word() {
        let words = title(&"word ".repeat(20));
        assert_eq!(words, format!("{}…", "word ".repeat(11).trim_end()));
        assert_eq!(title(&"x".repeat(80)), format!("{}…", "x".repeat(59)));
    }
}
