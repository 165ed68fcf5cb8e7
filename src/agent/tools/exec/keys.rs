//! Keys of a terminal, as bytes.
//!
//! Owns: the names that a model may use for keys. Promises: a name that nobody
//! knows is sent as it is, and told of. Must not: write anywhere.

const ESC: &str = "\u{1b}";

/// Keys and what a terminal sends for them. Those marked may have modifiers.
const KEYS: [(&str, &str, bool); 34] = [
    ("enter", "\r", false),
    ("return", "\r", false),
    ("tab", "\t", false),
    ("escape", ESC, false),
    ("esc", ESC, false),
    ("space", " ", false),
    ("bspace", "\u{7f}", false),
    ("backspace", "\u{7f}", false),
    ("up", "\u{1b}[A", true),
    ("down", "\u{1b}[B", true),
    ("right", "\u{1b}[C", true),
    ("left", "\u{1b}[D", true),
    ("home", "\u{1b}[1~", true),
    ("end", "\u{1b}[4~", true),
    ("pageup", "\u{1b}[5~", true),
    ("pgup", "\u{1b}[5~", true),
    ("pagedown", "\u{1b}[6~", true),
    ("pgdn", "\u{1b}[6~", true),
    ("insert", "\u{1b}[2~", true),
    ("delete", "\u{1b}[3~", true),
    ("del", "\u{1b}[3~", true),
    ("btab", "\u{1b}[Z", false),
    ("f1", "\u{1b}OP", false),
    ("f2", "\u{1b}OQ", false),
    ("f3", "\u{1b}OR", false),
    ("f4", "\u{1b}OS", false),
    ("f5", "\u{1b}[15~", false),
    ("f6", "\u{1b}[17~", false),
    ("f7", "\u{1b}[18~", false),
    ("f8", "\u{1b}[19~", false),
    ("f9", "\u{1b}[20~", false),
    ("f10", "\u{1b}[21~", false),
    ("f11", "\u{1b}[23~", false),
    ("f12", "\u{1b}[24~", false),
];

/// Bytes to send, and what is odd about the request.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// What a terminal would send.
    pub bytes: Vec<u8>,
    /// Notes for the model.
    pub warnings: Vec<String>,
}

impl Encoded {
    /// A text as it is, then bytes in hex, then keys.
    pub fn new(literal: &str, hex: &[&str], keys: &[&str]) -> Self {
        let mut encoded = Self { bytes: literal.as_bytes().to_vec(), warnings: Vec::new() };
        for text in hex {
            let digits = text.trim().to_lowercase();
            let digits = digits.strip_prefix("0x").unwrap_or(&digits);
            match u8::from_str_radix(digits, 16) {
                Ok(byte) => encoded.bytes.push(byte),
                Err(_) => encoded.warnings.push(format!("Invalid hex byte: {text}")),
            }
        }
        for key in keys {
            encoded.key(key.trim());
        }
        encoded
    }

    fn key(&mut self, token: &str) {
        if let Some(control) = token.strip_prefix('^').and_then(single).and_then(control) {
            return self.bytes.push(control);
        }
        let (modifiers, base) = Modifiers::split(token);
        let lower = base.to_lowercase();
        if lower == "tab" && modifiers.shift {
            return self.push("\u{1b}[Z");
        }
        if let Some((_, sequence, is_modifiable)) = KEYS.iter().find(|(name, ..)| *name == lower) {
            return self.push(&modifiers.apply(sequence, *is_modifiable));
        }
        let Some(letter) = single(base) else {
            if modifiers != Modifiers::default() {
                let text = format!("Unknown key \"{base}\" for modifiers; sending literal.");
                self.warnings.push(text);
            }
            return self.push(base);
        };
        let letter = if modifiers.shift { letter.to_ascii_uppercase() } else { letter };
        if modifiers.alt {
            self.push(ESC);
        }
        match control(letter).filter(|_| modifiers.ctrl) {
            Some(control) => self.bytes.push(control),
            None => self.push(letter.encode_utf8(&mut [0; 4])),
        }
    }

    fn push(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }
}

/// A text between the marks that terminals put around what is pasted.
pub fn paste(text: &str, is_marked: bool) -> Vec<u8> {
    let marked = format!("{ESC}[200~{text}{ESC}[201~");
    if is_marked { marked.into_bytes() } else { text.as_bytes().to_vec() }
}

/// `C-`, `M-` and `S-` before a key.
#[derive(Debug, Default, PartialEq, Eq)]
struct Modifiers {
    ctrl: bool,
    alt: bool,
    shift: bool,
}

impl Modifiers {
    fn split(token: &str) -> (Self, &str) {
        let (mut found, mut rest) = (Self::default(), token);
        loop {
            let Some((first, base)) = rest.split_once('-').filter(|(_, base)| !base.is_empty())
            else {
                return (found, rest);
            };
            match first {
                "C" | "c" => found.ctrl = true,
                "M" | "m" => found.alt = true,
                "S" | "s" => found.shift = true,
                _ => return (found, rest),
            }
            rest = base;
        }
    }

    /// A sequence with these modifiers, as xterm sends it.
    fn apply(&self, sequence: &str, is_modifiable: bool) -> String {
        let number = 1 + u8::from(self.shift) + 2 * u8::from(self.alt) + 4 * u8::from(self.ctrl);
        let body = sequence.strip_prefix("\u{1b}[").filter(|_| is_modifiable && number > 1);
        match body.map(|body| (body, body.strip_suffix('~'))) {
            Some((_, Some(code))) => format!("{ESC}[{code};{number}~"),
            Some((letter, None)) => format!("{ESC}[1;{number}{letter}"),
            None if self.alt => format!("{ESC}{sequence}"),
            None => sequence.to_owned(),
        }
    }
}

fn single(text: &str) -> Option<char> {
    let mut letters = text.chars();
    letters.next().filter(|_| letters.next().is_none())
}

/// What a key sends together with Control.
fn control(letter: char) -> Option<u8> {
    match u8::try_from(letter.to_ascii_uppercase()).ok()? {
        b'?' => Some(0x7f),
        code @ b'@'..=b'_' => Some(code & 0x1f),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> String {
        let encoded = Encoded::new("", &[], names);
        assert_eq!(encoded.warnings, Vec::<String>::new());
        String::from_utf8(encoded.bytes).unwrap()
    }

    #[test]
    fn keys_are_what_a_terminal_sends() {
        assert_eq!(keys(&["C-c", "^D", "Enter"]), "\u{3}\u{4}\r");
        assert_eq!(keys(&["Up", "C-Left", "S-Delete"]), "\u{1b}[A\u{1b}[1;5D\u{1b}[3;2~");
        assert_eq!(keys(&["M-x", "M-Enter", "S-Tab", "S-a", "-"]), "\u{1b}x\u{1b}\r\u{1b}[ZA-");
        assert_eq!(keys(&["hello"]), "hello");
    }

    #[test]
    fn what_is_odd_is_told() {
        let encoded = Encoded::new("é", &["0x1b", "41", "zz"], &["C-nothing"]);
        assert_eq!(encoded.bytes, "é\u{1b}Anothing".as_bytes());
        assert_eq!(
            encoded.warnings,
            ["Invalid hex byte: zz", "Unknown key \"nothing\" for modifiers; sending literal."]
        );
    }

    #[test]
    fn a_paste_is_marked_unless_told_otherwise() {
        assert_eq!(paste("a\nb", true), b"\x1b[200~a\nb\x1b[201~");
        assert_eq!(paste("a", false), b"a");
    }
}
