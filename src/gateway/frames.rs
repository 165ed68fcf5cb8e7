//! Text frames on their way out.
//!
//! Owns: the form of an unmasked text frame (RFC 6455 §5.2), and a batch of them.
//! Promises: a text is copied once, into one buffer with what is sent along with it,
//! or not at all when it is large and nobody else's: then a write of its own costs less
//! than the copy.

use crate::protocol::{Response, ResponseRest};

/// Texts above this are sent from where they are.
const MAX_COPIED: usize = 16 * 1024;
/// Bytes that a frame has around what is in the queue: a head, and the number of an event or
/// what an answer has before its payload.
const AROUND: usize = 128;

/// Frames that are sent together.
#[derive(Debug, Default)]
pub struct Frames {
    /// Frames, and a large text that the last of them has no body without.
    parts: Vec<(Vec<u8>, String)>,
    /// Frames behind all of those.
    last: Vec<u8>,
}

impl Frames {
    /// None yet, with space for texts of these lengths.
    pub fn for_texts(lengths: impl Iterator<Item = usize>) -> Self {
        let space = |length| AROUND + if length <= MAX_COPIED { length } else { 0 };
        Self { parts: Vec::new(), last: Vec::with_capacity(lengths.map(space).sum()) }
    }

    /// Adds what was written as frames before.
    pub fn push_written(&mut self, frames: Vec<u8>) {
        if self.last.is_empty() {
            self.last = frames;
        } else {
            self.last.extend(frames);
        }
    }

    /// Adds a text that belongs to the frame alone.
    pub fn push(&mut self, text: String) {
        if text.len() <= MAX_COPIED {
            return self.push_joined(&text, "");
        }
        push_head(&mut self.last, text.len());
        self.parts.push((std::mem::take(&mut self.last), text));
    }

    /// Adds a text that is in two places.
    pub fn push_joined(&mut self, head: &str, tail: &str) {
        self.push_parts(&[head, tail]);
    }

    /// Adds a text that is in several places.
    pub fn push_parts(&mut self, places: &[&str]) {
        append_frame(&mut self.last, places);
    }

    /// Adds an answer.
    pub fn push_response(&mut self, response: Response) {
        push_head(&mut self.last, response.len());
        let Response { head, rest } = response;
        append(&mut self.last, &head.parts());
        match rest {
            ResponseRest::Own(rest) if rest.len() > MAX_COPIED => {
                self.parts.push((std::mem::take(&mut self.last), rest));
            }
            ResponseRest::Own(rest) => append(&mut self.last, &[&rest]),
            ResponseRest::Shared(payload) => {
                append(&mut self.last, &[payload.get(), Response::END]);
            }
        }
    }

    /// What is to be written, in pairs of buffers.
    pub fn into_parts(self) -> impl Iterator<Item = (Vec<u8>, String)> {
        let last = Some((self.last, String::new())).filter(|(frames, _)| !frames.is_empty());
        self.parts.into_iter().chain(last)
    }

    /// What is to be written, in one buffer.
    pub fn into_bytes(self) -> Vec<u8> {
        if self.parts.is_empty() {
            return self.last;
        }
        let parts = self.parts.iter().map(|(frames, text)| frames.len() + text.len());
        let mut bytes = Vec::with_capacity(parts.sum::<usize>() + self.last.len());
        for (frames, text) in self.into_parts() {
            bytes.extend(frames);
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes
    }
}

/// Adds a frame whose text is in several places to what was written before.
pub fn append_frame(written: &mut Vec<u8>, places: &[&str]) {
    push_head(written, places.iter().map(|text| text.len()).sum());
    append(written, places);
}

fn append(written: &mut Vec<u8>, places: &[&str]) {
    written.reserve(places.iter().map(|text| text.len()).sum());
    for text in places {
        written.extend_from_slice(text.as_bytes());
    }
}

fn push_head(written: &mut Vec<u8>, length: usize) {
    const FINAL_TEXT: u8 = 0x81;
    const TWO_BYTES: u8 = 126;
    const EIGHT_BYTES: u8 = 127;
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < TWO_BYTES => {
            written.extend_from_slice(&[FINAL_TEXT, short]);
        }
        (_, Ok(middle)) => {
            let [high, low] = middle.to_be_bytes();
            written.extend_from_slice(&[FINAL_TEXT, TWO_BYTES, high, low]);
        }
        _ => {
            written.extend([FINAL_TEXT, EIGHT_BYTES]);
            written.extend(u64::try_from(length).unwrap_or(u64::MAX).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn lengths_are_written_in_the_shortest_form() {
        for (length, head) in [
            (0, &[0x81, 0][..]),
            (125, &[0x81, 125]),
            (126, &[0x81, 126, 0, 126]),
            (0xffff, &[0x81, 126, 0xff, 0xff]),
            (0x1_0000, &[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let text = "x".repeat(length);
            let mut whole = Frames::default();
            whole.push(text.clone());
            let frame = [head, text.as_bytes()].concat();
            assert!(whole.into_bytes() == frame, "{length}");
            let mut joined = Frames::default();
            let (first, second) = text.split_at(length / 3);
            joined.push_joined(first, second);
            assert!(joined.into_bytes() == frame, "{length} in two places");
        }
    }

    #[test]
    fn an_answer_is_one_frame_whatever_its_size_and_whoever_has_it_as_well() {
        for length in [1, 200, MAX_COPIED - 3, MAX_COPIED - 2, 0x1_0000] {
            let payload = format!("\"{}\"", "x".repeat(length));
            let shared = Arc::new(RawValue::from_string(payload.clone()).unwrap());
            let id = "1".into();
            for response in [Response::new(&id, payload), Response::shared(&id, shared)] {
                let (mut frames, mut whole) = (Frames::default(), Frames::default());
                whole.push(response.clone().into_text());
                let is_apart =
                    matches!(&response.rest, ResponseRest::Own(rest) if rest.len() > MAX_COPIED);
                frames.push_response(response);
                frames.push("next".into());
                whole.push("next".into());
                assert_eq!(frames.parts.len(), usize::from(is_apart), "{length}");
                assert!(frames.into_bytes() == whole.into_bytes(), "{length}");
            }
        }
    }

    #[test]
    fn what_was_written_before_is_sent_as_it_is_in_its_place() {
        let written = || {
            let mut kept = Vec::new();
            append_frame(&mut kept, &Response::parts("1", "{}").unwrap());
            append_frame(&mut kept, &["la", "st"]);
            kept
        };
        assert!(Response::parts("a \"quote\"", "{}").is_none(), "it would be another text");
        let mut alone = Frames::default();
        alone.push_written(written());
        assert!(alone.into_bytes() == written());
        let (mut among, mut whole) = (Frames::default(), Frames::default());
        among.push("first".into());
        among.push_written(written());
        among.push("next".into());
        let answer = Response::new(&"1".into(), "{}".into()).into_text();
        for text in ["first", answer.as_str(), "last", "next"] {
            whole.push(text.into());
        }
        assert!(among.into_bytes() == whole.into_bytes());
    }

    #[test]
    fn frames_stay_in_order_and_only_large_texts_are_apart() {
        let large = "y".repeat(MAX_COPIED + 1);
        let mut frames = Frames::for_texts([5, large.len(), 2].into_iter());
        frames.push("first".into());
        frames.push(large.clone());
        frames.push_joined("la", "st");
        let parts: Vec<_> = frames.into_parts().collect();
        let head_of_large = [0x81, 126, 0x40, 0x01];
        let first = [&b"\x81\x05first"[..], &head_of_large].concat();
        assert!(parts == [(first, large), (b"\x81\x04last".to_vec(), String::new())]);
        assert_eq!(Frames::default().into_parts().count(), 0);
    }
}
