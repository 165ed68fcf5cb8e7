//! `clawgate backup`: the state directory in one file, also while a gateway uses it.
//!
//! Owns: where an archive goes, and what is said of it. Promises: an archive is whole or is
//! not there; only its owner may read it. Must not: change anything in the state directory.

mod archive;
mod verify;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use tempfile::NamedTempFile;

use super::args::JsonArgs;
use super::format::size;
use super::output::say_of_others;
use super::surroundings;
use crate::config::{Env, Overrides, Paths};
use crate::sessions::iso_time;
use crate::support::{Clock, SystemClock, json, sort};

/// What to do with what was written.
const ADVICE: &str = "It has the token and the keys of the gateway: keep it as you keep those.\n";

/// Arguments of `clawgate backup`.
#[derive(Debug, Args)]
pub struct BackupArgs {
    #[command(subcommand)]
    command: BackupCommand,
}

/// What can be done about backups.
#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// Write the state directory into an archive; a gateway may go on meanwhile
    #[command(
        after_help = "To restore, stop the gateway, move the state directory away and unpack \
        the archive in its place:\n  mkdir -m 700 ~/.openclaw && tar -xzf FILE -C ~/.openclaw"
    )]
    Create(CreateArgs),
    /// Read an archive from beginning to end, and look its database over
    Verify(VerifyArgs),
}

/// Arguments of `clawgate backup create`.
#[derive(Debug, Args)]
struct CreateArgs {
    /// File to write, or folder to put it in, which is made where a / ends its name [default:
    /// clawgate-backup-TIME.tar.gz here]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only tell what would be written
    #[arg(long)]
    dry_run: bool,
    /// Verify what was written, before it gets its name
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    json: JsonArgs,
}

/// Arguments of `clawgate backup verify`.
#[derive(Debug, Args)]
struct VerifyArgs {
    /// File that `clawgate backup create` has written
    #[arg(value_name = "FILE")]
    archive: PathBuf,
    #[command(flatten)]
    json: JsonArgs,
}

/// What is in an archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Found {
    files: u64,
    bytes: u64,
    has_database: bool,
}

/// Makes a backup, or reads one.
pub fn run(args: &BackupArgs, env: &Env) -> anyhow::Result<ExitCode> {
    match &args.command {
        BackupCommand::Create(args) => create(args, env)?,
        BackupCommand::Verify(args) => check(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn check(args: &VerifyArgs) -> anyhow::Result<()> {
    let VerifyArgs { archive, json } = args;
    let scratch = NamedTempFile::new().context("cannot unpack the database to look it over")?;
    let (found, is_state) = verify::verify(archive, scratch)?;
    ensure!(
        is_state,
        "{} is no backup of a gateway: it has no database, no config and no agents",
        archive.display()
    );
    let answer = json!({"ok": true, "archive": archive.to_string_lossy(), "files": found.files,
        "bytes": found.bytes, "database": found.has_database});
    let database = if found.has_database { "with" } else { "without" };
    let text = format!(
        "{} is whole: {} files, {}, {database} a database\n",
        archive.display(),
        found.files,
        size(found.bytes)
    );
    say_of_others(&if json.json { format!("{answer:#}\n") } else { text })
}

fn create(args: &CreateArgs, env: &Env) -> anyhow::Result<()> {
    let paths = Paths::resolve(env)?;
    let state_dir = fs::canonicalize(&paths.state_dir)
        .with_context(|| format!("there is nothing to back up: {}", paths.state_dir.display()))?;
    let target = target(args.output.as_deref(), &state_dir)?;
    let (found, links) = if args.dry_run {
        archive::planned(&state_dir, &paths.database())?
    } else {
        if let (Some(output), Some(folder)) = (&args.output, target.parent())
            && is_folder(output)
        {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        archive::write(&target, &state_dir, &paths.database(), args.verify)?
    };
    let files = paths.config_files().into_iter().chain([paths.exec_approvals()]);
    let mut outside: Vec<_> = files
        .chain(named_by_config(env))
        .filter(|file| file.exists())
        .chain(links)
        .filter(|file| !fs::canonicalize(file).is_ok_and(|file| file.starts_with(&state_dir)))
        .collect();
    // The config may be a link itself.
    sort::plain(&mut outside);
    outside.dedup();
    let not_included: Vec<_> = outside.iter().map(|file| file.to_string_lossy()).collect();
    let answer = json!({"archive": target.to_string_lossy(),
        "stateDir": state_dir.to_string_lossy(), "dryRun": args.dry_run,
        "files": found.files, "bytes": found.bytes, "database": found.has_database,
        "verified": args.verify && !args.dry_run, "notIncluded": not_included});
    let text = || told(args, &state_dir, &target, &found, &outside);
    say_of_others(&if args.json.json { format!("{answer:#}\n") } else { text() })
}

/// What the config names elsewhere and nobody else has: where agents work, and what it includes.
/// One that cannot be used names nothing.
fn named_by_config(env: &Env) -> Vec<PathBuf> {
    let looking = Overrides { read_only: true, ..Overrides::default() };
    let Ok(settings) = surroundings::settings(env, &looking) else { return Vec::new() };
    let workspaces = settings.agents.list.into_iter().map(|agent| agent.workspace);
    workspaces.chain(settings.included).collect()
}

fn told(
    args: &CreateArgs,
    state_dir: &Path,
    target: &Path,
    found: &Found,
    outside: &[PathBuf],
) -> String {
    let (done, advice) = match (args.dry_run, args.verify) {
        (true, _) => ("would be written", ""),
        (false, true) => ("written and verified", ADVICE),
        (false, false) => ("written", ADVICE),
    };
    let outside = outside.iter().map(|file| format!("not in it: {}\n", file.display()));
    format!(
        "{} {done}: {} files of {}, {}\n{}{advice}",
        target.display(),
        found.files,
        state_dir.display(),
        size(found.bytes),
        outside.collect::<String>()
    )
}

/// Where the archive goes.
fn target(output: Option<&Path>, state_dir: &Path) -> anyhow::Result<PathBuf> {
    let time = iso_time(SystemClock.now_ms()).replace(':', "-");
    let name = format!("clawgate-backup-{time}.tar.gz");
    let target = match output {
        Some(folder) if is_folder(folder) => folder.join(name),
        Some(file) => file.to_owned(),
        None => name.into(),
    };
    let target = std::path::absolute(&target)?;
    let (folder, name) =
        target.parent().zip(target.file_name()).context("--output names no file")?;
    let folder = if output.is_some_and(is_folder) {
        to_be_made(folder)
    } else {
        fs::canonicalize(folder).with_context(|| format!("cannot write to {}", folder.display()))?
    };
    ensure!(
        !folder.starts_with(state_dir),
        "{} is inside the state directory, where it would be part of itself; name another place with --output",
        target.display()
    );
    let target = folder.join(name);
    ensure!(
        target.symlink_metadata().is_err(),
        "{} is there already; name another file with --output",
        target.display()
    );
    Ok(target)
}

/// Whether a folder is meant.
fn is_folder(output: &Path) -> bool {
    output.is_dir() || output.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Where a folder is, with links followed as far as it is there.
fn to_be_made(folder: &Path) -> PathBuf {
    match (fs::canonicalize(folder), folder.parent(), folder.file_name()) {
        (Err(_), Some(outer), Some(name)) => to_be_made(outer).join(name),
        // `..` behind one that is not there leads back out of it.
        (Err(_), Some(outer), None) => {
            let mut within = to_be_made(outer);
            within.pop();
            within
        }
        (found, ..) => found.unwrap_or_else(|_| folder.to_owned()),
    }
}
