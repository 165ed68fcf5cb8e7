//! Text that is UTF-8, and text that is not (group 6 of Autobahn; RFC 3629).

use super::case::{Case, run};
use super::frame::{CONTINUATION, TEXT, fragmented, frame, part};

/// The first and the last character of each length, those beside what is no
/// character, and some that mean nothing in particular.
const CHARACTERS: [char; 26] = [
    '\0',
    '\u{7f}',
    '\u{80}',
    '\u{7ff}',
    '\u{800}',
    '\u{fff}',
    '\u{1000}',
    '\u{d7ff}',
    '\u{e000}',
    '\u{fdd0}',
    '\u{feff}',
    '\u{fffd}',
    '\u{fffe}',
    '\u{ffff}',
    '\u{10000}',
    '\u{1fffe}',
    '\u{1ffff}',
    '\u{2fffe}',
    '\u{3ffff}',
    '\u{3fffe}',
    '\u{40000}',
    '\u{8ffff}',
    '\u{fffff}',
    '\u{100000}',
    '\u{10fffe}',
    '\u{10ffff}',
];
const WORDS: &str = "Hello-µ@ßöäüàá-UTF-8!! κόσμε 日本語 🎈";

/// Bytes that are no text, wherever they stand.
fn wrong() -> Vec<Vec<u8>> {
    let lone_continuations = (0x80..=0xbf).map(|byte| vec![byte]);
    let runs =
        (2..=7).map(|length| (0..length).map(|at| if at % 2 == 0 { 0x80 } else { 0xbf }).collect());
    let lone_beginnings = (0xc0..=0xff).map(|byte| vec![byte, b' ']);
    let broken_off = CHARACTERS.iter().flat_map(|character| {
        let bytes = character.to_string().into_bytes();
        (1..bytes.len()).map(move |length| [&bytes[..length], b"x"].concat())
    });
    let others: [&[u8]; 26] = [
        // Longer than they have to be: `/`, zero, and the last of each length.
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xf0\x80\x80\xaf",
        b"\xf8\x80\x80\x80\xaf",
        b"\xfc\x80\x80\x80\x80\xaf",
        b"\xc0\x80",
        b"\xe0\x80\x80",
        b"\xf0\x80\x80\x80",
        b"\xc1\xbf",
        b"\xe0\x9f\xbf",
        b"\xf0\x8f\xbf\xbf",
        b"\xf8\x87\xbf\xbf\xbf",
        b"\xfc\x83\xbf\xbf\xbf\xbf",
        // Halves of pairs, alone and together.
        b"\xed\xa0\x80",
        b"\xed\xad\xbf",
        b"\xed\xae\x80",
        b"\xed\xaf\xbf",
        b"\xed\xb0\x80",
        b"\xed\xbe\x80",
        b"\xed\xbf\xbf",
        b"\xed\xa0\x80\xed\xb0\x80",
        b"\xed\xaf\xbf\xed\xbf\xbf",
        // Beyond the last character.
        b"\xf4\x90\x80\x80",
        b"\xf7\xbf\xbf\xbf",
        b"\xf8\x88\x80\x80\x80",
        b"\xfd\xbf\xbf\xbf\xbf\xbf",
    ];
    lone_continuations
        .chain(runs)
        .chain(lone_beginnings)
        .chain(broken_off)
        .chain(others.map(<[u8]>::to_vec))
        .collect()
}

#[test]
fn every_text_comes_back_however_it_is_cut() {
    let texts = CHARACTERS.iter().map(char::to_string).chain([
        WORDS.to_owned(),
        String::from_iter(CHARACTERS),
        WORDS.repeat(20),
    ]);
    run(texts.flat_map(|text| {
        let name = |how| format!("{} {how}", text.escape_unicode());
        [
            Case::new(name("whole")).says(frame(TEXT, &text)).hears_text(&text).parts(),
            Case::new(name("byte by byte"))
                .says_in(1, frame(TEXT, &text))
                .hears_text(&text)
                .parts(),
            Case::new(name("in frames of a byte"))
                .says(fragmented(TEXT, text.as_bytes(), 1))
                .hears_text(&text)
                .parts(),
        ]
    }));
}

#[test]
fn what_is_no_text_ends_the_connection() {
    run(wrong().into_iter().flat_map(|bytes| {
        let name = |how| format!("{bytes:02x?} {how}");
        let amid = [b"before ", &*bytes, b" behind"].concat();
        [
            Case::new(name("alone")).says(frame(TEXT, &bytes)).closes(Some(1007)),
            Case::new(name("in a text")).says(frame(TEXT, &amid)).closes(Some(1007)),
            Case::new(name("in frames of a byte"))
                .says(fragmented(TEXT, &amid, 1))
                .closes(Some(1007)),
        ]
    }));
}

#[test]
fn a_text_that_ends_in_the_middle_of_a_character_ends_the_connection() {
    run(CHARACTERS.iter().flat_map(|character| {
        let bytes = character.to_string().into_bytes();
        (1..bytes.len()).flat_map(move |length| {
            let cut = bytes[..length].to_vec();
            let name = |how| format!("{cut:02x?} {how}");
            [
                Case::new(name("whole")).says(frame(TEXT, &cut)).closes(Some(1007)),
                Case::new(name("in frames of a byte"))
                    .says(fragmented(TEXT, &cut, 1))
                    .closes(Some(1007)),
            ]
        })
    }));
}

#[test]
fn nobody_waits_for_the_end_of_a_message_that_is_wrong_already() {
    let beginning = "κόσμε";
    run([
        Case::new("a fragment that is no text")
            .says(part(TEXT, beginning))
            .says(part(CONTINUATION, b"\xf4\x90\x80\x80"))
            .closes(Some(1007)),
        Case::new("the same one after a fragment that ended amid a character")
            .says(part(TEXT, [beginning.as_bytes(), b"\xf4"].concat()))
            .says(part(CONTINUATION, b"\x90"))
            .closes(Some(1007)),
        Case::new("a frame that is no text, and what is said behind it")
            .says([frame(TEXT, b"\xed\xa0\x80"), frame(TEXT, "next")].concat())
            .closes(Some(1007)),
    ]);
}
