//! `web_search`: searches the web.

use std::sync::Arc;

use jiff::civil::Date;
use serde_json::{Map, Value};

use crate::agent::tools::{Tool, ToolContext, ToolKind, ToolOutput};
use crate::agent::web::search::{Freshness, Hit, Query, Service};
use crate::agent::web::{Cache, Tls, wrap};
use crate::config::secrets::{ResolvedSecrets, SecretInput, SecretsConfig, resolve};
use crate::config::web::{RESULTS_MAX, SearchConfig, SearchProvider, SearchService};
use crate::config::{Env, Settings};
use crate::providers::ToolSpec;
use crate::support::{BoxFuture, Secret, json};
use crate::telemetry;

use super::mark_id;

/// Its name.
const NAME: &str = "web_search";
/// Where its texts are from.
const SOURCE: &str = "Web Search";
/// Longest text of a result, in characters.
const MAX_TEXT: usize = 2000;
/// Longest question; the services take less.
const MAX_QUERY: usize = 2000;

/// The tool.
pub struct WebSearch {
    config: SearchConfig,
    secrets: SecretsConfig,
    env: Env,
    tls: Arc<Tls>,
    cache: Cache,
}

impl WebSearch {
    pub fn new(settings: &Settings, env: &Env, tls: Arc<Tls>) -> Self {
        Self {
            config: settings.web.search.clone(),
            secrets: settings.secrets.clone(),
            env: env.clone(),
            tls,
            cache: Cache::default(),
        }
    }

    /// Who is to be asked, or what is missing for it.
    async fn service(&self) -> Result<Service, Value> {
        let config = &self.config;
        let services = [&config.brave, &config.tavily, &config.searxng];
        let references = services.into_iter().flat_map(SearchService::references);
        let references = references.chain(config.api_key.as_ref().and_then(SecretInput::reference));
        let (secrets, lost) =
            resolve(&references.cloned().collect(), &self.secrets, &self.env).await;
        for (reference, error) in lost {
            tracing::warn!(%reference, %error, "a secret of tools.web.search cannot be had");
        }
        let of = |provider| self.ready(provider, &secrets);
        match config.provider {
            Some(provider) => of(provider).ok_or_else(|| missing(Some(provider))),
            None => [SearchProvider::Brave, SearchProvider::Tavily, SearchProvider::Searxng]
                .into_iter()
                .find_map(of)
                .ok_or_else(|| missing(None)),
        }
    }

    /// A service that has all that it needs.
    fn ready(&self, provider: SearchProvider, secrets: &ResolvedSecrets) -> Option<Service> {
        let config = &self.config;
        let found = |input: &Option<SecretInput>| input.as_ref()?.resolve(secrets);
        let variable = |name: &str| self.env.get(name).map(Secret::new);
        let (service, variable_name) = match provider {
            SearchProvider::Brave => (&config.brave, "BRAVE_API_KEY"),
            SearchProvider::Tavily => (&config.tavily, "TAVILY_API_KEY"),
            SearchProvider::Searxng => (&config.searxng, "SEARXNG_BASE_URL"),
        };
        let base_url = found(&service.base_url);
        if provider == SearchProvider::Searxng {
            let base_url = base_url.or_else(|| variable(variable_name))?;
            return Some(Service { provider, base_url: Some(base_url.expose().into()), key: None });
        }
        // The key without a name is that of the service that is chosen; of
        // Brave when none is, as in OpenClaw.
        let chosen = config.provider.unwrap_or(SearchProvider::Brave);
        let unnamed = || (chosen == provider).then(|| found(&config.api_key)).flatten();
        let key = found(&service.api_key).or_else(unnamed).or_else(|| variable(variable_name))?;
        telemetry::hide(&key);
        let base_url = base_url.map(|url| url.expose().to_owned());
        Some(Service { provider, base_url, key: Some(key) })
    }

    async fn search(&self, cx: &ToolContext, query: &Query) -> Result<Value, ToolOutput> {
        let service = self.service().await.map_err(ToolOutput::json)?;
        let provider = service.provider.as_str();
        let key = format!("{provider}:{query:?}");
        if let Some(kept) = self.cache.get(&key) {
            return Ok(kept);
        }
        let started = cx.parts().clock.now_ms();
        let id = mark_id(&*cx.parts().ids);
        let mark = |text: &str| wrap(text, SOURCE, &id, MAX_TEXT).text;
        let found = service.search(query, &self.tls, self.config.timeout()).await;
        let (hits, unsupported) = found.map_err(|(error, said)| {
            let said = said.filter(|said| !said.trim().is_empty());
            let said = said
                .map(|said| format!(": {}", mark(&telemetry::without_secrets(&said))))
                .unwrap_or_default();
            ToolOutput::failed(NAME, format!("{error}{said}"))
        })?;
        let took = cx.parts().clock.now_ms().saturating_sub(started);
        let results: Vec<_> = hits.iter().map(|hit| shown(hit, &mark)).collect();
        let mut payload = json!({
            "query": query.text,
            "provider": provider,
            "count": results.len(),
            "tookMs": took,
            "externalContent":
                {"untrusted": true, "source": NAME, "provider": provider, "wrapped": true},
            "results": results,
        });
        if !unsupported.is_empty() {
            payload["unsupported"] = json!(unsupported);
        }
        self.cache.put(key, &payload, self.config.cache_ttl());
        Ok(payload)
    }
}

fn shown(hit: &Hit, mark: &dyn Fn(&str) -> String) -> Value {
    let mut shown = Map::new();
    shown.insert("title".into(), mark(&hit.title).into());
    shown.insert("url".into(), hit.url.clone().into());
    shown.insert("description".into(), mark(&hit.description).into());
    if let Some(published) = &hit.published {
        shown.insert("published".into(), published.chars().take(64).collect::<String>().into());
    }
    if let Some(host) =
        reqwest::Url::parse(&hit.url).ok().and_then(|url| Some(url.host_str()?.to_owned()))
    {
        shown.insert("siteName".into(), host.into());
    }
    Value::Object(shown)
}

/// What to configure.
fn missing(provider: Option<SearchProvider>) -> Value {
    let (error, key, variable) = match provider {
        Some(SearchProvider::Brave) => {
            ("missing_brave_api_key", "tools.web.search.brave.apiKey", "BRAVE_API_KEY")
        }
        Some(SearchProvider::Tavily) => {
            ("missing_tavily_api_key", "tools.web.search.tavily.apiKey", "TAVILY_API_KEY")
        }
        Some(SearchProvider::Searxng) => {
            ("missing_searxng_base_url", "tools.web.search.searxng.baseUrl", "SEARXNG_BASE_URL")
        }
        None => (
            "missing_search_provider",
            "tools.web.search",
            "one of BRAVE_API_KEY, TAVILY_API_KEY or SEARXNG_BASE_URL",
        ),
    };
    let message = format!(
        "Searching the web is not configured: set {key} in openclaw.json (in use at once), or \
         {variable} in the gateway's environment and start the gateway again. Tell the user; \
         trying again does not help."
    );
    json!({"error": error, "message": message})
}

/// What is looked for, or what is wrong with it.
fn query(arguments: &Value, config: &SearchConfig) -> Result<Query, Value> {
    let wrong = |error: &str, message: String| json!({"error": error, "message": message});
    let word = |name: &str| {
        let text = arguments.get(name).and_then(Value::as_str).map(str::trim);
        text.filter(|text| !text.is_empty())
    };
    let code = |name: &str| -> Result<Option<String>, Value> {
        let Some(text) = word(name) else { return Ok(None) };
        let fits =
            text.len() <= 16 && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        let invalid = || wrong("invalid_code", format!("{name} must be a code such as \"en\""));
        if fits { Ok(Some(text.to_owned())) } else { Err(invalid()) }
    };
    let day = |name: &str, text: Option<&str>| -> Result<Option<Date>, Value> {
        let parse = |text: &str| {
            let is_day = text.len() == 10;
            let parsed = text.parse::<Date>().ok().filter(|_| is_day);
            parsed.ok_or_else(|| wrong("invalid_date", format!("{name} must be YYYY-MM-DD")))
        };
        text.map(parse).transpose()
    };
    let text = word("query").ok_or_else(|| wrong("missing_query", "query is empty".into()))?;
    let (mut after, mut before) = (word("date_after"), word("date_before"));
    let mut freshness = None;
    if let Some(text) = word("freshness") {
        freshness = Freshness::parse(text);
        match text.split_once("to") {
            _ if freshness.is_some() => {}
            Some((from, to)) => (after, before) = (Some(from), Some(to)),
            None => {
                let rule = "freshness must be day, week, month or year";
                return Err(wrong("invalid_freshness", rule.into()));
            }
        }
    }
    let (after, before) = (day("date_after", after)?, day("date_before", before)?);
    if after.zip(before).is_some_and(|(after, before)| after > before) {
        let rule = "date_after must not be later than date_before";
        return Err(wrong("invalid_date_range", rule.into()));
    }
    let count = arguments.get("count").and_then(Value::as_f64);
    let domains = arguments.get("domain_filter").and_then(Value::as_array);
    let domains = domains.into_iter().flatten().filter_map(Value::as_str).take(20);
    Ok(Query {
        text: text.chars().take(MAX_QUERY).collect(),
        count: config.count(count.and_then(|it| format!("{:.0}", it.floor()).parse().ok())),
        country: code("country")?,
        language: code("language")?.or(code("search_lang")?),
        ui_language: code("ui_lang")?,
        freshness,
        after,
        before,
        domains: domains.map(str::to_owned).collect(),
    })
}

impl Tool for WebSearch {
    fn name(&self) -> &'static str {
        NAME
    }

    fn spec(&self) -> ToolSpec {
        let text = |about: &str| json!({"type": "string", "description": about});
        ToolSpec {
            name: NAME.into(),
            description: "Search the web. Gives titles, addresses and excerpts of pages; read a \
                          page with web_fetch."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "query": text("What to look for."),
                    "count": {"type": "number", "minimum": 1, "maximum": RESULTS_MAX,
                        "description": "How many results."},
                    "country": text("Results of a country, as two letters."),
                    "language": text("Results in a language, as two letters."),
                    "freshness": text("Not older than: day, week, month or year."),
                    "date_after": text("Published on or after this day (YYYY-MM-DD)."),
                    "date_before": text("Published on or before this day (YYYY-MM-DD)."),
                    "search_lang": text("Language of results in the service's own code."),
                    "ui_lang": text("Language of the service's own texts."),
                    "domain_filter": {"type": "array", "items": {"type": "string"},
                        "description": "Only these hosts; with a - before it, not this host."},
                },
                "required": ["query"],
            }),
        }
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Reads
    }

    fn meta(&self, arguments: &Value) -> Option<String> {
        Some(format!("for \"{}\"", arguments.get("query")?.as_str()?))
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            match query(arguments, &self.config) {
                Ok(query) => {
                    self.search(cx, &query).await.map_or_else(|output| output, ToolOutput::json)
                }
                Err(wrong) => ToolOutput::json(wrong),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_configured_is_named_and_what_of_it_needs_a_start() {
        for (provider, key, variable) in [
            (Some(SearchProvider::Brave), "set tools.web.search.brave.apiKey in", "BRAVE_API_KEY"),
            (Some(SearchProvider::Searxng), ".searxng.baseUrl in", "or SEARXNG_BASE_URL in the"),
            (None, "set tools.web.search in", "or one of BRAVE_API_KEY"),
        ] {
            let told = missing(provider);
            let message = told["message"].as_str().unwrap();
            for part in [key, "(in use at once)", variable, "start the gateway again"] {
                assert!(message.contains(part), "{part}: {message}");
            }
        }
    }
}
