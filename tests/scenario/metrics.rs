//! `GET /metrics`, read by the parser of Prometheus' own client.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use clawgate::telemetry::metrics::families::{ALL, Kind};
use serde_json::{Value, json};

use crate::stage::{
    Api, ask, call, config, connect, deltas, refusal, scripted, scripted_queueing, start, until,
};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, now_ms, python};

/// A page, and who reads it.
pub struct Scraped(Value);

impl Scraped {
    /// What the gateway tells now.
    pub async fn of(gateway: &Gateway) -> Self {
        let answer = get(gateway).bearer_auth(SECRET).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
        Self::read(&answer.text().await.unwrap(), "prometheus")
    }

    fn read(text: &str, form: &str) -> Self {
        let mut program = Command::new(python::interpreter());
        program.arg(python::script("read_metrics.py")).arg(form);
        let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "the parser refuses:\n{text}");
        Self(serde_json::from_slice(&output.stdout).unwrap())
    }

    fn samples(&self) -> impl Iterator<Item = (&str, &Value, f64)> {
        self.0.as_object().unwrap().values().flat_map(|family| {
            let samples = family["samples"].as_array().unwrap();
            samples.iter().map(|it| (it[0].as_str().unwrap(), &it[1], it[2].as_f64().unwrap()))
        })
    }

    /// The sum of the samples of this name with these labels; `None` without one.
    pub fn find(&self, name: &str, labels: &Value) -> Option<f64> {
        let wanted = labels.as_object().unwrap();
        let fits = |has: &Value| wanted.iter().all(|(label, value)| &has[label] == value);
        let found: Vec<_> = self
            .samples()
            .filter(|(own, has, _)| *own == name && fits(has))
            .map(|(_, _, number)| number)
            .collect();
        (!found.is_empty()).then(|| found.iter().sum())
    }

    /// The same of what has to be there.
    pub fn number(&self, name: &str, labels: &Value) -> f64 {
        self.find(name, labels).unwrap_or_else(|| panic!("no {name}{labels}: {:#}", self.0))
    }
}

fn get(gateway: &Gateway) -> reqwest::RequestBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    client.get(format!("http://{}/metrics", gateway.address()))
}

#[tokio::test]
async fn every_family_is_told_and_moves_with_what_happens() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["channels"] =
        json!({"webhook": {"secret": "a secret of a channel", "url": mock_url(&mock)}});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let before = Scraped::of(&gateway).await;
    let none = json!({});
    let grows = |now: &Scraped, name: &str, labels: &Value| {
        now.number(name, labels) - before.find(name, labels).unwrap_or(0.0)
    };

    let mut client = connect(&gateway, &standard_connect(&ALL_SCOPES)).await;
    let mut stranger = gateway.open().await;
    let mut wrong = standard_connect(&ALL_SCOPES);
    wrong["auth"]["token"] = json!("not the token");
    assert_eq!(stranger.request("connect", wrong).await["ok"], false);
    ask(&mut client, "main", "hello", "run-1").await;
    ask(&mut client, "main", "@mock err status=400 msg=refused", "run-2").await;
    ask(&mut client, "main", "@mock tool name=session_status then=done", "run-3").await;
    refusal(&mut client, "chat.history", json!({"sessionKey": 7})).await;
    refusal(&mut client, "a.method that somebody wrote", json!({})).await;
    let mut reader = connect(&gateway, &standard_connect(&["operator.read"])).await;
    refusal(&mut reader, "config.patch", json!({})).await;
    let job = json!({"name": "job", "schedule": {"kind": "every", "everyMs": 3_600_000},
        "sessionTarget": "isolated", "wakeMode": "now", "delivery": {"mode": "none"},
        "payload": {"kind": "agentTurn", "message": "of a job"}});
    let id = call(&mut client, "cron.add", job).await["id"].clone();
    call(&mut client, "cron.run", json!({"id": id})).await;
    let ok = json!({"outcome": "ok"});
    let has_run = || async {
        let now = Scraped::of(&gateway).await;
        (grows(&now, "clawgate_cron_runs_total", &ok) > 0.0).then_some(now)
    };
    let now = until("the job has run", has_run).await;

    for (name, labels) in [
        ("clawgate_connections", json!({"role": "operator", "dialect": "v3"})),
        ("clawgate_handshakes_total", ok.clone()),
        ("clawgate_handshakes_total", json!({"outcome": "refused"})),
        ("clawgate_requests_total", json!({"method": "chat.send", "outcome": "ok"})),
        ("clawgate_requests_total", json!({"method": "chat.history", "outcome": "error"})),
        ("clawgate_requests_total", json!({"method": "config.patch", "outcome": "denied"})),
        ("clawgate_requests_total", json!({"method": "unknown", "outcome": "error"})),
        ("clawgate_request_duration_seconds_count", json!({"method": "chat.send"})),
        ("clawgate_request_lane_wait_seconds_count", none.clone()),
        ("clawgate_http_requests_total", json!({"route": "/metrics", "status": "200"})),
        ("clawgate_http_request_duration_seconds_count", json!({"route": "/metrics"})),
        ("clawgate_events_total", none.clone()),
        ("clawgate_runs_ended_total", json!({"outcome": "succeeded"})),
        ("clawgate_runs_ended_total", json!({"outcome": "failed"})),
        ("clawgate_run_duration_seconds_count", none.clone()),
        ("clawgate_run_lane_wait_seconds_count", none.clone()),
        ("clawgate_tool_calls_total", none.clone()),
        (
            "clawgate_model_calls_total",
            json!({"provider": "mock", "model": "mock-1", "outcome": "ok"}),
        ),
        (
            "clawgate_model_calls_total",
            json!({"provider": "mock", "model": "mock-1", "outcome": "error"}),
        ),
        ("clawgate_model_first_token_seconds_count", json!({"provider": "mock"})),
        ("clawgate_model_call_duration_seconds_count", json!({"provider": "mock"})),
        ("clawgate_model_tokens_total", json!({"provider": "mock", "kind": "input"})),
        ("clawgate_model_tokens_total", json!({"provider": "mock", "kind": "output"})),
        ("clawgate_store_commit_duration_seconds_count", none.clone()),
        ("clawgate_store_writes_total", none.clone()),
        ("clawgate_transcript_sync_duration_seconds_count", none.clone()),
        ("clawgate_log_messages_total", json!({"level": "warn"})),
    ] {
        assert!(grows(&now, name, &labels) > 0.0, "{name}{labels}: {:#}", now.0);
    }
    for (name, least) in [
        ("clawgate_process_resident_memory_bytes", 1e6),
        ("clawgate_process_open_fds", 5.0),
        ("clawgate_process_tasks", 5.0),
        ("clawgate_process_uptime_seconds", 0.001),
        ("clawgate_process_start_time_seconds", 1e9),
        ("clawgate_build_info", 1.0),
    ] {
        assert!(now.number(name, &none) >= least, "{name}");
    }
    every_family_is_as_listed(&now);
    no_label_is_what_somebody_wrote(&now);
}

#[tokio::test]
async fn what_goes_on_is_told_while_it_goes_on() {
    let (gateway, _mock) = scripted_queueing("followup").await;
    let mut client = connect(&gateway, &standard_connect(&ALL_SCOPES)).await;
    start(&mut client, "main", "@mock stream n=150 delay=100", "run-1").await;
    deltas(&client, "run-1", 1).await;
    start(&mut client, "main", "@mock text text=second", "run-2").await;
    let job = json!({"name": "job", "schedule": {"kind": "at", "at": (now_ms() + 300).to_string()},
        "sessionTarget": "isolated", "wakeMode": "now", "delivery": {"mode": "none"},
        "payload": {"kind": "agentTurn", "message": "of a job"}});
    call(&mut client, "cron.add", job).await;
    let none = json!({});
    let job_has_begun = || async {
        let now = Scraped::of(&gateway).await;
        (now.find("clawgate_cron_lateness_seconds_count", &none) == Some(1.0)).then_some(now)
    };
    let now = until("the job has begun", job_has_begun).await;
    let late = now.number("clawgate_cron_lateness_seconds_sum", &none);
    assert!((0.0..20.0).contains(&late), "{late}");
    assert_eq!(now.number("clawgate_runs", &json!({"phase": "waiting"})), 1.0);
    assert!(now.number("clawgate_runs", &json!({"phase": "active"})) >= 1.0);
    let run = json!({"sessionKey": "main", "runId": "run-1"});
    assert_eq!(call(&mut client, "chat.abort", run).await["aborted"], true);
    let all_is_over = || async {
        let now = Scraped::of(&gateway).await;
        (now.number("clawgate_runs", &none) == 0.0).then_some(now)
    };
    let now = until("all is over", all_is_over).await;
    assert_eq!(now.number("clawgate_runs_ended_total", &json!({"outcome": "cancelled"})), 1.0);
    assert!(now.number("clawgate_run_lane_wait_seconds_sum", &none) > 0.0);
}

#[tokio::test]
async fn the_start_of_a_gateway_is_one_instant() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut told = BTreeSet::new();
    for _ in 0..50 {
        let page = get(&gateway).bearer_auth(SECRET).send().await.unwrap().text().await.unwrap();
        let start =
            page.lines().find(|line| line.starts_with("clawgate_process_start_time_seconds "));
        told.insert(start.unwrap().to_owned());
    }
    assert_eq!(told.len(), 1, "{told:?}");
}

#[tokio::test]
async fn a_job_that_waits_for_its_session_is_as_late_as_it_begins() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = connect(&gateway, &standard_connect(&ALL_SCOPES)).await;
    start(&mut client, "diary", "@mock stream n=2000 delay=20", "run-1").await;
    deltas(&client, "run-1", 1).await;
    let job = json!({"name": "job", "schedule": {"kind": "at", "at": (now_ms() + 300).to_string()},
        "sessionTarget": "session:diary", "wakeMode": "now", "delivery": {"mode": "none"},
        "payload": {"kind": "agentTurn", "message": "of a job"}});
    call(&mut client, "cron.add", job).await;
    until("it waits", async || {
        let list = call(&mut client, "cron.list", json!({})).await;
        list["jobs"][0]["state"]["runningAtMs"].is_u64().then_some(())
    })
    .await;
    let begun = async |count: f64| {
        let now = Scraped::of(&gateway).await;
        (now.find("clawgate_cron_lateness_seconds_count", &json!({})) == Some(count)).then_some(())
    };
    assert!(begun(0.0).await.is_some(), "it is counted before it begins");
    call(&mut client, "chat.abort", json!({"sessionKey": "diary", "runId": "run-1"})).await;
    until("it has begun", async || begun(1.0).await).await;
}

fn mock_url(mock: &MockProvider) -> String {
    format!("http://{}/channel", mock.address())
}

fn every_family_is_as_listed(scraped: &Scraped) {
    // Told of jobs that their schedule has begun, and of a channel's account.
    for family in ALL {
        let name = family.name.trim_end_matches("_total");
        let told = &scraped.0[name];
        assert_eq!(told["type"], family.kind.as_str(), "{name}: {told}");
        assert_eq!(told["help"], family.help);
        for sample in told["samples"].as_array().unwrap() {
            let labels: BTreeSet<_> = sample[1].as_object().unwrap().keys().cloned().collect();
            let mut listed: BTreeSet<_> = family.labels.iter().map(ToString::to_string).collect();
            if sample[0].as_str().unwrap().ends_with("_bucket") {
                assert!(matches!(family.kind, Kind::Times { .. }));
                listed.insert("le".into());
            }
            assert_eq!(labels, listed, "{sample}");
        }
    }
    assert_eq!(scraped.0.as_object().unwrap().len(), ALL.len());
}

fn no_label_is_what_somebody_wrote(scraped: &Scraped) {
    for (name, labels, _) in scraped.samples() {
        for (label, value) in labels.as_object().unwrap() {
            let value = value.as_str().unwrap();
            for written in ["somebody", "main", "run-1", "hello", SECRET, "a secret"] {
                assert!(!value.contains(written), "{name} {label}={value}");
            }
        }
    }
}

#[tokio::test]
async fn a_page_is_for_those_who_may_read_in_the_form_that_they_ask_for() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    assert_eq!(get(&gateway).send().await.unwrap().status(), 401);
    let wanted = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;q=0.5";
    let answer = get(&gateway).bearer_auth(SECRET).header("accept", wanted).send().await.unwrap();
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(answer.headers()["content-type"], kind);
    let scraped = Scraped::read(&answer.text().await.unwrap(), "openmetrics");
    assert_eq!(scraped.number("clawgate_http_requests_total", &json!({"status": "401"})), 1.0);
}

#[tokio::test]
async fn a_page_may_be_public_to_this_machine_or_not_be_there() {
    let mock = MockProvider::start().await;
    let with = |metrics: Value| {
        let mut config = config(mock.address(), Api::OpenAi);
        config["gateway"]["metrics"] = metrics;
        Gateway::start(GatewayOptions::with_config(config))
    };
    let public = with(json!({"public": true})).await;
    assert_eq!(get(&public).send().await.unwrap().status(), 200);
    // Who comes through a proxy is not of this machine.
    let through = get(&public).header("x-forwarded-for", "203.0.113.7").send().await.unwrap();
    assert_eq!(through.status(), 401);
    let off = with(json!({"enabled": false, "public": true})).await;
    assert_eq!(get(&off).bearer_auth(SECRET).send().await.unwrap().status(), 404);
}
