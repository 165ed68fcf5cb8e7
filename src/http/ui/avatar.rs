//! `/avatar/<agentId>`: the picture of an agent, or what is known of it.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::agent::workspace::{Avatar, Face};
use crate::support::{hex, json};

use super::super::caller::reader;
use super::super::json_answer;
use super::super::not_found;
use super::send::{Content, send};
use super::{ASK_AGAIN, Asked, headers, place, query, runtime};

/// Most letters of an id.
const MAX_ID: usize = 64;
/// Most letters of a path that is told.
const MAX_PATH: usize = 256;
/// Most letters of the beginning of a picture that is told.
const MAX_KIND: usize = 64;
/// Where pictures are, below the base path.
pub(in crate::http) const FOLDER: &str = "/avatar/";

pub(in crate::http) async fn answer(asked: Asked<'_>) -> Response {
    let Asked { gateway, wire, peer, parts, .. } = asked;
    let settings = gateway.services.settings.now();
    let base_path = &settings.gateway.ui.base_path;
    let id = place::below(base_path, parts.uri.path()).and_then(|it| it.strip_prefix(FOLDER));
    let Some(id) = id.map(|id| id.trim_matches('/')).filter(|id| is_id(id)) else {
        return headers::of_ui(not_found());
    };
    if let Err(refusal) = reader(gateway, wire, peer, &parts.headers).await {
        return headers::of_ui(refusal);
    }
    let id = id.to_ascii_lowercase();
    let face = runtime::face(gateway, settings.agents.agent(&id)).await;
    let answer = if query(&parts.uri, "meta").as_deref() == Some("1") {
        Meta::of(&face, base_path, &id).answer()
    } else {
        picture(&face, parts).await.unwrap_or_else(not_found)
    };
    headers::of_ui(answer)
}

fn is_id(id: &str) -> bool {
    let is_letter = |it: u8| it.is_ascii_alphanumeric() || b"-_".contains(&it);
    id.len() <= MAX_ID
        && id.bytes().all(is_letter)
        && id.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
}

/// The picture, if the gateway has it.
async fn picture(face: &Face, parts: &Parts) -> Option<Response> {
    let Some(Avatar::Local(url)) = &face.picture else { return None };
    let (kind, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    let bytes = STANDARD.decode(data).ok()?;
    let tag = format!("\"{}\"", &hex(Sha256::digest(&bytes))[..32]);
    let fixed = [
        (CONTENT_TYPE, HeaderValue::from_str(kind).ok()?),
        (CACHE_CONTROL, HeaderValue::from_static(ASK_AGAIN)),
    ];
    send(Content::Bytes(bytes.into(), tag), parts, fixed).await.ok()
}

/// What is told of a picture.
pub(super) struct Meta {
    /// Where it is, if there is one.
    pub url: Option<String>,
    /// Where it comes from, without what is nobody's business.
    pub source: Option<String>,
    pub status: &'static str,
    /// Why there is none.
    pub reason: Option<&'static str>,
}

impl Meta {
    pub(super) fn of(face: &Face, base_path: &str, agent_id: &str) -> Self {
        let picture = face.picture.as_ref();
        let url = picture.map(|picture| match picture {
            Avatar::Remote(url) | Avatar::Data(url) => url.clone(),
            Avatar::Local(_) => format!("{base_path}{FOLDER}{agent_id}"),
        });
        let source = match picture {
            Some(Avatar::Remote(_)) => Some("remote URL".to_owned()),
            Some(Avatar::Data(url)) => Some(kind_of(url)),
            Some(Avatar::Local(_)) | None => face.path.clone().filter(|path| is_told(path)),
        };
        Self {
            url,
            source,
            status: picture.map_or("none", Avatar::status),
            reason: picture.is_none().then_some("missing"),
        }
    }

    fn answer(&self) -> Response {
        let body = json!({
            "avatarUrl": self.url,
            "avatarSource": self.source,
            "avatarStatus": self.status,
            "avatarReason": self.reason,
        });
        ([(CACHE_CONTROL, ASK_AGAIN)], json_answer(StatusCode::OK, &body)).into_response()
    }
}

/// `data:image/png;base64,...` without the data.
fn kind_of(url: &str) -> String {
    let kind: String = url.split(',').next().unwrap_or_default().chars().take(MAX_KIND).collect();
    format!("{kind},...")
}

/// Whether a path says nothing of this machine: it is one inside of a workspace.
fn is_told(path: &str) -> bool {
    path.len() <= MAX_PATH
        && !path.starts_with(['~', '/', '\\'])
        && !path.contains([':', '\0'])
        && path.split(['/', '\\']).all(|part| part != "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_a_picture_is_no_path_of_the_machine_and_no_picture() {
        let meta = |picture: Option<Avatar>, path: Option<&str>| {
            let path = path.map(str::to_owned);
            let face = Face { name: "A".into(), emoji: None, picture, path };
            let Meta { url, source, status, reason } = Meta::of(&face, "/ui", "ann");
            (url, source, status, reason)
        };
        let data = "data:image/png;base64,AAAA";
        let url = |text: &str| Some(text.to_owned());
        assert_eq!(
            meta(Some(Avatar::Local(data.into())), Some("a/b.png")),
            (url("/ui/avatar/ann"), url("a/b.png"), "local", None)
        );
        assert_eq!(
            meta(Some(Avatar::Data(data.into())), Some(data)),
            (url(data), url("data:image/png;base64,..."), "data", None)
        );
        let remote = "https://example.com/a.png";
        assert_eq!(
            meta(Some(Avatar::Remote(remote.into())), Some(remote)),
            (url(remote), url("remote URL"), "remote", None)
        );
        for hidden in ["/home/ann/a.png", "~/a.png", "../a.png", "C:\\a.png", "file:a.png"] {
            assert_eq!(meta(None, Some(hidden)), (None, None, "none", Some("missing")), "{hidden}");
        }
    }
}
