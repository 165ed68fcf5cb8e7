//! `GET /sessions/<key>/history`: a page of what was said, or all that is said from
//! now on.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::{follow, unknown};
use crate::handlers::session_rest;
use crate::http::Asked;
use crate::http::caller::once;
use crate::http::manner::not_ok_for;
use crate::protocol::ErrorShape;
use crate::registry::Ctx;
use crate::sessions::{Between, SessionKey, TranscriptPart};
use crate::support::json;

/// Most messages of a page that has a limit, as in the original.
const LIMIT_MAX: u64 = 1000;

/// Which page is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Wanted {
    /// At most so many messages.
    limit: Option<usize>,
    /// Only those before this one.
    before: Option<u64>,
    /// Whether it is a part that is wanted, of which followers get a whole new one
    /// each time.
    pub is_part: bool,
}

impl Wanted {
    /// What the texts of a query mean. No number is so bad that it is refused.
    fn read(limit: Option<&str>, cursor: Option<&str>) -> Self {
        let limit = limit.map(str::trim).filter(|limit| !limit.is_empty());
        let cursor = cursor.map(str::trim).filter(|cursor| !cursor.is_empty());
        let seq = cursor.and_then(|it| leading_number(it.strip_prefix("seq:").unwrap_or(it)));
        let limited = |text| {
            let limit = leading_number(text).unwrap_or_default().clamp(1, LIMIT_MAX);
            usize::try_from(limit).unwrap_or(usize::MAX)
        };
        Self {
            limit: limit.map(limited),
            before: seq.filter(|seq| *seq > 0),
            is_part: limit.is_some() || cursor.is_some(),
        }
    }
}

/// The number that a text begins with.
fn leading_number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let digits = text.get(..end).filter(|digits| !digits.is_empty())?;
    Some(digits.parse().unwrap_or(u64::MAX))
}

/// The page.
pub(in crate::http) async fn history(asked: Asked<'_>) -> Response {
    let written = asked.path.get("key").trim().to_owned();
    let (limit, cursor) = (asked.query("limit"), asked.query("cursor"));
    let wanted = Wanted::read(limit.as_deref(), cursor.as_deref());
    let accepts = once(&asked.parts.headers, header::ACCEPT.as_str()).unwrap_or_default();
    if accepts.to_ascii_lowercase().contains("text/event-stream") {
        return follow::answer(asked, &written, wanted).await;
    }
    let cx = asked.cx();
    let key = cx.session_key(&written);
    match read(&cx, &key, wanted).await {
        Ok(Some(part)) => {
            let kind = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
            (StatusCode::OK, kind, text(&key, &part)).into_response()
        }
        Ok(None) => unknown(&written),
        Err(error) => not_ok_for(&error),
    }
}

/// # Errors
/// When it cannot be read.
pub(super) async fn read(
    cx: &Ctx,
    key: &SessionKey,
    wanted: Wanted,
) -> Result<Option<TranscriptPart>, ErrorShape> {
    let between = Between { before: wanted.before, ..Between::default() };
    session_rest::messages(cx, key, wanted.limit, between).await
}

/// `{sessionKey, items, messages, hasMore, nextCursor?}`. The messages are there
/// twice, as recorded.
pub(super) fn text(key: &SessionKey, part: &TranscriptPart) -> String {
    let messages = json!(part.messages).to_string();
    let next = part.older.map(|seq| format!(r#","nextCursor":"{seq}""#)).unwrap_or_default();
    format!(
        r#"{{"sessionKey":{},"items":{messages},"messages":{messages},"hasMore":{}{next}}}"#,
        json!(key.as_str()),
        part.older.is_some(),
    )
}

/// The place of a message in its transcript.
pub(super) fn seq_of(message: &Value) -> Option<u64> {
    message["__openclaw"]["seq"].as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_means_some_page() {
        let of = |limit, cursor| {
            let wanted = Wanted::read(limit, cursor);
            (wanted.limit, wanted.before, wanted.is_part)
        };
        assert_eq!(of(None, None), (None, None, false));
        assert_eq!(of(Some(""), Some(" ")), (None, None, false));
        assert_eq!(of(Some("2"), Some("3")), (Some(2), Some(3), true));
        assert_eq!(of(Some("2.5x"), Some("seq:40")), (Some(2), Some(40), true));
        assert_eq!(of(Some("5000"), None), (Some(1000), None, true));
        for least in ["0", "-3", "x", "99999999999999999999999"] {
            let expected = if least.starts_with('9') { 1000 } else { 1 };
            assert_eq!(of(Some(least), None).0, Some(expected), "{least}");
        }
        for no_cursor in ["x", "0", "-1", "seq:"] {
            assert_eq!(of(None, Some(no_cursor)), (None, None, true), "{no_cursor}");
        }
    }

    #[test]
    fn a_page_says_where_the_one_before_it_ends() {
        let key = SessionKey::from_canonical("agent:main:\"x\"");
        let message = |seq: u64| json!({"role": "user", "__openclaw": {"id": "a", "seq": seq}});
        let mut part = TranscriptPart {
            messages: vec![message(5), message(6)],
            older: Some(5),
            ..TranscriptPart::default()
        };
        let told: Value = serde_json::from_str(&text(&key, &part)).unwrap();
        assert_eq!(told["items"], told["messages"]);
        assert_eq!((&told["hasMore"], &told["nextCursor"]), (&json!(true), &json!("5")));
        assert_eq!(told["sessionKey"], "agent:main:\"x\"");
        part.older = None;
        let told: Value = serde_json::from_str(&text(&key, &part)).unwrap();
        assert_eq!((&told["hasMore"], told.get("nextCursor")), (&json!(false), None));
        // Also one in which nothing is shown.
        let empty = TranscriptPart { older: Some(4), ..TranscriptPart::default() };
        let told: Value = serde_json::from_str(&text(&key, &empty)).unwrap();
        assert_eq!((&told["hasMore"], &told["nextCursor"]), (&json!(true), &json!("4")));
    }
}
