//! Texts that are part of the program.
//!
//! Owns: reading what `src/build.rs` has packed.

use std::io::Read;

use flate2::read::GzDecoder;

/// The text of what is packed (gzip, RFC 1952) in the program, where it cannot be broken.
pub fn unpacked(packed: &[u8]) -> String {
    let mut text = String::new();
    let read = GzDecoder::new(packed).read_to_string(&mut text);
    debug_assert!(read.is_ok(), "what is packed in the program is broken");
    text
}
