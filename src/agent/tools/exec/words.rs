//! A command in a few words, for cards.
//!
//! Owns: how commands are described. Promises: the words of the original for
//! what was recorded of it; a command that nobody knows is shown as it was
//! written, shortened. Must not: be taken for what the command does.

use super::programs::{Summary, summarize};
use super::shell::{name_of, pipeline, positional, strip_preparation, unwrap_shell, words};

/// Characters of a command that is shown as it was written.
const MAX_SHOWN: usize = 120;
/// Characters of a name on a list.
const MAX_NAME: usize = 48;

/// The words that follow the tool's name.
pub fn describe(command: &str, workdir: Option<&str>) -> Option<String> {
    let command = command.trim();
    if command.is_empty() {
        return None;
    }
    let inner = unwrap_shell(command);
    let (stages, directory) = strip_preparation(&inner);
    let summaries: Vec<_> = stages.into_iter().map(summarize_stage).collect();
    let text = if summaries.iter().any(|summary| summary.is_known) {
        let texts: Vec<_> = summaries.into_iter().map(|summary| summary.text).collect();
        texts.join(" → ")
    } else {
        let line: Vec<_> = inner.split_whitespace().collect();
        cut_middle(&line.join(" "), MAX_SHOWN)
    };
    Some(match workdir.map(str::to_owned).or(directory) {
        Some(place) => format!("{text} (in {place})"),
        None => text,
    })
}

/// One stage: a program, or several that pass data on.
fn summarize_stage(stage: &str) -> Summary {
    let parts: Vec<_> = pipeline(stage).into_iter().map(|part| summarize(&words(part))).collect();
    match parts.as_slice() {
        [first, .., last] => {
            let more = match parts.len() - 2 {
                0 => String::new(),
                count => format!(" (+{count} steps)"),
            };
            let text = format!("{} -> {}{more}", first.text, last.text);
            Summary { text, is_known: first.is_known || last.is_known }
        }
        _ => parts.into_iter().next().unwrap_or_else(|| summarize(&[])),
    }
}

/// A name for a command on a list: its program and what that works on.
pub fn name(command: &str) -> String {
    let words = words(command);
    let program = words.first().map(|word| name_of(word)).unwrap_or_default();
    let target = positional(&words, &[]).into_iter().next();
    let name = target.map_or_else(|| program.clone(), |target| format!("{program} {target}"));
    cut_middle(&name, MAX_NAME)
}

/// A text of at most `max` characters: its beginning and its end.
pub fn cut_middle(text: &str, max: usize) -> String {
    let count = text.chars().count();
    if count <= max {
        return text.to_owned();
    }
    let half = (max - 1) / 2;
    let begin: String = text.chars().take(half).collect();
    let end: String = text.chars().skip(count - (max - 1 - half)).collect();
    format!("{begin}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_as_the_original_tells_them() {
        for (command, expected) in [
            ("echo out; echo err 1>&2; exit 3", "print text → print text → run exit 3"),
            ("uname -s && echo allow-once", "run uname → print text"),
            ("echo hi", "print text"),
            (
                "for i in 1 2 3; do echo line $i; sleep 0.4; done",
                "for i in 1 2 3; do echo line $i; sleep 0.4; done",
            ),
            ("sleep 5", "sleep 5"),
            ("git -C /x status", "check git status"),
            ("cat a.txt | grep -n foo | wc -l", "show a.txt -> run wc (+1 steps)"),
            ("grep -e 'a b' src", "search \"a b\""),
            ("grep foo src", "search \"foo\" in src"),
            ("FOO=1 env BAR=2 ls -la /tmp", "list files in /tmp"),
            ("bash -lc 'npm run build'", "run build"),
            ("cd app && npm install", "install dependencies (in app)"),
            ("sed -n '1,20p' notes.md", "print lines 1-20 from notes.md"),
            ("python3 - <<'EOF'\nprint(1)\nEOF", "run python3 inline script (heredoc)"),
            ("tail -n 5 log", "show last 5 lines of log"),
            ("cp a b", "copy a to b"),
        ] {
            assert_eq!(describe(command, None).as_deref(), Some(expected), "{command}");
        }
        assert_eq!(describe("ls", Some("/w")).as_deref(), Some("list files (in /w)"));
        assert_eq!(describe("  ", None), None);
    }

    #[test]
    fn a_long_command_keeps_its_ends() {
        let shown = describe(&format!("frobnicate {} end", "ü".repeat(300)), None).unwrap();
        assert_eq!(shown.chars().count(), MAX_SHOWN);
        assert!(shown.starts_with("frobnicate ü") && shown.ends_with("ü end"), "{shown}");
    }

    #[test]
    fn a_command_has_a_name_for_lists() {
        assert_eq!(name("/usr/bin/npm run --silent dev"), "npm run");
        assert_eq!(name("sleep 100"), "sleep 100");
        assert_eq!(name("make"), "make");
    }
}
