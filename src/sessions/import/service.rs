//! The import itself: files first, then the index.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::super::error::{At, SessionError};
use super::super::rebuild;
use super::super::steps::blocking;
use super::super::{AgentId, KeyRules, SessionKey, paths};
use super::copy::{self, Outcome};
use super::plan::{self, Arrival, Move, Plan, Reach};
use super::report::{ImportReport, LeftOut};
use crate::store::atomic::create_private;
use crate::store::{NewSession, SessionEntry, SessionQuery, SourceNote, Store};

/// Hears how far an import is: bytes that are done, of how many.
pub type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// Where from, where to.
#[derive(Clone)]
pub struct Import {
    /// The state folder to read.
    pub from: PathBuf,
    /// Our state folder.
    pub to: PathBuf,
    /// How keys become canonical here.
    pub rules: KeyRules,
    /// Our index; without one this is a dry run on an empty place.
    pub store: Option<Arc<dyn Store>>,
    /// Indexes besides, which its config names elsewhere, with their agents.
    pub further: Vec<(AgentId, PathBuf)>,
    /// Ids of transcripts that came before and whose sessions were removed here.
    pub removed: HashSet<String>,
    /// Only tells what would be done.
    pub is_dry: bool,
}

/// What is in our index, and what was added to it on the way.
struct Index {
    store: Option<Arc<dyn Store>>,
    added: HashMap<SessionKey, String>,
    /// With their agents.
    labels: HashSet<(AgentId, String)>,
}

impl Import {
    /// Whether what is taken over is in our own state folder.
    pub fn is_in_place(&self) -> bool {
        self.from == self.to
    }

    /// Takes over what is there.
    ///
    /// # Errors
    /// When the source cannot be listed, or our own index or disk fails.
    pub async fn run(&self, progress: Progress) -> Result<ImportReport, SessionError> {
        let from = self.from.clone();
        let looking = blocking(move || paths::agents(&from).at("look into", &from));
        let (agents, others) = looking.await?;
        let index = |agent: AgentId| {
            let path = paths::index(&self.from, &agent);
            (agent, path)
        };
        let indexes = agents.into_iter().map(index).chain(self.further.iter().cloned());
        let mut report = self.take(indexes.collect(), progress).await?;
        report.left_out.extend(others.into_iter().map(|folder| LeftOut {
            what: folder.display().to_string(),
            why: "not the name of an agent".into(),
        }));
        Ok(report)
    }

    /// Takes over what is elsewhere, and nothing of the state folder itself.
    ///
    /// # Errors
    /// When our own index or disk fails.
    pub async fn run_further(&self) -> Result<ImportReport, SessionError> {
        self.take(self.further.clone(), Arc::new(|_: u64, _: u64| ())).await
    }

    async fn take(
        &self,
        indexes: Vec<(AgentId, PathBuf)>,
        progress: Progress,
    ) -> Result<ImportReport, SessionError> {
        let (from, to, rules) = (self.from.clone(), self.to.clone(), self.rules.clone());
        let planning = blocking(move || {
            let of_index = |(agent, index): &(AgentId, PathBuf)| {
                let is_beside = |(_, it): &&(AgentId, PathBuf)| it.parent() == index.parent();
                let reach = match indexes.iter().filter(is_beside).count() {
                    _ if *index == paths::index(&from, agent) => Reach::Folder,
                    1 => Reach::Listed,
                    _ => Reach::Shared,
                };
                plan::of_agent((index.as_path(), reach), &to, agent, &rules)
            };
            Ok(indexes.iter().map(of_index).collect::<Vec<Plan>>())
        });
        let mut plans = planning.await?;
        for plan in &mut plans {
            self.leave_removed(plan);
        }
        let (mut report, mut indexes) = (ImportReport::default(), Vec::new());
        let total = plans.iter().flat_map(|plan| &plan.files).map(|file| file.bytes).sum();
        let mut done = 0;
        let mut index = self.index(&plans).await?;
        for mut plan in plans {
            let mut failed = std::mem::take(&mut plan.unusable);
            for file in std::mem::take(&mut plan.files) {
                let bytes = file.bytes;
                if let Some(from) = self.bring(file, &mut plan, (done, total), &progress).await? {
                    failed.insert(from);
                }
                done += bytes;
                progress(done, total);
            }
            let mut new = Vec::new();
            for session in std::mem::take(&mut plan.sessions) {
                if failed.contains(&session.from) {
                    plan.report.leave_out(&session.key, &"its transcript was not taken over");
                } else {
                    new.extend(self.admit(session, &mut index, &mut plan).await?);
                }
            }
            plan.report.sessions += u64::try_from(new.len()).unwrap_or(u64::MAX);
            if let Some(store) = self.store.as_ref().filter(|_| !self.is_dry) {
                store.create_sessions_if_absent(new).await?;
            }
            let found = plan.index.take().filter(|(from, to)| from != to);
            let agent = AgentId::normalize(&plan.report.agent_id);
            indexes.extend(found.map(|(from, _)| (agent, from)));
            report.agents.push(plan.report);
        }
        self.keep_indexes(indexes, &mut report).await?;
        Ok(report)
    }

    /// Leaves out what came before and is not here any more. A transcript that is in its own
    /// place again was written to by an OpenClaw since: that one comes.
    fn leave_removed(&self, plan: &mut Plan) {
        let sessions = std::mem::take(&mut plan.sessions).into_iter();
        let (out, kept): (Vec<_>, Vec<_>) = sessions.partition(|it| {
            let is_back = || it.from == it.to && plan.files.iter().any(|file| file.from == it.from);
            self.removed.contains(&it.entry.session_id) && !is_back()
        });
        plan.sessions = kept;
        for session in out {
            plan.files.retain(|file| file.from != session.from);
            plan.report.leave_out(&session.key, &"came before and was removed here, or began anew");
        }
    }

    /// An index that is new or was lost is filled from our own files first, so that what
    /// they hold is not taken for something new. What an import brought that was cut off
    /// is left to this one, which knows its keys.
    async fn index(&self, plans: &[Plan]) -> Result<Index, SessionError> {
        let mut index =
            Index { store: self.store.clone(), added: HashMap::new(), labels: HashSet::new() };
        let is_new = match &self.store {
            Some(store) => store.is_index_new().await?,
            None => true,
        };
        if is_new && self.from != self.to {
            let (to, rules) = (self.to.clone(), self.rules.clone());
            let mut found =
                blocking(move || rebuild::find(&to, &rules).at("look into", &to)).await?;
            let files = plans.iter().flat_map(|plan| &plan.files);
            let brought: HashSet<&Path> = files.map(|file| file.to.as_path()).collect();
            found.retain(|new| !self.is_brought(new, &brought));
            for new in &found {
                let key = SessionKey::from_canonical(new.key.as_str());
                index.note(&key, &new.entry, &self.rules);
            }
            if let Some(store) = self.store.as_ref().filter(|_| !self.is_dry) {
                store.create_sessions_if_absent(found).await?;
            }
        }
        Ok(index)
    }

    /// Whether a session is known by nothing but a transcript that comes from there.
    fn is_brought(&self, new: &NewSession, brought: &HashSet<&Path>) -> bool {
        let key = SessionKey::from_canonical(new.key.as_str());
        let agent = key.agent(&self.rules);
        let path = paths::transcript(&paths::folder(&self.to, &agent), &key, &new.entry);
        let is_by_id = key == rebuild::key_of_id(&agent, &new.entry.session_id);
        is_by_id && path.is_ok_and(|path| brought.contains(path.as_path()))
    }

    /// Brings one file; answers its path when it was not taken over.
    async fn bring(
        &self,
        file: Move,
        plan: &mut Plan,
        (done, total): (u64, u64),
        progress: &Progress,
    ) -> Result<Option<PathBuf>, SessionError> {
        let (place, applies, progress) = (file.clone(), !self.is_dry, Arc::clone(progress));
        let brought = blocking(move || {
            let so_far = std::cell::Cell::new(done);
            let passed = |bytes: u64| {
                so_far.set(so_far.get().saturating_add(bytes));
                progress(so_far.get(), total);
            };
            Ok(copy::bring(&place.from, &place.to, applies, &passed))
        });
        let report = &mut plan.report;
        let what = file.from.display().to_string();
        let why = match brought.await? {
            Ok(Outcome::Copied(content)) => {
                report.files += 1;
                report.messages += content.messages;
                report.bytes += content.bytes;
                if content.broken > 0 {
                    let why = format!("{} broken lines in it, kept as they are", content.broken);
                    report.leave_out(&what, &why);
                }
                return Ok(None);
            }
            Ok(Outcome::Known) => {
                report.known_files += 1;
                return Ok(None);
            }
            Ok(Outcome::Differs) => "another file has its name here; that one stays".to_owned(),
            Ok(Outcome::Behind) => {
                "the file here is an earlier state of it; that one stays".to_owned()
            }
            Err(error) => error.to_string(),
        };
        report.leave_out(&what, &why);
        Ok(Some(file.from))
    }

    /// A session as it goes into the index; `None` when it is there already. A
    /// key that means another conversation here keeps it; the one that arrives
    /// goes under the id of its transcript.
    async fn admit(
        &self,
        session: Arrival,
        index: &mut Index,
        plan: &mut Plan,
    ) -> Result<Option<NewSession>, SessionError> {
        let Arrival { mut key, mut entry, .. } = session;
        let there = index.id_of(&key).await?;
        let by_id = rebuild::key_of_id(&key.agent(&self.rules), &entry.session_id);
        if let Some(there) = &there
            && (*there == entry.session_id || index.id_of(&by_id).await?.is_some())
        {
            plan.report.known_sessions += 1;
            return Ok(None);
        }
        let is_named = there.is_none() && self.is_named(&by_id, &mut entry, index).await?;
        // Two sessions would write one transcript.
        if !is_named && let Some(other) = self.holder(&entry.session_id, index).await? {
            let why = format!("its transcript is that of {other} here, which stays the only one");
            plan.report.leave_out(&key, &why);
            return Ok(None);
        }
        if there.is_some() {
            let why = format!("is another conversation here; this one is now {by_id}");
            plan.report.leave_out(&key, &why);
            key = by_id.clone();
        }
        // That of its own row is not in its way.
        let own = is_named.then_some(&by_id);
        if let Some(label) = entry.label.clone()
            && index.has_label(&key.agent(&self.rules), &label, own).await?
        {
            plan.report.leave_out(&key, &format!("without its label, which is taken: {label}"));
            entry.label = None;
        }
        index.note(&key, &entry, &self.rules);
        let agent = key.agent(&self.rules).to_string();
        let new = NewSession { key: key.to_string(), agent, entry };
        if let Some(store) = self.store.as_ref().filter(|_| is_named && !self.is_dry) {
            store.rename_session(by_id.as_str(), new.clone()).await?;
        }
        Ok(Some(new))
    }

    /// Whether a session has its id for a key here, since no index named it then: what was
    /// chosen for it here stays. An OpenClaw elsewhere names nothing that is here.
    async fn is_named(
        &self,
        by_id: &SessionKey,
        entry: &mut SessionEntry,
        index: &Index,
    ) -> Result<bool, SessionError> {
        let is_open = self.is_in_place() && !index.added.contains_key(by_id);
        let Some(store) = self.store.as_ref().filter(|_| is_open) else { return Ok(false) };
        let here = store.session(by_id.as_str()).await?;
        let Some(here) = here.filter(|here| here.session_id == entry.session_id) else {
            return Ok(false);
        };
        *entry = over(entry, here);
        Ok(true)
    }

    /// The session that had this transcript here before the import.
    async fn holder(&self, id: &str, index: &Index) -> Result<Option<String>, SessionError> {
        let Some(store) = &self.store else { return Ok(None) };
        let found = store.session_by_id(id).await?.map(|row| row.key);
        Ok(found.filter(|key| !index.added.contains_key(&SessionKey::from_canonical(key.as_str()))))
    }

    /// Takes OpenClaw's indexes along, where there are none: the keys of its transcripts are
    /// nowhere else, should ours be lost.
    async fn keep_indexes(
        &self,
        indexes: Vec<(AgentId, PathBuf)>,
        report: &mut ImportReport,
    ) -> Result<(), SessionError> {
        if self.is_dry || indexes.is_empty() {
            return Ok(());
        }
        let (to, rules) = (self.to.clone(), self.rules.clone());
        let (brought, failed) = blocking(move || Ok(keep(&indexes, &to, &rules))).await?;
        report.brought.extend(brought);
        report.left_out.extend(failed);
        Ok(())
    }
}

/// What arrives, with everything over it that is known here.
fn over(arriving: &SessionEntry, here: SessionEntry) -> SessionEntry {
    let members = |entry: &SessionEntry| match serde_json::to_value(entry) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    };
    let mut all = members(arriving);
    all.extend(members(&here));
    // To read its many members is compiled for texts alone.
    let both = serde_json::from_str(&Value::Object(all).to_string());
    let transcript = here.transcript.clone();
    SessionEntry { transcript, ..both.unwrap_or(here) }
}

/// Writes the indexes that agents do not have here. Each has its own keys, wherever they were
/// listed: in the folder of another agent nobody would look for their transcripts.
fn keep(
    indexes: &[(AgentId, PathBuf)],
    to: &Path,
    rules: &KeyRules,
) -> (Vec<SourceNote>, Vec<LeftOut>) {
    let mut by_agent: BTreeMap<AgentId, Map<String, Value>> = BTreeMap::new();
    let (mut brought, mut failed, mut unread) = (Vec::new(), Vec::new(), HashSet::new());
    let mut fail = |path: &Path, why: String| {
        failed.push(LeftOut { what: path.display().to_string(), why });
    };
    for (agent, from) in indexes {
        let index = match rebuild::read_index(from) {
            Ok(index) => index,
            Err(error) => {
                fail(from, error.to_string());
                unread.insert(agent);
                continue;
            }
        };
        // One that lists nothing says that nothing else is a session.
        by_agent.entry(agent.clone()).or_default();
        for (name, entry) in index {
            let key = SessionKey::parse_for(&name, agent, rules);
            let owner = if key.names_agent() { key.agent(rules) } else { agent.clone() };
            by_agent.entry(owner).or_default().entry(name).or_insert(entry);
        }
    }
    for (agent, index) in by_agent {
        let path = paths::index(to, &agent);
        if path.exists() || unread.contains(&agent) {
            continue;
        }
        match create_private(&path, Value::Object(index).to_string().as_bytes()) {
            Ok(true) => brought.push(SourceNote::of(&path)),
            Ok(false) => {}
            Err(error) => fail(&path, error.to_string()),
        }
    }
    (brought, failed)
}

impl Index {
    fn note(&mut self, key: &SessionKey, entry: &SessionEntry, rules: &KeyRules) {
        self.added.insert(key.clone(), entry.session_id.clone());
        self.labels.extend(entry.label.clone().map(|label| (key.agent(rules), label)));
    }

    /// The transcript id of a session that is there.
    async fn id_of(&self, key: &SessionKey) -> Result<Option<String>, SessionError> {
        if let Some(id) = self.added.get(key) {
            return Ok(Some(id.clone()));
        }
        let Some(store) = &self.store else { return Ok(None) };
        Ok(store.session(key.as_str()).await?.map(|entry| entry.session_id))
    }

    /// Whether a session has the label, other than this one.
    async fn has_label(
        &self,
        agent: &AgentId,
        label: &str,
        own: Option<&SessionKey>,
    ) -> Result<bool, SessionError> {
        if self.labels.contains(&(agent.clone(), label.to_owned())) {
            return Ok(true);
        }
        let Some(store) = &self.store else { return Ok(false) };
        let query = SessionQuery {
            limit: Some(2),
            agent: Some(agent.to_string()),
            label: Some(label.to_owned()),
            include_global: true,
            include_unknown: true,
            ..SessionQuery::default()
        };
        let found = store.list_sessions(query).await?.entries;
        Ok(found.iter().any(|row| own.is_none_or(|own| row.key != own.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_cannot_be_read_is_kept_as_none() {
        let root = tempfile::tempdir().unwrap();
        let (broken, whole) = (root.path().join("broken.json"), root.path().join("whole.json"));
        std::fs::write(&broken, "{").unwrap();
        std::fs::write(&whole, r#"{"agent:main:one": {}}"#).unwrap();
        let [main, other] = ["main", "other"].map(AgentId::normalize);
        let indexes = [(main.clone(), broken.clone()), (other.clone(), whole)];
        let to = root.path().join("state");
        for agent in [&main, &other] {
            std::fs::create_dir_all(paths::folder(&to, agent)).unwrap();
        }
        let (brought, failed) = keep(&indexes, &to, &KeyRules::default());
        assert_eq!(brought, [SourceNote::of(&paths::index(&to, &other))]);
        let failed: Vec<_> = failed.into_iter().map(|one| one.what).collect();
        assert_eq!(failed, [broken.display().to_string()]);
        assert!(!paths::index(&to, &main).exists());
    }
}
