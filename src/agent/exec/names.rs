//! Names of commands that run: two words that a model and a person can repeat.

/// First words.
const FIRST: [&str; 32] = [
    "amber", "bold", "brisk", "calm", "clear", "cool", "crisp", "dawn", "deep", "ember", "fair",
    "fast", "fresh", "gentle", "glow", "grand", "keen", "kind", "light", "lucky", "mellow", "mild",
    "neat", "nimble", "quick", "quiet", "rapid", "sharp", "swift", "tidy", "vivid", "warm",
];
/// Second words.
const SECOND: [&str; 32] = [
    "basin", "bay", "birch", "breeze", "brook", "canyon", "cedar", "cliff", "cloud", "comet",
    "coral", "cove", "creek", "delta", "dune", "falcon", "fern", "field", "glade", "harbor",
    "heron", "lagoon", "maple", "meadow", "orbit", "otter", "pine", "reef", "ridge", "river",
    "shore", "willow",
];

/// A name that is not taken yet; `random` decides which.
pub fn choose(random: u128, is_taken: impl Fn(&str) -> bool) -> String {
    let word = |words: &[&'static str; 32], bits: u128| {
        usize::try_from(bits % 32).ok().and_then(|at| words.get(at).copied()).unwrap_or("calm")
    };
    let base = format!("{}-{}", word(&FIRST, random), word(&SECOND, random >> 32));
    if !is_taken(&base) {
        return base;
    }
    let more = (2_u64..).map(|number| format!("{base}-{number}"));
    more.into_iter().find(|name| !is_taken(name)).unwrap_or(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_name_gets_a_number() {
        assert_eq!(choose(0, |_| false), "amber-basin");
        assert_eq!(choose(3 + (11 << 32), |_| false), "calm-cove");
        assert_eq!(choose(0, |name| name == "amber-basin"), "amber-basin-2");
        assert_eq!(choose(0, |name| name.len() < 13), "amber-basin-2");
    }
}
