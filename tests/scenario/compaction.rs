//! `sessions.compact` and going back behind it.
//!
//! The mock follows the last `@mock` line of what it is asked, so a message in
//! the part that is summed up says what the summary will be.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::aimock::Aimock;
use crate::stage::{
    Api, RUN_LIMIT, admin, ask, call, config, connect, end_of, history, lines, row, spent_by,
    start, text_of, told, until,
};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::mock::tokens;
use crate::support::{
    DeviceKey, Gateway, GatewayOptions, MockProvider, WsClient, default_config, now_ms,
};

const SUMMARY: &str = "@mock text text=\"They said hello.\"";
const COMPACT: &str = "sessions.compact";

/// A gateway whose compactions keep one message only.
async fn forgetful() -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["compaction"] = json!({"keepRecentTokens": 1});
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

async fn event(client: &WsClient, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let found = client.wait_for(RUN_LIMIT, is_wanted).await;
    found.expect("the event comes")["payload"].clone()
}

/// The data of the first compaction event of this phase.
async fn phase(client: &WsClient, phase: &str) -> Value {
    event(client, |frame| {
        frame["payload"]["stream"] == "compaction" && frame["payload"]["data"]["phase"] == phase
    })
    .await
}

async fn changed(client: &WsClient, key: &str, reason: &str) -> Value {
    event(client, |frame| {
        let payload = &frame["payload"];
        frame["event"] == "sessions.changed"
            && payload["reason"] == reason
            && payload["sessionKey"] == key
    })
    .await
}

async fn error(client: &mut WsClient, method: &str, params: Value) -> String {
    let answer = client.request(method, params).await;
    answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// An answer, so that the mock does not take what was said before it for a
/// part of what is said next.
async fn note(client: &mut WsClient) {
    call(client, "chat.inject", json!({"sessionKey": "s", "message": "noted"})).await;
}

/// Sends a request whose answer is waited for later; answers its id.
async fn begin(client: &mut WsClient, method: &str, params: Value) -> String {
    let id = "begun".to_owned();
    client.send(&json!({"type": "req", "id": id, "method": method, "params": params})).await;
    id
}

fn folder(gateway: &Gateway) -> PathBuf {
    gateway.state_dir().join("agents/main/sessions")
}

/// Every file of the agent's sessions, with its bytes.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    files.sort();
    files
}

#[tokio::test]
async fn a_conversation_is_summed_up_by_its_model_and_goes_on() {
    let (gateway, mock) = forgetful().await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.subscribe", json!({})).await;
    ask(&mut client, "long", "hello", "run-1").await;
    ask(&mut client, "long", SUMMARY, "run-2").await;
    let before = files(&folder(&gateway));
    let answer = call(&mut client, COMPACT, json!({"key": "long"})).await;
    assert_eq!((&answer["ok"], &answer["compacted"]), (&json!(true), &json!(true)), "{answer}");
    assert_eq!(answer["key"], "agent:main:long");
    let result = &answer["result"];
    assert_eq!(result["summary"], "They said hello.");
    let kept = history(&mut client, "long").await[3].clone();
    assert_eq!(result["firstKeptEntryId"], kept["__openclaw"]["id"]);
    assert_eq!(result["details"], json!({"readFiles": [], "modifiedFiles": []}));
    assert!(result["tokensAfter"].as_u64() < result["tokensBefore"].as_u64(), "{result}");

    let begun = phase(&client, "start").await;
    let ended = phase(&client, "end").await;
    assert_eq!(ended["data"], json!({"phase": "end", "willRetry": false, "completed": true}));
    assert_eq!(
        (&begun["runId"], &begun["sessionKey"]),
        (&ended["runId"], &json!("agent:main:long"))
    );
    let change = changed(&client, "agent:main:long", "compact").await;
    assert_eq!((&change["compacted"], &change["hasActiveRun"]), (&json!(true), &json!(false)));
    assert_eq!(
        (&change["compactionCount"], &change["totalTokensFresh"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(change["totalTokens"], result["tokensAfter"]);
    let listed = row(&mut client, "agent:main:long").await;
    assert_eq!(
        (&listed["compactionCount"], &listed["compactionCheckpointCount"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(listed["latestCompactionCheckpoint"]["checkpointId"], result["checkpointId"]);

    // One line was added, and clients see where.
    let after = files(&folder(&gateway));
    assert!(after[0].1.starts_with(&before[0].1) && after.len() == before.len());
    let mark = history(&mut client, "long").await.pop().unwrap();
    assert_eq!((&mark["role"], text_of(&mark)), (&json!("system"), "Compaction".to_owned()));
    assert_eq!(mark["__openclaw"]["kind"], "compaction");

    // The model reads the summary and what was kept, also after a restart.
    assert_eq!(
        text_of(&ask(&mut client, "long", "go on", "run-3").await["message"]),
        "Echo: go on"
    );
    let asked = mock.requests().pop().unwrap().body["messages"].to_string();
    assert!(asked.contains("<summary>\\nThey said hello.\\n</summary>"), "{asked}");
    assert!(!asked.contains("Echo: hello"), "{asked}");

    // The next summary brings this one up to date.
    ask(&mut client, "long", "@mock text text=\"They went on.\"", "run-4").await;
    let again = call(&mut client, COMPACT, json!({"key": "long"})).await;
    assert_eq!(again["result"]["summary"], "They went on.");
    let asked = mock.requests().pop().unwrap().body["messages"].to_string();
    assert!(asked.contains("<previous-summary>\\nThey said hello."), "{asked}");
    assert_eq!(row(&mut client, "agent:main:long").await["compactionCount"], 2);
}

#[tokio::test]
async fn a_summary_that_its_limit_has_cut_says_so() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["compaction"] = json!({"keepRecentTokens": 1});
    // The mock says everything in three pieces; each counts as a token.
    config["models"]["providers"]["mock"]["models"][0]["maxTokens"] = json!(2);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "s", "hello", "run-1").await;
    ask(&mut client, "s", SUMMARY, "run-2").await;
    let answer = call(&mut client, COMPACT, json!({"key": "s"})).await;
    let summary = answer["result"]["summary"].as_str().unwrap();
    let cut = "They said he\n\n(This summary was cut off ";
    assert!(summary.starts_with(cut), "{summary}");
}

#[tokio::test]
async fn with_nothing_to_sum_up_the_transcript_stays_as_it_is() {
    let mock = MockProvider::start().await;
    let options = GatewayOptions::with_config(default_config(mock.address()));
    let gateway = Gateway::start(options).await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.subscribe", json!({})).await;
    ask(&mut client, "short", "hello", "run-1").await;
    let before = files(&folder(&gateway));
    call(&mut client, "sessions.reset", json!({"key": "short"})).await;
    let empty = "no real conversation messages";
    for (key, reason) in [("short", empty), ("nope", "no sessionId")] {
        let answer = call(&mut client, COMPACT, json!({"key": key})).await;
        let key = format!("agent:main:{key}");
        assert_eq!(answer, json!({"ok": true, "key": key, "compacted": false, "reason": reason}));
    }
    assert_eq!(changed(&client, "agent:main:short", "compact").await["compacted"], false);
    assert_eq!(mock.requests().len(), 1, "no model was asked");
    assert!(files(&folder(&gateway)).iter().any(|(_, bytes)| *bytes == before[0].1));
}

#[tokio::test]
async fn a_short_conversation_is_summed_up_as_a_whole_for_whoever_asks() {
    let mock = MockProvider::start().await;
    let options = GatewayOptions::with_config(default_config(mock.address()));
    let gateway = Gateway::start(options).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "short", "hello", "run-1").await;
    let params = json!({"key": "short", "instructions": SUMMARY});
    let answer = call(&mut client, COMPACT, params).await;
    assert_eq!(answer["compacted"], true, "{answer}");
    assert_eq!(answer["result"]["summary"], "They said hello.");
    let mark = history(&mut client, "short").await.pop().unwrap();
    assert_eq!(mark["__openclaw"]["kind"], "compaction");
    assert_eq!(answer["result"]["firstKeptEntryId"], mark["__openclaw"]["id"]);
    // It goes on with the summary, and there is nothing new to sum up yet.
    let again = call(&mut client, COMPACT, json!({"key": "short"})).await;
    assert_eq!(again["reason"], "no real conversation messages");
    ask(&mut client, "short", "go on", "run-2").await;
    let asked = mock.requests().pop().unwrap().body["messages"].to_string();
    assert!(asked.contains("<summary>\\nThey said hello.\\n</summary>"), "{asked}");
    assert!(asked.contains("go on") && !asked.contains("Echo: hello"), "{asked}");
}

#[tokio::test]
async fn a_model_that_fails_changes_nothing_and_holds_nobody_up() {
    let (gateway, _mock) = forgetful().await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "s", "@mock err status=400 msg=\"scripted refusal\"", "run-1").await;
    note(&mut client).await;
    ask(&mut client, "s", "hello", "run-2").await;
    let before = files(&folder(&gateway));
    let refusal = error(&mut client, COMPACT, json!({"key": "s"})).await;
    assert_eq!(refusal, "compaction failed: 400 scripted refusal");
    let ended = phase(&client, "end").await;
    assert_eq!(ended["data"]["completed"], false);
    assert_eq!(files(&folder(&gateway)), before);
    assert_eq!(
        text_of(&ask(&mut client, "s", "still there?", "run-3").await["message"]),
        "Echo: still there?"
    );
}

#[tokio::test]
async fn a_message_waits_for_a_compaction_and_an_abort_stops_it() {
    let (gateway, _mock) = forgetful().await;
    let mut client = admin(&gateway).await;
    start(&mut client, "s", "@mock stream n=400 delay=100", "run-1").await;
    call(&mut client, "chat.abort", json!({"sessionKey": "s", "runId": "run-1"})).await;
    note(&mut client).await;
    ask(&mut client, "s", "hello", "run-2").await;
    let before = files(&folder(&gateway));
    let mut other = admin(&gateway).await;
    let request = begin(&mut other, COMPACT, json!({"key": "s"})).await;
    let hold = phase(&client, "start").await["runId"].clone();
    assert_eq!(row(&mut client, "agent:main:s").await["hasActiveRun"], true);
    start(&mut client, "s", "meanwhile", "run-3").await;
    let answer = call(&mut client, "chat.abort", json!({"sessionKey": "s", "runId": hold})).await;
    assert_eq!(answer["runIds"], json!([hold]));
    let answer = other.answer(&request).await.unwrap();
    assert_eq!(answer["error"]["message"], "compaction was stopped", "{answer}");
    let waited = call(&mut client, "agent.wait", json!({"runId": hold})).await;
    assert_eq!((&waited["status"], &waited["stopReason"]), (&json!("timeout"), &json!("rpc")));
    assert_eq!(text_of(&end_of(&client, "run-3").await["message"]), "Echo: meanwhile");
    let after = files(&folder(&gateway));
    assert!(after[0].1.starts_with(&before[0].1));
    assert!(!String::from_utf8_lossy(&after[0].1).contains("\"compaction\""));
}

#[tokio::test]
async fn a_message_that_interrupts_runs_waits_for_a_compaction_too() {
    let (gateway, _mock) = forgetful().await;
    let mut client = admin(&gateway).await;
    start(&mut client, "s", "@mock stream n=400 delay=100", "run-1").await;
    call(&mut client, "chat.abort", json!({"sessionKey": "s", "runId": "run-1"})).await;
    ask(&mut client, "s", "/queue interrupt", "run-2").await;
    let mut other = admin(&gateway).await;
    let request = begin(&mut other, COMPACT, json!({"key": "s"})).await;
    let hold = phase(&client, "start").await["runId"].clone();
    for (run_id, text) in [("run-3", "meanwhile"), ("run-4", "and now")] {
        start(&mut client, "s", text, run_id).await;
    }
    assert_eq!(end_of(&client, "run-3").await["stopReason"], "interrupt");
    let answer = call(&mut client, "chat.abort", json!({"sessionKey": "s", "runId": hold})).await;
    assert_eq!(answer["runIds"], json!([hold]), "it is still under way");
    assert_eq!(other.answer(&request).await.unwrap()["ok"], false);
    assert_eq!(text_of(&end_of(&client, "run-4").await["message"]), "Echo: and now");
}

#[tokio::test]
async fn who_asks_and_leaves_does_not_block_the_session() {
    let (gateway, _mock) = forgetful().await;
    let mut client = admin(&gateway).await;
    start(&mut client, "s", "@mock stream n=3 delay=100", "run-1").await;
    end_of(&client, "run-1").await;
    ask(&mut client, "s", "hello", "run-2").await;
    let mut other = admin(&gateway).await;
    begin(&mut other, COMPACT, json!({"key": "s"})).await;
    phase(&client, "start").await;
    other.close().await;
    assert_eq!(text_of(&ask(&mut client, "s", "next", "run-3").await["message"]), "Echo: next");
}

#[tokio::test]
async fn a_transcript_is_cut_to_its_last_lines_and_kept_beside() {
    let (gateway, _mock) = forgetful().await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.subscribe", json!({})).await;
    for number in 1..=3 {
        ask(&mut client, "s", &format!("m{number}"), &format!("run-{number}")).await;
    }
    let (path, whole) = files(&folder(&gateway)).remove(0);
    let count = whole.iter().filter(|byte| **byte == b'\n').count();
    let answer = call(&mut client, COMPACT, json!({"key": "s", "maxLines": 100})).await;
    assert_eq!(
        answer,
        json!({"ok": true, "key": "agent:main:s", "compacted": false, "kept": count})
    );
    let answer = call(&mut client, COMPACT, json!({"key": "s", "maxLines": 3})).await;
    assert_eq!((&answer["compacted"], &answer["kept"]), (&json!(true), &json!(3)), "{answer}");
    let archived = answer["archived"].as_str().unwrap();
    assert!(archived.starts_with(&format!("{}.bak.", path.display())), "{archived}");
    assert_eq!(fs::read(archived).unwrap(), whole);
    let change = changed(&client, "agent:main:s", "compact").await;
    assert_eq!(change["compacted"], true);
    assert!(change.get("inputTokens").is_none() && change["totalTokens"].is_u64(), "{change}");
    let rest = [("assistant", "Echo: m2"), ("user", "m3"), ("assistant", "Echo: m3")];
    assert_eq!(told(&mut client, "s").await, lines(&rest));
    assert_eq!(text_of(&ask(&mut client, "s", "m4", "run-4").await["message"]), "Echo: m4");
    let shown = history(&mut client, "s").await;
    assert_eq!(shown.last().unwrap()["__openclaw"]["seq"], 5);
}

#[tokio::test]
async fn what_a_cut_leaves_is_measured_anew() {
    let compaction = json!({"keepRecentTokens": 1, "reserveTokens": 10_000_000});
    let (gateway, mock) = reading(8000, compaction, json!({})).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "s", &long("there"), "run-1").await;
    call(&mut client, COMPACT, json!({"key": "s", "maxLines": 1})).await;
    assert_eq!(row(&mut client, "agent:main:s").await["totalTokensFresh"], false);
    let calls = mock.requests().len();
    ask(&mut client, "s", "hello", "run-2").await;
    assert_eq!(mock.requests().len(), calls + 1, "little is left, so nothing is summed up");

    // What is left may be too long all the same.
    ask(&mut client, "l", &long("there"), "run-3").await;
    call(&mut client, COMPACT, json!({"key": "l", "maxLines": 2})).await;
    ask(&mut client, "l", "hello", "run-4").await;
    let list = call(&mut client, "sessions.compaction.list", json!({"key": "l"})).await;
    assert_eq!(list["checkpoints"][0]["reason"], "auto-threshold", "{list}");
}

#[tokio::test]
async fn a_cut_leaves_a_run_its_question() {
    let (gateway, mock) = forgetful().await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "s", "hello", "run-1").await;
    let command = "until test -e go; do sleep 0.05; done; echo gone";
    let args = json!({"command": command});
    let text = format!("@mock tool name=exec args={args} then=\"seen\"");
    start(&mut client, "s", &text, "run-2").await;
    until("the call", async || {
        let said = history(&mut client, "s").await;
        said.last()?["content"].to_string().contains("toolCall").then_some(())
    })
    .await;
    let mut other = admin(&gateway).await;
    let id = begin(&mut other, COMPACT, json!({"key": "s", "maxLines": 1})).await;
    // Requests of one connection are begun in their order.
    call(&mut other, "health", json!({})).await;
    fs::write(gateway.workspace().join("go"), "").unwrap();
    assert_eq!(text_of(&end_of(&client, "run-2").await["message"]), "seen");
    let asked = mock.requests().pop().unwrap().body["messages"].to_string();
    assert!(asked.contains("until test -e go"), "{asked}");
    let answer = other.wait_for(RUN_LIMIT, |frame| frame["id"] == *id).await.expect("an answer");
    assert_eq!(answer["payload"]["compacted"], true, "{answer}");
    assert_eq!(told(&mut client, "s").await, lines(&[("assistant", "seen")]));
}

#[tokio::test]
async fn one_can_go_back_behind_a_compaction_or_branch_off_there() {
    let (gateway, _mock) = forgetful().await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.subscribe", json!({})).await;
    ask(&mut client, "s", "hello", "run-1").await;
    ask(&mut client, "s", SUMMARY, "run-2").await;
    let whole = told(&mut client, "s").await;
    let id =
        call(&mut client, COMPACT, json!({"key": "s"})).await["result"]["checkpointId"].clone();
    ask(&mut client, "s", "after it", "run-3").await;

    let list = call(&mut client, "sessions.compaction.list", json!({"key": "s"})).await;
    let checkpoint = list["checkpoints"][0].clone();
    assert_eq!(list, json!({"ok": true, "key": "agent:main:s", "checkpoints": [checkpoint]}));
    let expected = json!({"checkpointId": id, "sessionKey": "agent:main:s", "reason": "manual",
        "summary": "They said hello."});
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&checkpoint[name], value, "{checkpoint}");
    }
    let (before, after) = (&checkpoint["preCompaction"], &checkpoint["postCompaction"]);
    assert_eq!(before["sessionId"], after["sessionId"]);
    assert_ne!(before["leafId"], after["leafId"]);
    assert_eq!(after["leafId"], after["entryId"]);
    let params = json!({"key": "s", "checkpointId": id});
    let got = call(&mut client, "sessions.compaction.get", params.clone()).await;
    assert_eq!(got, json!({"ok": true, "key": "agent:main:s", "checkpoint": checkpoint}));

    let spent = call(&mut client, "usage.cost", json!({"days": 1})).await["totals"].clone();
    assert_ne!(spent["totalTokens"], 0, "{spent}");
    assert!(spent_by(&mut client, "agent:main:s").await > 0.0);
    let branch = call(&mut client, "sessions.compaction.branch", params.clone()).await;
    let key = branch["key"].as_str().unwrap().to_owned();
    // What it was branched off with was paid once.
    let cost = call(&mut client, "usage.cost", json!({"days": 1})).await;
    assert_eq!(cost["totals"], spent);
    let own = call(&mut client, "sessions.usage", json!({"key": key})).await;
    assert_eq!(own["totals"]["totalTokens"], 0, "{own}");
    assert_eq!(branch["entry"].get("estimatedCostUsd"), None);
    assert!(key.starts_with("agent:main:dashboard:"), "{branch}");
    assert_eq!(
        (&branch["sourceKey"], &branch["checkpoint"]),
        (&json!("agent:main:s"), &checkpoint)
    );
    assert_eq!(branch["entry"]["label"], "Checkpoint branch");
    let second = call(&mut client, "sessions.compaction.branch", params.clone()).await;
    assert_eq!(second["entry"]["label"], "Checkpoint branch 2");
    assert_eq!(branch["entry"]["parentSessionKey"], "agent:main:s");
    assert_eq!(branch["entry"]["sessionId"], branch["sessionId"]);
    assert_eq!(told(&mut client, &key).await, whole);
    changed(&client, "agent:main:s", "checkpoint-branch").await;
    assert_eq!(changed(&client, &key, "checkpoint-branch").await["sessionId"], branch["sessionId"]);
    ask(&mut client, &key, "on the branch", "run-4").await;
    assert_eq!(told(&mut client, &key).await.len(), whole.len() + 2);
    assert_eq!(told(&mut client, "s").await.len(), whole.len() + 3);

    start(&mut client, "s", "@mock stream n=400 delay=100", "run-5").await;
    let later = row(&mut client, "agent:main:s").await["sessionId"].clone();
    let restored = call(&mut client, "sessions.compaction.restore", params.clone()).await;
    assert_eq!(end_of(&client, "run-5").await["stopReason"], "interrupt");
    assert_eq!((&restored["key"], &restored["checkpoint"]), (&json!("agent:main:s"), &checkpoint));
    assert_ne!(restored["sessionId"], later);
    assert_eq!(restored["entry"].get("estimatedCostUsd"), None);
    assert_eq!(told(&mut client, "s").await, whole);
    let change = changed(&client, "agent:main:s", "checkpoint-restore").await;
    assert_eq!(change["sessionId"], restored["sessionId"]);
    // What came later is still on disk, and one can go back there again.
    let later = folder(&gateway).join(format!("{}.jsonl", later.as_str().unwrap()));
    assert!(fs::read_to_string(later).unwrap().contains("after it"));
    let again = call(&mut client, "sessions.compaction.restore", params).await;
    assert_ne!(again["sessionId"], restored["sessionId"]);
    ask(&mut client, "s", "from here", "run-6").await;

    let nope = json!({"key": "s", "checkpointId": "nope"});
    for method in ["get", "branch", "restore"] {
        let method = format!("sessions.compaction.{method}");
        assert_eq!(error(&mut client, &method, nope.clone()).await, "checkpoint not found: nope");
    }
}

/// Copies of a transcript that are newer than the one that is looked for and have nothing in
/// them. The gateway looks for longer than a test takes, and is done once they are gone.
struct EmptyCopies(Vec<PathBuf>);

impl EmptyCopies {
    /// One file with as many names as there are milliseconds in a second. Each of its lines is
    /// read, which takes a tenth of a second in a fast build.
    fn of(transcript: &Path) -> Self {
        let name = |millis: u32| {
            PathBuf::from(format!("{}.bak.2020-11-22T03-47-28.{millis:03}Z", transcript.display()))
        };
        let names: Vec<_> = (0..1000).map(name).collect();
        fs::write(&names[0], "\n".repeat(1_000_000)).unwrap();
        for other in &names[1..] {
            fs::hard_link(&names[0], other).unwrap();
        }
        Self(names)
    }

    /// Waits until the gateway looks at one of them.
    async fn held(&self, gateway: &Gateway) {
        let names: Vec<_> = self.0.iter().filter_map(|path| path.file_name()).collect();
        let open = format!("/proc/{}/fd", gateway.pid().unwrap());
        let looks_at = async || {
            let links = fs::read_dir(&open).unwrap().flatten();
            let mut files = links.filter_map(|link| fs::read_link(link.path()).ok());
            let is_one = |file: PathBuf| file.file_name().is_some_and(|it| names.contains(&it));
            files.any(is_one).then_some(())
        };
        until("a look at the copies", looks_at).await;
    }

    fn remove(self) {
        for name in self.0 {
            fs::remove_file(name).unwrap();
        }
    }
}

#[tokio::test]
async fn what_is_said_while_a_session_goes_back_behind_a_compaction_is_answered_there() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["compaction"] = json!({"keepRecentTokens": 1});
    config["tools"]["sessions"]["visibility"] = json!("agent");
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "s", "hello", "run-1").await;
    ask(&mut client, "s", SUMMARY, "run-2").await;
    let whole = told(&mut client, "s").await;
    let done = call(&mut client, COMPACT, json!({"key": "s"})).await;
    let id = row(&mut client, "agent:main:s").await["sessionId"].as_str().unwrap().to_owned();
    let path = folder(&gateway).join(format!("{id}.jsonl"));
    // Old copies of it are looked at, the newest first.
    fs::rename(&path, format!("{}.bak.2020-11-22T03-46-28.004Z", path.display())).unwrap();
    let copies = EmptyCopies::of(&path);
    let params = json!({"key": "s", "checkpointId": done["result"]["checkpointId"]});
    let asked = begin(&mut client, "sessions.compaction.restore", params).await;
    copies.held(&gateway).await;
    let mut other = admin(&gateway).await;
    let args = json!({"sessionKey": "s", "message": "are you there?", "timeoutSeconds": 0});
    let text = format!("@mock tool name=sessions_send args={args} then=\"sent\"");
    let end = ask(&mut other, "other", &text, "run-3").await;
    assert_eq!(text_of(&end["message"]), "sent");
    copies.held(&gateway).await;
    copies.remove();
    let answer = client.wait_for(RUN_LIMIT, |frame| frame["id"] == *asked).await;
    let answer = answer.expect("an answer");
    assert_eq!(answer["ok"], true, "{answer}");
    let said = until("the answer", async || {
        let said = told(&mut other, "s").await;
        (said.len() == whole.len() + 2).then_some(said)
    });
    let said = said.await;
    assert_eq!(said[..whole.len()], whole);
    assert_eq!(said[whole.len() + 1], ("assistant".into(), "Echo: are you there?".into()));
}

#[tokio::test]
async fn a_conversation_that_became_too_long_is_summed_up_and_answered() {
    let mock = Aimock::start();
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["compaction"] = json!({"keepRecentTokens": 1});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "s", "greet me", "run-1").await;
    let end = ask(&mut client, "s", "too long once", "run-2").await;
    assert_eq!(
        (&end["state"], text_of(&end["message"])),
        (&json!("final"), "Now there is room.".to_owned())
    );
    let ended = phase(&client, "end").await;
    assert_eq!((&ended["runId"], &ended["data"]["willRetry"]), (&json!("run-2"), &json!(true)));
    let list = call(&mut client, "sessions.compaction.list", json!({"key": "s"})).await;
    assert_eq!(list["checkpoints"][0]["reason"], "overflow-retry");
    let last = mock.requests().await.pop().unwrap();
    let asked = last["body"]["messages"].to_string();
    assert!(asked.contains("They greeted each other.") && !asked.contains("greet me"), "{asked}");

    // It tries once; then it says why.
    let end = ask(&mut client, "s", "always too long", "run-3").await;
    assert_eq!((&end["state"], &end["errorKind"]), (&json!("error"), &json!("context_length")));
    assert_eq!(mock.asked("always too long").await, 2);
    assert_eq!(row(&mut client, "agent:main:s").await["compactionCount"], 2);
}

/// A gateway that takes its model for one that reads 32 000 tokens; it reads `window`.
async fn narrow(window: usize) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    mock.limit("mock-1", window);
    let mut config = default_config(mock.address());
    config["models"]["providers"]["mock"]["models"][0]["contextWindow"] = json!(32_000);
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

/// Has the model call a command that prints so many bytes.
fn printing(bytes: usize) -> String {
    let args = json!({"command": format!("head -c {bytes} /dev/zero | tr '\\0' x")});
    format!("@mock tool name=exec args={args} then=\"done\"")
}

/// Asks for 190 000 bytes of a tool, and then for something else; how long the part of them is
/// that the model was shown each time.
async fn asks_twice(gateway: &Gateway, mock: &MockProvider) -> Vec<usize> {
    let mut client = admin(gateway).await;
    let end = ask(&mut client, "s", &printing(190_000), "run-1").await;
    assert_eq!((&end["state"], text_of(&end["message"])), (&json!("final"), "done".to_owned()));
    let end = ask(&mut client, "s", "and now?", "run-2").await;
    assert_eq!(text_of(&end["message"]), "Echo: and now?");
    let kept = files(&folder(gateway));
    let whole = "x".repeat(190_000);
    assert!(kept.iter().any(|(_, bytes)| String::from_utf8_lossy(bytes).contains(&whole)));
    let requests = mock.requests();
    let results = requests.iter().filter_map(|request| {
        let messages = request.body["messages"].as_array().unwrap();
        let result = messages.iter().find(|message| message["role"] == "tool")?;
        let text = result["content"].as_str().unwrap();
        assert!(text.contains("x\n...\nx"), "its begin and its end");
        assert!(text.contains("\n\n[Tool result trimmed: kept first "), "a note says so");
        Some(text.matches('x').count())
    });
    results.collect()
}

#[tokio::test]
async fn a_result_longer_than_the_context_is_shown_in_part_and_kept_whole() {
    let (gateway, mock) = narrow(32_000).await;
    // 30 % of the context, at 4 bytes to a token.
    assert_eq!(asks_twice(&gateway, &mock).await, [38_400, 38_400]);
    assert_eq!(mock.requests().len(), 3);

    // A side question is asked with the same part of it.
    let mut client = admin(&gateway).await;
    start(&mut client, "s", "/btw @mock text text=\"Many of them.\"", "aside").await;
    let told = event(&client, |frame| frame["event"] == "chat.side_result").await;
    assert_eq!(told["text"], "Many of them.", "{told}");
    let asked = mock.requests().pop().unwrap().body["messages"].to_string();
    assert!(asked.contains("<btw_side_question>") && asked.contains("[Tool result trimmed: "));
}

#[tokio::test]
async fn less_of_results_is_shown_to_a_model_that_finds_them_too_long() {
    let (gateway, mock) = narrow(9_000).await;
    // Nothing can be summed up that is not recent.
    assert_eq!(asks_twice(&gateway, &mock).await, [38_400, 12_800, 38_400, 12_800]);
    assert_eq!(mock.requests().len(), 5);
}

#[tokio::test]
async fn a_message_that_no_model_can_read_fails_alone_and_the_session_goes_on() {
    let (gateway, mock) = narrow(9_000).await;
    let mut client = admin(&gateway).await;
    let long = "x".repeat(60_000);
    let end = ask(&mut client, "s", &long, "run-1").await;
    assert_eq!((&end["state"], &end["errorKind"]), (&json!("error"), &json!("context_length")));
    for (run, text) in [("run-2", "and now?"), ("run-3", "and then?")] {
        let end = ask(&mut client, "s", text, run).await;
        assert_eq!(text_of(&end["message"]), format!("Echo: {text}"), "{end}");
    }
    let asked = mock.requests().pop().unwrap().body["messages"].to_string();
    assert!(asked.contains("[Message trimmed: kept first "), "{asked}");
    let is_whole = |(_, bytes): &(_, Vec<u8>)| String::from_utf8_lossy(bytes).contains(&long);
    assert!(files(&folder(&gateway)).iter().any(is_whole), "the transcript keeps it");
}

#[tokio::test]
async fn less_of_results_is_shown_where_a_summary_was_not_enough() {
    let mock = Aimock::start();
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["compaction"] = json!({"keepRecentTokens": 1});
    config["models"]["providers"]["mock"]["models"][0]["contextWindow"] = json!(20_000);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let end = ask(&mut client, "s", "print a lot", "run-1").await;
    assert_eq!(
        (&end["state"], text_of(&end["message"])),
        (&json!("final"), "Now all of it fits.".to_owned())
    );
    let list = call(&mut client, "sessions.compaction.list", json!({"key": "s"})).await;
    assert_eq!(list["checkpoints"][0]["reason"], "overflow-retry");
    let requests = mock.requests().await;
    let shown = requests.iter().filter_map(|request| {
        let messages = request["body"]["messages"].as_array()?;
        let result = messages.iter().find(|message| message["role"] == "tool")?;
        Some(result["content"].as_str()?.matches('x').count())
    });
    // Before the summary, after it, and once more.
    assert_eq!(shown.collect::<Vec<_>>(), [24_000, 24_000, 8_000]);
}

#[tokio::test]
async fn a_conversation_that_leaves_no_room_for_an_answer_is_summed_up_first() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["compaction"] = json!({"keepRecentTokens": 1,
        "reserveTokens": 10_000_000, "memoryFlush": {"enabled": false}});
    config["models"]["providers"]["mock"]["models"][0]["contextWindow"] = json!(8000);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.subscribe", json!({})).await;
    ask(&mut client, "s", "hello", "run-1").await;
    ask(&mut client, "s", SUMMARY, "run-2").await;
    let long = format!("@mock text text=there {}", "x".repeat(24_000));
    let end = ask(&mut client, "s", &long, "run-3").await;
    assert_eq!(text_of(&end["message"]), "there");
    let ended = phase(&client, "end").await;
    let data = json!({"phase": "end", "willRetry": false, "completed": true});
    assert_eq!((&ended["runId"], &ended["data"]), (&json!("run-3"), &data));
    let list = call(&mut client, "sessions.compaction.list", json!({"key": "s"})).await;
    assert_eq!(list["checkpoints"][0]["reason"], "auto-threshold");
    let asked = mock.requests().pop().unwrap().body["messages"].to_string();
    assert!(asked.contains("They said hello.") && !asked.contains("Echo: hello"), "{asked}");
    assert!(asked.contains("xxxx"), "what was said last stays");

    // What is recent cannot be summed up; it is answered all the same, and not
    // tried again at each call.
    let calls = mock.requests().len();
    let end = ask(&mut client, "s", "@mock tool name=session_status then=done", "run-4").await;
    assert_eq!(text_of(&end["message"]), "done");
    let told = client.frames().into_iter().filter(|frame| {
        frame["payload"]["stream"] == "compaction" && frame["payload"]["runId"] == "run-4"
    });
    assert!(told.count() <= 2, "one compaction at most");
    // The long text is summed up in two steps.
    assert!(mock.requests().len() <= calls + 4);
}

#[tokio::test]
async fn a_conversation_far_longer_than_was_counted_is_summed_up_first() {
    let compaction = json!({"keepRecentTokens": 1});
    let (gateway, mock) = reading(16_000, compaction, json!({})).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "s", "hello", "run-1").await;
    // What the provider has counted knows nothing of these 36 000 tokens.
    for _ in 0..12 {
        let message = format!("{SUMMARY} {}", "x".repeat(12_000));
        call(&mut client, "chat.inject", json!({"sessionKey": "s", "message": message})).await;
    }
    let end = ask(&mut client, "s", "@mock text text=there", "run-2").await;
    assert_eq!(text_of(&end["message"]), "there", "{end}");
    let list = call(&mut client, "sessions.compaction.list", json!({"key": "s"})).await;
    assert_eq!(list["checkpoints"][0]["reason"], "auto-threshold", "{list}");
    let asked = mock.requests().pop().unwrap().body["messages"].to_string();
    assert!(asked.contains("They said hello.") && !asked.contains("xxxx"), "{asked}");
    let lengths = mock.requests().into_iter().map(|it| it.body["messages"].to_string().len());
    assert!(lengths.max() < Some(100_000), "nobody was sent all of it");
}

#[tokio::test]
async fn a_model_that_reads_less_than_its_settings_say_sums_up_in_smaller_pieces() {
    let compaction = json!({"keepRecentTokens": 1, "memoryFlush": {"enabled": false}});
    let (gateway, mock) = reading(200_000, compaction, json!({})).await;
    let mut client = admin(&gateway).await;
    for number in 0..8 {
        let text = format!("@mock text text=ok {}", "x".repeat(12_000));
        ask(&mut client, "s", &text, &format!("long-{number}")).await;
    }
    mock.limit("mock-1", 20_000);
    let end = ask(&mut client, "s", "and now?", "run-1").await;
    assert_eq!(
        (&end["state"], text_of(&end["message"])),
        (&json!("final"), "Echo: and now?".to_owned())
    );
    let list = call(&mut client, "sessions.compaction.list", json!({"key": "s"})).await;
    assert_eq!(list["checkpoints"][0]["reason"], "overflow-retry", "{list}");
}

#[tokio::test]
async fn a_run_that_becomes_too_long_twice_is_summed_up_twice() {
    let compaction = json!({"keepRecentTokens": 1, "memoryFlush": {"enabled": false}});
    let (gateway, mock) = reading(200_000, compaction, json!({})).await;
    let mut client = admin(&gateway).await;
    // Some 20 000 tokens each, and 30 000 of the tool.
    let filled = |text: &str| format!("{text} {}", "x".repeat(80_000));
    ask(&mut client, "s", &filled("@mock text text=there"), "run-1").await;
    mock.limit("mock-1", 40_000);
    let args = json!({"command": "head -c 120000 /dev/zero | tr '\\0' x"});
    let text = format!("@mock tool name=exec args={args} pre=Printed. then=done");
    let end = ask(&mut client, "s", &filled(&text), "run-2").await;
    assert_eq!(end["state"], "final", "{end}");
    let list = call(&mut client, "sessions.compaction.list", json!({"key": "s"})).await;
    let reasons: Vec<_> =
        list["checkpoints"].as_array().unwrap().iter().map(|it| &it["reason"]).collect();
    assert_eq!(reasons, ["overflow-retry", "overflow-retry"]);
    let summaries: Vec<_> =
        list["checkpoints"].as_array().unwrap().iter().map(|it| &it["summary"]).collect();
    assert_eq!(summaries, ["Printed.", "there"]);
}

#[tokio::test]
async fn chats_on_the_web_cannot_compact_or_restore() {
    let (gateway, _mock) = forgetful().await;
    let mut params = standard_connect(&ALL_SCOPES);
    params["client"] =
        json!({"id": "webchat", "version": "1.0.0", "platform": "web", "mode": "webchat"});
    let origin = [("origin".to_owned(), format!("http://{}", gateway.address()))];
    let opened = WsClient::open_with(&gateway.address(), "/", &origin).await;
    let mut client = opened.unwrap_or_else(|refusal| panic!("{refusal:?}"));
    let nonce = client.nonce().await;
    params["device"] = DeviceKey::named("web").proof(&params, &nonce, now_ms());
    let hello = client.request("connect", params).await;
    assert_eq!(hello["ok"], true, "{hello}");
    for (method, action, params) in [
        (COMPACT, "compact", json!({"key": "main"})),
        ("sessions.compaction.restore", "restore", json!({"key": "main", "checkpointId": "x"})),
    ] {
        assert_eq!(
            error(&mut client, method, params).await,
            format!(
                "webchat clients cannot {action} sessions; use chat.send for session-scoped updates"
            )
        );
    }
}

#[tokio::test]
async fn the_embedded_model_is_not_asked_for_a_summary() {
    let mut config = default_config("127.0.0.1:9");
    config.as_object_mut().unwrap().remove("models");
    config["agents"]["defaults"] = json!({"compaction": {"keepRecentTokens": 1}});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = connect(&gateway, &standard_connect(&ALL_SCOPES)).await;
    ask(&mut client, "main", "hello", "run-1").await;
    tokio::time::timeout(Duration::from_secs(5), async {
        let refusal = error(&mut client, COMPACT, json!({"key": "main"})).await;
        assert!(refusal.starts_with("compaction needs a model"), "{refusal}");
    })
    .await
    .unwrap();
}

/// A gateway with a model that reads so many tokens, and these settings.
async fn reading(window: u64, compaction: Value, tools: Value) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["compaction"] = compaction;
    config["models"]["providers"]["mock"]["models"][0]["contextWindow"] = json!(window);
    config["tools"] = tools;
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

/// A question of some 6000 tokens.
fn long(text: &str) -> String {
    format!("@mock text text={text} {}", "x".repeat(24_000))
}

/// Those requests that hold this text.
fn holding(mock: &MockProvider, text: &str) -> usize {
    let bodies = mock.requests().into_iter().map(|request| request.body["messages"].to_string());
    bodies.filter(|body| body.contains(text)).count()
}

#[tokio::test]
async fn what_lasts_is_written_into_memory_before_a_conversation_is_summed_up() {
    let args = json!({"path": "memory/YYYY-MM-DD.md", "content": "They like tea."});
    let prompt = format!("@mock tool name=write args={args} then=NO_REPLY");
    let flush = json!({"prompt": prompt, "systemPrompt": "Take your notes."});
    let compaction =
        json!({"keepRecentTokens": 1, "reserveTokens": 10_000_000, "memoryFlush": flush});
    let (gateway, mock) = reading(8000, compaction, json!({})).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "s", "hello", "run-1").await;
    ask(&mut client, "s", SUMMARY, "run-2").await;
    let end = ask(&mut client, "s", &long("there"), "run-3").await;
    assert_eq!(text_of(&end["message"]), "there");
    assert_eq!(row(&mut client, "agent:main:s").await["compactionCount"], 1);
    let written: Vec<_> = files(&gateway.workspace().join("memory"));
    let (path, bytes) = &written[0];
    assert_eq!((written.len(), &**bytes), (1, &b"They like tea."[..]), "{path:?}");
    let name = path.file_name().unwrap().to_str().unwrap();
    let is_day = name.len() == 13 && name.starts_with("20") && name.matches('-').count() == 2;
    assert!(is_day, "{name}");
    // Neither the transcript nor who watches has heard of it.
    let asked = mock.requests();
    let asked: Vec<_> =
        asked.iter().filter(|it| it.body.to_string().contains("name=write")).collect();
    assert_eq!(asked.len(), 2, "the call, and its result");
    for request in asked {
        let body = request.body.to_string();
        assert!(body.contains("Take your notes.") && body.contains("Echo: hello"), "{body}");
        assert!(!body.contains("xxxx"), "what was said last is answered in its own turn");
        let tools = request.body["tools"].as_array().unwrap();
        let names: Vec<_> = tools.iter().map(|tool| &tool["function"]["name"]).collect();
        let is_for_notes = |name: &str| ["read", "write", "edit"].contains(&name);
        assert!(names.iter().all(|name| is_for_notes(name.as_str().unwrap())), "{names:?}");
    }
    let all = files(&folder(&gateway));
    let all: String = all.iter().map(|(_, bytes)| String::from_utf8_lossy(bytes)).collect();
    assert!(!all.contains("They like tea.") && !all.contains("NO_REPLY"));
    let frames = client.frames().iter().map(Value::to_string).collect::<String>();
    assert!(!frames.contains("They like tea.") && !frames.contains("NO_REPLY"));
}

#[tokio::test]
async fn what_notes_and_summaries_take_counts_for_the_run_and_the_session() {
    let compaction = json!({"keepRecentTokens": 1, "reserveTokens": 10_000_000});
    let (gateway, mock) = reading(8000, compaction, json!({})).await;
    let mut client = admin(&gateway).await;
    let (mut input, mut paid) = (0, 0.0);
    let long = long("there");
    for (run, text) in [("run-1", "hello"), ("run-2", SUMMARY), ("run-3", long.as_str())] {
        let usage = ask(&mut client, "s", text, run).await["usage"].take();
        input += usage["input"].as_u64().unwrap();
        paid += usage["cost"]["total"].as_f64().unwrap();
    }
    assert_eq!(row(&mut client, "agent:main:s").await["compactionCount"], 1);
    assert_eq!(holding(&mock, "is about to be summed up"), 1);
    let asked = mock.requests();
    let sizes = asked.iter().map(|request| tokens(&request.body["messages"].to_string()));
    assert_eq!(json!(input), json!(sizes.sum::<usize>()));
    let after = spent_by(&mut client, "agent:main:s").await;
    assert!((after - paid).abs() < 1e-9, "{after} {paid}");

    // One that is asked for outside of a run counts as well.
    call(&mut client, COMPACT, json!({"key": "s"})).await;
    assert!(spent_by(&mut client, "agent:main:s").await > after);
}

#[tokio::test]
async fn what_notes_and_summaries_have_used_that_broke_off_counts_too() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::Anthropic);
    config["agents"]["defaults"]["compaction"] = json!({"keepRecentTokens": 1,
        "reserveTokens": 10_000_000, "memoryFlush": {"prompt": "@mock err after=3 of=notes"}});
    config["models"]["providers"]["mocka"]["models"][0]["contextWindow"] = json!(8000);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let mut input = 0;
    let long = long("there");
    for (run, text) in [("run-1", "hello"), ("run-2", SUMMARY), ("run-3", long.as_str())] {
        input += ask(&mut client, "n", text, run).await["usage"]["input"].as_u64().unwrap();
    }
    assert_eq!(holding(&mock, "of=notes"), 1);
    let asked = mock.requests();
    let sizes = asked.iter().map(|request| tokens(&request.body["messages"].to_string()));
    assert_eq!(json!(input), json!(sizes.sum::<usize>()));

    ask(&mut client, "s", "@mock err after=3", "run-4").await;
    note(&mut client).await;
    ask(&mut client, "s", "hello", "run-5").await;
    let before = spent_by(&mut client, "agent:main:s").await;
    error(&mut client, COMPACT, json!({"key": "s"})).await;
    assert!(spent_by(&mut client, "agent:main:s").await > before);
}

#[tokio::test]
async fn notes_are_asked_for_once_while_a_compaction_is_near() {
    let compaction = json!({"reserveTokens": 1, "memoryFlush": {"softThresholdTokens": 10_000}});
    let (gateway, mock) = reading(40_000, compaction, json!({})).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "s", "hello", "run-1").await;
    let long = format!("@mock text text=there {}", "x".repeat(120_000));
    for (run, text, answer) in [("run-2", long.as_str(), "there"), ("run-3", "now", "Echo: now")] {
        let end = ask(&mut client, "s", text, run).await;
        assert_eq!(text_of(&end["message"]), answer);
        assert_eq!(holding(&mock, "is about to be summed up"), 1, "{run}");
    }
    assert!(row(&mut client, "agent:main:s").await["compactionCount"].is_null());
}

#[tokio::test]
async fn notes_that_cannot_be_taken_hold_nothing_up() {
    let flush = json!({"prompt": "@mock err status=400 msg=\"no notes\""});
    let compaction =
        json!({"keepRecentTokens": 1, "reserveTokens": 10_000_000, "memoryFlush": flush});
    let (gateway, mock) = reading(8000, compaction, json!({})).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "s", "hello", "run-1").await;
    ask(&mut client, "s", SUMMARY, "run-2").await;
    let end = ask(&mut client, "s", &long("there"), "run-3").await;
    assert_eq!(text_of(&end["message"]), "there");
    assert_eq!(row(&mut client, "agent:main:s").await["compactionCount"], 1);
    assert_eq!(holding(&mock, "no notes"), 1);
    gateway.logs("no notes taken before a compaction").await;
}

#[tokio::test]
async fn no_notes_are_asked_for_where_they_cannot_be_written_or_nobody_wants_them() {
    for (flush, tools) in
        [(json!({}), json!({"deny": ["group:fs"]})), (json!({"enabled": false}), json!({}))]
    {
        let compaction =
            json!({"keepRecentTokens": 1, "reserveTokens": 10_000_000, "memoryFlush": flush});
        let (gateway, mock) = reading(8000, compaction, tools).await;
        let mut client = admin(&gateway).await;
        ask(&mut client, "s", "hello", "run-1").await;
        ask(&mut client, "s", SUMMARY, "run-2").await;
        ask(&mut client, "s", &long("there"), "run-3").await;
        assert_eq!(row(&mut client, "agent:main:s").await["compactionCount"], 1);
        assert_eq!(holding(&mock, "is about to be summed up"), 0);
    }
}

#[tokio::test]
async fn a_run_that_wants_a_model_of_its_own_has_its_notes_written_by_no_other() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    let flush = json!({"prompt": "@mock err status=400 msg=\"no notes\""});
    config["agents"]["defaults"]["compaction"] =
        json!({"keepRecentTokens": 1, "reserveTokens": 10_000_000, "memoryFlush": flush});
    config["models"]["providers"]["mock"]["models"][1]["contextWindow"] = json!(8000);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "s", "hello", "run-1").await;
    ask(&mut client, "s", SUMMARY, "run-2").await;
    let params = json!({"message": long("there"), "sessionKey": "s", "idempotencyKey": "small",
        "model": "mock/mock-2"});
    call(&mut client, "agent", params).await;
    let end = call(&mut client, "agent.wait", json!({"runId": "small"})).await;
    assert_eq!(end["status"], "ok", "{end}");
    assert_eq!(row(&mut client, "agent:main:s").await["compactionCount"], 1);
    assert_eq!(holding(&mock, "no notes"), 1);
    let asked: Vec<_> = mock.calls().into_iter().skip(2).map(|(model, _)| model).collect();
    assert!(asked.iter().all(|model| model == "mock-2"), "{asked:?}");
}

/// A model that reads a lot, another that reads 20 000 tokens, and a conversation of 24 000.
async fn too_long_for_the_other(mut compaction: Value) -> (Gateway, MockProvider, WsClient) {
    let mock = MockProvider::start().await;
    mock.limit("mock-2", 20_000);
    let mut config = default_config(mock.address());
    compaction["memoryFlush"] = json!({"enabled": false});
    config["agents"]["defaults"]["compaction"] = compaction;
    config["agents"]["defaults"]["model"]["fallbacks"] = json!(["mock/mock-2"]);
    config["models"]["providers"]["mock"]["models"][1]["contextWindow"] = json!(20_000);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    for number in 0..8 {
        let text = format!("@mock text text=ok {}", "x".repeat(12_000));
        ask(&mut client, "s", &text, &format!("long-{number}")).await;
    }
    (gateway, mock, client)
}

/// The models that were asked after the conversation had become so long.
fn asked_since(mock: &MockProvider) -> Vec<String> {
    mock.calls().into_iter().skip(8).map(|(model, _)| model).collect()
}

#[tokio::test]
async fn a_small_model_that_answers_one_message_sums_up_for_itself() {
    let (_gateway, mock, mut client) = too_long_for_the_other(json!({})).await;
    let params = json!({"message": "and now?", "sessionKey": "s", "idempotencyKey": "small",
        "model": "mock/mock-2"});
    call(&mut client, "agent", params).await;
    let end = call(&mut client, "agent.wait", json!({"runId": "small"})).await;
    assert_eq!(end["status"], "ok", "{end}");
    assert_eq!(row(&mut client, "agent:main:s").await["compactionCount"], 1);
    assert!(asked_since(&mock).iter().all(|model| model == "mock-2"), "{:?}", asked_since(&mock));
}

#[tokio::test]
async fn a_small_fallback_that_finds_a_conversation_too_long_sums_up_for_itself() {
    let (_gateway, mock, mut client) = too_long_for_the_other(json!({})).await;
    mock.fail("mock-1", 404, "gone");
    let end = ask(&mut client, "s", "and now?", "run-1").await;
    assert_eq!(
        (&end["state"], text_of(&end["message"])),
        (&json!("final"), "Echo: and now?".into())
    );
    let list = call(&mut client, "sessions.compaction.list", json!({"key": "s"})).await;
    assert_eq!(list["checkpoints"][0]["reason"], "overflow-retry");
    let asked = asked_since(&mock);
    let (first, rest) = asked.split_first().unwrap();
    assert!(first == "mock-1" && rest.iter().all(|model| model == "mock-2"), "{asked:?}");
}

#[tokio::test]
async fn what_is_summed_up_is_cut_anew_for_a_fallback_that_reads_less() {
    let (_gateway, mock, mut client) = too_long_for_the_other(json!({"keepRecentTokens": 1})).await;
    mock.fail("mock-1", 404, "gone");
    let answer = call(&mut client, COMPACT, json!({"key": "s"})).await;
    assert_eq!((&answer["compacted"], &answer["result"]["summary"]), (&json!(true), &json!("ok")));
    let asked = asked_since(&mock);
    // All at once, and then piece by piece.
    assert_eq!(asked[..2], ["mock-1", "mock-2"]);
    assert!(asked.len() > 3 && asked[2..].iter().all(|model| model == "mock-2"), "{asked:?}");
}
