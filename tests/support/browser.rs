//! A real browser: Chromium without a window, driven by `tests/node/browser.mjs`.
//!
//! What it shall do is a module of steps in JavaScript; see there for what they
//! get. It reaches this machine only.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

use super::{debian, node};

/// How long the steps may take, the start of the browser not counted: they take
/// seconds, but a browser is slow where the machine is busy.
const STEPS_LIMIT: Duration = Duration::from_secs(180);
/// How long all of it may take.
const LIMIT: Duration = Duration::from_secs(300);
/// What the browser is called by distributions. The first one is the engine of the others
/// without what draws windows around pages, and needs two thirds of their time.
const PROGRAMS: [&str; 4] =
    ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/// What a browser is to know before it opens anything.
#[derive(Default)]
pub struct Browser {
    pages: Map<String, Value>,
    names: Vec<String>,
    trusted: Vec<PathBuf>,
}

impl Browser {
    /// One that knows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a page at an address that nobody serves: it has that origin.
    #[must_use]
    pub fn page(mut self, url: &str, html: &str) -> Self {
        self.pages.insert(url.to_owned(), html.into());
        self
    }

    /// With a name that leads to this machine.
    #[must_use]
    pub fn name(mut self, host: &str) -> Self {
        self.names.push(host.to_owned());
        self
    }

    /// With a certificate that it believes.
    #[must_use]
    pub fn trusts(mut self, certificate: &Path) -> Self {
        self.trusted.push(certificate.to_owned());
        self
    }

    /// Runs the steps of a module (a path from the root of the sources) in a fresh
    /// browser; what they return.
    pub async fn run(&self, steps: &str, args: Value) -> Value {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let wanted = json!({
            "chromium": debian::installed(&PROGRAMS, "chromium"), "steps": root.join(steps),
            "args": args, "pages": self.pages, "names": self.names, "trusted": self.trusted,
            "limitMs": u64::try_from(STEPS_LIMIT.as_millis()).unwrap(),
        });
        node::package("playwright-core");
        let mut driver = Command::new("node")
            .arg(root.join("tests/node/browser.mjs"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("node 20 or newer must be on PATH");
        let mut stdin = driver.stdin.take().unwrap();
        stdin.write_all(wanted.to_string().as_bytes()).await.unwrap();
        drop(stdin);
        let output = timeout(LIMIT, driver.wait_with_output()).await;
        let output = output.expect("the browser ends").unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{steps}: {stdout}{stderr}");
        serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{steps}: {stdout}{stderr}"))
    }
}
