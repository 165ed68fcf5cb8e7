//! Where we differ from pi-ai 0.55.3 on purpose.
//!
//! An entry that no case needs fails the test, so the list stays true. What
//! both sides write in their own way without meaning anything by it is made
//! alike in `compare`.

/// A difference that is meant.
pub struct Difference {
    /// Names of cases that it is met in begin so.
    pub case: &'static str,
    /// Paths that it is met at begin so; `*` is any one part of a path.
    pub path: &'static str,
    /// Why ours is better.
    pub reason: &'static str,
}

const fn differs(case: &'static str, path: &'static str, reason: &'static str) -> Difference {
    Difference { case, path, reason }
}

const NO_TOOLS: &str = "the API refuses a choice of tools where there are none, as in a summary";
const BLIND: &str = "a model without eyes is told that there was a picture, and never sent one";
const CUT: &str = "an answer that was cut off is no answer";
const BLOCK_ENDS: &str = "every block that begins also ends, in a failed answer too";
const SAYS_WHY: &str = "the error says why the answer ended";
const READ_ON: &str = "the usage that follows an unknown end is read";
const KEPT: &str = "an end that nobody knows takes no answer back";
const TWICE: &str = "completion_tokens hold those of the thought already";
const OWN_SERVER: &str = "templates of models that people run themselves lack the role developer";
const OWN_IDS: &str = "the API refuses two items of one id";
const UNASKED: &str =
    "a model that thinks unasked sends its thoughts along: one that is only named is refused later";
const MINIMAL: &str = "models of OpenAI from 5.1 on refuse the effort minimal";
const TOLD_BY_TYPE: &str =
    "Z.AI is told whether to think by the type of its thinking, as its API documents";
const INCOMPLETE: &str = "response.incomplete ends an answer, with its usage";

pub const DIFFERENCES: &[Difference] = &[
    differs("anthropic-messages choice without", "requests/0/body/tool_choice", NO_TOOLS),
    differs("openai-completions choice without", "requests/0/body/tool_choice", NO_TOOLS),
    differs("anthropic-messages blind", "requests/0/body/messages/0/content", BLIND),
    differs("anthropic-messages blind", "requests/0/body/messages/2/content/1/content", BLIND),
    differs("openai-completions blind", "requests/0/body/messages/1/content", BLIND),
    differs("openai-completions blind", "requests/0/body/messages/4/content", BLIND),
    differs("openai-responses blind", "requests/0/body/input/1/content", BLIND),
    differs("openai-responses blind", "requests/0/body/input/9/output", BLIND),
    differs("google-generative-ai blind", "requests/0/body/contents/0/parts", BLIND),
    differs("openai-responses history", "requests/0/body/input/*/id", OWN_IDS),
    differs("openai-responses foreign history", "requests/0/body/input/*/id", OWN_IDS),
    differs("openai-responses blind", "requests/0/body/input/5/id", OWN_IDS),
    differs("openai-responses thinking gpt-5.1 off", "requests/0/body/include", UNASKED),
    differs(
        "google-generative-ai blind",
        "requests/0/body/contents/2/parts/1/functionResponse/response/error",
        BLIND,
    ),
    differs("anthropic-messages error in the stream", "events", BLOCK_ENDS),
    differs("openai-completions error in the stream", "events", BLOCK_ENDS),
    differs("openai-completions stop new", "events", BLOCK_ENDS),
    differs("google-generative-ai stop NEW", "events", BLOCK_ENDS),
    differs("anthropic-messages stop refusal", "message/errorMessage", SAYS_WHY),
    differs("anthropic-messages stop sensitive", "message/errorMessage", SAYS_WHY),
    differs("openai-completions stop content_filter", "message/errorMessage", SAYS_WHY),
    differs("openai-responses failed", "message/errorMessage", SAYS_WHY),
    differs("openai-responses status failed", "message/errorMessage", SAYS_WHY),
    differs("openai-responses status cancelled", "message/errorMessage", SAYS_WHY),
    differs("google-generative-ai stop SAFETY", "message/errorMessage", SAYS_WHY),
    differs("google-generative-ai stop RECITATION", "message/errorMessage", SAYS_WHY),
    differs("google-generative-ai stop MALFORMED", "message/errorMessage", SAYS_WHY),
    differs("google-generative-ai stop NEW", "message/errorMessage", SAYS_WHY),
    differs("anthropic-messages stop new", "message/stopReason", KEPT),
    differs("anthropic-messages stop new", "message/errorMessage", KEPT),
    differs("openai-completions stop new", "message/stopReason", KEPT),
    differs("openai-completions stop new", "message/errorMessage", KEPT),
    differs("anthropic-messages stop new", "message/usage", READ_ON),
    differs("openai-completions stop new", "message/usage", READ_ON),
    differs("google-generative-ai stop NEW", "message/usage", READ_ON),
    differs("openai-completions no end", "message/stopReason", CUT),
    differs("openai-completions no end", "message/errorMessage", CUT),
    differs("openai-responses no end", "message/stopReason", CUT),
    differs("openai-responses no end", "message/errorMessage", CUT),
    differs("google-generative-ai no end", "message/stopReason", CUT),
    differs("google-generative-ai no end", "message/errorMessage", CUT),
    differs(
        "google-generative-ai error in the stream",
        "message/stopReason",
        "an error in the stream is one",
    ),
    differs("google-generative-ai error in the stream", "message/errorMessage", SAYS_WHY),
    differs(
        "openai-completions cut arguments",
        "events/2/toolCall/arguments/path",
        "a tool never runs with half of what the model meant",
    ),
    differs(
        "openai-completions cut arguments",
        "message/content/0/arguments/path",
        "a tool never runs with half of what the model meant",
    ),
    differs("openai-completions tokens of thought", "message/usage", TWICE),
    differs(
        "openai-completions server openrouter",
        "requests/0/body/reasoning",
        "OpenRouter takes the effort in an object of its own, as pi-ai sends it since 0.61",
    ),
    differs("openai-completions server openrouter", "requests/0/body/reasoning_effort", "the same"),
    differs("openai-completions server vllm", "requests/0/body/messages/0/role", OWN_SERVER),
    differs("openai-completions server lmstudio", "requests/0/body/messages/0/role", OWN_SERVER),
    differs("openai-completions server llama.cpp", "requests/0/body/messages/0/role", OWN_SERVER),
    differs(
        "openai-completions compat requiresThinkingAsText",
        "requests/0/body/messages/2/content",
        "an empty line stands between the thought and the text, now that they are one text",
    ),
    differs("openai-completions server mistral", "requests/0/body/messages/2/content", "the same"),
    differs(
        "openai-completions thinking gpt-5.1 minimal",
        "requests/0/body/reasoning_effort",
        MINIMAL,
    ),
    differs(
        "openai-responses thinking gpt-5.1 minimal",
        "requests/0/body/reasoning/effort",
        MINIMAL,
    ),
    differs("openai-completions server zai", "requests/0/body/thinking", TOLD_BY_TYPE),
    differs("openai-completions server zai", "requests/0/body/enable_thinking", TOLD_BY_TYPE),
    differs(
        "openai-completions server mistral",
        "requests/0/body/reasoning_effort",
        "Mistral refuses every effort but high",
    ),
    differs("openai-responses incomplete event", "message/usage", INCOMPLETE),
    differs("openai-responses incomplete event", "message/stopReason", INCOMPLETE),
    differs(
        "google-generative-ai history gemini-3-pro",
        "requests/0/body/contents/1/parts/4",
        "a call of the past stays a call, with the signature that the API has for this, as \
         pi-ai sends it since 0.61",
    ),
    differs(
        "anthropic-messages history",
        "requests/0/body/messages/2/content",
        "the API refuses a failed call with anything but text, so its picture follows the results",
    ),
    differs(
        "google-generative-ai",
        "message/usage",
        "promptTokenCount holds the cached tokens already",
    ),
];
