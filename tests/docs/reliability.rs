//! `docs/reliability.md`: every guarantee has a state, and the tests that are named
//! for it are there.

use std::fs;

use super::{quoted, read, root};

const STATES: [&str; 4] = ["proven", "measured", "partly", "not yet"];

#[test]
fn every_guarantee_has_a_state_and_proofs_that_are_there() {
    let page = read("docs/reliability.md");
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| |"));
    let mut seen = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, _, state, proof] = cells[..] else { panic!("not four cells: {row}") };
        seen += 1;
        assert_eq!(number, seen.to_string());
        assert!(STATES.contains(&state), "state {state:?}: {row}");
        let mut sources = Vec::new();
        for name in quoted(proof).filter(|name| name.ends_with(".rs")) {
            let source = fs::read_to_string(root().join(name));
            sources.push(source.unwrap_or_else(|_| panic!("no file {name}: {row}")));
        }
        let mut tests = 0;
        for test in quoted(proof).filter(|name| name.contains('_') && !name.contains(['.', '/'])) {
            let begins = format!("fn {test}(");
            let is_there = sources.iter().any(|source| source.contains(&begins));
            assert!(is_there, "no test {test} in the files named: {row}");
            tests += 1;
        }
        assert!(state != "proven" || tests > 0, "proven by nothing: {row}");
        let is_measured = proof.contains("(benchmarks.md)");
        assert!(state != "measured" || is_measured, "measured by nothing: {row}");
    }
    assert_eq!(seen, 50, "guarantees");
}
