//! Which indexes there are to take over, and whether they are still as they were.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use super::super::error::{At, SessionError};
use super::super::rebuild::{Files, of_agent, read_index, remedy};
use super::super::{AgentId, KeyRules, SessionId, SessionKey, paths};
use crate::store::{
    SessionEntry, SessionQuery, SourceNote, Store, StoreError, is_earlier_beside, sessions_beside,
    sources_beside,
};
use crate::support::{blocking, sort};

/// What stands for an agent in the place of an index.
const AGENT: &str = "{agentId}";

/// The indexes of OpenClaw that belong to a state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Indexes {
    /// The state directory.
    pub state_dir: PathBuf,
    /// The place that its config names, if it does, with `{agentId}` for the agent.
    pub named: Option<PathBuf>,
    /// The agents of its config, the default one first.
    pub agents: Vec<AgentId>,
}

impl Indexes {
    /// Those that are where the config says, and not in the state directory. Blocks.
    pub fn further(&self) -> Vec<(AgentId, PathBuf)> {
        let Some(named) = &self.named else { return Vec::new() };
        let text = named.to_string_lossy();
        let usual = |agent: &AgentId| paths::index(&self.state_dir, agent);
        let found: Vec<_> = if text.contains(AGENT) {
            let mut agents = self.agents.clone();
            agents.extend(beside(named));
            sort::plain(&mut agents);
            agents.dedup();
            let place = |agent: AgentId| {
                let path = PathBuf::from(text.replace(AGENT, agent.as_str()));
                (agent, path)
            };
            agents.into_iter().map(place).collect()
        } else {
            let default = self.agents.first().map(|agent| (agent.clone(), named.clone()));
            Vec::from_iter(default)
        };
        let is_new = |(agent, path): &(AgentId, PathBuf)| path.is_file() && *path != usual(agent);
        found.into_iter().filter(is_new).collect()
    }

    /// All of them as they are now, with what notes that they were looked at. Blocks.
    pub fn notes(&self) -> Vec<SourceNote> {
        let mut notes = vec![SourceNote::of(&mark(&self.state_dir))];
        notes.extend(usual(&self.state_dir).iter().map(|path| SourceNote::of(path)));
        notes.extend(self.further().iter().map(|(_, path)| SourceNote::of(path)));
        notes
    }

    /// Whether they were looked at.
    pub fn are_noted(&self, notes: &[SourceNote]) -> bool {
        is_noted(notes, &mark(&self.state_dir))
    }

    /// Those that the config names and that were not there at the look, or not named. Blocks.
    pub fn passed_over(&self, notes: &[SourceNote]) -> Vec<PathBuf> {
        if !self.are_noted(notes) {
            return Vec::new();
        }
        let further = self.further().into_iter().map(|(_, path)| path);
        further.filter(|path| !is_noted(notes, path)).collect()
    }

    /// Notes the look beside these `notes`, with the ids of the sessions whose transcripts are
    /// here now, and of those that were when it was noted before: each with when its session
    /// had changed last, as it was `seen` where it came from, or else here. What an import that
    /// was cut off has not brought has not come. What noted a removal by itself is part of it
    /// then, and goes.
    ///
    /// # Errors
    /// When our own index fails.
    pub async fn note(
        &self,
        store: &dyn Store,
        seen: Vec<(String, u64)>,
        mut notes: Vec<SourceNote>,
    ) -> Result<(), StoreError> {
        let before = store.sources().await?;
        let mark = mark(&self.state_dir);
        let removals: Vec<_> =
            before.iter().filter(|note| is_removal(note, &mark)).cloned().collect();
        let mut came = self.came(before);
        let state_dir = self.state_dir.clone();
        let there = blocking(move || transcripts(&state_dir)).await.unwrap_or_default();
        for entry in sessions_here(store).await? {
            let named = entry.session_file.as_deref().and_then(paths::stem);
            if there.contains(named.as_ref().map_or(entry.session_id.as_str(), SessionId::as_str)) {
                let last = came.entry(entry.session_id).or_default();
                *last = last.or(Some(entry.updated_at));
            }
        }
        for (id, at) in seen {
            let last = came.entry(id).or_default();
            *last = (*last).max(Some(at));
        }
        let text = |(id, at): (String, Option<u64>)| match at {
            Some(at) => timed(&id, at),
            None => id,
        };
        let path = mark.display().to_string();
        let ids = came.into_iter().map(text).collect();
        notes.push(SourceNote { path, print: String::new(), ids });
        store.note_sources(notes).await?;
        store.drop_sources(removals).await
    }

    /// The ids of transcripts that were noted, and are no more those of sessions here; with
    /// when the session had changed last, if that was noted.
    ///
    /// # Errors
    /// When our own index fails.
    pub async fn removed(
        &self,
        store: &dyn Store,
    ) -> Result<BTreeMap<String, Option<u64>>, StoreError> {
        let mut came = self.came(store.sources().await?);
        for entry in sessions_here(store).await? {
            came.remove(&entry.session_id);
        }
        Ok(came)
    }

    /// What is told of those that cannot be read, and what helps. Blocks.
    pub fn unreadable(&self) -> Vec<(String, String)> {
        let further = self.further().into_iter().map(|(_, path)| path);
        let told = |path: PathBuf| {
            let error = read_index(&path).err()?;
            Some((format!("{} cannot be read: {error}", path.display()), remedy(&path)))
        };
        usual(&self.state_dir).into_iter().chain(further).filter_map(told).collect()
    }

    /// Transcripts here of which no session of our index knows, and that nobody has left over
    /// on purpose: those of sessions that the index has lost. Blocks.
    ///
    /// # Errors
    /// When our own index, or a folder of transcripts, cannot be read.
    pub fn unlisted(
        &self,
        rules: &KeyRules,
        database: &Path,
    ) -> Result<Vec<PathBuf>, SessionError> {
        if is_earlier_beside(database)? {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for agent in &self.agents {
            let index = paths::index(&self.state_dir, agent);
            let folder = paths::folder(&self.state_dir, agent);
            let sessions = of_agent(&index, (agent, rules), Files::Move, &mut Vec::new());
            for new in sessions.at("look into", &folder)? {
                let key = SessionKey::from_canonical(new.key.as_str());
                let path = paths::transcript(&folder, &key, &new.entry);
                found.extend(path.ok().filter(|path| path.is_file()).map(|path| (path, new.entry)));
            }
        }
        // Read after that: a session that has begun meanwhile is in it. A new one is filled
        // at the next start, as one of an earlier release is completed.
        let Some(rows) = sessions_beside(database)? else { return Ok(Vec::new()) };
        let stem = |path: &str| Some(paths::stem(path)?.as_str().to_owned());
        let files = rows.iter().filter_map(|row| stem(row.entry.session_file.as_deref()?));
        let mut known: HashSet<_> = files.collect();
        known.extend(rows.iter().map(|row| row.entry.session_id.clone()));
        known.extend(self.came(sources_beside(database)?).into_keys());
        let is_known = |path: &Path, entry: &SessionEntry| {
            let file = path.to_str().and_then(stem);
            known.contains(&entry.session_id) || file.is_some_and(|id| known.contains(&id))
        };
        found.retain(|(path, entry)| !is_known(path, entry));
        Ok(found.into_iter().map(|(path, _)| path).collect())
    }

    /// What the looks have noted, each removal of a session whose transcript stayed, and what is
    /// to be put away.
    fn came(&self, notes: Vec<SourceNote>) -> BTreeMap<String, Option<u64>> {
        let mark = mark(&self.state_dir);
        let is_ours = |note: &SourceNote| {
            let is_look = Path::new(&note.path) == mark;
            is_look || is_removal(note, &mark) || read_leaving(note).is_some()
        };
        let notes = notes.into_iter().filter(is_ours);
        let mut came: BTreeMap<String, Option<u64>> = BTreeMap::new();
        for text in notes.flat_map(|note| note.ids) {
            let (id, at) = match text.split_once(' ') {
                Some((id, at)) => (id, at.parse::<u64>().ok()),
                None => (text.as_str(), None),
            };
            let last = came.entry(id.to_owned()).or_default();
            *last = (*last).max(at);
        }
        came
    }
}

/// What notes that a session was removed while its transcript stays: no import takes that
/// for something new, unless an OpenClaw goes on with it.
pub(in crate::sessions) fn kept(state_dir: &Path, id: &str, now_ms: u64) -> SourceNote {
    let path = mark(state_dir).join(id).display().to_string();
    SourceNote { path, print: String::new(), ids: vec![timed(id, now_ms)] }
}

/// Whether a note is one of those.
fn is_removal(note: &SourceNote, mark: &Path) -> bool {
    note.print.is_empty() && Path::new(&note.path).parent() == Some(mark)
}

/// What notes that a transcript is to be put away: `what` is the reason, and the key of its
/// session after a space, which the print of a file does not have. Until then no import takes it
/// for something new, by whichever id: OpenClaw may keep a file for a session that begins anew.
pub(in crate::sessions) fn leaving(file: &Path, what: &str, id: &str, now_ms: u64) -> SourceNote {
    let path = file.display().to_string();
    let named = paths::stem(&path).filter(|stem| stem.as_str() != id);
    let ids = [id].into_iter().chain(named.as_ref().map(SessionId::as_str));
    let ids = ids.map(|id| timed(id, now_ms)).collect();
    SourceNote { path, print: what.to_owned(), ids }
}

/// The reason, the key and the id of the session of such a note; `None` for another one.
pub(in crate::sessions) fn read_leaving(note: &SourceNote) -> Option<(&str, &str, &str)> {
    paths::stem(&note.path)?;
    let (reason, key) = note.print.split_once(' ')?;
    let (id, _) = note.ids.first()?.split_once(' ')?;
    Some((reason, key, id))
}

fn timed(id: &str, at: u64) -> String {
    format!("{id} {at}")
}

/// The files of another program that are others than those that were taken over, those
/// among them that are new. Blocks.
pub fn changed_sources(state_dir: &Path, notes: &[SourceNote]) -> Vec<PathBuf> {
    let mark = mark(state_dir);
    let is_other = |note: &&SourceNote| !is_removal(note, &mark) && read_leaving(note).is_none();
    let changed = notes.iter().filter(is_other).filter(|note| note.has_changed());
    let mut found: Vec<_> = changed.map(|note| PathBuf::from(&note.path)).collect();
    if is_noted(notes, &mark) {
        found.extend(usual(state_dir).into_iter().filter(|path| !is_noted(notes, path)));
    }
    sort::plain(&mut found);
    found
}

/// The folder of agents stands for the look itself.
fn mark(state_dir: &Path) -> PathBuf {
    state_dir.join("agents")
}

/// What our index knows of all sessions.
async fn sessions_here(store: &dyn Store) -> Result<Vec<SessionEntry>, StoreError> {
    let all =
        SessionQuery { include_global: true, include_unknown: true, ..SessionQuery::default() };
    let rows = store.list_sessions(all).await?.entries.into_iter();
    Ok(rows.map(|row| row.entry).collect())
}

/// The ids in the names of all transcripts of a state directory. Blocks.
fn transcripts(state_dir: &Path) -> HashSet<String> {
    let (agents, _) = paths::agents(state_dir).unwrap_or_default();
    let files = agents
        .iter()
        .flat_map(|agent| paths::children(&paths::folder(state_dir, agent)).unwrap_or_default());
    files.filter_map(|path| Some(paths::stem(path.to_str()?)?.as_str().to_owned())).collect()
}

fn is_noted(notes: &[SourceNote], path: &Path) -> bool {
    notes.iter().any(|note| Path::new(&note.path) == path)
}

/// The indexes that are where OpenClaw has them when its config names no other place.
fn usual(state_dir: &Path) -> Vec<PathBuf> {
    let (agents, _) = paths::agents(state_dir).unwrap_or_default();
    let indexes = agents.iter().map(|agent| paths::index(state_dir, agent));
    indexes.filter(|path| path.is_file()).collect()
}

/// Agents that have a folder where the place of an index has their names.
fn beside(named: &Path) -> Vec<AgentId> {
    let folder: PathBuf = named.iter().take_while(|name| *name != AGENT).collect();
    if folder == *named {
        return Vec::new();
    }
    let children = paths::children(&folder).unwrap_or_default();
    let found = children.iter().filter_map(|path| path.file_name()?.to_str());
    found
        .filter(|name| AgentId::normalize(name).as_str() == *name)
        .map(AgentId::normalize)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::store::{SourceStore, SqliteStore};

    #[test]
    fn indexes_are_found_where_the_config_names_them() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path();
        for path in
            ["x/main/a/sessions.json", "x/ops/a/sessions.json", "x/No Agent/a/sessions.json"]
        {
            fs::create_dir_all(dir.join(path).parent().unwrap()).unwrap();
            fs::write(dir.join(path), "{}").unwrap();
        }
        let of = |named: &str| {
            let agents = vec![AgentId::normalize("main"), AgentId::normalize("idle")];
            let named = Some(dir.join(named));
            let found = Indexes { state_dir: dir.join("state"), named, agents }.further();
            let shown = |(agent, path): (AgentId, PathBuf)| {
                (agent.to_string(), path.strip_prefix(dir).unwrap().display().to_string())
            };
            found.into_iter().map(shown).collect::<Vec<_>>()
        };
        let pair = |agent: &str, path: &str| (agent.to_owned(), path.to_owned());
        let each = [pair("main", "x/main/a/sessions.json"), pair("ops", "x/ops/a/sessions.json")];
        assert_eq!(of("x/{agentId}/a/sessions.json"), each);
        assert_eq!(of("x/ops/a/sessions.json"), [pair("main", "x/ops/a/sessions.json")]);
        assert_eq!(of("x/none.json"), []);
        fs::create_dir_all(dir.join("state/agents/main/sessions")).unwrap();
        fs::write(dir.join("state/agents/main/sessions/sessions.json"), "{}").unwrap();
        assert_eq!(
            of("state/agents/{agentId}/sessions/sessions.json"),
            [],
            "that is the usual one"
        );
    }

    #[test]
    fn an_index_that_is_new_or_another_one_has_changed() {
        let root = tempfile::tempdir().unwrap();
        let write = |agent: &str, text: &str| {
            let path = root.path().join("agents").join(agent).join("sessions/sessions.json");
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        };
        let state_dir = root.path().to_owned();
        let indexes = Indexes { state_dir, named: None, agents: Vec::new() };
        let first = write("main", "{}");
        assert!(!indexes.are_noted(&[]));
        assert_eq!(changed_sources(root.path(), &[]), [""; 0].map(PathBuf::from));
        let notes = indexes.notes();
        assert!(indexes.are_noted(&notes));
        assert_eq!(changed_sources(root.path(), &notes), [""; 0].map(PathBuf::from));
        let second = write("ops", "{}");
        assert_eq!(changed_sources(root.path(), &notes), std::slice::from_ref(&second));
        write("main", "{ }");
        assert_eq!(changed_sources(root.path(), &notes), [first, second]);
    }

    #[test]
    fn what_the_index_of_an_agent_notes_has_not_come() {
        let state_dir = PathBuf::from("/s");
        let note = |path: PathBuf, id: &str| SourceNote {
            path: path.display().to_string(),
            print: String::new(),
            ids: vec![id.to_owned()],
        };
        let index = paths::index(&state_dir, &AgentId::normalize("main"));
        let notes = vec![note(mark(&state_dir), "a"), kept(&state_dir, "b", 7), note(index, "c")];
        let indexes = Indexes { state_dir, named: None, agents: Vec::new() };
        let came: Vec<_> = indexes.came(notes).into_iter().collect();
        assert_eq!(came, [("a".to_owned(), None), ("b".to_owned(), Some(7))]);
    }

    #[test]
    fn what_is_to_be_put_away_has_come_and_is_no_file_of_another_program() {
        let root = tempfile::tempdir().unwrap();
        let state_dir = root.path().to_owned();
        let folder = paths::folder(&state_dir, &AgentId::normalize("main"));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("a.jsonl");
        fs::write(&file, "x").unwrap();
        let note = leaving(&file, "deleted agent:main:a b", "id", 7);
        assert_eq!(read_leaving(&note), Some(("deleted", "agent:main:a b", "id")));
        assert_eq!(read_leaving(&SourceNote::of(&file)), None);
        assert_eq!(read_leaving(&kept(&state_dir, "a", 7)), None);
        let changed = changed_sources(&state_dir, std::slice::from_ref(&note));
        assert_eq!(changed, [""; 0].map(PathBuf::from));
        let indexes = Indexes { state_dir, named: None, agents: Vec::new() };
        let came: Vec<_> = indexes.came(vec![note]).into_iter().collect();
        assert_eq!(came, [("a".to_owned(), Some(7)), ("id".to_owned(), Some(7))]);
    }

    #[tokio::test]
    async fn the_next_look_takes_in_what_noted_a_removal() {
        let root = tempfile::tempdir().unwrap();
        let state_dir = root.path().to_owned();
        let store = SqliteStore::open(&state_dir.join("x.sqlite")).unwrap();
        let removal = kept(&state_dir, "a", 7);
        // Whatever has its name by now, it is no file that was taken over.
        fs::create_dir_all(mark(&state_dir)).unwrap();
        fs::write(&removal.path, "x").unwrap();
        let removals = std::slice::from_ref(&removal);
        assert_eq!(changed_sources(&state_dir, removals), [""; 0].map(PathBuf::from));
        let jobs = SourceNote::of(&root.path().join("jobs.json"));
        store.note_sources(vec![jobs.clone(), removal]).await.unwrap();
        let indexes = Indexes { state_dir: state_dir.clone(), named: None, agents: Vec::new() };
        indexes.note(&store, Vec::new(), Vec::new()).await.unwrap();
        let mut noted = store.sources().await.unwrap();
        noted.sort_by_key(|note| note.path.len());
        let look = SourceNote {
            path: mark(&state_dir).display().to_string(),
            print: String::new(),
            ids: vec![timed("a", 7)],
        };
        assert_eq!(noted, [look, jobs]);
        assert_eq!(indexes.removed(&store).await.unwrap(), BTreeMap::from([("a".into(), Some(7))]));
    }

    #[test]
    fn a_named_index_that_was_not_there_at_the_look_is_passed_over() {
        let root = tempfile::tempdir().unwrap();
        let named = root.path().join("elsewhere.json");
        let (state_dir, agents) = (root.path().join("state"), vec![AgentId::normalize("main")]);
        let indexes = Indexes { state_dir, named: Some(named.clone()), agents };
        let before = indexes.notes();
        assert_eq!(indexes.passed_over(&before), [""; 0].map(PathBuf::from));
        fs::write(&named, "{}").unwrap();
        assert_eq!(indexes.passed_over(&[]), [""; 0].map(PathBuf::from), "it comes at the look");
        assert_eq!(indexes.passed_over(&before), [named]);
        assert_eq!(indexes.passed_over(&indexes.notes()), [""; 0].map(PathBuf::from));
    }
}
