//! How runs have ended, for those who ask afterwards.
//!
//! Promises: bounded in runs and in bytes of text; of what was dropped, the
//! run records still tell how it ended.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::protocol::message::{ToolCall, Usage};
use crate::providers::ProviderErrorKind;
use crate::store::{RunRecord, RunState};
use crate::support::sync::Mutex;

use super::run::{AbortReason, ActiveRun, RunEnd};

/// Most ended runs that are kept; the original keeps as many answers.
const MAX_RUNS: usize = 1000;
/// Most bytes of answers that are kept. An answer is some kilobytes, so this
/// only matters when a model writes books.
const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;

/// Why a run failed that the gateway left behind.
const INTERRUPTED: &str = "interrupted by a stop of the gateway";

/// What stands before the error of a run whose provider failed, in the words of the original.
const OF_PROVIDER: &str = "FailoverError: ";

/// The methods that start runs; each has its own idempotency keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// `chat.send`.
    Chat,
    /// `agent`.
    Agent,
    /// What only holds the lane and has no message, as `sessions.compact` does.
    Hold,
}

impl Family {
    /// The word in the run records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Agent => "agent",
            Self::Hold => "hold",
        }
    }
}

/// What a run has done so far.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// When it began; `None` while it waits.
    pub started_at: Option<u64>,
    /// Its text, as far as clients have been shown it: what its turns have said in one.
    pub(super) text: Arc<str>,
    /// Where in it each turn of the model but the first begins.
    pub turns: Vec<usize>,
    /// Files that it named for its reader: paths and addresses.
    pub files: Vec<String>,
    /// How many calls of tools it has begun.
    pub calls: usize,
    /// What models have used that reviewed its tool calls, or that tools had asked when
    /// they were stopped.
    pub reviews: Usage,
    /// What it has used in all, once it ends, with or without an answer.
    pub used: Usage,
    /// Its answer, once it is there.
    pub answer: Option<Answer>,
    /// The calls that it ended with, for whoever asked to do.
    pub handed: Vec<ToolCall>,
    /// Whether it was the provider that failed.
    pub provider_failed: bool,
    /// Whether it did because it does not let such a thing be said.
    pub is_refused: bool,
    /// Why, when the same request may do better later.
    pub passing: Option<ProviderErrorKind>,
    /// The run that took its message in, and answered it.
    pub answered_by: Option<Arc<str>>,
    /// Whether somebody else stopped it than who asked for it.
    pub is_taken_away: bool,
}

impl Progress {
    /// That of a run that has said this in one turn.
    #[must_use]
    pub fn saying(text: &str) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Its text as clients are shown it piece by piece, with nothing between what its turns have
    /// said: whoever tells it whole takes [`Self::paragraphs`].
    pub const fn shown(&self) -> &Arc<str> {
        &self.text
    }

    /// The error with which it failed, as the run records have it: with whose it is.
    pub(super) fn recorded(&self, error: &str) -> String {
        let whose = if self.provider_failed { OF_PROVIDER } else { "" };
        format!("{whose}{error}")
    }

    /// What each of its turns has said, in their order.
    #[must_use]
    pub fn said(&self) -> Vec<&str> {
        let (mut all, mut begins) = (Vec::new(), 0);
        for end in self.turns.iter().copied().chain([self.text.len()]) {
            // Of a turn that is not shown yet there is nothing.
            if let Some(said) = self.text.get(begins..end) {
                all.push(said);
                begins = end;
            }
        }
        all
    }

    /// Its text with an empty line between what its turns have said.
    #[must_use]
    pub fn paragraphs(&self) -> String {
        let mut whole = String::new();
        for said in self.said() {
            add_turn(&mut whole, said);
        }
        whole
    }
}

/// Puts what a turn has said below what was said before.
pub fn add_turn(whole: &mut String, said: &str) {
    if whole.is_empty() {
        whole.push_str(said);
    } else if !said.trim().is_empty() {
        whole.truncate(whole.trim_end().len());
        whole.push_str("\n\n");
        whole.push_str(said.trim_start_matches('\n'));
    }
}

/// Facts about an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Why the model stopped.
    pub stop_reason: &'static str,
    /// Who answered.
    pub provider: String,
    /// With which model.
    pub model: String,
    /// How much that model can read.
    pub context_window: u64,
    /// How hard it thought.
    pub thinking: &'static str,
    /// Sum over all model calls, those of reviewers included.
    pub used: Usage,
    /// The last model call.
    pub last: Usage,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// What started it.
    pub family: Family,
    /// Its id.
    pub run_id: Arc<str>,
    /// How it ended.
    pub end: RunEnd,
    /// When it was accepted.
    pub accepted_at: u64,
    /// When it ended.
    pub ended_at: u64,
    /// What it did.
    pub progress: Progress,
}

impl RunReport {
    /// The report on a run that ends now.
    pub(super) fn of(run: &ActiveRun, end: RunEnd, ended_at: u64) -> Self {
        Self {
            family: run.family,
            run_id: Arc::clone(&run.id),
            end,
            accepted_at: run.accepted_at,
            ended_at,
            progress: run.progress(),
        }
    }

    /// Why it failed, in the words of the original.
    pub fn failure(&self) -> Option<String> {
        let RunEnd::Failed(error) = &self.end else { return None };
        let whose = if self.progress.provider_failed { OF_PROVIDER } else { "Error: " };
        Some(format!("{whose}{error}"))
    }

    /// Whether the gateway stopped before it had ended.
    pub fn is_interrupted(&self) -> bool {
        matches!(&self.end, RunEnd::Failed(error) if error == INTERRUPTED)
    }

    /// What the run records tell of a run that has ended.
    pub(super) fn of_record(record: RunRecord) -> Option<Self> {
        let mut progress = Progress::default();
        let end = match record.state {
            RunState::Active => return None,
            RunState::Done => RunEnd::Answered,
            RunState::Failed => {
                let error = record.error.unwrap_or_default();
                let of_provider = error.strip_prefix(OF_PROVIDER);
                progress.provider_failed = of_provider.is_some();
                RunEnd::Failed(of_provider.unwrap_or(&error).to_owned())
            }
            RunState::Aborted => {
                // Earlier releases have not written down why.
                let reason = record.error.as_deref().and_then(AbortReason::parse);
                RunEnd::Aborted(reason.unwrap_or(AbortReason::Rpc))
            }
            RunState::Interrupted => RunEnd::Failed(INTERRUPTED.into()),
        };
        let is_agent = record.scope == Family::Agent.as_str();
        Some(Self {
            family: if is_agent { Family::Agent } else { Family::Chat },
            run_id: record.run_id.into(),
            end,
            accepted_at: record.created_at,
            ended_at: record.ended_at.unwrap_or(record.created_at),
            progress,
        })
    }
}

type Key = (Family, Arc<str>);

#[derive(Debug, Default)]
struct Kept {
    reports: HashMap<Key, Arc<RunReport>>,
    /// Oldest first. A key that was used again stands here twice; the older
    /// place then finds nothing or an early end, which is harmless.
    order: VecDeque<Key>,
    text_bytes: usize,
}

impl Kept {
    fn drop_oldest(&mut self) -> bool {
        let Some(key) = self.order.pop_front() else { return false };
        if let Some(report) = self.reports.remove(&key) {
            self.text_bytes -= report.progress.text.len();
        }
        true
    }
}

/// The runs of this process that have ended.
#[derive(Debug, Default)]
pub struct Reports(Mutex<Kept>);

impl Reports {
    /// Adds a run, in place of an earlier one with the same key.
    pub fn add(&self, report: RunReport) {
        let key = (report.family, Arc::clone(&report.run_id));
        let mut kept = self.0.lock();
        kept.text_bytes += report.progress.text.len();
        if let Some(old) = kept.reports.insert(key.clone(), Arc::new(report)) {
            kept.text_bytes -= old.progress.text.len();
        }
        kept.order.push_back(key);
        while kept.order.len() > MAX_RUNS || kept.text_bytes > MAX_TEXT_BYTES {
            if !kept.drop_oldest() {
                break;
            }
        }
    }

    /// The run of this family with this id.
    pub fn get(&self, family: Family, run_id: &str) -> Option<Arc<RunReport>> {
        self.0.lock().reports.get(&(family, run_id.into())).cloned()
    }

    /// The run of any family with this id that ended last.
    pub fn newest(&self, run_id: &str) -> Option<Arc<RunReport>> {
        let families = [Family::Chat, Family::Agent, Family::Hold];
        let found = families.map(|family| self.get(family, run_id));
        found.into_iter().flatten().max_by_key(|report| report.ended_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(family: Family, id: &str, ended_at: u64, text: &str) -> RunReport {
        RunReport {
            family,
            run_id: id.into(),
            end: RunEnd::Answered,
            accepted_at: 0,
            ended_at,
            progress: Progress { text: text.into(), ..Progress::default() },
        }
    }

    #[test]
    fn families_do_not_share_ids_and_the_newest_is_found() {
        let reports = Reports::default();
        reports.add(report(Family::Agent, "a", 2, "agent"));
        reports.add(report(Family::Chat, "a", 1, "chat"));
        assert_eq!(&*reports.get(Family::Chat, "a").unwrap().progress.text, "chat");
        assert_eq!(&*reports.newest("a").unwrap().progress.text, "agent");
        assert!(reports.newest("b").is_none());
    }

    #[test]
    fn what_the_turns_of_a_run_say_stands_apart() {
        let paragraphs = |text: &str, turns: &[usize]| {
            Progress { text: text.into(), turns: turns.to_vec(), ..Progress::default() }
                .paragraphs()
        };
        assert_eq!(paragraphs("Let me look.All done.", &[12]), "Let me look.\n\nAll done.");
        assert_eq!(paragraphs("One.\n\n\n  Two.Three", &[5, 5, 13]), "One.\n\n  Two.\n\nThree");
        assert_eq!(paragraphs(" as it is\n", &[]), " as it is\n");
        // Said first by the second turn; not shown yet; in the middle of a letter.
        for turns in [[0, 0], [3, 3], [3, 90]] {
            assert_eq!(paragraphs("One", &turns), "One");
        }
        assert_eq!(paragraphs("aö", &[2]), "aö");
    }

    #[test]
    fn what_is_kept_is_bounded_in_runs_and_in_bytes() {
        let reports = Reports::default();
        for index in 0..=MAX_RUNS {
            reports.add(report(Family::Chat, &index.to_string(), 1, "text"));
        }
        assert!(reports.newest("0").is_none());
        assert!(reports.newest("1").is_some());
        reports.add(report(Family::Chat, "again", 1, "text"));
        reports.add(report(Family::Chat, "again", 2, "longer text"));
        assert_eq!(reports.newest("again").unwrap().ended_at, 2);
        let book = "x".repeat(MAX_TEXT_BYTES);
        reports.add(report(Family::Chat, "book", 1, &book));
        assert!(reports.newest("book").is_some());
        assert!(reports.newest("again").is_none());
        let kept = reports.0.lock();
        assert_eq!(kept.text_bytes, MAX_TEXT_BYTES);
    }

    #[test]
    fn a_record_tells_how_a_run_of_an_earlier_process_ended() {
        let record = |state| RunRecord {
            scope: "agent".into(),
            key: "k".into(),
            run_id: "k".into(),
            session_key: "agent:main:main".into(),
            text_hash: None,
            state,
            error: Some("no luck".into()),
            created_at: 1,
            ended_at: Some(3),
            message: None,
        };
        assert!(RunReport::of_record(record(RunState::Active)).is_none());
        let failed = RunReport::of_record(record(RunState::Failed)).unwrap();
        assert_eq!((failed.family, failed.ended_at), (Family::Agent, 3));
        assert_eq!(failed.end, RunEnd::Failed("no luck".into()));
        assert_eq!(failed.failure().as_deref(), Some("Error: no luck"));
        let of_provider = Progress { provider_failed: true, ..Progress::default() };
        let error = Some(of_provider.recorded("no luck"));
        let failed = RunRecord { error, ..record(RunState::Failed) };
        let failed = RunReport::of_record(failed).unwrap();
        assert_eq!(failed.end, RunEnd::Failed("no luck".into()));
        assert_eq!(failed.failure().as_deref(), Some("FailoverError: no luck"));
        for (word, reason) in [
            (Some("shutdown"), AbortReason::Shutdown),
            (Some("timeout"), AbortReason::Timeout),
            (Some("of a later release"), AbortReason::Rpc),
            (None, AbortReason::Rpc),
        ] {
            let error = word.map(str::to_owned);
            let stopped = RunRecord { error, ..record(RunState::Aborted) };
            let stopped = RunReport::of_record(stopped).unwrap();
            assert_eq!(stopped.end, RunEnd::Aborted(reason), "{word:?}");
        }
    }
}
