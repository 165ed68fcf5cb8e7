//! Large messages, and many (groups 9 and 10 of Autobahn).

use super::case::{Case, run};
use super::client::Heard;
use super::frame::{BINARY, TEXT, fragmented, frame};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const WORDS: &str = "日本語 and some ASCII; ";

/// So many bytes of text, with characters of several lengths.
fn text(length: usize) -> Vec<u8> {
    let mut text = WORDS.repeat(length / WORDS.len()).into_bytes();
    text.resize(length, b'.');
    text
}

#[test]
fn large_messages_come_back_as_they_were() {
    run([64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB].into_iter().flat_map(|length| {
        let (text, name) = (text(length), |kind: &str| format!("{length} bytes of {kind}"));
        [
            Case::new(name("text")).says(frame(TEXT, &text)).hears_text(&text).parts(),
            Case::new(name("bytes"))
                .says(frame(BINARY, &text))
                .hears(Heard::Binary(text.clone()))
                .parts(),
        ]
    }));
}

#[test]
fn large_messages_are_put_together_of_fragments_of_any_size() {
    run([64, 256, KIB, 64 * KIB, MIB, 4 * MIB].into_iter().flat_map(|size| {
        let (text, name) = (text(4 * MIB), |kind: &str| format!("{kind} in fragments of {size}"));
        [
            Case::new(name("text")).says(fragmented(TEXT, &text, size)).hears_text(&text).parts(),
            Case::new(name("bytes"))
                .says(fragmented(BINARY, &text, size))
                .hears(Heard::Binary(text.clone()))
                .parts(),
        ]
    }));
}

#[test]
fn a_large_message_may_come_a_few_bytes_at_a_time() {
    let text = text(256 * KIB);
    run([64, 128, 512, 2 * KIB].into_iter().flat_map(|size| {
        let name = |kind: &str| format!("{kind}, {size} bytes at a time");
        [
            Case::new(name("text")).says_in(size, frame(TEXT, &text)).hears_text(&text).parts(),
            Case::new(name("fragments"))
                .says_in(size, fragmented(TEXT, &text, 1_300))
                .hears_text(&text)
                .parts(),
        ]
    }));
}

#[test]
fn many_messages_come_back_in_their_order() {
    const TIMES: usize = 500;
    run([0, 16, 256, 4 * KIB, 16 * KIB].into_iter().flat_map(|length| {
        let message = |number: usize| [number.to_string().as_bytes(), &text(length)].concat();
        let one_by_one = Case::new(format!("messages of {length}, one after the other"));
        let one_by_one = (0..TIMES).fold(one_by_one, |case, number| {
            let message = message(number);
            case.says(frame(TEXT, &message)).hears_text(message)
        });
        // Not more than the buffers of two sockets hold: this client does not read
        // while it writes.
        let at_once = TIMES.min(128 * KIB / (length + 10));
        let said: Vec<u8> = (0..at_once).flat_map(|number| frame(TEXT, message(number))).collect();
        let together = Case::new(format!("messages of {length}, all at once")).says(said);
        let together = (0..at_once).fold(together, |case, number| case.hears_text(message(number)));
        [one_by_one.parts(), together.parts()]
    }));
}
