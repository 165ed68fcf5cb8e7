//! The one reviewed list of allowed differences.
//!
//! What is not in this list, and not free by `classes`, must be as recorded.
//! An entry that no trace needs is an error, so the list cannot rot.

use super::compare::{Finding, Kind};
use super::pairing::Label;

/// A difference that is meant.
pub struct Difference {
    /// Traces, `*` stands for anything.
    pub trace: &'static str,
    /// `<connection> res <method>`, `<connection> event <name>`, `<connection> close`, …
    pub place: &'static str,
    /// JSON path in the frame, or the label of a missing or additional event.
    pub path: &'static str,
    pub kind: Kind,
    /// How the recorded value begins; any when empty.
    pub recorded: &'static str,
    pub reason: &'static str,
}

const fn allow(
    kind: Kind,
    trace: &'static str,
    place: &'static str,
    path: &'static str,
    reason: &'static str,
) -> Difference {
    Difference { trace, place, path, kind, recorded: "", reason }
}

/// Another value than this one.
const fn instead_of(
    recorded: &'static str,
    trace: &'static str,
    place: &'static str,
    path: &'static str,
    reason: &'static str,
) -> Difference {
    Difference { trace, place, path, kind: Kind::Value, recorded, reason }
}

/// Frames of one run that do not come; `recorded` is `in <run>`.
const fn not_in(
    recorded: &'static str,
    trace: &'static str,
    place: &'static str,
    path: &'static str,
    reason: &'static str,
) -> Difference {
    Difference { trace, place, path, kind: Kind::MissingFrame, recorded, reason }
}

/// A message of a transcript that only the original has.
const fn only_recorded(
    recorded: &'static str,
    trace: &'static str,
    reason: &'static str,
) -> Difference {
    let (place, path) = ("a res chat.history", "/payload/messages/*");
    Difference { trace, place, path, kind: Kind::Absent, recorded, reason }
}

/// A message of a run that only the original has.
const fn follow_up_message(path: &'static str, recorded: &'static str) -> Difference {
    let (trace, place) = ("chat/exec-approval", "a event session.message");
    Difference { trace, place, path, kind: Kind::MissingFrame, recorded, reason: NO_FOLLOW_UP }
}

/// Another text of a command.
const fn told(recorded: &'static str, reason: &'static str) -> Difference {
    let (trace, place, path) = ("chat/slash-commands", "*", "*/content/0/text");
    Difference { trace, place, path, kind: Kind::Value, recorded, reason }
}

const VERSIONS: &str = "We speak protocols 3 and 4.";
const CHANNELS_TO_COME: &str =
    "Channels that could be configured are named, so that the web UI has a form for each.";
const NAMED_RUNS: &str = "The runs of one job bear its name as well.";
const EDITABLE: &str = "A plain file can be edited as text, with placeholders for its secrets.";
const NOT_YET: &str = "features name what is available, nothing else.";
const WAKE_WORDS: &str =
    "A node is told the wake words as soon as it is there, not some time later.";
const OTHER_WORDS: &str = "The wake words that an earlier recording has set.";
const SNAPSHOT: &str = "health tells the snapshot of a moment before.";
const CANVAS: &str = "There is no canvas host yet, so no address of one is given.";
const NO_CANVAS: &str = "There is no canvas host yet.";
const EVENT_LOOP: &str = "Describes the event loop of a Node process.";
const PLUGINS: &str = "The plugins of the original do not exist here.";
const LEVEL_TOLD: &str =
    "Events tell how hard the model would think, as answers do; the original's do not look.";
const ONE_MESSAGE: &str = "A user message is announced once, when it is stored, instead of twice.";
const POSITION: &str =
    "messageSeq is the message's position; the original's can be 0 or lag by one.";

const RANGE: &str = "The mismatch error names the range that we speak.";
const PRESENCE: &str =
    "Who was connected earlier: the recordings share one gateway among several files.";
const HEALTH_AT_ONCE: &str = "The health snapshot exists from the first hello on.";
const STATUS: &str = "methods/health-status";
const MEMORY: &str = "methods/doctor-memory";
const OWN_RUNTIME: &str = "Another program runs the agents.";
const OWN_EVENTS: &str = "Each gateway tells what has happened to it.";
const OWN_LOG: &str = "The log of a gateway with a state directory of its own is in it.";
const INSTALLED: &str = "Which version runs and how it was installed is told as well.";
const BY_WORDS: &str = "Memory is searched by words; how much there is of it is told.";
const NO_DREAMS: &str = "It is said that this gateway does not dream.";
const WHEN: &str = "Its name is the time of the repair.";
const HEALTH_FACTS: &str =
    "Uptime, runs, task panics and each part: what is wrong is shown, and since when.";
const TOLD_HERE_TOO: &str =
    "Whoever watches a session is told of a run whose answer goes to a channel as well.";
const ONE_PLACE: &str = "Where answers go is in deliveryContext, and there only.";
const WHAT_TO_DO: &str = "The error says with which command to approve, and until when.";
const WHAT_PAGE: &str = "The error says which page was seen, under which host, and what to write.";
const NO_TOKEN_FOR_A_PLACE: &str =
    "Coming from this machine is worth no token: it would outlast the mode (CVE-2026-53817).";
const OWN_SPEECH: &str =
    "Services are listed that this gateway can ask; none speaks without having been configured.";
const OWN_PAIR: &str = "Each gateway has a key pair of its own.";
const NO_BROWSER: &str = "There is no program here that steers a browser.";
const NO_SUCH_METHOD: &str =
    "No gateway has this method: who may not know that is told of admin, as for every other name.";
const TASKS: &str = "Runs are the tasks of this gateway; there is no task ledger to audit.";
const WHICH_MODEL: &str = "Which model answers and why is shown wherever one looks.";

const FINAL_FACTS: &str = "final tells usage and stop reason as well.";
const FRESH_ROW: &str = "A row in an event is as new as the event.";
const FILES_NAMED: &str = "Files of a message are named whenever it is shown, as the original does once, \
     so that the Control UI shows them after a reload.";
const RUNS_STILL: &str = "The end of a run is told to those that came in its middle as well: without this the Control UI \
     offers to stop it for ever.";
const PLAIN_TITLE: &str = "Titles are what the user wrote, without the time put before it.";
const NO_PROMPT_REPORT: &str =
    "The report on the prompt describes the original's workspace files and prompt builder.";
const WAIT_FACTS: &str =
    "agent.wait tells start and stop reason whether the run ended before or during the wait.";
const ONE_END: &str =
    "An aborted run ends once; the original's runner starts, fails and ends after that.";
const READ_AT_ONCE: &str = "Usage is read when it is asked for, not some time later.";
const OTHER_SKILLS: &str = "The skills that the original brings do not come with this gateway.";
const WHY_TOO_LARGE: &str =
    "Who sends too large a message is told why, and where files go (#10243).";
const TRUNCATED: &str = "A message that was shortened says so, and its id gives the rest.";
const PLAIN_TEXT: &str =
    "What the user wrote is kept as it is; when it was said, only the model reads before it.";
const WHOLE_THOUGHT: &str = "Of a thought inside a text not even a piece is shown.";
const CUT_WITH_HEADER: &str =
    "A cut transcript keeps its header, so there is something to sum up; the request is not sent.";
const SUMMED_UP: &str = "A compaction that a command begins is told as any other.";
const PACE: &str = "How far an answer had come when it was stopped is a matter of pace.";
const CUT_ID: &str = "An answer that was cut has no id of the provider.";
const CUT_COUNTS: &str = "What the session's context held before a run was stopped is still told.";
const OWN_TEXTS: &str = "What a key means is told in words of our own, and each key has a hint.";
const OUR_KEYS: &str = "Only the keys that mean something here are told, and those that are ours.";
const OUR_BOUNDS: &str = "The schema has the bounds and defaults that hold.";
const NO_DEFAULTS: &str = "The config is told as it is written; the schema has the defaults.";
const NO_EFFECT: &str = "What has no effect here is told.";
const NO_SECTION: &str = "No section has to be there.";
const AGENT_NAMED: &str = "The gateway of a replay names its agent in the config.";
const SAYS_RESTART: &str = "The answer says whether the change waits for a restart.";
const WHOLE_RULE: &str = "An error says what is allowed, not only of which type.";
const PARSER: &str = "Each parser of JSON5 has words of its own.";
const NO_SENTINEL: &str = "A change that is in use already leaves no note for the next start.";
const OUR_DOCTOR: &str = "The command of this gateway has another name.";
const OTHER_WAIT: &str = "How long is to be waited is a matter of pace.";
const PIECES: &str = "In how many pieces a text comes is a matter of pace.";
const BEDROCK: &str = "There is no plugin for Amazon Bedrock, whose models the original lists too.";
const OWN_TOOLS: &str = "Tools are listed that this gateway has, in its words.";
const CONFIGURED: &str = "An agent that is in the config file counts as configured.";
const CONFIG_AGENTS: &str =
    "Agents are those of the config; the original also lists one of whom only a folder is left.";
const OWN_IDS: &str = "Ids of artifacts are made of their place in the transcript.";
const FILES_TOO: &str = "A file that came with a message is listed beside the pictures.";
const RECORDED_BEFORE: &str = "The end of a run of an earlier recording.";
const ERROR_FACTS: &str = "An error tells its kind, and a code for dashboards.";
const FAILED_IS_FAILED: &str = "agent.wait says of a run that failed that it did.";
const DEPARTED: &str = "The recorded list holds a client that had just gone.";

const BEGUN: &str = "A session has its transcript, and knows when it began, from the start.";
const STOPPED: &str =
    "That a run was stopped is noted in the row, whichever method stopped it: killed, aborted.";
const ACTIVE: &str = "Whether something runs in a session is told with every reason.";
const EARLIER: &str = "The main session's conversation is that of several recordings, \
                       and a stopped run leaves no failure in it.";
const LOST_PATCH: &str = "The original's runner overwrites settings made while it winds down, \
                          so that the label is free again.";
const MODEL_NOTED: &str = "Also a run that was stopped early tells its model.";

const ONCE: &str = "What a stopped run had said is kept once, not twice.";
const RESET_STOPS: &str =
    "A run that a reset stops is told as ended before the session is told as reset.";

const MALFORMED_KEY: &str =
    "A key that names no agent or no session is refused at once, not accepted and failed.";

const OWN_RUN: &str = "A message that comes while a run ends or that follows one is answered under its own run id, \
    in the order it came.";
const RETRIES: &str = "A call that is tried again is one lifecycle event with the reason and the delay; the original's run starts and fails anew each time, for up to 45 s, and stores each failure. An answer of which something was read is not asked for again here; there its text begins anew, up to four times.";
const NOTHING_OLD: &str = "A conversation that is too long with nothing old in it to sum up fails at once; the original sums it up eight times and never tells the chat that it failed.";
const STORED_ONCE: &str = "The transcript has each message and each failed answer once, and no summary of them; the original stores every try.";
const CUT_IS_CUT: &str = "An answer that the provider broke off is called that; the original calls it a request that timed out.";
const COUNTED: &str = "A session's cost is told when something was counted.";
const NAMED_RUN: &str = "The final of a message that was taken into another run names that run.";
const PLAIN_MESSAGE: &str =
    "The model reads a message of agent as it is, without the time put before it.";

const NOT_NAMED: &str =
    "The recording does not show the id of its node before it is named, so another one is asked.";
const TOKEN_ONCE: &str =
    "The token of a node is told when it is approved, and only its hash is kept.";
const OTHER_SESSIONS: &str = "Sessions of earlier recordings.";
const GIVEN_NAME: &str = "A node is called what a person has named it, also while it is connected.";
const KEY_TOLD: &str =
    "A node is told the key of a command that has waited, as of one that it is asked for at once.";
const OTHER_NODE: &str = "A node of an earlier recording still waits.";
const FOLLOWS: &str = "A node that follows a session by another spelling of its key is told what is said there; \
     one that goes is asked up to that moment.";
const GONE_WITH_IT: &str =
    "What a node that is removed has asked for is rejected with it, and who was asked is told.";
const OWN_STATUS: &str = "`/status` tells of this gateway.";
const OWN_COMMANDS: &str = "Commands are listed that this gateway offers.";
const OWN_CONTEXT: &str = "It names what it can break down, and no commands inside of messages.";
const NO_SERVICE: &str =
    "The command needs something that this gateway does not have, and says so.";
const CHANGED: &str = "Who watches a session is told what a command has changed in it.";
const REFUSED: &str = "Who may not, or gets nothing, is told so; the original says nothing.";

const NAMED_TOOL: &str = "The model reads that there is no such tool and goes on; the original keeps that from it, so that it calls the tool ten times and is stopped.";

const WAITS: &str =
    "The call waits for the decision inside its run; the original's returns at once.";
const TELLS_RESULT: &str =
    "The call has waited, so it tells the result and not that it was put off.";
const WHICH_WIZARD: &str = "The refusal of a second setup names the session that runs, so that a client that was lost can go on with it.";
const NO_FOLLOW_UP: &str =
    "The run that asked has the result and ends with the answer, so that no second run reports.";
const NOBODY_ANSWERS: &str =
    "Nobody decides on this call before the recording ends, so that its run still waits.";
const ENDS_WITH_RUN: &str =
    "A question ends with the run that asked it, which denies it; none is left of an earlier run.";
const SWALLOWED: &str = "The end that the original tells of a message that it swallows.";
const BEGUN_BEFORE: &str =
    "A run begins at once, so that it has begun when it is stopped in the moment of its sending.";
const OWN_MODEL: &str =
    "The row names the model of the session, not the mark of a message that was put in.";
const SPELLING: &str = "A run is found, and stopped, by each spelling of its key.";
const NOTHING_SAID: &str = "An answer that was stopped before its first word leaves no message.";
const ASKED_ONCE: &str = "An empty answer is an answer: the original asks the model again, and stores the message a second time.";
const COLLECTED: &str =
    "Collected messages are answered in one run; the original does so in other channels only.";
const INTERRUPTS: &str = "A message that interrupts is answered; the original tells its sender to try again while the run winds down.";
const NO_LABEL: &str =
    "Which client sent a message that was taken into a run is not noted in it yet.";

const LEAVES_LATER: &str =
    "It has left in the recording before the next one came, and can be told of it in the replay.";
const ONE_LANE: &str = "A run stands in one queue; the original's stands in two.";
const STAYS_OPEN: &str = "The port stays open during a restart, so that nobody is refused.";
const LONG_AGO: &str = "How long ago a moment was depends on when one asks.";
const TRUE_CAUSE: &str =
    "A failed call is told in the words of the provider, which say what is wrong.";
const ONE_BEAT: &str = "The heartbeat that a job wakes is asked once the job is done and told once; the original first tells that it waits for the job.";
const REMINDED: &str = "What a reminder makes the agent say is told in the chat.";
const JOB_ROW: &str =
    "The row of a job tells how its last run went, and is as new as the end of that.";
const WEBHOOK_FATE: &str = "What became of an answer on its way to a web server is told.";

/// The list.
const NAMED_REQUEST: &str = "Each answer names its request, as the log does.";
const NOT_AGAIN: &str = "A file of the Control UI that a browser has is not sent again.";
const LIKE_GET: &str = "HEAD has the headers that GET has: the length, the policy of the page.";
const HEAD_TOO: &str = "Who may GET may HEAD.";
const UNBUFFERED: &str = "A proxy in between is asked not to hold a stream back.";
const SECRET_IS_OPERATOR: &str = "The gateway's secret is worth as much by HTTP as over the WebSocket; no such session is there.";
const OWN_WORDS: &str = "The state of this gateway in its own words, with the canonical key.";
const SAYS_WHAT_TO_SET: &str = "It is said what to configure, and that it helps not to ask again.";
const NOT_TWICE: &str =
    "Whatever a run did before it failed is done; a client does not begin it again by itself.";
const SAYS_TOO_LARGE: &str =
    "Who sends too much, or has shown nothing, is told so; the original cuts the socket.";
const SAYS_WHICH: &str = "A method that a path does not take is told, and which it takes.";
const PLAIN_NOT_FOUND: &str =
    "Our own page is a text there, which nobody frames and which loads nothing.";
const NO_PAGE: &str = "What asks for a probe is never given a web page with status 200.";
const OWN_METRICS: &str = "There are numbers for Prometheus here, for who may read.";
const CHAT_PROBE: &str = "Clients of action chat read version and mode there.";
const JSON_PARSER: &str = "Each parser of JSON has words of its own.";
const NO_AGENT: &str = "An agent that there is not does not answer, and that is said.";
const SAYS_FAILED: &str =
    "A failure in a stream is told as an error, not as an answer without a word.";
const CLIENTS_INSIST: &str = "Clients of OpenAI refuse a text without its list of annotations.";
const CLIENTS_COUNT: &str = "Clients of OpenAI refuse an event without its number.";
const CLIENTS_READ_DETAILS: &str =
    "Clients of OpenAI read the details of what was used without a look whether they are there.";
const CLIENTS_TURN: &str =
    "The model is not asked again before the client has done what it called for.";
const CALLS_COMPLETE: &str = "A response that ends with calls is completed, as with OpenAI: its clients take another for cut.";

pub const DIFFERENCES: &[Difference] = &[
    allow(Kind::Extra, "methods/wizard", "op res wizard.start", "/error/details", WHICH_WIZARD),
    allow(Kind::Value, "handshake/ok-token", "c5 res connect", "/payload/protocol", VERSIONS),
    allow(
        Kind::Extra,
        "handshake/ok-token",
        "c5 res connect",
        "/payload/pluginSurfaceUrls",
        VERSIONS,
    ),
    allow(Kind::Value, "handshake/fail-protocol", "c42 res connect", "/ok", VERSIONS),
    allow(Kind::Extra, "handshake/fail-protocol", "c42 res connect", "/payload", VERSIONS),
    allow(Kind::Absent, "handshake/fail-protocol", "c42 res connect", "/error", VERSIONS),
    allow(Kind::Close, "handshake/fail-protocol", "c42 close", "", VERSIONS),
    allow(Kind::Close, "handshake/after-connect", "a close", "", WHY_TOO_LARGE),
    allow(Kind::Value, "*", "* res connect", "/payload/features/*", NOT_YET),
    allow(Kind::Absent, "*", "* res connect", "/payload/features/*", NOT_YET),
    allow(Kind::Extra, "*", "* res connect", "/payload/features/*", NOT_YET),
    allow(Kind::ExtraFrame, "devices/tokens", "u3 event voicewake.*", "*", WAKE_WORDS),
    allow(
        Kind::Value,
        "methods/*",
        "n event voicewake.changed",
        "/payload/triggers/*",
        OTHER_WORDS,
    ),
    allow(
        Kind::Extra,
        "methods/*",
        "n event voicewake.changed",
        "/payload/triggers/*",
        OTHER_WORDS,
    ),
    allow(Kind::Value, STATUS, "op res health", "*/sessions/*", SNAPSHOT),
    allow(Kind::Absent, STATUS, "op res health", "*/sessions/*", SNAPSHOT),
    allow(Kind::Absent, "*", "* res connect", "/payload/canvasHostUrl", CANVAS),
    allow(
        Kind::Extra,
        "handshake/fail-protocol",
        "c41 res connect",
        "/error/details/m*Protocol",
        RANGE,
    ),
    allow(Kind::Extra, "handshake/fail-protocol", "* res connect", "*/presence/*", VERSIONS),
    allow(Kind::Absent, "*", "*", "*/departed", PRESENCE),
    allow(Kind::Extra, "*", "*", "*/departed", PRESENCE),
    allow(Kind::Extra, "*", "* res connect", "/payload/snapshot/health/*", HEALTH_AT_ONCE),
    allow(Kind::Extra, "*", "*", "/payload/uptimeMs", HEALTH_FACTS),
    allow(Kind::Extra, "*", "*", "/payload/runs", HEALTH_FACTS),
    allow(Kind::Extra, "*", "*", "/payload/taskPanics", HEALTH_FACTS),
    allow(Kind::Extra, "*", "*", "/payload/commands", HEALTH_FACTS),
    allow(Kind::Extra, "*", "*", "/payload/degraded", HEALTH_FACTS),
    allow(Kind::Extra, "*", "*", "/payload/services", HEALTH_FACTS),
    allow(Kind::Value, STATUS, "op res status", "/payload/tasks/*", TASKS),
    allow(Kind::Value, STATUS, "op res status", "*/recent/0/runtime", OWN_RUNTIME),
    allow(Kind::Value, STATUS, "op res diagnostics.stability", "/payload/*", OWN_EVENTS),
    allow(Kind::Absent, STATUS, "op res diagnostics.stability", "/payload/*", OWN_EVENTS),
    allow(Kind::Extra, STATUS, "op res diagnostics.stability", "/payload/*", OWN_EVENTS),
    allow(Kind::Value, STATUS, "op res logs.tail", "/payload/lines/*", OWN_EVENTS),
    allow(Kind::Value, STATUS, "op res logs.tail", "/payload/file", OWN_LOG),
    allow(Kind::Extra, STATUS, "op res update.status", "/payload/version", INSTALLED),
    allow(Kind::Extra, STATUS, "op res update.status", "/payload/installation", INSTALLED),
    allow(Kind::Value, MEMORY, "op res doctor.memory.status", "/payload/provider", BY_WORDS),
    allow(Kind::Value, MEMORY, "op res doctor.memory.status", "/payload/embedding/*", BY_WORDS),
    allow(Kind::Extra, MEMORY, "op res doctor.memory.status", "/payload/memory", BY_WORDS),
    allow(Kind::Extra, MEMORY, "op res doctor.memory.status", "*/dreaming/offered", NO_DREAMS),
    allow(Kind::Value, MEMORY, "op res doctor.memory.repair*", "/payload/archiveDir", WHEN),
    allow(Kind::ExtraFrame, "devices/tokens", "f event device.pair.resolved", "*", LEAVES_LATER),
    allow(Kind::Value, "handshake/ok-token", "* res connect", "*/presence/*", LEAVES_LATER),
    allow(Kind::Absent, "handshake/ok-token", "* res connect", "*/presence/*", LEAVES_LATER),
    allow(Kind::Extra, "handshake/ok-token", "* res connect", "*/presence/*", LEAVES_LATER),
    allow(Kind::Extra, "*", "* res connect", "/error/details/approveCommand", WHAT_TO_DO),
    allow(Kind::Extra, "*", "* res connect", "/error/details/expiresAtMs", WHAT_TO_DO),
    allow(Kind::Extra, "*", "* res connect", "/error/details/origin", WHAT_PAGE),
    allow(Kind::Extra, "*", "* res connect", "/error/details/host", WHAT_PAGE),
    allow(Kind::Extra, "*", "* res connect", "/error/details/fix", WHAT_PAGE),
    allow(
        Kind::Absent,
        "handshake/none",
        "* res connect",
        "/payload/auth/deviceToken",
        NO_TOKEN_FOR_A_PLACE,
    ),
    allow(
        Kind::Absent,
        "handshake/none",
        "* res connect",
        "/payload/auth/issuedAtMs",
        NO_TOKEN_FOR_A_PLACE,
    ),
    allow(
        Kind::Type,
        "methods/talk-tts-voice",
        "op res tts.status",
        "/payload/provider",
        OWN_SPEECH,
    ),
    allow(
        Kind::Type,
        "methods/talk-tts-voice",
        "op res tts.providers",
        "/payload/active",
        OWN_SPEECH,
    ),
    allow(Kind::Extra, "cron/jobs", "* res cron.runs", "*/jobName", NAMED_RUNS),
    allow(Kind::Type, "*", "* res config.get", "/payload/raw", EDITABLE),
    allow(
        Kind::Extra,
        "methods/channels-push",
        "op res channels.status",
        "/payload/channel*",
        CHANNELS_TO_COME,
    ),
    allow(
        Kind::Value,
        "methods/channels-push",
        "op res push.web.vapidPublicKey",
        "/payload/vapidPublicKey",
        OWN_PAIR,
    ),
    allow(Kind::Value, "methods/channels-push", "op res browser.request", "/ok", NO_BROWSER),
    allow(Kind::Absent, "methods/channels-push", "op res browser.request", "/payload", NO_BROWSER),
    allow(Kind::Extra, "methods/channels-push", "op res browser.request", "/error", NO_BROWSER),
    allow(
        Kind::Value,
        "methods/channels-push",
        "none res assistant.media.get",
        "/error/message",
        NO_SUCH_METHOD,
    ),
    allow(Kind::Value, "methods/talk-tts-voice", "op res tts.*", "/payload/provider*", OWN_SPEECH),
    allow(Kind::Absent, "methods/talk-tts-voice", "op res tts.*", "/payload/provider*", OWN_SPEECH),
    allow(Kind::Extra, "methods/talk-tts-voice", "op res tts.*", "/payload/provider*", OWN_SPEECH),
    allow(Kind::MissingFrame, "methods/chat", "op event run", "agent lifecycle error", ONE_END),
    allow(Kind::MissingFrame, "methods/chat", "op event run", "chat final", ONE_END),
    allow(Kind::ExtraFrame, "methods/chat", "op event run", "agent lifecycle start", ONE_END),
    allow(Kind::Extra, "*", "* res agent.wait", "/payload/startedAt", WAIT_FACTS),
    allow(Kind::Extra, "*", "* res agent.wait", "/payload/stopReason", WAIT_FACTS),
    allow(Kind::Absent, "*", "* res agent", "*/meta/systemPromptReport", NO_PROMPT_REPORT),
    allow(
        Kind::Absent,
        "methods/models-tools",
        "op res skills.status",
        "/payload/skills/*",
        OTHER_SKILLS,
    ),
    allow(Kind::Absent, "*", "* res agent", "*/meta/finalPromptText", NO_PROMPT_REPORT),
    allow(Kind::Extra, "*", "* event run", "/payload/usage", FINAL_FACTS),
    allow(Kind::Extra, "*", "* event run", "/payload/stopReason", FINAL_FACTS),
    allow(Kind::Value, "*", "* event session.message", "/payload/status", FRESH_ROW),
    allow(Kind::Value, "*", "* event session.message", "/payload/session/status", FRESH_ROW),
    allow(Kind::Value, "*", "* event sessions.changed", "/payload/*status", FRESH_ROW),
    allow(
        Kind::Extra,
        "*",
        "* event sessions.changed",
        "/payload/session/hasActiveRun",
        RUNS_STILL,
    ),
    allow(Kind::Extra, "chat/attachments", "* res chat.history", "*/Media*", FILES_NAMED),
    allow(Kind::Extra, "chat/attachments", "* event session.message", "*/Media*", FILES_NAMED),
    allow(Kind::Value, "*", "* res sessions.list", "*/derivedTitle", PLAIN_TITLE),
    allow(Kind::Extra, "*", "* res chat.history", "*/__openclaw/truncated", TRUNCATED),
    allow(
        Kind::Value,
        "chat/send-variants",
        "* event *",
        "/payload/message/content/0/text",
        PLAIN_TEXT,
    ),
    allow(
        Kind::Value,
        "chat/tool-read",
        "* res sessions.get",
        "/payload/messages/0/content/0/text",
        PLAIN_TEXT,
    ),
    allow(
        Kind::Value,
        "chat/silent",
        "* event run",
        "/payload/message/content/0/text",
        WHOLE_THOUGHT,
    ),
    allow(
        Kind::MissingFrame,
        "chat/sessions",
        "s event sessions.changed",
        "compact",
        CUT_WITH_HEADER,
    ),
    instead_of("done", "chat/*", "* event run", "/payload*/status", FRESH_ROW),
    allow(Kind::Absent, "chat/*", "* event run", "/payload*/endedAt", FRESH_ROW),
    allow(Kind::Absent, "chat/*", "* event run", "/payload*/runtimeMs", FRESH_ROW),
    instead_of("done", "chat/*", "* event session.*", "/payload*/status", FRESH_ROW),
    allow(Kind::Absent, "chat/*", "* event session.*", "/payload*/endedAt", FRESH_ROW),
    allow(Kind::Absent, "chat/*", "* event session.*", "/payload*/runtimeMs", FRESH_ROW),
    allow(Kind::Value, "chat/*", "* event session.tool", "/payload/seq", PIECES),
    instead_of("off", "chat/thinking", "*", "*/thinkingDefault", LEVEL_TOLD),
    allow(
        Kind::Absent,
        "handshake/ok-token-other-clients",
        "c11 res connect",
        "*/presence/2",
        DEPARTED,
    ),
    allow(Kind::Value, "*", "* res usage.cost", "/payload/cacheStatus/status", READ_AT_ONCE),
    allow(Kind::Value, "methods/models-tools", "op res models.list", "/payload/models/*", BEDROCK),
    allow(Kind::Absent, "methods/models-tools", "op res models.list", "/payload/models/*", BEDROCK),
    allow(
        Kind::Value,
        "methods/models-tools",
        "op res tools.catalog",
        "/payload/groups/*",
        OWN_TOOLS,
    ),
    allow(
        Kind::Absent,
        "methods/models-tools",
        "op res tools.catalog",
        "/payload/groups/*",
        OWN_TOOLS,
    ),
    allow(
        Kind::Extra,
        "methods/models-tools",
        "op res tools.catalog",
        "/payload/groups/*",
        OWN_TOOLS,
    ),
    allow(
        Kind::Value,
        "methods/models-tools",
        "op res tools.effective",
        "/payload/groups/*",
        OWN_TOOLS,
    ),
    allow(
        Kind::Absent,
        "methods/models-tools",
        "op res tools.effective",
        "/payload/groups/*",
        OWN_TOOLS,
    ),
    allow(Kind::Absent, "methods/agents", "op res agents.list", "/payload/agents/1", CONFIG_AGENTS),
    allow(
        Kind::Value,
        "chat/attachments",
        "a res artifacts.list",
        "/payload/artifacts/*/id",
        OWN_IDS,
    ),
    allow(
        Kind::Value,
        "chat/attachments",
        "a res artifacts.list",
        "/payload/artifacts/4/*",
        FILES_TOO,
    ),
    allow(
        Kind::Extra,
        "chat/attachments",
        "a res artifacts.list",
        "/payload/artifacts/5",
        FILES_TOO,
    ),
    instead_of(
        "🦞 OpenClaw",
        "methods/models-tools",
        "op res tools.invoke",
        "/payload/output/*",
        OWN_STATUS,
    ),
    allow(
        Kind::Value,
        "methods/models-tools",
        "op res tools.invoke",
        "/payload/output/details/agents/0/configured",
        CONFIGURED,
    ),
    instead_of(
        "{\n  \"requester\"",
        "methods/models-tools",
        "op res tools.invoke",
        "/payload/output/content/0/text",
        CONFIGURED,
    ),
    allow(
        Kind::MissingFrame,
        "chat/provider-errors",
        "a event run",
        "agent lifecycle end",
        RECORDED_BEFORE,
    ),
    allow(Kind::MissingFrame, "chat/provider-errors", "a event run", "chat final", RECORDED_BEFORE),
    allow(Kind::Extra, "chat/provider-errors", "a event run", "/payload/error", ERROR_FACTS),
    allow(Kind::Extra, "chat/provider-errors", "a event run", "/payload/errorKind", ERROR_FACTS),
    allow(
        Kind::Value,
        "chat/provider-errors",
        "a res agent.wait",
        "/payload/status",
        FAILED_IS_FAILED,
    ),
    allow(
        Kind::Extra,
        "chat/provider-errors",
        "a res agent.wait",
        "/payload/error",
        FAILED_IS_FAILED,
    ),
    allow(Kind::Absent, "*", "*", "*/eventLoop", EVENT_LOOP),
    allow(Kind::Absent, "*", "*", "*/plugins/loaded/*", PLUGINS),
    allow(Kind::Absent, "*", "* res status", "/payload/tasks/byRuntime", TASKS),
    allow(Kind::Absent, "*", "* res status", "/payload/taskAudit", TASKS),
    allow(Kind::Extra, "*", "* res status", "/payload/model", WHICH_MODEL),
    allow(Kind::Extra, "chat/queue", "a event run", "/payload/takenInto", NAMED_RUN),
    allow(Kind::ExtraFrame, "chat/*", "a event run", "agent lifecycle retry", RETRIES),
    allow(
        Kind::MissingFrame,
        "chat/provider-errors",
        "a event run",
        "agent lifecycle start",
        RETRIES,
    ),
    allow(
        Kind::MissingFrame,
        "chat/provider-errors",
        "a event run",
        "agent lifecycle error",
        RETRIES,
    ),
    allow(Kind::MissingFrame, "chat/provider-errors", "a event sessions.changed", "start", RETRIES),
    allow(
        Kind::MissingFrame,
        "chat/provider-errors",
        "a event sessions.changed",
        "end",
        RECORDED_BEFORE,
    ),
    allow(
        Kind::MissingFrame,
        "chat/provider-errors",
        "a event session.message",
        "* stored",
        STORED_ONCE,
    ),
    allow(
        Kind::Value,
        "chat/provider-errors",
        "a res chat.history",
        "/payload/messages/*",
        STORED_ONCE,
    ),
    allow(
        Kind::Absent,
        "chat/provider-errors",
        "a res chat.history",
        "/payload/messages/*",
        STORED_ONCE,
    ),
    allow(
        Kind::Extra,
        "chat/provider-errors",
        "a res chat.history",
        "/payload/messages/*",
        STORED_ONCE,
    ),
    allow(
        Kind::MissingFrame,
        "chat/provider-errors",
        "a event run",
        "agent compaction *",
        NOTHING_OLD,
    ),
    allow(Kind::ExtraFrame, "chat/provider-errors", "a event run", "chat error", NOTHING_OLD),
    allow(
        Kind::ExtraFrame,
        "chat/provider-errors",
        "a event sessions.changed",
        "error",
        NOTHING_OLD,
    ),
    allow(Kind::Value, "chat/provider-errors", "a event run", "/payload/data/error", CUT_IS_CUT),
    allow(Kind::Value, "chat/provider-errors", "a event run", "/payload/errorMessage", CUT_IS_CUT),
    allow(
        Kind::Value,
        "chat/provider-errors",
        "a event session.message",
        "/payload/message/errorMessage",
        CUT_IS_CUT,
    ),
    allow(Kind::Value, "chat/provider-errors", "a event *", "*/content/0/text", PACE),
    allow(Kind::Absent, "chat/provider-errors", "a *", "*/estimatedCostUsd", COUNTED),
    allow(Kind::ExtraFrame, "chat/back-to-back", "a event run", "agent lifecycle *", OWN_RUN),
    allow(Kind::MissingFrame, "chat/back-to-back", "a event run", "agent lifecycle *", OWN_RUN),
    allow(Kind::MissingFrame, "chat/back-to-back", "a event run", "chat final", OWN_RUN),
    allow(Kind::Extra, "chat/back-to-back", "a event run", "/payload/message", OWN_RUN),
    allow(Kind::MissingFrame, "chat/back-to-back", "a event sessions.changed", "*", OWN_RUN),
    allow(Kind::ExtraFrame, "chat/back-to-back", "a event sessions.changed", "*", OWN_RUN),
    allow(Kind::Value, "chat/back-to-back", "a res chat.history", "*/content/0/text", OWN_RUN),
    allow(Kind::Value, "chat/idempotency", "a event run", "*/content/0/text", PLAIN_MESSAGE),
    allow(
        Kind::Value,
        "chat/idempotency",
        "a event session.message",
        "*/content/0/text",
        PLAIN_MESSAGE,
    ),
    allow(Kind::Value, "chat/idempotency", "a res agent", "*/payloads/0/text", PLAIN_MESSAGE),
    allow(Kind::Value, "chat/idempotency", "a res agent", "*/finalAssistant*Text", PLAIN_MESSAGE),
    allow(Kind::MissingFrame, "*", "* event session.message", "user at once", ONE_MESSAGE),
    allow(Kind::MissingFrame, "*", "* event sessions.changed", "message", ONE_MESSAGE),
    allow(Kind::Value, "*", "* event session.message", "/payload/messageSeq", POSITION),
    allow(Kind::Value, "*", "* event session.message", "/payload/message/__openclaw/seq", POSITION),
    allow(Kind::Value, "*", "* event sessions.changed", "/payload/messageSeq", POSITION),
    allow(Kind::Value, "*", "* res sessions.*", "/payload/messageSeq", POSITION),
    allow(Kind::Extra, "*", "* res sessions.*", "/payload/entry/sessionStartedAt", BEGUN),
    allow(Kind::Extra, "*", "* res sessions.patch", "/payload/entry/sessionFile", BEGUN),
    allow(Kind::Absent, "*", "* res sessions.*", "/payload/entry/skillsSnapshot", NO_PROMPT_REPORT),
    allow(
        Kind::Absent,
        "*",
        "* res sessions.*",
        "/payload/entry/systemPromptReport",
        NO_PROMPT_REPORT,
    ),
    allow(Kind::Value, "*", "* res sessions.*", "*/abortedLastRun", STOPPED),
    allow(Kind::Value, "*", "* res sessions.*", "*/status", STOPPED),
    allow(Kind::Value, "chat/sessions", "* event run", "/payload/message/content/0/text", PACE),
    allow(
        Kind::Value,
        "chat/sessions",
        "* event session.message",
        "/payload/message/content/0/text",
        PACE,
    ),
    allow(
        Kind::Absent,
        "chat/sessions",
        "* event session.message",
        "/payload/message/responseId",
        CUT_ID,
    ),
    allow(
        Kind::Value,
        "chat/sessions",
        "* event sessions.changed",
        "/payload/totalTokensFresh",
        CUT_COUNTS,
    ),
    allow(Kind::ExtraFrame, "methods/sessions", "op event run", "agent assistant", PACE),
    allow(Kind::Extra, "methods/sessions", "op event run", "/payload/message", PACE),
    allow(Kind::Value, "methods/sessions", "op res sessions.compact", "/payload/kept", PACE),
    allow(Kind::Value, "methods/sessions", "op res sessions.usage", "*/sessionId", EARLIER),
    allow(
        Kind::Absent,
        "methods/sessions",
        "op res sessions.usage",
        "/payload/sessions/0/label",
        EARLIER,
    ),
    allow(Kind::Value, "methods/sessions", "op res sessions.usage", "*/count", EARLIER),
    allow(Kind::Value, "methods/sessions", "op res sessions.usage", "*/total", EARLIER),
    allow(Kind::Value, "methods/sessions", "op res sessions.usage", "*/user", EARLIER),
    allow(Kind::Value, "methods/sessions", "op res sessions.usage", "*/assistant", EARLIER),
    allow(Kind::Value, "methods/sessions", "op res sessions.usage", "*/messages", EARLIER),
    allow(Kind::Absent, "methods/sessions", "op res sessions.usage", "*odelUsage/1", EARLIER),
    allow(Kind::Absent, "methods/sessions", "op res sessions.usage", "*/by*/1", EARLIER),
    allow(Kind::Absent, "methods/sessions", "op res sessions.usage", "*/modelDaily/1", EARLIER),
    allow(
        Kind::Absent,
        "methods/sessions",
        "op res sessions.usage.timeseries",
        "/payload/points/*",
        EARLIER,
    ),
    allow(
        Kind::Value,
        "methods/sessions",
        "op res sessions.usage.logs",
        "/payload/logs/*/content",
        EARLIER,
    ),
    allow(Kind::Value, "chat/sessions", "* event *", "*/abortedLastRun", STOPPED),
    allow(Kind::Extra, "*", "* event sessions.changed", "/payload/hasActiveRun", ACTIVE),
    allow(Kind::Value, "chat/send-variants", "a res chat.send", "/ok", MALFORMED_KEY),
    allow(Kind::Absent, "chat/send-variants", "a res chat.send", "/payload", MALFORMED_KEY),
    allow(Kind::Extra, "chat/send-variants", "a res chat.send", "/error", MALFORMED_KEY),
    allow(
        Kind::MissingFrame,
        "chat/send-variants",
        "a event run",
        "agent lifecycle error",
        MALFORMED_KEY,
    ),
    allow(Kind::MissingFrame, "chat/send-variants", "a event run", "chat error", MALFORMED_KEY),
    allow(Kind::MissingFrame, "chat/send-variants", "a event run", "chat final", MALFORMED_KEY),
    Difference {
        trace: "chat/send-variants",
        place: "a event session.message",
        path: "assistant stored",
        kind: Kind::MissingFrame,
        recorded: "⚠️ Agent failed before reply",
        reason: MALFORMED_KEY,
    },
    not_in("in a8adfa37", "chat/send-variants", "a event sessions.changed", "error", MALFORMED_KEY),
    allow(Kind::ExtraFrame, "chat/send-variants", "a event run", "*", TOLD_HERE_TOO),
    allow(Kind::Absent, "chat/send-variants", "*", "*/origin/to", ONE_PLACE),
    allow(Kind::Absent, "chat/send-variants", "*", "*/lastTo", ONE_PLACE),
    allow(
        Kind::Absent,
        "chat/send-variants",
        "ui res sessions.patch",
        "/payload/entry/compactionCount",
        "What has not happened is not counted.",
    ),
    allow(Kind::MissingFrame, "chat/sessions", "* event session.message", "* stored again", ONCE),
    allow(Kind::Value, "chat/sessions", "* res sessions.preview", "*/items/*", ONCE),
    allow(
        Kind::MissingFrame,
        "chat/sessions",
        "* event run",
        "agent lifecycle end stopped",
        ONE_END,
    ),
    allow(Kind::MissingFrame, "chat/sessions", "* event sessions.changed", "end", ONE_END),
    allow(
        Kind::Value,
        "chat/sessions",
        "* event sessions.changed",
        "/payload/hasActiveRun",
        RESET_STOPS,
    ),
    allow(Kind::Value, "chat/sessions", "* event sessions.changed", "*/sessionId", RESET_STOPS),
    allow(
        Kind::Value,
        "methods/sessions",
        "* res sessions.describe",
        "*/derivedTitle",
        PLAIN_TITLE,
    ),
    allow(Kind::Value, "methods/sessions", "* res sessions.*", "*/lastMessagePreview", EARLIER),
    allow(Kind::Value, "methods/sessions", "* res sessions.preview", "*/items/*", EARLIER),
    allow(Kind::Absent, "methods/sessions", "* res sessions.preview", "*/items/*", EARLIER),
    allow(Kind::Absent, "methods/sessions", "* res sessions.get", "/payload/messages/*", EARLIER),
    allow(Kind::Extra, "methods/sessions", "* res sessions.get", "/payload/messages/*", EARLIER),
    allow(Kind::Value, "methods/sessions", "* res sessions.get", "*/__openclaw/seq", EARLIER),
    instead_of("agent call", "methods/sessions", "* res sessions.get", "*/content/0/text", EARLIER),
    allow(Kind::MissingFrame, "methods/sessions", "op event run", "agent lifecycle error", ONE_END),
    allow(Kind::MissingFrame, "methods/sessions", "op event run", "chat final", ONE_END),
    allow(Kind::ExtraFrame, "methods/sessions", "op event run", "agent lifecycle start", ONE_END),
    allow(
        Kind::Extra,
        "methods/sessions",
        "* res sessions.patch",
        "/payload/entry/model*",
        MODEL_NOTED,
    ),
    allow(
        Kind::Extra,
        "methods/sessions",
        "* res sessions.patch",
        "/payload/entry/contextTokens",
        MODEL_NOTED,
    ),
    allow(Kind::Value, "methods/sessions", "* res sessions.patch", "*/systemSent", MODEL_NOTED),
    allow(Kind::Value, "methods/sessions", "* res sessions.*", "/payload/entry/label", LOST_PATCH),
    allow(Kind::Extra, "methods/sessions", "* res sessions.*", "/payload/entry/*Level", LOST_PATCH),
    allow(Kind::Value, "methods/sessions", "* res sessions.patch", "/ok", LOST_PATCH),
    allow(Kind::Absent, "methods/sessions", "* res sessions.patch", "/payload", LOST_PATCH),
    allow(Kind::Extra, "methods/sessions", "* res sessions.patch", "/error", LOST_PATCH),
    allow(Kind::MissingFrame, "methods/approvals", "n event node.invoke.request", "*", NOT_NAMED),
    allow(Kind::ExtraFrame, "methods/approvals", "op res exec.approvals.node.get", "*", NOT_NAMED),
    allow(Kind::Absent, "nodes/*", "* res node.pair.list", "/payload/paired/*/token", TOKEN_ONCE),
    allow(
        Kind::Absent,
        "nodes/legacy-pairing",
        "* res node.pair.list",
        "/payload/pending/*",
        OTHER_NODE,
    ),
    allow(Kind::Value, "nodes/invoke", "* res node.describe", "*/displayName", GIVEN_NAME),
    allow(Kind::Value, "nodes/invoke", "* res node.list", "*/displayName", GIVEN_NAME),
    allow(Kind::Extra, "nodes/invoke", "n res node.pending.pull", "*/idempotencyKey", KEY_TOLD),
    allow(Kind::Value, "methods/nodes-by-node", "* res health", "*/sessions/*", OTHER_SESSIONS),
    allow(Kind::Absent, "methods/nodes-by-node", "* res health", "*/sessions/*", OTHER_SESSIONS),
    allow(Kind::Value, "*", "n res node.canvas.capability.refresh", "/ok", CANVAS),
    allow(Kind::Absent, "*", "n res node.canvas.capability.refresh", "/payload", CANVAS),
    allow(Kind::Extra, "*", "n res node.canvas.capability.refresh", "/error", CANVAS),
    allow(
        Kind::Absent,
        "methods/nodes-by-node",
        "n res skills.bins",
        "/payload/bins/*",
        OTHER_SKILLS,
    ),
    allow(Kind::ExtraFrame, "nodes/invoke", "n event *", "*", FOLLOWS),
    allow(Kind::ExtraFrame, "nodes/invoke", "* event node.pair.resolved", "*", GONE_WITH_IT),
    told("🦞 OpenClaw", OWN_STATUS),
    told("ℹ️ Slash commands", OWN_COMMANDS),
    told("Current: mock/mock-1", "There is one runtime, so none can be chosen."),
    told("Model \"mock/nope\" is not", "The name is not known, whatever is allowed."),
    told("Providers:\n- amazon", BEDROCK),
    told("Current thinking level", "The model of the replay cannot think."),
    told("🧭 Identity", "It tells what the sender may do; there is no allowFrom for clients."),
    told("🧠 /context", OWN_CONTEXT),
    told(
        "elevated is not",
        "It is a setting of the session, for admins; no list of senders gates it.",
    ),
    told("⚙️ Config (raw)", "The config is shown without its secrets."),
    told("⚙️ Config gateway.port", "The port of the replay is not in the config file."),
    told("⚙️ Compacted (0", "What the conversation took before is told."),
    allow(Kind::ExtraFrame, "chat/slash-commands", "* event run", "agent compaction *", SUMMED_UP),
    told("Echo: [", PLAIN_TEXT),
    told("Available tools", "The tools of this gateway are listed."),
    told("📋 Tasks", TASKS),
    told("agents:\n", NO_SERVICE),
    told("⚠️ /", NO_SERVICE),
    told("⚠️ bash", NO_SERVICE),
    told("✅ Session exported", NO_SERVICE),
    told("Usage: /session", NO_SERVICE),
    told("Usage: /focus", NO_SERVICE),
    told("📊 TTS", NO_SERVICE),
    told("ACP commands", NO_SERVICE),
    allow(Kind::Extra, "chat/slash-commands", "* event run", "/payload/message", REFUSED),
    allow(Kind::ExtraFrame, "chat/slash-commands", "* event sessions.changed", "*", CHANGED),
    allow(
        Kind::Value,
        "methods/models-tools",
        "* res commands.list",
        "/payload/commands/*",
        OWN_COMMANDS,
    ),
    allow(
        Kind::Extra,
        "methods/models-tools",
        "* res commands.list",
        "/payload/commands/*",
        OWN_COMMANDS,
    ),
    allow(
        Kind::Absent,
        "methods/models-tools",
        "* res commands.list",
        "/payload/commands/*",
        OWN_COMMANDS,
    ),
    allow(
        Kind::MissingFrame,
        "chat/slash-commands",
        "* event exec.approval.requested",
        "*",
        NO_SERVICE,
    ),
    allow(
        Kind::MissingFrame,
        "chat/tool-error-and-parallel",
        "a event run",
        "agent * no_such_tool *",
        NAMED_TOOL,
    ),
    allow(
        Kind::MissingFrame,
        "chat/tool-error-and-parallel",
        "a event session.tool",
        "no_such_tool *",
        NAMED_TOOL,
    ),
    instead_of(
        "I can't use the tool",
        "chat/tool-error-and-parallel",
        "a event *",
        "/payload/message/content/0/text",
        NAMED_TOOL,
    ),
    instead_of(
        "abandoned",
        "chat/tool-error-and-parallel",
        "a event run",
        "/payload/data/livenessState",
        NAMED_TOOL,
    ),
    instead_of(
        "toolUse",
        "chat/tool-error-and-parallel",
        "a event session.message",
        "/payload/message/stopReason",
        NAMED_TOOL,
    ),
    allow(
        Kind::ExtraFrame,
        "chat/tool-error-and-parallel",
        "a event session.message",
        "assistant stored",
        NAMED_TOOL,
    ),
    only_recorded(
        "{\"role\":\"toolResult\",\"toolCallId\":\"call_mock_",
        "chat/tool-error-and-parallel",
        NAMED_TOOL,
    ),
    only_recorded(
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"I can't use",
        "chat/tool-error-and-parallel",
        NAMED_TOOL,
    ),
    allow(
        Kind::Extra,
        "chat/tool-error-and-parallel",
        "a res chat.history",
        "/payload/messages/1*",
        NAMED_TOOL,
    ),
    allow(
        Kind::Value,
        "chat/tool-error-and-parallel",
        "a res chat.history",
        "*/__openclaw/seq",
        NAMED_TOOL,
    ),
    allow(Kind::MissingFrame, "chat/exec-approval", "* event run", "* of follow-up", NO_FOLLOW_UP),
    allow(
        Kind::MissingFrame,
        "chat/exec-approval",
        "a event sessions.changed",
        "* of follow-up",
        NO_FOLLOW_UP,
    ),
    allow(
        Kind::MissingFrame,
        "chat/exec-approval*",
        "a event sessions.changed",
        "send",
        NO_FOLLOW_UP,
    ),
    follow_up_message("user stored", "An async command "),
    follow_up_message("assistant stored", "Echo: "),
    allow(Kind::Order, "chat/exec-approval*", "* event run", "agent approval requested", WAITS),
    allow(Kind::ExtraFrame, "chat/exec-approval*", "* event run", "agent approval resolved", WAITS),
    allow(Kind::ExtraFrame, "chat/exec-approval*", "* event run", "agent * exec update", WAITS),
    allow(Kind::ExtraFrame, "chat/exec-approval*", "* event run", "agent command_output *", WAITS),
    allow(Kind::ExtraFrame, "chat/exec-approval", "a event session.tool", "exec update", WAITS),
    instead_of(
        "Approval required",
        "chat/exec-approval*",
        "* event *",
        "/payload/data/result/content/0/text",
        TELLS_RESULT,
    ),
    instead_of(
        "approval-pending",
        "chat/exec-approval*",
        "* event *",
        "/payload/data/result/details/status",
        TELLS_RESULT,
    ),
    allow(
        Kind::Absent,
        "chat/exec-approval*",
        "* event *",
        "/payload/data/result/details/*",
        TELLS_RESULT,
    ),
    allow(
        Kind::Extra,
        "chat/exec-approval*",
        "* event *",
        "/payload/data/result/details/*",
        TELLS_RESULT,
    ),
    instead_of(
        "blocked",
        "chat/exec-approval*",
        "* event run",
        "/payload/data/status",
        TELLS_RESULT,
    ),
    instead_of(
        "completed",
        "chat/exec-approval*",
        "* event run",
        "/payload/data/status",
        TELLS_RESULT,
    ),
    allow(Kind::Value, "chat/exec-approval*", "* event *", "/payload/data/isError", TELLS_RESULT),
    allow(Kind::Extra, "chat/exec-approval*", "* event run", "/payload/data/error", TELLS_RESULT),
    allow(
        Kind::Absent,
        "chat/exec-approval*",
        "* event run",
        "/payload/data/approval*",
        TELLS_RESULT,
    ),
    instead_of(
        "Awaiting approval",
        "chat/exec-approval*",
        "* event run",
        "/payload/data/summary",
        TELLS_RESULT,
    ),
    allow(Kind::Extra, "chat/exec-approval*", "* event run", "/payload/message", TELLS_RESULT),
    instead_of(
        "Approval required",
        "chat/exec-approval",
        "a res chat.history",
        "*/content/0/text",
        TELLS_RESULT,
    ),
    allow(Kind::Value, "chat/exec-approval", "a res chat.history", "*/isError", TELLS_RESULT),
    only_recorded(
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"An async command ",
        "chat/exec-approval",
        NO_FOLLOW_UP,
    ),
    only_recorded(
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"Echo: ",
        "chat/exec-approval",
        NO_FOLLOW_UP,
    ),
    allow(
        Kind::Value,
        "chat/exec-approval",
        "a res chat.history",
        "*/__openclaw/seq",
        NO_FOLLOW_UP,
    ),
    not_in("in 665cb2b1-", "chat/exec-approval", "* event run", "*", NOBODY_ANSWERS),
    not_in("in 665cb2b1-", "chat/exec-approval", "a event *", "*", NOBODY_ANSWERS),
    not_in("no question", "chat/exec-approval", "a event session.message", "*", NOBODY_ANSWERS),
    only_recorded(
        "{\"role\":\"toolResult\",\"toolCallId\":\"call_mock_42_0\"",
        "chat/exec-approval",
        NOBODY_ANSWERS,
    ),
    only_recorded(
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"no question\"",
        "chat/exec-approval",
        NOBODY_ANSWERS,
    ),
    allow(
        Kind::Extra,
        "chat/exec-approval",
        "a res chat.history",
        "/payload/activeRun",
        NOBODY_ANSWERS,
    ),
    not_in("in 26eab167-", "chat/exec-approval-always", "a event run", "chat final", ONE_END),
    not_in(
        "in 26eab167-",
        "chat/exec-approval-always",
        "a event run",
        "agent lifecycle end",
        ONE_END,
    ),
    not_in("in 26eab167-", "chat/exec-approval-always", "a event sessions.changed", "end", ONE_END),
    not_in(
        "after",
        "chat/exec-approval-always",
        "a event session.message",
        "assistant stored",
        ONE_END,
    ),
    allow(Kind::Value, "chat/exec-approval-always", "a event *", "*/abortedLastRun", STOPPED),
    allow(Kind::Extra, "chat/exec-approval-always", "a event run", "/payload*/status", FRESH_ROW),
    allow(
        Kind::Extra,
        "chat/exec-approval-always",
        "a event run",
        "/payload*/startedAt",
        FRESH_ROW,
    ),
    allow(
        Kind::Extra,
        "chat/exec-approval-always",
        "a event session.tool",
        "/payload*/status",
        FRESH_ROW,
    ),
    allow(
        Kind::Extra,
        "chat/exec-approval-always",
        "a event session.tool",
        "/payload*/startedAt",
        FRESH_ROW,
    ),
    allow(
        Kind::Absent,
        "chat/exec-approval-always",
        "a res exec.approval.list",
        "/payload/*",
        ENDS_WITH_RUN,
    ),
    instead_of(
        "gateway-client",
        "chat/exec-approval-always",
        "a event exec.approval.resolved",
        "/payload/resolvedBy",
        ENDS_WITH_RUN,
    ),
    not_in("in 63e29f5e-", "chat/abort", "a event run", "chat final", SWALLOWED),
    allow(Kind::MissingFrame, "chat/abort", "* event run", "agent lifecycle end stopped", ONE_END),
    allow(Kind::MissingFrame, "chat/abort", "* event run", "agent lifecycle error", ONE_END),
    not_in("in 5ca5590b-", "chat/abort", "a event run", "chat final", ONE_END),
    allow(Kind::MissingFrame, "chat/abort", "a event sessions.changed", "end", ONE_END),
    allow(Kind::MissingFrame, "chat/abort", "a event sessions.changed", "error", ONE_END),
    allow(Kind::MissingFrame, "chat/abort", "a event session.message", "* stored again", ONCE),
    allow(Kind::Value, "chat/abort", "* event *", "/payload/message/content/0/text", PACE),
    allow(Kind::Value, "chat/abort", "* event *", "*/abortedLastRun", STOPPED),
    allow(Kind::Value, "chat/abort", "a res chat.history", "*/content/0/text", PACE),
    allow(Kind::ExtraFrame, "chat/abort", "* event run", "agent lifecycle start", BEGUN_BEFORE),
    allow(Kind::ExtraFrame, "chat/abort", "a event sessions.changed", "start", BEGUN_BEFORE),
    allow(Kind::ExtraFrame, "chat/abort", "a event session.message", "user stored", BEGUN_BEFORE),
    allow(
        Kind::Absent,
        "chat/abort",
        "a event session.message",
        "/payload/message/responseId",
        CUT_ID,
    ),
    allow(Kind::Absent, "chat/abort", "a res chat.history", "*/responseId", CUT_ID),
    instead_of("gateway-injected", "chat/abort", "a event *", "/payload*/model", OWN_MODEL),
    instead_of("openclaw", "chat/abort", "a event *", "/payload*/modelProvider", OWN_MODEL),
    allow(
        Kind::Absent,
        "chat/abort",
        "a event sessions.changed",
        "/payload/estimatedCostUsd",
        COUNTED,
    ),
    allow(Kind::Value, "chat/abort", "a res chat.abort", "/ok", SPELLING),
    allow(Kind::Absent, "chat/abort", "a res chat.abort", "/error", SPELLING),
    allow(Kind::Extra, "chat/abort", "a res chat.abort", "/payload", SPELLING),
    allow(Kind::Value, "chat/abort", "a res chat.abort", "/payload/aborted", SPELLING),
    allow(Kind::Absent, "chat/abort", "a res chat.abort", "/payload/runIds/0", SPELLING),
    only_recorded(
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"w1",
        "chat/abort",
        ONCE,
    ),
    only_recorded("{\"role\":\"assistant\",\"content\":[]", "chat/abort", NOTHING_SAID),
    only_recorded(
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"⚠️ Agent failed",
        "chat/abort",
        ONE_END,
    ),
    allow(Kind::Extra, "chat/abort", "a res chat.history", "/payload/messages/*", ONCE),
    allow(Kind::Value, "chat/abort", "a res chat.history", "*/__openclaw/seq", ONCE),
    allow(Kind::Extra, "chat/abort", "a event sessions.changed", "/payload/endedAt", FRESH_ROW),
    allow(Kind::Extra, "chat/abort", "a event sessions.changed", "/payload/runtimeMs", FRESH_ROW),
    not_in(
        "Request was aborted",
        "chat/abort",
        "a event session.message",
        "assistant stored",
        NOTHING_SAID,
    ),
    not_in("⚠️ Agent failed", "chat/abort", "a event session.message", "assistant stored", ONE_END),
    allow(
        Kind::ExtraFrame,
        "chat/session-message-shapes",
        "a event run",
        "agent *",
        "The recording leaves agent events out.",
    ),
    allow(
        Kind::Extra,
        "chat/session-message-shapes",
        "a event run",
        "/payload/error*",
        ERROR_FACTS,
    ),
    not_in(
        "500 scripted failure",
        "chat/session-message-shapes",
        "a event session.message",
        "assistant stored",
        STORED_ONCE,
    ),
    not_in(
        "@mock err status=500",
        "chat/session-message-shapes",
        "a event session.message",
        "user stored",
        STORED_ONCE,
    ),
    not_in("in b5efeb34-", "chat/silent", "a event run", "agent lifecycle *", ASKED_ONCE),
    allow(Kind::Order, "chat/silent", "a event run", "chat final", ASKED_ONCE),
    not_in(
        "@mock text text=\"\" n=1",
        "chat/silent",
        "a event session.message",
        "user stored",
        ASKED_ONCE,
    ),
    allow(
        Kind::MissingFrame,
        "chat/silent",
        "a event session.message",
        "assistant stored",
        ASKED_ONCE,
    ),
    only_recorded(
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"@mock text text=\\\"\\\" n=1",
        "chat/silent",
        ASKED_ONCE,
    ),
    only_recorded("{\"role\":\"assistant\",\"content\":[]", "chat/silent", ASKED_ONCE),
    allow(Kind::Value, "chat/silent", "a res chat.history", "*/__openclaw/seq", ASKED_ONCE),
    not_in("in d017419a-", "chat/queue", "a event *", "*", OWN_RUN),
    not_in("in 73bc09d1-", "chat/queue", "a event *", "*", OWN_RUN),
    not_in("in 006d4421-", "chat/queue", "a event *", "*", OWN_RUN),
    not_in("in 62155f85-", "chat/queue", "a event *", "*", OWN_RUN),
    allow(Kind::ExtraFrame, "chat/queue", "a event run", "agent lifecycle *", OWN_RUN),
    allow(Kind::ExtraFrame, "chat/queue", "a event sessions.changed", "*", OWN_RUN),
    allow(Kind::Extra, "chat/queue", "a event run", "/payload/message", OWN_RUN),
    not_in("second answer", "chat/queue", "a event session.message", "assistant stored", COLLECTED),
    only_recorded(
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"second answer\"",
        "chat/queue",
        COLLECTED,
    ),
    allow(Kind::Value, "chat/queue", "a res chat.history", "*/__openclaw/seq", COLLECTED),
    allow(
        Kind::Absent,
        "chat/queue",
        "a event session.message",
        "/payload/abortedLastRun",
        STOPPED,
    ),
    allow(Kind::Value, "chat/queue", "a event *", "/payload*/abortedLastRun", STOPPED),
    allow(Kind::Value, "chat/queue", "a *", "*/content/0/text", PACE),
    allow(Kind::Absent, "chat/queue", "a *", "*/responseId", CUT_ID),
    instead_of("gateway-injected", "chat/queue", "a event *", "/payload*/model", OWN_MODEL),
    allow(Kind::Absent, "chat/queue", "a event run", "/payload/message*", INTERRUPTS),
    not_in(
        "⚠️ Previous run is still",
        "chat/queue",
        "a event session.message",
        "assistant stored",
        INTERRUPTS,
    ),
    only_recorded(
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"⚠️ Previous run",
        "chat/queue",
        INTERRUPTS,
    ),
    allow(Kind::Extra, "chat/queue", "a res chat.history", "/payload/messages/*", INTERRUPTS),
    allow(Kind::ExtraFrame, "chat/queue", "a event session.message", "* stored", INTERRUPTS),
    allow(Kind::Absent, "chat/queue", "a *", "*/senderLabel", NO_LABEL),
    not_in("in q-interrupt-2", "chat/queue", "a event run", "chat final", INTERRUPTS),
    allow(Kind::ExtraFrame, "chat/queue", "a event run", "chat aborted", INTERRUPTS),
    allow(Kind::Value, "lifecycle/restart", "r0 upgrade", "*", STAYS_OPEN),
    allow(Kind::Value, "lifecycle/restart", "a res gateway.restart.*", "*/queueSize", ONE_LANE),
    allow(Kind::Value, "lifecycle/restart", "a res gateway.restart.*", "*/totalActive", ONE_LANE),
    allow(Kind::Value, "lifecycle/restart", "a res gateway.restart.*", "*/blockers/0/*", ONE_LANE),
    allow(Kind::Value, "lifecycle/restart", "a res gateway.restart.*", "*/summary", ONE_LANE),
    instead_of(
        "schedule.at is in the past",
        "methods/cron",
        "op res cron.add",
        "/error/message",
        LONG_AGO,
    ),
    allow(Kind::Value, "cron/jobs", "a event run", "/payload/data/error", TRUE_CAUSE),
    allow(Kind::Value, "cron/jobs", "a event run", "/payload/errorMessage", TRUE_CAUSE),
    allow(Kind::Extra, "cron/jobs", "a event run", "/payload/error*", ERROR_FACTS),
    instead_of("LLM request failed", "cron/jobs", "*", "*iagnostic*", TRUE_CAUSE),
    instead_of("FailoverError: LLM request failed", "cron/jobs", "*", "*rror", TRUE_CAUSE),
    allow(Kind::ExtraFrame, "cron/jobs", "a event run", "chat final of heartbeat", REMINDED),
    allow(Kind::Value, "cron/jobs", "a event heartbeat", "/payload/reason", ONE_BEAT),
    allow(Kind::Extra, "cron/jobs", "a event heartbeat", "/payload/preview", ONE_BEAT),
    allow(Kind::Extra, "cron/jobs", "a event heartbeat", "/payload/hasMedia", ONE_BEAT),
    allow(Kind::MissingFrame, "cron/jobs", "a event heartbeat", "", ONE_BEAT),
    allow(Kind::Extra, "cron/jobs", "a res sessions.list", "/payload/sessions/*", JOB_ROW),
    allow(Kind::Absent, "cron/jobs", "a res sessions.list", "/payload/sessions/*", JOB_ROW),
    allow(Kind::Value, "cron/jobs", "a res sessions.list", "/payload/sessions/*/key", JOB_ROW),
    allow(
        Kind::Value,
        "cron/jobs",
        "a res sessions.list",
        "/payload/sessions/*/sessionId",
        JOB_ROW,
    ),
    allow(Kind::Value, "cron/jobs", "a event cron", "*eliveryStatus", WEBHOOK_FATE),
    allow(Kind::Extra, "cron/jobs", "a event cron", "*eliveryError", WEBHOOK_FATE),
    allow(Kind::Extra, "cron/jobs", "a event cron", "*/lastDelivered", WEBHOOK_FATE),
    allow(Kind::Extra, "*config*", "* res config.*", "*/agents/list", AGENT_NAMED),
    allow(Kind::Absent, "*config*", "* res config.*", "*/logging/redactSensitive", NO_DEFAULTS),
    allow(Kind::Absent, "*config*", "* res config.*", "*/models/providers/*/api", NO_DEFAULTS),
    allow(
        Kind::Absent,
        "*config*",
        "* res config.*",
        "*/agents/defaults/maxConcurrent",
        NO_DEFAULTS,
    ),
    allow(Kind::Absent, "*config*", "* res config.*", "*/agents/defaults/subagents", NO_DEFAULTS),
    allow(Kind::Absent, "*config*", "* res config.*", "*/commands", NO_DEFAULTS),
    allow(Kind::Absent, "*config*", "* res config.*", "*/messages", NO_DEFAULTS),
    allow(Kind::Extra, "*config*", "* res config.get", "/payload/warnings/*", NO_EFFECT),
    allow(Kind::Extra, "*config*", "* res config.*", "/payload/requiresRestart", SAYS_RESTART),
    allow(
        Kind::Absent,
        "methods/config",
        "op res config.schema",
        "/payload/schema/required",
        NO_SECTION,
    ),
    allow(Kind::Value, "methods/config", "op res config.schema*", "*/title", OWN_TEXTS),
    allow(Kind::Value, "methods/config", "op res config.schema*", "*/description", OWN_TEXTS),
    allow(Kind::Value, "methods/config", "op res config.schema*", "*/label", OWN_TEXTS),
    allow(Kind::Value, "methods/config", "op res config.schema*", "*/help", OWN_TEXTS),
    allow(Kind::Value, "methods/config", "op res config.schema*", "*/tags/*", OWN_TEXTS),
    allow(Kind::Extra, "methods/config", "op res config.schema.lookup", "*/hint", OWN_TEXTS),
    allow(Kind::Extra, "methods/config", "op res config.schema.lookup", "*/hint/*", OWN_TEXTS),
    allow(Kind::Extra, "methods/config", "op res config.schema.lookup", "*/hintPath", OWN_TEXTS),
    instead_of(
        "agents.list[].",
        "methods/config",
        "op res config.schema.lookup",
        "*/hintPath",
        "the original writes an item of a list as `[]` or as `*`, this one always as `*`",
    ),
    allow(
        Kind::Absent,
        "methods/config",
        "op res config.schema.lookup",
        "/payload/children/*",
        OUR_KEYS,
    ),
    allow(
        Kind::Extra,
        "methods/config",
        "op res config.schema.lookup",
        "/payload/children/*",
        OUR_KEYS,
    ),
    allow(
        Kind::Value,
        "methods/config",
        "op res config.schema.lookup",
        "/payload/schema/maximum",
        OUR_BOUNDS,
    ),
    allow(
        Kind::Extra,
        "methods/config",
        "op res config.schema.lookup",
        "/payload/schema/minimum",
        OUR_BOUNDS,
    ),
    allow(
        Kind::Extra,
        "methods/config",
        "op res config.schema.lookup",
        "/payload/schema/default",
        OUR_BOUNDS,
    ),
    allow(
        Kind::Absent,
        "methods/config",
        "op res config.schema.lookup",
        "/payload/schema/exclusiveMinimum",
        OUR_BOUNDS,
    ),
    allow(
        Kind::Value,
        "config/writes",
        "* res config.*",
        "/error/details/issues/*/message",
        WHOLE_RULE,
    ),
    instead_of(
        "invalid config: gateway.port",
        "config/writes",
        "* res config.*",
        "/error/message",
        WHOLE_RULE,
    ),
    instead_of("SyntaxError: JSON5", "config/writes", "* res config.*", "/error/message", PARSER),
    instead_of(
        "rate limit exceeded",
        "config/writes",
        "* res config.*",
        "/error/message",
        OTHER_WAIT,
    ),
    allow(Kind::Value, "config/writes", "* res config.*", "/error/retryAfterMs", OTHER_WAIT),
    allow(Kind::Type, "config/writes", "* res config.*", "/payload/sentinel/path", NO_SENTINEL),
    allow(
        Kind::Value,
        "config/writes",
        "* res config.*",
        "/payload/sentinel/payload/doctorHint",
        OUR_DOCTOR,
    ),
    allow(Kind::Extra, "http/*", "*", "/headers/x-request-id", NAMED_REQUEST),
    allow(Kind::Extra, "http/*", "GET *", "/headers/etag", NOT_AGAIN),
    allow(Kind::Extra, "http/*", "HEAD /", "/headers/etag", NOT_AGAIN),
    allow(Kind::Extra, "http/*", "HEAD *", "/headers/content-length", LIKE_GET),
    allow(Kind::Value, "http/*", "HEAD /", "/headers/content-security-policy", LIKE_GET),
    instead_of("GET", "http/*", "* /v1/models", "/headers/allow", HEAD_TOO),
    allow(Kind::Extra, "http/*", "*", "/headers/x-accel-buffering", UNBUFFERED),
    allow(Kind::Close, "http/body-limits", "POST *", "", SAYS_TOO_LARGE),
    allow(Kind::Close, "http/openai-chat", "POST *: 21 MiB body", "", SAYS_TOO_LARGE),
    allow(Kind::Close, "http/hooks", "POST /hooks/agent*", "", SAYS_TOO_LARGE),
    instead_of("Expected property", "http/hooks", "POST *", "/body/error", JSON_PARSER),
    instead_of(
        "Expected property",
        "http/tools-invoke",
        "POST *",
        "/body/error/message",
        JSON_PARSER,
    ),
    instead_of("403, got 404", "http/*", "* /sessions/*", "/status", SECRET_IS_OPERATOR),
    allow(Kind::Value, "http/*", "POST /tools/invoke", "*/content/0/text", CONFIGURED),
    allow(Kind::Value, "http/*", "POST /tools/invoke", "*/agents/0/configured", CONFIGURED),
    allow(Kind::Value, "http/tools-invoke", "POST /tools/invoke", "*/sessionKey", OWN_WORDS),
    allow(Kind::Value, "http/tools-invoke", "POST /tools/invoke", "*/statusText", OWN_WORDS),
    allow(
        Kind::Extra,
        "http/openai-embeddings",
        "POST *",
        "/headers/x-should-retry",
        SAYS_WHAT_TO_SET,
    ),
    instead_of(
        "internal error",
        "http/openai-embeddings",
        "POST *",
        "/body/error/message",
        SAYS_WHAT_TO_SET,
    ),
    instead_of("404, got 405", "http/control-ui-and-rest", "POST /", "/status", SAYS_WHICH),
    allow(
        Kind::Absent,
        "http/control-ui-and-rest",
        "GET /ui",
        "/headers/x-frame-options",
        PLAIN_NOT_FOUND,
    ),
    allow(
        Kind::Absent,
        "http/control-ui-and-rest",
        "GET /ui",
        "/headers/content-security-policy",
        PLAIN_NOT_FOUND,
    ),
    instead_of(
        "200, got 404",
        "http/control-ui-and-rest",
        "GET /__openclaw__/*",
        "/status",
        NO_CANVAS,
    ),
    instead_of(
        "401, got 404",
        "http/control-ui-and-rest",
        "GET /__openclaw__/c*",
        "/status",
        NO_CANVAS,
    ),
    instead_of("200, got 401", "http/control-ui-and-rest", "GET /metrics", "/status", OWN_METRICS),
    allow(Kind::Extra, "http/probes", "GET /health", "/body/version", CHAT_PROBE),
    allow(Kind::Extra, "http/probes", "GET /health", "/body/mode", CHAT_PROBE),
    instead_of("200, got 404", "http/probes", "GET /healthz/x: *", "/status", NO_PAGE),
    instead_of(
        "Expected property name",
        "http/openai-*",
        "POST *",
        "/body/error/message",
        JSON_PARSER,
    ),
    instead_of("200, got 400", "http/openai-chat", "POST *: unknown agent", "/status", NO_AGENT),
    allow(
        Kind::Absent,
        "http/openai-chat",
        "POST *: provider error, stream",
        "/events/1/data/*",
        SAYS_FAILED,
    ),
    allow(
        Kind::Extra,
        "http/openai-chat",
        "POST *: provider error, stream",
        "/events/1/data/error",
        SAYS_FAILED,
    ),
    allow(
        Kind::Extra,
        "http/openai-*",
        "POST *: provider error",
        "/headers/x-should-retry",
        NOT_TWICE,
    ),
    allow(Kind::Extra, "http/openai-responses", "POST *", "*/annotations", CLIENTS_INSIST),
    allow(Kind::Extra, "http/openai-responses", "POST *", "*/sequence_number", CLIENTS_COUNT),
    allow(Kind::Extra, "http/*", "POST *", "*/usage/*_details", CLIENTS_READ_DETAILS),
    allow(
        Kind::Absent,
        "http/openai-responses",
        "POST *: client tool",
        "/body/output/*",
        CLIENTS_TURN,
    ),
    allow(
        Kind::Extra,
        "http/openai-responses",
        "POST *: client tool",
        "/body/output/0/*",
        CLIENTS_TURN,
    ),
    allow(
        Kind::Value,
        "http/openai-responses",
        "POST *: client tool",
        "/body/output/0/*",
        CLIENTS_TURN,
    ),
    instead_of(
        "incomplete",
        "http/openai-responses",
        "POST *: client tool",
        "/body/status",
        CALLS_COMPLETE,
    ),
];

/// Whether the difference is there in some runs and not in others.
pub fn depends_on_pace(difference: &Difference) -> bool {
    [PACE, PIECES, BEGUN_BEFORE, DEPARTED, INTERRUPTS, LEAVES_LATER, SNAPSHOT]
        .contains(&difference.reason)
}

/// Where an entry allows the finding.
pub fn allowing(trace: &str, finding: &Finding) -> Option<usize> {
    DIFFERENCES.iter().position(|difference| {
        difference.kind == finding.kind
            && glob(difference.trace, trace)
            && glob(difference.place, &finding.place)
            && glob(difference.path, &finding.path)
            && is_recorded(difference.recorded, &finding.text)
    })
}

fn is_recorded(beginning: &str, finding: &str) -> bool {
    beginning.is_empty()
        || finding.strip_prefix("recorded ").is_some_and(|value| value.starts_with(beginning))
}

/// Whether an entry allows that an event does not come.
pub fn may_be_missing(trace: &str, conn: &str, label: &Label) -> bool {
    let of_run = label.name == "chat" || label.name == "agent";
    let (event, path) = match of_run {
        true => ("run", format!("{} {}", label.name, label.detail)),
        false => (label.name.as_str(), label.detail.clone()),
    };
    let place = format!("{conn} event {event}");
    let finding = Finding { place, path, kind: Kind::MissingFrame, text: String::new() };
    allowing(trace, &finding).is_some()
}

/// Whether `text` is `pattern`, in which `*` stands for any characters.
pub fn glob(pattern: &str, text: &str) -> bool {
    let Some((head, mut wanted)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut rest) = text.strip_prefix(head) else { return false };
    // What stands between two stars is taken where it comes first: that leaves most for others.
    while let Some((part, after)) = wanted.split_once('*') {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        (wanted, rest) = (after, behind);
    }
    rest.ends_with(wanted)
}
