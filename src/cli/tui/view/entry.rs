//! One entry of the conversation as lines.

use ratatui::text::{Line, Span};

use crate::cli::tui::text::{Indent, Theme, cut, markdown, plain, width};
use crate::cli::tui::transcript::{Body, Entry, Level, Tool, ToolState};

/// What the look of entries depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Colours.
    pub theme: Theme,
    /// How wide it may be.
    pub columns: usize,
    /// Whether outputs of tools are shown whole.
    pub shows_tools: bool,
    /// Whether thoughts are shown.
    pub shows_thoughts: bool,
}

/// The lines of an entry; none when it is not to be shown.
pub fn lines(entry: &Entry, look: Look) -> Vec<Line<'static>> {
    let Look { theme, columns, .. } = look;
    let mut lines = match &entry.body {
        Body::User { text, is_waiting, .. } => {
            let style = if *is_waiting { theme.user().patch(theme.dim()) } else { theme.user() };
            let mut lines =
                plain(text, style, columns, &Indent::hanging("› ", style.patch(theme.bold())));
            // The gateway has it, and is busy with something else.
            if *is_waiting && entry.is_of_history() {
                lines.push(Line::styled("  waits for its turn", theme.dim()));
            }
            lines
        }
        Body::Answer(text) => markdown(text, theme, columns),
        Body::Thought(_) if !look.shows_thoughts => return Vec::new(),
        Body::Thought(text) => {
            plain(text.trim(), theme.dim(), columns, &Indent::every("┊ ", theme.dim()))
        }
        Body::Tool(tool) => return tool_lines(tool, look),
        Body::Notice { level, text } => {
            let style = if *level == Level::Error { theme.bad() } else { theme.dim() };
            return plain(text, style, columns, &Indent::hanging("• ", style));
        }
        Body::Aside(text) => {
            let mut lines = vec![Line::styled("aside", theme.dim())];
            lines.extend(markdown(text, theme, columns));
            lines
        }
        Body::Mark(text) => vec![Line::styled(cut(&format!("── {text} ──"), columns), theme.dim())],
    };
    lines.insert(0, Line::default());
    lines
}

/// A card: what is called, and what came of it.
fn tool_lines(tool: &Tool, look: Look) -> Vec<Line<'static>> {
    let Look { theme, columns, shows_tools, .. } = look;
    let count = tool.output.lines().count();
    let (mark, style) = match tool.state {
        ToolState::Running => ("…", theme.busy()),
        ToolState::Waiting => ("?", theme.busy()),
        ToolState::Done => ("✓", theme.good()),
        ToolState::Failed => ("✗", theme.bad()),
        ToolState::Lost => ("·", theme.dim()),
    };
    let tail = match (tool.state, count) {
        (ToolState::Waiting, _) => " waits for you".to_owned(),
        (ToolState::Lost, _) => " no result".to_owned(),
        (_, 0) => String::new(),
        (_, 1) => " 1 line".to_owned(),
        (_, count) => format!(" {count} lines"),
    };
    let head = format!("{mark} {}", tool.name);
    let room = columns.saturating_sub(width(&head) + width(&tail) + 1);
    let mut lines = if shows_tools {
        let mut lines = vec![Line::from(vec![
            Span::styled(cut(&head, columns), style),
            Span::styled(cut(&tail, columns.saturating_sub(width(&head))), theme.dim()),
        ])];
        if !tool.args.is_empty() {
            lines.extend(plain(
                &tool.args,
                theme.code(),
                columns,
                &Indent::every("  ", theme.dim()),
            ));
        }
        lines
    } else {
        let mut spans = vec![Span::styled(cut(&head, columns), style)];
        if room > 2 && !tool.args.is_empty() {
            spans.push(Span::styled(format!(" {}", cut(&tool.args, room)), theme.code()));
        }
        let used: usize = spans.iter().map(|span| width(&span.content)).sum();
        spans.push(Span::styled(cut(&tail, columns.saturating_sub(used)), theme.dim()));
        vec![Line::from(spans)]
    };
    if shows_tools && !tool.output.is_empty() {
        lines.extend(plain(
            &tool.output,
            theme.dim(),
            columns,
            &Indent::every("  │ ", theme.dim()),
        ));
    } else if tool.state == ToolState::Failed
        && let Some(why) = tool.output.lines().find(|line| !line.trim().is_empty())
    {
        lines.push(Line::styled(cut(&format!("  {}", why.trim()), columns), theme.bad()));
    }
    lines
}
