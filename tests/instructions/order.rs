//! The order of the functions in the program.
//!
//! The kernel maps a program in pieces of 64 KiB. What an idle gateway executes is a
//! seventh of it, and is everywhere; side by side, it is far fewer pieces. So the
//! linker puts what is executed first, by the file that is written here.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What the linker is given by `src/build.rs`.
const FILE: &str = "src/build.order";

/// The names, as they are in the program.
pub type Names = BTreeSet<String>;

/// Those of the functions that have been executed, in what callgrind wrote.
pub fn executed(text: &str) -> Names {
    let named = |line: &str| {
        let name = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn="))?;
        // Each is written out once, and is a number after that.
        let (_, name) = name.split_once(") ")?;
        // A function within itself is counted apart.
        let name = name.split_once('\'').map_or(name, |(name, _)| name);
        let is_symbol = |of: char| of.is_ascii_alphanumeric() || matches!(of, '_' | '.' | '$');
        let is_named = !name.starts_with("0x") && name.chars().all(is_symbol);
        is_named.then(|| name.to_owned())
    };
    text.lines().filter_map(named).collect()
}

/// Puts those of a quiet gateway into the file, and then the others of a busy one.
pub fn write(quiet: &Names, busy: &Names) {
    let is_ours = |name: &&String| name.contains("8clawgate");
    assert!(
        quiet.iter().any(|name| is_ours(&name)),
        "the program has no names; with them: \
         cargo rustc --release --bin clawgate -- -C strip=none"
    );
    let mut text = String::new();
    for name in quiet.iter().chain(busy.difference(quiet)) {
        text.push_str(name);
        text.push('\n');
    }
    fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE), &text).unwrap();
}

#[test]
fn each_function_that_was_executed_is_named_once() {
    let text = "fn=(1) _ZN8clawgate3app3run17h0123456789abcdefE\n+3 40\n\
        cfn=(2) sqlite3VdbeExec\ncalls=1 7\n12 99\ncfn=(2)\ncalls=1 7\n13 99\n\
        fn=(3) sqlite3VdbeExec'2\nfn=(4) 0x0000000000018f50\nfn=(5) (below main)\n\
        fn=(6) clock_gettime@@GLIBC_2.17\n";
    let names: Vec<_> = executed(text).into_iter().collect();
    assert_eq!(names, ["_ZN8clawgate3app3run17h0123456789abcdefE", "sqlite3VdbeExec"]);
}
