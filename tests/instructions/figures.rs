//! The committed figures, and what counts as dearer.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What somebody can do about it; `RENEW` follows.
pub const ADVICE: &str = "benches/instructions.txt has what each cost before. \
    If it is meant to cost more now, or the compiler is another one, renew the file:";

/// What renews the figures and the order of the functions, which have to have names.
pub const RENEW: &str = "cargo rustc --release --bin clawgate -- -C strip=none && \
    CLAWGATE_UPDATE=1 CLAWGATE_PROGRAM=target/release/clawgate cargo test --test instructions";

const HEAD: &str = "\
# What the release build executes for each of these, in instructions as valgrind's
# callgrind counts them. docs/benchmarks.md says what they are. Written by
";

/// What everything cost before.
pub struct Figures(BTreeMap<String, u64>);

/// What has become of a line.
pub enum Verdict {
    /// About the same.
    Same { name: &'static str, now: u64, before: u64 },
    /// More than it may be.
    Dearer { name: &'static str, now: u64, before: u64 },
    /// Much less: the file is due to be renewed, or the next change may spoil it.
    Cheaper { name: &'static str, now: u64, before: u64 },
    /// It is not in the file.
    Unknown { name: &'static str, now: u64 },
}

impl Figures {
    /// Those of the file; none where there is no file yet.
    pub fn read() -> Self {
        Self::parse(&fs::read_to_string(path()).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let figure = |line: &str| {
            let (figure, name) = line.trim().split_once(' ').expect("a figure and a name");
            (name.to_owned(), figure.parse().expect("a number"))
        };
        Self(lines.map(figure).collect())
    }

    /// What has become of a line.
    ///
    /// `tolerance` is how many percent more or less are about the same.
    pub fn judge(&self, name: &'static str, tolerance: u64, now: u64) -> Verdict {
        let Some(before) = self.0.get(name).copied() else {
            return Verdict::Unknown { name, now };
        };
        if now * 100 > before * (100 + tolerance) {
            Verdict::Dearer { name, now, before }
        } else if now * 100 < before * 100_u64.saturating_sub(tolerance) {
            Verdict::Cheaper { name, now, before }
        } else {
            Verdict::Same { name, now, before }
        }
    }

    /// Puts these into the file.
    pub fn write(counted: &[(&'static str, u64)]) {
        let mut text = format!("{HEAD}# {RENEW}\n");
        for (tool, argument) in [("rustc", "--version"), ("valgrind", "--version")] {
            let output = Command::new(tool).arg(argument).output().unwrap();
            writeln!(text, "# {}", String::from_utf8_lossy(&output.stdout).trim()).unwrap();
        }
        for (name, figure) in counted {
            writeln!(text, "{figure:>9} {name}").unwrap();
        }
        fs::write(path(), &text).unwrap();
        eprintln!("{text}");
    }
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/instructions.txt")
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, name, now, before) = match self {
            Self::Same { name, now, before } => ("as before", name, now, before),
            Self::Dearer { name, now, before } => ("DEARER", name, now, before),
            Self::Cheaper { name, now, before } => {
                ("much cheaper: renew benches/instructions.txt", name, now, before)
            }
            Self::Unknown { name, now } => {
                return write!(f, "{name}: {now} instructions, which the file does not know");
            }
        };
        write!(f, "{name}: {now} instructions, {before} before: {word}")
    }
}

#[test]
fn what_costs_a_tenth_more_is_found() {
    let figures = Figures::parse("# a comment\n     1000 health\n  200 chat.send of one\n");
    let judged = |name, now| figures.judge(name, 10, now).to_string();
    assert_eq!(judged("health", 1_100), "health: 1100 instructions, 1000 before: as before");
    assert_eq!(judged("health", 1_101), "health: 1101 instructions, 1000 before: DEARER");
    assert_eq!(judged("health", 900), "health: 900 instructions, 1000 before: as before");
    assert!(judged("health", 899).contains("much cheaper"));
    assert!(judged("chat.send of one", 240).contains("DEARER"));
    assert!(judged("connect", 1).contains("does not know"));
}
