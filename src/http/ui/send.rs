//! Sending a file: as a whole, a part of it, or that it has not changed (RFC 9110
//! §13 and §14).
//!
//! Promises: what a client has already is not sent again; of a part, no byte outside
//! of it is read; a part is of the file that the client means, or the whole is sent.

use std::io;

use axum::body::{Body, Bytes};
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    LAST_MODIFIED, RANGE,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use jiff::fmt::rfc2822::{DateTimeParser, DateTimePrinter};

use super::super::caller::once;
use super::files::{self, Opened};
use super::{headers, is_known, known_tags};

/// What is sent.
pub(super) enum Content {
    /// A file, as the client takes it.
    File(Opened),
    /// Something small, and what names its state.
    Bytes(Bytes, String),
}

impl Content {
    fn size(&self) -> u64 {
        match self {
            Self::File(opened) => opened.size,
            Self::Bytes(bytes, _) => u64::try_from(bytes.len()).unwrap_or_default(),
        }
    }

    fn tag(&self) -> &str {
        let (Self::File(Opened { tag, .. }) | Self::Bytes(_, tag)) = self;
        tag
    }

    /// When it was changed, in whole seconds.
    fn changed(&self) -> Option<Timestamp> {
        match self {
            Self::File(opened) => Timestamp::from_second(opened.changed_s).ok(),
            Self::Bytes(..) => None,
        }
    }

    async fn body(self, part: Part) -> io::Result<Body> {
        match self {
            Self::File(opened) => files::blocking(move || opened.part(part.from, part.len)).await,
            Self::Bytes(bytes, _) => {
                let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                let range = place(part.from)..place(part.from.saturating_add(part.len));
                Ok(Body::from(bytes.slice(range)))
            }
        }
    }
}

/// Bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    from: u64,
    len: u64,
}

/// What of a file is wanted.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    All,
    Part(Part),
    /// Something beyond its end.
    Nothing,
}

/// The answer with a file that somebody else has made. `fixed` are the headers that
/// all answers about it have.
///
/// # Errors
/// When it cannot be read.
pub(super) async fn send(
    content: Content,
    request: &Parts,
    fixed: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
) -> io::Result<Response> {
    let (size, tag) = (content.size(), content.tag().to_owned());
    let mut told: HeaderMap = fixed.into_iter().collect();
    let mut tell = |name, value: &str| {
        HeaderValue::from_str(value).map_err(io::Error::other).map(|value| told.insert(name, value))
    };
    tell(ETAG, &tag)?;
    tell(ACCEPT_RANGES, "bytes")?;
    let changed = content.changed();
    if let Some(date) = changed.as_ref().and_then(http_date) {
        tell(LAST_MODIFIED, &date)?;
    }
    if is_unchanged(&request.headers, &tag, changed) {
        return Ok(headers::of_file((StatusCode::NOT_MODIFIED, told).into_response()));
    }
    // Only what is got comes in parts.
    let is_head = request.method == Method::HEAD;
    let wanted = if is_head { Wanted::All } else { wanted(&request.headers, &tag, size) };
    let (status, part) = match wanted {
        Wanted::All => (StatusCode::OK, Part { from: 0, len: size }),
        Wanted::Part(part) => {
            let last = part.from + part.len - 1;
            tell(CONTENT_RANGE, &format!("bytes {}-{last}/{size}", part.from))?;
            (StatusCode::PARTIAL_CONTENT, part)
        }
        Wanted::Nothing => {
            let range = [(CONTENT_RANGE, format!("bytes */{size}")), (ETAG, tag)];
            let refusal = (StatusCode::RANGE_NOT_SATISFIABLE, range, Body::empty());
            return Ok(headers::of_file(refusal.into_response()));
        }
    };
    tell(CONTENT_LENGTH, &part.len.to_string())?;
    let body = if is_head { Body::empty() } else { content.body(part).await? };
    Ok(headers::of_file((status, told, body).into_response()))
}

fn http_date(time: &Timestamp) -> Option<String> {
    DateTimePrinter::new().timestamp_to_rfc9110_string(time).ok()
}

/// Whether the client has it already. The tag says more than the time.
fn is_unchanged(asked: &HeaderMap, tag: &str, changed: Option<Timestamp>) -> bool {
    if asked.contains_key(IF_NONE_MATCH) {
        let known = known_tags(asked);
        return is_known(known.as_deref(), tag) || known.as_deref().map(str::trim) == Some("*");
    }
    let since = once(asked, IF_MODIFIED_SINCE.as_str())
        .and_then(|date| DateTimeParser::new().parse_timestamp(date).ok());
    changed.zip(since).is_some_and(|(changed, since)| changed <= since)
}

/// What of the file is wanted. Of several parts the whole is sent, and of a file that
/// may have changed since the client got its first part.
fn wanted(asked: &HeaderMap, tag: &str, size: u64) -> Wanted {
    let Some(range) = once(asked, RANGE.as_str()) else { return Wanted::All };
    // A date does not tell two changes of one second apart.
    if asked.contains_key(IF_RANGE) && once(asked, IF_RANGE.as_str()) != Some(tag) {
        return Wanted::All;
    }
    let Some((unit, set)) = range.split_once('=') else { return Wanted::All };
    if !unit.trim().eq_ignore_ascii_case("bytes") || set.contains(',') {
        return Wanted::All;
    }
    part(set.trim(), size).unwrap_or(Wanted::All)
}

/// `first-`, `first-last` or `-length`; none for what is no range.
fn part(set: &str, size: u64) -> Option<Wanted> {
    let number = |text: &str| -> Option<u64> {
        let is_number = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        // More than any file has is beyond its end.
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let (first, last) = set.split_once('-')?;
    let (from, end) = if first.is_empty() {
        let length = number(last)?;
        (if length == 0 { size } else { size.saturating_sub(length) }, size)
    } else {
        let from = number(first)?;
        let last = if last.is_empty() { u64::MAX } else { number(last)? };
        if last < from {
            return None;
        }
        (from, last.saturating_add(1).min(size))
    };
    if from >= end {
        return Some(Wanted::Nothing);
    }
    Some(Wanted::Part(Part { from, len: end - from }))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    const TAG: &str = "\"t\"";

    fn asked(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| {
                (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
            })
            .collect()
    }

    #[test]
    fn a_range_is_one_part_of_the_file_or_the_whole_is_sent() {
        let part = |from, len| Wanted::Part(Part { from, len });
        for (range, expected) in [
            ("bytes=0-", part(0, 100)),
            ("bytes=0-0", part(0, 1)),
            ("bytes=10-19", part(10, 10)),
            ("bytes=90-1000", part(90, 10)),
            ("bytes=-7", part(93, 7)),
            ("bytes=-700", part(0, 100)),
            ("Bytes = 5-6", part(5, 2)),
            ("bytes=100-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=99999999999999999999999-", Wanted::Nothing),
            ("bytes=5-4", Wanted::All),
            ("bytes=0-1,5-6", Wanted::All),
            ("bytes=a-b", Wanted::All),
            ("bytes=+1-2", Wanted::All),
            ("bytes=-", Wanted::All),
            ("lines=0-1", Wanted::All),
            ("0-1", Wanted::All),
        ] {
            assert_eq!(wanted(&asked(&[("range", range)]), TAG, 100), expected, "{range}");
        }
        let empty = wanted(&asked(&[("range", "bytes=0-")]), TAG, 0);
        assert_eq!(empty, Wanted::Nothing);
        for (means, expected) in
            [(TAG, part(0, 1)), ("\"other\"", Wanted::All), ("W/\"t\"", Wanted::All)]
        {
            let asked = asked(&[("range", "bytes=0-0"), ("if-range", means)]);
            assert_eq!(wanted(&asked, TAG, 100), expected, "{means}");
        }
    }

    #[test]
    fn what_has_not_changed_is_known_by_its_tag_or_else_by_its_time() {
        let changed = Timestamp::from_second(1_700_000_000).unwrap();
        let date = http_date(&changed).unwrap();
        assert_eq!(date, "Tue, 14 Nov 2023 22:13:20 GMT");
        let is = |lines: &[(&'static str, &str)]| is_unchanged(&asked(lines), TAG, Some(changed));
        assert!(is(&[("if-none-match", TAG)]) && is(&[("if-none-match", "*")]));
        assert!(is(&[("if-none-match", "\"a\", W/\"t\"")]));
        assert!(is(&[("if-modified-since", &date)]));
        assert!(is(&[("if-modified-since", "Tue, 14 Nov 2023 22:13:21 GMT")]));
        assert!(!is(&[("if-modified-since", "Tue, 14 Nov 2023 22:13:19 GMT")]));
        assert!(!is(&[("if-modified-since", "yesterday")]) && !is(&[]));
        assert!(!is(&[("if-none-match", "\"a\""), ("if-modified-since", &date)]));
    }

    #[tokio::test]
    async fn an_answer_has_the_bytes_that_its_head_tells_of() {
        let home = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
        std::fs::write(home.path().join("a.bin"), &bytes).unwrap();
        for (method, range, status, of) in [
            (Method::GET, None, 200, 0..200_000),
            (Method::HEAD, Some("bytes=0-1"), 200, 0..0),
            (Method::GET, Some("bytes=1000-150000"), 206, 1000..150_001),
            (Method::GET, Some("bytes=-5"), 206, 199_995..200_000),
            (Method::GET, Some("bytes=200000-"), 416, 0..0),
        ] {
            let contents = [
                Content::File(files::open(home.path(), "a.bin").unwrap()),
                Content::Bytes(bytes.clone().into(), TAG.into()),
            ];
            for content in contents {
                let mut request = axum::http::Request::new(()).into_parts().0;
                request.method = method.clone();
                request.headers.extend(range.map(|range| (RANGE, range.parse().unwrap())));
                let answer = send(content, &request, []).await.unwrap();
                assert_eq!(answer.status().as_u16(), status, "{range:?}");
                let length = answer
                    .headers()
                    .get("content-length")
                    .map(|it| it.to_str().unwrap().to_owned());
                let expected = if method == Method::HEAD { 200_000 } else { of.len() };
                assert_eq!(length, (status != 416).then(|| expected.to_string()), "{range:?}");
                let body = answer.into_body().collect().await.unwrap().to_bytes();
                assert!(body == bytes[of.clone()], "{range:?}");
            }
        }
    }
}
