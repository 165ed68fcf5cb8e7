//! The parts of a patch, found in a text and changed.
//!
//! Promises: lines that stay keep their bytes, also where the patch spells them
//! otherwise; a mark of the byte order stays at the beginning, where nobody sees it.

use super::super::edit::view;
use super::{Chunk, Line};

/// What some editors begin a file with.
const MARK: char = '\u{feff}';

/// A text with the parts of a patch changed; `path` is for the errors.
///
/// # Errors
/// A part that is not in the text, in the words of the original.
pub fn apply(original: &str, chunks: &[Chunk], path: &str) -> Result<String, String> {
    let has_mark = original.starts_with(MARK);
    let original = original.strip_prefix(MARK).unwrap_or(original);
    let lines: Vec<&str> = original.split_inclusive('\n').collect();
    let end = if lines.first().is_some_and(|line| line.ends_with("\r\n")) { "\r\n" } else { "\n" };
    let mut text = String::with_capacity(original.len());
    let mut at = 0;
    for chunk in chunks {
        let from = below(&lines, at, chunk, path)?;
        let (start, kept) = place(&lines, from, chunk, path)?;
        text.extend(lines[at..start].iter().copied());
        at = start;
        for line in kept {
            match line {
                Line::Keep(_) => {
                    text.push_str(lines[at]);
                    at += 1;
                }
                Line::Remove(_) => at += 1,
                Line::Add(line) => {
                    // What was the last line may have had no end.
                    if !text.is_empty() && !text.ends_with('\n') {
                        text.push_str(end);
                    }
                    text.push_str(line);
                    text.push_str(end);
                }
            }
        }
    }
    text.extend(lines[at..].iter().copied());
    if has_mark && !text.starts_with(MARK) {
        text.insert(0, MARK);
    }
    Ok(text)
}

/// The line after the one that a part is said to be below of.
fn below(lines: &[&str], at: usize, chunk: &Chunk, path: &str) -> Result<usize, String> {
    let Some(below) = &chunk.below else { return Ok(at) };
    let found = find(lines, at, &[below.as_str()], false);
    let found = found.ok_or_else(|| format!("Failed to find context '{below}' in {path}"))?;
    Ok(found + 1)
}

/// Where a part begins, and its lines as they are to be taken.
fn place<'a>(
    lines: &[&str],
    from: usize,
    chunk: &'a Chunk,
    path: &str,
) -> Result<(usize, &'a [Line]), String> {
    let old = |lines: &'a [Line]| -> Vec<&'a str> {
        let old = lines.iter().filter_map(|line| match line {
            Line::Keep(text) | Line::Remove(text) => Some(text.as_str()),
            Line::Add(_) => None,
        });
        old.collect()
    };
    let wanted = old(&chunk.lines);
    if wanted.is_empty() {
        // Only new lines: below the line that was named, else at the end.
        let start = if chunk.below.is_some() && !chunk.is_at_end { from } else { lines.len() };
        return Ok((start, &chunk.lines));
    }
    if let Some(start) = find(lines, from, &wanted, chunk.is_at_end) {
        return Ok((start, &chunk.lines));
    }
    // A blank line at the end may stand for the end of the file.
    if let [rest @ .., Line::Keep(last)] = chunk.lines.as_slice()
        && last.is_empty()
        && let wanted = old(rest)
        && !wanted.is_empty()
        && let Some(start) = find(lines, from, &wanted, chunk.is_at_end)
    {
        return Ok((start, rest));
    }
    Err(format!("Failed to find expected lines in {path}:\n{}", wanted.join("\n")))
}

/// The first place of some lines from `from` on; with `at_end` the one that only blank lines
/// follow, as the same lines further up are not meant. By their bytes first, then with ever
/// more ways to write the same taken for alike.
fn find(lines: &[&str], from: usize, wanted: &[&str], at_end: bool) -> Option<usize> {
    let last = lines.len().checked_sub(wanted.len())?;
    let ways: [fn(&str) -> String; 4] = [
        |line| without_end(line).to_owned(),
        |line| line.trim_end().to_owned(),
        |line| line.trim().to_owned(),
        |line| line.trim().chars().map(view::plain).collect(),
    ];
    ways.iter().find_map(|way| {
        let way = |line: &str| way(line.trim_start_matches(MARK));
        let wanted: Vec<String> = wanted.iter().map(|line| way(line)).collect();
        let here = |start: usize| {
            let there = lines.get(start..start + wanted.len()).unwrap_or_default();
            there.len() == wanted.len()
                && there.iter().zip(&wanted).all(|(line, wanted)| way(line) == *wanted)
        };
        let mut places = (from..=last).filter(|start| here(*start));
        if at_end {
            places.rfind(|start| is_blank(lines.get(start + wanted.len()..)))
        } else {
            places.next()
        }
    })
}

fn is_blank(lines: Option<&[&str]>) -> bool {
    lines.unwrap_or_default().iter().all(|line| line.trim().is_empty())
}

fn without_end(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use similar::{ChangeTag, TextDiff};

    fn chunk(below: Option<&str>, lines: &str) -> Chunk {
        let line = |line: &str| match line.split_at(1) {
            ("-", text) => Line::Remove(text.into()),
            ("+", text) => Line::Add(text.into()),
            (_, text) => Line::Keep(text.into()),
        };
        Chunk {
            below: below.map(str::to_owned),
            lines: lines.split('\n').map(line).collect(),
            is_at_end: false,
        }
    }

    fn one(original: &str, below: Option<&str>, lines: &str) -> Result<String, String> {
        apply(original, &[chunk(below, lines)], "f")
    }

    #[test]
    fn parts_are_changed_where_they_are() {
        assert_eq!(one("a\nb\nc\n", None, " a\n-b\n+x\n c").unwrap(), "a\nx\nc\n");
        assert_eq!(one("x\na\ny\nx\na\n", Some("y"), " x\n-a\n+b").unwrap(), "x\na\ny\nx\nb\n");
        assert_eq!(one("a\nb\n", Some("a"), "+x").unwrap(), "a\nx\nb\n");
        assert_eq!(one("a\nb", None, "+x").unwrap(), "a\nb\nx\n");
        assert_eq!(one("", None, "+x").unwrap(), "x\n");
    }

    #[test]
    fn lines_that_stay_keep_their_bytes() {
        let original = "\u{201c}a\u{201d}  \r\n  b\r\nc";
        let changed = one(original, None, " \"a\"\n-b\n+x\n c ").unwrap();
        assert_eq!(changed, "\u{201c}a\u{201d}  \r\nx\r\nc");
    }

    #[test]
    fn a_mark_of_the_byte_order_is_in_nobodys_way_and_stays() {
        for patch in ["-a\n+x\n b", "-\u{feff}a\n+\u{feff}x\n b"] {
            assert_eq!(one("\u{feff}a\nb\n", None, patch).unwrap(), "\u{feff}x\nb\n");
        }
        assert_eq!(one("\u{feff}", None, "+x").unwrap(), "\u{feff}x\n");
        assert_eq!(one("\u{feff}a\n", Some("a"), "+x").unwrap(), "\u{feff}a\nx\n");
    }

    #[test]
    fn the_end_of_the_file_can_be_meant() {
        let at_end = Chunk { is_at_end: true, ..chunk(None, "-a\n+b") };
        assert_eq!(apply("a\nx\na\n", &[at_end], "f").unwrap(), "a\nx\nb\n");
        assert_eq!(one("a\n", None, "-a\n+b\n ").unwrap(), "b\n");
    }

    #[test]
    fn what_ends_with_the_file_is_not_changed_further_up() {
        let changed = |original: &str| {
            let at_end = Chunk { is_at_end: true, ..chunk(None, "-a\n+b") };
            apply(original, &[at_end], "f")
        };
        // Written otherwise at the end, and by the same bytes above.
        assert_eq!(changed("a\nx\na  \n").unwrap(), "a\nx\nb\n");
        assert_eq!(changed("a\nx\na\n\n \n").unwrap(), "a\nx\nb\n\n \n");
        let error = changed("a\nx\n").unwrap_err();
        assert_eq!(error, "Failed to find expected lines in f:\na");
    }

    #[test]
    fn what_is_not_there_is_told() {
        let error = one("a\n", None, " a\n-b").unwrap_err();
        assert_eq!(error, "Failed to find expected lines in f:\na\nb");
        let error = one("a\n", Some("z"), "+b").unwrap_err();
        assert_eq!(error, "Failed to find context 'z' in f");
        // Parts go from the top to the bottom.
        let parts = [chunk(None, "-b\n+x"), chunk(None, "-a\n+y")];
        assert!(apply("a\nb\n", &parts, "f").is_err());
    }

    /// The patch from one text to another, with all of its lines.
    fn patch_between(old: &str, new: &str) -> Vec<Chunk> {
        let diff = TextDiff::from_lines(old, new);
        let line = |change: similar::Change<&str>| {
            let text = change.value().trim_end_matches('\n').to_owned();
            match change.tag() {
                ChangeTag::Equal => Line::Keep(text),
                ChangeTag::Delete => Line::Remove(text),
                ChangeTag::Insert => Line::Add(text),
            }
        };
        let groups = diff.grouped_ops(3);
        let lines = groups.iter().map(|group| {
            group.iter().flat_map(|op| diff.iter_changes(op)).map(line).collect::<Vec<_>>()
        });
        lines.map(|lines| Chunk { lines, ..Chunk::default() }).collect()
    }

    proptest! {
        #[test]
        fn the_patch_between_two_texts_makes_one_of_the_other(
            old in proptest::collection::vec("[a-z]{12}", 0..40),
            new in proptest::collection::vec("[a-z]{12}", 0..40),
            cut in 0usize..40,
        ) {
            // Some lines are the same on both sides; all of them are different.
            let text = |lines: &[String]| lines.iter().flat_map(|line| [line, "\n"]).collect::<String>();
            let mut mixed = old.clone();
            let cut = cut.min(mixed.len());
            mixed.splice(cut..cut, new);
            for (from, to) in [(&old, &mixed), (&mixed, &old)] {
                let (from, to) = (text(from), text(to));
                prop_assert_eq!(apply(&from, &patch_between(&from, &to), "f").unwrap(), to);
            }
        }

        #[test]
        fn no_patch_makes_it_fall_over(
            original in "[ab\r\n ]{0,30}",
            lines in "([ +-][ab]?\n){0,5}[ +-]",
            below in proptest::option::of("[ab]{0,2}"),
        ) {
            let _ = one(&original, below.as_deref(), &lines);
        }
    }
}
