//! Reading a file from its beginning: which format, how many messages.

use std::fs::File;
use std::io;

use super::{Entry, Forward, Header, Line, Parent, TranscriptFormat};

/// Where the end of a transcript is, in every sense.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Position {
    /// Bytes up to the end of the last line that counts.
    pub bytes: u64,
    /// Messages (and compactions) in them: the number of the last one.
    pub messages: u64,
    /// Id of the last tree entry, which the next one hangs on.
    pub leaf: Option<String>,
}

impl Position {
    /// Takes in a line.
    fn pass(&mut self, entry: Entry<'_>) {
        if entry.body.is_counted() {
            self.messages = self.messages.saturating_add(1);
        }
        if entry.id.is_some() {
            self.leaf = entry.id;
        }
    }
}

/// The end of a file of this length, found from what is `known` of it. A line
/// that is torn at the very end is left out, since it may still be growing.
pub(crate) fn position(file: &File, length: u64, known: &Position) -> io::Result<Position> {
    if known.bytes == length {
        return Ok(known.clone());
    }
    // A file that became shorter is not the one that we knew.
    let mut position = if known.bytes < length { known.clone() } else { Position::default() };
    let mut lines = Forward::new(file, position.bytes, length)?;
    while let Some(line) = lines.next()? {
        match Line::parse(line) {
            None if !line.ends_with(b"\n") => break,
            Some(Line::Entry(entry)) => position.pass(entry),
            _ => {}
        }
        position.bytes = lines.ends();
    }
    Ok(position)
}

/// The format of a file, and its header if it has one; `None` when nothing in
/// it can be read (new, or torn in its first line).
pub(crate) fn head(file: &File) -> io::Result<Option<(TranscriptFormat, Option<Header>)>> {
    let mut lines = Forward::new(file, 0, u64::MAX)?;
    while let Some(line) = lines.next()? {
        match Line::parse(line) {
            None => {}
            Some(Line::Header(header)) => {
                return Ok(Some((TranscriptFormat::OpenClaw, Some(header))));
            }
            // Entries of the tree name their parents, bare messages do not.
            Some(Line::Entry(entry)) if entry.parent == Parent::Previous => {
                return Ok(Some((TranscriptFormat::Messages, None)));
            }
            Some(Line::Entry(_)) => return Ok(Some((TranscriptFormat::OpenClaw, None))),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(content: &str) -> (File, u64) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        (file, u64::try_from(content.len()).unwrap())
    }

    const TWO: &str = concat!(
        r#"{"type":"session","version":3,"id":"s"}"#,
        "\n",
        r#"{"type":"message","id":"a","parentId":null,"message":{"role":"user"}}"#,
        "\n",
        r#"{"type":"custom","id":"b","parentId":"a"}"#,
        "\n",
    );

    #[test]
    fn counting_goes_on_where_it_ended() {
        let (whole, length) = file(TWO);
        let found = position(&whole, length, &Position::default()).unwrap();
        assert_eq!(found, Position { bytes: length, messages: 1, leaf: Some("b".into()) });
        let more = format!("{TWO}{{\"type\":\"compaction\",\"id\":\"c\"}}\n{{\"type\":\"mess");
        let (grown, longer) = file(&more);
        let grown = position(&grown, longer, &found).unwrap();
        let bytes = longer - u64::try_from("{\"type\":\"mess".len()).unwrap();
        assert_eq!(grown, Position { bytes, messages: 2, leaf: Some("c".into()) });
    }

    #[test]
    fn a_file_that_became_shorter_is_counted_anew() {
        let (whole, length) = file(TWO);
        let stale = Position { bytes: length + 9, messages: 40, leaf: None };
        assert_eq!(position(&whole, length, &stale).unwrap().messages, 1);
    }

    #[test]
    fn the_format_is_that_of_the_first_readable_line() {
        let format = |text: &str| head(&file(text).0).unwrap().map(|(format, _)| format);
        assert_eq!(format(""), None);
        assert_eq!(format("{\"type\":\"sess"), None);
        assert_eq!(format(TWO), Some(TranscriptFormat::OpenClaw));
        let bare = "garbage\n{\"role\":\"user\",\"content\":\"x\"}\n";
        assert_eq!(format(bare), Some(TranscriptFormat::Messages));
    }
}
