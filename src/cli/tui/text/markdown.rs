//! Markdown as lines of a terminal.
//!
//! Promises: every word of the text is shown; a link shows where it leads. What is not
//! understood, such as HTML, is shown as it was written.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::{Indent, Theme, plain, width, wrap};

/// Levels of lists and quotes beyond this are shown at this one: a line has an end.
const MAX_DEPTH: usize = 8;
/// Columns of a rule.
const RULE: usize = 24;

/// The lines of a text that has been cleaned, at most `columns` wide.
pub fn markdown(text: &str, theme: Theme, columns: usize) -> Vec<Line<'static>> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut page = Page::new(theme, columns);
    for event in Parser::new_ext(text, options) {
        page.take(event);
    }
    page.flush();
    while page.lines.last().is_some_and(|line| line.width() == 0) {
        page.lines.pop();
    }
    page.lines
}

/// A list that is open, and the number of its next item.
struct List {
    next: Option<u64>,
}

/// What is being laid out.
struct Page {
    theme: Theme,
    columns: usize,
    lines: Vec<Line<'static>>,
    /// The paragraph so far; a break ends a row of it.
    rows: Vec<Vec<Span<'static>>>,
    styles: Vec<Style>,
    lists: Vec<List>,
    quotes: usize,
    /// What stands before the next line of an item that has just begun.
    marker: Option<String>,
    /// Where each open link leads, and where its text began.
    links: Vec<(String, String)>,
    code: Option<String>,
    table: Option<Table>,
    /// Whether the next block has an empty line before it.
    is_apart: bool,
}

#[derive(Default)]
struct Table {
    rows: Vec<Vec<String>>,
    cell: String,
}

impl Page {
    fn new(theme: Theme, columns: usize) -> Self {
        Self {
            theme,
            columns,
            lines: Vec::new(),
            rows: vec![Vec::new()],
            styles: Vec::new(),
            lists: Vec::new(),
            quotes: 0,
            marker: None,
            links: Vec::new(),
            code: None,
            table: None,
            is_apart: false,
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text, Style::new()),
            Event::Code(code) => self.text(&code, self.theme.code()),
            Event::Html(text) | Event::InlineHtml(text) => self.text(&text, self.theme.dim()),
            Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.text(&text, self.theme.code());
            }
            Event::FootnoteReference(name) => self.text(&format!("[{name}]"), self.theme.dim()),
            // People break lines where they mean it.
            Event::SoftBreak | Event::HardBreak => self.rows.push(Vec::new()),
            Event::Rule => {
                self.flush();
                self.gap();
                let rule = "─".repeat(RULE.min(self.columns));
                self.lines.push(Line::styled(rule, self.theme.dim()));
                self.is_apart = true;
            }
            Event::TaskListMarker(is_done) => {
                self.text(if is_done { "☑ " } else { "☐ " }, Style::new());
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.flush();
                let mut style = self.theme.bold();
                if level == HeadingLevel::H1 {
                    style = style.add_modifier(Modifier::UNDERLINED);
                }
                self.styles.push(style);
            }
            Tag::Paragraph | Tag::HtmlBlock => self.flush(),
            Tag::BlockQuote(_) => {
                self.flush();
                self.quotes += 1;
            }
            Tag::CodeBlock(kind) => {
                self.flush();
                self.gap();
                if let CodeBlockKind::Fenced(language) = kind
                    && !language.is_empty()
                {
                    self.put(&[Span::styled(language.to_string(), self.theme.dim())]);
                }
                self.code = Some(String::new());
            }
            Tag::List(next) => {
                self.flush();
                if !self.lists.is_empty() {
                    self.is_apart = false;
                }
                self.lists.push(List { next });
            }
            Tag::Item => {
                self.flush();
                let marker = match self.lists.last_mut() {
                    Some(List { next: Some(number) }) => {
                        *number += 1;
                        format!("{}. ", number.saturating_sub(1))
                    }
                    _ => "• ".to_owned(),
                };
                self.marker = Some(marker);
            }
            Tag::Table(_) => {
                self.flush();
                self.table = Some(Table::default());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            Tag::Emphasis => self.styles.push(Style::new().add_modifier(Modifier::ITALIC)),
            Tag::Strong => self.styles.push(self.theme.bold()),
            Tag::Strikethrough => {
                self.styles.push(Style::new().add_modifier(Modifier::CROSSED_OUT));
            }
            Tag::Link { dest_url, .. } => {
                self.links.push((dest_url.to_string(), String::new()));
                self.styles.push(self.theme.link());
            }
            Tag::Image { dest_url, .. } => {
                self.links.push((dest_url.to_string(), String::new()));
                self.text("🖼 ", Style::new());
                self.styles.push(self.theme.dim());
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
                self.is_apart = true;
            }
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.flush();
                self.is_apart = true;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.quotes = self.quotes.saturating_sub(1);
                self.is_apart = true;
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
                self.is_apart = true;
            }
            TagEnd::Item => {
                self.flush();
                // An empty item is one, too.
                if self.marker.is_some() {
                    self.put(&[]);
                }
                self.is_apart = false;
            }
            TagEnd::TableCell => {
                if let Some(table) = &mut self.table {
                    let cell = std::mem::take(&mut table.cell);
                    if let Some(row) = table.rows.last_mut() {
                        row.push(cell.trim().to_owned());
                    }
                }
            }
            TagEnd::Table => self.end_table(),
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str, style: Style) {
        if let Some(code) = &mut self.code {
            code.push_str(text);
            return;
        }
        if let Some((_, shown)) = self.links.last_mut() {
            shown.push_str(text);
        }
        if let Some(table) = &mut self.table {
            table.cell.push_str(text);
            return;
        }
        let style =
            self.styles.iter().fold(Style::new(), |all, style| all.patch(*style)).patch(style);
        for (index, line) in text.split('\n').enumerate() {
            if index > 0 {
                self.rows.push(Vec::new());
            }
            if let Some(row) = self.rows.last_mut()
                && !line.is_empty()
            {
                row.push(Span::styled(line.to_owned(), style));
            }
        }
    }

    /// Where a link leads is a part of what it says.
    fn end_link(&mut self) {
        self.styles.pop();
        let Some((address, shown)) = self.links.pop() else { return };
        if address != shown && address != format!("mailto:{shown}") && !address.is_empty() {
            self.text(&format!(" ({address})"), self.theme.dim());
        }
    }

    fn end_code(&mut self) {
        let Some(code) = self.code.take() else { return };
        let gutter = Span::styled("│ ", self.theme.dim());
        for line in code.strip_suffix('\n').unwrap_or(&code).split('\n') {
            let mut indent = self.indent();
            indent.first.push(gutter.clone());
            indent.rest.push(gutter.clone());
            self.lines.extend(plain(line, self.theme.code(), self.columns, &indent));
        }
        self.is_apart = true;
    }

    fn end_table(&mut self) {
        let Some(Table { rows, .. }) = self.table.take() else { return };
        self.gap();
        let count = rows.iter().map(Vec::len).max().unwrap_or(0);
        let of = |column: usize| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..count).map(of).collect();
        for (index, row) in rows.iter().enumerate() {
            let mut text = String::new();
            for (cell, columns) in row.iter().zip(&widths) {
                let space = columns.saturating_sub(width(cell));
                text.push_str(cell);
                text.extend(std::iter::repeat_n(' ', space + 2));
            }
            let style = if index == 0 { self.theme.bold() } else { Style::new() };
            self.put(&[Span::styled(text.trim_end().to_owned(), style)]);
        }
        self.is_apart = true;
    }

    /// What stands before the lines of the block that is open.
    fn indent(&mut self) -> Indent {
        let mut indent = Indent::default();
        for _ in 0..self.quotes.min(MAX_DEPTH) {
            indent.first.push(Span::styled("▌ ", self.theme.dim()));
        }
        let depth = self.lists.len().saturating_sub(1).min(MAX_DEPTH);
        if depth > 0 {
            indent.first.push("  ".repeat(depth).into());
        }
        indent.rest.clone_from(&indent.first);
        match self.marker.take() {
            Some(marker) => {
                indent.rest.push(" ".repeat(width(&marker)).into());
                indent.first.push(Span::styled(marker, self.theme.busy()));
            }
            None if !self.lists.is_empty() => {
                indent.first.push("  ".into());
                indent.rest.push("  ".into());
            }
            None => {}
        }
        indent
    }

    fn gap(&mut self) {
        if std::mem::take(&mut self.is_apart) && !self.lines.is_empty() {
            self.lines.push(Line::default());
        }
    }

    fn put(&mut self, row: &[Span<'static>]) {
        let indent = self.indent();
        self.lines.extend(wrap(row, self.columns, &indent));
    }

    /// Lays out the paragraph so far.
    fn flush(&mut self) {
        let mut rows = std::mem::replace(&mut self.rows, vec![Vec::new()]);
        while rows.last().is_some_and(Vec::is_empty) {
            rows.pop();
        }
        if rows.is_empty() {
            return;
        }
        self.gap();
        for row in rows {
            self.put(&row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEME: Theme = Theme { has_colour: true };

    fn shown(text: &str, columns: usize) -> Vec<String> {
        markdown(text, THEME, columns)
            .iter()
            .map(|line| line.to_string().trim_end().to_owned())
            .collect()
    }

    #[test]
    fn blocks_are_laid_out_with_space_between() {
        let text = "# Title\nSome *words*\nof **mine**.\n\n- one\n- two\n  - inner\n\n3. three\n4. four\n\n> said\n\n---\nend";
        assert_eq!(
            shown(text, 40),
            [
                "Title",
                "",
                "Some words",
                "of mine.",
                "",
                "• one",
                "• two",
                "  • inner",
                "",
                "3. three",
                "4. four",
                "",
                "▌ said",
                "",
                "────────────────────────",
                "",
                "end"
            ]
        );
    }

    #[test]
    fn code_keeps_its_lines_and_spaces() {
        let text = "see `x`:\n```rust\nfn a() {\n    b  c\n\n}\n```\ndone";
        assert_eq!(
            shown(text, 40),
            ["see x:", "", "rust", "│ fn a() {", "│     b  c", "│", "│ }", "", "done"]
        );
    }

    #[test]
    fn styles_are_those_of_the_text() {
        let lines = markdown("a *b **c*** `d` ~~e~~", THEME, 40);
        let style =
            |text: &str| lines[0].spans.iter().find(|span| span.content == text).unwrap().style;
        assert_eq!(style("b").add_modifier, Modifier::ITALIC);
        assert_eq!(style("c").add_modifier, Modifier::ITALIC | Modifier::BOLD);
        assert_eq!(style("d"), THEME.code());
        assert_eq!(style("e").add_modifier, Modifier::CROSSED_OUT);
    }

    #[test]
    fn links_show_where_they_lead() {
        assert_eq!(
            shown("[here](https://a.example/b) <https://c.example>", 80),
            ["here (https://a.example/b) https://c.example"]
        );
        assert_eq!(shown("![cat](c.png)", 80), ["🖼 cat (c.png)"]);
    }

    #[test]
    fn tables_have_columns() {
        assert_eq!(shown("| a | long |\n|---|---|\n| 漢字 | x |", 80), ["a     long", "漢字  x"]);
    }

    #[test]
    fn html_and_what_is_not_closed_is_shown() {
        assert_eq!(shown("<b>x</b> & **open", 80), ["<b>x</b> & **open"]);
        assert_eq!(shown("```\nhalf", 80), ["│ half"]);
        assert_eq!(shown("", 80), [""; 0]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_fits(text in "[-a-c 漢#>*`|\\[\\]()1.\n]{0,80}", columns in 4usize..40) {
            for line in markdown(&text, THEME, columns) {
                proptest::prop_assert!(line.width() <= columns, "{line:?}");
            }
        }
    }
}
