//! Pictures and files of a request, in the form in which messages have them.
//!
//! Promises: what is fetched is fetched as `web_fetch` does it: nothing private,
//! up to bounds of size and time; and from no host that the configuration leaves out.

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use reqwest::Url;
use serde_json::Value;

use super::read::{At, Wrong};
use crate::agent::tools::user_agent;
use crate::agent::web::{GuardedClient, PageRequest, Tls};
use crate::config::EndpointSettings;
use crate::registry::Ctx;
use crate::support::json;

/// Most pictures and files of a request, as in the original.
pub const COUNT_MAX: usize = 8;
/// Largest picture that is fetched, in bytes, as in the original.
const PICTURE_MAX: usize = 10 * 1024 * 1024;
/// Largest file that is fetched, in bytes, as in the original.
const FILE_MAX: usize = 5 * 1024 * 1024;
/// What is said of a file that somebody is thought to have sent before.
pub const NO_FILES: &str = "no files are kept here; send its data";
/// Pictures and files of one request that are fetched at a time.
const AT_A_TIME: usize = 2;

/// Something that comes with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Given {
    /// An attachment as `chat.send` has it.
    Here(Value),
    /// Something at an address.
    There {
        /// The address.
        url: String,
        /// The place of the request that names it.
        place: String,
        /// Its name, if it is a file; else it is a picture.
        file: Option<String>,
    },
}

/// A part of a content.
pub enum Part<'v> {
    /// Words.
    Text(&'v str),
    /// Something beside them.
    Given(Given),
}

/// The text of a content, and what is in it beside; `part` reads one of its parts.
///
/// # Errors
/// When it is neither a text nor a list of parts.
pub fn content<'v>(
    content: &At<'v>,
    part: impl Fn(&At<'v>) -> Result<Part<'v>, Wrong>,
) -> Result<(String, Vec<Given>), Wrong> {
    if !content.value().is_array() {
        return Ok((content.text()?.unwrap_or_default().to_owned(), Vec::new()));
    }
    let (mut texts, mut given) = (Vec::new(), Vec::new());
    for at in content.items()? {
        match part(&at)? {
            Part::Text(text) => texts.push(text),
            Part::Given(it) => given.push(it),
        }
    }
    Ok((texts.join("\n"), given))
}

/// A picture that is named by its address, or is in it.
///
/// # Errors
/// When it is neither.
pub fn picture(url: &At<'_>) -> Result<Given, Wrong> {
    let text = url.required_text()?.trim();
    let scheme = text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref() {
        Some("data") => {
            let head = text.split_once(',').map(|(head, _)| head.to_ascii_lowercase());
            let is_picture =
                head.is_some_and(|it| it.starts_with("data:image/") && it.ends_with(";base64"));
            let given = Given::Here(json!({"type": "image", "content": text}));
            is_picture.then_some(given).ok_or_else(|| url.wrong("must be a base64 picture"))
        }
        Some("http" | "https") => {
            Ok(Given::There { url: text.to_owned(), place: url.wrong("").0, file: None })
        }
        _ => Err(url.wrong("must be a data URL or an http or https URL")),
    }
}

/// A file that is named by its address, with the name that it shall have.
///
/// # Errors
/// When it is none.
pub fn file_at(url: &At<'_>, name: Option<&str>) -> Result<Given, Wrong> {
    let text = url.required_text()?.trim();
    let parsed = Url::parse(text).ok().filter(|it| matches!(it.scheme(), "http" | "https"));
    let parsed = parsed.ok_or_else(|| url.wrong("must be an http or https URL"))?;
    let last = parsed.path_segments().and_then(Iterator::last).filter(|last| !last.is_empty());
    let file = Some(name.or(last).unwrap_or("file").to_owned());
    Ok(Given::There { url: text.to_owned(), place: url.wrong("").0, file })
}

/// A file that is in the request: base64, or a data URL.
///
/// # Errors
/// When it is no text.
pub fn file_here(data: &At<'_>, name: Option<&str>, kind: Option<&str>) -> Result<Given, Wrong> {
    let (content, name) = (data.required_text()?, name.unwrap_or("file"));
    Ok(Given::Here(json!({"type": "file", "fileName": name,
        "mimeType": kind.unwrap_or_else(|| kind_of(name)), "content": content})))
}

/// What came with a message, fetched where it has to be and the API may.
///
/// # Errors
/// When there is too much of it, or it is not to be had.
pub async fn attachments(
    cx: &Ctx,
    given: Vec<Given>,
    settings: &EndpointSettings,
) -> Result<Vec<Value>, Wrong> {
    if given.len() > COUNT_MAX {
        let text = format!("at most {COUNT_MAX} pictures and files may come with a message");
        return Err(Wrong(text));
    }
    let there = given.iter().filter(|given| matches!(given, Given::There { .. })).count();
    let max = settings.max_url_parts;
    if there > max {
        let text = format!("at most {max} pictures and files of a message may be addresses");
        return Err(Wrong(text));
    }
    let each = given.into_iter().map(|given| one(cx, given, settings));
    stream::iter(each).buffered(AT_A_TIME).try_collect().await
}

async fn one(cx: &Ctx, given: Given, endpoint: &EndpointSettings) -> Result<Value, Wrong> {
    let (url, place, file) = match given {
        Given::Here(value) => return Ok(value),
        Given::There { url, place, file } => (url, place, file),
    };
    let (what, may_ask, hosts, max_bytes) = match &file {
        Some(_) => ("file", endpoint.fetches_files, &endpoint.file_hosts, FILE_MAX),
        None => ("picture", endpoint.fetches_images, &endpoint.image_hosts, PICTURE_MAX),
    };
    let wrong = |why: &str| Wrong(format!("{place}{why}"));
    let settings = cx.services.settings.now();
    let config = &settings.web.fetch;
    if !may_ask || !config.enabled {
        return Err(wrong(&format!("no {what} is fetched here; send its data")));
    }
    let host = Url::parse(&url).ok().and_then(|url| url.host_str().map(str::to_owned));
    if !hosts.has(host.as_deref().unwrap_or_default()) {
        return Err(wrong(&format!("no {what} is fetched from this host; send its data")));
    }
    let env = settings.environment(&cx.services.env);
    let client = GuardedClient::of(config, &env, Tls::default().into());
    let request = PageRequest {
        url: &url,
        user_agent: user_agent(config),
        // Another host might be behind one, which would be asked before we knew.
        redirects: if hosts.is_any() { config.redirects() } else { 0 },
        max_bytes,
        limit: config.timeout(),
    };
    // How it failed would tell whoever asks what is in the gateway's network.
    let unfetched = |error: String| {
        tracing::info!(error, what, "what a request names is not fetched");
        wrong(&format!("the {what} cannot be fetched"))
    };
    let answer = client.get(&request).await.map_err(|error| unfetched(error.to_string()))?;
    if answer.status != StatusCode::OK.as_u16() {
        return Err(unfetched(format!("the server answers with {}", answer.status)));
    }
    if answer.body.is_cut {
        return Err(wrong(&format!("the {what} is too large")));
    }
    let content = STANDARD.encode(&answer.body.bytes);
    let kind = answer.content_type.as_deref().unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match file {
        Some(name) => {
            let kind = if kind.is_empty() { kind_of(&name) } else { kind };
            Ok(json!({"type": "file", "fileName": name, "mimeType": kind, "content": content}))
        }
        None if kind.starts_with("image/") => Ok(json!({"type": "image", "content": content})),
        None => Err(wrong("this is no picture")),
    }
}

/// What a name says a file is; a data URL says it better, and its bytes best.
fn kind_of(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).as_deref() {
        Some("txt" | "log") => "text/plain",
        Some("md") => "text/markdown",
        Some("csv") => "text/csv",
        Some("html") => "text/html",
        Some("json") => "application/json",
        Some("xml") => "application/xml",
        Some("yaml" | "yml") => "application/yaml",
        Some("pdf") => "application/pdf",
        _ => "",
    }
}
