//! `@copilotkit/aimock`, a mock server of model APIs that others wrote, as a
//! child process. It checks what our own mock cannot: that we understand APIs
//! as somebody else reads their documentation.
//!
//! Its answers are in `aimock-fixtures.json`, found by a phrase in the last
//! user message: the first that fits, and messages in a row are one.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{get_json, node};

/// The running mock server; it is ended when this is dropped.
pub struct Aimock {
    child: Child,
    address: String,
}

impl Aimock {
    /// Starts it on a free port, with the answers of `aimock-fixtures.json`.
    pub fn start() -> Self {
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenario/aimock-fixtures.json");
        Self::start_with(Path::new(fixtures))
    }

    /// Starts it with the answers of this file.
    pub fn start_with(fixtures: &Path) -> Self {
        let mut child = Command::new("node")
            .arg(node::package("@copilotkit/aimock").join("dist/cli.js"))
            .args(["--port", "0", "--strict", "--validate-on-load", "--fixtures"])
            .arg(fixtures)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("node 20 or newer must be on PATH for the scenario tests");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = lines
            .find_map(|line| Some(line.split_once("listening on http://")?.1.trim().to_owned()))
            .expect("aimock says where it listens");
        // Its pipe must not fill up.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The requests it has got so far, oldest first.
    pub async fn requests(&self) -> Vec<Value> {
        let journal = get_json(&self.address, "/__aimock/journal").await;
        serde_json::from_value(journal).unwrap()
    }

    /// How many of its requests end with `phrase`: messages in a row are parts of one, or one
    /// text.
    pub async fn asked(&self, phrase: &str) -> usize {
        let requests = self.requests().await;
        let texts = requests.iter().filter_map(last_text);
        texts.filter(|text| text.ends_with(phrase)).count()
    }
}

fn last_text(request: &Value) -> Option<&str> {
    match &request["body"]["messages"].as_array()?.last()?["content"] {
        Value::Array(parts) => parts.last()?["text"].as_str(),
        content => content.as_str(),
    }
}

impl Drop for Aimock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
