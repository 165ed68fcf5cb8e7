//! What a run has said to its reader, also when only its transcript tells of it.

use crate::protocol::message::{AgentMessage, text_of};
use crate::sessions::visible::shown_text;

use super::named_files;
use super::report::{Progress, add_turn};

/// What a run has said to its reader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Speech {
    /// Its words.
    pub text: String,
    /// The files that it names.
    pub files: Vec<String>,
}

impl Speech {
    /// Adds what a message of its transcript says, as its reader was shown it.
    pub fn hear(&mut self, message: &AgentMessage) {
        let files = match message {
            AgentMessage::Assistant(answer) => {
                let text = text_of(&answer.content);
                let is_whole = answer.stop_reason.ended_by_itself();
                add_turn(&mut self.text, &shown_text(&text, is_whole));
                named_files::of_answer(&text, is_whole)
            }
            AgentMessage::ToolResult(result) => {
                named_files::of_result(&result.tool_name, &result.content, result.details.as_ref())
            }
            AgentMessage::User(_) => return,
        };
        named_files::add(&mut self.files, files);
    }
}

impl Progress {
    /// What the run has said so far.
    #[must_use]
    pub fn speech(&self) -> Speech {
        Speech { text: self.paragraphs(), files: self.files.clone() }
    }

    /// Whether the run has begun, and no other has taken its message in: what it says is its
    /// own.
    #[must_use]
    pub const fn speaks_for_itself(&self) -> bool {
        self.started_at.is_some() && self.answered_by.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_whose_message_another_has_taken_in_says_nothing_of_its_own() {
        let waiting = Progress::default();
        let running = Progress { started_at: Some(1), ..Progress::saying("hi") };
        // As it is while the end of both is written down.
        let joined = Progress { answered_by: Some("r1".into()), ..running.clone() };
        let own = [waiting, running, joined].map(|progress| progress.speaks_for_itself());
        assert_eq!(own, [false, true, false]);
    }
}
