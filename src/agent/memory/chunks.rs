//! A Markdown file in pieces that can be shown as they are.

use super::words;
use crate::store::MemoryChunk;

/// Most characters of a chunk: as long as the original's snippets.
const CHUNK_MAX: usize = 700;
/// A chunk of at least so many characters ends where a new section begins.
const SECTION_MIN: usize = 200;

/// The chunks of a text. A chunk is found by the headings above it, too.
pub fn split(text: &str) -> Vec<MemoryChunk> {
    let mut splitter = Splitter::default();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, line) in text.lines().enumerate() {
        splitter.line(index as u64 + 1, line);
    }
    splitter.end();
    splitter.chunks
}

#[derive(Default)]
struct Splitter {
    chunks: Vec<MemoryChunk>,
    /// The headings above, by level.
    headings: Vec<(usize, String)>,
    /// Those above the chunk that is being made.
    above: String,
    text: String,
    characters: usize,
    first: u64,
    last: u64,
}

impl Splitter {
    fn line(&mut self, number: u64, line: &str) {
        let level = line.chars().take_while(|letter| *letter == '#').count();
        let is_heading = (1..=6).contains(&level) && line.chars().nth(level) == Some(' ');
        let length = line.chars().count();
        let is_full = self.characters + length > CHUNK_MAX;
        if is_full || (is_heading && self.characters >= SECTION_MIN) {
            self.end();
        }
        if self.text.is_empty() {
            if line.trim().is_empty() {
                return;
            }
            self.first = number;
            self.above = self.headings.iter().flat_map(|(_, text)| [text, " "]).collect();
        }
        if is_heading {
            self.headings.retain(|(above, _)| *above < level);
            self.headings.push((level, line.trim_matches(['#', ' ']).to_owned()));
        }
        self.last = number;
        // One long line becomes several chunks of the same line.
        let letters: Vec<char> = line.chars().collect();
        let mut parts = letters.chunks(CHUNK_MAX).peekable();
        while let Some(part) = parts.next() {
            self.text.extend(part);
            self.characters += part.len();
            if parts.peek().is_some() {
                self.end();
                (self.first, self.last) = (number, number);
            }
        }
        self.text.push('\n');
        self.characters += 1;
    }

    fn end(&mut self) {
        let text = std::mem::take(&mut self.text);
        self.characters = 0;
        if text.trim().is_empty() {
            return;
        }
        let blank = text.trim_end().lines().count() as u64;
        let last = self.last.min(self.first + blank.saturating_sub(1));
        self.chunks.push(MemoryChunk {
            first_line: self.first,
            last_line: last,
            words: words::indexed(&format!("{}{text}", self.above)),
            text: text.trim_end().to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(text: &str) -> Vec<(u64, u64)> {
        split(text).iter().map(|chunk| (chunk.first_line, chunk.last_line)).collect()
    }

    #[test]
    fn a_chunk_says_exactly_which_lines_it_is() {
        let text = format!("# A\n\n{}\n\n## B\nshort\n\n\n{}\n", "x".repeat(300), "y".repeat(690));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(ranges(&text), [(1, 3), (5, 6), (9, 9)]);
        for chunk in split(&text) {
            let skipped = usize::try_from(chunk.first_line - 1).unwrap();
            let last = usize::try_from(chunk.last_line).unwrap();
            assert_eq!(chunk.text, lines[skipped..last].join("\n"));
        }
    }

    #[test]
    fn a_chunk_is_found_by_the_headings_above_it() {
        let text = format!("# Pets\n## Dogs\n{}\nRex is old\n", "x".repeat(690));
        let chunks = split(&text);
        assert!(chunks.last().unwrap().words.starts_with("Pets Dogs "), "{chunks:?}");
        assert_eq!(chunks.last().unwrap().text, "Rex is old");
    }

    #[test]
    fn a_long_line_is_several_chunks() {
        let chunks = split(&format!("{}\nend", "é".repeat(1500)));
        let lengths: Vec<_> = chunks.iter().map(|chunk| chunk.text.chars().count()).collect();
        assert_eq!(lengths, [700, 700, 104]);
        assert_eq!(chunks[1].first_line, 1);
        // What is left of it is part of what a chunk may have.
        let chunks = split(&format!("{}\n{}", "x".repeat(1300), "y".repeat(690)));
        let lengths: Vec<_> = chunks.iter().map(|chunk| chunk.text.len()).collect();
        assert_eq!(lengths, [700, 600, 690]);
        assert!(split("\n \n").is_empty());
    }
}
