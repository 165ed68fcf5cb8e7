//! Looking after the sessions of one agent.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::super::error::{At, SessionError};
use super::super::service::Sessions;
use super::super::steps::blocking;
use super::super::{AgentId, SessionKey, SessionQuery, paths, time};
use super::budget::{self, BudgetReport, Stored};
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
        let mut rows = self.rows(&wish.agent).await?;
        let mut report = CleanupReport { before: count(rows.len()), ..CleanupReport::default() };
        let missing = if wish.fixes_missing { self.missing(&rows).await? } else { HashSet::new() };
        let bounds = Bounds {
            stale_before: now.saturating_sub(wish.rules.prune_after_ms),
            max_entries: wish.rules.max_entries,
            missing: &missing,
        };
        let leaving = plan::leaving(&rows, &bounds, |key, entry| {
            plan::is_protected(key, entry, self.rules()) || (wish.is_active)(key)
        });
        for (row, cause) in leaving {
            if wish.applies && !self.put_away(&row, &rows, wish).await? {
                continue;
            }
            rows.retain(|other| other.key != row.key);
            match cause {
                Cause::Missing => report.missing += 1,
                Cause::Stale => report.pruned += 1,
                Cause::Capped => report.capped += 1,
            }
            report.removed.push(SessionKey::from_canonical(row.key));
        }
        report.archives = self.drop_archives(wish, now).await?;
        if let Some(limits) = wish.rules.disk_budget {
            let found = self.fit_budget(wish, limits, &mut rows, &mut report.removed, now).await?;
            report.disk_budget = Some(found);
        }
        report.after = count(rows.len());
        Ok(report)
    }

    /// All sessions of an agent, the last changed first.
    async fn rows(&self, agent: &AgentId) -> Result<Vec<SessionRow>, SessionError> {
        let query = SessionQuery {
            agent: Some(agent.to_string()),
            include_global: true,
            include_unknown: true,
            ..SessionQuery::default()
        };
        Ok(self.list(query).await?.entries)
    }

    async fn missing(&self, rows: &[SessionRow]) -> Result<HashSet<SessionKey>, SessionError> {
        let places: Vec<_> = rows.iter().filter_map(|row| self.place_of(row)).collect();
        let looking = blocking(move || {
            let is_gone = |(_, path): &(SessionKey, PathBuf)| !path.exists();
            Ok(places.into_iter().filter(is_gone).map(|(key, _)| key).collect())
        });
        Ok(looking.await?)
    }

    fn place_of(&self, row: &SessionRow) -> Option<(SessionKey, PathBuf)> {
        let key = SessionKey::from_canonical(row.key.as_str());
        let path = self.path(&key, &row.entry).ok()?;
        Some((key, path))
    }

    /// Takes a session out of the index and puts its transcript away, unless
    /// another session has it too; false when something happened in it since it
    /// was looked at.
    async fn put_away(
        &self,
        row: &SessionRow,
        rows: &[SessionRow],
        wish: &Cleanup<'_>,
    ) -> Result<bool, SessionError> {
        let Some((key, from)) = self.place_of(row) else { return Ok(false) };
        if (wish.is_active)(&key) {
            return Ok(false);
        }
        let gone = self.inner.store.delete_unchanged_session(&row.key, row.entry.updated_at);
        if !gone.await? {
            return Ok(false);
        }
        let has_it = |other: &SessionRow| {
            other.key != row.key && self.place_of(other).is_some_and(|(_, path)| path == from)
        };
        if !rows.iter().any(has_it) {
            let to = paths::archived(&from, "deleted", &time::iso(self.inner.clock.now_ms()));
            self.inner.writer.archive(from, to).await?;
        }
        tracing::info!(session = %key, "old session put away");
        Ok(true)
    }

    /// Removes what was put away long enough ago; answers how many files.
    async fn drop_archives(&self, wish: &Cleanup<'_>, now: u64) -> Result<u64, SessionError> {
        let Some(retention) = wish.rules.archive_retention_ms else { return Ok(0) };
        let before = now.saturating_sub(retention);
        let mut old = self.files(&wish.agent).await?;
        old.retain(|file| file.archived_at.is_some_and(|at| at < before));
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

    /// Removes the oldest until the folder fits: first what no session has, then
    /// sessions with their transcripts.
    async fn fit_budget(
        &self,
        wish: &Cleanup<'_>,
        limits: DiskBudget,
        rows: &mut Vec<SessionRow>,
        removed: &mut Vec<SessionKey>,
        now: u64,
    ) -> Result<BudgetReport, SessionError> {
        let files = self.files(&wish.agent).await?;
        let mut report = BudgetReport::new(files.iter().map(|file| file.bytes).sum(), limits);
        let current = if wish.applies { self.rows(&wish.agent).await? } else { rows.clone() };
        let taken = current.iter().filter_map(|row| self.place_of(row)).map(|(_, path)| path);
        let taken: HashSet<_> = taken.collect();
        for file in budget::spare(&files, &taken, now) {
            if !report.wants_more() {
                break;
            }
            if wish.applies {
                remove(&file.path).await?;
            }
            report.freed(file.bytes);
        }
        for row in current.iter().rev() {
            let Some((key, path)) = self.place_of(row) else { continue };
            if !report.wants_more() {
                break;
            }
            if plan::is_protected(&key, &row.entry, self.rules()) || (wish.is_active)(&key) {
                continue;
            }
            if wish.applies {
                let store = &self.inner.store;
                if !store.delete_unchanged_session(&row.key, row.entry.updated_at).await? {
                    continue;
                }
                remove(&path).await?;
            }
            let bytes = files.iter().find(|file| file.path == path).map_or(0, |file| file.bytes);
            report.freed(bytes);
            report.removed_entries += 1;
            rows.retain(|other| other.key != row.key);
            removed.push(key);
        }
        Ok(report)
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

async fn remove(path: &Path) -> Result<(), SessionError> {
    let path = path.to_owned();
    Ok(blocking(move || budget::remove(&path).at("remove", &path)).await?)
}
