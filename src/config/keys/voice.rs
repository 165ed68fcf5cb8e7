//! The keys of `messages.tts`, `talk`, `diagnostics` and `logging`.

use super::Kind::{Boolean, Integer, Map, Number, Object, Secret, Text, Within, Word};
use super::gateway::TEXT_MAP;
use super::tools::ANY_NUMBER;
use super::{COUNT, FROM_ZERO, Key, TEXTS, key};

pub(super) const TTS: &[Key] = &[
    key(
        "auto",
        Word(&["off", "always", "inbound", "tagged"]),
        "What clients are told that speak answers.",
    )
    .or("\"off\""),
    key("enabled", Boolean, "Older form of auto: true is always.").advanced(),
    key("provider", Text, "Which of the services speaks; without it, one that is configured.")
        .like("\"openai\""),
    key("persona", Text, "Which of the personas speaks."),
    key("personas", Map(&Object(PERSONA)), "Voices with a name."),
    key("providers", Map(&Object(SPEECH)), "Services of speech, by id."),
    key(
        "maxTextLength",
        Within(&COUNT, 1.0, 100_000.0),
        "Longest text that is spoken, in characters.",
    )
    .or("4096"),
    key("timeoutMs", Integer(1000, 600_000), "How many milliseconds a service of speech may take.")
        .or("30000"),
    key("prefsPath", Text, "File in which the choices of people are kept.").advanced(),
];

const PERSONA: &[Key] = &[
    key("label", Text, "Its name for people."),
    key("description", Text, "What it is like."),
    key("provider", Text, "Which service speaks it."),
    key("fallbackPolicy", Text, "What happens when that service cannot.").advanced(),
    key("providers", Map(&Object(SPEECH)), "How each service speaks it."),
];

const SPEECH: &[Key] = &[
    key("apiKey", Secret, "The key of the service."),
    key("baseUrl", Secret, "Its address, when it is not the usual one.")
        .like("\"https://speech.example.com/v1\""),
    key("model", Text, "The model that speaks."),
    key("modelId", Text, "Another name of model.").advanced(),
    key("voice", Text, "The voice."),
    key("voiceId", Text, "Another name of voice.").advanced(),
    key("outputFormat", Text, "How the sound is written.").like("\"mp3\""),
    key("responseFormat", Text, "Another name of outputFormat.").advanced(),
    key("speed", ANY_NUMBER, "How fast it speaks; 1 is usual."),
    key("instructions", Text, "How to speak, in words."),
    key("languageCode", Text, "The language, in two letters.").like("\"en\""),
    key("applyTextNormalization", Text, "Whether numbers are spelt out: auto, on or off.")
        .advanced(),
    key("seed", FROM_ZERO, "The same number gives the same speech.").advanced(),
    key("voiceSettings", Object(TUNING), "How the voice is tuned.").advanced(),
    key("voiceAliases", TEXT_MAP, "Names of our own for voices.").advanced(),
    key("command", Text, "A program of this machine that speaks.").like("\"espeak\""),
    key("args", TEXTS, "Its arguments."),
    key("cwd", Text, "Where it runs.").advanced(),
    key("env", TEXT_MAP, "Variables for it.").advanced(),
    key("timeoutMs", FROM_ZERO, "How many milliseconds it may take.").advanced(),
];

const TUNING: &[Key] = &[
    key("stability", ANY_NUMBER, "From 0 to 1."),
    key("similarityBoost", ANY_NUMBER, "From 0 to 1."),
    key("style", ANY_NUMBER, "From 0 to 1."),
    key("useSpeakerBoost", Boolean, "Whether to be closer to the speaker."),
    key("speed", ANY_NUMBER, "From 0.5 to 2."),
];

pub(super) const TALK: Key = key(
    "talk",
    Object(&[
        key("provider", Text, "Which of the services speaks; without it, the only one."),
        key("providers", Map(&Object(SPEECH)), "Services of speech, by id."),
        key("speechLocale", Text, "The language that is spoken; handed on to programs.")
            .like("\"en-US\""),
        key(
            "interruptOnSpeech",
            Boolean,
            "Whether speech stops the speech of the agent; handed on to programs.",
        ),
        key(
            "silenceTimeoutMs",
            FROM_ZERO,
            "So many silent milliseconds end what is said; handed on to programs.",
        ),
    ]),
    "What programs need that talk with an agent.",
);

const LEVEL: super::Kind = Word(&["silent", "fatal", "error", "warn", "info", "debug", "trace"]);

pub(super) const DIAGNOSTICS: Key = key(
    "diagnostics",
    Object(&[
        key("enabled", Boolean, "Whether anybody is told of what the gateway does.").or("true"),
        key("otel", Object(OTEL), "A collector of OpenTelemetry that is told of spans."),
    ]),
    "Who is told of what the gateway does.",
)
.advanced();

const OTEL: &[Key] = &[
    key("enabled", Boolean, "Whether a collector is told.").or("false"),
    key("traces", Boolean, "Whether it is told of spans.").or("true"),
    key("endpoint", Text, "Its address; spans go to /v1/traces below it.")
        .or("\"http://localhost:4318\""),
    key("tracesEndpoint", Text, "The whole address for spans, in the place of endpoint.")
        .like("\"http://localhost:4318/v1/traces\""),
    key(
        "protocol",
        Word(&["http/protobuf", "grpc"]),
        "How it is told; grpc is not spoken, and nothing is sent.",
    )
    .or("\"http/protobuf\""),
    key("headers", Map(&Secret), "Headers to send, which are keys mostly."),
    key("serviceName", Text, "What the gateway calls itself.").or("\"openclaw-gateway\""),
    key("sampleRate", Number(0.0, 1.0), "The share of traces that are kept.").or("1"),
    key(
        "flushIntervalMs",
        Within(&FROM_ZERO, 1000.0, 300_000.0),
        "Milliseconds that spans wait for others.",
    )
    .or("5000"),
];

pub(super) const LOGGING: Key = key(
    "logging",
    Object(&[
        key("level", LEVEL, "What the log file gets.").or("\"info\""),
        key("consoleLevel", LEVEL, "What standard error gets.").or("\"info\""),
        key("file", Text, "The log file; without it there is one for each day.")
            .like("\"~/.openclaw/logs/gateway.log\""),
        key(
            "maxFileBytes",
            Within(&COUNT, 65_536.0, 1_099_511_627_776.0),
            "A larger log file is put away.",
        )
        .or("20971520")
        .advanced(),
    ]),
    "The log file, and how much is logged.",
);
