//! The rights of HTTP are those of the WebSocket: whoever reaches a route may do what
//! it does by methods, too, and the other way round. [`WORK`] says of every route by
//! which methods its work is done, read by people when it changes; a route that does
//! nothing of theirs says what it does. What every credential meets there is in
//! `http_rights.rs` and `rights.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use clawgate::dialects;
use clawgate::handlers;
use clawgate::http::{Entry, SocketEntry, all_routes};
use clawgate::protocol::Scope;
use clawgate::registry::Need;

use crate::http_rights::name;

/// How the work of a route is done.
#[derive(Clone, Copy)]
enum Work {
    /// As by these methods. Whoever may call the first is let in; the others are for
    /// some of the requests only, and look at the caller's rights themselves.
    By(&'static [&'static str]),
    /// By none, because of this. What it asks for was thought about here.
    Own(&'static str),
}

use Work::{By, Own};

const ALIVE: &str = "tells that the gateway is there, to whoever watches it";
const UI: &str = "a file or a number that the page needs before it connects";
const GUARDRAILS: &str = "names and texts that are the same for everybody who may read";
const MARK: &str = "a mark in the lists of this dialect; the session stays as it is";
const LINK: &str = "makes a way in for anybody, which is for admins to give";
const LINKED: &str = "the token in its path is the proof, and shows one session";

/// What is asked on the socket of the action chat, commands included.
const CHAT_SOCKET: [&str; 19] = [
    "sessions.list",
    "agents.files.set",
    "channels.status",
    "chat.abort",
    "chat.send",
    "config.get",
    "config.patch",
    "cron.add",
    "cron.list",
    "cron.remove",
    "exec.approval.resolve",
    "models.list",
    "sessions.create",
    "sessions.delete",
    "sessions.reset",
    "skills.install",
    "skills.status",
    "skills.update",
    "status",
];

const WORK: [(&str, Work); 74] = [
    // Of the gateway itself.
    ("GET,HEAD /health", Own(ALIVE)),
    ("GET,HEAD /healthz", Own(ALIVE)),
    ("GET,HEAD /ready", Own(ALIVE)),
    ("GET,HEAD /readyz", Own(ALIVE)),
    ("GET,HEAD /", Own(UI)),
    ("GET,HEAD /metrics", By(&["gateway.metrics"])),
    ("GET,HEAD /openapi.json", Own("what the gateway offers, the same for everybody")),
    ("GET,HEAD /clawgate/", Own(UI)),
    ("POST (paths of channels)", Own("a service brings messages, signed with a secret of its own")),
    ("POST (paths of hooks)", Own("a program asks, with a token of its own; see `hooks.rs`")),
    ("GET,HEAD,POST /api/chat/uploads", By(&["chat.send"])),
    ("POST /tools/invoke", By(&["tools.invoke"])),
    ("GET /sessions/:key/history", By(&["chat.history", "sessions.messages.subscribe"])),
    ("POST /sessions/:key/kill", By(&["sessions.delete", "sessions.abort"])),
    ("GET,HEAD /api/chat/media/outgoing/", By(&["artifacts.download"])),
    ("GET,HEAD /__openclaw__/assistant-media", By(&["artifacts.download"])),
    ("GET,HEAD /avatar/", By(&["agent.identity.get"])),
    ("GET,HEAD /__openclaw/control-ui-config.json", By(&["agent.identity.get"])),
    ("GET,HEAD (files of the Control UI)", Own(UI)),
    // The API of OpenAI.
    ("GET /v1/models", By(&["agents.list"])),
    ("GET /v1/models/:model", By(&["agents.list"])),
    ("GET /v1/models/:family/:agent", By(&["agents.list"])),
    ("POST /v1/chat/completions", By(&["agent"])),
    ("POST /v1/responses", By(&["agent"])),
    (
        "POST /v1/embeddings",
        Own("vectors of texts cost as much as an answer, so it is for who may ask"),
    ),
    // Claude sessions.
    ("GET /api/claude/auth-status", Own("the same answer for everybody")),
    ("GET /api/claude/sessions", By(&["sessions.list"])),
    ("POST /api/claude/sessions", By(&["sessions.create", "sessions.patch"])),
    ("GET /api/claude/sessions/all", By(&["sessions.list"])),
    ("GET /api/claude/sessions/:id", By(&["sessions.describe"])),
    ("PATCH /api/claude/sessions/:id", By(&["sessions.patch"])),
    ("DELETE /api/claude/sessions/:id", By(&["sessions.delete"])),
    ("GET /api/claude/sessions/:id/messages", By(&["chat.history"])),
    ("POST /api/claude/sessions/:id/deactivate", By(&["sessions.abort"])),
    ("POST /api/claude/sessions/:id/archive", Own(MARK)),
    ("POST /api/claude/sessions/:id/unarchive", Own(MARK)),
    ("POST /api/claude/sessions/:id/share", Own(LINK)),
    ("DELETE /api/claude/sessions/:id/share", Own(LINK)),
    ("GET /api/share/:token", Own(LINKED)),
    ("GET /api/share/:token/messages", Own(LINKED)),
    ("GET /api/notifications/stream", By(&["sessions.subscribe"])),
    (
        "WS /api/claude/sessions/:id/subscribe",
        By(&[
            "sessions.messages.subscribe",
            "commands.list",
            "models.list",
            "chat.send",
            "chat.abort",
            "sessions.patch",
            "exec.approval.resolve",
            "plugin.approval.resolve",
        ]),
    ),
    ("WS /api/share/:token/subscribe", Own(LINKED)),
    // Action chat.
    ("WS /api/chat/ws", By(&CHAT_SOCKET)),
    ("POST /api/auth/check", Own("says whether a secret is right, paid for as a login")),
    ("GET /health", Own(ALIVE)),
    ("GET /api/media/:file", By(&["artifacts.download"])),
    ("GET /api/chat/suggestions", By(&["tools.catalog"])),
    ("GET /api/chat/models", By(&["models.list"])),
    ("GET /api/models", By(&["models.list"])),
    ("GET /api/setup/status", By(&["status", "channels.status", "agent.identity.get"])),
    ("GET /api/profile", By(&["agent.identity.get"])),
    ("GET /api/skills", By(&["skills.status"])),
    ("GET /api/sessions", By(&["sessions.list"])),
    ("DELETE /api/sessions", By(&["sessions.delete"])),
    ("GET /api/sessions/stats", By(&["sessions.list"])),
    ("GET /api/sessions/policy", By(&["config.get"])),
    ("PUT /api/sessions/policy", By(&["config.patch"])),
    ("GET /api/sessions/:id", By(&["sessions.resolve", "chat.history"])),
    ("DELETE /api/sessions/:id", By(&["sessions.delete", "sessions.resolve"])),
    ("GET /api/guardrails/config", By(&["config.get"])),
    ("PUT /api/guardrails/config", By(&["config.patch"])),
    ("GET /api/guardrails/rules", By(&["config.get"])),
    ("POST /api/guardrails/rules", By(&["config.patch"])),
    ("PUT /api/guardrails/rules/:id", By(&["config.patch"])),
    ("DELETE /api/guardrails/rules/:id", By(&["config.patch"])),
    ("PUT /api/guardrails/policies/:ctx/:tool", By(&["config.patch"])),
    ("PUT /api/guardrails/model-policies/:model/:ctx/:tool", By(&["config.patch"])),
    ("GET /api/guardrails/contexts", Own(GUARDRAILS)),
    ("GET /api/guardrails/tools", By(&["tools.catalog"])),
    ("GET /api/guardrails/inventory", By(&["tools.catalog"])),
    ("GET /api/guardrails/presets", Own(GUARDRAILS)),
    ("POST /api/guardrails/presets/:id", By(&["config.patch"])),
    ("POST /api/guardrails/set-all", By(&["config.patch"])),
];

/// What is needed for the work of each route, by its name; `None` where no scope is.
fn needs() -> BTreeMap<String, Option<Scope>> {
    let of_route = all_routes().map(|route| {
        let scope = match route.entry {
            Entry::Caller(scope) | Entry::Ticket(scope) => Some(scope),
            Entry::Reader => Some(Scope::Read),
            Entry::Requester => Some(Scope::Admin),
            Entry::Open | Entry::Public | Entry::Signed => None,
        };
        (name(route), scope)
    });
    let of_socket = dialects::ALL.iter().flat_map(|dialect| dialect.sockets).map(|socket| {
        let scope = match socket.entry {
            SocketEntry::Caller(scope) => Some(scope),
            SocketEntry::Signed => None,
        };
        (format!("WS {}", socket.path), scope)
    });
    of_route.chain(of_socket).collect()
}

#[test]
fn what_a_route_asks_for_is_what_its_method_asks_for() {
    let methods: BTreeMap<_, _> = handlers::registry().list().collect();
    let mut needs = needs();
    for (route, work) in WORK {
        let Some(scope) = needs.remove(route) else { panic!("there is no route {route}") };
        match work {
            By(names) => {
                for name in names {
                    assert!(methods.contains_key(name), "{route}: there is no method {name}");
                }
                let first = names[0];
                let needed = methods[first];
                assert_eq!(scope.map(Need::Operator), Some(needed), "{route} and {first}");
            }
            Own(why) => assert!(!why.is_empty(), "{route}"),
        }
    }
    let left: Vec<_> = needs.into_keys().collect();
    assert!(left.is_empty(), "by which methods is their work done? {left:?}");
}

/// Names of methods in the sources of a folder, where they are called or asked about.
fn named_in(folder: &Path, found: &mut BTreeSet<String>) {
    let known: BTreeSet<_> = handlers::registry().list().map(|(name, _)| name).collect();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            named_in(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let is_called = |before: &str| {
                [".call(", ".check(", "METHOD: &str = "].iter().any(|it| before.ends_with(it))
            };
            let parts: Vec<_> = code.split('"').collect();
            let pairs = parts.windows(2).filter(|pair| is_called(pair[0].trim_end_matches('&')));
            found.extend(
                pairs.map(|pair| pair[1]).filter(|it| known.contains(it)).map(str::to_owned),
            );
        }
    }
}

#[test]
fn every_method_that_is_called_for_a_route_is_named_here() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut called = BTreeSet::new();
    named_in(&root.join("http"), &mut called);
    named_in(&root.join("dialects"), &mut called);
    assert!(called.len() > 20, "{called:?}");
    let of_work = WORK.iter().flat_map(|(_, work)| match work {
        By(names) => *names,
        Own(_) => &[],
    });
    let told: BTreeSet<_> = of_work.map(|name| (*name).to_owned()).collect();
    let untold: Vec<_> = called.difference(&told).collect();
    assert!(untold.is_empty(), "for which routes are they called? {untold:?}");
    for name in CHAT_SOCKET {
        assert!(called.contains(name), "nothing on that socket calls {name}");
    }
}
