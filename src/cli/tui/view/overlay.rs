//! What covers the conversation: help, choices, commands that wait.

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget as _};

use crate::cli::format::span;
use crate::cli::tui::state::{COMMANDS, Overlay, Picker, Question, State};
use crate::cli::tui::text::{Indent, Theme, cut, plain, width, wrap};

/// Wider lines are hard to read.
const MAX_WIDTH: u16 = 84;

const KEYS: &[(&str, &str)] = &[
    ("Enter", "send"),
    (
        "Alt+Enter, Ctrl+J",
        "new line (also Ctrl+Enter and Shift+Enter, where the terminal tells them)",
    ),
    ("Esc", "stop what runs"),
    ("Ctrl+C", "clear the input; twice: leave"),
    ("Ctrl+D", "leave, where nothing is typed; else take away one character"),
    ("Ctrl+L, Ctrl+G, Ctrl+P", "choose a model, an agent, a session"),
    ("Ctrl+O", "show or hide what tools give"),
    ("Ctrl+T", "show or hide what the model thinks"),
    ("PageUp, PageDown", "scroll; Shift+Up and Shift+Down by lines"),
    ("Ctrl+Home, Ctrl+End", "to the begin, to the end"),
    ("Up, Down", "older and newer lines that you typed"),
    ("Tab", "complete a command"),
    ("Ctrl+R", "connect now"),
    ("Ctrl+Z", "back to the shell; `fg` comes back"),
];

/// Draws what there is; gives whether there is anything.
pub fn draw(state: &State, theme: Theme, area: Rect, buffer: &mut Buffer) -> bool {
    if let Some(question) = state.approvals.shown() {
        draw_question(state, question, theme, area, buffer);
        return true;
    }
    match &state.overlay {
        Some(Overlay::Help(top)) => draw_help(state, *top, theme, area, buffer),
        Some(Overlay::Picker(picker)) => draw_picker(picker, theme, area, buffer),
        None => return false,
    }
    true
}

/// A box in the middle for so many lines, cleared; gives the place inside.
fn frame(title: &str, lines: usize, theme: Theme, area: Rect, buffer: &mut Buffer) -> Rect {
    let width = area.width.min(MAX_WIDTH);
    let height = u16::try_from(lines.saturating_add(2)).unwrap_or(u16::MAX).min(area.height);
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    Clear.render(place, buffer);
    if !place.is_empty() {
        border(place, buffer);
        let title = cut(&format!(" {title} "), usize::from(width.saturating_sub(4)));
        let title = Span::styled(title, theme.bold());
        buffer.set_span(place.x + 1, place.y, &title, width.saturating_sub(2));
    }
    place.inner(Margin::new(1, 1))
}

/// Draws the edge of a box.
fn border(place: Rect, buffer: &mut Buffer) {
    for y in place.top()..place.bottom() {
        let [first, between, last] = if y == place.top() {
            ["┌", "─", "┐"]
        } else if y + 1 == place.bottom() {
            ["└", "─", "┘"]
        } else {
            ["│", " ", "│"]
        };
        for x in place.left()..place.right() {
            let symbol = if x == place.left() {
                first
            } else if x + 1 == place.right() {
                last
            } else {
                between
            };
            if let Some(cell) = buffer.cell_mut((x, y)) {
                cell.set_symbol(symbol);
            }
        }
    }
}

/// How wide the inside of a box is.
fn inside_columns(area: Rect) -> usize {
    usize::from(area.width.min(MAX_WIDTH).saturating_sub(2))
}

fn put(lines: &[Line<'_>], place: Rect, buffer: &mut Buffer) {
    for (y, line) in (place.y..place.bottom()).zip(lines) {
        buffer.set_line(place.x, y, line, place.width);
    }
}

fn draw_help(state: &State, top: usize, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let columns = inside_columns(area);
    let mut lines = Vec::new();
    let mut entry = |head: String, what: &str| {
        let spans = [Span::styled(head, theme.code()), Span::raw("  "), Span::raw(what.to_owned())];
        lines.extend(wrap(
            &spans,
            columns,
            &Indent { first: Vec::new(), rest: vec!["    ".into()] },
        ));
    };
    for (keys, what) in KEYS {
        entry((*keys).to_owned(), what);
    }
    entry(String::new(), "");
    for (name, words, what) in COMMANDS {
        entry(format!("{name} {words}").trim_end().to_owned(), what);
    }
    entry(String::new(), "");
    entry(String::new(), "Done by the gateway:");
    for (name, what) in &state.commands {
        if COMMANDS.iter().all(|(own, ..)| own != name) {
            entry(name.clone(), what);
        }
    }
    let place = frame("Help · any key closes", lines.len(), theme, area, buffer);
    let first = top.min(lines.len().saturating_sub(usize::from(place.height)));
    put(lines.get(first..).unwrap_or_default(), place, buffer);
}

fn draw_picker(picker: &Picker, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let items: Vec<_> = picker.fitting().collect();
    let place = frame(picker.kind.title(), items.len().max(1) + 1, theme, area, buffer);
    let search = if picker.filter.is_empty() {
        Span::styled("type to search, Enter chooses, Esc closes", theme.dim())
    } else {
        Span::raw(picker.filter.clone())
    };
    let mut lines = vec![Line::from(vec![Span::styled("/ ", theme.user()), search])];
    if items.is_empty() {
        let text = if picker.is_loading { "reading …" } else { "nothing fits" };
        lines.push(Line::styled(text, theme.dim()));
    }
    let height = usize::from(place.height).saturating_sub(1).max(1);
    let first = (picker.selected() + 1).saturating_sub(height);
    let columns = usize::from(place.width);
    for (index, item) in items.iter().enumerate().skip(first).take(height) {
        let mark = if item.is_current { "● " } else { "  " };
        let head = cut(&format!("{mark}{}", item.title), columns);
        let room = columns.saturating_sub(width(&head) + 2);
        let detail = if room > 3 && !item.detail.is_empty() {
            format!("  {}", cut(&item.detail, room))
        } else {
            String::new()
        };
        let line = if index == picker.selected() {
            let text = format!("{head}{detail}");
            let rest = columns.saturating_sub(width(&text));
            Line::styled(format!("{text}{}", " ".repeat(rest)), theme.chosen())
        } else {
            Line::from(vec![Span::raw(head), Span::styled(detail, theme.dim())])
        };
        lines.push(line);
    }
    put(&lines, place, buffer);
}

fn draw_question(
    state: &State,
    question: &Question,
    theme: Theme,
    area: Rect,
    buffer: &mut Buffer,
) {
    let columns = inside_columns(area);
    let mut about = Vec::new();
    for (name, text) in [
        ("in", &question.cwd),
        ("on", &question.host),
        ("agent", &question.agent),
        ("session", &question.session),
    ] {
        if !text.is_empty() {
            let spans = [Span::styled(format!("{name} "), theme.dim()), Span::raw(text.clone())];
            about.extend(wrap(&spans, columns, &Indent::default()));
        }
    }
    let mut command = Vec::new();
    for line in &question.command {
        command.extend(plain(line, theme.bold(), columns, &Indent::every("│ ", theme.dim())));
    }
    // With the command, which is seen to its end.
    for line in &question.warning {
        command.extend(plain(line, theme.bad(), columns, &Indent::default()));
    }
    let more = state.approvals.len() - 1;
    let others = if more > 0 { format!(" · {more} more") } else { String::new() };
    let left = span(question.expires_at.saturating_sub(state.now));
    let title = format!("May this run? · expires in {left}{others}");
    let place = frame(&title, command.len() + about.len() + 2, theme, area, buffer);
    // The buttons are always there, then the command, then the rest.
    let room = usize::from(place.height).saturating_sub(2);
    let about_rows = about.len().min(room.saturating_sub(command.len()).max(room / 2));
    let command_rows = room.saturating_sub(about_rows).min(command.len());
    let hidden = command.len() - command_rows;
    let first = state.approvals.scroll.min(hidden);
    let mut lines: Vec<Line<'_>> = command.iter().skip(first).take(command_rows).cloned().collect();
    lines.extend(about.iter().take(about_rows).cloned());
    lines.push(if hidden > 0 {
        let below = hidden - first;
        Line::styled(cut(&format!("↑↓ {first} lines above, {below} below"), columns), theme.busy())
    } else {
        Line::default()
    });
    lines.push(buttons(state, question, theme));
    put(&lines, place, buffer);
}

fn buttons(state: &State, question: &Question, theme: Theme) -> Line<'static> {
    let choice = state.approvals.choice();
    let is_armed = state.approvals.is_armed(state.now);
    let mut spans = Vec::new();
    for decision in &question.decisions {
        let is_chosen = choice == Some(*decision);
        let text = if is_chosen {
            format!("[{}]", decision.label())
        } else {
            format!(" {} ", decision.label())
        };
        let style = match (is_chosen, is_armed) {
            (true, true) => theme.chosen(),
            (true, false) => theme.dim(),
            (false, _) => ratatui::style::Style::new(),
        };
        spans.push(Span::styled(text, style));
        spans.push(Span::raw(" "));
    }
    spans.push(Span::styled("←→ Enter · Esc later", theme.dim()));
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_has_an_edge_with_its_title_where_there_is_room() {
        let theme = Theme { has_colour: false };
        let area = Rect::new(0, 0, 12, 3);
        let mut buffer = Buffer::empty(area);
        assert_eq!(frame("Help", 1, theme, area, &mut buffer), Rect::new(1, 1, 10, 1));
        let rows = ["┌ Help ────┐", "│          │", "└──────────┘"];
        let mut wanted = Buffer::with_lines(rows);
        wanted.set_style(Rect::new(1, 0, 6, 1), theme.bold());
        assert_eq!(buffer, wanted);
        for (width, height) in [(0, 0), (8, 0), (0, 8), (1, 1), (2, 1), (1, 5)] {
            let area = Rect::new(0, 0, width, height);
            let inside = frame("Help", 9, theme, area, &mut Buffer::empty(area));
            assert!(inside.is_empty(), "{area}");
        }
    }
}
