//! The import itself: files first, then the index.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::error::{At, SessionError};
use super::super::rebuild;
use super::super::steps::blocking;
use super::super::{AgentId, KeyRules, SessionKey, paths};
use super::copy::{self, Outcome};
use super::plan::{self, Arrival, Move, Plan};
use super::report::{ImportReport, LeftOut};
use crate::store::atomic::create_private;
use crate::store::{NewSession, SessionEntry, SessionQuery, Store};

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
    /// Takes over what is there.
    ///
    /// # Errors
    /// When the source cannot be listed, or our own index or disk fails.
    pub async fn run(&self, progress: Progress) -> Result<ImportReport, SessionError> {
        let (from, to, rules) = (self.from.clone(), self.to.clone(), self.rules.clone());
        let planning = blocking(move || {
            let (agents, others) = paths::agents(&from).at("look into", &from)?;
            let of_agent = |agent: AgentId| plan::of_agent(&from, &to, &agent, &rules);
            Ok((agents.into_iter().map(of_agent).collect::<Vec<_>>(), others))
        });
        let (plans, others) = planning.await?;
        let mut report = ImportReport::default();
        report.left_out.extend(others.into_iter().map(|folder| LeftOut {
            what: folder.display().to_string(),
            why: "not the name of an agent".into(),
        }));
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
            self.keep_index(&mut plan).await?;
            report.agents.push(plan.report);
        }
        Ok(report)
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
        if let Some(there) = index.id_of(&key).await? {
            let by_id = rebuild::key_of_id(&key.agent(&self.rules), &entry.session_id);
            if there == entry.session_id || index.id_of(&by_id).await?.is_some() {
                plan.report.known_sessions += 1;
                return Ok(None);
            }
            let why = format!("is another conversation here; this one is now {by_id}");
            plan.report.leave_out(&key, &why);
            key = by_id;
        }
        if let Some(label) = entry.label.clone()
            && index.has_label(&key.agent(&self.rules), &label).await?
        {
            plan.report.leave_out(&key, &format!("without its label, which is taken: {label}"));
            entry.label = None;
        }
        index.note(&key, &entry, &self.rules);
        let agent = key.agent(&self.rules).to_string();
        Ok(Some(NewSession { key: key.to_string(), agent, entry }))
    }

    /// Takes OpenClaw's index along, if there is none: the keys of its
    /// transcripts are nowhere else, should ours be lost.
    async fn keep_index(&self, plan: &mut Plan) -> Result<(), SessionError> {
        let Some((from, to)) = plan.index.take().filter(|_| !self.is_dry) else { return Ok(()) };
        let what = from.display().to_string();
        let keeping = blocking(move || Ok(keep(&from, &to)));
        if let Err(error) = keeping.await? {
            plan.report.leave_out(&what, &error);
        }
        Ok(())
    }
}

fn keep(from: &Path, to: &Path) -> io::Result<()> {
    if !to.exists() {
        create_private(to, &fs::read(from)?).map_err(io::Error::other)?;
    }
    Ok(())
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

    async fn has_label(&self, agent: &AgentId, label: &str) -> Result<bool, SessionError> {
        if self.labels.contains(&(agent.clone(), label.to_owned())) {
            return Ok(true);
        }
        let Some(store) = &self.store else { return Ok(false) };
        let query = SessionQuery {
            limit: Some(1),
            agent: Some(agent.to_string()),
            label: Some(label.to_owned()),
            include_global: true,
            include_unknown: true,
            ..SessionQuery::default()
        };
        Ok(!store.list_sessions(query).await?.entries.is_empty())
    }
}
