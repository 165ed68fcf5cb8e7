//! `gateway.controlUi`, as far as it is about what is served (who may connect is
//! in `gateway`).

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::document::ConfigIssue;
use super::explain::{Choice, Ledger, Origin};
use super::schema::Node;
use super::{ConfigError, Paths};
use crate::support::blocking;

/// Letters of a base path; it stands in every link.
const MAX_BASE_PATH: usize = 128;
/// Letters of a width; it goes into a style.
const MAX_WIDTH: usize = 80;
/// First parts of paths that are the gateway's own.
const RESERVED: [&str; 10] =
    ["api", "avatar", "health", "healthz", "plugins", "ready", "readyz", "sessions", "tools", "v1"];
/// What a width may be besides digits, signs and brackets.
const WIDTH_WORDS: [&str; 19] = [
    "calc", "ch", "clamp", "cm", "em", "fit", "content", "in", "max", "min", "mm", "pc", "pt",
    "px", "rem", "vh", "vmax", "vmin", "vw",
];

/// How the Control UI is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UiSettings {
    /// Whether it is served at all.
    pub enabled: bool,
    /// The path that it is below, such as `/openclaw`; empty for `/`.
    pub base_path: String,
    /// The folder with its `index.html`.
    pub root: PathBuf,
    /// What hosted content in a chat may do.
    pub embed_sandbox: EmbedSandbox,
    /// Whether a chat may show pages of other sites.
    pub allow_external_embed_urls: bool,
    /// CSS width that messages of a chat have at most.
    pub chat_message_max_width: Option<String>,
}

impl UiSettings {
    /// Whether there is one to be served.
    pub async fn is_there(&self) -> bool {
        let page = self.root.join("index.html");
        self.enabled && blocking(move || page.is_file()).await == Ok(true)
    }
}

/// `gateway.controlUi.embedSandbox`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbedSandbox {
    /// It runs no scripts.
    Strict,
    /// It runs scripts, as a page of nobody.
    Scripts,
    /// It runs scripts as a page of the gateway.
    Trusted,
}

impl EmbedSandbox {
    /// The word in the config, which the UI knows as well.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Scripts => "scripts",
            Self::Trusted => "trusted",
        }
    }
}

/// Entries of `allowedOrigins` that are the origin of no page.
pub fn vain_origins(whole: &Value) -> Vec<ConfigIssue> {
    let entries = whole["gateway"]["controlUi"]["allowedOrigins"].as_array();
    let texts = entries.into_iter().flatten().map(|entry| entry.as_str().unwrap_or_default());
    let wrong = texts.enumerate().filter_map(|(index, entry)| {
        let message = why_vain(entry.trim_end_matches('/'))?;
        let path = format!("gateway.controlUi.allowedOrigins[{index}]");
        Some(ConfigIssue { path, message: message.to_owned() })
    });
    wrong.collect()
}

/// Why no browser sends this as an origin. What comes after the host is not counted there.
fn why_vain(entry: &str) -> Option<&'static str> {
    match entry.split_once("://") {
        _ if entry == "*" || entry.contains("${") => None,
        _ if entry.contains('*') => {
            Some("has a star in it, which stands for something by itself only: it lets no page in")
        }
        Some((scheme, host)) if !scheme.is_empty() && !host.is_empty() => None,
        _ => Some("is no origin, as https://chat.example.com is one: it lets no page in"),
    }
}

impl fmt::Display for EmbedSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

pub(super) fn read(
    node: &Node<'_>,
    file: &Path,
    paths: &Paths,
    ledger: &mut Ledger,
) -> Result<UiSettings, ConfigError> {
    let enabled = Choice::file(file, node.member("enabled")?.boolean()?);
    let enabled = ledger.settle("gateway.controlUi.enabled", enabled, true);
    let base_path = Choice::file(file, base_path(&node.member("basePath")?)?);
    let base_path = ledger.settle_optional("gateway.controlUi.basePath", base_path);
    let root = node.member("root")?.path(paths)?;
    let origin = root.as_ref().map_or(Origin::Default, |_| Origin::File(file.to_owned()));
    let root = root.unwrap_or_else(|| paths.control_ui_dir());
    ledger.note("gateway.controlUi.root", root.display().to_string(), origin);
    let words = "strict, scripts, trusted";
    let sandbox = node.member("embedSandbox")?.word(words, |word| match word {
        "strict" => Some(EmbedSandbox::Strict),
        "scripts" => Some(EmbedSandbox::Scripts),
        "trusted" => Some(EmbedSandbox::Trusted),
        _ => None,
    })?;
    let sandbox = Choice::file(file, sandbox);
    let external = Choice::file(file, node.member("allowExternalEmbedUrls")?.boolean()?);
    let width = Choice::file(file, width(&node.member("chatMessageMaxWidth")?)?);
    Ok(UiSettings {
        enabled,
        base_path: base_path.unwrap_or_default(),
        root,
        embed_sandbox: ledger.settle(
            "gateway.controlUi.embedSandbox",
            sandbox,
            EmbedSandbox::Scripts,
        ),
        allow_external_embed_urls: ledger.settle(
            "gateway.controlUi.allowExternalEmbedUrls",
            external,
            false,
        ),
        chat_message_max_width: ledger
            .settle_optional("gateway.controlUi.chatMessageMaxWidth", width),
    })
}

/// A path of plain names with a slash before and none after; none for `/`.
///
/// # Errors
/// For what breaks `rule`.
pub(super) fn plain_path(node: &Node<'_>, rule: &str) -> Result<Option<String>, ConfigError> {
    let Some(text) = node.text()? else { return Ok(None) };
    let bare = text.trim().trim_matches('/');
    if bare.is_empty() {
        return Ok(None);
    }
    let is_part = |part: &str| {
        let is_letter = |it: char| it.is_ascii_alphanumeric() || "-_~.".contains(it);
        !part.is_empty() && !part.starts_with('.') && part.chars().all(is_letter)
    };
    if bare.len() > MAX_BASE_PATH || !bare.split('/').all(is_part) {
        return Err(node.wrong(rule));
    }
    Ok(Some(format!("/{bare}")))
}

/// With a slash before and none after; none for `/`.
fn base_path(node: &Node<'_>) -> Result<Option<String>, ConfigError> {
    let rule = "must be a path of letters, digits, -, _, ~ and ., such as /openclaw";
    let Some(path) = plain_path(node, rule)? else { return Ok(None) };
    let mut parts = path.split('/').skip(1);
    // Our own page is below it as well.
    let is_ours = parts.clone().any(|part| part == "clawgate");
    let first = parts.next().unwrap_or_default();
    if is_ours || RESERVED.contains(&first) || first.starts_with("__openclaw") {
        return Err(node.wrong("must not begin like a path of the gateway's own"));
    }
    Ok(Some(path))
}

/// A width such as `960px` or `min(1280px, 82%)`.
fn width(node: &Node<'_>) -> Result<Option<String>, ConfigError> {
    let Some(text) = node.text()? else { return Ok(None) };
    let text = text.trim();
    let is_sign = |it: char| it.is_ascii_digit() || " .,%+-*/()".contains(it);
    let mut depth = 0_i32;
    let is_balanced = text.chars().all(|it| {
        depth += i32::from(it == '(') - i32::from(it == ')');
        depth >= 0
    }) && depth == 0;
    let words = text.split(|it: char| !it.is_ascii_alphabetic()).filter(|word| !word.is_empty());
    let is_width = text.len() <= MAX_WIDTH
        && is_balanced
        && text.contains(|it: char| it.is_ascii_digit())
        && text.chars().all(|it| it.is_ascii_alphabetic() || is_sign(it))
        && words.into_iter().all(|word| WIDTH_WORDS.contains(&word.to_ascii_lowercase().as_str()));
    let is_keyword = |word: &&str| text.eq_ignore_ascii_case(word);
    if is_width || ["none", "min-content", "max-content"].iter().any(is_keyword) {
        Ok(Some(text.to_owned()))
    } else {
        Err(node.wrong("must be a CSS width, such as 960px, 82% or min(1280px, 82%)"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::support::json;

    use super::*;

    fn with<T>(value: &Value, read: impl Fn(&Node<'_>) -> Result<T, ConfigError>) -> Option<T> {
        read(&Node::root(value, Path::new("openclaw.json"))).ok()
    }

    #[test]
    fn a_base_path_is_written_with_and_without_slashes_and_is_never_one_of_ours() {
        for (written, expected) in [
            ("", None),
            ("/", None),
            ("openclaw", Some("/openclaw")),
            ("/openclaw/", Some("/openclaw")),
            (" /a/b-2 ", Some("/a/b-2")),
        ] {
            let read = with(&json!(written), base_path).unwrap();
            assert_eq!(read.as_deref(), expected, "{written:?}");
        }
        for wrong in [
            "/a//b",
            "/../x",
            "/a/..",
            "/.x",
            "/a b",
            "/a%2e",
            "/a?b",
            "/a\"b",
            "/api",
            "/api/x",
            "/clawgate",
            "/x/clawgate",
            "/v1/x",
            "/__openclaw",
            "/__openclaw__/x",
            "//evil.example/..",
        ] {
            assert!(with(&json!(wrong), base_path).is_none(), "{wrong:?}");
        }
        assert!(with(&json!(format!("/{}", "x".repeat(200))), base_path).is_none());
    }

    #[test]
    fn a_width_is_one_and_brings_nothing_else_into_a_style() {
        for good in [
            "960px",
            "82%",
            "min(1280px, 82%)",
            "calc(100% - 2rem)",
            "fit-content(40em)",
            "50VW",
            "none",
        ] {
            assert_eq!(with(&json!(good), width).unwrap().as_deref(), Some(good));
        }
        for wrong in [
            "",
            "px",
            "red",
            "960px; color: red",
            "url(x)",
            "min(1px",
            "1px)",
            ")1px(",
            "var(--x)",
            "960px}",
            "expression(1)",
        ] {
            assert!(with(&json!(wrong), width).is_none(), "{wrong:?}");
        }
    }
}
