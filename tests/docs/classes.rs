//! The tables of `docs/security.md` that say which test proves what: the tests are
//! there.

use std::fs;

use super::{quoted, read, root};

/// The text of a file of tests, named from the root or within `tests/security`.
fn source(name: &str) -> String {
    let places = [root().join(name), root().join("tests/security").join(name)];
    let found = places.iter().find_map(|place| fs::read_to_string(place).ok());
    found.unwrap_or_else(|| panic!("docs/security.md names {name}, which is not there"))
}

#[test]
fn the_tests_that_are_named_for_a_class_of_advisories_are_there() {
    let page = read("docs/security.md");
    let (_, tables) = page.split_once("## Classes of advisories and their tests").unwrap();
    let (tables, _) = tables.split_once("\n## ").unwrap();
    let mut named = 0;
    for line in tables.lines().filter(|line| line.starts_with("| ")) {
        let (_, last) = line.trim_end_matches(" |").rsplit_once(" | ").unwrap_or(("", ""));
        let is_file = |name: &&str| name.ends_with(".rs") || name.ends_with(".txt");
        let sources: String = quoted(last).filter(is_file).map(source).collect();
        let is_test = |name: &&str| !is_file(name) && name.contains('_');
        for test in quoted(last).filter(is_test) {
            assert!(sources.contains(&format!("fn {test}(")), "no test {test}: {line}");
            named += 1;
        }
    }
    assert!(named > 10, "only {named} tests are named");
}

#[test]
fn every_file_of_security_tests_is_named_on_the_page() {
    let page = read("docs/security.md");
    for entry in fs::read_dir(root().join("tests/security")).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        let is_shared = ["main.rs", "credentials.rs", "routes.rs"].contains(&name.as_str());
        assert!(is_shared || page.contains(&name), "docs/security.md does not name {name}");
    }
}
