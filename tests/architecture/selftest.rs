//! The rules on made-up sources: each one can fail, and names the place.

use super::rules;
use super::source::Source;

fn edges(path: &str, text: &str) -> Vec<String> {
    rules::edges(&Source::new(path, text))
}

fn uses(path: &str, text: &str) -> Vec<String> {
    let word =
        |line: &String| line.split("must not use `").nth(1)?.split('`').next().map(Into::into);
    edges(path, text).iter().filter_map(word).collect()
}

#[test]
fn an_edge_to_the_right_is_named_with_line_and_groups() {
    let wrong = edges("src/protocol/frame.rs", "\nuse crate::config::Settings;\n");
    assert_eq!(
        wrong,
        [
            "src/protocol/frame.rs:2: `protocol` must not use `config`: `config` is in group 2 (store, \
          telemetry, config), right of group 1 (support, protocol); move what is needed to the left, \
          or hand it in from the right"
        ]
    );
}

#[test]
fn left_and_own_group_are_open() {
    assert!(
        edges("src/config/token.rs", "use crate::store::atomic; use crate::protocol::Scope;")
            .is_empty()
    );
    assert!(edges("src/registry/context.rs", "pub h: crate::handlers::HealthCache").is_empty());
    assert!(edges("src/cli/gateway.rs", "use crate::app; use crate::store::instance;").is_empty());
}

#[test]
fn no_spelling_of_a_path_hides_it() {
    for (path, text) in [
        ("src/bus/hub.rs", "use crate::agent::Runs;"),
        ("src/bus/hub.rs", "fn f() { crate::agent::go() }"),
        ("src/bus/hub.rs", "use crate::{auth::Peer, agent::{Runs, Notices}};"),
        ("src/bus/hub.rs", "use crate::{\n    auth,\n    agent as a,\n};"),
        ("src/bus/hub.rs", "pub(crate) use crate\n    ::agent::Runs;"),
        ("src/bus/hub.rs", "use super::super::agent::Runs;"),
        ("src/bus/mod.rs", "use super::agent::Runs;"),
        ("src/bus.rs", "use super::{auth, agent};"),
        ("src/bus/hub.rs", "mod inner { use super::super::super::agent::Runs; }"),
        ("src/bus/hub.rs", "macro_rules! m { () => { $crate::agent::Runs } }"),
        ("src/bus/hub.rs", "#[cfg(test)] mod tests { use crate::agent::Runs; }"),
        ("src/bus/hub.rs", "const T: &str = r#\"\"#; use crate::agent::Runs;"),
    ] {
        assert_eq!(uses(path, text), ["agent"], "{text}");
    }
}

#[test]
fn what_is_no_edge_is_not_taken_for_one() {
    for text in [
        "// use crate::agent::Runs;",
        "/* a /* nested */ crate::agent */",
        "/// See [`crate::agent`].",
        "const T: &str = \"crate::agent \\\" crate::agent\";",
        "const T: &str = r##\"crate::agent \"# crate::agent\"##;",
        "const C: [char; 2] = ['\"', '\\'']; // crate::agent \"",
        "fn f<'a>(x: &'a str) -> &'a str { x }",
        "pub(crate) fn f() {}",
        "use super::agent::Local;",
        "mod inner { use super::super::agent; }",
    ] {
        assert_eq!(edges("src/bus/hub.rs", text), [""; 0], "{text}");
    }
}

#[test]
fn detours_around_the_module_names_are_refused() {
    for text in
        ["use crate as root;", "use crate::*;", "use crate::{self as root};", "use crate::odd::X;"]
    {
        let wrong = edges("src/bus/hub.rs", text);
        assert_eq!(wrong.len(), 1, "{text}: {wrong:?}");
        assert!(wrong[0].contains("no module of the import rules"), "{wrong:?}");
    }
    let wrong = edges("src/novel/mod.rs", "");
    assert!(wrong[0].contains("module `novel` is in no group"), "{wrong:?}");
}

#[test]
fn fenced_libraries_stay_in_their_modules() {
    let fences = |path, text| rules::fences(&Source::new(path, text));
    assert_eq!(
        fences("src/app.rs", "\nasync fn f() { axum::serve(a, b).await }"),
        ["src/app.rs:2: `app` names `axum`; only gateway, http, dialects may"]
    );
    assert_eq!(fences("src/cli/doctor.rs", "use rusqlite as sql;").len(), 1);
    assert!(fences("src/http/router.rs", "use axum::Router;").is_empty());
    assert!(fences("src/store/sqlite.rs", "use rusqlite::Connection;").is_empty());
    assert_eq!(fences("src/store/database.rs", "task::spawn_blocking(work)").len(), 1);
    assert!(fences("src/bus/hub.rs", "// axum\nconst A: &str = \"axum::serve\";").is_empty());
}

#[test]
fn only_auth_makes_principals() {
    let made = |path| rules::principals(&Source::new(path, "let p = Principal :: new(role);"));
    assert_eq!(made("src/registry/table.rs").len(), 1);
    assert!(made("src/auth/admission.rs").is_empty());
}

#[test]
fn values_are_written_with_our_own_macro() {
    let macros = |text| rules::macros(&Source::new("src/bus/hub.rs", text)).len();
    assert_eq!(macros("use serde_json::{Map, json};\nuse serde_json::json;"), 2);
    assert_eq!(macros("let it = serde_json::json!({});"), 1);
    assert_eq!(macros("use serde_json::{Map, Value};\nuse crate::support::json;"), 0);
    assert_eq!(macros("serde_json::from_str(json)"), 0);
}

#[test]
fn the_main_file_only_hands_over() {
    let main = |text| rules::main_file(&Source::new("src/main.rs", text));
    assert!(main("fn main() { clawgate::cli::main() }").is_empty());
    assert_eq!(main("use clawgate::app;").len(), 1);
}

#[test]
fn a_file_says_what_it_owns() {
    let header = |text| rules::header(&Source::new("src/bus/mod.rs", text));
    assert!(header("//! Events.\n").is_empty());
    assert_eq!(header("mod hub;\n").len(), 1);
    assert!(rules::header(&Source::new("src/a/tests.rs", "use super::*;").all_tests()).is_empty());
}

#[test]
fn long_files_and_functions_are_named_and_tests_do_not_count() {
    let lengths = |text: &str| rules::lengths(&Source::new("src/bus/hub.rs", text));
    let body = |lines| "    work();\n".repeat(lines);
    let long = format!("fn short() {{}}\nfn long(a: [u8; 3]) -> u8 {{\n{}}}\n", body(79));
    assert_eq!(lengths(&long), ["src/bus/hub.rs:2: fn long has 81 lines, 80 are allowed"]);
    assert!(lengths(&format!("fn fits() {{\n{}}}\n", body(78))).is_empty());
    let tests =
        |lines| format!("#[cfg(test)]\nmod tests {{\n    fn t() {{\n{}    }}\n}}\n", body(lines));
    assert!(lengths(&tests(600)).is_empty());
    let code = "const X: u8 = 0;\n".repeat(rules::MAX_FILE);
    assert!(lengths(&format!("{code}{}", tests(9))).is_empty());
    assert!(lengths(&format!("{code}\n{}", tests(9)))[0].contains("451 lines without tests"));
    let after = format!("{}fn long() {{\n{}}}\n", tests(3), body(90));
    assert_eq!(lengths(&after).len(), 1, "code after tests counts");
    assert!(lengths("trait T { fn declared(&self); fn f(x: fn(u8) -> u8); }").is_empty());
}

#[test]
fn a_test_module_in_a_file_of_its_own_is_found() {
    let declared = |path| Source::new(path, "#[cfg(test)]\nmod tests;\nmod real;").test_files();
    assert_eq!(declared("src/a/mod.rs"), ["src/a/tests.rs"]);
    assert_eq!(declared("src/a/b.rs"), ["src/a/b/tests.rs"]);
}

#[test]
fn marks_of_unfinished_work_are_found_in_comments_too() {
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("unimple", "mented!()"),
        concat!("to", "do!()"),
    ];
    for mark in marks {
        let wrong = rules::unfinished("a.md", &format!("fine\n// {mark}: later"));
        assert_eq!(wrong.len(), 1, "{mark}");
        assert!(wrong[0].starts_with("a.md:2: "), "{wrong:?}");
    }
    assert!(rules::unfinished("a.md", "a todo list, mastodons, METODOS").is_empty());
}

#[test]
fn tests_that_give_up_by_themselves_are_found() {
    for text in [
        "fine();\nprintln!(\"NOT RUN: no strace\");",
        "fine();\neprintln!(\"NOT TESTED\")",
        "fine();\neprintln!(\"{why}\");\n        return;",
    ] {
        let wrong = rules::given_up("a.rs", text);
        assert_eq!(wrong.len(), 1, "{text}: {wrong:?}");
        assert!(wrong[0].starts_with("a.rs:2: "), "{wrong:?}");
    }
    assert!(rules::given_up("a.rs", "eprintln!(\"told\");\ngo_on();\nreturn;").is_empty());
}
