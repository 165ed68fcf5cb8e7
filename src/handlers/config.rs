//! `config.get`, `config.set`, `config.patch`, `config.apply`, `config.schema`,
//! `config.schema.lookup`, `config.openFile`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::OwnedMutexGuard;

use crate::agent::RestartNote;
use crate::agent::roster::WouldWork;
use crate::agent::tools::misnamed;
use crate::bus::Closing;
use crate::config::document::{
    self, ConfigBase, ConfigIssue, ConfigSnapshot, ConfigWrite, ConfigWriteError,
};
use crate::config::keys::{self, LookupChild};
use crate::handlers::SERVER_VERSION;
use crate::protocol::ErrorShape;
use crate::protocol::methods::NoParams;
use crate::protocol::methods::config::{
    ConfigApplyParams, ConfigInput, ConfigLookupParams, ConfigSetParams, ConfigWriteParams,
    RestartWishes, config_in, not_a_text,
};
use crate::registry::{
    Caller, Cause, Ctx, NoRestart, Promised, RenewError, Renewed, Reply, Services, TakenUp, Writing,
};
use crate::support::{Unfinished, blocking, json, with_cause};

use super::restart::{self, Restarting};
use super::session_settings::refuse_malformed;

/// `config.get`: the config file, what it means, and what is wrong with it.
/// Secrets are not shown; what stands in their place can be written back.
pub async fn get(cx: Ctx, _: NoParams) -> Reply<Value> {
    let env = cx.services.env.clone();
    let seen = blocking(move || ConfigSnapshot::read(&env)).await?;
    let seen = seen.map_err(|error| ErrorShape::unavailable(error.to_string()))?;
    let state = cx.services.reload.state.now();
    let settings = cx.services.settings.now();
    let around = settings.environment(&cx.services.env);
    let in_use = document::shown(&settings.raw, &around, &settings.file.path);
    // What only the gateway that runs can find out.
    let trouble = state.trouble.iter().filter(|_| seen.issues.is_empty());
    let issues: Vec<_> = seen.issues.iter().chain(trouble).map(issue).collect();
    let pending = settings.pending.iter().map(
        |path| json!({"path": path, "message": "is used after the next restart of the gateway"}),
    );
    let missing = cx.services.models.missing().into_iter();
    let missing = missing.map(|model| issue(&model.into()));
    let misnamed = misnamed(&seen.source);
    let of_file = seen.warnings.iter().chain(&misnamed).map(issue);
    let warnings: Vec<_> = of_file.chain(missing).chain(pending).collect();
    let answer = json!({
        "path": seen.path,
        "exists": seen.exists,
        "raw": seen.raw,
        "parsed": seen.parsed,
        "sourceConfig": seen.source,
        "resolved": seen.resolved,
        "valid": issues.is_empty(),
        "runtimeConfig": in_use,
        "config": seen.source,
        "hash": seen.hash,
        "issues": issues,
        "warnings": warnings,
        "legacyIssues": [],
    });
    Ok(if cx.caller.is_dashboard { with_sections(answer) } else { answer })
}

/// `config.schema`: what may stand in the config file, as JSON schema, and what
/// a form shows beside it.
pub async fn schema(cx: Ctx, _: NoParams) -> Reply<Value> {
    let now = i64::try_from(cx.now_ms()).unwrap_or_default();
    let now = jiff::Timestamp::from_millisecond(now).unwrap_or_default();
    Ok(json!({
        "schema": keys::schema(),
        "uiHints": keys::hints(),
        "version": SERVER_VERSION,
        "generatedAt": format!("{now:.3}"),
    }))
}

/// `config.schema.lookup`: one place of it, and what is directly below.
pub async fn schema_lookup(_: Ctx, p: ConfigLookupParams) -> Reply<Value> {
    let unknown = || ErrorShape::not_found("config schema path not found");
    let found = keys::lookup(&p.path).ok_or_else(unknown)?;
    let children: Vec<_> = found.children.into_iter().map(child).collect();
    let answer = json!({"path": found.path, "schema": found.schema, "children": children});
    Ok(with_hint(answer, found.hint))
}

fn child(child: LookupChild) -> Value {
    let mut told = json!({
        "key": child.key,
        "path": child.path,
        "required": child.is_required,
        "hasChildren": child.has_children,
    });
    if let Some(kind) = child.kind {
        told["type"] = kind;
    }
    with_hint(told, child.hint)
}

fn with_hint(mut told: Value, hint: Option<(String, Value)>) -> Value {
    if let Some((path, hint)) = hint {
        told["hint"] = hint;
        told["hintPath"] = path.into();
    }
    told
}

/// `config.openFile`: says where the config file is. A gateway has no desktop to
/// open it on.
pub async fn open_file(cx: Ctx, _: NoParams) -> Reply<Value> {
    let settings = cx.services.settings.now();
    let path = &settings.file.path;
    let error = format!("this gateway opens no programs; edit {} yourself", path.display());
    Ok(json!({"ok": false, "path": path, "error": error}))
}

/// `config.set`: replaces the config file, if it is still the one that was read.
/// Placeholders of secrets become those secrets again, comments stay.
pub async fn set(cx: Ctx, p: ConfigSetParams) -> Reply<Value> {
    write(&cx, "config.set", p.0, None).await
}

/// `config.apply`: the same as `config.set`, not more than three times a minute. A restart
/// that it leads to is told afterwards.
pub async fn apply(cx: Ctx, p: ConfigApplyParams) -> Reply<Value> {
    write(&cx, "config.apply", p.write, Some(p.restart)).await
}

/// `config.patch`: merges members into the config file, `null` takes away; not
/// more than three times a minute. A restart is told as by `config.apply`.
pub async fn patch(cx: Ctx, p: ConfigApplyParams) -> Reply<Value> {
    write(&cx, PATCH, p.write, Some(p.restart)).await
}

/// The method that merges; the others replace.
const PATCH: &str = "config.patch";

/// A client of seed 001 applies what is there; others have forgotten something.
async fn nothing_to_write(cx: &Ctx, method: &str) -> Reply<Value> {
    if !cx.caller.is_dashboard {
        let missing = "must have required property 'raw'";
        return Err(ErrorShape::invalid(format!("invalid {method} params: {missing}")));
    }
    let env = cx.services.env.clone();
    let seen = blocking(move || ConfigSnapshot::read(&env)).await?;
    let seen = seen.map_err(|error| ErrorShape::unavailable(error.to_string()))?;
    if let Some(wrong) = seen.issues.first() {
        return Err(refusal(&ConfigWriteError::Invalid(wrong.clone())));
    }
    Ok(with_sections(json!({"ok": true, "path": seen.path, "config": seen.source, "noop": true,
        "requiresRestart": false})))
}

async fn write(
    cx: &Ctx,
    method: &str,
    p: ConfigWriteParams,
    wishes: Option<RestartWishes>,
) -> Reply<Value> {
    if let Some(written) = wishes.as_ref().and_then(|wishes| wishes.session_key.as_deref()) {
        refuse_malformed(&cx.session_key(written), written)?;
    }
    let ConfigWriteParams { input, base_hash } = p;
    let is_object = matches!(input, ConfigInput::Object(_));
    let base = match base_hash {
        Some(hash) => ConfigBase::Hash(hash),
        // Who sends the config itself has never heard of a hash.
        None if is_object => ConfigBase::Any,
        None => ConfigBase::Missing,
    };
    let change = match input {
        ConfigInput::Nothing => return nothing_to_write(cx, method).await,
        ConfigInput::Object(sent) if !(cx.is_simple() || cx.caller.is_dashboard) => {
            return Err(not_a_text(method, sent));
        }
        ConfigInput::Object(sent) => change_of(config_in(sent), method, &base),
        ConfigInput::Text(raw) if method == PATCH => ConfigWrite::Merge(raw),
        ConfigInput::Text(raw) => ConfigWrite::Replace(raw),
    };
    let env = cx.services.env.clone();
    let work = move |would_work: Box<WouldWork>| document::write(&change, &base, &env, would_work);
    let (written, _turn) = in_turn(&cx.services, work).await?;
    let written = written.map_err(|error| refusal(&error))?;
    if written.changed {
        let by = &cx.caller.name;
        tracing::info!(%by, "the config file was changed");
    }
    let delay = wishes.as_ref().map(RestartWishes::delay).unwrap_or_default();
    let taken = take_up_restarting_after(cx, false, delay).await;
    let is_changed = written.changed;
    let (taken, own) = taken
        .map_err(|wrong| if is_changed { not_in_use(&wrong) } else { refusal(&wrong.into()) })?;
    let mut answer = json!({
        "ok": true,
        "path": written.path,
        "config": written.config,
        "requiresRestart": taken.restarts || !taken.pending.is_empty(),
    });
    if !written.changed {
        answer["noop"] = json!(true);
    }
    let promised = own.or_else(|| cx.services.restart.promised());
    if let Some(wishes) = wishes.filter(|_| is_changed) {
        let note = note_of(cx, method, wishes);
        let is_told = promised.is_some() || !taken.pending.is_empty();
        // Before the answer: a restart for this comes after it, and may be quick then.
        let is_left = is_told && leave_note(cx, &note).await;
        let path = is_left.then(|| cx.services.runs.parts().restart_notes.path());
        answer["sentinel"] = json!({"path": path, "payload": note});
        if let Some(promised) = promised {
            answer["restart"] = restart::shown(Some(method), promised);
        }
    }
    Ok(if is_object || cx.caller.is_dashboard { with_sections(answer) } else { answer })
}

/// What is told of a change after the restart that it leads to.
fn note_of(cx: &Ctx, method: &str, wishes: RestartWishes) -> RestartNote {
    let paths = &cx.services.settings.now().paths;
    let key = wishes.session_key.map(|written| cx.session_key(&written).to_string());
    RestartNote {
        ts: cx.now_ms(),
        session_key: key,
        delivery_context: wishes.delivery_context.map(|chat| chat.shown()),
        ..RestartNote::of_change(method, &paths.config_path, wishes.note.as_deref())
    }
}

/// Has the next start tell of a change; whether it will.
async fn leave_note(cx: &Ctx, note: &RestartNote) -> bool {
    let left = cx.services.runs.parts().restart_notes.leave(note).await;
    if let Err(error) = &left {
        tracing::warn!(%error, "nobody will be told of a restart for this change");
    }
    left.is_ok()
}

/// What a client wants that sends the config itself. One that does not say which file it
/// has read replaces nothing but the sections that it sends.
fn change_of(config: Map<String, Value>, method: &str, base: &ConfigBase) -> ConfigWrite {
    if method == PATCH {
        return ConfigWrite::Merge(Value::Object(config).to_string());
    }
    match base {
        ConfigBase::Hash(_) => ConfigWrite::Replace(Value::Object(config).to_string()),
        ConfigBase::Any | ConfigBase::Missing => ConfigWrite::Sections(config),
    }
}

/// Clients of seed 001 take the whole answer for the config.
fn with_sections(mut answer: Value) -> Value {
    let config = answer["config"].clone();
    if let (Value::Object(members), Value::Object(sections)) = (&mut answer, config) {
        for (name, section) in sections {
            members.entry(name).or_insert(section);
        }
    }
    answer
}

/// The lane of all who write the config file.
const LANE: &str = "config file";

/// The turn to write the config file. While it is kept nobody else writes it by a method, and
/// what is written is taken up for the one who wrote it and for nobody else.
pub(crate) struct Turn {
    _lane: OwnedMutexGuard<()>,
    _writing: Writing,
}

impl Turn {
    /// Waits for it. Whoever writes takes this before it goes to a thread that may block: the
    /// one that writes needs another thread, to have its text looked at, and there are not so
    /// many that a crowd that waits could not hold them all.
    pub(super) async fn of(services: &Services) -> Self {
        let lane = services.lanes.enter(LANE.to_owned()).await;
        Self { _lane: lane, _writing: services.reload.writing() }
    }
}

/// Writes the config file by `work`, on a thread that may block, when it is its turn. It gets
/// the way to ask whether the gateway would work with a text. Not given up when its caller
/// goes away: it is written or it is not. The turn is kept until what is written is taken up.
///
/// # Errors
/// [`Unfinished`] when there is no result.
pub(crate) async fn in_turn<T: Send + 'static>(
    services: &Arc<Services>,
    work: impl FnOnce(Box<WouldWork>) -> T + Send + 'static,
) -> Result<(T, Turn), Unfinished> {
    let (turn, would_work) = (Turn::of(services).await, would_work(services));
    blocking(move || (work(Box::new(would_work)), turn)).await
}

/// Whether the gateway would work with a text of the config file. For a thread that
/// may block.
fn would_work(services: &Arc<Services>) -> impl Fn(&str) -> Result<(), ConfigIssue> + Send + use<> {
    let (services, runtime) = (Arc::clone(services), tokio::runtime::Handle::current());
    move |text| runtime.block_on(services.reload.check(text.to_owned()))
}

/// Has the gateway take the config file up as it is now; `anew` where something
/// that it refers to has changed. What that means for the caller comes after its
/// answer.
pub(crate) async fn take_up(cx: &Ctx, anew: bool) -> Result<TakenUp, ConfigIssue> {
    let (taken, _) = take_up_restarting_after(cx, anew, Duration::ZERO).await?;
    Ok(taken)
}

/// The same; a restart comes so long after the answer, and is promised for then.
async fn take_up_restarting_after(
    cx: &Ctx,
    anew: bool,
    delay: Duration,
) -> Result<(TakenUp, Option<Promised>), ConfigIssue> {
    let caller = Arc::clone(&cx.caller.subscriber.conn_id);
    let taken = cx.services.reload.take_up(caller, anew).await?;
    let promised = follow(cx, &taken, delay);
    Ok((taken, promised))
}

/// Has the gateway look all secrets up again. What that means for the caller comes after its
/// answer.
pub(super) async fn renew_secrets(cx: &Ctx) -> Result<Renewed, RenewError> {
    let caller = Arc::clone(&cx.caller.subscriber.conn_id);
    let renewed = cx.services.reload.renew_secrets(caller).await?;
    follow(cx, &renewed.taken, Duration::ZERO);
    Ok(renewed)
}

/// What comes after the answer, where this was taken up; the restart, if that is one.
fn follow(cx: &Ctx, taken: &TakenUp, delay: Duration) -> Option<Promised> {
    if taken.is_over {
        let (caller, services) = (Arc::clone(&cx.caller), Arc::clone(&cx.services));
        cx.after_answer(Farewell { caller, services });
    }
    taken.restarts.then(|| {
        let (restarting, promised) = Restarting::after(&cx.services, delay, Cause::Change);
        cx.after_answer(restarting);
        promised
    })
}

/// Closes a connection that is let in no more, when dropped: a slash command of its own that
/// is done has its end told before.
struct Farewell {
    caller: Arc<Caller>,
    services: Arc<Services>,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        let (caller, runs) = (Arc::clone(&self.caller), Arc::clone(&self.services.runs));
        self.services.tasks.spawn("farewell", async move {
            runs.commands_told(caller.principal.owner()).await;
            caller.subscriber.outbox.close(Closing { drains: true, ..Closing::auth_changed() });
        });
    }
}

pub(super) fn refusal(error: &ConfigWriteError) -> ErrorShape {
    let shape = ErrorShape::invalid(error.to_string());
    match error {
        ConfigWriteError::Invalid(wrong) => shape.details(json!({"issues": [issue(wrong)]})),
        ConfigWriteError::Save(_) => ErrorShape::unavailable(with_cause(error)),
        _ => shape,
    }
}

/// The answer to a change that is in the file, and that the gateway does not use.
pub(super) fn not_in_use(wrong: &ConfigIssue) -> ErrorShape {
    ErrorShape::unavailable(format!("written, but not in use: {}", wrong.message))
        .details(json!({"issues": [issue(wrong)]}))
}

/// The answer to who wants a restart after which no gateway would begin.
pub(super) fn no_restart(NoRestart { issue: wrong, is_of_stop }: &NoRestart) -> ErrorShape {
    let ConfigIssue { path, message } = wrong;
    let place = if path.is_empty() { String::new() } else { format!("{path}: ") };
    // Where the gateway stops it is said when to ask again.
    let hint = if *is_of_stop { "" } else { "; put that right and ask again" };
    let said = format!("no restart: {place}{message}{hint}");
    ErrorShape::unavailable(said).details(json!({"issues": [issue(wrong)]}))
}

fn issue(issue: &ConfigIssue) -> Value {
    json!({"path": issue.path, "message": issue.message})
}
