//! What an edit changed, as clients show it: lines with numbers and marks.

use std::fmt::Write as _;
use std::time::Duration;

use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::{ChangeTag, DiffOp, group_diff_ops};
use tokio::time::Instant;

/// Unchanged lines around a change, as in the original.
const CONTEXT: usize = 4;
/// Most bytes; more is of no use to a reader, and events carry it.
const BYTES_MAX: usize = 64 * 1024;
/// A worse diff is better than a late one.
const TIME_MAX: Duration = Duration::from_millis(500);

/// A diff, and the line of the new text that changed first.
#[derive(Debug, PartialEq, Eq)]
pub struct LineDiff {
    /// `+12 text`, `-12 text`, ` 12 text`, and ` ...` for what is left out.
    pub text: String,
    /// From 1.
    pub first_changed: Option<usize>,
}

/// What differs.
pub fn lines(old: &str, new: &str) -> LineDiff {
    let (old, new) = (as_lf(old), as_lf(new));
    let lines = old.split('\n').count().max(new.split('\n').count());
    let width = lines.to_string().len();
    let old: Vec<_> = old.split_inclusive('\n').collect();
    let new: Vec<_> = new.split_inclusive('\n').collect();
    let mut text = String::new();
    let mut first_changed = None;
    let mut shown = 0;
    for group in group_diff_ops(steps(&old, &new), CONTEXT) {
        let from = group.first().map_or(0, |op| op.old_range().start);
        if from > shown {
            skip(&mut text, width);
        }
        shown = group.last().map_or(shown, |op| op.old_range().end);
        for change in group.iter().flat_map(|op| op.iter_changes(&*old, &*new)) {
            let (mark, index) = match change.tag() {
                ChangeTag::Delete => ('-', change.old_index()),
                ChangeTag::Insert => ('+', change.new_index()),
                ChangeTag::Equal => (' ', change.old_index()),
            };
            let number = index.map_or(0, |index| index + 1);
            if change.tag() != ChangeTag::Equal && first_changed.is_none() {
                first_changed = Some(number);
            }
            let line = change.value().trim_end_matches('\n');
            if text.len() + line.len() > BYTES_MAX {
                skip(&mut text, width);
                return finished(text, first_changed);
            }
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{mark}{number:>width$} {line}");
        }
    }
    if shown < old.len() {
        skip(&mut text, width);
    }
    finished(text, first_changed)
}

/// What makes `new` of `old`. Myers alone: `TextDiff` brings code for each of its
/// algorithms, which is half a megabyte.
fn steps(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let mut steps = Compact::new(Replace::new(Capture::new()), old, new);
    let until = Instant::now().into_std() + TIME_MAX;
    let Ok(()) =
        myers::diff_deadline(&mut steps, old, 0..old.len(), new, 0..new.len(), Some(until));
    steps.into_inner().into_inner().into_ops()
}

fn finished(mut text: String, first_changed: Option<usize>) -> LineDiff {
    text.truncate(text.trim_end_matches('\n').len());
    LineDiff { text, first_changed }
}

fn skip(text: &mut String, width: usize) {
    let _ = writeln!(text, " {:width$} ...", "");
}

fn as_lf(text: &str) -> String {
    text.trim_start_matches('\u{feff}').replace("\r\n", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_shown_with_numbers_and_some_lines_around() {
        let old = (1..=20).map(|n| format!("l{n}")).collect::<Vec<_>>().join("\n") + "\n";
        let diff = lines(&old, &old.replace("l10\n", "x\ny\n"));
        let expected = "    ...\n  6 l6\n  7 l7\n  8 l8\n  9 l9\n-10 l10\n+10 x\n+11 y\n \
            11 l11\n 12 l12\n 13 l13\n 14 l14\n    ...";
        assert_eq!((diff.text.as_str(), diff.first_changed), (expected, Some(10)));
        assert_eq!(lines("a", "b").text, "-1 a\n+1 b");
    }

    #[test]
    fn a_long_diff_is_cut() {
        let new = "x".repeat(1000) + "\n";
        let diff = lines("", &new.repeat(100));
        assert!(diff.text.len() < BYTES_MAX + 100 && diff.text.ends_with("..."));
    }
}
