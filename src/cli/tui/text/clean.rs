//! Which characters of a text may be shown.

use crate::cli::screen::{reorders, spelled_out, unsteered};

/// Columns between two tab stops.
const TAB: &str = "    ";

/// Text of several lines without what steers a terminal or turns around what is read.
/// Tabs are spaces, and every line ends with a newline alone.
pub fn clean(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    // What a progress bar would write over stays apart.
    let text = text.trim_end_matches('\r').replace('\r', "\n").replace('\t', TAB);
    unsteered(&text).chars().filter(|letter| !reorders(*letter)).collect()
}

/// What is typed or pasted, as it is sent: what sets a direction is a part of it.
pub fn typed(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\t', TAB);
    unsteered(&text).into_owned()
}

/// Clean text on one line.
pub fn one_line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What somebody has to judge, as it is: lines stay lines, every other character that is not seen
/// is spelled out.
pub fn spelled(text: &str) -> Vec<String> {
    text.split('\n').map(spelled_out).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_steers_the_terminal() {
        assert_eq!(clean("a\x1b[2J\r\n\tb\u{9b}1m\u{202e}c\x07\r"), "a[2J\n    b1mc");
        assert_eq!(clean("ü 漢 👩‍👩‍👧"), "ü 漢 👩‍👩‍👧");
        assert_eq!(clean("1%\r2%\r100%\r\n"), "1%\n2%\n100%\n");
        assert_eq!(one_line(" a\n\n b\tc "), "a b c");
    }

    #[test]
    fn what_is_to_be_judged_is_spelled_out() {
        assert_eq!(spelled("ls\u{202e} 'é'\n\x1b[2K"), ["ls\\u{202e} 'é'", "\\u{1b}[2K"]);
    }
}
