//! What is asked of a gateway: each operation of its store once.
//!
//! A step says what is so once it was answered well, as cells: names of what can
//! be looked up in a gateway, with their values. While it is under way a cell has
//! its old value or its new one, and nothing in between.

use std::fs;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::stage::{Answer, HOOK_TOKEN, PATIENCE, Stage};
use crate::support::WsClient;
use crate::support::client::SOON;
use crate::support::guest::Guest;

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Say,
    Note,
    Label,
    Cut,
    Sum,
    Reset,
    Delete,
    PatchConfig,
    SetConfig,
    Pair,
    Rotate,
    Unpair,
    AddJob,
    ChangeJob,
    RunJob,
    RemoveJob,
    Upload,
    Hook,
    Wake,
    File,
}

/// All of them, each after those that it needs.
pub const STORY: [Step; 20] = [
    Step::Say,
    Step::Note,
    Step::Label,
    Step::Cut,
    Step::Sum,
    Step::Reset,
    Step::Delete,
    Step::PatchConfig,
    Step::SetConfig,
    Step::Pair,
    Step::Rotate,
    Step::Unpair,
    Step::AddJob,
    Step::ChangeJob,
    Step::RunJob,
    Step::RemoveJob,
    Step::Upload,
    Step::Hook,
    Step::Wake,
    Step::File,
];

/// What can be looked up; what is not there is null.
pub type Cell = (String, Value);

/// A part of a step that was answered by itself.
pub struct Part {
    /// What is in the answer and in no other one.
    pub marks: Vec<String>,
    pub cells: Vec<Cell>,
    pub is_ok: bool,
    /// What was answered.
    pub said: String,
}

impl Part {
    fn of(answer: &Answer, cells: Vec<Cell>) -> Self {
        let said = answer.said.as_ref().map_or("nothing".to_owned(), Value::to_string);
        Self { marks: vec![answer.id.clone()], cells, is_ok: answer.is_ok(), said }
    }
}

fn cell(name: String, value: impl Into<Value>) -> Cell {
    (name, value.into())
}

impl Step {
    /// What has to be done before.
    pub const fn needs(self) -> &'static [Self] {
        match self {
            Self::Note | Self::Reset | Self::Delete => &[Self::Say],
            Self::Cut | Self::Sum => &[Self::Say, Self::Note],
            Self::Rotate | Self::Unpair => &[Self::Pair],
            Self::ChangeJob | Self::RunJob | Self::RemoveJob => &[Self::AddJob],
            _ => &[],
        }
    }

    /// Does it; what it is about is named after `tag`.
    pub async fn perform(self, stage: &mut Stage, tag: &str) -> Vec<Part> {
        let mut client = stage.operator().await;
        let key = format!("agent:main:s-{tag}");
        let said = |what: &str| format!("said:{what}-{tag}");
        match self {
            Self::Say => say(stage, &mut client, tag).await,
            Self::Note => {
                let params = json!({"sessionKey": key, "message": format!("note-{tag}")});
                let answer = stage.ask(&mut client, "chat.inject", params).await;
                vec![Part::of(&answer, vec![cell(said("note"), 1)])]
            }
            Self::Label => {
                let label = format!("label-{tag}");
                let params = json!({"key": format!("agent:main:l-{tag}"), "label": label});
                let answer = stage.ask(&mut client, "sessions.patch", params).await;
                vec![Part::of(&answer, vec![cell(format!("label:agent:main:l-{tag}"), label)])]
            }
            Self::Cut => {
                let params = json!({"key": key, "maxLines": 2});
                let answer = stage.ask(&mut client, "sessions.compact", params).await;
                vec![Part::of(&answer, Vec::new())]
            }
            Self::Sum => {
                let answer = stage.ask(&mut client, "sessions.compact", json!({"key": key})).await;
                vec![Part::of(&answer, Vec::new())]
            }
            Self::Reset => {
                let answer = stage.ask(&mut client, "sessions.reset", json!({"key": key})).await;
                vec![Part::of(&answer, vec![cell(format!("history:{key}"), Value::Null)])]
            }
            Self::Delete => {
                let answer = stage.ask(&mut client, "sessions.delete", json!({"key": key})).await;
                let gone = ["history", "there"].map(|it| cell(format!("{it}:{key}"), Value::Null));
                vec![Part::of(&answer, gone.to_vec())]
            }
            Self::PatchConfig | Self::SetConfig => configure(self, stage, &mut client, tag).await,
            Self::Pair | Self::Rotate | Self::Unpair => admit(self, stage, &mut client, tag).await,
            Self::AddJob | Self::ChangeJob | Self::RunJob | Self::RemoveJob => {
                schedule(self, stage, &mut client, tag).await
            }
            Self::Upload => {
                let path = "/api/chat/uploads?sessionKey=main&fileName=page.txt";
                let answer = stage.upload(path, format!("upload-{tag}").as_bytes()).await;
                let id = answer.payload()["uploadId"].as_str().map(str::to_owned);
                let kept = id.map(|id| cell(format!("upload:{id}"), format!("upload-{tag}")));
                vec![Part::of(&answer, kept.into_iter().collect())]
            }
            Self::Hook => {
                let answer = post_hook(stage, tag).await;
                let run = answer.payload()["runId"].clone();
                let cells =
                    if answer.is_ok() { vec![(format!("hook:{tag}"), run)] } else { vec![] };
                vec![Part::of(&answer, cells)]
            }
            Self::Wake => {
                let params = json!({"triggers": [tag]});
                let answer = stage.ask(&mut client, "voicewake.set", params).await;
                vec![Part::of(&answer, vec![cell("wake".into(), tag)])]
            }
            Self::File => {
                let params = json!({"agentId": "main", "name": "USER.md", "content": tag});
                let answer = stage.ask(&mut client, "agents.files.set", params).await;
                vec![Part::of(&answer, vec![cell("file".into(), tag)])]
            }
        }
    }
}

/// The same request for every `tag`, so that it is one run.
pub async fn post_hook(stage: &mut Stage, tag: &str) -> Answer {
    let bearer = format!("Bearer {HOOK_TOKEN}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Idempotency-Key", tag),
    ];
    let message = format!("hook-{tag} @mock text text=hooked-{tag}");
    let body = json!({"message": message, "name": tag, "deliver": false}).to_string();
    stage.post("/hooks/agent", &headers, body.as_bytes()).await
}

/// Sends a message and waits for the end of its run.
async fn say(stage: &mut Stage, client: &mut WsClient, tag: &str) -> Vec<Part> {
    let (key, run) = (format!("agent:main:s-{tag}"), format!("run-{tag}"));
    let message = format!("message-{tag} @mock text text=answer-{tag}");
    let told = format!("said:{message}");
    let params = json!({"sessionKey": key, "message": message, "idempotencyKey": run});
    let answer = stage.ask(client, "chat.send", params).await;
    let begun = ["history", "there"].map(|it| cell(format!("{it}:{key}"), true));
    let cells = [&begun[..], &[cell(told, 1)]].concat();
    let mut parts = vec![Part::of(&answer, cells)];
    if !answer.is_ok() {
        return parts;
    }
    let is_end = |frame: &Value| {
        let payload = &frame["payload"];
        frame["event"] == "chat" && payload["runId"] == *run && payload["state"] != "delta"
    };
    let end = client.wait_for(PATIENCE, is_end).await.expect("every accepted message has an end");
    parts.push(Part {
        marks: vec![run, "\"state\":\"final\"".into()],
        cells: vec![cell(format!("said:answer-{tag}"), 1)],
        is_ok: end["payload"]["state"] == "final",
        said: end.to_string(),
    });
    parts
}

/// Letters and digits that only this text has.
fn hex(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn configure(step: Step, stage: &mut Stage, client: &mut WsClient, tag: &str) -> Vec<Part> {
    let hash = stage.ask(client, "config.get", json!({})).await.payload()["hash"].clone();
    let color = format!("#{}", &hex(tag)[..6]);
    let changed = json!({"ui": {"seamColor": color}});
    let (method, raw) = if step == Step::PatchConfig {
        ("config.patch", changed)
    } else {
        let text = fs::read_to_string(stage.gateway.config_path()).unwrap();
        let mut whole: Value = serde_json::from_str(&text).unwrap();
        whole["ui"] = changed["ui"].clone();
        ("config.set", whole)
    };
    let params = json!({"raw": raw.to_string(), "baseHash": hash});
    let answer = stage.ask(client, method, params).await;
    vec![Part::of(&answer, vec![cell("config".into(), color)])]
}

/// The device that is named after `tag`.
pub fn guest(tag: &str) -> Guest {
    Guest::new(tag, &["operator.read"])
}

async fn admit(step: Step, stage: &mut Stage, client: &mut WsClient, tag: &str) -> Vec<Part> {
    let guest = guest(tag);
    let (paired, id) = (format!("device:{}", guest.id()), guest.id());
    let token = |auth: &Value| {
        let token = auth["deviceToken"].as_str()?;
        Some(format!("token:{tag}:{token}"))
    };
    if step == Step::Pair {
        let (_client, hello) = guest.knock(&stage.gateway).await;
        let auth = &hello["payload"]["auth"];
        let mut cells = vec![cell(paired, true)];
        cells.extend(token(auth).map(|name| cell(name, true)));
        let secret = auth["deviceToken"].as_str().unwrap_or("no token").to_owned();
        let (is_ok, said) = (hello["ok"] == true, hello.to_string());
        return vec![Part { marks: vec![secret], cells, is_ok, said }];
    }
    let old = token(&guest.come(&stage.gateway).await.1).expect("a token");
    if step == Step::Unpair {
        let answer = stage.ask(client, "device.pair.remove", json!({"deviceId": id})).await;
        return vec![Part::of(&answer, vec![cell(paired, Value::Null), cell(old, Value::Null)])];
    }
    let params = json!({"deviceId": id, "role": "operator"});
    let answer = stage.ask(client, "device.token.rotate", params).await;
    let mut part = Part::of(&answer, vec![cell(old, Value::Null)]);
    if answer.is_ok() {
        let new = token(&guest.come(&stage.gateway).await.1).expect("a token");
        part.cells.push(cell(new, true));
    }
    vec![part]
}

async fn schedule(step: Step, stage: &mut Stage, client: &mut WsClient, tag: &str) -> Vec<Part> {
    let (name, ran) = (format!("job:{tag}"), format!("ran:{tag}"));
    if step == Step::AddJob {
        let job = json!({"name": tag, "schedule": {"kind": "every", "everyMs": 36_000_000},
            "sessionTarget": "isolated", "wakeMode": "now", "delivery": {"mode": "none"},
            "payload": {"kind": "agentTurn", "message": format!("@mock text text=done-{tag}")}});
        let answer = stage.ask(client, "cron.add", job).await;
        return vec![Part::of(&answer, vec![cell(name, true)])];
    }
    let id = job(stage, client, tag).await.expect("it was added")["id"].clone();
    let (method, params, cells) = match step {
        Step::ChangeJob => {
            let patch = json!({"id": id, "patch": {"description": "changed"}});
            ("cron.update", patch, vec![cell(name, "changed")])
        }
        Step::RunJob => ("cron.run", json!({"id": id}), vec![cell(ran, true)]),
        _ => ("cron.remove", json!({"id": id}), vec![cell(name, Value::Null)]),
    };
    let answer = stage.ask(client, method, params).await;
    if step == Step::RunJob && answer.is_ok() {
        let is_end = |frame: &Value| {
            let payload = &frame["payload"];
            frame["event"] == "cron" && payload["action"] == "finished" && payload["jobId"] == id
        };
        // An end that cannot be written is told by the next start.
        client.wait_for(SOON, is_end).await;
    }
    vec![Part::of(&answer, cells)]
}

/// The job that is named after `tag`.
pub async fn job(stage: &mut Stage, client: &mut WsClient, tag: &str) -> Option<Value> {
    let page = stage.ask(client, "cron.list", json!({"includeDisabled": true})).await.payload();
    page["jobs"].as_array()?.iter().find(|job| job["name"] == tag).cloned()
}
