//! Telling that a conversation is too long, from what the provider says.
//!
//! Owns: the list of phrases. Must not: look at status codes; the caller has
//! excluded rate limits, which talk of tokens too.

/// Lower case; `*` stands for any text, `#` for a number.
const PHRASES: [&str; 22] = [
    "prompt is too long",
    // Anthropic counts what the answer may have, too.
    "input length*exceed*context",
    "input is too long for requested model",
    "exceeds the context window",
    "input token count*exceeds the maximum",
    "maximum prompt length is #",
    "reduce the length of the messages",
    "maximum context length is # tokens",
    "too large for model with # maximum context length",
    "range of input length should be",
    "prompt too long; exceeded",
    "exceeds the limit of #",
    "exceeds the available context size",
    "greater than the context length",
    "context window exceeds limit",
    "exceeded model token limit",
    "context_length_exceeded",
    "context length exceeded",
    "context_length exceeded",
    "context length_exceeded",
    "too many tokens",
    "token limit exceeded",
];

/// Messages of providers that refuse without saying why.
const WITHOUT_BODY: [&str; 4] =
    ["400 (no body)", "400 status code (no body)", "413 (no body)", "413 status code (no body)"];

/// Whether `message` says that the conversation is too long.
pub fn is_overflow(message: &str) -> bool {
    let text = message.to_lowercase();
    WITHOUT_BODY.iter().any(|start| text.starts_with(start))
        || PHRASES.iter().any(|phrase| contains(&text, phrase))
}

/// Whether the parts of `phrase` between its `*` occur in this order.
fn contains(text: &str, phrase: &str) -> bool {
    let mut rest = text;
    phrase.split('*').all(|part| match find(rest, part) {
        Some(after) => {
            rest = after;
            true
        }
        None => false,
    })
}

/// What follows the first place where `part` fits.
fn find<'a>(text: &'a str, part: &str) -> Option<&'a str> {
    let Some((before, after)) = part.split_once('#') else {
        return text.split_once(part).map(|(_, rest)| rest);
    };
    let mut rest = text;
    while let Some((_, tail)) = rest.split_once(before) {
        let number_ends = tail.trim_start_matches(|c: char| c.is_ascii_digit());
        if number_ends.len() < tail.len()
            && let Some(end) = number_ends.strip_prefix(after)
        {
            return Some(end);
        }
        rest = tail;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_phrase_is_recognised() {
        for message in [
            "400 {\"error\":{\"message\":\"prompt is too long: 213462 tokens > 200000 maximum\"}}",
            "400 {\"error\":{\"message\":\"input length and `max_tokens` exceed context limit: \
             178959 + 32000 > 200000, decrease input length or `max_tokens` and try again\"}}",
            "400 Input is too long for requested model.",
            "Your input exceeds the context window of this model",
            "The input token count (1196265) exceeds the maximum number of tokens allowed",
            "maximum prompt length is 131072 but the request contains 537812",
            "Please reduce the length of the messages or completion",
            "This model's maximum context length is 8192 tokens. However",
            "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
            "Range of input length should be [1, 30720]",
            "prompt too long; exceeded max context length by 4096 tokens",
            "prompt token count of 5 exceeds the limit of 128000",
            "the request exceeds the available context size, try increasing it",
            "number of tokens to keep is greater than the context length",
            "context window exceeds limit",
            "exceeded model token limit",
            "context_length_exceeded",
            "Context Length Exceeded",
            "413 status code (no body)",
        ] {
            assert!(is_overflow(message), "{message}");
        }
    }

    #[test]
    fn other_messages_are_left_alone() {
        for message in [
            "400 bad request",
            "500 status code (no body)",
            "maximum prompt length is unknown",
            "maximum context length is 10 words",
            "input length is invalid",
            "exceeds the maximum; input token count 5",
            "",
        ] {
            assert!(!is_overflow(message), "{message}");
        }
    }
}
