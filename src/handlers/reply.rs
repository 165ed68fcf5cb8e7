//! Answers that are to go to a channel, too: `deliver` of `agent` and
//! `chat.send`, and messages that another system passes on.

use std::time::Duration;

use crate::agent::{Family, RunReport};
use crate::channels::{Expected, ReplyTo, Target, TargetError, Wanted};
use crate::config::channels::ChannelKind;
use crate::protocol::ErrorShape;
use crate::protocol::methods::agent::AgentParams;
use crate::protocol::methods::chat::Route;
use crate::registry::{Ctx, Reply};
use crate::sessions::{SessionKey, WEBCHAT};

/// Names the channel that a session was written to from last.
const LAST: &str = "last";
/// How long the last answer of `agent` waits for the channel to have the reply.
const DELIVERY_WAIT: Duration = Duration::from_secs(5);

/// What must be refused before anything is accepted.
pub(super) fn check_agent(cx: &Ctx, p: &AgentParams) -> Reply<()> {
    let channels = &cx.services.runs.parts().channels;
    let named = p.reply.channel.as_deref().filter(|name| ![LAST, WEBCHAT].contains(name));
    // The session may be a main one.
    if p.deliver
        && channels.is_empty()
        && let Err(error) = channels.kind(named)
        && !goes_on(p, &error, true)
    {
        return Err(refused(&error));
    }
    Ok(())
}

/// Whether the run goes on though its answer cannot be sent. Where nobody says so, that of a main
/// session does, as in the original, if it is not even known where to.
fn goes_on(p: &AgentParams, error: &TargetError, is_main: bool) -> bool {
    let is_nowhere = matches!(
        error,
        TargetError::NoChannel
            | TargetError::SeveralChannels(_)
            | TargetError::Webchat
            | TargetError::NoTarget(_)
    );
    p.best_effort.unwrap_or(is_main && is_nowhere)
}

/// A channel that is not there is told in the words with which the original's run fails then.
fn refused(error: &TargetError) -> ErrorShape {
    ErrorShape::invalid(match error {
        TargetError::Unsupported(name) => {
            format!("Error: Outbound not configured for channel: {name}")
        }
        error => error.to_string(),
    })
}

/// Writes down where the answer of `agent` goes, if it is to go anywhere.
pub(super) async fn of_agent(
    cx: &Ctx,
    key: &SessionKey,
    p: &AgentParams,
) -> Reply<Option<Expected>> {
    if !p.deliver {
        return Ok(None);
    }
    let channels = &cx.services.runs.parts().channels;
    let named = Wanted {
        channel: p.reply.channel.as_deref().filter(|name| *name != LAST),
        account: p.reply.account.as_deref(),
        to: p.reply.to.as_deref(),
        thread: p.reply.thread.as_deref(),
    };
    let place = channels.place_of_session(key).await;
    match channels.target(&completed(named, place.as_ref())) {
        Ok(target) => expect(cx, Family::Agent, key, &p.idempotency_key, target).await.map(Some),
        Err(error) => {
            let keys = &cx.services.keys.now();
            let is_main = *key == SessionKey::main(&key.agent(keys), keys);
            if goes_on(p, &error, is_main) { Ok(None) } else { Err(refused(&error)) }
        }
    }
}

/// A place as it is named, with what is left out as it is in the session's own place, unless
/// another channel or account is named.
fn completed<'a>(named: Wanted<'a>, place: Option<&'a Target>) -> Wanted<'a> {
    let Some(Target { kind, address }) = place else { return named };
    let is_elsewhere = named.channel.is_some_and(|name| ChannelKind::parse(name) != Some(*kind))
        || named.account.is_some_and(|id| id.trim() != address.account);
    if is_elsewhere {
        return named;
    }
    Wanted {
        channel: Some(kind.as_str()),
        account: Some(address.account.as_str()),
        to: named.to.or(Some(address.target.as_str())),
        // The thread of one chat is none of another.
        thread: named.thread.or_else(|| named.to.is_none().then_some(address.thread.as_str())),
    }
}

/// The same for `chat.send`: where the message came from, or the session's
/// channel. That there is none is no error there.
pub(super) async fn of_chat(
    cx: &Ctx,
    key: &SessionKey,
    run_id: &str,
    route: Option<&Route>,
    deliver: bool,
) -> Reply<Option<Expected>> {
    let channels = &cx.services.runs.parts().channels;
    if channels.is_empty() {
        return Ok(None);
    }
    let target = match route {
        Some(route) => channels
            .target(&Wanted {
                channel: Some(&route.channel),
                account: route.account_id.as_deref(),
                to: Some(&route.to),
                thread: route.thread_id.as_deref(),
            })
            .ok(),
        None if deliver => channels.place_of_session(key).await,
        None => None,
    };
    match target {
        Some(target) => expect(cx, Family::Chat, key, run_id, target).await.map(Some),
        None => Ok(None),
    }
}

/// Writes down that the answer of a run goes to this place.
pub(super) async fn expect(
    cx: &Ctx,
    family: Family,
    key: &SessionKey,
    run_id: &str,
    target: Target,
) -> Reply<Expected> {
    let (run_id, key) = (run_id.to_owned(), key.clone());
    let address = target.address;
    let reply = ReplyTo { run_id, family, key, address, reply_to: None, is_overheard: false };
    let expected = cx.services.runs.parts().channels.expect(reply).await;
    expected.map_err(|error| ErrorShape::unavailable(format!("Error: {error}")))
}

/// There is a run, or there is none.
pub(super) async fn settle(expected: Option<Expected>, has_run: bool) {
    if let Some(expected) = expected {
        expected.settle(has_run).await;
    }
}

/// Whether the channel has the reply of a run that has ended.
pub(super) async fn is_delivered(cx: &Ctx, report: &RunReport) -> bool {
    let delivery = report.progress.answered_by.as_deref().unwrap_or(&report.run_id);
    if report.progress.shown().is_empty() {
        return false;
    }
    let channels = &cx.services.runs.parts().channels;
    channels.delivered(delivery, DELIVERY_WAIT).await.is_ok_and(|delivered| delivered.is_complete)
}
