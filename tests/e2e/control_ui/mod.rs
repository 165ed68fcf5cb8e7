//! The original Control UI in Chromium, against this gateway.
//!
//! Every visit is watched: no request of the UI may be refused, no error shown
//! in the page, none written to the console, and no file missing. What the
//! original would refuse as well is listed in [`REFUSALS`], with the reason.

mod agents;
mod approvals;
mod channels;
mod chat;
mod config;
mod cron;
mod failures;
mod first;
mod logs;
mod newer;
mod nodes;
mod operations;
mod settings;
mod skills;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::stage::{Api, config};
use crate::support::{Browser, Gateway, GatewayOptions, MockProvider, SECRET, original_ui};

/// Screenshots of what is driven go here where it is set, for people to look at.
const SHOTS: &str = "CLAWGATE_SHOTS";

/// Requests that the original gateway refuses as well: the method, a part of the
/// error text, and why.
const REFUSALS: [(&str, &str, &str); 1] = [(
    "config.set",
    "invalid config: gateway.port: ",
    "settings that mean nothing are not written",
)];

/// A gateway and the model that it asks, which follows the `@mock` lines of
/// messages.
pub struct Place {
    pub gateway: Gateway,
    pub mock: MockProvider,
}

/// What was seen of a visit; see `tests/node/control-ui.mjs`.
#[derive(Debug, Deserialize)]
pub struct Seen {
    /// What the steps returned.
    pub told: Value,
    /// How often each method was asked.
    pub calls: BTreeMap<String, u64>,
    /// Requests that were refused.
    pub refused: Vec<Refused>,
    /// Errors that were shown.
    pub complaints: Vec<String>,
    /// Errors in the console.
    pub errors: Vec<String>,
    /// Answers over HTTP of 400 and more.
    pub http: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub struct Refused {
    method: String,
    error: Value,
}

impl Place {
    pub async fn new() -> Self {
        Self::with(|_| ()).await
    }

    /// With a change of its config.
    pub async fn with(change: impl FnOnce(&mut Value)) -> Self {
        Self::start(change, &[]).await
    }

    /// With variables of its environment.
    pub async fn with_env(env: &[(&str, &str)]) -> Self {
        Self::start(|_| (), env).await
    }

    async fn start(change: impl FnOnce(&mut Value), env: &[(&str, &str)]) -> Self {
        let mock = MockProvider::start().await;
        let mut config = config(mock.address(), Api::OpenAi);
        config["gateway"]["controlUi"] = json!({"root": original_ui::folder()});
        change(&mut config);
        let options = GatewayOptions::with_config(config);
        let options = env.iter().fold(options, |options, (name, value)| options.env(name, value));
        Self { gateway: Gateway::start(options).await, mock }
    }

    /// What there is to see on a visit with these steps (the name of a module in
    /// this folder), which may not fail at anything.
    pub async fn visit(&self, steps: &str, args: Value) -> Seen {
        let seen = self.look(steps, args).await;
        seen.check();
        seen
    }

    /// The same, whatever is seen.
    pub async fn look(&self, steps: &str, args: Value) -> Seen {
        let mut all = json!({
            "origin": format!("http://{}", self.gateway.address()), "token": SECRET,
            "shots": std::env::var(SHOTS).ok(),
        });
        all.as_object_mut().unwrap().extend(args.as_object().unwrap().clone());
        let told = Browser::new().run(&format!("tests/e2e/control_ui/{steps}.mjs"), all).await;
        serde_json::from_value(told).unwrap()
    }
}

impl Seen {
    /// That nothing failed.
    pub fn check(&self) {
        self.check_but(&[]);
    }

    /// That nothing failed, and no error was shown but those that begin so.
    pub fn check_but(&self, shown: &[&str]) {
        self.check_refused(&[]);
        let is_meant = |text: &&String| shown.iter().any(|begin| text.starts_with(begin));
        let complaints: Vec<_> = self.complaints.iter().filter(|it| !is_meant(it)).collect();
        assert_eq!(complaints, [""; 0], "errors that were shown");
        assert_eq!(self.errors, [""; 0], "errors in the console");
        assert_eq!(self.http, [""; 0], "answers over HTTP that failed");
    }

    /// That no request was refused but those of these methods, with these texts.
    pub fn check_refused(&self, expected: &[(&str, &str)]) {
        let known = REFUSALS.iter().map(|(method, part, _)| (*method, *part));
        let known: Vec<_> = known.chain(expected.iter().copied()).collect();
        let is_known = |answer: &&Refused| {
            let text = answer.error["message"].as_str().unwrap_or_default();
            known.iter().any(|(method, part)| answer.method == *method && text.contains(part))
        };
        let unknown: Vec<_> = self.refused.iter().filter(|answer| !is_known(answer)).collect();
        assert!(unknown.is_empty(), "requests that were refused: {unknown:#?}");
    }

    /// That the UI asked all of these methods.
    pub fn check_calls(&self, methods: &[&str]) {
        let missing: Vec<_> =
            methods.iter().filter(|method| !self.calls.contains_key(**method)).collect();
        assert!(missing.is_empty(), "not asked: {missing:?} in {:?}", self.calls);
    }
}
