//! Who can reach the gateway, and what they must know.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::cli::doctor::{Finding, Severity};
use crate::config::channels::{DmPolicy, PeerId};
use crate::config::secrets::SecretInput;
use crate::config::{AuthMode, DmScope, Origin, Settings};
use crate::protocol::Scope;
use crate::support::Secret;

/// A token has no need to be short; 24 characters are 120 bits or more.
const TOKEN_LEAST: usize = 24;
/// A password is typed.
const PASSWORD_LEAST: usize = 14;
/// Fewer different characters are no secret.
const VARIETY_LEAST: usize = 8;

/// Reserved for documentation (RFC 5737, RFC 3849): in no network of proxies, but
/// in one of everybody.
const NOBODYS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];

/// Everything about it.
pub fn check(settings: &Settings) -> Vec<Finding> {
    let gateway = &settings.gateway;
    let is_open = !gateway.bind.host().is_loopback();
    let mut findings = Vec::new();
    let reach = gateway.bind.host();
    if is_open {
        findings.push(Finding::new(
            "gateway.bind_open",
            Severity::Warn,
            format!("other machines can reach the gateway, at {reach}"),
            "everybody in that network can try credentials",
            "gateway.bind: \"loopback\", with an SSH tunnel or a proxy with TLS in front of it",
        ));
    } else {
        findings
            .push(Finding::ok("gateway.bind", format!("only this machine reaches it, at {reach}")));
    }
    findings.extend(secret(settings, is_open));
    if is_open && !gateway.tls.enabled {
        findings.push(Finding::new(
            "gateway.tls_missing",
            Severity::Critical,
            "other machines reach the gateway without TLS",
            "whoever is on the way reads the token and every conversation",
            "gateway.tls: {enabled: true}, or a proxy that speaks wss (docs/deploy.md)",
        ));
    }
    if is_open && gateway.auth.rate_limit.is_none() {
        findings.push(Finding::new(
            "gateway.auth_no_rate_limit",
            Severity::Warn,
            "credentials can be tried without end",
            "gateway.auth.rateLimit is off until it is written",
            "gateway.auth.rateLimit: {}",
        ));
    }
    findings.extend(proxies(settings));
    findings.extend(pages(settings, is_open));
    findings.extend(hooks(settings));
    findings.extend(people(settings));
    if gateway.auth.shared_secret_scopes.contains(Scope::Admin) {
        findings.push(Finding::new(
            "gateway.shared_secret_admin",
            Severity::Info,
            "who knows the shared secret administers the gateway with the simple protocol",
            "gateway.auth.sharedSecretScopes has operator.admin in it, which is the default",
            "gateway.auth.sharedSecretScopes: [\"read\", \"write\", \"approvals\"]",
        ));
    }
    findings
}

/// The shared secret.
fn secret(settings: &Settings, is_open: bool) -> Option<Finding> {
    let auth = &settings.gateway.auth;
    let (what, secret, least, id) = match auth.mode {
        AuthMode::None => {
            return Some(Finding::new(
                "gateway.loopback_no_auth",
                Severity::Critical,
                "nobody is asked for a credential",
                "every program and every user of this machine can do everything",
                "gateway.auth.mode: \"token\"",
            ));
        }
        AuthMode::TrustedProxy => return None,
        AuthMode::Token => ("token", &auth.token, TOKEN_LEAST, "gateway.token_too_short"),
        AuthMode::Password => ("password", &auth.password, PASSWORD_LEAST, "gateway.password_weak"),
    };
    let secret = secret.as_ref()?;
    if !is_weak(secret, least) {
        return Some(Finding::ok(id, format!("the {what} is not easily guessed")));
    }
    let severity = if is_open { Severity::Critical } else { Severity::Warn };
    let title = format!("the {what} is short or easily guessed");
    let why = format!("{least} characters at least, most of them different, cannot be tried out");
    let key = format!("gateway.auth.{what}");
    let place = match settings.origin_of(&key) {
        Some(Origin::Env(name)) => (*name).to_owned(),
        _ => key,
    };
    Some(Finding::new(
        id,
        severity,
        title,
        why,
        format!("a new one in {place}: openssl rand -hex 32"),
    ))
}

fn is_weak(secret: &Secret, least: usize) -> bool {
    let text = secret.expose();
    let different: HashSet<_> = text.chars().collect();
    text.chars().count() < least || different.len() < VARIETY_LEAST
}

/// Tokens of hooks, those among them to which a reference was followed.
fn hooks(settings: &Settings) -> Vec<Finding> {
    let hooks = &settings.hooks;
    if !hooks.enabled {
        return Vec::new();
    }
    let own = hooks.mappings.iter().enumerate().filter_map(|(index, mapping)| {
        Some((format!("hooks.mappings[{index}].token"), mapping.token.as_ref()?))
    });
    let general = hooks.token.iter().map(|token| ("hooks.token".to_owned(), token));
    let weak = general.chain(own).filter_map(|(key, token)| match token {
        SecretInput::Text(secret) if is_weak(secret, TOKEN_LEAST) => Some(key),
        SecretInput::Text(_) | SecretInput::Ref(_) => None,
    });
    let weak: Vec<_> = weak.collect();
    if weak.is_empty() {
        return vec![Finding::ok("hooks.token_too_short", "no token of hooks is easily guessed")];
    }
    vec![Finding::new(
        "hooks.token_too_short",
        Severity::Warn,
        format!("{} short or easily guessed", weak.join(", ")),
        "whoever guesses it tells agents what to do",
        "a new one for each: openssl rand -hex 32",
    )]
}

/// People of a channel who share a session, as far as the configuration names them: whom a
/// code has let in is not in it, and people of two channels may be one.
fn people(settings: &Settings) -> Option<Finding> {
    let is_shared = |kind| {
        let accounts = settings.channels.of(kind).filter(|account| account.enabled);
        let open = accounts.filter(|account| account.access.dm_policy != DmPolicy::Disabled);
        let named = open.flat_map(|account| &account.access.allow_from);
        let named: HashSet<_> = named.map(PeerId::as_str).filter(|id| !id.is_empty()).collect();
        named.len() > 1 || named.contains("*")
    };
    let is_found = settings.session.dm_scope == DmScope::Main;
    (is_found && settings.channels.kinds().any(is_shared)).then(|| {
        Finding::new(
            "channels.dm.scope_main_multiuser",
            Severity::Warn,
            "several people who write to an agent share one conversation",
            "the agent knows what each of them has said, and may tell the others",
            "session.dmScope: \"per-channel-peer\"",
        )
    })
}

/// Whose word about a client counts.
fn proxies(settings: &Settings) -> Vec<Finding> {
    let proxies = &settings.gateway.proxies;
    let names_users = settings.gateway.auth.mode == AuthMode::TrustedProxy;
    let mut findings = Vec::new();
    if NOBODYS.iter().any(|address| proxies.includes(*address)) {
        let severity = if names_users { Severity::Critical } else { Severity::Warn };
        findings.push(Finding::new(
            "gateway.trusted_proxies_everybody",
            severity,
            "everybody counts as a trusted proxy",
            "any client may say from which address it comes, and in mode trusted-proxy who it is",
            "gateway.trustedProxies: the addresses of your proxies, such as [\"127.0.0.1\"]",
        ));
    }
    if names_users && proxies.user.allow_loopback {
        findings.push(Finding::new(
            "gateway.trusted_proxy_loopback",
            Severity::Warn,
            "every program on this machine may say which user it is",
            "gateway.auth.trustedProxy.allowLoopback believes whatever connects from here",
            "the proxy on a machine of its own, or no other users and commands on this one",
        ));
    }
    findings
}

/// Which pages may connect.
fn pages(settings: &Settings, is_open: bool) -> Vec<Finding> {
    let ui = &settings.gateway.control_ui;
    let worse = |is_bad: bool| if is_bad { Severity::Critical } else { Severity::Warn };
    let mut findings = Vec::new();
    let mut found = |id, severity, title: &str, why: &str, fix: &str| {
        findings.push(Finding::new(id, severity, title, why, fix));
    };
    if ui.allowed_origins.iter().any(|origin| origin.trim_end_matches('/') == "*") {
        found(
            "gateway.control_ui.allowed_origins_wildcard",
            worse(is_open),
            "every page of the web may connect",
            "a page that is open in a browser here can try credentials",
            "gateway.controlUi.allowedOrigins: the origins that you use, such as [\"https://chat.example.com\"]",
        );
    }
    if ui.dangerously_disable_device_auth {
        found(
            "gateway.control_ui.device_auth_disabled",
            Severity::Critical,
            "pages need no device identity",
            "the shared secret alone is worth every scope, wherever the page comes from",
            "take gateway.controlUi.dangerouslyDisableDeviceAuth out",
        );
    }
    if ui.allow_insecure_auth {
        found(
            "gateway.control_ui.insecure_auth",
            Severity::Warn,
            "pages on this machine need no device identity",
            "the shared secret alone is worth every scope to them",
            "take gateway.controlUi.allowInsecureAuth out",
        );
    }
    if ui.dangerously_allow_host_header_origin_fallback {
        found(
            "gateway.control_ui.host_header_origin_fallback",
            worse(is_open),
            "the Host header decides which page may connect",
            "a page that points its own name at this machine is let in (DNS rebinding)",
            "take gateway.controlUi.dangerouslyAllowHostHeaderOriginFallback out, and write allowedOrigins",
        );
    }
    findings
}
