//! The effective settings: precedence, defaults, bad files, secrets.

#[path = "support/tested.rs"]
mod tested;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use clawgate::config::secrets::ResolvedSecrets;
use clawgate::config::{
    AuthMode, Bind, DmScope, Env, ModelSetting, Origin, Overrides, RateLimitSettings, SessionScope,
    Settings, TranscriptFormat, load,
};
use clawgate::protocol::{Scope, ScopeSet};
use clawgate::support::Secret;
use tempfile::TempDir;

use tested::program;

/// A home with this config file, and what was read from it.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn with(text: &str) -> Self {
        let home = Self::new();
        fs::create_dir(home.state()).unwrap();
        fs::write(home.state().join("openclaw.json"), text).unwrap();
        home
    }

    fn state(&self) -> PathBuf {
        self.0.path().join(".openclaw")
    }

    fn config(&self) -> PathBuf {
        self.state().join("openclaw.json")
    }

    fn env<const N: usize>(&self, variables: [(&str, &str); N]) -> Env {
        Env::fixed(variables, self.0.path())
    }

    fn load<const N: usize>(&self, variables: [(&str, &str); N], flags: &Overrides) -> Settings {
        load(&self.env(variables), flags).unwrap()
    }

    fn settings(&self) -> Settings {
        self.load([], &Overrides::default())
    }

    /// Writes the file `.env` of the state directory.
    fn put_dotenv(&self, text: &str) {
        fs::write(self.state().join(".env"), text).unwrap();
    }

    /// The real binary, of a user who has only these variables.
    fn command(&self, args: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(program());
        command.args(args).env_clear().env("HOME", self.0.path());
        command.env("TMPDIR", self.0.path()).envs(variables.iter().copied());
        command
    }

    fn run(&self, args: &[&str], variables: &[(&str, &str)]) -> Output {
        self.command(args, variables).output().unwrap()
    }

    /// What a command prints that must go well.
    fn said(&self, args: &[&str], variables: &[(&str, &str)]) -> String {
        let output = self.run(args, variables);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The error text, with the config path as `<C>`.
    fn refusal(&self, flags: &Overrides) -> String {
        let error = load(&self.env([]), flags).unwrap_err();
        error.to_string().replace(self.config().to_str().unwrap(), "<C>")
    }
}

fn shown(settings: &Settings, key: &str) -> (String, Origin) {
    let line = settings.explain().into_iter().find(|line| line.key == key).unwrap();
    (line.value, line.origin)
}

#[test]
fn flag_beats_environment_beats_file_beats_default_for_each_key() {
    let text = r#"{gateway: {port: 3, bind: "lan", handshakeTimeoutMs: 30,
        auth: {mode: "password", token: "file-token", password: "file-password"}}}"#;
    let variables = [
        ("OPENCLAW_GATEWAY_PORT", "2"),
        ("OPENCLAW_GATEWAY_TOKEN", "env-token"),
        ("OPENCLAW_GATEWAY_PASSWORD", "env-password"),
        ("OPENCLAW_HANDSHAKE_TIMEOUT_MS", "20"),
        ("OPENCLAW_MAX_PREAUTH_CONNECTIONS_PER_IP", "200"),
    ];
    let flags = Overrides {
        port: Some(1),
        bind: Some("127.0.0.9".parse().unwrap()),
        auth: Some(AuthMode::Token),
        token: Some(Secret::new("flag-token")),
        password: Some(Secret::new("flag-password")),
        read_only: false,
    };
    let empty = Home::new();
    let full = Home::with(text);
    let default = || Origin::Default;
    let file = || Origin::File(full.config());
    let levels = [
        (empty.settings(), 0),
        (full.settings(), 1),
        (full.load(variables, &Overrides::default()), 2),
        (full.load(variables, &flags), 3),
    ];
    let env = Origin::Env;
    let flag = Origin::Flag;
    let generated = Origin::Generated(empty.state().join("gateway-token"));
    let table = [
        (
            "gateway.port",
            [
                ("18789", default()),
                ("3", file()),
                ("2", env("OPENCLAW_GATEWAY_PORT")),
                ("1", flag("--port")),
            ],
        ),
        (
            "gateway.bind",
            [
                ("loopback", default()),
                ("lan", file()),
                ("lan", file()),
                ("127.0.0.9", flag("--bind")),
            ],
        ),
        (
            "gateway.auth.mode",
            [
                ("token", default()),
                ("password", file()),
                ("password", file()),
                ("token", flag("--auth")),
            ],
        ),
        (
            "gateway.auth.token",
            [
                ("set", generated),
                ("set", file()),
                ("set", env("OPENCLAW_GATEWAY_TOKEN")),
                ("set", flag("--token")),
            ],
        ),
        (
            "gateway.auth.password",
            [
                ("not set", default()),
                ("set", file()),
                ("set", env("OPENCLAW_GATEWAY_PASSWORD")),
                ("set", flag("--password")),
            ],
        ),
        (
            "gateway.handshakeTimeoutMs",
            [
                ("15000", default()),
                ("30", file()),
                ("20", env("OPENCLAW_HANDSHAKE_TIMEOUT_MS")),
                ("20", env("OPENCLAW_HANDSHAKE_TIMEOUT_MS")),
            ],
        ),
        (
            "gateway.maxPreauthPerIp",
            [
                ("32", default()),
                ("32", default()),
                ("200", env("OPENCLAW_MAX_PREAUTH_CONNECTIONS_PER_IP")),
                ("200", env("OPENCLAW_MAX_PREAUTH_CONNECTIONS_PER_IP")),
            ],
        ),
    ];
    for (settings, level) in &levels {
        for (key, expected) in &table {
            let (value, origin) = expected[*level].clone();
            assert_eq!(shown(settings, key), (value.to_owned(), origin), "{key} at level {level}");
        }
    }
    // What is shown is what is used.
    let [_, (from_file, _), (from_env, _), (from_flag, _)] = levels;
    for (settings, port, host, password) in [
        (&from_file, 3, "0.0.0.0", "file-password"),
        (&from_env, 2, "0.0.0.0", "env-password"),
        (&from_flag, 1, "127.0.0.9", "flag-password"),
    ] {
        assert_eq!(settings.gateway.port, port);
        assert_eq!(settings.gateway.bind.host().to_string(), host);
        assert!(settings.gateway.auth.password.as_ref().unwrap().matches(password));
    }
    assert!(from_flag.gateway.auth.token.unwrap().matches("flag-token"));
    assert_eq!(from_env.gateway.handshake_timeout, Duration::from_millis(20));
}

#[test]
fn without_a_file_everything_has_its_default() {
    let home = Home::new();
    let settings = home.settings();
    assert_eq!(settings.gateway.bind, Bind::Loopback);
    assert_eq!(settings.gateway.auth.rate_limit, None);
    let default_scopes: ScopeSet =
        [Scope::Read, Scope::Write, Scope::Admin, Scope::Approvals].into_iter().collect();
    assert_eq!(settings.gateway.auth.shared_secret_scopes, default_scopes);
    assert_eq!(settings.session.scope, SessionScope::PerSender);
    assert_eq!(settings.session.transcript_format, TranscriptFormat::OpenClaw);
    assert_eq!(settings.agents.default_id, "main");
    assert_eq!(settings.agents.list.len(), 1);
    assert_eq!(settings.agents.list[0].workspace, home.state().join("workspace"));
    assert_eq!(settings.history_max_chars, 8000);
    assert!(!settings.file.exists);
    // SHA-256 of the empty text.
    assert!(settings.file.hash.starts_with("e3b0c44298fc1c149afbf4c8996fb924"));
}

#[test]
fn the_example_file_is_valid_and_says_the_defaults() {
    let text = fs::read_to_string("config/openclaw.example.json5").unwrap();
    let home = Home::with(&text);
    let settings = home.settings();
    let plain = Home::new();
    let examples = [
        "agents.list",
        "agents.defaults.imageModel",
        "agents.defaults.model",
        "agents.defaults.thinkingDefault",
        "agents.defaults.userTimezone",
        "skills.entries",
        "skills.load.extraDirs",
        "session.reset.idleMinutes",
        "session.resetBy",
        "session.maintenance.pruneAfter",
        "session.maintenance.max",
        "session.maintenance.resetArchiveRetention",
        "session.maintenance.highWaterBytes",
        "messages.queue.byChannel",
        "tools.deny",
        "tools.exec.ask",
        "tools.exec.security",
        "cron.webhookToken",
    ];
    for line in plain.settings().explain() {
        if examples.iter().any(|key| line.key.starts_with(key)) || line.key.contains("rateLimit") {
            continue;
        }
        let default = line.value.replace(plain.0.path().to_str().unwrap(), "<H>");
        let (value, _) = shown(&settings, &line.key);
        let value = value.replace(home.0.path().to_str().unwrap(), "<H>");
        assert_eq!(value, default, "{}", line.key);
    }
    let limit = RateLimitSettings {
        max_attempts: 10,
        window: Duration::from_mins(1),
        lockout: Duration::from_mins(5),
        exempt_loopback: true,
    };
    assert_eq!(settings.gateway.auth.rate_limit, Some(limit));
    assert_eq!(settings.agents.list[1].identity.name.as_deref(), Some("Inky"));
    assert!(settings.models.providers.get("local").is_some());
}

#[test]
fn the_documentation_lists_every_key_of_the_example() {
    let docs = fs::read_to_string("docs/configuration.md").unwrap();
    let text = fs::read_to_string("config/openclaw.example.json5").unwrap();
    for line in Home::with(&text).settings().explain() {
        assert!(docs.contains(&format!("| `{}` |", line.key)), "{} is not documented", line.key);
    }
}

#[test]
fn a_wrong_value_is_named_with_its_path_and_what_it_must_be() {
    for (text, expected) in [
        ("{gateway: {port: 'x'}}", "gateway.port: must be an integer between 1 and 65535 (in <C>)"),
        ("{gateway: {port: 0}}", "gateway.port: must be an integer between 1 and 65535 (in <C>)"),
        (
            "{gateway: {port: 65536}}",
            "gateway.port: must be an integer between 1 and 65535 (in <C>)",
        ),
        ("{gateway: 3}", "gateway: must be an object (in <C>)"),
        ("[]", "<root>: must be an object (in <C>)"),
        (
            "{gateway: {bind: 'all'}}",
            "gateway.bind: must be one of loopback, lan, tailnet, auto, custom or an IP address (in <C>)",
        ),
        (
            "{gateway: {bind: 'custom'}}",
            "gateway.customBindHost: must be an IP address of this machine when gateway.bind is custom (in <C>)",
        ),
        (
            "{gateway: {auth: {mode: 'open'}}}",
            "gateway.auth.mode: must be one of token, password, none, trusted-proxy (in <C>)",
        ),
        (
            "{gateway: {auth: {sharedSecretScopes: ['read', 'root']}}}",
            "gateway.auth.sharedSecretScopes[1]: must be one of operator.admin, operator.read, operator.write, operator.approvals, operator.pairing, operator.talk.secrets (in <C>)",
        ),
        (
            "{gateway: {auth: {token: '__OPENCLAW_REDACTED__'}}}",
            "gateway.auth.token: has the placeholder that is shown instead of a secret; write the secret itself (in <C>)",
        ),
        (
            "{models: {providers: {p: {apiKey: '__OPENCLAW_REDACTED__'}}}}",
            "models.providers.p.apiKey: has the placeholder that is shown instead of a secret; write the secret itself (in <C>)",
        ),
        (
            "{gateway: {controlUi: {allowInsecureAuth: 'yes'}}}",
            "gateway.controlUi.allowInsecureAuth: must be true or false (in <C>)",
        ),
        (
            "{gateway: {controlUi: {allowedOrigins: 'x'}}}",
            "gateway.controlUi.allowedOrigins: must be a list (in <C>)",
        ),
        (
            "{gateway: {auth: {trustedProxy: {userHeader: 'x user'}}}}",
            "gateway.auth.trustedProxy.userHeader: must be the name of a header (in <C>)",
        ),
        (
            "{gateway: {remote: {tlsFingerprint: 'ab:cd'}}}",
            "gateway.remote.tlsFingerprint: must be a SHA-256 fingerprint: 64 hex digits, colons allowed (in <C>)",
        ),
        (
            "{models: {providers: {p: {models: 'm'}}}}",
            "models.providers.p.models: invalid type: string, expected a sequence (in <C>)",
        ),
        // What stands in the wrong place may be a secret.
        (
            "{models: {providers: {p: {headers: 'Bearer \"sk\", expected 1'}}}}",
            "models.providers.p.headers: invalid type: string, expected a map (in <C>)",
        ),
        (
            "{mcp: {servers: {s: {args: 'KEY=sk'}}}}",
            "mcp.servers.s.args: invalid type: string, expected a sequence (in <C>)",
        ),
        (
            "{models: {providers: {p: {apiKey: 1234}}}}",
            "models.providers.p.apiKey: invalid type: integer, expected a string or {source, provider, id} (in <C>)",
        ),
        (
            "{agents: {defaults: {thinkingDefault: 'hard'}}}",
            "agents.defaults.thinkingDefault: must be one of off, minimal, low, medium, high, xhigh, adaptive, max (in <C>)",
        ),
        ("{session: {scope: 'all'}}", "session.scope: must be one of per-sender, global (in <C>)"),
        (
            "{session: {dmScope: 'per-person'}}",
            "session.dmScope: must be one of main, per-peer, per-channel-peer, per-account-channel-peer (in <C>)",
        ),
        (
            "{session: {identityLinks: ['x']}}",
            "session.identityLinks: must be an object of lists (in <C>)",
        ),
        (
            "{session: {identityLinks: {alice: [1]}}}",
            "session.identityLinks.alice[0]: must be a string (in <C>)",
        ),
        (
            "{agents: {list: [{name: 'x'}]}}",
            "agents.list[0].id: is missing; it must be a string (in <C>)",
        ),
        (
            "{agents: {list: [{id: 'a b'}, {id: '../A  B'}]}}",
            "agents.list[1].id: `a-b` is there twice (in <C>)",
        ),
        (
            "{agents: {list: [{id: 'a'}, {id: 'A'}]}}",
            "agents.list[1].id: `a` is there twice (in <C>)",
        ),
        (
            "{agents: {defaults: {timeoutSeconds: -1}}}",
            "agents.defaults.timeoutSeconds: must be a positive integer (in <C>)",
        ),
        ("{\n  gateway: {\n    port 1\n}}", "<C>:3:10: not valid JSON5: expected colon"),
    ] {
        let home = Home::with(text);
        assert_eq!(home.refusal(&Overrides::default()), expected, "{text}");
        assert!(!home.state().join("gateway-token").exists(), "{text}");
    }
}

/// Each of these is in the schema of OpenClaw 2026.5.7: who comes from there has a gateway.
#[test]
fn what_the_original_takes_is_taken() {
    for text in [
        "{gateway: {bind: 'loopback', customBindHost: 'box.local'}}",
        "{gateway: {handshakeTimeoutMs: 700000, reload: {debounceMs: 120000}}}",
        "{gateway: {http: {endpoints: {responses: {maxBodyBytes: 209715200, maxUrlParts: 2e6}}}}}",
        "{gateway: {controlUi: {chatMessageMaxWidth: 'max-content'}}}",
        "{session: {reset: {idleMinutes: 99999999999}, maintenance: {pruneAfter: '0'}}}",
        "{cron: {sessionRetention: '0', webhookToken: {source: 'file', provider: 'a', id: '/b'}}}",
        "{hooks: {maxBodyBytes: 99999999, mappings: [{timeoutSeconds: 999999}]}}",
        "{auth: {cooldowns: {billingBackoffHoursByProvider: {x: 10000}}}}",
        "{skills: {limits: {maxSkillFileBytes: 0}}}",
        "{env: {'A-B': 'x', vars: {'c.d': 'y'}}}",
        "{agents: {defaults: {heartbeat: {every: '', activeHours: {start: '', timezone: 'Mars'}}}}}",
        "{agents: {defaults: {memorySearch: {outputDimensionality: 100000}}}}",
        "{agents: {defaults: {contextPruning: {mode: 'cache-ttl', ttl: 'often'}}}}",
    ] {
        Home::with(text).settings();
    }
    let odd = Home::with(
        "{gateway: {trustedProxies: ['127.0.0.1', 'proxy']}, agents: {list: [{id: 'My Agent'}],
          defaults: {mediaMaxMb: 0.5, userTimezone: 'Mars/Base'}},
          hooks: {allowedAgentIds: [' ', 'Ops'],
            mappings: [{match: {path: 'x'}, timeoutSeconds: 999999}]}}",
    )
    .settings();
    assert_eq!(odd.gateway.proxies.ranges.len(), 1);
    assert_eq!((&*odd.agents.default_id, odd.agents.list[0].id.as_str()), ("my-agent", "my-agent"));
    assert_eq!(odd.agents.defaults.media_max_bytes, 512 * 1024);
    assert!(odd.workspace.user_timezone.is_none());
    assert_eq!(odd.hooks.mappings[0].fields.timeout_seconds, Some(604_800));
    // What is empty names nobody.
    assert_eq!(odd.hooks.allowed_agent_ids, Some(["ops".to_owned()].into()));
}

#[test]
fn a_file_nested_without_end_is_an_error_and_no_crash() {
    let home = Home::with(&format!("{{a:\n{}", "[".repeat(1_000_000)));
    assert_eq!(home.refusal(&Overrides::default()), "<C>:2:128: not valid JSON5: nested too deep");
}

#[test]
fn a_wrong_variable_is_named() {
    let env = Home::new().env([("OPENCLAW_GATEWAY_PORT", "high")]);
    assert_eq!(
        load(&env, &Overrides::default()).unwrap_err().to_string(),
        "OPENCLAW_GATEWAY_PORT: must be an integer between 0 and 65535 (in the environment)"
    );
}

#[test]
fn an_unreadable_file_is_an_error_and_not_an_absent_one() {
    let home = Home::new();
    fs::create_dir_all(home.config()).unwrap();
    let refusal = home.refusal(&Overrides::default());
    assert!(refusal.starts_with("cannot read the config file <C>; check"), "{refusal}");
}

#[test]
fn nobody_else_can_reach_a_gateway_without_authentication() {
    let home = Home::with("{gateway: {bind: 'lan', auth: {mode: 'none'}}}");
    let refusal = home.refusal(&Overrides::default());
    assert!(refusal.starts_with("refusing to listen on 0.0.0.0 without"), "{refusal}");
    let flags = Overrides {
        bind: Some("192.0.2.1".parse().unwrap()),
        auth: Some(AuthMode::None),
        ..Overrides::default()
    };
    let refusal = Home::new().refusal(&flags);
    assert!(refusal.starts_with("refusing to listen on 192.0.2.1 without"), "{refusal}");
    let on_loopback = Overrides { bind: Some("::1".parse().unwrap()), ..flags };
    assert_eq!(Home::new().load([], &on_loopback).gateway.auth.mode, AuthMode::None);
}

#[test]
fn a_mode_without_what_it_needs_is_refused() {
    let password = Home::with("{gateway: {auth: {mode: 'password', password: ' '}}}");
    let refusal = password.refusal(&Overrides::default());
    assert!(refusal.contains("OPENCLAW_GATEWAY_PASSWORD"), "{refusal}");
    let proxy = Overrides { auth: Some(AuthMode::TrustedProxy), ..Overrides::default() };
    let refusal = Home::new().refusal(&proxy);
    assert!(refusal.contains("gateway.trustedProxies"), "{refusal}");
    let nameless = Home::with("{gateway: {trustedProxies: ['10.0.0.0/8']}}").refusal(&proxy);
    assert!(nameless.contains("gateway.auth.trustedProxy.userHeader"), "{nameless}");
}

#[test]
fn a_password_means_password_mode_unless_a_mode_is_written() {
    let home = Home::with("{gateway: {auth: {password: 'p', token: 't'}}}");
    assert_eq!(home.settings().gateway.auth.mode, AuthMode::Password);
    let written = Home::with("{gateway: {auth: {mode: 'token', password: 'p', token: 't'}}}");
    assert_eq!(written.settings().gateway.auth.mode, AuthMode::Token);
    assert!(!written.state().join("gateway-token").exists());
}

#[test]
fn the_generated_token_is_private_stable_and_never_in_the_users_file() {
    let text = "{ /* mine */ gateway: {port: 5} }";
    let home = Home::with(text);
    let first = home.settings().gateway.auth.token.unwrap();
    let second = home.settings().gateway.auth.token.unwrap();
    assert!(first.matches(second.expose()));
    assert_eq!(first.expose().len(), 64);
    let mode = fs::metadata(home.state().join("gateway-token")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(fs::read_to_string(home.config()).unwrap(), text);
}

#[test]
fn only_looking_creates_nothing() {
    let home = Home::new();
    let look = Overrides { read_only: true, ..Overrides::default() };
    let settings = home.load([], &look);
    assert!(settings.gateway.auth.token.is_none());
    assert_eq!(shown(&settings, "gateway.auth.token").0, "not set");
    assert!(!home.state().exists());
}

#[test]
fn secrets_may_come_from_variables_named_in_the_file() {
    let variables = [("MY_TOKEN", "s3cret"), ("MY_KEY", "k3y")];
    for text in [
        "{gateway: {auth: {token: '${MY_TOKEN}'}}, models: {providers: {p: {baseUrl: 'http://127.0.0.1:1', apiKey: '${MY_KEY}'}}}}",
        "{gateway: {auth: {token: {source: 'env', id: 'MY_TOKEN'}}}, models: {providers: {p: {baseUrl: 'http://127.0.0.1:1', apiKey: '${MY_KEY}'}}}}",
    ] {
        let settings = Home::with(text).load(variables, &Overrides::default());
        assert!(settings.gateway.auth.token.as_ref().unwrap().matches("s3cret"));
        let key = settings.models.providers.get("p").unwrap().api_key.as_ref().unwrap();
        assert!(key.resolve(&ResolvedSecrets::default()).unwrap().matches("k3y"));
        assert_eq!(settings.raw["models"]["providers"]["p"]["apiKey"], "${MY_KEY}");
        assert!(!format!("{settings:?}{:?}", settings.explain()).contains("s3cret"));
        assert!(!format!("{settings:?}").contains("k3y"));
    }
}

#[test]
fn a_key_with_an_escaped_variable_is_that_text() {
    let home = Home::with("{models: {providers: {p: {apiKey: '$${MY_KEY}'}}}}");
    let settings = home.load([("MY_KEY", "k3y")], &Overrides::default());
    let key = settings.models.providers.get("p").unwrap().api_key.as_ref().unwrap();
    assert_eq!(key.resolve(&ResolvedSecrets::default()).unwrap().expose(), "${MY_KEY}");
}

#[test]
fn agents_get_their_workspaces_as_in_openclaw() {
    let places = |text: &str| -> Vec<(String, String)> {
        let home = Home::with(text);
        let strip = |path: &Path| {
            path.display().to_string().replace(home.0.path().to_str().unwrap(), "<H>")
        };
        let settings = home.settings();
        settings.agents.list.iter().map(|a| (a.id.clone(), strip(&a.workspace))).collect()
    };
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(id, path)| ((*id).to_owned(), (*path).to_owned())).collect()
    };
    assert_eq!(
        places(
            "{agents: {list: [{id: 'a'}, {id: 'b', default: true}, {id: 'c', workspace: '~/c'}]}}"
        ),
        pairs(&[
            ("a", "<H>/.openclaw/workspace-a"),
            ("b", "<H>/.openclaw/workspace"),
            ("c", "<H>/c"),
        ])
    );
    assert_eq!(
        places("{agents: {defaults: {workspace: '/w'}, list: [{id: 'a'}, {id: 'b'}]}}"),
        pairs(&[("a", "/w"), ("b", "/w/b")])
    );
}

#[test]
fn room_for_an_answer_is_what_is_written_but_not_below_a_floor_that_is_written() {
    for (text, expected) in [
        ("{}", 20_000),
        ("{reserveTokens: 0}", 0),
        ("{reserveTokens: 5000}", 5000),
        ("{reserveTokensFloor: 0}", 16_384),
        ("{reserveTokensFloor: 30000}", 30_000),
        ("{reserveTokens: 5000, reserveTokensFloor: 6000}", 6000),
        ("{reserveTokens: 40000, reserveTokensFloor: 6000}", 40_000),
    ] {
        let text = format!("{{agents: {{defaults: {{compaction: {text}}}}}}}");
        let defaults = Home::with(&text).settings().agents.defaults;
        assert_eq!(defaults.compaction_reserve_tokens, expected, "{text}");
    }
}

#[test]
fn what_openclaw_takes_starts_a_gateway_and_counts_as_its_bound() {
    let settings = Home::with(
        "{agents: {defaults: {
            subagents: {maxConcurrent: 5000, runTimeoutSeconds: 0, archiveAfterMinutes: 9999999},
            heartbeat: {every: '1h30m', ackMaxChars: 100000}}},
        channels: {telegram: {botToken: '1:a', textChunkLimit: 10000}},
        commands: {ownerAllowFrom: [7]},
        logging: {maxFileBytes: 1000},
        session: {maintenance: {pruneDays: 99999}},
        skills: {limits: {maxSkillsInPrompt: 0, maxSkillsPromptChars: 0}}}",
    )
    .settings();
    let limits = &settings.agents.defaults.subagent_limits;
    assert_eq!((limits.max_concurrent, limits.run_timeout_seconds), (1000, 0));
    assert_eq!(limits.archive_after_minutes, 365 * 24 * 60);
    let beat = &settings.heartbeats[0];
    assert_eq!((beat.every_ms, beat.ack_max_chars), (Some(5_400_000), 10_000));
    assert_eq!(settings.channels.accounts[0].chunk_limit, 4096);
    assert_eq!(settings.logging.max_file_bytes, 65_536);
    assert_eq!(settings.session.maintenance.prune_after_ms, Some(36_500 * 24 * 60 * 60 * 1000));
    assert_eq!((settings.skills.max_in_prompt, settings.skills.max_prompt_chars("main")), (0, 0));
}

#[test]
fn models_without_an_alias_have_those_of_openclaw_unless_another_has_it() {
    let aliases = |text: &str| -> Vec<Option<String>> {
        let text = format!("{{agents: {{defaults: {{models: {text}}}}}}}");
        let models = Home::with(&text).settings().agents.defaults.models;
        models.into_iter().map(|model| model.alias).collect()
    };
    let some = |alias: &str| Some(alias.to_owned());
    assert_eq!(
        aliases("{'openai/gpt-5.4': {}, 'openai/gpt-5.4-mini': {}, 'openai/gpt-5.5': {}}"),
        [some("gpt"), some("gpt-mini"), None]
    );
    assert_eq!(
        aliases("{'openai/gpt-5.4': {alias: 'old'}, 'anthropic/claude-opus-4-7': {}}"),
        [some("old"), some("opus")]
    );
    assert_eq!(aliases("{'openai/gpt-5.4': {}, 'p/m': {alias: 'GPT'}}"), [None, some("GPT")]);
    assert_eq!(aliases("{'openai/gpt-5.4': {alias: ' '}}"), [None::<String>]);
}

#[test]
fn what_is_no_thinking_level_of_a_model_counts_for_nothing_and_stops_no_gateway() {
    for (written, level) in [
        ("'max'", Some("xhigh")),
        ("'ultra'", None),
        ("{type: 'enabled'}", None),
        ("false", None),
        ("5", None),
        ("null", None),
    ] {
        let models = format!("{{'p/m': {{params: {{thinking: {written}}}}}}}");
        let text = format!("{{agents: {{defaults: {{models: {models}}}}}}}");
        let models = Home::with(&text).settings().agents.defaults.models;
        assert_eq!(models[0].thinking.as_deref(), level, "{written}");
    }
}

#[test]
fn a_model_is_a_text_or_a_primary_with_fallbacks() {
    let model = |text: &str| {
        Home::with(&format!("{{agents: {{defaults: {{model: {text}}}}}}}"))
            .settings()
            .agents
            .defaults
            .model
    };
    let setting = |fallbacks: Option<&[&str]>| ModelSetting {
        primary: "p/m".into(),
        fallbacks: fallbacks.map(|names| names.iter().map(|&name| name.to_owned()).collect()),
    };
    assert_eq!(model("'p/m'"), Some(setting(None)));
    assert_eq!(model("{primary: 'p/m', fallbacks: []}"), Some(setting(Some(&[]))));
    assert_eq!(model("{primary: 'p/m', fallbacks: ['p/n']}"), Some(setting(Some(&["p/n"]))));
    assert_eq!(model("{fallbacks: []}"), None);
    assert_eq!(model("null"), None);
}

#[test]
fn people_with_several_places_are_linked() {
    let text = "{session: {dmScope: 'per-peer', identityLinks: {alice: ['telegram:1', '+49']}}}";
    let settings = Home::with(text).settings();
    assert_eq!(settings.session.dm_scope, DmScope::PerPeer);
    assert_eq!(settings.session.identity_links["alice"], ["telegram:1", "+49"]);
    assert_eq!(shown(&settings, "session.identityLinks").0, "alice");
}

#[test]
fn unknown_keys_are_kept_and_the_hash_is_that_of_the_text() {
    let settings = Home::with("{future: {x: [1, 2]}, gateway: {later: true}}").settings();
    assert_eq!(settings.raw["future"]["x"][1], 2);
    assert_eq!(settings.raw["gateway"]["later"], true);
    let settings = Home::with("{}").settings();
    assert_eq!(
        settings.file.hash,
        "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    );
}

#[test]
fn a_file_dotenv_fills_variables_in_below_the_environment_and_above_the_section() {
    let home = Home::with("{env: {MY_TOKEN: 'section'}, gateway: {auth: {token: '${MY_TOKEN}'}}}");
    assert_eq!(home.said(&["token"], &[]), "section\n");
    home.put_dotenv("# keys\nexport MY_TOKEN='token-of-the-file'\nPLAIN=\"a\\nb\"\n");
    assert_eq!(home.said(&["token"], &[]), "token-of-the-file\n");
    assert_eq!(home.said(&["token"], &[("MY_TOKEN", "process")]), "process\n");
    let settings = home.settings();
    let env = settings.environment(&home.env([("PLAIN", "")]));
    assert_eq!(env.get("PLAIN").as_deref(), Some("a\nb"));
    assert!(!format!("{settings:?}{env:?}").contains("token-of-the-file"));
}

#[test]
fn the_token_of_the_gateway_may_stand_in_a_file_dotenv() {
    let home = Home::with("{}");
    home.put_dotenv("OPENCLAW_GATEWAY_TOKEN=gateway-token-of-the-file\n");
    assert_eq!(home.said(&["token"], &[]), "gateway-token-of-the-file\n");
    let variables = [("OPENCLAW_GATEWAY_TOKEN", "process")];
    assert_eq!(home.said(&["token"], &variables), "process\n");
    assert!(!home.state().join("gateway-token").exists());
    let told = shown(&home.settings(), "gateway.auth.token");
    assert_eq!(told, ("set".into(), Origin::Env("OPENCLAW_GATEWAY_TOKEN")));
}

#[test]
fn a_reference_of_the_gateway_is_followed_to_a_file_dotenv() {
    let reference = "{source: 'env', provider: 'default', id: 'GW'}";
    let home = Home::with(&format!("{{gateway: {{auth: {{token: {reference}}}}}}}"));
    home.put_dotenv("GW=referred-token-of-the-file\n");
    assert_eq!(home.said(&["token"], &[]), "referred-token-of-the-file\n");
    assert_eq!(home.said(&["token"], &[("GW", "process")]), "process\n");
}

#[test]
fn a_file_dotenv_moves_nothing_and_one_of_the_working_directory_is_not_read() {
    let home = Home::with("{gateway: {auth: {token: '${MY_TOKEN}'}}}");
    home.put_dotenv("OPENCLAW_STATE_DIR=/nowhere\nOPENCLAW_CONFIG_PATH=/nowhere\nHOME=/nowhere\n");
    let path = home.said(&["config", "file"], &[]);
    assert_eq!(path.trim(), home.config().display().to_string());
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(".env"), "MY_TOKEN=elsewhere\n").unwrap();
    let output = home.command(&["token"], &[]).current_dir(folder.path()).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("MY_TOKEN is not set"), "{error}");
}

#[test]
fn a_wrong_line_of_a_file_dotenv_is_one_warning_without_what_it_says() {
    // Such a gateway reads its config and goes no further.
    let home = Home::with("{gateway: {mode: 'remote'}}");
    home.put_dotenv("A=1\nno-line secret-of-a-line\nNODE_OPTIONS=secret-of-an-option\n");
    let output = home.run(&["gateway"], &[]);
    let log = String::from_utf8(output.stderr).unwrap();
    let told: Vec<_> = log.lines().filter(|line| line.contains(".env")).collect();
    let [told] = told[..] else { panic!("{log}") };
    assert!(told.contains("WARN") && told.contains("line 2 is not NAME=value"), "{told}");
    assert!(told.contains("line 3 sets NODE_OPTIONS"), "{told}");
    assert!(!log.contains("secret-of-"), "{log}");
}

const NOT_BUILT_IN: &str = "{tools: {web: {search: {enabled: false, provider: 'perplexity'}}}, \
    models: {providers: {azure: {api: 'azure-openai-responses', models: [{id: 'm'}]}}}, \
    auth: {profiles: {'amazon-bedrock:x': {provider: 'amazon-bedrock', mode: 'aws-sdk'}}}, \
    hooks: {mappings: [{match: {path: 'x'}, transform: {module: 'x.mjs'}}]}}";

#[test]
fn what_is_not_built_in_is_told_and_stops_nothing() {
    let home = Home::with(NOT_BUILT_IN);
    let output = home.run(&["config", "validate"], &[]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{error}");
    for (path, known) in [
        ("tools.web.search.provider", "brave, tavily, searxng"),
        ("models.providers.azure.api", "openai-completions, openai-responses"),
        ("auth.profiles.amazon-bedrock:x.mode", "api_key, token, oauth"),
        ("hooks.mappings[0].transform.module", "transform.when, .defaults, .set and .cases"),
    ] {
        let told = error.lines().find(|line| line.contains(&format!("warning: {path} ")));
        assert!(told.is_some_and(|line| line.contains(known)), "{path}: {error}");
    }
    // What the original does not know either is refused as ever.
    for (word, wrong) in
        [("perplexity", "gopher"), ("azure-openai-responses", "grpc"), ("aws-sdk", "magic")]
    {
        let home = Home::with(&NOT_BUILT_IN.replace(word, wrong));
        assert!(!home.run(&["config", "validate"], &[]).status.success(), "{wrong}");
    }
}

#[test]
fn a_default_model_of_a_provider_that_is_off_is_told_with_what_it_speaks() {
    let home =
        Home::with(&NOT_BUILT_IN.replacen('{', "{agents: {defaults: {model: 'azure/m'}}, ", 1));
    let output = home.run(&["config", "validate"], &[]);
    let error = String::from_utf8(output.stderr).unwrap();
    let expected = "warning: agents.defaults.model provider azure speaks api \
                    azure-openai-responses, which is not built in";
    assert!(output.status.success() && error.contains(expected), "{error}");
}

#[test]
fn a_variable_that_is_not_set_turns_off_what_needs_it_and_nothing_else() {
    let home = Home::with(
        "{models: {providers: {p: {baseUrl: 'http://h/v1', apiKey: '${NO_KEY}'}}}, \
          mcp: {servers: {m: {command: 'm', env: {A: 'x-${NO_ENV}'}}}}, \
          skills: {entries: {s: {env: {A: '${NO_TEXT}', B: 'b'}}}}, \
          env: {vars: {C: '${NO_VAR}', D: 'd'}}}",
    );
    let output = home.run(&["config", "validate"], &[]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{error}");
    for (path, name) in [
        ("models.providers.p.apiKey", "NO_KEY"),
        ("mcp.servers.m.env.A", "NO_ENV"),
        ("skills.entries.s.env.A", "NO_TEXT"),
        ("env.vars.C", "NO_VAR"),
    ] {
        let told = format!("warning: {path} needs the environment variable {name}, which is not");
        assert!(error.contains(&told), "{path}: {error}");
    }
    let settings = home.settings();
    let entry = &settings.skills.entries["s"].env;
    assert_eq!(entry.keys().collect::<Vec<_>>(), ["B"]);
    let provider = settings.models.providers.get("p").unwrap();
    assert_eq!(provider.references().next().unwrap().1.id, "NO_KEY");
    assert_eq!(home.load([("NO_KEY", "k"), ("NO_ENV", "e")], &Overrides::default()).unset.len(), 2);
    // What lets somebody in, or says where something goes, has to be there.
    for text in [
        "{gateway: {auth: {token: '${NO}'}}}",
        "{hooks: {enabled: true, token: '${NO}'}}",
        "{models: {providers: {p: {baseUrl: 'http://${NO}/v1', apiKey: 'k'}}}}",
        "{tools: {exec: {env: {A: '${NO}'}}}}",
        "{channels: {telegram: {botToken: 'x', allowFrom: ['${NO}']}}}",
        "{env: {OPENCLAW_GATEWAY_TOKEN: '${NO}'}}",
    ] {
        let output = Home::with(text).run(&["config", "validate"], &[]);
        assert!(!output.status.success(), "{text}");
    }
}
