//! Proofs that this machine cannot give.
//!
//! Promises: nobody takes one for given. It is told past the capture of the test
//! runner, and kept in a file that `.ci/run` shows at the end; where all of them are
//! required it fails.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// With `all` a proof that cannot be given has failed.
const REQUIRE: &str = "CLAWGATE_REQUIRE";
/// One line for each; `.ci/run` knows it by this name.
const FILE: &str = "not-run.txt";

/// What tests of the sandbox need.
pub const NO_SANDBOX: &str =
    "what a confined command may do: this kernel has no Landlock as of Linux 6.2";

/// Tells that a test proves nothing here, and what it needs. The test returns after it.
pub fn not_run(what: &str) {
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = format!("NOT RUN: {what}\n");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(FILE);
    // One write each: other tests write at the same time.
    let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
    file.write_all(line.as_bytes()).unwrap();
    // The macros for this are captured, and what a green test says is thrown away.
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    let wanted = std::env::var(REQUIRE).unwrap_or_default();
    assert!(["", "all"].contains(&&*wanted), "{REQUIRE} is `all` or not set, not {wanted:?}");
    assert!(wanted.is_empty(), "{REQUIRE}={wanted}: {what}");
}
