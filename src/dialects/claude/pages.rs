//! Where the pages of a session's history begin.
//!
//! Promises: a page that is sealed stays what it is; a
//! page is read alone, so a transcript may be of any length; of each page only
//! its place is in memory. Must not: know sockets.

use std::io;
use std::sync::Arc;

use uuid::Uuid;

use super::format::{Format, Line, SessionFacts};
use crate::sessions::{EntryPlace, Outline, StoredTranscript};

/// A page with so many messages is full, as in the original.
const PAGE_MESSAGES: usize = 500;
/// A page of so many bytes is full, as in the original.
const PAGE_BYTES: u64 = 500 * 1024;
/// What a frame has around its content: ids, folder, tokens.
const FRAME_BYTES: u64 = 512;
/// Pages that one who connects is given.
const BURST_PAGES: usize = 2;

/// Where the pages of a transcript begin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pages {
    /// Which transcript, and which file it was.
    of: Option<(String, (u64, u64))>,
    /// Where each sealed page begins.
    sealed: Vec<EntryPlace>,
    /// Where the open page begins, and where what is known ends.
    open: EntryPlace,
    end: EntryPlace,
    /// What is in the open page.
    messages: usize,
    bytes: u64,
}

impl Pages {
    /// How many there are; the open one counts, unless it is empty and not the
    /// only one.
    pub fn total(&self) -> usize {
        let has_open = self.messages > 0 || self.sealed.is_empty();
        self.sealed.len().saturating_add(usize::from(has_open))
    }

    /// The first page that one who connects is given; the last one is the newest.
    pub fn lowest_burst_page(&self) -> usize {
        self.total().saturating_sub(BURST_PAGES)
    }

    /// Whether nothing is added to a page any more.
    pub fn is_sealed(&self, page: usize) -> bool {
        page < self.sealed.len()
    }

    /// Where what is known ends.
    pub(super) const fn end(&self) -> EntryPlace {
        self.end
    }

    /// Where a page begins and where it ends; `None` when there is no such page.
    pub(super) fn range(&self, page: usize) -> Option<(EntryPlace, EntryPlace)> {
        if page >= self.total() {
            return None;
        }
        let start = |page: usize| self.sealed.get(page).copied();
        let from = start(page).unwrap_or(self.open);
        let after = if self.is_sealed(page) { self.open } else { self.end };
        Some((from, start(page.saturating_add(1)).unwrap_or(after)))
    }

    /// What follows is of this session in this file, which is so long. Another
    /// one, or one that became shorter, has other pages.
    pub(super) fn begin(&mut self, session_id: &str, identity: (u64, u64), length: u64) {
        let of = Some((session_id.to_owned(), identity));
        if self.of != of || self.end.bytes > length {
            *self = Self { of, ..Self::default() };
        }
    }

    /// Takes in a line with so many messages and so many bytes of frames; the
    /// next line begins at `next`.
    pub(super) fn add(&mut self, messages: usize, bytes: u64, next: EntryPlace) {
        self.messages = self.messages.saturating_add(messages);
        self.bytes = self.bytes.saturating_add(bytes);
        self.end = next;
        if self.messages >= PAGE_MESSAGES || self.bytes >= PAGE_BYTES {
            self.sealed.push(self.open);
            (self.open, self.messages, self.bytes) = (self.end, 0, 0);
        }
    }

    /// Looks at what was added to the transcript since.
    pub(super) fn catch_up(
        &mut self,
        session_id: &str,
        transcript: &StoredTranscript<'_>,
    ) -> io::Result<()> {
        self.begin(session_id, transcript.identity()?, transcript.length());
        for outline in transcript.outlines(self.end)? {
            let Outline { parts, bytes, next } = outline?;
            let frames = u64::try_from(parts).unwrap_or(u64::MAX);
            let around = frames.saturating_mul(FRAME_BYTES);
            self.add(parts, if parts > 0 { bytes.saturating_add(around) } else { 0 }, next);
        }
        Ok(())
    }

    /// The lines of a page; `None` when there is no such page.
    pub(super) fn read(
        &self,
        page: usize,
        transcript: &StoredTranscript<'_>,
        facts: &Arc<SessionFacts>,
    ) -> io::Result<Option<Vec<Line>>> {
        let Some((from, to)) = self.range(page) else { return Ok(None) };
        // The first line names the one before it, and a result the call before
        // it: the page before knows both, unless nobody says anything there.
        let mut start = page;
        loop {
            start = start.saturating_sub(1);
            let Some((begin, _)) = self.range(start) else { return Ok(None) };
            let (lines, last) = walk(transcript, facts, (begin, from, to))?;
            if start == 0 || last.is_some() {
                return Ok(Some(lines));
            }
        }
    }
}

/// Reads from `begin`; answers the lines between `from` and `to`, and the last
/// one before them.
fn walk(
    transcript: &StoredTranscript<'_>,
    facts: &Arc<SessionFacts>,
    (begin, from, to): (EntryPlace, EntryPlace, EntryPlace),
) -> io::Result<(Vec<Line>, Option<Uuid>)> {
    let mut format = Format::new(Arc::clone(facts), None);
    let mut entries = transcript.entries(begin)?;
    let (mut lines, mut last) = (Vec::new(), None);
    while let Some(entry) = entries.next().transpose()? {
        // Pages begin where lines end, so an entry is in one or the other.
        let end = entries.place().bytes;
        if end > to.bytes {
            break;
        }
        let written = format.push(&entry);
        if end > from.bytes {
            lines.extend(written);
        } else {
            last = format.last();
        }
    }
    Ok((lines, last))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use serde_json::Value;

    use crate::support::json;

    use super::*;

    struct Scene {
        file: File,
        pages: Pages,
        facts: Arc<SessionFacts>,
        entries: usize,
    }

    impl Scene {
        fn new() -> Self {
            let file = tempfile::tempfile().unwrap();
            let facts = Arc::new(SessionFacts::new("s", "/w"));
            let mut scene = Self { file, pages: Pages::default(), facts, entries: 0 };
            scene.write(&json!({"type": "session", "version": 3, "id": "s"}));
            scene
        }

        fn write(&mut self, line: &Value) {
            writeln!(self.file, "{line}").unwrap();
        }

        fn say(&mut self, message: &Value) {
            self.entries += 1;
            let id = format!("{:08x}", self.entries);
            self.write(&json!({"type": "message", "id": id, "message": message}));
        }

        fn transcript(&self) -> StoredTranscript<'_> {
            StoredTranscript::new(&self.file, self.file.metadata().unwrap().len(), None)
        }

        fn catch_up(&mut self) -> &Pages {
            let mut pages = std::mem::take(&mut self.pages);
            pages.catch_up("s", &self.transcript()).unwrap();
            self.pages = pages;
            &self.pages
        }

        fn read(&self, page: usize) -> Option<Vec<Line>> {
            self.pages.read(page, &self.transcript(), &self.facts).unwrap()
        }

        fn all(&self) -> Vec<Line> {
            let mut format = Format::new(Arc::clone(&self.facts), None);
            let entries = self.transcript().entries(EntryPlace::default()).unwrap();
            entries.flat_map(|entry| format.push(&entry.unwrap())).collect()
        }
    }

    fn turn(scene: &mut Scene, number: usize) {
        let id = format!("call{number}");
        scene.say(&json!({"role": "user", "content": "go", "timestamp": 1}));
        scene.say(
            &json!({"role": "assistant", "stopReason": "toolUse", "api": "a", "provider": "p",
            "model": "m", "usage": {}, "timestamp": 2, "content": [{"type": "text", "text": "so"},
            {"type": "toolCall", "id": id, "name": "exec", "arguments": {"command": "ls"}}]}),
        );
        scene.say(&json!({"role": "toolResult", "toolCallId": id, "toolName": "exec",
            "isError": false, "timestamp": 3, "content": [{"type": "text", "text": "x"}]}));
    }

    #[test]
    fn pages_hold_all_lines_once_and_are_what_they_are_when_they_were_sealed() {
        let mut scene = Scene::new();
        assert_eq!((scene.catch_up().total(), scene.pages.lowest_burst_page()), (1, 0));
        assert_eq!(scene.read(0), Some(vec![]));
        let mut sealed: Vec<Vec<Line>> = Vec::new();
        for number in 0..520 {
            turn(&mut scene, number);
            // Caught up with at odd times, also between a call and its result.
            if number % 7 == 0 {
                scene.catch_up();
                if scene.pages.sealed.len() > sealed.len() {
                    sealed.push(scene.read(sealed.len()).unwrap());
                }
            }
        }
        let total = scene.catch_up().total();
        assert_eq!((total, scene.pages.lowest_burst_page()), (5, 3));
        let read: Vec<Vec<Line>> = (0..total).map(|page| scene.read(page).unwrap()).collect();
        assert!(read.iter().take(4).all(|lines| (500..504).contains(&lines.len())));
        assert_eq!(read[..sealed.len()], sealed);
        assert_eq!(read.concat(), scene.all());
        assert_eq!(scene.read(total), None);
        // One who looks for the first time finds the same pages.
        let known = std::mem::take(&mut scene.pages);
        assert_eq!(scene.catch_up(), &known);
    }

    #[test]
    fn a_page_is_full_when_it_is_heavy() {
        let mut scene = Scene::new();
        let long = "x".repeat(200 * 1024);
        for _ in 0..4 {
            scene.say(&json!({"role": "user", "content": long, "timestamp": 1}));
        }
        assert_eq!(scene.catch_up().total(), 2);
        assert_eq!(scene.read(0).map(|lines| lines.len()), Some(3));
        assert!(scene.pages.is_sealed(0) && !scene.pages.is_sealed(1));
    }

    #[test]
    fn what_nobody_says_in_a_page_does_not_break_the_chain() {
        let mut scene = Scene::new();
        scene.say(&json!({"role": "user", "content": "go", "timestamp": 1}));
        for _ in 0..1200 {
            scene.say(&json!({"role": "user", "content": "?", "timestamp": 1,
                "provenance": {"kind": "heartbeat"}}));
        }
        scene.say(&json!({"role": "user", "content": "on", "timestamp": 1}));
        assert_eq!(scene.catch_up().total(), 3);
        assert_eq!(scene.read(1), Some(vec![]));
        assert_eq!(scene.read(2).unwrap(), scene.all()[1..]);
    }

    #[test]
    fn another_transcript_in_the_same_place_is_looked_at_anew() {
        let mut scene = Scene::new();
        for number in 0..200 {
            turn(&mut scene, number);
        }
        assert_eq!(scene.catch_up().total(), 2);
        scene.file = tempfile::tempfile().unwrap();
        for number in 0..200 {
            turn(&mut scene, number);
        }
        scene.catch_up();
        assert_eq!(scene.read(0).unwrap(), scene.all()[..500]);
        scene.file = tempfile::tempfile().unwrap();
        assert_eq!(scene.catch_up().total(), 1);
    }
}
