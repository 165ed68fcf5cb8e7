//! What a stranger reads (CVE-2026-41335): `unauthenticated.txt` has the answer of every
//! route to a request that shows nothing, from this machine and from elsewhere. It is
//! made by asking, and read by people when it changes.

use clawgate::http::{Route, all_routes};
use reqwest::{Client, Method};

use crate::credentials::assert_was_read;
use crate::http_rights::{client, gateway, name, path};
use crate::support::{Gateway, MockProvider};

/// Nothing; and what a proxy says of somebody elsewhere.
const WAYS: [&[(&str, &str)]; 2] = [&[], &[("X-Forwarded-For", "203.0.113.9")]];
const UPTIME: &str = "\"uptimeMs\":";
/// Longer answers are pages and descriptions, which tell of nobody's gateway.
const LONG: usize = 300;
const HEAD: &str = "What everybody is told who shows nothing. Made by `CLAWGATE_UPDATE=1 cargo test \
    --test\nsecurity unauthenticated`; read what changes. The second line of a request is for one \
    that\na proxy passes on, where it is answered otherwise.\n";

/// Status and body, without what is another one in each gateway.
async fn answer(
    client: &Client,
    gateway: &Gateway,
    (route, method): (&Route, &Method),
    headers: &[(&str, &str)],
) -> String {
    let url = format!("http://{}{}", gateway.address(), path(route));
    let mut asked = client.request(method.clone(), url).body("{}");
    for (name, value) in headers {
        asked = asked.header(*name, *value);
    }
    let answer = asked.send().await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.text().await.unwrap();
    let body = body.replace(&format!(":{}", gateway.port()), ":<port>");
    let body = body.replace(env!("CARGO_PKG_VERSION"), "<version>");
    let body = match body.split_once(UPTIME) {
        Some((before, rest)) => {
            let behind = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before}{UPTIME}<ms>{behind}")
        }
        None => body,
    };
    format!("{status} {}", body.trim_end().replace('\n', "\\n")).trim_end().to_owned()
}

#[tokio::test]
async fn every_answer_to_who_shows_nothing_was_read() {
    let mock = MockProvider::start().await;
    let (first, second) = (gateway("token", &mock).await, gateway("password", &mock).await);
    let client = client();
    let mut page = HEAD.to_owned();
    for route in all_routes() {
        page.push_str(&format!("\n{}\n", name(route)));
        for method in route.methods {
            let mut told = Vec::new();
            for headers in WAYS {
                let asked = (route, method);
                let mut said = answer(&client, &first, asked, headers).await;
                // Nothing of the state, the settings or the users.
                let other = answer(&client, &second, asked, headers).await;
                assert_eq!(said, other, "{method} {}", name(route));
                if said.len() > LONG {
                    said = format!("{} (long, the same of every gateway)", &said[..3]);
                }
                told.push(said);
            }
            told.dedup();
            let method = method.as_str();
            page.push_str(&format!("    {method:<6} {}\n", told.join("\n           ")));
        }
    }
    assert_was_read("unauthenticated.txt", &page);
}
