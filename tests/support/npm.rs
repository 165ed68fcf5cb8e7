//! What tests and benchmarks have npm install.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use rustix::fs::{FlockOperation, flock};

/// Waits until no other process has this lock; it is held until the file is dropped.
pub fn locked(lock: &Path) -> anyhow::Result<File> {
    let lock = File::create(lock)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    Ok(lock)
}

/// Installs what `package.json` in a folder asks for.
pub fn install(folder: &Path) -> anyhow::Result<()> {
    let installed = Command::new("npm")
        .args(["install", "--no-package-lock", "--no-audit", "--no-fund"])
        .args(["--ignore-scripts", "--loglevel=error"])
        .current_dir(folder)
        .output()
        .context("npm is not on PATH")?;
    let errors = String::from_utf8_lossy(&installed.stderr);
    ensure!(installed.status.success(), "npm install in {} failed: {errors}", folder.display());
    Ok(())
}
