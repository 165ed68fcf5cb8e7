//! The gateway, in this process, with a dialect that says again what it hears.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clawgate::app::{self, Signals, Sockets, Start};
use clawgate::bus::{Event, Subscriber};
use clawgate::config::{Env, Overrides};
use clawgate::dialects::Dialect;
use clawgate::gateway::{Frames, Opened, Speaker, Utf8Bytes};
use clawgate::http::{Manner, SocketEntry, SocketRoute};
use clawgate::support::BoxFuture;
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Where it is spoken.
pub const PATH: &str = "/echo";
/// How a binary message is said again: the gateway itself writes none.
const BINARY: &[u8] = b"\x01binary ";
/// A gateway that is slower than this to listen does not start.
const START_LIMIT: Duration = Duration::from_secs(30);

static DIALECTS: [&Dialect; 1] = [&ECHO];

/// It takes the place of a dialect that is on by default.
static ECHO: Dialect = Dialect {
    name: "chat",
    manner: Manner::Recorded,
    routes: &[],
    sockets: &[SocketRoute {
        path: PATH,
        entry: SocketEntry::Signed,
        open: |asked| {
            Box::pin(async move { Ok(Opened::new("echo", Echo(asked.subscriber(&[]).0))) })
        },
    }],
};

/// The bytes of a binary message that was said again as text.
pub fn binary_of(text: &[u8]) -> Option<Vec<u8>> {
    Some(STANDARD.decode(text.strip_prefix(BINARY)?).expect("an echo in base64"))
}

struct Echo(Arc<Subscriber>);

impl Speaker for Echo {
    /// Never, as far as a case is concerned: nobody waits for a ping here.
    fn ping_every(&self) -> Duration {
        Duration::from_hours(1)
    }

    fn subscriber(&self) -> &Arc<Subscriber> {
        &self.0
    }

    fn hear(&mut self, message: Utf8Bytes) -> Option<BoxFuture<'_, ()>> {
        self.0.outbox.answer(message.to_string());
        None
    }

    fn hear_binary(&mut self, message: Bytes) -> Option<BoxFuture<'_, ()>> {
        let mut text = String::from_utf8_lossy(BINARY).into_owned();
        STANDARD.encode_string(&message, &mut text);
        self.0.outbox.answer(text);
        None
    }

    fn render(&mut self, _: &Event, _: &mut Frames) {}
}

/// A gateway that echoes, on a thread of its own. It ends when it is dropped.
pub struct EchoServer {
    address: SocketAddr,
    ends: Option<DropGuard>,
    thread: Option<JoinHandle<()>>,
    _home: TempDir,
}

impl EchoServer {
    /// Starts it on a fresh state and a free port.
    pub fn start() -> Self {
        let home = TempDir::with_prefix("clawgate-echo-").unwrap();
        let state = home.path().join("state");
        std::fs::create_dir(&state).unwrap();
        let config = json!({"gateway": {
            "mode": "local", "bind": "loopback",
            "auth": {"mode": "token", "token": "echo-secret-0001"},
        }});
        std::fs::write(state.join("openclaw.json"), config.to_string()).unwrap();
        let state = state.to_str().expect("a temporary folder with a name in UTF-8");
        let env = Env::fixed([("OPENCLAW_STATE_DIR", state)], home.path());
        let (ended, (told, address)) = (CancellationToken::new(), sync_channel(1));
        let ends = ended.clone().drop_guard();
        let thread = thread::spawn(move || {
            let overrides = Overrides { port: Some(0), ..Overrides::default() };
            let mut start = Start::load(&env, &overrides).unwrap();
            start.dialects = &DIALECTS;
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (mut sockets, mut signals) = (Sockets::default(), Signals::new().unwrap());
                let on_ready = |_: &Start, ready: &app::Ready| told.send(ready.address).unwrap();
                tokio::select! {
                    ended = app::run(&mut start, &env, &mut sockets, &mut signals, on_ready) => {
                        panic!("the gateway has ended: {ended:?}");
                    }
                    () = ended.cancelled() => {}
                }
            });
        });
        let address = address.recv_timeout(START_LIMIT).expect("the gateway does not start");
        Self { address, ends: Some(ends), thread: Some(thread), _home: home }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for EchoServer {
    fn drop(&mut self) {
        drop(self.ends.take());
        if let Some(thread) = self.thread.take() {
            // That it panicked was told already.
            let _ = thread.join();
        }
    }
}
