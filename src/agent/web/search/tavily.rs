//! Tavily.
//! Source: docs.tavily.com, Search (POST, `Authorization: Bearer`).

use reqwest::{Client, Url};
use serde_json::{Map, Value};

use super::{Asked, Hit, Query, below, read_hits};
use crate::support::{Secret, json};

/// Where it is.
pub const BASE_URL: &str = "https://api.tavily.com";

pub fn ask(client: &Client, base: &Url, key: Option<&Secret>, query: &Query) -> Asked {
    let mut body = Map::new();
    body.insert("query".into(), json!(query.text));
    body.insert("max_results".into(), json!(query.count));
    body.insert("search_depth".into(), json!("basic"));
    if let Some(freshness) = query.freshness {
        body.insert("time_range".into(), json!(freshness.as_str()));
    }
    for (name, day) in [("start_date", query.after), ("end_date", query.before)] {
        if let Some(day) = day {
            body.insert(name.into(), json!(day.to_string()));
        }
    }
    let (without, only): (Vec<_>, Vec<_>) =
        query.domains.iter().map(String::as_str).partition(|domain| domain.starts_with('-'));
    let without: Vec<_> = without.iter().map(|domain| domain.trim_start_matches('-')).collect();
    for (name, domains) in [("include_domains", only), ("exclude_domains", without)] {
        if !domains.is_empty() {
            body.insert(name.into(), json!(domains));
        }
    }
    // It wants countries by their names, and has no languages.
    let unsupported = [
        ("country", query.country.is_some()),
        ("language", query.language.is_some()),
        ("ui_lang", query.ui_language.is_some()),
    ];
    let unsupported =
        unsupported.into_iter().filter_map(|(name, is_asked)| is_asked.then_some(name));
    let key = key.map(Secret::expose).unwrap_or_default();
    let request = client
        .post(below(base, "search"))
        .header(reqwest::header::CONTENT_TYPE, "application/json")
        .bearer_auth(key)
        .body(Value::Object(body).to_string());
    Asked { request, unsupported: unsupported.collect() }
}

pub fn hits(answer: &Value) -> Vec<Hit> {
    read_hits(answer.get("results"), "content", &["published_date"])
}
