//! Secrets are compared in constant time, in one place (GHSA-jmm5-fvh5-gf4p).

use std::fs;
use std::path::{Path, PathBuf};

/// The one place.
const PLACE: &str = "support/secret.rs";

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Whether a line compares what `Secret::expose` gives.
fn compares_a_secret(line: &str) -> bool {
    const EXPOSE: &str = ".expose()";
    let words = ["==", "!=", ".eq(", ".ne(", ".starts_with(", ".contains(", ".cmp("];
    let code = line.split("//").next().unwrap_or_default();
    code.match_indices(EXPOSE).any(|(at, _)| {
        let after = code[at + EXPOSE.len()..].trim_start();
        let is_path = |c: char| c.is_alphanumeric() || "_.&*()".contains(c);
        let before = code[..at].trim_end_matches(is_path).trim_end();
        words.iter().any(|word| after.starts_with(word))
            || before.ends_with("==")
            || before.ends_with("!=")
    })
}

#[test]
fn a_secret_is_compared_by_nothing_but_the_function_for_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 100);
    let mut wrong = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        // Tests may look into secrets of their own.
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        let is_place = path.ends_with(PLACE);
        if path.file_name().is_some_and(|name| name == "tests.rs") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            if compares_a_secret(line) || (!is_place && line.contains("ct_eq(")) {
                wrong.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "use Secret::matches:\n{}", wrong.join("\n"));
}

#[test]
fn a_secret_has_no_other_comparison() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(PLACE);
    let text = fs::read_to_string(place).unwrap();
    let before = text.split("pub struct Secret").next().unwrap();
    let derived = before.rsplit("#[derive(").next().unwrap();
    assert!(!derived.contains("Eq") && !derived.contains("Ord"), "{derived}");
    // What is equal is asked for whole settings, and answered by that very function.
    let equal = text.split("impl PartialEq for Secret").nth(1).unwrap();
    let body: String = equal.split('}').next().unwrap().split_whitespace().collect();
    assert_eq!(body, "{fneq(&self,other:&Self)->bool{self.matches(other.expose())");
}

#[test]
fn comparisons_are_noticed() {
    assert!(compares_a_secret("if given == secret.expose() {"));
    assert!(compares_a_secret("secret.expose().starts_with(given)"));
    assert!(!compares_a_secret("let text = secret.expose();"));
    assert!(!compares_a_secret("Some(token) if mode == Token => say(token.expose())"));
    assert!(!compares_a_secret("send(secret.expose()) // == is not used"));
}
