//! What has come of an answer, for the transcript if somebody stops the run.
//!
//! Promises: a block has the place in the message by which it was told: before others there
//! are empty ones, too, and calls whose arguments are `{}` because they are not whole. Must
//! not: keep at the end a call, which nobody makes any more, or a thought that is not whole:
//! the provider signs it last.

use serde_json::{Map, Value};

use crate::protocol::message::ContentBlock;
use crate::providers::StreamEvent;

/// A block as it comes.
#[derive(Debug)]
enum Piece {
    Text(String),
    Thought { text: String, signature: Option<String> },
    Call { id: String, name: String, arguments: String },
}

impl Piece {
    fn block(&self) -> ContentBlock {
        match self {
            Self::Text(text) => ContentBlock::text(text),
            Self::Thought { text, signature } => {
                let mut block = ContentBlock::thinking(text);
                if let ContentBlock::Thinking(block) = &mut block {
                    block.thinking_signature.clone_from(signature);
                }
                block
            }
            Self::Call { id, name, arguments } => {
                let arguments: Map<String, Value> =
                    serde_json::from_str(arguments).unwrap_or_default();
                ContentBlock::tool_call(id, name, Value::Object(arguments))
            }
        }
    }
}

/// The blocks of one answer so far.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pieces: Vec<Piece>,
    /// The last one, while it is not whole.
    open: Option<usize>,
}

impl Draft {
    /// More of it.
    pub fn hear(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::TextStart { .. } => self.begin(Piece::Text(String::new())),
            StreamEvent::ThinkingStart { .. } => {
                self.begin(Piece::Thought { text: String::new(), signature: None });
            }
            StreamEvent::ToolCallStart { id, name, .. } => {
                let (id, name) = (id.clone(), name.clone());
                self.begin(Piece::Call { id, name, arguments: String::new() });
            }
            StreamEvent::TextDelta { index, delta }
            | StreamEvent::ThinkingDelta { index, delta }
            | StreamEvent::ToolCallDelta { index, delta } => self.grow(*index, delta),
            StreamEvent::ThinkingSigned { index, signature: new } => {
                if let Some(Piece::Thought { signature, .. }) = self.pieces.get_mut(*index) {
                    *signature = Some(new.clone());
                }
            }
            StreamEvent::BlockEnd { index } => {
                self.open = self.open.filter(|open| open != index);
            }
            StreamEvent::CallCut { .. }
            | StreamEvent::Used(_)
            | StreamEvent::Retry(_)
            | StreamEvent::Fallback(_)
            | StreamEvent::Anew => {}
        }
    }

    /// The content of its message, if it ends here; none when nothing was said.
    pub fn content(&self) -> Vec<ContentBlock> {
        let pieces = self.pieces.iter().enumerate();
        let last = pieces.rev().find(|(index, piece)| self.stands(*index, piece));
        let count = last.map_or(0, |(index, _)| index + 1);
        self.pieces.iter().take(count).map(Piece::block).collect()
    }

    /// Whether the piece means something as it is, with nothing behind it.
    fn stands(&self, index: usize, piece: &Piece) -> bool {
        match piece {
            Piece::Text(text) => !text.is_empty(),
            Piece::Thought { text, signature } => {
                self.open != Some(index) && (signature.is_some() || !text.is_empty())
            }
            Piece::Call { .. } => false,
        }
    }

    fn begin(&mut self, piece: Piece) {
        self.open = Some(self.pieces.len());
        self.pieces.push(piece);
    }

    fn grow(&mut self, index: usize, delta: &str) {
        let Some(piece) = self.pieces.get_mut(index) else { return };
        let (Piece::Text(text) | Piece::Thought { text, .. } | Piece::Call { arguments: text, .. }) =
            piece;
        text.push_str(delta);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::json;

    fn thought(index: usize, text: &str) -> [StreamEvent; 2] {
        let delta = StreamEvent::ThinkingDelta { index, delta: text.into() };
        [StreamEvent::ThinkingStart { index }, delta]
    }

    fn said(index: usize, text: &str) -> [StreamEvent; 2] {
        let delta = StreamEvent::TextDelta { index, delta: text.into() };
        [StreamEvent::TextStart { index }, delta]
    }

    fn call(index: usize, arguments: &str) -> [StreamEvent; 2] {
        let start = StreamEvent::ToolCallStart { index, id: "c".into(), name: "read".into() };
        [start, StreamEvent::ToolCallDelta { index, delta: arguments.into() }]
    }

    fn end(index: usize) -> [StreamEvent; 1] {
        [StreamEvent::BlockEnd { index }]
    }

    fn signed(index: usize) -> [StreamEvent; 1] {
        [StreamEvent::ThinkingSigned { index, signature: "sig".into() }]
    }

    fn content(events: &[&[StreamEvent]]) -> Value {
        let mut draft = Draft::default();
        for event in events.concat() {
            draft.hear(&event);
        }
        serde_json::to_value(draft.content()).unwrap()
    }

    #[test]
    fn whole_blocks_stay_at_their_places_and_so_does_a_text_that_was_cut() {
        let hm = json!({"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"});
        let half = json!({"type": "text", "text": "half"});
        let read = json!({"type": "toolCall", "id": "c", "name": "read", "arguments": {"a": 1}});
        let begun: [&[StreamEvent]; 3] = [&thought(0, "hm"), &signed(0), &end(0)];
        let with = |more: &[&[StreamEvent]]| content(&[&begun[..], more].concat());
        assert_eq!(with(&[&said(1, "half")]), json!([hm, half]));
        let called = with(&[&call(1, "{\"a\":1}"), &end(1), &said(2, "half")]);
        assert_eq!(called, json!([hm, read, half]));
        assert_eq!(with(&[&said(1, "half"), &end(1), &call(2, "{\"a")]), json!([hm, half]));
        assert_eq!(with(&[&said(1, "half"), &end(1), &call(2, "{}"), &end(2)]), json!([hm, half]));
        assert_eq!(with(&[&thought(1, "and")]), json!([hm]));
    }

    #[test]
    fn what_says_nothing_keeps_the_place_of_what_is_behind_it() {
        let hidden = [StreamEvent::ThinkingStart { index: 0 }];
        let half = json!({"type": "text", "text": "half"});
        let empty = json!({"type": "thinking", "thinking": ""});
        assert_eq!(content(&[&hidden, &end(0), &said(1, "half")]), json!([empty, half]));
        let read = json!({"type": "toolCall", "id": "c", "name": "read", "arguments": {}});
        assert_eq!(content(&[&call(0, "{\"a"), &end(0), &said(1, "half")]), json!([read, half]));
    }

    #[test]
    fn what_is_nothing_until_it_is_whole_is_not_kept() {
        assert_eq!(content(&[&thought(0, "hm")]), json!([]));
        assert_eq!(content(&[&call(0, "{}"), &end(0)]), json!([]));
        assert_eq!(content(&[&said(0, "")]), json!([]));
    }
}
