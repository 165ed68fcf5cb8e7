//! A registry of skills: `ClawHub`, or one that speaks like it.
//!
//! Owns: where it is, what it is asked, what of its answers is told. Promises:
//! without `OPENCLAW_CLAWHUB_URL` nothing is asked; only that address is, without
//! redirects; its token goes nowhere else and is in no error. Must not: install
//! anything.

use std::time::Duration;

use reqwest::Url;
use reqwest::header::ACCEPT;
use serde_json::{Map, Value};

use crate::agent::web::{Tls, read_body};
use crate::config::Env;
use crate::providers::{is_loopback, root_cause};
use crate::support::{Secret, json, without_nulls};
use crate::telemetry;

/// Where it is; the second is the name in programs of the registry.
const URL_VARIABLES: [&str; 2] = ["OPENCLAW_CLAWHUB_URL", "CLAWHUB_URL"];
/// Its token.
const TOKEN_VARIABLES: [&str; 3] =
    ["OPENCLAW_CLAWHUB_TOKEN", "CLAWHUB_TOKEN", "CLAWHUB_AUTH_TOKEN"];
/// As long as the original waits.
const LIMIT: Duration = Duration::from_secs(30);
/// A hundred results are some 50 KiB.
const ANSWER_MAX: usize = 2 * 1024 * 1024;
/// What is told of an error of the registry, in characters.
const COMPLAINT_MAX: usize = 200;

/// Why the registry does not answer.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// Its address cannot be used.
    #[error("OPENCLAW_CLAWHUB_URL must be an https address, or an http one of this machine")]
    Address,
    /// It is not reached.
    #[error("ClawHub cannot be reached: {0}")]
    Connection(String),
    /// It does not answer in time.
    #[error("ClawHub did not answer within {} seconds", LIMIT.as_secs())]
    Slow,
    /// It refuses.
    #[error("ClawHub {path} failed ({status}): {text}")]
    Status {
        /// What was asked.
        path: String,
        /// Its answer.
        status: u16,
        /// The beginning of what it says.
        text: String,
    },
    /// Its answer cannot be read.
    #[error("ClawHub did not answer {0} as it should")]
    Answer(String),
}

/// A registry.
#[derive(Debug)]
pub struct Hub {
    base: Url,
    token: Option<Secret>,
}

impl Hub {
    /// The one that the environment names.
    ///
    /// # Errors
    /// When what it names is no address that may be asked.
    pub fn of(env: &Env) -> Result<Option<Self>, HubError> {
        let Some(base) = URL_VARIABLES.iter().find_map(|name| env.get(name)) else {
            return Ok(None);
        };
        let base = Url::parse(&base).map_err(|_| HubError::Address)?;
        let is_fit = base.scheme() == "https" || (base.scheme() == "http" && is_loopback(&base));
        if !is_fit || !base.has_host() || !base.username().is_empty() || base.password().is_some() {
            return Err(HubError::Address);
        }
        let token = TOKEN_VARIABLES.iter().find_map(|name| env.get(name)).map(Secret::new);
        token.iter().for_each(telemetry::hide);
        Ok(Some(Self { base, token }))
    }

    /// Skills for a query, the best first; without one, those that it lists.
    ///
    /// # Errors
    /// See [`HubError`].
    pub async fn search(&self, query: Option<&str>, limit: u64) -> Result<Vec<Value>, HubError> {
        let limit = limit.to_string();
        let answer = match query {
            Some(query) => self.get(&["search"], &[("q", query), ("limit", &limit)]).await?,
            None => self.get(&["skills"], &[("limit", &limit)]).await?,
        };
        let list = answer.get("results").or_else(|| answer.get("items")).and_then(Value::as_array);
        let list = list.ok_or_else(|| HubError::Answer("a search".into()))?;
        Ok(list.iter().filter_map(result).collect())
    }

    /// What it knows of one skill; `None` when it knows none of this name.
    ///
    /// # Errors
    /// See [`HubError`].
    pub async fn detail(&self, slug: &str) -> Result<Option<Value>, HubError> {
        match self.get(&["skills", slug], &[]).await {
            Ok(answer) => detail(&answer)
                .map(Some)
                .ok_or_else(|| HubError::Answer(format!("a question about {slug}"))),
            Err(HubError::Status { status: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn get(&self, way: &[&str], query: &[(&str, &str)]) -> Result<Value, HubError> {
        let asking = self.ask(way, query);
        tokio::time::timeout(LIMIT, asking).await.unwrap_or(Err(HubError::Slow))
    }

    async fn ask(&self, way: &[&str], query: &[(&str, &str)]) -> Result<Value, HubError> {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["api", "v1"]).extend(way);
        }
        let path = url.path().to_owned();
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let client = Tls::default().trusted(&url).await.map_err(HubError::Connection)?;
        let refused = |error: reqwest::Error| HubError::Connection(root_cause(&error));
        let client = client.redirect(reqwest::redirect::Policy::none()).build();
        let mut request = client.map_err(refused)?.get(url).header(ACCEPT, "application/json");
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose());
        }
        let response = request.send().await.map_err(refused)?;
        let status = response.status();
        let body = read_body(response, ANSWER_MAX).await;
        let body = body.map_err(|error| HubError::Connection(error.to_string()))?;
        if !status.is_success() {
            let text = self.shown(&String::from_utf8_lossy(&body.bytes));
            return Err(HubError::Status { path, status: status.as_u16(), text });
        }
        serde_json::from_slice(&body.bytes).map_err(|_| HubError::Answer(path))
    }

    /// The beginning of a text from there, in one line, without the token.
    fn shown(&self, text: &str) -> String {
        let text = match &self.token {
            Some(token) => text.replace(token.expose(), "…"),
            None => text.to_owned(),
        };
        let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        plain.take(COMPLAINT_MAX).collect()
    }
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A result with the members that clients know; `None` when it has no name.
fn result(item: &Value) -> Option<Value> {
    let slug = text(item, "slug")?;
    let name = text(item, "displayName").unwrap_or_else(|| slug.clone());
    let version = text(item, "version").or_else(|| text(item.get("latestVersion")?, "version"));
    Some(without_nulls(json!({
        "score": item.get("score").and_then(Value::as_f64).unwrap_or_default(),
        "slug": slug,
        "displayName": name,
        "summary": text(item, "summary"),
        "version": version,
        "updatedAt": item.get("updatedAt").and_then(Value::as_i64),
    })))
}

/// What is known of a skill, with the members that clients know.
fn detail(answer: &Value) -> Option<Value> {
    let skill = answer.get("skill")?;
    let whole = |value: &Value, name: &str| value.get(name).and_then(Value::as_i64);
    let part = |name: &str| answer.get(name).filter(|part| part.is_object());
    let skill = match text(skill, "slug") {
        None => Value::Null,
        Some(slug) => without_nulls(json!({
            "displayName": text(skill, "displayName").unwrap_or_else(|| slug.clone()),
            "slug": slug,
            "summary": text(skill, "summary"),
            "tags": skill.get("tags").filter(|tags| is_of_texts(tags)),
            "createdAt": whole(skill, "createdAt").unwrap_or_default(),
            "updatedAt": whole(skill, "updatedAt").unwrap_or_default(),
        })),
    };
    let version = part("latestVersion").and_then(|part| {
        let version = text(part, "version")?;
        let created = whole(part, "createdAt").unwrap_or_default();
        let changelog = text(part, "changelog");
        Some(without_nulls(
            json!({"version": version, "createdAt": created, "changelog": changelog}),
        ))
    });
    let metadata = part("metadata")
        .map(|part| json!({"os": list(part, "os"), "systems": list(part, "systems")}));
    let owner = part("owner").map(|part| {
        json!({"handle": text(part, "handle"), "displayName": text(part, "displayName"),
            "image": text(part, "image")})
    });
    let members = [
        ("skill", Some(skill)),
        ("latestVersion", version),
        ("metadata", metadata),
        ("owner", owner),
    ];
    let members = members.map(|(name, value)| (name.to_owned(), value.unwrap_or_default()));
    Some(Value::Object(Map::from_iter(members)))
}

fn is_of_texts(value: &Value) -> bool {
    value.as_object().is_some_and(|members| members.values().all(Value::is_string))
}

fn list(part: &Value, name: &str) -> Option<Vec<String>> {
    let items = part.get(name)?.as_array()?.iter();
    Some(items.filter_map(Value::as_str).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_that_keeps_the_token_secret_is_asked() {
        let hub = |url: &str| Hub::of(&Env::fixed([("OPENCLAW_CLAWHUB_URL", url)], "/h"));
        assert!(Hub::of(&Env::fixed([], "/h")).unwrap().is_none());
        for url in ["https://hub.example", "http://127.0.0.1:9/x/", "http://[::1]:9"] {
            assert!(hub(url).unwrap().is_some(), "{url}");
        }
        for url in ["hub.example", "http://hub.example", "https://u:p@hub.example", "file:///x"] {
            assert!(hub(url).is_err(), "{url}");
        }
    }

    #[test]
    fn of_an_answer_only_what_clients_know_is_told() {
        let item = json!({"slug": "a", "score": 0.5, "summary": "s", "latestVersion": {"version": "1"},
            "script": "x", "updatedAt": 7});
        let told = json!({"score": 0.5, "slug": "a", "displayName": "a", "summary": "s",
            "version": "1", "updatedAt": 7});
        assert_eq!(result(&item), Some(told));
        assert_eq!(result(&json!({"score": 1})), None);
        let told = detail(&json!({"skill": {"slug": "a", "tags": {"latest": "1"}, "stats": {}},
            "latestVersion": null, "owner": {"handle": "h", "x": 1}}));
        let expected = json!({
            "skill": {"slug": "a", "displayName": "a", "tags": {"latest": "1"}, "createdAt": 0, "updatedAt": 0},
            "latestVersion": null, "metadata": null,
            "owner": {"handle": "h", "displayName": null, "image": null},
        });
        assert_eq!(told, Some(expected));
    }
}
