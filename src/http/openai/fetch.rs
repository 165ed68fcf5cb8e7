//! Pictures and files of a request, in the form in which messages have them.
//!
//! Promises: what is fetched is fetched as `web_fetch` does it: nothing private,
//! up to bounds of size and time.

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Value, json};

use super::read::{At, Wrong};
use crate::agent::tools::user_agent;
use crate::agent::web::{GuardedClient, PageRequest, Tls};
use crate::registry::Ctx;

/// Most pictures and files of a request, as in the original.
const COUNT_MAX: usize = 8;
/// Largest picture that is fetched, in bytes, as in the original.
const BYTES_MAX: usize = 10 * 1024 * 1024;
/// Pictures of one request that are fetched at a time.
const AT_A_TIME: usize = 2;

/// Something that comes with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Given {
    /// An attachment as `chat.send` has it.
    Here(Value),
    /// A picture at this address; with the place that names it.
    There(String, String),
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
        Some("http" | "https") => Ok(Given::There(text.to_owned(), url.wrong("").0)),
        _ => Err(url.wrong("must be a data URL or an http or https URL")),
    }
}

/// What came with a message, fetched where it has to be.
///
/// # Errors
/// When there is too much of it, or it is not to be had.
pub async fn attachments(cx: &Ctx, given: Vec<Given>, may_ask: bool) -> Result<Vec<Value>, Wrong> {
    if given.len() > COUNT_MAX {
        let text = format!("at most {COUNT_MAX} pictures and files may come with a message");
        return Err(Wrong(text));
    }
    let each = given.into_iter().map(|given| one(cx, given, may_ask));
    stream::iter(each).buffered(AT_A_TIME).try_collect().await
}

async fn one(cx: &Ctx, given: Given, may_ask: bool) -> Result<Value, Wrong> {
    let (url, place) = match given {
        Given::Here(value) => return Ok(value),
        Given::There(url, place) => (url, place),
    };
    let wrong = |why: &str| Wrong(format!("{place}{why}"));
    let settings = cx.services.settings.now();
    let config = &settings.web.fetch;
    if !may_ask || !config.enabled {
        return Err(wrong("pictures are not fetched here; send a data URL"));
    }
    let env = settings.environment(&cx.services.env);
    let client = GuardedClient::of(config, &env, Tls::default().into());
    let request = PageRequest {
        url: &url,
        user_agent: user_agent(config),
        redirects: config.redirects(),
        max_bytes: BYTES_MAX,
        limit: config.timeout(),
    };
    // How it failed would tell whoever asks what is in the gateway's network.
    let unfetched = |error: String| {
        tracing::info!(error, "a picture of a request is not fetched");
        wrong("the picture cannot be fetched")
    };
    let answer = client.get(&request).await.map_err(|error| unfetched(error.to_string()))?;
    if answer.status != StatusCode::OK.as_u16() {
        return Err(unfetched(format!("the server answers with {}", answer.status)));
    }
    if answer.body.is_cut {
        return Err(wrong("the picture is too large"));
    }
    let is_picture = answer.content_type.as_deref().is_some_and(|it| it.starts_with("image/"));
    if !is_picture {
        return Err(wrong("this is no picture"));
    }
    Ok(json!({"type": "image", "content": STANDARD.encode(&answer.body.bytes)}))
}
