//! Trying a call again when it failed before anything was said.
//!
//! Owns: how often and how long to wait, as the providers' own clients do.
//! Promises: an answer of which people have read something is never repeated; what
//! was thought before is; each wait is reported before it begins. Must not: know any
//! API.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use super::credentials::FailureReason;
use super::{EventSink, ModelRequest, Passes, Provider, ProviderError, StreamEvent};
use crate::protocol::message::{AssistantMessage, Usage};
use crate::sessions::directives;
use crate::sessions::visible::Visible;
use crate::support::BoxFuture;

/// A call failed and will be made again after `delay`.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryNotice {
    /// Which retry this is; the first one is 1.
    pub attempt: u32,
    /// How many there will be at most.
    pub max_attempts: u32,
    /// How long we wait.
    pub delay: Duration,
    /// Why the last attempt failed.
    pub message: String,
    /// What it has used.
    pub usage: Usage,
}

/// How often and how long.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// How many times to try again.
    pub retries: u32,
    /// Wait before the first retry; it doubles with each one.
    pub first_delay: Duration,
    /// The longest wait of our own making.
    pub max_delay: Duration,
    /// When the provider asks for a longer wait than this, we fail at once:
    /// whoever asked learns more from the error than from silence.
    pub max_retry_after: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            retries: 2,
            first_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(8),
            max_retry_after: Duration::from_mins(1),
        }
    }
}

impl RetryPolicy {
    /// How long to wait before retry number `attempt` (from 1); `None` when
    /// there should be none.
    pub(super) fn delay(&self, attempt: u32, error: &ProviderError) -> Option<Duration> {
        if attempt > self.retries || !error.is_retryable() {
            return None;
        }
        match error.retry_after {
            Some(asked) if asked > self.max_retry_after => None,
            Some(asked) => Some(asked),
            None => {
                let factor = 2_u32.saturating_pow(attempt - 1);
                let full = self.first_delay.saturating_mul(factor).min(self.max_delay);
                Some(full * jitter_permille() / 1000)
            }
        }
    }
}

/// 750 to 1000: clients that failed together should not come back together.
fn jitter_permille() -> u32 {
    // std seeds every `RandomState` differently; that is random enough here.
    let random = RandomState::new().build_hasher().finish() % 251;
    750 + u32::try_from(random).unwrap_or(0)
}

/// What has come of an answer.
#[derive(Debug, Default)]
pub(super) struct Heard {
    has_begun: bool,
    has_text: bool,
    /// Its text as people see it, until they see some of it.
    visible: Visible,
}

impl Heard {
    /// More of it.
    pub fn note(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::Retry(_) | StreamEvent::Fallback(_) | StreamEvent::Used(_) => {}
            StreamEvent::Anew => *self = Self::default(),
            StreamEvent::TextDelta { delta, .. } => {
                self.has_begun = true;
                if !self.has_text {
                    self.visible.push(delta);
                    let text = self.visible.text();
                    self.has_text = !text.is_empty() && !directives::may_become_silent(text);
                }
            }
            _ => self.has_begun = true,
        }
    }

    /// Whether anything has come.
    pub const fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether people have read some of it. Thoughts, also those in a text, and calls that
    /// are not complete have done nothing yet and can be thrown away.
    pub const fn has_text(&self) -> bool {
        self.has_text
    }

    /// The answer is asked for once more: tells that what has come does not count.
    pub fn forget(&mut self, events: EventSink<'_>) {
        if std::mem::take(self).has_begun {
            events(StreamEvent::Anew);
        }
    }
}

/// The longest wait while somebody else can be asked.
const PATIENCE: Duration = Duration::from_secs(5);

/// The wait that was passed over when this came of a call that others could answer; `None`
/// where it would have been too long for anybody.
pub(super) fn passed_over(error: &ProviderError, passes: Passes) -> Option<Duration> {
    let longest = RetryPolicy::default().max_retry_after;
    let is_passed = error.is_retryable() && passes(FailureReason::of(error));
    error.retry_after.filter(|asked| is_passed && *asked > PATIENCE && *asked <= longest)
}

/// A provider that tries again.
pub struct Retry {
    inner: Arc<dyn Provider>,
    policy: RetryPolicy,
}

impl Retry {
    /// Wraps `inner`.
    pub fn new(inner: Arc<dyn Provider>, policy: RetryPolicy) -> Self {
        Self { inner, policy }
    }

    /// Tries, and waits in between, though not long after a failure that `passes` knows.
    async fn attempts(
        &self,
        request: &ModelRequest,
        passes: Passes,
        events: EventSink<'_>,
    ) -> Result<AssistantMessage, ProviderError> {
        let mut attempt = 1;
        let mut heard = Heard::default();
        loop {
            heard.forget(&mut *events);
            let mut watched = |event: StreamEvent| {
                heard.note(&event);
                events(event);
            };
            let error = match self.inner.stream(request, &mut watched).await {
                Ok(message) => return Ok(message),
                Err(error) => error,
            };
            let longest = if passes(FailureReason::of(&error)) { PATIENCE } else { Duration::MAX };
            let delay = self.policy.delay(attempt, &error);
            let delay = delay.filter(|delay| *delay <= longest && !heard.has_text());
            let Some(delay) = delay else { return Err(error) };
            events(StreamEvent::Retry(RetryNotice {
                attempt,
                max_attempts: self.policy.retries,
                delay,
                usage: error.usage(),
                message: error.message,
            }));
            tokio::time::sleep(delay).await;
            attempt += 1;
        }
    }
}

impl Provider for Retry {
    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<AssistantMessage, ProviderError>> {
        Box::pin(self.attempts(request, |_| false, events))
    }

    fn stream_or_pass<'a>(
        &'a self,
        request: &'a ModelRequest,
        passes: Passes,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<AssistantMessage, ProviderError>> {
        Box::pin(self.attempts(request, passes, events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::testing::{self, request};
    use crate::providers::{ProviderErrorKind, StreamEvent};
    use parking_lot::Mutex;
    use tokio::time::Instant;

    /// Plays one outcome per call: perhaps an event, then this error or success.
    struct Scripted(Mutex<Vec<(Option<StreamEvent>, Option<ProviderError>)>>);

    impl Provider for Scripted {
        fn stream<'a>(
            &'a self,
            request: &'a ModelRequest,
            events: EventSink<'a>,
        ) -> BoxFuture<'a, Result<AssistantMessage, ProviderError>> {
            Box::pin(async move {
                let (event, error) = self.0.lock().remove(0);
                if let Some(event) = event {
                    events(event);
                }
                error.map_or_else(|| Ok(testing::answer(&request.model)), Err)
            })
        }
    }

    async fn play(
        script: Vec<(Option<StreamEvent>, Option<ProviderError>)>,
    ) -> (bool, Vec<StreamEvent>, Duration, usize) {
        let scripted = Arc::new(Scripted(Mutex::new(script)));
        let retry = Retry::new(scripted.clone(), RetryPolicy::default());
        let mut events = Vec::new();
        let start = Instant::now();
        let ok = retry.stream(&request(vec![]), &mut |event| events.push(event)).await.is_ok();
        (ok, events, start.elapsed(), scripted.0.lock().len())
    }

    fn said() -> StreamEvent {
        StreamEvent::TextDelta { index: 0, delta: "a".into() }
    }

    fn thought() -> StreamEvent {
        StreamEvent::ThinkingDelta { index: 0, delta: "hm".into() }
    }

    fn failing(kind: ProviderErrorKind, retry_after: Option<u64>) -> ProviderError {
        let retry_after = retry_after.map(Duration::from_secs);
        ProviderError { retry_after, ..ProviderError::new(kind, "500 boom") }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_provider_is_tried_three_times_with_growing_waits() {
        let broken = || (None, Some(failing(ProviderErrorKind::Server, None)));
        let (ok, events, waited, _) = play(vec![broken(), broken(), broken()]).await;
        assert!(!ok);
        let delays: Vec<_> = events
            .iter()
            .map(|event| match event {
                StreamEvent::Retry(notice) => {
                    assert_eq!((notice.max_attempts, notice.message.as_str()), (2, "500 boom"));
                    (notice.attempt, notice.delay)
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(delays.iter().map(|(attempt, _)| *attempt).collect::<Vec<_>>(), [1, 2]);
        let within = |delay: Duration, full: u64| {
            delay >= Duration::from_millis(full * 3 / 4) && delay <= Duration::from_millis(full)
        };
        assert!(within(delays[0].1, 500) && within(delays[1].1, 1000), "{delays:?}");
        assert!(waited >= delays[0].1 + delays[1].1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_that_the_provider_asks_for_is_kept() {
        let limited = (None, Some(failing(ProviderErrorKind::RateLimit, Some(7))));
        let (ok, events, waited, _) = play(vec![limited, (Some(said()), None)]).await;
        assert!(ok);
        assert_eq!(events.len(), 2);
        assert!(waited >= Duration::from_secs(7) && waited < Duration::from_secs(8), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn too_long_a_wait_fails_at_once() {
        let limited = (None, Some(failing(ProviderErrorKind::RateLimit, Some(61))));
        let (ok, events, waited, left) = play(vec![limited, (Some(said()), None)]).await;
        assert_eq!((ok, events.len(), waited, left), (false, 0, Duration::ZERO, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_wait_is_passed_over_where_somebody_else_can_be_asked() {
        for (kind, seconds, is_waited_for) in [
            (ProviderErrorKind::RateLimit, 5, true),
            (ProviderErrorKind::RateLimit, 6, false),
            // Of another key nothing better is to be expected.
            (ProviderErrorKind::Overloaded, 6, true),
        ] {
            let failed = (None, Some(failing(kind, Some(seconds))));
            let scripted = Scripted(Mutex::new(vec![failed, (Some(said()), None)]));
            let retry = Retry::new(Arc::new(scripted), RetryPolicy::default());
            let (start, request) = (Instant::now(), request(vec![]));
            let passes = FailureReason::rotates;
            let answered = retry.stream_or_pass(&request, passes, &mut |_| {}).await;
            let waited = start.elapsed() >= Duration::from_secs(seconds);
            assert_eq!((answered.is_ok(), waited), (is_waited_for, is_waited_for), "{seconds}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_has_said_something_is_never_repeated() {
        let cut = (Some(said()), Some(failing(ProviderErrorKind::Cut, None)));
        let (ok, events, _, left) = play(vec![cut, (Some(said()), None)]).await;
        assert_eq!((ok, events, left), (false, vec![said()], 1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_was_cut_while_it_was_thought_about_begins_anew() {
        let cut = (Some(thought()), Some(failing(ProviderErrorKind::Cut, None)));
        let (ok, mut events, _, left) = play(vec![cut, (Some(said()), None)]).await;
        assert!(matches!(events.remove(1), StreamEvent::Retry(_)));
        let rest = vec![thought(), StreamEvent::Anew, said()];
        assert_eq!((ok, events, left), (true, rest, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_text_of_which_people_have_seen_nothing_begins_anew() {
        for text in ["<think>hm, ", "\n", "NO_RE", "[[reply_to"] {
            let hidden = Some(StreamEvent::TextDelta { index: 0, delta: text.into() });
            let cut = (hidden, Some(failing(ProviderErrorKind::Cut, None)));
            let (ok, events, _, left) = play(vec![cut, (Some(said()), None)]).await;
            assert_eq!((ok, left), (true, 0), "{text}");
            assert_eq!(events[2..], [StreamEvent::Anew, said()], "{text}");
        }
        let seen = "<think>hm</think>So";
        let seen = Some(StreamEvent::TextDelta { index: 0, delta: seen.into() });
        let cut = (seen, Some(failing(ProviderErrorKind::Cut, None)));
        let (ok, _, _, left) = play(vec![cut, (Some(said()), None)]).await;
        assert_eq!((ok, left), (false, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_thrown_away_attempt_has_used_is_told() {
        let mut partial = testing::answer(&request(vec![]).model);
        partial.usage.input = 3;
        let error = failing(ProviderErrorKind::Cut, None).with_partial(partial);
        let (_, events, _, _) =
            play(vec![(Some(thought()), Some(error)), (Some(said()), None)]).await;
        let used = events.iter().find_map(|event| match event {
            StreamEvent::Retry(notice) => Some(notice.usage.input),
            _ => None,
        });
        assert_eq!(used, Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_get_better_is_not_repeated() {
        let denied = (None, Some(failing(ProviderErrorKind::Auth, None)));
        let (ok, events, _, left) = play(vec![denied, (Some(said()), None)]).await;
        assert_eq!((ok, events.len(), left), (false, 0, 1));
    }

    #[test]
    fn waits_do_not_grow_for_ever() {
        let policy = RetryPolicy { retries: 40, ..RetryPolicy::default() };
        let error = ProviderError::cut();
        assert!(policy.delay(40, &error).unwrap() <= policy.max_delay);
    }
}
