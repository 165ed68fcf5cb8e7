//! `web_fetch`: reads a page.

use std::sync::Arc;

use serde_json::Value;

use crate::agent::tools::{Tool, ToolContext, ToolKind, ToolOutput};
use crate::agent::web::{
    Cache, ExtractMode, Extractor, FetchError, Fetched, GuardedClient, PageRequest, Tls, wrap,
    wrap_page,
};
use crate::config::Env;
use crate::config::web::FetchConfig;
use crate::providers::ToolSpec;
use crate::sessions::iso_time;
use crate::support::{BoxFuture, json};

use super::{content, mark_id};

/// Its name.
const NAME: &str = "web_fetch";
/// Where its texts are from.
const SOURCE: &str = "Web Fetch";
/// What we say we are, unless the configuration says it: some sites answer
/// browsers only.
const USER_AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
Chrome/122.0.0.0 Safari/537.36";
/// What is told of an error page, in characters.
const MAX_COMPLAINT: usize = 4000;
/// Longest title.
const MAX_TITLE: usize = 500;

/// What we say we are.
pub fn user_agent(config: &FetchConfig) -> &str {
    config.user_agent.as_deref().unwrap_or(USER_AGENT)
}

/// The tool.
pub struct WebFetch {
    config: FetchConfig,
    client: GuardedClient,
    extractor: Extractor,
    cache: Cache,
}

struct Wanted<'a> {
    url: &'a str,
    mode: ExtractMode,
    chars: usize,
}

impl WebFetch {
    pub fn new(config: &FetchConfig, env: &Env, tls: Arc<Tls>) -> Self {
        Self {
            config: config.clone(),
            client: GuardedClient::of(config, env, tls),
            extractor: Extractor::default(),
            cache: Cache::default(),
        }
    }

    async fn fetch(&self, cx: &ToolContext, wanted: &Wanted<'_>) -> Result<Value, String> {
        let key = format!("{}:{}:{}", wanted.mode.as_str(), wanted.chars, wanted.url);
        if let Some(kept) = self.cache.get(&key) {
            return Ok(kept);
        }
        let started = cx.parts().clock.now_ms();
        let request = PageRequest {
            url: wanted.url,
            user_agent: user_agent(&self.config),
            redirects: self.config.redirects(),
            max_bytes: self.config.response_bytes(),
            limit: self.config.timeout(),
        };
        let told = |error: FetchError| error.to_string();
        let fetched = self.client.get(&request).await.map_err(told)?;
        if !fetched.status.is_success() {
            return Err(self.complaint(cx, &fetched).await);
        }
        let article = self.config.readability;
        let read = content::read(&fetched, &self.extractor, wanted.mode, article).await;
        let read = read.map_err(told)?;
        let id = mark_id(&*cx.parts().ids);
        let page = wrap_page(&read.text, SOURCE, &id, wanted.chars);
        let length = page.text.chars().count();
        let now = cx.parts().clock.now_ms();
        let mut payload = json!({
            "url": wanted.url,
            "finalUrl": fetched.url.as_str(),
            "status": fetched.status.as_u16(),
            "contentType": content::media_type(&fetched),
            "extractMode": wanted.mode.as_str(),
            "extractor": read.by,
            "externalContent": {"untrusted": true, "source": NAME, "wrapped": true},
            "truncated": page.is_cut || fetched.body.is_cut || read.is_cut,
            "length": length,
            "rawLength": page.raw_length,
            "wrappedLength": length,
            "fetchedAt": iso_time(now),
            "tookMs": now.saturating_sub(started),
            "text": page.text,
        });
        if let Some(title) = read.title {
            payload["title"] = wrap(&title, SOURCE, &id, MAX_TITLE).text.into();
        }
        if fetched.body.is_cut {
            let text =
                format!("Only the first {} bytes of the answer were read.", request.max_bytes);
            payload["warning"] = text.into();
        }
        self.cache.put(key, &payload, self.config.cache_ttl());
        Ok(payload)
    }

    async fn complaint(&self, cx: &ToolContext, fetched: &Fetched) -> String {
        let status = fetched.status;
        let said = content::complaint(fetched, &self.extractor).await;
        let reason = status.canonical_reason().unwrap_or_default();
        let said = if said.trim().is_empty() { reason } else { said.trim() };
        let id = mark_id(&*cx.parts().ids);
        let said = wrap_page(said, SOURCE, &id, MAX_COMPLAINT).text;
        format!("Web fetch failed ({}): {said}", status.as_u16())
    }
}

impl Tool for WebFetch {
    fn name(&self) -> &'static str {
        NAME
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: NAME.into(),
            description: "Read a web page: gets a URL and gives its content as markdown or text. \
                          Runs no scripts and has no logins; for simple pages a browser is not \
                          needed."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "url": {"type": "string", "description": "Address of the page, http or https."},
                    "extractMode": {"type": "string", "enum": ["markdown", "text"],
                        "default": "markdown", "description": "What the page is turned into."},
                    "maxChars": {"type": "number", "minimum": 100,
                        "description": "Longest result, in characters; what is beyond is cut off."},
                },
                "required": ["url"],
            }),
        }
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Reads
    }

    fn meta(&self, arguments: &Value) -> Option<String> {
        Some(format!("from {}", arguments.get("url")?.as_str()?))
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let text = |name: &str| arguments.get(name).and_then(Value::as_str);
            let chars = arguments.get("maxChars").and_then(Value::as_f64);
            let wanted = Wanted {
                url: text("url").unwrap_or_default().trim(),
                mode: match text("extractMode") {
                    Some("text") => ExtractMode::Text,
                    _ => ExtractMode::Markdown,
                },
                chars: self.config.chars(chars.and_then(whole)),
            };
            match self.fetch(cx, &wanted).await {
                Ok(payload) => ToolOutput::json(payload),
                Err(error) => ToolOutput::failed(NAME, error),
            }
        })
    }
}

/// A number of JSON as a count.
fn whole(number: f64) -> Option<usize> {
    format!("{:.0}", number.floor()).parse().ok()
}
