//! A SearXNG of one's own.
//! Source: docs.searxng.org, Search API (`GET /search`, `format=json`, which
//! its settings must allow).

use reqwest::header::ACCEPT;
use reqwest::{Client, Url};
use serde_json::Value;

use super::{Asked, Freshness, Hit, Query, below, read_hits};

pub fn ask(client: &Client, base: &Url, query: &Query) -> Asked {
    let mut url = below(base, "search");
    {
        let mut pairs = url.query_pairs_mut();
        pairs.append_pair("q", &query.text);
        pairs.append_pair("format", "json");
        if let Some(language) = &query.language {
            pairs.append_pair("language", language);
        }
        // Its engines know no weeks: a month holds one.
        let range = query.freshness.map(|freshness| match freshness {
            Freshness::Week => Freshness::Month.as_str(),
            other => other.as_str(),
        });
        if let Some(range) = range {
            pairs.append_pair("time_range", range);
        }
    }
    let unsupported = [
        ("country", query.country.is_some()),
        ("ui_lang", query.ui_language.is_some()),
        ("freshness", query.freshness == Some(Freshness::Week)),
        ("date_after", query.after.is_some()),
        ("date_before", query.before.is_some()),
        ("domain_filter", !query.domains.is_empty()),
    ];
    let unsupported =
        unsupported.into_iter().filter_map(|(name, is_asked)| is_asked.then_some(name));
    let request = client.get(url).header(ACCEPT, "application/json");
    Asked { request, unsupported: unsupported.collect() }
}

pub fn hits(answer: &Value) -> Vec<Hit> {
    read_hits(answer.get("results"), "content", &["publishedDate"])
}
