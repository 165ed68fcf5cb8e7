//! The pages of the Control UI.

use std::fs;
use std::os::unix::fs::symlink;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{get, header, http, with_ui, without_ui};
use crate::support::Gateway;
use crate::support::control_ui::{PAGE, write_control_ui};

const POLICY: &str = "default-src 'self'; base-uri 'none'; object-src 'none'; \
    frame-ancestors 'none'; script-src 'self'; style-src 'self' 'unsafe-inline' \
    https://fonts.googleapis.com; img-src 'self' data: blob:; font-src 'self' \
    https://fonts.gstatic.com; worker-src 'self'; connect-src 'self' ws: wss: \
    https://api.openai.com";

fn policy_for(script: &str) -> String {
    let hash = STANDARD.encode(Sha256::digest(script));
    POLICY.replace("script-src 'self'", &format!("script-src 'self' 'sha256-{hash}'"))
}

/// The answer to a path that no client would send as it is.
async fn raw(gateway: &Gateway, path: &str) -> String {
    let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    tcp.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    tcp.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn the_page_and_its_files_come_with_the_recorded_headers() {
    let gateway = with_ui(json!({})).await;
    let inline = "\n      window.theme = \"dark\";\n    ";
    for view in ["/", "/index.html", "/chat", "/usage", "/nothing/here", "/chat?session=main"] {
        let page = get(&gateway, view).await;
        assert_eq!(page.status(), 200, "{view}");
        assert_eq!(header(&page, "content-type"), "text/html; charset=utf-8");
        assert_eq!(header(&page, "cache-control"), "no-cache");
        assert_eq!(header(&page, "content-security-policy"), policy_for(inline));
        assert_eq!(page.text().await.unwrap(), PAGE);
    }
    for (path, kind, kept) in [
        ("/favicon.svg", "image/svg+xml", "no-cache"),
        ("/sw.js", "application/javascript; charset=utf-8", "no-cache"),
        ("/manifest.webmanifest", "application/manifest+json; charset=utf-8", "no-cache"),
        (
            "/assets/index-NYVkUQrq.js",
            "application/javascript; charset=utf-8",
            "public, max-age=31536000, immutable",
        ),
        (
            "/chat/assets/index-DyaZOQpm.css",
            "text/css; charset=utf-8",
            "public, max-age=31536000, immutable",
        ),
    ] {
        let file = get(&gateway, path).await;
        assert_eq!(file.status(), 200, "{path}");
        assert_eq!((header(&file, "content-type"), header(&file, "cache-control")), (kind, kept));
        assert_eq!(header(&file, "content-security-policy"), POLICY);
        assert_eq!(header(&file, "x-frame-options"), "DENY");
    }
    let script = get(&gateway, "/assets/index-NYVkUQrq.js").await.text().await.unwrap();
    let on_disk = gateway.state_dir().join("control-ui/assets/index-NYVkUQrq.js");
    assert!(script == fs::read_to_string(on_disk).unwrap(), "a large file comes whole");
    let missing = get(&gateway, "/assets/nope.js").await;
    assert_eq!((missing.status().as_u16(), header(&missing, "x-frame-options")), (404, "DENY"));
    assert_eq!(missing.text().await.unwrap(), "Not Found");
}

#[tokio::test]
async fn every_answer_has_the_headers_that_bound_what_a_browser_does_with_it() {
    let gateway = with_ui(json!({})).await;
    for path in ["/", "/sw.js", "/assets/nope.js", "/api/x", "/plugins/x", "/__openclaw__/x"] {
        let answer = get(&gateway, path).await;
        assert_eq!(header(&answer, "x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header(&answer, "referrer-policy"), "no-referrer", "{path}");
        let devices = "camera=(), microphone=(self), geolocation=()";
        assert_eq!(header(&answer, "permissions-policy"), devices, "{path}");
        assert_eq!(header(&answer, "access-control-allow-origin"), "", "{path}");
    }
}

#[tokio::test]
async fn paths_of_apis_are_no_page_and_the_page_takes_nothing() {
    let gateway = with_ui(json!({})).await;
    for path in ["/api", "/api/x", "/plugins/x", "/ui", "/healthz/x", "/__openclaw__/canvas/"] {
        assert_eq!(get(&gateway, path).await.status(), 404, "{path}");
    }
    for path in ["/chat", "/v1/chat/completions", "/sw.js"] {
        let url = format!("http://{}{path}", gateway.address());
        assert_eq!(http().post(url).send().await.unwrap().status(), 404, "{path}");
    }
}

#[tokio::test]
async fn what_a_browser_has_is_not_sent_again_until_it_changes() {
    let gateway = with_ui(json!({})).await;
    for path in ["/", "/sw.js", "/assets/index-DyaZOQpm.css"] {
        let url = format!("http://{}{path}", gateway.address());
        let tag = header(&get(&gateway, path).await, "etag").to_owned();
        let again = http().get(&url).header("If-None-Match", format!("\"x\", W/{tag}"));
        let again = again.send().await.unwrap();
        assert_eq!((again.status().as_u16(), header(&again, "etag")), (304, &*tag), "{path}");
        assert!(!header(&again, "content-security-policy").is_empty());
        let head = http().head(&url).send().await.unwrap();
        assert_eq!((head.status().as_u16(), header(&head, "etag")), (200, &*tag), "{path}");
        let length: usize = header(&head, "content-length").parse().unwrap();
        assert_eq!(length, get(&gateway, path).await.bytes().await.unwrap().len());
        assert!(head.bytes().await.unwrap().is_empty());
    }
    let folder = gateway.state_dir().join("control-ui");
    let before = header(&get(&gateway, "/sw.js").await, "etag").to_owned();
    let other = folder.join("sw.js.new");
    fs::write(&other, "// another\n").unwrap();
    fs::rename(other, folder.join("sw.js")).unwrap();
    let now = get(&gateway, "/sw.js").await;
    assert_ne!(header(&now, "etag"), before);
    assert_eq!(now.text().await.unwrap(), "// another\n");
}

#[tokio::test]
async fn no_path_and_no_link_leads_out_of_the_folder() {
    let gateway = with_ui(json!({})).await;
    let (state, folder) = (gateway.state_dir(), gateway.state_dir().join("control-ui"));
    fs::write(state.join("secret.txt"), "canary").unwrap();
    fs::create_dir_all(folder.join(".git")).unwrap();
    fs::write(folder.join(".git/config"), "canary").unwrap();
    fs::write(folder.join(".env"), "canary").unwrap();
    fs::create_dir(folder.join("empty.js")).unwrap();
    symlink(state.join("secret.txt"), folder.join("absolute.txt")).unwrap();
    symlink("../secret.txt", folder.join("relative.txt")).unwrap();
    symlink(&state, folder.join("assets/state")).unwrap();
    symlink("favicon.svg", folder.join("inside.svg")).unwrap();
    for path in [
        "/../secret.txt",
        "/assets/../../secret.txt",
        "/..%2fsecret.txt",
        "/%2e%2e/secret.txt",
        "/%2e%2e%2fsecret.txt",
        "/%252e%252e%252fsecret.txt",
        "/..\\secret.txt",
        "/..%5csecret.txt",
        "//secret.txt",
        "/x/assets/../secret.txt",
        "/assets/state/secret.txt",
        "/absolute.txt",
        "/relative.txt",
        "/.git/config",
        "/.env",
        "/./.env",
        "/.env/",
        "/%2eenv.txt",
        "/empty.js",
        "/secret.txt%00.svg",
    ] {
        let answer = raw(&gateway, path).await;
        let status = answer.split(' ').nth(1).unwrap_or_default().to_owned();
        assert!(["404", "400"].contains(&&*status), "{path}: {answer}");
        assert!(!answer.contains("canary"), "{path}");
    }
    // As the original, which reads such a path as a browser does.
    assert!(raw(&gateway, "/../../etc/passwd").await.ends_with(PAGE));
    assert_eq!(get(&gateway, "/inside.svg").await.status(), 200, "a link that stays inside");
}

#[tokio::test]
async fn a_folder_that_is_put_there_or_taken_away_counts_at_once() {
    let gateway = without_ui(json!({})).await;
    let browser = |path: &str| {
        let asked = http().get(format!("http://{}{path}", gateway.address()));
        asked.header("Accept", "text/html,application/xhtml+xml,*/*;q=0.8").send()
    };
    let sent_on = browser("/").await.unwrap();
    assert_eq!((sent_on.status().as_u16(), header(&sent_on, "location")), (302, "clawgate/"));
    assert!(get(&gateway, "/").await.text().await.unwrap().contains("is running"));
    assert_eq!(browser("/chat").await.unwrap().status(), 404);
    let folder = gateway.state_dir().join("control-ui");
    write_control_ui(&folder);
    assert_eq!(browser("/").await.unwrap().text().await.unwrap(), PAGE);
    assert_eq!(get(&gateway, "/chat").await.text().await.unwrap(), PAGE);
    fs::remove_dir_all(folder).unwrap();
    assert_eq!(browser("/").await.unwrap().status(), 302);
}

#[tokio::test]
async fn below_a_base_path_the_page_is_told_where_it_is() {
    let gateway = with_ui(json!({"basePath": "openclaw/"})).await;
    let moved = get(&gateway, "/openclaw?x=1").await;
    assert_eq!((moved.status().as_u16(), header(&moved, "location")), (302, "openclaw/?x=1"));
    let told = "<script>window.__OPENCLAW_CONTROL_UI_BASE_PATH__=\"/openclaw\"</script>";
    for path in ["/openclaw/", "/openclaw/chat"] {
        let page = get(&gateway, path).await;
        let policy = header(&page, "content-security-policy").to_owned();
        let script = "window.__OPENCLAW_CONTROL_UI_BASE_PATH__=\"/openclaw\"";
        let hash = STANDARD.encode(Sha256::digest(script));
        assert!(policy.contains(&hash), "{policy}");
        let expected = PAGE.replace("<head>", &format!("<head>{told}"));
        assert_eq!(page.text().await.unwrap(), expected);
    }
    assert_eq!(get(&gateway, "/openclaw/favicon.svg").await.status(), 200);
    for elsewhere in ["/chat", "/favicon.svg", "/openclawx"] {
        assert_eq!(get(&gateway, elsewhere).await.status(), 404, "{elsewhere}");
    }
    let asked = http().get(format!("http://{}/", gateway.address())).header("Accept", "text/html");
    let sent_on = asked.send().await.unwrap();
    assert_eq!((sent_on.status().as_u16(), header(&sent_on, "location")), (302, "openclaw/"));
    for own in ["/clawgate/", "/openclaw/clawgate/", "/openclaw/clawgate/js/app.js"] {
        let page = get(&gateway, own).await;
        assert_eq!(page.status(), 200, "{own}");
        assert!(header(&page, "content-security-policy").starts_with("default-src 'none'"));
    }
}

#[tokio::test]
async fn a_folder_of_ones_own_is_served_and_what_is_switched_off_is_not() {
    let place = tempfile::tempdir().unwrap();
    write_control_ui(place.path());
    let gateway = without_ui(json!({"root": place.path()})).await;
    assert_eq!(get(&gateway, "/chat").await.text().await.unwrap(), PAGE);
    let gateway = with_ui(json!({"enabled": false})).await;
    for path in ["/chat", "/index.html", "/favicon.svg"] {
        assert_eq!(get(&gateway, path).await.status(), 404, "{path}");
    }
}
