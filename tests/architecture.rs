//! The house rules that a compiler does not check: who may import whom, which
//! library is known where, how long a file and a function may be.
//!
//! The table is in `architecture/rules.rs` and, for people, in
//! `docs/architecture.md`. `architecture/selftest.rs` tries every rule on
//! made-up sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "architecture/rules.rs"]
mod rules;
#[path = "architecture/selftest.rs"]
mod selftest;
#[path = "architecture/source.rs"]
mod source;

use source::Source;

/// Where people write. Recordings are other people's texts.
const WRITTEN: [&str; 8] =
    ["src", "tests", "benches", "docs", "config", ".ci", "README.md", "Cargo.toml"];
const RECORDED: [&str; 2] = ["tests/conformance/traces", "node_modules"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `place`, relative to the repository.
fn files(place: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![root().join(place)];
    while let Some(path) = waiting.pop() {
        let name = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        if RECORDED.iter().any(|recorded| name.contains(recorded)) {
            continue;
        }
        if path.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            waiting.extend(entries.map(|entry| entry.unwrap().path()));
        } else if path.is_file() {
            found.push(name);
        }
    }
    found.sort();
    found
}

fn sources() -> Vec<Source> {
    let read = |path: &String| fs::read_to_string(root().join(path)).unwrap();
    let is_rust = |path: &String| Path::new(path).extension().is_some_and(|kind| kind == "rs");
    let found: Vec<Source> = files("src")
        .iter()
        .filter(|path| is_rust(path))
        .map(|path| Source::new(path, &read(path)))
        .collect();
    assert!(found.len() > 100, "only {} sources found; is this the repository?", found.len());
    let tests: BTreeSet<String> = found.iter().flat_map(Source::test_files).collect();
    let mark = |source: Source| {
        if tests.contains(&source.path) { source.all_tests() } else { source }
    };
    found.into_iter().map(mark).collect()
}

fn check(rule: impl Fn(&Source) -> Vec<String>) {
    report(sources().iter().flat_map(rule).collect());
}

fn report(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{} found:\n{}\n", wrong.len(), wrong.join("\n"));
}

#[test]
fn modules_only_use_what_is_left_of_them() {
    check(rules::edges);
}

#[test]
fn axum_and_rusqlite_stay_behind_their_modules() {
    check(rules::fences);
}

#[test]
fn values_are_written_with_our_own_macro() {
    check(rules::macros);
}

#[test]
fn only_auth_makes_a_principal() {
    check(rules::principals);
}

#[test]
fn main_only_uses_cli() {
    let main: Vec<_> =
        sources().into_iter().filter(|source| source.path == "src/main.rs").collect();
    assert_eq!(main.len(), 1);
    report(main.iter().flat_map(rules::main_file).collect());
}

#[test]
fn every_file_says_what_it_owns() {
    check(rules::header);
}

#[test]
fn every_directory_has_a_file_that_explains_it() {
    let mut wrong = Vec::new();
    let folders: BTreeSet<PathBuf> = sources()
        .iter()
        .filter_map(|source| Path::new(&source.path).parent().map(Path::to_owned))
        .filter(|folder| folder != Path::new("src"))
        .collect();
    for folder in folders {
        let candidates = [folder.join("mod.rs"), folder.with_extension("rs")];
        let explained = candidates.iter().any(|file| {
            fs::read_to_string(root().join(file)).is_ok_and(|text| text.starts_with("//!"))
        });
        if !explained {
            wrong.push(format!("{}: no mod.rs that begins with `//!`", folder.display()));
        }
    }
    report(wrong);
}

#[test]
fn files_and_functions_stay_short() {
    check(rules::lengths);
}

#[test]
fn nothing_is_left_unfinished() {
    let mut wrong = Vec::new();
    for path in WRITTEN.into_iter().flat_map(files) {
        // What is no text has no such marks either.
        if let Ok(text) = fs::read_to_string(root().join(&path)) {
            wrong.extend(rules::unfinished(&path, &text));
        }
    }
    report(wrong);
}

#[test]
fn a_proof_that_is_not_given_is_told_by_the_one_who_counts_them() {
    let is_test = |path: &String| {
        Path::new(path).extension().is_some_and(|kind| kind == "rs")
            && !["tests/architecture", "tests/support/not_run.rs"]
                .iter()
                .any(|other| path.starts_with(other))
    };
    let mut wrong = Vec::new();
    for path in ["tests", "fuzz"].into_iter().flat_map(files).filter(is_test) {
        let text = fs::read_to_string(root().join(&path)).unwrap();
        wrong.extend(rules::given_up(&path, &text));
    }
    report(wrong);
}

#[test]
fn every_module_is_in_the_table_and_on_both_maps() {
    let root_file =
        Source::new("src/lib.rs", &fs::read_to_string(root().join("src/lib.rs")).unwrap());
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let mut declared = root_file.tokens.windows(2).filter(|pair| pair[0].text == "mod").peekable();
    assert!(declared.peek().is_some(), "no modules found in src/lib.rs");
    let mut wrong = Vec::new();
    for pair in declared {
        let name = &pair[1].text;
        if !rules::GROUPS.iter().any(|group| group.contains(&name.as_str())) {
            wrong.push(format!("`{name}` has no place in the import rules"));
        }
        if !root_file.text.contains(&format!("//! | [`{name}`] |")) {
            wrong.push(format!("`{name}` is not on the map in src/lib.rs"));
        }
        if !page.contains(&format!("| `{name}` |")) {
            wrong.push(format!("`{name}` is not on the map in docs/architecture.md"));
        }
    }
    report(wrong);
}

#[test]
fn every_lock_is_on_the_list() {
    let page = fs::read_to_string(root().join("docs/locks.md")).unwrap();
    let has_lock = |source: &Source| {
        source.tokens.windows(2).any(|pair| {
            !pair[0].is_test && ["Mutex", "RwLock"].contains(&&*pair[0].text) && pair[1].text == "<"
        })
    };
    let wrong = sources()
        .iter()
        .filter_map(|source| {
            let is_listed = page.contains(&format!("| `{}` |", source.path));
            match (has_lock(source), is_listed) {
                (true, false) => Some(format!("{}: its lock is not in docs/locks.md", source.path)),
                (false, true) => Some(format!("docs/locks.md: {} has no lock", source.path)),
                _ => None,
            }
        })
        .collect();
    report(wrong);
}

#[test]
fn the_page_for_people_has_the_same_table() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    for (index, group) in rules::GROUPS.iter().enumerate() {
        let row = format!("| {} | `{}` |", index + 1, group.join("`, `"));
        assert!(page.contains(&row), "docs/architecture.md has no row\n{row}");
    }
}
