//! How connections end (group 7 of Autobahn).

use super::case::{Case, run};
use super::client::{Client, Heard};
use super::echo::EchoServer;
use super::frame::{CLOSE, CONTINUATION, PING, TEXT, close, frame, head_of_text, part, reserved};

/// Codes that an end may give as its reason (RFC 6455 §7.4).
const ALLOWED: [u16; 13] =
    [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999];
/// Those that mean something else, or nothing.
const FORBIDDEN: [u16; 9] = [0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999];
/// `policy.maxPayload`.
const MAX_PAYLOAD: usize = 25 * 1024 * 1024;

#[test]
fn a_close_frame_is_answered_with_its_code() {
    let codes = ALLOWED.into_iter().flat_map(|code| {
        let case = |reason: &str| {
            Case::new(format!("{code} {reason:?}")).says(close(code, reason)).closes(Some(code))
        };
        [case(""), case("so it is"), case(&"ö".repeat(61))]
    });
    run(codes.chain([
        Case::new("without a code").says(frame(CLOSE, "")).closes(None),
        Case::new("byte by byte").says_in(1, close(1000, "so it is")).closes(Some(1000)),
    ]));
}

#[test]
fn a_close_frame_that_is_none_is_told_so() {
    run(FORBIDDEN
        .into_iter()
        .flat_map(|code| {
            ["", "reason"].map(|reason| {
                let name = format!("code {code} {reason:?}");
                Case::new(name).says(close(code, reason)).closes(Some(1002))
            })
        })
        .chain([
            Case::new("half a code").says(frame(CLOSE, "\u{3}")).closes(Some(1002)),
            Case::new("a reason that is too long")
                .says(close(1000, [b'x'; 124]))
                .closes(Some(1002)),
            Case::new("a reason that is no text")
                .says(close(1000, b"\xce\xba\xe1\xbd\xb9\xcf\x83\xed\xa0\x80"))
                .closes(Some(1007)),
        ]));
}

#[test]
fn what_was_said_before_is_answered_before_and_what_is_said_behind_is_not() {
    let good_bye = || close(1000, "");
    let behind = |name: &str, frame: Vec<u8>| {
        Case::new(format!("{name} behind a close frame"))
            .says([good_bye(), frame].concat())
            .closes(Some(1000))
    };
    let large = vec![b'*'; 256 * 1024];
    run([
        Case::new("a message and a close frame at once")
            .says([frame(TEXT, "Hello"), good_bye()].concat())
            .hears_text("Hello")
            .closes(Some(1000)),
        Case::new("a large message and a close frame at once")
            .says([frame(TEXT, &large), good_bye()].concat())
            .hears_text(&large)
            .closes(Some(1000)),
        Case::new("a ping, a message and a close frame at once")
            .says([frame(PING, "here"), frame(TEXT, "Hello"), good_bye()].concat())
            .hears(Heard::Pong(b"here".to_vec()))
            .hears_text("Hello")
            .closes(Some(1000)),
        Case::new("two messages and what is none at once")
            .says([frame(TEXT, "1"), frame(TEXT, "2"), reserved(TEXT, 1, "3")].concat())
            .hears_text("1")
            .hears_text("2")
            .closes(Some(1002)),
        Case::new("a close frame amid a message")
            .says([part(TEXT, "half"), good_bye()].concat())
            .closes(Some(1000)),
        behind("a ping", frame(PING, "")),
        behind("a message", frame(TEXT, "Hello")),
        behind("the rest of a message", frame(CONTINUATION, "rest")),
        behind("another close frame", good_bye()),
    ]);
}

#[test]
fn who_says_too_much_can_say_it_and_hears_why_not_to() {
    let server = EchoServer::start();
    let mut client = Client::open(server.address(), b"");
    client.write(&head_of_text(MAX_PAYLOAD + 1)).unwrap();
    assert_eq!(client.hear(), Heard::Close(Some(1009)));
    // It goes on for a while, as one whose message was on its way: nothing of it
    // makes the connection a broken one.
    let more = vec![b'*'; 64 * 1024];
    for _ in 0..16 {
        client.write(&more).unwrap();
    }
    assert_eq!(client.hear(), Heard::End);
}

#[test]
fn who_ends_behind_a_close_frame_still_hears_all_of_it() {
    // More than the systems on both sides take at once.
    let text = vec![b'*'; 8 * 1024 * 1024];
    let server = EchoServer::start();
    let mut client = Client::open(server.address(), b"");
    client.write(&[frame(TEXT, &text), close(1000, "")].concat()).unwrap();
    client.ends_writing();
    assert!(client.hear() == Heard::Text(text));
    assert_eq!(client.hear(), Heard::Close(Some(1000)));
    assert_eq!(client.hear(), Heard::End);
}
