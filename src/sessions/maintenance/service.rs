//! Looking after the sessions of one agent.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::super::error::{At, SessionError};
use super::super::service::Sessions;
use super::super::steps::blocking;
use super::super::{AgentId, SessionKey, SessionQuery, paths};
use super::budget::{self, BudgetReport, Stored};
use super::needs::Needs;
use super::plan::{self, Bounds, Cause};
use crate::config::{DiskBudget, MaintenanceSettings};
use crate::store::SessionRow;

/// What is to be looked after, and how.
pub struct Cleanup<'a> {
    /// Whose sessions.
    pub agent: AgentId,
    /// The rules.
    pub rules: &'a MaintenanceSettings,
    /// Whether anything is done; else it is only told what would be.
    pub applies: bool,
    /// Also removes sessions whose transcripts are gone.
    pub fixes_missing: bool,
    /// Sessions that somebody is in.
    pub is_active: &'a (dyn Fn(&SessionKey) -> bool + Send + Sync),
    /// Hears of each session that is out of the index, as soon as it is: what comes
    /// after may fail.
    pub on_gone: &'a (dyn Fn(&SessionKey) + Send + Sync),
}

/// What was done, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CleanupReport {
    /// Sessions before.
    pub before: u64,
    /// Sessions after.
    pub after: u64,
    /// Sessions without transcripts that went.
    pub missing: u64,
    /// Stale sessions that went.
    pub pruned: u64,
    /// Sessions that went because there were too many.
    pub capped: u64,
    /// Transcripts that had been put away and went.
    pub archives: u64,
    /// What went because of the disk budget; `None` when there is no budget.
    pub disk_budget: Option<BudgetReport>,
    /// The sessions that went.
    pub removed: Vec<SessionKey>,
}

impl CleanupReport {
    /// Whether there was something to do.
    pub fn is_change(&self) -> bool {
        let by_budget = self.disk_budget.is_some_and(|budget| budget.freed_bytes > 0);
        self.missing + self.pruned + self.capped + self.archives > 0 || by_budget
    }
}

impl Sessions {
    /// The agents that have sessions on disk.
    pub async fn agents(&self) -> Result<Vec<AgentId>, SessionError> {
        let state_dir = self.state_dir().to_owned();
        let found = blocking(move || paths::agents(&state_dir).at("look into", &state_dir));
        Ok(found.await?.0)
    }

    /// Looks after the sessions of an agent.
    pub async fn clean_up(&self, wish: &Cleanup<'_>) -> Result<CleanupReport, SessionError> {
        let now = self.inner.clock.now_ms();
        let mut state = self.state(&wish.agent).await?;
        let mut report =
            CleanupReport { before: count(state.rows.len()), ..CleanupReport::default() };
        let missing =
            if wish.fixes_missing { self.missing(&state.rows).await? } else { HashSet::new() };
        let bounds = Bounds {
            stale_before: wish.rules.prune_after_ms.map_or(0, |after| now.saturating_sub(after)),
            max_entries: wish.rules.max_entries,
            missing: &missing,
        };
        let leaving = plan::leaving(&state.rows, &bounds, |key, entry| {
            plan::is_protected(key, entry, &self.rules()) || (wish.is_active)(key)
        });
        for (row, cause) in leaving {
            let Some(key) = self.put_away(&row, &mut state.needs, wish).await? else { continue };
            match cause {
                Cause::Missing => report.missing += 1,
                Cause::Stale => report.pruned += 1,
                Cause::Capped => report.capped += 1,
            }
            report.removed.push(key);
        }
        let gone: HashSet<_> = report.removed.iter().map(SessionKey::as_str).collect();
        state.rows.retain(|row| !gone.contains(row.key.as_str()));
        let mut files = self.files(&wish.agent).await?;
        if wish.applies {
            for file in budget::leftovers(&files, now) {
                remove(&file.path).await?;
                files.retain(|other| *other != file);
            }
            // What is needed now, of files that were there before.
            state = self.state(&wish.agent).await?;
        }
        report.archives = self.drop_archives(wish, &mut files, &state.needs, now).await?;
        if let Some(limits) = wish.rules.disk_budget {
            let found = self.fit_budget(wish, limits, &files, &mut state, now).await?;
            report.disk_budget = Some(found.0);
            report.removed.extend(found.1);
        }
        report.after = count(state.rows.len());
        Ok(report)
    }

    async fn state(&self, agent: &AgentId) -> Result<State, SessionError> {
        let query =
            SessionQuery { include_global: true, include_unknown: true, ..SessionQuery::default() };
        let mut rows = self.list(query).await?.entries;
        let (sessions, agent) = (self.clone(), agent.clone());
        let sorting = blocking(move || {
            let mut needs = Needs::default();
            for row in &rows {
                needs.add(sessions.needed_by(row));
            }
            let agent_of = |row: &SessionRow| {
                SessionKey::from_canonical(row.key.as_str()).agent(&sessions.rules())
            };
            rows.retain(|row| agent_of(row) == agent);
            Ok(State { rows, needs })
        });
        Ok(sorting.await?)
    }

    /// The sessions that have neither a transcript nor anything to go back to.
    async fn missing(&self, rows: &[SessionRow]) -> Result<HashSet<SessionKey>, SessionError> {
        let needed: Vec<_> = rows
            .iter()
            .map(|row| (SessionKey::from_canonical(row.key.as_str()), self.needed_by(row).files))
            .collect();
        let looking = blocking(move || {
            // One that cannot be looked at may be there.
            let is_missing = |path: &PathBuf| path.try_exists().is_ok_and(|is_there| !is_there);
            let is_gone = |(_, files): &(SessionKey, HashSet<PathBuf>)| {
                !files.is_empty() && files.iter().all(is_missing)
            };
            Ok(needed.into_iter().filter(is_gone).map(|(key, _)| key).collect())
        });
        Ok(looking.await?)
    }

    /// Takes a session out of the index and puts its transcript away, unless
    /// another session needs it; `None` when something happened in it since it
    /// was looked at.
    async fn put_away(
        &self,
        row: &SessionRow,
        needs: &mut Needs,
        wish: &Cleanup<'_>,
    ) -> Result<Option<SessionKey>, SessionError> {
        let Some((key, from)) = self.place_of(row) else { return Ok(None) };
        let mut noted = None;
        if wish.applies {
            if needs.count(&from) == 1 {
                noted = self.leaving(&key, &row.entry, "deleted").await?;
            }
            if !self.take_out(&key, row, wish).await? {
                self.forget_leaving(&key, noted).await;
                return Ok(None);
            }
        }
        needs.remove(&self.needed_by(row));
        if wish.applies {
            if needs.count(&from) == 0 {
                self.set_aside(&key, from, "deleted", noted).await;
            }
            tracing::info!(session = %key, "old session removed");
        }
        Ok(Some(key))
    }

    /// Takes a session out of the index, unless somebody is in it or something
    /// happened in it since it was looked at.
    async fn take_out(
        &self,
        key: &SessionKey,
        row: &SessionRow,
        wish: &Cleanup<'_>,
    ) -> Result<bool, SessionError> {
        if (wish.is_active)(key) {
            return Ok(false);
        }
        let deleting = self.inner.store.delete_unchanged_session(&row.key, row.entry.updated_at);
        let is_gone = deleting.await?;
        if is_gone {
            (wish.on_gone)(key);
        }
        Ok(is_gone)
    }

    /// Removes what was put away long enough ago; answers how many files.
    async fn drop_archives(
        &self,
        wish: &Cleanup<'_>,
        files: &mut Vec<Stored>,
        needs: &Needs,
        now: u64,
    ) -> Result<u64, SessionError> {
        let Some(retention) = wish.rules.archive_retention_ms else { return Ok(0) };
        let before = now.saturating_sub(retention);
        let is_old = |file: &Stored| {
            needs.count(&file.path) == 0 && file.archived_at.is_some_and(|at| at < before)
        };
        let (old, kept) = std::mem::take(files).into_iter().partition::<Vec<_>, _>(is_old);
        *files = kept;
        if wish.applies {
            for file in &old {
                remove(&file.path).await?;
            }
        }
        Ok(count(old.len()))
    }

    async fn files(&self, agent: &AgentId) -> Result<Vec<Stored>, SessionError> {
        let folder = self.folder(agent);
        Ok(blocking(move || budget::files(&folder).at("look into", &folder)).await?)
    }

    /// Removes the oldest until the folder fits: first what no session needs,
    /// then sessions with their transcripts; answers which sessions.
    async fn fit_budget(
        &self,
        wish: &Cleanup<'_>,
        limits: DiskBudget,
        files: &[Stored],
        state: &mut State,
        now: u64,
    ) -> Result<(BudgetReport, Vec<SessionKey>), SessionError> {
        let mut report = BudgetReport::new(files.iter().map(|file| file.bytes).sum(), limits);
        for file in budget::spare(files, &state.needs, now) {
            if !report.wants_more() {
                break;
            }
            if wish.applies {
                remove(&file.path).await?;
            }
            report.freed(file.bytes);
        }
        let sizes: HashMap<_, _> = files.iter().map(|file| (&file.path, file.bytes)).collect();
        let mut removed = Vec::new();
        for row in state.rows.iter().rev() {
            if !report.wants_more() {
                break;
            }
            let Some((key, path)) = self.place_of(row) else { continue };
            // Without its file, or with one that another needs, nothing is won.
            let Some(bytes) = sizes.get(&path).filter(|_| state.needs.count(&path) == 1) else {
                continue;
            };
            if plan::is_protected(&key, &row.entry, &self.rules()) || (wish.is_active)(&key) {
                continue;
            }
            if wish.applies {
                // Its file may stay: it cannot be removed, or a kill comes first.
                let note = self.lets_go(&key, &row.entry).await;
                if !self.take_out(&key, row, wish).await? {
                    continue;
                }
                remove(&path).await?;
                // It did not stay.
                if let Err(error) = self.inner.store.drop_sources(vec![note]).await {
                    tracing::debug!(session = %key, %error, "what noted its removal stays");
                }
            }
            report.freed(*bytes);
            report.removed_entries += 1;
            state.needs.remove(&self.needed_by(row));
            removed.push(key);
        }
        let gone: HashSet<_> = removed.iter().map(SessionKey::as_str).collect();
        state.rows.retain(|row| !gone.contains(row.key.as_str()));
        Ok((report, removed))
    }
}

/// The sessions of an agent, the last changed first, and the files that those of
/// all agents need.
struct State {
    rows: Vec<SessionRow>,
    needs: Needs,
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

async fn remove(path: &Path) -> Result<(), SessionError> {
    let path = path.to_owned();
    Ok(blocking(move || budget::remove(&path).at("remove", &path)).await?)
}
