//! Replacing parts of a text that are named by what they say.
//!
//! Promises: what is not named stays as it is, byte for byte.

use std::ops::Range;

use super::view::View;
use crate::support::sort;

/// A part of a text, and what comes in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// What is there.
    pub old: String,
    /// What is to be there.
    pub new: String,
}

/// A text with its replacements made; `path` is for the errors.
///
/// # Errors
/// A part that is not there, or there more than once; parts that overlap;
/// nothing that changes. In the words of the original.
pub fn replace(original: &str, parts: &[Replacement], path: &str) -> Result<String, String> {
    let is_single = parts.len() == 1;
    let name = |index: usize| if is_single { String::new() } else { format!("edits[{index}]") };
    for (index, part) in parts.iter().enumerate() {
        if part.old.is_empty() {
            let dot = if is_single { "" } else { "." };
            return Err(format!("{}{dot}oldText must not be empty in {path}.", name(index)));
        }
    }
    let bom = if original.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let body = &original[bom..];
    let mut places = Vec::with_capacity(parts.len());
    let mut views = Views { body, exact: View::exact(body), loose: None };
    for (index, part) in parts.iter().enumerate() {
        let found = views.find(&part.old);
        let found = found.map_err(|count| refused(count, is_single.then_some(()), index, path))?;
        places.push((found, index));
    }
    sort::by_key(&mut places, |(range, _)| range.start);
    for pair in places.windows(2) {
        let [(first, one), (second, other)] = pair else { continue };
        if first.end > second.start {
            return Err(format!(
                "edits[{one}] and edits[{other}] overlap in {path}. Merge them into one edit or \
                 target disjoint regions."
            ));
        }
    }
    let has_crlf = body.find('\n').is_some_and(|at| body[..at].ends_with('\r'));
    let mut changed = String::with_capacity(original.len());
    changed.push_str(&original[..bom]);
    let mut at = 0;
    for (range, index) in places {
        changed.push_str(&body[at..range.start]);
        let new = parts[index].new.replace("\r\n", "\n").replace('\r', "\n");
        changed.push_str(&if has_crlf { new.replace('\n', "\r\n") } else { new });
        at = range.end;
    }
    changed.push_str(&body[at..]);
    if changed == original {
        return Err(if is_single {
            format!(
                "No changes made to {path}. The replacement produced identical content. This \
                 might indicate an issue with special characters or the text not existing as \
                 expected."
            )
        } else {
            format!("No changes made to {path}. The replacements produced identical content.")
        });
    }
    Ok(changed)
}

fn refused(count: usize, single: Option<()>, index: usize, path: &str) -> String {
    match (count, single) {
        (0, Some(())) => format!(
            "Could not find the exact text in {path}. The old text must match exactly including \
             all whitespace and newlines."
        ),
        (0, None) => format!(
            "Could not find edits[{index}] in {path}. The oldText must match exactly including \
             all whitespace and newlines."
        ),
        (_, Some(())) => format!(
            "Found {count} occurrences of the text in {path}. The text must be unique. Please \
             provide more context to make it unique."
        ),
        (_, None) => format!(
            "Found {count} occurrences of edits[{index}] in {path}. Each oldText must be unique. \
             Please provide more context to make it unique."
        ),
    }
}

/// The text in the forms that it is searched in.
struct Views<'a> {
    body: &'a str,
    exact: View,
    /// Made when it is needed.
    loose: Option<View>,
}

impl Views<'_> {
    /// Where a text is; else how often it is there.
    fn find(&mut self, old: &str) -> Result<Range<usize>, usize> {
        match only(&self.exact, &View::exact(old).text) {
            Err(0) => {}
            found => return found,
        }
        let body = self.body;
        let loose = self.loose.get_or_insert_with(|| View::loose(body));
        only(loose, &View::loose(old).text)
    }
}

/// Where a text is in a view if it is there once; else how often it is there.
fn only(view: &View, wanted: &str) -> Result<Range<usize>, usize> {
    let first = if wanted.is_empty() { None } else { view.text.find(wanted) };
    let Some(first) = first else { return Err(0) };
    let step = wanted.chars().next().map_or(1, char::len_utf8);
    // One that overlaps the first counts, too: it is as good.
    if view.text[first + step..].contains(wanted) {
        return Err(view.text.matches(wanted).count().max(2));
    }
    view.back(&(first..first + wanted.len())).ok_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(old: &str, new: &str) -> Replacement {
        Replacement { old: old.into(), new: new.into() }
    }

    fn one(original: &str, old: &str, new: &str) -> Result<String, String> {
        replace(original, &[part(old, new)], "f")
    }

    #[test]
    fn the_named_part_changes_and_nothing_else() {
        assert_eq!(one("a\nb\nc\n", "b", "x").unwrap(), "a\nx\nc\n");
        assert_eq!(one("a\r\nb\r\nc\n", "b\nc", "x\ny").unwrap(), "a\r\nx\r\ny\n");
        assert_eq!(one("\u{feff}a", "a", "b").unwrap(), "\u{feff}b");
        let typeset = "\u{201c}a\u{201d}  \n\u{201c}b\u{201d}  \n";
        assert_eq!(one(typeset, "\"b\"", "c").unwrap(), "\u{201c}a\u{201d}  \nc  \n");
    }

    #[test]
    fn several_parts_are_all_looked_for_in_the_original() {
        let parts = [part("b", "a"), part("a", "b")];
        assert_eq!(replace("a b", &parts, "f").unwrap(), "b a");
        let error = replace("abc", &[part("ab", "x"), part("bc", "y")], "f").unwrap_err();
        assert!(error.starts_with("edits[0] and edits[1] overlap in f."), "{error}");
    }

    #[test]
    fn what_is_not_there_once_is_refused_in_the_words_of_the_original() {
        for (original, old, new, error) in [
            ("a", "b", "c", "Could not find the exact text in f."),
            ("a a", "a", "c", "Found 2 occurrences of the text in f."),
            ("aaa", "aa", "c", "Found 2 occurrences of the text in f."),
            ("a", "", "c", "oldText must not be empty in f."),
            ("a", "a", "a", "No changes made to f."),
            ("a ", "  ", "c", "Could not find the exact text in f."),
        ] {
            let found = one(original, old, new).unwrap_err();
            assert!(found.starts_with(error), "{found}");
        }
        let two = [part("x", "y"), part("q", "y")];
        let error = replace("x", &two, "f").unwrap_err();
        assert!(error.starts_with("Could not find edits[1] in f."), "{error}");
        let two = [part("x", "y"), part("", "y")];
        assert_eq!(
            replace("x", &two, "f").unwrap_err(),
            "edits[1].oldText must not be empty in f."
        );
    }

    proptest! {
        #[test]
        fn an_edit_that_was_made_can_be_taken_back(
            before in "([a-c \u{201c}\u{e9}]|\r\n|\n){0,20}",
            old in "[d-f\u{201d} ]{1,5}[d-f]",
            new in "[g-i\n]{1,6}",
            after in "([a-c \u{2014}]|\r\n|\n){0,20}",
        ) {
            let original = format!("{before}{old}{after}");
            let changed = one(&original, &old, &new);
            prop_assume!(changed.is_ok());
            let back = one(&changed.unwrap(), &new, &old);
            prop_assume!(back.is_ok());
            prop_assert_eq!(back.unwrap(), original);
        }

        #[test]
        fn nothing_that_is_asked_for_makes_it_fall_over(
            original in "[ab\u{301}\u{fb01}\r\n \u{a0}]{0,30}",
            old in "[abfi\n ]{0,6}",
            new in "\\PC{0,4}",
        ) {
            let _ = one(&original, &old, &new);
        }
    }
}
