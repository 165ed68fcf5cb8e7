use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::config::web::SsrfConfig;
use crate::support::BoxFuture;

/// A server that answers each request with what `answer` makes of its head.
struct Server {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

/// What becomes of a connection after the answer.
#[derive(Clone, Copy)]
enum After {
    Close,
    Silence,
    Flood,
}

impl Server {
    async fn start(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::then(After::Close, answer).await
    }

    async fn then(after: After, answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        crate::support::Tasks::default().spawn("server", async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = vec![0; 8192];
                let read = stream.read(&mut head).await.unwrap_or(0);
                let head = String::from_utf8_lossy(&head[..read]).into_owned();
                let reply = answer(&head);
                seen.lock().push(head);
                let _ = stream.write_all(&reply).await;
                match after {
                    After::Close => {}
                    After::Silence => drop(stream.read(&mut [0; 1]).await),
                    After::Flood => while stream.write_all(&[b'x'; 4096]).await.is_ok() {},
                }
            }
        });
        Self { port, heads }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn requests(&self) -> usize {
        self.heads.lock().len()
    }
}

fn page(body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nSet-Cookie: a=b\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn redirect(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n")
        .into_bytes()
}

/// Answers of a name server, one after the other; the last one stays.
#[derive(Default)]
struct Names {
    known: HashMap<String, Vec<Vec<IpAddr>>>,
    asked: AtomicUsize,
}

impl Names {
    fn of(name: &str, answers: &[&[&str]]) -> Arc<Self> {
        let parse = |answer: &&[&str]| answer.iter().map(|ip| ip.parse().unwrap()).collect();
        let known = HashMap::from([(name.to_owned(), answers.iter().map(parse).collect())]);
        Arc::new(Self { known, asked: AtomicUsize::new(0) })
    }
}

impl Lookup for Names {
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let nth = self.asked.fetch_add(1, Ordering::SeqCst);
        let answers = self.known.get(host);
        let answer = answers.and_then(|it| it.get(nth).or(it.last())).cloned();
        Box::pin(std::future::ready(answer.ok_or_else(|| io::Error::other("no such name"))))
    }
}

fn client(allowed: &[&str], names: Arc<Names>) -> GuardedClient {
    let config = SsrfConfig {
        allowed_hostnames: allowed.iter().map(|&name| name.to_owned()).collect(),
        ..SsrfConfig::default()
    };
    GuardedClient::new(Policy::new(&config), names, Proxies::default(), Arc::default())
}

fn request(url: &str) -> PageRequest<'_> {
    let limit = Duration::from_secs(10);
    PageRequest { url, user_agent: "test", redirects: 3, max_bytes: 1000, limit }
}

async fn get(client: &GuardedClient, url: &str) -> Result<String, FetchError> {
    let fetched = client.get(&request(url)).await?;
    Ok(String::from_utf8(fetched.body.bytes).unwrap())
}

#[tokio::test]
async fn only_the_headers_of_a_reader_are_sent_and_no_cookie_comes_back() {
    let server =
        Server::start(|head| if head.contains("/one") { redirect("/two") } else { page("here") })
            .await;
    let client = client(&["127.0.0.1"], Arc::default());
    assert_eq!(get(&client, &server.url("/one")).await.unwrap(), "here");
    let heads = server.heads.lock();
    assert_eq!(heads.len(), 2);
    for head in &*heads {
        let mut names: Vec<_> =
            head.lines().filter_map(|line| Some(line.split_once(": ")?.0.to_lowercase())).collect();
        names.sort();
        assert_eq!(names, ["accept", "accept-language", "host", "user-agent"], "{head}");
    }
}

#[tokio::test]
async fn each_redirect_is_checked_like_the_first_address() {
    for target in [
        "http://localhost/",
        "http://127.0.0.1:1/",
        "//127.0.0.1:1/",
        "http://0x7f000001/",
        "http://[::ffff:127.0.0.1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://user:pass@example.com/",
        "file:///etc/passwd",
        "ftp://example.com/",
        "javascript:alert(1)",
    ] {
        let server = Server::start(move |head| {
            redirect(if head.contains("/first") { "/second" } else { target })
        })
        .await;
        let allowed = format!("127.0.0.1:{}", server.port);
        let client = client(&[&allowed], Arc::default());
        let error = get(&client, &server.url("/first")).await.unwrap_err();
        let is_refused = matches!(error, FetchError::Blocked { .. } | FetchError::Invalid(_));
        assert!(is_refused, "{target}: {error:?}");
        assert_eq!(server.requests(), 2, "{target}");
    }
}

#[tokio::test]
async fn a_name_is_looked_up_once_and_the_address_that_was_checked_is_asked() {
    let server = Server::start(|_| page("secret")).await;
    // Public when it is checked, private when it is asked for again.
    let names = Names::of("rebind.example", &[&["192.0.0.9", "203.0.113.9"], &["127.0.0.1"]]);
    let blocked = client(&[], Arc::clone(&names));
    let url = format!("http://rebind.example:{}/", server.port);
    assert!(matches!(get(&blocked, &url).await, Err(FetchError::Blocked { .. })));
    assert_eq!(names.asked.load(Ordering::SeqCst), 1);
    let error = get(&blocked, &url).await.unwrap_err();
    assert!(matches!(error, FetchError::Blocked { .. }), "{error:?}");
    assert_eq!(server.requests(), 0);

    // The first answer holds for the connection, though the next one differs.
    let names = Names::of("site.example", &[&["127.0.0.1"], &["203.0.113.1"]]);
    let allowed = client(&["site.example"], Arc::clone(&names));
    let url = format!("http://site.example:{}/", server.port);
    assert_eq!(get(&allowed, &url).await.unwrap(), "secret");
    assert_eq!((names.asked.load(Ordering::SeqCst), server.requests()), (1, 1));
}

#[tokio::test]
async fn one_private_address_among_public_ones_is_enough_to_refuse_a_name() {
    for answer in [
        &["8.8.8.8", "127.0.0.1"][..],
        &["10.0.0.1"],
        &["2606:4700::1", "::1"],
        &["::ffff:8.8.8.8"],
        &["64:ff9b::7f00:1"],
    ] {
        let client = client(&[], Names::of("mixed.example", &[answer]));
        let error = get(&client, "http://mixed.example/").await.unwrap_err();
        assert!(matches!(error, FetchError::Blocked { .. }), "{answer:?}: {error:?}");
    }
    let client = client(&[], Names::of("empty.example", &[&[]]));
    for url in ["http://empty.example/", "http://unknown.example/"] {
        assert!(matches!(get(&client, url).await, Err(FetchError::Unknown { .. })), "{url}");
    }
}

#[tokio::test]
async fn a_redirect_to_a_name_that_is_private_is_refused() {
    let server = Server::start(|_| redirect("http://inner.example/")).await;
    let names = Names::of("inner.example", &[&["10.0.0.7"]]);
    let client = client(&[&format!("127.0.0.1:{}", server.port)], names);
    let error = get(&client, &server.url("/")).await.unwrap_err();
    assert_eq!(error, FetchError::Blocked { host: "inner.example".into() });
}

#[tokio::test]
async fn a_redirect_may_have_letters_that_are_not_encoded() {
    let target = |head: &str| head.contains("/first").then(|| redirect("/café"));
    let server = Server::start(move |head| target(head).unwrap_or_else(|| page("here"))).await;
    let client = client(&["127.0.0.1"], Arc::default());
    assert_eq!(get(&client, &server.url("/first")).await.unwrap(), "here");
    let heads = server.heads.lock();
    assert!(heads[1].starts_with("GET /caf%C3%A9 "), "{heads:?}");
}

#[tokio::test]
async fn redirects_without_end_or_target_end() {
    let nowhere = b"HTTP/1.1 301 Moved\r\nContent-Length: 0\r\n\r\n";
    let server = Server::start(|head| {
        if head.contains("/nowhere") { nowhere.to_vec() } else { redirect("/again") }
    })
    .await;
    let client = client(&["127.0.0.1"], Arc::default());
    let error = get(&client, &server.url("/")).await.unwrap_err();
    assert_eq!(error, FetchError::Redirects(3));
    assert_eq!(server.requests(), 4);
    let error = get(&client, &server.url("/nowhere")).await.unwrap_err();
    assert_eq!(error, FetchError::NoTarget(301));
}

#[tokio::test]
async fn an_answer_is_cut_at_its_bound_and_not_waited_for_any_longer() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n";
    let endless = Server::then(After::Flood, move |_| head.as_bytes().to_vec()).await;
    let client = client(&["127.0.0.1"], Arc::default());
    let url = endless.url("/");
    let fetched = client.get(&request(&url)).await.unwrap();
    assert_eq!((fetched.body.bytes.len(), fetched.body.is_cut), (1000, true));
}

#[tokio::test]
async fn a_server_that_is_slow_is_given_up() {
    let half = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nhalf".to_vec();
    for begin in [Vec::new(), half] {
        let server = Server::then(After::Silence, move |_| begin.clone()).await;
        let client = client(&["127.0.0.1"], Arc::default());
        let url = server.url("/");
        let limit = Duration::from_millis(200);
        let error = client.get(&PageRequest { limit, ..request(&url) }).await.unwrap_err();
        assert_eq!(error, FetchError::Slow(limit));
    }
}

#[tokio::test]
async fn an_answer_that_breaks_is_an_error() {
    let server =
        Server::start(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nhalf".to_vec()).await;
    let client = client(&["127.0.0.1"], Arc::default());
    let error = get(&client, &server.url("/")).await.unwrap_err();
    assert!(matches!(error, FetchError::Connection(_)), "{error:?}");
}

#[tokio::test]
async fn a_proxy_is_asked_only_when_the_configuration_says_so() {
    let proxy = Server::start(|_| page("from the proxy")).await;
    let url = format!("http://127.0.0.1:{}", proxy.port);
    let env = Env::fixed([("HTTP_PROXY", url.as_str()), ("NO_PROXY", "*")], "/");
    let proxied = GuardedClient::new(
        Policy::default(),
        Arc::<Names>::default(),
        Proxies::of_environment(&env),
        Arc::default(),
    );
    // It looks names up itself, but what is private by its name stays so.
    assert_eq!(get(&proxied, "http://public.example/x").await.unwrap(), "from the proxy");
    assert!(proxy.heads.lock()[0].starts_with("GET http://public.example/x "));
    for url in ["http://127.0.0.1/", "http://localhost/", "http://a.internal/"] {
        assert!(matches!(get(&proxied, url).await, Err(FetchError::Blocked { .. })), "{url}");
    }
    assert_eq!(proxy.requests(), 1);
}
