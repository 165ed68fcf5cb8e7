//! `gateway.http`: which APIs of other software are spoken by HTTP, how large uploads
//! may be, and what stands above answers.

use std::path::Path;

use serde_json::Value;

use super::ConfigError;
use super::explain::{Choice, Ledger};
use super::schema::Node;

/// As in the original: conversations come with their pictures.
const BODY_BYTES: u64 = 20 * 1024 * 1024;
/// More is held in memory by nobody's leave.
const BODY_BYTES_MAX: u64 = 100 * 1024 * 1024;

/// Most pictures and files of a message that are addresses, as in the original: there
/// may be no more of them in any case.
const URL_PARTS: usize = 8;
/// What may be written there; the original has no bound.
const URL_PARTS_MAX: u64 = 1_000_000;

/// Of a file that is uploaded for a message: a longer film of a phone or a scanned
/// book; three times what a message itself takes.
const UPLOAD_BYTES: u64 = 64 * 1024 * 1024;
/// More is a transfer of data, and none by chat.
const UPLOAD_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// `gateway.http`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSettings {
    /// `endpoints.chatCompletions`.
    pub chat_completions: EndpointSettings,
    /// `endpoints.responses`.
    pub responses: EndpointSettings,
    /// `uploads.maxBytes`: most bytes of a file that is uploaded for a message.
    pub upload_max_bytes: u64,
}

/// One API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointSettings {
    /// Whether it is there.
    pub enabled: bool,
    /// Most bytes of a request's body.
    pub max_body_bytes: u64,
    /// Whether a picture may be an address, from which it is fetched.
    pub fetches_images: bool,
    /// From where.
    pub image_hosts: Hosts,
    /// The same of a file, where the API has files.
    pub fetches_files: bool,
    /// From where.
    pub file_hosts: Hosts,
    /// Most pictures and files of a message that are addresses.
    pub max_url_parts: usize,
}

/// Hosts from which something may be fetched: `example.com`, or `*.example.com` for all
/// below it. As in the original, an empty list is about nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts(Vec<String>);

impl Hosts {
    fn new(written: &[String]) -> Self {
        let names = written.iter().map(|name| bare_host(name));
        Self(names.filter(|name| !["", "*", "*."].contains(&name.as_str())).collect())
    }

    /// Whether every host will do.
    pub const fn is_any(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this one will, as an address has it.
    pub fn has(&self, host: &str) -> bool {
        let host = bare_host(host);
        let is_below = |name: &str| {
            let below = host.strip_suffix(name).and_then(|rest| rest.strip_suffix('.'));
            below.is_some_and(|below| !below.is_empty())
        };
        let is_meant = |name: &String| match name.strip_prefix("*.") {
            Some(name) => is_below(name),
            None => *name == host,
        };
        self.is_any() || self.0.iter().any(is_meant)
    }
}

/// A host as it is compared.
fn bare_host(host: &str) -> String {
    let host = host.trim().trim_end_matches('.');
    host.trim_start_matches('[').trim_end_matches(']').to_lowercase()
}

impl HttpSettings {
    /// Whether any of the APIs is there.
    pub const fn any(&self) -> bool {
        self.chat_completions.enabled || self.responses.enabled
    }
}

pub(super) fn read(
    gateway: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<HttpSettings, ConfigError> {
    let http = gateway.member("http")?;
    let endpoints = http.member("endpoints")?;
    let most = http.member("uploads")?.member("maxBytes")?.integer(UPLOAD_BYTES_MAX)?;
    let most = Choice::file(file, most);
    let upload_max_bytes = ledger.settle("gateway.http.uploads.maxBytes", most, UPLOAD_BYTES);
    let mut endpoint = |name: &str, has_files: bool| -> Result<EndpointSettings, ConfigError> {
        let node = endpoints.member(name)?;
        let path = |key: &str| format!("gateway.http.endpoints.{name}.{key}");
        let enabled = Choice::file(file, node.member("enabled")?.boolean()?);
        let bytes = node.member("maxBodyBytes")?.bounded(1, BODY_BYTES_MAX)?;
        let images = node.member("images")?.member("allowUrl")?.boolean()?;
        let files = if has_files { node.at("files.allowUrl")?.boolean()? } else { None };
        let mut hosts = |key: &str| -> Result<Hosts, ConfigError> {
            let names = Choice::file(file, node.at(key)?.texts()?);
            Ok(Hosts::new(&ledger.settle_list(&path(key), names, Vec::new())))
        };
        let image_hosts = hosts("images.urlAllowlist")?;
        let file_hosts = if has_files { hosts("files.urlAllowlist")? } else { Hosts::default() };
        let parts = node.member("maxUrlParts")?;
        let parts = if has_files { parts.bounded(0, URL_PARTS_MAX)? } else { None };
        Ok(EndpointSettings {
            enabled: ledger.settle(&path("enabled"), enabled, false),
            max_body_bytes: ledger.settle(
                &path("maxBodyBytes"),
                Choice::file(file, bytes),
                BODY_BYTES,
            ),
            fetches_images: ledger.settle(
                &path("images.allowUrl"),
                Choice::file(file, images),
                has_files,
            ),
            image_hosts,
            fetches_files: has_files
                && ledger.settle(&path("files.allowUrl"), Choice::file(file, files), true),
            file_hosts,
            max_url_parts: if has_files {
                ledger.settle(&path("maxUrlParts"), Choice::file(file, parts), URL_PARTS)
            } else {
                URL_PARTS
            },
        })
    };
    // As in the original: of the two only the second fetches unasked.
    Ok(HttpSettings {
        chat_completions: endpoint("chatCompletions", false)?,
        responses: endpoint("responses", true)?,
        upload_max_bytes,
    })
}

/// `securityHeaders.strictTransportSecurity`: a text, or `false` for none.
///
/// # Errors
/// For a text that browsers would not understand: they would say nothing of it.
pub(super) fn strict_transport_security(
    gateway: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<Option<String>, ConfigError> {
    let headers = gateway.member("http")?.member("securityHeaders")?;
    let node = headers.member("strictTransportSecurity")?;
    let text = match node.value() {
        None | Some(Value::Bool(false)) => None,
        Some(Value::String(text)) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Some(_) => return Err(node.wrong("must be a text or false")),
    };
    if let Some(text) = &text
        && !is_transport_policy(text)
    {
        return Err(node.wrong(TRANSPORT_RULE));
    }
    let path = "gateway.http.securityHeaders.strictTransportSecurity";
    Ok(ledger.settle_optional(path, Choice::file(file, text)))
}

const TRANSPORT_RULE: &str =
    "must be as RFC 6797 has it, such as max-age=31536000; includeSubDomains";

/// Whether it is a list of directives with one `max-age` (RFC 6797, §6.1).
fn is_transport_policy(text: &str) -> bool {
    let is_letter = |it: u8| it.is_ascii_alphanumeric() || b"-_.".contains(&it);
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(is_letter);
    let parts = || text.split(';').map(str::trim).filter(|part| !part.is_empty());
    let is_directive = |part: &str| match part.split_once('=') {
        None => is_word(part),
        Some((name, value)) => is_word(name.trim()) && is_word(value.trim().trim_matches('"')),
    };
    let ages = parts().filter_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("max-age").then(|| value.trim().trim_matches('"'))
    });
    let ages: Vec<_> = ages.collect();
    let is_age = |age: &str| !age.is_empty() && age.bytes().all(|it| it.is_ascii_digit());
    parts().all(is_directive) && matches!(ages[..], [age] if is_age(age))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_hosts_means_those_and_what_is_below_one_with_a_star() {
        let hosts = |names: &[&str]| {
            Hosts::new(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
        };
        let some = hosts(&[" CDN.example.com. ", "*.example.org", "::1", "*"]);
        for host in
            ["cdn.example.com", "cdn.example.com.", "a.example.org", "a.b.example.org", "[::1]"]
        {
            assert!(some.has(host), "{host}");
        }
        for host in [
            "",
            "example.com",
            "x.cdn.example.com",
            "example.org",
            "badexample.org",
            ".example.org",
        ] {
            assert!(!some.has(host), "{host}");
        }
        for none in [&[][..], &["*"], &["", "*."]] {
            assert!(hosts(none).is_any() && hosts(none).has("example.net"), "{none:?}");
        }
        // What is no host is none, and lets nobody through.
        assert!(!hosts(&["https://example.com/"]).has("example.com"));
    }

    #[test]
    fn a_transport_policy_has_one_age_and_nothing_that_ends_a_header() {
        for good in [
            "max-age=0",
            "Max-Age=31536000; includeSubDomains",
            "preload;max-age=\"1\";",
            "max-age = 1",
        ] {
            assert!(is_transport_policy(good), "{good}");
        }
        for wrong in [
            "",
            "includeSubDomains",
            "max-age",
            "max-age=",
            "max-age=year",
            "max-age=1; max-age=2",
            "max-age=1\r\nx: y",
            "max-age=1, y",
            "max-age=1; \u{e4}",
        ] {
            assert!(!is_transport_policy(wrong), "{wrong:?}");
        }
    }
}
