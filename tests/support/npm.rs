//! What tests have npm install.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use rustix::fs::{FlockOperation, flock};

/// Waits until no other test process has this lock; it is held until the file is dropped.
pub fn locked(lock: &Path) -> File {
    let lock = File::create(lock).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    lock
}

/// Installs what `package.json` in a folder asks for.
pub fn install(folder: &Path) {
    let installed = Command::new("npm")
        .args(["install", "--no-package-lock", "--no-audit", "--no-fund"])
        .args(["--ignore-scripts", "--loglevel=error"])
        .current_dir(folder)
        .output()
        .expect("npm must be on PATH to install the programs that tests talk to");
    let errors = String::from_utf8_lossy(&installed.stderr);
    let folder = folder.display();
    assert!(installed.status.success(), "npm install in {folder} failed: {errors}");
}
