//! From text to changes.

use super::{Chunk, FileChange, Line};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File: ";
const DELETE: &str = "*** Delete File: ";
const UPDATE: &str = "*** Update File: ";
const MOVE: &str = "*** Move to: ";
const END_OF_FILE: &str = "*** End of File";
/// Most files of a patch; a model that changes more does it in steps.
const FILES_MAX: usize = 200;

/// Reads a patch.
///
/// # Errors
/// The line that is wrong, and what may be there.
pub fn parse(input: &str) -> Result<Vec<FileChange>, String> {
    let lines = inner(input)?;
    let mut reader = Reader { lines, at: 0 };
    let mut changes = Vec::new();
    while let Some(line) = reader.peek() {
        if line.trim().is_empty() {
            reader.at += 1;
            continue;
        }
        changes.push(reader.change()?);
        if changes.len() > FILES_MAX {
            return Err(format!("Invalid patch: it changes more than {FILES_MAX} files"));
        }
    }
    if changes.is_empty() { Err("No files were modified.".into()) } else { Ok(changes) }
}

/// The lines between the marks; models put them into a shell document at times.
fn inner(input: &str) -> Result<Vec<&str>, String> {
    let lines: Vec<&str> = input.trim().lines().collect();
    let lines = match lines.as_slice() {
        [first, inner @ .., last] if first.starts_with("<<") && last.trim() == "EOF" => inner,
        all => all,
    };
    match lines {
        [first, ..] if first.trim() != BEGIN => {
            Err(format!("The first line of the patch must be '{BEGIN}'"))
        }
        [_, inner @ .., last] if last.trim() == END => Ok(inner.to_vec()),
        _ => Err(format!("The last line of the patch must be '{END}'")),
    }
}

struct Reader<'a> {
    lines: Vec<&'a str>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn wrong(&self, why: &str) -> String {
        // The mark at the top is line 1.
        format!("Invalid patch hunk at line {}: {why}", self.at + 2)
    }

    fn change(&mut self) -> Result<FileChange, String> {
        let head = self.peek().unwrap_or_default().trim();
        if let Some(path) = head.strip_prefix(ADD) {
            let path = self.path(path)?;
            let mut contents = String::new();
            while let Some(line) = self.peek().and_then(|line| line.strip_prefix('+')) {
                contents.push_str(line);
                contents.push('\n');
                self.at += 1;
            }
            return Ok(FileChange::Add { path, contents });
        }
        if let Some(path) = head.strip_prefix(DELETE) {
            return Ok(FileChange::Delete { path: self.path(path)? });
        }
        if let Some(path) = head.strip_prefix(UPDATE) {
            return self.update(path);
        }
        Err(self.wrong(&format!(
            "'{head}' is not a valid hunk header. Valid hunk headers: '{ADD}{{path}}', \
             '{DELETE}{{path}}', '{UPDATE}{{path}}'"
        )))
    }

    fn path(&mut self, path: &str) -> Result<String, String> {
        let path = path.trim();
        if path.is_empty() {
            return Err(self.wrong("the path is missing"));
        }
        self.at += 1;
        Ok(path.to_owned())
    }

    fn update(&mut self, path: &str) -> Result<FileChange, String> {
        let head = self.at;
        let path = self.path(path)?;
        let move_to = match self.peek().and_then(|line| line.trim().strip_prefix(MOVE)) {
            Some(to) => Some(self.path(to)?),
            None => None,
        };
        let mut chunks = Vec::new();
        while let Some(line) = self.peek() {
            if line.starts_with("***") {
                break;
            }
            if line.trim().is_empty() && self.rest_is_blank() {
                self.at += 1;
                continue;
            }
            chunks.push(self.chunk()?);
        }
        if chunks.is_empty() && move_to.is_none() {
            self.at = head;
            return Err(self.wrong(&format!("Update file hunk for path '{path}' is empty")));
        }
        Ok(FileChange::Update { path, move_to, chunks })
    }

    /// Whether only blank lines follow before the next mark.
    fn rest_is_blank(&self) -> bool {
        let rest = self.lines.get(self.at..).unwrap_or_default();
        let next = rest.iter().find(|line| !line.trim().is_empty());
        next.is_none_or(|line| line.starts_with("***") || line.starts_with("@@"))
    }

    fn chunk(&mut self) -> Result<Chunk, String> {
        let mut chunk = Chunk::default();
        if let Some(rest) = self.peek().and_then(|line| line.strip_prefix("@@")) {
            let below = rest.strip_prefix(' ').unwrap_or(rest);
            chunk.below = Some(below.to_owned()).filter(|below| !below.trim().is_empty());
            self.at += 1;
        }
        while let Some(line) = self.peek() {
            if line.trim_end() == END_OF_FILE {
                chunk.is_at_end = true;
                self.at += 1;
                break;
            }
            if line.starts_with("***") || line.starts_with("@@") {
                break;
            }
            let kept = match line.chars().next() {
                None => Line::Keep(String::new()),
                Some(' ') => Line::Keep(line[1..].to_owned()),
                Some('-') => Line::Remove(line[1..].to_owned()),
                Some('+') => Line::Add(line[1..].to_owned()),
                Some(_) => {
                    return Err(self.wrong(&format!(
                        "Unexpected line found in update hunk: '{line}'. Every line should start \
                         with ' ' (context line), '+' (added line), or '-' (removed line)"
                    )));
                }
            };
            chunk.lines.push(kept);
            self.at += 1;
        }
        if chunk.lines.is_empty() {
            return Err(self.wrong("Update hunk does not contain any lines"));
        }
        Ok(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(body: &str) -> Result<Vec<FileChange>, String> {
        parse(&format!("{BEGIN}\n{body}\n{END}"))
    }

    #[test]
    fn every_kind_of_change_is_read() {
        let changes = patch(
            "*** Add File: a.txt\n+one\n+\n*** Delete File: b.txt\n*** Update File: c.txt\n\
             *** Move to: d.txt\n@@ fn main() {\n keep\n-old\n+new\n\n@@\n+last\n*** End of File",
        )
        .unwrap();
        let keep = |text: &str| Line::Keep(text.into());
        let chunks = vec![
            Chunk {
                below: Some("fn main() {".into()),
                lines: vec![
                    keep("keep"),
                    Line::Remove("old".into()),
                    Line::Add("new".into()),
                    keep(""),
                ],
                is_at_end: false,
            },
            Chunk { below: None, lines: vec![Line::Add("last".into())], is_at_end: true },
        ];
        let expected = vec![
            FileChange::Add { path: "a.txt".into(), contents: "one\n\n".into() },
            FileChange::Delete { path: "b.txt".into() },
            FileChange::Update { path: "c.txt".into(), move_to: Some("d.txt".into()), chunks },
        ];
        assert_eq!(changes, expected);
    }

    #[test]
    fn a_shell_document_and_other_line_ends_are_understood() {
        let text = "<<'EOF'\r\n*** Begin Patch\r\n*** Delete File: x\r\n*** End Patch\r\nEOF\r\n";
        assert_eq!(parse(text).unwrap(), [FileChange::Delete { path: "x".into() }]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        assert!(parse("x").unwrap_err().starts_with("The first line of the patch must be"));
        assert!(parse(BEGIN).unwrap_err().starts_with("The last line of the patch must be"));
        for (body, error) in [
            ("", "No files were modified."),
            ("--- a\n+++ b", "Invalid patch hunk at line 2: '--- a' is not a valid hunk header."),
            ("*** Add File: ", "Invalid patch hunk at line 2: '*** Add File:' is not"),
            ("*** Update File: a", "Invalid patch hunk at line 2: Update file hunk for path 'a'"),
            ("*** Update File: a\n@@\n*** Delete File: b", "Invalid patch hunk at line 4: Update"),
            ("*** Update File: a\n@@\nx", "Invalid patch hunk at line 4: Unexpected line found"),
        ] {
            let found = patch(body).unwrap_err();
            assert!(found.starts_with(error), "{found}");
        }
    }
}
