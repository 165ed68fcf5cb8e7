//! `POST /tools/invoke`: one tool, called by a client itself.
//!
//! Promises: what `tools.invoke` does, under the same rules; who goes away, or is let
//! in no more, stops the tool. Must not: know a tool.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value};

use crate::support::{json, strict_json};

use super::attending::Attending;
use super::manner::{not_ok, not_ok_for};
use super::{Asked, json_answer};

/// Most bytes of a request, as in the original.
const BODY_MAX: u64 = 2 * 1024 * 1024;
const NAMELESS: &str = "tools.invoke requires name";
/// Members of a request that the method has as well.
const MEMBERS: [&str; 7] =
    ["args", "action", "sessionKey", "agentId", "confirm", "idempotencyKey", "dryRun"];

pub(super) async fn answer(mut asked: Asked<'_>) -> Response {
    answered(&mut asked).await.unwrap_or_else(|refusal| refusal)
}

/// # Errors
/// The answer to a request that is not taken, or comes to nothing.
async fn answered(asked: &mut Asked<'_>) -> Result<Response, Response> {
    let bytes = asked.bytes(BODY_MAX).await?;
    let body = if bytes.is_empty() { Ok(Value::Null) } else { strict_json(&bytes) };
    let body = body.map_err(|error| unread(&error))?;
    let Some(params) = params(body) else {
        return Err(not_ok(StatusCode::BAD_REQUEST, "invalid_request", NAMELESS));
    };
    let (attending, cx) = asked.attend().await;
    let done = attending.unless_cut(cx.call("tools.invoke", &params)).await;
    let done = done.ok_or_else(|| Attending::cut(asked.manner))?;
    let mut done = done.map_err(|error| not_ok_for(&error))?;
    if done["ok"] == true {
        let answer = json!({"ok": true, "result": done["output"].take()});
        return Ok(json_answer(StatusCode::OK, &answer));
    }
    let error = &done["error"];
    let (status, kind) = match error["code"].as_str().unwrap_or_default() {
        "not_found" => (StatusCode::NOT_FOUND, "not_found"),
        "forbidden" => (StatusCode::FORBIDDEN, "tool_call_blocked"),
        "validation_error" => (StatusCode::BAD_REQUEST, "invalid_request"),
        // The tool was called, and says what is wrong.
        _ => (StatusCode::BAD_REQUEST, "tool_error"),
    };
    Err(not_ok(status, kind, error["message"].as_str().unwrap_or_default()))
}

fn unread(error: &serde_json::Error) -> Response {
    let message = format!("the body is not JSON: {error}");
    let error = json!({"message": message, "type": "invalid_request_error"});
    json_answer(StatusCode::BAD_REQUEST, &json!({"error": error}))
}

/// The params of the method; none when the request names no tool. What says nothing
/// is as if it were not there.
fn params(body: Value) -> Option<Value> {
    let Value::Object(mut body) = body else { return None };
    let name = ["name", "tool"].into_iter().find_map(|member| body.remove(member));
    let name = name.as_ref().and_then(Value::as_str).map(str::trim).filter(|it| !it.is_empty())?;
    let mut params = Map::new();
    params.insert("name".into(), json!(name));
    for member in MEMBERS {
        let given = match body.remove(member) {
            None | Some(Value::Null) => continue,
            Some(Value::String(text)) if text.trim().is_empty() => continue,
            Some(Value::String(text)) => json!(text.trim()),
            Some(given) => given,
        };
        params.insert(member.into(), given);
    }
    Some(Value::Object(params))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_nothing_is_left_out_and_a_tool_has_two_names_for_its_name() {
        let of = |body| params(body);
        assert_eq!(of(json!({"tool": " a "})), Some(json!({"name": "a"})));
        assert_eq!(of(json!({"tool": "a", "name": "b"})), Some(json!({"name": "b"})));
        let given = json!({"tool": "a", "args": null, "action": " ", "sessionKey": " main ",
            "dryRun": false, "other": 1});
        let expected = json!({"name": "a", "sessionKey": "main", "dryRun": false});
        assert_eq!(of(given), Some(expected));
        for nameless in [json!({}), json!([]), json!(1), json!({"tool": 1}), json!({"tool": " "})] {
            assert_eq!(of(nameless), None);
        }
    }
}
