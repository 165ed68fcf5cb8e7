//! Secrets that come out somewhere: #50614, #9435, #66773, #19137 of OpenClaw.
//! Something distinct is planted in every place for a credential, everything is
//! made to fail in ways that repeat what was sent, and then looked for in all
//! that the gateway has said, logged and written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use clawgate::config::redact::{SLOTS, SlotKind, credentials};
use clawgate::dialects::ALL;
use clawgate::handlers;
use clawgate::http::{Place, all_routes};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::stage::{Api, ask, config, connect, text_of, until};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::{Gateway, GatewayOptions, WsClient, now_ms, program};

/// What each of them begins with.
const MARK: &str = "canary-bird-";

/// The canaries, by where they were put.
#[derive(Default)]
struct Birds(BTreeMap<String, String>);

impl Birds {
    /// A new one for this place.
    fn at(&mut self, place: &str) -> String {
        let bird = format!("{MARK}{}-{:x}", self.0.len(), now_ms());
        let before = self.0.insert(place.to_owned(), bird.clone());
        assert_eq!(before, None, "{place} has one already");
        bird
    }

    /// The places whose canaries are in `bytes`.
    fn in_bytes(&self, bytes: &[u8]) -> Vec<&str> {
        if !contains(bytes, MARK) {
            return Vec::new();
        }
        let found = self.0.iter().filter(|(_, bird)| contains(bytes, bird));
        found.map(|(place, _)| place.as_str()).collect()
    }
}

fn contains(bytes: &[u8], wanted: &str) -> bool {
    bytes.windows(wanted.len()).any(|part| part == wanted.as_bytes())
}

/// A server that refuses everything and repeats all headers and the address.
struct Parrot {
    address: String,
    _server: JoinSet<()>,
}

impl Parrot {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let repeat = async |request: Request| {
            let said = format!("refused {} {:?}", request.uri(), request.headers());
            let error = json!({"error": {"type": "authentication_error", "message": said}});
            (StatusCode::UNAUTHORIZED, error.to_string())
        };
        let mut server = JoinSet::new();
        let app = Router::new().fallback(repeat);
        server.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, _server: server }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// An MCP server that tells its variables to everybody: in its log, and in the
/// error of its tool.
const GOSSIP: &str = r#"
import json, os, sys
secrets = {k: v for k, v in os.environ.items() if "canary" in v}
print("started with", json.dumps(secrets), file=sys.stderr, flush=True)
def say(message):
    sys.stdout.write(json.dumps(message) + "\n"); sys.stdout.flush()
schema = {"type": "object", "properties": {"error": {"type": "boolean"}}}
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        say({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}}, "serverInfo": {"name": "gossip", "version": "1"}}})
    elif method == "tools/list":
        say({"jsonrpc": "2.0", "id": id, "result": {"tools": [{"name": "tell", "inputSchema": schema}]}})
    elif method == "tools/call":
        text = "401 bad key " + json.dumps(secrets)
        say({"jsonrpc": "2.0", "id": id, "result": {"isError": True, "structuredContent": secrets,
            "content": [{"type": "text", "text": text}]}} if "error" in (message["params"].get("arguments") or {})
            else {"jsonrpc": "2.0", "id": id, "result": {"structuredContent": secrets,
            "content": [{"type": "text", "text": "here they are: " + json.dumps(secrets)}]}})
"#;

fn write(path: &Path, mode: u32, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn model(id: &str) -> Value {
    json!([{"id": id, "name": id, "contextWindow": 100_000, "maxTokens": 1000}])
}

/// What was planted, and everything that is run against it.
struct Scene {
    birds: Birds,
    gateway: Gateway,
    token: String,
    /// Models whose every call fails.
    models: Vec<&'static str>,
    /// Files that hold canaries because they were put there.
    nests: BTreeSet<PathBuf>,
    _parrot: Parrot,
}

impl Scene {
    /// With this service for searches.
    async fn start(search: &str) -> Self {
        let parrot = Parrot::start().await;
        let mut birds = Birds::default();
        let root = TempDir::with_prefix("clawgate-canary-").unwrap();
        let base = root.path().to_owned();
        let mut config = config(&parrot.address, Api::OpenAi);
        let token = birds.at("gateway.auth.token");
        config["gateway"]["auth"] =
            json!({"mode": "token", "token": token, "password": birds.at("gateway.auth.password")});
        config["gateway"]["remote"] = json!({"token": birds.at("gateway.remote.token"),
            "password": birds.at("gateway.remote.password")});
        config["gateway"]["tools"] = json!({"allow": ["exec"]});
        config["cron"] = json!({"webhookToken": birds.at("cron.webhookToken")});
        config["hooks"] = json!({"enabled": true, "token": birds.at("hooks.token"),
            "mappings": [{"match": {"path": "x"}, "token": birds.at("hooks.mappings.*.token")}]});
        let password = birds.at("diagnostics.otel.endpoint");
        let whole = birds.at("diagnostics.otel.tracesEndpoint");
        config["diagnostics"] = json!({"otel": {"enabled": true, "flushIntervalMs": 1000,
            "endpoint": format!("http://user:{password}@{}", parrot.address),
            "tracesEndpoint": format!("http://user:{whole}@{}/v1/traces", parrot.address),
            "headers": {"x-key": birds.at("diagnostics.otel.headers.*")}}});
        config["channels"] = channels(&mut birds, &parrot);
        config["commands"] = json!({"config": true});
        config["env"] = json!({"LATER": birds.at("env.*"), "vars": {"X": birds.at("env.vars.*")}});
        let models = providers(&mut config, &mut birds, &parrot, &base);
        tools(&mut config, &mut birds, &parrot, &base, search);
        let profile = birds.at("profile");
        let profiles = json!({"version": 1, "profiles": {"stored:default":
            {"type": "api_key", "provider": "stored", "key": profile}}});
        let stored = base.join("state/agents/main/agent/auth-profiles.json");
        write(&stored, 0o600, &profiles.to_string());
        let dotenv = format!("DOTENV_KEY={}\n", birds.at("secret of .env"));
        write(&base.join("state/.env"), 0o600, &dotenv);
        let options = GatewayOptions::with_config(config)
            .env("RUST_LOG", "trace")
            .env("ANTHROPIC_API_KEY", &birds.at("ANTHROPIC_API_KEY"))
            .env("ANTHROPIC_BASE_URL", &parrot.url(""))
            .env("REFERRED_KEY", &birds.at("secret of env"));
        let gateway = Gateway::start_in(root, options).await.unwrap();
        let nests = [
            "state/.env",
            "state/openclaw.json",
            "state/openclaw.json.bak",
            "vault.sh",
            "vault.json",
            "claude.sh",
        ]
        .map(|name| base.join(name))
        .into_iter()
        .chain([stored]);
        Self { birds, gateway, token, models, nests: nests.collect(), _parrot: parrot }
    }

    /// Connect params of somebody who may do everything.
    fn params(&self) -> Value {
        let mut params = standard_connect(&ALL_SCOPES);
        params["auth"]["token"] = json!(self.token);
        params["caps"] = json!(["tool-events"]);
        params
    }
}

/// Channels whose services refuse everything, and repeat what they were asked.
fn channels(birds: &mut Birds, parrot: &Parrot) -> Value {
    let mut account = |at: &str| {
        let telegram = json!({
            "botToken": birds.at(&format!("channels.telegram.{at}botToken")),
            "webhookSecret": birds.at(&format!("channels.telegram.{at}webhookSecret")),
            "apiRoot": parrot.url(""),
        });
        let password = birds.at(&format!("channels.webhook.{at}url"));
        let webhook = json!({
            "secret": birds.at(&format!("channels.webhook.{at}secret")),
            "url": format!("http://me:{password}@{}/in", parrot.address),
        });
        (telegram, webhook)
    };
    let ((mut telegram, mut webhook), (other, another)) = (account(""), account("accounts.*."));
    telegram["accounts"] = json!({"other": other});
    webhook["accounts"] = json!({"other": another});
    webhook["accounts"]["other"]["path"] = json!("/other");
    json!({"telegram": telegram, "webhook": webhook})
}

/// Providers with a canary each in every way in that there is.
fn providers(
    config: &mut Value,
    birds: &mut Birds,
    parrot: &Parrot,
    base: &Path,
) -> Vec<&'static str> {
    let at = |rest: &str| format!("models.providers.*.{rest}");
    let url = parrot.url("/v1");
    let mut provider = |id: &str, mut more: Value| {
        more["api"] = json!("openai-completions");
        more["models"] = model("m");
        if more.get("baseUrl").is_none() {
            more["baseUrl"] = json!(url);
        }
        config["models"]["providers"][id] = more;
    };
    let key = birds.at(&at("apiKey"));
    let headers = json!({"X-Team": birds.at(&at("headers.*"))});
    let more = json!({"X-More": birds.at(&at("request.headers.*"))});
    provider("plain", json!({"apiKey": key, "headers": headers, "request": {"headers": more}}));
    let auth =
        json!({"mode": "authorization-bearer", "token": birds.at(&at("request.auth.token"))});
    provider("bearer", json!({"request": {"auth": auth}}));
    let value = birds.at(&at("request.auth.value"));
    let auth = json!({"mode": "header", "headerName": "X-Key", "value": value});
    provider("header", json!({"request": {"auth": auth}}));
    let pem =
        |kind: &str, bird: String| format!("-----BEGIN {kind}-----\n{bird}\n-----END {kind}-----");
    let tls = json!({"cert": pem("CERTIFICATE", "AAAA".into()),
        "key": pem("PRIVATE KEY", birds.at(&at("request.tls.key")))});
    provider(
        "tls",
        json!({"baseUrl": "https://127.0.0.1:9", "apiKey": "k", "request": {"tls": tls}}),
    );
    let password = birds.at(&at("request.proxy.url"));
    let proxy = format!("http://me:{password}@{}", parrot.address);
    let request = json!({"proxy": {"mode": "explicit-proxy", "url": proxy}});
    let far = "http://provider.invalid/v1";
    provider("proxied", json!({"baseUrl": far, "apiKey": "k", "request": request}));
    provider("stored", json!({}));
    // References to each source.
    let vault = base.join("vault.sh");
    let answer = json!({"protocolVersion": 1, "values": {"it": birds.at("secret of exec")}});
    write(&vault, 0o700, &format!("#!/bin/sh\necho '{answer}'\n"));
    let file = base.join("vault.json");
    write(&file, 0o600, &json!({"it": birds.at("secret of file")}).to_string());
    config["secrets"] = json!({"providers": {
        "vault": {"source": "exec", "command": vault,
            "env": {"VAULT_KEY": birds.at("secrets.providers.*.env.*")}},
        "safe": {"source": "file", "path": file},
    }});
    let mut referring = |id: &str, reference: Value| {
        let models = model("m");
        config["models"]["providers"][id] = json!({"baseUrl": url, "apiKey": reference,
            "api": "openai-completions", "models": models});
    };
    referring("by-exec", json!({"source": "exec", "provider": "vault", "id": "it"}));
    referring("by-file", json!({"source": "file", "provider": "safe", "id": "/it"}));
    referring("by-env", json!({"source": "env", "id": "REFERRED_KEY"}));
    config["models"]["mode"] = json!("merge");
    let script = base.join("claude.sh");
    write(&script, 0o700, "#!/bin/sh\nenv | grep canary\nenv | grep canary >&2\nexit 3\n");
    let env = json!({"CLI_KEY": birds.at("agents.defaults.cliBackends.*.env.*")});
    config["agents"]["defaults"]["cliBackends"] =
        json!({"claude-cli": {"command": script, "env": env}});
    vec![
        "plain/m",
        "bearer/m",
        "header/m",
        "tls/m",
        "proxied/m",
        "stored/m",
        "by-exec/m",
        "by-file/m",
        "by-env/m",
        "anthropic/claude-opus-4-6",
        "claude-cli/opus",
    ]
}

/// Tools, skills and servers with canaries.
fn tools(config: &mut Value, birds: &mut Birds, parrot: &Parrot, base: &Path, search: &str) {
    let mut services = json!({"provider": search, "apiKey": birds.at("tools.web.search.apiKey")});
    for name in ["brave", "tavily", "searxng"] {
        let at = |rest: &str| format!("tools.web.search.{name}.{rest}");
        let password = birds.at(&at("baseUrl"));
        let url = format!("http://me:{password}@{}/?key={password}", parrot.address);
        services[name] = json!({"apiKey": birds.at(&at("apiKey")), "baseUrl": url});
    }
    config["tools"]["web"]["search"] = services;
    vectors(config, birds, parrot);
    speech(config, birds, parrot);
    config["tools"]["exec"]["env"] = json!({"TOOL_KEY": birds.at("tools.exec.env.*")});
    config["skills"]["entries"] = json!({"gh": {"apiKey": birds.at("skills.entries.*.apiKey"),
        "env": {"GH_MORE": birds.at("skills.entries.*.env.*")}}});
    let skill = "---\nname: gh\ndescription: d\nmetadata: {openclaw: {primaryEnv: GH_KEY}}\n---\n";
    write(&base.join("state/skills/gh/SKILL.md"), 0o600, skill);
    let script = base.join("gossip.py");
    write(&script, 0o600, GOSSIP);
    let url = parrot.url(&format!("/{}/mcp", birds.at("mcp.servers.*.url")));
    config["mcp"]["servers"] = json!({
        "gossip": {"command": "python3", "args": [script],
            "env": {"KEY": birds.at("mcp.servers.*.env.*")}},
        "far": {"url": url, "headers": {"X-Key": birds.at("mcp.servers.*.headers.*")}},
    });
}

/// Makers of vectors that refuse everything.
fn vectors(config: &mut Value, birds: &mut Birds, parrot: &Parrot) {
    let mut search = |at: &str| {
        let at = |rest: &str| format!("{at}.memorySearch.remote.{rest}");
        let password = birds.at(&at("baseUrl"));
        json!({"provider": "openai", "remote": {"apiKey": birds.at(&at("apiKey")),
            "baseUrl": format!("http://me:{password}@{}/v1", parrot.address),
            "headers": {"X-Key": birds.at(&at("headers.*"))}}})
    };
    config["agents"]["defaults"]["memorySearch"] = search("agents.defaults");
    let own = search("agents.list.*");
    config["agents"]["list"] = json!([{"id": "main"}, {"id": "other", "memorySearch": own}]);
    config["gateway"]["http"]["endpoints"] =
        json!({"chatCompletions": {"enabled": true}, "responses": {"enabled": true}});
}

/// Services of speech that refuse everything.
fn speech(config: &mut Value, birds: &mut Birds, parrot: &Parrot) {
    let mut service = |at: &str| {
        let at = |rest: &str| format!("{at}.{rest}");
        let password = birds.at(&at("baseUrl"));
        json!({"apiKey": birds.at(&at("apiKey")), "env": {"KEY": birds.at(&at("env.*"))},
            "baseUrl": format!("http://me:{password}@{}/v1", parrot.address)})
    };
    let openai = service("messages.tts.providers.*");
    let persona = service("messages.tts.personas.*.providers.*");
    config["talk"] =
        json!({"provider": "openai", "providers": {"openai": service("talk.providers.*")}});
    config["messages"]["tts"] = json!({"provider": "openai", "providers": {"openai": openai},
        "personas": {"bea": {"providers": {"openai": persona}}}});
}

/// A client that does all that may tell a secret.
async fn exercise(scene: &Scene) -> Vec<WsClient> {
    let mut client = connect(&scene.gateway, &scene.params()).await;
    for (index, model) in scene.models.iter().enumerate() {
        let session = format!("s{index}");
        let chosen = json!({"key": session, "model": model});
        let answer = client.request("sessions.patch", chosen).await;
        assert_eq!(answer["ok"], true, "{model}: {answer}");
        let end = ask(&mut client, &session, "hello", &format!("run-{index}")).await;
        assert_eq!(end["state"], "error", "{model}: {end}");
    }
    let ready = async || {
        client.request("tools.effective", json!({"sessionKey": "main"})).await;
        let status = client.request("status", json!({})).await;
        let servers = status["payload"]["mcp"]["servers"].clone();
        let state = |name: &str| {
            let mut all = servers.as_array().unwrap().iter();
            all.find(|server| server["name"] == name).unwrap()["state"].clone()
        };
        (state("gossip") == "ready" && state("far") != "starting").then_some(())
    };
    until("a server that tells and one that refuses", ready).await;
    // A command that prints what it has, and all that it finds.
    let prints = format!(
        "test -n \"$TOOL_KEY$GH_KEY\" && echo there; env; cd {}; cat state/openclaw.json state/.env \
         vault.* claude.sh state/agents/main/agent/auth-profiles.json; cat <state/openclaw.json >&2",
        scene.gateway.state_dir().parent().unwrap().display()
    );
    for (name, args) in [
        ("gossip__tell", json!({"error": true})),
        ("gossip__tell", json!({})),
        ("web_search", json!({"query": "x"})),
        ("exec", json!({"command": prints})),
    ] {
        let said = client.request("tools.invoke", json!({"name": name, "args": args})).await;
        assert!(said["payload"]["ok"].is_boolean(), "{name}: {said}");
    }
    for (method, persona) in [("tts.convert", "off"), ("tts.convert", "bea"), ("talk.speak", "off")]
    {
        client.request("tts.setPersona", json!({"persona": persona})).await;
        let refused = client.request(method, json!({"text": "hello"})).await;
        assert_eq!(refused["ok"], false, "{method}: {refused}");
    }
    client.request("talk.config", json!({})).await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    for agent in ["main", "other"] {
        let url = format!("http://{}/v1/embeddings", scene.gateway.address());
        let body = json!({"model": format!("openclaw/{agent}"), "input": "x"}).to_string();
        let refused = http.post(url).bearer_auth(&scene.token).body(body).send().await.unwrap();
        let told = refused.text().await.unwrap();
        assert!(told.contains("internal error"), "{told}");
    }
    for line in ["/config show", "/config get gateway.auth", "/config get models", "/status"] {
        let end = ask(&mut client, "commands", line, line).await;
        assert!(!text_of(&end["message"]).is_empty(), "{line}: {end}");
    }
    // Everything there is to ask, but for the one whose answer is secrets and
    // the one that ends the connection.
    for (method, _) in handlers::registry().list() {
        if !["secrets.resolve", "gateway.restart.request"].contains(&method) {
            client.request(method, json!({})).await;
        }
    }
    client.request("secrets.reload", json!({})).await;
    // Whoever is refused, and whoever writes the token where it does not belong.
    let mut wrong = scene.gateway.open().await;
    let mut params = scene.params();
    params["auth"] = json!({"token": format!("{}x", scene.token), "password": scene.token});
    let refused = wrong.request("connect", params).await;
    assert_eq!(refused["ok"], false);
    let query = format!("/?token={}", scene.token);
    let origin = [("Origin".to_owned(), format!("http://{}", scene.token))];
    let mut queried = WsClient::open_with(&scene.gateway.address(), &query, &origin).await.unwrap();
    let mut params = scene.params();
    params["client"]["displayName"] = json!("x\nforged line\u{1b}[2J");
    queried.request("connect", params).await;
    let mut again = connect(&scene.gateway, &scene.params()).await;
    again.request("system-presence", json!({})).await;
    vec![client, wrong, queried, again]
}

/// What commands of this machine print.
fn printed(gateway: &Gateway, env: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
    let lines = [
        "config explain",
        "config explain --json",
        "config validate",
        "models status --json",
        "models list",
        "status --json",
        "doctor --json",
        "security audit --json",
        "logs --limit 5000",
        "logs --limit 5000 --json",
    ];
    let run = |line: &str| {
        let output = Command::new(program())
            .args(line.split(' '))
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap_or_default())
            .env("HOME", gateway.home())
            .env("OPENCLAW_STATE_DIR", gateway.state_dir())
            .env("OPENCLAW_CONFIG_PATH", gateway.config_path())
            .env("RUST_LOG", "trace")
            .envs(env.iter().copied())
            .output()
            .unwrap();
        (line.to_owned(), [output.stdout, output.stderr].concat())
    };
    lines.into_iter().map(run).collect()
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

fn http_client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap()
}

/// Where requests are answered.
fn places() -> impl Iterator<Item = &'static str> {
    all_routes().filter_map(|route| match route.place {
        Place::Path(path) | Place::Api(path) | Place::Like(path) | Place::PagePath(path) => {
            Some(path)
        }
        _ => None,
    })
}

/// A request that may be good at this path.
fn body_for(path: &str) -> Value {
    let mut body = match path {
        "/v1/chat/completions" => json!({"messages": [{"role": "user", "content": "hello"}]}),
        "/v1/responses" | "/v1/embeddings" => json!({"input": "hello"}),
        _ => json!({}),
    };
    body["model"] = json!("openclaw/main");
    body
}

/// What every route answers whoever may ask it: the services that it needs refuse, and
/// repeat what they were asked with.
async fn asked_with_the_token(scene: &Scene) -> Vec<(String, Vec<u8>)> {
    let client = http_client();
    let mut answers = Vec::new();
    let mut met = BTreeMap::new();
    for path in places() {
        for method in METHODS {
            let url = format!("http://{}{path}", scene.gateway.address());
            let asked = client.request(method.parse().unwrap(), url).bearer_auth(&scene.token);
            let asked = match path {
                // Vectors come from a service of their own.
                "/v1/embeddings" => asked,
                _ => asked.header("X-OpenClaw-Model", scene.models[0]),
            };
            let answer = asked.body(body_for(path).to_string()).send().await.unwrap();
            let line = format!("{method} {path} with the token");
            met.insert((method, path), answer.status().as_u16());
            let head = format!("{:?}", answer.headers());
            // A stream of events has no end.
            let has_end = !head.contains("event-stream");
            answers.push((line.clone(), head.into_bytes()));
            if has_end {
                answers.push((line, answer.bytes().await.unwrap_or_default().to_vec()));
            }
        }
    }
    for path in ["/v1/chat/completions", "/v1/responses", "/v1/embeddings"] {
        assert_eq!(met[&("POST", path)], 500, "{path} has asked a service");
    }
    assert_eq!(met[&("GET", "/metrics")], 200);
    answers
}

/// What every route answers that is asked with the token wherever clients may
/// write it, right and wrong.
async fn asked_by_http(scene: &Scene) -> Vec<(String, Vec<u8>)> {
    let client = http_client();
    let mut answers = Vec::new();
    let sockets = ALL.iter().flat_map(|dialect| dialect.sockets).map(|route| route.path);
    for path in places().chain(sockets).chain(["/api/claude/nothing"]) {
        for shown in [scene.token.clone(), format!("{}x", scene.token)] {
            for names in ["access_token", "token", "secret"] {
                let query = format!("?{names}={shown}&page={shown}&limit={shown}");
                let url = format!("http://{}{path}{query}", scene.gateway.address());
                for method in METHODS {
                    let body = json!({"secret": shown, "token": shown}).to_string();
                    let asked = client.request(method.parse().unwrap(), &url).body(body);
                    let asked = asked.header("Cookie", format!("access_token={shown}"));
                    let answer = asked.send().await.unwrap();
                    let head = format!("{:?}", answer.headers());
                    answers.push((format!("{method} {path}"), head.into_bytes()));
                    // A stream of events has no end.
                    if !answers.last().unwrap().1.windows(12).any(|it| it == b"event-stream") {
                        let body = answer.bytes().await.unwrap_or_default();
                        answers.push((format!("{method} {path}"), body.to_vec()));
                    }
                }
                let place = format!("{path}{query}");
                let _ = WsClient::open_with(&scene.gateway.address(), &place, &[]).await;
            }
        }
    }
    answers
}

async fn nothing_comes_out(search: &str) {
    let mut scene = Scene::start(search).await;
    let clients = exercise(&scene).await;
    let mut answers = asked_with_the_token(&scene).await;
    answers.extend(asked_by_http(&scene).await);
    for (line, said) in answers {
        assert_eq!(scene.birds.in_bytes(&said), [""; 0], "answered to {line}");
    }
    for (line, said) in
        printed(&scene.gateway, &[("REFERRED_KEY", &scene.birds.0["secret of env"].clone())])
    {
        assert_eq!(scene.birds.in_bytes(&said), [""; 0], "printed by {line}");
    }
    for client in &clients {
        for frame in client.frames() {
            let text = frame.to_string();
            assert_eq!(scene.birds.in_bytes(text.as_bytes()), [""; 0], "{text}");
        }
    }
    drop(clients);
    scene.gateway.terminate().await.expect("an end");
    for text in [scene.gateway.stdout(), scene.gateway.stderr()] {
        let shown: Vec<_> = text.lines().filter(|line| line.contains(MARK)).collect();
        assert_eq!(scene.birds.in_bytes(text.as_bytes()), [""; 0], "{shown:#?}");
        assert!(!text.lines().any(|line| line.starts_with("forged")), "an event is one line");
    }
    assert!(scene.gateway.stderr().contains("DEBUG"), "the log has details");
    let mut all = Vec::new();
    files(scene.gateway.root(), &mut all);
    assert!(all.iter().any(|path| path.ends_with("clawgate.sqlite")), "{all:?}");
    let is_log = |path: &&PathBuf| path.parent().is_some_and(|dir| dir.ends_with("state/logs"));
    let logged = all.iter().filter(is_log).map(|path| fs::read_to_string(path).unwrap());
    let logged: String = logged.collect();
    assert!(logged.contains("\"DEBUG\""), "the log file has details too");
    assert!(logged.lines().all(|line| line.starts_with("{\"0\":")), "each event is one line");
    // What the config was before it was changed by a route is kept beside it.
    let is_nest = |path: &&PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        scene.nests.contains(*path) || name.starts_with("openclaw.json.bak")
    };
    for path in all.iter().filter(|path| !is_nest(path)) {
        let found = scene.birds.in_bytes(&fs::read(path).unwrap_or_default());
        assert_eq!(found, [""; 0], "in {}", path.display());
    }
}

#[tokio::test]
async fn no_secret_comes_out_anywhere_while_everything_fails() {
    nothing_comes_out("brave").await;
}

#[tokio::test]
async fn no_secret_comes_out_of_another_search() {
    nothing_comes_out("tavily").await;
}

/// So that a new place cannot be forgotten above.
#[tokio::test]
async fn every_place_for_a_credential_has_a_canary() {
    let scene = Scene::start("brave").await;
    let text = fs::read_to_string(scene.gateway.config_path()).unwrap();
    let config: Value = serde_json::from_str(&text).unwrap();
    let planted = credentials(&config).into_iter().filter(|(_, value)| {
        let text = value.to_string();
        text.contains(MARK)
    });
    let planted: BTreeSet<_> = planted
        .filter_map(|(path, _)| clawgate::config::redact::slot_at(&path).map(|slot| slot.path))
        .collect();
    for slot in SLOTS.iter().filter(|slot| slot.kind != SlotKind::Public) {
        assert!(planted.contains(slot.path), "nothing is planted at {}", slot.path);
    }
}

/// Members of the config that hold credentials, by the source they are read in.
/// A new one fails this: add its place to `SLOTS`, plant a canary there, then
/// name it here.
#[test]
fn every_member_of_the_config_that_is_a_secret_is_a_known_place() {
    let expected = "account.rs bot_token, account.rs secret, account.rs secret, account.rs token, \
        account.rs webhook_secret, account.rs webhook_secret, auth.rs password, auth.rs password, auth.rs token, auth.rs token, \
        cli_backend.rs env, cron.rs webhook_token, env.rs added, env.rs dotenv, mcp.rs env, mcp.rs headers, mcp.rs url, mcp.rs url, \
        memory_search.rs api_key, memory_search.rs base_url, memory_search.rs headers, models.rs api_key, \
        models.rs headers, options.rs api_key, options.rs base_url, options.rs env, otel.rs headers, otel.rs headers, provider_request.rs ca, provider_request.rs cert, \
        provider_request.rs headers, provider_request.rs key, provider_request.rs token, \
        provider_request.rs value, provider_request.rs value, settings.rs password, \
        settings.rs token, skills.rs api_key, skills.rs env, tls.rs password, tls.rs token, web.rs api_key, web.rs api_key, \
        web.rs base_url";
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config");
    let folders = [dir.clone(), dir.join("channels"), dir.join("voice")];
    let mut found = Vec::new();
    for entry in folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()) {
        let path = entry.unwrap().path();
        let Ok(source) = fs::read_to_string(&path) else { continue };
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        for line in source.split("#[cfg(test)]").next().unwrap().lines().map(str::trim) {
            let is_field = line.ends_with(',') && !line.contains('(') && !line.starts_with("//");
            let Some((name, kind)) = line.split_once(": ").filter(|_| is_field) else { continue };
            let kinds = ["Secret,", "Secret>", "SecretInput,", "SecretInput>"];
            if kinds.iter().any(|it| kind.contains(it)) {
                found.push(format!("{file} {}", name.trim_start_matches("pub ")));
            }
        }
    }
    found.sort();
    assert_eq!(found.join(", "), expected);
}
