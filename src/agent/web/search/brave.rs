//! Brave Search API.
//! Source: api-dashboard.search.brave.com, Web Search (GET, `X-Subscription-Token`).

use reqwest::header::ACCEPT;
use reqwest::{Client, Url};
use serde_json::Value;

use super::{Asked, Freshness, Hit, Query, below, read_hits};
use crate::support::Secret;

/// Where it is.
pub const BASE_URL: &str = "https://api.search.brave.com";

pub fn ask(client: &Client, base: &Url, key: Option<&Secret>, query: &Query) -> Asked {
    let mut url = below(base, "res/v1/web/search");
    let mut unsupported = Vec::new();
    {
        let mut pairs = url.query_pairs_mut();
        pairs.append_pair("q", &query.text);
        pairs.append_pair("count", &query.count.to_string());
        // Without it, words in texts are marked by HTML.
        pairs.append_pair("text_decorations", "false");
        let named = [
            ("country", query.country.as_ref().map(|it| it.to_uppercase())),
            ("search_lang", query.language.clone()),
            ("ui_lang", query.ui_language.clone()),
            ("freshness", freshness(query, &mut unsupported)),
        ];
        for (name, value) in named {
            if let Some(value) = value {
                pairs.append_pair(name, &value);
            }
        }
    }
    if !query.domains.is_empty() {
        unsupported.push("domain_filter");
    }
    let request = client.get(url).header(ACCEPT, "application/json");
    let key = key.map(Secret::expose).unwrap_or_default();
    Asked { request: request.header("X-Subscription-Token", key), unsupported }
}

fn freshness(query: &Query, unsupported: &mut Vec<&'static str>) -> Option<String> {
    match (query.after, query.before) {
        (Some(after), Some(before)) => return Some(format!("{after}to{before}")),
        // It knows ranges with both ends only.
        (Some(_), None) => unsupported.push("date_after"),
        (None, Some(_)) => unsupported.push("date_before"),
        (None, None) => {}
    }
    query.freshness.map(|freshness| {
        let letters = match freshness {
            Freshness::Day => "pd",
            Freshness::Week => "pw",
            Freshness::Month => "pm",
            Freshness::Year => "py",
        };
        letters.to_owned()
    })
}

pub fn hits(answer: &Value) -> Vec<Hit> {
    read_hits(answer.pointer("/web/results"), "description", &["page_age", "age"])
}
