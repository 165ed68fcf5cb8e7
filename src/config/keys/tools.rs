//! The keys of `tools`, and rules for tools elsewhere.

use super::Kind::{
    Boolean, Either, Integer, List, Map, Number, Object, Secret, Text, Within, Word,
};
use super::gateway::TEXT_MAP;
use super::{COUNT, FROM_ZERO, Key, Kind, TEXTS, key};

pub(super) const TOOLS: Key = key(
    "tools",
    Object(KEYS),
    "Which tools agents may use, how commands run, and the way to the web.",
);

const PROFILE: Key =
    key("profile", Word(&["minimal", "coding", "messaging", "full"]), "The tools to begin with.");
const ALLOW: Key =
    key("allow", TEXTS, "Only these tools; names, groups such as group:fs, or patterns.");
const ALSO_ALLOW: Key =
    key("alsoAllow", TEXTS, "These beside those of the profile; not together with names in allow.");
const DENY: Key = key("deny", TEXTS, "Never these tools.");
const BY_PROVIDER: Key = key(
    "byProvider",
    Map(&Object(RULES)),
    "Rules for turns with models of a provider, or with one model.",
);
const FS: Key = key(
    "fs",
    Object(&[key("workspaceOnly", Boolean, "Whether file tools stay in the agent's workspace.")]),
    "File tools.",
);
const SECURITY: Key = key("security", Word(&["deny", "allowlist", "full"]), "Which commands run.");
const ASK: Key =
    key("ask", Word(&["off", "on-miss", "always"]), "When a person is asked about a command.");
const APPLY_PATCH: Key = key(
    "applyPatch",
    Object(&[
        key("enabled", Boolean, "Whether there is the tool apply_patch."),
        key("workspaceOnly", Boolean, "Whether it stays in the workspace."),
    ]),
    "The tool apply_patch.",
);

/// Rules that only take tools away.
pub(super) const RULES: &[Key] = &[PROFILE, ALLOW, ALSO_ALLOW, DENY];

/// `agents.list[].tools`.
pub(super) const OF_AGENT: &[Key] = &[
    PROFILE,
    ALLOW,
    ALSO_ALLOW,
    DENY,
    BY_PROVIDER,
    FS,
    key("exec", Object(OF_AGENTS_EXEC), "How its commands run, in the place of the general words."),
];

const OF_AGENTS_EXEC: &[Key] = &[
    SECURITY,
    ASK,
    BACKGROUND,
    TIMEOUT,
    NOTIFY,
    NOTIFY_EMPTY,
    PATH_PREPEND,
    HOST,
    NODE,
    APPLY_PATCH,
];

const BACKGROUND: Key = key(
    "backgroundMs",
    Within(&COUNT, 10.0, 120_000.0),
    "A command that takes longer goes on in the background.",
);
const TIMEOUT: Key = key(
    "timeoutSec",
    Within(&COUNT, 1.0, 2_678_400.0),
    "A command that does not ask for more is ended after so many seconds.",
);
const NOTIFY: Key = key(
    "notifyOnExit",
    Boolean,
    "Whether the next turn is told that a background command has ended.",
);
const NOTIFY_EMPTY: Key = key(
    "notifyOnExitEmptySuccess",
    Boolean,
    "The same for one that went well and had nothing to say.",
)
.advanced();
const PATH_PREPEND: Key =
    key("pathPrepend", TEXTS, "Directories that come before the others in PATH.")
        .like("[\"~/.local/bin\"]");
const HOST: Key = key("host", Word(&["auto", "sandbox", "gateway", "node"]), "Where commands run.");
const NODE: Key = key("node", Text, "The node for host node: its id or name.");

const KEYS: &[Key] = &[
    PROFILE.or("\"full\""),
    ALLOW,
    ALSO_ALLOW,
    DENY,
    BY_PROVIDER,
    key(
        "subagents",
        Object(&[key("tools", Object(RULES), "Rules for their tools.")]),
        "Tools of sub-agents.",
    ),
    key(
        "sessions",
        Object(&[key(
            "visibility",
            Word(&["self", "tree", "agent", "all"]),
            "Which sessions the tools for sessions see.",
        )
        .or("\"tree\"")]),
        "Tools for sessions.",
    ),
    key("agentToAgent", Object(AGENT_TO_AGENT), "Whether tools reach sessions of other agents."),
    FS,
    key("exec", Object(EXEC), "How commands run."),
    key("web", Object(WEB), "The way to the web."),
    key("guardrails", Object(GUARDRAILS), "What else is done about tool calls."),
];

const STRATEGY: Kind = Word(&["allow", "deny", "hitl", "pitl", "aitl", "filter", "ask"]);
const BY_TOOL: Kind = Map(&STRATEGY);
const BY_CONTEXT: &[Key] = &[
    key("interactive", BY_TOOL, "In runs that somebody waits for, by tool or mcp:<server>."),
    key("background", BY_TOOL, "In jobs, heartbeats and sub-agents."),
];

const GUARDRAILS: &[Key] = &[
    key("enabled", Boolean, "Whether any of this holds.").or("false"),
    key("defaultStrategy", STRATEGY, "What is done about calls that nothing else is said of.")
        .or("\"allow\""),
    key(
        "contextDefaults",
        Object(&[
            key("interactive", STRATEGY, "In runs that somebody waits for."),
            key("background", STRATEGY, "In jobs, heartbeats and sub-agents."),
        ]),
        "What is done about calls that no policy names.",
    ),
    key("toolPolicies", Object(BY_CONTEXT), "What is done about calls of a tool."),
    key("modelPolicies", Map(&Object(BY_CONTEXT)), "The same for calls of a model; before those."),
    key("rules", List(&Object(RULE)), "For what no policy and no context default names."),
    key("reviewModel", Text, "The model that reviews calls for aitl; the default one without it."),
];

const RULE: &[Key] = &[
    key("id", Text, "Its id."),
    key("name", Text, "Name for people."),
    key("description", Text, "What it is for."),
    key("pattern", Text, "Tools or servers; * stands for anything."),
    key("scope", Word(&["tool", "mcp"]), "Whether tools or MCP servers are meant.").or("\"tool\""),
    key("action", STRATEGY, "What is done.").or("\"hitl\""),
    key("enabled", Boolean, "Whether it holds.").or("true"),
    key(
        "contexts",
        List(&Word(&["interactive", "background"])),
        "Where it holds; everywhere when empty.",
    ),
    key("models", TEXTS, "Models for which it holds; all when empty."),
    key("hitlChannel", Word(&["chat"]), "Where the person is asked; there is nothing else."),
];

const AGENT_TO_AGENT: &[Key] = &[
    key("enabled", Boolean, "Whether they do, with sessions.visibility all.").or("false"),
    key("allow", TEXTS, "Agents that take part; all when it is not written."),
];

const EXEC: &[Key] = &[
    SECURITY.or("\"full\""),
    ASK.or("\"off\""),
    key(
        "approvalTimeoutMs",
        Integer(1, 86_400_000),
        "Milliseconds that a question waits; then it is a no.",
    )
    .or("1800000"),
    BACKGROUND.or("10000"),
    TIMEOUT.or("1800"),
    key(
        "cleanupMs",
        Within(&COUNT, 60_000.0, 10_800_000.0),
        "How long a background command stays on the list after its end.",
    )
    .or("1800000")
    .advanced(),
    NOTIFY.or("true"),
    NOTIFY_EMPTY.or("false"),
    key("env", TEXT_MAP, "Variables that every command gets."),
    PATH_PREPEND,
    key("sandbox", Word(&["off", "workspace-write", "read-only"]), "What commands may write to.")
        .or("\"off\""),
    HOST.or("\"auto\""),
    NODE,
    APPLY_PATCH,
];

const WEB: &[Key] =
    &[key("fetch", Object(FETCH), "Reading pages."), key("search", Object(SEARCH), "Searching.")];

const WEB_TIMEOUT: Kind = Within(&FROM_ZERO, 1.0, 600.0);
const CACHE_TTL: Key = key(
    "cacheTtlMinutes",
    Within(&ANY_NUMBER, 0.0, 1440.0),
    "How many minutes results are kept; 0 keeps none.",
)
.or("15");

const FETCH: &[Key] = &[
    key("enabled", Boolean, "Whether there is the tool web_fetch.").or("true"),
    key("maxChars", FROM_ZERO, "Longest result without a word of the model.").or("20000"),
    key("maxCharsCap", FROM_ZERO, "Longest result at all.").or("20000").advanced(),
    key(
        "maxResponseBytes",
        Within(&FROM_ZERO, 32_000.0, 10_000_000.0),
        "Most bytes of a page; the rest is cut off.",
    )
    .or("2000000")
    .advanced(),
    key("timeoutSeconds", WEB_TIMEOUT, "How many seconds a page may take.").or("30"),
    key("maxRedirects", Within(&FROM_ZERO, 0.0, 20.0), "Longest way from address to address.")
        .or("3")
        .advanced(),
    CACHE_TTL,
    key("readability", Boolean, "Look for the article of a page instead of taking all of it.")
        .or("true"),
    key("userAgent", Text, "What sites are told.").advanced(),
    key("useTrustedEnvProxy", Boolean, "Ask for pages through the proxy of the environment.")
        .or("false")
        .advanced(),
    key("ssrfPolicy", Object(SSRF), "Private addresses that may be asked.").advanced(),
];

pub(super) const SSRF: &[Key] = &[
    key("allowedHostnames", TEXTS, "Private hosts that may be asked, as host or host:port.")
        .like("[\"wiki.internal\"]"),
    key(
        "allowRfc2544BenchmarkRange",
        Boolean,
        "Allow 198.18.0.0/15, where some proxies put addresses of their own.",
    )
    .or("false"),
    key(
        "allowIpv6UniqueLocalRange",
        Boolean,
        "Allow fc00::/7, where some proxies put addresses of their own.",
    )
    .or("false"),
];

const SEARCH: &[Key] = &[
    key("enabled", Boolean, "Whether there is the tool web_search.").or("true"),
    key(
        "provider",
        Word(&["brave", "tavily", "searxng"]),
        "Who searches; without it, who has what it needs.",
    ),
    key("apiKey", Secret, "Key of that provider; of Brave when none is named."),
    key("maxResults", Within(&FROM_ZERO, 1.0, 10.0), "Results of a search.").or("5"),
    key("timeoutSeconds", WEB_TIMEOUT, "How many seconds a search may take.").or("30"),
    CACHE_TTL,
    key("brave", Object(SERVICE), "Brave Search."),
    key("tavily", Object(SERVICE), "Tavily."),
    key("searxng", Object(SERVICE), "An own SearXNG, whose settings allow the format json."),
];

const SERVICE: &[Key] = &[
    key("apiKey", Secret, "Its key."),
    key("baseUrl", Secret, "Its address.").like("\"http://127.0.0.1:8888\""),
];

/// Numbers that the reader brings into its bounds.
pub(super) const ANY_NUMBER: Kind = Number(f64::MIN, f64::MAX);
/// What people write without quotes where a text is meant.
pub(super) const SCALAR: Kind = Either(&[Secret, ANY_NUMBER, Boolean]);
