//! `POST {base}/embeddings`, which OpenAI began and most others took over.

use serde::Deserialize;
use serde_json::Value;

use crate::support::{json, sort};

use super::choice::EmbeddingApi;
use super::{Batch, Embeddings};

/// The body that asks for a batch.
pub fn body(api: EmbeddingApi, model: &str, batch: Batch<'_>) -> Value {
    let mut body = json!({"model": model, "input": batch.texts});
    if let Some(dimensions) = batch.dimensions {
        let name = match api {
            EmbeddingApi::Voyage | EmbeddingApi::Mistral => "output_dimension",
            _ => "dimensions",
        };
        body[name] = json!(dimensions);
    }
    if api == EmbeddingApi::Voyage {
        // A text is to be found by a question, as in the original.
        body["input_type"] = json!("document");
    }
    body
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Row>,
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
struct Row {
    index: Option<usize>,
    embedding: Vec<f64>,
}

/// The vectors of an answer; none when it is something else.
pub fn read(bytes: &[u8]) -> Option<Embeddings> {
    let Answer { mut data, usage } = serde_json::from_slice(bytes).ok()?;
    // Who numbers them may tell them in any order; of numbers that are not each
    // there once, none can be believed.
    if data.iter().any(|row| row.index.is_some()) {
        sort::by_key(&mut data, |row| row.index);
        let is_its = |(place, row): (usize, &Row)| row.index == Some(place);
        if !data.iter().enumerate().all(is_its) {
            return None;
        }
    }
    let count = |name: &str| usage.get(name).and_then(Value::as_u64);
    let tokens = count("prompt_tokens").or_else(|| count("total_tokens")).unwrap_or(0);
    Some(Embeddings { vectors: data.into_iter().map(|row| row.embedding).collect(), tokens })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Option<Embeddings> {
        read(text.as_bytes())
    }

    #[test]
    fn the_order_is_that_of_the_numbers() {
        let told = r#"{"data":[{"index":1,"embedding":[2]},{"index":0,"embedding":[1.5]}],
            "usage":{"total_tokens":7}}"#;
        let expected = Embeddings { vectors: vec![vec![1.5], vec![2.0]], tokens: 7 };
        assert_eq!(read_text(told), Some(expected));
        let unnumbered = r#"{"data":[{"embedding":[2]},{"embedding":[1]}]}"#;
        let expected = Embeddings { vectors: vec![vec![2.0], vec![1.0]], tokens: 0 };
        assert_eq!(read_text(unnumbered), Some(expected));
    }

    #[test]
    fn what_is_no_vector_is_no_answer() {
        for wrong in [
            "{}",
            "[]",
            r#"{"data":[{"embedding":[null]}]}"#,
            r#"{"data":[{"embedding":[1e999]}]}"#,
            r#"{"data":[{"embedding":[NaN]}]}"#,
            r#"{"data":[{"embedding":"AACAPw=="}]}"#,
            r#"{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[2]}]}"#,
            r#"{"data":[{"index":1,"embedding":[1]},{"index":2,"embedding":[2]}]}"#,
            r#"{"data":[{"index":0,"embedding":[1]},{"embedding":[2]}]}"#,
        ] {
            assert_eq!(read_text(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn each_provider_is_told_the_length_in_its_own_word() {
        let texts = ["a".to_owned()];
        let of = |api| body(api, "m", Batch { texts: &texts, dimensions: Some(8) });
        assert_eq!(
            of(EmbeddingApi::OpenAi),
            json!({"model": "m", "input": ["a"], "dimensions": 8})
        );
        assert_eq!(of(EmbeddingApi::Mistral)["output_dimension"], 8);
        assert_eq!(of(EmbeddingApi::Voyage)["input_type"], "document");
        let bare = body(EmbeddingApi::OpenAi, "m", Batch { texts: &texts, dimensions: None });
        assert_eq!(bare, json!({"model": "m", "input": ["a"]}));
    }
}
