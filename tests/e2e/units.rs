//! The units in `config/`, as systemd reads them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::support::{debian, program};

/// Most that `systemd-analyze security` may find exposed, of 100.
const MOST_EXPOSED: &str = "25";

/// A unit whose program is the one that was built.
fn unit(folder: &Path, sample: &str, named: &str) -> PathBuf {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(sample);
    let text = fs::read_to_string(sample).unwrap();
    assert!(text.contains(named), "{text}");
    let unit = folder.join("clawgate.service");
    fs::write(&unit, text.replace(named, program())).unwrap();
    unit
}

fn analyze(folder: &Path, arguments: &[&str], unit: &Path) -> Output {
    let program = debian::installed(&["systemd-analyze"], "systemd");
    let mut command = Command::new(program);
    command.args(arguments).arg(unit).env("XDG_RUNTIME_DIR", folder).env("HOME", folder);
    command.output().unwrap()
}

/// What systemd says against a unit: an unknown key is told, and no failure.
fn complaints(folder: &Path, manager: &str, unit: &Path) -> String {
    let output = analyze(folder, &[manager, "verify"], unit);
    let text = [output.stdout, output.stderr].concat();
    format!(
        "{}{}",
        if output.status.success() { "" } else { "failed: " },
        String::from_utf8_lossy(&text)
    )
}

#[test]
fn systemd_understands_every_line_of_the_units() {
    for (sample, program, manager) in [
        ("clawgate.service", "%h/.local/bin/clawgate", "--user"),
        ("clawgate-system.service", "/usr/local/bin/clawgate", "--system"),
    ] {
        let folder = TempDir::new().unwrap();
        let unit = unit(folder.path(), sample, program);
        assert_eq!(complaints(folder.path(), manager, &unit), "", "{sample}");
        // What the test would say of a mistake.
        let text = fs::read_to_string(&unit).unwrap();
        fs::write(&unit, text.replace("ProtectSystem=", "ProtectSystems=")).unwrap();
        let told = complaints(folder.path(), manager, &unit);
        assert!(told.contains("ProtectSystems"), "{sample}: {told}");
    }
}

#[test]
fn the_units_expose_little() {
    for (sample, program) in [
        ("clawgate.service", "%h/.local/bin/clawgate"),
        ("clawgate-system.service", "/usr/local/bin/clawgate"),
    ] {
        let folder = TempDir::new().unwrap();
        let unit = unit(folder.path(), sample, program);
        let threshold = format!("--threshold={MOST_EXPOSED}");
        let output = analyze(folder.path(), &["security", "--offline=true", &threshold], &unit);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{sample}: {text}");
    }
}
