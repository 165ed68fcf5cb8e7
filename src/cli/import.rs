//! `clawgate import`: takes over the sessions, devices, jobs and people of
//! channels of an OpenClaw state directory.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;

use super::bar::Bar;
use super::format::{count, size, table};
use super::output::say_of_others;
use crate::app;
use crate::auth::pairing::PairedFile;
use crate::channels::ImportedPeople;
use crate::config::{self, Env, Overrides};
use crate::cron::Imported;
use crate::sessions::import::{Import, ImportReport, LeftOut};
use crate::store::atomic::create_private_dir;
use crate::store::instance::InstanceLock;
use crate::store::{SqliteStore, Store};
use crate::support::{Clock, SystemClock, json};

/// Exit code when something was left out.
const LEFT_OUT: u8 = 3;

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
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Imports, and tells what became of it.
pub fn run(args: &ImportArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let settings = config::load(env, &Overrides { read_only: true, ..Overrides::default() })?;
    let paths = &settings.paths;
    let from = source(args, env)?;
    // One place under two names is one place.
    let to = std::fs::canonicalize(&paths.state_dir).unwrap_or_else(|_| paths.state_dir.clone());
    let lock = paths.instance_lock();
    // A dry run makes nothing, and where no lock file is no gateway runs.
    let _held = if !args.dry_run || lock.exists() {
        create_private_dir(&paths.state_dir)?;
        Some(InstanceLock::acquire(&lock).context("cannot import")?)
    } else {
        None
    };
    let database = paths.database();
    let store = if !args.dry_run || database.exists() {
        Some(Arc::new(SqliteStore::open(&database)?) as Arc<dyn Store>)
    } else {
        None
    };
    let rules = app::key_rules(&settings);
    let import = Import { from, to, rules, store, is_dry: args.dry_run };
    let bar = Bar::new();
    let runtime = super::one_thread()?;
    let mut report = runtime.block_on(import.run(bar.progress()))?;
    let now = SystemClock.now_ms();
    let store = import.store.as_ref();
    let jobs = runtime.block_on(Imported::take(&import.from, store, import.is_dry, now))?;
    let people = runtime.block_on(ImportedPeople::take(&import.from, store, import.is_dry, now))?;
    let lost = jobs.left_out.iter().chain(&people.left_out);
    report
        .left_out
        .extend(lost.map(|(what, why)| LeftOut { what: what.clone(), why: why.clone() }));
    drop(bar);
    let devices = runtime.block_on(devices(&import, &mut report))?;
    let beside = Beside { devices, jobs, people };
    let text = if args.json {
        as_json(&import, &report, &beside)
    } else {
        as_text(&import, &report, &beside)
    };
    say_of_others(&text)?;
    let is_whole = report.all_left_out().next().is_none();
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(LEFT_OUT) })
}

/// Takes over paired devices that are not known here; answers how many.
async fn devices(import: &Import, report: &mut ImportReport) -> anyhow::Result<usize> {
    let folder = import.from.join("devices");
    let file = PairedFile::read(&folder);
    let file = file.unwrap_or_else(|error| {
        let what = folder.join("paired.json").display().to_string();
        report.left_out.push(LeftOut { what, why: error.to_string() });
        PairedFile::default()
    });
    for id in file.left_out {
        let why = "its entry is not one of a paired device".to_owned();
        report.left_out.push(LeftOut { what: format!("device {id}"), why });
    }
    let mut rows = file.rows;
    let Some(store) = &import.store else { return Ok(rows.len()) };
    if import.is_dry {
        let known = store.devices(0).await?;
        rows.retain(|row| {
            !known.iter().any(|it| it.device_id == row.device_id && it.paired.is_some())
        });
        return Ok(rows.len());
    }
    Ok(store.import_devices(rows, None).await?)
}

fn source(args: &ImportArgs, env: &Env) -> anyhow::Result<PathBuf> {
    let from = match (&args.from, env.home()) {
        (Some(given), _) => given.clone(),
        (None, Some(home)) => home.join(".openclaw"),
        (None, None) => bail!("there is no home directory; name the source with --from"),
    };
    let from = std::fs::canonicalize(&from)
        .with_context(|| format!("cannot import from {}", from.display()))?;
    if !from.join("agents").is_dir() {
        bail!(
            "{} is no OpenClaw state directory: it has no folder named agents; \
             name another one with --from",
            from.display()
        );
    }
    Ok(from)
}

/// What is taken over beside sessions.
struct Beside {
    devices: usize,
    jobs: Imported,
    people: ImportedPeople,
}

fn as_json(import: &Import, report: &ImportReport, beside: &Beside) -> String {
    let (jobs, people) = (&beside.jobs, &beside.people);
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
    });
    format!("{answer:#}\n")
}

fn as_text(import: &Import, report: &ImportReport, beside: &Beside) -> String {
    let Beside { devices, jobs, people } = beside;
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
    if people.people + people.known + people.waiting > 0 {
        let (new, known, waiting) =
            (count(people.people), count(people.known), count(people.waiting));
        text.extend(["\nchannels: ", &new, " people let in, ", &known, " here before, "]);
        text.extend([&waiting, " waiting\n"]);
    }
    let mut left_out = report.all_left_out().peekable();
    if left_out.peek().is_some() {
        text.push_str("\nLeft out or changed:\n");
        for one in left_out {
            let what = Path::new(&one.what);
            let what = what.strip_prefix(&import.from).unwrap_or(what).display();
            text.extend(["  ", &what.to_string(), ": ", &one.why, "\n"]);
        }
    }
    text
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
