//! What is done for a connection, one thing after the other.
//!
//! Promises: what is said is done in the order in which it came; each has one
//! `done`, the last frame of its response, however it ends. There is a task only
//! while there is something to do.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;

use super::action::{Said, shortened};
use super::conversation::{self, Hidden, Resumed};
use super::follow::Following;
use super::frame;
use super::turn::{End, Turn};
use super::view::{Job, View};
use crate::agent::Family;
use crate::dialects::chat::book::Session;
use crate::dialects::chat::commands;
use crate::dialects::chat::media;
use crate::protocol::ErrorShape;
use crate::registry::Reply;
use crate::sessions::SessionKey;
use crate::support::json;

/// What is said when the gateway has a fault.
const FAULT: &str = "Internal error";
/// What is said to a word that stops what runs.
const STOPPED: &str = "Stopped.";

/// Adds something to be done, made with the conversation that is open.
pub fn queue(view: &Arc<View>, make: impl FnOnce(Option<Session>) -> Job) {
    if view.push(make) {
        let view = Arc::clone(view);
        let tasks = view.services().tasks.clone();
        tasks.spawn("chat-turn", work(view));
    }
}

async fn work(view: Arc<View>) {
    let mut following = None;
    loop {
        while let Some(job) = view.next_job() {
            let doing = AssertUnwindSafe(Box::pin(act(&view, &mut following, job)));
            if doing.catch_unwind().await.is_err() {
                tracing::error!(conn = %view.subscriber.conn_id, "a response panicked");
                view.tell(&frame::error(FAULT));
                view.done();
                following = None;
            }
        }
        if let Some(following) = &mut following {
            following.between().await;
        }
        if view.gone.is_cancelled() || following.as_ref().is_none_or(Following::is_over) {
            following = None;
            if view.rests() {
                return;
            }
        }
    }
}

/// The conversation that is followed, if one is.
type Followed<'a> = Option<Following<'a>>;

/// Follows a session, unless that is done already.
fn follow<'f, 'a>(
    followed: &'f mut Followed<'a>,
    view: &'a View,
    key: &SessionKey,
) -> &'f mut Following<'a> {
    if followed.as_ref().is_some_and(|following| !following.is_of(key)) {
        // Before the next one begins: each says which it is.
        *followed = None;
    }
    followed.get_or_insert_with(|| Following::of(view, key.clone()))
}

async fn act<'a>(view: &'a View, followed: &mut Followed<'a>, job: Job) {
    match job {
        Job::Say(said, place) => {
            view.begin();
            if let Err(error) = say(view, followed, said, place).await {
                view.tell(&frame::error(&error.message));
            }
            view.done();
        }
        Job::Refuse(why, count) => {
            for _ in 0..count {
                view.begin();
                view.tell(&frame::error(&why));
                view.done();
            }
        }
        Job::Watch(key) => watch(view, followed, key).await,
        // A border between what is said; there is nothing to do.
        Job::Opened => {}
    }
}

/// Does what somebody says in a conversation, or in none yet: a command, or a message
/// for the model.
async fn say<'a>(
    view: &'a View,
    followed: &mut Followed<'a>,
    said: Said,
    place: Option<Session>,
) -> Reply<()> {
    let Said { text, session_id } = said;
    let (place, session) = match session_id {
        Some(id) => {
            let Some(found) = find(view, &id).await? else {
                let text = format!("Session {} not found", shortened(&id));
                return Err(ErrorShape::not_found(text));
            };
            view.move_to_named(place.as_ref(), &found);
            (found.session.clone(), found.session)
        }
        None => (place.clone(), place.or_else(|| view.session())),
    };
    let key = session.as_ref().map(|session| &session.key);
    if let Some(replies) = Box::pin(commands::run(&view.cx(), key, &text)).await {
        answer(view, place.as_ref(), replies);
        return Ok(());
    }
    let session = if let Some(session) = session {
        session
    } else {
        let session = conversation::begin(&view.cx(), view.hidden_agent()).await?;
        view.open_begun(&session);
        session
    };
    let hidden = view.take_hidden(&session.key);
    let following = follow(followed, view, &session.key);
    let asked = ask(view, following, session.key, &text, hidden.as_ref()).await;
    if asked.is_err() {
        view.keep_hidden(hidden);
    }
    asked
}

/// The conversation with this id, or the one that goes on from it.
///
/// # Errors
/// When the client may not see it, or it cannot be read.
pub async fn find(view: &View, id: &str) -> Reply<Option<Resumed>> {
    let Some(successor) = view.successor(id) else {
        return conversation::find(&view.cx(), id).await;
    };
    let found = conversation::find(&view.cx(), &successor.id).await?;
    Ok(found.map(|found| Resumed { id: id.to_owned(), ..found }))
}

/// The answers of a command that was said in this conversation, each of them a
/// response.
fn answer(view: &View, place: Option<&Session>, replies: Vec<commands::Reply>) {
    for (index, reply) in replies.into_iter().enumerate() {
        if index > 0 {
            view.done();
            view.begin();
        }
        if let Some(session) = reply.moved {
            view.tell(&frame::session_created(&session.id));
            view.move_on(place, session);
        }
        view.tell(&frame::message(&reply.content));
    }
}

/// Sends a message, and tells what becomes of it.
async fn ask(
    view: &View,
    following: &mut Following<'_>,
    key: SessionKey,
    text: &str,
    hidden: Option<&Hidden>,
) -> Reply<()> {
    let run_id = view.services().ids.uuid();
    let mut params = json!({"sessionKey": key.as_str(), "message": text, "idempotencyKey": run_id});
    // Dropped before the response is followed: the run begins with that.
    let cx = view.cx();
    if let Some(hidden) = hidden {
        hidden.add_to(&cx, &key, &mut params).await?;
    }
    let accepted = cx.call("chat.send", &params).await?;
    drop(cx);
    let Some(active) = accepted["runId"].as_str() else {
        view.tell(&frame::message(STOPPED));
        return Ok(());
    };
    tell_to_end(view, following, Turn::new(active.to_owned(), key)).await;
    Ok(())
}

/// Shows the rest of a response that is under way, while its conversation is open.
async fn watch<'a>(view: &'a View, followed: &mut Followed<'a>, key: SessionKey) {
    let Some(left) = view.watch(&key) else { return };
    let following = follow(followed, view, &key);
    let run = view.services().runs.active(&key);
    // A lane that is only held answers nobody.
    let Some(run) = run.filter(|run| run.family != Family::Hold) else { return };
    view.begin();
    let mut turn = Turn::watched(run.id.to_string(), key);
    view.tell_all(turn.catch_up(run.progress().shown()));
    tokio::select! {
        () = left.cancelled() => {}
        () = tell_to_end(view, following, turn) => {}
    }
    view.done();
}

async fn tell_to_end(view: &View, following: &mut Following<'_>, mut turn: Turn) {
    let over = following.tell_to_end(&mut turn).await;
    view.settle_ended();
    if over.end == End::Answered {
        view.tell_all(turn.catch_up(&over.text));
    }
    let (files, missing) = media::keep(&view.gateway, &turn.key, &over.files).await;
    view.tell_all(turn.add(&missing));
    view.tell_all(turn.close(&over.end, &files));
}
