//! The samples of proxies in `config/` and `docs/deploy.md`, as they stand but
//! for ports and files, run by the real nginx and the real Caddy in front of a
//! gateway.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::stage::{Api, call, config, until};
use crate::support::client::{WsClient, standard_connect};
use crate::support::gateway::free_port;
use crate::support::tls::Way;
use crate::support::{Browser, Gateway, GatewayOptions, MockProvider, SECRET, debian};

/// What the samples call the gateway from outside.
const NAME: &str = "gateway.example.com";
/// Somebody who is not the proxy.
const CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const OTHER_CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const ANN: &str = "ann@example.com";
/// How long a proxy may take to open its port.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Which program runs the sample.
#[derive(Clone, Copy, Debug)]
enum Program {
    Nginx,
    Caddy,
}

/// Runs each scenario with both programs, as two tests.
macro_rules! with_both_programs {
    ($($scenario:ident;)*) => {
        mod nginx {
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario(super::Program::Nginx).await;
            })*
        }

        mod caddy {
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario(super::Program::Caddy).await;
            })*
        }
    };
}

with_both_programs! {
    a_page_behind_the_proxy_is_answered_under_any_path;
    our_own_page_works_below_a_path_once_its_browser_is_approved;
    a_large_file_gets_through;
    nobody_behind_the_proxy_is_local;
    the_address_of_a_client_is_what_the_configured_proxy_says;
    who_is_no_configured_proxy_is_not_believed;
    a_user_is_whom_the_proxy_names_and_nobody_else;
}

/// The files of a proxy that listens, in front of the gateway at a port.
struct Files {
    folder: TempDir,
    certificate: PathBuf,
    port: u16,
    gateway: u16,
}

impl Files {
    fn new(gateway: &Gateway) -> Self {
        let folder = TempDir::with_prefix("clawgate-proxy-").unwrap();
        let certificate = folder.path().join("cert.pem");
        let files = Self { folder, certificate, port: free_port(), gateway: gateway.port() };
        let pair = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        fs::write(&files.certificate, pair.cert.pem()).unwrap();
        fs::write(files.path("key.pem"), pair.signing_key.serialize_pem()).unwrap();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn shown(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The text with each of these in it replaced; all have to be there.
    fn adapted(&self, sample: &str, replacements: &[(&str, String)]) -> String {
        let port = ("127.0.0.1:18789", format!("127.0.0.1:{}", self.gateway));
        replacements.iter().chain([&port]).fold(sample.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from} is not in the sample");
            text.replace(from, to)
        })
    }

    /// A whole configuration with the sample in it, and how it is run.
    fn nginx(&self, sample: &str) -> Command {
        let site = self.adapted(
            sample,
            &[
                ("listen 443 ssl;", format!("listen 127.0.0.1:{} ssl;", self.port)),
                ("listen [::]:443 ssl;", String::new()),
                ("/etc/letsencrypt/live/gateway.example.com/fullchain.pem", self.shown("cert.pem")),
                ("/etc/letsencrypt/live/gateway.example.com/privkey.pem", self.shown("key.pem")),
            ],
        );
        fs::write(self.path("site.conf"), site).unwrap();
        let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let folders = folders.map(|it| format!("{it}_temp_path {};\n", self.shown(it))).concat();
        // One process, which is the one that the test ends.
        let text = format!(
            "daemon off;\nmaster_process off;\npid {};\nevents {{}}\nhttp {{\naccess_log off;\n\
             {folders}include {};\n}}\n",
            self.shown("nginx.pid"),
            self.shown("site.conf"),
        );
        fs::write(self.path("nginx.conf"), text).unwrap();
        let program = debian::unpacked("nginx", "nginx", "usr/sbin/nginx");
        let mut command = Command::new(program);
        command.arg("-e").arg("stderr").arg("-p").arg(self.folder.path());
        command.arg("-c").arg(self.path("nginx.conf"));
        command
    }

    fn caddy(&self, sample: &str) -> Command {
        let certificate = format!("\ttls {} {}\n", self.shown("cert.pem"), self.shown("key.pem"));
        let site = format!("{NAME}:{} {{\n\tbind 127.0.0.1\n{certificate}", self.port);
        let text = self.adapted(sample, &[("gateway.example.com {\n", site)]);
        // Nothing else is listened on.
        let global = "{\n\tadmin off\n\tauto_https disable_redirects\n}\n";
        fs::write(self.path("Caddyfile"), format!("{global}{text}")).unwrap();
        let mut command = Command::new(debian::unpacked("caddy", "caddy", "usr/bin/caddy"));
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(self.path("Caddyfile"));
        command.env("HOME", self.folder.path());
        command.env("XDG_DATA_HOME", self.folder.path()).env("XDG_CONFIG_HOME", self.folder.path());
        command
    }
}

/// A proxy that runs. Dropping it ends its process.
struct Proxy {
    files: Files,
    child: Child,
}

impl Proxy {
    async fn start(program: Program, sample: &str, gateway: &Gateway) -> Self {
        Self::start_with(Files::new(gateway), program, sample).await
    }

    async fn start_with(files: Files, program: Program, sample: &str) -> Self {
        let mut command = match program {
            Program::Nginx => files.nginx(sample),
            Program::Caddy => files.caddy(sample),
        };
        let log = fs::File::create(files.path("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let mut proxy = Self { child: command.spawn().unwrap(), files };
        let deadline = tokio::time::Instant::now() + START_LIMIT;
        while let Err(error) = proxy.way(CLIENT).connect().await {
            let ended = proxy.child.try_wait().unwrap().is_some();
            let is_late = tokio::time::Instant::now() > deadline;
            let log = fs::read_to_string(proxy.files.path("log")).unwrap();
            assert!(!ended && !is_late, "{program:?} does not start: {error}\n{log}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        proxy
    }

    /// The way of a client with this address.
    fn way(&self, from: Ipv4Addr) -> Way<'_> {
        Way { port: self.files.port, name: NAME, trusted: &self.files.certificate, from }
    }

    /// A WebSocket of a client with this address, which sends these headers.
    async fn open(&self, from: Ipv4Addr, headers: &[(&str, &str)]) -> WsClient {
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.way(from).open("/", &headers).await.unwrap()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn sample(program: Program) -> String {
    match program {
        Program::Nginx => read("config/nginx.conf"),
        Program::Caddy => read("config/Caddyfile"),
    }
}

/// A gateway with these settings over those of the tests.
async fn gateway(provider: &str, settings: Value) -> Gateway {
    let mut config = config(provider, Api::OpenAi);
    for (name, value) in settings.as_object().unwrap() {
        config["gateway"][name] = value.clone();
    }
    Gateway::start(GatewayOptions::with_config(config)).await
}

/// The settings that the comments of the samples show.
fn shown_settings() -> Value {
    json!({
        "trustedProxies": ["127.0.0.1"],
        "auth": {"mode": "token", "token": SECRET, "rateLimit": {"maxAttempts": 3}},
    })
}

async fn a_page_behind_the_proxy_is_answered_under_any_path(program: Program) {
    let mock = MockProvider::start().await;
    // The origin of a page has the port in it, which the proxy gets later.
    let settings = json!({"trustedProxies": ["127.0.0.1"], "controlUi": {"allowedOrigins": ["*"]}});
    let gateway = gateway(mock.address(), settings).await;
    let proxy = Proxy::start(program, &sample(program), &gateway).await;
    let browser = Browser::new().name(NAME).trusts(&proxy.files.certificate);
    for path in ["/", "/claw/", "/claw/socket"] {
        let told = browser
            .run(
                "tests/e2e/connect.mjs",
                json!({
                    // The page that the gateway itself has there.
                    "page": format!("https://{NAME}:{}/", proxy.files.port),
                    "socket": format!("wss://{NAME}:{}{path}", proxy.files.port),
                    "connect": {"clientType": "web", "token": SECRET},
                    "message": "good morning",
                }),
            )
            .await;
        assert_eq!(told["hello"]["ok"], true, "{path}: {told}");
        assert_eq!(told["text"], "Echo: good morning", "{path}: {told}");
    }
}

/// The sample with the gateway below a path, as `docs/deploy.md` says.
fn below_path(program: Program) -> String {
    let (from, to) = match program {
        Program::Nginx => (
            ["location / {", "proxy_pass http://127.0.0.1:18789;"],
            ["location /claw/ {", "proxy_pass http://127.0.0.1:18789/;"],
        ),
        Program::Caddy => (
            ["\treverse_proxy 127.0.0.1:18789\n", "#"],
            ["\thandle_path /claw/* {\n\t\treverse_proxy 127.0.0.1:18789\n\t}\n", "#"],
        ),
    };
    let sample = sample(program);
    from.iter().zip(to).fold(sample, |text, (from, to)| {
        assert!(text.contains(from), "{from} is not in the sample");
        text.replace(from, to)
    })
}

async fn our_own_page_works_below_a_path_once_its_browser_is_approved(program: Program) {
    let mock = MockProvider::start().await;
    let mut settings = shown_settings();
    // The origin of a page has the port in it, which the proxy gets later.
    settings["controlUi"] = json!({"allowedOrigins": ["*"]});
    let gateway = gateway(mock.address(), settings).await;
    let proxy = Proxy::start(program, &below_path(program), &gateway).await;
    let mut admin = gateway.open().await;
    admin.connect_standard(&["operator.admin", "operator.pairing"]).await;
    let approve = async {
        let request = until("a browser that waits", async || {
            let list = call(&mut admin, "device.pair.list", json!({})).await;
            Some(list["pending"].get(0)?["requestId"].clone())
        });
        let request = request.await;
        call(&mut admin, "device.pair.approve", json!({"requestId": request})).await;
    };
    let browser = Browser::new().name(NAME).trusts(&proxy.files.certificate);
    let at = format!("{NAME}:{}/claw/clawgate", proxy.files.port);
    let args = json!({"page": format!("https://{at}"), "token": SECRET});
    let (told, ()) = tokio::join!(browser.run("tests/e2e/below_path.mjs", args), approve);
    assert!(told["url"].as_str().unwrap().starts_with(&format!("https://{at}/")), "{told}");
    assert_eq!(told["sockets"], json!([format!("wss://{at}/")]), "{told}");
}

async fn a_large_file_gets_through(program: Program) {
    let gateway = gateway("127.0.0.1:9", shown_settings()).await;
    let proxy = Proxy::start(program, &sample(program), &gateway).await;
    let file = vec![b'x'; 5 * 1024 * 1024];
    let head = format!(
        "POST /api/chat/uploads?sessionKey=main&fileName=big.txt HTTP/1.1\r\nHost: {NAME}\r\n\
         Connection: close\r\nAuthorization: Bearer {SECRET}\r\nContent-Length: {}\r\n\r\n",
        file.len()
    );
    let mut tls = proxy.way(CLIENT).connect().await.unwrap();
    tls.write_all(head.as_bytes()).await.unwrap();
    // A proxy that refuses it need not read all of it.
    let _ = tls.write_all(&file).await;
    // What TLS has taken is not sent by itself.
    let _ = tls.flush().await;
    let mut answer = Vec::new();
    // Some programs end TLS without saying so.
    let _ = tls.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
}

async fn nobody_behind_the_proxy_is_local(program: Program) {
    let gateway = gateway("127.0.0.1:9", shown_settings()).await;
    let proxy = Proxy::start(program, &sample(program), &gateway).await;
    // The very same connects keep their scopes when they come directly.
    let mut direct = gateway.open().await;
    let hello = direct.connect_standard(&["operator.admin"]).await;
    assert_eq!(hello["payload"]["auth"]["scopes"], json!(["operator.admin"]), "{hello}");
    for headers in [&[][..], &[("X-Forwarded-For", "127.0.0.1")], &[("X-Forwarded-For", "")]] {
        let mut client = proxy.open(Ipv4Addr::LOCALHOST, headers).await;
        let hello = client.connect_standard(&["operator.admin"]).await;
        assert_eq!(hello["payload"]["auth"]["scopes"], json!([]), "{headers:?}: {hello}");
    }
}

/// Guesses the token; the code that refuses it.
async fn guess(client: &mut WsClient) -> String {
    let mut params = standard_connect(&["operator.read"]);
    params["auth"] = json!({"token": "guess"});
    let answer = client.request("connect", params).await;
    answer["error"]["details"]["code"].as_str().unwrap().to_owned()
}

/// Waits until the log says that somebody with this address was refused.
async fn is_refused_as(gateway: &Gateway, client: &str) {
    let told = format!("client={client} ");
    let found = async || {
        let log = gateway.stderr();
        log.lines()
            .any(|line| line.contains("connect refused") && line.contains(&told))
            .then_some(())
    };
    until(&format!("a refusal of {client}"), found).await;
}

async fn the_address_of_a_client_is_what_the_configured_proxy_says(program: Program) {
    let gateway = gateway("127.0.0.1:9", shown_settings()).await;
    let proxy = Proxy::start(program, &sample(program), &gateway).await;
    // Whatever it claims to be, its tries are its own.
    let claims: [&[(&str, &str)]; 3] = [
        &[],
        &[("X-Forwarded-For", "203.0.113.9")],
        &[("X-Forwarded-For", "203.0.113.10, 127.0.0.1"), ("X-Real-IP", "203.0.113.10")],
    ];
    for headers in claims {
        assert_eq!(guess(&mut proxy.open(CLIENT, headers).await).await, "AUTH_TOKEN_MISMATCH");
    }
    let headers = [("X-Forwarded-For", "203.0.113.11"), ("Forwarded", "for=203.0.113.11")];
    assert_eq!(guess(&mut proxy.open(CLIENT, &headers).await).await, "AUTH_RATE_LIMITED");
    is_refused_as(&gateway, "127.0.0.2").await;
    assert!(!gateway.stderr().contains("203.0.113."), "{}", gateway.stderr());
    // Somebody else has his own.
    assert_eq!(guess(&mut proxy.open(OTHER_CLIENT, &[]).await).await, "AUTH_TOKEN_MISMATCH");
    is_refused_as(&gateway, "127.0.0.3").await;
}

async fn who_is_no_configured_proxy_is_not_believed(program: Program) {
    let mut settings = shown_settings();
    settings["trustedProxies"] = json!(["127.0.0.9"]);
    let gateway = gateway("127.0.0.1:9", settings).await;
    let proxy = Proxy::start(program, &sample(program), &gateway).await;
    guess(&mut proxy.open(CLIENT, &[]).await).await;
    // It is the address of the proxy.
    is_refused_as(&gateway, "127.0.0.1").await;
    assert!(!gateway.stderr().contains("client=127.0.0.2"), "{}", gateway.stderr());
}

/// A service of logins: the cookie says who it is.
async fn logins(listener: TcpListener) {
    let mut answers = JoinSet::new();
    while let Ok((mut tcp, _)) = listener.accept().await {
        answers.spawn(async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(byte) = tcp.read_u8().await else { return };
                head.push(byte);
            }
            let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
            let answer = if head.contains("cookie: session=ann") {
                format!("200 OK\r\nX-Auth-Request-Email: {ANN}")
            } else {
                "401 Unauthorized".to_owned()
            };
            let answer =
                format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = tcp.write_all(answer.as_bytes()).await;
        });
    }
}

/// The sample of `docs/deploy.md` for Caddy; that of nginx with a login of its own.
fn sample_with_logins(program: Program, files: &Files, logins: u16) -> String {
    if matches!(program, Program::Nginx) {
        fs::write(files.path("users"), format!("{ANN}:{{PLAIN}}her password\n")).unwrap();
        let login = format!(
            "auth_basic \"clawgate\";\nauth_basic_user_file {};\n\
             proxy_set_header X-Forwarded-User $remote_user;",
            files.shown("users"),
        );
        let nobody = "proxy_set_header X-Forwarded-User \"\";";
        let sample = sample(program);
        assert!(sample.contains(nobody));
        return sample.replace(nobody, &login);
    }
    let page = read("docs/deploy.md");
    let blocks = page.split("```\n").filter(|block| block.contains("forward_auth 127.0.0.1:4180"));
    let [block] = blocks.collect::<Vec<_>>()[..] else { panic!("one sample with a login") };
    block.replace("127.0.0.1:4180", &format!("127.0.0.1:{logins}"))
}

async fn a_user_is_whom_the_proxy_names_and_nobody_else(program: Program) {
    let auth = json!({
        "mode": "trusted-proxy", "sharedSecretScopes": ["read", "write"],
        "trustedProxy": {
            "userHeader": "x-forwarded-user", "requiredHeaders": ["x-forwarded-proto"],
            "allowUsers": [ANN], "allowLoopback": true,
        },
    });
    let settings = json!({"trustedProxies": ["127.0.0.1"], "auth": auth});
    let gateway = gateway("127.0.0.1:9", settings).await;
    let connect = json!({"clientType": "web"});

    // The plain sample names nobody, whatever a client says.
    let spoofed = ("X-Forwarded-User", ANN);
    let plain = Proxy::start(program, &sample(program), &gateway).await;
    for headers in [&[spoofed][..], &[("x-forwarded-user", ANN)], &[]] {
        let answer = plain.open(CLIENT, headers).await.request("connect", connect.clone()).await;
        let reason = &answer["error"]["details"]["authReason"];
        assert_eq!(*reason, "trusted_proxy_user_missing", "{headers:?}: {answer}");
    }

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut service = JoinSet::new();
    service.spawn(logins(listener));
    let files = Files::new(&gateway);
    let with_logins = sample_with_logins(program, &files, port);
    let proxy = Proxy::start_with(files, program, &with_logins).await;
    let login = match program {
        // ann@example.com:her password
        Program::Nginx => ("Authorization", "Basic YW5uQGV4YW1wbGUuY29tOmhlciBwYXNzd29yZA=="),
        Program::Caddy => ("Cookie", "session=ann"),
    };
    let bob = ("X-Forwarded-User", "bob@example.com");
    for headers in [&[login][..], &[login, bob]] {
        let answer = proxy.open(CLIENT, headers).await.request("connect", connect.clone()).await;
        let scopes = &answer["payload"]["auth"]["scopes"];
        assert_eq!(*scopes, json!(["operator.read", "operator.write"]), "{answer}");
    }
    // Without a login a claim does not even reach the gateway.
    let claim = [(spoofed.0.to_owned(), spoofed.1.to_owned())];
    let refused = proxy.way(CLIENT).open("/", &claim).await.err().expect("refused");
    assert!(refused.contains("401"), "{refused}");
}
