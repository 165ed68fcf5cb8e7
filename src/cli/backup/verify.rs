//! Reading an archive from beginning to end.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::{Component, Path};

use anyhow::{Context as _, bail, ensure};
use flate2::read::GzDecoder;
use tar::Archive;
use tempfile::NamedTempFile;

use super::super::bar::Bar;
use super::Found;
use crate::config::Paths;
use crate::store::{self, StoreError};

/// What a state directory has beside the database, or before there is one.
const STATE: [&str; 2] = ["openclaw.json", "agents"];

/// What is in an archive, whose database is unpacked into `scratch` and looked over, and
/// whether any of it is of a state directory.
///
/// # Errors
/// When it is not whole.
pub(super) fn verify(archive: &Path, scratch: NamedTempFile) -> anyhow::Result<(Found, bool)> {
    let unread = || format!("cannot read {}", archive.display());
    let damaged = || format!("{} is no whole backup", archive.display());
    let file = File::open(archive).with_context(unread)?;
    let total = file.metadata().with_context(unread)?.len();
    let mut place = file.try_clone().with_context(unread)?;
    let bar = Bar::new();
    let progress = bar.progress();
    let mut reader = Archive::new(GzDecoder::new(BufReader::new(file)));
    let mut scratch = Some(scratch);
    let (mut found, mut is_state) = (Found::default(), false);
    for entry in reader.entries().with_context(damaged)? {
        let mut entry = entry.with_context(damaged)?;
        let name = entry.path().with_context(damaged)?.into_owned();
        let is_inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        ensure!(
            name.components().all(is_inside),
            "{} is no backup of a gateway: {} is outside of the folder to unpack it in",
            archive.display(),
            name.display()
        );
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let is_database = name == Path::new(Paths::DATABASE);
        is_state |= is_database || STATE.iter().any(|begin| name.starts_with(begin));
        found.files += 1;
        found.bytes += match scratch.take_if(|_| is_database) {
            None => io::copy(&mut entry, &mut io::sink()).with_context(damaged)?,
            Some(mut copy) => {
                let length = unpack(&mut entry, copy.as_file_mut(), damaged)?;
                look_over(copy.path()).with_context(damaged)?;
                found.has_database = true;
                length
            }
        };
        progress(place.stream_position().unwrap_or(total), total);
    }
    // To the checksum at the end.
    io::copy(&mut reader.into_inner(), &mut io::sink()).with_context(damaged)?;
    Ok((found, is_state))
}

/// Tells what cannot be read from what there is no room for.
fn unpack(
    from: &mut impl Read,
    to: &mut File,
    damaged: impl Fn() -> String,
) -> anyhow::Result<u64> {
    let mut space = vec![0; 256 * 1024];
    let mut length = 0;
    loop {
        let count = from.read(&mut space).with_context(&damaged)?;
        let (part, _) = space.split_at(count);
        if part.is_empty() {
            return Ok(length);
        }
        to.write_all(part).context("cannot unpack the database to look it over")?;
        length += part.len() as u64;
    }
}

fn look_over(database: &Path) -> anyhow::Result<()> {
    let complaints = match store::check(database) {
        Err(StoreError::TooNew { found, known, .. }) => {
            bail!(
                "its database has schema {found}, and this release knows {known}: have the release look at it that wrote it"
            )
        }
        checked => checked?,
    };
    ensure!(complaints.is_empty(), "its database is damaged: {}", complaints.join("; "));
    Ok(())
}
