//! Keeping credentials out of what others get to read.
//!
//! Owns: removing a model's key, headers and variables from a text. Must not: be the only
//! guard; `Secret` hides itself wherever we print one ourselves.

use super::ModelInfo;

/// Shorter values occur in ordinary words.
const MIN_SECRET: usize = 6;

/// `text` without the model's credentials: some servers repeat the key that
/// they refuse.
pub fn scrub(text: &str, model: &ModelInfo) -> String {
    let own = model.options.cli.iter().flat_map(|cli| cli.secrets());
    model
        .api_key
        .iter()
        .chain(model.headers.values())
        .chain(own)
        .chain(model.options.auth.iter().map(|auth| &auth.value))
        .map(crate::support::Secret::expose)
        // `Bearer <token>` is repeated without the first word.
        .map(|secret| secret.strip_prefix("Bearer ").unwrap_or(secret))
        .filter(|secret| secret.len() >= MIN_SECRET)
        .fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::testing::model;
    use crate::support::Secret;

    #[test]
    fn key_and_headers_are_removed_and_short_values_left() {
        let mut model = model("openai-completions");
        model.api_key = Some(Secret::new("sk-secret"));
        model.headers.insert("x-proxy".into(), Secret::new("proxy-secret"));
        model.headers.insert("x-team".into(), Secret::new("a"));
        model.headers.insert("authorization".into(), Secret::new("Bearer tok-secret"));
        let text = scrub("401 bad key sk-secret via proxy-secret for tok-secret", &model);
        assert_eq!(text, "401 bad key *** via *** for ***");
    }
}
