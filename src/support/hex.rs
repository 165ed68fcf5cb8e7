//! Bytes as text.

/// The bytes in lowercase hexadecimal.
pub fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().flat_map(|byte| [byte >> 4, byte & 15]).map(digit).collect()
}

fn digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_two_lowercase_digits() {
        assert_eq!(hex([0, 0x0f, 0xa5, 0xff]), "000fa5ff");
    }
}
