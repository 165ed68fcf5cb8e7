//! `/api/chat/uploads`: files for messages that are too large for a frame.
//!
//! Promises: an answer of 201 means that the file is on disk; what is refused, cut
//! off or not finished leaves nothing; bytes, time, number and room are bounded
//! before anything is read. Must not: decide which message takes a file (see
//! `handlers/uploads.rs`).

mod digest;
mod form;
mod places;
mod receive;

use axum::body::Bytes;
use axum::http::{Method, StatusCode, header, request};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use serde_json::Value;

use crate::config::Settings;
use crate::gateway::Gateway;
use crate::handlers::uploads::{INBOUND, UPLOADS, limiting_key, most, most_of_a_picture};
use crate::handlers::uploads::{owner, session};
use crate::registry::Ctx;
use crate::sessions::{About, Media, MediaError, MediaType, Partial, Stock, Upload};
use crate::support::json;

use super::asked::{Asked, ok};
use super::attending::Attending;
use super::manner::Manner;
use super::ui::blocking;
use super::{body, json_answer, query};
use form::{AROUND_MAX, Form};
pub use places::Places;
use places::{NoPlace, Place};
use receive::{Failure, Told, receive};

/// Where it is.
pub(super) const PATH: &str = UPLOADS;
/// All uploads that no message took are together at most so many times the largest
/// one.
const STOCK_TIMES: u64 = 16;
/// So many files at most: each costs names and a record, however small it is.
const STOCK_COUNT: usize = 1000;
/// Most letters of a name that is told.
const NAME_MAX: usize = 255;
/// After so long somebody is gone whose place another may have, in milliseconds.
const ASK_AGAIN_MS: u64 = 5000;

pub(super) async fn answer(asked: Asked<'_>) -> Response {
    if asked.parts.method != Method::POST {
        return limits(&asked);
    }
    uploaded(asked).await.unwrap_or_else(|refusal| refusal)
}

/// What is taken.
fn limits(asked: &Asked<'_>) -> Response {
    let settings = asked.gateway.services.settings.now();
    let most = settings.gateway.http.upload_max_bytes;
    ok(&json!({
        "ok": true,
        "maxBytes": most,
        "maxImageBytes": most.min(most_of_a_picture(&settings)),
        "maxTotalBytes": most.saturating_mul(STOCK_TIMES),
    }))
}

/// A refusal. What of the body was not read is not read any more.
fn refused(status: StatusCode, message: &str, details: &Value) -> Response {
    let kind = if status.is_client_error() { "invalid_request" } else { "unavailable" };
    let mut error = json!({"message": message, "type": kind});
    if let (Value::Object(error), Value::Object(details)) = (&mut error, details) {
        error.extend(details.clone());
    }
    let answer = json_answer(status, &json!({"ok": false, "error": error}));
    ([(header::CONNECTION, "close")], answer).into_response()
}

fn invalid(message: &str) -> Response {
    refused(StatusCode::BAD_REQUEST, message, &json!({}))
}

fn too_large(most: u64, config_path: &str) -> Response {
    let message = format!("the file must have at most {most} bytes");
    let details = json!({"code": "UPLOAD_TOO_LARGE", "maxBytes": most, "configPath": config_path});
    refused(StatusCode::PAYLOAD_TOO_LARGE, &message, &details)
}

fn unwritten(error: &MediaError) -> Response {
    tracing::error!(%error, "an upload cannot be written");
    if error.is_full() {
        return full();
    }
    let message = "the gateway cannot write the file now";
    refused(StatusCode::SERVICE_UNAVAILABLE, message, &json!({}))
}

fn full() -> Response {
    let message = "there is no room for the file; send or wait for what was uploaded before";
    refused(StatusCode::INSUFFICIENT_STORAGE, message, &json!({"code": "UPLOADS_FULL"}))
}

fn no_place(why: NoPlace) -> Response {
    let (message, max) = match why {
        NoPlace::Own(max) => (format!("at most {max} uploads of one caller at a time"), max),
        NoPlace::All(max) => (format!("at most {max} uploads at a time"), max),
    };
    let details = json!({"code": "TOO_MANY_UPLOADS", "max": max});
    let answer = refused(StatusCode::TOO_MANY_REQUESTS, &message, &details);
    super::manner::later(ASK_AGAIN_MS, answer)
}

fn failed(failure: Failure, settings: &Settings) -> Response {
    match failure {
        Failure::TooLarge(most, kind) => too_large(most, limiting_key(kind, settings)),
        Failure::TooSlow => {
            refused(StatusCode::REQUEST_TIMEOUT, "the upload does not come on", &json!({}))
        }
        Failure::Empty => invalid("the file is empty"),
        Failure::Broken(why) => invalid(&format!("the body cannot be read: {why}")),
        Failure::Disk(error) => unwritten(&error),
    }
}

/// What a request says of its file.
struct Head {
    session_key: String,
    file_name: Option<String>,
    content_type: String,
    size: Option<u64>,
    digest: Option<[u8; 32]>,
    is_form: bool,
}

async fn uploaded(asked: Asked<'_>) -> Result<Response, Response> {
    let (attending, cx) = asked.attend().await;
    let Asked { gateway, parts, caller, manner, body, .. } = asked;
    let services = &gateway.services;
    let settings = services.settings.now();
    let head = head(&cx, parts, manner, &settings).await?;
    let owner = owner(&caller.principal);
    let (place, partial) = begin(gateway, &settings, &head, &owner).await?;
    let body = body.into_data_stream();
    let size = head.size.filter(|_| !head.is_form);
    let most = |kind: MediaType| most(kind, &settings);
    let coming = async {
        if head.is_form {
            return of_form(&head, body, partial, &most).await;
        }
        let told = Told { kind: &head.content_type, size, most: &most };
        let (partial, kind) = receive(body, partial, &told).await?;
        Ok((partial, kind, None))
    };
    let Some(came) = attending.unless_cut(coming).await else {
        return Err(Attending::cut(manner));
    };
    let (partial, kind, given) = came.map_err(|failure| failed(failure, &settings))?;
    if head.digest.is_some_and(|stated| stated != partial.digest()) {
        let message = "the body does not have the digest that its head states";
        return Err(refused(StatusCode::BAD_REQUEST, message, &json!({"code": "DIGEST_MISMATCH"})));
    }
    let file_name = head.file_name.or_else(|| shown_name(&given?));
    let about = About {
        id: Media::name(file_name.as_deref(), kind.extension, &services.ids.uuid()),
        owner,
        session_key: head.session_key,
        file_name,
        kind,
        now_ms: services.clock.now_ms(),
    };
    let finished = blocking(move || Ok(partial.finish(about))).await;
    drop(place);
    let upload = finished.unwrap_or(Err(MediaError::Stopped));
    let upload = upload.map_err(|error| unwritten(&error))?;
    tracing::info!(bytes = upload.bytes, kind = upload.mime_type, "a file was uploaded");
    Ok(told(&upload))
}

/// What there is to know before anything of the body is read.
async fn head(
    cx: &Ctx,
    parts: &request::Parts,
    manner: Manner,
    settings: &Settings,
) -> Result<Head, Response> {
    let (headers, query) = (&parts.headers, |name| query::value(&parts.uri, name));
    let Some(written) = query("sessionKey").filter(|key| !key.trim().is_empty()) else {
        return Err(invalid("sessionKey must be in the query, once"));
    };
    let key = session(cx, &written).await.map_err(|error| {
        let answer = manner.of_error(&error);
        ([(header::CONNECTION, "close")], answer).into_response()
    })?;
    let text = |name| headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default();
    if !["", "identity"].contains(&text(header::CONTENT_ENCODING)) {
        let message = "the body must not be encoded";
        return Err(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, message, &json!({})));
    }
    let content_type = text(header::CONTENT_TYPE).to_owned();
    let is_form = content_type.trim_start().to_ascii_lowercase().starts_with("multipart/");
    let most = settings.gateway.http.upload_max_bytes;
    let around = if is_form { AROUND_MAX } else { 0 };
    if body::is_said_too_large(headers, most.saturating_add(around)) {
        return Err(too_large(most, limiting_key(MediaType::named(""), settings)));
    }
    let digest = digest::stated(headers).map_err(|why| invalid(&why))?;
    if is_form && digest.is_some() {
        return Err(invalid("a form has no digest of its file; send the file as the body"));
    }
    let file_name = query("fileName").and_then(|name| shown_name(&name));
    let size = text(header::CONTENT_LENGTH).parse().ok();
    Ok(Head { session_key: key.to_string(), file_name, content_type, size, digest, is_form })
}

/// Room on the disk, and a file to write to.
async fn begin(
    gateway: &Gateway,
    settings: &Settings,
    head: &Head,
    owner: &str,
) -> Result<(Place, Partial), Response> {
    let services = &gateway.services;
    let (media, now_ms) = (services.sessions.media(), services.clock.now_ms());
    let most = settings.gateway.http.upload_max_bytes;
    // Before the look at the disk: what others finish meanwhile would be seen nowhere.
    let place = gateway.uploads.enter(owner, head.size.unwrap_or(most)).map_err(no_place)?;
    let looked = blocking(move || {
        let stock = media.uploads().tidy(now_ms)?;
        Ok((stock, media))
    });
    let (stored, media) = looked.await.map_err(|error| {
        tracing::error!(%error, "the folder of uploads cannot be looked at");
        refused(StatusCode::SERVICE_UNAVAILABLE, "the gateway cannot store files now", &json!({}))
    })?;
    let bound = Stock { count: STOCK_COUNT, bytes: most.saturating_mul(STOCK_TIMES) };
    if !place.fits(stored, bound) {
        return Err(full());
    }
    let begun = blocking(move || Ok(media.uploads().begin())).await;
    let partial = begun.unwrap_or(Err(MediaError::Stopped)).map_err(|error| unwritten(&error))?;
    Ok((place, partial))
}

/// The file of a form, with its name.
async fn of_form<E: std::fmt::Display + 'static>(
    head: &Head,
    body: impl Stream<Item = Result<Bytes, E>> + Unpin + Send + 'static,
    partial: Partial,
    most: &(dyn Fn(MediaType) -> u64 + Send + Sync),
) -> Result<(Partial, MediaType, Option<String>), Failure> {
    let mut form = Form::of(&head.content_type, body).map_err(Failure::Broken)?;
    let file = form.file();
    let file = tokio::time::timeout(body::WINDOW, file).await.map_err(|_| Failure::TooSlow)?;
    let file = file.map_err(Failure::Broken)?.ok_or(Failure::Empty)?;
    let told = Told { kind: &file.kind, size: None, most };
    let (partial, kind) = receive(file.bytes, partial, &told).await?;
    let end = tokio::time::timeout(body::WINDOW, form.end());
    end.await.map_err(|_| Failure::TooSlow)?.map_err(Failure::Broken)?;
    Ok((partial, kind, file.name))
}

/// The last part of a name, without signs that nobody sees.
fn shown_name(given: &str) -> Option<String> {
    let name = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let name: String = name.chars().filter(|c| !c.is_control()).take(NAME_MAX).collect();
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

fn told(upload: &Upload) -> Response {
    let body = json!({
        "ok": true,
        "uploadId": upload.id,
        "url": format!("{INBOUND}{}", upload.id),
        "fileName": upload.file_name,
        "mimeType": upload.mime_type,
        "sizeBytes": upload.bytes,
        "sha256": upload.sha256,
        "expiresAtMs": upload.expires_at_ms,
    });
    let answer = json_answer(StatusCode::CREATED, &body);
    ([(header::CACHE_CONTROL, "no-store")], answer).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_last_part_of_a_path_and_can_be_seen() {
        for (given, shown) in [
            ("../../etc/pass\u{7}wd", Some("passwd")),
            ("C:\\Bilder\\Gruß.png", Some("Gruß.png")),
            ("a/", None),
            (" \n", None),
        ] {
            assert_eq!(shown_name(given).as_deref(), shown, "{given:?}");
        }
        assert_eq!(shown_name(&"ä".repeat(300)).unwrap().chars().count(), NAME_MAX);
    }
}
