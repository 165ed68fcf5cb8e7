//! A kill, or a disk, between the end of a session in the index and the new name of its
//! transcript.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::stage::{Api, admin, ask, call, row, scripted, until};
use crate::strace::Injection;
use crate::support::{Gateway, WsClient, not_run, tested};

const GONE: &str = "agent:main:gone";
const ANEW: &str = "agent:main:anew";

/// Holds all new names until it is dropped; `None` where nobody may.
fn hold(gateway: &Gateway) -> Option<Injection> {
    let calls = "rename,renameat,renameat2";
    let args = [format!("trace={calls}"), format!("inject={calls}:delay_enter=1000000000")];
    let args = args.into_iter().flat_map(|arg| ["-e".to_owned(), arg]);
    let held = Injection::with(gateway.pid().unwrap(), &args.collect::<Vec<_>>());
    held.inspect_err(|why| not_run(&format!("a kill before a rename needs strace: {why}"))).ok()
}

fn folder(gateway: &Gateway) -> PathBuf {
    gateway.state_dir().join("agents/main/sessions")
}

/// Everything in the folder of transcripts, by its name.
fn files(gateway: &Gateway) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder(gateway)).unwrap().map(|it| it.unwrap().path());
    let text = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    files.map(text).collect()
}

/// What a command says of the state as it is now.
fn command(gateway: &Gateway, line: &str) -> String {
    let (home, state) = (gateway.home(), gateway.state_dir());
    let mut command = Command::new(tested::program());
    command.args(line.split(' ')).env_clear();
    command.env("PATH", std::env::var("PATH").unwrap_or_default());
    command.env("HOME", home).env("OPENCLAW_STATE_DIR", state);
    let output = command.output().unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr)
}

/// Neither does `doctor` name transcripts, nor does an import bring them.
fn nothing_comes_back(gateway: &Gateway) {
    let report = command(gateway, "doctor --json");
    assert!(report.contains("\"findings\"") && !report.contains("sessions.unlisted"), "{report}");
    let import = format!("import --json --from {}", gateway.state_dir().display());
    let said = command(gateway, &import);
    assert!(said.contains("\"sessions\""), "{said}");
}

/// Two sessions in which something was said; the ids of their transcripts.
async fn two_sessions(client: &mut WsClient) -> [String; 2] {
    let mut ids = Vec::new();
    for key in [GONE, ANEW] {
        ask(client, key, "@mock text text=hello", &format!("run-{key}")).await;
        ids.push(row(client, key).await["sessionId"].as_str().unwrap().to_owned());
    }
    ids.try_into().unwrap()
}

/// Asks for something and waits for no answer.
async fn ask_for(client: &mut WsClient, method: &str, key: &str) {
    let frame = json!({"type": "req", "id": method, "method": method, "params": {"key": key}});
    client.send(&frame).await;
}

/// Waits until the index has let both transcripts go.
async fn both_are_let_go(client: &mut WsClient, old: &str) {
    until("both sessions let their transcripts go", async || {
        let is_gone = row(client, GONE).await.is_null();
        let anew = row(client, ANEW).await;
        (is_gone && anew["sessionId"] != old).then_some(())
    })
    .await;
}

/// Both transcripts are put away, whole, and no session but the new one is there.
async fn both_are_put_away(gateway: &Gateway, [gone, anew]: &[String; 2]) {
    let files = files(gateway);
    for (id, reason) in [(gone, "deleted"), (anew, "reset")] {
        assert!(!files.contains_key(&format!("{id}.jsonl")), "{files:?}");
        let name = format!("{id}.jsonl.{reason}.");
        let put_away: Vec<_> = files.iter().filter(|(it, _)| it.starts_with(&name)).collect();
        assert_eq!(put_away.len(), 1, "{files:?}");
        assert!(put_away[0].1.contains("hello"), "{files:?}");
    }
    let mut client = admin(gateway).await;
    let list = call(&mut client, "sessions.list", json!({"limit": 1000})).await;
    let text = list.to_string();
    assert!(!text.contains(gone.as_str()) && !text.contains(anew.as_str()), "{text}");
    assert!(!row(&mut client, ANEW).await.is_null());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_kill_kept_from_being_put_away_the_next_start_puts_away_and_nothing_brings_back() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let ids = two_sessions(&mut client).await;
    let Some(held) = hold(&gateway) else { return };
    let (mut deleting, mut resetting) = (admin(&gateway).await, admin(&gateway).await);
    ask_for(&mut deleting, "sessions.delete", GONE).await;
    ask_for(&mut resetting, "sessions.reset", ANEW).await;
    both_are_let_go(&mut client, &ids[1]).await;
    held.kill(&mut gateway);
    let before = files(&gateway);
    for id in &ids {
        assert!(before.contains_key(&format!("{id}.jsonl")), "it was put away before: {before:?}");
    }
    nothing_comes_back(&gateway);
    gateway.restart().await;
    both_are_put_away(&gateway, &ids).await;
    gateway.terminate().await.expect("an end");
    nothing_comes_back(&gateway);
    gateway.restart().await;
    both_are_put_away(&gateway, &ids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_disk_kept_from_being_put_away_goes_when_it_is_deleted_again_or_at_the_next_start()
{
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let ids = two_sessions(&mut client).await;
    // Nothing can be renamed in a folder that is none.
    let aside = gateway.root().join("aside");
    fs::rename(folder(&gateway), &aside).unwrap();
    fs::write(folder(&gateway), "").unwrap();
    let delete = json!({"key": GONE});
    let deleted = call(&mut client, "sessions.delete", delete.clone()).await;
    assert_eq!((&deleted["deleted"], &deleted["archived"]), (&json!(true), &json!([])));
    call(&mut client, "sessions.reset", json!({"key": ANEW})).await;
    fs::remove_file(folder(&gateway)).unwrap();
    fs::rename(&aside, folder(&gateway)).unwrap();

    let again = call(&mut client, "sessions.delete", delete.clone()).await;
    assert_eq!(again["deleted"], false, "{again}");
    let archived = again["archived"].as_array().unwrap();
    let name = archived[0].as_str().unwrap();
    assert!(archived.len() == 1 && name.contains(&format!("{}.jsonl.deleted.", ids[0])), "{again}");
    let third = call(&mut client, "sessions.delete", delete).await;
    assert_eq!(third["archived"], Value::Array(Vec::new()), "{third}");
    let left = files(&gateway);
    assert!(left.contains_key(&format!("{}.jsonl", ids[1])), "{left:?}");
    gateway.restart().await;
    both_are_put_away(&gateway, &ids).await;
}
