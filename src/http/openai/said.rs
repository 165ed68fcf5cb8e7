//! What a request says to a session that may know some of it.
//!
//! Promises: what the session has heard is not said again, also when its run came
//! to no answer; what came with a message goes with it, and goes again to a session that
//! is new.

use axum::response::Response;
use serde_json::Value;

use super::fetch::{COUNT_MAX, Given, attachments};
use super::words::{Entry, first_new, heard, message};
use crate::config::EndpointSettings;
use crate::handlers::can_be_read;
use crate::http::{Attending, Manner};
use crate::protocol::message::{AgentMessage, AssistantMessage, StopReason};
use crate::registry::Ctx;
use crate::sessions::SessionKey;
use crate::support::blocking;

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
    let given = if unanswered.is_none() { receivable(cx, given, first).await } else { given };
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
    let Some(unanswered) = unanswered else {
        return (message(entries, false), with_earlier(given, first));
    };
    let first = first + heard(&entries[first..], unanswered);
    (message(&entries[first..], true), given.into_iter().skip(first).flatten().collect())
}

/// Without what came before `first` and cannot be received. A client without a session would
/// send it again with each message, and each would be refused for it.
async fn receivable(cx: &Ctx, mut given: Vec<Vec<Given>>, first: usize) -> Vec<Vec<Given>> {
    let new = given.split_off(first.min(given.len()));
    let (count, settings) = (given.len(), cx.services.settings.now());
    // Decoding megabytes is no work for a thread that serves sockets.
    let sorted = blocking(move || {
        let is_good = |it: &Given| match it {
            Given::Here(item) => can_be_read(item, &settings),
            Given::There { .. } => true,
        };
        for of_one in &mut given {
            of_one.retain(is_good);
        }
        given
    });
    let mut all = sorted.await.unwrap_or_else(|_| vec![Vec::new(); count]);
    all.extend(new);
    all
}

/// What came with what is new, and before it what came earlier: the newest of that, as far
/// as there is room. What was at an address then need not be there any more, so that it
/// stays out.
fn with_earlier(mut given: Vec<Vec<Given>>, first: usize) -> Vec<Given> {
    let new = given.split_off(first.min(given.len()));
    let new: Vec<_> = new.into_iter().flatten().collect();
    let earlier = given.into_iter().flatten().filter(|it| matches!(it, Given::Here(_)));
    let mut all: Vec<_> = earlier.collect();
    let room = COUNT_MAX.saturating_sub(new.len());
    all.drain(..all.len().saturating_sub(room));
    all.extend(new);
    all
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
        assert_eq!(all, [vec![given(0)], whole.1].concat());
    }

    #[test]
    fn what_came_earlier_leaves_room_for_what_is_new() {
        let here = |name: &str| Given::Here(json!(name));
        let there =
            Given::There { url: "https://example.com/a".into(), place: "x".into(), file: None };
        let many: Vec<_> = (0..COUNT_MAX).map(|index| here(&index.to_string())).collect();
        let earlier = vec![vec![here("first")], many.clone(), vec![there.clone()]];
        let all = with_earlier([earlier, vec![vec![here("new")], vec![there.clone()]]].concat(), 3);
        assert_eq!(all, [&many[2..], &[here("new"), there]].concat());
        // Too many of what is new are told as too many.
        let all = with_earlier(vec![vec![here("old")], [many, vec![here("new")]].concat()], 1);
        assert_eq!(all.len(), COUNT_MAX + 1);
    }
}
