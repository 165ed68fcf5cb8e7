//! How the gateway of each recording was configured, and who was connected
//! before the recording began. From the traces' first lines and notes.

use serde_json::{Value, json};

use super::differences::glob;
use crate::support::client::ALL_SCOPES;
use crate::support::default_config;

/// The file that was in the workspace of the recordings.
pub const NOTES: (&str, &str) = ("notes.txt", "alpha\nbeta\n");

/// Whether it was there.
pub fn has_notes(trace: &str) -> bool {
    trace != "http/sessions-rest"
}

/// Whether the recorded gateway served its Control UI.
pub fn has_control_ui(trace: &str) -> bool {
    trace.starts_with("http/")
}

/// What is sent before the recorded frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prelude {
    Nothing,
    /// Session `agent:main:warm` had one turn.
    Warm,
    /// Session `main` had one turn; a node is paired.
    FirstAnswer,
    /// Session `hist` had three turns: a tool call, a long answer, a short one.
    History,
}

impl Prelude {
    /// The messages, and their session.
    pub fn messages(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Nothing => ("main", &[]),
            Self::Warm => ("agent:main:warm", &["@mock text text=\"warm\""]),
            Self::FirstAnswer => ("main", &["@mock text text=\"first answer\""]),
            Self::History => (
                "agent:main:hist",
                &[
                    "@mock tool name=read args={\"path\":\"notes.txt\"} then=\"one\"",
                    "@mock long kb=200",
                    "@mock text text=\"three\"",
                ],
            ),
        }
    }
}

/// A connection that was open before the recording began.
#[derive(Debug, Clone)]
pub struct Profile {
    pub client_id: &'static str,
    pub mode: &'static str,
    pub scopes: Vec<&'static str>,
    pub tool_events: bool,
    pub device: bool,
    /// What the recording says of its device, when it goes on with it.
    pub known: Option<Known>,
}

/// A device that is named in the recording, though its connect is not in it.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    pub public_key: &'static str,
    /// The token that its hello gave it, when it comes with it later.
    pub token: Option<&'static str>,
}

impl Profile {
    fn operator(scopes: &[&'static str]) -> Self {
        Self {
            client_id: "gateway-client",
            mode: "backend",
            scopes: scopes.to_vec(),
            tool_events: false,
            device: false,
            known: None,
        }
    }

    fn node() -> Self {
        Self {
            client_id: "node-host",
            mode: "node",
            scopes: Vec::new(),
            tool_events: false,
            device: true,
            known: None,
        }
    }

    /// A device of the command line that comes with the token of its hello.
    fn device(
        scopes: &[&'static str],
        public_key: &'static str,
        token: Option<&'static str>,
    ) -> Self {
        Self {
            client_id: "cli",
            mode: "cli",
            device: true,
            known: Some(Known { public_key, token }),
            ..Self::operator(scopes)
        }
    }

    /// Whether what the others are told of its connect is recorded.
    pub fn joins_last(&self) -> bool {
        self.is_node() || self.known.is_some()
    }

    pub fn is_node(&self) -> bool {
        self.mode == "node"
    }

    /// Connect params without the device proof.
    pub fn connect(&self) -> Value {
        let caps: &[&str] = if self.is_node() {
            &["canvas"]
        } else if self.tool_events {
            &["tool-events"]
        } else {
            &[]
        };
        let mut params = json!({
            "minProtocol": 3,
            "maxProtocol": 3,
            "client": {
                "id": self.client_id, "version": "1.0.0", "platform": "linux", "mode": self.mode,
            },
            "role": if self.is_node() { "node" } else { "operator" },
            "scopes": self.scopes,
            "caps": caps,
            "auth": { "token": crate::support::SECRET },
        });
        if self.is_node() {
            params["client"]["displayName"] = "Ref Node".into();
            params["commands"] = json!(["system.run"]);
        }
        params
    }
}

/// Who `conn` of this trace was.
pub fn profile(trace: &str, conn: &str) -> Profile {
    let all = || Profile::operator(&ALL_SCOPES);
    match (trace, conn) {
        (_, "none") => Profile::operator(&[]),
        (_, "n") => Profile::node(),
        ("methods/approvals-two-clients", "b") => Profile::operator(&["operator.approvals"]),
        ("methods/approvals-two-clients", "r") => Profile::operator(&["operator.read"]),
        (
            "chat/stream-text" | "chat/tool-read" | "chat/exec-approval" | "lifecycle/presence",
            "b",
        ) => Profile::operator(&["operator.read"]),
        ("chat/abort", "w") => Profile::operator(&["operator.read", "operator.write"]),
        ("chat/send-variants" | "chat/slash-commands", "w") => {
            Profile::operator(&["operator.read", "operator.write"])
        }
        ("nodes/invoke", "w") => Profile::operator(&["operator.write"]),
        ("devices/tokens", "f") => Profile::device(
            &["operator.read", "operator.pairing"],
            "vOF_xxn6HGSljc7HEUkRzSxYT2jioMj-L8ewKihoWa8",
            Some("YBU4khhMI8oCxwuZP9M-X3vgk7MY3STmG3mNxADMCEo"),
        ),
        ("devices/tokens", "o") => {
            Profile::device(&["operator.read"], "KFiU5Oi_JqlxZ47R3mbowlU-hc5VMU_xeAOunjHI07g", None)
        }
        ("nodes/legacy-pairing", "pw") => Profile::operator(&["operator.pairing"]),
        ("chat/send-variants", "web") => {
            Profile { client_id: "webchat-ui", mode: "webchat", device: true, ..all() }
        }
        ("chat/send-variants", "ui") => {
            Profile { client_id: "openclaw-control-ui", mode: "webchat", device: true, ..all() }
        }
        (trace, _) if trace.starts_with("chat/") => Profile { tool_events: true, ..all() },
        _ => all(),
    }
}

/// What was said before the recording of this trace began.
pub fn prelude(trace: &str) -> Prelude {
    match trace.split('/').next() {
        _ if trace == "chat/history" => Prelude::History,
        Some("chat") => Prelude::Warm,
        Some("methods") => Prelude::FirstAnswer,
        _ => Prelude::Nothing,
    }
}

/// Whether connections of this recording may join in the middle. They are told
/// nothing of what happened before.
pub fn some_come_late(trace: &str) -> bool {
    trace.starts_with("chat/") || trace.starts_with("nodes/")
}

/// Whether what happened while the connections were made is part of the
/// recording.
pub fn records_the_prelude(trace: &str) -> bool {
    ["methods/health-status", "devices/tokens"].contains(&trace)
}

/// Whether work was queued for the node in an earlier recording.
pub fn has_node_work(trace: &str) -> bool {
    trace == "methods/nodes-by-node"
}

/// Environment beside the usual one.
pub fn environment(trace: &str) -> Vec<(String, String)> {
    // The recording waits for the 15 s of the handshake timer; that it fires
    // is what matters.
    let quick = trace == "handshake/fail-protocol";
    let limit = ("OPENCLAW_HANDSHAKE_TIMEOUT_MS".to_owned(), "1500".to_owned());
    quick.then_some(limit).into_iter().collect()
}

/// Messages of runs that the recording stops before they say anything: the original takes
/// most of a second until it asks its model, in which the next requests came. Here the model
/// is asked at once, and does not answer these.
pub const STOPPED_FIRST: &[(&str, &str)] = &[
    ("methods/chat", "@mock text text=\"hello there\""),
    ("methods/sessions", "@mock text text=\"sent\""),
    ("methods/sessions", "@mock text text=\"steered\""),
];

/// Requests that are not sent, because what the original does with them would
/// make all that follows another recording: trace, request id, why.
pub const NOT_SENT: &[(&str, &str, &str)] = &[
    (
        "chat/abort",
        "a-6",
        "A message under the id of a run that was stopped is swallowed by the original; here it is answered, and the next ones wait for that answer.",
    ),
    (
        "chat/sessions",
        "s-35",
        "The original finds nothing to sum up in a transcript whose header it has cut off; here there is something, and the session has a checkpoint.",
    ),
];

/// Whether this frame is, or answers, a request that is not sent.
pub fn is_not_sent(trace: &str, frame: &Value) -> bool {
    NOT_SENT.iter().any(|(name, id, _)| *name == trace && frame["id"] == *id)
}

/// The models of every recorded gateway, where a recording shows them.
const RECORDED_MODELS: &str = r#"[{"id":"mock-1","name":"Mock One","reasoning":false,
    "input":["text","image"],"cost":{"input":1,"output":2,"cacheRead":0.1,"cacheWrite":0.2},
    "contextWindow":200000,"maxTokens":8192},{"id":"mock-2","name":"Mock Two","reasoning":true,
    "input":["text","image"],"cost":{"input":1,"output":2,"cacheRead":0.1,"cacheWrite":0.2},
    "contextWindow":200000,"maxTokens":8192}]"#;
const RECORDED_ANTHROPIC: &str = r#"[{"id":"mock-1","name":"Mock Anthropic One","reasoning":true,
    "input":["text","image"],"cost":{"input":1,"output":2,"cacheRead":0.1,"cacheWrite":0.2},
    "contextWindow":200000,"maxTokens":8192}]"#;

/// Configuration per trace: pattern, JSON path, value.
const CONFIG: &[(&str, &str, &str)] = &[
    ("chat/slash-commands", "/commands", r#"{"config":true,"restart":false}"#),
    (
        "chat/thinking",
        "/models/providers/mocka/models",
        r#"[{"id":"mock-1","name":"Mock One","reasoning":true,"input":["text","image"],
            "cost":{"input":1,"output":2,"cacheRead":0.1,"cacheWrite":0.2},
            "contextWindow":200000,"maxTokens":8192}]"#,
    ),
    ("handshake/none", "/gateway/auth", r#"{"mode":"none"}"#),
    ("http/auth-none", "/gateway/auth", r#"{"mode":"none"}"#),
    ("http/sessions-rest", "/gateway/auth", r#"{"mode":"none"}"#),
    ("http/openai-embeddings-provider", "/gateway/auth", r#"{"mode":"none"}"#),
    (
        "handshake/password",
        "/gateway/auth",
        r#"{"mode":"password","password":"ref-secret-0001","rateLimit":{"maxAttempts":5}}"#,
    ),
    (
        "http/auth-password",
        "/gateway/auth",
        r#"{"mode":"password","password":"ref-secret-0001","rateLimit":{"maxAttempts":5,"lockoutMs":60000,"exemptLoopback":false}}"#,
    ),
    ("http/auth-password", "/gateway/trustedProxies", r#"["127.0.0.1"]"#),
    (
        "handshake/rate-limit",
        "/gateway/auth/rateLimit",
        r#"{"maxAttempts":5,"windowMs":60000,"lockoutMs":120000}"#,
    ),
    ("handshake/rate-limit", "/gateway/trustedProxies", r#"["127.0.0.1"]"#),
    ("handshake/pairing", "/gateway/trustedProxies", r#"["127.0.0.1"]"#),
    ("devices/tokens", "/gateway/trustedProxies", r#"["127.0.0.1"]"#),
    ("http/openai-*", "/gateway/http/endpoints/chatCompletions/enabled", "true"),
    ("http/auth-*", "/gateway/http/endpoints/chatCompletions/enabled", "true"),
    ("http/body-limits", "/gateway/http/endpoints/chatCompletions/enabled", "true"),
    ("http/control-ui-and-rest", "/gateway/http/endpoints/chatCompletions/enabled", "true"),
    ("http/sessions-rest", "/gateway/http/endpoints/chatCompletions/enabled", "true"),
    (
        "http/openai-embeddings-provider",
        "/agents/defaults/memorySearch",
        r#"{"provider":"mock","model":"text-embedding-3-small"}"#,
    ),
    ("http/openai-responses", "/gateway/http/endpoints/responses/enabled", "true"),
    (
        "methods/models-tools",
        "/models/providers/mock/models",
        r#"[{"id":"mock-1","name":"Mock One","input":["text","image"],"contextWindow":200000},
            {"id":"mock-2","name":"Mock Two","reasoning":true,"input":["text","image"],"contextWindow":200000}]"#,
    ),
    (
        "methods/models-tools",
        "/models/providers/mocka/models",
        r#"[{"id":"mock-1","name":"Mock Anthropic One","reasoning":true,"input":["text","image"],"contextWindow":200000}]"#,
    ),
    ("methods/config", "/gateway/port", "18831"),
    ("config/writes", "/gateway/port", "18871"),
    ("*config*", "/models/providers/mock/models", RECORDED_MODELS),
    ("*config*", "/models/providers/mocka/models", RECORDED_ANTHROPIC),
    ("*config*", "/logging", r#"{"file":"<RUN_DIR>/openclaw.log"}"#),
    (
        "http/hooks",
        "/hooks",
        r#"{"enabled":true,"token":"hook-secret","mappings":[{"match":{"path":"mapped"},"action":"wake","textTemplate":"mapped"}]}"#,
    ),
];

/// `openclaw.json` for this trace.
pub fn config(trace: &str, provider: &str) -> Value {
    let mut config = default_config(provider);
    for (_, path, value) in CONFIG.iter().filter(|(pattern, _, _)| glob(pattern, trace)) {
        let mut at = &mut config;
        for key in path.trim_start_matches('/').split('/') {
            at = &mut at[key];
        }
        *at = serde_json::from_str(value).unwrap();
    }
    config
}
