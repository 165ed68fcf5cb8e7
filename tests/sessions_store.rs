//! Sessions and their store on a real disk: reopening, torn files, races,
//! sudden death.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use clawgate::config::{DiskBudget, MaintenanceMode, MaintenanceSettings};
use clawgate::protocol::message::{AgentMessage, AssistantMessage, UserMessage};
use clawgate::sessions::import::Indexes;
use clawgate::sessions::maintenance::Cleanup;
use clawgate::sessions::{
    AgentId, AppendOptions, CompactedFiles, CompactedSession, Compaction, CompactionReason,
    HistoryOptions, KeyRules, Remains, SessionEntry, SessionError, SessionKey, SessionQuery,
    Sessions, SessionsOptions, Source, TranscriptFormat, stored_sessions,
};
use clawgate::store::{
    ChannelStore, Claim, NewPart, NewRun, OutboxAddress, RunOutcome, RunState, SourceNote,
    SourceStore, SqliteStore, Store, sources_beside,
};
use clawgate::support::{Clock, Ids, RandomIds, Tasks};
use futures_util::future::{join_all, try_join_all};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};
use tokio::sync::oneshot;

const NOW: u64 = 1_795_318_528_398;
const DAY: u64 = 24 * 60 * 60 * 1000;

struct Stopped;

impl Clock for Stopped {
    fn now_ms(&self) -> u64 {
        NOW
    }
}

fn store(dir: &Path) -> SqliteStore {
    SqliteStore::open(&dir.join("clawgate.sqlite")).unwrap()
}

async fn open_as(dir: &Path, format: TranscriptFormat) -> Sessions {
    open_with(dir, format, Arc::new(RandomIds)).await
}

async fn open_with(dir: &Path, format: TranscriptFormat, ids: Arc<dyn Ids>) -> Sessions {
    let rules = Arc::default();
    let reset = clawgate::config::ResetSettings::default();
    let options = SessionsOptions { state_dir: dir.to_owned(), rules, format, reset };
    Sessions::open(options, Arc::new(store(dir)), Arc::new(Stopped), ids).await.unwrap()
}

async fn open(dir: &Path) -> Sessions {
    open_as(dir, TranscriptFormat::OpenClaw).await
}

/// The ids of transcripts that no import takes for new, since no session has them any more.
async fn let_go(dir: &Path) -> Vec<String> {
    let indexes = Indexes { state_dir: dir.to_owned(), named: None, agents: Vec::new() };
    indexes.removed(&store(dir)).await.unwrap().into_keys().collect()
}

fn key(text: &str) -> SessionKey {
    SessionKey::parse(text, &KeyRules::default())
}

fn user(text: &str) -> AgentMessage {
    AgentMessage::User(UserMessage::text(text, 1))
}

fn assistant(text: &str) -> AgentMessage {
    AgentMessage::Assistant(AssistantMessage::from_gateway(text, 2))
}

async fn say(sessions: &Sessions, key: &SessionKey, text: &str) -> u64 {
    sessions.append(key, user(text), AppendOptions::default()).await.unwrap().seq
}

/// A summary that keeps nothing.
fn summary() -> Compaction {
    Compaction {
        reason: CompactionReason::Manual,
        summary: "so far".into(),
        first_kept_entry_id: None,
        tokens_before: 9,
        tokens_after: 4,
        files: CompactedFiles::default(),
    }
}

/// Sums up a session that nobody begins anew meanwhile.
async fn compact(sessions: &Sessions, key: &SessionKey, summary: Compaction) -> CompactedSession {
    let entry = sessions.entry(key).await.unwrap().unwrap();
    sessions.compact(key, &entry.session_id, summary).await.unwrap()
}

async fn transcript(sessions: &Sessions, key: &SessionKey) -> PathBuf {
    let entry = sessions.entry(key).await.unwrap().unwrap();
    sessions.path(key, &entry).unwrap()
}

async fn shown(sessions: &Sessions, key: &SessionKey, limit: usize) -> Vec<Value> {
    let options = HistoryOptions { limit, ..HistoryOptions::default() };
    sessions.history(key, options).await.unwrap().messages
}

/// `seq text` of the newest messages.
async fn heard(sessions: &Sessions, key: &SessionKey) -> Vec<String> {
    let text = |message: &Value| {
        let text = message["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        format!("{} {text}", message["__openclaw"]["seq"])
    };
    shown(sessions, key, 1000).await.iter().map(text).collect()
}

#[tokio::test]
async fn a_conversation_survives_a_restart_in_both_formats() {
    for format in [TranscriptFormat::OpenClaw, TranscriptFormat::Messages] {
        let dir = tempfile::tempdir().unwrap();
        let main = key("main");
        let sessions = open_as(dir.path(), format).await;
        sessions.ensure(&main, Path::new("/w")).await.unwrap();
        say(&sessions, &main, "hello").await;
        let stored =
            sessions.append(&main, assistant("hi"), AppendOptions::default()).await.unwrap();
        assert_eq!((stored.seq, stored.session.transcript.message_count), (2, 2));
        drop(sessions);

        // A file keeps its format, whatever is configured later.
        let reopened = open(dir.path()).await;
        assert_eq!(say(&reopened, &main, "again").await, 3, "{format:?}");
        assert_eq!(heard(&reopened, &main).await, ["1 hello", "2 hi", "3 again"]);
        let ids: BTreeSet<_> = shown(&reopened, &main, 9)
            .await
            .iter()
            .map(|message| message["__openclaw"]["id"].as_str().unwrap().to_owned())
            .collect();
        assert!(ids.contains(&stored.id) && ids.len() == 3);
        let context = reopened.context(&main).await.unwrap();
        assert_eq!(context, [user("hello"), assistant("hi"), user("again")]);
        let text = fs::read_to_string(transcript(&reopened, &main).await).unwrap();
        assert_eq!(text.contains(r#""type":"session""#), format == TranscriptFormat::OpenClaw);
    }
}

#[tokio::test]
async fn a_new_transcript_begins_as_the_original_expects() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    let main = key("main");
    let entry = sessions.ensure(&main, Path::new("/w")).await.unwrap();
    let options = AppendOptions { id: Some("ac461195".into()), ..AppendOptions::default() };
    sessions.append(&main, user("hello"), options).await.unwrap();
    say(&sessions, &main, "more").await;
    let text = fs::read_to_string(transcript(&sessions, &main).await).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        lines[0],
        json!({"type": "session", "version": 3, "id": entry.session_id,
            "timestamp": "2026-11-22T03:35:28.398Z", "cwd": "/w", "sessionKey": "agent:main:main"})
    );
    assert_eq!(
        lines[1],
        json!({"type": "message", "id": "ac461195", "parentId": null,
            "timestamp": "2026-11-22T03:35:28.398Z",
            "message": {"role": "user", "content": [{"type": "text", "text": "hello"}], "timestamp": 1}})
    );
    assert_eq!(lines[2]["parentId"], "ac461195");
    let path = transcript(&sessions, &main).await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
}

/// Every complete line before a torn one is read, the next append works, and
/// not one earlier byte changes.
#[tokio::test]
async fn a_line_torn_at_any_byte_costs_only_itself() {
    for format in [TranscriptFormat::OpenClaw, TranscriptFormat::Messages] {
        let dir = tempfile::tempdir().unwrap();
        let main = key("main");
        let sessions = open_as(dir.path(), format).await;
        sessions.ensure(&main, Path::new("/w")).await.unwrap();
        say(&sessions, &main, "one").await;
        let path = transcript(&sessions, &main).await;
        let before = fs::read(&path).unwrap().len();
        say(&sessions, &main, "two").await;
        let whole = fs::read(&path).unwrap();
        for cut in before..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            // Without its newline a line is complete already.
            let survived = cut + 1 >= whole.len();
            let expected = if survived { vec!["1 one", "2 two"] } else { vec!["1 one"] };
            assert_eq!(heard(&sessions, &main).await, expected, "cut at {cut}");
            let seq = say(&sessions, &main, "three").await;
            assert_eq!(seq, if survived { 3 } else { 2 }, "cut at {cut}");
            assert!(fs::read(&path).unwrap().starts_with(&whole[..cut]), "cut at {cut}");
            let texts = heard(&sessions, &main).await;
            assert_eq!(texts.last().unwrap(), &format!("{seq} three"), "cut at {cut}");
            assert_eq!(texts.len(), expected.len() + 1, "cut at {cut}");
            assert_eq!(sessions.context(&main).await.unwrap().len(), texts.len(), "cut at {cut}");
        }
    }
}

#[tokio::test]
async fn a_file_torn_in_its_header_gets_one() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    let main = key("main");
    sessions.ensure(&main, Path::new("/w")).await.unwrap();
    let path = transcript(&sessions, &main).await;
    fs::write(&path, r#"{"type":"sess"#).unwrap();
    drop(sessions);
    let sessions = open(dir.path()).await;
    say(&sessions, &main, "hello").await;
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], r#"{"type":"sess"#);
    assert!(lines[1].starts_with(r#"{"type":"session","version":3"#));
    assert_eq!(heard(&sessions, &main).await, ["1 hello"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_sessions_grow_at_once() {
    // More than one group takes, and than files stay open.
    const SESSIONS: u32 = 300;
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    let grow = |number: u32| {
        let sessions = sessions.clone();
        async move {
            let key = key(&format!("s{number}"));
            sessions.ensure(&key, Path::new("/w")).await.unwrap();
            let texts: Vec<_> = (0..4).map(|n| format!("m{n}")).collect();
            let appends = texts.iter().map(|text| say(&sessions, &key, text));
            let seqs: BTreeSet<u64> = join_all(appends).await.into_iter().collect();
            assert_eq!(seqs, (1..=4).collect());
            let entry = sessions.entry(&key).await.unwrap().unwrap();
            assert_eq!(entry.transcript.message_count, 4);
            let size = fs::metadata(sessions.path(&key, &entry).unwrap()).unwrap().len();
            assert_eq!(entry.transcript.bytes, size);
        }
    };
    join_all((0..SESSIONS).map(grow)).await;
    let page =
        sessions.list(SessionQuery { limit: Some(20), ..SessionQuery::default() }).await.unwrap();
    assert_eq!((page.entries.len(), page.total), (20, u64::from(SESSIONS)));
}

#[tokio::test]
async fn two_first_messages_begin_one_session() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    let main = key("main");
    let begun = join_all((0..20).map(|_| sessions.ensure(&main, Path::new("/w")))).await;
    let ids: BTreeSet<_> = begun.into_iter().map(|entry| entry.unwrap().session_id).collect();
    assert_eq!(ids.len(), 1);
    let files = fs::read_dir(dir.path().join("agents/main/sessions")).unwrap().count();
    assert_eq!(files, 1);
}

#[tokio::test]
async fn a_retried_append_is_the_first_one() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    let main = key("main");
    sessions.ensure(&main, Path::new("/w")).await.unwrap();
    let options = || AppendOptions {
        idempotency_key: Some("r:assistant".into()),
        ..AppendOptions::default()
    };
    let first = sessions.append(&main, assistant("once"), options()).await.unwrap();
    say(&sessions, &main, "between").await;
    let again = sessions.append(&main, assistant("twice"), options()).await.unwrap();
    assert_eq!((&again.id, again.seq, &again.message), (&first.id, 1, &first.message));
    assert!(again.is_repeated && !first.is_repeated);
    assert_eq!(heard(&sessions, &main).await, ["1 once", "2 between"]);
}

#[tokio::test]
async fn a_retried_append_tells_the_index_what_a_kill_kept_from_it() {
    let dir = tempfile::tempdir().unwrap();
    for format in [TranscriptFormat::OpenClaw, TranscriptFormat::Messages] {
        let sessions = open_as(dir.path(), format).await;
        let key = key(&format!("{format:?}"));
        let before = sessions.ensure(&key, Path::new("/w")).await.unwrap();
        let options =
            || AppendOptions { idempotency_key: Some("r".into()), ..AppendOptions::default() };
        let first = sessions.append(&key, user("how are you"), options()).await.unwrap();
        assert!(first.session.transcript.derived_title.is_some());
        // The line is there, and the row as it was.
        sessions.update(&key, move |entry| *entry = before).await.unwrap();
        let again = sessions.append(&key, user("how are you"), options()).await.unwrap();
        assert!(again.is_repeated);
        assert_eq!(again.session, first.session);
        assert_eq!(sessions.entry(&key).await.unwrap(), Some(first.session));
        assert_eq!(heard(&sessions, &key).await, ["1 how are you"]);
    }
}

#[tokio::test]
async fn the_model_reads_a_summary_and_clients_see_its_mark() {
    let dir = tempfile::tempdir().unwrap();
    for format in [TranscriptFormat::OpenClaw, TranscriptFormat::Messages] {
        let sessions = open_as(dir.path(), format).await;
        let key = key(&format!("{format:?}"));
        sessions.ensure(&key, Path::new("/w")).await.unwrap();
        for text in ["one", "two"] {
            say(&sessions, &key, text).await;
        }
        let last = sessions.context_entries(&key).await.unwrap().pop().unwrap();
        let compaction = Compaction {
            reason: CompactionReason::Manual,
            summary: "so far".into(),
            first_kept_entry_id: Some(last.id),
            tokens_before: 9,
            tokens_after: 4,
            files: CompactedFiles::default(),
        };
        let id = compact(&sessions, &key, compaction).await.entry_id;
        say(&sessions, &key, "three").await;
        let texts: Vec<_> =
            sessions.context(&key).await.unwrap().iter().map(AgentMessage::text).collect();
        assert!(texts[0].contains("<summary>\nso far\n</summary>"));
        assert_eq!(texts[1..], ["two", "three"]);
        let mark = shown(&sessions, &key, 2).await.remove(0);
        let expected = json!({"role": "system", "content": [{"type": "text", "text": "Compaction"}],
            "timestamp": NOW, "__openclaw": {"kind": "compaction", "id": id, "seq": 3}});
        assert_eq!(mark, expected, "{format:?}");
    }
}

#[tokio::test]
async fn a_cut_leaves_the_model_what_a_summary_has_kept_of_what_stays() {
    let dir = tempfile::tempdir().unwrap();
    for format in [TranscriptFormat::OpenClaw, TranscriptFormat::Messages] {
        let sessions = open_as(dir.path(), format).await;
        for (lines, expected) in [
            (5, &["three", "four", "five"][..]),
            (4, &["three", "four", "five"]),
            (3, &["four", "five"]),
            (2, &["five"]),
        ] {
            let key = key(&format!("{format:?}-{lines}"));
            sessions.ensure(&key, Path::new("/w")).await.unwrap();
            for text in ["one", "two", "three", "four"] {
                say(&sessions, &key, text).await;
            }
            let kept = sessions.context_entries(&key).await.unwrap().remove(2).id;
            let compaction = Compaction { first_kept_entry_id: Some(kept), ..summary() };
            compact(&sessions, &key, compaction).await;
            say(&sessions, &key, "five").await;
            sessions.cut(&key, lines).await.unwrap();
            let texts: Vec<_> =
                sessions.context(&key).await.unwrap().iter().map(AgentMessage::text).collect();
            assert!(texts[0].contains("<summary>\nso far\n</summary>"), "{texts:?}");
            assert_eq!(texts[1..], *expected, "{format:?} {lines}");
        }
    }
}

#[tokio::test]
async fn a_conversation_that_is_begun_anew_gets_no_summary_of_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let (main, sessions) = (key("main"), open(dir.path()).await);
    let before = sessions.ensure(&main, dir.path()).await.unwrap();
    say(&sessions, &main, "a secret").await;
    sessions.reset(&main, dir.path()).await.unwrap();
    let refused = sessions.compact(&main, &before.session_id, summary()).await.unwrap_err();
    assert!(matches!(refused, SessionError::Replaced(_)), "{refused}");
    assert!(sessions.context(&main).await.unwrap().is_empty());
    let entry = sessions.entry(&main).await.unwrap().unwrap();
    assert_eq!((entry.compaction_count, entry.compaction_checkpoints.len()), (None, 0));
}

/// Lines of a newer or foreign writer: entries, roles, members, and no JSON.
const FOREIGN: [&str; 6] = [
    r#"{"type":"newfangled","id":"f0000001","parentId":null,"timestamp":"2026-11-22T03:35:29.000Z","n":0.30000000000000004}"#,
    r#"{"type":"message","id":"f0000002","parentId":"f0000001","timestamp":"2026-11-22T03:35:29.000Z","message":{"role":"newfangled","content":[{"type":"newfangled"}],"timestamp":1},"more":[1]}"#,
    r#"{"type":"message","id":"f0000003","parentId":"f0000002","timestamp":"2026-11-22T03:35:29.000Z","message":{"role":"newfangled","words":"of another shape"}}"#,
    r#"{"no":"type"}"#,
    "no JSON at all {",
    r#"{"type":"label","id":"f0000004","parentId":"f0000003","timestamp":"2026-11-22T03:35:29.000Z","targetId":"f0000002","label":"x"}"#,
];

#[tokio::test]
async fn lines_that_nobody_understands_stay_to_the_byte_in_all_that_is_made_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    let main = key("main");
    sessions.ensure(&main, Path::new("/w")).await.unwrap();
    say(&sessions, &main, "one").await;
    let path = transcript(&sessions, &main).await;
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    writeln!(file, "{}", FOREIGN.join("\n")).unwrap();
    drop(file);
    let kept = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.contains(&FOREIGN[1..].join("\n")), "{text}");
    };
    say(&sessions, &main, "two").await;
    kept(&path);
    // The model reads what there is to read, in spite of its neighbours.
    let read = sessions.context(&main).await.unwrap();
    assert_eq!(read.last().map(AgentMessage::text).as_deref(), Some("two"));
    let checkpoint = compact(&sessions, &main, summary()).await.checkpoint.checkpoint_id;
    kept(&path);
    let branch = sessions.branch(&main, &checkpoint).await.unwrap();
    kept(&transcript(&sessions, &branch.key).await);
    sessions.cut(&main, 8).await.unwrap();
    kept(&transcript(&sessions, &main).await);
    drop(sessions);
    let sessions = open(dir.path()).await;
    say(&sessions, &main, "three").await;
    kept(&transcript(&sessions, &main).await);
}

#[tokio::test]
async fn a_kill_in_the_middle_of_a_cut_leaves_the_checkpoints_their_way_back() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    let main = key("main");
    sessions.ensure(&main, Path::new("/w")).await.unwrap();
    for text in ["one", "two"] {
        say(&sessions, &main, text).await;
    }
    let checkpoint = compact(&sessions, &main, summary()).await.checkpoint.checkpoint_id;
    let path = transcript(&sessions, &main).await;
    let whole = fs::read_to_string(&path).unwrap();
    // As a cut leaves it before it is noted in the index.
    let name = format!("{}.bak.2026-11-22T03-46-28.004Z", path.display());
    fs::rename(&path, name).unwrap();
    let header = whole.lines().next().unwrap().to_owned() + "\n";
    let summed_up = whole.lines().last().unwrap().to_owned() + "\n";
    // What is left of it may have the summary, and not what came before that.
    for left in [header.clone(), header + &summed_up] {
        fs::write(&path, left).unwrap();
        let branch = sessions.branch(&main, &checkpoint).await.unwrap();
        assert_eq!(heard(&sessions, &branch.key).await, ["1 one", "2 two"]);
    }
}

/// Random ids; whoever wants the next one is held until a test lets it go on, which needs a
/// runtime of several threads.
#[derive(Default)]
struct HeldIds(Mutex<Option<Held>>);

struct Held {
    came: oneshot::Sender<()>,
    go: mpsc::Receiver<()>,
}

impl Ids for HeldIds {
    fn uuid(&self) -> String {
        let held = self.0.lock().take();
        if let Some(Held { came, go }) = held {
            let _ = came.send(());
            // A test that has failed lets it go as well.
            tokio::task::block_in_place(|| go.recv().unwrap_or_default());
        }
        RandomIds.uuid()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changes_of_a_session_that_goes_back_behind_a_compaction_stays_changed() {
    let dir = tempfile::tempdir().unwrap();
    let ids = Arc::new(HeldIds::default());
    let held: Arc<dyn Ids> = ids.clone();
    let sessions = open_with(dir.path(), TranscriptFormat::OpenClaw, held).await;
    let main = key("main");
    sessions.ensure(&main, Path::new("/w")).await.unwrap();
    say(&sessions, &main, "one").await;
    let checkpoint = compact(&sessions, &main, summary()).await.checkpoint.checkpoint_id;
    let before = sessions.entry(&main).await.unwrap().unwrap();
    let (came, has_come) = oneshot::channel();
    let (let_go_on, go) = mpsc::channel();
    *ids.0.lock() = Some(Held { came, go });
    let (service, back) = (sessions.clone(), main.clone());
    let restoring = async move { service.restore(&back, &checkpoint).await };
    let restoring = Tasks::default().spawn("restore", restoring);
    // It has looked at the session, and has yet to name what it makes for it.
    tokio::time::timeout(Duration::from_mins(1), has_come).await.unwrap().unwrap();
    let change = |entry: &mut SessionEntry| entry.display_name = Some("meanwhile".into());
    sessions.update(&main, change).await.unwrap();
    let_go_on.send(()).unwrap();
    let restored = tokio::time::timeout(Duration::from_mins(1), restoring).await.unwrap();
    let entry = restored.unwrap().unwrap().unwrap().entry;
    assert_eq!(entry.display_name.as_deref(), Some("meanwhile"));
    assert_eq!((entry.compaction_checkpoints.len(), entry.transcript.message_count), (1, 1));
    assert_eq!(let_go(dir.path()).await, [before.session_id]);
    assert_eq!(heard(&sessions, &main).await, ["1 one"]);
}

#[tokio::test]
async fn a_compaction_that_the_index_did_not_take_has_its_way_back_once_it_does() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    let [listed, named, gone_on] = ["listed", "named", "gone-on"].map(key);
    let mut checkpoints = Vec::new();
    let index = rusqlite::Connection::open(dir.path().join("clawgate.sqlite")).unwrap();
    for session in [&listed, &named, &gone_on] {
        sessions.ensure(session, Path::new("/w")).await.unwrap();
        say(&sessions, session, "one").await;
    }
    index
        .execute_batch(
            "CREATE TRIGGER refuse BEFORE UPDATE ON sessions
             BEGIN SELECT RAISE(ABORT, 'refused'); END",
        )
        .unwrap();
    for session in [&listed, &named, &gone_on] {
        let made = compact(&sessions, session, summary()).await.checkpoint;
        assert_eq!(sessions.checkpoints(session).await.unwrap(), []);
        checkpoints.push(made);
    }
    index.execute_batch("DROP TRIGGER refuse").unwrap();
    for _ in 0..2 {
        assert_eq!(sessions.checkpoints(&listed).await.unwrap(), checkpoints[..1]);
    }
    assert_eq!(sessions.entry(&listed).await.unwrap().unwrap().compaction_count, Some(1));
    sessions.restore(&named, &checkpoints[1].checkpoint_id).await.unwrap();
    assert_eq!(heard(&sessions, &named).await, ["1 one"]);
    // Whoever comes next notes it, so that it outlasts the process.
    say(&sessions, &gone_on, "two").await;
    let noted = sessions.entry(&gone_on).await.unwrap().unwrap().compaction_checkpoints;
    assert_eq!(noted, checkpoints[2..]);
}

#[tokio::test]
async fn what_only_has_the_name_of_a_copy_holds_nobody_who_goes_back_behind_a_compaction() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    let main = key("main");
    sessions.ensure(&main, Path::new("/w")).await.unwrap();
    say(&sessions, &main, "one").await;
    let checkpoint = compact(&sessions, &main, summary()).await.checkpoint.checkpoint_id;
    let path = transcript(&sessions, &main).await;
    // Of old copies the newest is looked at first.
    let copy = |second: u32| {
        PathBuf::from(format!("{}.bak.2020-11-22T03-46-{second}.004Z", path.display()))
    };
    fs::rename(&path, copy(28)).unwrap();
    let make_pipe = |path: &Path| {
        rustix::fs::mkfifoat(rustix::fs::CWD, path, Mode::RWXU).unwrap();
    };
    make_pipe(&copy(29));
    fs::create_dir(copy(30)).unwrap();
    symlink(copy(28), copy(31)).unwrap();
    let branching = sessions.branch(&main, &checkpoint);
    let branch = tokio::time::timeout(Duration::from_secs(30), branching).await;
    // Who is held by the pipe has its end now, so that this test ends too.
    let flags = OFlags::WRONLY | OFlags::NONBLOCK;
    let _ = rustix::fs::open(copy(29), flags, Mode::empty());
    let branch = branch.expect("nobody waits at a pipe").unwrap();
    assert_eq!(heard(&sessions, &branch.key).await, ["1 one"]);

    // In the place of the only file it is refused.
    fs::remove_file(copy(28)).unwrap();
    make_pipe(&path);
    let refused = sessions.restore(&main, &checkpoint);
    let refused = tokio::time::timeout(Duration::from_secs(30), refused).await;
    let _ = rustix::fs::open(&path, flags, Mode::empty());
    let error = refused.expect("nobody waits at a pipe").unwrap_err().to_string();
    assert!(error.ends_with("it is no file"), "{error}");
}

#[tokio::test]
async fn history_is_limited_in_number_and_size() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    let main = key("main");
    assert_eq!(sessions.history(&main, HistoryOptions::default()).await.unwrap().session_id, None);
    sessions.ensure(&main, Path::new("/w")).await.unwrap();
    // Fifteen blocks of 8 000 characters stay just below the limit of a message.
    let blocks = vec![json!({"type": "text", "text": "x".repeat(8_000)}); 15];
    let large: AgentMessage =
        serde_json::from_value(json!({"role": "user", "content": blocks, "timestamp": 1})).unwrap();
    let append = |_| sessions.append(&main, large.clone(), AppendOptions::default());
    try_join_all((0..60).map(append)).await.unwrap();
    sessions.append(&main, assistant("NO_REPLY"), AppendOptions::default()).await.unwrap();
    let seqs = |messages: Vec<Value>| -> Vec<u64> {
        messages.iter().map(|message| message["__openclaw"]["seq"].as_u64().unwrap()).collect()
    };
    assert_eq!(seqs(shown(&sessions, &main, 3).await), [58, 59, 60]);
    let all = shown(&sessions, &main, 1000).await;
    assert!(serde_json::to_string(&all).unwrap().len() <= 6 * 1024 * 1024);
    assert_eq!(seqs(all), (9..=60).collect::<Vec<u64>>());
}

#[tokio::test]
async fn what_another_program_appends_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    let main = key("main");
    sessions.ensure(&main, Path::new("/w")).await.unwrap();
    say(&sessions, &main, "ours").await;
    let path = transcript(&sessions, &main).await;
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    let line = json!({"type": "message", "id": "f0e1d2c3", "parentId": null,
        "message": {"role": "user", "content": [{"type": "text", "text": "theirs"}]}});
    writeln!(file, "{line}").unwrap();
    assert_eq!(heard(&sessions, &main).await, ["1 ours", "2 theirs"]);
    assert_eq!(say(&sessions, &main, "ours again").await, 3);
    assert!(fs::read_to_string(&path).unwrap().contains(r#""parentId":"f0e1d2c3""#));
}

/// Counting it takes a second in a debug build; a message takes milliseconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_transcript_that_was_never_counted_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    let (long, short) = (key("long"), key("short"));
    for key in [&long, &short] {
        sessions.ensure(key, Path::new("/w")).await.unwrap();
    }
    let line = json!({"role": "user", "content": "x".repeat(900), "timestamp": 1}).to_string();
    let lines = 40_000;
    fs::write(transcript(&sessions, &long).await, format!("{line}\n").repeat(lines)).unwrap();
    for round in 0..2 {
        let mut slow = std::pin::pin!(say(&sessions, &long, "late"));
        if round == 0 {
            tokio::select! {
                biased;
                _ = &mut slow => panic!("counted in no time"),
                seq = say(&sessions, &short, "soon") => assert_eq!(seq, 1),
            }
        }
        // The second time it is known.
        assert_eq!(slow.await, u64::try_from(lines).unwrap() + round + 1);
    }
}

#[tokio::test]
async fn reset_and_delete_put_transcripts_away() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    let work = key("work");
    let first = sessions.ensure(&work, Path::new("/w")).await.unwrap();
    say(&sessions, &work, "old").await;
    sessions.update(&work, |entry| entry.label = Some("Label".into())).await.unwrap();
    let second = sessions.reset(&work, Path::new("/w")).await.unwrap();
    assert_ne!(first.session_id, second.session_id);
    assert_eq!(second.label.as_deref(), Some("Label"));
    assert_eq!(say(&sessions, &work, "new").await, 1);
    let folder = dir.path().join("agents/main/sessions");
    let old = format!("{}.jsonl.reset.2026-11-22T03-35-28.398Z", first.session_id);
    assert!(fs::read_to_string(folder.join(old)).unwrap().contains("old"));

    let deleted = sessions.delete(&work, Remains::PutAway).await.unwrap().unwrap();
    assert!(fs::read_to_string(&deleted.archived[0]).unwrap().contains("new"));
    assert_eq!(sessions.delete(&work, Remains::PutAway).await.unwrap(), None);
    let error = sessions.append(&work, user("late"), AppendOptions::default()).await.unwrap_err();
    assert!(matches!(error, SessionError::NotFound(_)));
}

#[tokio::test]
async fn what_the_index_has_taken_is_answered_as_done_though_no_file_can_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    let [old, gone, begun, edited] = ["old", "gone", "begun", "edited"].map(key);
    for key in [&old, &gone] {
        sessions.ensure(key, Path::new("/w")).await.unwrap();
        say(&sessions, key, "before").await;
    }
    let (kept, left) = (transcript(&sessions, &old).await, transcript(&sessions, &gone).await);
    let before = sessions.entry(&old).await.unwrap().unwrap();
    // Nothing can be made or renamed in a folder that is none.
    let (folder, aside) = (dir.path().join("agents/main/sessions"), dir.path().join("aside"));
    fs::rename(&folder, &aside).unwrap();
    fs::write(&folder, "").unwrap();
    let reset = sessions.reset(&old, Path::new("/w")).await.unwrap();
    assert_ne!(reset.session_id, before.session_id);
    let deleted = sessions.delete(&gone, Remains::PutAway).await.unwrap().unwrap();
    assert_eq!(deleted.archived, Vec::<PathBuf>::new());
    assert_eq!(sessions.entry(&gone).await.unwrap(), None);
    let entry = sessions.ensure(&begun, Path::new("/w")).await.unwrap();
    assert_eq!(sessions.entry(&begun).await.unwrap(), Some(entry));
    let label = |entry: &mut SessionEntry| {
        entry.label = Some("Label".into());
        Ok(())
    };
    sessions.edit(&edited, None, Path::new("/w"), label).await.unwrap();
    assert!(sessions.append(&begun, user("early"), AppendOptions::default()).await.is_err());

    fs::remove_file(&folder).unwrap();
    fs::rename(&aside, &folder).unwrap();
    assert!(kept.exists() && left.exists(), "nothing is lost of what was not put away");
    let mut ids = [before.session_id, deleted.entry.session_id];
    ids.sort_unstable();
    assert_eq!(let_go(dir.path()).await, ids);
    for key in [&old, &begun, &edited] {
        assert_eq!(say(&sessions, key, "after").await, 1);
        assert_eq!(heard(&sessions, key).await, ["1 after"]);
    }
    // The next start puts them away.
    drop(sessions);
    drop(open(dir.path()).await);
    assert!(!kept.exists() && !left.exists());
    let names = fs::read_dir(&folder).unwrap().map(|it| it.unwrap().file_name());
    let names: Vec<_> = names.map(|it| it.into_string().unwrap()).collect();
    for (path, reason) in [(&kept, "reset"), (&left, "deleted")] {
        let name = format!("{}.{reason}.", path.file_name().unwrap().to_str().unwrap());
        assert!(names.iter().any(|it| it.starts_with(&name)), "{name}: {names:?}");
    }
    assert_eq!(let_go(dir.path()).await, [""; 0]);
}

#[tokio::test]
async fn what_was_to_be_put_away_stays_where_a_session_has_it_still() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    let work = key("work");
    sessions.ensure(&work, Path::new("/w")).await.unwrap();
    say(&sessions, &work, "hello").await;
    let (path, entry) = (transcript(&sessions, &work).await, sessions.entry(&work).await.unwrap());
    drop(sessions);
    // A kill has come between the note and the index.
    let note = SourceNote {
        path: path.display().to_string(),
        print: format!("deleted {work}"),
        ids: vec![format!("{} {NOW}", entry.unwrap().session_id)],
    };
    store(dir.path()).note_sources(vec![note]).await.unwrap();
    let sessions = open(dir.path()).await;
    assert_eq!(heard(&sessions, &work).await, ["1 hello"]);
    assert!(path.exists());
    assert_eq!(store(dir.path()).sources().await.unwrap(), []);
}

#[tokio::test]
async fn only_a_transcript_that_is_kept_by_itself_is_noted() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    let mut kept = Vec::new();
    for (name, remains) in
        [("a", Remains::PutAway), ("b", Remains::Kept), ("c", Remains::WithAgent)]
    {
        let key = key(name);
        sessions.ensure(&key, Path::new("/w")).await.unwrap();
        let path = transcript(&sessions, &key).await;
        let deleted = sessions.delete(&key, remains).await.unwrap().unwrap();
        assert_eq!(path.exists(), remains != Remains::PutAway, "{name}");
        kept.extend((remains == Remains::Kept).then_some(deleted.entry.session_id));
    }
    assert_eq!(let_go(dir.path()).await, kept);
}

#[tokio::test]
async fn sessions_whose_transcripts_cannot_be_looked_at_are_not_taken_for_missing() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    let work = key("work");
    sessions.ensure(&work, Path::new("/w")).await.unwrap();
    say(&sessions, &work, "much").await;
    let folder = sessions.folder(&AgentId::normalize("main"));
    let aside = dir.path().join("aside");
    fs::rename(&folder, &aside).unwrap();
    // Nobody gets to the end of it.
    symlink(&folder, &folder).unwrap();
    let rules = MaintenanceSettings {
        mode: MaintenanceMode::Enforce,
        prune_after_ms: None,
        max_entries: None,
        archive_retention_ms: None,
        disk_budget: None,
    };
    let wish = Cleanup {
        agent: AgentId::normalize("main"),
        rules: &rules,
        applies: true,
        fixes_missing: true,
        is_active: &|_: &SessionKey| false,
        on_gone: &|_: &SessionKey| {},
    };
    assert_eq!(sessions.clean_up(&wish).await.unwrap().missing, 0);
    fs::remove_file(&folder).unwrap();
    fs::rename(&aside, &folder).unwrap();
    assert_eq!(heard(&sessions, &work).await, ["1 much"]);
    fs::remove_file(transcript(&sessions, &work).await).unwrap();
    assert_eq!(sessions.clean_up(&wish).await.unwrap().missing, 1);
}

#[tokio::test]
async fn what_the_disk_budget_takes_out_does_not_come_back_though_its_file_stays() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    let work = key("work");
    let entry = sessions.ensure(&work, Path::new("/w")).await.unwrap();
    say(&sessions, &work, "much").await;
    let path = transcript(&sessions, &work).await;
    let notes = Mutex::new(Vec::new());
    let rules = MaintenanceSettings {
        mode: MaintenanceMode::Enforce,
        prune_after_ms: None,
        max_entries: None,
        archive_retention_ms: None,
        disk_budget: Some(DiskBudget { max_bytes: 1, high_water_bytes: 0 }),
    };
    let wish = Cleanup {
        agent: AgentId::normalize("main"),
        rules: &rules,
        applies: true,
        fixes_missing: false,
        is_active: &|_: &SessionKey| false,
        // What cannot be removed as a file.
        on_gone: &|_: &SessionKey| {
            *notes.lock() = sources_beside(&dir.path().join("clawgate.sqlite")).unwrap();
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
        },
    };
    let error = sessions.clean_up(&wish).await.unwrap_err().to_string();
    assert!(error.contains(path.to_str().unwrap()), "{error}");
    assert_eq!(sessions.entry(&work).await.unwrap(), None);
    // A kill before the file is removed has nothing come back either.
    let is_noted = |id: &str| notes.lock().iter().any(|note| note.path.ends_with(id));
    assert!(is_noted(&entry.session_id), "it was taken out first");
    assert_eq!(let_go(dir.path()).await, [entry.session_id]);
    // Of one whose file is removed no note stays.
    let before = notes.lock().clone();
    let next = key("next");
    sessions.ensure(&next, Path::new("/w")).await.unwrap();
    say(&sessions, &next, "much").await;
    let wish = Cleanup { on_gone: &|_: &SessionKey| {}, ..wish };
    let report = sessions.clean_up(&wish).await.unwrap();
    assert_eq!(report.removed, [next]);
    assert_eq!(sources_beside(&dir.path().join("clawgate.sqlite")).unwrap(), before);
}

#[tokio::test]
async fn a_transcript_that_two_sessions_have_stays_until_both_let_go() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("agents/main/sessions");
    fs::create_dir_all(&folder).unwrap();
    let names = ["cron:job", "cron:job:run:s-1", "other"];
    let entry = json!({"sessionId": "s-1", "updatedAt": 1});
    let index: Value =
        names.iter().map(|name| (format!("agent:main:{name}"), entry.clone())).collect();
    fs::write(folder.join("sessions.json"), index.to_string()).unwrap();
    let content = json!([{"type": "text", "text": "kept"}]);
    let line = json!({"role": "user", "content": content, "timestamp": 1});
    fs::write(folder.join("s-1.jsonl"), format!("{line}\n")).unwrap();
    let sessions = open(dir.path()).await;
    let [job, run, other] = names.map(key);
    sessions.reset(&job, Path::new("/w")).await.unwrap();
    assert_eq!(shown(&sessions, &job, 9).await.len(), 0);
    assert_eq!(heard(&sessions, &run).await, ["1 kept"]);
    let deleted = sessions.delete(&other, Remains::PutAway).await.unwrap().unwrap();
    assert_eq!(deleted.archived, Vec::<PathBuf>::new());
    assert_eq!(heard(&sessions, &run).await, ["1 kept"]);
    let deleted = sessions.delete(&run, Remains::PutAway).await.unwrap().unwrap();
    assert_eq!(deleted.archived.len(), 1);
    assert!(!folder.join("s-1.jsonl").exists());
}

#[tokio::test]
async fn what_a_session_showed_before_is_put_away_once_no_other_one_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    let folder = dir.path().join("agents/main/sessions");
    let [job, first] = ["cron:job", "cron:job:run:one"].map(key);
    let runs = async |name: &str| {
        let run = key(&format!("cron:job:run:{name}"));
        let begun = sessions.begin_as(&run, name, Path::new("/w"), |_| {}).await.unwrap();
        say(&sessions, &run, name).await;
        sessions.follow(&job, &begun, "Cron: job").await.unwrap();
    };
    runs("one").await;
    let deleted = sessions.delete(&first, Remains::PutAway).await.unwrap().unwrap();
    assert_eq!(deleted.archived, Vec::<PathBuf>::new(), "the job shows it");
    runs("two").await;
    assert!(!folder.join("one.jsonl").exists());
    let put_away = folder.join("one.jsonl.deleted.2026-11-22T03-35-28.398Z");
    assert!(fs::read_to_string(put_away).unwrap().contains("one"));
    runs("three").await;
    assert_eq!(heard(&sessions, &key("cron:job:run:two")).await, ["1 two"], "it is still listed");
}

#[tokio::test]
async fn sessions_are_found_by_every_filter() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    for name in ["main", "agent:other:main", "global", "unknown", "kid"] {
        sessions.ensure(&key(name), Path::new("/w")).await.unwrap();
    }
    say(&sessions, &key("main"), "Über den Wolken").await;
    let change = |entry: &mut clawgate::sessions::SessionEntry| {
        entry.spawned_by = Some("agent:main:main".into());
        entry.label = Some("Kind".into());
        entry.updated_at = NOW + 5;
    };
    sessions.update(&key("kid"), change).await.unwrap();
    let find = async |query: SessionQuery| -> Vec<String> {
        sessions.list(query).await.unwrap().entries.into_iter().map(|row| row.key).collect()
    };
    let all = SessionQuery::default;
    let kid = ["agent:main:kid"];
    assert_eq!(find(all()).await, ["agent:main:kid", "agent:main:main", "agent:other:main"]);
    let everything = SessionQuery { include_global: true, include_unknown: true, ..all() };
    assert_eq!(find(everything).await.len(), 5);
    assert_eq!(find(SessionQuery { limit: Some(1), ..all() }).await, kid);
    assert_eq!(find(SessionQuery { label: Some("Kind".into()), ..all() }).await, kid);
    assert_eq!(find(SessionQuery { active_since_ms: Some(NOW + 1), ..all() }).await, kid);
    let spawned = SessionQuery { spawned_by: Some("agent:main:main".into()), ..all() };
    assert_eq!(find(spawned).await, kid);
    let other = SessionQuery { agent: Some("other".into()), ..all() };
    assert_eq!(find(other).await, ["agent:other:main"]);
    let search = |text: &str| SessionQuery { search: Some(text.into()), ..SessionQuery::default() };
    assert_eq!(find(search("über DEN")).await, ["agent:main:main"]);
    assert_eq!(find(search("%")).await, Vec::<String>::new());
    let entry = sessions.entry(&key("kid")).await.unwrap().unwrap();
    assert_eq!(sessions.by_id(&entry.session_id).await.unwrap().unwrap().key, "agent:main:kid");
}

fn run(key: &str, run_id: &str) -> NewRun {
    NewRun {
        scope: "chat".into(),
        key: key.into(),
        run_id: run_id.into(),
        session_key: "agent:main:main".into(),
        text_hash: None,
        message: None,
        now_ms: NOW,
    }
}

#[tokio::test]
async fn of_a_hundred_claims_one_is_new() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let claims = (0..100).map(|n| store.claim_run(run("same", &format!("run-{n}"))));
    let claims = try_join_all(claims).await.unwrap();
    assert_eq!(claims.iter().filter(|claim| **claim == Claim::New).count(), 1);
    let owners: BTreeSet<_> = claims
        .iter()
        .filter_map(|claim| match claim {
            Claim::Existing(run) => Some(run.run_id.clone()),
            Claim::New => None,
        })
        .collect();
    assert_eq!(owners.len(), 1);
}

#[tokio::test]
async fn keys_of_aborted_runs_are_free_and_others_stay_taken() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    for (name, outcome) in [
        ("a", RunOutcome::Done),
        ("b", RunOutcome::Failed("500 scripted failure".into())),
        ("c", RunOutcome::Aborted("shutdown")),
    ] {
        store.claim_run(run(name, name)).await.unwrap();
        assert!(store.finish_run("chat", name, outcome.clone(), true, NOW + 1).await.unwrap());
        assert!(!store.finish_run("chat", name, RunOutcome::Done, true, NOW + 2).await.unwrap());
        if let RunOutcome::Aborted(reason) = outcome {
            let aborted = store.run(name).await.unwrap().unwrap();
            assert_eq!(
                (aborted.state, aborted.error.as_deref()),
                (RunState::Aborted, Some(reason))
            );
        }
        let claim = store.claim_run(run(name, name)).await.unwrap();
        assert_eq!(claim == Claim::New, matches!(outcome, RunOutcome::Aborted(_)), "{name}");
    }
    let failed = store.run("b").await.unwrap().unwrap();
    assert_eq!(failed.state, RunState::Failed);
    assert_eq!(failed.error.as_deref(), Some("500 scripted failure"));
}

#[tokio::test]
async fn a_message_whose_run_failed_may_be_tried_again_after_six_minutes_and_nothing_else() {
    const SIX_MINUTES: u64 = 6 * 60 * 1000;
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let again = |key: &str, later: u64| NewRun { now_ms: NOW + later, ..run(key, key) };
    let of_agent = |later: u64| NewRun { scope: "agent".into(), ..again("asked", later) };
    let failed = || RunOutcome::Failed("500 scripted failure".into());
    for (run, outcome) in [
        (again("failed", 0), failed()),
        (again("done", 0), RunOutcome::Done),
        (of_agent(0), failed()),
    ] {
        store.claim_run(run.clone()).await.unwrap();
        assert!(store.finish_run(&run.scope, &run.run_id, outcome, true, NOW).await.unwrap());
    }
    // What a chat was told of each, which keeps the place of what it is told.
    let [channel, account, target, thread] = ["webhook", "default", "7", ""].map(String::from);
    let address = OutboxAddress { channel, account, target, thread };
    let told = ["failed", "done"].map(|delivery| NewPart {
        delivery: delivery.into(),
        address: address.clone(),
        part: 0,
        body: "{}".into(),
    });
    store.add_outbox(told.into(), NOW).await.unwrap();
    let is_new = async |run: NewRun| store.claim_run(run).await.unwrap() == Claim::New;
    assert!(!is_new(again("failed", SIX_MINUTES - 1)).await);
    assert!(is_new(again("failed", SIX_MINUTES)).await);
    assert!(!is_new(again("failed", SIX_MINUTES)).await, "it runs");
    assert!(!is_new(again("done", SIX_MINUTES)).await);
    assert!(!is_new(of_agent(SIX_MINUTES)).await);
    assert!(store.outbox_of("failed".into()).await.unwrap().is_empty());
    assert_eq!(store.outbox_of("done".into()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_text_that_runs_is_not_run_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let hashed = |key: &str| NewRun { text_hash: Some("h".into()), ..run(key, key) };
    assert_eq!(store.claim_run(hashed("a")).await.unwrap(), Claim::New);
    let Claim::Existing(active) = store.claim_run(hashed("b")).await.unwrap() else {
        panic!("ran twice");
    };
    assert_eq!(active.run_id, "a");
    let elsewhere = NewRun { session_key: "agent:main:other".into(), ..hashed("c") };
    assert_eq!(store.claim_run(elsewhere).await.unwrap(), Claim::New);
    store.finish_run("chat", "a", RunOutcome::Done, true, NOW).await.unwrap();
    assert_eq!(store.claim_run(hashed("d")).await.unwrap(), Claim::New);
}

#[tokio::test]
async fn a_restart_interrupts_what_was_running() {
    let dir = tempfile::tempdir().unwrap();
    let first = store(dir.path());
    first.claim_run(run("done", "done")).await.unwrap();
    first.finish_run("chat", "done", RunOutcome::Done, true, NOW).await.unwrap();
    first.claim_run(run("live", "live")).await.unwrap();
    drop(first);
    let second = store(dir.path());
    assert_eq!(second.interrupt_unfinished(NOW + 9).await.unwrap(), 1);
    assert_eq!(second.interrupt_unfinished(NOW + 10).await.unwrap(), 0);
    let Claim::Existing(known) = second.claim_run(run("live", "new")).await.unwrap() else {
        panic!("forgotten");
    };
    assert_eq!((known.run_id.as_str(), known.ended_at), ("live", Some(NOW + 9)));
}

#[tokio::test]
async fn a_message_stays_in_its_record_until_it_is_in_a_transcript() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let with_message = |name: &str| NewRun { message: Some("words".into()), ..run(name, name) };
    for name in ["stored", "failed", "interrupted", "active"] {
        store.claim_run(with_message(name)).await.unwrap();
    }
    store.finish_run("chat", "stored", RunOutcome::Done, true, NOW).await.unwrap();
    store
        .finish_run("chat", "failed", RunOutcome::Failed("disk full".into()), false, NOW)
        .await
        .unwrap();
    store.message_stored("chat", "active").await.unwrap();
    let waiting = async || {
        let runs = store.unsettled_runs().await.unwrap();
        runs.into_iter().map(|run| run.run_id).collect::<Vec<_>>()
    };
    assert_eq!(waiting().await, ["failed", "interrupted", "active"]);
    store.interrupt_unfinished(NOW).await.unwrap();
    assert_eq!(waiting().await, ["failed", "interrupted"]);
    store.prune_runs(NOW + 9 * DAY).await.unwrap();
    store.message_stored("chat", "failed").await.unwrap();
    assert_eq!(waiting().await, ["interrupted"]);
    assert!(store.run("stored").await.unwrap().is_none(), "pruned");
}

#[tokio::test]
async fn old_runs_are_forgotten_and_active_ones_never() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    for name in ["old", "fresh", "live"] {
        store.claim_run(run(name, name)).await.unwrap();
    }
    store.finish_run("chat", "old", RunOutcome::Done, true, NOW).await.unwrap();
    store.finish_run("chat", "fresh", RunOutcome::Done, true, NOW + DAY).await.unwrap();
    assert_eq!(store.prune_runs(NOW + DAY + 1).await.unwrap(), 1);
    assert_eq!(store.prune_runs(NOW + 9 * DAY).await.unwrap(), 1);
    assert!(store.run("live").await.unwrap().is_some());
}

/// Not a test of its own: the process that `what_was_acknowledged…` kills.
#[tokio::test]
async fn child_that_appends_until_it_is_killed() {
    let Some(dir) = std::env::var_os("CLAWGATE_TEST_APPEND_IN") else { return };
    let sessions = open(Path::new(&dir)).await;
    let appender = |name: &'static str| {
        let sessions = sessions.clone();
        async move {
            let key = key(name);
            sessions.ensure(&key, Path::new("/w")).await.unwrap();
            loop {
                let stored =
                    sessions.append(&key, user("kept"), AppendOptions::default()).await.unwrap();
                println!("acked {key} {} {}", stored.seq, stored.id);
            }
        }
    };
    join_all(["one", "two", "three"].map(appender)).await;
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let mut acked = Vec::new();
    for round in 1..=3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_appends_until_it_is_killed", "--nocapture"])
            .env("CLAWGATE_TEST_APPEND_IN", dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let enough = acked.len() + 60 * round;
        let note = |line: String| {
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            (words.len() == 4 && words[0] == "acked" && words[3].len() == 8).then_some(words)
        };
        while acked.len() < enough {
            acked.extend(note(lines.next().unwrap().unwrap()));
        }
        child.kill().unwrap();
        acked.extend(lines.map_while(Result::ok).filter_map(note));
        child.wait().unwrap();

        let sessions = open(dir.path()).await;
        for name in ["one", "two", "three"] {
            let key = key(name);
            let messages = shown(&sessions, &key, 100_000).await;
            let mine = acked.iter().filter(|words| words[1] == key.as_str());
            for words in mine {
                let seq: usize = words[2].parse().unwrap();
                let message = &messages[seq - 1]["__openclaw"];
                assert_eq!(message, &json!({"id": words[3], "seq": seq}), "round {round}");
            }
        }
    }
}

const OPENCLAW_TRANSCRIPT: &str = r#"{"type":"session","version":3,"id":"022e6ed8-0000","timestamp":"2026-11-22T03:35:28.398Z","cwd":"/w"}
{"type":"model_change","id":"19fef534","parentId":null,"timestamp":"2026-11-22T03:35:28.400Z","provider":"mock","modelId":"mock-1"}
{"type":"thinking_level_change","id":"1bcc794e","parentId":"19fef534","timestamp":"2026-11-22T03:35:28.400Z","thinkingLevel":"off"}
{"type":"custom","customType":"model-snapshot","data":{"timestamp":1795318528524,"provider":"mock"},"id":"778ad7aa","parentId":"1bcc794e","timestamp":"2026-11-22T03:35:28.500Z"}
{"type":"message","id":"ac461195","parentId":"778ad7aa","timestamp":"2026-11-22T03:35:28.546Z","message":{"role":"user","content":[{"type":"text","text":"[Sun 2026-11-22 03:35 UTC] hello"}],"timestamp":1795318528546}}
{"type":"custom_message","customType":"openclaw.runtime-context","content":"Sender (untrusted metadata): x","display":false,"details":{"source":"openclaw-runtime-context"},"id":"94d1b1ec","parentId":"ac461195","timestamp":"2026-11-22T03:35:28.550Z"}
{"type":"message","id":"1a28a49f","parentId":"94d1b1ec","timestamp":"2026-11-22T03:35:28.615Z","message":{"role":"assistant","content":[{"type":"text","text":"warm"}],"api":"openai-completions","provider":"mock","model":"mock-1","usage":{"input":4521,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":4522,"cost":{"input":0.004521,"output":0.000002,"cacheRead":0,"cacheWrite":0,"total":0.004523}},"stopReason":"stop","timestamp":1795318528615,"responseId":"chatcmpl-mock-1"}}
"#;

fn write_openclaw_state(dir: &Path) -> PathBuf {
    let folder = dir.join("agents/main/sessions");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("022e6ed8-0000.jsonl"), OPENCLAW_TRANSCRIPT).unwrap();
    fs::write(folder.join("dropped.jsonl"), OPENCLAW_TRANSCRIPT).unwrap();
    let index = json!({
        "agent:main:main": {"sessionId": "022e6ed8-0000", "updatedAt": 7, "label": "Renamed",
            "sessionFile": "/home/u/.openclaw/agents/main/sessions/022e6ed8-0000.jsonl",
            "skillsSnapshot": {"version": 0}},
        "agent:main:evil": {"sessionId": "../../evil", "updatedAt": 7},
        "agent:main:odd": "not an entry",
    });
    fs::write(folder.join("sessions.json"), index.to_string()).unwrap();
    folder
}

#[tokio::test]
async fn an_openclaw_state_folder_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let folder = write_openclaw_state(dir.path());
    let index = fs::read(folder.join("sessions.json")).unwrap();
    let sessions = open(dir.path()).await;
    let page = sessions.list(SessionQuery::default()).await.unwrap();
    let keys: Vec<_> = page.entries.iter().map(|row| row.key.as_str()).collect();
    assert_eq!(keys, ["agent:main:main"]);
    let entry = &page.entries[0].entry;
    assert_eq!(entry.label.as_deref(), Some("Renamed"));
    assert_eq!(entry.extra["skillsSnapshot"], json!({"version": 0}));
    let title = entry.transcript.derived_title.as_deref();
    assert_eq!(title, Some("[Sun 2026-11-22 03:35 UTC] hello"));
    assert_eq!(entry.transcript.last_message.as_deref(), Some("warm"));

    let main = key("main");
    assert_eq!(heard(&sessions, &main).await, ["1 hello", "2 warm"]);
    assert_eq!(sessions.context(&main).await.unwrap().len(), 2);
    assert_eq!(say(&sessions, &main, "next").await, 3);
    let text = fs::read_to_string(folder.join("022e6ed8-0000.jsonl")).unwrap();
    let added = text.strip_prefix(OPENCLAW_TRANSCRIPT).unwrap();
    assert!(added.contains(r#""parentId":"1a28a49f""#), "{added}");
    assert_eq!(fs::read(folder.join("sessions.json")).unwrap(), index);
}

#[tokio::test]
async fn an_index_that_cannot_be_read_is_not_guessed_and_a_later_start_looks_again() {
    let dir = tempfile::tempdir().unwrap();
    let folder = write_openclaw_state(dir.path());
    let index = folder.join("sessions.json");
    let whole = fs::read_to_string(&index).unwrap();
    for torn in ["", "[]", "{ no json", &whole[..whole.len() - 1]] {
        fs::write(&index, torn).unwrap();
        let sessions = open(dir.path()).await;
        let page = sessions.list(SessionQuery::default()).await.unwrap();
        assert_eq!(page.entries.len(), 0, "{torn}");
        drop(sessions);
    }
    fs::write(&index, whole.replace("Renamed", "Half \\ud83e")).unwrap();
    let sessions = open(dir.path()).await;
    let page = sessions.list(SessionQuery::default()).await.unwrap();
    let found: Vec<_> =
        page.entries.iter().map(|row| (row.key.as_str(), row.entry.label.as_deref())).collect();
    assert_eq!(found, [("agent:main:main", Some("Half \u{fffd}"))]);
    drop(sessions);

    // What is ours is found by itself, and new sessions begin as ever.
    fs::write(&index, "{ no json").unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(dir.path().join(format!("clawgate.sqlite{suffix}")));
    }
    let keyed = json!({"type": "session", "version": 3, "id": "s-1", "sessionKey": "agent:main:x"});
    fs::write(folder.join("s-1.jsonl"), format!("{keyed}\n")).unwrap();
    let sessions = open(dir.path()).await;
    let page = sessions.list(SessionQuery::default()).await.unwrap();
    let keys: Vec<_> = page.entries.iter().map(|row| row.key.as_str()).collect();
    assert_eq!(keys, ["agent:main:x"]);
    sessions.ensure(&key("main"), Path::new("/w")).await.unwrap();
    assert_eq!(say(&sessions, &key("main"), "new").await, 1);
}

#[tokio::test]
async fn of_keys_that_mean_the_same_session_no_conversation_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("agents/main/sessions");
    fs::create_dir_all(&folder).unwrap();
    let index = json!({
        "agent:main:main": {"sessionId": "s-old", "updatedAt": 1},
        "main": {"sessionId": "s-new", "updatedAt": 2},
        "agent:main:Work": {"sessionId": "s-work", "updatedAt": 3},
        "agent:main:work": {"sessionId": "s-work", "updatedAt": 1},
    });
    fs::write(folder.join("sessions.json"), index.to_string()).unwrap();
    let keyed = |id: &str, key: &str| {
        json!({"type": "session", "version": 3, "id": id, "sessionKey": key}).to_string() + "\n"
    };
    let said = |text: &str| {
        let content = json!([{"type": "text", "text": text}]);
        let message = json!({"role": "user", "content": content, "timestamp": 1});
        json!({"type": "message", "id": "a", "parentId": null, "message": message}).to_string()
            + "\n"
    };
    for (id, header) in [
        ("s-old", keyed("s-old", "agent:main:main")),
        ("s-new", keyed("s-new", "agent:main:main")),
        ("s-work", keyed("s-work", "agent:main:work")),
        ("s-odd", keyed("s-odd", "agent:")),
        ("s-Main", keyed("s-Main", "Main")),
    ] {
        fs::write(folder.join(format!("{id}.jsonl")), header + &said(id)).unwrap();
    }
    let sessions = open(dir.path()).await;
    let found = sessions.list(SessionQuery::default()).await.unwrap().entries;
    let mut keys: Vec<_> = found.iter().map(|row| row.key.as_str()).collect();
    keys.sort_unstable();
    let others = ["agent:main:s-new", "agent:main:s-odd", "agent:main:s-old", "agent:main:work"];
    assert_eq!(keys, [&["agent:main:main"], &others[..]].concat());
    // The file changed last.
    assert_eq!(heard(&sessions, &key("main")).await, ["1 s-Main"]);
    assert_eq!(heard(&sessions, &key("s-new")).await, ["1 s-new"]);
    assert_eq!(heard(&sessions, &key("s-old")).await, ["1 s-old"]);
    assert_eq!(heard(&sessions, &key("work")).await, ["1 s-work"]);
}

#[tokio::test]
async fn a_conversation_in_the_folder_of_another_agent_is_found_there() {
    let dir = tempfile::tempdir().unwrap();
    let line = |text: &str| {
        let content = json!([{"type": "text", "text": text}]);
        json!({"role": "user", "content": content, "timestamp": 1}).to_string() + "\n"
    };
    for (agent, key, id) in
        [("main", "agent:b:x", "s-x"), ("main", "global", "s-1"), ("b", "global", "s-2")]
    {
        let folder = dir.path().join(format!("agents/{agent}/sessions"));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("sessions.json");
        let known = fs::read_to_string(&path).unwrap_or_else(|_| "{}".into());
        let mut index: Value = serde_json::from_str(&known).unwrap();
        index[key] = json!({"sessionId": id, "updatedAt": 1});
        fs::write(path, index.to_string()).unwrap();
        fs::write(folder.join(format!("{id}.jsonl")), line(id)).unwrap();
    }
    let sessions = open(dir.path()).await;
    for (written, said) in [("s-x", "1 s-x"), ("global", "1 s-1"), ("agent:b:s-2", "1 s-2")] {
        assert_eq!(heard(&sessions, &key(written)).await, [said], "{written}");
    }
}

#[tokio::test]
async fn a_lost_index_is_rebuilt_from_the_transcripts() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = open(dir.path()).await;
    for name in ["main", "agent:other:work"] {
        sessions.ensure(&key(name), Path::new("/w")).await.unwrap();
        say(&sessions, &key(name), name).await;
    }
    drop(sessions);
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(dir.path().join(format!("clawgate.sqlite{suffix}")));
    }
    let rebuilt = open(dir.path()).await;
    for name in ["main", "agent:other:work"] {
        assert_eq!(heard(&rebuilt, &key(name)).await, [format!("1 {name}")]);
        assert_eq!(say(&rebuilt, &key(name), "more").await, 2);
    }
    assert_eq!(rebuilt.rebuild_index().await.unwrap(), 0);
}

#[tokio::test]
async fn whoever_removes_the_last_session_has_none_back_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let folder = write_openclaw_state(dir.path());
    let main = key("main");
    let sessions = open(dir.path()).await;
    // Beside it one that was kept, and has no session any more.
    sessions.ensure(&key("kept"), Path::new("/w")).await.unwrap();
    for (key, remains) in [(&key("kept"), Remains::Kept), (&main, Remains::PutAway)] {
        assert!(sessions.delete(key, remains).await.unwrap().is_some(), "{key}");
    }
    drop(sessions);
    let keys = async || {
        let sessions = open(dir.path()).await;
        let page = sessions.list(SessionQuery::default()).await.unwrap();
        page.entries.into_iter().map(|row| row.key).collect::<Vec<_>>()
    };
    assert_eq!(keys().await, [""; 0]);
    let source = Source {
        state_dir: dir.path().to_owned(),
        database: dir.path().join("clawgate.sqlite"),
        rules: KeyRules::default(),
    };
    assert_eq!(stored_sessions(&source).unwrap(), []);
    let sessions = open(dir.path()).await;
    sessions.ensure(&main, Path::new("/w")).await.unwrap();
    let page = sessions.list(SessionQuery { limit: Some(9), ..SessionQuery::default() });
    let row = page.await.unwrap().entries.remove(0);
    let (store, updated_at) = (store(dir.path()), row.entry.updated_at);
    assert!(store.delete_unchanged_session(main.as_str(), updated_at).await.unwrap());
    drop((sessions, store));
    assert_eq!(keys().await, [""; 0]);
    // Of a database that is lost only the files tell.
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(dir.path().join(format!("clawgate.sqlite{suffix}")));
    }
    fs::write(folder.join("022e6ed8-0000.jsonl"), OPENCLAW_TRANSCRIPT).unwrap();
    assert!(keys().await.contains(&"agent:main:main".to_owned()));
}

/// Lets nobody change a session in the index until its trigger `full` is dropped.
fn full(dir: &Path) -> rusqlite::Connection {
    let database = rusqlite::Connection::open(dir.join("clawgate.sqlite")).unwrap();
    let refuses = "CREATE TRIGGER full BEFORE UPDATE ON sessions
        BEGIN SELECT RAISE(ABORT, 'no room'); END";
    database.execute_batch(refuses).unwrap();
    database
}

#[tokio::test]
async fn a_session_is_compacted_once_its_summary_is_stored_though_the_index_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let (main, sessions) = (key("main"), open(dir.path()).await);
    sessions.ensure(&main, dir.path()).await.unwrap();
    say(&sessions, &main, "first").await;
    let database = full(dir.path());
    let done = compact(&sessions, &main, summary()).await;
    assert_eq!((done.entry.compaction_count, done.entry.total_tokens), (Some(1), Some(4)));
    assert_eq!(done.entry.compaction_checkpoints, [done.checkpoint]);
    database.execute_batch("DROP TRIGGER full").unwrap();
    let [summary] = &sessions.context(&main).await.unwrap()[..] else { panic!("not compacted") };
    assert!(summary.text().contains("so far"), "{summary:?}");
}

#[tokio::test]
async fn a_message_that_is_in_the_transcript_is_stored_though_the_index_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let (main, sessions) = (key("main"), open(dir.path()).await);
    sessions.ensure(&main, dir.path()).await.unwrap();
    say(&sessions, &main, "first").await;
    let database = full(dir.path());
    assert_eq!(say(&sessions, &main, "second").await, 2);
    assert_eq!(say(&sessions, &main, "third").await, 3);
    assert_eq!(heard(&sessions, &main).await, ["1 first", "2 second", "3 third"]);
    assert_eq!(sessions.context(&main).await.unwrap().len(), 3);
    database.execute_batch("DROP TRIGGER full").unwrap();
    assert_eq!(heard(&sessions, &main).await, ["1 first", "2 second", "3 third"]);
    assert_eq!(say(&sessions, &main, "fourth").await, 4);
    drop(sessions);
    let sessions = open(dir.path()).await;
    assert_eq!(heard(&sessions, &main).await, ["1 first", "2 second", "3 third", "4 fourth"]);
}
