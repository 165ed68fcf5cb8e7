//! The keys of `session`, `messages`, `commands`, `cron`, `skills`, `mcp`, `env`.

use super::Kind::{
    self, Any, Boolean, Integer, List, Map, Object, Open, Quantity, QuantityOrFalse, Secret, Text,
    Within, Word,
};
use super::channels::PEERS;
use super::gateway::TEXT_MAP;
use super::tools::{ANY_NUMBER, SCALAR};
use super::{COUNT, FROM_ZERO, Key, TEXTS, key, voice};

pub(super) const SESSION: Key =
    key("session", Object(SESSION_KEYS), "How conversations are keyed, kept and begun anew.");

pub(super) const TYPING_MODE: Key = key(
    "typingMode",
    Word(&["never", "instant", "thinking", "message"]),
    "When chats show that the agent is typing.",
);

const SESSION_KEYS: &[Key] = &[
    key("mainKey", Text, "Name of an agent's main session.").or("\"main\"").advanced(),
    key("scope", Word(&["per-sender", "global"]), "Whether everybody shares one session.")
        .or("\"per-sender\""),
    key(
        "dmScope",
        Word(&["main", "per-peer", "per-channel-peer", "per-account-channel-peer"]),
        "Which direct messages of channels share a session.",
    )
    .or("\"main\""),
    TYPING_MODE,
    key(
        "identityLinks",
        Map(&TEXTS),
        "People who write from several places: a name, and channel:peer for each.",
    ),
    key(
        "transcript",
        Object(&[key("format", Word(&["openclaw", "messages"]), "Format of new transcripts.")
            .or("\"openclaw\"")]),
        "Transcripts.",
    )
    .advanced(),
    key("reset", Object(RESET), "When a session begins anew by itself."),
    key("resetByType", Object(RESET_BY_TYPE), "The same for kinds of sessions."),
    key("resetByChannel", Map(&Object(RESET)), "The same for channels."),
    key("idleMinutes", COUNT, "Older name of reset.idleMinutes.").advanced(),
    key(
        "maintenance",
        Object(MAINTENANCE),
        "What becomes of old sessions; nothing goes unless a bound is written.",
    ),
    key(
        "store",
        Text,
        "Where OpenClaw has its sessions.json; {agentId} is the agent. Only taken over from there.",
    )
    .advanced(),
];

const RESET: &[Key] = &[
    key("mode", Word(&["daily", "idle"]), "Once a day, or after a time without messages.")
        .or("\"daily\""),
    key("atHour", Integer(0, 23), "Hour of the daily reset, local time.").or("4"),
    key(
        "idleMinutes",
        Within(&FROM_ZERO, 0.0, 4_294_967_295.0),
        "Stale after so many minutes without a message; 0 is never.",
    ),
];

const RESET_BY_TYPE: &[Key] = &[
    key("direct", Object(RESET), "Direct messages."),
    key("dm", Object(RESET), "Older name of direct.").advanced(),
    key("group", Object(RESET), "Groups."),
    key("thread", Object(RESET), "Threads."),
];

const MAINTENANCE: &[Key] = &[
    key(
        "mode",
        Word(&["warn", "enforce"]),
        "Whether what is beyond the bounds goes, or a log line says that it would.",
    )
    .or("\"enforce\""),
    key(
        "pruneAfter",
        Quantity,
        "A session that did not change for so long is put away; a bare number counts days.",
    )
    .like("\"30d\""),
    key("pruneDays", Within(&COUNT, 1.0, 36_500.0), "Older form of pruneAfter.").advanced(),
    key("maxEntries", COUNT, "Most sessions of an agent; the oldest are put away."),
    key(
        "resetArchiveRetention",
        QuantityOrFalse,
        "What was put away is deleted after so long; a bare number counts days.",
    )
    .like("\"30d\""),
    key("maxDiskBytes", QuantityOrFalse, "Most bytes in an agent's sessions folder.")
        .like("\"500mb\""),
    key(
        "highWaterBytes",
        Quantity,
        "What may be left when there was more; without it, four fifths.",
    )
    .like("\"400mb\"")
    .advanced(),
    key(
        "rotateBytes",
        Quantity,
        "Accepted and without meaning: there is no sessions.json to rotate.",
    )
    .like("\"10mb\"")
    .advanced(),
];

pub(super) const MESSAGES: Key = key(
    "messages",
    Object(&[
        key("queue", Object(QUEUE), "What happens to a message while a run is active."),
        key(
            "groupChat",
            Object(&[key(
                "historyLimit",
                FROM_ZERO,
                "Most messages of a group that the agent is told before one to it.",
            )
            .or("50")]),
            "Messages in groups.",
        ),
        key("tts", Object(voice::TTS), "How answers are spoken."),
        key(
            "responsePrefix",
            Text,
            "What stands before answers in chats; auto is the name of the agent in brackets.",
        )
        .like("\"[{identity.name} {model}]\""),
        key("ackReaction", Text, "The reaction to a message that is being answered, on Telegram.")
            .like("\"👀\""),
        key(
            "ackReactionScope",
            Word(&["group-mentions", "group-all", "direct", "all", "off", "none"]),
            "Which messages get it.",
        )
        .or("\"group-mentions\""),
    ]),
    "What happens to messages.",
);

const MODES: Kind =
    Word(&["steer", "queue", "followup", "collect", "steer-backlog", "steer+backlog", "interrupt"]);

const QUEUE: &[Key] = &[
    key("mode", MODES, "What happens to a message while a run is active.").or("\"steer\""),
    key("byChannel", Map(&MODES), "The same for one channel; chats over the gateway are webchat."),
    key(
        "debounceMs",
        Within(&FROM_ZERO, 0.0, 86_400_000.0),
        "So many milliseconds it must be quiet before collected messages are answered.",
    )
    .or("500"),
    key(
        "debounceMsByChannel",
        Map(&Within(&FROM_ZERO, 0.0, 86_400_000.0)),
        "The same for one channel; chats over the gateway are webchat.",
    ),
    key("cap", COUNT, "Most messages of a session that wait for runs of their own.").or("20"),
    key("drop", Word(&["old", "new", "summarize"]), "Which message gives way beyond that.")
        .or("\"summarize\""),
];

pub(super) const COMMANDS: Key = key(
    "commands",
    Object(&[
        key("config", Boolean, "Whether admins may use /config in a chat.").or("false"),
        key("restart", Boolean, "Whether admins may use /restart in a chat.").or("true"),
        key(
            "ownerAllowFrom",
            PEERS,
            "People, as telegram:<id>, who may do by a chat what an admin may; an id alone is of Telegram.",
        ),
    ]),
    "Commands in chats.",
);

pub(super) const CRON: Key = key("cron", Object(CRON_KEYS), "Jobs that run by themselves.");

const CRON_KEYS: &[Key] = &[
    key("enabled", Boolean, "Whether jobs run.").or("true"),
    key("maxConcurrentRuns", COUNT, "Runs of jobs at a time.").or("1"),
    key(
        "missed",
        Quantity,
        "What becomes of instants that passed while nobody could run them: run, skip, or a time.",
    )
    .or("\"1h\""),
    key(
        "sessionRetention",
        QuantityOrFalse,
        "Sessions of single runs go after so long; a bare number counts hours.",
    )
    .or("\"24h\""),
    key(
        "runLog",
        Object(&[key(
            "keepLines",
            Within(&COUNT, 1.0, 100_000.0),
            "How many runs of a job are remembered.",
        )
        .or("2000")]),
        "The log of runs.",
    ),
    key("webhookToken", Secret, "What web servers get as a bearer token."),
    key("failureAlert", Object(FAILURE_ALERT), "Whether somebody hears of jobs that fail."),
    key(
        "failureDestination",
        Object(FAILURE_DESTINATION),
        "Where each failure of a job is told that names no place of its own.",
    ),
    key("retry", Object(RETRY), "When a job of a single instant that failed is tried again."),
    key("store", Text, "Where OpenClaw has its jobs.json. Only taken over from there.").advanced(),
];

const RETRY: &[Key] = &[
    key("maxAttempts", Integer(0, 100), "So often in a row.").or("3"),
    key(
        "backoffMs",
        List(&Within(&FROM_ZERO, 0.0, 86_400_000.0)),
        "After so many milliseconds each time; the last one holds for all after it.",
    )
    .or("[30000, 60000, 300000]"),
    key(
        "retryOn",
        List(&Word(&["rate_limit", "overloaded", "network", "timeout", "server_error"])),
        "After which failures.",
    )
    .or("[\"rate_limit\", \"overloaded\", \"network\", \"timeout\", \"server_error\"]"),
];

const FAILURE_ALERT: &[Key] = &[
    key("enabled", Boolean, "Whether somebody hears of it.").or("false"),
    key("after", COUNT, "After so many failures in a row.").or("2"),
    key("cooldownMs", FROM_ZERO, "Not again for so many milliseconds.").or("3600000"),
    key("includeSkipped", Boolean, "Whether skipped runs count as failures.").or("false"),
    key("mode", Word(&["announce", "webhook"]), "How it is told.").or("\"announce\""),
];

const FAILURE_DESTINATION: &[Key] = &[
    key("mode", Word(&["announce", "webhook"]), "How it is told.").or("\"announce\""),
    key("channel", Text, "A channel, webchat, or last: where the session of the job last spoke."),
    key("to", Text, "A chat of the channel, a session, or the address of a web server."),
    key("accountId", Text, "Which account of the channel sends."),
];

pub(super) const SKILLS: Key = key("skills", Object(SKILLS_KEYS), "What agents have learned.");

const SKILLS_KEYS: &[Key] = &[
    key("entries", Map(&Object(SKILL)), "Settings of skills, by their keys."),
    key("allowBundled", TEXTS, "Which skills of an installed OpenClaw may be used."),
    key(
        "load",
        Object(&[key("extraDirs", TEXTS, "More folders of skills, weaker than all others.")
            .like("[\"~/skills\"]")]),
        "Where skills are.",
    ),
    key("limits", Object(SKILL_LIMITS), "Limits of skills.").advanced(),
];

const SKILL: &[Key] = &[
    key("enabled", Boolean, "Whether the skill may be used."),
    key("apiKey", Secret, "The key that the skill needs."),
    key("env", TEXT_MAP, "Variables that the skill needs."),
    key("config", Map(&Any), "What the skill itself reads."),
];

const SKILL_LIMITS: &[Key] = &[
    key("maxSkillsInPrompt", FROM_ZERO, "Most skills that the model is told of.").or("150"),
    key("maxSkillsPromptChars", FROM_ZERO, "Most characters of the list of skills in the prompt.")
        .or("18000"),
    key(
        "maxSkillFileBytes",
        Within(&FROM_ZERO, 0.0, 4_194_304.0),
        "A larger SKILL.md is passed over.",
    )
    .or("256000"),
];

pub(super) const MCP: Key = key(
    "mcp",
    Object(&[key(
        "servers",
        Map(&Object(SERVER)),
        "The servers, by the names that their tools begin with.",
    )]),
    "MCP servers, which bring tools along.",
);

const SERVER: &[Key] = &[
    key("enabled", Boolean, "Whether the server is used.").or("true"),
    key("command", Text, "The program to start.").like("\"npx\""),
    key("args", TEXTS, "Its arguments."),
    key("env", Map(&SCALAR), "Variables for it."),
    key("cwd", Text, "Where it runs.").like("\"~/papers\""),
    key("workingDirectory", Text, "Another name of cwd.").like("\"~/papers\"").advanced(),
    key("url", Secret, "Address of a server that listens.").like("\"https://mcp.example.com/mcp\""),
    key("headers", Map(&SCALAR), "Headers that it gets."),
    key("transport", Text, "How it speaks: stdio, http or streamable-http; it need not be said.")
        .like("\"streamable-http\"")
        .advanced(),
    key("type", Text, "Another name of transport.").like("\"http\"").advanced(),
    key("connectTimeout", ANY_NUMBER, "How many seconds it may take to be there.").or("30"),
    key("connectionTimeoutMs", FROM_ZERO, "The same in milliseconds.").advanced(),
    key("timeout", ANY_NUMBER, "How many seconds a call may take.").or("60"),
    key("requestTimeoutMs", FROM_ZERO, "The same in milliseconds.").advanced(),
    key("toolFilter", Object(TOOL_FILTER), "Which of its tools are taken."),
];

const TOOL_FILTER: &[Key] = &[
    key("include", TEXTS, "Only these; * stands for anything.").like("[\"read_*\"]"),
    key("exclude", TEXTS, "Not these.").like("[\"*_all\"]"),
];

pub(super) const ENV: Key = key(
    "env",
    Open(
        &[key(
            "vars",
            TEXT_MAP,
            "Variables that hold where the environment has none of that name.",
        )],
        &Text,
    ),
    "Variables for the gateway, in vars or right here; the environment wins.",
);
