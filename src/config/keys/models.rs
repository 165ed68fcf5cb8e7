//! The keys of `models`, `auth` and `secrets`.

use super::Kind::{
    self, Any, Boolean, Either, Integer, List, Map, Number, Object, Secret, Text, Within, Word,
};
use super::gateway::TEXT_MAP;
use super::tools::ANY_NUMBER;
use super::{FROM_ZERO, Key, TEXTS, key};

pub(super) const MODELS: Key = key(
    "models",
    Object(&[
        key(
            "mode",
            Word(&["merge", "replace"]),
            "Whether the providers below come beside those that are known, or instead of them.",
        )
        .or("\"merge\""),
        key("providers", Map(&Object(PROVIDER)), "Providers of models, by their ids."),
    ]),
    "Providers and models, beside those that are known anyway.",
);

const API: Kind = Text;

const PROVIDER: &[Key] = &[
    key("baseUrl", Text, "Address of its API.").like("\"http://127.0.0.1:8080/v1\""),
    key("apiKey", Secret, "Its key."),
    key("api", API, "What it speaks: openai-completions, openai-responses, anthropic-messages, google-generative-ai or ollama.").like("\"openai-completions\""),
    key("headers", Map(&Secret), "Headers that it gets."),
    key("timeoutSeconds", Integer(0, 4_294_967_295), "How many seconds it may be silent."),
    key("params", Object(PARAMS), "What every request says."),
    key("request", Object(REQUEST), "How it is reached."),
    key("models", List(&Object(MODEL)), "Its models."),
];

const MODEL: &[Key] = &[
    key("id", Text, "Its id at the provider.").required(),
    key("name", Text, "Its name for people."),
    key("api", API, "What it speaks, when that is not what its provider speaks.")
        .like("\"openai-completions\""),
    key("reasoning", Boolean, "Whether it thinks.").or("false"),
    key("input", TEXTS, "What it reads: text, image.").like("[\"text\", \"image\"]"),
    key("cost", Object(COST), "Its price in dollars for a million tokens."),
    key("contextWindow", FROM_ZERO_ON, "How many tokens it reads.").like("128000"),
    key("maxTokens", FROM_ZERO_ON, "How many tokens it writes at most.").like("8192"),
    key("params", Object(PARAMS), "What every request says."),
    key(
        "compat",
        Object(COMPAT),
        "What its server understands, where that is not what its address suggests.",
    )
    .advanced(),
];

/// A number, whole or not, that is not below 0.
pub(super) const FROM_ZERO_ON: Kind = Number(0.0, f64::MAX);

const COST: &[Key] = &[
    key("input", ANY_NUMBER, "Tokens that it reads.").or("0"),
    key("output", ANY_NUMBER, "Tokens that it writes.").or("0"),
    key("cacheRead", ANY_NUMBER, "Tokens that it has in its cache.").or("0"),
    key("cacheWrite", ANY_NUMBER, "Tokens that it puts into its cache.").or("0"),
];

const TOOL_CHOICE: Kind = Either(&[Map(&Any), Word(&["auto", "none", "any", "required"])]);

const PARAMS: &[Key] = &[
    key("temperature", ANY_NUMBER, "How free its words are."),
    key("maxTokens", FROM_ZERO, "How many tokens it writes at most."),
    key(
        "cacheRetention",
        Word(&["none", "short", "long"]),
        "How long the provider keeps what it has read.",
    ),
    key("serviceTier", Text, "The provider's word for how soon it answers."),
    key("service_tier", Text, "Another spelling of serviceTier.").advanced(),
    key("toolChoice", TOOL_CHOICE, "Whether it must use tools."),
    key("tool_choice", TOOL_CHOICE, "Another spelling of toolChoice.").advanced(),
    key(
        "metadata",
        Object(&[key("user_id", Text, "Who asks, for Anthropic.")]),
        "What the provider is told beside it.",
    ),
];

const COMPAT: &[Key] = &[
    key("supportsStore", Boolean, "Whether it knows store."),
    key("supportsDeveloperRole", Boolean, "Whether it knows the role developer."),
    key("supportsReasoningEffort", Boolean, "Whether it knows reasoning_effort."),
    key("supportsUsageInStreaming", Boolean, "Whether a stream may tell what was used."),
    key("supportsStrictMode", Boolean, "Whether it knows strict in tools."),
    key("supportsTools", Boolean, "Whether it uses tools."),
    key("supportsTemperature", Boolean, "Whether it knows temperature."),
    key("supportsPromptCacheKey", Boolean, "Whether it knows prompt_cache_key."),
    key(
        "maxTokensField",
        Word(&["max_completion_tokens", "max_tokens"]),
        "Its word for the most tokens.",
    ),
    key(
        "thinkingFormat",
        Word(&[
            "openai",
            "openrouter",
            "deepseek",
            "together",
            "zai",
            "qwen",
            "qwen-chat-template",
        ]),
        "How it is told to think.",
    ),
    key("supportedReasoningEfforts", TEXTS, "The levels of thinking that it knows."),
    key("reasoningEffortMap", TEXT_MAP, "Its own words for levels of thinking."),
    key("requiresToolResultName", Boolean, "Whether results of tools need a name."),
    key("requiresAssistantAfterToolResult", Boolean, "Whether an answer must follow a result."),
    key("requiresThinkingAsText", Boolean, "Whether thoughts are sent as text."),
    key(
        "requiresReasoningContentOnAssistantMessages",
        Boolean,
        "Whether answers carry reasoning_content.",
    ),
    key("requiresMistralToolIds", Boolean, "Whether ids of calls are like those of Mistral."),
    key("requiresStringContent", Boolean, "Whether content must be one text."),
    key("unsupportedToolSchemaKeywords", TEXTS, "Words of JSON schema that it does not take."),
    key("openRouterRouting", Map(&Any), "What OpenRouter is told of providers."),
    key("vercelGatewayRouting", Map(&Any), "What Vercel's gateway is told of providers."),
];

const REQUEST: &[Key] = &[
    key("headers", Map(&Secret), "Headers beside those in headers; they win."),
    key("auth", Object(REQUEST_AUTH), "What lets us in."),
    key(
        "proxy",
        Object(REQUEST_PROXY),
        "The proxy on the way; without it, that of the environment.",
    ),
    key("tls", Object(REQUEST_TLS), "Certificates."),
];

const REQUEST_AUTH: &[Key] = &[
    key(
        "mode",
        Word(&["provider-default", "authorization-bearer", "header"]),
        "Where the credential stands.",
    )
    .or("\"provider-default\"")
    .required(),
    key("token", Secret, "The token, in mode authorization-bearer."),
    key("headerName", Text, "The header, in mode header.").like("\"x-key\""),
    key("value", Secret, "What stands in that header."),
    key("prefix", Text, "What stands before it."),
];

const REQUEST_PROXY: &[Key] = &[
    key("mode", Word(&["env-proxy", "explicit-proxy"]), "Whether it is that of the environment.")
        .required(),
    key("url", Text, "Its address, in mode explicit-proxy.")
        .like("\"http://proxy.example.com:3128\""),
];

const REQUEST_TLS: &[Key] = &[
    key(
        "ca",
        Secret,
        "Certificates of authorities beside the system's: PEM, or the path of a file.",
    ),
    key("cert", Secret, "Our own certificate: PEM, or the path of a file."),
    key("key", Secret, "Its key: PEM, or the path of a file."),
    key(
        "insecureSkipVerify",
        Boolean,
        "Believe any certificate: whoever is on the way reads along.",
    )
    .or("false"),
];

pub(super) const AUTH: Key = key(
    "auth",
    Object(&[
        key(
            "order",
            Map(&TEXTS),
            "Which stored credentials of a provider are tried, and in which order.",
        ),
        key("profiles", Map(&Object(PROFILE)), "Stored credentials, by their ids."),
        key("cooldowns", Object(COOLDOWNS), "How long a credential rests that does not work."),
    ]),
    "Stored credentials of models.",
);

const PROFILE: &[Key] = &[
    key("provider", Text, "Whose credential it is.").like("\"anthropic\"").required(),
    key("mode", Word(&["api_key", "token", "oauth"]), "What it is.").required(),
];

const HOURS: Kind = Within(&FROM_ZERO_ON, 0.0, 8760.0);

const COOLDOWNS: &[Key] = &[
    key(
        "billingBackoffHours",
        HOURS,
        "Hours that a credential without credit rests; doubles each time.",
    )
    .or("5"),
    key("billingBackoffHoursByProvider", Map(&HOURS), "The same for one provider."),
    key("billingMaxHours", HOURS, "The longest such rest.").or("24"),
    key("failureWindowHours", HOURS, "After so many hours without failure, counting begins anew.")
        .or("24"),
];

pub(super) const SECRETS: Key = key(
    "secrets",
    Object(&[
        key("providers", Map(&Object(SECRET_PROVIDER)), "Where secrets are, by names of your own."),
        key(
            "defaults",
            Object(SECRET_DEFAULTS),
            "The provider that a reference without one means.",
        ),
    ]),
    "Where references to secrets lead.",
);

const SECRET_DEFAULTS: &[Key] = &[
    key("env", Text, "For references to variables.").or("\"default\""),
    key("file", Text, "For references to files.").or("\"default\""),
    key("exec", Text, "For references to programs.").or("\"default\""),
];

const SECRET_PROVIDER: &[Key] = &[
    key("source", Word(&["env", "file", "exec"]), "Variables, a file, or a program.").required(),
    key("allowlist", TEXTS, "The only variables (env)."),
    key("path", Text, "The file.").like("\"~/secrets.json\""),
    key("mode", Word(&["json", "singleValue"]), "Whether the file is JSON or one secret.")
        .or("\"json\""),
    key("maxBytes", Integer(1, 20_971_520), "Largest file.").or("1048576").advanced(),
    key("command", Text, "The program, an absolute path.").like("\"/usr/local/bin/secrets\""),
    key("args", TEXTS, "Its arguments."),
    key("env", TEXT_MAP, "Variables for it."),
    key("passEnv", TEXTS, "Variables of the gateway that it gets."),
    key("timeoutMs", Integer(1, 120_000), "How many milliseconds it may take.")
        .or("5000")
        .advanced(),
    key("noOutputTimeoutMs", Integer(1, 120_000), "How many milliseconds it may be silent.")
        .advanced(),
    key("maxOutputBytes", Integer(1, 20_971_520), "Most that it may print.")
        .or("1048576")
        .advanced(),
    key("jsonOnly", Boolean, "Whether it must print JSON.").or("true").advanced(),
    key("allowSymlinkCommand", Boolean, "Whether the program may be a symbolic link.")
        .or("false")
        .advanced(),
    key(
        "allowInsecurePath",
        Boolean,
        "Whether others may be able to read the file, or change the program.",
    )
    .or("false")
    .advanced(),
    key("trustedDirs", TEXTS, "The only directories for the program.")
        .like("[\"/usr/local/bin\"]")
        .advanced(),
];
