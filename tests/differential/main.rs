//! Our adapters beside those of npm `@mariozechner/pi-ai`, which the original
//! is built on: the same calls to the same provider, body against body, event
//! against event, answer against answer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::needless_pass_by_value)] // `json!(…)` reads best in place

mod anthropic;
mod case;
mod compare;
mod completions;
mod differences;
mod google;
#[path = "../support/node.rs"]
mod node;
#[path = "../support/npm.rs"]
mod npm;
mod responses;
mod server;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clawgate::config::models::ModelsConfig;
use clawgate::config::secrets::ResolvedSecrets;
use clawgate::providers::{
    Adapters, Catalog, CatalogSources, HttpLimits, ModelRequest, RetryPolicy, ThinkingLevel,
    ToolSpec,
};
use clawgate::support::{Clock, SystemClock};
use serde_json::{Value, json};

use case::Case;
use compare::Outcome;
use differences::DIFFERENCES;
use server::{Asked, Server};

const KEY: &str = "sk-differential";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_is_made_and_read_as_pi_ai_makes_and_reads_it() {
    let cases: Vec<Case> =
        [anthropic::cases(), completions::cases(), responses::cases(), google::cases()].concat();
    let server = Server::start(cases.iter().map(|case| case.answers.clone()).collect()).await;
    let script = their_calls(&cases, &server);
    let theirs = tokio::task::spawn_blocking(move || run_script(&script));
    let mut ours = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        ours.push(our_call(case, number, &server).await);
    }
    let theirs = theirs.await.unwrap();
    let (mut report, mut needed) = (String::new(), HashSet::new());
    let both = ours.iter().zip(theirs.as_array().unwrap());
    for (number, (case, (ours, theirs))) in cases.iter().zip(both).enumerate() {
        let theirs = compare::theirs(requests(&server.asked(number, "theirs")), theirs);
        check(case, ours, &theirs, &mut needed, &mut report);
    }
    for (number, known) in DIFFERENCES.iter().enumerate() {
        if !needed.contains(&number) {
            let _ =
                writeln!(report, "no case needs: {} {} ({})", known.case, known.path, known.reason);
        }
    }
    assert!(report.is_empty(), "{} cases; not as meant:\n{report}", cases.len());
}

/// Notes what differs and should not.
fn check(
    case: &Case,
    ours: &Outcome,
    theirs: &Outcome,
    needed: &mut HashSet<usize>,
    report: &mut String,
) {
    let parts = [
        ("requests", &ours.requests, &theirs.requests),
        ("events", &ours.events, &theirs.events),
        ("message", &ours.message, &theirs.message),
    ];
    for (part, ours, theirs) in parts {
        for (path, text) in compare::differences(ours, theirs) {
            let path = format!("{part}{path}");
            let mut known = DIFFERENCES.iter().enumerate().filter(|(_, known)| {
                case.name.starts_with(known.case) && begins(&path, known.path)
            });
            match known.next() {
                Some((number, _)) => {
                    needed.insert(number);
                }
                None => {
                    let _ = writeln!(report, "  {}: {path}{text}", case.name);
                }
            }
        }
    }
}

/// Whether `path` begins with `pattern`, where `*` is any one part.
fn begins(path: &str, pattern: &str) -> bool {
    let mut parts = path.split('/');
    pattern
        .split('/')
        .all(|wanted| parts.next().is_some_and(|part| wanted == "*" || wanted == part))
}

fn requests(asked: &[Asked]) -> Value {
    asked.iter().map(|asked| json!({"path": asked.path, "body": asked.body})).collect()
}

fn their_calls(cases: &[Case], server: &Server) -> Value {
    let calls = cases.iter().enumerate().map(|(number, case)| {
        let mut model = case.model.clone();
        model["baseUrl"] = json!(server.base(number, "theirs") + case.path);
        let mut options = case.options.clone();
        options["apiKey"] = json!(KEY);
        json!({"model": model, "context": case.context, "options": options})
    });
    calls.collect()
}

fn run_script(calls: &Value) -> Value {
    node::package("@mariozechner/pi-ai");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node/pi-ai.mjs");
    let mut child = Command::new("node")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node 20 or newer must be on PATH");
    child.stdin.take().unwrap().write_all(calls.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the script failed");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Options that our configuration calls params.
const PARAMS: [&str; 5] = ["temperature", "maxTokens", "cacheRetention", "toolChoice", "metadata"];

async fn our_call(case: &Case, number: usize, server: &Server) -> Outcome {
    let provider = case.model["provider"].as_str().unwrap();
    let mut model = case.model.clone();
    let params: serde_json::Map<String, Value> = case
        .options
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| PARAMS.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    model["params"] = Value::Object(params);
    let config: ModelsConfig = serde_json::from_value(json!({"providers": {provider: {
        "baseUrl": server.base(number, "ours") + case.path,
        "apiKey": KEY, "api": case.model["api"], "models": [model],
    }}}))
    .unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let retry = RetryPolicy { first_delay: Duration::from_millis(1), ..RetryPolicy::default() };
    let adapters = Adapters::with_limits(&clock, HttpLimits::default(), retry);
    let secrets = ResolvedSecrets::default();
    let sources = CatalogSources::plain(&config, &|_| None, &secrets);
    let catalog = Catalog::build(&adapters, &sources).unwrap();
    let request = request(case, Arc::clone(&catalog.default_choice().model));
    let mut events = Vec::new();
    let provider = catalog.provider_for(&request.model);
    let result = provider.stream(&request, &mut |event| events.push(event)).await;
    compare::ours(requests(&server.asked(number, "ours")), &events, &result)
}

fn request(case: &Case, model: Arc<clawgate::providers::ModelInfo>) -> ModelRequest {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let tools = case.context["tools"].as_array().into_iter().flatten().map(|tool| ToolSpec {
        name: text(&tool["name"]).unwrap(),
        description: text(&tool["description"]).unwrap(),
        parameters: tool["parameters"].clone(),
    });
    let level = case.options["reasoning"].as_str().unwrap_or("off");
    ModelRequest {
        model,
        system: text(&case.context["systemPrompt"]),
        messages: serde_json::from_value(case.context["messages"].clone()).unwrap(),
        tools: tools.collect(),
        thinking: ThinkingLevel::parse(level).unwrap(),
        session_id: text(&case.options["sessionId"]).unwrap_or_default(),
        needs_pictures: false,
    }
}
