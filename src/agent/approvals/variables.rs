//! The variables that a call sets for its command.
//!
//! Owns: which of them only change how things look, and how the others are shown.
//! Promises: whoever decides sees the value of each as the command gets it, in one line, but
//! for secrets that the gateway knows. Must not: decide.

use crate::config::is_variable;
use crate::support::is_unseen;
use crate::telemetry::without_secrets;

/// Variables that change how a program looks and nothing else.
const TAME: [&str; 9] = [
    "LANG",
    "LANGUAGE",
    "TZ",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "LINES",
];

/// Whether a variable changes how a program looks and nothing else.
pub(super) fn is_tame(name: &str) -> bool {
    TAME.contains(&name) || name.starts_with("LC_")
}

/// What is said of the variables to whoever decides, one in each line; `None` when all of
/// them are tame.
pub fn variables_warning<'a>(
    variables: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Option<String> {
    let wild = variables.into_iter().filter(|(name, _)| !is_tame(name));
    let lines: Vec<_> = wild.map(|(name, value)| line(name, value)).collect();
    let head = "The call sets variables, which can change what the command does:";
    (!lines.is_empty()).then(|| format!("{head}\n{}", lines.join("\n")))
}

fn line(name: &str, value: &str) -> String {
    let value = quoted(&without_secrets(value));
    // A client may say anything.
    if is_variable(name) { format!("{name}={value}") } else { format!("{}={value}", quoted(name)) }
}

/// As a shell takes it, without anything that is not seen.
fn quoted(text: &str) -> String {
    let is_hidden = |letter: char| letter.is_control() || is_unseen(letter);
    if !text.contains(is_hidden) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let mut quoted = String::from("$'");
    for letter in text.chars() {
        match letter {
            '\'' | '\\' => quoted.extend(['\\', letter]),
            letter if is_hidden(letter) => quoted.extend(letter.escape_default()),
            letter => quoted.push(letter),
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variable_is_a_line_with_nothing_that_is_not_seen() {
        let warning = |value: &str| variables_warning([("LANG", "C"), ("X_1", value)]).unwrap();
        let of = |value: &str| warning(value).lines().skip(1).collect::<Vec<_>>().join("|");
        for (value, shown) in [
            ("--checkpoint=1 é", "X_1='--checkpoint=1 é'"),
            ("", "X_1=''"),
            ("it's \\n", r"X_1='it'\''s \n'"),
            ("a\nLANG='C'", r"X_1=$'a\nLANG=\'C\''"),
            ("\\\u{202e}\u{a0}\t", r"X_1=$'\\\u{202e}\u{a0}\t'"),
        ] {
            assert_eq!(of(value), shown);
        }
        assert_eq!(variables_warning([("LANG", "C"), ("LC_ALL", "C"), ("TZ", "UTC")]), None);
        assert_eq!(variables_warning([]), None);
        let odd = variables_warning([("a\nb", "c")]).unwrap();
        assert!(odd.ends_with("\n$'a\\nb'='c'"), "{odd}");
    }
}
