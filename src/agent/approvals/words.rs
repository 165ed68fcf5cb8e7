//! A command line as words, where it has no need of a shell.
//!
//! Owns: which texts are a plain list of words. Promises: nothing that a shell
//! would expand, redirect, join or run apart passes as words; what passes is
//! started with these very words and never by a shell, so that nobody reads
//! them in another way. Must not: know programs.

use crate::support::is_unseen;

/// More blanks in one place nobody writes to be read.
const GAP_MAX: usize = 40;

/// The words of a command that a shell would start as it is written; `None`
/// when it would do more than that.
pub fn words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut is_plain = true;
    let mut rest = command.chars();
    while let Some(letter) = rest.next() {
        match letter {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                is_plain &= !words.is_empty();
                word.get_or_insert_default().push_str(&quoted(&mut rest, '\'', |_| true)?);
            }
            '"' => {
                is_plain &= !words.is_empty();
                let literal = |letter| !matches!(letter, '$' | '`' | '\\' | '!');
                word.get_or_insert_default().push_str(&quoted(&mut rest, '"', literal)?);
            }
            '\\' => {
                let next = rest.next().filter(|next| !next.is_control())?;
                is_plain &= !words.is_empty();
                word.get_or_insert_default().push(next);
            }
            '#' if word.is_none() => return None,
            letter if is_special(letter) => return None,
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    let program = words.first()?;
    // A quoted name could hide a builtin or an assignment from the reader.
    let is_name = is_plain && !program.is_empty() && !program.contains('=');
    is_name.then_some(words)
}

/// What a shell does not take as it is.
fn is_special(letter: char) -> bool {
    const SPECIAL: &str = "$`;&|<>(){}[]*?!~\n\r";
    SPECIAL.contains(letter) || letter.is_control() || (letter.is_whitespace() && letter != ' ')
}

/// The text up to the closing mark.
fn quoted(
    rest: &mut std::str::Chars<'_>,
    mark: char,
    is_literal: impl Fn(char) -> bool,
) -> Option<String> {
    let mut text = String::new();
    loop {
        let letter = rest.next()?;
        if letter == mark {
            return Some(text);
        }
        if letter == '\0' || !is_literal(letter) {
            return None;
        }
        text.push(letter);
    }
}

/// The parts that a shell runs one after the other or side by side, and how
/// many commands are inside of them. It only looks at marks outside of quotes:
/// good enough to describe a command to a person, never to allow one.
pub(super) struct Parts<'a> {
    /// Each part, trimmed; at least one.
    pub parts: Vec<&'a str>,
    /// Command substitutions and subshells.
    pub nested: usize,
}

impl<'a> Parts<'a> {
    /// Takes a command apart.
    pub fn of(command: &'a str) -> Self {
        let (mut parts, mut nested) = (Vec::new(), 0);
        let (mut start, mut quote, mut before) = (0, None, ' ');
        for (at, letter) in command.char_indices() {
            match (quote, letter) {
                (Some(mark), letter) if letter == mark && before != '\\' => quote = None,
                (Some('\''), _) => {}
                (_, '(') if matches!(before, '$' | '<' | '>') => nested += 1,
                (None, '`') => {
                    nested += 1;
                    quote = Some('`');
                }
                (None, '\'' | '"') if before != '\\' => quote = Some(letter),
                (None, ';' | '|' | '&' | '\n') if !matches!(before, '>' | '<' | '\\') => {
                    parts.push(command[start..at].trim());
                    start = at + letter.len_utf8();
                }
                _ => {}
            }
            before = letter;
        }
        parts.push(command[start..].trim());
        parts.retain(|part| !part.is_empty());
        if parts.is_empty() {
            parts.push("");
        }
        Self { parts, nested }
    }
}

/// Characters that are not seen, or that turn others around: what is shown with
/// them is not what runs.
pub(super) fn has_hidden(command: &str) -> bool {
    command.chars().any(|letter| {
        let is_layout = matches!(letter, '\n' | '\t');
        (letter.is_control() && !is_layout) || is_unseen(letter)
    })
}

/// Whether there are so many blanks in one place that what follows may be out of sight.
pub(super) fn has_gap(command: &str) -> bool {
    let mut blanks = 0;
    command.trim_end().chars().any(|letter| {
        blanks = if letter.is_whitespace() { blanks + 1 } else { 0 };
        blanks > GAP_MAX
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::{ProptestConfig, prop_assert_eq, proptest};

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1500))]
        #[test]
        fn what_passes_as_words_is_the_same_words_to_a_shell(
            rest in r#"[ab'"\\ $*?~=#!^,;{}\t\]é-]{0,9}|([ab'\\ ="^,-]|"a b"|' \$'){0,8}"#
        ) {
            let command = format!("printf '<%s>' . {rest}");
            if let Some(words) = words(&command) {
                let shell = Command::new("/bin/sh").args(["-c", &command]).output().unwrap();
                let expected = format!("<{}>", words[2..].join("><"));
                prop_assert_eq!(String::from_utf8(shell.stdout).unwrap(), expected, "{}", command);
            }
        }
    }

    fn list(command: &str) -> Option<Vec<String>> {
        words(command)
    }

    #[test]
    fn plain_words_quotes_and_escapes_are_words() {
        let expect = |command: &str, expected: &[&str]| {
            assert_eq!(list(command).unwrap(), expected, "{command}");
        };
        expect("uname -s", &["uname", "-s"]);
        expect("  ls\t -la  ", &["ls", "-la"]);
        expect("grep 'a b|c' file", &["grep", "a b|c", "file"]);
        expect("grep \"it's\" x''y", &["grep", "it's", "xy"]);
        expect("ls my\\ file \\$HOME", &["ls", "my file", "$HOME"]);
        expect("echo ''", &["echo", ""]);
        expect("dd if=a of=b", &["dd", "if=a", "of=b"]);
        expect("git show HEAD^", &["git", "show", "HEAD^"]);
        expect("echo 'a\nb'", &["echo", "a\nb"]);
    }

    #[test]
    fn whatever_a_shell_would_treat_is_not() {
        for command in [
            "",
            "  ",
            "a;b",
            "a&&b",
            "a||b",
            "a|b",
            "a&",
            "a\nb",
            "a\rb",
            "echo $x",
            "echo `x`",
            "echo \"$x\"",
            "echo \"`x`\"",
            "echo \"\\$x\"",
            "a >b",
            "a <b",
            "a 2>&1",
            "(a)",
            "{ a; }",
            "ls *",
            "ls ?",
            "ls [a]",
            "ls {a,b}",
            "ls ~",
            "ls a:~",
            "! a",
            "a # b",
            "#a",
            "X=1 a",
            "X=1",
            "'a' b",
            "\"a\" b",
            "\\a b",
            "a'b'",
            "echo 'open",
            "echo \"open",
            "echo \\",
            "a\0b",
            "a\u{a0}b",
            "a\u{2028}b",
            "a\u{b}b",
            "'' a",
        ] {
            assert_eq!(list(command), None, "{command:?}");
        }
    }

    #[test]
    fn parts_are_counted_for_people() {
        let count = |command: &str| {
            let parts = Parts::of(command);
            (parts.parts.len(), parts.nested)
        };
        assert_eq!(count("echo hi"), (1, 0));
        assert_eq!(count("uname -s && echo x"), (2, 0));
        assert_eq!(count("a | b; c\nd &"), (4, 0));
        assert_eq!(count("echo 'a;b' \"c|d\""), (1, 0));
        assert_eq!(count("echo $(a) \"$(b)\" `c`"), (1, 3));
        assert_eq!(count("a 2>&1"), (1, 0));
        assert_eq!(count(""), (1, 0));
    }

    #[test]
    fn what_hides_is_seen() {
        for command in ["ls \u{202e}x", "ls\u{200b}", "a\u{1b}[2K", "a\rb", "\u{feff}a", "a\u{7f}"]
        {
            assert!(has_hidden(command), "{command:?}");
        }
        // Blanks that are none, and what only chooses how a letter looks.
        for letter in [
            '\u{a0}',
            '\u{1680}',
            '\u{180b}',
            '\u{180d}',
            '\u{2000}',
            '\u{200a}',
            '\u{202f}',
            '\u{205f}',
            '\u{2800}',
            '\u{3000}',
            '\u{3164}',
            '\u{fe00}',
            '\u{fe0f}',
            '\u{e0100}',
            '\u{e01ef}',
        ] {
            assert!(has_hidden(&format!("rm a{letter}b")), "{letter:?}");
        }
        for command in ["ls -la", "echo 'é 漢 😀'", "a\nb\tc"] {
            assert!(!has_hidden(command), "{command:?}");
        }
        let gap = |blank: &str, count: usize| format!("ls{}; id", blank.repeat(count));
        assert!(has_gap(&gap(" ", 41)) && has_gap(&gap("\n", 41)) && has_gap(&gap(" \t", 21)));
        assert!(!has_gap(&gap(" ", 40)) && !has_gap(&format!("ls{}", " ".repeat(99))));
    }
}
