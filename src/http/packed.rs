//! Large texts on their way: gzip (RFC 1952) for who says that he unpacks it.
//!
//! Promises: what lasts (events), what is media, a part or packed already stays as
//! it is; whoever chooses some of a text and sees how long the answer is on the way
//! does not learn the rest of it. Must not: work on the async threads, but for a text of
//! the program that somebody takes plain.
//!
//! The length of a packed text tells how much of it is there twice (BREACH). Who
//! can make a browser ask with its user's rights could read an answer so, letter
//! by letter. So nothing is packed but what is the same for everybody, and answers
//! to a credential in the header, which no page can make a browser add. A message
//! of a stranger can still be in such an answer, beside a secret: each packed text
//! gets a few bytes more, of which there is a new number every time. Texts of the program
//! are packed when it is built, and always the same.

use std::io::{self, Write};

use axum::body::HttpBody;
use axum::http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, AUTHORIZATION, CONTENT_DISPOSITION, CONTENT_ENCODING,
    CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, SET_COOKIE, VARY,
};
use axum::http::{HeaderMap, Method, StatusCode, request};
use axum::response::{IntoResponse, Response};
use flate2::{Compression, GzBuilder};
use http_body_util::{BodyExt, Limited};
use tokio::sync::Semaphore;

use crate::support::{blocking, unpacked};

use super::routes::Entry;

/// Bytes below which it does not pay: such a text fits into a few packets either
/// way, and to pack it takes longer than to send it.
const LEAST: u64 = 4 * 1024;
/// Bytes above which an answer goes as it comes: it would be in memory twice.
const MOST: u64 = 16 * 1024 * 1024;
/// Texts that are packed at a time, however many are asked for: it is work for a
/// core, and runs need those as well. More go as they are.
const AT_ONCE: usize = 2;
/// How hard it is tried: a megabyte of text takes some 12 ms of a core and becomes a
/// third. One with level 6 takes twice that, and is a twenty-fifth smaller.
const LEVEL: u32 = 3;
/// Most bytes of chance in a packed text.
const CHANCE: usize = 64;
/// What is packed beside `text/…`.
const KINDS: [&str; 5] = [
    "application/json",
    "application/javascript",
    "application/manifest+json",
    "application/openmetrics-text",
    "image/svg+xml",
];
/// The media type of what does not end.
const EVENTS: &str = "text/event-stream";
/// What says that somebody else buffers nothing, so we do not either.
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");

/// `Vary` of what is packed for some.
pub(super) const ENCODING_VARIES: HeaderValue = HeaderValue::from_static("accept-encoding");

static PERMITS: Semaphore = Semaphore::const_new(AT_ONCE);

/// The answer of a route, packed where that is good.
pub(super) async fn packed(
    parts: &request::Parts,
    entry: Option<Entry>,
    mut answer: Response,
) -> Response {
    let is_own = parts.headers.contains_key(AUTHORIZATION);
    if !(is_own || is_for_all(entry)) || !is_text(&answer) || !is_large(&answer) {
        return answer;
    }
    if answer.headers().get_all(VARY).iter().all(|names| *names != ENCODING_VARIES) {
        answer.headers_mut().append(VARY, ENCODING_VARIES);
    }
    if !takes_gzip(&parts.headers) {
        return answer;
    }
    if parts.method == Method::HEAD {
        // How long it would be is not worth the work.
        as_packed(answer.headers_mut());
        return answer;
    }
    let Ok(_permit) = PERMITS.try_acquire() else { return answer };
    let (mut head, body) = answer.into_parts();
    let limit = usize::try_from(MOST).unwrap_or(usize::MAX);
    let Ok(whole) = Limited::new(body, limit).collect().await else {
        // As if it had ended early on its way.
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let plain = whole.to_bytes();
    let text = plain.clone();
    let packed = blocking(move || pack(&text)).await;
    let Ok(Ok(packed)) = packed else { return Response::from_parts(head, plain.into()) };
    as_packed(&mut head.headers);
    Response::from_parts(head, packed.into())
}

fn is_for_all(entry: Option<Entry>) -> bool {
    matches!(entry, Some(Entry::Public | Entry::Open))
}

/// Whether it is a whole text that nobody has packed, and no file to be kept.
fn is_text(answer: &Response) -> bool {
    let headers = answer.headers();
    let others = [
        CONTENT_ENCODING,
        CONTENT_RANGE,
        ACCEPT_RANGES,
        CONTENT_DISPOSITION,
        SET_COOKIE,
        UNBUFFERED,
    ];
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    answer.status() == StatusCode::OK
        && others.iter().all(|name| !headers.contains_key(name))
        && (KINDS.contains(&kind) || (kind.starts_with("text/") && kind != EVENTS))
}

/// Whether its length is known, and one for which it pays.
fn is_large(answer: &Response) -> bool {
    let said = answer.headers().get(CONTENT_LENGTH).and_then(|it| it.to_str().ok()?.parse().ok());
    // To HEAD it is told only.
    let length = answer.body().size_hint().exact().filter(|length| *length > 0).or(said);
    length.is_some_and(|length| (LEAST..=MOST).contains(&length))
}

/// What is above a packed answer. It means the same as the plain one and is not
/// the same byte by byte, which is what a strong tag would say (RFC 9110, §8.8.1).
fn as_packed(headers: &mut HeaderMap) {
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    let strong = headers.get(ETAG).and_then(|tag| tag.to_str().ok());
    let strong = strong.filter(|tag| !tag.starts_with("W/"));
    if let Some(tag) = strong.and_then(|tag| HeaderValue::from_str(&format!("W/{tag}")).ok()) {
        headers.insert(ETAG, tag);
    }
}

/// A text that is packed in the program, as it is or unpacked for who cannot do that (a
/// millisecond for the longest), and what is said of that above it. Whoever sees how long it
/// is learns nothing: it is the same for everybody.
pub(super) fn of_program(headers: &HeaderMap, packed: &'static [u8]) -> Response {
    let vary = [(VARY, ENCODING_VARIES)];
    if takes_gzip(headers) {
        (vary, [(CONTENT_ENCODING, "gzip")], packed).into_response()
    } else {
        (vary, unpacked(packed)).into_response()
    }
}

/// Packs a text, with a comment of a length that is never twice the same.
fn pack(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut chance = [0];
    getrandom::fill(&mut chance).map_err(io::Error::other)?;
    let comment = vec![b'.'; 1 + usize::from(chance[0]) % CHANCE];
    let space = Vec::with_capacity(text.len() / 4);
    // What the better levels save is less than they cost.
    let mut encoder = GzBuilder::new().comment(comment).write(space, Compression::new(LEVEL));
    encoder.write_all(text)?;
    encoder.finish()
}

/// Whether a client says that it unpacks, and does not like it less than plain
/// texts (RFC 9110, §12.5.3).
fn takes_gzip(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    let mut of_names = [None; 3];
    for way in lines.flat_map(|line| line.split(',')) {
        let mut parts = way.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let place = match name.as_str() {
            "gzip" | "x-gzip" => 0,
            "*" => 1,
            "identity" => 2,
            _ => continue,
        };
        let weight = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            name.trim()
                .eq_ignore_ascii_case("q")
                .then(|| value.trim().parse::<f32>().unwrap_or(0.0))
        });
        if let Some(of_name) = of_names.get_mut(place) {
            *of_name = Some(weight.unwrap_or(1.0));
        }
    }
    let [gzip, any, plain] = of_names;
    let gzip = gzip.or(any).unwrap_or(0.0);
    gzip > 0.0 && gzip >= plain.unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_a_client_says_of_gzip_counts() {
        let of = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(ACCEPT_ENCODING, HeaderValue::from_static(line));
            }
            takes_gzip(&headers)
        };
        for yes in [
            &["gzip"][..],
            &["br, GZIP;q=0.5"],
            &["deflate", "gzip"],
            &["*"],
            &["gzip;q=1.0, identity;q=0.5"],
            &["x-gzip ; q=0.001"],
        ] {
            assert!(of(yes), "{yes:?}");
        }
        for no in [
            &[][..],
            &["identity"],
            &["br"],
            &["gzip;q=0"],
            &["gzip;q=0, *"],
            &["*;q=0"],
            &["gzip;q=0.5, identity"],
            &["gzip;q=much"],
            &["gzipped"],
        ] {
            assert!(!of(no), "{no:?}");
        }
    }

    #[test]
    fn a_packed_text_is_the_text_and_its_length_says_little() {
        let text = "a text that is there again and again. ".repeat(1000);
        let mut lengths = BTreeSet::new();
        for _ in 0..40 {
            let packed = pack(text.as_bytes()).unwrap();
            assert_eq!(unpacked(&packed), text);
            assert!(packed.len() < text.len() / 10, "{}", packed.len());
            lengths.insert(packed.len());
        }
        assert!(lengths.len() > 10, "{lengths:?}");
    }
}
