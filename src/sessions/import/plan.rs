//! What there is to take over, as far as files tell.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::super::rebuild::{self, Files, Problem};
use super::super::{AgentId, KeyRules, SessionId, SessionKey, paths};
use super::report::{AgentImport, LeftOut};
use crate::store::{NewSession, SessionEntry};
use crate::support::sort;

/// A file and where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Move {
    pub from: PathBuf,
    pub to: PathBuf,
    pub bytes: u64,
}

/// A session and the file that its transcript becomes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Arrival {
    pub key: SessionKey,
    pub entry: SessionEntry,
    pub from: PathBuf,
    pub to: PathBuf,
}

/// What there is of one agent.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    pub files: Vec<Move>,
    pub sessions: Vec<Arrival>,
    /// Transcripts that stay behind, and their sessions with them.
    pub unusable: HashSet<PathBuf>,
    /// What was put away beside its index, which others share, and is not listed there.
    pub unlisted: Vec<PathBuf>,
    /// OpenClaw's index, and where it goes if there is none.
    pub index: Option<(PathBuf, PathBuf)>,
    pub report: AgentImport,
}

/// Which files beside an index are those of its agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// All: it is the usual folder of the agent.
    Folder,
    /// The transcripts that the index lists, and whatever was put away.
    Listed,
    /// What the index lists: other agents have theirs beside it.
    Shared,
}

/// Looks at the index of an agent and the folder that it is in.
pub(super) fn of_agent(
    (index, reach): (&Path, Reach),
    to: &Path,
    agent: &AgentId,
    rules: &KeyRules,
) -> Plan {
    let folder = index.parent().unwrap_or(index);
    let mut plan = Plan {
        report: AgentImport { agent_id: agent.to_string(), ..AgentImport::default() },
        ..Plan::default()
    };
    let mut problems = Vec::new();
    match rebuild::of_agent(index, (agent, rules), Files::Move, &mut problems) {
        Ok(found) => {
            let arrivals = found.into_iter().filter_map(|new| arrival(new, folder, to, rules));
            plan.sessions = arrivals.collect();
        }
        Err(error) => plan.report.leave_out(&folder.display(), &error),
    }
    for Problem { what, why } in problems {
        plan.report.leave_out(&what, &why);
    }
    // A session may belong to another agent than the folder it is in.
    let targets: HashMap<_, _> =
        plan.sessions.iter().map(|session| (session.from.clone(), session.to.clone())).collect();
    let own = paths::folder(to, agent);
    let mut ids: HashSet<_> =
        targets.keys().filter_map(|from| paths::stem(from.to_str()?)).collect();
    let named = plan.sessions.iter().map(|session| session.entry.session_id.as_str());
    ids.extend(named.filter_map(SessionId::parse));
    for path in paths::children(folder).unwrap_or_default() {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            plan.report.leave_out(&path.display(), &"its name is not readable");
            continue;
        };
        let is_broken =
            plan.report.left_out.iter().any(|one| one.what == path.display().to_string());
        if path == index && !is_broken {
            plan.index = Some((path.clone(), paths::index(to, agent)));
        }
        if !is_wanted(name) {
            continue;
        }
        if !reach.has(name, &ids) {
            if paths::archive(name).is_some() {
                plan.unlisted.push(path);
            }
            continue;
        }
        let why = match size(&path) {
            Ok(Some(bytes)) => {
                let target = targets.get(&path).cloned().unwrap_or_else(|| own.join(name));
                plan.files.push(Move { from: path, to: target, bytes });
                continue;
            }
            Ok(None) => "not a file; links are not followed".to_owned(),
            Err(error) => error.to_string(),
        };
        plan.report.leave_out(&path.display(), &why);
        plan.unusable.insert(path);
    }
    sort::by(&mut plan.files, |a, b| a.from.cmp(&b.from));
    plan
}

/// Tells of what was put away in folders that several agents share, and that none of their
/// indexes lists: a session that began anew has another id. What is here by now is not told.
pub(super) fn unclaimed(plans: &[Plan], to: &Path) -> Vec<LeftOut> {
    let files = plans.iter().flat_map(|plan| &plan.files).map(|file| &file.from);
    let claimed: HashSet<_> = files.chain(plans.iter().flat_map(|plan| &plan.unusable)).collect();
    let agents = plans.iter().map(|plan| AgentId::normalize(&plan.report.agent_id));
    let folders: Vec<_> = agents.map(|agent| paths::folder(to, &agent)).collect();
    let is_here = |name: &OsStr| folders.iter().any(|folder| folder.join(name).exists());
    let mut found: BTreeMap<&Path, BTreeSet<&OsStr>> = BTreeMap::new();
    for path in plans.iter().flat_map(|plan| &plan.unlisted) {
        if let (Some(folder), Some(name)) = (path.parent(), path.file_name())
            && !claimed.contains(path)
            && !is_here(name)
        {
            found.entry(folder).or_default().insert(name);
        }
    }
    let told = |(folder, names): (&Path, BTreeSet<&OsStr>)| {
        let first = names.first().map(|name| name.to_string_lossy()).unwrap_or_default();
        let why = format!(
            "several agents share it, and no index tells whose these are that were put away: \
             {first} ({} in all); copy what is wanted into agents/<agent>/sessions of {}",
            names.len(),
            to.display()
        );
        LeftOut { what: folder.display().to_string(), why }
    };
    found.into_iter().map(told).collect()
}

impl Reach {
    /// Whether a file is one of the agent, when its index lists these transcripts.
    fn has(self, name: &str, ids: &HashSet<SessionId>) -> bool {
        let archive = paths::archive(name);
        if self == Self::Folder || self == Self::Listed && archive.is_some() {
            return true;
        }
        let before = name.split_once(".checkpoint.").and_then(|(id, _)| SessionId::parse(id));
        let id = archive.map(|archive| archive.id).or_else(|| paths::stem(name)).or(before);
        id.is_some_and(|id| ids.contains(&id))
    }
}

/// Transcripts, what was put away of them, and those from before compactions.
/// Locks, caches and diagnostics stay behind.
fn is_wanted(name: &str) -> bool {
    let is_checkpoint =
        name.strip_suffix(".jsonl").is_some_and(|name| name.contains(".checkpoint."));
    paths::stem(name).is_some() || paths::archive(name).is_some() || is_checkpoint
}

/// `None` for what is no file: to open a pipe would never end, and a link may
/// lead to anything that the user can read.
fn size(path: &Path) -> io::Result<Option<u64>> {
    let about = fs::symlink_metadata(path)?;
    Ok(about.is_file().then_some(about.len()))
}

fn arrival(new: NewSession, folder: &Path, to: &Path, rules: &KeyRules) -> Option<Arrival> {
    let key = SessionKey::from_canonical(new.key);
    let from = paths::transcript(folder, &key, &new.entry).ok()?;
    let target = paths::folder(to, &key.agent(rules));
    let to = paths::transcript(&target, &key, &new.entry).ok()?;
    let mut entry = new.entry;
    entry.session_file = Some(to.to_string_lossy().into_owned());
    Some(Arrival { key, entry, from, to })
}
