//! The tool `cron`: whose it is, and what jobs made by it may do.

use serde_json::{Value, json};

use super::{job, run};
use crate::stage::{Api, admin, ask, call, config, connect, history, scripted, text_of};
use crate::support::client::standard_connect;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

async fn by_model(client: &mut WsClient, session: &str, args: Value, run: &str) -> Value {
    let text = format!("@mock tool name=cron args={args} then=ok");
    ask(client, session, &text, run).await;
    let all = history(client, session).await;
    let found = all.iter().rev().find(|message| message["toolName"] == "cron");
    let text = text_of(found.unwrap_or_else(|| panic!("cron was not called: {all:?}")));
    serde_json::from_str(&text).unwrap_or(json!(text))
}

#[tokio::test]
async fn a_session_reminds_itself() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let wanted = json!({"action": "add", "job": {"name": "later",
        "schedule": {"kind": "every", "everyMs": 3_600_000},
        "payload": {"kind": "agentTurn", "message": "Mail?"}}});
    let made = by_model(&mut client, "desk", wanted, "r-1").await;
    let id = made["id"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
    assert_eq!(made["sessionKey"], "agent:main:desk");
    assert_eq!(
        (&made["sessionTarget"], &made["delivery"]),
        (&json!("isolated"), &json!({"mode": "announce"}))
    );
    let end = run(&mut client, &id).await;
    assert_eq!(end["deliveryStatus"], "delivered", "{end}");
    assert_eq!(end["delivery"]["resolved"]["to"], "agent:main:desk");
    for (index, (args, wanted)) in [
        (json!({"action": "list"}), "/jobs/0/id"),
        (json!({"action": "runs", "jobId": id}), "/entries/0/jobId"),
        (json!({"action": "update", "jobId": id, "patch": {"name": "renamed"}}), "/id"),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = by_model(&mut client, "desk", args, &format!("a-{index}")).await;
        assert_eq!(answer.pointer(wanted), Some(&json!(id)), "{answer}");
    }
    assert_eq!(job(&mut client, &id).await["name"], "renamed");
    let wrong = json!({"action": "add", "job": {"name": "x", "schedule": {"kind": "cron", "expr": "* *"},
        "payload": {"text": "x"}}});
    let told = by_model(&mut client, "desk", wrong, "w-1").await;
    assert!(told.to_string().contains("CronPattern"), "{told}");
    let hasty = json!({"action": "add", "name": "x", "everyMs": 300, "message": "Mail?"});
    let told = by_model(&mut client, "desk", hasty, "w-2").await;
    assert!(told.to_string().contains("in milliseconds"), "{told}");
    let loose =
        json!({"action": "add", "job": {"name": "x", "cron": "0 9 * * *", "message": "Mail?"}});
    let made = by_model(&mut client, "desk", loose, "l-1").await;
    assert_eq!(
        (&made["schedule"]["expr"], &made["payload"]["message"], &made["sessionTarget"]),
        (&json!("0 9 * * *"), &json!("Mail?"), &json!("isolated")),
        "{made}"
    );
    let gone = by_model(&mut client, "desk", json!({"action": "remove", "jobId": id}), "g-1").await;
    assert_eq!(gone["removed"], true);
    assert_eq!(job(&mut client, &id).await, Value::Null);
}

#[tokio::test]
async fn only_the_owner_has_it_and_nobody_else_gets_a_word_in() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut owner = admin(&gateway).await;
    let params = standard_connect(&["operator.read", "operator.write"]);
    let mut guest = connect(&gateway, &params).await;
    let tools = |mock: &crate::support::MockProvider| {
        let request = mock.requests().pop().unwrap().body;
        request["tools"].as_array().unwrap().iter().any(|tool| tool["function"]["name"] == "cron")
    };
    ask(&mut owner, "main", "hello", "o-1").await;
    assert!(tools(&mock));
    ask(&mut guest, "main", "hello", "g-1").await;
    assert!(!tools(&mock));
    let args = json!({"action": "add", "job": {"name": "x", "schedule": {"everyMs": 60000}, "payload": {"text": "x"}}});
    let text = format!("@mock tool name=cron args={args} then=ok");
    ask(&mut guest, "main", &text, "g-2").await;
    assert_eq!(call(&mut owner, "cron.status", json!({})).await["jobs"], 0);
    for (client, has) in [(&mut owner, true), (&mut guest, false)] {
        let effective = call(client, "tools.effective", json!({"sessionKey": "main"})).await;
        assert_eq!(effective.to_string().contains("\"id\":\"cron\""), has);
    }
}

#[tokio::test]
async fn a_job_of_a_narrowed_run_is_as_narrow_and_touches_no_other_job() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let outer = |args: Value| {
        json!({"name": "outer", "schedule": {"everyMs": 3_600_000}, "sessionTarget": "isolated",
            "payload": {"kind": "agentTurn", "message": format!("@mock tool name=cron args={args} then=ok"),
                "toolsAllow": ["cron", "read"]}, "delivery": {"mode": "none"}})
    };
    let inner = json!({"action": "add", "job": {"name": "inner", "schedule": {"everyMs": 3_600_000},
        "payload": {"kind": "agentTurn", "message": "hello"}, "delivery": {"mode": "none"}}});
    let id = super::add(&mut client, outer(inner)).await;
    run(&mut client, &id).await;
    let jobs = call(&mut client, "cron.list", json!({"query": "inner"})).await;
    let made = jobs["jobs"].as_array().unwrap().iter().find(|job| job["name"] == "inner").cloned();
    let made = made.expect("no inner job")["id"].as_str().unwrap().to_owned();
    run(&mut client, &made).await;
    let request = mock.requests().pop().unwrap().body;
    let mut names: Vec<_> = request["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["cron", "read"]);
    for (args, word) in [
        (json!({"action": "update", "jobId": id, "patch": {"name": "mine"}}), "may use less"),
        (json!({"action": "remove", "jobId": id}), "may use less"),
        (json!({"action": "wake", "text": "do as I say"}), "may use less"),
        (
            json!({"action": "add", "job": {"name": "main", "schedule": {"everyMs": 60000},
            "payload": {"text": "do as I say"}}}),
            "may use less",
        ),
    ] {
        let other = super::add(&mut client, outer(args)).await;
        let end = run(&mut client, &other).await;
        let said = history(&mut client, end["sessionKey"].as_str().unwrap()).await;
        let result = said.iter().find(|message| message["toolName"] == "cron").unwrap();
        assert!(text_of(result).contains(word), "{}", text_of(result));
    }
    assert_eq!(job(&mut client, &id).await["name"], "outer");
}

#[tokio::test]
async fn a_job_acts_in_no_session_of_an_agent_that_may_not_be_spawned() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["agents"]["list"] = json!([{"id": "main", "default": true},
        {"id": "guarded"}, {"id": "kiosk", "subagents": {"allowAgents": ["helper"]}},
        {"id": "helper"}]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let job_of = |name: &str, more: Value| {
        let mut job = json!({"name": name, "schedule": {"kind": "every", "everyMs": 3_600_000},
            "payload": {"kind": "agentTurn", "message": "hello"}, "delivery": {"mode": "none"}});
        job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        job
    };
    let guarded = job_of("guarded", json!({"agentId": "guarded", "sessionTarget": "isolated"}));
    let guarded = super::add(&mut client, guarded).await;
    let add = |more: Value| json!({"action": "add", "job": job_of("kiosk", more)});
    let own = by_model(&mut client, "agent:kiosk:desk", add(json!({})), "own").await;
    assert_eq!(own["agentId"], "kiosk", "{own}");
    let id = own["id"].as_str().unwrap();
    let update = |id: &str, patch: Value| json!({"action": "update", "jobId": id, "patch": patch});
    let refused = [
        add(json!({"agentId": "guarded"})),
        add(json!({"sessionTarget": "session:agent:guarded:main"})),
        add(json!({"sessionKey": "agent:guarded:main"})),
        add(json!({"sessionKey": "agent:guarded:main", "sessionTarget": "current"})),
        update(id, json!({"agentId": null})),
        update(id, json!({"sessionTarget": "session:agent:guarded:main"})),
        update(id, json!({"sessionKey": "agent:guarded:main"})),
        update(&guarded, json!({"payload": {"kind": "agentTurn", "message": "obey"}})),
        update(&guarded, json!({"agentId": "kiosk"})),
        json!({"action": "run", "jobId": guarded}),
        json!({"action": "remove", "jobId": guarded}),
    ];
    for (index, args) in refused.into_iter().enumerate() {
        let text = args.to_string();
        let told = by_model(&mut client, "agent:kiosk:desk", args, &format!("r-{index}")).await;
        assert!(told.to_string().contains("is not allowed"), "{text}: {told}");
    }
    assert_eq!(job(&mut client, id).await["agentId"], "kiosk");
    assert_eq!(job(&mut client, &guarded).await["payload"]["message"], "hello");
    for (index, args) in [
        add(json!({"agentId": "helper"})),
        update(id, json!({"agentId": "helper", "sessionTarget": "session:agent:helper:desk"})),
    ]
    .into_iter()
    .enumerate()
    {
        let made = by_model(&mut client, "agent:kiosk:desk", args, &format!("a-{index}")).await;
        assert_eq!(made["agentId"], "helper", "{made}");
    }

    // Nor does it say anything there.
    for (agent, status) in [("guarded", "not-delivered"), ("helper", "delivered")] {
        let session = format!("agent:{agent}:main");
        ask(&mut client, &session, "hello", agent).await;
        let delivery = json!({"mode": "announce", "channel": "webchat", "to": session});
        let args = add(json!({"delivery": delivery}));
        let made = by_model(&mut client, "agent:kiosk:desk", args, &format!("s-{agent}")).await;
        let end = run(&mut client, made["id"].as_str().unwrap()).await;
        assert_eq!(end["deliveryStatus"], status, "{end}");
        let heard = history(&mut client, &session).await.len();
        assert_eq!(heard, if agent == "helper" { 3 } else { 2 });
    }
}
