//! `POST /v1/embeddings`.

use std::borrow::Cow;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::value::{Error, F64Deserializer};
use serde::{Deserialize, Serialize, de::IntoDeserializer};

use super::outcome::last_answer;
use super::read::{At, Wrong, body};
use super::target::{INVALID_MODEL, agent, agent_of, header as text_of};
use crate::agent::embeddings::{EmbeddingError, EmbeddingWish, embed};
use crate::config::memory_search::DIMENSIONS_MAX;
use crate::http::{Asked, Attending, Manner};
use crate::providers::{Embeddings, EmbeddingsRefused};

/// As in the original.
const BODY_MAX: u64 = 5 * 1024 * 1024;
/// Most texts of a request, as in the original.
const TEXTS_MAX: usize = 128;
/// Longest text, in UTF-16 units, as in the original.
const TEXT_MAX: usize = 8192;
/// Longest sum of them, as in the original.
const TOTAL_MAX: usize = 65_536;

pub async fn answer(asked: Asked<'_>) -> Response {
    answered(asked).await.unwrap_or_else(|refusal| refusal)
}

/// # Errors
/// The answer to a request that is not taken, or comes to nothing.
async fn answered(mut asked: Asked<'_>) -> Result<Response, Response> {
    let value = body(&mut asked, BODY_MAX).await?;
    let request = Request::read(&At::root(&value)).map_err(|wrong| wrong.answer())?;
    let ((attending, cx), headers) = (asked.attend().await, &asked.parts.headers);
    let agent = agent(headers, &cx, request.agent).map_err(|wrong| wrong.answer())?;
    let (services, settings) = (&cx.services, cx.services.settings.now());
    let wish = EmbeddingWish {
        agent: &agent,
        texts: &request.texts,
        model: text_of(headers, "x-openclaw-model"),
        dimensions: request.dimensions,
    };
    let making = embed(&services.models, &settings, &services.env, &wish);
    let made = attending.unless_cut(making).await;
    let made = made.ok_or_else(|| Attending::cut(asked.manner))?;
    let made = made.map_err(|error| refused(&error))?;
    let told = List::of(&request, made);
    let text = serde_json::to_vec(&told).map_err(|error| {
        tracing::error!(%error, "vectors cannot be told");
        internal()
    })?;
    Ok(([(header::CONTENT_TYPE, "application/json; charset=utf-8")], text).into_response())
}

fn internal() -> Response {
    Manner::OpenAi.error(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
}

/// What a provider said is in the log only: it may be about the gateway's keys.
fn refused(error: &EmbeddingError) -> Response {
    match error {
        EmbeddingError::Refused(EmbeddingsRefused::NotConfigured(why)) => {
            tracing::warn!(why, "vectors were asked for, and nobody makes any");
            let text = format!("no embedding provider is configured: {why}");
            // It will not be there in a moment.
            last_answer(Manner::OpenAi.error(StatusCode::INTERNAL_SERVER_ERROR, &text))
        }
        EmbeddingError::Refused(_) | EmbeddingError::Dimensions { .. } => {
            Wrong(error.to_string()).answer()
        }
        EmbeddingError::Failed { .. } => {
            tracing::warn!(%error, "vectors cannot be had");
            internal()
        }
    }
}

/// A request.
#[derive(Debug)]
struct Request<'v> {
    model: &'v str,
    /// The agent that the model stands for.
    agent: &'v str,
    texts: Vec<String>,
    is_base64: bool,
    dimensions: Option<u32>,
}

impl<'v> Request<'v> {
    /// Reads a body. What is wrong is told in the order and the words of the
    /// original, where it has any.
    ///
    /// # Errors
    /// When it is not one.
    fn read(body: &At<'v>) -> Result<Self, Wrong> {
        let wrong = |text: &str| Wrong(text.to_owned());
        let model = body.member("model").value().as_str().map(str::trim).unwrap_or_default();
        if model.is_empty() {
            return Err(wrong("Missing `model`."));
        }
        let agent = agent_of(model).ok_or_else(|| wrong(INVALID_MODEL))?;
        let texts =
            texts(body).ok_or_else(|| wrong("`input` must be a string or an array of strings."))?;
        check(&texts)?;
        let format = body.member("encoding_format");
        let is_base64 = match format.text()? {
            None | Some("float") => false,
            Some("base64") => true,
            Some(_) => return Err(format.wrong("must be float or base64")),
        };
        let dimensions = body.member("dimensions").integer_within(1, DIMENSIONS_MAX.into())?;
        let dimensions = dimensions.and_then(|it| u32::try_from(it).ok());
        Ok(Self { model, agent, texts, is_base64, dimensions })
    }
}

fn texts(body: &At<'_>) -> Option<Vec<String>> {
    let input = body.member("input").value();
    if let Some(text) = input.as_str() {
        return Some(vec![text.to_owned()]);
    }
    input.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

fn check(texts: &[String]) -> Result<(), Wrong> {
    if texts.len() > TEXTS_MAX {
        return Err(Wrong(format!("Too many inputs (max {TEXTS_MAX}).")));
    }
    let mut total = 0;
    for text in texts {
        let length = text.encode_utf16().count();
        if length > TEXT_MAX {
            return Err(Wrong(format!("Input too long (max {TEXT_MAX} chars).")));
        }
        total += length;
        if total > TOTAL_MAX {
            return Err(Wrong(format!("Total input too large (max {TOTAL_MAX} chars).")));
        }
    }
    Ok(())
}

/// An answer. Its members are told in the order of the original, and numbers with
/// the digits that the provider sent.
#[derive(Serialize)]
struct List<'r> {
    object: &'static str,
    data: Vec<Row>,
    model: Cow<'r, str>,
    usage: Usage,
}

#[derive(Serialize)]
struct Row {
    object: &'static str,
    index: usize,
    embedding: Vector,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Vector {
    Numbers(Vec<f64>),
    Base64(String),
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: u64,
    total_tokens: u64,
}

impl<'r> List<'r> {
    fn of(request: &Request<'r>, made: Embeddings) -> Self {
        let row = |(index, numbers): (usize, Vec<f64>)| {
            let embedding = if request.is_base64 {
                Vector::Base64(STANDARD.encode(bytes(&numbers)))
            } else {
                Vector::Numbers(numbers)
            };
            Row { object: "embedding", index, embedding }
        };
        Self {
            object: "list",
            data: made.vectors.into_iter().enumerate().map(row).collect(),
            model: Cow::Borrowed(request.model),
            usage: Usage { prompt_tokens: made.tokens, total_tokens: made.tokens },
        }
    }
}

/// The numbers as `f32`, each in its bytes from the lowest to the highest.
fn bytes(numbers: &[f64]) -> Vec<u8> {
    let single = |number: &f64| {
        let whole: F64Deserializer<Error> = (*number).into_deserializer();
        // Rounds; it takes any number.
        f32::deserialize(whole).unwrap_or_default()
    };
    numbers.iter().map(single).flat_map(f32::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    use crate::support::json;

    fn wrong(body: &Value) -> String {
        Request::read(&At::root(body)).unwrap_err().0
    }

    #[test]
    fn what_is_wrong_is_told_in_the_order_of_the_original() {
        let many = vec!["x"; 129];
        let long = "x".repeat(8193);
        let total = vec!["x".repeat(8192); 9];
        for (body, text) in [
            (json!({"input": 5}), "Missing `model`."),
            (json!({"model": 5, "input": "x"}), "Missing `model`."),
            (json!({"model": "gpt-4", "input": 5}), INVALID_MODEL),
            (json!({"model": "openclaw"}), "`input` must be a string or an array of strings."),
            (
                json!({"model": "openclaw", "input": ["x", 5]}),
                "`input` must be a string or an array of strings.",
            ),
            (json!({"model": "openclaw", "input": many}), "Too many inputs (max 128)."),
            (json!({"model": "openclaw", "input": long}), "Input too long (max 8192 chars)."),
            (
                json!({"model": "openclaw", "input": total}),
                "Total input too large (max 65536 chars).",
            ),
            (
                json!({"model": "openclaw", "input": "x", "encoding_format": "hex"}),
                "encoding_format: must be float or base64",
            ),
            (
                json!({"model": "openclaw", "input": "x", "dimensions": 0}),
                "dimensions: must be an integer from 1 to 65536",
            ),
        ] {
            assert_eq!(wrong(&body), text);
        }
        // Two units each, as the original counts.
        let pairs = json!({"model": "openclaw", "input": "\u{1f600}".repeat(4096)});
        assert_eq!(Request::read(&At::root(&pairs)).unwrap().texts.len(), 1);
    }

    #[test]
    fn numbers_are_singles_from_their_lowest_byte_on() {
        assert_eq!(STANDARD.encode(bytes(&[0.1, 0.2, 0.3, 0.4])), "zczMPc3MTD6amZk+zczMPg==");
    }

    #[test]
    fn an_answer_is_written_as_the_original_writes_it() {
        let body = json!({"model": "openclaw/main", "input": "x"});
        let request = Request::read(&At::root(&body)).unwrap();
        let made = Embeddings { vectors: vec![vec![0.1, 2.0]], tokens: 3 };
        let told = serde_json::to_string(&List::of(&request, made)).unwrap();
        let expected = r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1,2.0]}],"model":"openclaw/main","usage":{"prompt_tokens":3,"total_tokens":3}}"#;
        assert_eq!(told, expected);
    }
}
