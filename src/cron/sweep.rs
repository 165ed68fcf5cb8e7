//! Sessions of single runs that nobody needs any more.

use crate::sessions::{Remains, SessionKey, SessionQuery};

use super::scheduler::Worker;

/// They are looked for at most this often, in milliseconds.
const EVERY_MS: u64 = 10 * 60 * 1000;
/// So many go at a time; the rest goes the next time.
const AT_A_TIME: u32 = 200;

/// Whether it is time to look for them; the clock may have been ahead the last time.
const fn is_time(last: u64, now: u64) -> bool {
    last > now || now - last >= EVERY_MS
}

impl Worker {
    /// Removes the sessions of runs that ended long ago. What the session of a
    /// job still shows keeps its transcript.
    pub(super) async fn sweep(&self) {
        let Some(kept) = self.cron.parts.settings.now().cron.session_retention_ms else { return };
        let now = {
            let mut state = self.cron.state.lock();
            // Not before: another run may have looked meanwhile.
            let now = self.cron.now_ms();
            if !is_time(state.swept_at, now) {
                return;
            }
            state.swept_at = now;
            now
        };
        let sessions = &self.cron.parts.sessions;
        let query = SessionQuery {
            job_runs_until: Some(now.saturating_sub(kept)),
            limit: Some(AT_A_TIME),
            ..SessionQuery::default()
        };
        let old = match sessions.list(query).await {
            Ok(page) => page.entries,
            Err(error) => {
                tracing::warn!(%error, "old sessions of jobs not looked for");
                return;
            }
        };
        for row in old {
            let key = SessionKey::from_canonical(row.key);
            if self.runs.is_in_use(&key) {
                continue;
            }
            match sessions.delete(&key, Remains::PutAway).await {
                Ok(_) => {
                    self.runs.parts().session_deleted(&key);
                    self.runs.parts().events.reason(&key, None, "delete", false);
                }
                Err(error) => tracing::warn!(session = %key, %error, "old session not removed"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_ahead_puts_nothing_off() {
        let last = 100 * EVERY_MS;
        assert!(!is_time(last, last + EVERY_MS - 1));
        assert!(is_time(last, last + EVERY_MS));
        assert!(is_time(last, EVERY_MS) && is_time(last, last - 1), "it has been set back");
    }
}
