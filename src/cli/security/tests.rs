//! The audit against configurations.

use std::collections::BTreeMap;

use serde_json::Value;

use super::*;
use crate::cli::doctor::Severity;
use crate::support::json;

/// Ids of what is not well, with how bad it is.
fn found(config: &Value) -> BTreeMap<&'static str, Severity> {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join(".openclaw");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::write(state.join("openclaw.json"), config.to_string()).unwrap();
    let env = Env::fixed([("KEY", "k")], home.path());
    let looking = Overrides { read_only: true, ..Overrides::default() };
    let settings = config::load(&env, &looking).unwrap();
    let bad = audit(&settings).into_iter().filter(|it| it.severity != Severity::Ok);
    bad.map(|finding| (finding.id, finding.severity)).collect()
}

const GOOD: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn what_is_usual_is_no_reason_to_act() {
    let found = found(&json!({}));
    assert!(
        found.values().all(|severity| *severity == Severity::Info || *severity == Severity::Warn)
    );
    let expected =
        ["gateway.shared_secret_admin", "tools.exec.security_full", "tools.fs.outside_workspace"];
    for id in expected {
        assert_eq!(found.get(id), Some(&Severity::Info), "{id}: {found:?}");
    }
    assert!(!found.contains_key("config.secrets.plain"));
}

/// A model with a key behind this address.
fn keyed(url: &str) -> Value {
    json!({"models": {"providers": {"p": {"baseUrl": url,
        "apiKey": "${KEY}", "api": "openai-completions", "models": [{"id": "m"}]}}}})
}

fn gateway(gateway: Value) -> Value {
    [("gateway".to_owned(), gateway)].into_iter().collect()
}

/// A gateway that listens to a network.
fn open(mut more: Value) -> Value {
    more["bind"] = json!("lan");
    gateway(more)
}

/// A proxy at this address, or one of this machine, names the users.
fn by_proxy(address: &str) -> Value {
    let user = json!({"userHeader": "x-user", "allowLoopback": true});
    let auth = json!({"mode": "trusted-proxy", "trustedProxy": user});
    open(json!({"trustedProxies": [address], "auth": auth}))
}

/// A bot for these people, in the sessions that this names.
fn bot(people: &Value, scope: &str) -> Value {
    json!({"session": {"dmScope": scope}, "channels": {"telegram": {
        "botToken": "${KEY}", "dmPolicy": "allowlist", "allowFrom": people}}})
}

fn auth(token: &str) -> Value {
    json!({"mode": "token", "token": token})
}

#[test]
fn each_setting_that_opens_something_is_found() {
    let (critical, warn) = (Severity::Critical, Severity::Warn);
    for (config, id, severity) in [
        (gateway(json!({"auth": {"mode": "none"}})), "gateway.loopback_no_auth", critical),
        (gateway(json!({"auth": auth("short")})), "gateway.token_too_short", warn),
        (json!({"hooks": {"enabled": true, "token": "short"}}), "hooks.token_too_short", warn),
        (
            json!({"hooks": {"enabled": true, "token": GOOD, "mappings": [{"token": "hook-me"}]}}),
            "hooks.token_too_short",
            warn,
        ),
        (gateway(json!({"auth": auth(&"a".repeat(64))})), "gateway.token_too_short", warn),
        (open(json!({"auth": auth("short")})), "gateway.token_too_short", critical),
        (
            gateway(json!({"auth": {"mode": "password", "password": "hunter2"}})),
            "gateway.password_weak",
            warn,
        ),
        (open(json!({"auth": auth(GOOD)})), "gateway.bind_open", warn),
        (open(json!({"auth": auth(GOOD)})), "gateway.tls_missing", critical),
        (open(json!({"auth": auth(GOOD)})), "gateway.auth_no_rate_limit", warn),
        (
            open(json!({"controlUi": {"allowedOrigins": ["*"]}})),
            "gateway.control_ui.allowed_origins_wildcard",
            critical,
        ),
        (
            gateway(json!({"controlUi": {"allowedOrigins": ["*"]}})),
            "gateway.control_ui.allowed_origins_wildcard",
            warn,
        ),
        (
            gateway(json!({"controlUi": {"allowedOrigins": ["*/"]}})),
            "gateway.control_ui.allowed_origins_wildcard",
            warn,
        ),
        (
            gateway(json!({"trustedProxies": ["0.0.0.0/0"]})),
            "gateway.trusted_proxies_everybody",
            warn,
        ),
        (by_proxy("::/0"), "gateway.trusted_proxies_everybody", critical),
        (by_proxy("10.0.0.1"), "gateway.trusted_proxy_loopback", warn),
        (
            gateway(json!({"controlUi": {"dangerouslyDisableDeviceAuth": true}})),
            "gateway.control_ui.device_auth_disabled",
            critical,
        ),
        (
            gateway(json!({"controlUi": {"allowInsecureAuth": true}})),
            "gateway.control_ui.insecure_auth",
            warn,
        ),
        (
            gateway(json!({"controlUi": {"dangerouslyAllowHostHeaderOriginFallback": true}})),
            "gateway.control_ui.host_header_origin_fallback",
            warn,
        ),
        (gateway(json!({"auth": auth(GOOD)})), "config.secrets.plain", warn),
        (gateway(json!({"tools": {"allow": ["exec"]}})), "gateway.tools.strong", warn),
        (json!({"tools": {"exec": {"security": "full"}}}), "tools.exec.security_full", warn),
        (
            json!({"secrets": {"providers": {"f": {"source": "file", "path": "/p", "allowInsecurePath": true}}}}),
            "secrets.providers.insecure_path",
            warn,
        ),
        (keyed("http://models.example.com/v1"), "config.plain_http", warn),
        (
            json!({"mcp": {"servers": {"m": {"url": "http://10.0.0.1/mcp"}}}}),
            "config.plain_http",
            warn,
        ),
        (
            json!({"agents": {"defaults": {"cliBackends": {"claude-cli": {"args": ["--dangerously-skip-permissions"]}}}}}),
            "agents.cli_backend_unasked",
            warn,
        ),
        (
            json!({"agents": {"defaults": {"cliBackends": {"claude-cli": {"args": ["--permission-mode=bypassPermissions"]}}}}}),
            "agents.cli_backend_unasked",
            warn,
        ),
        (json!({"commands": {"config": true}}), "commands.config", Severity::Info),
        (bot(&json!([1, 2]), "main"), "channels.dm.scope_main_multiuser", warn),
        (json!({"session": {"sendPolicy": {"default": "deny"}}}), "config.unenforced", warn),
    ] {
        assert_eq!(found(&config).get(id), Some(&severity), "{config}");
    }
}

#[test]
fn what_is_closed_is_not_found() {
    for (config, id) in [
        (
            gateway(json!({"trustedProxies": ["10.0.0.0/8", "fd00::/8"]})),
            "gateway.trusted_proxies_everybody",
        ),
        (open(json!({"auth": auth(GOOD), "tls": {"enabled": true}})), "gateway.tls_missing"),
        (keyed("http://127.0.0.1:8000/v1"), "config.plain_http"),
        (keyed("https://models.example.com/v1"), "config.plain_http"),
        (keyed("http://127.0.0.1:8000/v1"), "config.secrets.plain"),
        (gateway(json!({"auth": auth(GOOD)})), "gateway.token_too_short"),
        (json!({"tools": {"exec": {"ask": "always"}}}), "tools.exec.security_full"),
        (json!({"tools": {"deny": ["exec"]}}), "tools.exec.security_full"),
        (json!({"tools": {"exec": {"sandbox": "read-only"}}}), "tools.exec.security_full"),
        (json!({"tools": {"fs": {"workspaceOnly": true}}}), "tools.fs.outside_workspace"),
        (
            json!({"agents": {"defaults": {"sandbox": {"mode": "all"}}}}),
            "tools.fs.outside_workspace",
        ),
        (json!({"tools": {"deny": ["exec"]}, "browser": {}}), "config.unenforced"),
        (bot(&json!([1, "tg:1"]), "main"), "channels.dm.scope_main_multiuser"),
        (bot(&json!([1, 2]), "per-channel-peer"), "channels.dm.scope_main_multiuser"),
    ] {
        assert!(!found(&config).contains_key(id), "{config} has no {id}");
    }
}

#[test]
fn a_secret_among_arguments_is_one_that_is_written_in_the_config() {
    let with = |args: [&str; 2]| {
        found(&json!({"mcp": {"servers": {"m": {"command": "x", "args": args}}}}))
    };
    let id = "config.secrets.plain";
    assert_eq!(with(["-e", "A_TOKEN=s3cret"]).get(id), Some(&Severity::Warn));
    assert!(!with(["-e", "A_TOKEN=${KEY}"]).contains_key(id));
}
