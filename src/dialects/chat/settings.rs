//! Changes of the config file that the dialect's own forms stand for.
//!
//! Promises: only for those who may call `config.patch`; a change is worked out
//! from what the file says at that moment; what the gateway would not start with is
//! not written; when this returns, the gateway uses it, or restarts for it once it has
//! answered (`gateway.reload.mode`). Like `/config` of other chats, and unlike
//! `config.patch`, it is not counted: a form has a switch for each tool.

use serde_json::{Map, Value};

use crate::agent::roster::WouldWork;
use crate::config::SaveError;
use crate::config::document::{self, ConfigWriteError};
use crate::handlers;
use crate::protocol::ErrorShape;
use crate::registry::{Ctx, Reply};
use crate::support::json;

/// Who may call this may change the config.
const METHOD: &str = "config.patch";

type Change<T> = dyn FnMut(&mut Value) -> Reply<T> + Send;

/// Why nothing is changed.
enum Failed {
    Refused(ErrorShape),
    Write(ConfigWriteError),
    Save(SaveError),
}

impl From<ConfigWriteError> for Failed {
    fn from(error: ConfigWriteError) -> Self {
        Self::Write(error)
    }
}

impl From<SaveError> for Failed {
    fn from(error: SaveError) -> Self {
        Self::Save(error)
    }
}

/// Changes the config; `change` gets its top level, and may be called more than
/// once. What it answers at last is answered.
///
/// # Errors
/// Those of `change`, and when the caller may not or the file cannot be changed.
pub async fn change<T: Send + 'static>(
    cx: &Ctx,
    change: impl FnMut(&mut Value) -> Reply<T> + Send + 'static,
) -> Reply<T> {
    change_by(cx, Box::new(change)).await
}

/// The same, in the program once for all changes that answer a `T`.
async fn change_by<T: Send + 'static>(cx: &Ctx, mut change: Box<Change<T>>) -> Reply<T> {
    cx.check(METHOD)?;
    let env = cx.services.env.clone();
    let work = move |would_work: Box<WouldWork>| {
        let mut told = None;
        let plan = |before: &Value| {
            let mut next = before.clone();
            told = Some(change(&mut next).map_err(Failed::Refused)?);
            Ok(next)
        };
        let changed = document::change::<Failed>(&env, plan, |_| Ok(()), would_work);
        changed.map(|_| told)
    };
    let stopped = || ErrorShape::unavailable("the config file was not changed; the log says why");
    let written = handlers::in_turn(&cx.services, work).await;
    let (written, _turn) = written.map_err(|_| stopped())?;
    let told = written.map_err(|failed| match failed {
        Failed::Refused(error) => error,
        Failed::Write(error) => ErrorShape::invalid(error.to_string()),
        Failed::Save(error) => ErrorShape::unavailable(error.to_string()),
    })?;
    let by = &cx.caller.name;
    tracing::info!(%by, "the config file was changed by the action chat");
    let taken = handlers::take_up(cx, false).await;
    taken.map_err(|wrong| ErrorShape::unavailable(format!("not in use: {}", wrong.message)))?;
    told.ok_or_else(stopped)
}

/// The value at a path of sections, which are made if need be.
pub fn at<'a>(config: &'a mut Value, path: &[&str]) -> &'a mut Value {
    let mut at = config;
    for name in path {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[*name];
    }
    at
}

/// Takes away what stands at a path, and the sections that are empty then.
pub fn remove(config: &mut Value, path: &[&str]) -> Option<Value> {
    let (name, sections) = path.split_last()?;
    let mut at = &mut *config;
    for section in sections {
        at = at.get_mut(*section)?;
    }
    let removed = at.as_object_mut()?.shift_remove(*name);
    let is_empty = at.as_object().is_some_and(Map::is_empty);
    if is_empty && removed.is_some() {
        remove(config, sections);
    }
    removed
}
