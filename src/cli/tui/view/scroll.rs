//! The conversation, or the part of it that is on the screen.
//!
//! Promises: a drawing lays out what it shows and what is next to it, whatever the length of
//! the conversation is; what is being read stays where it is while more is said.

use std::collections::HashMap;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::entry::{Look, lines};
use crate::cli::tui::state::State;
use crate::cli::tui::text::Theme;
use crate::cli::tui::transcript::Entry;

/// Entries that stay laid out; more than a screen has.
const MAX_LAID: usize = 300;

/// Where to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// So many lines further down.
    Lines(isize),
    /// So many pages further down.
    Pages(isize),
    /// At the begin.
    Top,
    /// At what is new.
    Bottom,
}

struct Laid {
    rev: u64,
    look: Look,
    lines: Vec<Line<'static>>,
    used: u64,
}

/// What is looked at.
#[derive(Default)]
pub struct Scroll {
    /// The entry at the top and its first line there; without one, the end is shown.
    anchor: Option<(String, usize)>,
    turns: Vec<Turn>,
    laid: HashMap<String, Laid>,
    frame: u64,
    /// How many entries were laid out, all in all.
    work: usize,
}

/// A line of an entry, both by number.
type Spot = (usize, usize);

impl Scroll {
    /// Looks somewhere else, from the next drawing on.
    pub fn turn(&mut self, turn: Turn) {
        self.turns.push(turn);
    }

    #[cfg(test)]
    pub const fn work(&self) -> usize {
        self.work
    }

    /// Draws; gives whether there is more below.
    pub fn draw(&mut self, state: &State, theme: Theme, area: Rect, buffer: &mut Buffer) -> bool {
        self.frame += 1;
        let entries = state.transcript.entries();
        let look = Look {
            theme,
            columns: usize::from(area.width),
            shows_tools: state.shows_tools,
            shows_thoughts: state.shows_thoughts,
        };
        let height = usize::from(area.height);
        let top = self.top(entries, look, height);
        let is_behind = top.is_some();
        let (mut index, mut line) = top.unwrap_or_else(|| self.end(entries, look, height));
        let mut y = area.y;
        while y < area.bottom() {
            let Some(entry) = entries.get(index) else { break };
            for text in self.lines(entry, look).iter().skip(line) {
                if y >= area.bottom() {
                    break;
                }
                buffer.set_line(area.x, y, text, area.width);
                y += 1;
            }
            index += 1;
            line = 0;
        }
        if self.laid.len() > MAX_LAID {
            let frame = self.frame;
            self.laid.retain(|_, laid| laid.used == frame);
        }
        is_behind
    }

    fn lines(&mut self, entry: &Entry, look: Look) -> &[Line<'static>] {
        let is_there =
            self.laid.get(&entry.id).is_some_and(|laid| laid.rev == entry.rev && laid.look == look);
        if !is_there {
            self.work += 1;
            let laid = Laid { rev: entry.rev, look, lines: lines(entry, look), used: 0 };
            self.laid.insert(entry.id.clone(), laid);
        }
        let frame = self.frame;
        match self.laid.get_mut(&entry.id) {
            Some(laid) => {
                laid.used = frame;
                &laid.lines
            }
            None => &[],
        }
    }

    fn height(&mut self, entries: &[Entry], index: usize, look: Look) -> usize {
        entries.get(index).map_or(0, |entry| self.lines(entry, look).len())
    }

    /// The first line of the last screen.
    fn end(&mut self, entries: &[Entry], look: Look, height: usize) -> Spot {
        let mut room = height;
        for index in (0..entries.len()).rev() {
            let lines = self.height(entries, index, look);
            if lines >= room {
                return (index, lines - room);
            }
            room -= lines;
        }
        (0, 0)
    }

    /// The first line that is shown; none when it is that of the last screen.
    fn top(&mut self, entries: &[Entry], look: Look, height: usize) -> Option<Spot> {
        let mut spot = self.anchor.take().and_then(|(id, line)| {
            let index = entries.iter().position(|entry| entry.id == id)?;
            Some((index, line.min(self.height(entries, index, look).saturating_sub(1))))
        });
        for turn in std::mem::take(&mut self.turns) {
            let page = isize::try_from(height.saturating_sub(1).max(1)).unwrap_or(1);
            spot = match turn {
                Turn::Top => Some((0, 0)),
                Turn::Bottom => None,
                Turn::Lines(by) => self.moved(entries, look, height, spot, by),
                Turn::Pages(by) => self.moved(entries, look, height, spot, by.saturating_mul(page)),
            };
        }
        let (index, line) = spot.filter(|spot| self.has_more(entries, look, height, *spot))?;
        self.anchor = entries.get(index).map(|entry| (entry.id.clone(), line));
        Some((index, line))
    }

    fn moved(
        &mut self,
        entries: &[Entry],
        look: Look,
        height: usize,
        from: Option<Spot>,
        by: isize,
    ) -> Option<Spot> {
        let (mut index, line) = match from {
            Some(spot) => spot,
            None if by > 0 => return None,
            None => self.end(entries, look, height),
        };
        let mut line = isize::try_from(line).unwrap_or(isize::MAX).saturating_add(by);
        while line < 0 && index > 0 {
            index -= 1;
            line += isize::try_from(self.height(entries, index, look)).unwrap_or(0);
        }
        let mut line = usize::try_from(line).unwrap_or(0);
        while index + 1 < entries.len() && line >= self.height(entries, index, look) {
            line -= self.height(entries, index, look);
            index += 1;
        }
        Some((index, line))
    }

    /// Whether there is more than a screen from there on.
    fn has_more(
        &mut self,
        entries: &[Entry],
        look: Look,
        height: usize,
        (index, line): Spot,
    ) -> bool {
        let mut seen = self.height(entries, index, look).saturating_sub(line);
        for index in index + 1..entries.len() {
            if seen > height {
                return true;
            }
            seen += self.height(entries, index, look);
        }
        seen > height
    }
}
