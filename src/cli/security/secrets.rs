//! Where secrets are, and where they go.

use serde_json::Value;

use crate::cli::doctor::{Finding, Severity};
use crate::config::Settings;
use crate::config::edit::ValuePath;
use crate::config::redact::{credentials, is_reference, is_variable, redacted_at};
use crate::config::secrets::SecretProvider;

/// More paths tell nothing new.
const PATHS_MAX: usize = 12;

/// Everything about it.
pub fn check(settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.push(plain(settings));
    findings.extend(providers(settings));
    findings.extend(transport(settings));
    findings
}

/// Credentials that are in the file itself.
fn plain(settings: &Settings) -> Finding {
    let is_plain = |path: &[_], value: &Value| {
        !is_reference(value)
            && !value.as_str().is_some_and(is_variable)
            && redacted_at(path, value) != *value
    };
    let found =
        credentials(&settings.raw).into_iter().filter(|(path, value)| is_plain(path, value));
    let paths: Vec<_> = found.map(|(path, _)| ValuePath::from(path).to_string()).collect();
    if paths.is_empty() {
        return Finding::ok("config.secrets", "no secret is written in the config");
    }
    let shown: Vec<_> = paths.iter().take(PATHS_MAX).cloned().collect();
    let more = paths.len().saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Finding::new(
        "config.secrets.plain",
        Severity::Warn,
        format!("secrets are written in the config: {}{more}", shown.join(", ")),
        "they are in every copy and backup of the file, and commands of agents can read it",
        "a reference in the place of each: {source: \"env\", id: \"NAME\"}, or a file or program \
         (docs/configuration.md, Secrets); then delete the .bak files",
    )
}

/// Providers of secrets that others can change.
fn providers(settings: &Settings) -> Option<Finding> {
    let is_open = settings.secrets.providers().any(|provider| match provider {
        SecretProvider::Env(_) => false,
        SecretProvider::File(file) => file.allow_insecure_path,
        SecretProvider::Exec(program) => program.allow_insecure_path,
    });
    is_open.then(|| {
        Finding::new(
            "secrets.providers.insecure_path",
            Severity::Warn,
            "a provider of secrets may be a file that others can read or change",
            "allowInsecurePath turns the check of its permissions off",
            "take allowInsecurePath out, and close the file: chmod go-rwx",
        )
    })
}

/// Credentials that go over the network in the open.
fn transport(settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (id, provider) in settings.models.providers.iter() {
        if provider.request.tls.insecure_skip_verify {
            findings.push(Finding::new(
                "models.tls_not_verified",
                Severity::Critical,
                format!("models.providers.{id}: any certificate is believed"),
                "whoever is on the way reads the key and every conversation",
                format!(
                    "models.providers.{id}.request.tls.ca: the certificate of its authority, \
                         in the place of insecureSkipVerify"
                ),
            ));
        }
        let is_sent = provider.api_key.is_some() || !provider.headers.is_empty();
        if is_sent && provider.base_url.as_deref().is_some_and(is_far_and_open) {
            findings.push(in_the_open(&format!("models.providers.{id}.baseUrl")));
        }
    }
    let servers = settings.raw.pointer("/mcp/servers").and_then(Value::as_object);
    for (name, server) in servers.into_iter().flatten() {
        if server.get("url").and_then(Value::as_str).is_some_and(is_far_and_open) {
            findings.push(in_the_open(&format!("mcp.servers.{name}.url")));
        }
    }
    findings
}

fn in_the_open(path: &str) -> Finding {
    Finding::new(
        "config.plain_http",
        Severity::Warn,
        format!("{path} is an http address of another machine"),
        "whoever is on the way reads credentials and what is said",
        "an https address",
    )
}

/// Whether this is another machine without TLS.
fn is_far_and_open(address: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(address) else { return false };
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_near = host == "localhost"
        || host.ends_with(".localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    url.scheme() == "http" && !is_near
}
