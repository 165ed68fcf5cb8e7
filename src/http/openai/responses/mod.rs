//! `POST /v1/responses`.

mod items;
mod kept;
mod request;
mod told;

use std::fmt::Display;

use axum::http::StatusCode;
use axum::response::Response;

use super::read::{At, body};
use super::said::{goes_on, received};
use super::sse;
use super::target::{Wanted, target};
use super::waiting::Waiting;
use crate::handlers::ask::Question;
use crate::http::{Asked, Attending, Manner, json_answer, openai_word};
use crate::registry::Ctx;
use crate::sessions::SessionKey;
use crate::support::json;
use request::Request;
use told::Made;

/// What conversations without a name begin with.
const PREFIX: &str = "openresponses";
/// What the ids of responses begin with.
const ID: &str = "resp_";
/// What to do about a response that is not known.
const NOT_KEPT: &str = "Responses are known for 24 hours, and the newest 10 000 runs: send what \
    was said so far in `input`, or name the session by `user` or `x-openclaw-session-key`.";

pub async fn answer(asked: Asked<'_>) -> Response {
    answered(asked).await.unwrap_or_else(|refusal| refusal)
}

/// # Errors
/// The answer to a request that is not taken, or comes to nothing.
async fn answered(mut asked: Asked<'_>) -> Result<Response, Response> {
    let settings = asked.gateway.services.settings.now();
    let settings = &settings.gateway.http.responses;
    let mut value = body(&mut asked, settings.max_body_bytes).await?;
    let ((attending, cx), manner) = (asked.attend().await, asked.manner);
    let putting = Box::pin(kept::put_in(&cx, &mut value, settings.max_body_bytes));
    let cut = || Err(Attending::cut(manner));
    let unknown = attending.unless_cut(putting).await.unwrap_or_else(cut)?;
    let request = Request::read(&At::root(&value)).map_err(|wrong| wrong.answer())?;
    let session = match request.previous {
        Some(id) => Some(session_of(&cx, id).await?),
        None => None,
    };
    let wanted = Wanted { model: request.model, user: request.user, session, prefix: PREFIX };
    let target = target(&asked.parts.headers, &cx, wanted).await?;
    // A session that goes on is told of no earlier answer.
    if let Some(wrong) = unknown
        && !goes_on(&cx, &target.key).await
    {
        return Err(wrong.answer());
    }
    let message = (&request.entries[..], request.given);
    let received = received((&attending, &cx), &target.key, message, settings);
    let (text, attachments) = received.await?;
    let id = format!("{ID}{}", cx.services.ids.uuid());
    let created_at = cx.now_ms() / 1000;
    let made = Made::new(id.clone(), request.model.to_owned(), created_at);
    let question = Question {
        key: target.key,
        run_id: id,
        text,
        attachments,
        model: target.model,
        client_tools: request.tools.specs,
        instructions: request.instructions,
        wishes: request.wishes,
        channel: target.channel,
    };
    let waiting = Waiting::for_answer((attending, cx), question, request.files, manner).await?;
    if request.is_stream {
        return Ok(sse::answer(waiting, made));
    }
    Ok(match waiting.end().await {
        Ok(answered) => json_answer(StatusCode::OK, &made.whole(&answered)),
        // Who is let in no more gets no response, not even of a failure.
        Err(failed) if failed.status == StatusCode::UNAUTHORIZED => failed.answer(),
        Err(failed) => failed.told_by(json_answer(failed.status, &made.failed(&failed))),
    })
}

/// The session of a response. Its id is a random number that only who got it
/// knows; and who may write to one session may write to all.
async fn session_of(cx: &Ctx, id: &str) -> Result<SessionKey, Response> {
    let unknown = || {
        let message = format!("Previous response with id '{id}' not found. {NOT_KEPT}");
        let error = json!({"message": message, "type": openai_word(StatusCode::BAD_REQUEST),
            "param": "previous_response_id", "code": "previous_response_not_found"});
        json_answer(StatusCode::BAD_REQUEST, &json!({"error": error}))
    };
    if !id.starts_with(ID) {
        return Err(unknown());
    }
    let run = cx.services.runs.parts().store.run(id).await;
    let run = run.map_err(|error| unreadable(&error))?;
    run.map(|run| SessionKey::from_canonical(run.session_key)).ok_or_else(unknown)
}

/// The answer when what is known of responses cannot be read.
fn unreadable(error: &dyn Display) -> Response {
    tracing::error!(%error, "a response cannot be looked up");
    Manner::OpenAi.error(StatusCode::SERVICE_UNAVAILABLE, "internal error")
}
