//! `POST /v1/chat/completions`.

mod request;
mod told;

use axum::http::StatusCode;
use axum::response::Response;

use super::read::{At, body};
use super::said::received;
use super::sse;
use super::target::{Wanted, target};
use super::waiting::Waiting;
use crate::handlers::ask::Question;
use crate::http::{Asked, json_answer};
use request::Request;
use told::Completion;

/// What conversations without a name begin with.
const PREFIX: &str = "openai";

pub async fn answer(asked: Asked<'_>) -> Response {
    answered(asked).await.unwrap_or_else(|refusal| refusal)
}

/// # Errors
/// The answer to a request that is not taken, or comes to nothing.
async fn answered(mut asked: Asked<'_>) -> Result<Response, Response> {
    let settings = asked.gateway.services.settings.now();
    let settings = &settings.gateway.http.chat_completions;
    let value = body(&mut asked, settings.max_body_bytes).await?;
    let request = Request::read(&At::root(&value)).map_err(|wrong| wrong.answer())?;
    let ((attending, cx), manner) = (asked.attend().await, asked.manner);
    let wanted =
        Wanted { model: &request.model, user: request.user, session: None, prefix: PREFIX };
    let target = target(&asked.parts.headers, &cx, wanted).await?;
    let message = (&request.entries[..], request.given);
    let received = received((&attending, &cx), &target.key, message, settings);
    let (text, attachments) = received.await?;
    let run_id = format!("chatcmpl_{}", cx.services.ids.uuid());
    let completion = Completion {
        id: run_id.clone(),
        model: request.model.into_owned(),
        clock: std::sync::Arc::clone(&cx.services.clock),
        tells_usage: request.tells_usage,
    };
    let question = Question {
        key: target.key,
        run_id,
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
        return Ok(sse::answer(waiting, completion));
    }
    let answered = waiting.end().await.map_err(super::outcome::Failed::answer)?;
    Ok(json_answer(StatusCode::OK, &completion.whole(&answered)))
}
