//! Frames one by one: their lengths, pings, reserved bits, kinds that there are not
//! (groups 1 to 4 of Autobahn).

use super::case::{Case, run};
use super::client::{Client, Heard};
use super::echo::EchoServer;
use super::frame::{
    BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, fragmented, frame, part, reserved, unmasked,
};

/// Around the places where a length takes more bytes.
const LENGTHS: [usize; 8] = [0, 1, 125, 126, 127, 128, 65_535, 65_536];
/// Bytes that are no text.
const NO_TEXT: &[u8] = b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff";

#[test]
fn messages_of_every_length_come_back_as_they_were() {
    run(LENGTHS.into_iter().flat_map(|length| {
        let (text, bytes) = (vec![b'*'; length], vec![0xfe; length]);
        let binary = Heard::Binary(bytes.clone());
        [
            Case::new(format!("a text of {length} bytes"))
                .says(frame(TEXT, &text))
                .hears_text(&text)
                .parts(),
            Case::new(format!("a text of {length} bytes, a few at a time"))
                .says_in(length / 50 + 1, frame(TEXT, &text))
                .hears_text(&text)
                .parts(),
            Case::new(format!("{length} bytes")).says(frame(BINARY, bytes)).hears(binary).parts(),
        ]
    }));
}

#[test]
fn what_comes_with_the_request_is_heard() {
    let (first, second) = (frame(TEXT, "first"), frame(TEXT, "second"));
    run((0..=first.len()).map(|cut| {
        let (ahead, later) = first.split_at(cut);
        let case = Case::new(format!("{cut} bytes of a frame")).says_ahead(ahead.to_vec());
        case.says([later, &second].concat()).hears_text("first").hears_text("second").parts()
    }));
    let (large, ping) = ("x".repeat(20_000), frame(PING, "here"));
    let case = Case::new("more than a read").says_ahead([ping, frame(TEXT, &large)].concat());
    run([case.hears(Heard::Pong(b"here".to_vec())).hears_text(&large).parts()]);
}

#[test]
fn a_ping_is_answered_with_what_it_holds_and_a_pong_is_not() {
    let answer = |payload: &[u8]| Heard::Pong(payload.to_vec());
    let full = vec![0xfe; 125];
    let held: [&[u8]; 4] = [b"", b"Hello, world!", NO_TEXT, &full];
    let answered = held.into_iter().flat_map(|payload| {
        let ping = frame(PING, payload);
        let name = format!("a ping of {} bytes", payload.len());
        let drips = Case::new(format!("{name}, byte by byte")).says_in(1, &ping);
        [
            Case::new(name).says(ping).hears(answer(payload)).parts(),
            drips.hears(answer(payload)).parts(),
        ]
    });
    let many = |case: fn(Case, Vec<u8>) -> Case| {
        let name = Case::new("ten pings, in their order");
        let said = (0..10_u8).fold(name, |it, number| case(it, frame(PING, [b'0' + number])));
        (0..10_u8).fold(said, |it, number| it.hears(answer(&[b'0' + number]))).parts()
    };
    run(answered.chain([
        Case::new("a ping that is too long").says(frame(PING, [0xfe; 126])).closes(Some(1002)),
        Case::new("a pong that nobody asked for").says(frame(PONG, "")).parts(),
        Case::new("one with something in it").says(frame(PONG, "unasked")).parts(),
        Case::new("a pong, then a ping")
            .says(frame(PONG, "unasked"))
            .says(frame(PING, "asked"))
            .hears(answer(b"asked"))
            .parts(),
        many(Case::says),
        many(|case, ping| case.says_in(1, ping)),
    ]));
}

#[test]
fn who_sends_pings_and_reads_no_pongs_is_waited_for() {
    // More than the systems on both sides hold.
    const ENOUGH: usize = 64 * 1024 * 1024;
    let server = EchoServer::start();
    let mut client = Client::open(server.address(), b"");
    let payload = [b'*'; 125];
    let ping = frame(PING, payload);
    let taken = client.press(&ping.repeat(1_000), ENOUGH);
    assert!(taken < ENOUGH, "pongs pile up that nobody reads");
    let answer = Heard::Pong(payload.to_vec());
    for _ in 0..taken / ping.len() {
        assert_eq!(client.hear(), answer);
    }
    // Nothing was lost of the one that was cut.
    client.write(&ping[taken % ping.len()..]).unwrap();
    assert_eq!(client.hear(), answer);
    client.write(&frame(TEXT, "still there")).unwrap();
    assert_eq!(client.hear(), Heard::Text(b"still there".to_vec()));
}

#[test]
fn reserved_bits_end_the_connection() {
    run((1..8).flat_map(|bits| {
        let text = reserved(TEXT, bits, "Hello");
        let after = || {
            let first = Case::new(format!("bits {bits} after a message"));
            first.says(frame(TEXT, "first")).hears_text("first")
        };
        [
            Case::new(format!("bits {bits}")).says(text.clone()).closes(Some(1002)),
            after().says(text.clone()).closes(Some(1002)),
            after().says(text.clone()).says(frame(PING, "")).closes(Some(1002)),
            Case::new(format!("bits {bits}, together with a message before and a ping behind"))
                .says([frame(TEXT, "first"), text.clone(), frame(PING, "")].concat())
                .hears_text("first")
                .closes(Some(1002)),
            after().says_in(1, text).closes(Some(1002)),
            after().says(reserved(BINARY, bits, NO_TEXT)).closes(Some(1002)),
            after().says(reserved(PING, bits, "Hello")).closes(Some(1002)),
            after().says(reserved(CLOSE, bits, "")).closes(Some(1002)),
        ]
    }));
}

#[test]
fn a_kind_of_frame_that_there_is_not_ends_the_connection() {
    run([3, 4, 5, 6, 7, 11, 12, 13, 14, 15].into_iter().flat_map(|kind| {
        let after = || {
            let first = Case::new(format!("kind {kind} after a message"));
            first.says(frame(TEXT, "first")).hears_text("first")
        };
        [
            Case::new(format!("kind {kind}")).says(frame(kind, "")).closes(Some(1002)),
            after().says(frame(kind, "Hello")).closes(Some(1002)),
            after().says([frame(kind, "Hello"), frame(PING, "")].concat()).closes(Some(1002)),
            after().says_in(1, frame(kind, "Hello")).closes(Some(1002)),
        ]
    }));
}

#[test]
fn a_frame_that_nobody_masked_ends_the_connection() {
    run([TEXT, BINARY, PING, CLOSE].map(|kind| {
        Case::new(format!("kind {kind}, not masked"))
            .says(unmasked(kind, "\u{3}\u{e8}"))
            .closes(Some(1002))
    }));
}

#[test]
fn control_frames_stand_between_fragments_and_are_no_fragments() {
    let text = "Hello, world!";
    let pong = Heard::Pong(b"between".to_vec());
    run([
        Case::new("a ping between two fragments")
            .says(part(TEXT, "Hello, "))
            .says(frame(PING, "between"))
            .hears(pong.clone())
            .says(frame(CONTINUATION, "world!"))
            .hears_text(text)
            .parts(),
        Case::new("the same at once")
            .says(
                [part(TEXT, "Hello, "), frame(PING, "between"), frame(CONTINUATION, "world!")]
                    .concat(),
            )
            .hears(pong)
            .hears_text(text)
            .parts(),
        Case::new("a pong between two fragments")
            .says([part(TEXT, "Hello, "), frame(PONG, "x"), frame(CONTINUATION, "world!")].concat())
            .hears_text(text)
            .parts(),
        Case::new("a ping in two fragments")
            .says(fragmented(PING, text.as_bytes(), 7))
            .closes(Some(1002)),
        Case::new("a pong in two fragments")
            .says(fragmented(PONG, text.as_bytes(), 7))
            .closes(Some(1002)),
        Case::new("half a close frame").says(part(CLOSE, "")).closes(Some(1002)),
    ]);
}
