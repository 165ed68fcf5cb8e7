//! What was looked at, and what was found.
//!
//! Owns: the shape of a finding, its order, its text and JSON. Promises: the
//! JSON has the names that OpenClaw's `security audit --json` has. Must not:
//! look at anything itself.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;

use crate::support::{json, sort};

/// Something is broken or open.
const CRITICAL: u8 = 1;
/// Something should be better.
const WARN: u8 = 2;
/// More repairs that failed tell nothing new.
const FAILED_MAX: usize = 10;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It does not work, or lets others in.
    Critical,
    /// It should be better.
    Warn,
    /// Worth knowing.
    Info,
    /// Well.
    Ok,
}

impl Severity {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Ok => "ok",
        }
    }
}

/// What can be done without asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// Give the file these permissions.
    Chmod(PathBuf, u32),
}

impl Repair {
    fn run(&self) -> Result<(), String> {
        match self {
            Self::Chmod(path, mode) => fs::set_permissions(path, Permissions::from_mode(*mode))
                .map_err(|error| format!("{}: {error}", path.display())),
        }
    }
}

/// One thing that was found.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Its name, for programs.
    pub id: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is so.
    pub title: String,
    /// Why that matters.
    pub detail: String,
    /// The command or the line of configuration that changes it.
    pub remediation: String,
    /// What `--fix` does.
    pub repairs: Vec<Repair>,
    /// What became of that.
    fixed: Option<Result<(), String>>,
}

impl Finding {
    /// Something that is well.
    pub fn ok(id: &'static str, title: impl Into<String>) -> Self {
        Self::new(id, Severity::Ok, title, "", "")
    }

    /// Something else.
    pub fn new(
        id: &'static str,
        severity: Severity,
        title: impl Into<String>,
        detail: impl Into<String>,
        remediation: impl Into<String>,
    ) -> Self {
        Self {
            id,
            severity,
            title: title.into(),
            detail: detail.into(),
            remediation: remediation.into(),
            repairs: Vec::new(),
            fixed: None,
        }
    }

    /// The same with what `--fix` does.
    #[must_use]
    pub fn repaired_by(mut self, repairs: Vec<Repair>) -> Self {
        self.repairs = repairs;
        self
    }

    /// Does each of the repairs: a file of somebody else leaves none of ours open.
    fn fix(&mut self) {
        if self.repairs.is_empty() {
            return;
        }
        let mut failed: Vec<_> = self.repairs.iter().filter_map(|it| it.run().err()).collect();
        let more = failed.len().saturating_sub(FAILED_MAX);
        failed.truncate(FAILED_MAX);
        if more > 0 {
            failed.push(format!("and {more} more"));
        }
        self.fixed = Some(if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) });
    }

    fn counts(&self) -> bool {
        !matches!(self.fixed, Some(Ok(())))
    }

    fn to_json(&self) -> Value {
        let mut shown = json!({
            "checkId": self.id,
            "severity": self.severity.as_str(),
            "title": self.title,
            "detail": self.detail,
            "remediation": self.remediation,
            "fixable": !self.repairs.is_empty(),
        });
        match &self.fixed {
            Some(Ok(())) => shown["fixed"] = json!(true),
            Some(Err(why)) => {
                shown["fixed"] = json!(false);
                shown["error"] = json!(why);
            }
            None => {}
        }
        shown
    }

    fn to_text(&self) -> String {
        let mark = match self.severity {
            Severity::Critical => "✗ critical",
            Severity::Warn => "! warn    ",
            Severity::Info => "i info    ",
            Severity::Ok => return format!("✓ {}\n", self.title),
        };
        let mut text = format!("{mark}  {}  [{}]\n", self.title, self.id);
        let mut say = |label: &str, words: &str| {
            if !words.is_empty() {
                text.extend(["    ", label, ": ", words, "\n"]);
            }
        };
        say("why", &self.detail);
        say("fix", &self.remediation);
        match &self.fixed {
            Some(Ok(())) => say("done", "it is fixed now"),
            Some(Err(why)) => say("not done", why),
            None => {}
        }
        text
    }
}

/// Everything that was found.
#[derive(Debug, Default)]
pub struct Report {
    findings: Vec<Finding>,
}

impl Report {
    /// The worst first; what is alike stays in its order.
    pub fn new(mut findings: Vec<Finding>) -> Self {
        sort::by_key(&mut findings, |finding| finding.severity);
        Self { findings }
    }

    /// Does what can be done without asking.
    pub fn fix(&mut self) {
        self.findings.iter_mut().for_each(Finding::fix);
    }

    fn count(&self, severity: Severity) -> usize {
        let all = self.findings.iter().filter(|it| it.counts() && it.severity == severity);
        all.count()
    }

    /// 1 with something critical, 2 with something to be better, else 0.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(if self.count(Severity::Critical) > 0 {
            CRITICAL
        } else if self.count(Severity::Warn) > 0 {
            WARN
        } else {
            0
        })
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let findings: Vec<_> = self.findings.iter().map(Finding::to_json).collect();
        let summary = json!({
            "critical": self.count(Severity::Critical),
            "warn": self.count(Severity::Warn),
            "info": self.count(Severity::Info),
        });
        json!({
            "ok": self.count(Severity::Critical) == 0,
            "summary": summary,
            "findings": findings,
        })
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let lines: String = self.findings.iter().map(Finding::to_text).collect();
        let can_fix = self.findings.iter().any(|it| !it.repairs.is_empty() && it.fixed.is_none());
        let hint = if can_fix { "; --fix closes open files" } else { "" };
        format!(
            "{lines}\n{} critical, {} to be better, {} to know{hint}\n",
            self.count(Severity::Critical),
            self.count(Severity::Warn),
            self.count(Severity::Info),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_comes_first_and_decides_the_exit_code() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let critical = Finding::new("a.b", Severity::Critical, "open", "why", "chmod")
            .repaired_by(vec![Repair::Chmod(path.clone(), 0o600)]);
        let warn = Finding::new("c.d", Severity::Warn, "weak", "", "");
        let mut report = Report::new(vec![Finding::ok("e", "well"), warn, critical]);
        assert_eq!(report.exit_code(), ExitCode::from(1));
        let text = report.to_text();
        assert!(text.starts_with("✗ critical  open  [a.b]\n    why: why\n    fix: chmod\n! warn"));
        report.fix();
        assert_eq!(report.exit_code(), ExitCode::from(2));
        let shown = report.to_json();
        assert_eq!(shown["summary"], json!({"critical": 0, "warn": 1, "info": 0}));
        assert_eq!(shown["findings"][0]["fixed"], true);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_cannot_be_closed_is_named_and_the_others_are_closed() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name);
        for name in ["a", "c"] {
            fs::write(place(name), "x").unwrap();
            fs::set_permissions(place(name), Permissions::from_mode(0o644)).unwrap();
        }
        let repairs = ["a", "gone", "c"].map(|name| Repair::Chmod(place(name), 0o600)).to_vec();
        let open = Finding::new("a.b", Severity::Critical, "open", "", "").repaired_by(repairs);
        let mut report = Report::new(vec![open]);
        report.fix();
        for name in ["a", "c"] {
            let mode = fs::metadata(place(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        assert_eq!(report.exit_code(), ExitCode::from(1));
        let why = report.to_json()["findings"][0]["error"].as_str().unwrap().to_owned();
        assert!(why.starts_with(&format!("{}: ", place("gone").display())), "{why}");
        assert!(!why.contains("; "), "{why}");
    }
}
