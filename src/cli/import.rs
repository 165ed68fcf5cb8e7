//! `clawgate import`: takes over the sessions, devices, jobs and people of
//! channels of an OpenClaw state directory.

mod rest;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;

use super::args::JsonArgs;
use super::bar::Bar;
use super::format::{count, size, table};
use super::output::say_of_others;
use super::{block_on, one_thread};
use crate::app;
use crate::auth::pairing::{PairedFile, forget_devices};
use crate::channels::ImportedPeople;
use crate::config::{self, ConfigError, Env, Overrides, Paths, Settings};
use crate::cron::{Imported, Unheard, list_of_openclaw};
use crate::sessions::import::{Import, ImportReport, Indexes, LeftOut};
use crate::store::atomic::create_private_dir;
use crate::store::instance::InstanceLock;
use crate::store::{SourceNote, SqliteStore, Store};
use crate::support::{Clock, SystemClock, json};

/// Exit code when something was left out.
const LEFT_OUT: u8 = 3;
/// Above what is no matter of an import.
const NOT_TAKEN: &str = "Not part of an import, so only there";

/// Arguments of `clawgate import`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "The source is only read. Nothing that is here is overwritten, and the same \
    import again adds nothing.\nStop the gateway first.\n\n\
    Exit codes: 0 everything was taken over, 1 it failed, 2 wrong arguments, \
    3 something was left out or changed; the report says what and why."
)]
pub struct ImportArgs {
    /// State directory to read [default: ~/.openclaw]
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Only tell what would be taken over
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    json: JsonArgs,
}

/// Imports, and tells what became of it.
pub fn run(args: &ImportArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let settings = config::load(env, &Overrides { read_only: true, ..Overrides::default() })?;
    let paths = &settings.paths;
    let from = source(args, env)?;
    // One place under two names is one place.
    let to = std::fs::canonicalize(&paths.state_dir).unwrap_or_else(|_| paths.state_dir.clone());
    let origin = Origin::of(&from, &to, &settings, env);
    if !from.join("agents").is_dir() && origin.indexes.named.is_none() {
        let help = if from.join("sessions").is_dir() {
            "it looks like one of 2025: let `openclaw doctor --fix` of OpenClaw 2026 change it first"
        } else {
            "name another one with --from"
        };
        let from = from.display();
        bail!("{from} is no OpenClaw state directory: it has no folder named agents; {help}");
    }
    let Taken { held: _held, store } = open(paths, args.dry_run)?;
    let rules = app::key_rules(&settings);
    let further = origin.indexes.further();
    let own = app::indexes_of_openclaw(&settings);
    let runtime = one_thread()?;
    let removed = match &store {
        Some(store) => block_on(&runtime, own.removed(&**store))?,
        None => BTreeMap::new(),
    };
    let import = Import { from, to, rules, store, further, removed, is_dry: args.dry_run };
    // Looked at first: what is written meanwhile is found to be another file.
    let before = own.notes();
    let list = SourceNote::of(&origin.jobs);
    let bar = Bar::new();
    let mut report = block_on(&runtime, import.run(bar.progress()))?;
    let now = SystemClock.now_ms();
    let store = import.store.as_ref();
    let jobs = block_on(&runtime, Imported::take(&origin.jobs, store, import.is_dry, now))?;
    let people = block_on(&runtime, ImportedPeople::take(&import.from, store, import.is_dry, now))?;
    let unheard = block_on(&runtime, jobs.unheard(store, &settings, &import.rules))?;
    let others = jobs.left_out.iter().chain(&people.left_out);
    report
        .left_out
        .extend(others.map(|(what, why)| LeftOut { what: what.clone(), why: why.clone() }));
    report.left_out.extend(origin.unread);
    drop(bar);
    let folder =
        if import.is_in_place() { paths.devices_dir() } else { import.from.join("devices") };
    let (devices, listed) = block_on(&runtime, devices(&import, &folder, &mut report))?;
    if let Some(store) = store.filter(|_| !import.is_dry) {
        let mut notes = std::mem::take(&mut report.brought);
        if import.is_in_place() {
            // A list that comes later is taken over by itself.
            let is_taken = jobs.is_read && !list.print.is_empty();
            let list = is_taken.then(|| SourceNote { ids: jobs.ids.clone(), ..list });
            notes.extend(before.into_iter().chain(list).chain(listed));
        }
        let seen = std::mem::take(&mut report.seen);
        block_on(&runtime, note(&**store, &own, import.is_in_place(), seen, notes))?;
    }
    let rest = if import.is_in_place() {
        Vec::new()
    } else {
        rest::of(&import.from, &paths.exec_approvals())
    };
    let beside = Beside { devices, jobs, unheard, people, rest };
    let text = if args.json.json {
        as_json(&import, &report, &beside)
    } else {
        as_text(&import, &report, &beside)
    };
    say_of_others(&text)?;
    let is_whole = report.all_left_out().next().is_none();
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(LEFT_OUT) })
}

/// What is taken for an import: a dry run takes what is there.
struct Taken {
    held: Option<InstanceLock>,
    store: Option<Arc<dyn Store>>,
}

/// Takes the state directory for itself, and opens the database. A dry run makes neither.
fn open(paths: &Paths, is_dry: bool) -> anyhow::Result<Taken> {
    let (lock, database) = (paths.instance_lock(), paths.database());
    // Where no lock file is no gateway runs.
    let held = if !is_dry || lock.exists() {
        create_private_dir(&paths.state_dir)?;
        Some(InstanceLock::acquire(&lock).context("cannot import")?)
    } else {
        None
    };
    let store = if !is_dry || database.exists() {
        Some(Arc::new(SqliteStore::open(&database)?) as Arc<dyn Store>)
    } else {
        None
    };
    Ok(Taken { held, store })
}

/// Notes what was taken over, and the sessions that are here now. At its first look a gateway
/// notes those itself.
async fn note(
    store: &dyn Store,
    own: &Indexes,
    is_looked_at: bool,
    seen: Vec<(String, u64)>,
    notes: Vec<SourceNote>,
) -> anyhow::Result<()> {
    if is_looked_at || own.are_noted(&store.sources().await?) {
        return Ok(own.note(store, seen, notes).await?);
    }
    Ok(store.note_sources(notes).await?)
}

/// Where the OpenClaw of a state directory has its sessions and jobs.
struct Origin {
    indexes: Indexes,
    jobs: PathBuf,
    /// Why its config does not say.
    unread: Option<LeftOut>,
}

impl Origin {
    /// As its config says.
    fn of(from: &Path, to: &Path, settings: &Settings, env: &Env) -> Self {
        let (own, dir) = (env.clone(), from.display().to_string());
        let lookup = move |name: &str| match name {
            "OPENCLAW_STATE_DIR" => Some(dir.clone()),
            "OPENCLAW_CONFIG_PATH" => None,
            name => own.get(name),
        };
        let there = Env::new(lookup, env.home().map(Path::to_owned));
        let looking = Overrides { read_only: true, ..Overrides::default() };
        let mut unread = None;
        let read = |error: ConfigError| {
            let what = from.join("openclaw.json").display().to_string();
            let why = format!("{error}; its session.store and cron.store are not known");
            unread = Some(LeftOut { what, why });
            config::load_text("{}", &there, &looking).ok()
        };
        let is_other = from != to;
        let loaded = is_other.then(|| config::load(&there, &looking).map_or_else(read, Some));
        let loaded = loaded.flatten();
        let settings = loaded.as_ref().unwrap_or(settings);
        let (indexes, jobs) = (app::indexes_of_openclaw(settings), list_of_openclaw(settings));
        Self { indexes, jobs, unread }
    }
}

/// Takes over paired devices that are not known here; answers how many, and what is to be
/// noted of their list. In our own place it also removes those that OpenClaw has removed,
/// and those that were removed here do not come back.
async fn devices(
    import: &Import,
    folder: &Path,
    report: &mut ImportReport,
) -> anyhow::Result<(usize, Option<SourceNote>)> {
    let file = PairedFile::read(folder);
    let mut file = file.unwrap_or_else(|error| {
        let what = PairedFile::path(folder).display().to_string();
        report.left_out.push(LeftOut { what, why: error.to_string() });
        PairedFile::default()
    });
    let mut leave_out = |ids: Vec<String>, why: &str| {
        let one = |id: String| LeftOut { what: format!("device {id}"), why: why.to_owned() };
        report.left_out.extend(ids.into_iter().map(one));
    };
    let mut note = file.noted_after(None);
    if let Some(store) = import.store.as_ref().filter(|_| import.is_in_place()) {
        let path = PairedFile::path(folder).display().to_string();
        let before = store.sources().await?.into_iter().find(|note| note.path == path);
        if let Some(before) = before {
            note = file.noted_after(Some(&before));
            let gone = file.gone(&**store, &before).await?;
            if !import.is_dry {
                forget_devices(&**store, &gone).await?;
            }
            leave_out(gone, "OpenClaw has removed it, so it is removed here");
            let removed = file.leave_removed(&**store, &before).await?;
            leave_out(removed, "it came before and was removed here; it can only pair again");
        }
    }
    leave_out(file.left_out, "its entry is not one of a paired device");
    let mut rows = file.rows;
    let Some(store) = &import.store else { return Ok((rows.len(), None)) };
    if import.is_dry {
        let known = store.devices(0).await?;
        rows.retain(|row| {
            !known.iter().any(|it| it.device_id == row.device_id && it.paired.is_some())
        });
        return Ok((rows.len(), None));
    }
    Ok((store.import_devices(rows, None).await?, note))
}

fn source(args: &ImportArgs, env: &Env) -> anyhow::Result<PathBuf> {
    let from = match (&args.from, env.home()) {
        (Some(given), _) => given.clone(),
        (None, Some(home)) => home.join(".openclaw"),
        (None, None) => bail!("there is no home directory; name the source with --from"),
    };
    std::fs::canonicalize(&from).with_context(|| format!("cannot import from {}", from.display()))
}

/// What is taken over beside sessions.
struct Beside {
    devices: usize,
    jobs: Imported,
    unheard: Vec<Unheard>,
    people: ImportedPeople,
    /// What no import takes over.
    rest: Vec<LeftOut>,
}

fn as_json(import: &Import, report: &ImportReport, beside: &Beside) -> String {
    let (jobs, people) = (&beside.jobs, &beside.people);
    let unheard = beside.unheard.iter().map(|it| json!({"job": it.id, "why": it.why}));
    let unheard: Vec<_> = unheard.collect();
    let answer = json!({
        "from": shown(&import.from),
        "to": shown(&import.to),
        "dryRun": import.is_dry,
        "agents": report.agents,
        "devices": beside.devices,
        "cron": {"jobs": jobs.jobs, "knownJobs": jobs.known, "runs": jobs.runs},
        "channels": {"people": people.people, "knownPeople": people.known,
            "waiting": people.waiting},
        "leftOut": report.left_out,
        "notTaken": beside.rest,
        "unheard": unheard,
    });
    format!("{answer:#}\n")
}

fn as_text(import: &Import, report: &ImportReport, beside: &Beside) -> String {
    let Beside { devices, jobs, unheard, people, rest } = beside;
    let head = ["agent", "sessions", "messages", "files", "size", "here before", "left out"];
    let mut rows = vec![head.map(str::to_owned)];
    for agent in &report.agents {
        rows.push([
            agent.agent_id.clone(),
            count(agent.sessions),
            count(agent.messages),
            count(agent.files),
            size(agent.bytes),
            format!("{} sessions, {} files", agent.known_sessions, agent.known_files),
            agent.left_out.len().to_string(),
        ]);
    }
    let verb = if import.is_dry { "Would import" } else { "Imported" };
    let mut text = format!("{verb} {} into {}\n\n", shown(&import.from), shown(&import.to));
    text.push_str(&table(&rows));
    if *devices > 0 {
        text.extend(["\nPaired devices: ", &devices.to_string(), "\n"]);
    }
    if jobs.jobs + jobs.known > 0 {
        let (new, known, runs) = (count(jobs.jobs), count(jobs.known), count(jobs.runs));
        text.extend(["\ncron: ", &new, " jobs, ", &runs, " runs, ", &known, " here before\n"]);
    }
    if !unheard.is_empty() {
        text.push_str("\nJobs that nobody hears yet:\n");
        text.extend(unheard.iter().flat_map(|it| ["  ", &it.name, ": ", &it.why, "\n"]));
    }
    if people.people + people.known + people.waiting > 0 {
        let (new, known, waiting) =
            (count(people.people), count(people.known), count(people.waiting));
        text.extend(["\nchannels: ", &new, " people let in, ", &known, " here before, "]);
        text.extend([&waiting, " waiting\n"]);
    }
    add_left_out("Left out or changed", report.all_left_out(), &import.from, &mut text);
    add_left_out(NOT_TAKEN, rest.iter(), &import.from, &mut text);
    text
}

/// Adds what was not taken over, if anything.
fn add_left_out<'a>(
    head: &str,
    all: impl Iterator<Item = &'a LeftOut>,
    from: &Path,
    text: &mut String,
) {
    for (place, one) in all.enumerate() {
        if place == 0 {
            text.extend(["\n", head, ":\n"]);
        }
        let what = Path::new(&one.what);
        let what = what.strip_prefix(from).unwrap_or(what).display();
        text.extend(["  ", &what.to_string(), ": ", &one.why, "\n"]);
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
