//! `docs/reliability.md`: every guarantee has a state, the tests that are named for it
//! are there, and its figures are those that were measured.

use std::fs;

use serde_json::Value;

use super::metric::{Budget, METRICS};
use super::{quoted, read, root};

const STATES: [&str; 4] = ["proven", "measured", "partly", "not yet"];

/// Which figures of the benchmarks are about a guarantee, and what stands behind each on
/// the page.
const FIGURES: [(usize, &str, &str); 19] = [
    (1, "quiet", " %"),
    (2, "list-p99", " ms"),
    (2, "list-streaming-p99", " while 20 runs stream"),
    (3, "send", " ms;"),
    (3, "starting", " ms at most"),
    (4, "hello-1000", " ms"),
    (5, "command", " ms"),
    (6, "send-first", " ms for the first"),
    (6, "send", " ms for later ones"),
    (8, "left", " bytes"),
    (9, "history", " ms"),
    (9, "history-memory", " MiB"),
    (10, "idle", " MiB"),
    (10, "client-1000", " KiB for each of 1 000"),
    (10, "client-10000", " KiB for each of 10 000"),
    (10, "client-100", " KiB for each of 100"),
    (13, "stalled-p99", " ms at most beside 50"),
    (13, "latency-p99", " ms without them"),
    (21, "append-max", " ms at most"),
];
/// Its figures are no line of the table: it is measured by itself.
const SOAK: usize = 7;

/// Number, guarantee, state and proof of each row.
fn rows(page: &str) -> Vec<[&str; 4]> {
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| |"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        cells.try_into().unwrap_or_else(|_| panic!("not four cells: {row}"))
    })
    .collect()
}

#[test]
fn every_guarantee_has_a_state_and_proofs_that_are_there() {
    let page = read("docs/reliability.md");
    let rows = rows(&page);
    for (index, [number, guarantee, state, proof]) in rows.iter().enumerate() {
        assert_eq!(*number, (index + 1).to_string());
        assert!(STATES.contains(state), "state {state:?}: {guarantee}");
        let mut sources = Vec::new();
        for name in quoted(proof).filter(|name| name.ends_with(".rs")) {
            let source = fs::read_to_string(root().join(name));
            sources.push(source.unwrap_or_else(|_| panic!("no file {name}: {guarantee}")));
        }
        let mut tests = 0;
        let is_test = |name: &&str| {
            name.contains('_') && !name.contains(['.', '/']) && !name.starts_with("CLAWGATE_")
        };
        for test in quoted(proof).filter(is_test) {
            let begins = format!("fn {test}(");
            let is_there = sources.iter().any(|source| source.contains(&begins));
            assert!(is_there, "no test {test} in the files named: {guarantee}");
            tests += 1;
        }
        assert!(*state != "proven" || tests > 0, "proven by nothing: {guarantee}");
        let is_measured = proof.contains("(benchmarks.md)");
        assert!(*state != "measured" || is_measured, "measured by nothing: {guarantee}");
    }
    assert_eq!(rows.len(), 50, "guarantees");
}

/// As the table of the benchmarks has it.
fn shown(value: f64) -> String {
    match value {
        small if small < 1.0 => format!("{small:.2}"),
        middle if middle < 100.0 => format!("{middle:.1}"),
        large => format!("{large:.0}"),
    }
}

fn is_met(budget: Budget, value: f64, bare: Option<f64>) -> bool {
    match budget {
        Budget::None => true,
        Budget::AtMost(most) => value <= most,
        Budget::AtLeast(least) => value >= least,
        Budget::OfBare(share) => bare.is_some_and(|bare| value >= share * bare),
    }
}

#[test]
fn what_is_measured_is_what_the_benchmarks_have_and_within_its_bounds() {
    let page = read("docs/reliability.md");
    let measured: Value = serde_json::from_str(&read("docs/benchmarks.json")).unwrap();
    let rows = rows(&page);
    for (number, id, behind) in FIGURES {
        let [_, _, state, proof] = rows[number - 1];
        let metric = METRICS.iter().find(|metric| metric.id == id).expect(id);
        let median = |of: &str| measured["rows"][id][of]["median"].as_f64();
        let value = median("gateway").unwrap_or_else(|| panic!("{id} was not measured"));
        let expected = format!("{}{behind}", shown(value));
        let is_said = proof.match_indices(&expected).any(|(at, _)| {
            !proof[..at].ends_with(|before: char| before.is_ascii_digit() || before == '.')
        });
        assert!(is_said, "row {number} has to say {expected:?} of {id}");
        let is_met = is_met(metric.budget, value, median("bare"));
        assert!(is_met || state == "partly", "row {number} is {state}, but {id} is {value}");
    }
    for (index, [_, guarantee, state, _]) in rows.iter().enumerate() {
        let number = index + 1;
        let has_figure = number == SOAK || FIGURES.iter().any(|(of, ..)| *of == number);
        assert!(*state != "measured" || has_figure, "no figure is compared: {guarantee}");
    }
}
