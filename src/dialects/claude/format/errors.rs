//! Failures and interruptions, in the words of Claude Code.

use crate::providers::credentials::says_no_credit;

/// What stands where somebody stopped an answer.
pub const INTERRUPTED: &str = "[Request interrupted by user]";
/// What stands where somebody stopped tools.
pub const INTERRUPTED_TOOL: &str = "[Request interrupted by user for tool use]";

/// Classes by what is in an error; the first that fits counts. Numbers are
/// whole words, the rest is lower case.
const CLASSES: &[(&str, &[&str])] = &[
    ("max_output_tokens", &["output token maximum", "max_output_tokens"]),
    ("billing_error", &["402"]),
    (
        "authentication_failed",
        &["401", "403", "authentication", "unauthorized", "api key", "permission_error"],
    ),
    ("rate_limit", &["429", "rate limit", "rate_limit", "too many requests"]),
    (
        "server_error",
        &["500", "502", "503", "504", "529", "overloaded", "server error", "unavailable"],
    ),
    ("invalid_request", &["400", "404", "413", "422", "invalid_request", "too long"]),
];

/// Class of a provider's failure: `authentication_failed`, `billing_error`,
/// `rate_limit`, `invalid_request`, `server_error`, `max_output_tokens` or
/// `unknown`.
pub fn error_class(message: &str) -> &'static str {
    if says_no_credit(message) {
        return "billing_error";
    }
    let message = message.to_lowercase();
    let has = |sign: &&&str| {
        if sign.bytes().all(|byte| byte.is_ascii_digit()) {
            message.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == **sign)
        } else {
            message.contains(**sign)
        }
    };
    let fits = |(_, signs): &&(&str, &[&str])| signs.iter().any(|sign| has(&sign));
    CLASSES.iter().find(fits).map_or("unknown", |(class, _)| class)
}

/// What a failed answer says.
pub fn error_text(message: &str) -> String {
    format!("API Error: {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_the_class_of_what_they_say() {
        for (message, class) in [
            ("401 {\"type\":\"error\"}", "authentication_failed"),
            ("Incorrect API key provided", "authentication_failed"),
            ("429 slow down", "rate_limit"),
            ("429 You exceeded your current quota", "billing_error"),
            ("429 You exceeded your current quota. Please retry in 38.9s.", "rate_limit"),
            ("400 cachedContent quota of the project", "invalid_request"),
            ("Your credit balance is too low", "billing_error"),
            ("529 {\"type\":\"overloaded_error\"}", "server_error"),
            ("fetch failed: 503 Service Unavailable", "server_error"),
            ("400 bad thing", "invalid_request"),
            ("prompt is too long: 200001 tokens", "invalid_request"),
            ("1400 apples", "unknown"),
            ("", "unknown"),
        ] {
            assert_eq!(error_class(message), class, "{message}");
        }
    }
}
