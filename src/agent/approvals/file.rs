//! `exec-approvals.json`: OpenClaw's file of what may run.
//!
//! Owns: reading, showing and changing that file. Promises: a change is written
//! whole or not at all, keeps what it does not know, and only goes on top of
//! what its author has read; of changes by several processes at once none is
//! lost. Must not: judge commands.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use super::allowlist::Entry;
use super::policy;
use crate::store::{FileError, WriteLock, WriteLockError, write_private};
use crate::support::{self, Ids, hex, json};

/// Thousands of entries; keeps a wrong file from filling memory.
const FILE_LIMIT: u64 = 4 * 1024 * 1024;
/// Bytes of a command that are noted with its entry: they are to be recognised, and a model
/// writes commands of any length.
const NOTED_MAX: usize = 1024;
/// Bytes of the token that the original's helper on the desktop asks for.
const TOKEN_BYTES: usize = 24;

const DEFAULTS: [&str; 4] = ["security", "ask", "askFallback", "autoAllowSkills"];
const ENTRY: [&str; 8] = [
    "id",
    "pattern",
    "source",
    "commandText",
    "argPattern",
    "lastUsedAt",
    "lastUsedCommand",
    "lastResolvedPath",
];

/// The file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalsFileError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Where it is.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// What is in it cannot be followed.
    #[error("{} is no exec approvals file of version 1: {reason}", path.display())]
    Unusable {
        /// Where it is.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It would be too long to be read again.
    #[error(
        "with this change {} would be longer than {FILE_LIMIT} bytes; nothing was changed",
        path.display()
    )]
    TooLong {
        /// Where it is.
        path: PathBuf,
    },
    /// Nobody else can be kept from writing it.
    #[error(transparent)]
    Lock(#[from] WriteLockError),
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] FileError),
    /// Somebody else's change came between.
    #[error("exec approvals changed since last load; re-run exec.approvals.get and retry")]
    Stale,
    /// A change without what it is a change of.
    #[error("exec approvals base hash required; re-run exec.approvals.get and retry")]
    NoBase,
}

/// The file at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalsSnapshot {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it is there.
    pub exists: bool,
    /// Lowercase hex SHA-256 of its text; of the empty text when there is none.
    pub hash: String,
    /// What it says.
    pub file: Value,
}

impl ApprovalsSnapshot {
    /// `{path, exists, hash, file}`, without the socket's token and without
    /// members that clients do not know.
    pub fn to_wire(&self) -> Value {
        json!({"path": self.path, "exists": self.exists, "hash": self.hash,
            "file": shown(&self.file)})
    }
}

/// The file, for all who use it.
#[derive(Clone)]
pub(super) struct ApprovalsFile {
    path: Arc<Path>,
    ids: Arc<dyn Ids>,
    /// Held from reading to writing.
    gate: Arc<Mutex<()>>,
}

impl ApprovalsFile {
    /// The file at this path; nothing is read yet.
    pub fn new(path: PathBuf, ids: Arc<dyn Ids>) -> Self {
        Self { path: path.into(), ids, gate: Arc::default() }
    }

    /// What it says now.
    pub async fn read(&self) -> Result<ApprovalsSnapshot, ApprovalsFileError> {
        let path = Arc::clone(&self.path);
        blocking(move || read(&path)).await
    }

    /// The same, after it was made if there was none.
    pub async fn read_or_make(&self) -> Result<ApprovalsSnapshot, ApprovalsFileError> {
        let snapshot = self.read().await?;
        if snapshot.exists {
            return Ok(snapshot);
        }
        self.change(|snapshot| Ok(!snapshot.exists)).await
    }

    /// Puts `new` in its place. What the wire does not know is kept.
    pub async fn replace(
        &self,
        new: Value,
        base: Option<&str>,
    ) -> Result<ApprovalsSnapshot, ApprovalsFileError> {
        let (base, ids) = (base.map(str::to_owned), Arc::clone(&self.ids));
        let edit = move |old: &mut ApprovalsSnapshot| {
            match base {
                None if old.exists => return Err(ApprovalsFileError::NoBase),
                Some(base) if old.exists && base != old.hash => {
                    return Err(ApprovalsFileError::Stale);
                }
                _ => {}
            }
            old.file = merged(&old.file, new, &*ids);
            Ok(true)
        };
        self.change(edit).await
    }

    /// Adds an entry for a program that a person always allows.
    pub async fn always_allow(
        &self,
        agent: &str,
        path: &str,
        now_ms: u64,
    ) -> Result<(), ApprovalsFileError> {
        let (agent, path, ids) = (agent.to_owned(), path.to_owned(), Arc::clone(&self.ids));
        let edit = move |snapshot: &mut ApprovalsSnapshot| {
            let Some(list) = allowlist_of(&mut snapshot.file, &agent) else { return Ok(false) };
            let has = |entry: &&mut Value| {
                entry["pattern"] == json!(path) && entry.get("argPattern").is_none()
            };
            if let Some(known) = list.iter_mut().find(has) {
                known["lastUsedAt"] = json!(now_ms);
            } else {
                list.push(json!({"id": ids.uuid(), "pattern": path, "source": "allow-always",
                    "lastUsedAt": now_ms}));
            }
            Ok(true)
        };
        self.change(edit).await.map(drop)
    }

    /// Notes that an entry has let a command through.
    pub async fn note_use(
        &self,
        entry: &Entry,
        command: &str,
        resolved: &str,
        now_ms: u64,
    ) -> Result<(), ApprovalsFileError> {
        let command = command.get(..command.floor_char_boundary(NOTED_MAX));
        let command = command.unwrap_or_default().to_owned();
        let (entry, resolved) = (entry.clone(), resolved.to_owned());
        let edit = move |snapshot: &mut ApprovalsSnapshot| {
            let list = allowlist_of(&mut snapshot.file, &entry.owner);
            let is_it =
                |value: &&mut Value| Entry::read(&entry.owner, value).as_ref() == Some(&entry);
            // It may be gone by now.
            let Some(used) = list.and_then(|list| list.iter_mut().find(is_it)) else {
                return Ok(false);
            };
            used["lastUsedAt"] = json!(now_ms);
            used["lastUsedCommand"] = json!(command);
            used["lastResolvedPath"] = json!(resolved);
            Ok(true)
        };
        self.change(edit).await.map(drop)
    }

    /// Takes out what it says for an agent.
    pub async fn forget(&self, agent: &str) -> Result<(), ApprovalsFileError> {
        if !self.read().await?.exists {
            return Ok(());
        }
        let agent = agent.to_owned();
        let edit = move |snapshot: &mut ApprovalsSnapshot| {
            let agents = snapshot.file.get_mut("agents").and_then(Value::as_object_mut);
            Ok(agents.is_some_and(|agents| agents.shift_remove(&agent).is_some()))
        };
        self.change(edit).await.map(drop)
    }

    /// Writes what `edit` has made of the file, if it says so. From reading to writing
    /// nobody else changes it, in another process neither; what has begun is done to its
    /// end even when nobody waits for it any more.
    async fn change(
        &self,
        edit: impl FnOnce(&mut ApprovalsSnapshot) -> Result<bool, ApprovalsFileError> + Send + 'static,
    ) -> Result<ApprovalsSnapshot, ApprovalsFileError> {
        let gate = Arc::clone(&self.gate).lock_owned().await;
        let path = Arc::clone(&self.path);
        blocking(move || {
            let _gate = gate;
            let _alone = WriteLock::acquire(&path)?;
            let mut snapshot = read(&path)?;
            if edit(&mut snapshot)? { write(&path, snapshot.file) } else { Ok(snapshot) }
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApprovalsFileError> + Send + 'static,
) -> Result<T, ApprovalsFileError> {
    support::blocking(work).await.unwrap_or_else(|error| {
        Err(ApprovalsFileError::Read { path: PathBuf::new(), source: io::Error::other(error) })
    })
}

fn write(path: &Path, mut file: Value) -> Result<ApprovalsSnapshot, ApprovalsFileError> {
    complete(&mut file, path);
    let text = format!("{file:#}\n");
    // Nobody could read it again, and nothing would run any more.
    if is_too_long(&text) {
        return Err(ApprovalsFileError::TooLong { path: path.to_owned() });
    }
    write_private(path, text.as_bytes())?;
    read(path)
}

fn is_too_long(text: &str) -> bool {
    u64::try_from(text.len()).is_ok_and(|length| length > FILE_LIMIT)
}

/// What it says now. Blocks.
pub(super) fn read(path: &Path) -> Result<ApprovalsSnapshot, ApprovalsFileError> {
    let failed = |source| ApprovalsFileError::Read { path: path.to_owned(), source };
    let unusable = |reason: String| ApprovalsFileError::Unusable { path: path.to_owned(), reason };
    let mut text = String::new();
    let exists = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        opened => {
            opened
                .and_then(|file| file.take(FILE_LIMIT + 1).read_to_string(&mut text))
                .map_err(failed)?;
            true
        }
    };
    if is_too_long(&text) {
        return Err(unusable(format!("it is longer than {FILE_LIMIT} bytes")));
    }
    let file = if exists {
        serde_json::from_str(&text).map_err(|error| unusable(error.to_string()))?
    } else {
        json!({"version": 1})
    };
    if !policy::is_followable(&file) {
        return Err(unusable("its members are not of the form expected".into()));
    }
    let hash = hex(Sha256::digest(&text));
    Ok(ApprovalsSnapshot { path: path.to_owned(), exists, hash, file })
}

/// The list of an agent; made if there is none.
fn allowlist_of<'a>(file: &'a mut Value, agent: &str) -> Option<&'a mut Vec<Value>> {
    let list = &mut file["agents"][agent]["allowlist"];
    if !list.is_array() {
        *list = json!([]);
    }
    list.as_array_mut()
}

/// Adds what the original expects in every file, in its order.
fn complete(file: &mut Value, path: &Path) {
    let Value::Object(members) = file else { return };
    let mut old = std::mem::take(members);
    members.insert("version".into(), json!(1));
    let mut socket = old.shift_remove("socket").filter(Value::is_object).unwrap_or(json!({}));
    if socket["path"].as_str().is_none() {
        socket["path"] = json!(path.with_extension("sock"));
    }
    if socket["token"].as_str().is_none() {
        // Without randomness there is no token, and nobody to ask for it.
        let mut bytes = [0; TOKEN_BYTES];
        if getrandom::fill(&mut bytes).is_ok() {
            socket["token"] = json!(BASE64_URL_SAFE_NO_PAD.encode(bytes));
        }
    }
    members.insert("socket".into(), socket);
    for name in ["defaults", "agents"] {
        let section = old.shift_remove(name).filter(Value::is_object).unwrap_or(json!({}));
        members.insert(name.into(), section);
    }
    old.shift_remove("version");
    members.extend(old);
}

fn known(value: Option<&Value>, names: &[&str]) -> Map<String, Value> {
    let members = value.and_then(Value::as_object).into_iter().flatten();
    let known = members.filter(|(name, _)| names.contains(&name.as_str()));
    known.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The members that the wire knows.
fn shown(file: &Value) -> Value {
    let mut shown = json!({"version": 1});
    if let Some(socket) = file.get("socket").filter(|it| it.is_object()) {
        shown["socket"] = known(Some(socket), &["path"]).into();
    }
    shown["defaults"] = known(file.get("defaults"), &DEFAULTS).into();
    shown["agents"] = json!({});
    for (id, agent) in file.get("agents").and_then(Value::as_object).into_iter().flatten() {
        let mut members = known(Some(agent), &DEFAULTS);
        if let Some(list) = agent.get("allowlist").and_then(Value::as_array) {
            let entries = list.iter().map(|entry| Value::from(known(Some(entry), &ENTRY)));
            members.insert("allowlist".into(), entries.collect());
        }
        shown["agents"][id] = members.into();
    }
    shown
}

/// What a client sent, with all of the old file that clients do not see.
fn merged(old: &Value, mut new: Value, ids: &dyn Ids) -> Value {
    let nothing = Value::Null;
    keep(&mut new, old, &["version", "defaults", "agents"]);
    if let Some(socket) = old.get("socket") {
        keep(&mut new["socket"], socket, &[]);
    }
    if let Some(defaults) = old.get("defaults") {
        keep(&mut new["defaults"], defaults, &DEFAULTS);
    }
    let old_agents = old.get("agents").unwrap_or(&nothing);
    let agents = new.get_mut("agents").and_then(Value::as_object_mut);
    for (id, agent) in agents.into_iter().flatten() {
        let old_agent = old_agents.get(id).unwrap_or(&nothing);
        keep(agent, old_agent, &[&DEFAULTS[..], &["allowlist"]].concat());
        let old_list = old_agent.get("allowlist").and_then(Value::as_array);
        let list = agent.get_mut("allowlist").and_then(Value::as_array_mut);
        for entry in list.into_iter().flatten() {
            if entry["id"].is_null() {
                entry["id"] = json!(ids.uuid());
            }
            let same = |known: &&Value| known.get("id") == entry.get("id");
            if let Some(known) = old_list.into_iter().flatten().find(same) {
                keep(entry, known, &ENTRY);
            }
        }
    }
    new
}

/// Copies the members of `old` that are not in `names` and not there yet.
fn keep(new: &mut Value, old: &Value, names: &[&str]) {
    let unseen = old.as_object().into_iter().flatten();
    for (name, value) in unseen.filter(|(name, _)| !names.contains(&name.as_str())) {
        if new.get(name).is_none() {
            new[name] = value.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;
    use crate::support::RandomIds;

    fn file(home: &tempfile::TempDir) -> ApprovalsFile {
        ApprovalsFile::new(home.path().join(".openclaw/exec-approvals.json"), Arc::new(RandomIds))
    }

    fn on_disk(home: &tempfile::TempDir) -> Value {
        let text = fs::read_to_string(home.path().join(".openclaw/exec-approvals.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    fn put(home: &tempfile::TempDir, value: &Value) {
        fs::create_dir_all(home.path().join(".openclaw")).unwrap();
        fs::write(home.path().join(".openclaw/exec-approvals.json"), value.to_string()).unwrap();
    }

    #[tokio::test]
    async fn a_new_file_is_private_and_its_token_is_shown_to_nobody() {
        let home = tempfile::tempdir().unwrap();
        let file = file(&home);
        assert!(!file.read().await.unwrap().exists);
        let wire = file.read_or_make().await.unwrap().to_wire();
        let socket = home.path().join(".openclaw/exec-approvals.sock");
        assert_eq!(
            wire["file"],
            json!({"version": 1, "socket": {"path": socket}, "defaults": {}, "agents": {}})
        );
        assert_eq!(on_disk(&home)["socket"]["token"].as_str().unwrap().len(), 32);
        let path = home.path().join(".openclaw/exec-approvals.json");
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_change_needs_the_hash_of_what_it_changes() {
        let home = tempfile::tempdir().unwrap();
        let file = file(&home);
        let hash = file.replace(json!({"version": 1}), None).await.unwrap().hash;
        let new = json!({"version": 1, "defaults": {"ask": "always"}});
        let error = async |base| file.replace(new.clone(), base).await.unwrap_err().to_string();
        assert!(error(None).await.contains("base hash required"));
        assert!(error(Some("x")).await.contains("changed since last load"));
        let changed = file.replace(new.clone(), Some(&hash)).await.unwrap();
        assert_eq!(changed.to_wire()["file"]["defaults"], json!({"ask": "always"}));
        assert_ne!(changed.hash, hash);
    }

    #[tokio::test]
    async fn what_clients_do_not_know_is_kept_and_not_shown() {
        let home = tempfile::tempdir().unwrap();
        let entry = json!({"id": "1", "pattern": "/bin/ls", "note": "mine"});
        put(
            &home,
            &json!({"version": 1, "future": [1], "socket": {"token": "t", "x": 1},
            "defaults": {"new": true}, "agents": {"main": {"own": 1, "allowlist": [entry]}}}),
        );
        let file = file(&home);
        let read = file.read_or_make().await.unwrap();
        let wire = read.to_wire();
        assert_eq!(
            wire["file"],
            json!({"version": 1, "socket": {}, "defaults": {},
            "agents": {"main": {"allowlist": [{"id": "1", "pattern": "/bin/ls"}]}}})
        );
        file.replace(wire["file"].clone(), Some(&read.hash)).await.unwrap();
        let kept = on_disk(&home);
        assert_eq!(kept["future"], json!([1]));
        assert_eq!((&kept["socket"]["token"], &kept["socket"]["x"]), (&json!("t"), &json!(1)));
        assert_eq!(kept["defaults"], json!({"new": true}));
        assert_eq!(kept["agents"]["main"]["own"], 1);
        assert_eq!(kept["agents"]["main"]["allowlist"][0]["note"], "mine");
    }

    #[tokio::test]
    async fn always_is_one_entry_and_each_use_is_noted() {
        let home = tempfile::tempdir().unwrap();
        let file = file(&home);
        for now in [1, 2] {
            file.always_allow("main", "/bin/ls", now).await.unwrap();
        }
        let list = on_disk(&home)["agents"]["main"]["allowlist"].clone();
        assert_eq!(list.as_array().unwrap().len(), 1);
        assert_eq!(
            (&list[0]["lastUsedAt"], &list[0]["source"]),
            (&json!(2), &json!("allow-always"))
        );
        let entry = Entry::read("main", &list[0]).unwrap();
        file.note_use(&entry, "ls -l", "/bin/ls", 3).await.unwrap();
        let used = on_disk(&home)["agents"]["main"]["allowlist"][0].clone();
        assert_eq!(used["lastUsedCommand"], "ls -l");
        assert_eq!(
            (&used["lastUsedAt"], &used["lastResolvedPath"]),
            (&json!(3), &json!("/bin/ls"))
        );
    }

    #[tokio::test]
    async fn what_is_noted_or_written_never_makes_a_file_that_cannot_be_read_again() {
        let home = tempfile::tempdir().unwrap();
        let file = file(&home);
        file.always_allow("main", "/bin/ls", 1).await.unwrap();
        let list = on_disk(&home)["agents"]["main"]["allowlist"].clone();
        let entry = Entry::read("main", &list[0]).unwrap();
        let limit = usize::try_from(FILE_LIMIT).unwrap();
        let long = format!("ls {}", "\u{e4}".repeat(limit));
        file.note_use(&entry, &long, "/bin/ls", 2).await.unwrap();
        let noted = on_disk(&home)["agents"]["main"]["allowlist"][0].clone();
        assert_eq!(noted["lastUsedAt"], 2);
        assert!(noted["lastUsedCommand"].as_str().unwrap().len() <= NOTED_MAX);
        let before = file.read().await.unwrap();
        let mut large = json!({"version": 1, "agents": {}});
        large["agents"]["x".repeat(limit)] = json!({});
        let error = file.replace(large, Some(&before.hash)).await.unwrap_err();
        let told = error.to_string();
        assert!(told.starts_with("with this change ") && told.contains("nothing was"), "{told}");
        assert_eq!(file.read().await.unwrap(), before);
    }

    #[tokio::test]
    async fn what_it_says_for_an_agent_is_forgotten_and_for_the_others_it_stays() {
        let home = tempfile::tempdir().unwrap();
        let file = file(&home);
        file.forget("work").await.unwrap();
        assert!(!home.path().join(".openclaw").exists(), "nothing is made for that");
        for agent in ["work", "main", "*"] {
            file.always_allow(agent, "/bin/ls", 1).await.unwrap();
        }
        file.forget("work").await.unwrap();
        let agents = on_disk(&home)["agents"].clone();
        assert_eq!(agents.as_object().unwrap().keys().collect::<Vec<_>>(), ["main", "*"]);
        let before = fs::metadata(home.path().join(".openclaw/exec-approvals.json")).unwrap();
        file.forget("work").await.unwrap();
        let after = fs::metadata(home.path().join(".openclaw/exec-approvals.json")).unwrap();
        assert_eq!(before.ino(), after.ino(), "it is not written");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_what_two_programs_add_at_once_nothing_is_lost() {
        let home = tempfile::tempdir().unwrap();
        let programs = ["one", "two"].map(|name| (name, file(&home)));
        let mut adding = tokio::task::JoinSet::new();
        for index in 0..10 {
            for (name, file) in programs.clone() {
                let path = format!("/bin/{name}-{index}");
                adding.spawn(async move { file.always_allow("main", &path, index).await });
            }
        }
        while let Some(added) = adding.join_next().await {
            added.unwrap().unwrap();
        }
        let list = on_disk(&home)["agents"]["main"]["allowlist"].clone();
        assert_eq!(list.as_array().unwrap().len(), 20, "{list}");
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_followed_is_an_error() {
        for text in ["", "{", "[]", "{\"version\":2}", "{\"agents\":[]}", "{\"agents\":{\"a\":1}}"]
        {
            let home = tempfile::tempdir().unwrap();
            fs::create_dir_all(home.path().join(".openclaw")).unwrap();
            fs::write(home.path().join(".openclaw/exec-approvals.json"), text).unwrap();
            assert!(file(&home).read().await.is_err(), "{text}");
        }
    }
}
