//! One case: what is said, what has to be heard, how it ends.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::client::{Client, Heard};
use super::echo::EchoServer;
use super::frame::close;

enum Step {
    Says(Vec<u8>),
    Hears(Heard),
}

/// A connection from its beginning to its end.
pub struct Case {
    name: String,
    ahead: Vec<u8>,
    steps: Vec<Step>,
}

impl Case {
    /// One in which nothing happens yet.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ahead: Vec::new(), steps: Vec::new() }
    }

    /// The client writes this with its request for the WebSocket.
    pub fn says_ahead(self, ahead: Vec<u8>) -> Self {
        Self { ahead, ..self }
    }

    /// The client writes this at once.
    pub fn says(self, bytes: Vec<u8>) -> Self {
        self.step(Step::Says(bytes))
    }

    /// The client writes this in pieces of so many bytes.
    pub fn says_in(self, size: usize, bytes: impl AsRef<[u8]>) -> Self {
        bytes.as_ref().chunks(size).fold(self, |case, piece| case.says(piece.to_vec()))
    }

    /// This has to come next.
    pub fn hears(self, heard: Heard) -> Self {
        self.step(Step::Hears(heard))
    }

    /// A text has to come next.
    pub fn hears_text(self, text: impl AsRef<[u8]>) -> Self {
        self.hears(Heard::Text(text.as_ref().to_vec()))
    }

    /// The client closes, and is answered the same.
    pub fn parts(self) -> Self {
        self.says(close(1000, "")).closes(Some(1000))
    }

    /// The connection is closed by the gateway, or its answer to a close frame comes.
    pub fn closes(self, code: Option<u16>) -> Self {
        self.hears(Heard::Close(code)).hears(Heard::End)
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    fn run(self, server: &EchoServer) {
        let mut client = Client::open(server.address(), &self.ahead);
        for step in self.steps {
            match step {
                Step::Says(bytes) => client.write(&bytes).unwrap(),
                Step::Hears(wanted) => {
                    let heard = client.hear();
                    assert!(heard == wanted, "{} instead of {}", told(&heard), told(&wanted));
                }
            }
        }
    }
}

/// Runs all of them; one that fails does not keep the others from it.
pub fn run(cases: impl IntoIterator<Item = Case>) {
    let server = EchoServer::start();
    let mut failed = Vec::new();
    for case in cases {
        let name = case.name.clone();
        if catch_unwind(AssertUnwindSafe(|| case.run(&server))).is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "these cases failed, each for what is said above: {failed:#?}");
}

/// What was heard, if it is not too long to be shown.
fn told(heard: &Heard) -> String {
    const SHOWN: usize = 200;
    let text = format!("{heard:?}");
    if text.len() <= SHOWN {
        text
    } else {
        format!("{} … ({} bytes)", &text[..SHOWN], text.len())
    }
}
