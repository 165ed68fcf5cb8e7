//! Which sessions come into our index, and under which keys.
//!
//! Promises: a session that is here keeps what it has; a transcript is that of one
//! session. Must not: touch files.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::super::error::{At, SessionError};
use super::super::rebuild;
use super::super::steps::blocking;
use super::super::{AgentId, SessionKey, paths};
use super::plan::{Arrival, Plan};
use super::report::AgentImport;
use super::service::Import;
use crate::store::{NewSession, SessionEntry, SessionQuery, Store, TranscriptFacts};

/// What is in our index, and what comes to it.
pub(super) struct Index {
    store: Option<Arc<dyn Store>>,
    added: HashMap<SessionKey, String>,
    /// Where each of what was added is in what is to be written, if it is, by its agent and id.
    ids: HashMap<(AgentId, String), Option<usize>>,
    /// With their agents.
    labels: HashSet<(AgentId, String)>,
    /// What is to be written.
    pub new: Vec<NewSession>,
    /// Ids of what is here now, and when it had changed last where it came from.
    pub seen: Vec<(String, u64)>,
}

impl Import {
    /// An index that is new or was lost is filled from our own files first, so that what
    /// they hold is not taken for something new. What an import brought that was cut off
    /// is left to this one, which knows its keys.
    pub(super) async fn index(&self, plans: &[Plan]) -> Result<Index, SessionError> {
        let mut index = Index {
            store: self.store.clone(),
            added: HashMap::new(),
            ids: HashMap::new(),
            labels: HashSet::new(),
            new: Vec::new(),
            seen: Vec::new(),
        };
        let is_new = match &self.store {
            Some(store) => store.is_index_new().await?,
            None => true,
        };
        if is_new && !self.is_in_place() {
            let (to, rules) = (self.to.clone(), self.rules.clone());
            let mut found =
                blocking(move || rebuild::find(&to, &rules).at("look into", &to)).await?;
            let files = plans.iter().flat_map(|plan| &plan.files);
            let brought: HashSet<&Path> = files.map(|file| file.to.as_path()).collect();
            found.retain(|new| !self.is_brought(new, &brought));
            for new in &found {
                let key = SessionKey::from_canonical(new.key.as_str());
                index.note(&key, &new.entry, key.agent(&self.rules), None);
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
        let path =
            paths::transcript(&paths::folder(&self.to, &key.agent(&self.rules)), &key, &new.entry);
        let is_by_id = key == self.by_id(&key, &new.entry);
        is_by_id && path.is_ok_and(|path| brought.contains(path.as_path()))
    }

    /// The key that a session has when nothing tells one.
    fn by_id(&self, key: &SessionKey, entry: &SessionEntry) -> SessionKey {
        rebuild::key_of_id(&key.agent(&self.rules), &entry.session_id)
    }

    /// Takes the sessions of all agents in. Those that have keys come first: what has none
    /// is one of them, maybe.
    pub(super) async fn admit_all(
        &self,
        plans: &mut [Plan],
        index: &mut Index,
    ) -> Result<(), SessionError> {
        for are_by_id in [false, true] {
            for plan in &mut *plans {
                let sessions = std::mem::take(&mut plan.sessions).into_iter();
                let is_turn =
                    |it: &Arrival| (it.key == self.by_id(&it.key, &it.entry)) == are_by_id;
                let (sessions, later): (Vec<_>, Vec<_>) = sessions.partition(is_turn);
                plan.sessions = later;
                for session in sessions {
                    if plan.unusable.contains(&session.from) {
                        plan.report.leave_out(&session.key, &"its transcript was not taken over");
                        continue;
                    }
                    let entry = &session.entry;
                    index.seen.push((entry.session_id.clone(), entry.updated_at));
                    let admitted = Box::pin(self.admit(session, index, &mut plan.report)).await?;
                    plan.report.sessions += u64::from(admitted.is_some());
                    index.new.extend(admitted);
                }
            }
        }
        Ok(())
    }

    /// A session as it goes into the index; `None` when it is there already. A
    /// key that means another conversation here keeps it; the one that arrives
    /// goes under the id of its transcript.
    async fn admit(
        &self,
        session: Arrival,
        index: &mut Index,
        report: &mut AgentImport,
    ) -> Result<Option<NewSession>, SessionError> {
        let Arrival { mut key, mut entry, .. } = session;
        let there = index.id_of(&key).await?;
        let by_id = self.by_id(&key, &entry);
        if let Some(there) = &there
            && (*there == entry.session_id || index.id_of(&by_id).await?.is_some())
        {
            self.tell_facts(&key, entry).await?;
            report.known_sessions += 1;
            return Ok(None);
        }
        let is_named = there.is_none() && self.is_named(&by_id, &mut entry, index).await?;
        let other = if is_named { None } else { index.holder(&entry.session_id).await? };
        let agent = key.agent(&self.rules);
        // Nothing tells its key, and it has one. That of another agent is another file.
        let of = (agent.clone(), entry.session_id.clone());
        let is_here = other.as_ref().is_some_and(|other| other.agent(&self.rules) == agent);
        if key == by_id && (is_here || index.ids.contains_key(&of)) {
            index.tell_facts(&of, entry);
            report.known_sessions += 1;
            return Ok(None);
        }
        // Two sessions would write one transcript.
        if let Some(other) = other {
            let why = format!("its transcript is that of {other} here, which stays the only one");
            report.leave_out(&key, &why);
            return Ok(None);
        }
        if there.is_some() {
            let why = format!("is another conversation here; this one is now {by_id}");
            report.leave_out(&key, &why);
            key = by_id.clone();
        }
        // That of its own row is not in its way.
        let own = is_named.then_some(&by_id);
        if let Some(label) = entry.label.clone()
            && index.has_label(&agent, &label, own).await?
        {
            report.leave_out(&key, &format!("without its label, which is taken: {label}"));
            entry.label = None;
        }
        let at = index.new.len();
        index.note(&key, &entry, agent.clone(), Some(at));
        let new = NewSession { key: key.to_string(), agent: agent.to_string(), entry };
        if let Some(store) = self.store.as_ref().filter(|_| is_named && !self.is_dry) {
            store.rename_session(by_id.as_str(), new.clone()).await?;
        }
        Ok(Some(new))
    }

    /// Gives a session that is here what its transcript tells, which came later.
    async fn tell_facts(&self, key: &SessionKey, told: SessionEntry) -> Result<(), SessionError> {
        let Some(store) = self.store.as_ref().filter(|_| !self.is_dry) else { return Ok(()) };
        let here = store.session(key.as_str()).await?;
        if here.is_some_and(|here| is_blank(&here, &told.session_id)) {
            let change = move |here: &mut SessionEntry| {
                if is_blank(here, &told.session_id) {
                    here.transcript = told.transcript;
                }
            };
            store.update_session(key.as_str(), Box::new(change)).await?;
        }
        Ok(())
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
}

/// Whether nothing is known of a transcript, and it is this one.
fn is_blank(entry: &SessionEntry, id: &str) -> bool {
    entry.session_id == id && entry.transcript == TranscriptFacts::default()
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

impl Index {
    fn note(&mut self, key: &SessionKey, entry: &SessionEntry, agent: AgentId, at: Option<usize>) {
        self.added.insert(key.clone(), entry.session_id.clone());
        self.ids.entry((agent.clone(), entry.session_id.clone())).or_insert(at);
        self.labels.extend(entry.label.clone().map(|label| (agent, label)));
    }

    /// The transcript id of a session that is there.
    async fn id_of(&self, key: &SessionKey) -> Result<Option<String>, SessionError> {
        if let Some(id) = self.added.get(key) {
            return Ok(Some(id.clone()));
        }
        let Some(store) = &self.store else { return Ok(None) };
        Ok(store.session(key.as_str()).await?.map(|entry| entry.session_id))
    }

    /// The session that had this transcript here before the import.
    async fn holder(&self, id: &str) -> Result<Option<SessionKey>, SessionError> {
        let Some(store) = &self.store else { return Ok(None) };
        let found = store.session_by_id(id).await?.map(|row| SessionKey::from_canonical(row.key));
        Ok(found.filter(|key| !self.added.contains_key(key)))
    }

    /// Gives the session that was added what its transcript tells: an index elsewhere may
    /// not have that beside it.
    fn tell_facts(&mut self, of: &(AgentId, String), told: SessionEntry) {
        // One that is written already has no place.
        let added = self.ids.get(of).and_then(|at| self.new.get_mut((*at)?));
        if let Some(blank) = added.filter(|it| is_blank(&it.entry, &of.1)) {
            blank.entry.transcript = told.transcript;
        }
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
