//! The suite of Autobahn itself, where a Python 2.7 with pip is to be had: in `PATH`,
//! or named by `CLAWGATE_PYTHON2`. It exists for no other Python.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::echo::{EchoServer, PATH};
use super::not_run::not_run;
use super::translator;

const SUITE: &str = "autobahntestsuite==0.8.2";
/// Some of its packages are found only where a site is.
const RUN: &str = "import os, site; site.addsitedir(os.environ['PACKAGES']); \
    from autobahntestsuite.wstest import run; run()";
const AGENT: &str = "clawgate";
/// The others, 12 and 13, are of a compression that is not spoken here.
const GROUPS: [&str; 9] = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.*", "10.*"];
/// Bytes that are no text, within a frame that has not come whole: that is found
/// when it has.
const LATE: [&str; 2] = ["6.4.3", "6.4.4"];

#[test]
fn every_case_of_autobahn_is_passed() {
    let Some(python) = python() else {
        return not_run(
            "Autobahn's suite: there is no python2.7 with pip; name one in CLAWGATE_PYTHON2 \
             (pyenv install 2.7.18)",
        );
    };
    let server = EchoServer::start();
    let place = translator::before(server.address());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("autobahn");
    let packages = folder.join("packages");
    install(&python, &packages);
    let reports = folder.join("reports");
    let spec = json!({
        "outdir": reports,
        "servers": [{"agent": AGENT, "url": format!("ws://{place}{PATH}")}],
        "cases": GROUPS, "exclude-cases": [], "exclude-agent-cases": {},
    });
    let file = folder.join("spec.json");
    fs::write(&file, spec.to_string()).unwrap();
    let mut command = Command::new(&python);
    command.env("PACKAGES", &packages).current_dir(&folder);
    succeed(command.args(["-c", RUN, "-m", "fuzzingclient", "-s"]).arg(&file));
    let report = fs::read_to_string(reports.join("index.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    judge(report[AGENT].as_object().expect("a report about us"));
}

/// Shows how many cases of each group came to what, and finds those that failed.
fn judge(cases: &serde_json::Map<String, Value>) {
    let mut groups: BTreeMap<u32, BTreeMap<String, u32>> = BTreeMap::new();
    let mut failed = Vec::new();
    for (case, result) in cases {
        let (behavior, end) = (text(result, "behavior"), text(result, "behaviorClose"));
        let group = case.split('.').next().and_then(|group| group.parse().ok()).unwrap();
        *groups.entry(group).or_default().entry(behavior.clone()).or_default() += 1;
        let is_good = match behavior.as_str() {
            "OK" | "INFORMATIONAL" => true,
            "NON-STRICT" => LATE.contains(&case.as_str()),
            _ => false,
        };
        if !is_good || !["OK", "INFORMATIONAL"].contains(&end.as_str()) {
            failed.push(format!("{case}: {behavior}, closed {end}"));
        }
    }
    for (group, results) in &groups {
        println!("Autobahn, group {group}: {results:?}");
    }
    assert_eq!(groups.len(), GROUPS.len(), "a group was not run: {groups:?}");
    assert!(failed.is_empty(), "{failed:#?}");
}

fn text(result: &Value, name: &str) -> String {
    result[name].as_str().unwrap_or_default().to_owned()
}

/// A Python 2.7 that has pip.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("CLAWGATE_PYTHON2").unwrap_or_else(|| "python2.7".into());
    let asked = Command::new(&python).args(["-m", "pip", "--version"]).output().ok()?;
    asked.status.success().then(|| python.into())
}

/// Installs the suite into the build folder, if it is not there yet.
fn install(python: &Path, packages: &Path) {
    let installed = packages.with_extension("txt");
    if fs::read_to_string(&installed).is_ok_and(|there| there == SUITE) {
        return;
    }
    fs::create_dir_all(packages).unwrap();
    let mut pip = Command::new(python);
    succeed(pip.args(["-m", "pip", "install", "--quiet", SUITE, "--target"]).arg(packages));
    fs::write(installed, SUITE).unwrap();
}

fn succeed(command: &mut Command) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(status.success(), "{command:?}: {stdout}{stderr}");
}
