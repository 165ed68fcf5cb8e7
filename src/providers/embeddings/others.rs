//! Gemini's `batchEmbedContents` and Ollama's `/api/embed`. Their vectors are
//! made to have length 1, as the original does.

use serde::Deserialize;
use serde_json::Value;

use crate::support::json;

use super::{Batch, Embeddings, normalized};

/// The body that asks Gemini, whose model is at this path.
pub fn gemini_body(model: &str, batch: Batch<'_>) -> Value {
    let request = |text: &String| {
        let mut request = json!({"model": model, "content": {"parts": [{"text": text}]},
            "taskType": "RETRIEVAL_DOCUMENT"});
        if let Some(dimensions) = batch.dimensions {
            request["outputDimensionality"] = json!(dimensions);
        }
        request
    };
    json!({"requests": batch.texts.iter().map(request).collect::<Vec<_>>()})
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfGemini {
    embeddings: Vec<Values>,
    #[serde(default)]
    usage_metadata: Value,
}

#[derive(Deserialize)]
struct Values {
    values: Vec<f64>,
}

/// The vectors of an answer of Gemini; none when it is something else.
pub fn gemini_read(bytes: &[u8]) -> Option<Embeddings> {
    let OfGemini { embeddings, usage_metadata } = serde_json::from_slice(bytes).ok()?;
    let vectors = embeddings.into_iter().map(|each| each.values).collect();
    let tokens = usage_metadata.get("promptTokenCount").and_then(Value::as_u64).unwrap_or(0);
    Some(Embeddings { vectors: normalized(vectors), tokens })
}

/// The body that asks Ollama.
pub fn ollama_body(model: &str, batch: Batch<'_>) -> Value {
    let mut body = json!({"model": model, "input": batch.texts});
    if let Some(dimensions) = batch.dimensions {
        body["dimensions"] = json!(dimensions);
    }
    body
}

#[derive(Deserialize)]
struct OfOllama {
    embeddings: Vec<Vec<f64>>,
    #[serde(default)]
    prompt_eval_count: u64,
}

/// The vectors of an answer of Ollama; none when it is something else.
pub fn ollama_read(bytes: &[u8]) -> Option<Embeddings> {
    let OfOllama { embeddings, prompt_eval_count } = serde_json::from_slice(bytes).ok()?;
    Some(Embeddings { vectors: normalized(embeddings), tokens: prompt_eval_count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_both_have_length_one() {
        let of_gemini = gemini_read(br#"{"embeddings":[{"values":[3,4]},{"values":[0,0]}]}"#);
        let expected = vec![vec![0.6, 0.8], vec![0.0, 0.0]];
        assert_eq!(of_gemini, Some(Embeddings { vectors: expected, tokens: 0 }));
        let of_ollama = ollama_read(br#"{"embeddings":[[0,2]],"prompt_eval_count":5}"#);
        assert_eq!(of_ollama, Some(Embeddings { vectors: vec![vec![0.0, 1.0]], tokens: 5 }));
        assert_eq!(ollama_read(br#"{"error":"no such model"}"#), None);
        assert_eq!(gemini_read(br#"{"embeddings":[{}]}"#), None);
    }

    #[test]
    fn each_text_is_a_request_of_gemini() {
        let texts = ["a".to_owned(), "b".to_owned()];
        let body = gemini_body("models/m", Batch { texts: &texts, dimensions: Some(2) });
        let request = |text: &str| {
            json!({"model": "models/m", "content": {"parts": [{"text": text}]},
                "taskType": "RETRIEVAL_DOCUMENT", "outputDimensionality": 2})
        };
        assert_eq!(body, json!({"requests": [request("a"), request("b")]}));
    }
}
