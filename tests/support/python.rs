//! Third-party programs for Python, which `tests/python/requirements.txt` names.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rustix::fs::{FlockOperation, flock};

/// An interpreter with the programs installed. They are installed first where
/// they are not there yet, into the build folder.
pub fn interpreter() -> PathBuf {
    static INTERPRETER: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
        install(&folder);
        folder.join("bin/python")
    };
    INTERPRETER.get_or_init(make).clone()
}

/// A file next to `requirements.txt`.
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(name)
}

/// Makes the environment that `requirements.txt` asks for. Test processes that
/// want it at the same time wait for the first.
fn install(folder: &Path) {
    let lock = File::create(folder.with_extension("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let requirements = script("requirements.txt");
    let wanted = fs::read_to_string(&requirements).unwrap();
    let installed = folder.join("installed.txt");
    if fs::read_to_string(&installed).is_ok_and(|there| there == wanted) {
        return;
    }
    run(
        Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder),
        "python3 (3.10 or later) with its venv module must be there; Debian: apt-get install python3-venv",
    );
    run(
        Command::new(folder.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:", "--requirement"])
            .arg(&requirements),
        "pip must be able to install a wheel of what tests/python/requirements.txt names",
    );
    fs::write(installed, wanted).unwrap();
}

/// Runs a command that must succeed; `need` is what it takes.
fn run(command: &mut Command, need: &str) {
    let output = command.output().unwrap_or_else(|error| panic!("{need}: {error}"));
    assert!(
        output.status.success(),
        "{need}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
