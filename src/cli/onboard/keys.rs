//! Single keys of a terminal.
//!
//! Promises: the terminal is as it was before once this is dropped; Ctrl-C is a
//! key, so that nobody is killed while the terminal shows nothing.

use std::io;

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

/// What somebody pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A letter.
    Char(char),
    /// Enter.
    Enter,
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Backspace.
    Backspace,
    /// Ctrl-U.
    Clear,
    /// Ctrl-C, Ctrl-D, or the end of the input.
    Stop,
    /// Something else.
    Other,
}

/// A terminal that tells of each key.
pub struct Keys {
    terminal: io::Stdin,
    before: Termios,
}

impl Keys {
    /// From now on.
    pub fn new() -> io::Result<Self> {
        let terminal = io::stdin();
        let before = tcgetattr(&terminal)?;
        let mut raw = before.clone();
        raw.local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        // What was typed ahead counts.
        tcsetattr(&terminal, OptionalActions::Drain, &raw)?;
        Ok(Self { terminal, before })
    }

    /// The next key. Waits for it.
    pub fn next(&mut self) -> io::Result<Key> {
        decode(|| {
            let mut byte = [0; 1];
            match rustix::io::retry_on_intr(|| rustix::io::read(&self.terminal, &mut byte)) {
                Ok(1..) => Ok(Some(byte[0])),
                // A terminal that was hung up.
                Ok(0) | Err(rustix::io::Errno::IO) => Ok(None),
                Err(error) => Err(error.into()),
            }
        })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // The terminal is gone when this fails.
        let _ = tcsetattr(&self.terminal, OptionalActions::Drain, &self.before);
    }
}

fn decode(mut read: impl FnMut() -> io::Result<Option<u8>>) -> io::Result<Key> {
    let Some(first) = read()? else { return Ok(Key::Stop) };
    key_of(first, &mut read)
}

/// The key that begins with this byte.
fn key_of(first: u8, read: &mut impl FnMut() -> io::Result<Option<u8>>) -> io::Result<Key> {
    Ok(match first {
        b'\r' | b'\n' => Key::Enter,
        3 | 4 => Key::Stop,
        8 | 127 => Key::Backspace,
        21 => Key::Clear,
        0x1b => match read()? {
            Some(b'[' | b'O') => arrow(read)?,
            None => Key::Stop,
            Some(_) => Key::Other,
        },
        0..=31 => Key::Other,
        32..=126 => Key::Char(char::from(first)),
        128.. => letter(first, read)?,
    })
}

/// The rest of an escape sequence, up to its last letter.
fn arrow(read: &mut impl FnMut() -> io::Result<Option<u8>>) -> io::Result<Key> {
    loop {
        match read()? {
            Some(b'A') => return Ok(Key::Up),
            Some(b'B') => return Ok(Key::Down),
            Some(b'0'..=b'9' | b';') => {}
            None => return Ok(Key::Stop),
            Some(_) => return Ok(Key::Other),
        }
    }
}

/// The rest of a letter in UTF-8.
fn letter(first: u8, read: &mut impl FnMut() -> io::Result<Option<u8>>) -> io::Result<Key> {
    let length = match first {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => return Ok(Key::Other),
    };
    let mut bytes = vec![first];
    while bytes.len() < length {
        match read()? {
            Some(byte @ 0x80..=0xbf) => bytes.push(byte),
            // What was begun is not UTF-8. This is another key, such as Enter or Ctrl-C.
            Some(byte) => return key_of(byte, read),
            None => return Ok(Key::Stop),
        }
    }
    let letter = std::str::from_utf8(&bytes).ok().and_then(|text| text.chars().next());
    Ok(letter.map_or(Key::Other, Key::Char))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(typed: &[u8]) -> Vec<Key> {
        let mut bytes = typed.iter().copied();
        let mut found = Vec::new();
        loop {
            match decode(|| Ok(bytes.next())).unwrap() {
                Key::Stop => return found,
                key => found.push(key),
            }
        }
    }

    #[test]
    fn bytes_of_a_terminal_are_keys() {
        assert_eq!(
            keys("a\x1b[A\x1bOB\x1b[1;5C\x7f\x15é\r".as_bytes()),
            [
                Key::Char('a'),
                Key::Up,
                Key::Down,
                Key::Other,
                Key::Backspace,
                Key::Clear,
                Key::Char('é'),
                Key::Enter
            ]
        );
        assert_eq!(keys(b"a\x03b"), [Key::Char('a')]);
        assert_eq!(keys(b"\xff\x1b[Zx"), [Key::Other, Key::Other, Key::Char('x')]);
        // Of a terminal that is not in UTF-8.
        assert_eq!(keys(b"\xe9\rx\xe9\x03y"), [Key::Enter, Key::Char('x')]);
    }
}
