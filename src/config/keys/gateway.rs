//! The keys of `gateway`.

use super::Kind::{
    Boolean, Either, Integer, List, Map, Object, Secret, Text, TextOrFalse, Within, Word,
};
use super::{COUNT, FROM_ZERO, Key, Kind, TEXTS, key, tools};

pub(super) const GATEWAY: Key = key(
    "gateway",
    Object(KEYS),
    "How the gateway listens, whom it lets in, and how clients on this machine find another one.",
);

const KEYS: &[Key] = &[
    key("mode", Word(&["local", "remote"]), "Whether this machine runs a gateway, or its commands are for another one.").or("\"local\""),
    key("port", Integer(1, 65_535), "TCP port to listen on, for everything.").or("18789"),
    key("bind", Either(&[Word(&["loopback", "lan", "tailnet", "auto", "custom"]), Text]), "Address to listen on: this machine only, every interface, the Tailscale address, or an IP address.").or("\"loopback\"").like("\"lan\""),
    key("customBindHost", Text, "The IP address to listen on when bind is custom.").like("\"192.168.1.20\""),
    key("auth", Object(AUTH), "How clients prove themselves."),
    key("trustedProxies", TEXTS, "IP addresses and networks of proxies whose forwarding headers are believed.").like("[\"10.0.0.0/8\"]"),
    key("handshakeTimeoutMs", Within(&COUNT, 1.0, 600_000.0), "Milliseconds that a socket has to log in.").or("15000").advanced(),
    key("controlSocket", Boolean, "Whether clawgate devices works on this machine without a token.").or("true").advanced(),
    key("reload", Object(RELOAD), "What happens when the config file changes."),
    key("controlUi", Object(CONTROL_UI), "How the web UI is served, and which web pages may connect."),
    key("http", Object(HTTP), "APIs of other software and uploads, by HTTP."),
    key("dialects", Object(DIALECTS), "APIs of other software that clients of it find here.").advanced(),
    key("tls", Object(TLS), "TLS on the port itself."),
    key("remote", Object(REMOTE), "The gateway that client commands are for when mode is remote."),
    key("metrics", Object(METRICS), "What is told to scrapers such as Prometheus.").advanced(),
    key("webchat", Object(WEBCHAT), "Chats over the gateway."),
    key("push", Object(PUSH), "Notifications of browsers.").advanced(),
    key("nodes", Object(NODES), "What other machines may be asked for."),
    key("tools", Object(tools::RULES), "Tools that clients call themselves."),
];

const HTTP: &[Key] = &[
    key("endpoints", Object(ENDPOINTS), "Which of them are there, and what they take."),
    key("uploads", Object(UPLOADS), "Files that are uploaded for messages."),
    key("securityHeaders", Object(SECURITY_HEADERS), "What stands above every answer.").advanced(),
];

const UPLOADS: &[Key] = &[key(
    "maxBytes",
    Integer(1, 4_294_967_296),
    "Most bytes of a file; pictures have the bound of agents.defaults.mediaMaxMb as well.",
)
.or("67108864")];

const SECURITY_HEADERS: &[Key] = &[key(
    "strictTransportSecurity",
    TextOrFalse,
    "The header Strict-Transport-Security of every answer; false for none.",
)
.like("\"max-age=31536000\"")];

const ENDPOINTS: &[Key] = &[
    key(
        "chatCompletions",
        Object(CHAT_COMPLETIONS),
        "POST /v1/chat/completions, as OpenAI has it.",
    ),
    key("responses", Object(RESPONSES), "POST /v1/responses, as OpenAI has it."),
];

const CHAT_COMPLETIONS: &[Key] = &[
    SWITCHED_OFF,
    MAX_BODY_BYTES,
    key(
        "images",
        Object(&[
            key("allowUrl", Boolean, "Whether pictures are fetched from the web.").or("false"),
            URL_ALLOWLIST,
        ]),
        "Pictures in messages.",
    ),
];

const RESPONSES: &[Key] = &[
    SWITCHED_OFF,
    MAX_BODY_BYTES,
    key(
        "maxUrlParts",
        Within(&FROM_ZERO, 0.0, 1_000_000.0),
        "Most pictures and files of a message that are addresses.",
    )
    .or("8")
    .advanced(),
    key(
        "images",
        Object(&[
            key("allowUrl", Boolean, "Whether pictures are fetched from the web.").or("true"),
            URL_ALLOWLIST,
        ]),
        "Pictures in the input.",
    ),
    key(
        "files",
        Object(&[
            key("allowUrl", Boolean, "Whether files are fetched from the web.").or("true"),
            URL_ALLOWLIST,
        ]),
        "Files in the input.",
    ),
];

const URL_ALLOWLIST: Key = key(
    "urlAllowlist",
    TEXTS,
    "The only hosts from which they are fetched, such as example.com or *.example.com; \
     without it, any.",
)
.like("[\"cdn.example.com\"]");

const SWITCHED_OFF: Key = key("enabled", Boolean, "Whether it is there.").or("false").like("true");

const MAX_BODY_BYTES: Key =
    key("maxBodyBytes", Within(&COUNT, 1.0, 104_857_600.0), "Most bytes of a request\'s body.")
        .or("20971520")
        .advanced();

const RELOAD: &[Key] = &[
    key("mode", Word(&["off", "hot", "restart", "hybrid"]), "What is done: nothing; use what can be used at once; restart; use it, and restart for the rest.").or("\"hybrid\"").like("\"hot\""),
    key("debounceMs", Within(&FROM_ZERO, 0.0, 60_000.0), "Milliseconds that the file must have been left alone.").or("300").advanced(),
];

const METRICS: &[Key] = &[
    key("enabled", Boolean, "Whether GET /metrics is answered.").or("true"),
    key("public", Boolean, "Whether programs of this machine need no token for it.").or("false"),
];

const PUSH: &[Key] = &[key(
    "web",
    Object(&[key("ssrfPolicy", Object(tools::SSRF), "Private push services that may be asked.")]),
    "Push services of browsers.",
)];

const AUTH: &[Key] = &[
    key(
        "mode",
        Word(&["token", "password", "none", "trusted-proxy"]),
        "How clients prove themselves; none is for loopback only.",
    )
    .or("\"token\""),
    key("token", Secret, "The shared token; without one, it is made at the first start."),
    key("password", Secret, "The shared password."),
    key(
        "sharedSecretScopes",
        List(&SCOPE),
        "What the shared secret is worth to a client without a device identity.",
    )
    .or("[\"read\", \"write\", \"admin\", \"approvals\"]")
    .like("[\"read\"]")
    .advanced(),
    key("rateLimit", Object(RATE_LIMIT), "Limit on failed logins; on when this is there."),
    key(
        "trustedProxy",
        Object(TRUSTED_PROXY),
        "Where the proxy says who the user is, in mode trusted-proxy.",
    ),
    key(
        "allowTailscale",
        Boolean,
        "Let in whom Tailscale Serve names and tailscale whois confirms.",
    )
    .or("false"),
];

const SCOPE: Kind = Word(&[
    "read",
    "write",
    "admin",
    "approvals",
    "pairing",
    "talk.secrets",
    "operator.read",
    "operator.write",
    "operator.admin",
    "operator.approvals",
    "operator.pairing",
    "operator.talk.secrets",
]);

const RATE_LIMIT: &[Key] = &[
    key("maxAttempts", Integer(1, 4_294_967_295), "So many failures close the door.").or("10"),
    key("windowMs", COUNT, "Milliseconds within which failures are counted.").or("60000"),
    key("lockoutMs", COUNT, "Milliseconds for which the door stays closed.").or("300000"),
    key("exemptLoopback", Boolean, "Whether clients on this machine are not counted.").or("true"),
];

const TRUSTED_PROXY: &[Key] = &[
    key("userHeader", Text, "Name of the header in which the proxy says who the user is.")
        .like("\"x-forwarded-user\""),
    key("requiredHeaders", TEXTS, "Names of headers without which nobody is believed.")
        .like("[\"x-proxy\"]"),
    key("allowUsers", TEXTS, "Who may come in; without it, everybody whom the proxy lets through."),
    key(
        "allowLoopback",
        Boolean,
        "Believe a proxy on this machine too, which any program here could stand in for.",
    )
    .or("false")
    .advanced(),
];

const CONTROL_UI: &[Key] = &[
    key("enabled", Boolean, "Whether the Control UI is served.").or("true"),
    key("basePath", Text, "The path that the Control UI is served below.").like("\"/openclaw\""),
    key(
        "root",
        Text,
        "The folder of the Control UI; without one, where clawgate ui install puts it.",
    )
    .like("\"/srv/control-ui\"")
    .advanced(),
    key(
        "embedSandbox",
        Word(&["strict", "scripts", "trusted"]),
        "What hosted content in a chat may do.",
    )
    .or("\"scripts\"")
    .advanced(),
    key("allowExternalEmbedUrls", Boolean, "Whether chats may show pages of other sites.")
        .or("false")
        .advanced(),
    key("chatMessageMaxWidth", Text, "CSS width that messages of a chat have at most.")
        .like("\"min(1280px, 82%)\"")
        .advanced(),
    key(
        "allowedOrigins",
        TEXTS,
        "Origins of pages that may connect, beside those served from this machine.",
    )
    .like("[\"https://example.com\"]"),
    key("allowInsecureAuth", Boolean, "Whether pages on this machine need no device identity.")
        .or("false")
        .advanced(),
    key("dangerouslyDisableDeviceAuth", Boolean, "Whether no page needs a device identity.")
        .or("false")
        .advanced(),
    key(
        "dangerouslyAllowHostHeaderOriginFallback",
        Boolean,
        "Whether the Host header counts as an allowed origin.",
    )
    .or("false")
    .advanced(),
];

const DIALECTS: &[Key] = &[
    key("enabled", Boolean, "Whether there are any of them.").or("true"),
    key("claude", Object(CLAUDE), "Sessions as a web interface for Claude Code has them."),
    key("chat", Object(CHAT), "A chat whose frames are actions."),
    key(
        "ports",
        List(&Integer(1, 65_535)),
        "Ports to listen on besides, for clients with a fixed one.",
    )
    .like("[8000]"),
    key("prefix", Text, "A path below which their paths are served too.").like("\"/compat\""),
];

const ENABLED: Key = key("enabled", Boolean, "Whether it is there.").or("true");
const CHAT: &[Key] = &[
    ENABLED,
    key("lockdown", Boolean, "Shuts it; /lockdown in it sets and lifts this.").or("false"),
];

const CLAUDE: &[Key] = &[
    ENABLED,
    key(
        "projects",
        Boolean,
        "Whether sessions of Claude Code on this machine are shown, for reading.",
    )
    .or("true"),
    key("projectsDir", Text, "The folder with them, when it is not where Claude Code has it.")
        .like("\"~/.claude/projects\""),
    key("share", Boolean, "Whether sessions may be shown by link, to whoever has it.").or("false"),
];

const TLS: &[Key] = &[
    key("enabled", Boolean, "Whether the port speaks TLS, and nothing else.").or("false"),
    key(
        "autoGenerate",
        Boolean,
        "Make a self-signed certificate and its key when neither is there.",
    )
    .or("true"),
    key("certPath", Text, "File of the certificate and its chain, PEM."),
    key("keyPath", Text, "File of the private key, PEM."),
    key("caPath", Text, "File of certificates of authorities that are sent along, PEM.").advanced(),
];

const REMOTE: &[Key] = &[
    key("url", Text, "Address of the other gateway.").like("\"wss://gateway.example.com\""),
    key("token", Secret, "Its token; sent there only."),
    key("password", Secret, "Its password; sent there only."),
    key("tlsFingerprint", Text, "SHA-256 of the only certificate that is believed, in hex.")
        .like("\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"")
        .advanced(),
];

const WEBCHAT: &[Key] =
    &[key("chatHistoryMaxChars", COUNT, "Longer texts are cut in the history of a chat.")
        .or("8000")];

const NODES: &[Key] = &[
    key("allowCommands", TEXTS, "Commands that nodes of every platform may be asked for."),
    key("denyCommands", TEXTS, "Commands that no node is asked for."),
];

/// Names with texts, such as variables.
pub(super) const TEXT_MAP: Kind = Map(&Text);
