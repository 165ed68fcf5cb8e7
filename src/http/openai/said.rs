//! What a request says to a session that may know some of it.
//!
//! Promises: what the session has heard is not said again, also when its run came
//! to no answer; what came with a message goes with it.

use axum::response::Response;
use serde_json::Value;

use super::fetch::{Given, attachments};
use super::words::{Entry, first_new, heard, message};
use crate::config::EndpointSettings;
use crate::http::{Attending, Manner};
use crate::protocol::message::{AgentMessage, AssistantMessage, StopReason};
use crate::registry::Ctx;
use crate::sessions::SessionKey;

/// The message, and what comes with it, fetched. `given` came with the entries, one by
/// one.
///
/// # Errors
/// The answer when something is not to be had, or whoever asks is let in no more.
pub async fn received(
    (attending, cx): (&Attending, &Ctx),
    key: &SessionKey,
    (entries, given): (&[Entry], Vec<Vec<Given>>),
    settings: &EndpointSettings,
) -> Result<(String, Vec<Value>), Response> {
    let receiving = async {
        let (text, given) = said(cx, key, entries, given).await;
        let fetched = attachments(cx, given, settings).await;
        fetched.map(|fetched| (text, fetched)).map_err(|wrong| wrong.answer())
    };
    let cut = || Err(Attending::cut(Manner::OpenAi));
    attending.unless_cut(receiving).await.unwrap_or_else(cut)
}

/// The message, and what comes with it. `given` came with the entries, one by one.
async fn said(
    cx: &Ctx,
    key: &SessionKey,
    entries: &[Entry],
    given: Vec<Vec<Given>>,
) -> (String, Vec<Given>) {
    let first = first_new(entries).unwrap_or_default();
    let unanswered = match (goes_on(cx, key).await, entries.len() - first) {
        (false, _) => None,
        // The last one is said in any case.
        (true, 0 | 1) => Some(Vec::new()),
        (true, _) => Some(unanswered(cx, key).await),
    };
    unheard(entries, first, given, unanswered.as_deref())
}

/// The same for a session that has not answered these messages; `None` is a new one.
/// What is new begins with `first`.
fn unheard(
    entries: &[Entry],
    first: usize,
    given: Vec<Vec<Given>>,
    unanswered: Option<&[String]>,
) -> (String, Vec<Given>) {
    let (text, first) = match unanswered {
        Some(unanswered) => {
            let first = first + heard(&entries[first..], unanswered);
            (message(&entries[first..], true), first)
        }
        None => (message(entries, false), first),
    };
    (text, given.into_iter().skip(first).flatten().collect())
}

/// Whether there is a session, and the next message does not begin it anew.
pub async fn goes_on(cx: &Ctx, key: &SessionKey) -> bool {
    let sessions = &cx.services.sessions;
    match sessions.entry(key).await {
        Ok(Some(entry)) => {
            !sessions.is_stale(key, &entry, cx.now_ms(), None).await.unwrap_or(false)
        }
        _ => false,
    }
}

/// What users have said in a session since its last answer. One that cannot be read
/// fails the run that is about to begin.
async fn unanswered(cx: &Ctx, key: &SessionKey) -> Vec<String> {
    let context = cx.services.sessions.context(key).await.unwrap_or_default();
    let last = context.iter().rposition(is_answer);
    let later = context.iter().skip(last.map_or(0, |last| last + 1));
    let of_users = later.filter(|message| matches!(message, AgentMessage::User(_)));
    of_users.map(AgentMessage::text).collect()
}

/// Whether a run ended with it as it should.
const fn is_answer(message: &AgentMessage) -> bool {
    let AgentMessage::Assistant(AssistantMessage { stop_reason, .. }) = message else {
        return false;
    };
    matches!(stop_reason, StopReason::Stop | StopReason::Length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::openai::words::Who;
    use crate::support::json;

    #[test]
    fn what_a_session_has_heard_without_an_answer_is_not_said_again() {
        let entries = ["old", "look", "look", "now"].map(|text| {
            let who = if text == "old" { Who::Assistant } else { Who::User };
            Entry { who, text: text.to_owned() }
        });
        let given = |index: usize| Given::Here(json!(index));
        let unheard = |unanswered: Option<&[&str]>| {
            let texts: Option<Vec<_>> =
                unanswered.map(|all| all.iter().map(|&it| it.to_owned()).collect());
            let each = (0..entries.len()).map(|index| vec![given(index)]).collect();
            super::unheard(&entries, first_new(&entries).unwrap(), each, texts.as_deref())
        };
        let whole = ("look\n\nlook\n\nnow".to_owned(), vec![given(1), given(2), given(3)]);
        assert_eq!(unheard(Some(&[])), whole);
        assert_eq!(unheard(Some(&["now"])), whole);
        // Each is one of them.
        let rest = ("look\n\nnow".to_owned(), vec![given(2), given(3)]);
        assert_eq!(unheard(Some(&["of others", "look"])), rest);
        // The last is said, whatever was heard.
        let last = ("now".to_owned(), vec![given(3)]);
        assert_eq!(unheard(Some(&["look", "look", "now"])), last);
        let (text, all) = unheard(None);
        assert!(text.contains("Assistant: old\n") && text.ends_with("User: now"), "{text}");
        assert_eq!(all, whole.1);
    }
}
