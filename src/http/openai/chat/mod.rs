//! `POST /v1/chat/completions`.

mod request;
mod told;

use axum::http::StatusCode;
use axum::response::Response;

use super::fetch::{Fetched, attachments};
use super::read::{At, body};
use super::said::said;
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
    let settings = asked.gateway.services.settings.now().gateway.http.chat_completions;
    let value = body(&mut asked, settings.max_body_bytes).await?;
    let request = Request::read(&At::root(&value)).map_err(|wrong| wrong.answer())?;
    let (attending, cx) = asked.attend().await;
    let wanted =
        Wanted { model: &request.model, user: request.user, session: None, prefix: PREFIX };
    let target = target(&asked.parts.headers, &cx, wanted).map_err(|wrong| wrong.answer())?;
    let fetched = Fetched { images: settings.fetches_images, files: false };
    let (text, given) = said(&cx, &target.key, &request.entries, request.given).await;
    let attachments = attachments(&cx, given, fetched).await;
    let attachments = attachments.map_err(|wrong| wrong.answer())?;
    let manner = asked.manner;
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
    let waiting = Waiting::for_answer((attending, cx), question).await;
    let waiting = waiting.map_err(|error| manner.of_error(&error))?;
    if request.is_stream {
        return Ok(sse::answer(waiting, completion));
    }
    let answered = waiting.end().await.map_err(super::outcome::Failed::answer)?;
    Ok(json_answer(StatusCode::OK, &completion.whole(&answered)))
}
