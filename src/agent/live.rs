//! What a session is busy with, for those who come late.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;

use crate::protocol::message::AgentMessage;
use crate::sessions::{
    HistoryOptions, HistoryPage, Lookup, SessionError, SessionKey, waiting_message, whole_message,
};

use super::run::ActiveRun;
use super::runs::Runs;

/// How often a page is read again because a run started or ended meanwhile.
/// After that it is given as it is; the events that follow put it right.
const MAX_READS: usize = 3;

impl Runs {
    /// The newest messages of a session and the run that is active in it, as
    /// of one moment. Messages that wait come last, marked as pending.
    pub async fn history(
        &self,
        key: &SessionKey,
        options: HistoryOptions,
    ) -> Result<(HistoryPage, Option<Arc<ActiveRun>>), SessionError> {
        let mut before = self.busy(key);
        let mut reads = 0;
        loop {
            let mut page = self.parts.sessions.history(key, options).await?;
            reads += 1;
            let after = self.busy(key);
            if same(&before, &after) || reads == MAX_READS {
                add_waiting(&mut page, &before, options);
                let active = after.into_iter().next().map(|busy| busy.run);
                return Ok((page, active.filter(|run| run.progress().started_at.is_some())));
            }
            before = after;
        }
    }

    /// One message of a session, also one that waits for its run.
    pub async fn message(
        &self,
        key: &SessionKey,
        id: &str,
        max_chars: usize,
    ) -> Result<Lookup, SessionError> {
        let found = self.parts.sessions.message(key, id, max_chars).await?;
        let waiting = self.busy(key).into_iter().find(|busy| *busy.run.message_id == *id);
        Ok(match (found, waiting) {
            (Lookup::Missing, Some(Busy { run, .. })) => {
                let message = AgentMessage::User(run.message.clone());
                whole_message(&message, id, max_chars).map_or(Lookup::Hidden, Lookup::Found)
            }
            (found, _) => found,
        })
    }

    /// The sessions in which something runs or waits that clients are shown.
    pub fn busy_sessions(&self) -> HashSet<SessionKey> {
        let runs = self.lanes.table().all();
        runs.into_iter().filter(|run| run.is_shown()).map(|run| run.key.clone()).collect()
    }

    /// The runs of a session that clients are shown, the active one first.
    fn busy(&self, key: &SessionKey) -> Vec<Busy> {
        let mut runs = self.lanes.table().of_session(key);
        runs.retain(|run| run.is_shown());
        runs.into_iter().map(|run| Busy { is_stored: run.is_stored(), run }).collect()
    }
}

/// A run, and whether a page that is read from now on has its message.
struct Busy {
    run: Arc<ActiveRun>,
    is_stored: bool,
}

fn same(before: &[Busy], after: &[Busy]) -> bool {
    before.iter().map(|busy| &busy.run.id).eq(after.iter().map(|busy| &busy.run.id))
}

fn add_waiting(page: &mut HistoryPage, runs: &[Busy], options: HistoryOptions) {
    for Busy { run, .. } in runs.iter().filter(|busy| !busy.is_stored) {
        let id = &run.message_id;
        let is_there = |message: &Value| message["__openclaw"]["id"] == **id;
        if page.messages.iter().any(is_there) {
            continue;
        }
        let message = AgentMessage::User(run.message.clone());
        page.messages.extend(waiting_message(&message, id, options.max_chars));
    }
    let surplus = page.messages.len().saturating_sub(options.limit);
    page.messages.drain(..surplus);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::run::tests::run;
    use crate::support::json;

    #[test]
    fn waiting_messages_come_last_once_and_within_the_limit() {
        let busy = |id, is_stored| Busy { run: run(id, "main"), is_stored };
        let mut page = HistoryPage { messages: vec![json!(1), json!(2)], ..HistoryPage::default() };
        let options = |limit| HistoryOptions { limit, ..HistoryOptions::default() };
        add_waiting(&mut page, &[busy("a", true), busy("b", false)], options(2));
        assert_eq!(page.messages[0], json!(2));
        assert_eq!(page.messages[1]["role"], "user");
        assert_eq!(page.messages[1]["__openclaw"], json!({"id": "m", "pending": true}));
        add_waiting(&mut page, &[busy("b", false)], options(9));
        assert_eq!(page.messages.len(), 2);
    }
}
