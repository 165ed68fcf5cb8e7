//! Real files in real folders.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;
use tokio::time::timeout;

use crate::support::json;

use super::*;

const ONE: &str = "7afc3e49-d4dd-410a-8fc2-8d26cf6e1f80";
const TWO: &str = "022e6ed8-0c91-40da-a0fd-96b7784a5729";
const LIMIT: Duration = Duration::from_secs(20);

struct Scene {
    home: tempfile::TempDir,
    projects: Projects,
}

impl Scene {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let projects = Projects::new(home.path().join("projects"), Tasks::default());
        Self { home, projects }
    }

    fn file(&self, project: &str, id: &str) -> PathBuf {
        let folder = self.home.path().join("projects").join(project);
        fs::create_dir_all(&folder).unwrap();
        folder.join(format!("{id}.jsonl"))
    }

    fn write(&self, project: &str, id: &str, lines: &[Value]) -> PathBuf {
        let file = self.file(project, id);
        let text = lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n") + "\n";
        fs::write(&file, text).unwrap();
        file
    }
}

fn append(file: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).open(file).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn user(uuid: &str, text: &str) -> Value {
    json!({"parentUuid": null, "cwd": "/w", "gitBranch": "main", "type": "user",
        "message": {"role": "user", "content": text}, "uuid": uuid,
        "timestamp": "2026-11-22T03:35:28.398Z"})
}

fn answer(uuid: &str) -> Value {
    json!({"type": "assistant", "message": {"content": [{"type": "text", "text": "ok"}]},
        "uuid": uuid, "timestamp": "2026-11-22T03:35:29.398Z"})
}

fn texts(lines: &[RawLine]) -> Vec<Value> {
    lines.iter().map(|line| serde_json::from_str(&line.text).unwrap()).collect()
}

#[tokio::test]
async fn a_title_is_what_a_person_gave_then_the_summary_then_the_first_words() {
    let scene = Scene::new();
    assert_eq!(scene.projects.list().await.unwrap(), []);
    let meta = json!({"type": "user", "isMeta": true, "message": {"content": "Caveat"}});
    let command = user("a", "<command-name>/model</command-name>");
    let mut lines = vec![meta, command];
    let title = async |lines: &[Value]| {
        scene.write("-w", ONE, lines);
        scene.projects.find(ONE).await.unwrap().unwrap().title
    };
    assert_eq!(title(&lines).await, "Untitled");
    lines.push(user("b", &format!("What\n  is {}", "x".repeat(200))));
    assert_eq!(title(&lines).await, format!("What is {}", "x".repeat(112)));
    lines.push(json!({"type": "summary", "summary": "About it", "leafUuid": "b"}));
    assert_eq!(title(&lines).await, "About it");
    lines.push(json!({"type": "custom-title", "customTitle": "Mine", "sessionId": ONE}));
    assert_eq!(title(&lines).await, "Mine");
    let found = scene.projects.find(ONE).await.unwrap().unwrap();
    assert_eq!((&*found.cwd, found.git_branch.as_deref(), found.messages), ("/w", Some("main"), 3));
    assert_eq!(found.created_ms, 1_795_318_528_398);
}

#[tokio::test]
async fn the_list_of_claude_code_counts_while_the_session_has_not_changed() {
    let scene = Scene::new();
    let file = scene.write("-w", ONE, &[user("a", "hi")]);
    let modified = fs::metadata(&file).unwrap().modified().unwrap();
    let modified = modified.duration_since(UNIX_EPOCH).unwrap().as_secs_f64() * 1000.0;
    let index = json!({"version": 1, "entries": [7, {"sessionId": ONE, "fullPath": "/elsewhere",
        "fileMtime": modified, "firstPrompt": "hi", "summary": "As noted", "messageCount": 41,
        "created": "2026-11-22T03:35:28.398Z", "modified": "2026-11-22T03:35:28.398Z",
        "gitBranch": "", "projectPath": "/noted", "isSidechain": false}]});
    fs::write(file.parent().unwrap().join("sessions-index.json"), index.to_string()).unwrap();
    let found = scene.projects.find(ONE).await.unwrap().unwrap();
    assert_eq!((&*found.title, &*found.cwd, found.messages), ("As noted", "/noted", 41));
    append(&file, &format!("{}\n", answer("b")));
    let file = OpenOptions::new().write(true).open(file).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(2_000_000_000)).unwrap();
    let found = scene.projects.find(ONE).await.unwrap().unwrap();
    assert_eq!((&*found.title, &*found.cwd, found.messages), ("hi", "/w", 2));
}

#[tokio::test]
async fn lines_are_passed_on_as_they_are_but_for_what_is_heavy() {
    let scene = Scene::new();
    let read = json!({"type": "user", "uuid": "c", "zebra": 1.50, "apple": 2,
        "message": {"role": "user", "content": [{"type": "tool_result", "content": "long"}]},
        "toolUseResult": {"type": "text", "file": {"content": "long", "numLines": 1}}});
    let other = "{ \"type\": \"file-history-snapshot\",  \"n\": 1.0e2 }";
    let file = scene.write("-w", ONE, &[user("a", "hi"), answer("b"), read]);
    append(&file, &format!("no json\n{other}\n{}\n[]\n{{\"type\":\"user\",\"uu", answer("b")));
    let burst = scene.projects.burst(ONE).await.unwrap().unwrap();
    assert_eq!((burst.lowest_page, burst.total_pages), (0, 1));
    let texts: Vec<_> = burst.lines.iter().map(|line| line.text.as_str()).collect();
    let stripped = concat!(
        r#"{"type":"user","uuid":"c","zebra":1.5,"apple":2,"message":{"role":"user","content":"#,
        r#"[{"type":"tool_result","content":""}]},"toolUseResult":{"type":"text","file":{"numLines":1}}}"#
    );
    let expected =
        [user("a", "hi").to_string(), answer("b").to_string(), stripped.into(), other.into()];
    assert_eq!(texts, expected);
    assert_eq!(burst.lines[3].kind, "file-history-snapshot");
    let page = scene.projects.page(ONE, 0).await.unwrap().unwrap();
    assert_eq!((page.is_sealed, page.total, page.lines.len()), (false, 1, 5));
    assert_eq!(scene.projects.page(ONE, 1).await.unwrap(), None);
}

#[tokio::test]
async fn long_sessions_have_pages_that_stay_what_they_are() {
    let scene = Scene::new();
    let lines: Vec<_> = (0..1100).map(|number| user(&format!("u{number}"), "hi")).collect();
    let file = scene.write("-w", ONE, &lines);
    let burst = scene.projects.burst(ONE).await.unwrap().unwrap();
    assert_eq!((burst.lowest_page, burst.total_pages, burst.lines.len()), (1, 3, 600));
    let page = scene.projects.page(ONE, 0).await.unwrap().unwrap();
    assert_eq!((page.is_sealed, texts(&page.lines)), (true, lines[..500].to_vec()));
    append(&file, &format!("{}\n", answer("new")));
    assert_eq!(scene.projects.page(ONE, 0).await.unwrap().unwrap(), page);
    let last = scene.projects.page(ONE, 2).await.unwrap().unwrap();
    assert_eq!((last.is_sealed, last.lines.len()), (false, 101));
    fs::write(&file, format!("{}\n", answer("only"))).unwrap();
    let burst = scene.projects.burst(ONE).await.unwrap().unwrap();
    assert_eq!((burst.total_pages, texts(&burst.lines)), (1, vec![answer("only")]));
    assert_eq!(scene.projects.find(ONE).await.unwrap().unwrap().messages, 1);
}

#[tokio::test]
async fn nothing_outside_of_the_folder_can_be_named_or_linked_to() {
    let scene = Scene::new();
    let secret = scene.home.path().join(format!("{TWO}.jsonl"));
    fs::write(&secret, format!("{}\n", user("a", "secret"))).unwrap();
    let file = scene.write("-w", ONE, &[user("a", "hi")]);
    let folder = file.parent().unwrap();
    symlink(&secret, folder.join(format!("{TWO}.jsonl"))).unwrap();
    symlink(scene.home.path(), folder.parent().unwrap().join("-linked")).unwrap();
    fs::write(folder.join("notes.jsonl"), "{}").unwrap();
    let spellings = [
        TWO.to_owned(),
        format!("../../{TWO}"),
        format!("../{TWO}"),
        "notes".to_owned(),
        ONE.replace('-', ""),
        format!("{{{ONE}}}"),
        format!("{ONE}\0"),
        String::new(),
    ];
    for id in spellings {
        assert_eq!(scene.projects.find(&id).await.unwrap(), None, "{id:?}");
        assert_eq!(scene.projects.burst(&id).await.unwrap(), None, "{id:?}");
        assert!(scene.projects.follow(&id, 0).await.unwrap().is_none(), "{id:?}");
    }
    let all = scene.projects.list().await.unwrap();
    assert_eq!(all.iter().map(|one| &*one.id).collect::<Vec<_>>(), [ONE]);
}

async fn next(follow: &mut Follow) -> Followed {
    timeout(LIMIT, follow.next()).await.unwrap().unwrap()
}

/// Lines until there are so many.
async fn told(follow: &mut Follow, count: usize) -> Vec<Value> {
    let mut all = Vec::new();
    while all.len() < count {
        match next(follow).await {
            Followed::Lines(lines) => all.extend(texts(&lines)),
            other => panic!("{other:?} after {all:?}"),
        }
    }
    all
}

#[tokio::test]
async fn what_is_added_is_told_when_it_is_whole() {
    let scene = Scene::new();
    let file = scene.write("-w", ONE, &[user("a", "hi")]);
    let end = scene.projects.burst(ONE).await.unwrap().unwrap().end;
    // Added between the burst and the beginning.
    append(&file, &format!("{}\n", answer("b")));
    let mut follow = scene.projects.follow(ONE, end).await.unwrap().unwrap();
    assert_eq!(told(&mut follow, 1).await, [answer("b")]);
    let line = user("c", "more").to_string();
    let (head, tail) = line.split_at(20);
    append(&file, &format!("broken\n{}\n{head}", answer("x")));
    assert_eq!(told(&mut follow, 1).await, [answer("x")]);
    // One that was given up while it waited has lost nothing.
    let waiting = timeout(Duration::from_millis(30), follow.next()).await;
    assert!(waiting.is_err());
    append(&file, &format!("{tail}\n"));
    assert_eq!(told(&mut follow, 1).await, [user("c", "more")]);
}

#[tokio::test]
async fn what_is_added_behind_much_that_cannot_be_read_is_told_too() {
    let scene = Scene::new();
    let file = scene.write("-w", ONE, &[user("a", "hi")]);
    let end = scene.projects.burst(ONE).await.unwrap().unwrap().end;
    let unreadable = format!("{}\n", "x".repeat(1024 * 1024));
    append(&file, &format!("{}{}\n", unreadable.repeat(6), answer("b")));
    let mut follow = scene.projects.follow(ONE, end).await.unwrap().unwrap();
    assert_eq!(told(&mut follow, 1).await, [answer("b")]);
}

#[tokio::test]
async fn a_file_that_is_cut_exchanged_or_gone_is_told_so() {
    let scene = Scene::new();
    let file = scene.write("-w", ONE, &[user("a", "hi"), answer("b")]);
    let mut follow = scene.projects.follow(ONE, 0).await.unwrap().unwrap();
    assert_eq!(told(&mut follow, 2).await, [user("a", "hi"), answer("b")]);
    fs::write(&file, format!("{}\n", answer("c"))).unwrap();
    assert_eq!(next(&mut follow).await, Followed::Restarted);
    assert_eq!(told(&mut follow, 1).await, [answer("c")]);
    let other = scene.home.path().join("other");
    fs::write(&other, format!("{}\n{}\n", answer("d"), answer("e"))).unwrap();
    fs::rename(&other, &file).unwrap();
    assert_eq!(next(&mut follow).await, Followed::Restarted);
    assert_eq!(told(&mut follow, 2).await, [answer("d"), answer("e")]);
    fs::remove_file(&file).unwrap();
    assert_eq!(next(&mut follow).await, Followed::Gone);
    fs::write(&file, format!("{}\n", answer("f"))).unwrap();
    assert_eq!(next(&mut follow).await, Followed::Restarted);
    assert_eq!(told(&mut follow, 1).await, [answer("f")]);
}

#[tokio::test]
async fn one_watch_serves_all_and_ends_with_the_last() {
    let scene = Scene::new();
    let file = scene.write("-w", ONE, &[user("a", "hi")]);
    let tasks = scene.projects.tasks.clone();
    assert_eq!(tasks.len(), 0);
    let follow = scene.projects.follow(ONE, 0).await.unwrap().unwrap();
    let mut list = scene.projects.follow_list().await.unwrap();
    assert_eq!(tasks.len(), 1);
    append(&file, &format!("{}\n", answer("b")));
    let changed = timeout(LIMIT, list.changed()).await.unwrap().unwrap();
    assert_eq!(changed, [ONE]);
    drop((follow, list));
    while !tasks.is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_project_that_cannot_be_watched_hides_no_other() {
    let home = tempfile::tempdir().unwrap();
    let mut folder = home.path().to_owned();
    while folder.as_os_str().len() < 3850 {
        folder.push("d".repeat(100));
    }
    let file = folder.join("-w").join(format!("{ONE}.jsonl"));
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, format!("{}\n", user("a", "hi"))).unwrap();
    let projects = Projects::new(folder.clone(), Tasks::default());
    let mut before = projects.follow(ONE, 0).await.unwrap().unwrap();
    assert_eq!(told(&mut before, 1).await, [user("a", "hi")]);
    // Its path is longer than the system takes.
    let folder = fs::File::open(&folder).unwrap();
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mkdirat(&folder, "x".repeat(250), mode).unwrap();
    append(&file, &format!("{}\n", answer("b")));
    assert_eq!(told(&mut before, 1).await, [answer("b")]);
    drop(before);
    let mut after = projects.follow(ONE, 0).await.unwrap().unwrap();
    assert_eq!(told(&mut after, 2).await, [user("a", "hi"), answer("b")]);
    append(&file, &format!("{}\n", answer("c")));
    assert_eq!(told(&mut after, 1).await, [answer("c")]);
}

#[tokio::test]
async fn sessions_are_noticed_in_a_folder_that_was_not_there() {
    let scene = Scene::new();
    let mut list = scene.projects.follow_list().await.unwrap();
    let file = scene.file("-w", ONE);
    let tell = |file: &Path, id: &str| fs::write(file, user(id, "hi").to_string()).unwrap();
    tell(&file, "a");
    // Folders come one by one; when the last of them is seen, the file may be there.
    loop {
        let changed = timeout(LIMIT, list.changed()).await.unwrap().unwrap();
        assert!(changed.is_empty() || changed == [ONE]);
        if !scene.projects.heads().await.unwrap().is_empty() {
            break;
        }
    }
    let two = scene.file("-w", TWO);
    tell(&two, "b");
    loop {
        let changed = timeout(LIMIT, list.changed()).await.unwrap().unwrap();
        if changed.contains(&TWO.to_owned()) {
            break;
        }
    }
}
