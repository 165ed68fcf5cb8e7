//! Vectors of texts, in the dialects of OpenAI, Gemini and Ollama. A text that is
//! a number is told by the first number of its vector; `@embed <what>` says what
//! is wrong with an answer.

use serde_json::{Value, json};

/// The vectors of these texts, and how each is to be numbered.
fn vectors(texts: &[&str], dimensions: &Value) -> Vec<Value> {
    let one = |text: &&str| {
        let first = text.parse::<f64>().ok().filter(|number| number.is_finite()).unwrap_or(0.1);
        let mut numbers = vec![json!(first), json!(0.2), json!(0.3), json!(0.4)];
        if let Some(wanted) = dimensions.as_u64() {
            numbers.resize(usize::try_from(wanted).unwrap(), json!(0.5));
        }
        match *text {
            "@embed null" => numbers[1] = Value::Null,
            "@embed empty" => numbers.clear(),
            "@embed uneven" => numbers.push(json!(1)),
            "@embed huge" => numbers[1] = json!(1e300),
            "@embed stubborn" => numbers = vec![json!(1); 7],
            _ => {}
        }
        json!(numbers)
    };
    let mut all: Vec<_> = texts.iter().map(one).collect();
    if texts.contains(&"@embed short") {
        all.pop();
    }
    all
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        value => value.as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
    }
}

/// The last text comes first: who asks has to look at `index`.
pub fn openai(body: &Value) -> Value {
    let texts = texts(&body["input"]);
    let dimensions =
        if body["dimensions"].is_null() { &body["output_dimension"] } else { &body["dimensions"] };
    let rows = vectors(&texts, dimensions).into_iter().enumerate();
    let mut rows: Vec<_> = rows
        .map(
            |(index, vector)| json!({ "object": "embedding", "index": index, "embedding": vector }),
        )
        .collect();
    rows.reverse();
    let tokens = texts.len();
    json!({
        "object": "list",
        "model": body["model"],
        "data": rows,
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
    })
}

pub fn gemini(body: &Value) -> Value {
    let requests = body["requests"].as_array().unwrap();
    let text =
        |request: &Value| request["content"]["parts"][0]["text"].as_str().unwrap().to_owned();
    let texts: Vec<_> = requests.iter().map(text).collect();
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    let all = vectors(&texts, &requests[0]["outputDimensionality"]);
    let all: Vec<_> = all.into_iter().map(|vector| json!({ "values": vector })).collect();
    json!({ "embeddings": all })
}

pub fn ollama(body: &Value) -> Value {
    let texts = texts(&body["input"]);
    let all = vectors(&texts, &body["dimensions"]);
    json!({ "model": body["model"], "embeddings": all, "prompt_eval_count": texts.len() })
}
