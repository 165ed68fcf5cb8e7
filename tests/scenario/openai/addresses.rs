//! Pictures that a request names by their address.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::chat::{DOT, row_of, told};
use super::{answer, client, offering_with, post};
use crate::stage::{admin, call, serve};
use crate::support::guest::Guest;

const PATH: &str = "/v1/chat/completions";

#[tokio::test]
async fn who_is_removed_while_his_picture_is_fetched_has_said_nothing() {
    let pictures = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = pictures.local_addr().unwrap().to_string();
    let (gateway, mock) = offering_with(|config| {
        let endpoint = &mut config["gateway"]["http"]["endpoints"]["chatCompletions"];
        endpoint["images"] = json!({"allowUrl": true});
        config["tools"]["web"]["fetch"]["ssrfPolicy"] = json!({"allowedHostnames": [place]});
    })
    .await;
    let guest = Guest::new("guest", &["operator.write"]);
    let token = guest.token(&gateway).await;
    let key = "agent:main:of-the-guest";
    let body = json!({"model": "openclaw", "messages": [{"role": "user", "content": [
        {"type": "text", "text": "@mock text text=\"seen\""},
        {"type": "image_url", "image_url": {"url": format!("http://{place}/a.png")}}]}]});
    let request = client().post(format!("http://{}{PATH}", gateway.address())).bearer_auth(token);
    let request = request.header("x-openclaw-session-key", key).body(body.to_string());
    let mut asking = JoinSet::new();
    asking.spawn(answer(request.header("content-type", "application/json")));

    let (mut fetching, _) = pictures.accept().await.unwrap();
    let mut operator = admin(&gateway).await;
    call(&mut operator, "device.pair.remove", json!({"deviceId": guest.id()})).await;
    let picture = STANDARD.decode(DOT).unwrap();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: {}\r\n\r\n",
        picture.len()
    );
    // Nobody need be there to read it.
    let _ = fetching.write_all(&[head.as_bytes(), &picture].concat()).await;
    let (status, whole) = asking.join_next().await.unwrap().unwrap();
    assert_eq!(status, 401, "{whole}");
    assert_eq!(row_of(&mut operator, key).await, json!(null));
    assert_eq!(mock.requests().len(), 0);
}

/// A server of pictures: one that is there, and one that is at `localhost`, which is
/// another host. What it was asked for comes out of the channel.
async fn pictures() -> (u16, JoinSet<()>, mpsc::UnboundedReceiver<String>) {
    let (asked, all_asked) = mpsc::unbounded_channel();
    let app = Router::new().fallback(move |request: Request| {
        let asked = asked.clone();
        async move {
            let (host, path) = (request.headers()["host"].to_str().unwrap(), request.uri().path());
            asked.send(format!("{host}{path}")).unwrap();
            let away = format!("http://{}/a.png", host.replace("127.0.0.1", "localhost"));
            let answer = Response::builder().header("content-type", "image/png");
            let answer = match path {
                "/away.png" => answer.status(302).header("location", away),
                _ => answer,
            };
            answer.body(Body::from(STANDARD.decode(DOT).unwrap())).unwrap()
        }
    });
    let (port, server) = serve(app).await;
    (port, server, all_asked)
}

#[tokio::test]
async fn pictures_come_from_the_hosts_of_a_list_and_from_no_other() {
    let (port, _server, mut asked) = pictures().await;
    let (gateway, mock) = offering_with(|config| {
        let endpoints = &mut config["gateway"]["http"]["endpoints"];
        let images = json!({"allowUrl": true, "urlAllowlist": ["127.0.0.1", "*.example.com"]});
        endpoints["chatCompletions"]["images"] = images.clone();
        endpoints["responses"]["images"] = images;
        endpoints["responses"]["maxUrlParts"] = json!(1);
        config["tools"]["web"]["fetch"]["ssrfPolicy"] =
            json!({"allowedHostnames": ["127.0.0.1", "localhost"]});
    })
    .await;
    let shows = |url: &str| {
        json!({"model": "openclaw", "messages": [{"role": "user", "content": [
            {"type": "text", "text": "@mock text text=\"seen\""},
            {"type": "image_url", "image_url": {"url": url}}]}]})
    };
    let here = format!("http://127.0.0.1:{port}");
    let (status, whole) = answer(post(&gateway, PATH, &shows(&format!("{here}/a.png")))).await;
    assert_eq!(status, 200, "{whole}");
    assert!(told(&mock).1.contains(DOT));
    assert_eq!(asked.recv().await.unwrap(), format!("127.0.0.1:{port}/a.png"));
    for (url, why) in [
        (format!("http://localhost:{port}/a.png"), "no picture is fetched from this host"),
        (format!("{here}/away.png"), "the picture cannot be fetched"),
    ] {
        let (status, whole) = answer(post(&gateway, PATH, &shows(&url))).await;
        let text = whole["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 400 && text.contains(why), "{url}: {whole}");
    }
    assert_eq!(asked.recv().await.unwrap(), format!("127.0.0.1:{port}/away.png"));

    let picture = json!({"type": "input_image", "image_url": format!("{here}/a.png")});
    let input = json!([{"role": "user", "content": [picture, picture]}]);
    let two = json!({"model": "openclaw", "input": input});
    let (status, whole) = answer(post(&gateway, "/v1/responses", &two)).await;
    let text = whole["error"]["message"].as_str().unwrap_or_default();
    assert!(status == 400 && text.starts_with("at most 1 pictures and files"), "{whole}");
    assert!(asked.is_empty(), "nothing else was asked for");
}
