//! Frames as clients write them (RFC 6455 §5.2): masked, and wrong if wanted.

/// What kinds of frames there are.
pub const CONTINUATION: u8 = 0;
pub const TEXT: u8 = 1;
pub const BINARY: u8 = 2;
pub const CLOSE: u8 = 8;
pub const PING: u8 = 9;
pub const PONG: u8 = 10;

const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
/// Any key does; without a zero, so that an unmasked byte is never right by chance.
const KEY: [u8; 4] = [0xa7, 0x31, 0x5c, 0xe9];

/// A frame that ends its message.
pub fn frame(kind: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    with_head(FINAL | kind, payload.as_ref())
}

/// A frame after which more of its message comes.
pub fn part(kind: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    with_head(kind, payload.as_ref())
}

/// A frame that ends its message, with reserved bits.
pub fn reserved(kind: u8, bits: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    with_head(FINAL | bits << 4 | kind, payload.as_ref())
}

/// A close frame with a code and a reason.
pub fn close(code: u16, reason: impl AsRef<[u8]>) -> Vec<u8> {
    frame(CLOSE, [&code.to_be_bytes(), reason.as_ref()].concat())
}

/// A frame that nobody masked.
pub fn unmasked(kind: u8, payload: &str) -> Vec<u8> {
    let length = u8::try_from(payload.len()).expect("a short payload");
    [&[FINAL | kind, length], payload.as_bytes()].concat()
}

/// Only the head of a masked text frame of so many bytes.
pub fn head_of_text(length: usize) -> Vec<u8> {
    [head(FINAL | TEXT, MASKED, length), KEY.to_vec()].concat()
}

/// A binary message as a server writes it.
pub fn from_server(payload: &[u8]) -> Vec<u8> {
    [&head(FINAL | BINARY, 0, payload.len()), payload].concat()
}

/// A message in frames of at most `size` bytes, the last of which ends it.
pub fn fragmented(kind: u8, payload: &[u8], size: usize) -> Vec<u8> {
    let mut pieces = payload.chunks(size).peekable();
    let (mut frames, mut kind) = (Vec::new(), kind);
    while let Some(piece) = pieces.next() {
        frames.extend(if pieces.peek().is_some() { part(kind, piece) } else { frame(kind, piece) });
        kind = CONTINUATION;
    }
    frames
}

fn with_head(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = head(first, MASKED, payload.len());
    frame.extend(KEY);
    frame.extend(payload.iter().zip(KEY.iter().cycle()).map(|(byte, key)| byte ^ key));
    frame
}

fn head(first: u8, masked: u8, length: usize) -> Vec<u8> {
    let mut head = vec![first];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => head.push(masked | short),
        (_, Ok(middle)) => {
            head.push(masked | 0x7e);
            head.extend(middle.to_be_bytes());
        }
        _ => {
            head.push(masked | 0x7f);
            head.extend(u64::try_from(length).unwrap().to_be_bytes());
        }
    }
    head
}
