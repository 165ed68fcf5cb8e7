//! The keys of `channels` and `bindings`.

use super::Kind::{self, Boolean, Either, List, Map, Number, Object, Secret, Text, Within, Word};
use super::tools::ANY_NUMBER;
use super::{COUNT, FROM_ZERO, Key, key};

pub(super) const CHANNELS: Key = key(
    "channels",
    Object(&[
        key("telegram", Object(TELEGRAM), "A bot of Telegram."),
        key("webhook", Object(WEBHOOK), "Signed HTTP, in and out."),
    ]),
    "Chat services.",
);

/// The id of a person or group.
const PEER: Kind = Either(&[Text, ANY_NUMBER]);
pub(super) const PEERS: Kind = List(&PEER);
const GROUP_POLICY: Kind = Word(&["open", "disabled", "allowlist"]);

const ENABLED: Key = key("enabled", Boolean, "Whether it is started.").or("true");
const NAME: Key = key("name", Text, "Its name for people.");
const DM_POLICY: Key = key(
    "dmPolicy",
    Word(&["pairing", "allowlist", "open", "disabled"]),
    "Who is answered in direct messages.",
)
.or("\"pairing\"");
const ALLOW_FROM: Key =
    key("allowFrom", PEERS, "People who are answered; \"*\" is everybody.").like("[\"*\"]");
const GROUPS_ALLOWED: Key =
    key("groupPolicy", GROUP_POLICY, "Who is answered in groups.").or("\"allowlist\"");
const GROUP_ALLOW_FROM: Key =
    key("groupAllowFrom", PEERS, "People who are answered in groups; without it, allowFrom.");
const GROUPS: Key =
    key("groups", Map(&Object(GROUP)), "The only groups, by their ids; \"*\" is every other one.");
const SEND_TO: Key = key("sendTo", PEERS, "Where agents may write to of themselves.");
const DEFAULT_TO: Key = key("defaultTo", PEER, "Where messages go that name nobody.");
const CHUNK_MODE: Key =
    key("chunkMode", Word(&["length", "newline"]), "Where long answers are cut.").or("\"length\"");
const REPLY_TO: Key = key(
    "replyToMode",
    Word(&["off", "first", "all", "batched"]),
    "Which parts quote what they answer; batched is the same as first.",
)
.or("\"off\"");
const MEDIA_MAX: Key =
    key("mediaMaxMb", Within(&Number(0.0, f64::MAX), 0.0, 50.0), "Largest file in MiB.");
const RESPONSE_PREFIX: Key =
    key("responsePrefix", Text, "What stands before answers. Without it, that of messages.")
        .like("\"auto\"");
const TELEGRAM_MEDIA_MAX: Key = MEDIA_MAX.or("20");
const WEBHOOK_MEDIA_MAX: Key = MEDIA_MAX.or("5");
const DEFAULT_ACCOUNT: Key =
    key("defaultAccount", Text, "The account that is meant where none is named.")
        .or("\"default\"")
        .advanced();

const GROUP: &[Key] = &[
    key("enabled", Boolean, "Whether the group is answered."),
    key("requireMention", Boolean, "Whether only messages that name the agent are answered."),
    key("allowFrom", PEERS, "People who are answered there."),
    key("groupPolicy", GROUP_POLICY, "Who is answered there."),
    key("systemPrompt", Text, "What the agent is told beside everything else."),
];

const TELEGRAM_CHUNK: Key =
    key("textChunkLimit", Within(&COUNT, 64.0, 4096.0), "Longer answers are cut.")
        .or("4000")
        .advanced();
const BOT_TOKEN: Key = key("botToken", Secret, "The bot's token.");
const API_ROOT: Key =
    key("apiRoot", Text, "Address of the Bot API.").or("\"https://api.telegram.org\"").advanced();
const STREAMING: Key = key(
    "streaming",
    Either(&[
        Boolean,
        Text,
        Object(&[key("mode", Text, "off, or how an answer is shown while it is written.")]),
    ]),
    "Whether an answer is shown while it is written.",
);
const LINK_PREVIEW: Key =
    key("linkPreview", Boolean, "Whether pages that a message names are shown under it.")
        .or("true")
        .advanced();
const ACK_REACTION: Key = key(
    "ackReaction",
    Text,
    "The reaction to a message that is being answered; \"\" is none. Without it, that of messages.",
)
.like("\"👀\"")
.advanced();
const WEBHOOK_URL: Key =
    key("webhookUrl", Text, "Where Telegram sends messages, instead of being asked.")
        .like("\"https://example.com/telegram-webhook\"")
        .advanced();
const WEBHOOK_SECRET: Key =
    key("webhookSecret", Secret, "What Telegram proves itself with there.").advanced();
const WEBHOOK_PATH: Key = key("webhookPath", Text, "The path of that address at this gateway.")
    .like("\"/telegram-webhook\"")
    .advanced();

const HISTORY_LIMIT: Key = key(
    "historyLimit",
    FROM_ZERO,
    "Most messages of a group that the agent is told before one to it.",
);

const TELEGRAM: &[Key] = &[
    ENABLED,
    NAME,
    BOT_TOKEN,
    DM_POLICY,
    ALLOW_FROM,
    GROUPS_ALLOWED,
    GROUP_ALLOW_FROM,
    GROUPS,
    SEND_TO,
    DEFAULT_TO,
    STREAMING,
    LINK_PREVIEW,
    ACK_REACTION,
    REPLY_TO,
    CHUNK_MODE,
    TELEGRAM_CHUNK,
    HISTORY_LIMIT,
    TELEGRAM_MEDIA_MAX,
    RESPONSE_PREFIX,
    API_ROOT,
    WEBHOOK_URL,
    WEBHOOK_SECRET,
    WEBHOOK_PATH,
    DEFAULT_ACCOUNT,
    key("accounts", Map(&Object(TELEGRAM_ACCOUNT)), "More bots, each with its own token.")
        .advanced(),
];

const TELEGRAM_ACCOUNT: &[Key] = &[
    ENABLED,
    NAME,
    BOT_TOKEN,
    DM_POLICY,
    ALLOW_FROM,
    GROUPS_ALLOWED,
    GROUP_ALLOW_FROM,
    GROUPS,
    SEND_TO,
    DEFAULT_TO,
    STREAMING,
    LINK_PREVIEW,
    ACK_REACTION,
    REPLY_TO,
    CHUNK_MODE,
    TELEGRAM_CHUNK,
    HISTORY_LIMIT,
    TELEGRAM_MEDIA_MAX,
    RESPONSE_PREFIX,
    API_ROOT,
    WEBHOOK_URL,
    WEBHOOK_SECRET,
    WEBHOOK_PATH,
];

const WEBHOOK_CHUNK: Key =
    key("textChunkLimit", Within(&COUNT, 64.0, 1_000_000.0), "Longer answers are cut.")
        .or("50000")
        .advanced();
const SECRET: Key = key("secret", Secret, "What both sides sign with, 16 characters at least.")
    .like("\"sixteen-letters-and-more\"");
const URL: Key =
    key("url", Text, "Where answers are sent.").like("\"https://example.com/answers\"");
const PATH: Key =
    key("path", Text, "Where messages are taken.").like("\"/webhooks/default\"").advanced();
const REPLAY: Key = key(
    "replayWindowSeconds",
    Within(&FROM_ZERO, 1.0, 3600.0),
    "For how many seconds a signature is good.",
)
.or("300")
.advanced();

const WEBHOOK: &[Key] = &[
    ENABLED,
    NAME,
    SECRET,
    URL,
    PATH,
    REPLAY,
    DM_POLICY,
    ALLOW_FROM,
    GROUPS_ALLOWED,
    GROUP_ALLOW_FROM,
    GROUPS,
    SEND_TO,
    DEFAULT_TO,
    REPLY_TO,
    CHUNK_MODE,
    WEBHOOK_CHUNK,
    WEBHOOK_MEDIA_MAX,
    RESPONSE_PREFIX,
    DEFAULT_ACCOUNT,
    key("accounts", Map(&Object(WEBHOOK_ACCOUNT)), "More of them, each with its own secret.")
        .advanced(),
];

const WEBHOOK_ACCOUNT: &[Key] = &[
    ENABLED,
    NAME,
    SECRET,
    URL,
    PATH,
    REPLAY,
    DM_POLICY,
    ALLOW_FROM,
    GROUPS_ALLOWED,
    GROUP_ALLOW_FROM,
    GROUPS,
    SEND_TO,
    DEFAULT_TO,
    REPLY_TO,
    CHUNK_MODE,
    WEBHOOK_CHUNK,
    WEBHOOK_MEDIA_MAX,
    RESPONSE_PREFIX,
];

pub(super) const BINDINGS: Key = key(
    "bindings",
    List(&Object(&[
        key("agentId", Text, "The agent that answers.").like("\"main\"").required(),
        key("match", Object(MATCH), "What it answers.").required(),
    ])),
    "Which agent answers which chats; the first that fits counts.",
);

const MATCH: &[Key] = &[
    key("channel", Text, "The channel.").like("\"telegram\"").required(),
    key("accountId", Text, "Of which account: without it the default one, \"*\" any."),
    key("peer", Object(BOUND), "One person, group or room."),
];

const BOUND: &[Key] = &[
    key("kind", Text, "direct, group or channel.").like("\"direct\"").required(),
    key("id", PEER, "Its id, or \"*\".").required(),
];
