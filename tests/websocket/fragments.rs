//! Messages in several frames (group 5 of Autobahn).

use super::case::{Case, run};
use super::client::Heard;
use super::frame::{BINARY, CONTINUATION, PING, TEXT, fragmented, frame, part};

const WORDS: &str = "one two three four five";

#[test]
fn a_message_is_put_together_however_it_is_cut() {
    let sizes = [1, 2, 5, WORDS.len() - 1];
    let writings: [(&str, usize); 3] =
        [("at once", usize::MAX), ("byte by byte", 1), ("in threes", 3)];
    let whole = sizes.into_iter().flat_map(|size| {
        writings.into_iter().flat_map(move |(how, at_once)| {
            let case = |kind: u8| {
                let name = format!("kind {kind} in fragments of {size}, {how}");
                let frames = fragmented(kind, WORDS.as_bytes(), size);
                Case::new(name).says_in(at_once.min(frames.len()), frames)
            };
            [
                case(TEXT).hears_text(WORDS).parts(),
                case(BINARY).hears(Heard::Binary(WORDS.into())).parts(),
            ]
        })
    });
    let empty = |middle: &str| {
        let frames = [part(TEXT, ""), part(CONTINUATION, middle), frame(CONTINUATION, "")];
        Case::new(format!("fragments of which some are empty: {middle:?}"))
            .says(frames.concat())
            .hears_text(middle)
            .parts()
    };
    run(whole.chain([empty(""), empty("something")]));
}

#[test]
fn pings_between_fragments_are_answered_at_once() {
    let pong = |text: &str| Heard::Pong(text.into());
    let five = |case: Case, says: fn(Case, Vec<u8>) -> Case| {
        let case = says(case, part(TEXT, "1"));
        let case = says(case, part(CONTINUATION, "2"));
        let case = says(case, frame(PING, "first")).hears(pong("first"));
        let case = says(case, part(CONTINUATION, "3"));
        let case = says(case, part(CONTINUATION, "4"));
        let case = says(case, frame(PING, "second")).hears(pong("second"));
        says(case, frame(CONTINUATION, "5")).hears_text("12345").parts()
    };
    run([
        five(Case::new("two pings in five fragments"), Case::says),
        five(Case::new("the same byte by byte"), |case, frame| case.says_in(1, frame)),
    ]);
}

#[test]
fn fragments_that_belong_to_nothing_end_the_connection() {
    let lone = |name: &str, said: Vec<u8>| Case::new(name).says(said).closes(Some(1002));
    let next = || frame(TEXT, "next");
    run([
        lone("an end without a beginning", frame(CONTINUATION, "lone")),
        lone("a middle without a beginning", part(CONTINUATION, "lone")),
        lone("the same with a message behind", [part(CONTINUATION, "lone"), next()].concat()),
        lone("a text in a text", [part(TEXT, "one"), next()].concat()),
        lone("bytes in a text", [part(TEXT, "one"), frame(BINARY, "two")].concat()),
        lone("a text in bytes", [part(BINARY, "one"), next()].concat()),
        lone("a beginning in a beginning", [part(TEXT, "one"), part(TEXT, "two")].concat()),
        Case::new("an end without a beginning, after a message")
            .says(frame(TEXT, "first"))
            .hears_text("first")
            .says(frame(CONTINUATION, "lone"))
            .closes(Some(1002)),
        Case::new("an end after an end")
            .says(fragmented(TEXT, WORDS.as_bytes(), 7))
            .hears_text(WORDS)
            .says_in(1, frame(CONTINUATION, "lone"))
            .closes(Some(1002)),
    ]);
}
