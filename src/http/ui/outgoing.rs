//! `/api/chat/media/outgoing/<sessionKey>/<id>/full`: pictures that the original's
//! assistant has sent, which transcripts name by this path. Each has a record beside
//! it that says whose it is.

use std::io;
use std::path::Path;

use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use uuid::Uuid;

use crate::auth::{HttpCaller, HttpProof};
use crate::gateway::Gateway;
use crate::sessions::SessionKey;

use super::super::Manner;
use super::super::caller::{once, reader};
use super::send::{Content, send};
use super::{Asked, files};

/// Where they are.
pub(in crate::http) const FOLDER: &str = "/api/chat/media/outgoing/";
/// Most bytes of a record, which has some five hundred.
const RECORD_MAX: u64 = 64 * 1024;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    session_key: String,
    original: Original,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Original {
    path: String,
    #[serde(default)]
    content_type: Option<String>,
}

pub(in crate::http) async fn answer(asked: Asked<'_>) -> Response {
    let Asked { gateway, wire, peer, parts, .. } = asked;
    let caller = match reader(gateway, wire, peer, &parts.headers).await {
        Ok(caller) => caller,
        Err(refusal) => return refusal,
    };
    let missing = || (StatusCode::NOT_FOUND, "not found").into_response();
    let Some((key, id)) = named(parts.uri.path()) else { return missing() };
    let folder = gateway.services.settings.now().paths.state_dir.join("media/outgoing");
    let wanted = id.clone();
    let read = files::blocking(move || record(&folder, &wanted)).await;
    let Some(record) = read.ok().filter(|record| record.session_key == key) else {
        return missing();
    };
    if let Some(why) = withheld(&caller, &parts.headers, &key) {
        return Manner::Recorded.forbidden(why);
    }
    if !is_there(gateway, &key).await {
        return missing();
    }
    picture(gateway, parts, record).await.unwrap_or_else(|_| missing())
}

/// The session and the id that a path names.
fn named(path: &str) -> Option<(String, String)> {
    let (_, rest) = path.split_once(FOLDER)?;
    let mut parts = rest.split('/');
    let (key, id) = (parts.next()?, parts.next()?);
    if parts.next() != Some("full") || parts.next().is_some() {
        return None;
    }
    let key = percent_decode_str(key).decode_utf8().ok()?.into_owned();
    Some((key, Uuid::try_parse(id).ok()?.hyphenated().to_string()))
}

fn record(folder: &Path, id: &str) -> io::Result<Record> {
    let bytes = files::open(&folder.join("records"), &format!("{id}.json"))?.read(RECORD_MAX)?;
    serde_json::from_slice(&bytes).map_err(io::Error::other)
}

/// Why this is not shown to somebody. As in the original, who shows the shared
/// secret only has to say for which session he asks.
fn withheld(caller: &HttpCaller, headers: &HeaderMap, key: &str) -> Option<&'static str> {
    if caller.proof != HttpProof::Secret {
        return None;
    }
    match once(headers, "x-openclaw-requester-session-key").filter(|it| !it.is_empty()) {
        None => Some("requester session ownership required"),
        Some(requester) if requester != key => {
            Some("requester session does not own attachment session")
        }
        Some(_) => None,
    }
}

/// Whether the session is still there: what is deleted is not shown.
async fn is_there(gateway: &Gateway, key: &str) -> bool {
    let sessions = &gateway.services.sessions;
    let key = SessionKey::parse(key, &sessions.rules());
    sessions.entry(&key).await.is_ok_and(|entry| entry.is_some())
}

async fn picture(gateway: &Gateway, parts: &Parts, record: Record) -> io::Result<Response> {
    let folder = gateway.services.settings.now().paths.state_dir.join("media/outgoing/originals");
    // The record may come from another machine: its folder says nothing here.
    let name = Path::new(&record.original.path).file_name().and_then(|name| name.to_str());
    let name = name.ok_or(io::ErrorKind::NotFound)?.to_owned();
    let opened = files::blocking(move || files::open(&folder, &name)).await?;
    let kind = record.original.content_type.filter(|kind| kind.starts_with("image/"));
    let kind = kind.and_then(|kind| HeaderValue::from_str(&kind).ok());
    let kind = kind.unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let fixed = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, HeaderValue::from_static("private, max-age=31536000, immutable")),
        (CONTENT_DISPOSITION, HeaderValue::from_static("inline")),
    ];
    send(Content::File(opened), parts, fixed).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_session_and_one_picture() {
        let id = "0f8b1f4e-6c1e-4c0f-9d0a-0f5a1c2b3d4e";
        let path = format!("/ui/api/chat/media/outgoing/agent%3Amain%3Amain/{id}/full");
        assert_eq!(named(&path), Some(("agent:main:main".into(), id.into())));
        for wrong in [
            format!("/api/chat/media/outgoing/x/{id}"),
            format!("/api/chat/media/outgoing/x/{id}/full/y"),
            format!("/api/chat/media/outgoing/x/{id}/half"),
            "/api/chat/media/outgoing/x/..%2f..%2fy/full".to_owned(),
            "/api/chat/media/outgoing/x/y/full".to_owned(),
        ] {
            assert_eq!(named(&wrong), None, "{wrong}");
        }
    }
}
