//! `tools.web`: reading pages and searching.
//!
//! Owns: the shape of `tools.web.fetch` and `tools.web.search`, as OpenClaw
//! writes them, and their bounds. Promises: a key never shows up in `Debug`.
//! Must not: look a secret up; that is done when it is needed.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::ConfigError;
use super::foreign::SEARCHES;
use super::schema::Node;
use super::secrets::{SecretInput, SecretRef};

/// Longest text of a page that the model gets, unless the file says otherwise; as in the
/// original, which its documentation does not follow.
const FETCH_CHARS: usize = 20_000;
/// Most bytes of a page that are read: 2 MB hold any article.
const FETCH_BYTES: usize = 2_000_000;
/// Bounds of that: less is no page, and more is held in memory several times.
const FETCH_BYTES_BOUNDS: (usize, usize) = (32_000, 10_000_000);
/// Longest way from address to address; a longer one is a loop, as in the original.
const REDIRECTS: usize = 3;
/// Bound of that; browsers stop there.
const REDIRECTS_MAX: usize = 20;
/// How long a page or a search may take.
const TIMEOUT: u64 = 30;
/// Bound of that; a run waits meanwhile.
const TIMEOUT_MAX: u64 = 600;
/// How long an answer is kept, in minutes.
const CACHE_MINUTES: f64 = 15.0;
/// Bound of that: a day.
const CACHE_MINUTES_MAX: f64 = 1440.0;
/// How many results a search gives.
const RESULTS: usize = 5;
/// Most of them; what one page of the services has.
pub const RESULTS_MAX: usize = 10;

/// `tools.web`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WebConfig {
    /// Reading pages.
    pub fetch: FetchConfig,
    /// Searching.
    pub search: SearchConfig,
}

/// `tools.web.fetch`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FetchConfig {
    /// Whether there is a `web_fetch` tool.
    pub enabled: bool,
    max_chars: Option<usize>,
    max_chars_cap: Option<usize>,
    max_response_bytes: Option<usize>,
    max_redirects: Option<usize>,
    timeout_seconds: Option<u64>,
    cache_ttl_minutes: Option<f64>,
    /// Whether the article of a page is looked for, or all of it taken.
    pub readability: bool,
    /// What we say we are.
    pub user_agent: Option<String>,
    /// Whether pages are asked for through the proxy of the environment, which
    /// then looks names up.
    pub use_trusted_env_proxy: bool,
    /// Which hosts may be asked that nobody else may.
    pub ssrf_policy: SsrfConfig,
}

impl Default for FetchConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            max_chars: None,
            max_chars_cap: None,
            max_response_bytes: None,
            max_redirects: None,
            timeout_seconds: None,
            cache_ttl_minutes: None,
            readability: true,
            user_agent: None,
            use_trusted_env_proxy: false,
            ssrf_policy: SsrfConfig::default(),
        }
    }
}

impl FetchConfig {
    /// Most characters of a page, when the model asks for so many or for none.
    pub fn chars(&self, asked: Option<usize>) -> usize {
        let cap = self.max_chars_cap.unwrap_or(FETCH_CHARS);
        asked.or(self.max_chars).unwrap_or(FETCH_CHARS).min(cap).max(100)
    }

    /// Most bytes of an answer.
    pub fn response_bytes(&self) -> usize {
        let (least, most) = FETCH_BYTES_BOUNDS;
        self.max_response_bytes.unwrap_or(FETCH_BYTES).clamp(least, most)
    }

    /// Most redirects.
    pub fn redirects(&self) -> usize {
        self.max_redirects.unwrap_or(REDIRECTS).min(REDIRECTS_MAX)
    }

    /// How long all of it may take.
    pub fn timeout(&self) -> Duration {
        timeout(self.timeout_seconds)
    }

    /// How long a page is kept.
    pub fn cache_ttl(&self) -> Duration {
        cache_ttl(self.cache_ttl_minutes)
    }
}

/// `tools.web.fetch.ssrfPolicy`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SsrfConfig {
    /// Hosts, or `host:port`, that may be asked though they are private.
    pub allowed_hostnames: Vec<String>,
    /// 198.18.0.0/15, where some proxies put addresses of their own.
    pub allow_rfc2544_benchmark_range: bool,
    /// `fc00::/7`, for the same reason.
    pub allow_ipv6_unique_local_range: bool,
}

/// `tools.web.search`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SearchConfig {
    /// Whether there is a `web_search` tool.
    pub enabled: bool,
    /// Whom to ask; who has a key when not set.
    pub provider: Option<SearchProvider>,
    /// Brave's key, where OpenClaw has it.
    pub api_key: Option<SecretInput>,
    max_results: Option<usize>,
    timeout_seconds: Option<u64>,
    cache_ttl_minutes: Option<f64>,
    /// Brave.
    pub brave: SearchService,
    /// Tavily.
    pub tavily: SearchService,
    /// An own SearXNG.
    pub searxng: SearchService,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            provider: None,
            api_key: None,
            max_results: None,
            timeout_seconds: None,
            cache_ttl_minutes: None,
            brave: SearchService::default(),
            tavily: SearchService::default(),
            searxng: SearchService::default(),
        }
    }
}

impl SearchConfig {
    /// How many results, when the model asks for so many or for none.
    pub fn count(&self, asked: Option<usize>) -> usize {
        asked.or(self.max_results).unwrap_or(RESULTS).clamp(1, RESULTS_MAX)
    }

    /// How long a search may take.
    pub fn timeout(&self) -> Duration {
        timeout(self.timeout_seconds)
    }

    /// How long results are kept.
    pub fn cache_ttl(&self) -> Duration {
        cache_ttl(self.cache_ttl_minutes)
    }
}

/// Who searches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchProvider {
    /// Brave Search API.
    Brave,
    /// Tavily.
    Tavily,
    /// A SearXNG of one's own.
    Searxng,
}

impl SearchProvider {
    /// The name in the config file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Brave => "brave",
            Self::Tavily => "tavily",
            Self::Searxng => "searxng",
        }
    }
}

/// How one service is reached.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SearchService {
    /// Its key.
    pub api_key: Option<SecretInput>,
    /// Its address, when it is not the usual one.
    pub base_url: Option<SecretInput>,
}

impl SearchService {
    /// Every reference to a secret.
    pub fn references(&self) -> impl Iterator<Item = &SecretRef> {
        self.api_key.iter().chain(&self.base_url).filter_map(SecretInput::reference)
    }
}

fn timeout(seconds: Option<u64>) -> Duration {
    Duration::from_secs(seconds.unwrap_or(TIMEOUT).clamp(1, TIMEOUT_MAX))
}

fn cache_ttl(minutes: Option<f64>) -> Duration {
    let minutes = minutes.unwrap_or(CACHE_MINUTES).clamp(0.0, CACHE_MINUTES_MAX);
    Duration::try_from_secs_f64(minutes * 60.0).unwrap_or_default()
}

/// Reads the section; an error names the key inside it. A provider that only
/// OpenClaw has turns the search off: nobody else gets the key that is his.
pub(super) fn read(root: &Node<'_>) -> Result<WebConfig, ConfigError> {
    let node = root.at("tools.web")?;
    let provider = node.at("search.provider")?;
    let written = provider.value().and_then(Value::as_str);
    if !written.is_some_and(|word| SEARCHES.is_foreign(word)) {
        return node.deserialize();
    }
    let mut without = node.value().cloned().unwrap_or_default();
    if let Some(provider) = without.pointer_mut("/search/provider") {
        *provider = Value::Null;
    }
    let mut config: WebConfig = node.with(&without).deserialize()?;
    config.search.enabled = false;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::support::json;

    use super::*;

    fn read(web: &Value) -> Result<WebConfig, ConfigError> {
        let root = json!({"tools": {"web": web}});
        super::read(&Node::root(&root, Path::new("openclaw.json")))
    }

    #[test]
    fn what_is_not_written_is_as_in_openclaw() {
        let WebConfig { fetch, search } = read(&Value::Null).unwrap();
        assert!(fetch.enabled && fetch.readability && search.enabled);
        assert_eq!((fetch.chars(None), fetch.response_bytes()), (20_000, 2_000_000));
        assert_eq!((fetch.redirects(), search.count(None)), (3, 5));
        assert_eq!(fetch.timeout(), Duration::from_secs(30));
        assert_eq!(search.cache_ttl(), Duration::from_mins(15));
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        let written = json!({"fetch": {"maxCharsCap": 1000, "maxResponseBytes": 1,
            "maxRedirects": 1000, "cacheTtlMinutes": -1, "timeoutSeconds": 0},
            "search": {"maxResults": 100}});
        let WebConfig { fetch, search } = read(&written).unwrap();
        assert_eq!((fetch.chars(Some(5000)), fetch.chars(Some(1))), (1000, 100));
        assert_eq!((fetch.response_bytes(), fetch.redirects()), (32_000, 20));
        assert_eq!((fetch.cache_ttl(), fetch.timeout()), (Duration::ZERO, Duration::from_secs(1)));
        assert_eq!((search.count(None), search.count(Some(0))), (10, 1));
    }

    #[test]
    fn a_provider_that_is_not_built_in_turns_the_search_off_and_nothing_else() {
        for enabled in [true, false] {
            let search = json!({"enabled": enabled, "provider": "perplexity", "apiKey": "k",
                "maxResults": 3, "perplexity": {"model": "sonar"}});
            let WebConfig { fetch, search } =
                read(&json!({"fetch": {"maxRedirects": 1}, "search": search})).unwrap();
            assert!(fetch.enabled && !search.enabled && search.provider.is_none());
            assert_eq!((fetch.redirects(), search.count(None)), (1, 3));
        }
        let built_in = read(&json!({"search": {"provider": "tavily"}})).unwrap().search;
        assert!(built_in.enabled && built_in.provider == Some(SearchProvider::Tavily));
        let names = [SearchProvider::Brave, SearchProvider::Tavily, SearchProvider::Searxng];
        assert_eq!(names.map(SearchProvider::as_str), SEARCHES.built_in);
    }

    #[test]
    fn an_error_names_the_key_and_no_key_is_shown() {
        let error = read(&json!({"search": {"provider": "gopher"}})).unwrap_err().to_string();
        assert!(error.contains("tools.web") && error.contains("search.provider"), "{error}");
        let keyed = read(&json!({"search": {"apiKey": "key-1"}})).unwrap();
        assert!(!format!("{keyed:?}").contains("key-1"));
    }
}
