//! Credentials in what people of a chat are told of calls, results and thoughts.
//!
//! Promises: what the gateway knows to be a secret is taken out, and so is what looks like one,
//! as in the original. Must not: be the only guard; what looks like nothing stays.

use std::sync::LazyLock;

use regex::Regex;

use crate::telemetry::without_secrets;

/// Each begins with what stays; what follows goes.
const PATTERNS: [&str; 8] = [
    r#"(\b[A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD)\s*[=:]\s*["']?)[^\s"'\\]+"#,
    r#"([?&](?i-u:[a-z]+[-_]?token|api[-_]?key|client[-_]?secret|token|key|secret|pass(?:word|wd)?|auth|signature)=)[^&\s"'<>]+"#,
    r#"((?i-u:"(?:api_?key|(?:access|refresh)?_?token|(?:client)?_?secret|passw(?:or)?d)")\s*:\s*")[^"]+"#,
    r#"(--(?i-u:[a-z-]*(?:api[-_]?key|token|secret|password|passwd))[\s=]+["']?)[^\s"']+"#,
    r#"((?i-u:authorization)\s*[:=]\s*(?i-u:bearer|basic)\s+)[^\s"']+"#,
    r"(\b(?i-u:bearer)\s+)[A-Za-z0-9._+=-]{18,}",
    r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)(?s:.+?)(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
    r"(\b(?:sk-|gsk_|pplx-|npm_|hf_|r8_|xapp-|xox[abprs]-|ghp_|github_pat_|AIza|AKIA|(?:bot)?[0-9]{6,}:))[A-Za-z0-9_-]{16,}",
];

static BUILT: LazyLock<Vec<Regex>> =
    LazyLock::new(|| PATTERNS.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect());

/// A text without them.
pub(super) fn masked(text: &str) -> String {
    let known = without_secrets(text).into_owned();
    BUILT.iter().fold(known, |text, pattern| pattern.replace_all(&text, "${1}***").into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_credential_is_taken_out_and_nothing_else() {
        assert_eq!(BUILT.len(), PATTERNS.len());
        for (text, expected) in [
            ("OPENAI_API_KEY='abc def", "OPENAI_API_KEY='*** def"),
            ("from https://a.b/c?api_key=abc&x=1", "from https://a.b/c?api_key=***&x=1"),
            (r#"{"accessToken": "a b", "x": 1}"#, r#"{"accessToken": "***", "x": 1}"#),
            (
                "deploy --auth-token abc --password=é now",
                "deploy --auth-token *** --password=*** now",
            ),
            ("-H 'Authorization: Basic YTpi' -v", "-H 'Authorization: Basic ***' -v"),
            ("bearer 0123456789abcdef012", "bearer ***"),
            (
                "-----BEGIN PRIVATE KEY-----\nab\n-----END PRIVATE KEY-----",
                "-----BEGIN PRIVATE KEY-----***",
            ),
            ("ghp_0123456789abcdefghij, 123456:0123456789abcdefghij", "ghp_***, 123456:***"),
        ] {
            assert_eq!(masked(text), expected);
        }
        for text in ["print the token of a sentence", "ls /secret: 3 files", "key: value", "sk-ip"]
        {
            assert_eq!(masked(text), text);
        }
    }
}
