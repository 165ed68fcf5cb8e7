//! The one door to reports on usage.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::civil::Date;
use serde::Serialize;

use super::super::error::{At, SessionError};
use super::super::steps::blocking;
use super::super::{SessionEntry, SessionKey, Sessions, paths};
use super::detail::{self, LogEntry, TimePoint};
use super::files::TranscriptFile;
use super::range::{DateRange, QUARTER_MS};
use super::refresh::{CacheStatus, Refresher};
use super::report::{Aggregates, SessionUsage};
use super::tally::{Tally, Totals, priced};
use crate::protocol::message::{Cost, Usage};
use crate::store::Store;
use crate::support::Clock;

/// What a model's tokens cost, by provider and model; `None` for models that
/// nobody knows.
pub type Prices = Arc<dyn Fn(&str, &str, &Usage) -> Option<Cost> + Send + Sync>;

/// Which sessions to report on.
#[derive(Debug, Clone)]
pub struct UsageQuery {
    /// Which days.
    pub range: DateRange,
    /// Only this session.
    pub key: Option<SessionKey>,
    /// At most so many, those that changed last.
    pub limit: usize,
}

/// A session with its usage.
#[derive(Debug, Clone)]
pub struct ListedUsage {
    /// Its key; made of agent and transcript id when no session has the transcript.
    pub key: SessionKey,
    /// Its agent.
    pub agent: String,
    /// Id of the transcript.
    pub session_id: String,
    /// When it changed last.
    pub updated_at: u64,
    /// Where it is talked in.
    pub channel: Option<String>,
    /// What the index knows, when a session has the transcript.
    pub entry: Option<SessionEntry>,
    /// What it used.
    pub usage: SessionUsage,
}

/// What all sessions used, day by day.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CostSummary {
    days: u64,
    daily: Vec<DayCost>,
    totals: Totals,
    cache_status: CacheStatus,
}

#[derive(Debug, Clone, Serialize)]
struct DayCost {
    date: String,
    #[serde(flatten)]
    totals: Totals,
}

/// Why there is no report on a session.
#[derive(Debug, Clone, thiserror::Error)]
pub enum UsageError {
    /// It has no transcript.
    #[error("No transcript found for session: {0}")]
    NoTranscript(String),
    /// Its key cannot name one.
    #[error("Invalid session key: {0}")]
    BadKey(String),
    /// The index or a file failed.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// Reports on usage; clones share what they know.
#[derive(Clone)]
pub struct UsageReports {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) sessions: Sessions,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    prices: Prices,
    pub(super) refresher: Refresher,
}

impl UsageReports {
    /// Reports on these sessions, at these prices.
    pub fn new(
        sessions: Sessions,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        prices: Prices,
    ) -> Self {
        let refresher = Refresher::new(Arc::clone(&store));
        Self { inner: Arc::new(Inner { sessions, store, clock, prices, refresher }) }
    }

    /// `sessions.usage`: sessions, and the sums of those listed.
    pub async fn sessions(
        &self,
        query: UsageQuery,
    ) -> Result<(Vec<ListedUsage>, Totals, Aggregates, CacheStatus), SessionError> {
        let inner = &self.inner;
        let found = match &query.key {
            Some(key) => match self.of_key(key, key.as_str()).await {
                Ok(found) => found.into_iter().collect(),
                Err(UsageError::Session(error)) => return Err(error),
                Err(_) => Vec::new(),
            },
            None => self.newest(&query).await?,
        };
        let files: Vec<_> = found.iter().map(|candidate| candidate.file.clone()).collect();
        let status = inner.refresher.refresh(&files, inner.clock.now_ms()).await?;
        let keys = files.iter().map(TranscriptFile::key).collect();
        let facts = inner.store.usage_facts(keys, query.range.quarters()).await?;
        let (mut all, mut listed) = (Tally::default(), Vec::new());
        let (mut agents, mut channels) = (BTreeMap::new(), BTreeMap::new());
        for (candidate, facts) in found.into_iter().zip(facts) {
            let mut tally = Tally::default();
            tally.add(&facts, &query.range.zone, &inner.prices);
            all.add(&facts, &query.range.zone, &inner.prices);
            let agent = candidate.file.agent.to_string();
            agents.entry(agent).or_insert_with(Totals::default).merge(&tally.totals);
            let row = candidate.into_listed(&tally);
            if let Some(channel) = row.channel.clone() {
                channels.entry(channel).or_insert_with(Totals::default).merge(&tally.totals);
            }
            listed.push(row);
        }
        Ok((listed, all.totals, Aggregates::new(&all, agents, channels), status))
    }

    /// `usage.cost`: all transcripts there are.
    pub async fn cost(&self, range: DateRange) -> Result<CostSummary, SessionError> {
        let inner = &self.inner;
        let mut files = self.files().await?;
        self.forget_vanished(&files).await?;
        files.retain(|file| file.modified_ms >= range.start_ms());
        let status = inner.refresher.refresh(&files, inner.clock.now_ms()).await?;
        let mut days: BTreeMap<Date, Totals> = BTreeMap::new();
        let mut totals = Totals::default();
        for row in inner.store.usage_spending(range.quarters()).await? {
            let (usage, missing) = priced(&row, &inner.prices);
            let day = range.zone.day(row.quarter.saturating_mul(QUARTER_MS));
            days.entry(day).or_default().add(&usage, missing);
            totals.add(&usage, missing);
        }
        let daily =
            days.into_iter().map(|(date, totals)| DayCost { date: date.to_string(), totals });
        Ok(CostSummary { days: range.days(), daily: daily.collect(), totals, cache_status: status })
    }

    /// `sessions.usage.timeseries`: the id of the transcript, and its answers.
    pub async fn timeseries(
        &self,
        key: &SessionKey,
        written: &str,
    ) -> Result<(String, Vec<TimePoint>), UsageError> {
        let inner = &self.inner;
        let found = self.of_key(key, written).await?;
        let candidate = found.ok_or_else(|| UsageError::NoTranscript(written.to_owned()))?;
        let id = candidate.session_id();
        let file = candidate.file;
        let answers = if file.length <= detail::EXACT_MAX {
            let (path, prices) = (file.path.clone(), Arc::clone(&inner.prices));
            let turn = inner.sessions.turn(&path).await;
            let reading = blocking(move || {
                let _turn = turn;
                let read = || detail::answers(&paths::open(&path)?, &prices);
                read().at("read", &path)
            });
            reading.await.map_err(SessionError::from)?
        } else {
            let keys = vec![file.key()];
            inner.refresher.refresh(&[file], inner.clock.now_ms()).await?;
            let everything = (0, u64::MAX);
            let facts = inner.store.usage_facts(keys, everything).await;
            let facts = facts.map_err(SessionError::from)?;
            let spending = facts.into_iter().next().unwrap_or_default().spending;
            detail::quarters(&spending, &inner.prices)
        };
        Ok((id, detail::points(&answers)))
    }

    /// `sessions.usage.logs`: the newest messages; none without a transcript.
    pub async fn logs(
        &self,
        key: &SessionKey,
        written: &str,
        limit: usize,
    ) -> Result<Vec<LogEntry>, UsageError> {
        let Some(candidate) = self.of_key(key, written).await? else { return Ok(Vec::new()) };
        let (path, prices) = (candidate.file.path, Arc::clone(&self.inner.prices));
        let turn = self.inner.sessions.turn(&path).await;
        let reading = blocking(move || {
            let _turn = turn;
            let read = || detail::logs(&paths::open(&path)?, limit, &prices);
            read().at("read", &path)
        });
        Ok(reading.await.map_err(SessionError::from)?)
    }
}
