//! New inputs from old ones, by a seed.

/// Numbers that look random and come back with the seed (splitmix64).
pub struct Dice(u64);

impl Dice {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// One of `0..count`; 0 when there are none.
    pub fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(count.max(1)).unwrap()).unwrap()
    }
}

/// Pieces that parsers look for.
const WORDS: [&str; 48] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    ":",
    ",",
    "null",
    "true",
    "-1",
    "0",
    "1e999",
    "9007199254740993",
    "18446744073709551616",
    "\\u0000",
    "\\ud800",
    "\u{feff}",
    "\u{202e}",
    "\u{0}",
    "//",
    "/*",
    "*/",
    "\n",
    "\r\n",
    "\\",
    "$",
    "${A}",
    "$${A}",
    "`",
    ";",
    "&&",
    "|",
    ">",
    "#",
    "~",
    "=",
    "\"id\":",
    "\"type\":\"message\"",
    "\"params\":{}",
    "\"auth\":{\"token\":\"x\"}",
    "\"parentId\":null",
    "__OPENCLAW_REDACTED__",
    "__proto__",
    "\"source\":\"env\"",
    "é",
    "𝄞",
    "Infinity",
];

/// Longest input; what is longer finds nothing new.
const LENGTH_MAX: usize = 8192;

/// Some change of `input`; `other` is another input.
pub fn changed(dice: &mut Dice, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=dice.below(4) {
        let at = dice.below(bytes.len() + 1);
        let end = (at + 1 + dice.below(16)).min(bytes.len());
        match dice.below(9) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            1 if at < bytes.len() => bytes[at] = u8::try_from(dice.below(256)).unwrap(),
            2 => drop(bytes.drain(at.min(end)..end)),
            3 => {
                let piece = bytes[at.min(end)..end].to_vec();
                let most = if dice.below(20) == 0 { 400 } else { 3 };
                let times = 1 + dice.below(most);
                bytes.splice(at..at, piece.repeat(times));
            }
            4 | 5 => {
                let word = WORDS[dice.below(WORDS.len())];
                bytes.splice(at..at, word.bytes());
            }
            6 => {
                let word = WORDS[dice.below(WORDS.len())];
                bytes.splice(at.min(end)..end, word.bytes());
            }
            7 => {
                let from = dice.below(other.len() + 1);
                let to = (from + dice.below(64)).min(other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            _ => bytes.truncate(at.max(1)),
        }
    }
    bytes.truncate(LENGTH_MAX);
    bytes
}
