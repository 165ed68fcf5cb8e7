//! Ids of agents.
//!
//! Promises: as in the original, any text is one, fit for the name of a file.

/// Longest agent id, as in session keys.
const ID_MAX: usize = 64;

/// Makes an id out of any text, as the original does: small letters, one `-` for characters
/// that none may have, none at the ends, cut at 64; `main` where nothing is left.
pub fn id_of(text: &str) -> String {
    let mut id = String::new();
    let mut is_gap = false;
    for c in text.trim().to_lowercase().chars() {
        let fits = c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        if fits || !is_gap {
            id.push(if fits { c } else { '-' });
        }
        is_gap = !fits;
    }
    let id = id.trim_matches('-');
    let id = id.get(..ID_MAX).unwrap_or(id).trim_matches('-');
    if id.is_empty() { "main".to_owned() } else { id.to_owned() }
}
