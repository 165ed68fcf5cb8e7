//! What a page of another origin reads: what `gateway.controlUi.allowedOrigins`
//! lets it, and nothing else (CVE-2026-26317, CORS of any origin with credentials).

use std::collections::BTreeSet;

use clawgate::http::{Place, all_routes};
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};

use crate::routes::path_of;
use crate::support::{Gateway, GatewayOptions, SECRET, default_config};

const LISTED: &str = "https://ui.example";
/// Not listed, and no page of this machine.
const FOREIGN: &str = "https://evil.example";
/// Not listed, but served from this machine.
const NEIGHBOUR: &str = "http://localhost:5173";
const API: &str = "/v1/models";
/// The dialect whose clients have a cookie.
const WITH_COOKIE: &str = "/api/claude/sessions";

async fn gateway(allowed: &Value) -> Gateway {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["controlUi"] = json!({"allowedOrigins": allowed});
    config["gateway"]["http"]["endpoints"] =
        json!({"chatCompletions": {"enabled": true}, "responses": {"enabled": true}});
    Gateway::start(GatewayOptions::with_config(config)).await
}

async fn ask(gateway: &Gateway, method: &Method, path: &str, headers: &[(&str, &str)]) -> Response {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{}{path}", gateway.address());
    let request = client.request(method.clone(), url);
    let request =
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.send().await.unwrap()
}

/// What a browser asks before a page sends something.
async fn preflight(gateway: &Gateway, path: &str, origin: &str) -> Response {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", "POST"),
        (
            "access-control-request-headers",
            "authorization,content-type, x-openclaw-session-key,x-forwarded-for,idempotency-key",
        ),
        ("access-control-request-private-network", "true"),
    ];
    ask(gateway, &Method::OPTIONS, path, &headers).await
}

fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

/// What of an answer is meant for pages of other origins.
fn shared(response: &Response) -> BTreeSet<String> {
    let names = response.headers().keys().map(|name| name.as_str().to_owned());
    names.filter(|name| name.starts_with("access-control-")).collect()
}

/// Paths that pages of other origins may ask, one for each route.
fn shared_paths() -> impl Iterator<Item = String> {
    let is_own = |place| matches!(place, Place::Path("/") | Place::Page);
    let routes = all_routes().filter(move |route| !is_own(route.place));
    routes.filter_map(|route| path_of(route.place))
}

#[tokio::test]
async fn a_listed_page_is_told_for_every_path_of_the_api_what_it_may_send() {
    let gateway = gateway(&json!([LISTED])).await;
    for path in shared_paths() {
        let answer = preflight(&gateway, &path, LISTED).await;
        assert_eq!(answer.status(), 204, "{path}");
        assert_eq!(header(&answer, "access-control-allow-origin"), Some(LISTED), "{path}");
        assert_eq!(header(&answer, "vary"), Some("origin"), "{path}");
        assert_eq!(header(&answer, "access-control-allow-private-network"), Some("true"));
        assert_eq!(
            header(&answer, "access-control-allow-headers"),
            Some("authorization, content-type, x-openclaw-session-key, idempotency-key"),
        );
        let told = header(&answer, "access-control-allow-methods").unwrap();
        let said = ask(&gateway, &Method::OPTIONS, &path, &[]).await;
        assert_eq!((said.status().as_u16(), header(&said, "allow")), (405, Some(told)), "{path}");
        assert!(header(&answer, "access-control-max-age").is_some(), "{path}");
    }
}

#[tokio::test]
async fn a_listed_page_reads_answers_and_refusals_with_what_is_above_them() {
    let gateway = gateway(&json!([LISTED])).await;
    let bearer = format!("Bearer {SECRET}");
    for (path, credential, status) in
        [(API, bearer.as_str(), 200), (API, "Bearer wrong", 401), ("/api/nothing", &bearer, 404)]
    {
        let headers = [("origin", LISTED), ("authorization", credential)];
        let answer = ask(&gateway, &Method::GET, path, &headers).await;
        assert_eq!(answer.status(), status, "{path}");
        assert_eq!(header(&answer, "access-control-allow-origin"), Some(LISTED), "{path}");
        assert_eq!(header(&answer, "access-control-allow-credentials"), None, "{path}");
        let exposed = header(&answer, "access-control-expose-headers").unwrap();
        for name in ["x-request-id", "retry-after", "content-range", "etag"] {
            assert!(exposed.contains(name), "{exposed}");
        }
    }
    // A cookie of its user is worth something there only.
    let headers = [("origin", LISTED), ("authorization", bearer.as_str())];
    let answer = ask(&gateway, &Method::GET, WITH_COOKIE, &headers).await;
    assert_eq!(header(&answer, "access-control-allow-credentials"), Some("true"));
}

#[tokio::test]
async fn no_other_page_reads_anything_and_nothing_else_changes_for_it() {
    let gateway = gateway(&json!([LISTED])).await;
    let bearer = format!("Bearer {SECRET}");
    for (origin, refused) in [
        (FOREIGN, Some(403)),
        ("null", Some(403)),
        (&*format!("{LISTED}.evil.example"), Some(403)),
        (NEIGHBOUR, None),
    ] {
        for path in [API, WITH_COOKIE, "/health", "/openapi.json", "/metrics"] {
            let answer = preflight(&gateway, path, origin).await;
            let is_public = ["/health", "/openapi.json"].contains(&path);
            let expected = refused.filter(|_| !is_public).unwrap_or(405);
            assert_eq!(answer.status(), expected, "{origin} {path}");
            assert_eq!(shared(&answer), BTreeSet::new(), "{origin} {path}");
            let headers = [("origin", origin), ("authorization", bearer.as_str())];
            let answer = ask(&gateway, &Method::GET, path, &headers).await;
            let expected = refused.filter(|_| !is_public).unwrap_or(200);
            assert_eq!(answer.status(), expected, "{origin} {path}");
            assert_eq!(shared(&answer), BTreeSet::new(), "{origin} {path}");
        }
    }
    // Its own name leads here.
    let headers = [("origin", LISTED), ("host", "evil.example")];
    let answer = ask(&gateway, &Method::GET, API, &headers).await;
    assert_eq!((answer.status().as_u16(), shared(&answer)), (403, BTreeSet::new()));
    // Who sends no origin is answered as ever.
    let answer =
        ask(&gateway, &Method::OPTIONS, API, &[("access-control-request-method", "GET")]).await;
    assert_eq!((answer.status().as_u16(), shared(&answer)), (405, BTreeSet::new()));
    // Pages for people are read by nobody else's.
    for path in ["/", "/clawgate/"] {
        let answer = ask(&gateway, &Method::GET, path, &[("origin", LISTED)]).await;
        assert_eq!((answer.status().as_u16(), shared(&answer)), (200, BTreeSet::new()), "{path}");
    }
}

#[tokio::test]
async fn a_star_shares_with_all_and_never_with_cookies() {
    let gateway = gateway(&json!(["*"])).await;
    let bearer = format!("Bearer {SECRET}");
    for path in [API, WITH_COOKIE] {
        let headers = [("origin", FOREIGN), ("authorization", bearer.as_str())];
        for answer in [
            ask(&gateway, &Method::GET, path, &headers).await,
            preflight(&gateway, path, FOREIGN).await,
        ] {
            assert!(answer.status().is_success(), "{path}");
            assert_eq!(header(&answer, "access-control-allow-origin"), Some(FOREIGN), "{path}");
            assert_eq!(header(&answer, "vary"), Some("origin"), "{path}");
            assert_eq!(header(&answer, "access-control-allow-credentials"), None, "{path}");
        }
    }
    // Nor does it make a request meant that a page has had a browser send.
    let cookie = format!("access_token={SECRET}");
    let path = format!("{WITH_COOKIE}/none/archive");
    for (origin, status) in [(FOREIGN, 403), (NEIGHBOUR, 404)] {
        let headers = [("origin", origin), ("cookie", cookie.as_str())];
        assert_eq!(
            ask(&gateway, &Method::POST, &path, &headers).await.status(),
            status,
            "{origin}"
        );
    }
    let answer = ask(&gateway, &Method::GET, API, &[("origin", "null")]).await;
    assert_eq!((answer.status().as_u16(), shared(&answer)), (403, BTreeSet::new()));
}

#[tokio::test]
async fn where_no_page_is_listed_answers_are_as_the_original_has_them() {
    let gateway = gateway(&json!([])).await;
    let bearer = format!("Bearer {SECRET}");
    for headers in [
        &[("authorization", bearer.as_str())][..],
        &[("authorization", &bearer), ("origin", NEIGHBOUR)],
    ] {
        let answer = ask(&gateway, &Method::GET, API, headers).await;
        assert_eq!((answer.status().as_u16(), shared(&answer)), (200, BTreeSet::new()));
        assert_eq!(header(&answer, "vary"), None);
    }
}
