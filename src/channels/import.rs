//! People whom an OpenClaw let in: `credentials/<channel>-allowFrom.json`, those
//! of an account in `<channel>-<account>-allowFrom.json`, and who waits with a
//! code in `<channel>-pairing.json`.
//!
//! Promises: the source is only read; only ids count, since names can change
//! hands; the same import again adds nothing. Nobody comes back by it who was put out
//! since: what was read once in our own state directory is not read again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::inbound::short_name;
use super::service::Channels;
use crate::config::channels::ChannelKind;
use crate::sessions::millis_of_iso;
use crate::store::{
    ChannelPerson, PAIRING_CODE_MS, PAIRINGS_MAX, PairingClaim, PairingRequest, Store, StoreError,
};
use crate::support::{blocking, json};

/// Where they are, below the state directory.
const FOLDER: &str = "credentials";
/// The account of files that name none.
const DEFAULT_ACCOUNT: &str = "default";
const PEOPLE: &str = "-allowFrom.json";
const WAITING: &str = "-pairing.json";
/// Far more than anybody has let in.
const FILE_MAX: u64 = 4 * 1024 * 1024;
/// People of one file; more are no list that somebody has looked at.
const PEOPLE_MAX: usize = 10_000;
/// Longest id.
const ID_MAX: usize = 256;
/// What notes that a state directory was seen: what of it could not be read, as a JSON
/// list of what is told as left out. A number in the place of the list is of a release
/// that read all of it.
const SEEN: &str = "import:credentials";

/// What was taken over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportedPeople {
    /// People who are new here.
    pub people: u64,
    /// People who were let in here already.
    pub known: u64,
    /// People who wait with a code that still holds, and did not wait here.
    pub waiting: u64,
    /// What was not taken over, and why.
    pub left_out: Vec<(String, String)>,
}

#[derive(Debug, Default)]
struct Found {
    people: Vec<ChannelPerson>,
    waiting: Vec<PairingRequest>,
    left_out: Vec<(String, String)>,
    /// What could not be read; the folder, when that could not be.
    unread: Vec<String>,
}

impl ImportedPeople {
    /// Takes over the people below a state directory; with `is_dry`, as without a store, it
    /// only tells what would be.
    ///
    /// # Errors
    /// When the database does not take them.
    pub async fn take(
        from: &Path,
        store: Option<&Arc<dyn Store>>,
        is_dry: bool,
        now: u64,
    ) -> Result<Self, StoreError> {
        let found = Found::below(from, None, now).await;
        match store {
            Some(store) if !is_dry => found.keep(store).await,
            store => found.compare(store, now).await,
        }
    }
}

impl Found {
    /// What there is below a state directory; of that only what is named, if it is.
    async fn below(from: &Path, only: Option<Vec<String>>, now: u64) -> Self {
        let folder = from.join(FOLDER);
        let stopped = || Self { unread: vec![FOLDER.into()], ..Self::default() };
        let reading = blocking(move || read(&folder, only.as_deref(), now));
        reading.await.unwrap_or_else(|_| stopped())
    }

    async fn keep(self, store: &Arc<dyn Store>) -> Result<ImportedPeople, StoreError> {
        let all = count(self.people.len());
        let people = store.import_people(self.people).await?;
        let mut waiting = 0;
        for request in self.waiting {
            if matches!(store.claim_pairing(request).await?, PairingClaim::New(_)) {
                waiting += 1;
            }
        }
        Ok(ImportedPeople { people, known: all - people, waiting, left_out: self.left_out })
    }

    /// What [`Self::keep`] would answer.
    async fn compare(
        self,
        store: Option<&Arc<dyn Store>>,
        now: u64,
    ) -> Result<ImportedPeople, StoreError> {
        let (let_in, asking) = match store {
            Some(store) => (store.paired_people().await?, store.pairings(now).await?),
            None => (Vec::new(), Vec::new()),
        };
        let mut people = BTreeSet::new();
        people.extend(let_in.into_iter().map(|it| (it.channel, it.account, it.person)));
        let (all, before) = (self.people.len(), people.len());
        people.extend(self.people.into_iter().map(|it| (it.channel, it.account, it.person)));
        let new = people.len() - before;
        let mut accounts = BTreeMap::<_, BTreeSet<_>>::new();
        for it in asking {
            accounts.entry((it.channel, it.account)).or_default().insert(it.person);
        }
        let mut waiting = 0;
        for it in self.waiting {
            let waits = accounts.entry((it.channel, it.account)).or_default();
            let has_room = i64::try_from(waits.len()).is_ok_and(|waits| waits < PAIRINGS_MAX);
            if has_room && waits.insert(it.person) {
                waiting += 1;
            }
        }
        let (people, known, left_out) = (count(new), count(all - new), self.left_out);
        Ok(ImportedPeople { people, known, waiting, left_out })
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

impl Channels {
    /// Takes over the people whom an OpenClaw let in that left them in our state
    /// directory, the first time that they can be read.
    pub(super) async fn adopt_people(&self) -> Result<(), StoreError> {
        let parts = &self.0.parts;
        let settings = parts.settings.now();
        let (from, store, now) = (&settings.paths.state_dir, &parts.store, parts.clock.now_ms());
        let noted = store.channel_note(SEEN).await?;
        let only = noted.map(|it| serde_json::from_str::<Vec<String>>(&it).unwrap_or_default());
        if only.as_ref().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        let found = Found::below(from, only, now).await;
        let unread = json!(found.unread).to_string();
        for what in &found.unread {
            tracing::warn!(what, "mend it or move it away: the next start looks again");
        }
        let report = found.keep(store).await?;
        for (what, why) in &report.left_out {
            tracing::warn!(what, why, "not taken over from credentials");
        }
        if report.people + report.waiting > 0 {
            tracing::info!(report.people, report.waiting, "took over the people of OpenClaw");
        }
        store.keep_channel_note(SEEN.into(), unread).await
    }
}

/// Reads the folder; only the files that are named, if any are, or the folder itself.
fn read(folder: &Path, only: Option<&[String]>, now: u64) -> Found {
    let is_wanted =
        |what: &str| only.is_none_or(|only| only.iter().any(|it| it == FOLDER || it == what));
    let mut found = Found::default();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return found,
        Err(error) => {
            found.left_out.push((FOLDER.into(), error.to_string()));
            found.unread.push(FOLDER.into());
            return found;
        }
        Ok(entries) => entries,
    };
    let names: BTreeSet<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    for path in names {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_people = name.ends_with(PEOPLE);
        let Some(of) = name.strip_suffix(PEOPLE).or_else(|| name.strip_suffix(WAITING)) else {
            continue;
        };
        let what = format!("{FOLDER}/{name}");
        if !is_wanted(&what) {
            continue;
        }
        let Some((kind, account)) = account(of) else {
            found.left_out.push((what, "this gateway has no such channel".into()));
            continue;
        };
        match read_list(&path) {
            Err(error) => {
                found.left_out.push((what.clone(), error.to_string()));
                found.unread.push(what);
            }
            Ok(list) if is_people => add_people(&mut found, &list, kind, &account, &what, now),
            Ok(list) => add_waiting(&mut found, &list, kind, &account, now),
        }
    }
    found
}

/// The channel and the account that a file is of.
fn account(of: &str) -> Option<(ChannelKind, String)> {
    let (channel, account) = of.split_once('-').unwrap_or((of, DEFAULT_ACCOUNT));
    Some((ChannelKind::parse(channel)?, account.to_owned()))
}

fn add_people(
    found: &mut Found,
    list: &Value,
    kind: ChannelKind,
    account: &str,
    what: &str,
    now: u64,
) {
    let entries = list["allowFrom"].as_array().into_iter().flatten().take(PEOPLE_MAX);
    for entry in entries {
        let person = match entry {
            Value::Number(id) => Some(id.to_string()),
            Value::String(text) => person(kind, text),
            _ => None,
        };
        let Some(person) = person else {
            let why = "only ids let somebody in; names and * belong into the config, if anywhere";
            found.left_out.push((format!("{entry} of {what}"), why.into()));
            continue;
        };
        found.people.push(ChannelPerson {
            channel: kind.as_str().into(),
            account: account.to_owned(),
            person,
            name: None,
            approved_at: now,
        });
    }
}

/// The id of a person; `None` for what is none.
fn person(kind: ChannelKind, written: &str) -> Option<String> {
    let id = written.trim();
    let prefixes: &[&str] = if kind == ChannelKind::Telegram { &["telegram:", "tg:"] } else { &[] };
    let id = prefixes.iter().find_map(|prefix| id.strip_prefix(prefix)).unwrap_or(id);
    let is_id = match kind {
        ChannelKind::Telegram => !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()),
        ChannelKind::Webhook => {
            !id.is_empty() && id != "*" && id.len() <= ID_MAX && !id.chars().any(char::is_control)
        }
    };
    is_id.then(|| id.to_owned())
}

/// Those whose codes still hold; who is left out asks again.
fn add_waiting(found: &mut Found, list: &Value, kind: ChannelKind, account: &str, now: u64) {
    let entries = list["requests"].as_array().into_iter().flatten().take(PEOPLE_MAX);
    let requests = entries.filter_map(|entry| {
        let created_at = millis_of_iso(entry["createdAt"].as_str()?);
        let code = entry["code"].as_str()?;
        let is_code = (1..=16).contains(&code.len())
            && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        let holds = created_at <= now && now - created_at < PAIRING_CODE_MS;
        let meta = &entry["meta"];
        let name = ["firstName", "name", "username"].iter().find_map(|it| meta[it].as_str());
        (is_code && holds).then_some(PairingRequest {
            channel: kind.as_str().into(),
            account: meta["accountId"].as_str().unwrap_or(account).to_owned(),
            person: person(kind, entry["id"].as_str()?)?,
            name: name.map(short_name).filter(|name| !name.is_empty()),
            code: code.to_owned(),
            created_at,
        })
    });
    found.waiting.extend(requests);
}

fn read_list(path: &Path) -> io::Result<Value> {
    if fs::metadata(path)?.len() > FILE_MAX {
        return Err(io::Error::other("it is too large to be a list of people"));
    }
    serde_json::from_slice(&fs::read(path)?).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::SqliteStore;

    const NOW: u64 = 1_795_318_528_398; // 2026-11-22T03:35:28.398Z

    #[tokio::test]
    async fn those_with_an_id_are_let_in_once_and_names_let_nobody_in() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(FOLDER);
        fs::create_dir_all(&folder).unwrap();
        let write =
            |name: &str, value: Value| fs::write(folder.join(name), value.to_string()).unwrap();
        write(
            "telegram-allowFrom.json",
            json!({"version": 1, "allowFrom": ["7", "tg:8", 9, "@ann", "*", {}]}),
        );
        write("telegram-work-allowFrom.json", json!({"version": 1, "allowFrom": ["7"]}));
        write("webhook-allowFrom.json", json!({"version": 1, "allowFrom": ["ann", "*"]}));
        write("signal-allowFrom.json", json!({"version": 1, "allowFrom": ["1"]}));
        fs::write(folder.join("webhook-work-allowFrom.json"), "{torn").unwrap();
        fs::write(folder.join("other.json"), "secret").unwrap();
        let asks = |id: &str, at: &str, code: &str| {
            json!({"id": id, "code": code, "createdAt": at,
            "lastSeenAt": at, "meta": {"firstName": "Eve]"}})
        };
        write(
            "telegram-pairing.json",
            json!({"version": 1, "requests": [
                asks("5", "2026-11-22T03:30:00.000Z", "ABCD2345"),
                asks("6", "2026-11-22T02:30:00.000Z", "ABCD2346"),
                asks("@x", "2026-11-22T03:30:00.000Z", "ABCD2347"),
                asks("4", "2026-11-22T03:30:00.000Z", "no code")]}),
        );
        let dry = ImportedPeople::take(root.path(), None, true, NOW).await.unwrap();
        assert_eq!((dry.people, dry.known, dry.waiting), (5, 0, 1));
        let left_out: Vec<_> = dry.left_out.iter().map(|it| it.0.as_str()).collect();
        assert_eq!(left_out.len(), 6, "{left_out:?}");
        let store: Arc<dyn Store> =
            Arc::new(SqliteStore::open(&root.path().join("x.sqlite")).unwrap());
        let take = async |is_dry| {
            ImportedPeople::take(root.path(), Some(&store), is_dry, NOW).await.unwrap()
        };
        let here_before = ["7", "7777"].map(|person| ChannelPerson {
            channel: "telegram".into(),
            account: "default".into(),
            person: person.into(),
            name: None,
            approved_at: 1,
        });
        store.import_people(here_before.into()).await.unwrap();
        let again = take(true).await;
        assert_eq!((again.people, again.known, again.waiting), (4, 1, 1));
        let taken = take(false).await;
        assert_eq!(taken, again, "a dry run tells what a real one adds");
        let paired = async |account: &str, person: &str| {
            store.is_paired("telegram".into(), account.into(), person.into()).await.unwrap()
        };
        assert!(paired("default", "8").await && paired("work", "7").await);
        assert!(!paired("work", "8").await && !paired("default", "@ann").await);
        let waiting = store.pairings(NOW).await.unwrap();
        assert_eq!(
            (waiting[0].code.as_str(), waiting[0].name.as_deref()),
            ("ABCD2345", Some("Eve"))
        );
        for is_dry in [true, false] {
            let again = take(is_dry).await;
            assert_eq!((again.people, again.known, again.waiting), (0, 5, 0));
        }
    }
}
