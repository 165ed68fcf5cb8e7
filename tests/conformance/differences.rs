//! The one reviewed list of allowed differences.
//!
//! What is not in this list, and not free by `classes`, must be as recorded.
//! An entry that no trace needs is an error, so the list cannot rot.

use super::compare::{Finding, Kind};

/// A difference that is meant.
pub struct Difference {
    /// Traces, `*` stands for anything.
    pub trace: &'static str,
    /// `<connection> res <method>`, `<connection> event <name>`, `<connection> close`, …
    pub place: &'static str,
    /// JSON path in the frame, or the label of a missing or additional event.
    pub path: &'static str,
    pub kind: Kind,
    pub reason: &'static str,
}

const fn allow(
    kind: Kind,
    trace: &'static str,
    place: &'static str,
    path: &'static str,
    reason: &'static str,
) -> Difference {
    Difference { trace, place, path, kind, reason }
}

const VERSIONS: &str = "We speak protocols 3 and 4 (DESIGN §2, Versions).";
const NOT_YET: &str = "features name what is available, nothing else (DESIGN §2).";
const CANVAS: &str = "There is no canvas host yet, so no address of one is given.";
const EVENT_LOOP: &str = "Describes the event loop of a Node process.";
const PLUGINS: &str = "The plugins of the original do not exist here.";
const ONE_MESSAGE: &str =
    "A user message is announced once, when it is stored, instead of twice (behaviour §17).";
const POSITION: &str =
    "messageSeq is the message's position; the original's can be 0 or lag by one (behaviour §17).";

/// The list.
pub const DIFFERENCES: &[Difference] = &[
    allow(Kind::Value, "handshake/ok-token", "c5 res connect", "/payload/protocol", VERSIONS),
    allow(
        Kind::Extra,
        "handshake/ok-token",
        "c5 res connect",
        "/payload/pluginSurfaceUrls",
        VERSIONS,
    ),
    allow(
        Kind::Value,
        "handshake/fail-protocol",
        "c41 res connect",
        "/error/details/expectedProtocol",
        VERSIONS,
    ),
    allow(Kind::Value, "handshake/fail-protocol", "c42 res connect", "/ok", VERSIONS),
    allow(Kind::Extra, "handshake/fail-protocol", "c42 res connect", "/payload", VERSIONS),
    allow(Kind::Absent, "handshake/fail-protocol", "c42 res connect", "/error", VERSIONS),
    allow(Kind::Close, "handshake/fail-protocol", "c42 close", "", VERSIONS),
    allow(Kind::Value, "*", "* res connect", "/payload/features/*", NOT_YET),
    allow(Kind::Absent, "*", "* res connect", "/payload/features/*", NOT_YET),
    allow(Kind::Extra, "*", "* res connect", "/payload/features/*", NOT_YET),
    allow(Kind::Absent, "*", "* res connect", "/payload/canvasHostUrl", CANVAS),
    allow(Kind::Absent, "*", "*", "*/eventLoop", EVENT_LOOP),
    allow(Kind::Absent, "*", "*", "*/plugins", PLUGINS),
    allow(Kind::MissingFrame, "*", "* event session.message", "user at once", ONE_MESSAGE),
    allow(Kind::MissingFrame, "*", "* event sessions.changed", "message", ONE_MESSAGE),
    allow(Kind::Value, "*", "* event session.message", "/payload/messageSeq", POSITION),
    allow(Kind::Value, "*", "* event session.message", "/payload/message/__openclaw/seq", POSITION),
    allow(Kind::Value, "*", "* event sessions.changed", "/payload/messageSeq", POSITION),
];

/// Where an entry allows the finding.
pub fn allowing(trace: &str, finding: &Finding) -> Option<usize> {
    DIFFERENCES.iter().position(|difference| {
        difference.kind == finding.kind
            && glob(difference.trace, trace)
            && glob(difference.place, &finding.place)
            && glob(difference.path, &finding.path)
    })
}

/// Whether `text` is `pattern`, in which `*` stands for any characters.
pub fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text.strip_prefix(head).is_some_and(|rest| {
            rest.char_indices()
                .map(|(at, _)| at)
                .chain([rest.len()])
                .any(|at| glob(tail, &rest[at..]))
        }),
    }
}
