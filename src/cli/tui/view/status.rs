//! The line above the input: what happens.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::cli::format::span;
use crate::cli::tui::state::{Link, State};
use crate::cli::tui::text::{Theme, cut, one_line, width};
use crate::cli::tui::transcript::Phase;

/// One sign after the other, ten in a second.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const SPIN_MS: u64 = 100;

/// Draws it; `is_behind` says that there is more below.
pub fn draw(state: &State, theme: Theme, is_behind: bool, area: Rect, buffer: &mut Buffer) {
    let columns = usize::from(area.width);
    let (text, style) = text(state, theme);
    let hint = if is_behind {
        "↓ more below: Ctrl+End"
    } else if state.is_busy() {
        "Esc stops it"
    } else if state.approvals.len() > 0 {
        "/approvals"
    } else {
        "/help"
    };
    let room = columns.saturating_sub(width(hint) + 2);
    let has_hint = width(&text) <= room;
    buffer.set_stringn(area.x, area.y, cut(&text, columns), columns, style);
    if has_hint {
        let at = area.right().saturating_sub(u16::try_from(width(hint)).unwrap_or(0));
        buffer.set_stringn(at, area.y, hint, width(hint), theme.dim());
    }
}

fn text(state: &State, theme: Theme) -> (String, Style) {
    if state.is_leaving() {
        return ("Ctrl+C again leaves".to_owned(), theme.busy());
    }
    if let Link::Down { why, retry_at, tries } = &state.link {
        let wait = retry_at.saturating_sub(state.now).div_ceil(1000);
        let waiting = match state.waiting() {
            0 => String::new(),
            count => format!(" · {count} waiting to be sent"),
        };
        let when = if *tries == 0 || wait == 0 {
            "connecting …".to_owned()
        } else {
            format!("next try in {wait} s (Ctrl+R: now)")
        };
        return (format!("reconnecting{waiting} · {when} · {}", one_line(why)), theme.busy());
    }
    if let Some(live) = state.transcript.live() {
        let turn = usize::try_from(state.now / SPIN_MS).unwrap_or(0);
        let spinner = SPINNER.get(turn % SPINNER.len()).copied().unwrap_or(" ");
        let what = match &live.phase {
            Phase::Waiting => "waiting for the model".to_owned(),
            Phase::Thinking => "thinking".to_owned(),
            Phase::Speaking => "writing".to_owned(),
            Phase::Tool(name) => format!("running {name}"),
            Phase::Approval => "waiting for your decision".to_owned(),
            Phase::Compacting => "summing up the conversation".to_owned(),
            Phase::Retrying(why) => format!("asking again: {why}"),
        };
        return (format!("{spinner} {what} · {}", span(state.elapsed())), theme.busy());
    }
    if state.is_busy() {
        let text =
            if state.waiting() > 0 { "sending …" } else { "the message waits for its turn" };
        return (text.to_owned(), theme.busy());
    }
    match state.approvals.len() {
        0 if state.is_reading() && state.transcript.entries().is_empty() => {
            ("reading …".to_owned(), theme.dim())
        }
        0 => ("ready".to_owned(), theme.dim()),
        1 => ("a command waits for your decision".to_owned(), theme.busy()),
        count => (format!("{count} commands wait for your decision"), theme.busy()),
    }
}
