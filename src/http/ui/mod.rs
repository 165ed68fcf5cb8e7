//! The Control UI: the original's web pages, as they were installed.
//!
//! Owns: which paths are theirs, and what they may load. Promises: only files of
//! the folder are answered; whatever is put there counts at the next request; no
//! page frames them. Must not: have a page of its own (see `clawgate ui`).

pub(super) mod avatar;
mod csp;
mod files;
pub(super) mod media;
mod mime;
pub(super) mod outgoing;
mod place;
pub(super) mod runtime;
mod send;
mod ticket;

use std::io;

use axum::body::Body;
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, LOCATION,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::config::UiSettings;
use crate::gateway::Gateway;
use crate::support::hex;

use super::query::value as query;
use super::{Asked, headers, not_found};
use place::Meant;

pub(super) use csp::policy;
pub(super) use files::blocking;
pub use ticket::Tickets;

/// Most bytes of the page; it is read as a whole, and has some three thousand.
const PAGE_MAX: u64 = 1024 * 1024;
/// What changes may not be kept without asking.
const ASK_AGAIN: &str = "no-cache";
/// What has its hash in its name never changes.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// Where the UI asks for what it begins with, below the base path.
pub(super) const RUNTIME: &str = "/__openclaw/control-ui-config.json";

/// What of the path stands below the base path; none while there is no UI.
pub(super) fn below<'a>(gateway: &Gateway, path: &'a str) -> Option<&'a str> {
    let settings = gateway.services.settings.now();
    let settings = &settings.gateway.ui;
    settings.enabled.then(|| place::below(&settings.base_path, path)).flatten()
}

/// Whether a request for this path is for the UI.
pub(super) fn has(gateway: &Gateway, method: &Method, path: &str) -> bool {
    let settings = gateway.services.settings.now();
    is_read(method) && path != "/" && place::meant(&settings.gateway.ui, path).is_some()
}

fn is_read(method: &Method) -> bool {
    [Method::GET, Method::HEAD].contains(method)
}

/// A file of the UI, or its page for what is a view of it.
pub(super) async fn answer(asked: Asked<'_>) -> Response {
    let Asked { gateway, parts, .. } = asked;
    page_or_file(gateway, parts).await.unwrap_or_else(not_found)
}

/// The same; none when there is no UI, or none at this path.
pub(super) async fn page_or_file(gateway: &Gateway, parts: &Parts) -> Option<Response> {
    let settings = gateway.services.settings.now();
    let settings = &settings.gateway.ui;
    let uri = &parts.uri;
    let below = match place::meant(settings, uri.path())? {
        Meant::Base => return is_installed(settings).await.then(|| to_base(settings, uri.query())),
        Meant::Below(below) => below,
    };
    let Some(wanted) = place::wanted(below) else { return Some(headers::of_ui(not_found())) };
    let is_page = wanted.name.is_empty() || wanted.name == files::PAGE;
    if !is_page && let Some(found) = file(settings, &wanted.name, parts).await {
        return Some(headers::of_ui(found));
    }
    if !is_page && !wanted.or_page {
        let is_there = is_installed(settings).await;
        return is_there.then(|| headers::of_ui(not_found()));
    }
    page(settings, parts).await.map(headers::of_ui)
}

/// The folder, with its slash; relative links of the page need it. This one is
/// relative, too: a proxy may have put the gateway elsewhere.
fn to_base(settings: &UiSettings, query: Option<&str>) -> Response {
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let name = settings.base_path.rsplit('/').next().unwrap_or_default();
    let to = format!("{name}/{query}");
    headers::of_ui((StatusCode::FOUND, [(LOCATION, to)]).into_response())
}

/// Whether there is a page.
pub(super) async fn is_installed(settings: &UiSettings) -> bool {
    let root = settings.root.clone();
    settings.enabled && files::blocking(move || files::open(&root, files::PAGE)).await.is_ok()
}

async fn file(settings: &UiSettings, name: &str, parts: &Parts) -> Option<Response> {
    let (root, wanted) = (settings.root.clone(), name.to_owned());
    let (is_head, known) = (parts.method == Method::HEAD, known_tags(&parts.headers));
    let read = files::blocking(move || {
        let opened = files::open(&root, &wanted)?;
        let (size, tag) = (opened.size, opened.tag.clone());
        let is_known = is_known(known.as_deref(), &tag);
        let body = if is_known || is_head { Body::empty() } else { opened.body()? };
        Ok((body, size, tag, is_known))
    });
    let (body, size, tag, is_known) = read.await.ok()?;
    let kept = if is_hashed(name) { FOR_EVER } else { ASK_AGAIN };
    if is_known {
        return Some(unchanged(tag, kept));
    }
    let headers = [
        (CONTENT_TYPE, mime::of_name(name).to_owned()),
        (CACHE_CONTROL, kept.to_owned()),
        (CONTENT_LENGTH, size.to_string()),
        (ETAG, tag),
    ];
    Some((headers, body).into_response())
}

/// The page, told where it is, with a policy for the scripts in it.
async fn page(settings: &UiSettings, parts: &Parts) -> Option<Response> {
    let root = settings.root.clone();
    let read = files::blocking(move || {
        let bytes = files::open(&root, files::PAGE)?.read(PAGE_MAX)?;
        String::from_utf8(bytes).map_err(io::Error::other)
    });
    let text = with_base(read.await.ok()?, &settings.base_path);
    let policy = policy(&csp::script_hashes(&text));
    let tag = format!("\"{}\"", &hex(Sha256::digest(&text))[..32]);
    let mut response = if is_known(known_tags(&parts.headers).as_deref(), &tag) {
        unchanged(tag, ASK_AGAIN)
    } else {
        let headers = [
            (CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
            (CACHE_CONTROL, ASK_AGAIN.to_owned()),
            (CONTENT_LENGTH, text.len().to_string()),
            (ETAG, tag),
        ];
        let body = if parts.method == Method::HEAD { Body::empty() } else { Body::from(text) };
        (headers, body).into_response()
    };
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy.parse().ok()?);
    Some(response)
}

/// The page finds out by its address where it is, but for views that it does not
/// know; below a base path it is told.
fn with_base(page: String, base_path: &str) -> String {
    let Some(at) = page.find("<head>").map(|at| at + "<head>".len()) else { return page };
    if base_path.is_empty() {
        return page;
    }
    let (before, after) = page.split_at(at);
    // The config lets no sign in that would end the text.
    let told = format!("window.__OPENCLAW_CONTROL_UI_BASE_PATH__=\"{base_path}\"");
    format!("{before}<script>{told}</script>{after}")
}

fn unchanged(tag: String, kept: &str) -> Response {
    (StatusCode::NOT_MODIFIED, [(ETAG, tag), (CACHE_CONTROL, kept.to_owned())]).into_response()
}

fn known_tags(headers: &HeaderMap) -> Option<String> {
    Some(headers.get(IF_NONE_MATCH)?.to_str().ok()?.to_owned())
}

/// Whether a client says that it has this.
fn is_known(known: Option<&str>, tag: &str) -> bool {
    let tags = known.unwrap_or_default().split(',').map(|it| it.trim().trim_start_matches("W/"));
    tags.into_iter().any(|it| it == tag)
}

/// Whether a file has a hash in its name, as `assets/index-NYVkUQrq.js`.
fn is_hashed(name: &str) -> bool {
    let stem = name.strip_prefix("assets/").and_then(|name| name.rsplit_once('.'));
    let hash = stem.and_then(|(stem, _)| stem.get(stem.len().checked_sub(9)?..));
    hash.and_then(|hash| hash.strip_prefix('-')).is_some_and(|hash| {
        hash.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it))
    })
}

/// Whether a browser asks for a page.
pub(super) fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
    accepted.flat_map(|line| line.split(',')).any(|kind| kind.trim().starts_with("text/html"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_with_a_hash_are_kept_for_ever() {
        for hashed in ["assets/index-NYVkUQrq.js", "assets/cron-Dn-_V5uF.css"] {
            assert!(is_hashed(hashed), "{hashed}");
        }
        for plain in ["sw.js", "assets/index.js", "x-NYVkUQrq.js", "assets/nolongname.js", ""] {
            assert!(!is_hashed(plain), "{plain}");
        }
    }

    #[test]
    fn a_page_below_a_base_path_is_told_so_by_a_script_that_its_policy_has() {
        let page = "<html><head><script>x</script></head></html>";
        assert_eq!(with_base(page.into(), ""), page);
        let told = with_base(page.into(), "/openclaw");
        assert!(told.contains("<head><script>window.__OPENCLAW_CONTROL_UI_BASE_PATH__=\"/openclaw\"</script><script>x"), "{told}");
        assert_eq!(csp::script_hashes(&told).len(), 2);
    }

    #[test]
    fn a_tag_is_known_in_a_list_and_as_a_weak_one() {
        assert!(is_known(Some("\"a\", W/\"b\""), "\"b\""));
        assert!(!is_known(Some("\"a\""), "\"b\"") && !is_known(None, "\"b\""));
    }
}
