//! Our own page in Chromium: a real gateway, a provider that follows the `@mock`
//! lines of messages, and steps in JavaScript (`tests/node/page.mjs` has what they
//! share).

mod approvals;
mod axe;
mod chat;
mod config;
mod cron;
mod devices;
mod logs;
mod looks;
mod outbox;
mod overview;
mod pictures;
mod sessions;
mod shell;
mod uploads;
mod usage;
mod words;

use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};

use crate::stage::{Api, config, serve};
use crate::support::{Browser, Gateway, GatewayOptions, MockProvider, SECRET};

/// A gateway with its page, and where the steps ask the test to do something.
pub struct Place {
    pub gateway: Gateway,
    pub mock: MockProvider,
    asked: mpsc::Receiver<Asked>,
    control: String,
    _server: JoinSet<()>,
}

/// What the steps have asked for by `ask(word)`, and wait for.
pub struct Asked {
    word: String,
    done: oneshot::Sender<()>,
}

impl Asked {
    /// Lets the steps go on.
    pub fn done(self) {
        let _ = self.done.send(());
    }
}

async fn pass_on(State(tests): State<mpsc::Sender<Asked>>, uri: Uri) {
    let (done, is_done) = oneshot::channel();
    let word = uri.path().trim_start_matches('/').to_owned();
    if tests.send(Asked { word, done }).await.is_ok() {
        let _ = is_done.await;
    }
}

impl Place {
    /// With the usual config.
    pub async fn new() -> Self {
        Self::with(|_| ()).await
    }

    /// With a config that `change` has changed.
    pub async fn with(change: impl FnOnce(&mut Value)) -> Self {
        let mock = MockProvider::start().await;
        let mut config = config(mock.address(), Api::OpenAi);
        change(&mut config);
        Self::of(Gateway::start(GatewayOptions::with_config(config)).await, mock).await
    }

    /// With a gateway that runs already.
    pub async fn of(gateway: Gateway, mock: MockProvider) -> Self {
        let (sender, asked) = mpsc::channel(1);
        let (port, server) = serve(Router::new().fallback(pass_on).with_state(sender)).await;
        let control = format!("http://127.0.0.1:{port}");
        Self { gateway, mock, asked, control, _server: server }
    }

    /// Where steps ask the test to do something.
    pub fn control(&self) -> &str {
        &self.control
    }

    /// The same as [`Place::run`], while the test goes on.
    #[allow(clippy::disallowed_methods)] // no supervisor in a test
    pub fn begin(&self, module: &str, name: &str, args: Value) -> JoinHandle<Value> {
        tokio::spawn(self.run(module, name, args))
    }

    /// Runs the steps `name` of a module of `tests/e2e/page`. Their `args` have
    /// `url` of the page, `token` and `control` beside those given.
    pub fn run(
        &self,
        module: &str,
        name: &str,
        args: Value,
    ) -> impl Future<Output = Value> + use<> {
        let mut all = json!({
            "steps": name, "token": SECRET, "control": self.control,
            "url": format!("http://{}/clawgate/", self.gateway.address()),
        });
        if let (Value::Object(all), Value::Object(args)) = (&mut all, args) {
            all.extend(args);
        }
        let module = format!("tests/e2e/page/{module}.mjs");
        async move { Browser::new().run(&module, all).await }
    }

    /// The next thing that the steps ask for is this word; when they end before, which
    /// they do only when something is wrong, so does the test.
    pub async fn asked_for(&mut self, word: &str, steps: &mut JoinHandle<Value>) -> Asked {
        let asked = tokio::select! {
            asked = self.asked.recv() => asked.expect("the server is there"),
            ended = steps => panic!("before {word}: {ended:?}"),
        };
        assert_eq!(asked.word, word);
        asked
    }

    /// Kills the gateway when the steps ask for it, and starts it again when they do.
    pub async fn killed_and_started(&mut self, steps: &mut JoinHandle<Value>) {
        let kill = self.asked_for("kill", steps).await;
        self.gateway.kill9();
        kill.done();
        let start = self.asked_for("start", steps).await;
        self.gateway.restart_in_place().await;
        start.done();
    }
}
