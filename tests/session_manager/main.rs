//! Our transcripts in the session manager that OpenClaw is built on (npm
//! `@mariozechner/pi-coding-agent`), and its transcripts in ours.
//!
//! It rewrites a file that it does not take for one of its own, so every test
//! also looks at the bytes.

#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use clawgate::config::ResetSettings;
use clawgate::protocol::message::{AgentMessage, UserMessage};
use clawgate::sessions::{
    AppendOptions, CompactedFiles, Compaction, CompactionReason, ContextEntry, CutSession,
    HistoryOptions, KeyRules, SessionKey, Sessions, SessionsOptions, TranscriptFormat,
};
use clawgate::store::SqliteStore;
use clawgate::support::{RandomIds, SystemClock};
use serde_json::{Value, json};

use support::node;

/// A folder with one session in it.
struct Stage {
    dir: tempfile::TempDir,
    sessions: Sessions,
    key: SessionKey,
}

impl Stage {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let sessions = open(dir.path()).await;
        let key = SessionKey::parse("main", &KeyRules::default());
        sessions.ensure(&key, Path::new("/w")).await.unwrap();
        Self { dir, sessions, key }
    }

    async fn append(&self, message: Value) -> String {
        let message = serde_json::from_value(message).unwrap();
        let stored = self.sessions.append(&self.key, message, AppendOptions::default()).await;
        stored.unwrap().id
    }

    async fn path(&self) -> PathBuf {
        let entry = self.sessions.entry(&self.key).await.unwrap().unwrap();
        self.sessions.path(&self.key, &entry).unwrap()
    }

    async fn context(&self) -> Vec<AgentMessage> {
        self.sessions.context(&self.key).await.unwrap()
    }

    /// What the session manager has after these steps in this very file.
    async fn theirs(&self, steps: Value) -> Value {
        manage(&self.path().await, &steps)
    }

    /// Opens a copy in the session manager: it must read what our model reads,
    /// and leave every byte as it is.
    async fn reads_the_same(&self) -> Value {
        let ours = fs::read(self.path().await).unwrap();
        let copy = self.dir.path().join("copy.jsonl");
        fs::write(&copy, &ours).unwrap();
        let theirs = manage(&copy, &json!([]));
        assert!(fs::read(&copy).unwrap() == ours, "the session manager rewrote the file");
        let messages = theirs["messages"].as_array().unwrap();
        assert_eq!(messages.iter().map(read).collect::<Vec<_>>(), self.context().await);
        theirs
    }
}

async fn open(dir: &Path) -> Sessions {
    let options = SessionsOptions {
        state_dir: dir.to_owned(),
        rules: Arc::default(),
        format: TranscriptFormat::OpenClaw,
        reset: ResetSettings::default(),
    };
    let store = SqliteStore::open(&dir.join("clawgate.sqlite")).unwrap();
    Sessions::open(options, Arc::new(store), Arc::new(SystemClock), Arc::new(RandomIds))
        .await
        .unwrap()
}

fn manage(file: &Path, steps: &Value) -> Value {
    let library =
        node::package("@mariozechner/pi-coding-agent").join("dist/core/session-manager.js");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/session_manager/steps.mjs");
    let output = Command::new("node")
        .arg(script)
        .args([&library, file])
        .arg(steps.to_string())
        .output()
        .expect("node 20 or newer must be on PATH");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A message of the session manager as our model reads it.
fn read(message: &Value) -> AgentMessage {
    let at = message["timestamp"].as_u64().unwrap();
    let summary = |intro: &str| {
        let text =
            format!("{intro}\n\n<summary>\n{}\n</summary>", message["summary"].as_str().unwrap());
        AgentMessage::User(UserMessage::text(text, at))
    };
    match message["role"].as_str().unwrap() {
        "compactionSummary" => summary(
            "The conversation history before this point was compacted into the following summary:",
        ),
        "branchSummary" => {
            summary("The following is a summary of a branch that this conversation came back from:")
        }
        "custom" => serde_json::from_value(
            json!({"role": "user", "content": message["content"], "timestamp": at}),
        )
        .unwrap(),
        _ => serde_json::from_value(message.clone()).unwrap(),
    }
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1_795_318_528_546_u64})
}

fn assistant(content: Value, stop_reason: &str) -> Value {
    json!({"role": "assistant", "content": content, "api": "openai-completions",
        "provider": "mock", "model": "mock-1",
        "usage": {"input": 4521, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 4522,
            "cost": {"input": 0.004_521, "output": 0.000_002, "cacheRead": 0, "cacheWrite": 0, "total": 0.004_523}},
        "stopReason": stop_reason, "timestamp": 1_795_318_528_615_u64, "responseId": "r-1"})
}

fn said(text: &str) -> Value {
    assistant(json!([{"type": "text", "text": text}]), "stop")
}

fn result(call: &str) -> Value {
    json!({"role": "toolResult", "toolCallId": call, "toolName": "read",
        "content": [{"type": "text", "text": "alpha\nbeta"}], "details": {"n": 1},
        "isError": false, "timestamp": 1_795_318_558_408_u64})
}

fn compaction(summary: &str, first_kept_entry_id: Option<String>) -> Compaction {
    Compaction {
        reason: CompactionReason::Manual,
        summary: summary.into(),
        first_kept_entry_id,
        tokens_before: 4600,
        tokens_after: 30,
        files: CompactedFiles::default(),
    }
}

fn texts(messages: &[AgentMessage]) -> Vec<String> {
    messages.iter().map(AgentMessage::text).collect()
}

#[tokio::test]
async fn our_transcript_loads_there_and_stays_as_it_is() {
    let stage = Stage::new().await;
    stage.append(user("[Sun 2026-11-22 03:35 UTC] hello “there” 😀")).await;
    let call = json!([{"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
        {"type": "text", "text": "Let me look."},
        {"type": "toolCall", "id": "call_1", "name": "read", "arguments": {"path": "notes.txt"}}]);
    stage.append(assistant(call, "toolUse")).await;
    stage.append(result("call_1")).await;
    let kept = stage.append(said("Two lines.")).await;
    let picture = json!({"role": "user", "timestamp": 2, "content": [{"type": "text", "text": "see"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"}]});
    stage.append(picture).await;
    let theirs = stage.reads_the_same().await;
    assert_eq!(theirs["messages"].as_array().unwrap().len(), 5);
    assert_eq!(theirs["header"]["cwd"], "/w");

    let compaction = compaction("They said hello.", Some(kept));
    let session_id = stage.sessions.entry(&stage.key).await.unwrap().unwrap().session_id;
    let done = stage.sessions.compact(&stage.key, &session_id, compaction).await;
    let entry = done.unwrap().entry_id;
    stage.append(said("After it.")).await;
    let theirs = stage.reads_the_same().await;
    assert_eq!(theirs["messages"][0]["role"], "compactionSummary");
    assert_eq!(theirs["messages"][0]["tokensBefore"], 4600);
    assert_eq!(theirs["messages"].as_array().unwrap().len(), 4);
    assert!(theirs["entries"].as_array().unwrap().iter().any(|it| it["id"] == *entry));
}

/// What goes back behind a compaction, and what is cut, are files of the
/// original too.
#[tokio::test]
async fn branches_and_cut_transcripts_load_there() {
    let mut stage = Stage::new().await;
    for text in ["one", "two", "three", "four"] {
        stage.append(user(text)).await;
        stage.append(said(&format!("{text}!"))).await;
    }
    let id = |entries: &[ContextEntry], at: usize| Some(entries[at].id.clone());
    let entries = stage.sessions.context_entries(&stage.key).await.unwrap();
    let whole = fs::read(stage.path().await).unwrap();
    let kept = compaction("They counted.", id(&entries, 6));
    let session = stage.sessions.entry(&stage.key).await.unwrap().unwrap().session_id;
    let first = stage.sessions.compact(&stage.key, &session, kept).await.unwrap();
    stage.append(user("five")).await;
    let nothing_kept = compaction("They counted on.", None);
    let second = stage.sessions.compact(&stage.key, &session, nothing_kept).await.unwrap();
    assert_eq!(second.entry.compaction_count, Some(2));
    stage.append(said("six")).await;
    assert_eq!(stage.reads_the_same().await["messages"].as_array().unwrap().len(), 2);

    let (main, checkpoint) = (stage.key.clone(), &first.checkpoint.checkpoint_id);
    let branch = stage.sessions.branch(&main, checkpoint).await.unwrap();
    stage.key = branch.key;
    let theirs = stage.reads_the_same().await;
    assert_eq!(theirs["messages"].as_array().unwrap().len(), 8);
    assert_eq!(
        (&theirs["header"]["id"], &theirs["header"]["cwd"]),
        (&json!(branch.entry.session_id), &json!("/w"))
    );
    let parent = theirs["header"]["parentSession"].as_str().unwrap().to_owned();
    assert!(fs::read(parent).unwrap().starts_with(&whole));
    stage.append(user("five otherwise")).await;
    stage.reads_the_same().await;

    stage.key = main.clone();
    assert_eq!(stage.context().await.len(), 2, "the branch is another session");
    let Ok(CutSession::Cut { archived, entry }) = stage.sessions.cut(&main, 4).await else {
        panic!("not cut")
    };
    assert!(fs::read(&archived).unwrap().starts_with(&whole));
    // What is left: a summary with all that is left before it, "five", the
    // second summary, "six".
    let theirs = stage.reads_the_same().await;
    assert_eq!(theirs["entries"].as_array().unwrap().len(), 4);
    assert_eq!(entry.transcript.message_count, 4);
    stage.append(user("seven")).await;
    stage.reads_the_same().await;

    // The cut took nothing away from those who want to go back.
    let restored = stage.sessions.restore(&main, checkpoint).await.unwrap();
    assert_eq!(restored.entry.compaction_checkpoints.len(), 2);
    assert_eq!(restored.entry.transcript.message_count, 8);
    assert_eq!(stage.reads_the_same().await["messages"].as_array().unwrap().len(), 8);
    let back = stage.sessions.restore(&main, &second.checkpoint.checkpoint_id).await.unwrap();
    assert_eq!(back.entry.transcript.message_count, 10);
    assert_eq!(texts(&stage.context().await)[1..], ["four", "four!", "five"]);
    stage.reads_the_same().await;
}

#[tokio::test]
async fn what_each_appends_the_other_reads() {
    let stage = Stage::new().await;
    let first = stage.append(user("one")).await;
    stage.append(said("two")).await;
    let before = fs::read(stage.path().await).unwrap();
    let theirs = stage
        .theirs(json!([
            {"model": ["mock", "mock-2"]}, {"thinking": "high"}, {"name": "A name"},
            {"custom": ["model-snapshot", {"modelId": "mock-2"}]},
            {"note": ["mine", "a note", true, {"source": "test"}]},
            {"append": user("three")}, {"append": said("four")},
        ]))
        .await;
    assert_eq!(
        (&theirs["thinkingLevel"], &theirs["model"]["modelId"]),
        (&json!("high"), &json!("mock-1"))
    );
    assert!(fs::read(stage.path().await).unwrap().starts_with(&before));
    assert_eq!(texts(&stage.context().await), ["one", "two", "a note", "three", "four"]);
    stage.append(user("five")).await;
    stage.reads_the_same().await;

    // They go back to the first message and begin again from there.
    let steps = json!([{"branchWithSummary": [first, "They counted to five."]},
        {"append": user("uno")}, {"append": said("dos")}, {"label": [first, "start"]}]);
    stage.theirs(steps).await;
    let context = texts(&stage.context().await);
    assert_eq!((context.len(), &context[2..]), (4, &["uno".to_owned(), "dos".to_owned()][..]));
    assert!(context[1].contains("They counted to five."), "{context:?}");
    stage.append(user("tres")).await;
    let theirs = stage.reads_the_same().await;
    assert_eq!(theirs["messages"].as_array().unwrap().len(), 5);

    let steps =
        json!([{"compaction": ["They count.", theirs["leaf"], 99]}, {"append": said("cuatro")}]);
    stage.theirs(steps).await;
    assert_eq!(texts(&stage.context().await)[1..], ["tres", "cuatro"]);
    stage.append(user("cinco")).await;
    stage.reads_the_same().await;
    // Clients see every message that there is, of left branches too.
    let shown = stage.sessions.history(&stage.key, HistoryOptions::default()).await.unwrap();
    assert_eq!(shown.messages.len(), 11);
}

/// Every kind of line that OpenClaw 2026.5.7 writes, and one of the future.
#[tokio::test]
async fn a_transcript_of_the_original_goes_on_here() {
    let recorded = include_str!("openclaw-2026.5.7.jsonl");
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("agents/main/sessions");
    fs::create_dir_all(&folder).unwrap();
    let id = "022e6ed8-0c91-40da-a0fd-96b7784a5729";
    let path = folder.join(format!("{id}.jsonl"));
    fs::write(&path, recorded).unwrap();
    let index = json!({"agent:main:main": {"sessionId": id, "updatedAt": 1, "sessionFile": path}});
    fs::write(folder.join("sessions.json"), index.to_string()).unwrap();

    let sessions = open(dir.path()).await;
    let key = SessionKey::parse("main", &KeyRules::default());
    let stage = Stage { dir, sessions, key };
    let context = texts(&stage.context().await);
    assert_eq!(context[1..4], ["still there?", "Yes.", "what next?"]);
    assert!(context[0].contains("They greeted each other and read a file."), "{context:?}");
    assert!(context[4].contains("A detour about tea.") && context[5] == "Breakfast.");
    stage.reads_the_same().await;
    let shown = stage.sessions.history(&stage.key, HistoryOptions::default()).await.unwrap();
    assert_eq!(shown.messages.len(), 17);
    assert_eq!(shown.messages[16]["__openclaw"], json!({"id": "a000001a", "seq": 17}));
    stage.append(user("thanks")).await;
    let now = fs::read_to_string(&path).unwrap();
    let added: Value = serde_json::from_str(now.strip_prefix(recorded).unwrap()).unwrap();
    assert_eq!(added["parentId"], "a000001a");
    stage.reads_the_same().await;

    // As it was before it was summed up.
    let before: Vec<_> = recorded.lines().take(20).collect();
    fs::write(&path, before.join("\n")).unwrap();
    let context = texts(&stage.context().await);
    assert_eq!(context[..2], ["[Sun 2026-11-22 03:35 UTC] good morning", "Good morning."]);
    assert_eq!(context.len(), 14, "all but what was only for one turn");
    stage.append(user("thanks")).await;
    assert_eq!(stage.context().await.len(), 15);
}

/// The session manager's first versions had no ids.
#[tokio::test]
async fn a_transcript_without_ids_is_not_forgotten_by_what_follows() {
    let stage = Stage::new().await;
    let old = [
        json!({"type": "session", "id": "old", "timestamp": "2025-01-01T00:00:00.000Z", "cwd": "/w"}),
        json!({"type": "message", "timestamp": "2025-01-01T00:00:01.000Z", "message": user("one")}),
        json!({"type": "message", "timestamp": "2025-01-01T00:00:02.000Z", "message": said("two")}),
    ];
    fs::write(stage.path().await, old.map(|line| format!("{line}\n")).concat()).unwrap();
    stage.append(user("three")).await;
    stage.append(said("four")).await;
    assert_eq!(texts(&stage.context().await), ["one", "two", "three", "four"]);
    let theirs = stage.theirs(json!([])).await;
    assert_eq!(theirs["messages"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn torn_and_broken_lines_are_read_alike() {
    let stage = Stage::new().await;
    stage.append(user("one")).await;
    stage.append(said("two")).await;
    let path = stage.path().await;
    let mut bytes = fs::read(&path).unwrap();
    // A line in which a disk has lost bytes, zeros, and a torn one at the end.
    let leaf = stage.reads_the_same().await["leaf"].clone();
    let line = json!({"type": "message", "id": "f00df00d", "parentId": leaf,
        "timestamp": "2026-11-22T03:35:28.398Z", "message": user("cut \u{e9} here")});
    let cut: Vec<u8> = line.to_string().bytes().filter(|byte| *byte != 0xc3).collect();
    bytes.extend_from_slice(&cut);
    bytes.extend_from_slice(
        b"\r\n\0\0\0\0\n\x01\x02 rubbish \xff\xfe\n{\"type\":\"message\",\"id\":\"0bad",
    );
    fs::write(&path, &bytes).unwrap();
    assert_eq!(texts(&stage.context().await), ["one", "two", "cut ? here"]);
    stage.append(said("three")).await;
    assert!(fs::read(&path).unwrap().starts_with(&bytes));
    let theirs = stage.theirs(json!([])).await;
    let theirs = theirs["messages"].as_array().unwrap();
    assert_eq!(theirs.len(), 4, "nothing that follows is lost there either");
    assert_eq!(theirs[3]["content"][0]["text"], "three");
}
