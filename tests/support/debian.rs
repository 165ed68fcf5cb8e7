//! Programs of Debian that tests talk to.
//!
//! What is on `PATH` is used. What is not is fetched: a program that needs many
//! libraries is installed, which takes root or `sudo`; a server is only
//! unpacked into the build folder, since installing it would start it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FlockOperation, flock};

/// Where programs of the system are that are not on everybody's `PATH`.
const SYSTEM: &str = "/usr/sbin";

/// The path of a program with one of these names.
pub fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).chain([SYSTEM.into()]).collect();
    let places = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places.into_iter().find(|place| place.is_file())
}

/// A program with one of these names; its package is installed where there is
/// none.
pub fn installed(names: &[&str], package: &str) -> PathBuf {
    let _alone = alone();
    if let Some(program) = find(names) {
        return program;
    }
    let need = format!("{names:?} must be on PATH; Debian: apt-get install {package}");
    refresh();
    let mut apt = as_root("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive");
    apt.args(["install", "-qy", "--no-install-recommends", package]);
    run(&mut apt, &need);
    find(names).unwrap_or_else(|| panic!("{need}"))
}

/// A program at this path in a package, unpacked where it is not on `PATH`.
pub fn unpacked(name: &str, package: &str, at: &str) -> PathBuf {
    let _alone = alone();
    if let Some(program) = find(&[name]) {
        return program;
    }
    let need = format!("{name} must be on PATH; Debian: apt-get install {package}");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("debian").join(package);
    let program = folder.join(at);
    if program.is_file() {
        return program;
    }
    fs::create_dir_all(&folder).unwrap();
    refresh();
    run(Command::new("apt-get").args(["download", "-q", package]).current_dir(&folder), &need);
    let is_deb = |path: &PathBuf| path.extension().is_some_and(|it| it == "deb");
    let mut files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let archive = files.find(is_deb).unwrap_or_else(|| panic!("{need}"));
    run(Command::new("dpkg-deb").arg("--extract").args([&archive, &folder]), &need);
    assert!(program.is_file(), "{package} has no {at}");
    program
}

/// Lets apt know what there is now. Where that fails, what is asked for next says
/// so better.
fn refresh() {
    let _ = as_root("apt-get").args(["update", "-q"]).output();
}

/// Held by whoever looks for a program: test processes that want it at the same
/// time wait for the first.
fn alone() -> File {
    let lock = File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("debian.lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    lock
}

fn as_root(program: &str) -> Command {
    if rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut sudo = Command::new("sudo");
    sudo.args(["--non-interactive", "--preserve-env=DEBIAN_FRONTEND", program]);
    sudo
}

/// Runs a command that must succeed; `need` is what it is for.
fn run(command: &mut Command, need: &str) {
    let output = command.output().unwrap_or_else(|error| panic!("{need} ({error})"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{need}\n{stdout}{stderr}");
}
