//! A client that reaches what the policy lets it reach.
//!
//! Owns: looking a host up, checking it, asking it, following where it sends
//! us. Promises: a name is looked up once for each request, and the connection
//! goes to an address that was checked; every redirect is checked like the
//! first address; only the headers named here are sent; no cookies, no
//! credentials. Must not: read what comes back.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{
    ACCEPT, ACCEPT_LANGUAGE, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue,
    LOCATION, USER_AGENT,
};
use reqwest::{Client, Proxy, StatusCode, Url};

use super::body::{self, Body};
use super::error::FetchError;
use super::lookup::{Lookup, SystemLookup};
use super::policy::{Place, Policy};
use super::tls::Tls;
use crate::config::Env;
use crate::config::web::FetchConfig;
use crate::providers::root_cause;
use crate::support::Secret;

/// What is preferred: text that needs no work first.
const ACCEPTED: &str = "text/markdown, text/html;q=0.9, */*;q=0.1";
/// Some sites refuse to answer without it.
const LANGUAGE: &str = "en-US,en;q=0.9";

/// Asks for pages.
pub struct GuardedClient {
    policy: Policy,
    lookup: Arc<dyn Lookup>,
    proxies: Proxies,
    tls: Arc<Tls>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest<'a> {
    /// As the model writes it.
    pub url: &'a str,
    /// What we say we are.
    pub user_agent: &'a str,
    /// Most redirects.
    pub redirects: usize,
    /// Most bytes of the answer.
    pub max_bytes: usize,
    /// How long all of it may take.
    pub limit: Duration,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// Where it came from in the end.
    pub url: Url,
    /// Its status.
    pub status: StatusCode,
    /// Its `Content-Type`, as sent.
    pub content_type: Option<String>,
    /// What it is packed with, though we asked for nothing of the kind.
    pub encoding: Option<String>,
    /// Its body.
    pub body: Body,
}

impl GuardedClient {
    /// One under these rules. Costs nothing until the first call.
    pub fn new(policy: Policy, lookup: Arc<dyn Lookup>, proxies: Proxies, tls: Arc<Tls>) -> Self {
        Self { policy, lookup, proxies, tls }
    }

    /// One as `tools.web.fetch` wants it.
    pub fn of(config: &FetchConfig, env: &Env, tls: Arc<Tls>) -> Self {
        let proxies = if config.use_trusted_env_proxy {
            Proxies::of_environment(env)
        } else {
            Proxies::default()
        };
        Self::new(Policy::new(&config.ssrf_policy), Arc::new(SystemLookup), proxies, tls)
    }

    /// Asks for a page.
    ///
    /// # Errors
    /// When it may not be asked for, or there is no answer within the limits.
    /// Any status is an answer.
    pub async fn get(&self, request: &PageRequest<'_>) -> Result<Fetched, FetchError> {
        let limit = request.limit;
        tokio::time::timeout(limit, self.follow(request))
            .await
            .unwrap_or(Err(FetchError::Slow(limit)))
    }

    /// Posts JSON. Redirects are not followed: a post is not to be done twice.
    ///
    /// # Errors
    /// When the address may not be asked, or there is no answer in time. Any
    /// status is an answer.
    pub async fn post(
        &self,
        url: &str,
        token: Option<&Secret>,
        body: String,
        limit: Duration,
    ) -> Result<StatusCode, FetchError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(token) = token {
            let value = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
            let wrong = |_| FetchError::Invalid("its token is no header".into());
            let mut value = value.map_err(wrong)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        self.post_bytes(url, headers, body.into_bytes(), limit).await
    }

    /// Posts anything with these headers. Redirects are not followed.
    ///
    /// # Errors
    /// As for [`Self::post`].
    pub async fn post_bytes(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Vec<u8>,
        limit: Duration,
    ) -> Result<StatusCode, FetchError> {
        let posting = async {
            let (url, place) = self.policy.parse(url)?;
            let way = self.way(&url, place).await?;
            let client = self.client(&url, way).await?;
            let sent = client.post(url).headers(headers).body(body).send().await;
            let response = sent.map_err(|error| FetchError::Connection(root_cause(&error)))?;
            Ok(response.status())
        };
        tokio::time::timeout(limit, posting).await.unwrap_or(Err(FetchError::Slow(limit)))
    }

    async fn follow(&self, request: &PageRequest<'_>) -> Result<Fetched, FetchError> {
        let (mut url, mut place) = self.policy.parse(request.url)?;
        let mut redirects = 0;
        loop {
            let response = self.send(&url, place, request.user_agent).await?;
            let status = response.status();
            if !is_redirect(status) {
                let header = |name| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
                let (content_type, encoding) = (header(CONTENT_TYPE), header(CONTENT_ENCODING));
                let body = body::read(response, request.max_bytes).await?;
                return Ok(Fetched { url, status, content_type, encoding, body });
            }
            redirects += 1;
            if redirects > request.redirects {
                return Err(FetchError::Redirects(request.redirects));
            }
            // Some write letters into it as they are; joined, they are encoded.
            let target = response.headers().get(LOCATION);
            let target = target.map(|target| String::from_utf8_lossy(target.as_bytes()));
            let target = target.and_then(|target| url.join(&target).ok());
            url = target.ok_or(FetchError::NoTarget(status.as_u16()))?;
            place = self.policy.place(&url)?;
        }
    }

    async fn send(
        &self,
        url: &Url,
        place: Place,
        user_agent: &str,
    ) -> Result<reqwest::Response, FetchError> {
        let way = self.way(url, place).await?;
        let client = self.client(url, way).await?;
        let sent = client
            .get(url.clone())
            .header(ACCEPT, ACCEPTED)
            .header(ACCEPT_LANGUAGE, LANGUAGE)
            .header(USER_AGENT, user_agent)
            .send()
            .await;
        sent.map_err(|error| FetchError::Connection(root_cause(&error)))
    }

    /// How a place is reached: at which addresses, or through which proxy.
    async fn way(&self, url: &Url, place: Place) -> Result<Way, FetchError> {
        let proxy = self.proxies.of(url);
        let (name, is_allowed) = match (place, proxy) {
            (Place::Address(address), Some(proxy)) if self.policy.accepts(address) => {
                return Ok(Way::Proxy(Box::new(proxy)));
            }
            (Place::Name(_), Some(proxy)) => return Ok(Way::Proxy(Box::new(proxy))),
            (Place::Address(address), _) => return Ok(Way::Direct(vec![address])),
            (Place::Name(name), None) => (name, false),
            (Place::AllowedName(name), _) => (name, true),
        };
        let unknown = |reason: String| FetchError::Unknown { host: name.clone(), reason };
        let found = self.lookup.lookup(&name).await;
        let addresses = found.map_err(|error| unknown(error.to_string()))?;
        if addresses.is_empty() {
            return Err(unknown("it has none".into()));
        }
        // All of them: one private address among public ones is no accident.
        let accepts = |address: &IpAddr| is_allowed || self.policy.accepts(*address);
        if addresses.iter().all(accepts) {
            Ok(Way::Direct(addresses))
        } else {
            Err(FetchError::Blocked { host: name })
        }
    }

    async fn client(&self, url: &Url, way: Way) -> Result<Client, FetchError> {
        // Without more words, reqwest takes the proxy of the environment.
        let builder = self.tls.client(url).await.map_err(FetchError::Connection)?.no_proxy();
        let builder = match way {
            Way::Direct(addresses) => builder.dns_resolver(Arc::new(Pinned(addresses))),
            Way::Proxy(proxy) => builder.proxy(*proxy),
        };
        builder.build().map_err(|error| FetchError::Connection(root_cause(&error)))
    }
}

enum Way {
    Direct(Vec<IpAddr>),
    Proxy(Box<Proxy>),
}

/// Knows the addresses that were checked, and no others.
struct Pinned(Vec<IpAddr>);

impl Resolve for Pinned {
    fn resolve(&self, _: Name) -> Resolving {
        // The port is that of the URL.
        let addresses: Vec<_> = self.0.iter().map(|ip| SocketAddr::new(*ip, 0)).collect();
        let addresses: Addrs = Box::new(addresses.into_iter());
        Box::pin(std::future::ready(Ok(addresses)))
    }
}

/// The proxies of the environment, when they are to be used.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
}

impl Proxies {
    /// What the environment names. `NO_PROXY` is not asked: what the policy
    /// does not let through directly must not get there by being named in it.
    pub fn of_environment(env: &Env) -> Self {
        let proxy = |names: [&str; 4]| {
            let url = names.iter().find_map(|name| env.get(name))?;
            let url = if url.contains("://") { url } else { format!("http://{url}") };
            Proxy::all(url).ok()
        };
        Self {
            http: proxy(["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]),
            https: proxy(["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
        }
    }

    fn of(&self, url: &Url) -> Option<Proxy> {
        if url.scheme() == "https" { self.https.clone() } else { self.http.clone() }
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

#[cfg(test)]
mod tests;
