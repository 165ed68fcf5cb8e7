//! What the screen looks like.
//!
//! Owns: the places of header (`header`), conversation (`scroll`, `entry`), status line
//! (`status`), input (`input`) and what covers them (`overlay`). Promises: only what is on the
//! screen is laid out; nothing is drawn outside of it, however small it is. Must not: change
//! the state, or touch the terminal.

mod entry;
mod header;
mod input;
mod overlay;
mod scroll;
mod status;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use super::state::State;
use super::text::Theme;

pub use scroll::Turn;

/// Most rows of the input; a third of the screen if that is less.
const MAX_INPUT: u16 = 8;

/// How the conversation is looked at.
pub struct View {
    theme: Theme,
    scroll: scroll::Scroll,
}

impl View {
    /// From the end on.
    pub fn new(theme: Theme) -> Self {
        Self { theme, scroll: scroll::Scroll::default() }
    }

    /// Looks somewhere else, from the next drawing on.
    pub fn turn(&mut self, turn: Turn) {
        self.scroll.turn(turn);
    }

    /// Draws everything; gives where the cursor is.
    pub fn draw(&mut self, state: &State, area: Rect, buffer: &mut Buffer) -> Option<Position> {
        if area.width < 4 || area.height < 3 {
            return None;
        }
        let wanted = input::rows(state, area.width);
        let input_height = wanted.min(MAX_INPUT).min((area.height / 3).max(1));
        let header = Rect { height: 1, ..area };
        let input = Rect { y: area.bottom() - input_height, height: input_height, ..area };
        let status = Rect { y: input.y - 1, height: 1, ..area };
        let talk = Rect { y: area.y + 1, height: status.y.saturating_sub(area.y + 1), ..area };
        header::draw(state, self.theme, header, buffer);
        let is_behind = self.scroll.draw(state, self.theme, talk, buffer);
        status::draw(state, self.theme, is_behind, status, buffer);
        let cursor = input::draw(state, self.theme, input, buffer);
        input::draw_completions(state, self.theme, talk, buffer);
        let is_covered = overlay::draw(state, self.theme, area, buffer);
        cursor.filter(|_| !is_covered)
    }
}

#[cfg(test)]
mod tests;
