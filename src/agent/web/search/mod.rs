//! Searching the web.
//!
//! Owns: what is asked, what comes back, and how each service is asked.
//! Promises: a service gets its own key and nobody else's; no key is in an
//! error; what a service cannot do is said. Must not: read the configuration.

mod brave;
mod searxng;
mod tavily;

use std::time::Duration;

use jiff::civil::Date;
use reqwest::{RequestBuilder, Url};
use serde_json::Value;

use super::{Tls, read_body};
use crate::config::web::SearchProvider;
use crate::providers::root_cause;
use crate::support::Secret;

/// Results with long excerpts are far below.
const MAX_ANSWER: usize = 2 * 1024 * 1024;
/// Longest address of a result; longer ones are left out.
const MAX_URL: usize = 2048;
/// What is told of an error of the service, in characters.
const MAX_COMPLAINT: usize = 400;

/// What is looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// In words.
    pub text: String,
    /// Most results.
    pub count: usize,
    /// Two letters.
    pub country: Option<String>,
    /// Language of the results, two letters.
    pub language: Option<String>,
    /// Language of what the service writes itself.
    pub ui_language: Option<String>,
    /// How old results may be.
    pub freshness: Option<Freshness>,
    /// Not older than this day.
    pub after: Option<Date>,
    /// Not younger than this day.
    pub before: Option<Date>,
    /// Only these hosts; with `-`, not these.
    pub domains: Vec<String>,
}

/// How old results may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// A day.
    Day,
    /// A week.
    Week,
    /// A month.
    Month,
    /// A year.
    Year,
}

impl Freshness {
    /// In words, or in the letters of Brave.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "day" | "pd" => Self::Day,
            "week" | "pw" => Self::Week,
            "month" | "pm" => Self::Month,
            "year" | "py" => Self::Year,
            _ => return None,
        })
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }
}

/// A result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Title of the page.
    pub title: String,
    /// Its address.
    pub url: String,
    /// Some of it.
    pub description: String,
    /// When it was published, in the words of the service.
    pub published: Option<String>,
}

/// A service that searches.
#[derive(Debug, Clone)]
pub struct Service {
    /// Which.
    pub provider: SearchProvider,
    /// Where, if not in the usual place.
    pub base_url: Option<String>,
    /// Its key, if it needs one.
    pub key: Option<Secret>,
}

/// How to ask a service.
struct Asked {
    request: RequestBuilder,
    /// What of the query it has no words for.
    unsupported: Vec<&'static str>,
}

/// Results, and what of the query could not be asked.
pub type Found = (Vec<Hit>, Vec<&'static str>);

impl Service {
    /// Asks.
    ///
    /// # Errors
    /// When there is no answer that can be read, in words for the model. What
    /// the service said is apart: it is from outside.
    pub async fn search(
        &self,
        query: &Query,
        tls: &Tls,
        limit: Duration,
    ) -> Result<Found, (String, Option<String>)> {
        let search = self.ask(query, tls);
        let name = self.provider.as_str();
        tokio::time::timeout(limit, search).await.unwrap_or_else(|_| {
            Err((format!("{name} did not answer within {} seconds", limit.as_secs()), None))
        })
    }

    async fn ask(&self, query: &Query, tls: &Tls) -> Result<Found, (String, Option<String>)> {
        let name = self.provider.as_str();
        let usual = match self.provider {
            SearchProvider::Brave => Some(brave::BASE_URL),
            SearchProvider::Tavily => Some(tavily::BASE_URL),
            SearchProvider::Searxng => None,
        };
        let base = self.base_url.as_deref().or(usual).unwrap_or_default();
        let is_http = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        let base = Url::parse(base).ok().filter(is_http);
        let base = base.ok_or_else(|| (format!("the baseUrl of {name} is no address"), None))?;
        let failed = |why: String| (format!("{name} cannot be reached: {why}"), None);
        let client = tls.trusted(&base).await.map_err(failed)?;
        let client = client.build().map_err(|error| failed(root_cause(&error)))?;
        let key = self.key.as_ref();
        let Asked { request, unsupported } = match self.provider {
            SearchProvider::Brave => brave::ask(&client, &base, key, query),
            SearchProvider::Tavily => tavily::ask(&client, &base, key, query),
            SearchProvider::Searxng => searxng::ask(&client, &base, query),
        };
        let response = request.send().await.map_err(|error| failed(root_cause(&error)))?;
        let status = response.status();
        let body = read_body(response, MAX_ANSWER).await;
        let body = body.map_err(|error| (format!("{name}: {error}"), None))?;
        if !status.is_success() {
            let said = self.without_key(&String::from_utf8_lossy(&body.bytes));
            return Err((format!("{name} answered with status {}", status.as_u16()), Some(said)));
        }
        let answer: Value = serde_json::from_slice(&body.bytes)
            .map_err(|_| (format!("{name} did not answer with JSON"), None))?;
        let mut hits = match self.provider {
            SearchProvider::Brave => brave::hits(&answer),
            SearchProvider::Tavily => tavily::hits(&answer),
            SearchProvider::Searxng => searxng::hits(&answer),
        };
        hits.retain_mut(|hit| {
            // Spelled as an address, it holds no sentence: the model gets it unmarked.
            let url = Url::parse(&hit.url).ok().filter(is_http);
            url.is_some_and(|url| {
                hit.url = url.into();
                hit.url.len() <= MAX_URL
            })
        });
        hits.truncate(query.count);
        Ok((hits, unsupported))
    }

    fn without_key(&self, text: &str) -> String {
        // Cut first, the end of the text might be the beginning of the key.
        let text = match &self.key {
            Some(key) if !key.is_empty() => text.replace(key.expose(), "…"),
            _ => text.to_owned(),
        };
        text.chars().take(MAX_COMPLAINT).collect()
    }
}

/// An address below the base, whether that ends in a slash or not.
pub fn below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    url
}

/// The members of a list of results, as hits.
fn read_hits(list: Option<&Value>, text: &str, published: &[&str]) -> Vec<Hit> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    let word = |item: &Value, name: &str| item.get(name)?.as_str().map(str::to_owned);
    items
        .filter_map(|item| {
            Some(Hit {
                url: word(item, "url")?,
                title: word(item, "title").unwrap_or_default(),
                description: word(item, text).unwrap_or_default(),
                published: published.iter().find_map(|name| word(item, name)),
            })
        })
        .collect()
}
