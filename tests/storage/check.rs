//! Whether what was promised is there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clawgate::sessions::SessionQuery;
use clawgate::store::{SqliteStore, Store};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::stage::{PATIENCE, Stage};
use crate::steps::{self, Cell, Part, Step};
use crate::support::WsClient;

/// How texts begin that are said once.
const SAID: [&str; 6] = ["message-", "note-", "answer-", "done-", "hooked-", "hook-"];

/// Between two looks at what comes by itself.
const POLL: Duration = Duration::from_millis(20);

/// What may be looked up, and what may come of it.
#[derive(Clone, Default)]
pub struct World(BTreeMap<String, Vec<Value>>);

impl World {
    /// Something was answered: it is so from now on.
    pub fn is_so(&mut self, cells: &[Cell]) {
        for (name, value) in cells {
            self.0.insert(name.clone(), vec![value.clone()]);
        }
    }

    /// Something was asked and not answered well: it may have become so.
    pub fn may_be_so(&mut self, cells: &[Cell]) {
        for (name, value) in cells {
            let known = self.0.entry(name.clone()).or_insert_with(|| vec![Value::Null]);
            if !known.contains(value) {
                known.push(value.clone());
            }
        }
    }

    /// Takes in what was answered.
    pub fn note(&mut self, part: &Part) {
        if part.is_ok {
            self.is_so(&part.cells);
        } else {
            self.may_be_so(&part.cells);
        }
    }

    /// Looks everything up; what was open before is settled then. The connection is
    /// one of an operator.
    pub async fn check(&mut self, stage: &mut Stage, client: &mut WsClient, after: &str) {
        let mut view = View::of(stage, client).await;
        for (name, may_be) in &mut self.0 {
            let is = view.value(stage, client, name, may_be).await;
            assert!(
                may_be.contains(&is),
                "{after}: {name} is {is}, not one of {may_be:?}\n{}",
                stage.gateway.stderr()
            );
            *may_be = vec![is];
        }
        // The gateway itself may say the same again.
        let is_ours = |text: &str| SAID.iter().any(|word| text.starts_with(word));
        let twice = view.texts.iter().find(|(text, ids)| is_ours(text) && ids.len() > 1);
        assert_eq!(twice, None, "{after}: said twice");
    }
}

/// A gateway as it shows itself.
struct View {
    sessions: HashMap<String, Value>,
    devices: Vec<Value>,
    jobs: HashMap<String, Value>,
    /// The ids of the entries that have a text.
    texts: BTreeMap<String, BTreeSet<String>>,
    config: Value,
    wake: Value,
    file: Value,
}

impl View {
    async fn of(stage: &mut Stage, client: &mut WsClient) -> Self {
        let mut get = async |method: &str, params: Value| {
            let answer = stage.ask(client, method, params).await;
            assert!(answer.is_ok(), "{method}: {:?}", answer.said);
            answer.payload()
        };
        let sessions = get("sessions.list", json!({"limit": 1000})).await;
        let devices = get("device.pair.list", json!({})).await;
        let jobs = get("cron.list", json!({"includeDisabled": true})).await;
        let config = get("config.get", json!({})).await["config"]["ui"]["seamColor"].clone();
        let wake = get("voicewake.get", json!({})).await["triggers"][0].clone();
        let file = json!({"agentId": "main", "name": "USER.md"});
        let file = get("agents.files.get", file).await["file"]["content"].clone();
        let by = |list: &Value, name: &str| -> HashMap<String, Value> {
            let rows = list.as_array().unwrap().iter();
            rows.map(|row| (row[name].as_str().unwrap_or_default().to_owned(), row.clone()))
                .collect()
        };
        Self {
            sessions: by(&sessions["sessions"], "key"),
            devices: devices["paired"].as_array().unwrap().clone(),
            jobs: by(&jobs["jobs"], "name"),
            texts: texts(&transcripts(&stage.gateway.state_dir())),
            config,
            wake,
            file,
        }
    }

    async fn value(
        &mut self,
        stage: &mut Stage,
        client: &mut WsClient,
        name: &str,
        may_be: &[Value],
    ) -> Value {
        let (kind, of) = name.split_once(':').unwrap_or((name, ""));
        let some = |is_so: bool| if is_so { json!(true) } else { Value::Null };
        let one_of = |is: &Value| if may_be.contains(is) { is.clone() } else { Value::Null };
        match kind {
            "said" => self.texts.get(of).map_or(Value::Null, |ids| ids.len().into()),
            "there" => some(self.sessions.contains_key(of)),
            "label" => self.sessions.get(of).map_or(Value::Null, |row| row["label"].clone()),
            "history" => {
                let params = json!({"sessionKey": of, "limit": 1000});
                let page = stage.ask(client, "chat.history", params).await.payload();
                some(!page["messages"].as_array().unwrap().is_empty())
            }
            "device" => some(self.devices.iter().any(|device| device["deviceId"] == of)),
            "token" => {
                let (device, token) = of.split_once(':').unwrap();
                let guest = steps::guest(device).with(json!({"deviceToken": token}));
                some(guest.knock(&stage.gateway).await.1["ok"] == true)
            }
            "job" => self.jobs.get(of).map_or(Value::Null, |job| match &job["description"] {
                Value::String(text) => text.as_str().into(),
                _ => true.into(),
            }),
            "ran" => {
                let Some(job) = self.jobs.get(of) else { return one_of(&json!(true)) };
                let id = job["id"].clone();
                // What a stop cut off is ended soon after the start.
                let deadline = Instant::now() + PATIENCE;
                loop {
                    let params = json!({"id": id, "limit": 10});
                    let page = stage.ask(client, "cron.runs", params).await.payload();
                    let has_run = page["entries"].as_array().is_some_and(|rows| !rows.is_empty());
                    if has_run || may_be.contains(&Value::Null) || Instant::now() > deadline {
                        return some(has_run);
                    }
                    sleep(POLL).await;
                }
            }
            "upload" => upload(&stage.gateway.state_dir(), of),
            // Asked again, it is the same run; where it was not stored it begins now.
            "hook" => one_of(&steps::post_hook(stage, of).await.payload()["runId"]),
            "config" => self.config.clone(),
            // Without any there are standard ones, and templates.
            "wake" => one_of(&self.wake),
            "file" => one_of(&self.file),
            other => panic!("nobody has said how to look up {other}"),
        }
    }
}

/// What was uploaded: its text, once its record is there too.
fn upload(state: &Path, id: &str) -> Value {
    let folder = state.join("media/uploads");
    if !folder.join(format!("records/{id}.json")).is_file() {
        return Value::Null;
    }
    fs::read_to_string(folder.join("files").join(id)).map_or(Value::Null, Value::from)
}

/// All transcripts, also those that were put away.
fn transcripts(state: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(state.join("agents/main/sessions")) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.to_str().unwrap().contains(".jsonl")).collect()
}

/// The entries of a transcript that are counted. What was cut by a power loss is no
/// line, or one that cannot be read: nobody was told that it was written, or it is
/// missed where it is looked up.
fn entries(path: &Path) -> Vec<Value> {
    let bytes = fs::read(path).unwrap();
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let lines = lines.filter(|line| line.ends_with(b"\n"));
    let entries = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    entries.filter(|line| line["type"] == "message" || line["type"] == "compaction").collect()
}

fn texts(transcripts: &[PathBuf]) -> BTreeMap<String, BTreeSet<String>> {
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in transcripts.iter().flat_map(|path| entries(path)) {
        if let Some(text) = entry["message"]["content"][0]["text"].as_str() {
            let id = entry["id"].as_str().unwrap().to_owned();
            texts.entry(text.to_owned()).or_default().insert(id);
        }
    }
    texts
}

/// The gateway does what it is there for: in a session that it had and in a new one.
pub async fn works(stage: &mut Stage, after: &str) {
    for session in ["works", "works-too"] {
        let tag = format!("{session}-{}", stage.name());
        for part in Step::Say.perform(stage, &tag).await {
            assert!(part.is_ok, "{after}: {}\n{}", part.said, stage.gateway.stderr());
        }
    }
}

/// Reads the history of every session that is listed, so that the index learns of what
/// it does not know; answers whose they are.
pub async fn read_all(stage: &mut Stage, client: &mut WsClient) -> BTreeSet<String> {
    let list = stage.ask(client, "sessions.list", json!({"limit": 1000})).await.payload();
    let mut keys = BTreeSet::new();
    for row in list["sessions"].as_array().unwrap() {
        let params = json!({"sessionKey": row["key"], "limit": 1000});
        assert!(stage.ask(client, "chat.history", params).await.is_ok());
        keys.insert(row["key"].as_str().unwrap().to_owned());
    }
    keys
}

/// What the index says of the transcripts that were read is in them, and of no
/// transcript it knows more than there is.
pub async fn index_agrees(state: &Path, read: &BTreeSet<String>, after: &str) {
    let store = SqliteStore::open(&state.join("clawgate.sqlite")).unwrap();
    assert_eq!(store.unsettled_runs().await.unwrap(), [], "{after}");
    for row in store.list_sessions(SessionQuery::default()).await.unwrap().entries {
        let facts = &row.entry.transcript;
        let path = PathBuf::from(row.entry.session_file.as_ref().unwrap());
        let entries = if path.exists() { entries(&path) } else { Vec::new() };
        let known = usize::try_from(facts.message_count).unwrap();
        let all = if read.contains(&row.key) { entries.len() } else { known };
        assert_eq!(known, all, "{after}: {}", row.key);
        let last = known.checked_sub(1).map(|last| {
            let entry = entries.get(last).unwrap_or_else(|| panic!("{after}: {}", row.key));
            entry["id"].as_str().unwrap().to_owned()
        });
        assert_eq!(facts.leaf_id, last, "{after}: {}", row.key);
    }
}
