//! The first line: where we are.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::cli::format::count;
use crate::cli::tui::state::{Link, State};
use crate::cli::tui::text::{Theme, cut, width};

const BETWEEN: &str = " · ";

/// A part of the line; of those that do not fit, the ones with the highest rank go first.
struct Part {
    rank: u8,
    text: String,
    style: Style,
}

/// Draws it.
pub fn draw(state: &State, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let (mark, style) = match state.link {
        Link::Up => ("● connected", theme.good()),
        Link::Down { .. } => ("○ offline", theme.bad()),
    };
    let columns = usize::from(area.width);
    let mark = if columns < 60 { mark.get(..3).unwrap_or(mark) } else { mark };
    let room = columns.saturating_sub(width(mark) + 1);
    let mut parts = parts(state, theme);
    let total = |parts: &[Part]| -> usize {
        let texts: usize = parts.iter().map(|part| width(&part.text)).sum();
        texts + parts.len().saturating_sub(1) * width(BETWEEN)
    };
    while parts.len() > 1 && total(&parts) > room {
        let worst = parts.iter().map(|part| part.rank).max();
        parts.retain(|part| Some(part.rank) != worst);
    }
    let mut spans = Vec::new();
    for part in parts {
        if !spans.is_empty() {
            spans.push(Span::styled(BETWEEN, theme.dim()));
        }
        spans.push(Span::styled(cut(&part.text, room), part.style));
    }
    buffer.set_line(area.x, area.y, &Line::from(spans), u16::try_from(room).unwrap_or(area.width));
    let at = area.right().saturating_sub(u16::try_from(width(mark)).unwrap_or(0));
    buffer.set_stringn(at, area.y, mark, width(mark), style);
}

fn parts(state: &State, theme: Theme) -> Vec<Part> {
    let row = &state.row;
    let part = |rank, text: String, style| Part { rank, text, style };
    let session =
        if row.label.is_empty() { state.place.name().to_owned() } else { row.label.clone() };
    let tokens = row.tokens.map(|tokens| match row.context {
        Some(context) => format!("{}/{}", count(tokens), count(context)),
        None => format!("{} tokens", count(tokens)),
    });
    let usage = state.transcript.usage();
    let run = (usage.input + usage.output > 0).then(|| {
        let cost = if usage.cost > 0.0 { format!(" ${:.4}", usage.cost) } else { String::new() };
        format!("↑{} ↓{}{cost}", count(usage.input), count(usage.output))
    });
    let thinking = (!row.thinking.is_empty()).then(|| format!("think {}", row.thinking));
    let settings = (!row.settings.is_empty()).then(|| row.settings.join(BETWEEN));
    let deliver = state.setup.deliver.then(|| "deliver".to_owned());
    let model = (!row.model.is_empty()).then(|| row.model.clone());
    let all = [
        Some(part(0, session, theme.bold())),
        Some(part(3, state.place.agent.clone(), theme.user())),
        model.map(|text| part(1, text, theme.code())),
        thinking.map(|text| part(2, text, Style::new())),
        settings.map(|text| part(5, text, Style::new())),
        deliver.map(|text| part(5, text, theme.busy())),
        run.map(|text| part(4, text, theme.dim())),
        tokens.map(|text| part(6, text, theme.dim())),
        Some(part(7, state.setup.url.clone(), theme.dim())),
    ];
    all.into_iter().flatten().collect()
}
