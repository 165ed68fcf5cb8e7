//! `clawgate backup`: the state directory in one file, also while a gateway uses it.
//!
//! Owns: what is in an archive, and in which order. Promises: an archive is whole or is not
//! there; only its owner may read it. Must not: change anything in the state directory.

use std::fs::{self, File, Metadata};
use std::io::{self, BufReader, BufWriter, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, Subcommand};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::json;
use tar::{Archive, Builder, Header};
use tempfile::NamedTempFile;

use super::bar::Bar;
use super::format::size;
use super::screen::Screen;
use crate::config::{Env, Paths};
use crate::sessions::iso_time;
use crate::store;
use crate::support::{Clock, SystemClock};

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
    /// File to write, or folder to put it in [default: clawgate-backup-TIME.tar.gz here]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only tell what would be written
    #[arg(long)]
    dry_run: bool,
    /// Verify what was written
    #[arg(long)]
    verify: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `clawgate backup verify`.
#[derive(Debug, Args)]
struct VerifyArgs {
    /// File that `clawgate backup create` has written
    #[arg(value_name = "FILE")]
    archive: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Makes a backup, or reads one.
pub fn run(args: &BackupArgs, env: &Env) -> anyhow::Result<ExitCode> {
    match &args.command {
        BackupCommand::Create(args) => create(args, env)?,
        BackupCommand::Verify(VerifyArgs { archive, json }) => {
            let found = verify(archive).with_context(|| damaged(archive))?;
            let answer = json!({"ok": true, "archive": archive, "files": found.files,
                "bytes": found.bytes, "database": found.has_database});
            let database = if found.has_database { "with" } else { "without" };
            let text = format!(
                "{} is whole: {} files, {}, {database} a database\n",
                archive.display(),
                found.files,
                size(found.bytes)
            );
            print(&if *json { format!("{answer:#}\n") } else { text })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is in an archive.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    files: u64,
    bytes: u64,
    has_database: bool,
}

/// What goes into one beside the database.
struct Item {
    path: PathBuf,
    /// Relative to the state directory.
    name: PathBuf,
    about: Metadata,
}

fn create(args: &CreateArgs, env: &Env) -> anyhow::Result<()> {
    let paths = Paths::resolve(env)?;
    let state_dir = fs::canonicalize(&paths.state_dir)
        .with_context(|| format!("there is nothing to back up: {}", paths.state_dir.display()))?;
    let target = target(args.output.as_deref(), &state_dir)?;
    let database = Some(paths.database()).filter(|database| database.exists());
    // First of all: a message may then be in a transcript and not in the index yet, which is
    // put right when it is used. No session is in the index whose transcript is missing.
    let copy = database.as_deref().filter(|_| !args.dry_run);
    let copy = copy.map(|database| copied(database, &target)).transpose()?;
    let mut items = Vec::new();
    collect(&state_dir, Path::new(""), &mut items)?;
    let outside: Vec<_> = paths
        .config_files()
        .into_iter()
        .chain([paths.exec_approvals()])
        .filter(|file| file.exists() && !is_below(file, &state_dir))
        .collect();
    let found = if args.dry_run {
        planned(&items, database.as_deref())?
    } else {
        let found = write(&target, &items, copy.as_ref())?;
        if args.verify {
            let read = verify(&target).with_context(|| damaged(&target))?;
            ensure!(read == found, "{} has not what was written into it", target.display());
        }
        found
    };
    let answer = json!({"archive": target, "stateDir": state_dir, "dryRun": args.dry_run,
        "files": found.files, "bytes": found.bytes, "database": found.has_database,
        "verified": args.verify && !args.dry_run, "notIncluded": outside});
    print(&if args.json {
        format!("{answer:#}\n")
    } else {
        told(args, &state_dir, &target, &found, &outside)
    })
}

fn told(
    args: &CreateArgs,
    state_dir: &Path,
    target: &Path,
    found: &Found,
    outside: &[PathBuf],
) -> String {
    let done = match (args.dry_run, args.verify) {
        (true, _) => "would be written",
        (false, true) => "written and verified",
        (false, false) => "written",
    };
    let outside = outside.iter().map(|file| format!("not in it: {}\n", file.display()));
    format!(
        "{} {done}: {} files of {}, {}\n{}\
        It has the token and the keys of the gateway: keep it as you keep those.\n",
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
        Some(folder) if folder.is_dir() => folder.join(name),
        Some(file) => file.to_owned(),
        None => name.into(),
    };
    let target = std::path::absolute(&target)?;
    let folder = target.parent().context("--output names no file")?;
    let folder = fs::canonicalize(folder)
        .with_context(|| format!("cannot write to {}", folder.display()))?;
    ensure!(
        !folder.starts_with(state_dir),
        "{} is inside the state directory, where it would be part of itself; name another place with --output",
        target.display()
    );
    let name = target.file_name().context("--output names no file")?;
    let target = folder.join(name);
    if target.symlink_metadata().is_ok() {
        bail!("{} is there already; name another file with --output", target.display());
    }
    Ok(target)
}

fn is_below(file: &Path, folder: &Path) -> bool {
    fs::canonicalize(file).is_ok_and(|file| file.starts_with(folder))
}

/// What is in a folder, in an order that stays the same. Sockets and pipes are of running
/// programs.
fn collect(root: &Path, at: &Path, items: &mut Vec<Item>) -> anyhow::Result<()> {
    let folder = root.join(at);
    let failed = || format!("cannot read {}", folder.display());
    let entries = fs::read_dir(&folder).with_context(failed)?;
    let mut names = entries
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<io::Result<Vec<_>>>()
        .with_context(failed)?;
    names.sort();
    for name in names {
        if at.as_os_str().is_empty() && name.to_str().is_some_and(is_of_program) {
            continue;
        }
        let name = at.join(name);
        let path = root.join(&name);
        let about = match fs::symlink_metadata(&path) {
            // It was there a moment ago: a file is being replaced.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            about => about.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let is_folder = about.is_dir();
        if is_folder || about.is_file() || about.is_symlink() {
            items.push(Item { path, name: name.clone(), about });
        }
        if is_folder {
            collect(root, &name, items)?;
        }
    }
    Ok(())
}

/// Whether it is of the running program: its lock, or the database, which comes as a copy.
fn is_of_program(name: &str) -> bool {
    let end = name.strip_prefix(Paths::DATABASE);
    name == Paths::LOCK || end.is_some_and(|end| ["", "-wal", "-shm", "-journal"].contains(&end))
}

fn planned(items: &[Item], database: Option<&Path>) -> anyhow::Result<Found> {
    let files = items.iter().filter(|item| item.about.is_file());
    let mut found = Found::default();
    for file in files {
        found.files += 1;
        found.bytes += file.about.len();
    }
    if let Some(database) = database {
        found.files += 1;
        found.bytes += fs::metadata(database)?.len();
        found.has_database = true;
    }
    Ok(found)
}

/// An empty file beside the archive that is to be.
fn beside(target: &Path, end: &str) -> anyhow::Result<NamedTempFile> {
    let folder = target.parent().unwrap_or(Path::new("."));
    let mut name = tempfile::Builder::new();
    let made = name.prefix(".clawgate-backup-").suffix(end).tempfile_in(folder);
    made.with_context(|| format!("cannot write to {}", folder.display()))
}

/// A copy of the database.
fn copied(database: &Path, target: &Path) -> anyhow::Result<NamedTempFile> {
    let copy = beside(target, ".sqlite")?;
    store::copy_beside(database, copy.path())?;
    Ok(copy)
}

/// Writes the archive under another name, and gives it its own when all of it is on disk.
fn write(target: &Path, items: &[Item], database: Option<&NamedTempFile>) -> anyhow::Result<Found> {
    let failed = || format!("cannot write {}", target.display());
    let mut archive = beside(target, ".tmp")?;
    let bar = Bar::new();
    let progress = bar.progress();
    let total = planned(items, database.map(NamedTempFile::path))?.bytes;
    let gzip = GzEncoder::new(BufWriter::new(archive.as_file_mut()), Compression::default());
    let mut builder = Builder::new(gzip);
    let mut found = Found::default();
    if let Some(copy) = database {
        let about = copy.as_file().metadata()?;
        add_file(&mut builder, copy.path(), Path::new(Paths::DATABASE), &about, &mut found)
            .with_context(failed)?;
        found.has_database = true;
    }
    for item in items {
        add(&mut builder, item, &mut found)
            .with_context(|| format!("cannot back up {}", item.path.display()))?;
        progress(found.bytes, total);
    }
    let written =
        builder.into_inner()?.finish()?.into_inner().map_err(io::IntoInnerError::into_error);
    written.and_then(|file| file.sync_all()).with_context(failed)?;
    bar.clear();
    keep(archive, target).with_context(failed)?;
    Ok(found)
}

/// Gives the archive its name, unless somebody has taken it meanwhile.
fn keep(archive: NamedTempFile, target: &Path) -> io::Result<()> {
    archive.persist_noclobber(target).map_err(|error| error.error)?;
    let folder = target.parent().unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

fn add<W: io::Write>(builder: &mut Builder<W>, item: &Item, found: &mut Found) -> io::Result<()> {
    let Item { path, name, about } = item;
    if about.is_file() {
        return add_file(builder, path, name, about, found);
    }
    let mut header = Header::new_gnu();
    header.set_metadata(about);
    header.set_size(0);
    if about.is_dir() {
        return builder.append_data(&mut header, name, io::empty());
    }
    match fs::read_link(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        to => builder.append_link(&mut header, name, to?),
    }
}

/// A file as long as it is when its turn comes: transcripts and logs grow meanwhile.
fn add_file<W: io::Write>(
    builder: &mut Builder<W>,
    path: &Path,
    name: &Path,
    about: &Metadata,
    found: &mut Found,
) -> io::Result<()> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let length = file.metadata()?.len();
    let mut header = Header::new_gnu();
    header.set_metadata(about);
    header.set_size(length);
    // Of one that becomes shorter the rest is empty; the archive stays whole.
    let exactly = BufReader::new(file).chain(io::repeat(0)).take(length);
    builder.append_data(&mut header, name, exactly)?;
    found.files += 1;
    found.bytes += length;
    Ok(())
}

fn damaged(archive: &Path) -> String {
    format!("{} is no whole backup", archive.display())
}

/// Reads all of an archive.
fn verify(archive: &Path) -> anyhow::Result<Found> {
    let file = File::open(archive)?;
    let (total, mut place) = (file.metadata()?.len(), file.try_clone()?);
    let bar = Bar::new();
    let progress = bar.progress();
    let mut reader = Archive::new(GzDecoder::new(BufReader::new(file)));
    let mut found = Found::default();
    for entry in reader.entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        found.files += 1;
        if entry.path()?.as_ref() == Path::new(Paths::DATABASE) {
            let mut copy = NamedTempFile::new()?;
            found.bytes += io::copy(&mut entry, copy.as_file_mut())?;
            let complaints = store::check(copy.path())?;
            ensure!(complaints.is_empty(), "its database is damaged: {}", complaints.join("; "));
            found.has_database = true;
        } else {
            found.bytes += io::copy(&mut entry, &mut io::sink())?;
        }
        progress(place.stream_position()?, total);
    }
    // To the checksum at the end.
    io::copy(&mut reader.into_inner(), &mut io::sink())?;
    bar.clear();
    Ok(found)
}

/// Names of files can hold what steers a terminal; the screen takes it out.
fn print(text: &str) -> anyhow::Result<()> {
    match Screen::stdio(true).text(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
