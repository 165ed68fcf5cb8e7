//! The keys of `hooks`.

use super::Kind::{
    Any, Boolean, Either, List, Map, Number, Object, Open, Secret, Text, Within, Word,
};
use super::{COUNT, Key, Kind, TEXTS, key};

pub(super) const HOOKS: Key =
    key("hooks", Object(HOOKS_KEYS), "Requests of other programs, see docs/webhooks.md.");

const HOOKS_KEYS: &[Key] = &[
    key("enabled", Boolean, "Whether other programs may tell or ask agents something by HTTP.")
        .or("false"),
    key("path", Text, "Below which path.").or("\"/hooks\""),
    key("token", Secret, "What proves who sent a request; not the one of the gateway."),
    key("maxBodyBytes", Within(&COUNT, 1.0, 16_777_216.0), "Most bytes of a request.")
        .or("262144")
        .advanced(),
    key("allowedAgentIds", TEXTS, "Agents that a request may name; * is all.").or("[\"*\"]"),
    key("defaultSessionKey", Text, "The session of requests that name none."),
    key("allowRequestSessionKey", Boolean, "Whether a request may name its session.").or("false"),
    key("allowedSessionKeyPrefixes", TEXTS, "What the sessions of requests begin with."),
    key("mappings", List(&Object(MAPPING)), "What requests to other paths come to."),
    key("presets", TEXTS, "Mappings that need not be written: gmail.").like("[\"gmail\"]"),
    key(
        "gmail",
        Open(
            &[
                key(
                    "allowUnsafeExternalContent",
                    Boolean,
                    "Whether mails are not marked as coming from outside.",
                )
                .or("false"),
                key("model", Text, "The model that reads mails."),
                key("thinking", Text, "How hard it thinks."),
            ],
            &Any,
        ),
        "How the preset gmail reads mails.",
    )
    .advanced(),
    key("transformsDir", Text, "Accepted and without meaning: no programs are run.").advanced(),
    key("internal", Open(INTERNAL, &Any), "What is done when something happens in the gateway.")
        .advanced(),
];

const INTERNAL: &[Key] = &[
    key("enabled", Boolean, "Whether all of it is done that has no entry, or none."),
    key(
        "entries",
        Object(&[key(
            "session-memory",
            Open(
                &[
                    key("enabled", Boolean, "Whether it is done."),
                    key("messages", COUNT, "How many messages are kept.").or("15"),
                ],
                &Any,
            ),
            "What was said last in a session becomes a file of its agent's memory when the \
             session begins anew.",
        )]),
        "By their names; others than session-memory are programs of OpenClaw and mean nothing here.",
    ),
];

const ACTION: Kind = Word(&["wake", "agent"]);
const WAKE_MODE: Kind = Word(&["now", "next-heartbeat"]);
const SECONDS: Kind = Within(&COUNT, 1.0, 604_800.0);
const SCALAR: Kind = Either(&[Text, Number(f64::MIN, f64::MAX), Boolean]);

const MAPPING: &[Key] = &[
    key("id", Text, "A name for people."),
    key(
        "match",
        Object(&[
            key("path", Text, "Only requests to this path below hooks.path."),
            key("source", Text, "Only requests whose body has this source."),
        ]),
        "Which requests are meant.",
    ),
    key("token", Secret, "What proves who sent them, in the place of hooks.token."),
    key("sessionKeyPrefix", Text, "What their sessions begin with.").like("\"hook:ci:\""),
    key("action", ACTION, "Whether the main session is told or an agent asked.").or("\"agent\""),
    key("wakeMode", WAKE_MODE, "Whether the main session answers at once.").or("\"now\""),
    key("name", Text, "What a run is called; may have {{places}}."),
    key("agentId", Text, "Which agent; the default one without it."),
    key("sessionKey", Text, "In which session; may have {{places}}."),
    key("messageTemplate", Text, "What the agent is asked; may have {{places}}."),
    key("textTemplate", Text, "What the main session is told; may have {{places}}."),
    key("deliver", Boolean, "Whether the answer is sent to a chat.").or("true"),
    key(
        "allowUnsafeExternalContent",
        Boolean,
        "Whether what they say is not marked as coming from outside.",
    )
    .or("false"),
    key("channel", Text, "Where answers go: last, or a channel.").or("\"last\""),
    key("to", Text, "To which chat of it; may have {{places}}."),
    key("model", Text, "Which model; may have {{places}}."),
    key("thinking", Text, "How hard it thinks; may have {{places}}."),
    key("timeoutSeconds", SECONDS, "A run is stopped after so long."),
    key("transform", Object(TRANSFORM), "Rules for these requests."),
];

const TRANSFORM: &[Key] = &[
    key("defaults", Map(&Any), "What stands for values that a request does not have."),
    key("when", List(&Object(CONDITION)), "All hold, or nothing is done."),
    key("set", Object(SET), "What is otherwise than the mapping says."),
    key(
        "cases",
        List(&Object(&[
            key("when", List(&Object(CONDITION)), "Requests for which all of this holds."),
            key("skip", Boolean, "Nothing is done with them.").or("false"),
            key("set", Object(SET), "What is otherwise with them."),
        ])),
        "The first that holds counts.",
    ),
];

const CONDITION: &[Key] = &[
    key("field", Text, "Which value, as between the braces of a template.").required(),
    key("exists", Boolean, "Whether it is there."),
    key("equals", SCALAR, "It is this."),
    key("in", List(&SCALAR), "It is one of these."),
    key("contains", Text, "It has this in it: a text a part, a list an item."),
    key("matches", Text, "A regular expression fits some of it."),
    key("not", Boolean, "Turns the rule around.").or("false"),
];

const SET: &[Key] = &[
    key("action", ACTION, "Instead of that of the mapping."),
    key("wakeMode", WAKE_MODE, "Instead of that of the mapping."),
    key("text", Text, "Instead of textTemplate."),
    key("message", Text, "Instead of messageTemplate."),
    key("name", Text, "Instead of that of the mapping."),
    key("agentId", Text, "Instead of that of the mapping."),
    key("sessionKey", Text, "Instead of that of the mapping."),
    key("deliver", Boolean, "Instead of that of the mapping."),
    key("channel", Text, "Instead of that of the mapping."),
    key("to", Text, "Instead of that of the mapping."),
    key("model", Text, "Instead of that of the mapping."),
    key("thinking", Text, "Instead of that of the mapping."),
    key("timeoutSeconds", SECONDS, "Instead of that of the mapping."),
];
