//! Files that a chat shows, for players that seek and browsers that have them
//! already (RFC 9110 §13, §14).

use std::fs;
use std::path::PathBuf;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response};

use crate::support::{Gateway, GatewayOptions, SECRET, default_config};

const MIB: usize = 1024 * 1024;
/// How much more memory a file of any size may need, in KiB.
const ROOM_KIB: u64 = 8 * 1024;

async fn gateway() -> (Gateway, PathBuf) {
    let gateway = Gateway::start(GatewayOptions::with_config(default_config("127.0.0.1:9"))).await;
    let folder = gateway.state_dir().join("media/inbound");
    fs::create_dir_all(&folder).unwrap();
    (gateway, folder)
}

async fn ask(gateway: &Gateway, method: Method, path: &str, lines: &[(&str, &str)]) -> Response {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let headers: HeaderMap = lines
        .iter()
        .map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        })
        .collect();
    let asked = client.request(method, format!("http://{}{path}", gateway.address()));
    asked.bearer_auth(SECRET).headers(headers).send().await.unwrap()
}

fn header<'a>(answer: &'a Response, name: &str) -> &'a str {
    answer.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn a_player_seeks_in_a_large_film_and_gets_no_byte_of_another_one() {
    let (gateway, folder) = gateway().await;
    let film: Vec<u8> = (0..64 * MIB).map(|at| (at % 251) as u8).collect();
    fs::write(folder.join("film.mp4"), &film).unwrap();
    let path = "/__openclaw__/assistant-media?source=media://inbound/film.mp4";
    let size = film.len();
    let head = ask(&gateway, Method::HEAD, path, &[]).await;
    assert_eq!(head.status(), 200);
    assert_eq!(header(&head, "content-length"), size.to_string());
    assert_eq!(
        (header(&head, "accept-ranges"), header(&head, "content-type")),
        ("bytes", "video/mp4")
    );
    let tag = header(&head, "etag").to_owned();

    let before = gateway.resident_kib().unwrap();
    // As a player begins, seeks, and looks for the index at the end.
    for (range, from, to) in [
        ("bytes=0-", 0, size),
        ("bytes=50000000-60000000", 50_000_000, 60_000_001),
        ("bytes=-1000", size - 1000, size),
    ] {
        let lines = [("range", range), ("if-range", tag.as_str())];
        let part = ask(&gateway, Method::GET, path, &lines).await;
        assert_eq!(part.status(), 206, "{range}");
        assert_eq!(header(&part, "content-range"), format!("bytes {from}-{}/{size}", to - 1));
        assert_eq!(header(&part, "content-length"), (to - from).to_string());
        assert!(part.bytes().await.unwrap() == film[from..to], "{range}");
        let now = gateway.resident_kib().unwrap();
        assert!(now < before + ROOM_KIB, "{before} KiB became {now}");
    }
    let beyond = ask(&gateway, Method::GET, path, &[("range", "bytes=99999999999-")]).await;
    assert_eq!(beyond.status(), 416);
    assert_eq!(header(&beyond, "content-range"), format!("bytes */{size}"));

    // Another film in its place: the rest of the first one is not there any more.
    fs::write(folder.join("film.mp4"), "another one").unwrap();
    let lines = [("range", "bytes=3-"), ("if-range", tag.as_str())];
    let other = ask(&gateway, Method::GET, path, &lines).await;
    assert_eq!(other.status(), 200);
    assert_eq!(other.text().await.unwrap(), "another one");
}

#[tokio::test]
async fn what_has_not_changed_is_not_sent_again() {
    let (gateway, _) = gateway().await;
    let png = b"\x89PNG\r\n\x1a\n....";
    fs::create_dir_all(gateway.workspace()).unwrap();
    fs::write(gateway.workspace().join("me.png"), png).unwrap();
    fs::write(gateway.workspace().join("IDENTITY.md"), "- **Avatar:** me.png\n").unwrap();
    let shown = gateway.workspace().join("me.png").display().to_string();
    let media = format!("/__openclaw__/assistant-media?source={shown}");
    for path in ["/avatar/main", &media] {
        let first = ask(&gateway, Method::GET, path, &[]).await;
        assert_eq!(first.status(), 200, "{path}");
        let (tag, date) =
            (header(&first, "etag").to_owned(), header(&first, "last-modified").to_owned());
        assert_eq!(first.bytes().await.unwrap(), png.as_slice());
        let again = ask(&gateway, Method::GET, path, &[("if-none-match", &tag)]).await;
        assert_eq!(again.status(), 304, "{path}");
        assert_eq!(
            (header(&again, "etag"), header(&again, "cache-control")),
            (tag.as_str(), "no-cache")
        );
        let other = ask(&gateway, Method::GET, path, &[("if-none-match", "\"x\"")]).await;
        assert_eq!(other.status(), 200, "{path}");
        if !date.is_empty() {
            let since = ask(&gateway, Method::GET, path, &[("if-modified-since", &date)]).await;
            assert_eq!(since.status(), 304, "{path}");
        }
        let part = ask(&gateway, Method::GET, path, &[("range", "bytes=1-3")]).await;
        assert_eq!(
            (part.status().as_u16(), part.bytes().await.unwrap()),
            (206, "PNG".into()),
            "{path}"
        );
        let head = ask(&gateway, Method::HEAD, path, &[]).await;
        assert_eq!(header(&head, "content-length"), png.len().to_string(), "{path}");
    }
}
