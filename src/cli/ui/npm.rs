//! Fetching a package with npm, which knows the user's registry and proxies.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use tokio::process::Command;
use tokio::time::timeout;

/// The package.
const PACKAGE: &str = "openclaw";
/// It has some sixty megabytes; a slow line takes minutes.
const LIMIT: Duration = Duration::from_mins(20);
/// Most letters of a version.
const MAX_VERSION: usize = 64;
/// Lines of npm that are shown when it fails.
const SHOWN_LINES: usize = 6;

/// A version or a tag, as an argument.
pub(super) fn version(text: &str) -> Result<String, String> {
    let is_letter = |it: u8| it.is_ascii_alphanumeric() || b".-+".contains(&it);
    let is_version = text.len() <= MAX_VERSION
        && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && text.bytes().all(is_letter);
    is_version.then(|| text.to_owned()).ok_or_else(|| "give a version, such as 2026.5.7".to_owned())
}

/// Fetches the package into a folder; the file.
pub(super) async fn pack(version: &str, into: &Path) -> anyhow::Result<PathBuf> {
    let child = Command::new("npm")
        .args(["pack", &format!("{PACKAGE}@{version}"), "--ignore-scripts", "--no-progress"])
        .args(["--no-audit", "--no-fund", "--no-update-notifier", "--pack-destination"])
        .arg(into)
        .current_dir(into)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let child = child.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => anyhow!(
            "npm is not here: install Node.js, or fetch {PACKAGE}-{version}.tgz on another \
             machine and name it with --from"
        ),
        _ => anyhow::Error::new(error).context("npm does not start"),
    })?;
    let done = timeout(LIMIT, child.wait_with_output()).await;
    let done = done.map_err(|_| anyhow!("npm took more than {} minutes", LIMIT.as_secs() / 60))?;
    let done = done.context("npm cannot be waited for")?;
    if !done.status.success() {
        bail!(why(version, &String::from_utf8_lossy(&done.stderr)));
    }
    let mut files =
        std::fs::read_dir(into).with_context(|| format!("cannot read {}", into.display()))?;
    let package = files.find_map(|entry| {
        let path = entry.ok()?.path();
        path.extension().is_some_and(|it| it == "tgz").then_some(path)
    });
    package.context("npm has fetched nothing")
}

/// What to do about what npm says.
fn why(version: &str, said: &str) -> String {
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    let told = if has(&["E404", "ETARGET", "notarget"]) {
        format!("there is no {PACKAGE}@{version} for npm; name another one with --version")
    } else if has(&[
        "ENOTFOUND",
        "EAI_AGAIN",
        "ECONNREFUSED",
        "ECONNRESET",
        "ETIMEDOUT",
        "ENETUNREACH",
        "EHOSTUNREACH",
        "network",
    ]) {
        format!(
            "npm does not reach its registry; try again, or fetch {PACKAGE}-{version}.tgz on \
             another machine and name it with --from"
        )
    } else {
        format!("npm cannot fetch {PACKAGE}@{version}")
    };
    let lines: Vec<_> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let shown = lines.iter().take(SHOWN_LINES).map(|line| format!("\n  {line}"));
    told + &shown.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_no_flag_and_no_other_package() {
        for good in ["2026.5.7", "latest", "2026.6.0-beta.1", "1.0.0+x"] {
            assert_eq!(version(good).as_deref(), Ok(good));
        }
        for wrong in ["", "-g", "--registry=x", "1 2", "../x", "a@b", "https://x", "^1", "~1"] {
            assert!(version(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_npm_says_becomes_what_to_do() {
        assert!(why("9", "npm error code ETARGET\n").starts_with("there is no openclaw@9"));
        assert!(why("9", "npm error code EAI_AGAIN").contains("name it with --from"));
        let other = why("9", "npm error code EACCES\nnpm error x");
        assert_eq!(other, "npm cannot fetch openclaw@9\n  npm error code EACCES\n  npm error x");
    }
}
