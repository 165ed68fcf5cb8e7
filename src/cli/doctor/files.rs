//! Who can get at the files of the gateway.
//!
//! Owns: which files are private, and how they are closed. Must not: read what
//! is in them.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::finding::{Finding, Repair, Severity};
use crate::config::{Paths, Settings};
use crate::support::{in_shell, sort};

/// The others' right to write.
const WRITE: u32 = 0o022;
/// The others' right to read.
const READ: u32 = 0o044;
/// What others may not do with a key.
const OPEN_KEY: u32 = 0o026;
/// Every right of others.
const OTHERS: u32 = 0o077;
/// Files that hold credentials, wherever they are.
const SECRET_NAMES: [&str; 5] =
    [".env", "gateway-token", "auth-profiles.json", "device.json", "gateway-key.pem"];
/// The gateway's own certificate, which everybody may see.
const CERTIFICATE: &str = "gateway/tls/gateway-cert.pem";
/// More names of one kind tell nothing new.
const NAMES_MAX: usize = 10;
/// More files than anybody has; a state directory full of others is not searched.
const FILES_MAX: usize = 20_000;

/// What is private.
struct Private {
    path: PathBuf,
    facts: Metadata,
}

/// A finding: its id, how bad it is, what is so, why that matters, and of what.
type Group<'a> = (&'static str, Severity, &'a str, &'a str, &'a dyn Fn(&Private) -> bool);

/// Files and directories of the gateway that others can read or change.
pub fn check(paths: &Paths) -> Vec<Finding> {
    let private = private(paths);
    let us = rustix::process::getuid().as_raw();
    let mut findings = Vec::new();
    let groups: [Group<'_>; 4] = [
        (
            "fs.state.writable",
            Severity::Critical,
            "can be changed by other users",
            "whoever changes them decides what the gateway does",
            &|it| it.facts.mode() & WRITE != 0,
        ),
        (
            "fs.secrets.readable",
            Severity::Critical,
            "with secrets can be read by other users",
            "whoever reads them can use the gateway, or the accounts that it uses",
            &|it| {
                it.facts.mode() & WRITE == 0 && it.facts.mode() & READ != 0 && is_secret(it, paths)
            },
        ),
        (
            "fs.state.readable",
            Severity::Warn,
            "can be read by other users",
            "conversations and settings are in them",
            &|it| {
                it.facts.mode() & WRITE == 0
                    && it.facts.mode() & READ != 0
                    && !is_secret(it, paths)
                    && !it.path.ends_with(CERTIFICATE)
            },
        ),
        (
            "fs.state.foreign",
            Severity::Warn,
            "owned by another user",
            "that user can change them, and the gateway may not be able to",
            &|it| it.facts.uid() != us && (it.facts.uid() != 0 || !is_usable(&it.path)),
        ),
    ];
    for (id, severity, what, why, is_so) in groups {
        let found: Vec<_> = private.iter().filter(|it| is_so(it)).collect();
        if found.is_empty() {
            continue;
        }
        let names: Vec<_> =
            found.iter().take(NAMES_MAX).map(|it| it.path.display().to_string()).collect();
        let more = found.len().saturating_sub(names.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let title = format!("{}{more} {what}", names.join(", "));
        let is_foreign = id == "fs.state.foreign";
        let fix = if is_foreign {
            give(&paths.state_dir)
        } else {
            "run again with --fix, or: chmod go-rwx on each of them".to_owned()
        };
        let close =
            |it: &&Private| Repair::Chmod(it.path.clone(), it.facts.mode() & 0o7777 & !OTHERS);
        let repairs = if is_foreign { Vec::new() } else { found.iter().map(close).collect() };
        findings.push(Finding::new(id, severity, title, why, fix).repaired_by(repairs));
    }
    if findings.is_empty() {
        findings.push(Finding::ok("fs.state", "the gateway's files are closed to other users"));
    }
    findings
}

/// Whether others have the key of a certificate that the gateway has not made itself. A group
/// may read it: there are such for keys.
pub fn tls_key(settings: &Settings) -> Option<Finding> {
    let tls = &settings.gateway.tls;
    let key = fs::canonicalize(&tls.key_path).ok().filter(|_| tls.enabled && !tls.is_own)?;
    let mode = fs::metadata(&key).ok()?.mode() & 0o7777;
    (mode & OPEN_KEY != 0).then(|| {
        Finding::new(
            "gateway.tls_key_open",
            Severity::Critical,
            format!("the key {} of gateway.tls is open to other users", tls.key_path.display()),
            "whoever has it can pass for the gateway, and read what clients send",
            format!("run again with --fix, or: chmod g-w,o-rwx {}", in_shell(&key)),
        )
        .repaired_by(vec![Repair::Chmod(key, mode & !(OPEN_KEY | 0o001))])
    })
}

/// The command that makes this user the owner.
pub(super) fn give(path: &Path) -> String {
    format!("sudo chown -R \"$(id -u)\" {}", in_shell(path))
}

/// Whether we may read and write it: what root owns does no harm then.
fn is_usable(path: &Path) -> bool {
    access(path, Access::READ_OK | Access::WRITE_OK).is_ok()
}

/// Whether credentials are in it. A directory lets others see names only.
fn is_secret(private: &Private, paths: &Paths) -> bool {
    let path = &private.path;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    private.facts.is_file()
        && (path.starts_with(&paths.config_path)
            || name.starts_with("openclaw.json")
            || SECRET_NAMES.contains(&name)
            || path.starts_with(paths.state_dir.join("credentials")))
}

/// The state directory, what is directly in it, and what is in the folders that
/// the gateway makes; the config with its earlier versions; the approvals.
fn private(paths: &Paths) -> Vec<Private> {
    let mut found = Vec::new();
    // A directory on the way to the config may be the user's home: not ours.
    look(&paths.state_dir, &mut found);
    // Mostly it is in there, and found with the others.
    let approvals = paths.exec_approvals();
    if approvals.parent() != Some(&*paths.state_dir) {
        look(&approvals, &mut found);
    }
    for child in children(&paths.state_dir) {
        // What agents work on is theirs, and skills may be anybody's.
        let name = child.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.starts_with("workspace") && name != "skills" {
            walk(&child, &mut found);
        }
    }
    let folder = paths.config_path.parent().filter(|folder| *folder != paths.state_dir);
    if let (Some(folder), Some(name)) = (folder, paths.config_path.file_name()) {
        let name = name.to_string_lossy().into_owned();
        let is_version = |path: &PathBuf| {
            path.file_name().is_some_and(|it| it.to_string_lossy().starts_with(&name))
        };
        children(folder).into_iter().filter(is_version).for_each(|path| look(&path, &mut found));
    }
    found
}

fn walk(path: &Path, found: &mut Vec<Private>) {
    look(path, found);
    let is_folder = found.last().is_some_and(|it| it.path == path && it.facts.is_dir());
    if is_folder && found.len() < FILES_MAX {
        for child in children(path) {
            walk(&child, found);
        }
    }
}

/// Links are passed over: what they lead to has an owner of its own.
fn look(path: &Path, found: &mut Vec<Private>) {
    if let Ok(facts) = fs::symlink_metadata(path)
        && (facts.is_file() || facts.is_dir())
    {
        found.push(Private { path: path.to_owned(), facts });
    }
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries: io::Result<Vec<_>> = fs::read_dir(folder).and_then(Iterator::collect);
    let mut paths: Vec<_> =
        entries.unwrap_or_default().into_iter().map(|entry| entry.path()).collect();
    sort::plain(&mut paths);
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_is_advised_has_a_path_with_spaces_as_one_word() {
        let command = give(Path::new("/srv/my state"));
        assert_eq!(command, "sudo chown -R \"$(id -u)\" '/srv/my state'");
    }
}
