//! What an OpenClaw left, and what becomes of it when that runs here again.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::claude_rest::{good, line, post};
use crate::control_ui::http;
use crate::program::clawgate;
use crate::stage::{admin, call, until};
use crate::support::{Gateway, GatewayOptions, default_config, now_ms};

fn write(place: &Path, text: &str) {
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(place, text).unwrap();
}

/// A folder of sessions as OpenClaw leaves it, with these keys and ids; each says its id.
fn sessions(folder: &Path, sessions: &[(&str, &str)]) {
    let entry = |(key, id): &(&str, &str)| {
        ((*key).to_owned(), json!({"sessionId": id, "updatedAt": now_ms()}))
    };
    let index = Value::Object(sessions.iter().map(entry).collect());
    write(&folder.join("sessions.json"), &index.to_string());
    for (_, id) in sessions {
        let header = json!({"type": "session", "version": 3, "id": id,
            "timestamp": "2026-11-22T03:35:28.398Z", "cwd": "/w"});
        let said = json!({"type": "message", "id": "00000001", "parentId": null,
            "timestamp": "2026-11-22T03:35:28.398Z",
            "message": {"role": "user", "content": [{"type": "text", "text": id}], "timestamp": 1}});
        write(&folder.join(format!("{id}.jsonl")), &format!("{header}\n{said}\n"));
    }
}

/// A job that tells the main session something, as OpenClaw has it.
fn job(id: &str, schedule: &Value) -> Value {
    json!({"id": id, "name": id, "enabled": true, "createdAtMs": 1, "schedule": schedule,
        "deleteAfterRun": false, "sessionTarget": "main", "wakeMode": "next-heartbeat",
        "payload": {"kind": "systemEvent", "text": id}, "state": {}})
}

fn daily(id: &str) -> Value {
    job(id, &json!({"kind": "cron", "expr": "0 9 * * *", "tz": "UTC"}))
}

fn jobs(file: &Path, jobs: &[Value]) {
    write(file, &json!({"version": 1, "jobs": jobs}).to_string());
}

fn root() -> tempfile::TempDir {
    tempfile::TempDir::with_prefix("clawgate-test-").unwrap()
}

/// A gateway whose models nobody asks.
fn quiet() -> Value {
    default_config("127.0.0.1:9")
}

/// A gateway on this machine.
async fn on(root: tempfile::TempDir, config: Value) -> Gateway {
    Gateway::start_in(root, GatewayOptions::with_config(config)).await.unwrap()
}

/// What the health of a gateway says of OpenClaw, once it does.
async fn news(gateway: &Gateway) -> String {
    let mut client = admin(gateway).await;
    until("the news of it", async || {
        let health = call(&mut client, "health", json!({"probe": true})).await;
        Some(health["services"]["openclaw"]["error"].as_str()?.to_owned())
    })
    .await
}

/// Whether doctor has something to say of it.
async fn is_found_by_doctor(gateway: &Gateway) -> bool {
    let report = clawgate(gateway, &["doctor", "--json"]).await.stdout;
    String::from_utf8(report).unwrap().contains("state.openclaw")
}

/// The jobs of a gateway, once it has looked at those of OpenClaw.
async fn adopted(gateway: &Gateway) -> Vec<Value> {
    until("the jobs of OpenClaw", async || {
        gateway.stderr().contains("took over the jobs of OpenClaw").then_some(())
    })
    .await;
    let mut client = admin(gateway).await;
    let page = call(&mut client, "cron.list", json!({"includeDisabled": true})).await;
    page["jobs"].as_array().unwrap().clone()
}

async fn keys(gateway: &Gateway) -> Vec<String> {
    let mut client = admin(gateway).await;
    let list = call(&mut client, "sessions.list", json!({})).await;
    let rows = list["sessions"].as_array().unwrap().iter();
    let mut keys: Vec<_> = rows.map(|row| row["key"].as_str().unwrap().to_owned()).collect();
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn a_first_start_takes_over_what_the_config_keeps_elsewhere_and_no_later_one() {
    let root = root();
    let place = root.path().join("elsewhere");
    sessions(&place.join("main"), &[("agent:main:six", "s-six")]);
    sessions(&place.join("other"), &[("agent:other:seven", "s-seven")]);
    jobs(&place.join("jobs.json"), &[daily("far")]);
    jobs(&root.path().join("state/cron/jobs.json"), &[daily("of another config")]);
    let mut config = quiet();
    config["agents"]["list"] = json!([{"id": "main"}, {"id": "other"}]);
    let store = place.join("{agentId}/sessions.json").display().to_string();
    config["session"] = json!({"store": store});
    config["cron"] = json!({"store": place.join("jobs.json")});
    let mut gateway = on(root, config).await;
    assert_eq!(keys(&gateway).await, ["agent:main:six", "agent:other:seven"]);
    let jobs = adopted(&gateway).await;
    assert_eq!(jobs.iter().map(|job| &job["id"]).collect::<Vec<_>>(), ["far"]);
    let mut client = admin(&gateway).await;
    let page = call(&mut client, "chat.history", json!({"sessionKey": "agent:other:seven"})).await;
    assert_eq!(page["messages"][0]["content"][0]["text"], "s-seven");
    // Doctor knows what both keys are for.
    let report = clawgate(&gateway, &["doctor", "--json"]).await.stdout;
    let report = String::from_utf8(report).unwrap();
    assert!(!report.contains(".store") && !report.contains("state.openclaw"), "{report}");
    call(&mut client, "sessions.delete", json!({"key": "agent:main:six"})).await;
    gateway.terminate().await;
    gateway.restart().await;
    assert_eq!(keys(&gateway).await, ["agent:other:seven"]);
    assert!(place.join("main/s-six.jsonl").exists(), "there it stays");
}

#[tokio::test]
async fn that_openclaw_has_run_here_since_is_told_until_its_files_are_imported() {
    let root = root();
    let state = root.path().join("state");
    let (folder, list) = (state.join("agents/main/sessions"), state.join("cron/jobs.json"));
    sessions(&folder, &[("agent:main:one", "s-one")]);
    jobs(&list, &[daily("first")]);
    let mut gateway = on(root, quiet()).await;
    adopted(&gateway).await;
    gateway.terminate().await;
    // OpenClaw goes on here: it renames a session, begins one, and makes a job.
    sessions(&folder, &[("agent:main:new-name", "s-one"), ("agent:main:two", "s-two")]);
    jobs(&list, &[daily("first"), daily("second")]);
    gateway.restart().await;
    let told = news(&gateway).await;
    let from = state.display().to_string();
    let help = format!("clawgate import --from {from}");
    for part in ["agents/main/sessions/sessions.json", "cron/jobs.json", help.as_str()] {
        assert!(told.contains(part), "{part}: {told}");
    }
    gateway.logs("OpenClaw has run on this state directory").await;
    assert_eq!(keys(&gateway).await, ["agent:main:one"], "nothing comes by itself");
    gateway.terminate().await;
    assert!(is_found_by_doctor(&gateway).await);
    let output = clawgate(&gateway, &["import", "--json", "--from", &from]).await;
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let main = &report["agents"][0];
    assert_eq!((&main["sessions"], &report["cron"]["jobs"]), (&json!(1), &json!(1)), "{report}");
    let why = "its transcript is that of agent:main:one here, which stays the only one";
    assert_eq!(main["leftOut"], json!([{"what": "agent:main:new-name", "why": why}]));
    assert!(!is_found_by_doctor(&gateway).await);
    gateway.restart().await;
    assert_eq!(keys(&gateway).await, ["agent:main:one", "agent:main:two"]);
}

#[tokio::test]
async fn an_index_of_openclaw_that_cannot_be_read_is_told_with_what_helps() {
    let root = root();
    let folder = root.path().join("state/agents/main/sessions");
    sessions(&folder, &[("agent:main:one", "s-one")]);
    write(&folder.join("sessions.json"), "");
    let gateway = on(root, quiet()).await;
    assert_eq!(keys(&gateway).await, [""; 0]);
    let told = news(&gateway).await;
    let what = format!("{} cannot be read: ", folder.join("sessions.json").display());
    assert!(told.starts_with(&what), "{told}");
    let state = gateway.state_dir();
    let help = format!("and run `clawgate import --from {}`", state.display());
    assert!(told.contains("mend it or move it away") && told.ends_with(&help), "{told}");
    let report = clawgate(&gateway, &["doctor", "--json"]).await.stdout;
    assert!(String::from_utf8(report).unwrap().contains("sessions.index"));
}

#[tokio::test]
async fn a_list_of_jobs_of_openclaw_that_cannot_be_read_is_told_until_it_is_mended() {
    let root = root();
    let list = root.path().join("state/cron/jobs.json");
    write(&list, "{\"version\": 1, \"jobs\": [{\"id\"");
    let mut gateway = on(root, quiet()).await;
    let told = news(&gateway).await;
    let what = format!("{} cannot be read: ", list.display());
    assert!(told.starts_with(&what) && told.contains("mend it or move it away"), "{told}");
    let is_found = async |gateway: &Gateway| {
        let report = clawgate(gateway, &["doctor", "--json"]).await.stdout;
        String::from_utf8(report).unwrap().contains("\"cron.list\"")
    };
    assert!(is_found(&gateway).await);
    gateway.terminate().await;
    jobs(&list, &[daily("mended")]);
    gateway.restart().await;
    assert_eq!(adopted(&gateway).await.len(), 1);
    assert!(!is_found(&gateway).await);
    // What is here is here, whatever becomes of the list.
    write(&list, "");
    assert!(!is_found(&gateway).await);
}

#[tokio::test]
async fn a_job_that_was_cut_off_does_not_run_again_and_one_that_was_moved_does() {
    let root = root();
    let folder = root.path().join("state/cron");
    let (ran, at) = (now_ms() - 60_000, now_ms() - 30_000);
    let once = |id: &str| job(id, &json!({"kind": "at", "at": at.to_string()}));
    let odd = json!({"id": "odd", "schedule": {"everyMs": "3600000.5"}, "enabled": "true",
        "payload": {"text": "Feed the cat"}});
    jobs(&folder.join("jobs.json"), &[once("moved"), once("cut"), odd, json!({"id": "broken"})]);
    let states = json!({"version": 1, "jobs": {
        "moved": {"state": {"lastRunAtMs": ran, "lastStatus": "ok", "nextRunAtMs": at}},
        "cut": {"state": {"runningAtMs": at, "nextRunAtMs": at}}}});
    write(&folder.join("jobs-state.json"), &states.to_string());
    let gateway = on(root, quiet()).await;
    let jobs = adopted(&gateway).await;
    let of = |id: &str| jobs.iter().find(|job| job["id"] == id).unwrap();
    assert_eq!(of("cut")["enabled"], false);
    let state = &of("cut")["state"];
    assert_eq!((&state["lastRunStatus"], &state["lastRunAtMs"]), (&json!("error"), &json!(at)));
    let odd = of("odd");
    assert_eq!((&odd["name"], &odd["enabled"]), (&json!("Feed the cat"), &json!(true)));
    assert_eq!(odd["schedule"]["everyMs"], 3_600_000);
    for told in ["what=\"cut\"", "what=\"broken\"", "clawgate import --from"] {
        gateway.logs(told).await;
    }
    let mut client = admin(&gateway).await;
    let mut log = async |id: &str| {
        let page = call(&mut client, "cron.runs", json!({"id": id})).await;
        let entries = page["entries"].as_array().unwrap().iter();
        entries.map(|it| it["status"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let ran = until("a run", async || Some(log("moved").await).filter(|it| !it.is_empty())).await;
    assert_eq!(ran, ["ok"]);
    assert_eq!(log("cut").await, ["error"]);
}

/// Imports in place; the exit code, and the report.
async fn imported(gateway: &Gateway, more: &[&str]) -> (Option<i32>, Value) {
    let state = gateway.state_dir().display().to_string();
    let args = [&["import", "--json", "--from", state.as_str()][..], more].concat();
    let output = clawgate(gateway, &args).await;
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

#[tokio::test]
async fn a_job_that_was_removed_here_does_not_come_back_by_an_import() {
    let root = root();
    let state = root.path().join("state");
    fs::create_dir_all(state.join("agents")).unwrap();
    let list = state.join("cron/jobs.json");
    let at = (now_ms() + 86_400_000).to_string();
    let later = job("later", &json!({"kind": "at", "at": at}));
    jobs(&list, &[daily("goes"), daily("stays"), later.clone()]);
    let mut gateway = on(root, quiet()).await;
    assert_eq!(adopted(&gateway).await.len(), 3);
    let mut client = admin(&gateway).await;
    for id in ["goes", "later"] {
        call(&mut client, "cron.remove", json!({"id": id})).await;
    }
    gateway.terminate().await;
    jobs(&list, &[daily("goes"), daily("stays"), later, daily("new")]);
    let why = "it was here before, and has run or was removed since";
    let left_out = json!([{"what": "goes", "why": why}, {"what": "later", "why": why}]);
    let new = json!({"jobs": 1, "knownJobs": 1, "runs": 0});
    let again = json!({"jobs": 0, "knownJobs": 2, "runs": 0});
    let dry: &[&str] = &["--dry-run"];
    for (more, expected) in [(dry, &new), (&[][..], &new), (&[][..], &again)] {
        let (code, report) = imported(&gateway, more).await;
        let told = (&report["cron"], &report["leftOut"]);
        assert_eq!((code, told), (Some(3), (expected, &left_out)), "{more:?}");
    }
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let page = call(&mut client, "cron.list", json!({"includeDisabled": true})).await;
    let rows = page["jobs"].as_array().unwrap().iter();
    let mut ids: Vec<_> = rows.map(|job| job["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["new", "stays"]);
}

#[tokio::test]
async fn an_index_elsewhere_names_the_transcripts_of_the_usual_folder() {
    let root = root();
    let folder = root.path().join("state/agents/main/sessions");
    let index = root.path().join("elsewhere/sessions.json");
    sessions(&folder, &[("agent:main:main", "s-main")]);
    fs::create_dir_all(index.parent().unwrap()).unwrap();
    fs::rename(folder.join("sessions.json"), &index).unwrap();
    let mut config = quiet();
    config["session"] = json!({"store": index});
    let gateway = on(root, config).await;
    assert_eq!(keys(&gateway).await, ["agent:main:main"]);
    let mut client = admin(&gateway).await;
    let page = call(&mut client, "chat.history", json!({"sessionKey": "main"})).await;
    assert_eq!(page["messages"][0]["content"][0]["text"], "s-main");
}

#[tokio::test]
async fn an_index_that_is_back_names_its_sessions_and_takes_nothing_from_them() {
    let root = root();
    let folder = root.path().join("state/agents/main/sessions");
    sessions(&folder, &[("agent:main:work", "s-one")]);
    let entry = json!({"sessionId": "s-one", "updatedAt": now_ms(), "label": "There",
        "thinkingLevel": "low"});
    let index = json!({"agent:main:work": entry}).to_string();
    fs::remove_file(folder.join("sessions.json")).unwrap();
    let mut config = quiet();
    config["gateway"]["dialects"] = json!({"claude": {"share": true}});
    let mut gateway = on(root, config).await;
    assert_eq!(keys(&gateway).await, ["agent:main:s-one"]);
    let mut client = admin(&gateway).await;
    let named = json!({"key": "agent:main:s-one", "label": "Here"});
    call(&mut client, "sessions.patch", named).await;
    let path = |what: &str| format!("/api/claude/sessions/s-one/{what}");
    good(post(&gateway, &path("archive"), Value::Null)).await;
    let link = good(post(&gateway, &path("share"), Value::Null)).await;
    gateway.terminate().await;
    write(&folder.join("sessions.json"), &index);
    let dry: &[&str] = &["--dry-run"];
    for (more, expected) in [(dry, [1, 0]), (&[][..], [1, 0]), (&[][..], [0, 1])] {
        let (_, report) = imported(&gateway, more).await;
        let main = &report["agents"][0];
        let found = [&main["sessions"], &main["knownSessions"]];
        assert_eq!(found, [&json!(expected[0]), &json!(expected[1])], "{more:?}: {report}");
    }
    gateway.restart().await;
    assert_eq!(keys(&gateway).await, ["agent:main:work"]);
    let mut client = admin(&gateway).await;
    let shown = call(&mut client, "sessions.describe", json!({"key": "agent:main:work"})).await;
    let shown = &shown["session"];
    assert_eq!((&shown["label"], &shown["thinkingLevel"]), (&json!("Here"), &json!("low")));
    assert_eq!(line(&gateway, "s-one").await.unwrap()["sessionState"], "archived");
    let link = format!("http://{}{}", gateway.address(), link["shareUrl"].as_str().unwrap());
    let shown = http().get(link).send().await.unwrap().text().await.unwrap();
    assert!(shown.contains("\"sessionId\":\"s-one\""), "{shown}");
    let page = call(&mut client, "chat.history", json!({"sessionKey": "agent:main:work"})).await;
    assert_eq!(page["messages"][0]["content"][0]["text"], "s-one");
}

#[tokio::test]
async fn an_index_that_the_config_names_later_is_told_until_it_is_imported() {
    let root = root();
    let place = root.path().join("elsewhere");
    let mut config = quiet();
    config["session"] = json!({"store": place.join("{agentId}/sessions.json")});
    let mut gateway = on(root, config).await;
    let mut client = admin(&gateway).await;
    let health = call(&mut client, "health", json!({"probe": true})).await;
    assert!(health["services"]["openclaw"].is_null(), "{health}");
    gateway.terminate().await;
    // As if the disk that it is on had not been there.
    sessions(&place.join("main"), &[("agent:main:three", "s-three")]);
    gateway.restart().await;
    let told = news(&gateway).await;
    let index = place.join("main/sessions.json").display().to_string();
    let what = format!("session.store names what was not taken over: {index}; ");
    assert!(told.contains(&what) && told.contains("clawgate import --from"), "{told}");
    assert_eq!(keys(&gateway).await, [""; 0]);
    gateway.terminate().await;
    assert!(is_found_by_doctor(&gateway).await);
    // Nothing was ever said here, so there may be no folder of agents.
    let agents = gateway.state_dir().join("agents");
    assert!(!agents.exists() || fs::remove_dir_all(&agents).is_ok());
    let (code, report) = imported(&gateway, &[]).await;
    assert_eq!((code, &report["agents"][0]["sessions"]), (Some(0), &json!(1)), "{report}");
    assert!(!is_found_by_doctor(&gateway).await);
    gateway.restart().await;
    assert_eq!(keys(&gateway).await, ["agent:main:three"]);
}

#[tokio::test]
async fn of_one_index_for_all_agents_each_keeps_its_own_keys_when_the_database_is_lost() {
    let root = root();
    let place = root.path().join("elsewhere");
    let all = [("agent:main:one", "s-one"), ("agent:ops:two", "s-two"), ("main", "s-main")];
    sessions(&place, &all);
    let mut config = quiet();
    config["agents"]["list"] = json!([{"id": "main"}, {"id": "ops"}]);
    config["session"] = json!({"store": place.join("sessions.json")});
    let mut gateway = on(root, config).await;
    let expected = ["agent:main:main", "agent:main:one", "agent:ops:two"];
    assert_eq!(keys(&gateway).await, expected);
    let state = gateway.state_dir();
    let listed = |agent: &str| {
        let index = state.join("agents").join(agent).join("sessions/sessions.json");
        let index: Value = serde_json::from_slice(&fs::read(index).unwrap()).unwrap();
        let mut keys: Vec<_> = index.as_object().unwrap().keys().cloned().collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!(listed("main"), ["agent:main:one", "main"]);
    assert_eq!(listed("ops"), ["agent:ops:two"]);
    gateway.terminate().await;
    assert!(!is_found_by_doctor(&gateway).await);
    let database = |it: &fs::DirEntry| {
        it.file_name().to_str().is_some_and(|name| name.starts_with("clawgate.sqlite"))
    };
    let lost: Vec<_> = fs::read_dir(&state).unwrap().map(Result::unwrap).filter(database).collect();
    assert!(!lost.is_empty());
    for file in lost {
        fs::remove_file(file.path()).unwrap();
    }
    // What OpenClaw had is gone as well: all that is left is here.
    fs::remove_dir_all(&place).unwrap();
    gateway.restart().await;
    assert_eq!(keys(&gateway).await, expected);
    let mut client = admin(&gateway).await;
    for (key, id) in all {
        let page = call(&mut client, "chat.history", json!({"sessionKey": key})).await;
        assert_eq!(page["messages"][0]["content"][0]["text"], id, "{key}");
    }
}

#[tokio::test]
async fn a_session_that_was_removed_here_comes_back_only_when_openclaw_has_gone_on_with_it() {
    let root = root();
    let folder = root.path().join("state/agents/main/sessions");
    let all = [("agent:main:one", "s-one"), ("agent:main:two", "s-two")];
    sessions(&folder, &all);
    let mut gateway = on(root, quiet()).await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.delete", json!({"key": "agent:main:two"})).await;
    gateway.terminate().await;
    assert!(!folder.join("s-two.jsonl").exists());
    let why = "came before and was removed here, or began anew";
    let left_out = json!([{"what": "agent:main:two", "why": why}]);
    for more in [&["--dry-run"][..], &[][..], &[][..]] {
        let (code, report) = imported(&gateway, more).await;
        let main = &report["agents"][0];
        let found = (code, &main["sessions"], &main["leftOut"]);
        assert_eq!(found, (Some(3), &json!(0), &left_out), "{more:?}: {report}");
    }
    gateway.restart().await;
    assert_eq!(keys(&gateway).await, ["agent:main:one"]);
    gateway.terminate().await;
    sessions(&folder, &all);
    let (_, report) = imported(&gateway, &[]).await;
    assert_eq!(report["agents"][0]["sessions"], 1, "{report}");
    gateway.restart().await;
    assert_eq!(keys(&gateway).await, ["agent:main:one", "agent:main:two"]);
}

#[tokio::test]
async fn a_session_that_came_from_elsewhere_and_was_removed_here_does_not_come_back() {
    let mut gateway = on(root(), quiet()).await;
    gateway.terminate().await;
    let there = gateway.root().join("elsewhere");
    let all = [("agent:main:one", "s-one"), ("agent:main:two", "s-two")];
    sessions(&there.join("agents/main/sessions"), &all);
    write(&there.join("openclaw.json"), "{}");
    let from = there.display().to_string();
    let output = clawgate(&gateway, &["import", "--json", "--from", &from]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.delete", json!({"key": "agent:main:two"})).await;
    gateway.terminate().await;
    let (_, report) = imported(&gateway, &[]).await;
    let why = "came before and was removed here, or began anew";
    let left_out = json!([{"what": "agent:main:two", "why": why}]);
    let main = &report["agents"][0];
    assert_eq!((&main["sessions"], &main["leftOut"]), (&json!(0), &left_out), "{report}");
    gateway.restart().await;
    assert_eq!(keys(&gateway).await, ["agent:main:one"]);
}

#[tokio::test]
async fn an_openclaw_elsewhere_gives_no_other_key_to_a_session_that_is_here() {
    let root = root();
    let there = root.path().join("elsewhere");
    let all = [("agent:main:work", "s-one")];
    let place = "agents/main/sessions";
    for state in [&there, &root.path().join("state")] {
        sessions(&state.join(place), &all);
    }
    write(&there.join("openclaw.json"), "{}");
    fs::remove_file(root.path().join("state").join(place).join("sessions.json")).unwrap();
    let mut gateway = on(root, quiet()).await;
    assert_eq!(keys(&gateway).await, ["agent:main:s-one"]);
    gateway.terminate().await;
    let from = there.display().to_string();
    let output = clawgate(&gateway, &["import", "--json", "--from", &from]).await;
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let why = "its transcript is that of agent:main:s-one here, which stays the only one";
    let left_out = json!([{"what": "agent:main:work", "why": why}]);
    assert_eq!(report["agents"][0]["leftOut"], left_out, "{report}");
    gateway.restart().await;
    assert_eq!(keys(&gateway).await, ["agent:main:s-one"]);
}

/// The sessions that an import took over, and what it left out of the agents.
fn come(report: &Value) -> (u64, Vec<(&str, &str)>) {
    let agents = || report["agents"].as_array().unwrap().iter();
    let left_out = agents().flat_map(|agent| agent["leftOut"].as_array().unwrap());
    let left_out =
        left_out.map(|one| (one["what"].as_str().unwrap(), one["why"].as_str().unwrap()));
    let sessions = agents().map(|agent| agent["sessions"].as_u64().unwrap()).sum();
    (sessions, left_out.collect())
}

const REMOVED: &str = "came before and was removed here, or began anew";

#[tokio::test]
async fn a_session_that_began_anew_here_comes_besides_when_openclaw_goes_on_with_it_elsewhere() {
    let root = root();
    let place = root.path().join("elsewhere");
    let all = [("agent:main:work", "s-one")];
    sessions(&place, &all);
    let mut config = quiet();
    config["session"] = json!({"store": place.join("sessions.json")});
    let mut gateway = on(root, config).await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.reset", json!({"key": "agent:main:work"})).await;
    gateway.terminate().await;
    let (_, report) = imported(&gateway, &[]).await;
    // Its key is that of the new one, in the folder where both are.
    assert_eq!(come(&report), (0, vec![("agent:main:s-one", REMOVED)]), "{report}");
    sessions(&place, &all);
    let transcript = place.join("s-one.jsonl");
    let before = fs::read_to_string(&transcript).unwrap();
    let said = before.lines().last().unwrap().replace("00000001", "00000002");
    write(&transcript, &format!("{before}{}\n", said.replace("s-one", "and more")));
    let why = "is another conversation here; this one is now agent:main:s-one";
    for more in [&["--dry-run"][..], &[]] {
        let (_, report) = imported(&gateway, more).await;
        assert_eq!(come(&report), (1, vec![("agent:main:work", why)]), "{more:?}: {report}");
    }
    let (code, report) = imported(&gateway, &[]).await;
    assert_eq!((code, come(&report)), (Some(0), (0, Vec::new())), "{report}");
    gateway.restart().await;
    assert_eq!(keys(&gateway).await, ["agent:main:s-one", "agent:main:work"]);
    let mut client = admin(&gateway).await;
    let other = json!({"sessionKey": "agent:main:s-one"});
    let page = call(&mut client, "chat.history", other).await;
    let messages = page["messages"].as_array().unwrap().iter();
    let texts: Vec<_> = messages.map(|it| it["content"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["s-one", "and more"]);
    let page = call(&mut client, "chat.history", json!({"sessionKey": "agent:main:work"})).await;
    assert_eq!(page["messages"], json!([]));
}

#[tokio::test]
async fn a_session_that_was_removed_and_its_file_kept_comes_back_only_when_openclaw_goes_on() {
    let root = root();
    let folder = root.path().join("state/agents/main/sessions");
    let all = [("agent:main:one", "s-one"), ("agent:main:two", "s-two")];
    sessions(&folder, &all);
    let mut gateway = on(root, quiet()).await;
    let mut client = admin(&gateway).await;
    // One that began here is listed nowhere but in the database.
    let made = call(&mut client, "sessions.create", json!({"key": "agent:main:own"})).await;
    let id = made["sessionId"].as_str().unwrap();
    for key in ["agent:main:own", "agent:main:two"] {
        let delete = json!({"key": key, "deleteTranscript": false});
        call(&mut client, "sessions.delete", delete).await;
    }
    gateway.terminate().await;
    for id in [id, "s-two"] {
        assert!(folder.join(format!("{id}.jsonl")).exists(), "{id}");
    }
    let own = ("agent:main:own", REMOVED);
    let both = (0, vec![own, ("agent:main:two", REMOVED)]);
    for more in [&["--dry-run"][..], &[], &[]] {
        let (code, report) = imported(&gateway, more).await;
        assert_eq!((code, come(&report)), (Some(3), both.clone()), "{more:?}: {report}");
    }
    sessions(&folder, &all);
    let (_, report) = imported(&gateway, &[]).await;
    assert_eq!(come(&report), (1, vec![own]), "{report}");
    gateway.restart().await;
    assert_eq!(keys(&gateway).await, ["agent:main:one", "agent:main:two"]);
}

#[tokio::test]
async fn what_was_removed_here_comes_from_another_directory_only_when_that_has_gone_on() {
    let mut gateway = on(root(), quiet()).await;
    gateway.terminate().await;
    let there = gateway.root().join("elsewhere");
    let folder = there.join("agents/main/sessions");
    let all = [("agent:main:one", "s-one"), ("agent:main:two", "s-two")];
    sessions(&folder, &all);
    write(&there.join("openclaw.json"), "{}");
    let from = there.display().to_string();
    let import = async |gateway: &Gateway| {
        let output = clawgate(gateway, &["import", "--json", "--from", &from]).await;
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    assert_eq!(come(&import(&gateway).await), (2, Vec::new()));
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.reset", json!({"key": "agent:main:one"})).await;
    call(&mut client, "sessions.delete", json!({"key": "agent:main:two"})).await;
    gateway.terminate().await;
    let both = vec![("agent:main:one", REMOVED), ("agent:main:two", REMOVED)];
    assert_eq!(come(&import(&gateway).await), (0, both));
    sessions(&folder, &all);
    let why = "is another conversation here; this one is now agent:main:s-one";
    assert_eq!(come(&import(&gateway).await), (2, vec![("agent:main:one", why)]));
    gateway.restart().await;
    let expected = ["agent:main:one", "agent:main:s-one", "agent:main:two"];
    assert_eq!(keys(&gateway).await, expected);
}

/// Sessions of two agents, the transcript of the second of which has not come: as a kill leaves
/// them between these agents. Answers the gateway, which has been started since, and where they
/// come from.
async fn cut_off() -> (Gateway, String) {
    let root = root();
    let (there, here) = (root.path().join("elsewhere"), root.path().join("state"));
    for (agent, key, id) in CUT_OFF {
        let folder = Path::new("agents").join(agent).join("sessions");
        sessions(&there.join(&folder), &[(key, id)]);
        fs::create_dir_all(here.join(&folder)).unwrap();
        let index = folder.join("sessions.json");
        // What is said next begins them anew.
        let old = json!({key: {"sessionId": id, "updatedAt": now_ms() - 2 * DAY_MS}});
        write(&there.join(&index), &old.to_string());
        fs::copy(there.join(&index), here.join(&index)).unwrap();
    }
    let first = "agents/main/sessions/s-one.jsonl";
    fs::copy(there.join(first), here.join(first)).unwrap();
    write(&there.join("openclaw.json"), "{}");
    let mut config = quiet();
    config["agents"]["list"] = json!([{"id": "main"}, {"id": "ops"}]);
    let gateway = on(root, config).await;
    assert_eq!(keys(&gateway).await, CUT_OFF.map(|(_, key, _)| key));
    (gateway, there.display().to_string())
}

const DAY_MS: i64 = 86_400_000;

/// Agent, key and id.
const CUT_OFF: [(&str, &str, &str); 2] =
    [("main", "agent:main:one", "s-one"), ("ops", "agent:ops:two", "s-two")];

#[tokio::test]
async fn an_import_that_was_cut_off_before_a_start_is_gone_on_with_under_the_same_keys() {
    let (mut gateway, from) = cut_off().await;
    gateway.terminate().await;
    let output = clawgate(&gateway, &["import", "--json", "--from", &from]).await;
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), come(&report)), (Some(0), (0, Vec::new())), "{report}");
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let list = call(&mut client, "sessions.list", json!({"includeDerivedTitles": true})).await;
    let rows = list["sessions"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found: Vec<_> =
        rows.map(|row| (text(&row["key"]), text(&row["derivedTitle"]))).collect();
    found.sort_unstable();
    assert_eq!(found, CUT_OFF.map(|(_, key, id)| (key.to_owned(), id.to_owned())));
}

#[tokio::test]
async fn what_an_import_that_was_cut_off_has_not_brought_comes_beside_what_began_in_its_place() {
    let (mut gateway, from) = cut_off().await;
    let mut client = admin(&gateway).await;
    let sent = json!({"sessionKey": "agent:ops:two", "message": "begun here",
        "idempotencyKey": "run-1"});
    call(&mut client, "chat.send", sent).await;
    gateway.terminate().await;
    let output = clawgate(&gateway, &["import", "--json", "--from", &from]).await;
    assert_eq!(output.status.code(), Some(3), "it is told under which key it comes");
    gateway.restart().await;
    assert_eq!(keys(&gateway).await, ["agent:main:one", "agent:ops:s-two", "agent:ops:two"]);
    let mut client = admin(&gateway).await;
    let page = call(&mut client, "chat.history", json!({"sessionKey": "agent:ops:s-two"})).await;
    assert!(page["messages"].to_string().contains("s-two"), "{page}");
}

#[tokio::test]
async fn sessions_of_an_agent_that_was_removed_and_its_files_kept_come_with_them() {
    let root = root();
    let mut config = quiet();
    config["agents"]["list"] = json!([{"id": "main"}, {"id": "ops"}]);
    let mut gateway = on(root, config).await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.create", json!({"key": "agent:ops:own"})).await;
    let delete = json!({"agentId": "ops", "deleteFiles": false});
    call(&mut client, "agents.delete", delete).await;
    gateway.terminate().await;
    let (_, report) = imported(&gateway, &[]).await;
    assert_eq!(come(&report), (1, Vec::new()), "{report}");
}
