//! The keys of `agents`.

use super::Kind::{
    self, Any, Boolean, Either, Integer, List, Map, Number, Object, Quantity, Secret, Text, Within,
    Word,
};
use super::gateway::TEXT_MAP;
use super::models::FROM_ZERO_ON;
use super::others::TYPING_MODE;
use super::{COUNT, FROM_ZERO, Key, TEXTS, key, tools};
use crate::config::agents;

pub(super) const AGENTS: Key = key(
    "agents",
    Object(&[
        key(
            "defaults",
            Object(DEFAULTS),
            "What holds for every agent that does not say otherwise.",
        ),
        key("list", List(&Object(AGENT)), "The agents; without any there is one, main."),
    ]),
    "Who answers: models, workspaces, limits, and the agents themselves.",
);

/// A model, or a model and what to ask when it fails.
const MODEL: Kind = Either(&[
    Object(&[
        key("primary", Text, "The model, as provider/model."),
        key("fallbacks", TEXTS, "Models to ask when it fails, in this order."),
    ]),
    Text,
]);

/// Characters or tokens, far more than any model reads.
const CHARS: Kind = Within(&FROM_ZERO, 0.0, 100_000_000.0);
const LEVELS: Kind = Word(&["off", "minimal", "low", "medium", "high", "xhigh", "adaptive", "max"]);
const VERBOSE: Kind = Word(&agents::VERBOSE);
const REASONING: Kind = Word(&agents::REASONING);

const DEFAULTS: &[Key] = &[
    key("workspace", Text, "Directory of the default agent.").like("\"~/.openclaw/workspace\""),
    key("skipBootstrap", Boolean, "Make no files in workspaces.").or("false"),
    key("bootstrapMaxChars", COUNT, "Most characters of one workspace file in the prompt.")
        .or("12000")
        .advanced(),
    key("bootstrapTotalMaxChars", COUNT, "Most characters of all of them.").or("60000").advanced(),
    key(
        "bootstrapPromptTruncationWarning",
        Word(&["off", "once", "always"]),
        "Whether the model is told which files are not shown whole.",
    )
    .or("\"once\"")
    .advanced(),
    key("userTimezone", Text, "Where the user lives.").like("\"Europe/Berlin\""),
    key(
        "envelopeTimestamp",
        Word(&["on", "off"]),
        "Whether the model is told before each message of a person when it was said.",
    )
    .or("\"on\""),
    key("envelopeTimezone", Text, "Of which time zone that is: user, local, utc, or a name.")
        .like("\"Europe/Berlin\""),
    key("systemPromptOverride", Text, "A prompt in the place of the one that is built.").advanced(),
    key("skills", TEXTS, "The only skills that agents may have."),
    key(
        "model",
        MODEL,
        "The model that answers, as provider/model, and what to ask when it fails.",
    ),
    key("imageModel", MODEL, "The model that describes pictures."),
    key(
        "models",
        Map(&Object(CHOICE)),
        "Models that may be chosen, as provider/model; without it, any.",
    ),
    key(
        "thinkingDefault",
        LEVELS,
        "Thinking level of sessions that have none of their own; without it that of the model.",
    ),
    key(
        "verboseDefault",
        VERBOSE,
        "How much of tool calls channels show, where a session does not say.",
    ),
    key(
        "reasoningDefault",
        REASONING,
        "Whether channels show thoughts, where a session does not say.",
    ),
    key("timeoutSeconds", COUNT, "A run is stopped after so many seconds.").or("172800"),
    TYPING_MODE,
    key("mediaMaxMb", FROM_ZERO_ON, "Largest attachment, in MiB.").or("20"),
    key("maxConcurrent", COUNT, "Runs at a time, over all sessions.").or("32"),
    key("compaction", Object(COMPACTION), "How long conversations are made shorter."),
    key(
        "contextPruning",
        Object(PRUNING),
        "How old results of tools give way in what the model reads.",
    ),
    key("subagents", Object(SUBAGENTS), "Limits of sub-agents."),
    key(
        "heartbeat",
        Object(HEARTBEAT),
        "How often an agent is asked whether something is to be done.",
    ),
    key("memorySearch", Object(MEMORY_SEARCH), "Who makes vectors of texts."),
    key("sandbox", Object(SANDBOX), "Whose commands are confined."),
    key("cliBackends", Object(CLI_BACKENDS), "Programs that answer in the place of a provider.")
        .advanced(),
];

const CHOICE: &[Key] = &[
    key("alias", Text, "A shorter name for the model.").like("\"fast\""),
    key(
        "params",
        Map(&Any),
        "What holds for this model; of this `thinking` is read, its thinking level.",
    )
    .like("{\"thinking\": \"high\"}"),
];

const COMPACTION: &[Key] = &[
    key("keepRecentTokens", COUNT, "At least so many tokens of the end stay as they are.")
        .or("20000"),
    key("reserveTokens", FROM_ZERO, "Compact when fewer tokens than these are left.").or("20000"),
    key("reserveTokensFloor", FROM_ZERO, "Least of them, whatever reserveTokens says.").advanced(),
    key("memoryFlush", Object(MEMORY_FLUSH), "What an agent writes into its memory before that."),
];

const MEMORY_FLUSH: &[Key] = &[
    key("enabled", Boolean, "Whether it is asked for notes.").or("true"),
    key("softThresholdTokens", CHARS, "It is asked when a compaction is so many tokens away.")
        .or("4000"),
    key("prompt", Text, "What it is told in the place of the usual words.").advanced(),
    key("systemPrompt", Text, "What its system prompt says of it in their place.").advanced(),
];

const PRUNING: &[Key] = &[
    key(
        "mode",
        Word(&["off", "cache-ttl"]),
        "With cache-ttl, old results are shortened once the provider has forgotten its cache.",
    )
    .or("\"off\""),
    key("ttl", Quantity, "How long after the last call; a bare number counts minutes.")
        .or("\"5m\""),
    key("keepLastAssistants", CHARS, "Results after so many of the last answers stay whole.")
        .or("3"),
    key(
        "softTrimRatio",
        Number(0.0, 1.0),
        "From this part of the context on, long results are shortened.",
    )
    .or("0.3"),
    key("hardClearRatio", Number(0.0, 1.0), "From this part on, the oldest results give way.")
        .or("0.5"),
    key("minPrunableToolChars", CHARS, "With fewer characters of results nothing gives way.")
        .or("50000"),
    key("softTrim", Object(SOFT_TRIM), "How results are shortened."),
    key("hardClear", Object(HARD_CLEAR), "What stands in the place of results that give way."),
    key("tools", Object(tools::RULES), "Results of which tools."),
];

const SOFT_TRIM: &[Key] = &[
    key("maxChars", CHARS, "Longer results are shortened.").or("4000"),
    key("headChars", CHARS, "So much of the beginning stays.").or("1500"),
    key("tailChars", CHARS, "So much of the end stays.").or("1500"),
];

const HARD_CLEAR: &[Key] = &[
    key("enabled", Boolean, "Whether results give way at all.").or("true"),
    key("placeholder", Text, "What stands in their place."),
];

const SUBAGENTS: &[Key] = &[
    key(
        "maxSpawnDepth",
        Integer(1, 5),
        "How deep sub-agents nest; with 1 they have none of their own.",
    )
    .or("1"),
    key("maxChildrenPerAgent", Integer(1, 1000), "Active sub-agents of one session.").or("5"),
    key(
        "maxConcurrent",
        Within(&COUNT, 1.0, 1000.0),
        "Sub-agents that run at a time, over all sessions.",
    )
    .or("8"),
    key(
        "runTimeoutSeconds",
        Within(&FROM_ZERO, 0.0, 31_536_000.0),
        "Their runs are stopped after so many seconds; 0 leaves it to timeoutSeconds.",
    )
    .or("0"),
    key(
        "archiveAfterMinutes",
        Within(&FROM_ZERO, 0.0, 525_600.0),
        "Their sessions go so many minutes after their end; 0 keeps them.",
    )
    .or("60"),
    key("allowAgents", TEXTS, "Agents that each may have as sub-agents, beside itself."),
    key("model", MODEL, "Their model."),
    key("thinking", Text, "Their thinking level."),
];

const HEARTBEAT: &[Key] = &[
    key("every", Quantity, "How often; a bare number counts minutes, 0m is never.").or("\"30m\""),
    key("prompt", Text, "What the agent is asked."),
    key("target", Text, "Where the answer goes: none, last, or a channel.").or("\"none\""),
    key("to", Text, "Whom in that channel."),
    key("model", Text, "The model that answers."),
    key("session", Text, "The session in which it is asked."),
    key(
        "ackMaxChars",
        Within(&FROM_ZERO, 0.0, 10_000.0),
        "An acknowledgement with so much beside it is silent.",
    )
    .or("300")
    .advanced(),
    key("activeHours", Object(ACTIVE_HOURS), "When it is asked at all."),
];

const ACTIVE_HOURS: &[Key] = &[
    key("start", Text, "From this time of the day.").like("\"08:00\""),
    key("end", Text, "Until this time of the day.").like("\"22:00\""),
    key("timezone", Text, "Of which time zone: user, local, or a name.").like("\"Europe/Berlin\""),
];

const MEMORY_SEARCH: &[Key] = &[
    key("enabled", Boolean, "Whether anybody is asked for vectors.").or("true"),
    key(
        "provider",
        Text,
        "Who is asked: openai, gemini, voyage, mistral, deepinfra, ollama, lmstudio, a provider \
         of models.providers, or auto, who there is a key for.",
    )
    .or("\"auto\""),
    key("model", Text, "The provider's name of the model.").like("\"text-embedding-3-small\""),
    key(
        "outputDimensionality",
        Within(&COUNT, 1.0, 65_536.0),
        "Numbers that a vector has, where a request does not say.",
    ),
    key("remote", Object(REMOTE), "How the provider is reached, where it is not as usual."),
];

const REMOTE: &[Key] = &[
    key("baseUrl", Secret, "Where its API begins.").like("\"https://api.example.com/v1\""),
    key("apiKey", Secret, "Its key."),
    key("headers", Map(&Secret), "Headers beside those of the provider; they win."),
];

const SANDBOX: &[Key] = &[
    key("mode", Word(&["off", "non-main", "all"]), "Whose commands are confined.").or("\"off\""),
    key(
        "workspaceAccess",
        Word(&["none", "ro", "rw"]),
        "Whether those may write to the workspace.",
    )
    .or("\"none\""),
];

const CLI_BACKENDS: &[Key] = &[key(
    "claude-cli",
    Object(CLAUDE_CLI),
    "An installed Claude Code CLI with a login of its own.",
)];

const CLAUDE_CLI: &[Key] = &[
    key("command", Text, "Path of the program, or its name in PATH.").or("\"claude\""),
    key("args", TEXTS, "Arguments beside the gateway's own."),
    key("env", TEXT_MAP, "Variables to set."),
    key("clearEnv", TEXTS, "Variables of the gateway that it shall not get."),
    key("modelAliases", TEXT_MAP, "Its own words for models."),
];

const AGENT: &[Key] = &[
    key("id", Text, "Its id: small letters, digits, - and _.").like("\"writer\"").required(),
    key("default", Boolean, "Whether it answers where no agent is named."),
    key("name", Text, "Its name."),
    key("workspace", Text, "Its directory.").like("\"~/writing\""),
    key(
        "model",
        MODEL,
        "The model that answers, as provider/model, and what to ask when it fails.",
    ),
    key("thinkingDefault", LEVELS, "Thinking level of its sessions that have none of their own."),
    key("verboseDefault", VERBOSE, "How much of its tool calls channels show."),
    key("reasoningDefault", REASONING, "Whether channels show its thoughts."),
    key("identity", Object(IDENTITY), "How it shows itself."),
    key("tools", Object(tools::OF_AGENT), "Which tools it may use."),
    key("subagents", Object(SUBAGENT_CHOICE), "Its sub-agents."),
    key("skills", TEXTS, "The only skills that it may have, in the place of the general list."),
    key("skillsLimits", Object(SKILLS_LIMITS), "Limits of its skills.").advanced(),
    key("systemPromptOverride", Text, "A prompt in the place of the one that is built.").advanced(),
    key(
        "heartbeat",
        Object(HEARTBEAT),
        "How often it is asked whether something is to be done; then only agents that have this are asked.",
    ),
    key("memorySearch", Object(MEMORY_SEARCH), "Who makes vectors of texts for it."),
    key("sandbox", Object(SANDBOX), "Whether its commands are confined."),
];

const IDENTITY: &[Key] = &[
    key("name", Text, "Its name."),
    key("emoji", Text, "An emoji that stands for it."),
    key("avatar", Text, "A picture: a path in the workspace, or an address.")
        .like("\"avatars/me.png\""),
    key("theme", Text, "What it is like, in a few words."),
];

const SUBAGENT_CHOICE: &[Key] = &[
    key("allowAgents", TEXTS, "Agents that it may have as sub-agents, beside itself."),
    key("model", MODEL, "Their model."),
    key("thinking", Text, "Their thinking level."),
];

const SKILLS_LIMITS: &[Key] = &[key(
    "maxSkillsPromptChars",
    FROM_ZERO,
    "Most characters of the list of skills in its prompt.",
)];
