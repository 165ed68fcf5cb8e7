//! Files that an answer, or what a command printed, names for its reader: lines
//! that begin with `MEDIA:`, as in the original.
//!
//! Must not: open them. Whoever sends them says what may be sent.

use serde_json::Value;

use crate::protocol::message::{ContentBlock, text_of};
use crate::sessions::visible::{Visible, named};

/// Most files that one run names; more are not for a reader.
const FILES_MAX: usize = 10;
/// What begins such a line.
const MARK: &str = "MEDIA:";
/// The tools whose text may name files: what a program prints. What was found on
/// the web, in a file or by a server of tools names none.
const TOOLS: [&str; 2] = ["exec", "process"];
/// The tool whose pictures are for people: what a camera or a screen shows.
const PICTURES: &str = "nodes";

/// Adds a file, unless it is there or there are too many.
pub fn add(files: &mut Vec<String>, named: impl IntoIterator<Item = String>) {
    for file in named {
        if files.len() < FILES_MAX && !files.contains(&file) {
            files.push(file);
        }
    }
}

/// The files that all of an answer names, which ended by itself or was cut.
pub fn of_answer(text: &str, is_whole: bool) -> Vec<String> {
    let mut visible = Visible::new();
    visible.push(text);
    visible.finish(is_whole);
    visible.take_files()
}

/// The files that the result of a tool names: in its text, or as
/// `media.mediaUrls` of its details where the gateway kept pictures.
pub fn of_result(tool: &str, content: &[ContentBlock], details: Option<&Value>) -> Vec<String> {
    if tool == PICTURES {
        let urls = details.and_then(|details| details["media"]["mediaUrls"].as_array());
        return urls.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    }
    if !TOOLS.contains(&tool) {
        return Vec::new();
    }
    let text = text_of(content);
    text.lines().filter_map(|line| named(line.trim().strip_prefix(MARK)?)).collect()
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    #[test]
    fn a_line_names_a_file_and_words_do_not() {
        let text = "Look:\nMEDIA:./a.png and more\nMEDIA: \"my cat.png\"\n```\nMEDIA:code.png\n```\n\
                    no MEDIA:b.png here\nMEDIA:\nMEDIA:https://x.test/c.png";
        assert_eq!(of_answer(text, true), ["./a.png", "my cat.png", "https://x.test/c.png"]);
    }

    #[test]
    fn what_a_program_prints_names_files_and_what_the_web_says_does_not() {
        let content = [ContentBlock::text("done\n  MEDIA:out/plot.png\nMEDIA:`b c.png`")];
        let media = json!({"media": {"mediaUrls": ["/kept.png", "/too.png"]}});
        assert_eq!(of_result("nodes", &content, Some(&media)), ["/kept.png", "/too.png"]);
        assert_eq!(of_result("exec", &content, None), ["out/plot.png", "b c.png"]);
        assert_eq!(of_result("web_fetch", &content, Some(&media)), Vec::<String>::new());
        assert_eq!(of_result("mcp__x__y", &content, Some(&media)), Vec::<String>::new());
    }

    #[test]
    fn a_run_names_each_file_once_and_not_too_many() {
        let mut files = Vec::new();
        add(&mut files, ["a".to_owned(), "a".to_owned()]);
        add(&mut files, (0..20).map(|it| it.to_string()));
        assert_eq!((files.len(), files[1].as_str()), (FILES_MAX, "0"));
    }
}
