//! A real browser: Chromium without a window, driven by `tests/node/browser.mjs`.
//!
//! What it shall do is a module of steps in JavaScript; see there for what they
//! get. Tests of one process share one, where they do not ask it to know more than others. It
//! reaches this machine only.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{debian, node};

/// How long the steps may take, the start of a browser not counted: they take
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

    /// Runs the steps of a module (a path from the root of the sources) on a fresh page,
    /// which has nothing in common with others; what they return.
    pub async fn run(&self, steps: &str, args: Value) -> Value {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let wanted = json!({
            "chromium": debian::installed(&PROGRAMS, "chromium"), "steps": root.join(steps),
            "args": args, "pages": self.pages, "names": self.names, "trusted": self.trusted,
            "limitMs": u64::try_from(STEPS_LIMIT.as_millis()).unwrap(),
        });
        let answer = timeout(LIMIT, Driver::get().ask(wanted)).await;
        let answer = answer.unwrap_or_else(|_| panic!("{steps}: no answer in {LIMIT:?}"));
        let mut answer = answer.unwrap_or_else(|_| panic!("{steps}: the driver has ended"));
        let said = &answer["said"];
        assert!(answer["error"].is_null(), "{steps}: {}\n{said:#}", answer["error"]);
        answer["result"].take()
    }
}

/// Drives the browser of all tests in this process, and ends with it: its standard input does.
struct Driver {
    stdin: Mutex<ChildStdin>,
    waiting: Arc<Waiting>,
}

/// Those who wait for the answer with an id.
#[derive(Default)]
struct Waiting {
    next: AtomicU64,
    senders: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
}

impl Driver {
    fn get() -> &'static Self {
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        DRIVER.get_or_init(Self::start)
    }

    fn start() -> Self {
        node::package("playwright-core");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node/browser.mjs");
        let mut child = Command::new("node")
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node 20 or newer must be on PATH");
        let stdin = Mutex::new(child.stdin.take().unwrap());
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let waiting = Arc::new(Waiting::default());
        let told = Arc::clone(&waiting);
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let answer: Value = serde_json::from_str(&line).unwrap();
                let sender = answer["id"].as_u64().and_then(|id| told.senders.lock().remove(&id));
                let _ = sender.unwrap().send(answer);
            }
            told.senders.lock().clear();
            child.wait().unwrap();
        });
        Self { stdin, waiting }
    }

    /// The answer to it; an error where the driver has ended.
    fn ask(&self, mut wanted: Value) -> oneshot::Receiver<Value> {
        let id = self.waiting.next.fetch_add(1, Ordering::Relaxed);
        wanted["id"] = id.into();
        let (sender, answer) = oneshot::channel();
        self.waiting.senders.lock().insert(id, sender);
        if self.stdin.lock().write_all(format!("{wanted}\n").as_bytes()).is_err() {
            self.waiting.senders.lock().remove(&id);
        }
        answer
    }
}
