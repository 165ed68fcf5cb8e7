//! What a session is busy with, as its state in lists.

use std::collections::{HashMap, HashSet};

use crate::agent::approvals::QuestionKind;
use crate::registry::Services;
use crate::sessions::SessionKey;
use crate::store::SessionMarks;

/// What runs, and what waits for somebody's word, at one moment.
pub(super) struct Bustle {
    busy: HashSet<SessionKey>,
    /// When the last question of a session was asked, in milliseconds since the
    /// epoch.
    asked: HashMap<String, u64>,
}

impl Bustle {
    /// As it is now.
    pub(super) fn now(services: &Services) -> Self {
        let mut asked = HashMap::<String, u64>::new();
        let approvals = &services.runs.parts().approvals;
        for kind in [QuestionKind::Exec, QuestionKind::Plugin] {
            for question in approvals.list(kind) {
                let Some(key) = question.request["sessionKey"].as_str() else { continue };
                let at = asked.entry(key.to_owned()).or_default();
                *at = question.created_at.max(*at);
            }
        }
        Self { busy: services.runs.busy_sessions(), asked }
    }

    /// The sessions in which something runs or waits.
    pub(super) fn keys(&self) -> Vec<String> {
        self.busy.iter().map(ToString::to_string).collect()
    }

    /// The state of a session: the first that is true of it.
    pub(super) fn of(&self, key: &str, session_id: &str, marks: &SessionMarks) -> &'static str {
        let works = self.busy.contains(&SessionKey::from_canonical(key));
        let asks = self.asked.get(key).is_some_and(|asked| *asked > marks.seen_at);
        if marks.is_archived(session_id) {
            "archived"
        } else if works && asks {
            "unread"
        } else if works {
            "working"
        } else if marks.results > marks.read {
            "unread"
        } else {
            "idle"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_state_that_is_true_counts() {
        let key = "agent:main:a";
        let of = |works: bool, asked: Option<u64>, marks: SessionMarks| {
            let busy = works.then(|| SessionKey::from_canonical(key)).into_iter().collect();
            let asked = asked.map(|at| (key.to_owned(), at)).into_iter().collect();
            Bustle { busy, asked }.of(key, "s", &marks)
        };
        let marks = || SessionMarks { results: 2, read: 2, seen_at: 5, archived_id: None };
        let new = || SessionMarks { results: 3, ..marks() };
        assert_eq!(of(false, None, marks()), "idle");
        assert_eq!(of(false, None, new()), "unread");
        assert_eq!(of(true, None, new()), "working");
        assert_eq!(of(true, Some(6), marks()), "unread");
        assert_eq!(of(true, Some(5), marks()), "working", "it was seen");
        assert_eq!(of(false, Some(6), marks()), "idle", "nobody works on it any more");
        let archived = |id: &str| SessionMarks { archived_id: Some(id.into()), ..new() };
        assert_eq!(of(true, Some(6), archived("s")), "archived");
        assert_eq!(of(false, None, archived("before")), "unread");
    }
}
