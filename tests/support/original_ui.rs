//! The original Control UI, as the package of its release holds it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::npm;

/// The release whose wire was recorded.
pub const VERSION: &str = super::installed::OF_PROTOCOL_3.0;
/// Where the UI is in the package.
const INSIDE: &str = "package/dist/control-ui";

/// The folder of its files (`index.html`, `assets/` …). They are fetched first
/// where they are not there yet, into the build folder.
pub fn folder() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let fetched = || {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("control-ui-{VERSION}"));
        fetch(&place);
        place.join(INSIDE)
    };
    FOLDER.get_or_init(fetched).clone()
}

/// Unpacks the UI out of the package. Test processes that want it at the same
/// time wait for the first.
fn fetch(place: &Path) {
    let _lock = npm::locked(&place.with_extension("lock")).unwrap();
    if place.join(INSIDE).join("index.html").is_file() {
        return;
    }
    let unfinished = place.with_extension("part");
    let _ = fs::remove_dir_all(&unfinished);
    fs::create_dir_all(&unfinished).unwrap();
    let package = format!("openclaw@{VERSION}");
    run(
        Command::new("npm").args(["pack", "--silent", &package]).current_dir(&unfinished),
        "npm must be on PATH to fetch the Control UI",
    );
    let archive = format!("openclaw-{VERSION}.tgz");
    run(
        Command::new("tar").args(["-xzf", &archive, INSIDE]).current_dir(&unfinished),
        "tar must be on PATH to unpack the Control UI",
    );
    fs::remove_file(unfinished.join(archive)).unwrap();
    let _ = fs::remove_dir_all(place);
    fs::rename(&unfinished, place).unwrap();
}

/// Runs a command that must succeed; `need` is what it takes.
fn run(command: &mut Command, need: &str) {
    let output = command.output().unwrap_or_else(|error| panic!("{need}: {error}"));
    assert!(output.status.success(), "{need}: {}", String::from_utf8_lossy(&output.stderr));
}
