//! What is being typed, and the commands that it may become.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget as _};

use crate::cli::tui::state::State;
use crate::cli::tui::text::{Theme, cut, width};

/// Before the first line.
const PROMPT: &str = "> ";
/// Completions that are shown at a time.
const MAX_COMPLETIONS: usize = 6;

fn columns(area_width: u16) -> usize {
    usize::from(area_width).saturating_sub(width(PROMPT))
}

/// How many rows the text has.
pub fn rows(state: &State, area_width: u16) -> u16 {
    let (rows, _) = state.editor.layout(columns(area_width));
    u16::try_from(rows.len()).unwrap_or(u16::MAX)
}

/// Draws the text; gives where the cursor is.
pub fn draw(state: &State, theme: Theme, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let (rows, (row, column)) = state.editor.layout(columns(area.width));
    let height = usize::from(area.height);
    let first = (row + 1).saturating_sub(height);
    for (y, (index, text)) in (area.y..area.bottom()).zip(rows.iter().enumerate().skip(first)) {
        let prompt = if index == 0 { PROMPT } else { "  " };
        let line = Line::from(vec![
            Span::styled(prompt, theme.user().patch(theme.bold())),
            Span::raw(text.as_str()),
        ]);
        buffer.set_line(area.x, y, &line, area.width);
    }
    if state.editor.is_empty() {
        let hint = cut("say something, or /help", columns(area.width));
        buffer.set_stringn(area.x + 2, area.y, hint, columns(area.width), theme.dim());
    }
    let x = u16::try_from(column + width(PROMPT)).ok()?;
    let y = u16::try_from(row - first).ok()?;
    Some(Position::new((area.x + x).min(area.right() - 1), area.y + y))
}

/// Draws what a slash command may become, at the bottom of the area.
pub fn draw_completions(state: &State, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let found = state.completions();
    // What is typed completely needs no help.
    if found.is_empty() || found.iter().any(|(name, ..)| *name == state.editor.text()) {
        return;
    }
    let count = found.len().min(MAX_COMPLETIONS).min(usize::from(area.height));
    let height = u16::try_from(count).unwrap_or(0);
    let place = Rect { y: area.bottom() - height, height, ..area };
    Clear.render(place, buffer);
    for (y, (name, words, what)) in (place.y..place.bottom()).zip(found) {
        let head = format!("  {name} {words}");
        let room = usize::from(area.width).saturating_sub(width(&head) + 2);
        let line = Line::from(vec![
            Span::styled(cut(&head, usize::from(area.width)), theme.code()),
            Span::styled(format!("  {}", cut(what, room)), theme.dim()),
        ]);
        buffer.set_line(place.x, y, &line, place.width);
    }
}
