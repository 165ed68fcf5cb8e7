//! What the model reads of small trees.

use super::*;
use serde_json::Value;
use std::io::Write;

/// Writes `id parent text` lines and answers the texts of the context.
fn context(lines: &[&str]) -> Vec<String> {
    let mut file = tempfile::tempfile().unwrap();
    for line in lines {
        writeln!(file, "{line}").unwrap();
    }
    let bytes = file.metadata().unwrap().len();
    let is_counted = |line: &&&str| matches!(Line::parse(line.as_bytes()), Some(Line::Entry(it)) if it.body.is_counted());
    let messages = u64::try_from(lines.iter().filter(is_counted).count()).unwrap();
    let end = Position { bytes, messages, ..Position::default() };
    read(&file, &end).unwrap().iter().map(|entry| entry.message.text()).collect()
}

fn said(id: &str, parent: &str) -> String {
    let parent = if parent.is_empty() { Value::Null } else { parent.into() };
    crate::support::json!({"type": "message", "id": id, "parentId": parent,
        "message": {"role": "user", "content": id}})
    .to_string()
}

fn summed(id: &str, parent: &str, first_kept: &str) -> String {
    crate::support::json!({"type": "compaction", "id": id, "parentId": parent, "summary": "S",
        "firstKeptEntryId": first_kept})
    .to_string()
}

#[test]
fn a_branch_that_was_left_is_not_read() {
    let lines = [said("a", ""), said("b", "a"), said("left", "b"), said("c", "b")];
    assert_eq!(context(&lines.each_ref().map(String::as_str)), ["a", "b", "c"]);
}

#[test]
fn the_latest_summary_stands_for_what_it_sums_up() {
    let lines = [
        said("a", ""),
        summed("s0", "a", "a"),
        said("b", "s0"),
        said("c", "b"),
        summed("s1", "c", "c"),
        said("d", "s1"),
    ];
    let texts = context(&lines.each_ref().map(String::as_str));
    assert_eq!(texts[1..], ["c", "d"]);
    assert!(texts[0].ends_with("<summary>\nS\n</summary>"), "{}", texts[0]);
    let nothing_kept = [said("a", ""), summed("s", "a", "s"), said("b", "s")];
    assert_eq!(context(&nothing_kept.each_ref().map(String::as_str))[1..], ["b"]);
}

#[test]
fn a_summary_of_the_first_version_keeps_from_the_line_that_it_counts_to() {
    let said = |text: &str| {
        let message = crate::support::json!({"role": "user", "content": text});
        crate::support::json!({"type": "message", "message": message}).to_string()
    };
    let kept_from = |number: u64| {
        let summary = crate::support::json!({"type": "compaction", "summary": "S",
            "firstKeptEntryIndex": number})
        .to_string();
        let lines = [
            r#"{"type":"session","id":"s"}"#.to_owned(),
            said("a"),
            said("b"),
            r#"{"type":"thinking_level_change","thinkingLevel":"low"}"#.to_owned(),
            said("c"),
            summary,
            said("d"),
        ];
        context(&lines.each_ref().map(String::as_str)).split_off(1)
    };
    assert_eq!(kept_from(2), ["b", "c", "d"]);
    assert_eq!(kept_from(3), ["c", "d"]);
    assert_eq!(kept_from(9), ["d"], "it is not there");
}

#[test]
fn a_missing_parent_loses_nothing() {
    let lines = [said("a", ""), said("b", "a"), "{\"torn".into(), said("d", "c")];
    assert_eq!(context(&lines.each_ref().map(String::as_str)), ["a", "b", "d"]);
}

#[test]
fn bare_messages_follow_each_other_and_thin_ones_are_filled() {
    let texts = context(&[
        r#"{"role":"user","content":"hi"}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"ho"}],"stopReason":"stop"}"#,
    ]);
    assert_eq!(texts, ["hi", "ho"]);
}

#[test]
fn notes_of_one_turn_are_not_repeated() {
    let note = |kind: &str| {
        format!(r#"{{"type":"custom_message","customType":"{kind}","content":"note"}}"#)
    };
    assert_eq!(context(&[&note(RUNTIME_CONTEXT), &note("mine")]), ["note"]);
}
