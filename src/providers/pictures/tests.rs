use super::*;
use crate::providers::InputKind;
use crate::providers::testing::{message, model, png, request_to, user};
use crate::support::json;
use proptest::prelude::*;
use serde_json::Value;

/// One of each kind that ends where its size does, 300 wide and 200 high.
fn kinds() -> Vec<Vec<u8>> {
    let gif = b"GIF89a\x2c\x01\xc8\x00".to_vec();
    let lossy = b"RIFF....WEBPVP8 ....\x00\x00\x00\x9d\x01\x2a\x2c\x41\xc8\x80".to_vec();
    let bits = (300_u32 - 1) | ((200 - 1) << 14);
    let lossless = [b"RIFF....WEBPVP8L....\x2f".as_slice(), &bits.to_le_bytes()].concat();
    let extended = b"RIFF....WEBPVP8X....\x10\x00\x00\x00\x2b\x01\x00\xc7\x00\x00".to_vec();
    vec![png(300, 200), jpeg(b""), gif, lossy, lossless, extended]
}

/// One with this in front of its frame.
fn jpeg(more: &[u8]) -> Vec<u8> {
    let start = b"\xff\xd8\xff\xe0\x00\x04\x01\x02\xff\xff\xc4\x00\x03\x00\xff\x01".as_slice();
    let frame = b"\xff\xc2\x00\x0b\x08\x00\xc8\x01\x2c".as_slice();
    [start, more, frame].concat()
}

#[test]
fn every_kind_of_picture_tells_its_size() {
    let size = Some(PictureSize { width: 300, height: 200 });
    // A photograph has more than a KiB about the camera.
    let photograph = jpeg(&[b"\xff\xe1\x10\x02".as_slice(), &[7; 4096]].concat());
    for bytes in kinds().into_iter().chain([photograph]) {
        assert_eq!(PictureSize::of(&bytes), size, "{bytes:02x?}");
        for more in [0, 1, 1_000_000] {
            let whole = [bytes.as_slice(), &vec![0; more]].concat();
            assert_eq!(PictureSize::of_base64(&STANDARD.encode(whole)), size, "{bytes:02x?}");
        }
    }
}

#[test]
fn what_is_cut_or_no_picture_tells_no_size() {
    for bytes in kinds() {
        for end in 0..bytes.len() {
            assert_eq!(PictureSize::of(&bytes[..end]), None, "{end} of {bytes:02x?}");
        }
    }
    let without_frame = b"\xff\xd8\xff\xda\x00\x0b\x08\x00\xc8\x01\x2c".as_slice();
    for bytes in [b"%PDF-1.7 and so on".as_slice(), b"\xff\xd8\xff\xc2\x00\x00", without_frame] {
        assert_eq!(PictureSize::of(bytes), None, "{bytes:02x?}");
    }
    for data in ["", "no base64!", "ä", "iVBORw0KGgo="] {
        assert_eq!(PictureSize::of_base64(data), None, "{data}");
    }
}

#[test]
fn a_picture_fits_up_to_a_side_and_when_it_does_not_tell() {
    let fits = |width, height| picture_fits(PictureSize::of(&png(width, height)));
    assert!(fits(8000, 8000) && fits(1, 1) && picture_fits(None));
    assert!(!fits(8001, 1) && !fits(1, 8001) && !fits(u32::MAX, u32::MAX));
}

proptest! {
    #[test]
    fn no_bytes_lead_to_a_panic(
        kind in 0..6_usize, at in 0..40_usize, more in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut bytes = kinds().swap_remove(kind);
        bytes.truncate(at);
        bytes.extend(more);
        let _ = PictureSize::of(&bytes);
    }
}

fn picture(width: u32) -> Value {
    json!({"type": "image", "data": STANDARD.encode(png(width, 1)), "mimeType": "image/png"})
}

/// A message and a result with pictures of these widths.
fn conversation(widths: [u32; 4]) -> Vec<AgentMessage> {
    let [first, second, third, fourth] = widths.map(picture);
    vec![
        message(json!({"role": "user", "content": [first, second], "timestamp": 1})),
        user("and now?"),
        message(json!({"role": "toolResult", "toolCallId": "c", "toolName": "read",
            "content": [{"type": "text", "text": "two"}, third, fourth]})),
    ]
}

/// How often a picture, and how often the words for one, is in it.
fn counts(messages: &[AgentMessage]) -> (usize, usize) {
    let text = serde_json::to_string(messages).unwrap();
    (text.matches(r#""type":"image""#).count(), text.matches(NOT_TAKEN).count())
}

#[test]
fn the_oldest_that_are_meant_are_left_out_first() {
    let is_wide = |image: &ImageBlock| {
        PictureSize::of_base64(&image.data).is_some_and(|size| !size.is_within(5))
    };
    let left_out = |keep| {
        let mut messages = conversation([9, 1, 9, 9]);
        let count = leave_out(&mut messages, keep, is_wide);
        assert_eq!(counts(&messages), (4 - count, count));
        messages
    };
    assert_eq!(left_out(4), conversation([9, 1, 9, 9]));
    let messages = left_out(2);
    assert_eq!(messages[0].text(), NOT_TAKEN);
    assert_eq!(messages[2].text(), format!("two{NOT_TAKEN}"));
    assert_eq!(counts(&left_out(1)), (1, 3));
    assert_eq!(counts(&left_out(0)), (1, 3));
}

#[test]
fn the_newest_that_have_few_enough_bytes_together_are_counted() {
    let of = |size: usize| json!({"type": "image", "data": "A".repeat(size), "mimeType": "a/b"});
    let messages = [
        message(json!({"role": "user", "content": [of(1), of(90)], "timestamp": 1})),
        message(json!({"role": "toolResult", "toolCallId": "c", "toolName": "read",
            "content": [of(4), {"type": "text", "text": "two"}, of(8)]})),
        user("and now?"),
    ];
    for (most, count) in [(0, 1), (8, 1), (11, 1), (12, 2), (101, 2), (102, 3), (103, 4)] {
        assert_eq!(newest_within(&messages, most), count, "{most}");
    }
}

#[test]
fn a_request_without_pictures_says_where_they_were() {
    let mut model = model("openai-completions");
    let mut request = request_to(model.clone(), conversation([1, 2, 3, 4]));
    let without_all = |request: &ModelRequest| without_pictures(request, u64::MAX);
    let without = without_all(&request).unwrap();
    assert_eq!(counts(&without.messages), (0, 4));
    assert!(without_all(&without).is_none());
    // Asked what is in them, one cannot answer without.
    request.needs_pictures = true;
    assert!(without_all(&request).is_none());
    model.input = vec![InputKind::Text];
    assert!(without_all(&request_to(model, request.messages)).is_none());
}

#[test]
fn pictures_that_were_sent_later_stay() {
    let sent = |timestamp: u64| {
        message(json!({"role": "user", "content": [picture(1)], "timestamp": timestamp}))
    };
    let messages = vec![sent(3), sent(7), user("and now?")];
    let request = request_to(model("openai-completions"), messages);
    assert_eq!(newest_picture(&request), Some(7));
    assert!(without_pictures(&request, 2).is_none());
    let rest = without_pictures(&request, 3).unwrap();
    assert_eq!((counts(&rest.messages), newest_picture(&rest)), ((1, 1), Some(7)));
    let none = without_pictures(&request, 7).unwrap();
    assert_eq!((counts(&none.messages), newest_picture(&none)), ((0, 2), None));
}
