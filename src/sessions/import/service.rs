//! The import itself: files first, then the index.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::error::{At, SessionError};
use super::super::steps::blocking;
use super::super::{AgentId, KeyRules, paths};
use super::copy::{self, Outcome};
use super::plan::{self, Arrival, Move, Plan, Reach};
use super::report::{ImportReport, LeftOut};
use crate::store::Store;

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
    /// Ids of transcripts that came before and whose sessions were removed here, and when
    /// each had changed last there, if that is known.
    pub removed: BTreeMap<String, Option<u64>>,
    /// Only tells what would be done.
    pub is_dry: bool,
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
            let plans: Vec<_> = indexes.iter().map(of_index).collect();
            let left_out = plan::unclaimed(&plans, &to);
            Ok((plans, left_out))
        });
        let (mut plans, left_out) = planning.await?;
        self.leave_removed(&mut plans);
        let total = plans.iter().flat_map(|plan| &plan.files).map(|file| file.bytes).sum();
        let mut done = 0;
        let mut index = self.index(&plans).await?;
        let mut report = ImportReport { left_out, ..ImportReport::default() };
        // Should this be cut off, a database that is filled from the copies needs their keys.
        // In place it gets them from where they are; of our own files it is to know before
        // an index stands beside them.
        if !self.is_in_place() {
            self.keep_indexes(&plans, &mut report).await?;
        }
        for plan in &mut plans {
            for file in std::mem::take(&mut plan.files) {
                let bytes = file.bytes;
                if let Some(from) = self.bring(file, plan, (done, total), &progress).await? {
                    plan.unusable.insert(from);
                }
                done += bytes;
                progress(done, total);
            }
        }
        self.admit_all(&mut plans, &mut index).await?;
        if let Some(store) = self.store.as_ref().filter(|_| !self.is_dry) {
            store.create_sessions_if_absent(index.new).await?;
        }
        if self.is_in_place() {
            self.keep_indexes(&plans, &mut report).await?;
        }
        let agents = plans.into_iter().map(|plan| plan.report).collect();
        Ok(ImportReport { agents, seen: index.seen, ..report })
    }

    /// Leaves out what came before and is not here any more, unless an OpenClaw has gone on
    /// with it since. What several indexes list is told once, and not when it comes.
    fn leave_removed(&self, plans: &mut [Plan]) {
        let (mut coming, mut removed) = (HashSet::new(), Vec::new());
        for plan in &mut *plans {
            let sessions = std::mem::take(&mut plan.sessions).into_iter();
            let files: HashSet<&Path> = plan.files.iter().map(|file| file.from.as_path()).collect();
            let (gone, kept): (Vec<_>, Vec<_>) =
                sessions.partition(|it| self.is_removed(it, &files));
            let mut stay: HashSet<&Path> = gone.iter().map(|it| it.from.as_path()).collect();
            // Two keys may have one transcript.
            for session in &kept {
                stay.remove(session.from.as_path());
            }
            plan.files.retain(|file| !stay.contains(file.from.as_path()));
            coming.extend(kept.iter().map(|it| it.entry.session_id.clone()));
            plan.sessions = kept;
            removed.push(gone);
        }
        for (plan, gone) in plans.iter_mut().zip(removed) {
            for Arrival { key, entry, .. } in &gone {
                if !coming.contains(&entry.session_id) {
                    let why = "came before and was removed here, or began anew";
                    plan.report.leave_out(key, &why);
                }
            }
            coming.extend(gone.into_iter().map(|it| it.entry.session_id));
        }
    }

    /// Whether a session was removed here, and is there as it was before.
    fn is_removed(&self, session: &Arrival, files: &HashSet<&Path>) -> bool {
        let Some(before) = self.removed.get(&session.entry.session_id) else { return false };
        // Where no time was noted, a transcript that is in its own place again was written to,
        // and of another state directory nothing is known.
        let may_have = session.from == session.to || !self.is_in_place();
        let has_gone_on = before.map_or(may_have, |at| session.entry.updated_at > at);
        !has_gone_on || !files.contains(session.from.as_path())
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
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::sync::Notify;

    use super::super::super::rebuild;
    use super::*;

    /// Writes the transcript `id` of an agent.
    fn write(import: &Import, agent: &str, id: &str) {
        let folder = paths::folder(&import.from, &AgentId::normalize(agent));
        fs::create_dir_all(&folder).unwrap();
        let header = format!(
            "{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\",\
             \"timestamp\":\"2026-11-22T03:35:28.398Z\",\"cwd\":\"/w\"}}\n"
        );
        fs::write(folder.join(format!("{id}.jsonl")), header).unwrap();
    }

    /// Of a state directory where each of these agents has a session.
    fn import(root: &Path, agents: &[&str]) -> Import {
        let import = Import {
            from: root.join("there"),
            to: root.join("here"),
            rules: KeyRules::default(),
            store: None,
            further: Vec::new(),
            removed: BTreeMap::new(),
            is_dry: false,
        };
        for agent in agents {
            let id = format!("s-{agent}");
            write(&import, agent, &id);
            let index = paths::index(&import.from, &AgentId::normalize(agent));
            let entry = format!("{{\"sessionId\":\"{id}\",\"updatedAt\":1}}");
            fs::write(index, format!("{{\"agent:{agent}:work\":{entry}}}")).unwrap();
        }
        import
    }

    /// How many sessions of each agent would come.
    async fn would_come(import: Import) -> Vec<u64> {
        let import = Import { is_dry: true, ..import };
        let report = Box::pin(import.run(Arc::new(|_: u64, _: u64| ()))).await.unwrap();
        report.agents.iter().map(|agent| agent.sessions).collect()
    }

    #[tokio::test]
    async fn an_import_that_is_cut_off_leaves_the_keys_of_all_agents() {
        let root = tempfile::tempdir().unwrap();
        let import = import(root.path(), &["main", "ops", "third"]);
        let begun = Arc::new(Notify::new());
        let copies = Arc::clone(&begun);
        let progress: Progress = Arc::new(move |_: u64, _: u64| copies.notify_one());
        tokio::select! {
            biased;
            () = begun.notified() => {}
            report = Box::pin(import.run(progress)) => drop(report.unwrap()),
        }
        let found = rebuild::find(&import.to, &import.rules).unwrap();
        let keys: Vec<_> = found.iter().map(|new| new.key.as_str()).collect();
        assert_eq!(keys, ["agent:main:work", "agent:ops:work", "agent:third:work"]);
    }

    #[tokio::test]
    async fn what_was_removed_at_an_unknown_time_comes_from_another_directory() {
        let root = tempfile::tempdir().unwrap();
        let of = |at| {
            let removed = BTreeMap::from([("s-main".to_owned(), at)]);
            would_come(Import { removed, ..import(root.path(), &["main"]) })
        };
        assert_eq!(of(None).await, [1]);
        assert_eq!(of(Some(1)).await, [0], "it is as it was then");
    }

    #[tokio::test]
    async fn a_transcript_comes_with_the_key_that_went_on_where_another_was_removed() {
        let root = tempfile::tempdir().unwrap();
        let import = import(root.path(), &["main"]);
        let index = paths::index(&import.from, &AgentId::normalize("main"));
        let entry = |at: u64| format!("{{\"sessionId\":\"s-main\",\"updatedAt\":{at}}}");
        let (old, new) = (entry(1), entry(9));
        fs::write(index, format!("{{\"agent:main:a\":{old},\"agent:main:b\":{new}}}")).unwrap();
        let removed = BTreeMap::from([("s-main".to_owned(), Some(5))]);
        let import = Import { removed, ..import };
        let report = Box::pin(import.run(Arc::new(|_: u64, _: u64| ()))).await.unwrap();
        let agent = &report.agents[0];
        assert_eq!((agent.files, agent.sessions), (1, 1), "{:?}", agent.left_out);
    }

    #[tokio::test]
    async fn a_transcript_without_a_key_is_not_that_of_another_agent() {
        let root = tempfile::tempdir().unwrap();
        let import = import(root.path(), &["main"]);
        write(&import, "ops", "s-main");
        assert_eq!(would_come(import).await, [1, 1]);
    }
}
